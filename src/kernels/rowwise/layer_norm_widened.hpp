// Layer and RMS normalisation of rows whose tensors have any types: a chunk of a row becomes floats in the first-level
// cache, where its statistics are taken and from where it is written; weights become floats once for all rows of a
// task, or for a few rows at a time where they have several chunks. In float32, as layer_norm.hpp has it.
//
// Rows of any kind whose squares leave the range of float32 come here, too, and are read again times a power of two,
// with epsilon times its square: beside the ordinary passes about twice their time. That changes no bit of a result.
// Where the mean is 2^20 deviations or more, y times that power might be infinite: it is of y - mean, which is exact,
// and of 0 in a row of equal numbers. So one factor serves all squares that are too small, 2^90: of the smallest
// numbers there are they are 2^-118, and of the largest deviations that did not fit, 2^-45 in a row's mean, 2^90.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/rowwise/layer_norm_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// y of `count` elements as floats, and their sum; behind them are zeros up to a whole register.
FOVEA_NOINLINE float widen_chunk(const NormRows &rows, const NormRow &row, int64_t begin, int64_t count, float *to) {
  float sum = 0;
  const auto widen = [&]<class X, class Residual>(Type<X>, Type<Residual>) FOVEA_INLINE_BODY {
    const NormInput<X, Residual> y(row.x, row.residual);
    const auto keep = [&](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
      unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { store(to - begin + i + v * lanes, value[v]); });
    };
    sum = chunk_sum(y, begin, begin + count, keep);
  };
  with_element(rows.types.x, [&](auto x) FOVEA_INLINE_BODY {
    if (row.residual == nullptr) return widen(x, Type<void>{});
    with_element(rows.types.residual, [&](auto residual) FOVEA_INLINE_BODY { widen(x, residual); });
  });
  return sum;
}

// (y - less) times `factor`, a power of two: less is 0 unless factor is more than 1.
struct Reading {
  float factor = 1.0f, less = 0.0f;
};

// `count` of a row read so, up to a whole register; returns their sum.
FOVEA_NOINLINE float read_as(const Reading &reading, const NormRow &row, const NormRows &rows, int64_t begin,
                             int64_t count, float *to) {
  alignas(64) float room[norm_chunk];
  const float *x = read_piece(row.x, rows.types.x, begin, count, to), *residual = nullptr;
  if (row.residual != nullptr) residual = read_piece(row.residual, rows.types.residual, begin, count, room);
  const bool grows = reading.factor > 1.0f;
  const float before = grows ? 1.0f : reading.factor, after = grows ? reading.factor : 1.0f;  // a sum may be infinite
  for_each_register(count, [&](int64_t i, int64_t width) {
    Float y = load_up_to(x + i, width) * before;
    if (residual != nullptr) y = y + load_up_to(residual + i, width) * before;
    store(to + i, (y - reading.less) * after);
  });
  return chunk_sum(NormInput<float, void>(to, nullptr), 0, count, NothingElse());
}

FOVEA_NOINLINE Moments widened_moments(NormKind kind, const float *y, int64_t count, float sum) {
  const NormInput<float, void> input(y, nullptr);
  if (kind == NormKind::rms) return chunk_moments<1, false>(input, 0, count, 0.0f, NothingElse());
  return chunk_moments<1, true>(input, 0, count, mean_of(sum, count), NothingElse());
}

template <class Out>
FOVEA_NOINLINE void put_chunk(const float *y, const Normalisation &normalise, Out *out, int64_t count) {
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    store_two<Nans::any>(out + i, normalise.at(load(y + i), i), normalise.at(load(y + i + lanes), i + lanes));
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, normalise.first_at(load(y + i), i, left), left);
  }
}

// Weights and biases of a chunk of columns, as floats.
class WidenedWeights {
 public:
  // Nothing to do where they are those of the chunk before.
  FOVEA_NOINLINE void read(const NormRows &rows, int64_t begin, int64_t count) {
    if (begin == begin_) return;
    begin_ = begin;
    weight = widened(rows.weight, rows.types.weight, begin, count, weight_floats_);
    bias = widened(rows.bias, rows.types.bias, begin, count, bias_floats_);
  }

  const float *weight = nullptr, *bias = nullptr;  // null: none

 private:
  static const float *widened(const void *from, Dtype dtype, int64_t begin, int64_t count, float *to) {
    if (from == nullptr) return nullptr;
    if (dtype == Dtype::f32) return static_cast<const float *>(from) + begin;
    widen_rows(element_at(from, dtype, begin), dtype, 0, 1, count, to, 0);
    return to;
  }

  int64_t begin_ = -1;
  alignas(64) float weight_floats_[norm_chunk];
  alignas(64) float bias_floats_[norm_chunk];
};

// How a row is read again that does not fit, after what it gave as it lies.
FOVEA_INLINE Reading reading_again(double mean, double spread) {
  // Of sums of 2^129 a chunk's squares still add up to less than 2^128.
  if (!(spread <= 0x1p-90)) return {.factor = 0x1p-74f};
  const bool alike = mean * mean > 0x1p40 * spread;
  return {.factor = 0x1p90f, .less = alike ? static_cast<float>(mean) : 0.0f};
}

constexpr int64_t most_long_rows = 16;  // that share the weights of a chunk

// So many rows of one chunk stay as floats together.
FOVEA_INLINE int64_t rows_that_stay(int64_t dim) { return min_of(most_long_rows, 2 * norm_chunk / round_up(dim, 16)); }

// All statistics of `count` rows from `first` on, then chunk by chunk all of the rows; those of one chunk stay between.
FOVEA_NOINLINE void norm_some_rows(const NormRows &rows, int64_t first, int64_t count, const Reading &reading,
                                   WidenedWeights &weights) {
  alignas(64) float floats[2 * norm_chunk], plain[norm_chunk];
  NormScale scale[most_long_rows];
  bool waits[most_long_rows];
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto factor = static_cast<double>(reading.factor), square = factor * factor;
  const bool again = reading.factor != 1.0f;
  const int64_t apart_by = rows.dim <= norm_chunk ? round_up(rows.dim, 16) : 0;
  const auto read = [&](int64_t i, int64_t begin, int64_t columns) {
    const NormRow &row = rows.row[first + i];
    float *y = floats + i * apart_by;
    return again ? read_as(reading, row, rows, begin, columns, y) : widen_chunk(rows, row, begin, columns, y);
  };
  for (int64_t i = 0; i < count; ++i) {
    Moments moments;
    double total = 0;
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t columns = min_of(norm_chunk, rows.dim - begin);
      const float sum = read(i, begin, columns);
      total += static_cast<double>(sum);
      const Moments more = widened_moments(rows.kind, floats + i * apart_by, columns, sum);
      begin == 0 ? void(moments = more) : moments.merge(more);
    }
    const double spread = moments.squares * share + rows.epsilon * square;
    waits[i] = again || fits_floats(spread);
    if (!waits[i]) {
      norm_some_rows(rows, first + i, 1, reading_again(moments.mean, spread), weights);
      continue;
    }
    // Only rows of equal numbers have less, of which a large factor would make NaN.
    scale[i] = NormScale(moments, spread > 0 && spread < 0x1p-200 ? 0x1p-200 : spread, rows.kind);
    // Deviations from an infinite mean are NaN, and so is the mean that they correct.
    const bool infinite = rows.kind == NormKind::layer && spread != spread;
    const double mean = infinite ? total * share : moments.mean / factor + static_cast<double>(reading.less);
    put_statistics(rows, first + i, mean, spread / square);
  }
  for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
    const int64_t columns = min_of(norm_chunk, rows.dim - begin);
    weights.read(rows, begin, columns);
    for (int64_t i = 0; i < count; ++i) {
      if (!waits[i]) continue;
      const NormRow &row = rows.row[first + i];
      const float *y = floats + i * apart_by;
      if (rows.dim > norm_chunk) read(i, begin, columns);
      const bool apart = row.sum != nullptr && again;  // before either is written over x or residual
      if (apart) read_as(Reading(), row, rows, begin, columns, plain);
      const Normalisation normalise(scale[i], rows, weights.weight, weights.bias);
      with_element(rows.types.out, [&]<class Out>(Out) FOVEA_INLINE_BODY {
        put_chunk(y, normalise, static_cast<typename Out::Element *>(row.out) + begin, columns);
      });
      if (row.sum == nullptr) continue;
      narrow_row(apart ? plain : y, columns, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
    }
  }
}

// Where the way of reading depends on the mean, moments are taken anew: the loops over rows need not keep it for this.
FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread) {
  WidenedWeights weights;
  norm_some_rows(rows, r, 1, spread <= 0x1p-90 ? Reading() : reading_again(0.0, spread), weights);
}

void norm_rows(const NormRows &rows) {
  if (normed_in_one_type(rows)) return;
  WidenedWeights weights;
  const int64_t together = rows.dim <= norm_chunk ? rows_that_stay(rows.dim) : most_long_rows;
  for (int64_t first = 0; first < rows.count; first += together) {
    norm_some_rows(rows, first, min_of(together, rows.count - first), Reading(), weights);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
