// Softmax, or its logarithm, over an axis that is not the last: element k of a column lies k * stride after its first, and
// neighbouring columns lie side by side. Lanes are columns: nothing is summed across them.
//
//   out[k] = e^{x[k] - max} / sum,  or (x[k] - max) - log sum,  sum = sum_k e^{x[k] - max}
//
// Three passes over a few registers of columns: the maximum; the exponentials and their sum; the division, as a
// multiplication by 1 / sum. With up to some hundred keys the numbers wait on the stack as floats, so that x is read once
// and out is written once: the lines of a column often lie a multiple of 4 kB apart, where a cache keeps eight of them.
// Longer columns are read anew in each pass, and exponentials that float32 results do not keep in out are made twice.
//
// Short chains of keys are summed, then their sums. Which columns stand beside a column does not change its bits, nor
// which of the two ways it goes.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t keys_in_a_chain = 64;
constexpr int64_t most_waiting_floats = 8192;               // 32 kB
constexpr int summed_registers = has_32_registers ? 4 : 2;  // of columns whose sums, maxima and powers fit registers

// Some registers of columns; of a single one perhaps not all lanes.
template <class X, class Out, int registers_>
struct ColumnBlock {
  static constexpr int registers = registers_;
  static constexpr bool keeps_powers = same_type<Out, float>;

  const X *x;
  Out *out;
  int64_t x_stride, out_stride, key_len;
  int64_t width;  // columns, of one register

  FOVEA_INLINE void read(int64_t k, Float (&value)[registers]) const { read_from(x + k * x_stride, value); }
  FOVEA_INLINE void read_out(int64_t k, Float (&value)[registers]) const { read_from(out + k * out_stride, value); }
  FOVEA_INLINE void write(int64_t k, const Float (&value)[registers]) const {
    Out *to = out + k * out_stride;
    if constexpr (registers == 1) {
      store_partial(to, value[0], width);
    } else {
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(to + v * lanes, value[v]); });
    }
  }

 private:
  template <class Element>
  FOVEA_INLINE void read_from(const Element *from, Float (&value)[registers]) const {
    if constexpr (registers == 1) {
      value[0] = load_partial(from, width);
    } else {
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(from + v * lanes); });
    }
  }
};

// sum_k of power(k, registers), in chains.
template <int registers, class Power>
FOVEA_INLINE void sum_in_chains_of_keys(int64_t key_len, Float (&total)[registers], const Power &power) {
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { total[v] = zero(); });
  for (int64_t first = 0; first < key_len; first += keys_in_a_chain) {
    Float sum[registers];
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = zero(); });
    const int64_t end = min_of(key_len, first + keys_in_a_chain);
    for (int64_t k = first; k < end; ++k) {
      Float value[registers];
      power(k, value);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = sum[v] + value[v]; });
    }
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { total[v] = total[v] + sum[v]; });
  }
}

// What each of a register's columns is multiplied by, or what is taken from it.
FOVEA_INLINE Float ending_of(const Float &sum, bool is_log) {
  if (!is_log) return splat(1.0f) / sum;
  alignas(64) float logs[lanes];
  store(logs, sum);
  for (float &number : logs) number = log_of(number);
  return load(logs);
}

// The last step of columns that wait, keys `stride` apart, from their maxima. Without a logarithm powers take their place.
template <int registers>
FOVEA_NOINLINE void exponentiate_waiting(float *waiting, int64_t stride, int64_t key_len, const float *maxima,
                                         float *endings, bool is_log) {
  const ScaledExp2 exp(log2_of_e);
  Float most[registers], total[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = load(maxima + v * lanes); });
  sum_in_chains_of_keys<registers>(key_len, total, [&](int64_t k, Float(&value)[registers]) FOVEA_INLINE_BODY {
    float *at = waiting + k * stride;
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(at + v * lanes) - most[v]; });
    exp.apply(value);
    if (!is_log) unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(at + v * lanes, value[v]); });
  });
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(endings + v * lanes, ending_of(total[v], is_log)); });
}

template <class Block>
FOVEA_NOINLINE void softmax_of_waiting_columns(const Block &block, bool is_log) {
  constexpr int registers = Block::registers;
  constexpr int at_once = registers < summed_registers ? registers : summed_registers;
  constexpr int64_t stride = registers * lanes;
  alignas(64) float waiting[most_waiting_floats];
  alignas(64) float maxima[stride], endings[stride];
  Float most[registers], value[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = splat(-__builtin_inff()); });
  for (int64_t k = 0; k < block.key_len; ++k) {
    block.read(k, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      store(waiting + k * stride + v * lanes, value[v]);
      most[v] = larger(most[v], value[v]);
    });
  }
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { store(maxima + v * lanes, most[v]); });
  for (int64_t first = 0; first < stride; first += at_once * lanes) {
    exponentiate_waiting<at_once>(waiting + first, stride, block.key_len, maxima + first, endings + first, is_log);
  }
  const auto put_all = [&](const auto &end) FOVEA_INLINE_BODY {
    for (int64_t k = 0; k < block.key_len; ++k) {
      unroll<registers>([&](auto v)
                            FOVEA_INLINE_BODY { value[v] = end(load(waiting + k * stride + v * lanes), v * lanes); });
      block.write(k, value);
    }
  };
  if (is_log) {
    put_all([&](const Float &x, int64_t at) FOVEA_INLINE_BODY { return (x - load(maxima + at)) - load(endings + at); });
  } else {
    put_all([&](const Float &power, int64_t at) FOVEA_INLINE_BODY { return power * load(endings + at); });
  }
}

template <class Block>
FOVEA_NOINLINE void softmax_of_long_columns(const Block &block, bool is_log) {
  constexpr int registers = Block::registers;
  const ScaledExp2 exp(log2_of_e);
  Float most[registers], ending[registers], value[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = splat(-__builtin_inff()); });
  for (int64_t k = 0; k < block.key_len; ++k) {
    block.read(k, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { most[v] = larger(most[v], value[v]); });
  }
  const auto read_powers = [&](int64_t k, Float(&power)[registers]) FOVEA_INLINE_BODY {
    block.read(k, power);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { power[v] = power[v] - most[v]; });
    exp.apply(power);
  };
  sum_in_chains_of_keys<registers>(block.key_len, ending, [&](int64_t k, Float(&power)[registers]) FOVEA_INLINE_BODY {
    read_powers(k, power);
    if (Block::keeps_powers && !is_log) block.write(k, power);
  });
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { ending[v] = ending_of(ending[v], is_log); });
  for (int64_t k = 0; k < block.key_len; ++k) {
    if (is_log) {
      block.read(k, value);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = (value[v] - most[v]) - ending[v]; });
    } else {
      if constexpr (Block::keeps_powers) {
        block.read_out(k, value);
      } else {
        read_powers(k, value);
      }
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = value[v] * ending[v]; });
    }
    block.write(k, value);
  }
}

template <class X, class Out>
FOVEA_INLINE void softmax_columns_of(const SoftmaxColumns &columns) {
  constexpr int waiting_registers = 4;
  const auto *x = static_cast<const X *>(columns.x);
  auto *out = static_cast<Out *>(columns.out);
  int64_t c = 0;
  const auto run = [&]<class Block>(Type<Block>, int64_t step) FOVEA_INLINE_BODY {
    constexpr int64_t longest_waiting = most_waiting_floats / (Block::registers * lanes);
    for (; c + step <= columns.columns; c += Block::registers * lanes) {
      const int64_t width = min_of(columns.columns - c, lanes);
      const Block block = {x + c, out + c, columns.x_stride, columns.out_stride, columns.key_len, width};
      columns.key_len <= longest_waiting ? softmax_of_waiting_columns(block, columns.log)
                                         : softmax_of_long_columns(block, columns.log);
    }
  };
  if (columns.key_len <= most_waiting_floats / (waiting_registers * lanes)) {
    run(Type<ColumnBlock<X, Out, waiting_registers>>{}, waiting_registers * lanes);
  } else {
    run(Type<ColumnBlock<X, Out, summed_registers>>{}, summed_registers * lanes);
  }
  run(Type<ColumnBlock<X, Out, 1>>{}, 1);
}

void softmax_columns(const SoftmaxColumns &columns) {
  with_element(columns.x_type, [&]<class X>(X) FOVEA_INLINE_BODY {
    with_element(columns.out_type, [&]<class Out>(Out) FOVEA_INLINE_BODY {
      softmax_columns_of<typename X::Element, typename Out::Element>(columns);
    });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
