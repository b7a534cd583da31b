// The passes of layer and RMS normalisation over rows. Rows whose tensors have one type are read and written as they
// lie, of 16 bits a pair of registers at a time. Where types are mixed, and where squares do not fit float32, chunks
// become floats in the first-level cache.
#pragma once

#include "kernels/rowwise/layer_norm.hpp"
#include "kernels/rowwise/row_pass.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// How rows pass: how results are stored, and which rows are asked for ahead, by so many floats. Those whose turn comes
// soon go to the first-level cache while a row is written; those whose turn comes later to the second-level one while
// squares are summed, when memory has nothing else to do. The ways to the first-level cache are few: where stores need
// them to fetch what they write to, rows from memory are left to the second-level one. Rows of 16 bits gain nothing by
// either, nor by streaming.
struct CachedPass : CachedStore {
  static constexpr int64_t soon = 1024, later = 0;
};
struct MemoryPass : CachedStore {
  static constexpr int64_t soon = 0, later = 1024;
};
struct StreamedPass : StreamedStore {
  static constexpr int64_t soon = 1024, later = 2560;
};
struct PairPass : CachedStore {
  static constexpr int64_t soon = 0, later = 0;
};

// Weights and biases of some columns, as they lie or as floats in the order of a step's registers; null: none.
template <class Element>
struct NormWeights {
  const Element *weight, *bias;
  float raise;  // is added to weights that come without a bias

  template <int registers>
  FOVEA_INLINE static void read(const Element *from, int64_t count, Float *value) {
    if constexpr (registers == 1 || !same_type<Element, float>) return read_or_zeros<registers>(from, count, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(from + v * lanes); });
  }
};

enum NormParameters { any, weight_alone, weight_and_bias };  // what is known while a row is written

// `count` columns of a row, and y itself if `sum` is not null. Stores of floats are aligned but for the first and last
// few. ask(i) asks for a line of a row whose turn comes soon.
template <int registers, class Pass, class Input, class Weights, class Element, class Ask>
FOVEA_INLINE void put_columns(const Input &y, const NormScale &row, const Weights &weights, Element *out, Element *sum,
                              int64_t count, const Pass &pass, const Ask &ask) {
  constexpr int64_t width = registers * lanes, step = width < line_floats ? line_floats : width;
  constexpr bool in_pairs = registers == 2;
  const Float mean = splat(row.mean), scale = splat(row.scale), shift = splat(row.shift), raise = splat(weights.raise);
  // (y - mean) scale as y scale - mean scale, whose rounding is 2^-25 at most where |mean scale| is.
  const float offset = row.shift - row.mean * row.scale;
  const bool alike = Pass::reads_first || (sum - out) % lanes == 0;  // both aligned where out is
  const auto put = [&](auto known, auto is_near, int64_t i, int64_t its) FOVEA_INLINE_BODY {
    Float value[registers], weight[registers], bias[registers];
    y.template read<registers>(i, its, value);
    if (sum != nullptr) {
      if constexpr (in_pairs) {
        store_up_to_pair_exactly(sum + i, value[0], value[1], its);
      } else {
        its == lanes &&alike ? pass(sum + i, value[0]) : store_up_to(sum + i, value[0], its);
      }
    }
    const bool weighs = known != any || weights.weight != nullptr;
    const bool adds = known == any ? weights.bias != nullptr : known == weight_and_bias;
    if (weighs) weights.template read<registers>(weights.weight + i, its, weight);
    if (adds) weights.template read<registers>(weights.bias + i, its, bias);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      value[v] = is_near ? multiply_add(value[v], scale, splat(offset)) : multiply_add(value[v] - mean, scale, shift);
      if constexpr (in_pairs && known == weight_and_bias) {
        value[v] = multiply_add(value[v], weight[v], bias[v]);
      } else {
        if (weighs) value[v] = value[v] * (known == weight_and_bias ? weight[v] : weight[v] + raise);
        if (adds) value[v] = value[v] + bias[v];
      }
    });
    if constexpr (in_pairs) {
      write_up_to<2>(out + i, its, value);
    } else {
      its == lanes ? pass(out + i, value[0]) : store_partial(out + i, value[0], its);
    }
  };
  constexpr Index<false> far;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(Element) % lanes);
  int64_t i = in_pairs || past == 0 ? 0 : min_of(lanes - past, count);
  if (i > 0) put(Index<any>{}, far, 0, i);
  const auto put_steps = [&](auto known, auto is_near) FOVEA_INLINE_BODY {
    for (; i + step <= count; i += step) {
      ask(i);
      unroll<step / width>([&](auto v) FOVEA_INLINE_BODY { put(known, is_near, i + v * width, width); });
    }
  };
  const auto put_most = [&](auto is_near) FOVEA_INLINE_BODY {
    if (weights.weight == nullptr) return put_steps(Index<any>{}, is_near);
    weights.bias == nullptr ? put_steps(Index<weight_alone>{}, is_near) : put_steps(Index<weight_and_bias>{}, is_near);
  };
  in_pairs &&__builtin_fabsf(offset) <= 1.0f ? put_most(Index<in_pairs>{}) : put_most(far);
  for (; i + width <= count; i += width) put(Index<any>{}, far, i, width);
  if (i < count) put(Index<any>{}, far, i, count - i);
}

// Floats in the order of pairs of registers.
struct KeptPairs {
  const float *y;
  template <int registers>
  FOVEA_INLINE void read(int64_t i, int64_t, Float *value) const {
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(y + i + v * lanes); });
  }
};

// Rows whose tensors have one type, or no residual (void). In 16 bits, weights of up to one chunk become floats once
// for all rows. Such rows wait as floats, too, where they have a residual or are binary16; bfloat16 is widened again,
// which takes no longer than loads. Longer rows and weights are read and widened again (Weight: Element).
template <class Element, class Residual, class Weight, class Pass>
class RowsOfOneType {
 public:
  static constexpr bool is_float = same_type<Element, float>, widens = !same_type<Element, Weight>;
  static constexpr bool waits = widens && (!same_type<Residual, void> || same_type<Element, Float16>);
  static constexpr int registers = is_float ? 1 : 2;
  static constexpr Reading reading = {};

  explicit RowsOfOneType(const NormRows &rows)
      : rows_(rows),
        soon_(ceil_div(Pass::soon, rows.dim)),
        later_(ceil_div(Pass::later, rows.dim)),
        weights_{weights_of(rows.weight, floats_[0]), weights_of(rows.bias, floats_[1]), rows.weight_raise} {}

  FOVEA_INLINE Moments moments(int64_t r, int64_t begin, int64_t count) {
    const auto later = input(r + later_, begin);
    const auto each = [&](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
      if constexpr (waits) {
        unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { store(y_[r % 2] + i + v * lanes, value[v]); });
      }
      if (Pass::later == 0 || held == 1) return;
      for (int64_t line = 0; line < held * lanes; line += line_floats) later.template prefetch<2>(i + line);
    };
    return chunk_moments<registers>(rows_.kind, input(r, begin), count, each);
  }
  FOVEA_INLINE void put(int64_t r, const NormScale &scale) {
    auto *out = static_cast<Element *>(rows_.row[r].out), *sum = static_cast<Element *>(nullptr);
    if constexpr (!same_type<Residual, void>) sum = static_cast<Element *>(rows_.row[r].sum);
    const auto soon = input(r + soon_, 0);
    const auto ask = [&](int64_t i) FOVEA_INLINE_BODY {
      if constexpr (Pass::soon > 0) soon.template prefetch<1>(i);
    };
    if constexpr (waits) {
      put_columns<registers>(KeptPairs{y_[r % 2]}, scale, weights_, out, sum, rows_.dim, pass_, ask);
    } else {
      put_columns<registers>(input(r, 0), scale, weights_, out, sum, rows_.dim, pass_, ask);
    }
  }

 private:
  FOVEA_INLINE NormInput<Element, Residual> input(int64_t r, int64_t begin) const {
    const NormRow &row = rows_.row[min_of(r, rows_.listed - 1)];
    return {row.x, row.residual, begin};
  }
  FOVEA_INLINE const Weight *weights_of(const void *from, float *to) const {
    if constexpr (!widens) return static_cast<const Weight *>(from);
    const auto *its = static_cast<const Element *>(from);
    for (int64_t i = 0; its != nullptr && i < rows_.dim; i += registers * lanes) {
      Float value[registers];
      read_or_zeros<registers>(its + i, min_of(rows_.dim - i, registers * lanes), value);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(to + i + v * lanes, value[v]); });
    }
    return its == nullptr ? nullptr : reinterpret_cast<const Weight *>(to);
  }

  const NormRows &rows_;
  const int64_t soon_, later_;
  const Pass pass_{};
  alignas(64) float y_[2][waits ? norm_chunk : 1], floats_[2][widens ? norm_chunk : 1];
  const NormWeights<Weight> weights_;
};

// Rows of any types, as floats in the first-level cache.
class WidenedRows {
 public:
  const Reading reading;

  explicit WidenedRows(const NormRows &rows, const Reading &its) : reading(its), rows_(rows) {}

  Moments moments(int64_t r, int64_t begin, int64_t count) {
    read(r, begin, count);
    return float_moments(rows_.kind, y_[r % 2], count);
  }
  void put(int64_t r, const NormScale &scale) {
    const NormRow &row = rows_.row[r];
    const auto &types = rows_.types;
    for (int64_t begin = 0; begin < rows_.dim; begin += norm_chunk) {
      const int64_t count = min_of(norm_chunk, rows_.dim - begin);
      if (begin != begin_) {  // else they are those of the chunk before
        weights_.weight = weights_of(rows_.weight, types.weight, begin, count, floats_[0]);
        weights_.bias = weights_of(rows_.bias, types.bias, begin, count, floats_[1]);
        begin_ = begin;
      }
      if (rows_.dim > norm_chunk) read(r, begin, count);
      const float *y = y_[r % 2];
      if (row.sum != nullptr) {  // before out is written over x or residual
        alignas(64) float plain[norm_chunk];
        const float *sum = reading.is_again() ? read_chunk(Reading(), row, rows_, begin, count, plain) : y;
        narrow_row(sum, count, element_at(row.sum, types.sum, begin), types.sum);
      }
      float *to = written_piece(row.out, types.out, begin, rooms_[r % 2]), *no_sum = nullptr;
      put_columns<1>(NormInput<float, void>(y, nullptr, 0), scale, weights_, to, no_sum, count, CachedPass(),
                     [](int64_t) FOVEA_INLINE_BODY {});
      put_piece(to, row.out, types.out, begin, count);
    }
  }

 private:
  void read(int64_t r, int64_t begin, int64_t count) {
    y_[r % 2] = read_chunk(reading, rows_.row[r], rows_, begin, count, rooms_[r % 2]);
  }
  static const float *weights_of(const void *from, Dtype dtype, int64_t begin, int64_t count, float *to) {
    return from == nullptr ? nullptr : read_piece(from, dtype, begin, count, to);
  }

  const NormRows &rows_;
  int64_t begin_ = -1;
  NormWeights<float> weights_ = {nullptr, nullptr, rows_.weight_raise};
  const float *y_[2];  // of two rows: those of one chunk wait
  alignas(64) float rooms_[2][norm_chunk], floats_[2][norm_chunk];
};

FOVEA_NOINLINE void norm_row_again(const NormRows &rows, int64_t r, const Reading &reading);

// A row's sums are taken while the root and quotient of the row before are under way.
template <class Way>
FOVEA_INLINE void norm_rows_by(Way &&way, const NormRows &rows) {
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto factor = static_cast<double>(way.reading.factor), square = factor * factor;
  Moments next;
  for (int64_t r = -1; r < rows.count; ++r) {
    const Moments moments = next;
    for (int64_t begin = 0; begin < rows.dim && r + 1 < rows.count; begin += norm_chunk) {
      const Moments more = way.moments(r + 1, begin, min_of(norm_chunk, rows.dim - begin));
      begin == 0 ? void(next = more) : next.merge(more);
    }
    if (r < 0) continue;
    double spread = moments.squares * share + rows.epsilon * square;
    if (!way.reading.is_again() && !fits_floats(spread)) {
      norm_row_again(rows, r, reading_again(moments.mean, spread));
      continue;
    }
    if (rows.mean != nullptr) {
      rows.mean[r] = static_cast<float>(moments.mean / factor + static_cast<double>(way.reading.less));
    }
    if (rows.inverse_deviation != nullptr) {
      rows.inverse_deviation[r] = static_cast<float>(1.0 / __builtin_sqrt(spread / square));
    }
    // Only rows of equal numbers have less, of which a large factor would make NaN.
    if (way.reading.is_again() && spread > 0 && spread < 0x1p-200) spread = 0x1p-200;
    way.put(r, NormScale(moments, spread, rows.kind));
  }
}

FOVEA_NOINLINE void norm_widened_rows(const NormRows &rows, const Reading &reading) {
  norm_rows_by(WidenedRows(rows, reading), rows);
}

FOVEA_NOINLINE void norm_row_again(const NormRows &rows, int64_t r, const Reading &reading) {
  NormRows one = rows;
  one.row += r;
  one.count = one.listed = 1;
  if (one.mean != nullptr) one.mean += r;
  if (one.inverse_deviation != nullptr) one.inverse_deviation += r;
  norm_widened_rows(one, reading);
}

template <class Element, class Residual, class Weight, class Pass>
FOVEA_NOINLINE void norm_rows_of(const NormRows &rows) {
  norm_rows_by(RowsOfOneType<Element, Residual, Weight, Pass>(rows), rows);
}

void norm_rows(const NormRows &rows) {
  const Dtype type = rows.types.x;
  const NormRow &row = rows.row[0];
  const auto fits = [&](const void *data, Dtype its) { return data == nullptr || its == type; };
  if (rows.types.out != type || !fits(row.residual, rows.types.residual) || !fits(rows.weight, rows.types.weight) ||
      !fits(rows.bias, rows.types.bias) || !fits(row.sum, rows.types.sum) ||
      (type != Dtype::f32 && !rows_go_in_pairs)) {
    return norm_widened_rows(rows, Reading());
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
