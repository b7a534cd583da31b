// The right-hand side of a product in panels of block_vectors registers of columns, each of its own element type, and
// the sum of a register block over the depth of a panel.
//
//   float32    row k: panel_columns floats
//   binary16   row k: panel_columns of them
//   bfloat16   rows 2k and 2k + 1 side by side: a 32-bit word for each column, the first row in its lower half. A word is
//              two floats, by a shift and by a mask, or an operand of products of pairs (pair_panel.hpp). If the depth is
//              odd, the last row is paired with zeros.
//
// Numbers of 16 bits are widened in registers as they are read: from memory a panel costs half of float32's.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/products/finish_problem.hpp"
#include "kernels/products/microkernel.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t panel_columns = block_vectors * lanes;

// How many panels a single row is multiplied by at once.
constexpr int64_t row_panels = has_32_registers ? 1 : 4;

// Elements of a row, as many as a step has columns, as floats: where they lie, or in room.
struct FloatsOf {
  alignas(64) float room[row_panels * panel_columns];
  const float *operator()(const void *row, Dtype dtype, int64_t first, int64_t count) {
    if (row == nullptr) return nullptr;
    if (!is_widened(dtype)) return static_cast<const float *>(row) + first;
    widen_rows(element_at(row, dtype, first), dtype, 0, 1, count, room, 0);
    return room;
  }
  // The element at `index`, `count` times.
  const float *repeated(const void *data, Dtype dtype, int64_t index, int64_t count) {
    float one;
    widen_rows(element_at(data, dtype, index), dtype, 0, 1, 1, &one, 0);
    for (int64_t c = 0; c < count; c += lanes) store(room + c, splat(one));
    return room;
  }
};

// What a panel is multiplied by: rows of the left side as floats, one for each row of the panel.
//   reads_in_place(task)    they lie so in memory, left_stride(task) apart
//   copy_row(rows, r, to)   else become so
//   left_depth(depth)       how many they are, of copy_words(depth) words that a copy takes
//   always_whole            a panel that is not full is multiplied as if it were
//   end(block, a, stride)   what is done to sums to which nothing more is added, a where the rows end
// The panel itself tells
//   offset(k)               32-bit words before what element k of a row meets, k even
//   sum(block, ...)         block = sum_k a(r, k) b[k][v]; where block has more registers than a panel, of several panels
struct FloatSums {
  static constexpr bool always_whole = false;
  template <int rows, int vectors>
  FOVEA_INLINE static void end(Block<rows, vectors> &, const float *, int64_t) {}
};

struct FloatRows : FloatSums {
  static bool reads_in_place(const MatmulTask &task) { return !is_widened(task.a_dtype) && task.a_column_stride == 1; }
  static int64_t left_stride(const MatmulTask &task) { return task.a_row_stride; }
  static int64_t left_depth(int64_t depth) { return depth; }
  static int64_t copy_words(int64_t depth) { return depth; }

  static void copy(const MatmulRows &rows) { copy_float_rows(rows); }
};

struct FloatPanel : FloatRows {
  static int64_t offset(int64_t k) { return k * panel_columns; }

  // A row against several panels at once: with few registers to a panel, one panel's multiply-adds wait for each other.
  template <int vectors>
  FOVEA_INLINE static void sum_panels(Block<1, vectors> &block, const float *a, const float *b, int64_t panel_stride,
                                      int64_t depth, int64_t chain) {
    sum_in_chains(block, 0, depth, chain, [&](int64_t first, int64_t count) FOVEA_INLINE_BODY {
      for (int64_t k = first; k < first + count; ++k, b += panel_columns) {
        const Float element(a[k]);
        unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
          const float *from = b + v / block_vectors * panel_stride + v % block_vectors * lanes;
          block.at[v] = multiply_add(element, load(from), block.at[v]);
        });
      }
    });
  }

  template <int rows, int vectors>
  FOVEA_INLINE static void sum(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b,
                               int64_t panel_stride, int64_t depth, int64_t chain) {
    if constexpr (vectors > block_vectors) {
      sum_panels(block, a, b, panel_stride, depth, chain);
    } else {
      sum_rows_by_vectors<Products>(block, a, a_stride, b, panel_columns, depth, chain);
    }
  }
};

// The rows' elements at `step` times a row of b in registers.
template <class Terms, int step, int rows, int vectors>
FOVEA_INLINE void add_row_of_b(Block<rows, vectors> &block, const RowPointers<rows, Order::row_major> &left,
                               const Float *row_of_b) {
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    const Float element(left.template element<decltype(r)::value, step>());
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      constexpr int i = decltype(r)::value * vectors + decltype(v)::value;
      block.at[i] = Terms::add(element, row_of_b[v], block.at[i]);
    });
  });
}

// Rows of 16 bits, two by two. Rows::load<row>(b, v): register v of the first or second row at b.
template <class Rows>
struct NarrowPanel : FloatRows {
  static int64_t offset(int64_t k) { return k / 2 * panel_columns; }

  template <int row, int rows, int vectors>
  FOVEA_INLINE static void add_row(Block<rows, vectors> &block, const RowPointers<rows, Order::row_major> &left,
                                   const float *b, int64_t panel_stride) {
    Float row_of_b[vectors];
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      row_of_b[v] = Rows::template load<row>(b + v / block_vectors * panel_stride, v % block_vectors);
    });
    add_row_of_b<Products, row>(block, left, row_of_b);
  }

  // Chains are whole pairs.
  template <int rows, int vectors>
  FOVEA_INLINE static void sum(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b,
                               int64_t panel_stride, int64_t depth, int64_t chain) {
    RowPointers<rows, Order::row_major> left(a, a_stride);
    sum_in_chains(block, 0, depth, chain, [&](int64_t, int64_t count) FOVEA_INLINE_BODY {
      int64_t k = 0;
      for (; k + 2 <= count; k += 2, b += panel_columns) {
        add_row<0>(block, left, b, panel_stride);
        add_row<1>(block, left, b, panel_stride);
        left.template advance<2>();
      }
      if (k < count) add_row<0>(block, left, b, panel_stride);
    });
  }
};

struct Bfloat16Rows {
  template <int row>
  FOVEA_INLINE static Float load(const float *b, int64_t v) {
    const Int words = bits_of(FOVEA_ISA::load(b + v * lanes));
    return float_of(row == 0 ? words << 16 : words & Int(-0x10000));
  }
};

struct Float16Rows {
  template <int row>
  FOVEA_INLINE static Float load(const float *b, int64_t v) {
    return FOVEA_ISA::load(reinterpret_cast<const Float16 *>(b) + row * panel_columns + v * lanes);
  }
};

using Bfloat16Panel = NarrowPanel<Bfloat16Rows>;
using Float16Panel = NarrowPanel<Float16Rows>;

inline int64_t matmul_panel_floats(int64_t depth, Dtype dtype) {
  return (bytes_of(dtype) == 2 ? ceil_div(depth, 2) : depth) * panel_columns;
}

// b transposed in memory (columns contiguous): squares of registers are transposed.
inline void pack_columns(const MatmulPack &pack) {
  for (int64_t c = 0; c < panel_columns; c += lanes) {
    const float *columns[lanes] = {};
    const int64_t count = min_of(lanes, pack.columns - c);
    for (int64_t i = 0; i < count; ++i) {
      columns[i] = static_cast<const float *>(pack.b) + (c + i) * pack.b_column_stride;
    }
    rows_to_lanes(columns, count > 0 ? count : 0, pack.depth, pack.out + c, panel_columns);
  }
}

// Rows whose columns lie side by side, into as many panels as they fill.
inline void pack_float_rows(const MatmulPack &pack) {
  for (int64_t k = 0; k < pack.depth; ++k) {
    const float *from = static_cast<const float *>(pack.b) + k * pack.b_row_stride;
    float *to = pack.out + k * panel_columns;
    int64_t c = 0;
    for (; c + panel_columns <= pack.columns; c += panel_columns, to += pack.panel_stride) {
      unroll<block_vectors>([&](auto v) FOVEA_INLINE_BODY { store(to + v * lanes, load(from + c + v * lanes)); });
    }
    for (int64_t end = c + panel_columns; pack.columns % panel_columns != 0 && c < end; ++c) {
      *to++ = c < pack.columns ? from[c] : 0.0f;
    }
  }
}

inline void pack_floats(const MatmulPack &pack) {
  if (pack.b_column_stride == 1) return pack_float_rows(pack);
  if (pack.b_row_stride == 1) return pack_columns(pack);
  for (int64_t k = 0; k < pack.depth; ++k) {
    const float *from = static_cast<const float *>(pack.b) + k * pack.b_row_stride;
    float *to = pack.out + k * panel_columns;
    for (int64_t c = 0; c < panel_columns; ++c) to[c] = c < pack.columns ? from[c * pack.b_column_stride] : 0.0f;
  }
}

// A word for each column: row k's element in the lower half, the next row's (or 0) in the upper one. Its bits are as
// they were.
inline void pair_rows(const MatmulPack &pack, int64_t k, uint32_t *to) {
  const uint16_t *first = static_cast<const uint16_t *>(pack.b) + k * pack.b_row_stride;
  const uint16_t *second = k + 1 < pack.depth ? first + pack.b_row_stride : nullptr;
  const int64_t stride = pack.b_column_stride;
  if (stride == 1 && second != nullptr && pack.columns == panel_columns) {
    for (int64_t c = 0; c < panel_columns; ++c) to[c] = first[c] | static_cast<uint32_t>(second[c]) << 16;
    return;
  }
  for (int64_t c = 0; c < panel_columns; ++c) {
    const bool there = c < pack.columns;
    const uint32_t upper = there && second != nullptr ? second[c * stride] : 0;
    to[c] = (there ? first[c * stride] : 0u) | upper << 16;
  }
}

// Words [rows][panel_columns] of pairs from columns that are contiguous: a column's neighbours are a word already.
inline void pair_columns(const MatmulPack &pack, int64_t k, int64_t pairs, float *to) {
  for (int64_t c = 0; c < panel_columns; c += lanes) {
    const float *columns[lanes] = {};
    const int64_t count = min_of(lanes, pack.columns - c);
    for (int64_t i = 0; i < count; ++i) {
      const auto *column = static_cast<const uint16_t *>(pack.b) + (c + i) * pack.b_column_stride + k;
      columns[i] = reinterpret_cast<const float *>(column);
    }
    rows_to_lanes(columns, count > 0 ? count : 0, pairs, to + c, panel_columns);
  }
}

// Pairs of rows as rows of pairs.
FOVEA_INLINE void split_pairs(const uint32_t *pairs, uint16_t *to) {
  for (int64_t c = 0; c < panel_columns; ++c) {
    to[c] = static_cast<uint16_t>(pairs[c]);
    to[panel_columns + c] = static_cast<uint16_t>(pairs[c] >> 16);
  }
}

inline void pack_halves(const MatmulPack &pack) {
  constexpr int64_t together = 16;  // pairs
  alignas(64) float room[together * panel_columns];
  const bool columns_contiguous = pack.b_row_stride == 1 && pack.b_column_stride != 1;
  for (int64_t k = 0; k < pack.depth; k += 2 * together) {
    const int64_t pairs = min_of(together, (pack.depth - k) / 2);  // whole ones
    const int64_t rows = min_of(together, ceil_div(pack.depth - k, 2));
    float *to = pack.out + k / 2 * panel_columns;
    float *words = pack.dtype == Dtype::bf16 ? to : room;
    if (columns_contiguous) pair_columns(pack, k, pairs, words);
    for (int64_t row = columns_contiguous ? pairs : 0; row < rows; ++row) {
      pair_rows(pack, k + 2 * row, reinterpret_cast<uint32_t *>(words + row * panel_columns));
    }
    for (int64_t row = 0; row < rows && words == room; ++row) {
      split_pairs(reinterpret_cast<const uint32_t *>(words + row * panel_columns),
                  reinterpret_cast<uint16_t *>(to + row * panel_columns));
    }
  }
}

// Float32 rounded to bfloat16, some rows at a time, then packed as such.
inline void pack_narrowed(const MatmulPack &pack) {
  constexpr int64_t together = 32;
  alignas(64) uint16_t room[together * panel_columns];
  alignas(64) float row[panel_columns];
  const bool columns_contiguous = pack.b_row_stride == 1 && pack.b_column_stride != 1;
  MatmulPack part = pack;
  part.b = room;
  part.dtype = part.panel_dtype = Dtype::bf16;
  part.b_row_stride = columns_contiguous ? 1 : panel_columns;
  part.b_column_stride = columns_contiguous ? together : 1;
  for (int64_t k = 0; k < pack.depth; k += together) {
    const float *from = static_cast<const float *>(pack.b) + k * pack.b_row_stride;
    part.depth = min_of(together, pack.depth - k);
    part.out = pack.out + k / 2 * panel_columns;
    if (columns_contiguous) {
      for (int64_t c = 0; c < pack.columns; ++c) {
        narrow_row(from + c * pack.b_column_stride, part.depth, room + c * together, Dtype::bf16);
      }
    } else {
      for (int64_t r = 0; r < part.depth; ++r, from += pack.b_row_stride) {
        const float *floats = from;
        if (pack.b_column_stride != 1) {
          for (int64_t c = 0; c < pack.columns; ++c) row[c] = from[c * pack.b_column_stride];
          floats = row;
        }
        narrow_row(floats, pack.columns, room + r * panel_columns, Dtype::bf16);
      }
    }
    pack_halves(part);
  }
}

inline void matmul_pack(const MatmulPack &pack) {
  if (pack.panel_dtype != pack.dtype) return pack_narrowed(pack);
  bytes_of(pack.dtype) == 2 ? pack_halves(pack) : pack_floats(pack);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
