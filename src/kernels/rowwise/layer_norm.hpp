// Layer and RMS normalisation of rows, y = x + residual:
//
//   out = (y - mean) / sqrt(variance + epsilon) * weight + bias
//   out = y / sqrt(mean of y^2 + epsilon) * weight
//
// Mean and variance come from moments of chunks (rowwise/moments.hpp), each of which stays in the first-level cache
// meanwhile. A row of up to one chunk is fetched from memory once, a longer one twice. A mean square is a variance from a
// mean of 0, whose chunks are read once for it; all that comes after is the same code.
//
// Where y is wanted, too, it is written together with out, when both of its terms have been read for the last time.
//
// Rows whose tensors have one type are read and written as they lie, of 16 bits a pair of registers at a time. Where
// types are mixed, chunks become floats in the first-level cache. So they do in rows whose squares leave the range of
// float32, which are read again times a power of two, with epsilon times its square: beside the ordinary passes about
// twice their time. That changes no bit of a result. Where the mean is 2^20 deviations or more, y times that power might
// be infinite: it is of y - mean, which is exact, and of 0 in a row of equal numbers. So one factor serves all squares
// that are too small, 2^90: of the smallest numbers there are they are 2^-118, and of the largest deviations that did
// not fit, 2^-45 in a row's mean, 2^90.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/rowwise/moments.hpp"
#include "kernels/rowwise/row_pass.hpp"

namespace fovea::FOVEA_ISA {
namespace {

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
      if constexpr (!same_type<Residual, void>) y = y + load_up_to(from.residual + i, width) * before;
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

// ---- passes over rows -----------------------------------------------------------------------------------------------

// How rows pass: how results are stored, and which rows are asked for ahead, by so many floats. Those whose turn comes
// soon go to the first-level cache while a row is written; those whose turn comes later to the second-level one while
// squares are summed, when memory has nothing else to do. The ways to the first-level cache are few: where stores need
// them to fetch what they write to, rows from memory are left to the second-level one. Rows of 16 bits gain nothing by
// either, nor by streaming.
template <class Store, int64_t soon_, int64_t later_>
struct NormPass : Store {
  static constexpr int64_t soon = soon_, later = later_;
};
using CachedPass = NormPass<CachedStore, 1024, 0>;
using MemoryPass = NormPass<CachedStore, 0, 1024>;
using StreamedPass = NormPass<StreamedStore, 1024, 2560>;
using PairPass = NormPass<CachedStore, 0, 0>;

// Weights and biases as they lie, or as floats in the order of a step's registers; null: none.
template <class Element>
struct NormWeights {
  const Element *weight, *bias;
  float raise;  // is added to weights that come without a bias
};

// Columns of a row: how they are normalised, where that goes and, unless null, where y itself does.
template <class Element>
struct NormColumns {
  NormScale scale;
  Element *out, *sum;
  int64_t count;
};

FOVEA_NOINLINE void norm_widened_rows(const NormRows &rows, int64_t first, const Reading &reading);

enum NormParameters { any_parameters, weight_alone, weight_and_bias };  // what is known of a row while it is written

// Stores of floats are aligned but for the first and last few. ask(i) asks for a line of a row whose turn comes soon.
template <int registers, class Pass, class Input, class Weight, class Element, class Ask>
FOVEA_INLINE void put_columns(const Input &y, const NormWeights<Weight> &weights, const NormColumns<Element> &row,
                              const Pass &pass, const Ask &ask) {
  constexpr int64_t width = registers * lanes, step = width < line_floats ? line_floats : width;
  constexpr bool in_pairs = registers == 2;
  const Float mean = splat(row.scale.mean), scale = splat(row.scale.scale), shift = splat(row.scale.shift);
  const Float raise = splat(weights.raise);
  const int64_t count = row.count;
  Element *const out = row.out, *const sum = row.sum;
  // (y - mean) scale as y scale - mean scale, whose rounding is 2^-25 at most where |mean scale| is.
  const float offset = row.scale.shift - row.scale.mean * row.scale.scale;
  const bool alike = Pass::reads_first || (sum - out) % lanes == 0;  // both aligned where out is
  const auto put = [&](auto known, auto is_near, int64_t i, int64_t its) FOVEA_INLINE_BODY {
    Float plain[registers], value[registers], weight[registers], bias[registers];
    y.template read<registers>(i, its, plain);
    const bool weighs = known != any_parameters || weights.weight != nullptr;
    const bool adds = known == any_parameters ? weights.bias != nullptr : known == weight_and_bias;
    if (weighs) read_or_zeros<registers>(weights.weight + i, its, weight);
    if (adds) read_or_zeros<registers>(weights.bias + i, its, bias);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      value[v] = is_near ? multiply_add(plain[v], scale, splat(offset)) : multiply_add(plain[v] - mean, scale, shift);
      if (in_pairs && known == weight_and_bias) return void(value[v] = multiply_add(value[v], weight[v], bias[v]));
      if (weighs) value[v] = value[v] * (known == weight_and_bias ? weight[v] : weight[v] + raise);
      if (adds) value[v] = value[v] + bias[v];
    });
    if constexpr (in_pairs) {
      write_up_to<2>(out + i, its, value);
      if (sum != nullptr) store_up_to_pair_exactly(sum + i, plain[0], plain[1], its);
    } else {
      its == lanes ? pass(out + i, value[0]) : store_partial(out + i, value[0], its);
      if (sum == nullptr) return;
      its < lanes || !alike ? store_up_to(sum + i, plain[0], its) : pass(sum + i, plain[0]);
    }
  };
  const auto put_some = [&](int64_t i, int64_t its)
                            FOVEA_INLINE_BODY { put(Index<any_parameters>{}, Index<false>{}, i, its); };
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(Element) % lanes);
  int64_t i = in_pairs || past == 0 ? 0 : min_of(lanes - past, count);
  if (i > 0) put_some(0, i);
  const auto put_steps = [&](auto known, auto is_near) FOVEA_INLINE_BODY {
    for (; i + step <= count; i += step) {
      ask(i);
      unroll<step / width>([&](auto v) FOVEA_INLINE_BODY { put(known, is_near, i + v * width, width); });
    }
  };
  const auto put_most = [&](auto is_near) FOVEA_INLINE_BODY {
    if (weights.weight == nullptr) return put_steps(Index<any_parameters>{}, is_near);
    weights.bias == nullptr ? put_steps(Index<weight_alone>{}, is_near) : put_steps(Index<weight_and_bias>{}, is_near);
  };
  __builtin_fabsf(offset) <= 1.0f && in_pairs ? put_most(Index<in_pairs>{}) : put_most(Index<false>{});
  for (; i < count; i += width) put_some(i, min_of(count - i, width));
}

// put(r, scale) for all rows from `first` on, or for that one which is read again. Their chunks have moments_of(r,
// begin, count). A row's sums are taken while the root and quotient of the row before are under way.
template <class MomentsOf, class Put>
FOVEA_INLINE void norm_each_row(const NormRows &rows, int64_t first, const Reading &reading,
                                const MomentsOf &moments_of, const Put &put) {
  const int64_t end = reading.is_again() ? first + 1 : rows.count;
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto factor = static_cast<double>(reading.factor), square = factor * factor;
  Moments next;
  for (int64_t r = first - 1; r < end; ++r) {
    const Moments moments = next;
    for (int64_t begin = 0; begin < rows.dim && r + 1 < end; begin += norm_chunk) {
      const Moments more = moments_of(r + 1, begin, min_of(norm_chunk, rows.dim - begin));
      begin == 0 ? void(next = more) : next.merge(more);
    }
    if (r < first) continue;
    double spread = moments.squares * share + rows.epsilon * square;
    if (!reading.is_again() && !fits_floats(spread)) {
      norm_widened_rows(rows, r, Reading(moments.mean, spread));
      continue;
    }
    const auto note = [&](float *to, double number) {
      if (to != nullptr) to[r] = static_cast<float>(number);
    };
    note(rows.mean, moments.mean / factor + static_cast<double>(reading.less));
    note(rows.inverse_deviation, 1.0 / __builtin_sqrt(spread / square));
    // Only rows of equal numbers have less, of which a large factor would make NaN.
    if (reading.is_again() && spread > 0 && spread < 0x1p-200) spread = 0x1p-200;
    put(r, NormScale(moments, spread, rows.kind));
  }
}

// Rows whose tensors have one type, or no residual (void). In 16 bits, weights of up to one chunk become floats once
// for all rows. Such rows wait as floats, too, where they have a residual or are binary16; bfloat16 is widened again,
// which takes no longer than loads. Longer rows and weights are read and widened again (Weight: Element).
template <class Element, class Residual, class Weight, class Pass>
FOVEA_NOINLINE void norm_rows_of(const NormRows &rows) {
  constexpr bool widens = !same_type<Element, Weight>;
  constexpr bool waits = widens && (!same_type<Residual, void> || same_type<Element, Float16>);
  constexpr int registers = same_type<Element, float> ? 1 : 2;
  alignas(64) float y[2][waits ? norm_chunk : 1], floats[2][widens ? norm_chunk : 1];
  const auto weights_of = [&](const void *from, float *to) FOVEA_INLINE_BODY -> const Weight * {
    if (!widens || from == nullptr) return static_cast<const Weight *>(from);
    for (int64_t i = 0; i < rows.dim; i += registers * lanes) {
      Float value[registers];
      const int64_t count = min_of(rows.dim - i, registers * lanes);
      read_or_zeros<registers>(static_cast<const Element *>(from) + i, count, value);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(to + i + v * lanes, value[v]); });
    }
    return reinterpret_cast<const Weight *>(to);
  };
  const NormWeights<Weight> weights = {weights_of(rows.weight, floats[0]), weights_of(rows.bias, floats[1]),
                                       rows.weight_raise};
  const Pass pass{};
  const int64_t soon = ceil_div(Pass::soon, rows.dim), later = ceil_div(Pass::later, rows.dim);
  const auto input = [&](int64_t r, int64_t begin) FOVEA_INLINE_BODY {
    const NormRow &row = rows.row[min_of(r, rows.listed - 1)];
    return NormInput<Element, Residual>(row.x, row.residual, begin);
  };
  const auto moments_of = [&](int64_t r, int64_t begin, int64_t count) FOVEA_INLINE_BODY {
    const auto its_later = input(r + later, begin);
    return chunk_moments<registers>(
        rows.kind, input(r, begin), count, [&](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
          if constexpr (waits) {
            unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { store(y[r % 2] + i + v * lanes, value[v]); });
          }
          if (Pass::later == 0 || held == 1) return;
          for (int64_t line = 0; line < held * lanes; line += line_floats) its_later.template prefetch<2>(i + line);
        });
  };
  norm_each_row(rows, 0, Reading(), moments_of, [&](int64_t r, const NormScale &scale) FOVEA_INLINE_BODY {
    auto *out = static_cast<Element *>(rows.row[r].out), *sum = static_cast<Element *>(nullptr);
    if constexpr (!same_type<Residual, void>) sum = static_cast<Element *>(rows.row[r].sum);
    const auto its_soon = input(r + soon, 0);
    const auto put = [&](const auto &its) FOVEA_INLINE_BODY {
      put_columns<registers>(its, weights, NormColumns<Element>{scale, out, sum, rows.dim}, pass,
                             [&](int64_t i) FOVEA_INLINE_BODY {
                               if constexpr (Pass::soon > 0) its_soon.template prefetch<1>(i);
                             });
    };
    if constexpr (waits) return put(NormInput<float, void>(y[r % 2], nullptr, 0));
    put(input(r, 0));
  });
}

// Rows of any types, as floats in the first-level cache. Those of one chunk wait there.
FOVEA_NOINLINE void norm_widened_rows(const NormRows &rows, int64_t first, const Reading &reading) {
  alignas(64) float room[2][norm_chunk], plain[norm_chunk], floats[2][norm_chunk];
  const float *y[2];
  NormWeights<float> weights;
  int64_t weights_begin = -1;
  const auto read = [&](int64_t r, int64_t begin, int64_t count) {
    y[r % 2] = read_chunk(reading, rows.row[r], rows, begin, count, room[r % 2]);
  };
  const auto moments_of = [&](int64_t r, int64_t begin, int64_t count) {
    read(r, begin, count);
    return float_moments(rows.kind, y[r % 2], count);
  };
  norm_each_row(rows, first, reading, moments_of, [&](int64_t r, const NormScale &scale) {
    const NormRow &row = rows.row[r];
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t count = min_of(norm_chunk, rows.dim - begin);
      const auto weights_of = [&](const void *from, Dtype dtype, float *to) {
        return from == nullptr ? nullptr : read_piece(from, dtype, begin, count, to);
      };
      if (begin != weights_begin) {
        weights = {weights_of(rows.weight, rows.types.weight, floats[0]),
                   weights_of(rows.bias, rows.types.bias, floats[1]), rows.weight_raise};
      }
      weights_begin = begin;
      if (rows.dim > norm_chunk) read(r, begin, count);
      if (row.sum != nullptr) {  // before out is written over x or residual
        const float *sum = reading.is_again() ? read_chunk(Reading(), row, rows, begin, count, plain) : y[r % 2];
        narrow_row(sum, count, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
      }
      float *to = written_piece(row.out, rows.types.out, begin, room[r % 2]);
      put_columns<1>(NormInput<float, void>(y[r % 2], nullptr, 0), weights,
                     NormColumns<float>{scale, to, nullptr, count}, CachedPass(), [](int64_t) FOVEA_INLINE_BODY {});
      put_piece(to, row.out, rows.types.out, begin, count);
    }
  });
}

void norm_rows(const NormRows &rows) {
  const Dtype type = rows.types.x;
  const NormRow &row = rows.row[0];
  const auto fits = [&](const void *data, Dtype its) { return data == nullptr || its == type; };
  if (rows.types.out != type || !fits(row.residual, rows.types.residual) || !fits(rows.weight, rows.types.weight) ||
      !fits(rows.bias, rows.types.bias) || !fits(row.sum, rows.types.sum) ||
      (type != Dtype::f32 && !rows_go_in_pairs)) {
    return norm_widened_rows(rows, 0, Reading());
  }
  const auto norm = [&]<class Element, class Residual>(Type<Element>, Type<Residual>) FOVEA_INLINE_BODY {
    if constexpr (same_type<Element, float>) {
      if (rows.traffic == NormTraffic::past_caches) return norm_rows_of<float, Residual, float, StreamedPass>(rows);
      if (rows.traffic == NormTraffic::from_memory) return norm_rows_of<float, Residual, float, MemoryPass>(rows);
      norm_rows_of<float, Residual, float, CachedPass>(rows);
    } else if constexpr (rows_go_in_pairs) {
      rows.dim > norm_chunk ? norm_rows_of<Element, Residual, Element, PairPass>(rows)
                            : norm_rows_of<Element, Residual, float, PairPass>(rows);
    }
  };
  with_element(type, [&]<class Element>(Type<Element> its)
                         FOVEA_INLINE_BODY { row.residual != nullptr ? norm(its, its) : norm(its, Type<void>{}); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
