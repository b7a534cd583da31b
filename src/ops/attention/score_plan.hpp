// What a score function does before attention itself: projections, exponentials, norms. Afterwards the problem is one
// of the three kinds that the kernels know.
#pragma once

#include "kernels/attention/problem.hpp"
#include "ops/attention/call.hpp"
#include "ops/products/projection.hpp"
#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"

namespace fovea {

struct ScoreVectorFacts {
  float least_reach = 0.0f;  // as AttentionProblem's
  bool takes_tangents = true;
};

}  // namespace fovea

// Keys in the form the kernel reads; see fovea.h. Rows [batch][kv_head][capacity] of padded_units(units)
// elements: projected keys (BILINEAR) are compared by a dot product, which reads narrow rows as they lie, and by
// AVX-512's products of bfloat16 in pairs of neighbours; hidden units are floats.
struct fovea_prepared_keys {
  const fovea::Kernels *kernels = nullptr;
  int32_t kind = 0;
  fovea::Dtype dtype = fovea::Dtype::f32;
  int64_t batch = 0, kv_heads = 0, capacity = 0, length = 0;
  int64_t query_dim = 0, key_dim = 0, units = 0;
  fovea::Dtype query_weight = fovea::Dtype::f32, key_weight = fovea::Dtype::f32;  // of the panels
  size_t size = 0;
  void *memory = nullptr;  // holds all of the following
  float *query_panels = nullptr;
  float *key_panels = nullptr;
  float *bias = nullptr;          // [units], or null
  float *score_vector = nullptr;  // padded
  fovea::ScoreVectorFacts score_vector_facts;
  void *rows = nullptr;
  float *reach = nullptr;  // [batch][kv_head][capacity]

  fovea_prepared_keys() = default;
  fovea_prepared_keys(const fovea_prepared_keys &) = delete;
  fovea_prepared_keys &operator=(const fovea_prepared_keys &) = delete;
  ~fovea_prepared_keys();
};

namespace fovea {

// Rows that are not read as they are given, most often in another element type: copied first, next to each other.
struct RowCopy {
  HeadRows given = {};  // without data
  Dtype dtype = Dtype::f32;
  int64_t heads = 0, length = 0, dim = 0;
  MemoryPart<char> memory = {};
};

// Rows of hidden units that the caller keeps: a projection writes them, or a backward pass reads them and makes none.
struct KeptUnits {
  bool written = false, read = false;
  HeadStrides strides = {};
};

struct ScorePlan {
  int32_t kind = FOVEA_SCORE_DOT;
  // What kernels are told: how they compare which features, of which rows (without data), and the factor of logits.
  ScoreKind compares = ScoreKind::dot;
  float scale = 1.0f;
  int64_t compared_dim = 0;
  HeadRows queries = {}, keys = {}, values = {};
  HeadStrides key_scalars_strides = {};
  bool projects_query = false, projects_key = false;
  Product query = {}, key = {};
  KeptUnits kept_query = {}, kept_key = {};
  // The part of the workspace that it needs.
  MemoryLayout layout;
  MemoryPart<float> vector, bias;  // padded
  MemoryPart<float> widths, key_scalars;
  MemoryPart<float> query_panels, query_rows;  // projected
  MemoryPart<float> key_panels, key_rows;
  RowCopy query_copy, key_copy, value_copy;  // products take float32, those of pairs bfloat16
  double point_factor = 1.0;                 // Gaussian: of what query_copy and key_copy hold
  const fovea_prepared_keys *prepared = nullptr;
};

// The two weights of a score function that has them. BILINEAR's is one, seen from either side.
struct ScoreWeights {
  ProductMatrix query, key;
};

ScoreWeights score_weights(const AttentionCall &call, int64_t query_dim);

// Where they lie: only for a call whose data has been checked.
const void *query_weight_data(const AttentionCall &call);
const void *key_weight_data(const AttentionCall &call, int64_t query_dim);

// The projections' weights of prepared keys, which are packed.
ProductMatrix query_matrix(const fovea_prepared_keys &keys);
ProductMatrix key_matrix(const fovea_prepared_keys &keys);

// `call` has passed its checks, which made `checked` of it.
[[nodiscard]] Status plan_score(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                                ScorePlan *plan);

// What GAUSSIAN needs besides where many rows ask: the norms of its keys.
[[nodiscard]] Status plan_norms(const AttentionSizes &sizes, ScorePlan *plan);

// Queries, keys and values as bfloat16; keys that are already are copied too where pairs could not be read where they
// lie.
[[nodiscard]] Status plan_narrowing(bool copies_keys, const AttentionSizes &sizes, ScorePlan *plan);

const char *score_name(int32_t kind);

// Which projections are kept: "query", "key", "query,key", "".
const char *kept_name(const ScorePlan &plan);

ScoreVectorFacts score_vector_facts(const float *vector, int64_t units);

// 1 / sigma^2, at most the largest float.
float inverse_square(float sigma);

}  // namespace fovea
