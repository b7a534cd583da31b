// Layer and RMS normalisation of rows, y = x + residual:
//
//   out = (y - mean) / sqrt(variance + epsilon) * weight + bias
//   out = y / sqrt(mean of y^2 + epsilon) * weight
//
// Mean and variance come from chunks that stay in the first-level cache, each read twice: for its mean, and for the
// squares of its deviations from that mean as rounded to a float. The sum of the same deviations, which would be zero
// but for that rounding, corrects both (Chan, Golub and LeVeque 1983, "corrected two-pass"), and chunks are merged in
// float64 by the same paper's rule. So a mean that is large beside the deviations costs nothing: y - mean is exact
// there, and the part of the mean that a float cannot hold is subtracted after it. In rows that are all but constant,
// deviations are so few steps of the last bit that their sums are exact too. A row of up to one chunk is fetched from
// memory once, a longer one twice. A mean square is a variance from a mean of 0, whose chunks are read once for it; all
// that comes after is the same code.
//
// Where y is wanted, too, it is written together with out, when both of its terms have been read for the last time.
//
// Rows of 16 bits throughout take one pass for that: deviations are from the mean of a chunk's first step
// (kernels/steps.hpp). With n numbers in that step and N in the chunk, the squared distance between their mean and the
// chunk's is at most N / n times the variance, so the correction takes at most 6 of the 24 bits of float32, 7 with
// AVX2, where the result has 8 or 11.
//
// Rows whose squares leave the range of float32 are read again times a power of two, with epsilon times its square:
// beside the ordinary passes about twice their time. That changes no bit of a result. Where the mean is 2^20 deviations
// or more, y times that power might be infinite: it is of y - mean, which is exact, and of 0 in a row of equal numbers.
// So one factor serves all squares that are too small, 2^90: of the smallest numbers there are they are 2^-118, and of
// the largest deviations that did not fit, 2^-45 in a row's mean, 2^90.
#pragma once

#include "kernels/pieces.hpp"
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
    // Of infinite means that were no number.
    squares + more.squares < __builtin_inf() ? mean += apart * (more.count / total) : mean += more.mean;
    squares += more.squares + apart * apart * (count * more.count / total);
    count = total;
  }
};

constexpr int norm_sums = 4;  // are taken side by side: a type's results depend on it

// body(Index<which sum is the first>, Index<registers>, i, count, value) for all of a chunk.
template <int registers, class Input, class Body>
FOVEA_INLINE void for_each_step(const Input &y, int64_t count, const Body &body) {
  constexpr int64_t step = registers * lanes, steps = norm_sums * lanes;
  Float value[norm_sums];
  int64_t i = 0;
  for (const int64_t whole = count / steps * steps; i < whole; i += steps) {
    unroll<norm_sums / registers>(
        [&](auto s) FOVEA_INLINE_BODY { y.template read<registers>(i + s * step, step, value + s * registers); });
    body(Index<0>{}, Index<norm_sums>{}, i, steps, value);
  }
  for (; i + step <= count; i += step) {
    y.template read<registers>(i, step, value);
    body(Index<0>{}, Index<registers>{}, i, step, value);
  }
  if (i == count) return;
  y.template read<registers>(i, count - i, value);
  body(Index<registers>{}, Index<registers>{}, i, count - i, value);
}

FOVEA_INLINE float sum_of(const Float *sum) { return horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3])); }

// A chunk's mean, rounded to a float; of pairs the mean of their first step.
template <int registers, class Input>
FOVEA_INLINE float pivot_of(const Input &y, int64_t count) {
  Float sum[norm_sums] = {zero(), zero(), zero(), zero()};
  if constexpr (registers == 2) {
    const int64_t some = min_of(count, registers * lanes);
    y.template read<registers>(0, some, sum);
    return sum_of(sum) / static_cast<float>(some);
  }
  for_each_step<1>(y, count, [&](auto first, auto held, int64_t, int64_t, const Float *value) FOVEA_INLINE_BODY {
    unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { sum[first + v] = sum[first + v] + value[v]; });
  });
  return static_cast<float>(static_cast<double>(sum_of(sum)) * (1.0 / static_cast<double>(count)));
}

// The moments of a chunk; without a mean its mean square, as the variance of numbers whose mean is 0. each(Index<how
// many registers are read>, i, value) does something else with what has been read.
template <int registers, bool centred, class Input, class Each>
FOVEA_INLINE Moments moments_of(const Input &y, int64_t chunk, const Each &each) {
  const auto count = static_cast<double>(chunk);
  const double share = 1.0 / count;  // long done when the sums are
  const float pivot = centred ? pivot_of<registers>(y, chunk) : 0.0f;
  Float sum[norm_sums], squares[norm_sums];
  unroll<norm_sums>([&](auto v) FOVEA_INLINE_BODY { sum[v] = squares[v] = zero(); });
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
  const double all_squares = sum_of(squares);
  if constexpr (!centred) return {count, 0.0, all_squares};
  const double left = sum_of(sum);
  const double mean = pivot - pivot == 0 ? static_cast<double>(pivot) + left * share : static_cast<double>(pivot);
  return {count, mean, all_squares - left * left * share};
}

template <int registers, class Input, class Each>
FOVEA_INLINE Moments chunk_moments(NormKind kind, const Input &y, int64_t count, const Each &each) {
  return kind == NormKind::rms ? moments_of<registers, false>(y, count, each)
                               : moments_of<registers, true>(y, count, each);
}

// (y - mean) * scale + shift, shift being what the mean's rounding left.
struct NormScale {
  float mean, scale, shift;

  NormScale() = default;
  FOVEA_INLINE NormScale(const Moments &moments, double spread, NormKind kind)
      : mean(static_cast<float>(moments.mean)) {
    const double exact_scale = 1.0 / __builtin_sqrt(spread);
    scale = static_cast<float>(exact_scale);
    // Without a mean the sign of 0 is kept, too.
    const double rest = kind == NormKind::rms ? -0.0 : static_cast<double>(mean) - moments.mean;
    shift = static_cast<float>(rest * exact_scale);
  }
};

// Squares of deviations are neither denormal, or near it, nor infinite nor NaN.
FOVEA_INLINE bool fits_floats(double spread) { return spread > 0x1p-90 && spread < __builtin_inf(); }

// (y - less) times `factor`, a power of two: less is 0 unless factor is more than 1.
struct Reading {
  float factor = 1.0f, less = 0.0f;

  Reading() = default;
  // How a row is read again that does not fit, after what it gave as it lies. Of sums of 2^129 a chunk's squares still
  // add up to less than 2^128.
  FOVEA_INLINE Reading(double mean, double spread) : factor(spread <= 0x1p-90 ? 0x1p90f : 0x1p-74f) {
    if (spread <= 0x1p-90 && mean * mean > 0x1p40 * spread) less = static_cast<float>(mean);
  }
  FOVEA_INLINE bool is_again() const { return factor != 1.0f; }
};

// y of a chunk of any types, read so, as floats: in `room`, or x itself.
FOVEA_NOINLINE const float *read_chunk(const Reading &reading, const NormRow &row, const NormRows &rows, int64_t begin,
                                       int64_t count, float *room) {
  const bool grows = reading.factor > 1.0f;
  const float before = grows ? 1.0f : reading.factor, after = grows ? reading.factor : 1.0f;  // a sum may be infinite
  const auto read = [&]<class X, class Residual>(Type<X>, Type<Residual>) FOVEA_INLINE_BODY {
    const NormInput<X, Residual> from(row.x, row.residual, begin);
    for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      Float y = load_up_to(from.x + i, width) * before;
      if constexpr (from.has_residual) y = y + load_up_to(from.residual + i, width) * before;
      store(room + i, (y - reading.less) * after);
    });
  };
  if (rows.types.x == Dtype::f32 && row.residual == nullptr && !reading.is_again()) {
    return static_cast<const float *>(row.x) + begin;
  }
  with_element(rows.types.x, [&](auto x) FOVEA_INLINE_BODY {
    if (row.residual == nullptr) return read(x, Type<void>{});
    with_element(rows.types.residual, [&](auto residual) FOVEA_INLINE_BODY { read(x, residual); });
  });
  return room;
}

FOVEA_NOINLINE Moments float_moments(NormKind kind, const float *y, int64_t count) {
  const auto nothing_else = [](auto, int64_t, const Float *) FOVEA_INLINE_BODY {};
  return chunk_moments<1>(kind, NormInput<float, void>(y, nullptr, 0), count, nothing_else);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
