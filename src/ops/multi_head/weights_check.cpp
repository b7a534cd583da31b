#include "ops/multi_head/weights_check.hpp"

#include <cinttypes>
#include <utility>

namespace fovea {
namespace {

constexpr int64_t most_heads = 65536;

Status check_numbers(const fovea_mha_parameters &p) {
  if (p.layout != FOVEA_WEIGHT_OUT_IN && p.layout != FOVEA_WEIGHT_IN_OUT) {
    return fail(FOVEA_BAD_VALUE, "parameters.layout is %d, expected %d (OUT_IN) or %d (IN_OUT)", p.layout,
                FOVEA_WEIGHT_OUT_IN, FOVEA_WEIGHT_IN_OUT);
  }
  FOVEA_CHECK(check_precision("parameters", p.precision));
  if (p.heads < 1 || p.heads > most_heads) {
    return fail(FOVEA_BAD_VALUE, "parameters.heads is %" PRId64 ", expected 1 to %" PRId64, p.heads, most_heads);
  }
  if (p.kv_heads < 0 || p.kv_heads > p.heads || (p.kv_heads != 0 && p.heads % p.kv_heads != 0)) {
    return fail(FOVEA_BAD_VALUE, "parameters.kv_heads is %" PRId64 ", expected 0 or a divisor of heads, %" PRId64,
                p.kv_heads, p.heads);
  }
  return FOVEA_OK;
}

// Either the three weights or the one that holds them all; a bias only beside its weight.
Status check_presence(const fovea_mha_parameters &p) {
  const struct {
    const char *name;
    const fovea_tensor *tensor;
    bool wanted, allowed;
  } members[] = {{"query_weight", p.query_weight, p.in_weight == nullptr, p.in_weight == nullptr},
                 {"key_weight", p.key_weight, p.in_weight == nullptr, p.in_weight == nullptr},
                 {"value_weight", p.value_weight, p.in_weight == nullptr, p.in_weight == nullptr},
                 {"query_bias", p.query_bias, false, p.in_weight == nullptr},
                 {"key_bias", p.key_bias, false, p.in_weight == nullptr},
                 {"value_bias", p.value_bias, false, p.in_weight == nullptr},
                 {"in_bias", p.in_bias, false, p.in_weight != nullptr},
                 {"out_bias", p.out_bias, false, p.out_weight != nullptr}};
  for (const auto &member : members) {
    if (member.wanted && member.tensor == nullptr) {
      return fail(FOVEA_NULL_POINTER, "parameters.%s is NULL, expected a tensor (or in_weight for all three)",
                  member.name);
    }
    if (!member.allowed && member.tensor != nullptr) {
      const bool out = member.tensor == p.out_bias;
      return fail(FOVEA_BAD_VALUE, "parameters.%s is set, expected NULL %s", member.name,
                  out                      ? "without out_weight"
                  : p.in_weight == nullptr ? "without in_weight"
                                           : "beside in_weight");
    }
  }
  return FOVEA_OK;
}

Status read_weight(int32_t layout, WeightSource *source) {
  const TensorRule rule = {
      .name = source->name, .min_rank = 2, .max_rank = 2, .contiguous_last = false, .narrow = true};
  const TensorArgument weight(source->weight);
  FOVEA_CHECK(check_tensor(weight, rule));
  const int out = layout == FOVEA_WEIGHT_OUT_IN ? 0 : 1;
  source->data = weight->data;
  source->matrix = {.columns = weight->shape[out],
                    .depth = weight->shape[1 - out],
                    .column_stride = weight->strides[out],
                    .depth_stride = weight->strides[1 - out],
                    .dtype = static_cast<Dtype>(weight->dtype)};
  if (source->matrix.depth >= 1) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " inputs, expected at least 1", source->name, source->matrix.depth);
}

Status read_bias(WeightSource *source) {
  if (source->bias == nullptr) return FOVEA_OK;
  const TensorRule rule = {.name = source->bias_name, .max_rank = 1, .contiguous_last = false, .narrow = true};
  const TensorArgument bias(source->bias);
  FOVEA_CHECK(check_tensor(bias, rule));
  source->bias_data = bias->data;
  source->bias_dtype = static_cast<Dtype>(bias->dtype);
  source->bias_stride = bias->strides[0];
  return check_size(*bias, source->bias_name, 0, source->matrix.columns, "its weight's outputs");
}

// The size of a head; the outputs must make `heads` equal ones.
Status check_heads(const WeightSource &source, int64_t heads, int64_t *dim) {
  *dim = source.matrix.columns / heads;
  if (source.matrix.columns == *dim * heads && *dim >= 1 && *dim <= largest_head_dim) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " outputs, expected %" PRId64 " heads of 1 to %" PRId64, source.name,
              source.matrix.columns, heads, largest_head_dim);
}

// in_weight's rows are queries', keys' and values', one after the other.
Status split_in_weight(const fovea_mha_parameters &p, int64_t kv_heads, WeightSources *sources) {
  WeightSource in = {"parameters.in_weight", "parameters.in_bias", p.in_weight, p.in_bias};
  FOVEA_CHECK(read_weight(p.layout, &in));
  int64_t dim = 0;
  FOVEA_CHECK(check_heads(in, p.heads + 2 * kv_heads, &dim));
  FOVEA_CHECK(read_bias(&in));
  int64_t first = 0;
  const auto take = [&](int64_t heads) {
    WeightSource part = in;
    part.matrix.columns = heads * dim;
    part.data = element_at(in.data, in.matrix.dtype, first * in.matrix.column_stride);
    if (in.bias_data != nullptr) part.bias_data = element_at(in.bias_data, in.bias_dtype, first * in.bias_stride);
    first += part.matrix.columns;
    return part;
  };
  sources->query = take(p.heads);
  sources->key = take(kv_heads);
  sources->value = take(kv_heads);
  return FOVEA_OK;
}

Status read_sources(const fovea_mha_parameters &p, int64_t kv_heads, WeightSources *sources) {
  if (p.in_weight != nullptr) return split_in_weight(p, kv_heads, sources);
  sources->query = {"parameters.query_weight", "parameters.query_bias", p.query_weight, p.query_bias};
  sources->key = {"parameters.key_weight", "parameters.key_bias", p.key_weight, p.key_bias};
  sources->value = {"parameters.value_weight", "parameters.value_bias", p.value_weight, p.value_bias};
  const std::pair<WeightSource *, int64_t> all[] = {
      {&sources->query, p.heads}, {&sources->key, kv_heads}, {&sources->value, kv_heads}};
  for (const auto &[source, heads] : all) {
    int64_t dim = 0;
    FOVEA_CHECK(read_weight(p.layout, source));
    FOVEA_CHECK(check_heads(*source, heads, &dim));
    FOVEA_CHECK(read_bias(source));
  }
  return FOVEA_OK;
}

Status read_out(const fovea_mha_parameters &p, int64_t inputs, WeightSources *sources) {
  if (p.out_weight == nullptr) return FOVEA_OK;
  WeightSource &out = sources->out;
  out = {"parameters.out_weight", "parameters.out_bias", p.out_weight, p.out_bias};
  FOVEA_CHECK(read_weight(p.layout, &out));
  if (out.matrix.columns < 1) return fail(FOVEA_BAD_SHAPE, "%s has 0 outputs, expected at least 1", out.name);
  FOVEA_CHECK(expect_sizes({{out.name, "inputs", out.matrix.depth, inputs, "heads times the size of a value"}}));
  return read_bias(&out);
}

}  // namespace

Status read_parameters(const Context &context, const fovea_mha_parameters &given, WeightSources *sources,
                       fovea_mha_weights *weights) {
  fovea_mha_parameters p;
  FOVEA_CHECK(read_options("parameters", &given, &p));
  FOVEA_CHECK(check_numbers(p));
  FOVEA_CHECK(check_presence(p));
  weights->heads = p.heads;
  weights->kv_heads = p.kv_heads == 0 ? p.heads : p.kv_heads;
  *sources = {};
  FOVEA_CHECK(read_sources(p, weights->kv_heads, sources));
  weights->head_dim = sources->query.matrix.columns / weights->heads;
  weights->key_dim = sources->key.matrix.columns / weights->kv_heads;
  weights->value_dim = sources->value.matrix.columns / weights->kv_heads;
  FOVEA_CHECK(read_out(p, weights->heads * weights->value_dim, sources));
  weights->medium = narrows_products(context, p.precision);
  for (WeightSource *source : {&sources->query, &sources->key, &sources->value, &sources->out}) {
    ProductMatrix &matrix = source->matrix;
    matrix.packed_as = packed_dtype(context, p.precision, matrix.dtype, matrix.depth);
  }
  return FOVEA_OK;
}

}  // namespace fovea
