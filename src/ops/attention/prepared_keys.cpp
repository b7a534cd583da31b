#include "ops/attention/prepared_keys.hpp"

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "ops/attention/prepared_check.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/copy.hpp"
#include "ops/tensors/dtype.hpp"
#include "ops/tensors/lift.hpp"
#include "runtime/memory_layout.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

fovea_prepared_keys::~fovea_prepared_keys() { std::free(memory); }

namespace fovea {
namespace {

// Where everything lies that the handle holds.
struct KeyPlaces {
  MemoryLayout layout;
  MemoryPart<float> query_panels, key_panels, bias, score_vector, reach;
  MemoryPart<char> rows;
};

KeyPlaces lay_out(const fovea_prepared_keys &keys, const ScoreWeights &weights, bool has_bias) {
  const bool additive = keys.kind != FOVEA_SCORE_BILINEAR;
  KeyPlaces places;
  const MatmulKernels &kernels = *keys.kernels->matmul;
  if (additive) places.query_panels = add_panels(kernels, weights.query, &places.layout);
  places.key_panels = add_panels(kernels, weights.key, &places.layout);
  if (has_bias) places.bias = places.layout.add<float>(keys.units);
  if (additive) places.score_vector = places.layout.add<float>(padded_units(keys.units));
  const auto element = static_cast<int64_t>(dtype_size(keys.dtype));
  places.rows = places.layout.add<char>({keys.batch, keys.kv_heads, keys.capacity, padded_units(keys.units), element});
  if (additive) places.reach = places.layout.add<float>({keys.batch, keys.kv_heads, keys.capacity});
  return places;
}

Status allocate(const KeyPlaces &places, fovea_prepared_keys *keys) {
  keys->size = places.layout.size();
  keys->memory = allocate_lines(keys->size);
  if (keys->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of prepared keys", keys->size);
  keys->query_panels = places.query_panels.in(keys->memory);
  keys->key_panels = places.key_panels.in(keys->memory);
  keys->bias = places.bias.in(keys->memory);
  keys->score_vector = places.score_vector.in(keys->memory);
  keys->rows = places.rows.in(keys->memory);
  keys->reach = places.reach.in(keys->memory);
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
  gather_floats(*context.kernels, call.tensor[score_vector_operand], keys->score_vector);
  keys->score_vector_facts = score_vector_facts(keys->score_vector, keys->units);
  if (keys->bias != nullptr) gather_floats(*context.kernels, call.tensor[score_bias_operand], keys->bias);
}

// Rows of new keys that are needed for a while: the keys as the product takes them, if it does not as they lie, and
// their projections until they are narrowed.
struct NewRows {
  MemoryPart<char> keys;
  MemoryPart<float> projected;

  NewRows(const fovea_prepared_keys &prepared, const MatmulKernels &product, const fovea_tensor &key,
          MemoryLayout *layout) {
    const int64_t length = key.shape[2];
    if (!projected_in_place(product, static_cast<Dtype>(key.dtype), key.strides[2])) {
      const auto element = static_cast<int64_t>(dtype_size(product.rows_dtype));
      keys = layout->add<char>({prepared.batch, prepared.kv_heads, length, prepared.key_dim, element});
    }
    if (is_widened(prepared.dtype))
      projected = layout->add<float>({prepared.batch, prepared.kv_heads, length, padded_units(prepared.units)});
  }
};

// `length` rows of the handle's form, from `first` on, of which every sequence has room for `capacity`.
fovea_tensor rows_of(const fovea_prepared_keys &keys, void *data, Dtype dtype, int64_t capacity, int64_t first,
                     int64_t length) {
  const int64_t dim = padded_units(keys.units);
  const int64_t shape[] = {keys.batch, keys.kv_heads, length, dim};
  fovea_tensor rows =
      contiguous_tensor(element_at(data, dtype, first * dim), static_cast<fovea_dtype>(dtype), 4, shape);
  rows.strides[1] = capacity * dim;
  rows.strides[0] = keys.kv_heads * rows.strides[1];
  return rows;
}

// x: the keys, as the product takes them; to: their projections.
Status project(const Context &context, const fovea_prepared_keys &keys, const MatmulKernels &kernels,
               const fovea_tensor &x, int64_t capacity, float *to, float *reach) {
  const ProjectionRows rows = {
      x.shape[0], x.shape[1], x.shape[2], head_strides(x), {keys.kv_heads * capacity, capacity, 1}};
  Product product;
  if (!plan_projection(kernels, rows, key_matrix(keys), &product)) {
    return fail(FOVEA_SIZE_OVERFLOW, "key has more than 2^63 rows");
  }
  run_product(context, product,
              {.x = x.data,
               .panels = keys.key_panels,
               .out = to,
               .finish = finish_of(*context.kernels, product, nullptr, reach)});
  return FOVEA_OK;
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
  made->dtype = static_cast<Dtype>(sizes.dtype);
  made->batch = sizes.batch;
  made->kv_heads = sizes.kv_heads;
  made->capacity = sizes.capacity;
  made->query_dim = sizes.query_dim;
  made->key_dim = sizes.key_dim;
  const ScoreWeights weights = score_weights(call, sizes.query_dim);
  made->units = weights.key.columns;
  made->query_weight = weights.query.dtype;
  made->key_weight = weights.key.dtype;
  const KeyPlaces places = lay_out(*made, weights, call.present[score_bias_operand]);
  if (!places.layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW, "capacity is %" PRId64 ", too large for the address space", sizes.capacity);
  }
  FOVEA_CHECK(allocate(places, made.get()));
  keep_parameters(*context, call, weights, made.get());
  *keys = made.release();
  return FOVEA_OK;
}

Status append_prepared_keys(const fovea_context *given, fovea_prepared_keys *keys, const TensorArgument &key) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(keys, "keys", "prepared keys"));
  FOVEA_CHECK(check_prepared_for(*keys, *context));
  FOVEA_CHECK(check_new_keys(*keys, key));
  const fovea_tensor rows = lift_heads(*key);
  const int64_t length = rows.shape[2];
  if (element_count(rows) == 0) {
    keys->length += length;
    return FOVEA_OK;
  }
  const MatmulKernels &product =
      projection_kernels(*context->kernels, static_cast<Dtype>(rows.dtype), key_matrix(*keys));
  MemoryLayout layout;
  const NewRows made(*keys, product, rows, &layout);
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "key has more rows than fit the address space as floats");
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  fovea_tensor x = rows;
  if (made.keys) {
    x = contiguous_tensor(made.keys.in(workspace.data()), static_cast<fovea_dtype>(product.rows_dtype), 4, rows.shape);
    copy_rows(*context, rows, x);
  }
  if (!made.projected) {
    float *reach = keys->kind == FOVEA_SCORE_BILINEAR ? nullptr : keys->reach + keys->length;
    const fovea_tensor to = rows_of(*keys, keys->rows, Dtype::f32, keys->capacity, keys->length, length);
    FOVEA_CHECK(project(*context, *keys, product, x, keys->capacity, static_cast<float *>(to.data), reach));
  } else {
    float *projected = made.projected.in(workspace.data());
    FOVEA_CHECK(project(*context, *keys, product, x, length, projected, nullptr));
    copy_rows(*context, rows_of(*keys, projected, Dtype::f32, length, 0, length),
              rows_of(*keys, keys->rows, keys->dtype, keys->capacity, keys->length, length));
  }
  keys->length += length;
  return FOVEA_OK;
}

Status truncate_prepared_keys(fovea_prepared_keys *keys, int64_t length) {
  FOVEA_CHECK(expect_given(keys, "keys", "prepared keys"));
  FOVEA_CHECK(check_range("", "length", length, 0, keys->length));
  keys->length = length;
  return FOVEA_OK;
}

}  // namespace fovea
