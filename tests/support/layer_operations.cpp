// Building blocks and layers as operations, and what is common to all operations.
#include <memory>

#include "creation.hpp"
#include "operations.hpp"

namespace testing {
namespace {

struct Destroy {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
  void operator()(fovea_kv_cache *cache) const { fovea_kv_cache_destroy(cache); }
  void operator()(fovea_mha_weights *weights) const { fovea_mha_weights_destroy(weights); }
};

Operand optional(bool given, Operand operand) {
  if (!given) operand.name.clear();
  return operand;
}

// ---- matrix products -------------------------------------------------------------------------------------------------

Shape batched(bool wanted, int64_t batch, int64_t rows, int64_t columns) {
  return wanted ? Shape{batch, rows, columns} : Shape{rows, columns};
}

Operands matmul_operands(const CallSizes &s) {
  const bool rank3 = s.choice(0);
  if (rank3 && s.choice(3)) {
    const auto rank4 = [&](bool own, int64_t rows, int64_t columns) {
      return Shape{own ? s.batch : 1, s.choice(4) ? s.kv_heads : 1, rows, columns};
    };
    return {{"a", Role::input, rank4(s.choice(1), s.rows, s.depth), true, FOVEA_F32, 0, true},
            {"b", Role::input, rank4(s.choice(2), s.depth, s.columns), true, FOVEA_F32, 0, true},
            {"out", Role::output, {s.batch, s.kv_heads, s.rows, s.columns}, false, FOVEA_F32, 0, true}};
  }
  const Shape a = batched(rank3 && s.choice(1), s.batch, s.rows, s.depth),
              b = batched(rank3 && s.choice(2), s.batch, s.depth, s.columns);
  return {{"a", Role::input, a, true, FOVEA_F32, 0, true},
          {"b", Role::input, b, true, FOVEA_F32, 0, true},
          {"out", Role::output, batched(rank3, s.batch, s.rows, s.columns), false, FOVEA_F32, 0, true}};
}

fovea_status matmul(const CallSizes &s, const Tensors &t) { return fovea_matmul(s.context, t[0], t[1], t[2]); }

Operands gemm_operands(const CallSizes &s) {
  Operands list = matmul_operands(s);
  Shape c = list[2].shape;
  if (s.choice(6)) c.back() = 1;
  if (s.choice(7)) c.erase(c.begin());
  list.push_back(optional(s.choice(5), {"c", Role::input, c, false, FOVEA_F32, 0, true}));
  return list;
}

fovea_status gemm(const CallSizes &s, const Tensors &t) {
  fovea_gemm_options options{};
  options.struct_size = sizeof options;
  options.alpha = s.choice(8) ? -0.5f : 0;
  options.c = t[3];
  return fovea_gemm(s.context, t[0], t[1], t[2], &options);
}

// Through fovea_matmul_pack, and through fovea_matmul_packed too.
bool packs_plainly(const CallSizes &s) { return !s.choice(1) && s.choice(4); }
bool multiplies_plainly(const CallSizes &s) { return packs_plainly(s) && s.choice(5); }

Operands linear_operands(const CallSizes &s) {
  const bool rank3 = s.choice(0), plain = multiplies_plainly(s);
  const Shape weight = s.choice(1) ? Shape{s.columns, s.depth} : Shape{s.depth, s.columns};
  const Shape out = batched(rank3, s.batch, s.rows, s.columns);
  const Shape x = batched(rank3, s.batch, s.rows, s.depth);
  return {{plain ? "a" : "x", Role::input, x, true, FOVEA_F32, 0, true},
          {packs_plainly(s) ? "b" : "weight", Role::copied, weight, true, FOVEA_F32, 0, true},
          {"out", Role::output, out, false, FOVEA_F32, 0, true},
          optional(s.choice(2) && !plain, {"bias", Role::input, {s.columns}, true, FOVEA_F32, 0, true}),
          optional(s.choice(3) && !plain, {"residual", Role::input, out, false, FOVEA_F32, 0, true})};
}

fovea_status linear(const CallSizes &s, const Tensors &t) {
  fovea_packed_matrix *made = nullptr;
  const bool plain = packs_plainly(s);
  const int32_t layout = s.choice(1) ? FOVEA_WEIGHT_OUT_IN : FOVEA_WEIGHT_IN_OUT;
  const fovea_status status =
      plain ? fovea_matmul_pack(s.context, t[1], nullptr, &made) : linear_pack(s.context, t[1], layout, &made);
  const std::unique_ptr<fovea_packed_matrix, Destroy> packed(made);
  if (status != FOVEA_OK) return status;
  if (multiplies_plainly(s)) return fovea_matmul_packed(s.context, t[0], made, t[2]);
  const fovea_linear_options options = {sizeof options, FOVEA_ACTIVATION_GELU, 0, t[3], t[4]};
  return fovea_linear(s.context, t[0], made, t[2], &options);
}

// ---- elementwise, positions, norms -----------------------------------------------------------------------------------

// Which takes F16 and BF16, too.
Operand narrow(Operand operand) {
  operand.narrow = true;
  return operand;
}

Operands like_x(const CallSizes &s, bool rank1) {
  Shape shape = {s.batch, s.rows, s.columns};
  if (s.choice(0)) shape = {s.rows, s.columns};
  if (s.choice(1)) shape = {s.batch, s.kv_heads, s.group, s.rows, s.columns};
  if (rank1 && s.choice(2)) shape = {s.columns};
  return {narrow({"x", Role::input, shape}), narrow({"out", Role::output, shape})};
}

fovea_status elementwise(const CallSizes &s, const Tensors &t) {
  return s.choice(3) ? fovea_exp(s.context, t[0], t[1]) : fovea_tanh(s.context, t[0], t[1]);
}

Operands encoding_operands(const CallSizes &s) { return {narrow({"out", Role::output, {s.rows, s.columns}})}; }

fovea_status encoding(const CallSizes &s, const Tensors &t) {
  return fovea_positional_encoding(s.context, t[0], nullptr);
}

fovea_status add_encoding(const CallSizes &s, const Tensors &t) {
  fovea_positional_encoding_options options{};
  options.struct_size = sizeof options;
  options.dropout = s.choice(3) ? 0.5f : 0.0f;
  return fovea_add_positional_encoding(s.context, t[0], t[1], &options);
}

// What turns rows, beside a base: frequencies, sections, a table by position, one by row.
enum class Turns { base, frequencies, sections, by_position, by_row };

Turns turns_of(const CallSizes &s) {
  if (s.choice(7)) return s.choice(8) ? Turns::frequencies : Turns::sections;
  return s.choice(8) ? s.choice(9) ? Turns::by_position : Turns::by_row : Turns::base;
}

Operands rotary_operands(const CallSizes &s) {
  Operands list = like_x(s, false);
  for (Operand &operand : list) operand.shape.back() += operand.shape.back() % 2;
  const Turns turns = turns_of(s);
  const int64_t batch = list[0].shape.size() == 2 ? 1 : s.batch, pairs = list[0].shape.back() / 2;
  Shape positions = s.choice(3) ? Shape{batch, s.rows} : Shape{s.rows};
  if (turns == Turns::sections) positions.insert(positions.begin(), 3);
  const fovea_dtype dtype = s.choice(4) ? FOVEA_I32 : FOVEA_I64;
  const bool placed = turns == Turns::sections || (s.choice(5) && turns != Turns::by_row);
  const bool table = turns == Turns::by_position || turns == Turns::by_row;
  const Shape turned = turns == Turns::by_row ? Shape{batch, s.rows, pairs} : Shape{1001, pairs};
  list.push_back(optional(placed, {"positions", Role::input, positions, true, dtype, 1000}));
  list.push_back(optional(turns == Turns::frequencies, {"frequencies", Role::input, {pairs}, true}));
  list.push_back(optional(turns == Turns::sections, {"sections", Role::input, {pairs}, true, dtype, 2}));
  list.push_back(optional(table, narrow({"cosines", Role::input, turned})));
  list.push_back(optional(table, narrow({"sines", Role::input, turned})));
  return list;
}

fovea_status rotary(const CallSizes &s, const Tensors &t) {
  fovea_rotary_options options{};
  options.struct_size = sizeof options;
  options.flags = s.choice(6) ? FOVEA_ROTARY_INTERLEAVED : 0;
  options.positions = t[2];
  options.frequencies = t[3];
  options.sections = t[4];
  options.cosines = t[5];
  options.sines = t[6];
  return fovea_rotary(s.context, t[0], t[1], &options);
}

Operands frequencies_operands(const CallSizes &s) {
  return {{"frequencies", Role::output, {s.rows}, true},
          optional(s.choice(3), {"attention_factor", Role::output, {1}, true}),
          optional(s.choice(4), {"short_factors", Role::input, {s.rows}, true}),
          optional(s.choice(4), {"long_factors", Role::input, {s.rows}, true})};
}

fovea_status frequencies(const CallSizes &s, const Tensors &t) {
  fovea_rotary_frequencies_options options{};
  options.struct_size = sizeof options;
  options.kind = s.choice(4) ? FOVEA_FREQUENCIES_LONGROPE : FOVEA_FREQUENCIES_LINEAR;
  options.base = 500;
  options.factor = 4;
  if (s.choice(4)) {
    options.original_length = 64;
    options.short_factors = t[2];
    options.long_factors = t[3];
  }
  return fovea_rotary_frequencies(t[0], t[1], &options);
}

Operands slopes_operands(const CallSizes &s) { return {{"out", Role::output, {s.rows}, true}}; }

fovea_status slopes(const CallSizes &, const Tensors &t) { return fovea_alibi_slopes(t[0]); }

// Over an axis behind that of the batch.
int32_t softmax_axis(const CallSizes &s, int32_t rank) { return rank < 2 || s.choice(4) ? -1 : -2; }

fovea_status softmax_over_axis(const CallSizes &s, const Tensors &t) {
  return fovea_softmax(s.context, t[0], t[0] == nullptr ? -1 : softmax_axis(s, t[0]->rank), t[1]);
}
fovea_status log_softmax(const CallSizes &s, const Tensors &t) {
  return fovea_log_softmax(s.context, t[0], t[0] == nullptr ? -1 : softmax_axis(s, t[0]->rank), t[1]);
}

fovea_status activation(const CallSizes &s, const Tensors &t) {
  const int32_t kind = s.choice(3)   ? FOVEA_ACTIVATION_SILU
                       : s.choice(4) ? FOVEA_ACTIVATION_GELU
                                     : FOVEA_ACTIVATION_RELU;
  return fovea_activation(s.context, kind, t[0], t[1]);
}

Operands norm_operands(const CallSizes &s) {
  Operands list = like_x(s, true);
  const Shape rows(list[0].shape.begin(), list[0].shape.end() - 1);
  const bool residual = s.choice(5), statistics = !rows.empty();
  list.push_back(optional(s.choice(3), narrow({"weight", Role::input, {s.columns}})));
  list.push_back(optional(residual, narrow({"residual", Role::input, list[0].shape})));
  list.push_back(optional(residual && s.choice(6), narrow({"sum", Role::output, list[0].shape})));
  list.push_back(optional(statistics && s.choice(7), {"inverse_deviation", Role::output, rows, true}));
  list.push_back(optional(s.choice(4), narrow({"bias", Role::input, {s.columns}})));
  list.push_back(optional(statistics && s.choice(8), {"mean", Role::output, rows, true}));
  return list;
}

fovea_status norm(const CallSizes &s, const Tensors &t) {
  fovea_layer_norm_options options{};
  options.struct_size = sizeof options;
  options.weight = t[2];
  options.residual = t[3];
  options.sum = t[4];
  options.inverse_deviation = t[5];
  options.bias = t[6];
  options.mean = t[7];
  return fovea_layer_norm(s.context, t[0], t[1], &options);
}

Operands rms_norm_operands(const CallSizes &s) {
  Operands list = norm_operands(s);
  list.resize(6);
  return list;
}

fovea_status rms_norm(const CallSizes &s, const Tensors &t) {
  fovea_rms_norm_options options{};
  options.struct_size = sizeof options;
  options.flags = s.choice(9) ? FOVEA_NORM_WEIGHT_FROM_ONE : 0;
  options.weight = t[2];
  options.residual = t[3];
  options.sum = t[4];
  options.inverse_deviation = t[5];
  return fovea_rms_norm(s.context, t[0], t[1], &options);
}

// ---- key/value caches ------------------------------------------------------------------------------------------------

Operands cache_operands(const CallSizes &s) {
  return {{"key", Role::copied, {s.batch, s.kv_heads, s.keys, s.head_dim}, false, FOVEA_F32, 0, true},
          {"value", Role::copied, {s.batch, s.kv_heads, s.keys, s.value_dim}, false, FOVEA_F32, 0, true},
          {"query", Role::input, {s.batch, s.heads(), s.queries, s.head_dim}, false, FOVEA_F32, 0, true},
          {"out", Role::output, {s.batch, s.heads(), s.queries, s.value_dim}, false, FOVEA_F32, 0, true},
          {"source", Role::input, {s.batch}, true, s.choice(0) ? FOVEA_I32 : FOVEA_I64, s.batch - 1}};
}

fovea_status save_and_restore(const fovea_kv_cache *cache) {
  std::vector<unsigned char> bytes(fovea_kv_cache_saved_size(cache));
  fovea_kv_cache *restored = nullptr;
  fovea_status status = fovea_kv_cache_save(cache, bytes.data(), bytes.size());
  if (status == FOVEA_OK) status = fovea_kv_cache_restore(bytes.data(), bytes.size(), 0, &restored);
  fovea_kv_cache_destroy(restored);
  return status;
}

fovea_status cache(const CallSizes &s, const Tensors &t) {
  const fovea_kv_cache_sizes sizes = {sizeof sizes, s.batch, s.kv_heads, s.keys, s.head_dim, s.value_dim, FOVEA_F32, 0};
  fovea_kv_cache *made = nullptr;
  fovea_status status = fovea_kv_cache_create(&sizes, &made);
  const std::unique_ptr<fovea_kv_cache, Destroy> owner(made);
  if (status == FOVEA_OK) status = fovea_kv_cache_append(s.context, made, t[0], t[1]);
  if (status == FOVEA_OK) status = fovea_kv_cache_reorder(s.context, made, t[4]);
  if (status == FOVEA_OK) status = fovea_kv_cache_attend(s.context, made, nullptr, t[2], t[3], nullptr);
  if (status == FOVEA_OK) status = save_and_restore(made);
  return status != FOVEA_OK ? status : fovea_kv_cache_truncate(made, s.keys / 2);
}

// ---- multi-head attention --------------------------------------------------------------------------------------------

enum { kQuery, kKey, kValue, kOut, kLens, kPositions, kWq, kWk, kWv, kWo, kBq, kBo, kSigmas };

bool with_cache(const CallSizes &s) { return s.choice(6); }

// features: of an input. `role`: of the weights.
Operands mha_operands(const CallSizes &s, int64_t features, Role role, bool cached) {
  const bool rank3 = s.choice(0);
  const int64_t batch = rank3 ? s.batch : 1, heads = 2 * s.few_heads, dim = s.head_dim + s.head_dim % 2;
  const Role kept = cached ? Role::copied : Role::input;
  const auto weight = [&](int64_t outputs, int64_t inputs) {
    return s.choice(1) ? Shape{outputs, inputs} : Shape{inputs, outputs};
  };
  const Shape lens = s.choice(8) ? Shape{batch, s.queries} : Shape{batch};
  Operands list = {{"query", Role::input, batched(rank3, batch, s.queries, features)},
                   optional(s.choice(2) || cached, {"key", kept, batched(rank3, batch, s.keys, features)}),
                   optional(s.choice(3), {"value", kept, batched(rank3, batch, s.keys, features)}),
                   {"out", Role::output, batched(rank3, batch, s.queries, features)},
                   optional(s.choice(4), {"valid_lens", Role::input, lens, true, FOVEA_I64,
                                          s.choice(2) || cached ? s.keys : s.queries}),
                   optional(s.choice(5) && s.choice(7), {"positions", Role::input, {s.queries}, true, FOVEA_I32, 1000}),
                   {"query_weight", role, weight(heads * dim, features), true},
                   {"key_weight", role, weight(s.few_heads * dim, features), true},
                   {"value_weight", role, weight(s.few_heads * s.value_dim, features), true},
                   {"out_weight", role, weight(features, heads * s.value_dim), true},
                   optional(s.choice(9), {"query_bias", role, {heads * dim}, true}),
                   optional(s.choice(10), {"out_bias", role, {features}, true}),
                   optional(s.choice(11), {"sigmas", Role::input, {heads}, true})};
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

fovea_status multi_head(const CallSizes &s, const Tensors &t, fovea_mha_weights *weights, fovea_kv_cache *cache) {
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
  options.cache = cache;
  if (weights != nullptr) {
    return fovea_multi_head_attention(s.context, weights, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
  }
  const fovea_mha_parameters parameters = parameters_of(s, t);
  return fovea_multi_head_attention_once(s.context, &parameters, t[kQuery], t[kKey], t[kValue], t[kOut], &options);
}

fovea_status mha(const CallSizes &s, const Tensors &t) {
  const fovea_mha_parameters parameters = parameters_of(s, t);
  fovea_mha_weights *made = nullptr;
  fovea_status status = fovea_mha_weights_create(s.context, &parameters, &made);
  const std::unique_ptr<fovea_mha_weights, Destroy> weights(made);
  if (status != FOVEA_OK) return status;
  fovea_kv_cache *cache = nullptr;
  if (with_cache(s)) {
    const int64_t dim = s.head_dim + s.head_dim % 2;
    const fovea_kv_cache_sizes sizes = {
        sizeof sizes, s.choice(0) ? s.batch : 1, s.few_heads, s.keys, dim, s.value_dim, FOVEA_F32, 0};
    status = fovea_kv_cache_create(&sizes, &cache);
  }
  const std::unique_ptr<fovea_kv_cache, Destroy> owner(cache);
  return status != FOVEA_OK ? status : multi_head(s, t, made, cache);
}

fovea_status mha_once(const CallSizes &s, const Tensors &t) { return multi_head(s, t, nullptr, nullptr); }

}  // namespace

std::vector<Operation> layer_operations() {
  return {{"matmul", matmul_operands, matmul},
          {"gemm", gemm_operands, gemm},
          {"linear", linear_operands, linear},
          {"exp, tanh", [](const CallSizes &s) { return like_x(s, true); }, elementwise},
          {"positional_encoding", encoding_operands, encoding},
          {"add_positional_encoding", [](const CallSizes &s) { return like_x(s, false); }, add_encoding},
          {"rotary", rotary_operands, rotary},
          {"rotary_frequencies", frequencies_operands, frequencies},
          {"alibi_slopes", slopes_operands, slopes},
          {"layer_norm", norm_operands, norm},
          {"rms_norm", rms_norm_operands, rms_norm},
          {"softmax", [](const CallSizes &s) { return like_x(s, true); }, softmax_over_axis},
          {"log_softmax", [](const CallSizes &s) { return like_x(s, true); }, log_softmax},
          {"activation", [](const CallSizes &s) { return like_x(s, true); }, activation},
          {"kv_cache", cache_operands, cache},
          {"multi_head_attention",
           [](const CallSizes &s) { return mha_operands(s, s.units, Role::parameter, with_cache(s)); }, mha},
          {"multi_head_attention_once", [](const CallSizes &s) { return mha_operands(s, s.depth, Role::input, false); },
           mha_once}};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all = attention_operations();
  for (Operation &operation : layer_operations()) all.push_back(std::move(operation));
  return all;
}

bool computes(const Operands &operands) {
  for (const Operand &operand : operands) {
    if (operand.name.empty() || (operand.role != Role::output && operand.role != Role::copied)) continue;
    bool empty = false;
    for (const int64_t size : operand.shape) empty = empty || size == 0;
    if (!empty) return true;
  }
  return false;
}

std::string describe(const Operation &operation, const Operands &operands, const std::vector<fovea_tensor> &tensors) {
  std::string text = operation.name + ":";
  const auto add_numbers = [&](const char *before, const int64_t *numbers, int32_t count, const char *after) {
    text += before;
    for (int32_t n = 0; n < count; ++n) {
      if (n > 0) text += ",";
      text += std::to_string(numbers[n]);
    }
    text += after;
  };
  for (size_t n = 0; n < operands.size(); ++n) {
    if (operands[n].name.empty()) continue;
    text += " " + operands[n].name;
    add_numbers(" [", tensors[n].shape, tensors[n].rank, "]");
    add_numbers(" strides (", tensors[n].strides, tensors[n].rank, ")");
  }
  return text;
}

}  // namespace testing
