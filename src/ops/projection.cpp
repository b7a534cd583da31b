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

void run_projection(const Context &context, int workers, const Projection &projection, const ProjectionData &data) {
  if (projection.rows == 0) return;
  const int last = projection.axes - 1;
  const int64_t inner = projection.size[last];
  const int64_t rows_per_task = block_rows(projection, workers);
  const int64_t blocks = ceil_div(inner, rows_per_task);
  const int64_t width = context.kernels->matmul.panel_columns;
  const int64_t row_floats = padded_units(projection.units);
  const int64_t row_step = projection.out_stride[last];
  run_tasks(context, workers, projection.rows / inner * blocks, [&](int, int64_t index) {
    const int64_t begin = index % blocks * rows_per_task;
    int64_t outer = index / blocks;
    int64_t row = begin * row_step;
    const float *x = data.x + begin * projection.stride[last];
    for (int axis = last - 1; axis >= 0; --axis) {
      row += outer % projection.size[axis] * projection.out_stride[axis];
      x += outer % projection.size[axis] * projection.stride[axis];
      outer /= projection.size[axis];
    }
    const int64_t rows = std::min(rows_per_task, inner - begin);
    float *out = data.out + row * row_floats;
    context.kernels->matmul_block({.a = x,
                                   .a_row_stride = projection.stride[last],
                                   .a_column_stride = 1,
                                   .b = data.panels,
                                   .b_panel_stride = width * projection.depth,
                                   .b_row_stride = width,
                                   .out = out,
                                   .out_row_stride = row_step * row_floats,
                                   .rows = rows,
                                   .columns = projection.units,
                                   .depth = projection.depth});
    context.kernels->finish_units({.rows = out,
                                   .count = rows,
                                   .step = row_step,
                                   .units = projection.units,
                                   .bias = data.bias,
                                   .reach = data.reach == nullptr ? nullptr : data.reach + row});
  });
}

}  // namespace fovea
