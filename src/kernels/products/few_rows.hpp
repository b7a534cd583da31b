// out = activation(a b + bias) + residual for few rows of a, b read where it lies: once, where packing it reads it,
// writes it and has it read again. Every sum is that of matmul.hpp, bit by bit.
//
// Loops: runs of columns whose sums stay in the first-level cache > k blocks of depth_block, summed as those are >
// groups of rows of b, each row a stream > register blocks of the output. From group to group the sums of a k block
// wait in memory, which rounds nothing.
//
// Limit: with few rows, reading b; from 3 to 6 rows on, in a cache, the multiply-adds.
#pragma once

#include "kernels/prefetch.hpp"
#include "kernels/products/matmul.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// b where it lies, and the rows of a it is multiplied by (FloatRows in panels.hpp). An element of those meets `met`
// rows of b. load() gives them as registers, the last of which may be filled in part: there are `columns`, in the last
// row met `last_columns`.
template <class Element_>
struct ElementsInPlace : FloatRows {
  using Element = Element_;
  using Terms = Products;
  static constexpr int64_t met = 1;

  template <int vectors, bool whole>
  FOVEA_INLINE static void load(const Element *from, int64_t, int64_t columns, int64_t, Float *row) {
    constexpr int v = vectors - 1;
    unroll<vectors / 2>([&](auto pair) FOVEA_INLINE_BODY {
      constexpr int two = 2 * decltype(pair)::value;
      if constexpr (whole || two + 1 < v) return load_two(from + two * lanes, &row[two], &row[two + 1]);
      row[two] = FOVEA_ISA::load(from + two * lanes);
    });
    if constexpr (!whole || vectors % 2 != 0) row[v] = load_partial(from + v * lanes, columns - v * lanes);
  }
};

// Sums of a run of columns: 16 kB.
constexpr int64_t run_sums = 4096;

// With more rows multiply-adds take most of the time, and packed panels are better for those.
constexpr int64_t most_few_rows = 16;
static_assert(run_sums / most_few_rows >= panel_columns);

// What a task reads of b comes from memory if it is that much.
constexpr double far_bytes = 4 << 20;

// How b is read. From a cache in large groups, for which sums are loaded and stored seldom. From memory a row or two
// are as quick as reading is: few streams, a line of each being asked for when the group before it is at that column.
// More rows spend their time on multiply-adds: larger groups, asked for one row after the other. Elements of 16 bits
// take twice the rows, so that a group is as long.
struct Reading {
  bool far;
  int64_t group_rows;
  int64_t line_columns;  // columns of a panel, or a line if that is longer

  FOVEA_INLINE Reading(const MatmulTask &task, int64_t element_bytes)
      : far(static_cast<double>(task.b_rows) * static_cast<double>(task.columns * element_bytes) >= far_bytes),
        group_rows(group_bytes(task.rows) / element_bytes),
        line_columns(max_of(panel_columns, line_bytes / element_bytes)) {}

 private:
  FOVEA_INLINE int64_t group_bytes(int64_t rows) const {  // of one column
    if (!far) return 128;
    return rows <= 2 ? 32 : 64;
  }
};

// Some rows of b from the step's column on, all of them or the last of a k block.
template <class Right>
struct Group {
  const typename Right::Element *b;
  int64_t rows;
  int64_t next_rows;  // so many follow in the next group
  bool starts;        // the k block
  bool last;          // there is none after it
  float *chain;       // sums of the k block, at the step's column
};

// block = what its k block has so far, with this group.
template <class Right, bool whole, int rows, int vectors>
FOVEA_INLINE void add_group(Block<rows, vectors> &block, const MatmulTask &task, const MatmulStep &step, int64_t row,
                            const Group<Right> &group) {
  const float *chain = group.chain + row * step.sums_stride;
  unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY {
    block.at[i] = group.starts ? zero() : load(chain + i / vectors * step.sums_stride + i % vectors * lanes);
  });
  RowPointers<rows, Order::row_major> left(step.a + row * step.a_row_stride, step.a_row_stride);
  const typename Right::Element *b = group.b;
  const int64_t stride = task.b_row_stride, met = Right::met * stride;
  Float row_of_b[vectors];
  const auto add = [&](auto step_of_left) FOVEA_INLINE_BODY {
    constexpr int s = decltype(step_of_left)::value;
    Right::template load<vectors, whole>(b + s * met, stride, step.columns, step.columns, row_of_b);
    add_row_of_b<typename Right::Terms, s>(block, left, row_of_b);
  };
  constexpr int steps = whole ? 4 : 1;
  int64_t k = group.rows / Right::met;
  for (; k >= steps; k -= steps, b += steps * met) {
    unroll<steps>(add);
    left.template advance<steps>();
  }
  for (; k > 0; --k, b += met) {
    add(Index<0>{});
    left.template advance<1>();
  }
  if (group.rows % Right::met == 0) return;
  Right::template load<vectors, false>(b, 0, step.columns, 0, row_of_b);
  add_row_of_b<typename Right::Terms, 0>(block, left, row_of_b);
}

// One register block. Apart from the loops around it, so that what they keep does not take its registers.
template <class Right, bool whole, int rows, int vectors>
FOVEA_NOINLINE void multiply_group_block(const MatmulTask &task, const MatmulStep &step, int64_t row,
                                         const Group<Right> &group) {
  const auto sum = [&](auto &block, const SumRows &)
                       FOVEA_INLINE_BODY { add_group<Right, whole>(block, task, step, row, group); };
  multiply_sums<rows, vectors>(task, step, row, group.last, sum, [](auto &) FOVEA_INLINE_BODY {});
}

// Like for_each_block, in small blocks: most products have few columns in a part of a panel. Two registers of columns
// and four rows are sums enough for two multiply-adds a cycle of latency 4.
template <int vectors, class Body>
FOVEA_INLINE void for_each_small_block(int64_t count, const Body &body) {
  int64_t i = 0;
  if constexpr (vectors == 1) {
    for (; i + 8 <= count; i += 8) body(Index<8>{}, i);
  }
  for (; i + 4 <= count; i += 4) body(Index<4>{}, i);
  if (i + 2 <= count) {
    body(Index<2>{}, i);
    i += 2;
  }
  if (i < count) body(Index<1>{}, i);
}

// The columns of a panel, all of them or `vectors` registers.
template <class Right, bool whole, int vectors>
FOVEA_INLINE void multiply_group(const MatmulTask &task, const MatmulStep &step, const Group<Right> &group) {
  const auto multiply = [&](auto rows, int64_t row) FOVEA_INLINE_BODY {
    multiply_group_block<Right, whole, decltype(rows)::value, vectors>(task, step, row, group);
  };
  if constexpr (whole) {
    for_each_block<vectors>(step.rows, multiply);
  } else {
    for_each_small_block<vectors>(step.rows, multiply);
  }
}

// The columns of a run.
template <class Right>
FOVEA_NOINLINE void multiply_run(const MatmulTask &task, const MatmulStep &run, const Group<Right> &rows,
                                 const Reading &reading) {
  MatmulStep step = run;
  Group<Right> group = rows;
  const auto next = [&](int64_t columns) FOVEA_INLINE_BODY {
    return Upcoming(group.b + group.rows * task.b_row_stride, task.b_dtype, task.b_row_stride, columns,
                    group.next_rows);
  };
  const bool paced = reading.far && run.rows > 2, in_streams = reading.far && !paced;
  PacedFetch ahead(next(run.columns));
  for (int64_t c = 0; c < run.columns; c += panel_columns) {
    step.column = run.column + c;
    step.columns = min_of(panel_columns, run.columns - c);
    step.sums = run.sums + c;
    group.b = rows.b + c;
    group.chain = rows.chain + c;
    if (paced) ahead.worked_on(group.rows * panel_columns);
    if (in_streams && c % reading.line_columns == 0) next(reading.line_columns).fetch(0, group.next_rows);
    if (step.columns == panel_columns) {
      multiply_group<Right, true, block_vectors>(task, step, group);
      continue;
    }
    with_vectors(ceil_div(step.columns, lanes), [&](auto vectors) FOVEA_INLINE_BODY {
      multiply_group<Right, false, decltype(vectors)::value>(task, step, group);
    });
  }
}

// Rows of a where they lie, or copied, as those of matmul.hpp.
template <class Right>
FOVEA_NOINLINE void multiply_in_place(const MatmulTask &task, const float *a, int64_t stride) {
  using Element = typename Right::Element;
  alignas(64) float chain[run_sums];
  alignas(64) float sums[run_sums];
  const Reading reading(task, sizeof(Element));
  const int64_t whole = Right::left_depth(task.depth);
  const int64_t together = reading.group_rows / Right::met;
  const int64_t runs = ceil_div(task.columns, run_sums / task.rows / panel_columns * panel_columns);
  const int64_t width = round_up(ceil_div(task.columns, runs), panel_columns);
  MatmulStep step;
  step.a_row_stride = stride;
  step.rows = task.rows;
  step.sums_stride = width;
  for (step.column = 0; step.column < task.columns; step.column += width) {
    step.columns = min_of(width, task.columns - step.column);
    for (int64_t k = 0; k == 0 || k < whole; k += together) {
      const int64_t first = k * Right::met;
      const auto *b = static_cast<const Element *>(task.b_in_place) + first * task.b_row_stride;
      Group<Right> group = {.b = b + step.column,
                            .rows = min_of(reading.group_rows, task.b_rows - first),
                            .next_rows = 0,
                            .starts = k % depth_block == 0,
                            .last = k + together >= whole,
                            .chain = chain};
      group.next_rows = min_of(reading.group_rows, task.b_rows - first - group.rows);
      const bool ends = group.last || (k + together) % depth_block == 0;
      step.a = a + k;
      step.k = ends ? k / depth_block * depth_block : 0;
      step.sums = ends ? sums : chain;
      multiply_run<Right>(task, step, group, reading);
    }
  }
}

template <class Right>
FOVEA_INLINE void multiply_few_rows(const MatmulTask &task) {
  static_assert(depth_block % 64 == 0);  // groups end where k blocks do
  multiply_left<Right>(task, [&](const float *a, int64_t stride) { multiply_in_place<Right>(task, a, stride); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
