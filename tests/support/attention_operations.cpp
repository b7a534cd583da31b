// Attention as operations: in one go, planned, over prepared keys; merging, masked softmax, kernel regression.
#include <memory>

#include "creation.hpp"
#include "operations.hpp"

namespace testing {
namespace {

// ---- the operands that attention has in all its forms ---------------------------------------------------------------

enum {
  kQuery,
  kKey,
  kValue,
  kOut,
  kLens,
  kOffsets,
  kMask,
  kBias,
  kSlopes,
  kSinks,
  kLogSumExp,
  kWeights,
  kScores,
  kKeyScales,
  kValueScales,
  kProjectedQuery,
  kProjectedKey,
  kScoreOperands
};

// Operands of a backward pass. Gradients stand behind the forward call's, which are read, but for weights and scores,
// which are not looked at.
enum { kGradOut = kScoreOperands + 6, kGradLogSumExp, kGradWeights, kGradients };

int rank_of(const CallSizes &s) { return s.choice(0) ? 4 : s.choice(1) ? 3 : 2; }

// Without the axes that the rank does not have.
Shape of_rank(const CallSizes &s, int64_t batch, int64_t heads, Shape rest) {
  Shape shape;
  if (rank_of(s) >= 3) shape.push_back(batch);
  if (rank_of(s) == 4) shape.push_back(heads);
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

CallSizes for_rank(CallSizes s) {
  if (rank_of(s) < 4) s.kv_heads = s.group = 1;
  if (rank_of(s) < 3) s.batch = 1;
  return s;
}

int32_t kind_of(const CallSizes &s) { return static_cast<int32_t>((s.choices >> 2 & 7) % 5); }
bool averages(const CallSizes &s) { return s.choice(14); }

Operands attention_operands(const CallSizes &given, int64_t key_dim) {
  const CallSizes s = for_rank(given);
  const int64_t heads = s.heads();
  // Keys and values of 8 bits, a scale for each row, or values of 4: not taken by every score function.
  const bool eight_bits = s.choice(26) && s.choice(27), four_bits = eight_bits && s.choice(28);
  const int64_t value_dim = four_bits ? 32 : s.value_dim;
  Operands list = {
      {"query", Role::input, of_rank(s, s.batch, heads, {s.queries, s.head_dim})},
      {"key", Role::input, of_rank(s, s.batch, s.kv_heads, {s.keys, key_dim})},
      {"value", Role::input, of_rank(s, s.batch, s.kv_heads, {s.keys, four_bits ? value_dim / 2 : value_dim})},
      {"out", Role::output, of_rank(s, s.batch, heads, {s.queries, value_dim})}};
  const Shape lens = s.choice(5) ? Shape{s.batch, s.queries} : Shape{s.batch};
  const Shape scores = s.choice(12)
                           ? Shape{s.queries, s.keys}
                           : of_rank(s, s.choice(15) ? 1 : s.batch, s.choice(16) ? 1 : heads, {s.queries, s.keys});
  list.push_back(
      optional(s.choice(6), {"valid_lens", Role::input, lens, true, s.choice(17) ? FOVEA_I32 : FOVEA_I64, s.keys}));
  list.push_back(optional(
      s.choice(24), {"query_offsets", Role::input, {s.batch}, true, s.choice(17) ? FOVEA_I32 : FOVEA_I64, s.keys}));
  list.push_back(optional(s.choice(7), {"mask", Role::input, scores, false, FOVEA_BOOL, 1}));
  list.push_back(optional(s.choice(8), {"bias", Role::input, scores}));
  list.push_back(optional(s.choice(9), {"alibi_slopes", Role::input, {heads}, true}));
  list.push_back(optional(s.choice(10), {"sinks", Role::input, {heads}, true}));
  list.push_back(optional(s.choice(11), {"log_sum_exp", Role::output, of_rank(s, s.batch, heads, {s.queries}), true}));
  const int64_t weighed = averages(s) ? 1 : heads;
  Shape weights = of_rank(s, s.batch, weighed, {s.queries, s.keys});
  if (averages(s) && rank_of(s) == 4) weights.erase(weights.begin() + 1);
  list.push_back(optional(s.choice(13), {"weights", Role::output, weights}));
  list.push_back(optional(s.choice(25), {"scores", Role::output, of_rank(s, s.batch, heads, {s.queries, s.keys})}));
  const auto scales_of = [&](const char *name, int64_t count) {
    const Shape shape = of_rank(s, s.batch, s.kv_heads, {s.keys, count});
    list.push_back(optional(eight_bits, {name, Role::input, shape, false, FOVEA_F16}));
  };
  scales_of("key_scales", 1);
  scales_of("value_scales", four_bits ? 2 : 1);
  // Kept by score functions that have hidden units, with keys that are not prepared.
  list.push_back({"", Role::output, {}});
  list.push_back({"", Role::output, {}});
  if (eight_bits) list[kKey].dtype = FOVEA_I8;
  if (eight_bits) list[kValue].dtype = four_bits ? FOVEA_U8 : FOVEA_I8;
  for (Operand &operand : list) {
    const bool averaged = operand.name == "weights" && averages(s);
    for (const char *name : {"query", "key", "value", "out", "bias", "weights", "scores"}) {
      if (operand.name == name && !averaged) operand.narrow = true;
    }
  }
  return list;
}

fovea_attention_options options_of(const CallSizes &s, const Tensors &t) {
  fovea_attention_options options{};
  options.struct_size = sizeof options;
  options.flags = (averages(s) && t[kWeights] != nullptr ? uint32_t{FOVEA_AVERAGE_WEIGHTS} : 0) |
                  (s.choice(18) ? uint32_t{FOVEA_CAUSAL} : 0) | (s.choice(19) ? uint32_t{FOVEA_QUERY_INVARIANT} : 0);
  options.empty_rows = static_cast<int32_t>((s.choices >> 20 & 3) % 3);
  options.dropout = s.choice(22) ? 0.25f : 0.0f;
  options.valid_lens = t[kLens];
  options.query_offsets = t[kOffsets];
  options.mask = t[kMask];
  options.bias = t[kBias];
  options.alibi_slopes = t[kSlopes];
  options.sinks = t[kSinks];
  options.log_sum_exp = t[kLogSumExp];
  options.weights = t[kWeights];
  options.scores = t[kScores];
  options.key_scales = t[kKeyScales];
  options.value_scales = t[kValueScales];
  options.projected_query = t[kProjectedQuery];
  options.projected_key = t[kProjectedKey];
  return options;
}

// ---- score functions ------------------------------------------------------------------------------------------------

int64_t key_dim_of(const CallSizes &s) {
  return kind_of(s) == FOVEA_SCORE_DOT || kind_of(s) == FOVEA_SCORE_GAUSSIAN ? s.head_dim : s.key_dim;
}

void add_score(const CallSizes &s, Role role, Operands *list) {
  const int32_t kind = kind_of(s);
  const bool additive = kind == FOVEA_SCORE_ADDITIVE, concat = kind == FOVEA_SCORE_CONCAT;
  const bool bilinear = kind == FOVEA_SCORE_BILINEAR;
  const Shape weight = bilinear ? Shape{s.head_dim, s.key_dim} : Shape{s.units, s.head_dim + s.key_dim};
  list->push_back(optional(additive, {"query_weight", role, {s.units, s.head_dim}, true}));
  list->push_back(optional(additive, {"key_weight", role, {s.units, s.key_dim}, true}));
  list->push_back(optional(bilinear || concat, {"weight", role, weight, true}));
  list->push_back(optional(concat && s.choice(23), {"score_bias", role, {s.units}, true}));
  list->push_back(optional(additive || concat, {"score_vector", role, {s.units}, true}));
  for (auto parameter = list->end() - 5; parameter != list->end(); ++parameter) parameter->narrow = true;
  const bool widths = kind == FOVEA_SCORE_GAUSSIAN && s.choice(23);
  list->push_back(optional(widths, {"sigmas", role, {for_rank(s).heads()}, true}));
}

fovea_score score_of(const CallSizes &s, const Tensors &t) {
  fovea_score score{};
  score.struct_size = sizeof score;
  score.kind = kind_of(s);
  score.query_weight = t[kScoreOperands];
  score.key_weight = t[kScoreOperands + 1];
  score.weight = t[kScoreOperands + 2];
  score.bias = t[kScoreOperands + 3];
  score.score_vector = t[kScoreOperands + 4];
  score.sigmas = t[kScoreOperands + 5];
  score.sigma = score.kind == FOVEA_SCORE_GAUSSIAN && score.sigmas == nullptr ? 1.5f : 0.0f;
  return score;
}

Operands scored_operands(const CallSizes &given) {
  Operands list = attention_operands(given, key_dim_of(given));
  add_score(given, Role::input, &list);
  const CallSizes s = for_rank(given);
  const bool keeps = kind_of(s) == FOVEA_SCORE_ADDITIVE || kind_of(s) == FOVEA_SCORE_CONCAT;
  list[kProjectedQuery] = optional(
      keeps && s.choice(30), {"projected_query", Role::output, of_rank(s, s.batch, s.heads(), {s.queries, s.units})});
  list[kProjectedKey] = optional(keeps && s.choice(31),
                                 {"projected_key", Role::output, of_rank(s, s.batch, s.kv_heads, {s.keys, s.units})});
  return list;
}

// ---- plans ----------------------------------------------------------------------------------------------------------

struct Destroy {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
  void operator()(fovea_prepared_keys *keys) const { fovea_prepared_keys_destroy(keys); }
};

void *data_of(const fovea_tensor *tensor) { return tensor == nullptr ? nullptr : tensor->data; }

// The plan's run, with as much workspace as it asks for: none where that is 0.
fovea_status run_plan(fovea_plan *made, const Tensors &t, bool has_key) {
  const std::unique_ptr<fovea_plan, Destroy> plan(made);
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  buffers.query = data_of(t[kQuery]);
  if (has_key) buffers.key = data_of(t[kKey]);
  buffers.value = data_of(t[kValue]);
  buffers.out = data_of(t[kOut]);
  buffers.valid_lens = data_of(t[kLens]);
  buffers.query_offsets = data_of(t[kOffsets]);
  buffers.mask = data_of(t[kMask]);
  buffers.bias = data_of(t[kBias]);
  buffers.alibi_slopes = data_of(t[kSlopes]);
  buffers.sinks = data_of(t[kSinks]);
  buffers.log_sum_exp = data_of(t[kLogSumExp]);
  buffers.weights = data_of(t[kWeights]);
  buffers.scores = data_of(t[kScores]);
  buffers.key_scales = data_of(t[kKeyScales]);
  buffers.value_scales = data_of(t[kValueScales]);
  buffers.projected_query = data_of(t[kProjectedQuery]);
  buffers.projected_key = data_of(t[kProjectedKey]);
  if (t.size() > kScoreOperands && has_key) {
    buffers.query_weight = data_of(t[kScoreOperands]);
    buffers.key_weight = data_of(t[kScoreOperands + 1]);
    buffers.weight = data_of(t[kScoreOperands + 2]);
    buffers.score_bias = data_of(t[kScoreOperands + 3]);
    buffers.score_vector = data_of(t[kScoreOperands + 4]);
    buffers.sigmas = data_of(t[kScoreOperands + 5]);
  }
  if (t.size() > kGradOut) {
    buffers.grad_out = data_of(t[kGradOut]);
    buffers.grad_log_sum_exp = data_of(t[kGradLogSumExp]);
    buffers.grad_weights = data_of(t[kGradWeights]);
    size_t at = kGradients;
    using B = fovea_attention_buffers;
    for (const auto member : {&B::grad_query, &B::grad_key, &B::grad_value, &B::grad_bias, &B::grad_alibi_slopes,
                              &B::grad_sinks, &B::grad_query_weight, &B::grad_key_weight, &B::grad_weight,
                              &B::grad_score_bias, &B::grad_score_vector, &B::grad_sigmas}) {
      buffers.*member = data_of(t[at++]);
    }
  }
  const size_t size = fovea_plan_workspace_size(made);
  if (size == 0) return fovea_attention_run(made, &buffers, nullptr, 0);
  if (size > size_t{1} << 26) return FOVEA_OUT_OF_MEMORY;
  std::vector<char> workspace(size);
  return fovea_attention_run(made, &buffers, workspace.data(), size);
}

fovea_status sdpa(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = options_of(s, t);
  return fovea_sdpa(s.context, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
}

fovea_status sdpa_planned(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = options_of(s, t);
  fovea_plan *plan = nullptr;
  const fovea_status status =
      fovea_sdpa_plan_create(s.context, t[kQuery], t[kKey], t[kValue], t[kOut], &options, &plan);
  return status != FOVEA_OK ? status : run_plan(plan, t, true);
}

fovea_status attention(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = options_of(s, t);
  const fovea_score score = score_of(s, t);
  return fovea_attention(s.context, &score, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
}

fovea_status attention_planned(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = options_of(s, t);
  const fovea_score score = score_of(s, t);
  fovea_plan *plan = nullptr;
  const fovea_status status =
      fovea_attention_plan_create(s.context, &score, t[kQuery], t[kKey], t[kValue], t[kOut], &options, &plan);
  return status != FOVEA_OK ? status : run_plan(plan, t, true);
}

// ---- the backward pass ----------------------------------------------------------------------------------------------

// Gradients have the names of what they belong to, as messages have them: "gradients.bias", "buffers.grad_bias".

Operands backward_operands(const CallSizes &given) {
  const CallSizes s = for_rank(given);
  Operands list = scored_operands(given);
  const std::vector<int64_t> rows = of_rank(s, s.batch, s.heads(), {s.queries});
  list[kOut].role = Role::input;
  list[kLogSumExp] = {"log_sum_exp", Role::input, rows, true};
  Operand weights = list[kWeights];
  weights.role = Role::input;
  weights.narrow = true;
  list[kWeights].name.clear();
  list[kScores].name.clear();
  list[kProjectedQuery].role = list[kProjectedKey].role = Role::input;
  const auto gradient_of = [&](int operand) {
    Operand gradient = list[static_cast<size_t>(operand)];
    gradient.role = Role::output;
    return gradient;
  };
  list.push_back(list[kOut]);
  list.push_back(optional(s.choice(28), {"log_sum_exp", Role::input, rows, true}));
  list.push_back(optional(s.choice(29), weights));
  for (const int operand : {static_cast<int>(kQuery), static_cast<int>(kKey), static_cast<int>(kValue),
                            static_cast<int>(kBias), static_cast<int>(kSlopes), static_cast<int>(kSinks)}) {
    list.push_back(gradient_of(operand));
  }
  for (int n = 0; n < 6; ++n) list.push_back(gradient_of(kScoreOperands + n));
  return list;
}

fovea_attention_gradients gradients_of(const Tensors &t) {
  using G = fovea_attention_gradients;
  fovea_attention_gradients gradients{};
  gradients.struct_size = sizeof gradients;
  size_t at = kGradOut;
  for (const auto member :
       {&G::out, &G::log_sum_exp, &G::weights, &G::query, &G::key, &G::value, &G::bias, &G::alibi_slopes, &G::sinks,
        &G::query_weight, &G::key_weight, &G::weight, &G::score_bias, &G::score_vector, &G::sigmas}) {
    gradients.*member = t[at++];
  }
  return gradients;
}

fovea_attention_options backward_options(const CallSizes &s, const Tensors &t) {
  fovea_attention_options options = options_of(s, t);
  if (averages(s) && t[kGradWeights] != nullptr) options.flags |= FOVEA_AVERAGE_WEIGHTS;
  return options;
}

fovea_status backward(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = backward_options(s, t);
  const fovea_attention_gradients gradients = gradients_of(t);
  const fovea_score score = score_of(s, t);
  return fovea_attention_backward(s.context, &score, t[kQuery], t[kKey], t[kValue], t[kOut], &options, &gradients);
}

fovea_status backward_planned(const CallSizes &s, const Tensors &t) {
  const fovea_attention_options options = backward_options(s, t);
  const fovea_attention_gradients gradients = gradients_of(t);
  const fovea_score score = score_of(s, t);
  fovea_plan *plan = nullptr;
  const fovea_status status = fovea_attention_backward_plan_create(s.context, &score, t[kQuery], t[kKey], t[kValue],
                                                                   t[kOut], &options, &gradients, &plan);
  return status != FOVEA_OK ? status : run_plan(plan, t, true);
}

// ---- prepared keys --------------------------------------------------------------------------------------------------

CallSizes with_prepared_kind(CallSizes s) {
  const uint64_t kind = FOVEA_SCORE_BILINEAR + (s.choices >> 2 & 7) % 3;
  s.choices = (s.choices & ~uint64_t{7 << 2}) | kind << 2;
  return s;
}

Operands prepared_operands(const CallSizes &given) {
  const CallSizes s = with_prepared_kind(given);
  Operands list = attention_operands(s, s.key_dim);
  list[kKey].role = Role::copied;
  add_score(s, Role::parameter, &list);
  return list;
}

fovea_status prepared(const CallSizes &given, const Tensors &t) {
  const CallSizes s = for_rank(with_prepared_kind(given));
  const fovea_attention_options options = options_of(s, t);
  const fovea_score score = score_of(s, t);
  fovea_prepared_keys *made = nullptr;
  fovea_status status =
      prepared_keys_create(s.context, &score, s.batch, s.kv_heads, s.keys, s.head_dim, s.key_dim, &made);
  const std::unique_ptr<fovea_prepared_keys, Destroy> keys(made);
  if (status == FOVEA_OK) status = fovea_prepared_keys_append(s.context, made, t[kKey]);
  if (status != FOVEA_OK) return status;
  status = fovea_attention_prepared(s.context, t[kQuery], made, t[kValue], t[kOut], &options);
  if (status != FOVEA_OK) return status;
  fovea_plan *plan = nullptr;
  status = fovea_attention_prepared_plan_create(s.context, t[kQuery], made, t[kValue], t[kOut], &options, &plan);
  if (status == FOVEA_OK) status = run_plan(plan, t, false);
  return status != FOVEA_OK ? status : fovea_prepared_keys_truncate(made, s.keys / 2);
}

// ---- regression, merging, masked softmax ----------------------------------------------------------------------------

Operands regression_operands(const CallSizes &s) {
  const bool vectors = s.choice(0);
  const auto matrix = [&](int64_t rows, int64_t columns) { return vectors ? Shape{rows} : Shape{rows, columns}; };
  Operands list = {{"queries", Role::input, matrix(s.rows, s.head_dim), vectors},
                   {"inputs", Role::input, matrix(s.columns, s.head_dim), vectors},
                   {"targets", Role::input, matrix(s.columns, s.value_dim), vectors},
                   {"out", Role::output, matrix(s.rows, s.value_dim), vectors},
                   optional(s.choice(1), {"weights", Role::output, {s.rows, s.columns}})};
  for (Operand &operand : list) operand.narrow = true;
  return list;
}

fovea_status regression(const CallSizes &s, const Tensors &t) {
  fovea_kernel_regression_options options{};
  options.struct_size = sizeof options;
  options.flags = s.choice(2) ? FOVEA_LEAVE_ONE_OUT : 0;
  options.weights = t[4];
  return fovea_kernel_regression(s.context, t[0], t[1], t[2], t[3], &options);
}

Operands merge_operands(const CallSizes &s) {
  Shape rows = {s.batch, s.rows};
  if (s.choice(0)) rows = {s.batch};
  if (s.choice(1)) rows = {s.batch, s.queries, s.rows, s.group};
  Shape outs = rows, lses = rows, out = rows;
  outs.insert(outs.begin(), s.keys);
  lses.insert(lses.begin(), s.keys);
  outs.push_back(s.columns);
  out.push_back(s.columns);
  return {{"outs", Role::input, outs, false, FOVEA_F32, 0, true},
          {"lses", Role::input, lses},
          {"out", Role::output, out, false, FOVEA_F32, 0, true},
          optional(s.choice(2), {"log_sum_exp", Role::output, rows})};
}

fovea_status merge(const CallSizes &s, const Tensors &t) {
  return fovea_merge_states(s.context, t[0], t[1], t[2], t[3]);
}

Operands softmax_operands(const CallSizes &s) {
  Shape shape = {s.batch, s.rows, s.columns};
  if (s.choice(0)) shape = {s.rows, s.columns};
  if (s.choice(1)) shape = {s.batch, s.kv_heads, s.group, s.rows, s.columns};
  const int64_t batch = shape.size() == 2 ? 1 : s.batch;
  const Shape lens = s.choice(2) ? Shape{batch, s.rows} : Shape{batch};
  return {
      {"x", Role::input, shape, false, FOVEA_F32, 0, true},
      {"out", Role::output, shape, false, FOVEA_F32, 0, true},
      optional(s.choice(3), {"valid_lens", Role::input, lens, true, s.choice(4) ? FOVEA_I32 : FOVEA_I64, s.columns})};
}

fovea_status softmax(const CallSizes &s, const Tensors &t) {
  return fovea_masked_softmax(s.context, t[0], t[2], t[1], nullptr);
}

}  // namespace

std::vector<Operation> attention_operations() {
  return {{"sdpa", [](const CallSizes &s) { return attention_operands(s, s.head_dim); }, sdpa},
          {"sdpa, planned", [](const CallSizes &s) { return attention_operands(s, s.head_dim); }, sdpa_planned},
          {"attention", scored_operands, attention},
          {"attention, planned", scored_operands, attention_planned},
          {"attention, backward", backward_operands, backward},
          {"attention, backward, planned", backward_operands, backward_planned},
          {"prepared keys", prepared_operands, prepared},
          {"kernel_regression", regression_operands, regression},
          {"merge_states", merge_operands, merge},
          {"masked_softmax", softmax_operands, softmax}};
}

}  // namespace testing
