// The one microkernel: a block of rows x vectors registers accumulates  acc[r][v] += sum_k a(r, k) * b[k][v],  where
// a's elements are broadcast from memory and b's rows are contiguous vectors. Matmul, attention scores and the weighted
// sum of values are this loop with other strides, so that keys and values are read where they lie, without packing.
// Squared distances are this loop with (a(r, k) - b[k][v])^2 in place of the product.
//
// Per step of k: rows broadcasts, vectors loads and rows * vectors multiply-adds. With two loads and two multiply-adds
// a cycle the loads hide as long as rows + vectors <= rows * vectors.
#pragma once

#include "beyond_xsimd/add_product.hpp"
#include "kernels/products/matmul_problem.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The block shapes that leave room for one row of b and a broadcast: 32 registers take 6 x 4, 8 x 3 or 12 x 2, 16 take
// 6 x 2. Three registers are a shape of products alone, whose last panel may have as many.
constexpr int block_vectors = has_32_registers ? 4 : 2;
template <int vectors>
constexpr int block_rows = (has_32_registers ? 24 : 12) / vectors;
template <>
constexpr int block_rows<1> = 12;

// How a's elements lie: a(r, k) = a[r * stride + k], or a[k * stride + r].
enum class Order { row_major, column_major };

template <int rows, int vectors>
struct Block {
  Float at[rows * vectors];

  FOVEA_INLINE void clear() {
    unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY { at[i] = zero(); });
  }
};

// Row pointers in groups of three share one base register: base, base + stride, base + 2 * stride.
template <int rows, Order order>
struct RowPointers {
  static constexpr int groups = order == Order::row_major ? (rows + 2) / 3 : 1;
  const float *base[groups];
  int64_t stride;

  FOVEA_INLINE RowPointers(const float *a, int64_t a_stride) : RowPointers(a, a_stride, 3 * a_stride) {}
  // Groups of three rows so far apart.
  FOVEA_INLINE RowPointers(const float *a, int64_t a_stride, int64_t apart) : stride(a_stride) {
    unroll<groups>([&](auto g) FOVEA_INLINE_BODY { base[g] = a + g * apart; });
  }
  template <int row>
  FOVEA_INLINE const float *address() const {
    if constexpr (order == Order::row_major) return base[row / 3] + (row % 3) * stride;
    return base[0] + row;
  }
  template <int row, int step>
  FOVEA_INLINE float element() const {
    return address<row>()[order == Order::row_major ? step : step * stride];
  }
  template <int steps>
  FOVEA_INLINE void advance() {
    unroll<groups>([&](auto g) FOVEA_INLINE_BODY { base[g] += order == Order::row_major ? steps : steps * stride; });
  }
};

// Elements as terms take them: whole, or one part after the other (PairDifferences).
struct WholeElements {
  static constexpr int parts = 1;
  template <int>
  FOVEA_INLINE static Float part(const Float &element) {
    return element;
  }
};

// What is summed over k.
struct Products : WholeElements {
  FOVEA_INLINE static Float add(const Float &a, const Float &b, const Float &sum) { return add_product(a, b, sum); }
};

struct SquaredDifferences : WholeElements {
  FOVEA_INLINE static Float add(const Float &a, const Float &b, const Float &sum) {
    const Float difference = b - a;
    return add_product(difference, difference, sum);
  }
};

template <class Terms, int step, int rows, int vectors, Order order>
FOVEA_INLINE void accumulate_step(Block<rows, vectors> &block, const RowPointers<rows, order> &a, const float *b,
                                  int64_t b_stride) {
  unroll<Terms::parts>([&](auto p) FOVEA_INLINE_BODY {
    constexpr int part = decltype(p)::value;
    Float row_of_b[vectors];
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      row_of_b[v] = Terms::template part<part>(load(b + step * b_stride + v * lanes));
    });
    unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
      const Float element = Terms::template part<part>(Float(a.template element<decltype(r)::value, step>()));
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        constexpr int i = decltype(r)::value * vectors + decltype(v)::value;
        block.at[i] = Terms::add(element, row_of_b[v], block.at[i]);
      });
    });
  });
}

template <class Terms = Products, int rows, int vectors, Order order>
FOVEA_INLINE void accumulate(Block<rows, vectors> &block, RowPointers<rows, order> &a, const float *b, int64_t b_stride,
                             int64_t depth) {
  constexpr int steps = order == Order::row_major ? 4 : 3;
  int64_t k = 0;
  for (; k + steps <= depth; k += steps) {
    unroll<steps>([&](auto s) FOVEA_INLINE_BODY { accumulate_step<Terms, decltype(s)::value>(block, a, b, b_stride); });
    a.template advance<steps>();
    b += steps * b_stride;
  }
  for (; k < depth; ++k) {
    accumulate_step<Terms, 0>(block, a, b, b_stride);
    a.template advance<1>();
    b += b_stride;
  }
}

constexpr int64_t end_of_chain(int64_t first, int64_t chain) { return first / chain * chain + chain; }

// block = the sum over [first, last) of what add(k, count) adds for [k, k + count), from one multiple of `chain` to the
// next, the first of which is `end`: a long chain rounds at each step to the size it has by then. What the chains before
// have given waits in the first-level cache.
template <int rows, int vectors, class Add>
FOVEA_INLINE void sum_in_chains(Block<rows, vectors> &block, int64_t first, int64_t last, int64_t chain, int64_t end,
                                const Add &add) {
  alignas(64) float before[rows * vectors * lanes];
  const auto add_before = [&]() FOVEA_INLINE_BODY {
    unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY { block.at[i] = load(before + i * lanes) + block.at[i]; });
  };
  int64_t k = first;
  for (;; k = end, end += chain) {
    block.clear();
    add(k, min_of(last, end) - k);
    if (last <= end) break;
    if (k > first) add_before();
    unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY { store(before + i * lanes, block.at[i]); });
  }
  if (k > first) add_before();
}

template <int rows, int vectors, class Add>
FOVEA_INLINE void sum_in_chains(Block<rows, vectors> &block, int64_t first, int64_t last, int64_t chain,
                                const Add &add) {
  sum_in_chains(block, first, last, chain, end_of_chain(first, chain), add);
}

// How many of a score's features are summed in one chain.
constexpr int64_t feature_chain(int64_t depth) { return depth <= 64 ? 32 : short_chain; }

// Values are summed over so many keys in one chain, counted from key 0, so that a row's sums are those of any
// neighbours.
constexpr int64_t value_chain = 48;

// block[r][v] = sum_k of Terms over a(r, k) = a[r * a_stride + k] and b[k][v].
template <class Terms, int rows, int vectors>
FOVEA_INLINE void sum_rows_by_vectors(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b,
                                      int64_t b_stride, int64_t depth, int64_t chain) {
  RowPointers<rows, Order::row_major> a_rows(a, a_stride);
  sum_in_chains(block, 0, depth, chain, [&](int64_t k, int64_t count) FOVEA_INLINE_BODY {
    accumulate<Terms>(block, a_rows, b + k * b_stride, b_stride, count);
  });
}

// Covers [first, count), fewer than `most`, with blocks of 8, 4, 2 and 1: body(Index<rows>, first).
template <int most, class Body>
FOVEA_INLINE void for_each_rest_block(int64_t first, int64_t count, const Body &body) {
  int64_t i = first;
  if constexpr (most > 8) {
    if (i + 8 <= count) {
      body(Index<8>{}, i);
      i += 8;
    }
  }
  if (i + 4 <= count) {
    body(Index<4>{}, i);
    i += 4;
  }
  if (i + 2 <= count) {
    body(Index<2>{}, i);
    i += 2;
  }
  if (i < count) body(Index<1>{}, i);
}

// Covers [0, count) with blocks of block_rows<vectors> rows and the rest with smaller ones: body(Index<rows>, first).
template <int vectors, class Body>
FOVEA_INLINE void for_each_block(int64_t count, const Body &body) {
  constexpr int rows = block_rows<vectors>;
  int64_t i = 0;
  for (; i + rows <= count; i += rows) body(Index<rows>{}, i);
  for_each_rest_block<rows>(i, count, body);
}

// Covers vectors from 0 on with groups of block_vectors and of two: body(Index<vectors>, first). Returns the first that
// is left: `count`, or the last one.
template <class Body>
FOVEA_INLINE int64_t for_each_wide_group(int64_t count, const Body &body) {
  int64_t i = 0;
  for (; i + block_vectors <= count; i += block_vectors) body(Index<block_vectors>{}, i);
  if constexpr (block_vectors > 2) {
    if (i + 2 <= count) {
      body(Index<2>{}, i);
      i += 2;
    }
  }
  return i;
}

// Covers [0, count) vectors with groups of block_vectors, of two and of one: body(Index<vectors>, first).
template <class Body>
FOVEA_INLINE void for_each_vector_group(int64_t count, const Body &body) {
  const int64_t last = for_each_wide_group(count, body);
  if (last < count) body(Index<1>{}, last);
}

// body(Index<count>) of a count from 1 to block_vectors.
template <int most = block_vectors, class Body>
FOVEA_INLINE void with_vectors(int64_t count, const Body &body) {
  if constexpr (most > 1) {
    if (count < most) return with_vectors<most - 1>(count, body);
  }
  body(Index<most>{});
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
