#include "ops/attention/prepared_keys.hpp"

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "ops/attention/prepared_check.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/memory_layout.hpp"
#include "runtime/parallel.hpp"

fovea_prepared_keys::~fovea_prepared_keys() { std::free(memory); }

namespace fovea {
namespace {

// Where everything lies that the handle holds.
struct Parts {
  MemoryLayout layout;
  MemoryPart<float> query_panels, key_panels, bias, score_vector, rows, reach;
};

Parts lay_out(const fovea_prepared_keys &keys, const ScoreWeights &weights, bool has_bias) {
  const bool additive = keys.kind != FOVEA_SCORE_BILINEAR;
  Parts parts;
  const MatmulKernels &kernels = *keys.kernels->matmul;
  if (additive) parts.query_panels = add_panels(kernels, weights.query, &parts.layout);
  parts.key_panels = add_panels(kernels, weights.key, &parts.layout);
  if (has_bias) parts.bias = parts.layout.add<float>(keys.units);
  if (additive) parts.score_vector = parts.layout.add<float>(padded_units(keys.units));
  parts.rows = parts.layout.add<float>({keys.batch, keys.kv_heads, keys.capacity, padded_units(keys.units)});
  if (additive) parts.reach = parts.layout.add<float>({keys.batch, keys.kv_heads, keys.capacity});
  return parts;
}

Status allocate(const Parts &parts, fovea_prepared_keys *keys) {
  keys->size = parts.layout.size();
  keys->memory = allocate_lines(keys->size);
  if (keys->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of prepared keys", keys->size);
  keys->query_panels = parts.query_panels.in(keys->memory);
  keys->key_panels = parts.key_panels.in(keys->memory);
  keys->bias = parts.bias.in(keys->memory);
  keys->score_vector = parts.score_vector.in(keys->memory);
  keys->rows = parts.rows.in(keys->memory);
  keys->reach = parts.reach.in(keys->memory);
  return FOVEA_OK;
}

// Packs the weights and copies the vectors.
void keep_parameters(const Context &context, const AttentionCall &call, const ScoreWeights &weights,
                     fovea_prepared_keys *keys) {
  const MatmulKernels &kernels = *context.kernels->matmul;
  pack_panels(context, kernels, weights.key, key_weight_data(call, keys->query_dim), keys->key_panels);
  if (keys->kind == FOVEA_SCORE_BILINEAR) return;
  pack_panels(context, kernels, weights.query, query_weight_data(call), keys->query_panels);
  std::memset(keys->score_vector, 0, static_cast<size_t>(padded_units(keys->units)) * sizeof(float));
  gather(call.tensor[score_vector_operand], keys->score_vector);
  keys->score_vector_facts = score_vector_facts(keys->score_vector, keys->units);
  if (keys->bias != nullptr) gather(call.tensor[score_bias_operand], keys->bias);
}

}  // namespace

Status create_prepared_keys(const fovea_context *given, const fovea_score *score,
                            const fovea_prepared_keys_sizes *given_sizes, fovea_prepared_keys **keys) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(keys, "keys", "where to store the prepared keys"));
  AttentionCall call = {};
  fovea_prepared_keys_sizes sizes;
  FOVEA_CHECK(check_prepared_creation(score, given_sizes, &sizes, &call));
  std::unique_ptr<fovea_prepared_keys> made(new (std::nothrow) fovea_prepared_keys);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for prepared keys");
  made->kernels = context->kernels;
  made->kind = call.score.kind;
  made->batch = sizes.batch;
  made->kv_heads = sizes.kv_heads;
  made->capacity = sizes.capacity;
  made->query_dim = sizes.query_dim;
  made->key_dim = sizes.key_dim;
  const ScoreWeights weights = score_weights(call, sizes.query_dim);
  made->units = weights.key.columns;
  const Parts parts = lay_out(*made, weights, call.present[score_bias_operand]);
  if (!parts.layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW, "capacity is %" PRId64 ", too large for the address space", sizes.capacity);
  }
  FOVEA_CHECK(allocate(parts, made.get()));
  keep_parameters(*context, call, weights, made.get());
  *keys = made.release();
  return FOVEA_OK;
}

Status append_prepared_keys(const fovea_context *given, fovea_prepared_keys *keys, const TensorArgument &key) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(keys, "keys", "prepared keys"));
  FOVEA_CHECK(check_prepared_for(*keys, *context));
  ProjectionRows rows = {};
  FOVEA_CHECK(check_new_keys(*keys, key, &rows));
  rows.out_strides = {keys->kv_heads * keys->capacity, keys->capacity, 1};
  Product product;
  if (!plan_projection(*context->kernels->matmul, rows, {keys->units, keys->key_dim}, &product)) {
    return fail(FOVEA_SIZE_OVERFLOW, "key has more than 2^63 rows");
  }
  float *reach = keys->kind == FOVEA_SCORE_BILINEAR ? nullptr : keys->reach + keys->length;
  run_product(*context, product,
              {.x = static_cast<const float *>(key->data),
               .panels = keys->key_panels,
               .out = keys->rows + keys->length * padded_units(keys->units),
               .finish = finish_of(*context->kernels, product, nullptr, reach)});
  keys->length += rows.length;
  return FOVEA_OK;
}

Status truncate_prepared_keys(fovea_prepared_keys *keys, int64_t length) {
  FOVEA_CHECK(expect_given(keys, "keys", "prepared keys"));
  FOVEA_CHECK(check_range("", "length", length, 0, keys->length));
  keys->length = length;
  return FOVEA_OK;
}

}  // namespace fovea
