// Softmax, or its logarithm, over an axis that is not the last: element k of a column lies k * stride after its first, and
// neighbouring columns lie side by side. Lanes are columns: nothing is summed across them, and nothing is copied.
//
//   out[k] = e^{x[k] - max} / sum,  or (x[k] - max) - log sum,  sum = sum_k e^{x[k] - max}
//
// Three passes over a few registers of columns, as softmax.hpp makes over a row: the maximum; the exponentials, which float32
// results keep in out, and their sum; the division. Results of 16 bits make the exponentials twice. Sums are taken of short
// chains of keys, and of these. Which columns stand beside a column does not change its bits.
#pragma once

#include "kernels/rowwise/log_softmax.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t keys_in_a_chain = 64;

// Some registers of columns; of a single one perhaps not all lanes.
template <class X_, class Out_, int registers_>
struct ColumnBlock {
  using X = X_;
  using Out = Out_;
  static constexpr int registers = registers_;
  static constexpr bool keeps_powers = same_type<Out, float>;

  const X *x;
  Out *out;
  int64_t x_stride, out_stride, key_len;
  int64_t width;  // columns, of one register

  FOVEA_INLINE void read(int64_t k, Float (&value)[registers]) const { read_from(x + k * x_stride, value); }
  template <class Element>
  FOVEA_INLINE void read_from(const Element *from, Float (&value)[registers]) const {
    if constexpr (registers == 1) {
      value[0] = load_partial(from, width);
    } else {
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(from + v * lanes); });
    }
  }
  FOVEA_INLINE void write(int64_t k, const Float (&value)[registers]) const {
    Out *to = out + k * out_stride;
    if constexpr (registers == 1) {
      store_partial(to, value[0], width);
    } else {
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(to + v * lanes, value[v]); });
    }
  }
};

template <class Block>
FOVEA_NOINLINE void softmax_of_columns(const Block &block, bool is_log) {
  constexpr int registers = Block::registers;
  const ScaledExp2 exp(log2_of_e);
  Float most[registers], total[registers], value[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
    most[v] = splat(-__builtin_inff());
    total[v] = zero();
  });
  for (int64_t k = 0; k < block.key_len; ++k) {
    block.read(k, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = larger(most[v], value[v]); });
  }
  const auto read_powers = [&](int64_t k) FOVEA_INLINE_BODY {
    block.read(k, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = value[v] - most[v]; });
    exp.apply(value);
  };
  for (int64_t first = 0; first < block.key_len; first += keys_in_a_chain) {
    Float sum[registers];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = zero(); });
    for (int64_t k = first; k < min_of(block.key_len, first + keys_in_a_chain); ++k) {
      read_powers(k);
      if (Block::keeps_powers && !is_log) block.write(k, value);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = sum[v] + value[v]; });
    }
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { total[v] = total[v] + sum[v]; });
  }
  if (is_log) {
    alignas(64) float logs[registers * lanes];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(logs + v * lanes, total[v]); });
    for (float &number : logs) number = log_of(number);
    for (int64_t k = 0; k < block.key_len; ++k) {
      block.read(k, value);
      unroll<registers>([&](auto v)
                            FOVEA_INLINE_BODY { value[v] = (value[v] - most[v]) - load(logs + v * lanes); });
      block.write(k, value);
    }
    return;
  }
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { total[v] = splat(1.0f) / total[v]; });
  for (int64_t k = 0; k < block.key_len; ++k) {
    if constexpr (Block::keeps_powers) {
      block.read_from(block.out + k * block.out_stride, value);
    } else {
      read_powers(k);
    }
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = value[v] * total[v]; });
    block.write(k, value);
  }
}

void softmax_columns(const SoftmaxColumns &columns) {
  constexpr int together = 4;
  with_element(columns.x_type, [&]<class XType>(XType) FOVEA_INLINE_BODY {
    with_element(columns.out_type, [&]<class OutType>(OutType) FOVEA_INLINE_BODY {
      using X = typename XType::Element;
      using Out = typename OutType::Element;
      const auto *x = static_cast<const X *>(columns.x);
      auto *out = static_cast<Out *>(columns.out);
      const auto run = [&]<class Block>(Type<Block>, int64_t column, int64_t width) FOVEA_INLINE_BODY {
        const Block block = {x + column, out + column, columns.x_stride, columns.out_stride, columns.key_len, width};
        softmax_of_columns(block, columns.log);
      };
      int64_t c = 0;
      for (; c + together * lanes <= columns.columns; c += together * lanes) {
        run(Type<ColumnBlock<X, Out, together>>{}, c, lanes);
      }
      for (; c < columns.columns; c += lanes) {
        run(Type<ColumnBlock<X, Out, 1>>{}, c, min_of(columns.columns - c, lanes));
      }
    });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
