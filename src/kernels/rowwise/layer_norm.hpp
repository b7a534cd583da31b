// Layer and RMS normalisation of rows, y = x + residual: what is known of a row once it has been read.
//
//   out = (y - mean) / sqrt(variance + epsilon) * weight + bias
//   out = y / sqrt(mean of y^2 + epsilon) * weight
//
// Mean and variance come from chunks that stay in the first-level cache, each read twice: for its mean, and for the
// squares of its deviations from that mean as rounded to a float. The sum of the same deviations, which would be zero
// but for that rounding, corrects both (Chan, Golub and LeVeque 1983, "corrected two-pass"), and chunks are merged in
// float64 by the same paper's rule. So a mean that is large beside the deviations costs nothing: y - mean is exact
// there, and the part of the mean that a float cannot hold is subtracted after it. In rows that are all but constant,
// deviations are so few steps of the last bit that their sums are exact too. A mean square is a variance from a mean of 0,
// whose chunks are read once for it; all that comes after is the same code.
//
// Rows of 16 bits that become the same type take one pass for that: deviations are from the mean of their first step
// (kernels/steps.hpp). With n numbers in that step and N in the row, the squared distance between their mean and the row's
// is at most N / n times the variance, so the correction takes at most 6 of the 24 bits of float32, 7 with AVX2, where the
// result has 8 or 11.
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "kernels/steps.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t norm_chunk = 2048;  // floats: 16 kB with a residual

// y = x, or x + residual (void: there is none), whose types differ only where a step is one register. `scaled`: each is multiplied
// by a power of two first.
template <class X_, class Residual, bool scaled = false>
struct NormInput {
  using X = X_;
  static constexpr bool has_residual = !same_type<Residual, void>;
  const X *x;
  const Residual *residual;
  float factor;

  FOVEA_INLINE NormInput(const void *row_x, const void *row_residual, float its_factor = 1.0f)
      : x(static_cast<const X *>(row_x)), residual(static_cast<const Residual *>(row_residual)), factor(its_factor) {}

  // `count` elements from i on, up to a step of `registers`; behind them are zeros.
  template <int registers>
  FOVEA_INLINE void read(int64_t i, int64_t count, Float *value) const {
    const auto read_from = [&](const auto *from, Float *its) FOVEA_INLINE_BODY {
      read_or_zeros<registers>(from + i, count, its);
      if constexpr (scaled) unroll<registers>([&](auto v) FOVEA_INLINE_BODY { its[v] = its[v] * splat(factor); });
    };
    read_from(x, value);
    if constexpr (has_residual) {
      Float more[registers];
      read_from(residual, more);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = value[v] + more[v]; });
    }
  }
};

// How many elements were seen so far, their mean, and the sum of their squared deviations from it.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  void merge(const Moments &more) {
    const double total = count + more.count;
    const double apart = more.mean - mean;
    mean += apart * (more.count / total);
    squares += more.squares + apart * apart * (count * more.count / total);
    count = total;
  }
};

// body(Index<which sum is the first>, Index<registers>, i, count, value) for all of a chunk: four registers at a time, or a step
// where that is two, and what is left. So many sums are taken, in this order, which a type's results depend on.
template <int registers>
constexpr int sums_of_steps = registers == 1 ? 4 : registers;

template <int registers, class Input, class Body>
FOVEA_INLINE void for_each_step(const Input &y, int64_t begin, int64_t end, const Body &body) {
  constexpr int sums = sums_of_steps<registers>;
  constexpr int64_t step = registers * lanes;
  Float value[sums];
  int64_t i = begin;
  for (; i + sums * lanes <= end; i += sums * lanes) {
    unroll<sums / registers>(
        [&](auto s) FOVEA_INLINE_BODY { y.template read<registers>(i + s * step, step, value + s * registers); });
    body(Index<0>{}, Index<sums>{}, i, sums * lanes, value);
  }
  for (; i + step <= end; i += step) {
    y.template read<registers>(i, step, value);
    body(Index<0>{}, Index<registers>{}, i, step, value);
  }
  if (i == end) return;
  y.template read<registers>(i, end - i, value);
  body(Index<registers == 1>{}, Index<registers>{}, i, end - i, value);
}

template <int registers>
FOVEA_INLINE float sum_of(const Float *sum) {
  if constexpr (registers == 1) return horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  return horizontal_sum(sum[0] + sum[registers - 1]);
}

// each(Index<registers>, i, value) does something else with what has been read.
template <class Input, class Each>
FOVEA_INLINE float chunk_sum(const Input &y, int64_t begin, int64_t end, const Each &each) {
  Float sum[4] = {zero(), zero(), zero(), zero()};
  for_each_step<1>(y, begin, end, [&](auto first, auto held, int64_t i, int64_t, const Float *value) FOVEA_INLINE_BODY {
    unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { sum[first + v] = sum[first + v] + value[v]; });
    each(held, i, value);
  });
  return sum_of<1>(sum);
}

// The moments of a chunk whose mean is near `pivot`; without a mean its mean square, as the variance of numbers whose mean is 0.
template <int registers, bool centred, class Input, class Each>
FOVEA_INLINE Moments chunk_moments(const Input &y, int64_t begin, int64_t end, float pivot, const Each &each) {
  constexpr int sums = sums_of_steps<registers>;
  const auto count = static_cast<double>(end - begin);
  const double share = 1.0 / count;  // long done when the sums are
  Float sum[sums], squares[sums];
  unroll<sums>([&](auto v) FOVEA_INLINE_BODY { sum[v] = squares[v] = zero(); });
  const auto add = [&](auto first, auto held, int64_t i, int64_t some, const Float *value) FOVEA_INLINE_BODY {
    constexpr int its = decltype(held)::value;
    Float ones[its];
    const bool part = centred && some < its * lanes;
    if (part) ones_of_first<its, typename Input::X>(some, ones);
    unroll<its>([&](auto v) FOVEA_INLINE_BODY {
      constexpr int at = decltype(first)::value + decltype(v)::value;
      Float deviation = centred ? value[v] - splat(pivot) : value[v];
      if (part) deviation = deviation * ones[v];
      if constexpr (centred) sum[at] = sum[at] + deviation;
      squares[at] = multiply_add(deviation, deviation, squares[at]);
    });
    each(held, i, value);
  };
  for_each_step<registers>(y, begin, end, add);
  const double all_squares = sum_of<registers>(squares);
  if constexpr (!centred) return {count, 0.0, all_squares};
  const double left = sum_of<registers>(sum);
  return {count, static_cast<double>(pivot) + left * share, all_squares - left * left * share};
}

// Squares of deviations are neither denormal, or near it, nor infinite nor NaN.
FOVEA_INLINE bool fits_floats(double spread) { return spread > 0x1p-90 && spread < __builtin_inf(); }

FOVEA_INLINE void put_statistics(const NormRows &rows, int64_t r, double mean, double spread) {
  if (rows.mean != nullptr) rows.mean[r] = static_cast<float>(mean);
  if (rows.inverse_deviation != nullptr) rows.inverse_deviation[r] = static_cast<float>(1.0 / __builtin_sqrt(spread));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
