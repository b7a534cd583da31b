// The moments of a row's chunks: how many elements, their mean, the sum of the squares of their deviations from it.
//
// A chunk stays in the first-level cache and is read twice: for its mean, and for the squares of its deviations from
// that mean as rounded to a float. The sum of the same deviations, which would be zero but for that rounding, corrects
// both (Chan, Golub and LeVeque 1983, "corrected two-pass"), and chunks are merged in float64 by the same paper's rule.
// So a mean that is large beside the deviations costs nothing: y - mean is exact there, and the part of the mean that a
// float cannot hold is subtracted after it. In rows that are all but constant, deviations are so few steps of the last
// bit that their sums are exact too.
//
// Rows of 16 bits throughout take one pass for that: deviations are from the mean of a chunk's first step
// (kernels/steps.hpp). With n numbers in that step and N in the chunk, the squared distance between their mean and the
// chunk's is at most N / n times the variance, so the correction takes at most 6 of the 24 bits of float32, 7 with
// AVX2, where the result has 8 or 11.
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "kernels/steps.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t norm_chunk = 2048;  // floats: 16 kB with a residual

// y = x, or x + residual (void: there is none).
template <class X, class Residual>
struct NormInput {
  using Element = X;
  static constexpr bool has_residual = !same_type<Residual, void>;
  const X *x;
  const Residual *residual;

  FOVEA_INLINE NormInput(const void *row_x, const void *row_residual, int64_t begin)
      : x(static_cast<const X *>(row_x) + begin), residual(static_cast<const Residual *>(row_residual)) {
    if constexpr (has_residual) residual += begin;
  }

  // `count` elements from i on, up to a step of `registers`; behind them are zeros.
  template <int registers>
  FOVEA_INLINE void read(int64_t i, int64_t count, Float *value) const {
    read_or_zeros<registers>(x + i, count, value);
    if constexpr (has_residual) {
      Float more[registers];
      read_or_zeros<registers>(residual + i, count, more);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = value[v] + more[v]; });
    }
  }
  // level: of the caches, 1 or 2.
  template <int level>
  FOVEA_INLINE void prefetch(int64_t i) const {
    __builtin_prefetch(x + i, 0, 4 - level);
    if constexpr (has_residual) __builtin_prefetch(residual + i, 0, 4 - level);
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
    // Infinite means have no difference.
    squares + more.squares < __builtin_inf() ? mean += apart * (more.count / total) : mean += more.mean;
    squares += more.squares + apart * apart * (count * more.count / total);
    count = total;
  }
};

// So many sums are taken side by side, which a type's results depend on.
template <int registers>
constexpr int norm_sums = registers == 1 ? 4 : registers;

// body(Index<which sum is the first>, Index<registers>, i, count, value) for all of a chunk.
template <int registers, class Input, class Body>
FOVEA_INLINE void for_each_step(const Input &y, int64_t count, const Body &body) {
  constexpr int sums = norm_sums<registers>;
  constexpr int64_t step = registers * lanes;
  Float value[sums];
  int64_t i = 0;
  for (const int64_t whole = count / (sums * lanes) * (sums * lanes); i < whole; i += sums * lanes) {
    unroll<sums / registers>(
        [&](auto s) FOVEA_INLINE_BODY { y.template read<registers>(i + s * step, step, value + s * registers); });
    body(Index<0>{}, Index<sums>{}, i, sums * lanes, value);
  }
  for (; i + step <= count; i += step) {
    y.template read<registers>(i, step, value);
    body(Index<0>{}, Index<registers>{}, i, step, value);
  }
  if (i == count) return;
  y.template read<registers>(i, count - i, value);
  body(Index<registers == 1>{}, Index<registers>{}, i, count - i, value);
}

template <int registers>
FOVEA_INLINE float sum_of(const Float *sum) {
  return horizontal_sum(registers == 1 ? (sum[0] + sum[1]) + (sum[2] + sum[3]) : sum[0] + sum[1]);
}

// A chunk's mean, rounded to a float; of pairs the mean of their first step.
template <int registers, class Input>
FOVEA_INLINE float pivot_of(const Input &y, int64_t count) {
  Float sum[4] = {zero(), zero(), zero(), zero()};
  if constexpr (registers == 2) {
    const int64_t some = min_of(count, registers * lanes);
    y.template read<registers>(0, some, sum);
    return sum_of<2>(sum) / static_cast<float>(some);
  }
  for_each_step<1>(y, count, [&](auto first, auto held, int64_t, int64_t, const Float *value) FOVEA_INLINE_BODY {
    unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { sum[first + v] = sum[first + v] + value[v]; });
  });
  return static_cast<float>(static_cast<double>(sum_of<1>(sum)) * (1.0 / static_cast<double>(count)));
}

// The moments of a chunk; without a mean its mean square, as the variance of numbers whose mean is 0. each(Index<how
// many registers are read>, i, value) does something else with what has been read.
template <int registers, bool centred, class Input, class Each>
FOVEA_INLINE Moments moments_of(const Input &y, int64_t chunk, const Each &each) {
  const auto count = static_cast<double>(chunk);
  const double share = 1.0 / count;  // long done when the sums are
  const float pivot = centred ? pivot_of<registers>(y, chunk) : 0.0f;
  Float sum[norm_sums<registers>], squares[norm_sums<registers>];
  unroll<norm_sums<registers>>([&](auto v) FOVEA_INLINE_BODY { sum[v] = squares[v] = zero(); });
  const auto add = [&](auto first, auto held, int64_t i, int64_t some, const Float *value) FOVEA_INLINE_BODY {
    constexpr int its = decltype(held)::value;
    Float ones[its];
    const bool part = centred && some < its * lanes;
    if (part) ones_of_first<its, typename Input::Element>(some, ones);
    unroll<its>([&](auto v) FOVEA_INLINE_BODY {
      Float deviation = centred ? value[v] - splat(pivot) : value[v];
      if (part) deviation = deviation * ones[v];
      if constexpr (centred) sum[first + v] = sum[first + v] + deviation;
      squares[first + v] = multiply_add(deviation, deviation, squares[first + v]);
    });
    each(held, i, value);
  };
  for_each_step<registers>(y, chunk, add);
  const double all_squares = sum_of<registers>(squares);
  if constexpr (!centred) return {count, 0.0, all_squares};
  const double left = sum_of<registers>(sum);
  // Deviations from an infinite mean are NaN, and so would be the mean that they correct.
  const double mean = pivot - pivot == 0 ? static_cast<double>(pivot) + left * share : static_cast<double>(pivot);
  return {count, mean, all_squares - left * left * share};
}

template <int registers, class Input, class Each>
FOVEA_INLINE Moments chunk_moments(NormKind kind, const Input &y, int64_t count, const Each &each) {
  return kind == NormKind::rms ? moments_of<registers, false>(y, count, each)
                               : moments_of<registers, true>(y, count, each);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
