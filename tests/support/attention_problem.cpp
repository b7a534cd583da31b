#include "attention_problem.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

namespace testing {
namespace {

// A dense copy over [B,H,Q,K] of a mask or bias whose axes may be 1, whatever its rank; `rest` stands for the keys
// behind its last.
template <typename T>
std::vector<T> broadcast_scores(const Tensor<T> &tensor, const AttentionProblem &problem, T rest) {
  Shape shape = problem.shape_of(problem.score_shape());
  shape.back() = tensor.shape().back();
  const std::vector<T> given = tensor.dense(shape);
  std::vector<T> padded;
  for (int64_t row = 0; row < element_count(problem.score_shape()) / std::max<int64_t>(problem.sizes.key_len, 1);
       ++row) {
    const auto first = given.begin() + row * shape.back();
    padded.insert(padded.end(), first, first + shape.back());
    padded.insert(padded.end(), static_cast<size_t>(problem.sizes.key_len - shape.back()), rest);
  }
  return padded;
}

template <typename T>
std::vector<int64_t> expand_lens(const Tensor<T> &lens, const AttentionSizes &sizes) {
  std::vector<int64_t> expanded;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t i = 0; i < sizes.query_len; ++i) {
      expanded.push_back(lens.shape().size() == 1 ? lens(b) : lens(b, i));
    }
  }
  return expanded;
}

template <typename T>
std::vector<int64_t> expand_offsets(const Tensor<T> &offsets, const AttentionSizes &sizes) {
  std::vector<int64_t> expanded;
  for (int64_t b = 0; b < sizes.batch; ++b) expanded.push_back(offsets(b));
  return expanded;
}

template <typename T>
const fovea_tensor *describe_optional(const std::optional<Tensor<T>> &tensor, fovea_tensor &view) {
  if (!tensor) return nullptr;
  view = tensor->view();
  return &view;
}

}  // namespace

Shape AttentionProblem::shape_of(const Shape &full) const {
  if (rank == 4) return full;
  if (rank == 3) return {full[0], full[2], full[3]};
  return {full[2], full[3]};
}

Tensor<float> AttentionProblem::make_tensor(const Shape &full, Layout layout) const {
  const Shape shape = shape_of(full);
  if (layout == Layout::kHeadsFirst) return Tensor<float>(shape);
  const int64_t gap = layout == Layout::kPadded ? 3 : 0;
  if (rank == 4) return Tensor<float>(shape, permuted_strides(shape, {0, 2, 1, 3}, gap));
  if (rank == 3) return Tensor<float>(shape, permuted_strides(shape, {0, 1, 2}, gap));
  return Tensor<float>(shape, permuted_strides(shape, {0, 1}, gap));
}

void AttentionProblem::set_valid_lens(const std::vector<int64_t> &lens, bool wide) {
  const bool per_batch = static_cast<int64_t>(lens.size()) == sizes.batch;
  const Shape shape = per_batch ? Shape{sizes.batch} : Shape{sizes.batch, sizes.query_len};
  valid_lens32.reset();
  valid_lens64.reset();
  if (wide) {
    valid_lens64.emplace(shape).assign(lens);
  } else {
    valid_lens32.emplace(shape).assign(std::vector<int32_t>(lens.begin(), lens.end()));
  }
}

void AttentionProblem::set_query_offsets(const std::vector<int64_t> &offsets, bool wide) {
  const Shape shape = {sizes.batch};
  query_offsets32.reset();
  query_offsets64.reset();
  if (wide) {
    query_offsets64.emplace(shape).assign(offsets);
  } else {
    query_offsets32.emplace(shape).assign(std::vector<int32_t>(offsets.begin(), offsets.end()));
  }
}

void AttentionProblem::set_mask(const std::function<bool(int64_t, int64_t, int64_t, int64_t)> &attend) {
  std::vector<uint8_t> values;
  for_each_index(score_shape(), [&](const Shape &at) { values.push_back(attend(at[0], at[1], at[2], at[3]) ? 1 : 0); });
  mask.emplace(shape_of(score_shape())).assign(values);
}

reference::AttentionInputs AttentionProblem::reference_inputs() const {
  reference::AttentionInputs in;
  in.batch = sizes.batch;
  in.heads = sizes.heads;
  in.kv_heads = sizes.kv_heads;
  in.query_len = sizes.query_len;
  in.key_len = sizes.key_len;
  in.query_dim = sizes.head_dim;
  in.key_dim = sizes.key_size();
  in.value_dim = sizes.value_dim;
  in.query = query.dense();
  in.key = key.dense();
  in.value = value.dense();
  if (score) in.score = score->reference_score(sizes.heads);
  if (valid_lens32) in.valid_lens = expand_lens(*valid_lens32, sizes);
  if (valid_lens64) in.valid_lens = expand_lens(*valid_lens64, sizes);
  if (query_offsets32) in.query_offsets = expand_offsets(*query_offsets32, sizes);
  if (query_offsets64) in.query_offsets = expand_offsets(*query_offsets64, sizes);
  if (mask) in.mask = broadcast_scores(*mask, *this, uint8_t{0});
  if (bias) in.bias = broadcast_scores(*bias, *this, -kInfinity);
  if (alibi_slopes) in.alibi_slopes = alibi_slopes->dense();
  if (sinks) in.sinks = sinks->dense();
  in.empty_rows = static_cast<reference::EmptyRows>(empty_rows);
  in.scale = scale;
  in.scale_given = (flags & FOVEA_SCALE_GIVEN) != 0;
  in.softcap = softcap;
  in.causal = (flags & FOVEA_CAUSAL) != 0;
  in.top_left = (flags & FOVEA_TOP_LEFT) != 0;
  in.leave_one_out = (flags & FOVEA_LEAVE_ONE_OUT) != 0;
  if ((flags & FOVEA_QUERY_OFFSET) != 0) in.query_offset = query_offset;
  if ((flags & FOVEA_WINDOW_LEFT) != 0) in.window_left = window_left;
  if ((flags & FOVEA_WINDOW_RIGHT) != 0) in.window_right = window_right;
  in.dropout = {dropout, dropout_seed};
  return in;
}

AttentionResult AttentionProblem::make_result(bool want_weights) const {
  AttentionResult result;
  const AttentionSizes &s = sizes;
  result.out = make_tensor({s.batch, s.heads, s.query_len, s.value_dim}, out_layout);
  if (want_log_sum_exp) {
    const Shape shapes[3] = {{s.query_len}, {s.batch, s.query_len}, {s.batch, s.heads, s.query_len}};
    result.log_sum_exp.emplace(shapes[rank - 2]);
  }
  if (want_weights && rank == 4 && (flags & FOVEA_AVERAGE_WEIGHTS) != 0) {
    result.weights.emplace(Shape{s.batch, s.query_len, s.key_len});
  } else if (want_weights) {
    result.weights = make_tensor(score_shape(), out_layout);
  }
  return result;
}

AttentionArguments::AttentionArguments(const AttentionProblem &problem, const AttentionResult &result)
    : query(problem.query.view()), key(problem.key.view()), value(problem.value.view()), out(result.out.view()) {
  options.struct_size = sizeof options;
  options.flags = problem.flags;
  options.empty_rows = problem.empty_rows;
  options.scale = problem.scale;
  options.softcap = problem.softcap;
  options.query_offset = problem.query_offset;
  options.window_left = problem.window_left;
  options.window_right = problem.window_right;
  options.dropout = problem.dropout;
  options.dropout_seed = problem.dropout_seed;
  options.valid_lens = problem.valid_lens64 ? describe_optional(problem.valid_lens64, valid_lens)
                                            : describe_optional(problem.valid_lens32, valid_lens);
  options.query_offsets = problem.query_offsets64 ? describe_optional(problem.query_offsets64, query_offsets)
                                                  : describe_optional(problem.query_offsets32, query_offsets);
  options.mask = describe_optional(problem.mask, mask);
  options.bias = describe_optional(problem.bias, bias);
  options.alibi_slopes = describe_optional(problem.alibi_slopes, alibi_slopes);
  options.sinks = describe_optional(problem.sinks, sinks);
  options.log_sum_exp = describe_optional(result.log_sum_exp, log_sum_exp);
  options.weights = describe_optional(result.weights, weights);
  if (problem.score) score.emplace(*problem.score);
}

fovea_status AttentionArguments::run(const fovea_context *context) const {
  return score ? fovea_attention(context, &score->score, &query, &key, &value, &out, &options)
               : fovea_sdpa(context, &query, &key, &value, &out, &options);
}

fovea_status AttentionArguments::plan(const fovea_context *context, fovea_plan **plan) const {
  return score ? fovea_attention_plan_create(context, &score->score, &query, &key, &value, &out, &options, plan)
               : fovea_sdpa_plan_create(context, &query, &key, &value, &out, &options, plan);
}

fovea_attention_buffers buffers_of(const AttentionArguments &arguments) {
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  buffers.query = arguments.query.data;
  buffers.key = arguments.key.data;
  buffers.value = arguments.value.data;
  buffers.out = arguments.out.data;
  buffers.valid_lens = arguments.valid_lens.data;
  buffers.query_offsets = arguments.query_offsets.data;
  buffers.mask = arguments.mask.data;
  buffers.bias = arguments.bias.data;
  buffers.alibi_slopes = arguments.alibi_slopes.data;
  buffers.sinks = arguments.sinks.data;
  buffers.log_sum_exp = arguments.log_sum_exp.data;
  buffers.weights = arguments.weights.data;
  if (arguments.score) arguments.score->set_data(buffers);
  return buffers;
}

fovea_status AttentionProblem::run(const fovea_context *context, const AttentionResult &result) const {
  const auto freeze = [](const auto &tensor) {
    if (tensor) tensor->memory().freeze();
  };
  query.memory().freeze();
  key.memory().freeze();
  value.memory().freeze();
  freeze(valid_lens32);
  freeze(valid_lens64);
  freeze(query_offsets32);
  freeze(query_offsets64);
  freeze(mask);
  freeze(bias);
  freeze(alibi_slopes);
  freeze(sinks);
  if (score) score->freeze();
  return AttentionArguments(*this, result).run(context);
}

std::string AttentionProblem::describe() const {
  std::ostringstream text;
  const auto list = [&text](const char *name, const Shape &values) {
    text << ' ' << name << '[';
    for (size_t n = 0; n < values.size(); ++n) text << (n == 0 ? "" : ",") << values[n];
    text << ']';
  };
  const AttentionSizes &s = sizes;
  text << "B=" << s.batch << " H=" << s.heads << " Hkv=" << s.kv_heads << " Q=" << s.query_len << " K=" << s.key_len
       << " D=" << s.head_dim << " Dv=" << s.value_dim << " rank=" << rank << " flags=" << flags
       << " empty_rows=" << empty_rows << " scale=" << scale << " softcap=" << softcap << " offset=" << query_offset
       << " window=" << window_left << "," << window_right;
  if (dropout != 0) text << " dropout=" << dropout << " seed=" << dropout_seed;
  if (score) text << " Dk=" << s.key_size() << score->describe();
  list("query strides", query.strides());
  list("key strides", key.strides());
  list("value strides", value.strides());
  if (valid_lens32) list("valid_lens i32", valid_lens32->shape());
  if (valid_lens64) list("valid_lens i64", valid_lens64->shape());
  if (query_offsets32) list("query_offsets i32", query_offsets32->shape());
  if (mask) list("mask", mask->shape());
  if (bias) list("bias", bias->shape());
  text << (alibi_slopes ? " alibi" : "") << (sinks ? " sinks" : "") << (want_log_sum_exp ? " lse" : "");
  return text.str();
}

AttentionProblem make_attention(const AttentionSizes &sizes, Random &random, Layout layout, int rank) {
  AttentionProblem problem;
  problem.sizes = sizes;
  problem.rank = rank;
  problem.out_layout = layout;
  problem.query = problem.make_tensor({sizes.batch, sizes.heads, sizes.query_len, sizes.head_dim}, layout);
  problem.key = problem.make_tensor({sizes.batch, sizes.kv_heads, sizes.key_len, sizes.key_size()}, layout);
  problem.value = problem.make_tensor({sizes.batch, sizes.kv_heads, sizes.key_len, sizes.value_dim}, layout);
  problem.query.fill_normal(random);
  problem.key.fill_normal(random);
  problem.value.fill_normal(random);
  return problem;
}

AttentionProblem make_scored(int32_t kind, const AttentionSizes &sizes, int64_t hidden, Random &random, Layout layout,
                             int rank) {
  AttentionProblem problem = make_attention(sizes, random, layout, rank);
  problem.score = make_score(kind, sizes.head_dim, sizes.key_size(), hidden, random);
  return problem;
}

bool same_bits(const AttentionResult &a, const AttentionResult &b) {
  if (!same_bits(a.out, b.out)) return false;
  if (a.log_sum_exp && !same_bits(*a.log_sum_exp, *b.log_sum_exp)) return false;
  return !a.weights || same_bits(*a.weights, *b.weights);
}

}  // namespace testing
