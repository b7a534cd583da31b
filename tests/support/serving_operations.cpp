// Pools, schedules and multi-head attention, with a schedule and without, as operations.
#include <memory>

#include "operations.hpp"

namespace testing {
namespace {

struct Destroy {
  void operator()(fovea_kv_pool *pool) const { fovea_kv_pool_destroy(pool); }
  void operator()(fovea_mha_weights *weights) const { fovea_mha_weights_destroy(weights); }
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};

// ---- pools and schedules --------------------------------------------------------------------------------------------

fovea_tensor numbers(const int64_t *values, int64_t count) {
  return fovea_tensor_contiguous(values, FOVEA_I64, 1, &count);
}

// Two sequences that share the tokens of a step.
struct TwoSequences {
  explicit TwoSequences(int64_t tokens) : counts{tokens / 2, tokens - tokens / 2}, starts{0, tokens / 2, tokens} {}
  int64_t counts[2], starts[3], numbers_of_them[2] = {-1, -1};

  fovea_status open(const CallSizes &s, fovea_kv_pool *pool, fovea_step *step) {
    fovea_status status = fovea_kv_pool_open(pool, &numbers_of_them[0]);
    if (status == FOVEA_OK) status = fovea_kv_pool_open(pool, &numbers_of_them[1]);
    const fovea_tensor sequences = numbers(numbers_of_them, 2), tokens = numbers(counts, 2);
    return status != FOVEA_OK ? status : fovea_kv_pool_step(s.context, pool, &sequences, &tokens, step);
  }
};

fovea_status create_pool(int64_t kv_heads, int64_t dim, int64_t value_dim, int64_t tokens, fovea_kv_pool **pool) {
  fovea_kv_pool_sizes sizes{};
  sizes.struct_size = sizeof sizes;
  sizes.layers = 1;
  sizes.kv_heads = kv_heads;
  sizes.head_dim = dim;
  sizes.value_dim = value_dim;
  sizes.positions = tokens + 8;  // each of three sequences may begin a page
  sizes.page_size = 4;
  sizes.sequences = 3;
  return fovea_kv_pool_create(&sizes, pool);
}

// What else can be done with a sequence.
fovea_status pass_around(const CallSizes &s, fovea_kv_pool *pool, int64_t sequence) {
  std::vector<unsigned char> bytes(fovea_kv_pool_saved_size(pool, sequence));
  const int64_t length = fovea_kv_pool_length(pool, sequence);
  int64_t other = -1;
  fovea_status status = fovea_kv_pool_save(pool, sequence, bytes.data(), bytes.size());
  if (status == FOVEA_OK) status = fovea_kv_pool_restore(pool, bytes.data(), bytes.size(), &other);
  if (status == FOVEA_OK) status = fovea_kv_pool_close(pool, other);
  if (status == FOVEA_OK) status = fovea_kv_pool_fork(pool, sequence, length / 2, &other);
  if (status == FOVEA_OK) status = fovea_kv_pool_truncate(pool, sequence, length / 2);
  if (status == FOVEA_OK) status = fovea_kv_pool_drop(pool, sequence, length / 2);
  const int64_t one = 1;
  const fovea_tensor sequences = numbers(&other, 1), tokens = numbers(&one, 1);
  fovea_step step;
  if (status == FOVEA_OK) status = fovea_kv_pool_step(s.context, pool, &sequences, &tokens, &step);
  return status == FOVEA_OK ? fovea_kv_pool_close(pool, other) : status;
}

Operands schedule_operands(const CallSizes &s) {
  const Role role = s.choice(0) ? Role::input : Role::copied;
  return {{"query", Role::input, {s.units, s.heads(), s.head_dim}, false, FOVEA_F32, 0, true},
          {"key", role, {s.units, s.kv_heads, s.head_dim}, false, FOVEA_F32, 0, true},
          {"value", role, {s.units, s.kv_heads, s.value_dim}, false, FOVEA_F32, 0, true},
          {"out", Role::output, {s.units, s.heads(), s.value_dim}, false, FOVEA_F32, 0, true}};
}

fovea_status create_schedule(const CallSizes &s, const Tensors &t, const fovea_tensor *key, const fovea_tensor *value,
                             fovea_schedule **schedule) {
  fovea_schedule_limits limits{};
  limits.struct_size = sizeof limits;
  limits.sequences = 2;
  return fovea_schedule_create(s.context, nullptr, t[0], key, value, t[3], nullptr, &limits, schedule);
}

fovea_attention_buffers buffers_of(const Tensors &t) {
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  buffers.query = t[0] == nullptr ? nullptr : t[0]->data;
  buffers.key = t[1] == nullptr ? nullptr : t[1]->data;
  buffers.value = t[2] == nullptr ? nullptr : t[2]->data;
  buffers.out = t[3] == nullptr ? nullptr : t[3]->data;
  return buffers;
}

fovea_status packed_schedule(const CallSizes &s, const Tensors &t) {
  fovea_schedule *made = nullptr;
  fovea_status status = create_schedule(s, t, t[1], t[2], &made);
  const std::unique_ptr<fovea_schedule, Destroy> owner(made);
  const TwoSequences both(s.units);
  const fovea_tensor starts = numbers(both.starts, 3);
  fovea_step step{};
  step.struct_size = sizeof step;
  step.query_starts = step.key_starts = &starts;
  if (status == FOVEA_OK) status = fovea_schedule_set(made, &step);
  const fovea_attention_buffers buffers = buffers_of(t);
  return status == FOVEA_OK ? fovea_schedule_run(made, &buffers, nullptr, 0) : status;
}

fovea_status schedule(const CallSizes &s, const Tensors &t) {
  if (s.choice(0)) return packed_schedule(s, t);
  fovea_kv_pool *pool = nullptr;
  fovea_status status = create_pool(s.kv_heads, s.head_dim, s.value_dim, s.units, &pool);
  const std::unique_ptr<fovea_kv_pool, Destroy> pool_owner(pool);
  TwoSequences both(s.units);
  fovea_step step;
  if (status == FOVEA_OK) status = both.open(s, pool, &step);
  if (status != FOVEA_OK) return status;
  const fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
  fovea_schedule *made = nullptr;
  status = create_schedule(s, t, &keys, &values, &made);
  const std::unique_ptr<fovea_schedule, Destroy> owner(made);
  if (status == FOVEA_OK) status = fovea_schedule_set(made, &step);
  fovea_attention_buffers buffers = buffers_of(t);
  buffers.key = keys.data;
  buffers.value = values.data;
  if (status == FOVEA_OK) status = fovea_schedule_append(made, t[1], t[2], &keys, &values, nullptr);
  if (status == FOVEA_OK) status = fovea_schedule_run(made, &buffers, nullptr, 0);
  return status == FOVEA_OK ? pass_around(s, pool, both.numbers_of_them[1]) : status;
}

// ---- multi-head attention -------------------------------------------------------------------------------------------

enum { kQuery, kKey, kValue, kOut, kLens, kPositions, kWq, kWk, kWv, kWo, kBq, kBo, kSigmas };

bool with_schedule(const CallSizes &s) { return s.choice(6); }

// features: of an input. `role`: of the weights. `scheduled`: over two sequences, whose keys go into pages.
Operands mha_operands(const CallSizes &given, int64_t features, Role role, bool scheduled) {
  CallSizes s = given;
  if (scheduled) s.queries = s.keys = s.units;
  const bool rank3 = s.choice(0) && !scheduled;
  const int64_t batch = rank3 ? s.batch : 1, heads = 2 * s.few_heads, dim = s.head_dim + s.head_dim % 2;
  const Role kept = scheduled ? Role::copied : Role::input;
  const auto weight = [&](int64_t outputs, int64_t inputs) {
    return s.choice(1) ? Shape{outputs, inputs} : Shape{inputs, outputs};
  };
  const Shape lens = s.choice(8) ? Shape{batch, s.queries} : Shape{batch};
  Operands list = {{"query", Role::input, batched(rank3, batch, s.queries, features)},
                   optional(s.choice(2) || scheduled, {"key", kept, batched(rank3, batch, s.keys, features)}),
                   optional(s.choice(3), {"value", kept, batched(rank3, batch, s.keys, features)}),
                   {"out", Role::output, batched(rank3, batch, s.queries, features)},
                   optional(s.choice(4) && !scheduled,
                            {"valid_lens", Role::input, lens, true, FOVEA_I64, s.choice(2) ? s.keys : s.queries}),
                   optional(s.choice(5) && s.choice(7), {"positions", Role::input, {s.queries}, true, FOVEA_I32, 1000}),
                   {"query_weight", role, weight(heads * dim, features), true},
                   {"key_weight", role, weight(s.few_heads * dim, features), true},
                   {"value_weight", role, weight(s.few_heads * s.value_dim, features), true},
                   {"out_weight", role, weight(features, heads * s.value_dim), true},
                   optional(s.choice(9), {"query_bias", role, {heads * dim}, true}),
                   optional(s.choice(10), {"out_bias", role, {features}, true}),
                   optional(s.choice(11) && !scheduled, {"sigmas", Role::input, {heads}, true})};
  for (const int n : {kQuery, kKey, kValue, kOut, kWq, kWk, kWv, kWo, kBq, kBo})
    list[static_cast<size_t>(n)].narrow = true;
  return list;
}

fovea_mha_parameters parameters_of(const CallSizes &s, const Tensors &t) {
  fovea_mha_parameters parameters{};
  parameters.struct_size = sizeof parameters;
  parameters.layout = s.choice(1) ? FOVEA_WEIGHT_OUT_IN : FOVEA_WEIGHT_IN_OUT;
  parameters.heads = 2 * s.few_heads;
  parameters.kv_heads = s.few_heads;
  parameters.query_weight = t[kWq];
  parameters.key_weight = t[kWk];
  parameters.value_weight = t[kWv];
  parameters.out_weight = t[kWo];
  parameters.query_bias = t[kBq];
  parameters.out_bias = t[kBo];
  return parameters;
}

fovea_status multi_head(const CallSizes &s, const Tensors &t, fovea_mha_weights *weights,
                        const fovea_mha_options &pages) {
  fovea_attention_options attention{};
  attention.struct_size = sizeof attention;
  attention.valid_lens = t[kLens];
  fovea_rotary_options rotary{};
  rotary.struct_size = sizeof rotary;
  rotary.positions = t[kPositions];
  fovea_score gaussian{};
  gaussian.struct_size = sizeof gaussian;
  gaussian.kind = FOVEA_SCORE_GAUSSIAN;
  gaussian.sigmas = t[kSigmas];
  fovea_mha_options options = pages;
  options.struct_size = sizeof options;
  options.attention = &attention;
  options.score = t[kSigmas] == nullptr ? nullptr : &gaussian;
  options.rotary = s.choice(5) ? &rotary : nullptr;
  if (weights != nullptr) {
    return fovea_multi_head_attention(s.context, weights, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
  }
  const fovea_mha_parameters parameters = parameters_of(s, t);
  return fovea_multi_head_attention_once(s.context, &parameters, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
}

// Keeps float32, as its pages do.
fovea_status scheduled(const CallSizes &s, const Tensors &t, fovea_mha_weights *weights) {
  const int64_t dim = s.head_dim + s.head_dim % 2;
  fovea_kv_pool *pool = nullptr;
  fovea_status status = create_pool(s.few_heads, dim, s.value_dim, s.units, &pool);
  const std::unique_ptr<fovea_kv_pool, Destroy> pool_owner(pool);
  TwoSequences both(s.units);
  fovea_step step;
  if (status == FOVEA_OK) status = both.open(s, pool, &step);
  if (status != FOVEA_OK) return status;
  const int64_t query_shape[] = {s.units, 2 * s.few_heads, dim}, out_shape[] = {s.units, 2 * s.few_heads, s.value_dim};
  const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, query_shape);
  const fovea_tensor out = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, out_shape);
  const fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
  fovea_schedule *made = nullptr;
  status = create_schedule(s, {&query, nullptr, nullptr, &out}, &keys, &values, &made);
  const std::unique_ptr<fovea_schedule, Destroy> owner(made);
  if (status == FOVEA_OK) status = fovea_schedule_set(made, &step);
  fovea_mha_options options{};
  options.schedule = made;
  options.key_pages = &keys;
  options.value_pages = &values;
  return status == FOVEA_OK ? multi_head(s, t, weights, options) : status;
}

fovea_status mha(const CallSizes &s, const Tensors &t) {
  const fovea_mha_parameters parameters = parameters_of(s, t);
  fovea_mha_weights *made = nullptr;
  fovea_status status = fovea_mha_weights_create(s.context, &parameters, &made);
  const std::unique_ptr<fovea_mha_weights, Destroy> weights(made);
  if (status != FOVEA_OK) return status;
  return with_schedule(s) ? scheduled(s, t, made) : multi_head(s, t, made, {});
}

fovea_status mha_once(const CallSizes &s, const Tensors &t) { return multi_head(s, t, nullptr, {}); }

// Behind the forward call's: gradients, by the names that messages have for them.
Operands mha_gradient_operands(const CallSizes &s) {
  Operands list = mha_operands(s, s.depth, Role::input, false);
  list[kOut].name.clear();
  const auto gradient_of = [&](int operand, bool wanted) {
    Operand gradient = list[static_cast<size_t>(operand)];
    if (!gradient.name.empty()) gradient.name = "gradients." + gradient.name;
    gradient.role = Role::output;
    gradient.any_stride = operand == kBq || operand == kBo;
    return optional(wanted, gradient);
  };
  Operand out = list[kOut];
  out.name = "gradients.out";
  out.role = Role::input;
  const bool inputs = s.choice(12), weights = s.choice(13);
  list.push_back(out);
  for (const int operand : {kQuery, kKey, kValue}) list.push_back(gradient_of(operand, inputs));
  for (const int operand : {kWq, kWk, kWv, kWo, kBq, kBo}) list.push_back(gradient_of(operand, weights));
  return list;
}

fovea_status mha_backward(const CallSizes &s, const Tensors &t) {
  fovea_attention_options attention{};
  attention.struct_size = sizeof attention;
  attention.valid_lens = t[kLens];
  fovea_rotary_options rotary{};
  rotary.struct_size = sizeof rotary;
  rotary.positions = t[kPositions];
  fovea_score gaussian{};
  gaussian.struct_size = sizeof gaussian;
  gaussian.kind = FOVEA_SCORE_GAUSSIAN;
  gaussian.sigmas = t[kSigmas];
  fovea_mha_options options{};
  options.struct_size = sizeof options;
  options.attention = &attention;
  options.score = t[kSigmas] == nullptr ? nullptr : &gaussian;
  options.rotary = s.choice(5) ? &rotary : nullptr;
  fovea_mha_gradients gradients{};
  gradients.struct_size = sizeof gradients;
  size_t at = kSigmas + 1;
  using G = fovea_mha_gradients;
  for (const auto member : {&G::out, &G::query, &G::key, &G::value, &G::query_weight, &G::key_weight, &G::value_weight,
                            &G::out_weight, &G::query_bias, &G::out_bias}) {
    gradients.*member = t[at++];
  }
  const fovea_mha_parameters parameters = parameters_of(s, t);
  return fovea_multi_head_attention_backward(s.context, &parameters, t[kQuery], t[kKey], t[kValue], &options,
                                             &gradients);
}

}  // namespace

std::vector<Operation> serving_operations() {
  return {{"schedule", schedule_operands, schedule},
          {"multi_head_attention",
           [](const CallSizes &s) { return mha_operands(s, s.units, Role::parameter, with_schedule(s)); }, mha},
          {"multi_head_attention_once", [](const CallSizes &s) { return mha_operands(s, s.depth, Role::input, false); },
           mha_once},
          {"multi_head_attention_backward", mha_gradient_operands, mha_backward}};
}

}  // namespace testing
