// Layer and RMS normalisation of rows whose tensors have any types: a chunk of a row becomes floats in the first-level cache,
// where its statistics are taken and from where it is written; weights become floats once for all rows of a task, or for a
// few rows at a time where they have several chunks. In float32, as layer_norm.hpp has it.
//
// Rows of any kind whose squares leave the range of float32 come here, too: all of it times a power of two first, and epsilon
// times its square, which changes no bit of the result, beside the ordinary passes about twice their time. What no power of two
// helps (a row all but constant beside an epsilon below 2^-90) is computed in float64.
#pragma once

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

// `count` of a row's y times `factor`, with zeros behind them up to a whole register; returns their sum.
FOVEA_NOINLINE float read_times(float factor, const NormRow &row, const NormRows &rows, int64_t begin, int64_t count,
                                float *to) {
  alignas(64) float residual[norm_chunk];
  const auto read = [&](const void *from, Dtype dtype, float *its) {
    store(its + (count - 1) / lanes * lanes, zero());
    widen_rows(element_at(from, dtype, begin), dtype, 0, 1, count, its, 0);
  };
  read(row.x, rows.types.x, to);
  if (row.residual != nullptr) read(row.residual, rows.types.residual, residual);
  for (int64_t i = 0; i < count; i += lanes) {
    const Float x = load(to + i) * factor;
    store(to + i, row.residual == nullptr ? x : x + load(residual + i) * factor);
  }
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

FOVEA_NOINLINE void norm_row_in_float64(int64_t r, const NormRows &rows) {
  const NormRow &row = rows.row[r];
  constexpr int64_t block = 256;
  alignas(64) float x[block], residual[block], weight[block], bias[block];
  const auto read = [&](const void *from, Dtype dtype, int64_t begin, float none, float *to) {
    const int64_t size = min_of(block, rows.dim - begin);
    if (from != nullptr) return widen_rows(element_at(from, dtype, begin), dtype, 0, 1, size, to, 0);
    for (int64_t i = 0; i < size; ++i) to[i] = none;
  };
  const auto for_each_value = [&](const auto &body) {
    for (int64_t begin = 0; begin < rows.dim; begin += block) {
      read(row.x, rows.types.x, begin, 0, x);
      read(row.residual, rows.types.residual, begin, 0, residual);
      for (int64_t i = 0; i < min_of(block, rows.dim - begin); ++i) {
        const auto value = static_cast<double>(x[i]);
        body(begin, i, row.residual == nullptr ? value : value + static_cast<double>(residual[i]));
      }
    }
  };
  const auto count = static_cast<double>(rows.dim);
  double sum = 0.0;
  for_each_value([&](int64_t, int64_t, double value) { sum += value; });
  const double mean = rows.kind == NormKind::rms ? 0.0 : sum / count;
  double squares = 0.0;
  for_each_value([&](int64_t, int64_t, double value) { squares += (value - mean) * (value - mean); });
  const double spread = squares / count + rows.epsilon;
  put_statistics(rows, r, mean, spread);
  const double scale = 1.0 / __builtin_sqrt(spread);
  for_each_value([&](int64_t begin, int64_t i, double value) {
    if (i == 0) {
      read(rows.weight, rows.types.weight, begin, 1, weight);
      read(rows.bias, rows.types.bias, begin, 0, bias);
    }
    const float plain = row.residual == nullptr ? x[i] : x[i] + residual[i];
    const auto raised = static_cast<double>(rows.weight == nullptr ? 1.0f : weight[i] + rows.weight_raise);
    x[i] = static_cast<float>((value - mean) * scale * raised + static_cast<double>(bias[i]));
    residual[i] = plain;
    if (i + 1 < block && begin + i + 1 < rows.dim) return;
    narrow_row(x, i + 1, element_at(row.out, rows.types.out, begin), rows.types.out);
    if (row.sum != nullptr) narrow_row(residual, i + 1, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
  });
}

FOVEA_INLINE float factor_again(double spread) {
  if (!(spread <= 0x1p-90)) return 0x1p-74f;  // of sums of 2^129 a chunk's squares still add up to less than 2^128
  return spread > 0x1p-126 ? 0x1p90f : 0x1p120f;
}

constexpr int64_t most_long_rows = 16;  // that share the weights of a chunk

// So many rows of one chunk stay as floats together.
FOVEA_INLINE int64_t rows_that_stay(int64_t dim) { return min_of(most_long_rows, 2 * norm_chunk / round_up(dim, 16)); }

// All statistics of `count` rows from `first` on, then chunk by chunk all of the rows; those of one chunk stay between.
// `factor`: a power of two that all is multiplied by.
FOVEA_NOINLINE void norm_some_rows(const NormRows &rows, int64_t first, int64_t count, float factor,
                                   WidenedWeights &weights) {
  alignas(64) float floats[2 * norm_chunk], plain[norm_chunk];
  NormScale scale[most_long_rows];
  bool fits[most_long_rows];
  const double share = 1.0 / static_cast<double>(rows.dim);
  const double square = static_cast<double>(factor) * static_cast<double>(factor);
  const int64_t apart_by = rows.dim <= norm_chunk ? round_up(rows.dim, 16) : 0;
  const auto read = [&](int64_t i, int64_t begin, int64_t columns) {
    const NormRow &row = rows.row[first + i];
    float *y = floats + i * apart_by;
    return factor == 1.0f ? widen_chunk(rows, row, begin, columns, y)
                          : read_times(factor, row, rows, begin, columns, y);
  };
  for (int64_t i = 0; i < count; ++i) {
    Moments moments;
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t columns = min_of(norm_chunk, rows.dim - begin);
      const float sum = read(i, begin, columns);
      const Moments more = widened_moments(rows.kind, floats + i * apart_by, columns, sum);
      begin == 0 ? void(moments = more) : moments.merge(more);
    }
    const double spread = moments.squares * share + rows.epsilon * square;
    scale[i] = NormScale(moments, spread, rows.kind);
    fits[i] = fits_floats(spread);
    if (fits[i]) {
      put_statistics(rows, first + i, moments.mean / static_cast<double>(factor), spread / square);
    } else if (factor == 1.0f) {
      norm_some_rows(rows, first + i, 1, factor_again(spread), weights);
    } else {
      norm_row_in_float64(first + i, rows);
    }
  }
  for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
    const int64_t columns = min_of(norm_chunk, rows.dim - begin);
    weights.read(rows, begin, columns);
    for (int64_t i = 0; i < count; ++i) {
      if (!fits[i]) continue;
      const NormRow &row = rows.row[first + i];
      const float *y = floats + i * apart_by;
      if (rows.dim > norm_chunk) read(i, begin, columns);
      const bool apart = row.sum != nullptr && factor != 1.0f;  // before either is written over x or residual
      if (apart) read_times(1.0f, row, rows, begin, columns, plain);
      const Normalisation normalise(scale[i], rows, weights.weight, weights.bias);
      with_element(rows.types.out, [&]<class Out>(Out) FOVEA_INLINE_BODY {
        put_chunk(y, normalise, static_cast<typename Out::Element *>(row.out) + begin, columns);
      });
      if (row.sum == nullptr) continue;
      narrow_row(apart ? plain : y, columns, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
    }
  }
}

// spread: as far as the row's squares gave it.
FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread) {
  WidenedWeights weights;
  norm_some_rows(rows, r, 1, factor_again(spread), weights);
}

void norm_rows(const NormRows &rows) {
  if (normed_in_one_type(rows)) return;
  WidenedWeights weights;
  const int64_t together = rows.dim <= norm_chunk ? rows_that_stay(rows.dim) : most_long_rows;
  for (int64_t first = 0; first < rows.count; first += together) {
    norm_some_rows(rows, first, min_of(together, rows.count - first), 1.0f, weights);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
