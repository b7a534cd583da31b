#include "ops/attention/score_plan.hpp"

#include <algorithm>
#include <cmath>

#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

// Strides of rows that lie one after the other, [batch][head][position].
HeadStrides packed_strides(int64_t heads, int64_t length, int64_t row) {
  return {heads * length * row, length * row, row};
}

Status too_large() {
  return fail(FOVEA_SIZE_OVERFLOW, "query and key are too long: their projections would exceed the address space");
}

Status check_fits(const ScorePlan &plan) { return plan.layout.fits() ? FOVEA_OK : too_large(); }

// One number for each key.
Status add_key_scalars(const AttentionSizes &sizes, ScorePlan *plan) {
  plan->key_scalars = plan->layout.add<float>({sizes.batch, sizes.kv_heads, sizes.key_len});
  FOVEA_CHECK(check_fits(*plan));
  plan->key_scalars_strides = packed_strides(sizes.kv_heads, sizes.key_len, 1);
  return FOVEA_OK;
}

// Makes `rows` those of a copy.
void copy_rows(RowCopy copy, int64_t batch, HeadRows *rows, MemoryLayout *layout, RowCopy *planned) {
  copy.given = *rows;
  copy.memory = layout->add<char>({batch, copy.heads, copy.length, copy.dim, bytes_of(copy.dtype)});
  *rows = {nullptr, packed_strides(copy.heads, copy.length, copy.dim), copy.dtype};
  *planned = copy;
}

// What -|q - k|^2 / 2 is multiplied by for a sigma, which is above 0, and a scale: 1 / sigma^2 is rounded as
// inverse_square rounds it where a float holds it.
struct GaussianFactor {
  double value;
  explicit GaussianFactor(float sigma, float scale) {
    int exponent = 0;
    const double fraction = std::frexp(static_cast<double>(sigma), &exponent);
    const auto inverse = static_cast<float>(1.0 / (fraction * fraction));
    value = std::ldexp(static_cast<double>(scale) * static_cast<double>(inverse), -2 * exponent);
  }
};

// Where that factor is far from 1, squares of differences may leave float32's range, and so may the factor: points are
// copied times a power of two that makes it about 2^60. Results have the bits of such points, which are those of all
// scales that need no copy: kernels' factors are of this range. Points grow by no more than 2^90, so that those up to
// 2^37 stay apart beside the least sigma of all.
Status plan_gaussian(const AttentionCall &call, const AttentionSizes &sizes, ScorePlan *plan) {
  constexpr double least = 1e-20, largest = 1e20;
  plan->compares = ScoreKind::gaussian;
  if (call.present[sigmas_operand]) {
    plan->widths = plan->layout.add<float>(sizes.heads);
    return check_fits(*plan);
  }
  const double factor = GaussianFactor(call.score.sigma, plan->scale).value;
  plan->scale = static_cast<float>(factor);
  if (factor == 0.0 || (std::fabs(factor) > least && std::fabs(factor) < largest)) return FOVEA_OK;
  const int shift = std::max((60 - std::ilogb(factor)) / 2, -90);
  plan->scale = static_cast<float>(std::ldexp(factor, 2 * shift));
  plan->point_factor = std::ldexp(1.0, -shift);
  copy_rows({.dtype = Dtype::f32, .heads = sizes.heads, .length = sizes.query_len, .dim = sizes.head_dim}, sizes.batch,
            &plan->queries, &plan->layout, &plan->query_copy);
  copy_rows({.dtype = Dtype::f32, .heads = sizes.kv_heads, .length = sizes.key_len, .dim = sizes.head_dim}, sizes.batch,
            &plan->keys, &plan->layout, &plan->key_copy);
  return check_fits(*plan);
}

// The kernels for rows of a batch entry: its bits must not depend on how many entries there are, nor on the rows where
// the call asks for that. Kernels of their own for projections want enough rows, elements and units to fill their
// blocks.
const MatmulKernels &product_for(const Context &context, const AttentionCall &call, int64_t rows, Dtype x,
                                 const ProductMatrix &weight) {
  constexpr int64_t least_rows = 32;
  constexpr int64_t least_depth = 64;
  constexpr int64_t least_units = 64;
  const bool invariant = (call.options.flags & FOVEA_QUERY_INVARIANT) != 0;
  const bool large = rows >= least_rows && weight.depth >= least_depth && weight.columns >= least_units;
  const bool own = large && !invariant && weight.dtype == Dtype::f32;
  const ProductUse use = own ? ProductUse::own_projection : ProductUse::projection;
  return projection_kernels(*context.kernels, x, weight, use);
}

// What the product reads where it lies.
void ready_query(const MatmulKernels &product, const AttentionSizes &sizes, int64_t dim, ScorePlan *plan) {
  if (projected_in_place(product, plan->queries)) return;
  copy_rows({.dtype = product.rows_dtype, .heads = sizes.heads, .length = sizes.query_len, .dim = dim}, sizes.batch,
            &plan->queries, &plan->layout, &plan->query_copy);
}

void ready_key(const MatmulKernels &product, const AttentionSizes &sizes, ScorePlan *plan) {
  if (projected_in_place(product, plan->keys)) return;
  copy_rows({.dtype = product.rows_dtype, .heads = sizes.kv_heads, .length = sizes.key_len, .dim = sizes.key_dim},
            sizes.batch, &plan->keys, &plan->layout, &plan->key_copy);
}

KeptUnits kept_units(const AttentionCall &call, int operand) {
  if (!call.present[operand]) return {};
  return {.written = !call.backward, .read = call.backward, .strides = head_strides(lift_heads(call.tensor[operand]))};
}

// What a projection leaves of them.
void set_projected(int64_t heads, int64_t length, int64_t row, HeadRows *rows) {
  *rows = {rows->data, packed_strides(heads, length, row), Dtype::f32};
}

// Queries through a weight, whose panels are made for this call or lie in prepared keys.
Status plan_query_projection(const MatmulKernels &product, const ProductMatrix &weight, const AttentionSizes &sizes,
                             ScorePlan *plan) {
  const bool projects = !plan->kept_query.read;
  if (projects) ready_query(product, sizes, weight.depth, plan);
  const HeadStrides out = packed_strides(sizes.heads, sizes.query_len, 1);
  if (!plan_projection(product, {sizes.batch, sizes.heads, sizes.query_len, plan->queries.strides, out}, weight,
                       &plan->query)) {
    return too_large();
  }
  const int64_t row = padded_units(weight.columns);
  if (plan->prepared == nullptr && projects) plan->query_panels = add_panels(product, weight, &plan->layout);
  plan->query_rows = plan->layout.add<float>({plan->query.rows, row});
  FOVEA_CHECK(check_fits(*plan));
  set_projected(sizes.heads, sizes.query_len, row, &plan->queries);
  return FOVEA_OK;
}

Status plan_key_projection(const MatmulKernels &product, const ProductMatrix &weight, bool valid_only,
                           const AttentionSizes &sizes, ScorePlan *plan) {
  const bool projects = !plan->kept_key.read;
  if (projects) ready_key(product, sizes, plan);
  const HeadStrides out = packed_strides(sizes.kv_heads, sizes.key_len, 1);
  const ProjectionRows rows = {sizes.batch, sizes.kv_heads, sizes.key_len, plan->keys.strides, out, valid_only};
  if (!plan_projection(product, rows, weight, &plan->key)) return too_large();
  const int64_t row = padded_units(weight.columns);
  if (projects) plan->key_panels = add_panels(product, weight, &plan->layout);
  plan->key_rows = plan->layout.add<float>({plan->key.rows, row});
  FOVEA_CHECK(check_fits(*plan));
  set_projected(sizes.kv_heads, sizes.key_len, row, &plan->keys);
  return FOVEA_OK;
}

// Projects queries or keys (or both) to `units` features, which are compared then.
Status plan_projections(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                        int64_t units, ScorePlan *plan) {
  const AttentionSizes &sizes = checked.sizes;
  const ScoreWeights weights = score_weights(call, sizes.head_dim);
  plan->compared_dim = units;
  if (plan->projects_query) {
    const MatmulKernels &product =
        product_for(context, call, sizes.heads * sizes.query_len, plan->queries.dtype, weights.query);
    FOVEA_CHECK(plan_query_projection(product, weights.query, sizes, plan));
  }
  if (!plan->projects_key) return FOVEA_OK;
  const bool fewer = call.present[valid_lens_operand] || checked.pattern.key_limit < sizes.key_len;
  const MatmulKernels &product =
      product_for(context, call, sizes.kv_heads * sizes.key_len, plan->keys.dtype, weights.key);
  return plan_key_projection(product, weights.key, fewer && !checked.outputs.wants_all_keys(), sizes, plan);
}

Status plan_additive(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                     ScorePlan *plan) {
  plan->compares = ScoreKind::additive;
  const int64_t units = call.tensor[score_vector_operand].shape[0];
  plan->projects_query = plan->projects_key = true;
  plan->kept_query = kept_units(call, projected_query_operand);
  plan->kept_key = kept_units(call, projected_key_operand);
  plan->vector = plan->layout.add<float>(padded_units(units));
  plan->bias = plan->layout.add<float>(padded_units(units));
  FOVEA_CHECK(add_key_scalars(checked.sizes, plan));
  return plan_projections(context, call, checked, units, plan);
}

// The side that takes less work is projected; the query's if their number must not matter, or if keys are of 8 bits.
Status plan_bilinear(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                     ScorePlan *plan) {
  const AttentionSizes &sizes = checked.sizes;
  const double queries = static_cast<double>(sizes.heads) * static_cast<double>(sizes.query_len);
  const double keys = static_cast<double>(sizes.kv_heads) * static_cast<double>(sizes.key_len);
  const bool always = (call.options.flags & FOVEA_QUERY_INVARIANT) != 0 || checked.key.has_scales();
  plan->projects_query = queries <= keys || always;
  plan->projects_key = !plan->projects_query;
  return plan_projections(context, call, checked, plan->projects_query ? sizes.key_dim : sizes.head_dim, plan);
}

// Keys that were prepared before: what is left is the query's side.
Status plan_prepared(const fovea_prepared_keys &keys, const AttentionSizes &sizes, ScorePlan *plan) {
  plan->prepared = &keys;
  plan->kind = keys.kind;
  plan->compares = has_hidden_units(keys.kind) ? ScoreKind::additive : ScoreKind::dot;
  plan->keys.strides = packed_strides(keys.kv_heads, keys.capacity, padded_units(keys.units));
  plan->keys.dtype = keys.dtype;
  plan->key_scalars_strides = {keys.kv_heads * keys.capacity, keys.capacity, 1};
  plan->compared_dim = keys.units;
  plan->projects_query = has_hidden_units(keys.kind);
  if (!plan->projects_query) return FOVEA_OK;
  const ProductMatrix weight = query_matrix(keys);
  return plan_query_projection(projection_kernels(*keys.kernels, plan->queries.dtype, weight), weight, sizes, plan);
}

}  // namespace

ScoreWeights score_weights(const AttentionCall &call, int64_t query_dim) {
  // `columns` along axis `out` of the weight.
  const auto matrix = [](const fovea_tensor &weight, int out, int64_t columns, int64_t depth) {
    return ProductMatrix{.columns = columns,
                         .depth = depth,
                         .column_stride = weight.strides[out],
                         .depth_stride = weight.strides[1 - out],
                         .dtype = static_cast<Dtype>(weight.dtype)};
  };
  const fovea_tensor &weight = call.tensor[weight_operand];
  if (call.score.kind == FOVEA_SCORE_BILINEAR) {
    const int64_t key_dim = weight.shape[1];
    return {matrix(weight, 1, key_dim, query_dim), matrix(weight, 0, query_dim, key_dim)};
  }
  const int64_t units = call.tensor[score_vector_operand].shape[0];
  if (call.score.kind == FOVEA_SCORE_CONCAT) {
    return {matrix(weight, 0, units, query_dim), matrix(weight, 0, units, weight.shape[1] - query_dim)};
  }
  const fovea_tensor &key = call.tensor[key_weight_operand];
  return {matrix(call.tensor[query_weight_operand], 0, units, query_dim), matrix(key, 0, units, key.shape[1])};
}

const void *query_weight_data(const AttentionCall &call) {
  return call.tensor[call.score.kind == FOVEA_SCORE_ADDITIVE ? query_weight_operand : weight_operand].data;
}

const void *key_weight_data(const AttentionCall &call, int64_t query_dim) {
  if (call.score.kind == FOVEA_SCORE_ADDITIVE) return call.tensor[key_weight_operand].data;
  const fovea_tensor &weight = call.tensor[weight_operand];
  const int64_t first = call.score.kind == FOVEA_SCORE_CONCAT ? query_dim * weight.strides[1] : 0;
  return element_at(weight.data, static_cast<Dtype>(weight.dtype), first);
}

ProductMatrix query_matrix(const fovea_prepared_keys &keys) {
  return {.columns = keys.units, .depth = keys.query_dim, .dtype = keys.query_weight};
}

ProductMatrix key_matrix(const fovea_prepared_keys &keys) {
  return {.columns = keys.units, .depth = keys.key_dim, .dtype = keys.key_weight};
}

const char *score_name(int32_t kind) {
  constexpr const char *names[] = {"sdpa", "bilinear", "additive", "concat", "gaussian"};
  return names[kind];
}

const char *kept_name(const ScorePlan &plan) {
  const auto kept = [](const KeptUnits &units) { return units.written || units.read; };
  if (kept(plan.kept_query)) return kept(plan.kept_key) ? "query,key" : "query";
  return kept(plan.kept_key) ? "key" : "";
}

ScoreVectorFacts score_vector_facts(const float *vector, int64_t units) {
  float largest = 0.0f;
  bool finite = true;
  for (int64_t u = 0; u < units; ++u) {
    largest = std::max(largest, std::fabs(vector[u]));
    finite = finite && std::isfinite(vector[u]);
  }
  if (!finite) return {INFINITY, false};
  const bool usual = largest >= 0x1p-20f && largest <= 0x1p16f;
  const bool takes_tangents = largest >= 0x1p-100f && largest <= 0x1p120f;
  return {usual && units >= least_shared_units ? 0.0f : largest_reach, takes_tangents};
}

float inverse_square(float sigma) {
  const double square = static_cast<double>(sigma) * static_cast<double>(sigma);
  return static_cast<float>(std::min(1.0 / square, 1e38));
}

Status plan_norms(const AttentionSizes &sizes, ScorePlan *plan) {
  if (plan->compares != ScoreKind::gaussian || plan->compared_dim <= most_differences) return FOVEA_OK;
  return add_key_scalars(sizes, plan);
}

Status plan_narrowing(bool copies_keys, const AttentionSizes &sizes, ScorePlan *plan) {
  const auto narrow = [&](int64_t heads, int64_t length, int64_t dim, HeadRows *rows, RowCopy *copy) {
    if (rows->has_scales()) return;  // are rounded as they are read
    if (rows->dtype == Dtype::bf16 && !(copies_keys && rows == &plan->keys)) return;
    copy_rows({.dtype = Dtype::bf16, .heads = heads, .length = length, .dim = dim}, sizes.batch, rows, &plan->layout,
              copy);
  };
  narrow(sizes.heads, sizes.query_len, plan->compared_dim, &plan->queries, &plan->query_copy);
  narrow(sizes.kv_heads, sizes.key_len, plan->compared_dim, &plan->keys, &plan->key_copy);
  narrow(sizes.kv_heads, sizes.key_len, sizes.value_dim, &plan->values, &plan->value_copy);
  return check_fits(*plan);
}

Status plan_score(const Context &context, const AttentionCall &call, const AttentionProblem &checked, ScorePlan *plan) {
  *plan = {};
  plan->kind = call.score.kind;
  plan->scale = checked.logits.scale;
  plan->compared_dim = checked.sizes.head_dim;
  plan->queries = checked.query;
  plan->keys = checked.key;
  plan->values = checked.value;
  if (call.prepared != nullptr) return plan_prepared(*call.prepared, checked.sizes, plan);
  switch (call.score.kind) {
    case FOVEA_SCORE_BILINEAR: return plan_bilinear(context, call, checked, plan);
    case FOVEA_SCORE_ADDITIVE:
    case FOVEA_SCORE_CONCAT: return plan_additive(context, call, checked, plan);
    case FOVEA_SCORE_GAUSSIAN: return plan_gaussian(call, checked.sizes, plan);
    default: return FOVEA_OK;
  }
}

}  // namespace fovea
