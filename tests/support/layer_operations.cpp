// Building blocks and layers as operations, and what is common to all operations.
#include <memory>

#include "creation.hpp"
#include "operations.hpp"

namespace testing {
namespace {

struct Destroy {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};

// ---- matrix products ------------------------------------------------------------------------------------------------

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
  const fovea_linear_options options = {sizeof options, FOVEA_ACTIVATION_GELU, 0, t[3], t[4], nullptr};
  return fovea_linear(s.context, t[0], made, t[2], &options);
}

// ---- elementwise, positions, norms ----------------------------------------------------------------------------------

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

// ---- backward passes ------------------------------------------------------------------------------------------------

// Gradients have the names that messages have for them.

Operands element_gradient_operands(const CallSizes &s, const char *x) {
  const Shape shape = like_x(s, true)[0].shape;
  return {narrow({x, Role::input, shape}), narrow({"grad_out", Role::input, shape}),
          narrow({"grad_x", Role::output, shape})};
}

fovea_status activation_backward(const CallSizes &s, const Tensors &t) {
  return fovea_activation_backward(s.context, s.choice(3) ? FOVEA_ACTIVATION_SILU : FOVEA_ACTIVATION_GELU, t[0], t[1],
                                   t[2]);
}
fovea_status softmax_backward(const CallSizes &s, const Tensors &t) {
  const int32_t axis = t[0] == nullptr ? -1 : softmax_axis(s, t[0]->rank);
  return s.choice(3) ? fovea_softmax_backward(s.context, t[0], axis, t[1], t[2])
                     : fovea_log_softmax_backward(s.context, t[0], axis, t[1], t[2]);
}

Operands masked_softmax_gradient_operands(const CallSizes &s) {
  const Shape shape = {s.batch, s.rows, s.columns};
  Operands list = {narrow({"out", Role::input, shape}), narrow({"grad_out", Role::input, shape}),
                   narrow({"grad_x", Role::output, shape})};
  const Shape lens = s.choice(4) ? Shape{s.batch, s.rows} : Shape{s.batch};
  list.push_back(optional(s.choice(3), {"valid_lens", Role::input, lens, true, FOVEA_I64, s.columns}));
  return list;
}
fovea_status masked_softmax_backward(const CallSizes &s, const Tensors &t) {
  return fovea_masked_softmax_backward(s.context, t[0], t[3], t[1], t[2]);
}

Operands norm_gradient_operands(const CallSizes &s) {
  const Shape shape = like_x(s, true)[0].shape, features = {shape.back()};
  const bool weight = s.choice(3), bias = s.choice(4), residual = s.choice(5);
  return {narrow({"x", Role::input, shape}),
          optional(weight, narrow({"weight", Role::input, features})),
          optional(residual, narrow({"residual", Role::input, shape})),
          narrow({"gradients.out", Role::input, shape}),
          optional(residual && s.choice(6), narrow({"gradients.sum", Role::input, shape})),
          optional(s.choice(7), narrow({"gradients.x", Role::output, shape})),
          optional(weight, narrow({"gradients.weight", Role::output, features})),
          optional(bias, narrow({"bias", Role::input, features})),
          optional(bias, narrow({"gradients.bias", Role::output, features}))};
}

fovea_norm_gradients norm_gradients_of(const Tensors &t) {
  return {sizeof(fovea_norm_gradients), t[3], t[4], t[5], t[6], t.size() > 8 ? t[8] : nullptr};
}

fovea_status norm_backward(const CallSizes &s, const Tensors &t) {
  fovea_layer_norm_options options{};
  options.struct_size = sizeof options;
  options.weight = t[1];
  options.residual = t[2];
  options.bias = t[7];
  const fovea_norm_gradients gradients = norm_gradients_of(t);
  return fovea_layer_norm_backward(s.context, t[0], &options, &gradients);
}

Operands rms_norm_gradient_operands(const CallSizes &s) {
  Operands list = norm_gradient_operands(s);
  list.resize(7);
  return list;
}
fovea_status rms_norm_backward(const CallSizes &s, const Tensors &t) {
  fovea_rms_norm_options options{};
  options.struct_size = sizeof options;
  options.weight = t[1];
  options.residual = t[2];
  const fovea_norm_gradients gradients = norm_gradients_of(t);
  return fovea_rms_norm_backward(s.context, t[0], &options, &gradients);
}

Operands linear_gradient_operands(const CallSizes &s) {
  const bool rank3 = s.choice(0), bias = s.choice(2), multiplier = s.choice(3);
  const Shape weight = s.choice(1) ? Shape{s.columns, s.depth} : Shape{s.depth, s.columns};
  const Shape out = batched(rank3, s.batch, s.rows, s.columns), x = batched(rank3, s.batch, s.rows, s.depth);
  return {{"x", Role::input, x, true, FOVEA_F32, 0, true},
          {"weight", Role::input, weight, true, FOVEA_F32, 0, true},
          narrow({"gradients.out", Role::input, out}),
          optional(bias, {"bias", Role::input, {s.columns}, true, FOVEA_F32, 0, true}),
          optional(multiplier, narrow({"multiplier", Role::input, out})),
          optional(s.choice(4), narrow({"gradients.x", Role::output, x})),
          optional(s.choice(5), narrow({"gradients.weight", Role::output, weight})),
          optional(bias, {"gradients.bias", Role::output, {s.columns}, true, FOVEA_F32, 0, true}),
          optional(multiplier && s.choice(6), narrow({"gradients.multiplier", Role::output, out}))};
}

fovea_status linear_backward(const CallSizes &s, const Tensors &t) {
  fovea_linear_options options{};
  options.struct_size = sizeof options;
  options.activation = s.choice(7) ? FOVEA_ACTIVATION_GELU : FOVEA_ACTIVATION_NONE;
  options.bias = t[3];
  options.multiplier = t[4];
  const fovea_linear_gradients gradients = {sizeof gradients, t[2], t[5], t[6], t[7], t[8]};
  return fovea_linear_backward(s.context, t[0], t[1], s.choice(1) ? FOVEA_WEIGHT_OUT_IN : FOVEA_WEIGHT_IN_OUT, &options,
                               &gradients);
}

Operands merge_gradient_operands(const CallSizes &s) {
  const Shape outs = {s.few_heads, s.batch, s.rows, s.columns}, lses = {s.few_heads, s.batch, s.rows};
  const Shape out = {s.batch, s.rows, s.columns}, sums = {s.batch, s.rows};
  return {narrow({"outs", Role::input, outs}),
          {"lses", Role::input, lses},
          narrow({"gradients.out", Role::input, out}),
          optional(s.choice(0), {"gradients.log_sum_exp", Role::input, sums}),
          optional(s.choice(1), narrow({"gradients.outs", Role::output, outs})),
          optional(s.choice(2), {"gradients.lses", Role::output, lses})};
}

fovea_status merge_backward(const CallSizes &s, const Tensors &t) {
  const fovea_merge_gradients gradients = {sizeof gradients, t[2], t[3], t[4], t[5]};
  return fovea_merge_states_backward(s.context, t[0], t[1], &gradients);
}

// ---- numbers of 8 and of 4 bits -------------------------------------------------------------------------------------

// Rows of floats, and as numbers of 8 bits or of 4 with scales.
struct ScaledShapes {
  Shape floats, numbers, scales;
  fovea_dtype dtype;

  explicit ScaledShapes(const CallSizes &s) : dtype(s.choice(1) ? FOVEA_U8 : FOVEA_I8) {
    const int64_t paired = s.choice(1) ? 2 : 1, groups = s.choice(0) ? 1 : 2;
    const int64_t features = s.choice(1) ? 64 : s.choice(0) ? s.head_dim : 32;
    floats = {s.batch, s.rows, features};
    numbers = {s.batch, s.rows, features / paired};
    scales = {s.batch, s.rows, groups * paired};
  }
};

Operands quantize_operands(const CallSizes &s) {
  const ScaledShapes shapes(s);
  return {{"x", Role::input, shapes.floats, false, FOVEA_F32, 0, true},
          {"out", Role::output, shapes.numbers, false, shapes.dtype},
          {"scales", Role::output, shapes.scales, false, FOVEA_F16}};
}

fovea_status quantize(const CallSizes &s, const Tensors &t) { return fovea_quantize(s.context, t[0], t[1], t[2]); }

Operands dequantize_operands(const CallSizes &s) {
  const ScaledShapes shapes(s);
  return {{"q", Role::input, shapes.numbers, false, shapes.dtype},
          {"scales", Role::input, shapes.scales, false, FOVEA_F16},
          {"out", Role::output, shapes.floats, false, FOVEA_F32, 0, true}};
}

fovea_status dequantize(const CallSizes &s, const Tensors &t) { return fovea_dequantize(s.context, t[0], t[1], t[2]); }

}  // namespace

std::vector<Operation> layer_operations() {
  return {
      {"matmul", matmul_operands, matmul},
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
      {"activation_backward", [](const CallSizes &s) { return element_gradient_operands(s, "x"); },
       activation_backward},
      {"softmax_backward", [](const CallSizes &s) { return element_gradient_operands(s, "out"); }, softmax_backward},
      {"masked_softmax_backward", masked_softmax_gradient_operands, masked_softmax_backward},
      {"layer_norm_backward", norm_gradient_operands, norm_backward},
      {"rms_norm_backward", rms_norm_gradient_operands, rms_norm_backward},
      {"linear_backward", linear_gradient_operands, linear_backward},
      {"merge_states_backward", merge_gradient_operands, merge_backward},
      {"quantize", quantize_operands, quantize},
      {"dequantize", dequantize_operands, dequantize}};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all = attention_operations();
  for (Operation &operation : layer_operations()) all.push_back(std::move(operation));
  for (Operation &operation : serving_operations()) all.push_back(std::move(operation));
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
