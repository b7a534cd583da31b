// out = activation(a b + bias) + residual of elements of 16 bits on AMX tiles. Panels of bfloat16 of b are those of the
// vector kernels (panels.hpp), and those of binary16 are made like them where its tiles are: a row of a panel holds two
// rows of b as words, so 16 of them by 16 columns are a tile as they lie, 256 bytes from row to row. a's rows are
// copied, 32 rows by 512 of the depth, into tiles that follow each other: whatever their strides, no read passes their
// ends, tails of the depth are 0, and rows a power of two apart do not compete for one set of a cache. Rows of float32
// are rounded to bfloat16 on the way.
//
// Loops: groups of columns whose right side fits the second-level cache > 32 rows > 512 of the depth, copied, which
// stay in the first-level cache > 32 columns: 2 x 2 tiles of sums. Up to 16 rows: 64 columns, 1 x 4. Between blocks of
// the depth sums wait in a buffer, from which rows are finished as everywhere (matmul.hpp).
//
// Every sum takes 32 of the depth at a time, in order, in float32: what a row gives depends neither on the cut nor on
// how many rows there are. So no number of rows is left to the vectors, and by counting none should be. One row reads a
// panel's 32 x 64 elements as four tiles, 32 cycles from the first-level cache, 85 from the second (48 bytes a cycle),
// as vectors read them; the products take a cycle for each row and tile, so reading bounds up to 8 rows, or 21. Two
// vector products a cycle (Zen 4; Intel has at most that) take 32 cycles a row, so never fewer, except that a task of
// tiles costs some 200 cycles.
//
// Limit, for 32 rows x 32 columns x 512 of the depth: 64 products of tiles of 16 cycles, 1024. Beside them 64 loads of
// tiles, 8 cycles of the ports each, half of them from the second-level cache, 2 kB in 64 cycles. Not beside them,
// where sums begin and end: 4 loads and 4 stores of sums, 32 and 64 cycles, and the latencies of a load (45) and of a
// product (52). Copying a's 32 rows takes 2 cycles a line, 1024, for 8 such blocks of 256 columns; finishing 64
// registers about 8 each, once for the whole depth. 2048 cubed, with outputs of bfloat16: 1024 of 1024 + 193 + 128 +
// 128, 70 % of the peak; depth 768 66 %.
#pragma once

#include "kernels/products/matmul.hpp"
#include "kernels/products/tile_blocks.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t most_rows = 2 * tile_edge;
constexpr int64_t most_depth = 512;
constexpr int64_t most_columns = 256;
constexpr int64_t most_group_bytes = int64_t{1} << 20;  // half of the second-level cache of processors with tiles
constexpr int64_t step_pairs = step_terms / 2;
constexpr int64_t panel_row_bytes = panel_columns * static_cast<int64_t>(sizeof(float));
constexpr int64_t sums_row_bytes = most_columns * static_cast<int64_t>(sizeof(float));
static_assert(panel_columns == strip_tiles * tile_edge);

// Elements of 16 bits: rows of a panel are rows of tiles as they lie.
template <class Element>
struct ElementTerms : Element {
  static constexpr int product_count = 1, left_parts = 1;
  static constexpr int products[product_count][2] = {{0, 0}};

  template <int tile>
  FOVEA_INLINE static void load_left(const TileStep &step, int64_t s, int64_t row_tile, int64_t) {
    load_tile<tile>(step.left + row_tile * step.left_tile_bytes + s * tile_bytes);
  }
  template <int tile>
  FOVEA_INLINE static void load_right(const TileStep &step, int64_t s, int64_t column_tile, int64_t) {
    const bool is_tail = s + 1 == step.steps && step.tail != nullptr;
    const char *right = is_tail ? step.tail : step.right + s * step_pairs * panel_row_bytes;
    load_tile<tile>(right + column_tile * tile_row_bytes, panel_row_bytes);
  }
};

// 32 of the depth of a row, the first `count` of them there.
FOVEA_INLINE __m512i rounded_elements(const float *from, int64_t count) {
  const Halves low = narrow_bfloat16(_mm512_maskz_loadu_ps(first_halves(min_of(count, lanes)), from));
  const Halves high = narrow_bfloat16(_mm512_maskz_loadu_ps(first_halves(max_of(count - lanes, 0)), from + lanes));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

template <class T>
FOVEA_INLINE void gather_elements(const T *from, int64_t stride, int64_t count, T *to) {
  for (int64_t i = 0; i < step_terms; ++i) to[i] = i < count ? from[i * stride] : T{};
}

FOVEA_NOINLINE inline __m512i elements_of(const MatmulTask &task, int64_t row, int64_t k, int64_t count) {
  const int64_t stride = task.a_column_stride;
  const void *from = element_at(task.a, task.a_dtype, row * task.a_row_stride + k * stride);
  if (bytes_of(task.a_dtype) == 2) {
    if (stride == 1) return load_elements(static_cast<const uint16_t *>(from), count);
    alignas(64) uint16_t elements[step_terms];
    gather_elements(static_cast<const uint16_t *>(from), stride, count, elements);
    return _mm512_load_si512(elements);
  }
  if (stride == 1) return rounded_elements(static_cast<const float *>(from), count);
  alignas(64) float elements[step_terms];
  gather_elements(static_cast<const float *>(from), stride, count, elements);
  return rounded_elements(elements, step_terms);
}

// Rows of a, `depth` of each from k on, as tiles [tile of rows][step].
FOVEA_NOINLINE inline void copy_left(const MatmulTask &task, int64_t row, int64_t rows, int64_t k, int64_t depth,
                                     char *to) {
  const int64_t tile_stride = ceil_div(depth, step_terms) * tile_bytes;
  if (bytes_of(task.a_dtype) == 2 && task.a_row_stride == 1 && task.a_column_stride != 1) {
    for (int64_t r = 0; r < rows; r += tile_edge, to += tile_stride) {
      for (int64_t d = 0; d < depth; d += step_terms) {
        const auto *from = static_cast<const uint16_t *>(task.a) + row + r + (k + d) * task.a_column_stride;
        turn_rows(from, task.a_column_stride, min_of(step_terms, depth - d), min_of(tile_edge, rows - r),
                  to + d / step_terms * tile_bytes);
      }
    }
    return;
  }
  const bool as_they_lie = bytes_of(task.a_dtype) == 2 && task.a_column_stride == 1;
  for (int64_t r = 0; r < rows; ++r) {
    char *at = to + r / tile_edge * tile_stride + r % tile_edge * tile_row_bytes;
    int64_t d = 0;
    if (as_they_lie) {  // the usual case: two instructions a line
      const auto *from = static_cast<const uint16_t *>(task.a) + (row + r) * task.a_row_stride + k;
      for (; d + step_terms <= depth; d += step_terms, at += tile_bytes) {
        _mm512_store_si512(at, _mm512_loadu_si512(from + d));
      }
    }
    for (; d < depth; d += step_terms, at += tile_bytes) {
      _mm512_store_si512(at, elements_of(task, row + r, k + d, min_of(step_terms, depth - d)));
    }
  }
}

// What a panel's last step has, filled up with 0.
FOVEA_INLINE void copy_tail(const float *panel, int64_t depth, float *to) {
  const int64_t words = ceil_div(depth % step_terms, 2) * panel_columns;
  memcpy(to, panel + depth / step_terms * step_pairs * panel_columns, static_cast<size_t>(words) * sizeof(float));
  memset(to + words, 0, static_cast<size_t>(step_pairs * panel_columns - words) * sizeof(float));
}

struct Columns {
  int64_t first, count;
};

// Up to 32 rows, from `row` on, by a group of columns.
template <class Element>
FOVEA_NOINLINE void multiply_group(const MatmulTask &task, const Columns &columns, int64_t row, int64_t rows) {
  alignas(64) char left[most_rows * most_depth * 2];
  alignas(64) float sums[most_rows * most_columns];
  alignas(64) float tail[step_pairs * panel_columns];
  configure_rows<ElementTerms<Element>>(rows);
  const int64_t blocks = max_of(1, ceil_div(task.depth, most_depth));
  const int64_t even = max_of(step_terms, round_up(ceil_div(task.depth, blocks), step_terms));
  const int64_t width = rows > tile_edge ? most_rows : panel_columns;
  for (int64_t k = 0; k == 0 || k < task.depth; k += even) {
    const int64_t depth = min_of(even, task.depth - k);
    copy_left(task, row, rows, k, depth, left);
    const bool has_tail = depth % step_terms != 0;
    TileStep step = {.left = left,
                     .left_tile_bytes = ceil_div(depth, step_terms) * tile_bytes,
                     .right = nullptr,
                     .tail = nullptr,
                     .half_bytes = 0,
                     .steps = ceil_div(depth, step_terms),
                     .sums = sums,
                     .sums_stride = sums_row_bytes,
                     .columns = panel_columns,
                     .adds = k > 0};
    for (int64_t c = 0; c < columns.count; c += width, step.sums += width) {
      const int64_t panel = (columns.first + c) / panel_columns, within = c % panel_columns;
      const float *right = task.b + panel * task.b_panel_stride + k / 2 * panel_columns;
      if (has_tail && within == 0) copy_tail(right, depth, tail);
      step.right = reinterpret_cast<const char *>(right + within);
      step.tail = has_tail ? reinterpret_cast<const char *>(tail + within) : nullptr;
      rows > tile_edge ? multiply_square<ElementTerms<Element>>(step) : multiply_strip<ElementTerms<Element>>(step);
    }
  }
  for (int64_t c = 0; c < columns.count; c += panel_columns) {
    finish_sums({.task = task,
                 .sums = sums + c,
                 .sums_stride = most_columns,
                 .row = row,
                 .rows = rows,
                 .column = columns.first + c,
                 .columns = min_of(panel_columns, columns.count - c)});
  }
}

template <class Element>
inline void multiply_narrow(const MatmulTask &task) {
  const int64_t fitting = most_group_bytes / (2 * max_of(task.depth, 1)) / panel_columns * panel_columns;
  const int64_t group = max_of(panel_columns, min_of(most_columns, fitting));
  with_tiles([&] {
    for (int64_t first = 0; first < task.columns; first += group) {
      const Columns columns = {first, min_of(group, task.columns - first)};
      for (int64_t row = 0; row < task.rows; row += most_rows) {
        multiply_group<Element>(task, columns, row, min_of(most_rows, task.rows - row));
      }
    }
  });
}

inline void bfloat16_block(const MatmulTask &task) { multiply_narrow<Bfloat16Tiles>(task); }

// Two rows of binary16 side by side, as those of bfloat16 are in all panels.
struct Float16PairRows {
  template <int row>
  FOVEA_INLINE static Float load(const float *b, int64_t v) {
    const __m512i words = _mm512_loadu_si512(b + v * lanes);
    return Float(widen_float16(_mm512_cvtepi32_epi16(row == 0 ? words : _mm512_srli_epi32(words, 16))));
  }
};

inline void pack_float16_pairs(const MatmulPack &pack) {
  MatmulPack bits = pack;
  bits.dtype = Dtype::bf16;
  pack_halves(bits);
}

// Rows of other types than the panel's take vectors, and float32.
inline void float16_block(const MatmulTask &task) {
  if (task.a_dtype == Dtype::f16) return multiply_narrow<Float16Tiles>(task);
  multiply_panels<NarrowPanel<Float16PairRows>>(task);
}

inline bool float16_reads_in_place(const MatmulTask &task) {
  return task.a_dtype == Dtype::f16 || FloatRows::reads_in_place(task);
}

// Tiles read rows of any strides where they lie.
constexpr MatmulKernels bfloat16_tiles_kernels = {.set = FOVEA_SET_NAME,
                                                  .panel_columns = panel_columns,
                                                  .block_rows = most_rows,
                                                  .row_step = most_rows,
                                                  .panel_floats = matmul_panel_floats,
                                                  .pack = matmul_pack,
                                                  .block = bfloat16_block};

// As those, with panels of its own; rows of other types are for vectors, which have to have them copied.
constexpr MatmulKernels float16_tiles_kernels = [] {
  MatmulKernels kernels = bfloat16_tiles_kernels;
  kernels.pack = pack_float16_pairs;
  kernels.block = float16_block;
  kernels.reads_in_place = float16_reads_in_place;
  kernels.rows_words = rows_words;
  kernels.copy_rows = copy_float_rows;
  return kernels;
}();

}  // namespace
}  // namespace fovea::FOVEA_ISA
