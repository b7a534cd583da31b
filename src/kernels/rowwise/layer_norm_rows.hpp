// Layer and RMS normalisation of rows of any types. A chunk of a row becomes floats in the first-level cache on its way to the
// row's moments (layer_norm.hpp), unless it is floats as it lies, and is written from there, while the next row's moments are
// under way. Chunks of a longer row are read again to be written. Weights become floats once for all rows of a task, very long
// ones a chunk at a time. Where all tensors have one type of 16 bits, floats lie in the order of pairs of registers
// (kernels/narrow_pairs.hpp).
//
// Rows whose squares leave the range of float32 go again: all of it times a power of two first, and epsilon times its square, which
// changes no bit of the result. What no power of two helps (a row all but constant beside an epsilon below 2^-90) is computed in
// float64.
#pragma once

#include "kernels/rowwise/layer_norm.hpp"
#include "kernels/rowwise/row_pass.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Rows of one type, with a residual of that type or without (void); a step of theirs takes so many registers.
template <int registers_, class X, class Residual>
struct OneType {
  using Out = X;
  using Input = NormInput<X, Residual>;
  static constexpr int registers = registers_;
  static constexpr bool is_one = true, has_residual = !same_type<Residual, void>;
  static constexpr bool are_floats = same_type<X, float>;
  static constexpr bool are_read_again = are_floats || (same_type<X, Bfloat16> && !has_residual);  // takes no longer
};

// Of any types: results are floats that are rounded afterwards.
struct AnyTypes {
  using Out = float;
  static constexpr int registers = 1;
  static constexpr bool is_one = false, has_residual = false, are_floats = false, are_read_again = false;
};

// What stores y of a chunk as floats.
FOVEA_INLINE auto keeper(float *kept, int64_t begin) {
  return [to = kept - begin](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
    unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { store(to + i + v * lanes, value[v]); });
  };
}

template <int registers, class Input>
FOVEA_INLINE void keep_chunk(const Input &y, int64_t begin, int64_t end, float *kept) {
  for_each_step<registers>(y, begin, end,
                           [keep = keeper(kept, begin)](auto, auto held, int64_t i, int64_t, const Float *value)
                               FOVEA_INLINE_BODY { keep(held, i, value); });
}

// Of rows of any types, times `factor`; returns their sum.
FOVEA_NOINLINE float keep_any_chunk(const NormRows &rows, const NormRow &row, float factor, int64_t begin, int64_t end,
                                    float *kept) {
  float sum = 0.0f;
  with_element(rows.types.x, [&]<class X>(X) FOVEA_INLINE_BODY {
    const auto keep = [&]<class Residual>(Type<Residual>) FOVEA_INLINE_BODY {
      const NormInput<typename X::Element, Residual, true> y(row.x, row.residual, factor);
      sum = chunk_sum(y, begin, end, keeper(kept, begin));
    };
    row.residual == nullptr ? keep(Type<void>{}) : with_element(rows.types.residual, keep);
  });
  return sum;
}

// A row of floats whose lines are asked for while others are worked on; null: none.
template <bool has_residual>
struct LaterRow {
  const float *x = nullptr, *residual = nullptr;
  template <int cache_level, int registers>
  FOVEA_INLINE void ask(int64_t i) const {
    if (x == nullptr) return;
    unroll<static_cast<int>(ceil_div(registers * lanes, line_floats))>([&](auto line) FOVEA_INLINE_BODY {
      __builtin_prefetch(x + i + line * line_floats, 0, 4 - cache_level);
      if constexpr (has_residual) __builtin_prefetch(residual + i + line * line_floats, 0, 4 - cache_level);
    });
  }
};

// y of a row that is read again, or what was kept of it as floats, whose element 0 would be there.
template <class Types>
FOVEA_INLINE auto y_again(const NormRow &row, const float *kept) {
  if constexpr (Types::are_read_again) {
    return typename Types::Input(row.x, row.residual);
  } else {
    return NormInput<float, void>(kept, nullptr);
  }
}

// The moments of a chunk, whose y goes to `kept` unless rows are read again.
template <class Types>
FOVEA_INLINE Moments read_chunk(const NormRows &rows, const NormRow &row, float factor, int64_t begin, int64_t end,
                                float *kept, const LaterRow<Types::has_residual> &later) {
  constexpr int registers = Types::registers;
  const auto keep = [&](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
    if constexpr (!Types::are_read_again) keeper(kept, begin)(held, i, value);
  };
  const auto ask = [&](auto held, int64_t i, const Float *) FOVEA_INLINE_BODY {
    if constexpr (Types::are_floats && held > 1) later.template ask<2, decltype(held)::value>(i);
  };
  const auto keep_and_ask = [&](auto held, int64_t i, const Float *value) FOVEA_INLINE_BODY {
    keep(held, i, value);
    ask(held, i, value);
  };
  const bool centred = rows.kind != NormKind::rms;
  float sum = 0.0f;
  if constexpr (!Types::is_one) {
    sum = keep_any_chunk(rows, row, factor, begin, end, kept);
  } else {
    const typename Types::Input y(row.x, row.residual);
    if (!centred) return chunk_moments<registers, false>(y, begin, end, 0.0f, keep_and_ask);
    if constexpr (registers > 1) {
      Float first[registers];
      const int64_t count = min_of(end - begin, registers * lanes);
      y.template read<registers>(begin, count, first);
      const float pivot = sum_of<registers>(first) / static_cast<float>(count);
      return chunk_moments<registers, true>(y, begin, end, pivot, keep);
    } else {
      sum = chunk_sum(y, begin, end, keep);
    }
  }
  const auto y = y_again<Types>(row, kept - begin);
  const auto mean = static_cast<float>(static_cast<double>(sum) * (1.0 / static_cast<double>(end - begin)));
  return centred ? chunk_moments<1, true>(y, begin, end, mean, ask) : chunk_moments<1, false>(y, begin, end, 0.0f, ask);
}

// Weights and biases of some columns as floats; null: there are none. In pairs weights have been raised.
struct NormColumns {
  const float *weight, *bias;
  Float raise;

  FOVEA_INLINE NormColumns from(int64_t i) const {
    return {weight == nullptr ? weight : weight + i, bias == nullptr ? bias : bias + i, raise};
  }
};

constexpr int64_t most_norm_columns = 4 * norm_chunk;

template <class Types>
FOVEA_NOINLINE NormColumns read_columns(const NormRows &rows, int64_t begin, int64_t end,
                                        float (&room)[2][most_norm_columns]) {
  const auto read = [&](const void *from, Dtype dtype, float *to) -> const float * {
    if (from == nullptr) return nullptr;
    if (dtype == Dtype::f32) return static_cast<const float *>(from) + begin;
    if constexpr (Types::registers > 1) {
      keep_chunk<Types::registers>(NormInput<typename Types::Out, void>(from, nullptr), begin, end, to);
      if (from != rows.weight) return to;
      for (int64_t i = 0; i < end - begin; i += lanes) store(to + i, load(to + i) + splat(rows.weight_raise));
    } else {
      widen_rows(element_at(from, dtype, begin), dtype, 0, 1, end - begin, to, 0);
    }
    return to;
  };
  NormColumns its = {read(rows.weight, rows.types.weight, room[0]), read(rows.bias, rows.types.bias, room[1]),
                     splat(rows.weight_raise)};
  if (its.bias == nullptr || its.weight != nullptr) return its;
  for (int64_t i = 0; i < round_up(end - begin, 2 * lanes); ++i) room[0][i] = 1.0f;
  its.weight = room[0];
  return its;
}

// (y - mean) * scale + shift, shift being what the mean's rounding left.
struct NormScale {
  Float mean, scale, shift;
  bool is_shifted = false;  // mean is in shift, too

  FOVEA_INLINE NormScale(const Moments &moments, double spread, NormKind kind, bool is_exact) {
    const double inverse = 1.0 / __builtin_sqrt(spread);
    mean = splat(static_cast<float>(moments.mean));
    scale = splat(static_cast<float>(inverse));
    // Without a mean the sign of 0 is kept, too.
    const double rest = kind == NormKind::rms ? -0.0 : static_cast<double>(mean.get(0)) - moments.mean;
    shift = splat(static_cast<float>(rest * inverse));
    // y scale - mean scale, whose rounding is 2^-25 at most where |mean scale| is.
    const Float offset = shift - mean * scale;
    if (is_exact || __builtin_fabsf(offset.get(0)) > 1.0f) return;
    is_shifted = true;
    shift = offset;
  }
  template <bool shifted>
  FOVEA_INLINE Float of(const Float &y) const {
    return multiply_add(shifted ? y : y - mean, scale, shift);
  }
};

enum class NormParameters { none, weight, weight_and_bias };

// Results of a chunk, and y itself to `sum` unless that is null. Stores of floats are aligned but for the first and last few.
template <class Types, NormParameters known, class Input, class Out, class Store>
FOVEA_INLINE void put_known(const Input &y, NormScale normalise, NormColumns its, Out *out, Out *sum, int64_t count,
                            LaterRow<Types::has_residual> soon, int64_t begin, const Store &store_to) {
  const auto result = [&](auto shifted, const Float &plain, int64_t i, int64_t left) FOVEA_INLINE_BODY {
    const auto read = [&](const float *from)
                          FOVEA_INLINE_BODY { return left < lanes ? load_partial(from + i, left) : load(from + i); };
    const Float value = normalise.template of<decltype(shifted)::value>(plain);
    if constexpr (known == NormParameters::none) return value;
    if constexpr (known == NormParameters::weight && Types::registers > 1) return value * read(its.weight);
    if constexpr (known == NormParameters::weight) return value * (read(its.weight) + its.raise);
    // Weights that come with a bias are never raised.
    return Types::registers > 1 ? multiply_add(value, read(its.weight), read(its.bias))
                                : value * read(its.weight) + read(its.bias);
  };
  if constexpr (Types::registers > 1) {
    const auto put = [&](auto shifted, int64_t i, int64_t left) FOVEA_INLINE_BODY {
      Float plain[2];
      if constexpr (Types::are_read_again) {
        y.template read<2>(begin + i, left, plain);
      } else {
        unroll<2>([&](auto v) FOVEA_INLINE_BODY { y.template read<1>(begin + i + v * lanes, lanes, &plain[v]); });
      }
      if (Types::has_residual && sum != nullptr) store_up_to_pair_exactly(sum + i, plain[0], plain[1], left);
      const Float value[2] = {result(shifted, plain[0], i, lanes), result(shifted, plain[1], i + lanes, lanes)};
      write_up_to<2>(out + i, left, value);
    };
    const auto put_all = [&](auto shifted) FOVEA_INLINE_BODY {
      int64_t i = 0;
      for (; i + 2 * lanes <= count; i += 2 * lanes) put(shifted, i, 2 * lanes);
      if (i < count) put(shifted, i, count - i);
    };
    normalise.is_shifted ? put_all(Index<1>{}) : put_all(Index<0>{});
  } else {
    const bool alike = Store::reads_first || (sum - out) % lanes == 0;  // both aligned where out is
    const auto put = [&](auto registers, int64_t i) FOVEA_INLINE_BODY {
      Float plain[registers];
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { y.template read<1>(begin + i + v * lanes, lanes, &plain[v]); });
      if (Types::has_residual && sum != nullptr) {
        unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
          float *to = sum + i + v * lanes;
          alike ? store_to(to, plain[v]) : store(to, plain[v]);
        });
      }
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
        store_to(out + i + v * lanes, result(Index<0>{}, plain[v], i + v * lanes, lanes));
      });
    };
    const auto put_first = [&](int64_t i, int64_t left) FOVEA_INLINE_BODY {
      Float plain;
      y.template read<1>(begin + i, left, &plain);
      if (Types::has_residual && sum != nullptr) store_partial(sum + i, plain, left);
      store_partial(out + i, result(Index<0>{}, plain, i, left), left);
    };
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float) % lanes);
    int64_t i = past == 0 ? 0 : min_of(lanes - past, count);
    if (i > 0) put_first(0, i);
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      soon.template ask<1, 2>(begin + i);
      put(Index<2>{}, i);
    }
    for (; i + lanes <= count; i += lanes) put(Index<1>{}, i);
    if (i < count) put_first(i, count - i);
  }
}

template <class Types, class Input, class... Others>
FOVEA_INLINE void put_chunk(const Input &y, const NormScale &normalise, const NormColumns &its,
                            const Others &...others) {
  using enum NormParameters;
  if (its.bias != nullptr) return put_known<Types, weight_and_bias>(y, normalise, its, others...);
  its.weight != nullptr ? put_known<Types, weight>(y, normalise, its, others...)
                        : put_known<Types, none>(y, normalise, its, others...);
}

FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread);
FOVEA_NOINLINE void norm_row_in_float64(int64_t r, const NormRows &rows);

// floats_soon, floats_later: how long before their turn rows of floats are asked for into the first-level cache, while a row is
// written, and into the second-level one, while squares are summed and memory has nothing else to do.
template <class Types, class Store>
FOVEA_NOINLINE void norm_rows_with(const NormRows &rows, int64_t floats_soon, int64_t floats_later,
                                   float factor = 1.0f) {
  constexpr int registers = Types::registers;
  const int64_t dim = rows.dim, rows_soon = ceil_div(floats_soon, dim), rows_later = ceil_div(floats_later, dim);
  const double share = 1.0 / static_cast<double>(dim), by = static_cast<double>(factor);
  const Store store_to;
  using Later = LaterRow<Types::has_residual>;
  alignas(64) float floats[2][norm_chunk];
  alignas(64) float column_room[2][most_norm_columns];
  const bool columns_stay = dim <= most_norm_columns;
  NormColumns columns = read_columns<Types>(rows, 0, columns_stay ? dim : norm_chunk, column_room);
  const auto row_ahead = [&](int64_t r, int64_t ahead) FOVEA_INLINE_BODY {
    if (!Types::are_floats || ahead == 0) return Later{};
    const NormRow &row = rows.row[min_of(r + ahead, rows.listed - 1)];
    return Later{static_cast<const float *>(row.x), static_cast<const float *>(row.residual)};
  };
  // visit(begin, end) for the chunks of a row.
  const auto for_each_chunk = [&](const auto &visit) FOVEA_INLINE_BODY {
    for (int64_t begin = 0; begin < dim; begin += norm_chunk) visit(begin, min_of(dim, begin + norm_chunk));
  };
  const auto moments_of = [&](int64_t r) FOVEA_INLINE_BODY {
    Moments moments;
    const Later later = row_ahead(r, rows_later);
    for_each_chunk([&](int64_t begin, int64_t end) FOVEA_INLINE_BODY {
      const Moments more = read_chunk<Types>(rows, rows.row[r], factor, begin, end, floats[r % 2], later);
      begin == 0 ? void(moments = more) : moments.merge(more);
    });
    return moments;
  };
  const auto put = [&](int64_t r, const NormScale &scale) FOVEA_INLINE_BODY {
    const NormRow &row = rows.row[r];
    const Later soon = row_ahead(r, rows_soon);
    float *kept = floats[r % 2];
    for_each_chunk([&](int64_t begin, int64_t end) FOVEA_INLINE_BODY {
      const bool is_kept = Types::are_read_again || dim <= norm_chunk;
      const auto y = y_again<Types>(row, kept - begin);
      if (!columns_stay) columns = read_columns<Types>(rows, begin, end, column_room);
      const NormColumns its = columns_stay ? columns.from(begin) : columns;
      if constexpr (Types::is_one) {
        using Out = typename Types::Out;
        if (!is_kept) keep_chunk<registers>(typename Types::Input(row.x, row.residual), begin, end, kept);
        auto *out = static_cast<Out *>(row.out) + begin;
        auto *sum = row.sum == nullptr ? nullptr : static_cast<Out *>(row.sum) + begin;
        put_chunk<Types>(y, scale, its, out, sum, end - begin, soon, begin, store_to);
      } else {
        if (!is_kept) keep_any_chunk(rows, row, factor, begin, end, kept);
        if (row.sum != nullptr) {
          float *plain = factor == 1.0f ? kept : floats[(r + 1) % 2];  // a row that goes again is the only one
          if (plain != kept) keep_any_chunk(rows, row, 1.0f, begin, end, plain);
          narrow_row(plain, end - begin, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
        }
        put_chunk<Types>(y, scale, its, kept, static_cast<float *>(nullptr), end - begin, soon, begin, store_to);
        narrow_row(kept, end - begin, element_at(row.out, rows.types.out, begin), rows.types.out);
      }
    });
  };
  Moments next;
  for (int64_t r = 0; r <= rows.count; ++r) {
    const Moments moments = next;
    if (r < rows.count) next = moments_of(r);
    if (r == 0) continue;
    const double spread = moments.squares * share + rows.epsilon * (by * by);
    if (!fits_floats(spread)) {
      factor == 1.0f ? norm_row_again(r - 1, rows, spread) : norm_row_in_float64(r - 1, rows);
      continue;
    }
    put_statistics(rows, r - 1, moments.mean / by, spread / (by * by));
    put(r - 1, NormScale(moments, spread, rows.kind, registers == 1));
  }
}

// spread: as far as the row's squares gave it.
FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread) {
  float factor = 0x1p-74f;  // of sums of 2^129 a chunk's squares still add up to less than 2^128
  if (spread <= 0x1p-90) factor = spread > 0x1p-126 ? 0x1p90f : 0x1p120f;
  NormRows one = rows;
  one.row += r;
  one.count = one.listed = 1;
  if (one.mean != nullptr) one.mean += r;
  if (one.inverse_deviation != nullptr) one.inverse_deviation += r;
  norm_rows_with<AnyTypes, CachedStore>(one, 0, 0, factor);
}

FOVEA_NOINLINE void norm_row_in_float64(int64_t r, const NormRows &rows) {
  const NormRow &row = rows.row[r];
  alignas(64) float x[norm_chunk], residual[norm_chunk];
  alignas(64) float column_room[2][most_norm_columns];
  const auto for_each_chunk = [&](const auto &visit) {
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t count = min_of(norm_chunk, rows.dim - begin);
      widen_rows(element_at(row.x, rows.types.x, begin), rows.types.x, 0, 1, count, x, 0);
      for (int64_t i = 0; i < count; ++i) residual[i] = -0.0f;  // changes no bit
      if (row.residual != nullptr) {
        widen_rows(element_at(row.residual, rows.types.residual, begin), rows.types.residual, 0, 1, count, residual, 0);
      }
      visit(begin, count);
    }
  };
  const auto y_at = [&](int64_t i) { return static_cast<double>(x[i]) + static_cast<double>(residual[i]); };
  double sum = 0.0, squares = 0.0;
  for_each_chunk([&](int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sum += y_at(i);
  });
  const auto dim = static_cast<double>(rows.dim), mean = rows.kind == NormKind::rms ? 0.0 : sum / dim;
  for_each_chunk([&](int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) squares += (y_at(i) - mean) * (y_at(i) - mean);
  });
  const double spread = squares / dim + rows.epsilon, scale = 1.0 / __builtin_sqrt(spread);
  put_statistics(rows, r, mean, spread);
  for_each_chunk([&](int64_t begin, int64_t count) {
    const NormColumns its = read_columns<AnyTypes>(rows, begin, begin + count, column_room);
    for (int64_t i = 0; i < count; ++i) {
      const double value = (y_at(i) - mean) * scale;
      const double weight = its.weight == nullptr ? 1.0 : static_cast<double>(its.weight[i] + rows.weight_raise);
      const double bias = its.bias == nullptr ? 0.0 : static_cast<double>(its.bias[i]);
      residual[i] = x[i] + residual[i];
      x[i] = static_cast<float>(value * weight + bias);
    }
    narrow_row(x, count, element_at(row.out, rows.types.out, begin), rows.types.out);
    if (row.sum != nullptr) narrow_row(residual, count, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
  });
}

template <class Residual>
FOVEA_INLINE void norm_floats(const NormRows &rows) {
  using Types = OneType<1, float, Residual>;
  // The ways to the first-level cache are few: where stores need them to fetch what they write to, rows from memory are left to
  // the second-level one.
  if (rows.traffic == NormTraffic::past_caches) return norm_rows_with<Types, StreamedStore>(rows, 1024, 2560);
  const bool cached = rows.traffic == NormTraffic::cached;
  norm_rows_with<Types, CachedStore>(rows, cached ? 1024 : 0, cached ? 0 : 1024);
}

void norm_rows(const NormRows &rows) {
  const Dtype type = rows.types.x;
  const NormRow &row = rows.row[0];
  const auto fits = [&](const void *data, Dtype its) { return data == nullptr || its == type; };
  const bool one_type = rows.types.out == type && fits(row.residual, rows.types.residual) &&
                        fits(rows.weight, rows.types.weight) && fits(rows.bias, rows.types.bias) &&
                        fits(row.sum, rows.types.sum);
  if (one_type && type == Dtype::f32)
    return row.residual != nullptr ? norm_floats<float>(rows) : norm_floats<void>(rows);
#if defined(__AVX2__)
  if (one_type) {
    return with_widened_element(type, [&]<class T>(T) FOVEA_INLINE_BODY {
      using Element = typename T::Element;
      row.residual != nullptr ? norm_rows_with<OneType<2, Element, Element>, CachedStore>(rows, 0, 0)
                              : norm_rows_with<OneType<2, Element, void>, CachedStore>(rows, 0, 0);
    });
  }
#endif
  norm_rows_with<AnyTypes, CachedStore>(rows, 0, 0);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
