// The checks of scaled dot-product attention. Tensors of rank 2 and 3 are lifted to [B,H,L,X] first, so that everything
// after sees one shape.
#include "ops/attention/call.hpp"

#include <cinttypes>
#include <cmath>

#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

constexpr uint32_t known_flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET | FOVEA_WINDOW_LEFT |
                                 FOVEA_WINDOW_RIGHT | FOVEA_LEAVE_ONE_OUT | FOVEA_AVERAGE_WEIGHTS |
                                 FOVEA_QUERY_INVARIANT | FOVEA_SCALE_GIVEN;

Status check_main_tensors(const AttentionCall &call, AttentionProblem *p) {
  const int rank = call.tensor[query_operand].rank;
  for (const int operand : {query_operand, key_operand, value_operand, out_operand}) {
    const bool first = operand == query_operand;
    const TensorRule rule = operand_rule(call, operand, first ? 2 : rank, first ? 4 : rank);
    FOVEA_CHECK(check_tensor(&call.tensor[operand], rule));
  }
  const fovea_tensor query = lift_heads(call.tensor[query_operand]);
  const fovea_tensor key = lift_heads(call.tensor[key_operand]);
  const fovea_tensor value = lift_heads(call.tensor[value_operand]);
  const fovea_tensor out = lift_heads(call.tensor[out_operand]);
  FOVEA_CHECK(expect_size_in("query", "features", query.shape[3], 1, largest_head_dim));
  FOVEA_CHECK(expect_size_in("key", "features", key.shape[3], 1, largest_head_dim));
  const int64_t value_dim = features_of(value);
  FOVEA_CHECK(expect_size_in("value", "features", value_dim, 1, largest_head_dim));
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
                            {"out", "features", out.shape[3], value_dim, "as value"}}));
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
  p->sizes.value_dim = value_dim;
  int64_t rows = 0;
  if (!checked_multiply(p->sizes.batch, p->sizes.heads, &rows) || !checked_multiply(rows, p->sizes.query_len, &rows) ||
      !checked_multiply(p->sizes.batch, p->sizes.kv_heads, &rows)) {
    return fail(FOVEA_SIZE_OVERFLOW, "query has more than 2^63 rows");
  }
  p->query = {nullptr, head_strides(query), operand_dtype(call, query_operand)};
  p->key = {nullptr, head_strides(key), operand_dtype(call, key_operand)};
  p->value = {nullptr, head_strides(value), operand_dtype(call, value_operand)};
  p->outputs.out_strides = head_strides(out);
  p->outputs.out_dtype = operand_dtype(call, out_operand);
  p->logits.bias_dtype = operand_dtype(call, bias_operand);
  p->outputs.weights_dtype = operand_dtype(call, weights_operand);
  return FOVEA_OK;
}

struct ScaledOperand {
  int operand, scales;
  const char *as_rows;  // whose sizes the scales have
};

// Exactly keys and values of 8 bits, and values of 4, have scales, each for 16, 32, 48, ... features that divide a row,
// or for all of it; of 4 bits a pair for 32, 64, ... features.
Status check_scales(const AttentionCall &call, const ScaledOperand &given_as, RowScales *scales) {
  const int operand = given_as.operand, scales_operand = given_as.scales;
  const char *name = operand_name(call, operand), *scales_name = operand_name(call, scales_operand);
  const bool wanted = is_scaled(call, operand);
  if (call.present[scales_operand] && !wanted) {
    return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s has dtype %s", scales_name, name,
                DtypeName(call.tensor[operand].dtype).text);
  }
  if (!wanted) return FOVEA_OK;
  if (!call.present[scales_operand]) {
    return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a tensor: %s has dtype %s", scales_name, name,
                DtypeName(call.tensor[operand].dtype).text);
  }
  const fovea_tensor &given = call.tensor[scales_operand];
  const int rank = call.tensor[operand].rank;
  FOVEA_CHECK(check_tensor(&given, operand_rule(call, scales_operand, rank, rank)));
  const fovea_tensor rows = lift_heads(call.tensor[operand]), lifted = lift_heads(given);
  const char *as_rows = given_as.as_rows;
  FOVEA_CHECK(expect_sizes({{scales_name, "batch entries", lifted.shape[0], rows.shape[0], as_rows},
                            {scales_name, "heads", lifted.shape[1], rows.shape[1], as_rows},
                            {scales_name, "positions", lifted.shape[2], rows.shape[2], as_rows}}));
  const int64_t count = lifted.shape[3], features = features_of(rows);
  if (!scales_fit(rows.dtype, features, count)) {
    return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " %s, expected %s of %s's %" PRId64 " features", scales_name, count,
                rows.dtype == FOVEA_U8 ? "numbers" : "groups", fitting_scales(rows.dtype), name, features);
  }
  *scales = {nullptr, head_strides(lifted), features / (count / paired(rows.dtype))};
  return FOVEA_OK;
}

Status check_numbers(const fovea_attention_options &options, int32_t score_kind, AttentionProblem *p) {
  FOVEA_CHECK(check_flags(options.flags, known_flags));
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
  p->logits.scale = is_default(options.scale, options.flags, FOVEA_SCALE_GIVEN) ? usual : options.scale;
  p->logits.softcap = options.softcap;
  p->outputs.average_weights = (options.flags & FOVEA_AVERAGE_WEIGHTS) != 0;
  FOVEA_CHECK(check_reserved(options.reserved));
  FOVEA_CHECK(check_precision("options", options.precision));
  if (options.scores_kind < FOVEA_SCORES_RAW || options.scores_kind > FOVEA_SCORES_LOGITS) {
    return fail(FOVEA_BAD_VALUE, "options.scores_kind is %d, expected %d to %d", options.scores_kind, FOVEA_SCORES_RAW,
                FOVEA_SCORES_LOGITS);
  }
  return check_dropout(options.dropout, options.dropout_seed, &p->dropout);
}

Status check_query_offsets(const AttentionCall &call, AttentionProblem *p) {
  if (!call.present[query_offsets_operand]) return FOVEA_OK;
  const fovea_tensor &offsets = call.tensor[query_offsets_operand];
  FOVEA_CHECK(check_integer_tensor(offsets, "query_offsets", 1, false));
  FOVEA_CHECK(check_size(offsets, "query_offsets", 0, p->sizes.batch, "the batch size"));
  if ((call.options.flags & (FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET)) != 0) {
    return fail(FOVEA_BAD_VALUE, "query_offsets is given, expected NULL with FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET");
  }
  p->pattern.query_offsets_64bit = offsets.dtype == FOVEA_I64;
  p->pattern.query_offsets_stride = offsets.strides[0];
  return FOVEA_OK;
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

// A mask or bias: [Q,K], or query's axes, any of them but K of size 1. Keys behind its last are not attended.
Status check_broadcast(const AttentionCall &call, int operand, AttentionProblem *problem, HeadStrides *strides) {
  const AttentionProblem &p = *problem;
  if (!call.present[operand]) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[operand];
  const char *name = operand_name(call, operand);
  const int rank = call.tensor[query_operand].rank;
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, operand, 2, 4)));
  if (tensor.rank != 2 && tensor.rank != rank) {
    return fail(FOVEA_BAD_RANK, "%s has rank %d, expected 2 or query's %d", name, tensor.rank, rank);
  }
  const fovea_tensor lifted = lift_heads(tensor);
  const auto or_one = [&](int axis, int64_t size) { return lifted.shape[axis] == 1 ? 1 : size; };
  FOVEA_CHECK(expect_sizes({{name, "batch entries", lifted.shape[0], or_one(0, p.sizes.batch), "as query, or 1"},
                            {name, "heads", lifted.shape[1], or_one(1, p.sizes.heads), "as query, or 1"},
                            {name, "queries", lifted.shape[2], or_one(2, p.sizes.query_len), "as query, or 1"}}));
  FOVEA_CHECK(expect_size_in(name, "keys", lifted.shape[3], 0, p.sizes.key_len));
  problem->pattern.key_limit = min_of(p.pattern.key_limit, lifted.shape[3]);
  *strides = head_strides(lifted);
  return FOVEA_OK;
}

Status check_per_head(const AttentionCall &call, int operand, const AttentionProblem &p, int64_t *stride) {
  if (!call.present[operand]) return FOVEA_OK;
  const char *name = operand_name(call, operand);
  FOVEA_CHECK(check_tensor(&call.tensor[operand], operand_rule(call, operand, 1, 1)));
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
  FOVEA_CHECK(check_broadcast(call, mask_operand, p, &p->pattern.mask_strides));
  FOVEA_CHECK(check_broadcast(call, bias_operand, p, &p->logits.bias_strides));
  FOVEA_CHECK(check_per_head(call, alibi_slopes_operand, *p, &p->logits.alibi_stride));
  // A sink is always there to attend, so a row with one is never empty.
  if (call.present[sinks_operand]) p->empty_rows = EmptyRows::zero;
  return check_per_head(call, sinks_operand, *p, &p->logits.sinks_stride);
}

Status check_log_sum_exp(const AttentionCall &call, AttentionProblem *p) {
  if (!call.present[log_sum_exp_operand]) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[log_sum_exp_operand];
  const int rank = call.tensor[query_operand].rank - 1;
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, log_sum_exp_operand, rank, rank)));
  const fovea_tensor lifted = lift_rows(tensor);
  FOVEA_CHECK(expect_sizes({{"log_sum_exp", "batch entries", lifted.shape[0], p->sizes.batch, "as query"},
                            {"log_sum_exp", "heads", lifted.shape[1], p->sizes.heads, "as query"},
                            {"log_sum_exp", "queries", lifted.shape[2], p->sizes.query_len, "as query"}}));
  p->outputs.log_sum_exp_strides = head_strides(lifted);
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
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, weights_operand, rank, rank)));
  if (p->outputs.average_weights && tensor.dtype != FOVEA_F32) {
    return fail(FOVEA_BAD_DTYPE, "weights has dtype %s, expected FOVEA_F32 for averages over heads",
                DtypeName(tensor.dtype).text);
  }
  const fovea_tensor lifted = lift_heads(tensor);
  FOVEA_CHECK(
      expect_sizes({{"weights", "batch entries", lifted.shape[0], p->sizes.batch, "as query"},
                    {"weights", "heads", lifted.shape[1], p->outputs.average_weights ? 1 : p->sizes.heads, "as query"},
                    {"weights", "queries", lifted.shape[2], p->sizes.query_len, "as query"},
                    {"weights", "keys", lifted.shape[3], p->sizes.key_len, "as key"}}));
  p->outputs.weights_strides = head_strides(lifted);
  return FOVEA_OK;
}

Status check_scores(const AttentionCall &call, AttentionProblem *p) {
  p->outputs.scores_wanted = call.present[scores_operand];
  p->outputs.scores_kind = static_cast<ScoresKind>(call.options.scores_kind);
  if (!p->outputs.scores_wanted) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[scores_operand];
  const int rank = call.tensor[query_operand].rank;
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, scores_operand, rank, rank)));
  const fovea_tensor lifted = lift_heads(tensor);
  FOVEA_CHECK(expect_sizes({{"scores", "batch entries", lifted.shape[0], p->sizes.batch, "as query"},
                            {"scores", "heads", lifted.shape[1], p->sizes.heads, "as query"},
                            {"scores", "queries", lifted.shape[2], p->sizes.query_len, "as query"},
                            {"scores", "keys", lifted.shape[3], p->sizes.key_len, "as key"}}));
  p->outputs.scores_strides = head_strides(lifted);
  p->outputs.scores_dtype = operand_dtype(call, scores_operand);
  return FOVEA_OK;
}

// What a score function with hidden units makes of queries or keys, one row for each of theirs.
Status check_projected(const AttentionCall &call, int operand, int of, const char *as) {
  if (!call.present[operand]) return FOVEA_OK;
  const char *name = operand_name(call, operand);
  if (call.prepared != nullptr) return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: keys are prepared", name);
  if (!has_hidden_units(call.score.kind)) {
    return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: FOVEA_SCORE_ADDITIVE and FOVEA_SCORE_CONCAT have it",
                name);
  }
  const fovea_tensor &tensor = call.tensor[operand];
  const int rank = call.tensor[query_operand].rank;
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, operand, rank, rank)));
  const fovea_tensor lifted = lift_heads(tensor), rows = lift_heads(call.tensor[of]);
  return expect_sizes(
      {{name, "batch entries", lifted.shape[0], rows.shape[0], as},
       {name, "heads", lifted.shape[1], rows.shape[1], as},
       {name, "positions", lifted.shape[2], rows.shape[2], as},
       {name, "hidden units", lifted.shape[3], call.tensor[score_vector_operand].shape[0], "as score_vector"}});
}

}  // namespace

Status read_attention_call(const AttentionArguments &arguments, AttentionCall *call) {
  FOVEA_CHECK(read_options("options", arguments.options, &call->options));
  for (const OperandRow &row : operand_rows) {
    if (row.is_parameter()) continue;                                               // read_score has read it
    const bool prepared = row.operand == key_operand && call->prepared != nullptr;  // was described before
    const fovea_tensor *tensor = row.tensor_of(arguments, call->options);
    if (row.is_argument() && !prepared) FOVEA_CHECK(expect_given(tensor, row.name, "a tensor"));
    call->present[row.operand] = tensor != nullptr;
    if (tensor != nullptr) call->tensor[row.operand] = *TensorArgument(tensor);
  }
  return FOVEA_OK;
}

Status check_attention_call(const AttentionCall &call, AttentionProblem *problem) {
  *problem = {};
  FOVEA_CHECK(check_main_tensors(call, problem));
  FOVEA_CHECK(check_scales(call, {key_operand, key_scales_operand, "as key"}, &problem->key.scales));
  FOVEA_CHECK(check_scales(call, {value_operand, value_scales_operand, "as value"}, &problem->value.scales));
  if (call.prepared == nullptr) FOVEA_CHECK(check_score(call, problem->sizes));
  FOVEA_CHECK(check_numbers(call.options, call.score.kind, problem));
  FOVEA_CHECK(check_positions(call.options, problem));
  FOVEA_CHECK(check_query_offsets(call, problem));
  FOVEA_CHECK(check_masks(call, problem));
  FOVEA_CHECK(check_log_sum_exp(call, problem));
  FOVEA_CHECK(check_weights(call, problem));
  FOVEA_CHECK(check_scores(call, problem));
  FOVEA_CHECK(check_projected(call, projected_query_operand, query_operand, "as query"));
  return check_projected(call, projected_key_operand, key_operand, "as key");
}

Status check_operand_data(const AttentionCall &call, int first, int last) {
  for (int operand = first; operand <= last; ++operand) {
    if (call.present[operand]) FOVEA_CHECK(check_data(call.tensor[operand], operand_name(call, operand), call.planned));
  }
  return FOVEA_OK;
}

Status check_attention_data(const AttentionCall &call, const AttentionProblem &problem) {
  FOVEA_CHECK(check_operand_data(call, 0, operand_count - 1));
  if (!has_rows(problem)) return FOVEA_OK;
  FOVEA_CHECK(check_score_data(call));
  if (call.present[query_offsets_operand]) {
    FOVEA_CHECK(check_integers(call.tensor[query_offsets_operand], operand_name(call, query_offsets_operand),
                               largest_length, "", nullptr, -largest_length));
  }
  if (!call.present[valid_lens_operand]) return FOVEA_OK;
  return check_integers(call.tensor[valid_lens_operand], operand_name(call, valid_lens_operand), problem.sizes.key_len,
                        " keys", nullptr);
}

Status check_attention_overlaps(const AttentionCall &call) {
  NamedTensor inputs[operand_count], outputs[operand_count];
  size_t input_count = 0, output_count = 0;
  for (const OperandRow &row : operand_rows) {
    if (!call.present[row.operand]) continue;
    const NamedTensor named = {operand_name(call, row.operand), &call.tensor[row.operand]};
    (row.is_output() ? outputs[output_count++] : inputs[input_count++]) = named;
  }
  return check_overlaps(std::span(outputs, output_count), std::span(inputs, input_count));
}

}  // namespace fovea
