// Gradients of softmax p and of its logarithm l from what they gave:
//
//   p (g - sum p g)        g - e^l sum g
//
// over rows, whose keys follow each other, and over columns, whose keys lie apart: a strip of neighbouring columns at a
// time. Sums are floats for a piece of keys and float64 beyond. Each gradient is read twice.
#pragma once

#include "kernels/math/exp.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rowwise/gradient_problem.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// What a key adds to the sum, and its gradient once that is known.
template <bool log>
FOVEA_INLINE Float added_by(const Float &out, const Float &g, const Float &sum) {
  return log ? sum + g : multiply_add(out, g, sum);
}
template <bool log>
FOVEA_INLINE Float softmax_back(const Float &out, const Float &g, const Float &sum) {
  if constexpr (log) return g - exp_register(out) * sum;
  return out * (g - sum);
}

template <bool log>
FOVEA_NOINLINE void softmax_gradient_row(const SoftmaxGradientRows &rows, const SoftmaxGradientRow &row) {
  alignas(64) float out_floats[piece_floats], grad_floats[piece_floats];
  const float *out = nullptr, *grad = nullptr;
  const auto for_each_piece = [&](const auto &body) FOVEA_INLINE_BODY {
    for (int64_t first = 0; first < row.valid_len; first += piece_floats) {
      const int64_t count = min_of(piece_floats, row.valid_len - first);
      out = read_piece(row.out, rows.types.out, first, count, out_floats);
      grad = read_piece(row.grad_out, rows.types.grad_out, first, count, grad_floats);
      body(first, count);
    }
  };
  RowSum sums;
  for_each_piece([&](int64_t, int64_t count) FOVEA_INLINE_BODY {
    int64_t i = 0;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      sums.first = added_by<log>(load(out + i), load(grad + i), sums.first);
      sums.second = added_by<log>(load(out + i + lanes), load(grad + i + lanes), sums.second);
    }
    for (; i < count; i += lanes) {
      const int64_t left = min_of(count - i, lanes);
      sums.first = added_by<log>(load_partial(out + i, left), load_partial(grad + i, left), sums.first);
    }
    sums.finish_piece();
  });
  const Float sum = splat(static_cast<float>(sums.total));
  for_each_piece([&](int64_t first, int64_t count) FOVEA_INLINE_BODY {
    float *to = written_piece(row.grad_x, rows.types.grad_x, first, grad_floats);
    for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      store_up_to(to + i, softmax_back<log>(load_up_to(out + i, width), load_up_to(grad + i, width), sum), width);
    });
    put_piece(to, row.grad_x, rows.types.grad_x, first, count);
  });
}

void softmax_gradient_rows(const SoftmaxGradientRows &rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxGradientRow &row = rows.row[r];
    rows.log ? softmax_gradient_row<true>(rows, row) : softmax_gradient_row<false>(rows, row);
    with_element(rows.types.grad_x, [&]<class T>(T) FOVEA_INLINE_BODY {
      auto *grad_x = static_cast<typename T::Element *>(row.grad_x);
      fill_run(grad_x + row.valid_len, rows.key_len - row.valid_len, 0.0f);
    });
  }
}

template <bool log>
FOVEA_NOINLINE void softmax_gradient_strip(const SoftmaxGradientColumns &all) {
  constexpr int64_t keys_of_piece = 64;
  alignas(64) float out_floats[softmax_gradient_columns], grad_floats[softmax_gradient_columns];
  alignas(64) float sums[softmax_gradient_columns];
  double totals[softmax_gradient_columns] = {};
  const float *out = nullptr, *grad = nullptr;
  const auto read = [&](int64_t key) FOVEA_INLINE_BODY {
    out = read_piece(all.out, all.types.out, key * all.out_stride, all.columns, out_floats);
    grad = read_piece(all.grad_out, all.types.grad_out, key * all.grad_out_stride, all.columns, grad_floats);
  };
  for (int64_t begin = 0; begin < all.key_len; begin += keys_of_piece) {
    for (int64_t i = 0; i < softmax_gradient_columns; i += lanes) store(sums + i, zero());
    for (int64_t key = begin; key < min_of(begin + keys_of_piece, all.key_len); ++key) {
      read(key);
      for_each_register(all.columns, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
        const Float more = added_by<log>(load_up_to(out + i, width), load_up_to(grad + i, width), load(sums + i));
        store(sums + i, more);
      });
    }
    for (int64_t i = 0; i < all.columns; ++i) totals[i] += static_cast<double>(sums[i]);
  }
  for (int64_t i = 0; i < all.columns; ++i) sums[i] = static_cast<float>(totals[i]);
  for (int64_t key = 0; key < all.key_len; ++key) {
    read(key);
    const int64_t at = key * all.grad_x_stride;
    float *to = written_piece(all.grad_x, all.types.grad_x, at, grad_floats);
    for_each_register(all.columns, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      const Float g = load_up_to(grad + i, width);
      store_up_to(to + i, softmax_back<log>(load_up_to(out + i, width), g, load(sums + i)), width);
    });
    put_piece(to, all.grad_x, all.types.grad_x, at, all.columns);
  }
}

void softmax_gradient_columns_of(const SoftmaxGradientColumns &all) {
  all.log ? softmax_gradient_strip<true>(all) : softmax_gradient_strip<false>(all);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
