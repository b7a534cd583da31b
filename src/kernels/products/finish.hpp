// From sums to results: out = activation(scale sums + bias) multiplier + residual_scale residual, each operand of its
// own type. Kernels of every element type share this code.
#pragma once

#include "kernels/products/activation.hpp"
#include "kernels/products/panels.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// What a row of sums meets, its elements as floats; null: nothing.
struct RowOperands {
  const float *bias, *multiplier, *residual;
};

// `columns` elements of a row: from sums to out.
template <class Element, class Activate>
FOVEA_INLINE void finish_row(const MatmulTask &task, const float *sums, const RowOperands &with, Element *out,
                             int64_t columns, const Activate &activate) {
  const Float scale = splat(task.scale), residual_scale = splat(task.residual_scale);
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    Float value = load(sums + c) * scale;
    if (with.bias != nullptr) value = value + load(with.bias + c);
    value = activate(value);
    if (with.multiplier != nullptr) value = value * load(with.multiplier + c);
    if (with.residual != nullptr) value = value + load(with.residual + c) * residual_scale;
    store(out + c, value);
  }
  if (c == columns) return;
  const int64_t width = columns - c;
  Float value = load(sums + c) * scale;
  if (with.bias != nullptr) value = value + load_partial(with.bias + c, width);
  value = activate(value);
  if (with.multiplier != nullptr) value = value * load_partial(with.multiplier + c, width);
  if (with.residual != nullptr) value = value + load_partial(with.residual + c, width) * residual_scale;
  store_partial(out + c, value, width);
}

// Where conversions take long, results of 16 bits are floats first: each activation is there once instead of once for
// each type.
template <class Activate>
FOVEA_INLINE void finish_rows(const MatmulFinish &finish, const Activate &activate) {
  const MatmulTask &task = finish.task;
  FloatsOf bias, multiplier, residual;
  RowOperands with = {};
  with.bias = bias(task.bias, task.bias_dtype, finish.column, finish.columns);
  const auto finish_each = [&](const auto &finish_one) FOVEA_INLINE_BODY {
    const float *sums = finish.sums;
    for (int64_t r = finish.row; r < finish.row + finish.rows; ++r, sums += finish.sums_stride) {
      const int64_t at = r * task.residual_row_stride, column = finish.column;
      with.multiplier =
          multiplier(task.multiplier, task.multiplier_dtype, r * task.multiplier_row_stride + column, finish.columns);
      with.residual = task.residual_is_column
                          ? residual.repeated(task.residual, task.residual_dtype, at, finish.columns)
                          : residual(task.residual, task.residual_dtype, at + column, finish.columns);
      finish_one(sums, r * task.out_row_stride + column);
    }
  };
  if constexpr (converts_quickly) {
    with_element(task.out_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      finish_each([&](const float *sums, int64_t at) FOVEA_INLINE_BODY {
        finish_row(task, sums, with, static_cast<typename T::Element *>(task.out) + at, finish.columns, activate);
      });
    });
  } else {
    FloatsOf floats;
    const bool narrows = is_widened(task.out_dtype);
    finish_each([&](const float *sums, int64_t at) FOVEA_INLINE_BODY {
      void *out = element_at(task.out, task.out_dtype, at);
      finish_row(task, sums, with, narrows ? floats.room : static_cast<float *>(out), finish.columns, activate);
      if (narrows) narrow_row(floats.room, finish.columns, out, task.out_dtype);
    });
  }
}

void finish_sums(const MatmulFinish &sums) {
  const auto finish = [&](auto activate) FOVEA_INLINE_BODY { finish_rows(sums, activate); };
  switch (sums.task.activation) {
    case Activation::none: return finish([](const Float &x) FOVEA_INLINE_BODY { return x; });
    case Activation::relu: return finish([](const Float &x) FOVEA_INLINE_BODY { return relu(x); });
    case Activation::gelu: return finish([](const Float &x) FOVEA_INLINE_BODY { return gelu(x); });
    case Activation::gelu_tanh: return finish([](const Float &x) FOVEA_INLINE_BODY { return gelu_tanh(x); });
    case Activation::silu: return finish([](const Float &x) FOVEA_INLINE_BODY { return silu(x); });
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
