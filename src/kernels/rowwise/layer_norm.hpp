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
// Rows of 16 bits that become the same type, all tensors of that type, take one pass for that: deviations are from the
// mean of their first step (kernels/steps.hpp). With n numbers in that step and N in the row, the squared distance
// between their mean and the row's is at most N / n times the variance, so the correction takes at most 6 of the 24
// bits of float32, 7 with AVX2, where the result has 8 or 11.
//
// Rows whose squares leave the range of float32 go again (rowwise/layer_norm_widened.hpp).
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/steps.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t norm_chunk = 2048;  // floats: 16 kB with a residual

// y = x, or x + residual (void: there is none), whose types differ only where a step is one register.
template <class X, class Residual>
struct NormInput {
  static constexpr bool has_residual = !same_type<Residual, void>;
  const X *x;
  const Residual *residual;

  FOVEA_INLINE NormInput(const void *row_x, const void *row_residual)
      : x(static_cast<const X *>(row_x)), residual(static_cast<const Residual *>(row_residual)) {}

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
  template <int registers>
  FOVEA_INLINE void ones(int64_t count, Float *value) const {
    ones_of_first<registers, X>(count, value);
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
    mean += apart * (more.count / total);
    squares += more.squares + apart * apart * (count * more.count / total);
    count = total;
  }
};

// body(Index<which sum is the first>, Index<registers>, i, count, value) for all of a chunk: four registers at a time,
// or a step where that is two, and what is left. So many sums are taken, in this order, which a type's results depend
// on.
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

struct NothingElse {
  template <class Held>
  FOVEA_INLINE void operator()(Held, int64_t, const Float *) const {}
};

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

// The moments of a chunk whose mean is near `pivot`; without a mean its mean square, as the variance of numbers whose
// mean is 0.
template <int registers, bool centred, class Input, class Each>
FOVEA_INLINE Moments chunk_moments(const Input &y, int64_t begin, int64_t end, float pivot, const Each &each) {
  const auto count = static_cast<double>(end - begin);
  const double share = 1.0 / count;  // long done when the sums are
  Float sum[sums_of_steps<registers>], squares[sums_of_steps<registers>];
  unroll<sums_of_steps<registers>>([&](auto v) FOVEA_INLINE_BODY { sum[v] = squares[v] = zero(); });
  for_each_step<registers>(y, begin, end,
                           [&](auto first, auto held, int64_t i, int64_t some, const Float *value) FOVEA_INLINE_BODY {
                             constexpr int its = decltype(held)::value;
                             Float ones[its];
                             const bool part = centred && some < its * lanes;
                             if (part) y.template ones<its>(some, ones);
                             unroll<its>([&](auto v) FOVEA_INLINE_BODY {
                               constexpr int at = decltype(first)::value + decltype(v)::value;
                               Float deviation = centred ? value[v] - splat(pivot) : value[v];
                               if (part) deviation = deviation * ones[v];
                               if constexpr (centred) sum[at] = sum[at] + deviation;
                               squares[at] = multiply_add(deviation, deviation, squares[at]);
                             });
                             each(held, i, value);
                           });
  const double all_squares = sum_of<registers>(squares);
  if constexpr (!centred) return {count, 0.0, all_squares};
  const double left = sum_of<registers>(sum);
  return {count, static_cast<double>(pivot) + left * share, all_squares - left * left * share};
}

FOVEA_INLINE float mean_of(float sum, int64_t count) {
  return static_cast<float>(static_cast<double>(sum) * (1.0 / static_cast<double>(count)));
}

// The moments of a row that is read as it lies.
template <int registers, class Input, class Each>
FOVEA_INLINE Moments row_moments(NormKind kind, const Input &y, int64_t dim, const Each &each) {
  const auto of_chunk = [&](int64_t begin, int64_t end) FOVEA_INLINE_BODY {
    if (kind == NormKind::rms) return chunk_moments<registers, false>(y, begin, end, 0.0f, each);
    float pivot;
    if constexpr (registers == 1) {
      pivot = mean_of(chunk_sum(y, begin, end, NothingElse()), end - begin);
    } else {
      Float first[registers];
      const int64_t count = min_of(end - begin, registers * lanes);
      y.template read<registers>(begin, count, first);
      pivot = sum_of<registers>(first) / static_cast<float>(count);
    }
    return chunk_moments<registers, true>(y, begin, end, pivot, each);
  };
  Moments moments;
  for (int64_t begin = 0; begin < dim; begin += norm_chunk) {
    const Moments more = of_chunk(begin, min_of(dim, begin + norm_chunk));
    begin == 0 ? void(moments = more) : moments.merge(more);
  }
  return moments;
}

FOVEA_INLINE void put_statistics(const NormRows &rows, int64_t r, double mean, double spread) {
  if (rows.mean != nullptr) rows.mean[r] = static_cast<float>(mean);
  if (rows.inverse_deviation != nullptr) rows.inverse_deviation[r] = static_cast<float>(1.0 / __builtin_sqrt(spread));
}

// What is known of a row's parameters while it is written.
enum class NormParameters { any, weight, weight_and_bias };

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

// The same, times weight + bias.
struct Normalisation {
  Float mean, scale, shift, raise;
  const float *weight, *bias;

  FOVEA_INLINE Normalisation(const NormScale &row, const NormRows &rows, const float *weights, const float *biases)
      : mean(splat(row.mean)),
        scale(splat(row.scale)),
        shift(splat(row.shift)),
        raise(splat(rows.weight_raise)),
        weight(weights),
        bias(biases) {}

  FOVEA_INLINE NormParameters parameters() const {
    if (weight == nullptr) return NormParameters::any;
    return bias == nullptr ? NormParameters::weight : NormParameters::weight_and_bias;
  }

  template <NormParameters known = NormParameters::any>
  FOVEA_INLINE Float at(const Float &y, int64_t i) const {
    const Float value = multiply_add(y - mean, scale, shift);
    if constexpr (known == NormParameters::weight) return value * (load(weight + i) + raise);
    // Weights that come with a bias are never raised.
    if constexpr (known == NormParameters::weight_and_bias) return value * load(weight + i) + load(bias + i);
    const Float weighed = weight == nullptr ? value : value * (load(weight + i) + raise);
    return bias == nullptr ? weighed : weighed + load(bias + i);
  }
  FOVEA_INLINE Float first_at(const Float &y, int64_t i, int64_t count) const {
    Float value = multiply_add(y - mean, scale, shift);
    if (weight != nullptr) value = value * (load_partial(weight + i, count) + raise);
    return bias == nullptr ? value : value + load_partial(bias + i, count);
  }
};

// Squares of deviations are neither denormal, or near it, nor infinite nor NaN.
FOVEA_INLINE bool fits_floats(double spread) { return spread > 0x1p-90 && spread < __builtin_inf(); }

FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread);

// put(r, moments, spread) for rows whose moments_of(r) fit. The next row's are under way while this one's root and
// quotient are.
template <class MomentsOf, class Put>
FOVEA_INLINE void norm_each_row(const NormRows &rows, const MomentsOf &moments_of, const Put &put) {
  const double share = 1.0 / static_cast<double>(rows.dim);
  Moments next;
  for (int64_t r = 0; r <= rows.count; ++r) {
    const Moments moments = next;
    if (r < rows.count) next = moments_of(r);
    if (r == 0) continue;
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      put_statistics(rows, r - 1, moments.mean, spread);
      put(r - 1, moments, spread);
    } else {
      norm_row_again(r - 1, rows, spread);
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
