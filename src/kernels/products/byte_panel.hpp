// Products with weights of 8 bits (fovea.h, FOVEA_PRECISION_INT8): columns of b are rounded as they are packed, each
// group of 64 rows by its own largest number, and rows of a to 16 bits as they are copied, each by its own largest.
//
//   panel   groups of 64 rows of b: the columns' factors B_gn / (127 * 32767), floats; then word k: for each column two bytes,
//           of neighbouring rows
//   row     words of two numbers of 16 bits, the last one filled up with a zero, then its factor A_m, a float
//
// As bits a word is one 32-bit element: loops, register blocks and copies are those of float32. Within a group sums are
// exact; groups are added as float32s in their order, which all sets have in common.
//
// Limit: with VNNI two instructions a cycle, of twice as many products as a multiply-add of float32; else a product and
// a sum for as many, which is float32's time where both take the units of multiply-adds, and half of it where sums have
// others: on Zen 3 26 instructions of four a cycle for 192 products, 1.85 times float32's rate. From memory, 17 bytes
// for 16 weights.
#pragma once

#include "beyond_xsimd/byte_products.hpp"
#include "kernels/products/matmul.hpp"
#include "kernels/quantized.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t group_rows = 64, group_words = group_rows / 2;
static_assert(depth_block % group_words == 0);

constexpr float left_most = 32767.0f, right_most = 127.0f;  // the largest numbers of 16 and of 8 bits

// The largest number that counts: below it a factor would leave float32's range.
FOVEA_INLINE float counted(float largest) { return largest < 0x1p-100f ? 0x1p-100f : largest; }
// What makes `most` of the largest number; 0 where that is NaN.
FOVEA_INLINE float inverse_of(float largest, float most) { return largest >= 0.0f ? most / largest : 0.0f; }

// Elements of a row from `first` on as floats: where they lie, or in room for them.
FOVEA_INLINE const float *floats_of(const MatmulRows &rows, int64_t row, int64_t first, int64_t count, float *room) {
  MatmulRows run = rows;
  run.a = element_at(rows.a, rows.a_dtype, row * rows.a_row_stride + first * rows.a_column_stride);
  if (!is_widened(rows.a_dtype) && rows.a_column_stride == 1) return static_cast<const float *>(run.a);
  run.a_row_stride = 0;
  run.rows = 1;
  run.depth = count;
  run.to = room;
  copy_float_rows(run);
  return room;
}

// 32-bit words of a panel before word k of a row, which begins a group; and of a whole panel.
inline int64_t byte_panel_offset(int64_t k) { return k / group_words * (group_words / 2 + 1) * panel_columns; }
inline int64_t byte_panel_floats(int64_t depth, Dtype) {
  const int64_t words = ceil_div(depth, 2), whole = words / group_words * group_words;
  return byte_panel_offset(whole) + (words == whole ? 0 : (words - whole) * panel_columns / 2 + panel_columns);
}

inline void pack_bytes(const MatmulPack &pack) {
  const MatmulRows columns = {.a = pack.b,
                              .a_dtype = pack.dtype,
                              .a_row_stride = pack.b_column_stride,
                              .a_column_stride = pack.b_row_stride,
                              .rows = pack.columns,
                              .depth = pack.depth,
                              .to = nullptr,
                              .to_stride = 0};
  alignas(64) float room[group_rows];
  memset(pack.out, 0, static_cast<size_t>(byte_panel_floats(pack.depth, pack.dtype)) * sizeof(float));
  for (int64_t k = 0; k < pack.depth; k += group_rows) {
    const int64_t count = min_of(group_rows, pack.depth - k);
    float *factors = pack.out + byte_panel_offset(k / 2);
    auto *words = reinterpret_cast<char *>(factors + panel_columns);
    for (int64_t c = 0; c < pack.columns; ++c) {
      const float *x = floats_of(columns, c, k, count, room);
      Largest met;
      met.meet(x, count);
      const float largest = counted(met.magnitude());
      int8_t numbers[group_rows] = {};
      quantize_group<true>(x, inverse_of(largest, right_most), count, numbers);
      factors[c] = largest / (right_most * left_most);
      for (int64_t i = 0; i < count; i += 2) memcpy(words + (i / 2 * panel_columns + c) * 2, numbers + i, 2);
    }
  }
}

struct BytePanel : FloatSums {
  static constexpr bool always_whole = true;

  static bool reads_in_place(const MatmulTask &task) { return task.a_dtype == Dtype::i8; }
  static int64_t left_stride(const MatmulTask &task) { return task.a_row_stride / 4; }
  static int64_t left_depth(int64_t depth) { return ceil_div(depth, 2); }
  static int64_t copy_words(int64_t depth) { return left_depth(depth) + 1; }
  static int64_t offset(int64_t k) { return byte_panel_offset(k); }

  static void copy_row(const MatmulRows &rows, int64_t row, float *to) {
    constexpr int64_t at_once = 512;
    alignas(64) float room[at_once];
    auto *halves = reinterpret_cast<char *>(to);
    Largest met;
    for (int64_t k = 0; k < rows.depth; k += at_once) {
      const int64_t count = min_of(at_once, rows.depth - k);
      met.meet(floats_of(rows, row, k, count, room), count);
    }
    const float largest = counted(met.magnitude()), inverse = inverse_of(largest, left_most);
    memset(to + left_depth(rows.depth) - 1, 0, sizeof(float));
    for (int64_t k = 0; k < rows.depth; k += at_once) {
      const int64_t count = min_of(at_once, rows.depth - k);
      int16_t numbers[at_once];
      round_to_halves(floats_of(rows, row, k, count, room), inverse, count, numbers);
      memcpy(halves + 2 * k, numbers, static_cast<size_t>(count) * sizeof *numbers);
    }
    to[left_depth(rows.depth)] = largest;
  }

  FOVEA_INLINE static void round_to_halves(const float *x, float inverse, int64_t count, int16_t *numbers) {
    if (inverse == 0.0f) {  // NaN times 0 is none
      memset(numbers, 0, static_cast<size_t>(count) * sizeof *numbers);
      return;
    }
    const auto rounded = [&](const Float &value) FOVEA_INLINE_BODY {
      return at_most(at_least(value * splat(inverse), -left_most), left_most).data;
    };
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) store_halves(numbers + i, rounded(load(x + i)), lanes);
    if (i < count) store_halves(numbers + i, rounded(load_partial(x + i, count - i)), count - i);
  }

  FOVEA_INLINE static Float add(const Float &a, const Float &b, const Float &sum) {
    return float_of(Int(add_pair_products(bits_of(sum).data, bits_of(a).data, bits_of(b).data)));
  }

  // Whole numbers: the products of some words of a group. Apart from the loops around it, which would take its
  // registers.
  template <int rows, int vectors>
  FOVEA_NOINLINE static void sum_words(Block<rows, vectors> &sums, const float *a, int64_t a_stride, const char *words,
                                       int64_t panel_stride, int64_t count) {
    constexpr int64_t row_bytes = panel_columns * 2, register_bytes = lanes * 2;
    RowPointers<rows, Order::row_major> left(a, a_stride);
    Block<rows, vectors> block;
    block.clear();
    const auto add_word = [&](auto step) FOVEA_INLINE_BODY {
      Float row_of_b[vectors];
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        const char *panel = words + v / block_vectors * panel_stride * static_cast<int64_t>(sizeof(float));
        row_of_b[v] = float_of(Int(load_right(panel + step * row_bytes + v % block_vectors * register_bytes)));
      });
      add_row_of_b<BytePanel, decltype(step)::value>(block, left, row_of_b);
    };
    constexpr int steps =
        has_32_registers ? 4 : 1;  // of few registers the instructions of several steps would want more
    for (; count >= steps; count -= steps, words += steps * row_bytes) {
      unroll<steps>(add_word);
      left.template advance<steps>();
    }
    for (; count > 0; --count, words += row_bytes) {
      add_word(Index<0>{});
      left.template advance<1>();
    }
    sums = block;
  }

  // Not fused, as not every set can.
  template <int rows, int vectors>
  FOVEA_INLINE static void sum(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b,
                               int64_t panel_stride, int64_t depth, int64_t) {
    alignas(64) float before[rows * vectors * lanes];
    for (int64_t k = 0; k == 0 || k < depth; k += group_words) {
      const float *factors = b + byte_panel_offset(k);
      sum_words(block, a + k, a_stride, reinterpret_cast<const char *>(factors + panel_columns), panel_stride,
                min_of(group_words, depth - k));
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        const Float factor = load(factors + v / block_vectors * panel_stride + v % block_vectors * lanes);
        unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
          constexpr int i = decltype(r)::value * vectors + decltype(v)::value;
          const Float group = xsimd::to_float(bits_of(block.at[i])) * factor;
          block.at[i] = k == 0 ? group : load(before + i * lanes) + group;
        });
      });
      if (k + group_words >= depth) return;
      unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY { store(before + i * lanes, block.at[i]); });
    }
  }

  // a ends here: its rows' factors.
  template <int rows, int vectors>
  FOVEA_INLINE static void end(Block<rows, vectors> &block, const float *a, int64_t a_stride) {
    unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
      const Float factor = splat(a[r * a_stride]);
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        Float &sum = block.at[r * vectors + v];
        sum = sum * factor;
      });
    });
  }
};

// Copies that `block` makes for itself: fewer than elsewhere, as each task makes them anew.
constexpr int64_t byte_rows_words = rows_words / 4;

}  // namespace
}  // namespace fovea::FOVEA_ISA
