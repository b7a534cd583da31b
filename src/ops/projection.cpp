// The rows are handed out in blocks, all units at once; what is to be done to a finished row is done while it is in
// cache.
#include "ops/projection.hpp"

#include <algorithm>

#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t most_rows = 384;
constexpr int64_t least_rows = 48;  // whole blocks of the microkernel

// Axes of size 1 go, neighbours that are evenly spaced on both sides become one.
void merge_axes(const ProjectionRows &rows, Projection *projection) {
  const int64_t sizes[] = {rows.batch, rows.heads, rows.length};
  const int64_t strides[] = {rows.strides.batch, rows.strides.head, rows.strides.position};
  const int64_t out_strides[] = {rows.out_strides.batch, rows.out_strides.head, rows.out_strides.position};
  Projection &p = *projection;
  p.axes = 0;
  for (int axis = 0; axis < 3; ++axis) {
    if (sizes[axis] == 1) continue;
    const int last = p.axes - 1;
    const bool even = last >= 0 && p.stride[last] == strides[axis] * sizes[axis] &&
                      p.out_stride[last] == out_strides[axis] * sizes[axis];
    const int at = even ? last : p.axes++;
    p.size[at] = even ? p.size[at] * sizes[axis] : sizes[axis];
    p.stride[at] = strides[axis];
    p.out_stride[at] = out_strides[axis];
  }
  if (p.axes > 0) return;
  p.axes = 1;
  p.size[0] = 1;
  p.stride[0] = p.out_stride[0] = 0;
}

int64_t block_rows(const Projection &projection, int workers) {
  const int64_t even = round_up(ceil_div(projection.rows, int64_t{8} * workers), least_rows);
  return std::min(std::clamp(even, least_rows, most_rows), std::max<int64_t>(projection.size[projection.axes - 1], 1));
}

}  // namespace

bool plan_projection(const Kernels &kernels, const ProjectionRows &rows, const ProjectionWeight &weight,
                     Projection *projection) {
  *projection = {};
  projection->depth = weight.depth;
  projection->units = weight.units;
  projection->weight_unit_stride = weight.unit_stride;
  projection->weight_depth_stride = weight.depth_stride;
  projection->panel_floats = round_up(weight.units, kernels.matmul.panel_columns) * weight.depth;
  if (!checked_multiply(rows.batch, rows.heads, &projection->rows) ||
      !checked_multiply(projection->rows, rows.length, &projection->rows)) {
    return false;
  }
  merge_axes(rows, projection);
  return true;
}

void pack_projection(const Context &context, int workers, const Projection &projection, const float *weight,
                     float *panels) {
  const int64_t width = context.kernels->matmul.panel_columns;
  run_tasks(context, workers, ceil_div(projection.units, width), [&](int, int64_t panel) {
    const int64_t unit = panel * width;
    context.kernels->matmul_pack({.b = weight + unit * projection.weight_unit_stride,
                                  .b_row_stride = projection.weight_depth_stride,
                                  .b_column_stride = projection.weight_unit_stride,
                                  .depth = projection.depth,
                                  .columns = std::min(width, projection.units - unit),
                                  .out = panels + unit * projection.depth});
  });
}

namespace {

// A block of rows and a run of panels: one task.
struct Piece {
  const float *x;
  int64_t row;  // of out
  int64_t rows;
  int64_t first_panel;
};

struct Cut {
  int64_t inner, rows_per_task, blocks;
  int64_t panels, panels_per_task, chunks;
  int64_t row_tasks;
};

// Few rows leave threads idle unless the units are cut too.
Cut cut(const Kernels &kernels, int workers, const Projection &projection) {
  Cut cut = {};
  cut.inner = projection.size[projection.axes - 1];
  cut.rows_per_task = block_rows(projection, workers);
  cut.blocks = ceil_div(cut.inner, cut.rows_per_task);
  cut.row_tasks = projection.rows / cut.inner * cut.blocks;
  cut.panels = ceil_div(projection.units, kernels.matmul.panel_columns);
  const int64_t enough = int64_t{4} * workers;
  cut.panels_per_task =
      workers == 1 || cut.row_tasks >= enough ? cut.panels : std::max<int64_t>(1, cut.panels * cut.row_tasks / enough);
  cut.chunks = ceil_div(cut.panels, cut.panels_per_task);
  return cut;
}

Piece piece(const Projection &projection, const Cut &cut, const float *x, int64_t index) {
  const int last = projection.axes - 1;
  Piece piece = {};
  piece.first_panel = index % cut.chunks * cut.panels_per_task;
  index /= cut.chunks;
  const int64_t begin = index % cut.blocks * cut.rows_per_task;
  int64_t outer = index / cut.blocks;
  piece.rows = std::min(cut.rows_per_task, cut.inner - begin);
  piece.row = begin * projection.out_stride[last];
  piece.x = x + begin * projection.stride[last];
  for (int axis = last - 1; axis >= 0; --axis) {
    piece.row += outer % projection.size[axis] * projection.out_stride[axis];
    piece.x += outer % projection.size[axis] * projection.stride[axis];
    outer /= projection.size[axis];
  }
  return piece;
}

}  // namespace

void run_projection(const Context &context, int workers, const Projection &projection, const ProjectionData &data) {
  if (projection.rows == 0) return;
  const Kernels &kernels = *context.kernels;
  const Cut cuts = cut(kernels, workers, projection);
  const int64_t width = kernels.matmul.panel_columns;
  const int64_t row_floats = padded_units(projection.units);
  const int64_t row_step = projection.out_stride[projection.axes - 1];
  const auto multiply = [&](const Piece &piece) {
    const int64_t column = piece.first_panel * width;
    kernels.matmul_block({.a = piece.x,
                          .a_row_stride = projection.stride[projection.axes - 1],
                          .a_column_stride = 1,
                          .b = data.panels + column * projection.depth,
                          .b_panel_stride = width * projection.depth,
                          .b_row_stride = width,
                          .out = data.out + piece.row * row_floats + column,
                          .out_row_stride = row_step * row_floats,
                          .rows = piece.rows,
                          .columns = std::min(cuts.panels_per_task * width, projection.units - column),
                          .depth = projection.depth});
  };
  const auto finish = [&](const Piece &piece) {
    kernels.finish_units({.rows = data.out + piece.row * row_floats,
                          .count = piece.rows,
                          .step = row_step,
                          .units = projection.units,
                          .bias = data.bias,
                          .reach = data.reach == nullptr ? nullptr : data.reach + piece.row});
  };
  run_tasks(context, workers, cuts.row_tasks * cuts.chunks, [&](int, int64_t index) {
    const Piece task = piece(projection, cuts, data.x, index);
    multiply(task);
    if (cuts.chunks == 1) finish(task);
  });
  if (cuts.chunks == 1) return;
  run_tasks(context, workers, cuts.row_tasks,
            [&](int, int64_t index) { finish(piece(projection, cuts, data.x, index * cuts.chunks)); });
}

}  // namespace fovea
