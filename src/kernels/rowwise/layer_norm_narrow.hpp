// Layer and RMS normalisation of rows of 16 bits that become rows of the same type, with residual, weight, bias and sum of
// that type too or none, a pair of registers at a time.
//
// The statistics take one pass instead of two: deviations are from the mean of the first pair of registers, of which sum
// and squares are corrected as in layer_norm.hpp. With n numbers in that pair of N in the row, the square of the distance
// between their mean and the row's is at most N / n times the variance, so the correction takes at most 6 of the 24 bits of
// float32, 7 with AVX2, where a type of 8 or 11 is to be made. Chunks of a longer row are merged in float64.
//
// Up to one chunk weights are widened once for all rows, and a row waits on the stack as float32 where it has a residual or
// is binary16; bfloat16 is widened again, which takes no longer than loads. Of longer rows all is read and widened again.
#pragma once

#include "kernels/narrow_pairs.hpp"
#include "kernels/rowwise/layer_norm_again.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX2__)

// y's elements i, i + 1, ..., `count` of them; a pair of registers' or fewer, then zeros.
template <class Element, bool has_residual>
FOVEA_INLINE void load_norm_pair(const NormRow &row, int64_t i, int64_t count, Float *a, Float *b) {
  const auto read = [&](const void *from, Float *first, Float *second) FOVEA_INLINE_BODY {
    const auto *element = static_cast<const Element *>(from) + i;
    count == pair_lanes ? load_pair(element, first, second) : load_first_of_pair(element, count, 0, first, second);
  };
  read(row.x, a, b);
  if constexpr (has_residual) {
    Float more_a, more_b;
    read(row.residual, &more_a, &more_b);
    *a = *a + more_a;
    *b = *b + more_b;
  }
}

// 1 for the first `count` elements of a pair of registers, 0 for the others.
template <class Element>
FOVEA_INLINE void first_of_pair(int64_t count, Float *a, Float *b) {
  if constexpr (same_type<Element, Float16>) {  // which are in order
    *a = choose(lanes_below(count), splat(1.0f), zero());
    *b = choose(lanes_below(count - lanes), splat(1.0f), zero());
    return;
  }
  struct Ones {
    alignas(64) Element element[pair_lanes];
    constexpr Ones() : element() {
      for (Element &one : element) one.bits = 0x3f80;
    }
  };
  static constexpr Ones ones;
  load_first_of_pair(ones.element, count, 0, a, b);
}

constexpr int64_t longest_narrow_norm = 16384;

template <class Element, bool has_residual, bool is_long>
constexpr bool waits_as_floats = !is_long && (has_residual || same_type<Element, Float16>);

// y of rows that wait goes to `y`.
template <class Element, bool has_residual, bool is_long>
FOVEA_INLINE Moments narrow_moments(NormKind kind, const NormRow &row, int64_t dim, float *y) {
  Float a, b;
  const int64_t first = min_of(dim, pair_lanes);
  load_norm_pair<Element, has_residual>(row, 0, first, &a, &b);
  const float pivot = kind == NormKind::rms ? 0.0f : horizontal_sum(a + b) / static_cast<float>(first);
  Float sum[2] = {zero(), zero()}, squares[2] = {zero(), zero()};
  const auto add = [&](int v, const Float &deviation) FOVEA_INLINE_BODY {
    sum[v] = sum[v] + deviation;
    squares[v] = multiply_add(deviation, deviation, squares[v]);
  };
  const auto read = [&](int64_t i, int64_t count, Float *a, Float *b) FOVEA_INLINE_BODY {
    load_norm_pair<Element, has_residual>(row, i, count, a, b);
    if constexpr (waits_as_floats<Element, has_residual, is_long>) {
      store(y + i, *a);
      store(y + i + lanes, *b);
    }
  };
  int64_t i = 0;
  for (; i + pair_lanes <= dim; i += pair_lanes) {
    read(i, pair_lanes, &a, &b);
    add(0, a - splat(pivot));
    add(1, b - splat(pivot));
  }
  if (i < dim) {
    Float in_a, in_b;
    read(i, dim - i, &a, &b);
    first_of_pair<Element>(dim - i, &in_a, &in_b);
    add(0, (a - splat(pivot)) * in_a);
    add(1, (b - splat(pivot)) * in_b);
  }
  const auto count = static_cast<double>(dim);
  const double all_squares = horizontal_sum(squares[0] + squares[1]);
  if (kind == NormKind::rms) return {count, 0.0, all_squares};
  const double share = 1.0 / count, left = horizontal_sum(sum[0] + sum[1]);
  return {count, static_cast<double>(pivot) + left * share, all_squares - left * left * share};
}

// Weights and biases of up to one chunk as floats, in the order of pairs of registers; what is missing of them is 1 or 0.
template <class Element_>
class PairedWeights {
 public:
  using Element = Element_;
  static constexpr bool is_long = false;

  FOVEA_NOINLINE explicit PairedWeights(const NormRows &rows) : any(rows.weight != nullptr || rows.bias != nullptr) {
    if (!any) return;
    widen(static_cast<const Element *>(rows.weight), rows.dim, 1.0f, rows.weight_raise, weight_);
    widen(static_cast<const Element *>(rows.bias), rows.dim, 0.0f, weight_as_it_is, bias_);
  }

  const bool any;

  FOVEA_INLINE void load_pairs(int64_t i, int64_t, Float *weight, Float *bias) const {
    unroll<2>([&](auto v) FOVEA_INLINE_BODY {
      weight[v] = load(weight_ + i + v * lanes);
      bias[v] = load(bias_ + i + v * lanes);
    });
  }

 private:
  static FOVEA_INLINE void widen(const Element *from, int64_t dim, float none, float raise, float *to) {
    for (int64_t i = 0; i < dim; i += pair_lanes) {
      Float a = splat(none), b = splat(none);
      if (from != nullptr) {
        load_first_of_pair(from + i, min_of(dim - i, pair_lanes), 0, &a, &b);
        a = a + splat(raise);
        b = b + splat(raise);
      }
      store(to + i, a);
      store(to + i + lanes, b);
    }
  }

  alignas(64) float weight_[norm_chunk];
  alignas(64) float bias_[norm_chunk];
};

// The same of longer rows, as they lie.
template <class Element_>
struct LongWeights {
  using Element = Element_;
  static constexpr bool is_long = true;

  const Element *weight, *bias;
  const bool any;
  const float raise;

  FOVEA_INLINE explicit LongWeights(const NormRows &rows)
      : weight(static_cast<const Element *>(rows.weight)),
        bias(static_cast<const Element *>(rows.bias)),
        any(rows.weight != nullptr || rows.bias != nullptr),
        raise(rows.weight == nullptr ? weight_as_it_is : rows.weight_raise) {}

  FOVEA_INLINE void load_pairs(int64_t i, int64_t count, Float *its_weight, Float *its_bias) const {
    const auto read = [&](const Element *from, float none, Float *to) FOVEA_INLINE_BODY {
      to[0] = to[1] = splat(none);
      if (from == nullptr) return;
      count == pair_lanes ? load_pair(from + i, &to[0], &to[1])
                          : load_first_of_pair(from + i, count, 0, &to[0], &to[1]);
    };
    read(weight, 1.0f, its_weight);
    unroll<2>([&](auto v) FOVEA_INLINE_BODY { its_weight[v] = its_weight[v] + splat(raise); });
    read(bias, 0.0f, its_bias);
  }
};

template <class Weights, bool has_residual>
FOVEA_INLINE void put_narrow_row(const NormRow &row, const Normalisation &normalise, const Weights &weights,
                                 int64_t dim, const float *y) {
  using Element = typename Weights::Element;
  auto *out = static_cast<Element *>(row.out), *sum = static_cast<Element *>(row.sum);
  // (y - mean) scale as y scale - mean scale, whose rounding is 2^-25 at most where |mean scale| is.
  const Float offset = normalise.shift - normalise.mean * normalise.scale;
  const auto put = [&](auto affine, auto centred, int64_t i, int64_t count) FOVEA_INLINE_BODY {
    Float value[2], weight[2], bias[2];
    if constexpr (waits_as_floats<Element, has_residual, Weights::is_long>) {
      value[0] = load(y + i);
      value[1] = load(y + i + lanes);
    } else {
      load_norm_pair<Element, has_residual>(row, i, count, &value[0], &value[1]);
    }
    if (has_residual && sum != nullptr) store_up_to_pair_exactly(sum + i, value[0], value[1], count);
    if constexpr (affine != 0) weights.load_pairs(i, count, weight, bias);
    unroll<2>([&](auto v) FOVEA_INLINE_BODY {
      if constexpr (centred != 0) {
        value[v] = multiply_add(value[v], normalise.scale, offset);
      } else {
        value[v] = multiply_add(value[v] - normalise.mean, normalise.scale, normalise.shift);
      }
      if constexpr (affine != 0) value[v] = multiply_add(value[v], weight[v], bias[v]);
    });
    if (same_type<Element, Float16> && count <= lanes) return store_partial(out + i, value[0], count);
    count == pair_lanes ? store_pair(out + i, value[0], value[1])
                        : store_first_of_pair(out + i, value[0], value[1], count);
  };
  const auto put_all = [&](auto affine, auto centred) FOVEA_INLINE_BODY {
    int64_t i = 0;
    for (; i + pair_lanes <= dim; i += pair_lanes) put(affine, centred, i, pair_lanes);
    if (i < dim) put(affine, centred, i, dim - i);
  };
  constexpr Index<0> no;
  constexpr Index<1> yes;
  if (__builtin_fabsf(offset.get(0)) <= 1.0f) return weights.any ? put_all(yes, yes) : put_all(no, yes);
  weights.any ? put_all(yes, no) : put_all(no, no);
}

// Of a row of several chunks.
template <class Element, bool has_residual>
FOVEA_INLINE Moments long_narrow_moments(NormKind kind, const NormRow &row, int64_t dim) {
  const auto chunk = [&](int64_t begin) FOVEA_INLINE_BODY {
    NormRow part = row;
    part.x = static_cast<const Element *>(row.x) + begin;
    if (has_residual) part.residual = static_cast<const Element *>(row.residual) + begin;
    return narrow_moments<Element, has_residual, true>(kind, part, min_of(norm_chunk, dim - begin), nullptr);
  };
  Moments moments = chunk(0);
  for (int64_t begin = norm_chunk; begin < dim; begin += norm_chunk) moments.merge(chunk(begin));
  return moments;
}

template <class Weights, bool has_residual>
FOVEA_NOINLINE void norm_narrow_rows_of(const NormRows &rows) {
  using Element = typename Weights::Element;
  constexpr bool is_long = Weights::is_long;
  alignas(64) float y[2][waits_as_floats<Element, has_residual, is_long> ? norm_chunk : 1];
  const Weights weights(rows);
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto moments_of = [&](int64_t r) FOVEA_INLINE_BODY {
    if constexpr (is_long) return long_narrow_moments<Element, has_residual>(rows.kind, rows.row[r], rows.dim);
    return narrow_moments<Element, has_residual, is_long>(rows.kind, rows.row[r], rows.dim, y[r % 2]);
  };
  Moments next = moments_of(0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Moments moments = next;
    if (r + 1 < rows.count) next = moments_of(r + 1);
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      put_statistics(rows, r, moments.mean, spread);
      const Normalisation normalise(moments, spread, rows, nullptr, nullptr);
      put_narrow_row<Weights, has_residual>(rows.row[r], normalise, weights, rows.dim, y[r % 2]);
    } else {
      norm_row_again(r, rows, spread);
    }
  }
}

// False where these kernels are not for such rows.
FOVEA_INLINE bool normed_by_pairs(const NormRows &rows) {
  const Dtype type = rows.types.x;
  const bool has_residual = rows.row[0].residual != nullptr;
  const auto fits = [&](const void *data, Dtype its) { return data == nullptr || its == type; };
  if (!is_widened(type) || rows.types.out != type || rows.dim > longest_narrow_norm) return false;
  if (!fits(rows.row[0].residual, rows.types.residual) || !fits(rows.weight, rows.types.weight)) return false;
  if (!fits(rows.bias, rows.types.bias) || !fits(rows.row[0].sum, rows.types.sum)) return false;
  const auto norm = [&]<class Weights>(Type<Weights>) FOVEA_INLINE_BODY {
    has_residual ? norm_narrow_rows_of<Weights, true>(rows) : norm_narrow_rows_of<Weights, false>(rows);
  };
  const bool is_bfloat16 = type == Dtype::bf16;
  if (rows.dim <= norm_chunk) {
    is_bfloat16 ? norm(Type<PairedWeights<Bfloat16>>{}) : norm(Type<PairedWeights<Float16>>{});
  } else {
    is_bfloat16 ? norm(Type<LongWeights<Bfloat16>>{}) : norm(Type<LongWeights<Float16>>{});
  }
  return true;
}

#else
FOVEA_INLINE bool normed_by_pairs(const NormRows &) { return false; }
#endif

// Dispatched by types.
void norm_rows(const NormRows &rows) {
  if (!normed_by_pairs(rows)) norm_rows_of_any(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
