// The checks of scaled dot-product attention. Tensors of rank 2 and 3 are lifted to [B,H,L,X] first, so that everything
// after sees one shape.
#include "ops/attention/call.hpp"

#include <cinttypes>
#include <cmath>

namespace fovea {
namespace {

constexpr uint32_t known_flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET | FOVEA_WINDOW_LEFT |
                                 FOVEA_WINDOW_RIGHT | FOVEA_LEAVE_ONE_OUT | FOVEA_AVERAGE_WEIGHTS |
                                 FOVEA_QUERY_INVARIANT;

// Sizes and strides along B, H, L and the last axis.
struct Lifted {
  int64_t shape[4];
  int64_t strides[4];

  HeadStrides head_strides() const { return {strides[0], strides[1], strides[2]}; }
};

// Puts tensor axis i at `place[i]` of [B,H,L,X]; the other axes have size 1.
Lifted lift(const fovea_tensor &tensor, std::initializer_list<int> places) {
  Lifted lifted = {{1, 1, 1, 1}, {0, 0, 0, 0}};
  int axis = 0;
  for (const int place : places) {
    lifted.shape[place] = tensor.shape[axis];
    lifted.strides[place] = tensor.strides[axis];
    ++axis;
  }
  return lifted;
}

Lifted lift_heads(const fovea_tensor &tensor) {
  if (tensor.rank == 4) return lift(tensor, {0, 1, 2, 3});
  if (tensor.rank == 3) return lift(tensor, {0, 2, 3});
  return lift(tensor, {2, 3});
}

Lifted lift_log_sum_exp(const fovea_tensor &tensor) {
  if (tensor.rank == 3) return lift(tensor, {0, 1, 2});
  if (tensor.rank == 2) return lift(tensor, {0, 2});
  return lift(tensor, {2});
}

Lifted lift_averaged(const fovea_tensor &tensor) {
  return tensor.rank == 3 ? lift(tensor, {0, 2, 3}) : lift(tensor, {2, 3});
}

Status check_main_tensors(const AttentionCall &call, AttentionProblem *p) {
  const int rank = call.tensor[query_operand].rank;
  for (const int operand : {query_operand, key_operand, value_operand, out_operand}) {
    const bool first = operand == query_operand;
    FOVEA_CHECK(check_tensor(&call.tensor[operand], {.name = operand_name(call, operand),
                                                     .min_rank = first ? 2 : rank,
                                                     .max_rank = first ? 4 : rank,
                                                     .output = operand == out_operand,
                                                     .needs_data = false}));
  }
  const Lifted query = lift_heads(call.tensor[query_operand]);
  const Lifted key = lift_heads(call.tensor[key_operand]);
  const Lifted value = lift_heads(call.tensor[value_operand]);
  const Lifted out = lift_heads(call.tensor[out_operand]);
  FOVEA_CHECK(expect_size_in("query", "features", query.shape[3], 1, largest_head_dim));
  FOVEA_CHECK(expect_size_in("key", "features", key.shape[3], 1, largest_head_dim));
  FOVEA_CHECK(expect_size_in("value", "features", value.shape[3], 1, largest_head_dim));
  FOVEA_CHECK(expect_size_in("query", "positions", query.shape[2], 0, largest_length));
  FOVEA_CHECK(expect_size_in("key", "positions", key.shape[2], 0, largest_length));
  const bool one_dim = call.score.kind == FOVEA_SCORE_DOT || call.score.kind == FOVEA_SCORE_GAUSSIAN;
  FOVEA_CHECK(expect_sizes({{"key", "batch entries", key.shape[0], query.shape[0], "as query"},
                            {"key", "features", key.shape[3], one_dim ? query.shape[3] : key.shape[3], "as query"},
                            {"value", "batch entries", value.shape[0], query.shape[0], "as query"},
                            {"value", "heads", value.shape[1], key.shape[1], "as key"},
                            {"value", "positions", value.shape[2], key.shape[2], "as key"},
                            {"out", "batch entries", out.shape[0], query.shape[0], "as query"},
                            {"out", "heads", out.shape[1], query.shape[1], "as query"},
                            {"out", "positions", out.shape[2], query.shape[2], "as query"},
                            {"out", "features", out.shape[3], value.shape[3], "as value"}}));
  const int64_t heads = query.shape[1];
  const int64_t kv_heads = key.shape[1];
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) {
    return fail(FOVEA_BAD_SHAPE, "query has %" PRId64 " heads, expected a multiple of key's %" PRId64, heads, kv_heads);
  }
  p->sizes.batch = query.shape[0];
  p->sizes.heads = heads;
  p->sizes.kv_heads = kv_heads;
  p->sizes.group = kv_heads == 0 ? 0 : heads / kv_heads;
  p->sizes.query_len = query.shape[2];
  p->sizes.key_len = key.shape[2];
  p->sizes.head_dim = query.shape[3];
  p->sizes.key_dim = key.shape[3];
  p->sizes.value_dim = value.shape[3];
  int64_t rows = 0;
  if (!checked_multiply(p->sizes.batch, p->sizes.heads, &rows) || !checked_multiply(rows, p->sizes.query_len, &rows) ||
      !checked_multiply(p->sizes.batch, p->sizes.kv_heads, &rows)) {
    return fail(FOVEA_SIZE_OVERFLOW, "query has more than 2^63 rows");
  }
  p->query.strides = query.head_strides();
  p->key.strides = key.head_strides();
  p->value.strides = value.head_strides();
  p->outputs.out_strides = out.head_strides();
  return FOVEA_OK;
}

Status check_numbers(const fovea_attention_options &options, int32_t score_kind, AttentionProblem *p) {
  if ((options.flags & ~known_flags) != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%x, expected no bits but 0x%x", options.flags, known_flags);
  }
  if (options.empty_rows < FOVEA_EMPTY_ROWS_ZERO || options.empty_rows > FOVEA_EMPTY_ROWS_NAN) {
    return fail(FOVEA_BAD_VALUE, "options.empty_rows is %d, expected %d to %d", options.empty_rows,
                FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_NAN);
  }
  if (!std::isfinite(options.scale)) {
    return fail(FOVEA_BAD_VALUE, "options.scale is %g, expected a finite number", static_cast<double>(options.scale));
  }
  if (!std::isfinite(options.softcap) || options.softcap < 0.0f) {
    return fail(FOVEA_BAD_VALUE, "options.softcap is %g, expected a finite number, 0 or more",
                static_cast<double>(options.softcap));
  }
  p->empty_rows = static_cast<EmptyRows>(options.empty_rows);
  const float usual = score_kind == FOVEA_SCORE_DOT ? 1.0f / std::sqrt(static_cast<float>(p->sizes.head_dim)) : 1.0f;
  p->logits.scale = options.scale == 0.0f ? usual : options.scale;
  p->logits.softcap = options.softcap;
  p->outputs.average_weights = (options.flags & FOVEA_AVERAGE_WEIGHTS) != 0;
  if (options.reserved != 0) {
    return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", options.reserved);
  }
  return check_dropout(options.dropout, options.dropout_seed, &p->dropout);
}

Status check_positions(const fovea_attention_options &options, AttentionProblem *p) {
  const auto set = [&](uint32_t flag) { return (options.flags & flag) != 0; };
  if (set(FOVEA_TOP_LEFT) && set(FOVEA_QUERY_OFFSET)) {
    return fail(FOVEA_BAD_VALUE, "options.flags has FOVEA_TOP_LEFT and FOVEA_QUERY_OFFSET, expected at most one");
  }
  if (set(FOVEA_QUERY_OFFSET) && (options.query_offset > largest_length || options.query_offset < -largest_length)) {
    return fail(FOVEA_BAD_VALUE, "options.query_offset is %" PRId64 ", expected -2^30 to 2^30", options.query_offset);
  }
  if (set(FOVEA_WINDOW_LEFT) && options.window_left < 0) {
    return fail(FOVEA_BAD_VALUE, "options.window_left is %" PRId64 ", expected 0 or more", options.window_left);
  }
  if (set(FOVEA_WINDOW_RIGHT) && options.window_right < 0) {
    return fail(FOVEA_BAD_VALUE, "options.window_right is %" PRId64 ", expected 0 or more", options.window_right);
  }
  const int64_t explicit_offset = set(FOVEA_QUERY_OFFSET) ? options.query_offset : 0;
  const bool bottom_right = !set(FOVEA_TOP_LEFT) && !set(FOVEA_QUERY_OFFSET) && p->sizes.key_len > p->sizes.query_len;
  p->pattern.position_offset = bottom_right ? p->sizes.key_len - p->sizes.query_len : explicit_offset;
  p->pattern.leave_one_out = set(FOVEA_LEAVE_ONE_OUT);
  p->pattern.leave_out_offset = explicit_offset;
  p->pattern.has_window_left = set(FOVEA_WINDOW_LEFT);
  p->pattern.has_window_right = set(FOVEA_WINDOW_RIGHT) || set(FOVEA_CAUSAL);
  // Wider than any distance there is: the same as this.
  p->pattern.window_left = min_of(options.window_left, 4 * largest_length);
  p->pattern.window_right = set(FOVEA_CAUSAL) ? 0 : min_of(options.window_right, 4 * largest_length);
  return FOVEA_OK;
}

// A mask or bias: [Q,K], or query's axes, any of them but K of size 1.
Status check_broadcast(const AttentionCall &call, int operand, Dtype dtype, const AttentionProblem &p,
                       HeadStrides *strides) {
  if (!call.present[operand]) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[operand];
  const char *name = operand_name(call, operand);
  const int rank = call.tensor[query_operand].rank;
  FOVEA_CHECK(check_tensor(&tensor, {.name = name, .dtype = dtype, .min_rank = 2, .max_rank = 4, .needs_data = false}));
  if (tensor.rank != 2 && tensor.rank != rank) {
    return fail(FOVEA_BAD_RANK, "%s has rank %d, expected 2 or query's %d", name, tensor.rank, rank);
  }
  const Lifted lifted = lift_heads(tensor);
  const auto or_one = [&](int axis, int64_t size) { return lifted.shape[axis] == 1 ? 1 : size; };
  FOVEA_CHECK(expect_sizes({{name, "batch entries", lifted.shape[0], or_one(0, p.sizes.batch), "as query, or 1"},
                            {name, "heads", lifted.shape[1], or_one(1, p.sizes.heads), "as query, or 1"},
                            {name, "queries", lifted.shape[2], or_one(2, p.sizes.query_len), "as query, or 1"},
                            {name, "keys", lifted.shape[3], p.sizes.key_len, "as key"}}));
  *strides = lifted.head_strides();
  return FOVEA_OK;
}

Status check_per_head(const AttentionCall &call, int operand, const AttentionProblem &p, int64_t *stride) {
  if (!call.present[operand]) return FOVEA_OK;
  const char *name = operand_name(call, operand);
  FOVEA_CHECK(check_tensor(&call.tensor[operand],
                           {.name = name, .max_rank = 1, .contiguous_last = false, .needs_data = false}));
  *stride = call.tensor[operand].strides[0];
  return check_size(call.tensor[operand], name, 0, p.sizes.heads, "the number of query heads");
}

Status check_masks(const AttentionCall &call, AttentionProblem *p) {
  p->pattern.key_limit = p->sizes.key_len;
  if (call.present[valid_lens_operand]) {
    const fovea_tensor &lens = call.tensor[valid_lens_operand];
    FOVEA_CHECK(check_valid_lens_tensor(lens, p->sizes.batch, p->sizes.query_len, false));
    p->pattern.valid_lens_64bit = lens.dtype == FOVEA_I64;
    p->pattern.valid_lens_batch_stride = lens.strides[0];
    p->pattern.valid_lens_query_stride = lens.rank == 2 ? lens.strides[1] : 0;
  }
  FOVEA_CHECK(check_broadcast(call, mask_operand, Dtype::boolean, *p, &p->pattern.mask_strides));
  FOVEA_CHECK(check_broadcast(call, bias_operand, Dtype::f32, *p, &p->logits.bias_strides));
  FOVEA_CHECK(check_per_head(call, alibi_slopes_operand, *p, &p->logits.alibi_stride));
  // A sink is always there to attend, so a row with one is never empty.
  if (call.present[sinks_operand]) p->empty_rows = EmptyRows::zero;
  return check_per_head(call, sinks_operand, *p, &p->logits.sinks_stride);
}

Status check_log_sum_exp(const AttentionCall &call, AttentionProblem *p) {
  if (!call.present[log_sum_exp_operand]) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[log_sum_exp_operand];
  const int rank = call.tensor[query_operand].rank - 1;
  FOVEA_CHECK(check_tensor(&tensor, {.name = "log_sum_exp",
                                     .min_rank = rank,
                                     .max_rank = rank,
                                     .output = true,
                                     .contiguous_last = false,
                                     .needs_data = false}));
  const Lifted lifted = lift_log_sum_exp(tensor);
  FOVEA_CHECK(expect_sizes({{"log_sum_exp", "batch entries", lifted.shape[0], p->sizes.batch, "as query"},
                            {"log_sum_exp", "heads", lifted.shape[1], p->sizes.heads, "as query"},
                            {"log_sum_exp", "queries", lifted.shape[2], p->sizes.query_len, "as query"}}));
  p->outputs.log_sum_exp_strides = lifted.head_strides();
  return FOVEA_OK;
}

Status check_weights(const AttentionCall &call, AttentionProblem *p) {
  p->outputs.weights_wanted = call.present[weights_operand];
  if (!p->outputs.weights_wanted) return FOVEA_OK;
  if (p->outputs.average_weights && p->sizes.heads == 0) {
    return fail(FOVEA_BAD_SHAPE, "query has 0 heads, expected 1 or more to average weights over");
  }
  const fovea_tensor &tensor = call.tensor[weights_operand];
  const int query_rank = call.tensor[query_operand].rank;
  const int rank = p->outputs.average_weights && query_rank == 4 ? 3 : query_rank;
  FOVEA_CHECK(check_tensor(
      &tensor, {.name = "weights", .min_rank = rank, .max_rank = rank, .output = true, .needs_data = false}));
  const Lifted lifted = p->outputs.average_weights ? lift_averaged(tensor) : lift_heads(tensor);
  FOVEA_CHECK(
      expect_sizes({{"weights", "batch entries", lifted.shape[0], p->sizes.batch, "as query"},
                    {"weights", "heads", lifted.shape[1], p->outputs.average_weights ? 1 : p->sizes.heads, "as query"},
                    {"weights", "queries", lifted.shape[2], p->sizes.query_len, "as query"},
                    {"weights", "keys", lifted.shape[3], p->sizes.key_len, "as key"}}));
  p->outputs.weights_strides = lifted.head_strides();
  return FOVEA_OK;
}

NamedTensor named(const AttentionCall &call, int operand) {
  return {operand_name(call, operand), call.present[operand] ? &call.tensor[operand] : nullptr};
}

// Data that must be there, aligned and inside the address space: what check_tensor left out while planning.
Status check_buffer(const AttentionCall &call, int operand) {
  const fovea_tensor &tensor = call.tensor[operand];
  return check_tensor(&tensor, {.name = operand_name(call, operand),
                                .dtype = static_cast<Dtype>(tensor.dtype),
                                .min_rank = 0,
                                .contiguous_last = false,
                                .names_data = call.planned});
}

}  // namespace

const char *operand_name(const AttentionCall &call, int operand) {
  struct Names {
    const char *tensor, *buffer;
  };
  constexpr Names names[operand_count] = {{"query", "buffers.query"},
                                          {"key", "buffers.key"},
                                          {"value", "buffers.value"},
                                          {"valid_lens", "buffers.valid_lens"},
                                          {"mask", "buffers.mask"},
                                          {"bias", "buffers.bias"},
                                          {"alibi_slopes", "buffers.alibi_slopes"},
                                          {"sinks", "buffers.sinks"},
                                          {"score.query_weight", "buffers.query_weight"},
                                          {"score.key_weight", "buffers.key_weight"},
                                          {"score.weight", "buffers.weight"},
                                          {"score.bias", "buffers.score_bias"},
                                          {"score.score_vector", "buffers.score_vector"},
                                          {"score.sigmas", "buffers.sigmas"},
                                          {"out", "buffers.out"},
                                          {"log_sum_exp", "buffers.log_sum_exp"},
                                          {"weights", "buffers.weights"}};
  return call.planned ? names[operand].buffer : names[operand].tensor;
}

Status read_attention_call(const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                           const fovea_tensor *out, const fovea_attention_options *options, AttentionCall *call) {
  FOVEA_CHECK(read_options("options", options, &call->options));
  const fovea_tensor *given[operand_count] = {};
  given[query_operand] = query;
  given[key_operand] = key;
  given[value_operand] = value;
  given[out_operand] = out;
  given[valid_lens_operand] = call->options.valid_lens;
  given[mask_operand] = call->options.mask;
  given[bias_operand] = call->options.bias;
  given[alibi_slopes_operand] = call->options.alibi_slopes;
  given[sinks_operand] = call->options.sinks;
  given[log_sum_exp_operand] = call->options.log_sum_exp;
  given[weights_operand] = call->options.weights;
  for (const int operand : {query_operand, key_operand, value_operand, out_operand}) {
    if (given[operand] == nullptr && (operand != key_operand || call->prepared == nullptr)) {
      return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a tensor", operand_name(*call, operand));
    }
  }
  for (int operand = 0; operand < operand_count; ++operand) {
    if (operand >= first_score_operand && operand <= last_score_operand) continue;
    call->present[operand] = given[operand] != nullptr;
    if (call->present[operand]) call->tensor[operand] = *TensorArgument(given[operand]);
  }
  return FOVEA_OK;
}

Status check_attention_call(const AttentionCall &call, AttentionProblem *problem) {
  *problem = {};
  FOVEA_CHECK(check_main_tensors(call, problem));
  if (call.prepared == nullptr) FOVEA_CHECK(check_score(call, problem->sizes));
  FOVEA_CHECK(check_numbers(call.options, call.score.kind, problem));
  FOVEA_CHECK(check_positions(call.options, problem));
  FOVEA_CHECK(check_masks(call, problem));
  FOVEA_CHECK(check_log_sum_exp(call, problem));
  return check_weights(call, problem);
}

Status check_operand_data(const AttentionCall &call, int first, int last) {
  for (int operand = first; operand <= last; ++operand) {
    if (call.present[operand]) FOVEA_CHECK(check_buffer(call, operand));
  }
  return FOVEA_OK;
}

Status check_attention_data(const AttentionCall &call, const AttentionProblem &problem) {
  FOVEA_CHECK(check_operand_data(call, 0, operand_count - 1));
  if (!has_rows(problem)) return FOVEA_OK;
  FOVEA_CHECK(check_score_data(call));
  if (!call.present[valid_lens_operand]) return FOVEA_OK;
  return check_integers(call.tensor[valid_lens_operand], operand_name(call, valid_lens_operand), problem.sizes.key_len,
                        " keys", nullptr);
}

Status check_attention_overlaps(const AttentionCall &call) {
  return check_overlaps(
      {named(call, out_operand), named(call, log_sum_exp_operand), named(call, weights_operand)},
      {named(call, query_operand), named(call, key_operand), named(call, value_operand),
       named(call, valid_lens_operand), named(call, mask_operand), named(call, bias_operand),
       named(call, alibi_slopes_operand), named(call, sinks_operand), named(call, query_weight_operand),
       named(call, key_weight_operand), named(call, weight_operand), named(call, score_bias_operand),
       named(call, score_vector_operand), named(call, sigmas_operand)});
}

void set_data(const AttentionCall &call, AttentionProblem *problem) {
  const auto data = [&](int operand) { return call.present[operand] ? call.tensor[operand].data : nullptr; };
  problem->query.data = static_cast<const float *>(data(query_operand));
  problem->key.data = static_cast<const float *>(data(key_operand));
  problem->value.data = static_cast<const float *>(data(value_operand));
  problem->outputs.out = static_cast<float *>(data(out_operand));
  problem->pattern.valid_lens = data(valid_lens_operand);
  problem->pattern.mask = static_cast<const uint8_t *>(data(mask_operand));
  problem->logits.bias = static_cast<const float *>(data(bias_operand));
  problem->logits.alibi_slopes = static_cast<const float *>(data(alibi_slopes_operand));
  problem->logits.sinks = static_cast<const float *>(data(sinks_operand));
  problem->outputs.log_sum_exp = static_cast<float *>(data(log_sum_exp_operand));
  problem->outputs.weights = static_cast<float *>(data(weights_operand));
}

}  // namespace fovea
