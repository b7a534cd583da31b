// out = activation(a b + bias) + residual. b lies in panels of block_vectors registers, [k][panel_columns]; a's
// elements are broadcast from where they lie, or from a copy of the block at work if a row's elements are not
// neighbours.
//
// Loops: pieces of rows > panels > k blocks (of depth_block rows of a panel, which stream from the second-level cache)
// > blocks of 6 x 4 (32 registers) or 6 x 2 (16) of the output, kept in registers over the k block. Between k blocks a
// piece's sums stay in a buffer, so out is written once, and may be the residual. Every element of the output sums k in
// the same order, however the work is cut. b is read from its first element to its last, which the processor foresees:
// nothing is asked for in advance.
#pragma once

#include "kernels/products/activation.hpp"
#include "kernels/products/matmul_problem.hpp"
#include "kernels/products/microkernel.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t panel_columns = block_vectors * lanes;
// Deep, so that the output is loaded and stored seldom; a panel streams from the second-level cache anyway.
constexpr int64_t depth_block = 768;

// b transposed in memory (columns contiguous): squares of registers are transposed.
inline void pack_columns(const MatmulPack &pack) {
  for (int64_t c = 0; c < panel_columns; c += lanes) {
    const float *columns[lanes] = {};
    const int64_t count = min_of(lanes, pack.columns - c);
    for (int64_t i = 0; i < count; ++i) columns[i] = pack.b + (c + i) * pack.b_column_stride;
    rows_to_lanes(columns, count > 0 ? count : 0, pack.depth, pack.out + c, panel_columns);
  }
}

inline void matmul_pack(const MatmulPack &pack) {
  if (pack.b_row_stride == 1 && pack.b_column_stride != 1) return pack_columns(pack);
  for (int64_t k = 0; k < pack.depth; ++k) {
    const float *from = pack.b + k * pack.b_row_stride;
    float *to = pack.out + k * panel_columns;
    if (pack.b_column_stride == 1 && pack.columns == panel_columns) {
      unroll<block_vectors>([&](auto v) FOVEA_INLINE_BODY { store(to + v * lanes, load(from + v * lanes)); });
      continue;
    }
    for (int64_t c = 0; c < panel_columns; ++c) to[c] = c < pack.columns ? from[c * pack.b_column_stride] : 0.0f;
  }
}

// Some rows of a task against one panel, or one row against several, over one k block.
struct MatmulStep {
  const float *a = nullptr;  // of the first row, at the k block
  int64_t a_row_stride = 0;
  const float *b;  // of the panel, at the k block
  int64_t row = 0, rows = 0;
  int64_t column, columns;
  int64_t k, depth;
  float *sums;  // of the first row: kept here from one k block to the next, and before they are finished
  int64_t sums_stride;
};

// Where a register block's sums come from (null: they start here) and go to.
struct SumRows {
  const float *before;
  int64_t before_stride;
  float *after;
  int64_t after_stride;
  int64_t columns;
};

// A row against several panels at once: with few registers to a panel, one panel's multiply-adds wait for each other.
template <int vectors>
FOVEA_INLINE void multiply_panels(Block<1, vectors> &block, const MatmulTask &task, const MatmulStep &step) {
  const float *b = step.b;
  sum_in_chains(block, 0, step.depth, task.chain, [&](int64_t first, int64_t count) FOVEA_INLINE_BODY {
    for (int64_t k = first; k < first + count; ++k, b += task.b_row_stride) {
      const Float element(step.a[k]);
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        const float *from = b + v / block_vectors * task.b_panel_stride + v % block_vectors * lanes;
        block.at[v] = multiply_add(element, load(from), block.at[v]);
      });
    }
  });
}

// One register block over one k block. The lines that are written are asked for before the loop.
template <int rows, int vectors>
FOVEA_INLINE void multiply_block(const MatmulTask &task, const MatmulStep &step, int64_t row, const SumRows &to) {
  Block<rows, vectors> block;
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    for (int64_t c = 0; c < to.columns; c += 16) __builtin_prefetch(to.after + r * to.after_stride + c, 1, 3);
  });
  if constexpr (vectors > block_vectors) {
    multiply_panels(block, task, step);
  } else {
    sum_rows_by_vectors<Products>(block, step.a + row * step.a_row_stride, step.a_row_stride, step.b, task.b_row_stride,
                                  step.depth, task.chain);
  }
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      Float sum = block.at[r * vectors + v];
      if (to.before != nullptr) sum = load(to.before + r * to.before_stride + v * lanes) + sum;
      float *at = to.after + r * to.after_stride + v * lanes;
      const int64_t width = to.columns - v * lanes;
      if (width >= lanes) {
        store(at, sum);
      } else {
        store_partial(at, sum, width);
      }
    });
  });
}

FOVEA_INLINE bool finishes(const MatmulTask &task) {
  return task.bias != nullptr || task.activation != Activation::none || task.residual != nullptr;
}

// `rows` rows of a step's columns, from `row` on: from sums to out.
template <class Activate>
FOVEA_INLINE void finish_rows(const MatmulTask &task, const MatmulStep &step, const float *sums, int64_t row,
                              int64_t rows, const Activate &activate) {
  const float *bias = task.bias == nullptr ? nullptr : task.bias + step.column;
  for (int64_t r = step.row + row; r < step.row + row + rows; ++r, sums += step.sums_stride) {
    const float *residual =
        task.residual == nullptr ? nullptr : task.residual + r * task.residual_row_stride + step.column;
    float *out = task.out + r * task.out_row_stride + step.column;
    int64_t c = 0;
    for (; c + lanes <= step.columns; c += lanes) {
      Float value = load(sums + c);
      if (bias != nullptr) value = value + load(bias + c);
      value = activate(value);
      if (residual != nullptr) value = value + load(residual + c);
      store(out + c, value);
    }
    if (c == step.columns) continue;
    const int64_t width = step.columns - c;
    Float value = load(sums + c);
    if (bias != nullptr) value = value + load_partial(bias + c, width);
    value = activate(value);
    if (residual != nullptr) value = value + load_partial(residual + c, width);
    store_partial(out + c, value, width);
  }
}

FOVEA_NOINLINE void finish_sums(const MatmulTask &task, const MatmulStep &step, const float *sums, int64_t row,
                                int64_t rows) {
  const auto finish = [&](auto activate) FOVEA_INLINE_BODY { finish_rows(task, step, sums, row, rows, activate); };
  switch (task.activation) {
    case Activation::none: return finish([](const Float &x) FOVEA_INLINE_BODY { return x; });
    case Activation::relu: return finish([](const Float &x) FOVEA_INLINE_BODY { return relu(x); });
    case Activation::gelu: return finish([](const Float &x) FOVEA_INLINE_BODY { return gelu(x); });
    case Activation::gelu_tanh: return finish([](const Float &x) FOVEA_INLINE_BODY { return gelu_tanh(x); });
    case Activation::silu: return finish([](const Float &x) FOVEA_INLINE_BODY { return silu(x); });
  }
}

template <int rows, int vectors>
FOVEA_INLINE void multiply_sums(const MatmulTask &task, const MatmulStep &step, int64_t row) {
  const bool last = step.k + step.depth == task.depth;
  const bool finish = last && finishes(task);
  const bool alone = last && step.k == 0;  // nothing is kept: one register block after the other uses the same memory
  float *sums = step.sums + (alone ? 0 : row * step.sums_stride);
  SumRows to = {step.k == 0 ? nullptr : sums, step.sums_stride, sums, step.sums_stride, vectors * lanes};
  if (last && !finish) {
    to.after = task.out + (step.row + row) * task.out_row_stride + step.column;
    to.after_stride = task.out_row_stride;
    to.columns = step.columns;
  }
  multiply_block<rows, vectors>(task, step, row, to);
  if (finish) finish_sums(task, step, sums, row, rows);
}

// So many panels one row is multiplied by at a time, where there are as many.
constexpr int64_t row_panels = has_32_registers ? 1 : 4;

// Of a panel that is not full only the registers that are needed are computed.
FOVEA_NOINLINE void multiply_step(const MatmulTask &task, const MatmulStep &step) {
  if constexpr (row_panels > 1) {
    if (step.columns == row_panels * panel_columns) {
      return multiply_sums<1, row_panels * block_vectors>(task, step, 0);
    }
  }
  for_each_vector_group(ceil_div(step.columns, lanes), [&](auto vectors, int64_t) FOVEA_INLINE_BODY {
    constexpr int count = decltype(vectors)::value;
    for_each_block<count>(step.rows, [&](auto rows, int64_t r) FOVEA_INLINE_BODY {
      multiply_sums<decltype(rows)::value, count>(task, step, r);
    });
  });
}

constexpr int64_t copied_rows = 12;
constexpr int64_t copied_panels = 8;
constexpr int64_t sums_rows = copied_rows * copied_panels;  // times panel_columns: 24 kB with AVX-512

// A step but for a and the rows.
FOVEA_INLINE MatmulStep step_at(const MatmulTask &task, int64_t column, int64_t k, float *sums, int64_t sums_stride) {
  return {.b = task.b + column / panel_columns * task.b_panel_stride + k * task.b_row_stride,
          .column = column,
          .columns = min_of(panel_columns, task.columns - column),
          .k = k,
          .depth = min_of(depth_block, task.depth - k),
          .sums = sums,
          .sums_stride = sums_stride};
}

// Rows of a copied side by side, one k block at a time, when their elements lie apart.
FOVEA_NOINLINE void multiply_copied_rows(const MatmulTask &task, float *sums) {
  alignas(64) float copy[copied_rows * depth_block];
  constexpr int64_t together = copied_panels * panel_columns;
  for (int64_t row = 0; row < task.rows; row += copied_rows) {
    const int64_t rows = min_of(copied_rows, task.rows - row);
    for (int64_t first = 0; first < task.columns; first += together) {
      for (int64_t k = 0; k == 0 || k < task.depth; k += depth_block) {
        const int64_t depth = min_of(depth_block, task.depth - k);
        const bool copied = first > 0 && task.depth <= depth_block;
        for (int64_t r = 0; r < rows && !copied; ++r) {
          const float *from = task.a + (row + r) * task.a_row_stride + k * task.a_column_stride;
          for (int64_t i = 0; i < depth; ++i) copy[r * depth_block + i] = from[i * task.a_column_stride];
        }
        for (int64_t column = first; column < min_of(first + together, task.columns); column += panel_columns) {
          MatmulStep step = step_at(task, column, k, sums + (column - first), together);
          step.a = copy;
          step.a_row_stride = depth_block;
          step.row = row;
          step.rows = rows;
          multiply_step(task, step);
        }
      }
    }
  }
}

// A piece of a stays in the second-level cache while all panels pass by. Fewer rows than the least would make the
// panels pass by too often.
constexpr int64_t piece_floats = int64_t{1} << 16;
constexpr int64_t least_piece_rows = 48;
static_assert(least_piece_rows <= sums_rows && piece_floats / depth_block + 6 <= sums_rows);

// Rows of a where they lie: copying them costs more than it gains, even for rows a power of two apart.
FOVEA_NOINLINE void multiply_rows(const MatmulTask &task, float *sums) {
  const int64_t most = max_of(piece_floats / max_of(task.depth, 1), least_piece_rows);
  const int64_t pieces = ceil_div(task.rows, most);
  const int64_t piece_rows = round_up(ceil_div(task.rows, pieces), block_rows<block_vectors>);
  for (int64_t row = 0; row < task.rows; row += piece_rows) {
    const int64_t wide = task.rows - row == 1 ? row_panels * panel_columns : panel_columns;
    for (int64_t column = 0, width = 0; column < task.columns; column += width) {
      width = task.columns - column >= wide ? wide : panel_columns;
      for (int64_t k = 0; k == 0 || k < task.depth; k += depth_block) {
        MatmulStep step = step_at(task, column, k, sums, panel_columns);
        step.columns = min_of(width, task.columns - column);
        step.a = task.a + row * task.a_row_stride + k;
        step.a_row_stride = task.a_row_stride;
        step.row = row;
        step.rows = min_of(piece_rows, task.rows - row);
        multiply_step(task, step);
      }
    }
  }
}

inline void matmul_block(const MatmulTask &task) {
  alignas(64) float sums[sums_rows * panel_columns];
  if (task.a_column_stride == 1) {
    multiply_rows(task, sums);
  } else {
    multiply_copied_rows(task, sums);
  }
}

inline int64_t matmul_panel_floats(int64_t depth) { return depth * panel_columns; }

constexpr MatmulKernels matmul_kernels = {.set = FOVEA_SET_NAME,
                                          .panel_columns = panel_columns,
                                          .block_rows = 4 * block_rows<block_vectors>,
                                          .panel_floats = matmul_panel_floats,
                                          .pack = matmul_pack,
                                          .block = matmul_block};

}  // namespace
}  // namespace fovea::FOVEA_ISA
