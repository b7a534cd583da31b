// Softmax, or its logarithm, over an axis that is not the last: element k of a column lies k * stride after its first,
// and neighbouring columns lie side by side. Lanes are columns: nothing is summed across them.
//
//   out[k] = e^{x[k] - max} / sum,  or (x[k] - max) - log sum,  sum = sum_k e^{x[k] - max}
//
// Three passes over a few registers of columns: the maximum; the exponentials and their sum; the division, as a
// multiplication by 1 / sum. Numbers are floats on the stack meanwhile, a piece of some hundred keys at a time,
// whatever types the tensors have. A column of one piece is read once and written once: its lines often lie a multiple
// of 4 kB apart, where a cache keeps eight of them. Of longer columns pieces are read anew in each pass, and
// exponentials that float32 results do not keep in out are made twice.
//
// Short chains of keys are summed, then their sums. Neither a column's neighbours nor its pieces change its bits.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t keys_in_a_chain = 64;
constexpr int64_t most_waiting_floats = 8192;               // 32 kB
constexpr int summed_registers = has_32_registers ? 4 : 2;  // of columns whose sums and powers fit registers

// Keys of some registers of columns as floats; of a single register perhaps not all lanes are columns.
template <int registers>
struct ColumnPiece {
  static constexpr int64_t stride = registers * lanes;
  static constexpr int64_t most_keys = most_waiting_floats / stride;
  static_assert(most_keys % keys_in_a_chain == 0);
  alignas(64) float at[most_waiting_floats];
  int64_t width;  // columns

  // maxima: of each column what was largest so far.
  FOVEA_NOINLINE void read(const void *from, Dtype dtype, int64_t from_stride, int64_t keys, float *maxima) {
    Float most[registers];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = load(maxima + v * lanes); });
    with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      const auto *x = static_cast<const typename T::Element *>(from);
      for (int64_t k = 0; k < keys; ++k, x += from_stride) {
        unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
          const Float value = registers == 1 ? load_partial(x, width) : load(x + v * lanes);
          store(at + k * stride + v * lanes, value);
          most[v] = larger(most[v], value);
        });
      }
    });
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(maxima + v * lanes, most[v]); });
  }
  // Times their columns' endings, or less maxima and endings (ending_of).
  FOVEA_NOINLINE void write(void *to, Dtype dtype, int64_t to_stride, int64_t keys, const float *endings,
                            const float *maxima, bool is_log) const {
    Float most[registers], ending[registers];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      most[v] = load(maxima + v * lanes);
      ending[v] = load(endings + v * lanes);
    });
    with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      const auto put_all = [&](const auto &end) FOVEA_INLINE_BODY {
        auto *out = static_cast<typename T::Element *>(to);
        for (int64_t k = 0; k < keys; ++k, out += to_stride) {
          unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
            const Float value = end(load(at + k * stride + v * lanes), v);
            registers == 1 ? store_partial(out, value, width) : store(out + v * lanes, value);
          });
        }
      };
      is_log ? put_all([&](const Float &x, auto v) FOVEA_INLINE_BODY { return (x - most[v]) - ending[v]; })
             : put_all([&](const Float &power, auto v) FOVEA_INLINE_BODY { return power * ending[v]; });
    });
  }
};

// What each of a register's columns is multiplied by, or what is taken from it.
FOVEA_INLINE Float ending_of(const Float &sum, bool is_log) {
  if (!is_log) return splat(1.0f) / sum;
  alignas(64) float logs[lanes];
  store(logs, sum);
  for (float &number : logs) number = log_of(number);
  return load(logs);
}

// Adds the exponentials of some registers' keys, `stride` apart, to sums, chain by chain; `keeps`: they take the keys'
// places.
template <int registers>
FOVEA_NOINLINE void exponentiate(float *at, int64_t stride, int64_t keys, const float *maxima, float *sums,
                                 bool keeps) {
  const ScaledExp2 exp(log2_of_e);
  Float most[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = load(maxima + v * lanes); });
  for (int64_t first = 0; first < keys; first += keys_in_a_chain) {
    Float sum[registers], value[registers];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = zero(); });
    const int64_t end = min_of(keys, first + keys_in_a_chain);
    for (int64_t k = first; k < end; ++k, at += stride) {
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(at + v * lanes) - most[v]; });
      exp.apply(value);
      if (keeps) unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(at + v * lanes, value[v]); });
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = sum[v] + value[v]; });
    }
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(sums + v * lanes, load(sums + v * lanes) + sum[v]); });
  }
}

template <int registers>
FOVEA_NOINLINE void softmax_of_some_columns(const SoftmaxColumns &columns, int64_t first, int64_t width) {
  using Piece = ColumnPiece<registers>;
  constexpr int64_t stride = Piece::stride;
  constexpr int at_once = registers < summed_registers ? registers : summed_registers;
  const bool is_one = columns.key_len <= Piece::most_keys, is_log = columns.log;
  const bool keeps_powers = columns.out_type == Dtype::f32 && !is_log;
  Piece piece;
  piece.width = width;
  alignas(64) float maxima[stride], sums[stride] = {}, again[stride] = {}, ones[stride];
  for (float &number : maxima) number = -__builtin_inff();
  for (float &number : ones) number = 1.0f;

  const auto for_each_piece = [&](const auto &body) FOVEA_INLINE_BODY {
    for (int64_t k = 0; k < columns.key_len; k += Piece::most_keys) {
      body(k, min_of(columns.key_len - k, Piece::most_keys));
    }
  };
  const auto read = [&](int64_t k, int64_t keys) FOVEA_INLINE_BODY {
    const void *from = element_at(columns.x, columns.x_type, first + k * columns.x_stride);
    piece.read(from, columns.x_type, columns.x_stride, keys, maxima);
  };
  const auto out_at = [&](int64_t k) FOVEA_INLINE_BODY {
    return element_at(columns.out, columns.out_type, first + k * columns.out_stride);
  };
  const auto write = [&](int64_t k, int64_t keys, const float *endings) FOVEA_INLINE_BODY {
    piece.write(out_at(k), columns.out_type, columns.out_stride, keys, endings, maxima, is_log);
  };
  const auto add_to = [&](float *its_sums, int64_t keys) FOVEA_INLINE_BODY {
    for (int64_t c = 0; c < stride; c += at_once * lanes) {
      exponentiate<at_once>(piece.at + c, stride, keys, maxima + c, its_sums + c, !is_log);
    }
  };

  for_each_piece(read);
  for_each_piece([&](int64_t k, int64_t keys) FOVEA_INLINE_BODY {
    if (!is_one) read(k, keys);
    add_to(sums, keys);
    if (!is_one && keeps_powers) write(k, keys, ones);
  });
  for (int64_t c = 0; c < stride; c += lanes) store(sums + c, ending_of(load(sums + c), is_log));
  for_each_piece([&](int64_t k, int64_t keys) FOVEA_INLINE_BODY {
    if (!is_one && keeps_powers) {
      piece.read(out_at(k), columns.out_type, columns.out_stride, keys, again);
    } else if (!is_one) {
      read(k, keys);
      if (!is_log) add_to(again, keys);
    }
    write(k, keys, sums);
  });
}

void softmax_columns(const SoftmaxColumns &columns) {
  constexpr int together = 4;
  int64_t c = 0;
  const auto run = [&](auto registers, int64_t least) FOVEA_INLINE_BODY {
    constexpr int64_t step = registers * lanes;
    for (; c + least <= columns.columns; c += step) {
      softmax_of_some_columns<registers>(columns, c, min_of(columns.columns - c, step));
    }
  };
  // Half as many where their keys are one piece and those of all are not.
  const bool halved =
      columns.key_len > ColumnPiece<together>::most_keys && columns.key_len <= ColumnPiece<together / 2>::most_keys;
  halved ? run(Index<together / 2>{}, together / 2 * lanes) : run(Index<together>{}, together * lanes);
  run(Index<1>{}, 1);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
