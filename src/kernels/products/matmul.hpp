// out = activation(a b + bias) + residual. Panels of block_vectors registers hold b (panels.hpp); elements of a are
// broadcast from where they lie, or from a copy if a row's elements are not neighbours or have to be widened. What has
// 16 bits is widened as it is read and rounded once as it is stored: in between all is float32, in the order that
// float32 has.
//
// Loops: pieces of rows > panels > k blocks (of depth_block rows of a panel, which stream from the second-level cache)
// > blocks of 6 x 4 (32 registers) or 6 x 2 (16) of the output, kept in registers over the k block. Between k blocks a
// piece's sums stay in a buffer, so out is written once, and may be the residual. Every element of the output sums k in
// the same order, however the work is cut. b is read from its first element to its last, which the processor foresees:
// nothing is asked for in advance.
#pragma once

#include "kernels/products/matmul_problem.hpp"
#include "kernels/products/panels.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Deep, so that the output is loaded and stored seldom; a panel streams from the second-level cache anyway.
constexpr int64_t depth_block = 768;

// Some rows of a task against one panel, or one row against several, over one k block.
struct MatmulStep {
  const float *a = nullptr;  // of the first row, at the k block: floats, or what the panel has to do with
  int64_t a_row_stride = 0;
  const float *b;  // of the panel, at the k block
  int64_t row = 0, rows = 0;
  int64_t column, columns;
  int64_t k, depth;
  float *sums;  // of the first row: kept here from one k block to the next, and before they are finished
  int64_t sums_stride;
};

// Where a register block's sums come from (null: they start here) and go to, as elements of which type. A bias (or
// null) is added.
struct SumRows {
  const float *before;
  int64_t before_stride;
  void *after;
  int64_t after_stride;
  Dtype dtype;
  const float *bias;
  int64_t columns;  // which all registers but the last one fill
};

template <int rows, int vectors>
FOVEA_INLINE void prefetch_rows(const SumRows &to) {
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    for (int64_t c = 0; c < to.columns; c += 16) {
      __builtin_prefetch(element_at(to.after, to.dtype, r * to.after_stride + c), 1, 3);
    }
  });
}

// Results of 16 bits are rounded in the registers of the block that most of a product is made of. Other blocks, and
// processors without conversions of their own, leave floats to finish_sums: in every loop conversions are most of the
// code.
#if defined(__F16C__) || defined(__aarch64__)
constexpr bool has_conversions = true;
#else
constexpr bool has_conversions = false;
#endif
template <int rows, int vectors>
constexpr bool rounds_in_registers = has_conversions && (vectors == block_vectors) && (rows == block_rows<vectors>);

template <bool any, class Body>
FOVEA_INLINE void with_stored_element(Dtype dtype, const Body &body) {
  if constexpr (any) {
    with_element(dtype, body);
  } else {
    body(Type<float>{});
  }
}

template <int rows, int vectors>
FOVEA_INLINE void store_rows(const Block<rows, vectors> &block, const SumRows &to) {
  const int64_t width = to.columns - (vectors - 1) * lanes;
  with_stored_element<rounds_in_registers<rows, vectors>>(to.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
      auto *row = static_cast<typename T::Element *>(to.after) + r * to.after_stride;
      const Float *sums = block.at + r * vectors;
      unroll<vectors / 2>([&](auto pair) FOVEA_INLINE_BODY {
        constexpr int v = 2 * decltype(pair)::value;
        if (v + 2 < vectors || width == lanes) {
          store_two<Nans::any>(row + v * lanes, sums[v], sums[v + 1]);
        } else {
          store_two_partial<Nans::any>(row + v * lanes, sums[v], sums[v + 1], lanes + width);
        }
      });
      if constexpr (vectors % 2 != 0) store_partial(row + (vectors - 1) * lanes, sums[vectors - 1], width);
    });
  });
}

// One register block, which sum(block) fills and end(block) ends.
template <int rows, int vectors, class Sum, class End>
FOVEA_INLINE void multiply_block(const SumRows &to, const Sum &sum, const End &end) {
  Block<rows, vectors> block;
  sum(block);
  if (to.before != nullptr) {
    unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY {
      block.at[i] = load(to.before + i / vectors * to.before_stride + i % vectors * lanes) + block.at[i];
    });
  }
  end(block);
  if (to.bias != nullptr) {
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      const Float bias = load_partial(to.bias + v * lanes, min_of(to.columns - v * lanes, lanes));
      unroll<rows>([&](auto r) FOVEA_INLINE_BODY { block.at[r * vectors + v] = block.at[r * vectors + v] + bias; });
    });
  }
  store_rows(block, to);
}

template <int rows, int vectors>
FOVEA_INLINE bool finishes(const MatmulTask &task) {
  return task.activation != Activation::none || task.multiplier != nullptr || task.residual != nullptr ||
         task.scale != 1.0f || (!rounds_in_registers<rows, vectors> && is_widened(task.out_dtype));
}

// Finishes sums to which nothing more is added; each unit says whose code does that (products/finish.hpp).
void finish_sums(const MatmulFinish &finish);

// One register block over one k block, which may be the `last` of all: sum(block, to) sums it, end(block) ends it.
template <int rows, int vectors, class Sum, class End>
FOVEA_INLINE void multiply_sums(const MatmulTask &task, const MatmulStep &step, int64_t row, bool last, const Sum &sum,
                                const End &end) {
  const bool empty_registers = step.columns <= (vectors - 1) * lanes;  // which store_rows does not expect
  const bool finish = last && (empty_registers || finishes<rows, vectors>(task));
  const bool alone = last && step.k == 0;  // nothing is kept: one register block after the other uses the same memory
  float *sums = step.sums + (alone ? 0 : row * step.sums_stride);
  FloatsOf bias;
  SumRows to = {.before = step.k == 0 ? nullptr : sums,
                .before_stride = step.sums_stride,
                .after = sums,
                .after_stride = step.sums_stride,
                .dtype = Dtype::f32,
                .bias = nullptr,
                .columns = vectors * lanes};
  if (last && !finish) {
    const int64_t at = (step.row + row) * task.out_row_stride + step.column;
    to.after = element_at(task.out, task.out_dtype, at);
    to.after_stride = task.out_row_stride;
    to.dtype = task.out_dtype;
    to.bias = bias(task.bias, task.bias_dtype, step.column, step.columns);
    to.columns = step.columns;
  }
  const auto end_last = [&](auto &block) FOVEA_INLINE_BODY {
    if (last) end(block);
  };
  multiply_block<rows, vectors>(
      to, [&](auto &block) FOVEA_INLINE_BODY { sum(block, to); }, end_last);
  if (finish) {
    finish_sums({.task = task,
                 .sums = sums,
                 .sums_stride = step.sums_stride,
                 .row = step.row + row,
                 .rows = rows,
                 .column = step.column,
                 .columns = step.columns});
  }
}

// One panel's columns. The lines that are written are asked for before the loop.
template <class Panel, int rows, int vectors>
FOVEA_INLINE void multiply_panel(const MatmulTask &task, const MatmulStep &step, int64_t row) {
  const bool last = step.k + step.depth == Panel::left_depth(task.depth);
  const float *left = step.a + row * step.a_row_stride;
  const auto sum = [&](auto &block, const SumRows &to) FOVEA_INLINE_BODY {
    prefetch_rows<rows, vectors>(to);
    Panel::sum(block, left, step.a_row_stride, step.b, task.b_panel_stride, step.depth, task.chain);
  };
  multiply_sums<rows, vectors>(task, step, row, last, sum, [&](auto &block) FOVEA_INLINE_BODY {
    Panel::end(block, left + step.depth, step.a_row_stride);
  });
}

// A panel that is not full takes only the registers that it needs, unless Panel::always_whole says that code for that
// is not worth its size. A row is multiplied by row_panels panels at a time, where there are as many.
template <class Panel>
FOVEA_NOINLINE void multiply_step(const MatmulTask &task, const MatmulStep &step) {
  if constexpr (row_panels > 1) {
    if (step.columns == row_panels * panel_columns) {
      return multiply_panel<Panel, 1, row_panels * block_vectors>(task, step, 0);
    }
  }
  const auto multiply = [&](auto vectors) FOVEA_INLINE_BODY {
    constexpr int count = decltype(vectors)::value;
    for_each_block<count>(step.rows, [&](auto rows, int64_t r) FOVEA_INLINE_BODY {
      multiply_panel<Panel, decltype(rows)::value, count>(task, step, r);
    });
  };
  if constexpr (Panel::always_whole) {
    multiply(Index<block_vectors>{});
  } else {
    with_vectors(ceil_div(step.columns, lanes), multiply);
  }
}

// The sums of a piece are this many rows times panel_columns: 24 kB with AVX-512.
constexpr int64_t sums_rows = 96;

// A step but for a and the rows.
template <class Panel>
FOVEA_INLINE MatmulStep step_at(const MatmulTask &task, int64_t column, int64_t k, float *sums, int64_t sums_stride) {
  return {.b = task.b + column / panel_columns * task.b_panel_stride + Panel::offset(k),
          .column = column,
          .columns = min_of(panel_columns, task.columns - column),
          .k = k,
          .depth = min_of(depth_block, Panel::left_depth(task.depth) - k),
          .sums = sums,
          .sums_stride = sums_stride};
}

// A piece of a stays in the second-level cache while all panels pass by. Fewer rows than the least would make the
// panels pass by too often.
constexpr int64_t piece_floats = int64_t{1} << 16;
constexpr int64_t least_piece_rows = 48;
static_assert(least_piece_rows <= sums_rows && piece_floats / depth_block + 6 <= sums_rows);

// Rows of a where they lie, as the panel wants them: copying those that may be read there costs more than it gains,
// even for rows a power of two apart.
template <class Panel>
FOVEA_NOINLINE void multiply_rows(const MatmulTask &task, const float *a, int64_t stride, float *sums) {
  const int64_t whole = Panel::left_depth(task.depth);
  const int64_t most = max_of(piece_floats / max_of(whole, 1), least_piece_rows);
  const int64_t pieces = ceil_div(task.rows, most);
  const int64_t piece_rows = round_up(ceil_div(task.rows, pieces), block_rows<block_vectors>);
  for (int64_t row = 0; row < task.rows; row += piece_rows) {
    const int64_t wide = task.rows - row == 1 ? row_panels * panel_columns : panel_columns;
    for (int64_t column = 0, width = 0; column < task.columns; column += width) {
      width = task.columns - column >= wide ? wide : panel_columns;
      for (int64_t k = 0; k == 0 || k < whole; k += depth_block) {
        MatmulStep step = step_at<Panel>(task, column, k, sums, panel_columns);
        step.columns = min_of(width, task.columns - column);
        step.a = a + row * stride + k;
        step.a_row_stride = stride;
        step.row = row;
        step.rows = min_of(piece_rows, task.rows - row);
        multiply_step<Panel>(task, step);
      }
    }
  }
}

// As many rows as fit are copied here, on the stack, and all panels pass by them: 36 kB. If there are more, few would
// pass a panel together; they are copied before.
constexpr int64_t rows_words = 12 * depth_block;

template <class Panel>
inline void copy_rows(const MatmulRows &rows) {
  if constexpr (requires { Panel::copy(rows); }) {
    Panel::copy(rows);
  } else {
    for (int64_t r = 0; r < rows.rows; ++r) Panel::copy_row(rows, r, rows.to + r * rows.to_stride);
  }
}

// multiply(copies of the rows, their stride)
template <class Left, class Multiply>
FOVEA_NOINLINE void multiply_copied_rows(const MatmulTask &task, const Multiply &multiply) {
  alignas(64) float copy[rows_words];
  copy_rows<Left>({.a = task.a,
                   .a_dtype = task.a_dtype,
                   .a_row_stride = task.a_row_stride,
                   .a_column_stride = task.a_column_stride,
                   .rows = task.rows,
                   .depth = task.depth,
                   .to = copy,
                   .to_stride = Left::copy_words(task.depth)});
  multiply(copy, Left::copy_words(task.depth));
}

// Likewise, of the rows where they lie if they can be read there.
template <class Left, class Multiply>
FOVEA_INLINE void multiply_left(const MatmulTask &task, const Multiply &multiply) {
  if (!Left::reads_in_place(task)) return multiply_copied_rows<Left>(task, multiply);
  multiply(static_cast<const float *>(task.a), Left::left_stride(task));
}

template <class Panel>
FOVEA_INLINE void multiply_panels(const MatmulTask &task) {
  alignas(64) float sums[sums_rows * panel_columns];
  multiply_left<Panel>(task, [&](const float *a, int64_t stride) { multiply_rows<Panel>(task, a, stride, sums); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
