// The rows are handed out in blocks, all units at once; what is to be done to a finished row is done while it is in
// cache.
#include "ops/products/projection.hpp"

#include <algorithm>

#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t most_rows = 384;
constexpr int64_t few_rows = 12;  // still worth the reading of the weight

// Axes of size 1 go, neighbours that are evenly spaced on both sides become one; not so positions where not all of a
// head's are wanted.
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
                      p.out_stride[last] == out_strides[axis] * sizes[axis] && !(p.head_rows > 0 && axis == 2);
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

// Few rows are cut alike for all workers, so that what comes next finds in a core's cache what that core projected.
int64_t block_rows(const Projection &projection, int workers) {
  const int64_t least_rows = projection.product->block_rows;
  const int64_t inner = std::max<int64_t>(projection.size[projection.axes - 1], 1);
  const int64_t even = ceil_div(projection.rows, int64_t{8} * workers);
  if (even > least_rows) return std::min(std::min(round_up(even, least_rows), most_rows), inner);
  const int64_t blocks = round_up(ceil_div(inner, least_rows), workers);
  const int64_t alike = round_up(ceil_div(inner, blocks), 2);
  return std::min(alike >= few_rows ? alike : least_rows, inner);
}

}  // namespace

bool plan_projection(const MatmulKernels &product, const ProjectionRows &rows, const ProjectionWeight &weight,
                     Projection *projection) {
  *projection = {};
  projection->product = &product;
  projection->depth = weight.depth;
  projection->units = weight.units;
  projection->weight_unit_stride = weight.unit_stride;
  projection->weight_depth_stride = weight.depth_stride;
  if (weight.depth > deepest_product ||
      !checked_multiply(ceil_div(weight.units, product.panel_columns), product.panel_floats(weight.depth),
                        &projection->panel_floats)) {
    return false;
  }
  if (!checked_multiply(rows.batch, rows.heads, &projection->rows) ||
      !checked_multiply(projection->rows, rows.length, &projection->rows)) {
    return false;
  }
  const bool separate = rows.valid_only && rows.length >= product.block_rows;  // shorter ones better together
  projection->head_rows = separate ? rows.length : 0;
  merge_axes(rows, projection);
  return true;
}

ProjectionTasks::ProjectionTasks(const Kernels &kernels, int workers, const Projection &projection,
                                 const ProjectionData &data)
    : kernels_(kernels), projection_(projection), data_(data) {
  panels_ = ceil_div(projection.units, projection.product->panel_columns);
  inner_ = std::max<int64_t>(projection.size[projection.axes - 1], 1);
  rows_per_task_ = block_rows(projection, workers);
  blocks_ = ceil_div(inner_, rows_per_task_);
  row_tasks_ = projection.rows / inner_ * blocks_;
  // Few rows leave threads idle unless the units are cut too.
  const int64_t enough = int64_t{4} * workers;
  panels_per_task_ =
      workers == 1 || row_tasks_ >= enough ? panels_ : std::max<int64_t>(1, panels_ * row_tasks_ / enough);
  chunks_ = ceil_div(panels_, panels_per_task_);
  const bool padded = projection.units != padded_units(projection.units);
  finishes_ = padded || data.bias != nullptr || data.reach != nullptr;
}

int64_t ProjectionTasks::pack_count() const { return data_.weight == nullptr ? 0 : panels_; }

int64_t ProjectionTasks::multiply_count() const { return row_tasks_ * chunks_; }

// Rows that one task multiplies as a whole are finished there.
int64_t ProjectionTasks::finish_count() const { return chunks_ == 1 || !finishes_ ? 0 : row_tasks_; }

void ProjectionTasks::pack(int64_t panel) const {
  const int64_t width = projection_.product->panel_columns;
  const int64_t unit = panel * width;
  projection_.product->pack({.b = data_.weight + unit * projection_.weight_unit_stride,
                             .b_row_stride = projection_.weight_depth_stride,
                             .b_column_stride = projection_.weight_unit_stride,
                             .depth = projection_.depth,
                             .columns = std::min(width, projection_.units - unit),
                             .out = data_.panels + panel * projection_.product->panel_floats(projection_.depth)});
}

void ProjectionTasks::multiply(int64_t task) const {
  const Piece part = piece(task);
  if (part.rows == 0) return;
  const int64_t width = projection_.product->panel_columns;
  const int64_t row_floats = padded_units(projection_.units);
  const int last = projection_.axes - 1;
  const int64_t column = part.first_panel * width;
  const int64_t panel_floats = projection_.product->panel_floats(projection_.depth);
  projection_.product->block({.a = part.x,
                              .a_row_stride = projection_.stride[last],
                              .a_column_stride = 1,
                              .b = data_.panels + part.first_panel * panel_floats,
                              .b_panel_stride = panel_floats,
                              .b_row_stride = width,
                              .out = data_.out + part.row * row_floats + column,
                              .out_row_stride = projection_.out_stride[last] * row_floats,
                              .rows = part.rows,
                              .columns = std::min(panels_per_task_ * width, projection_.units - column),
                              .depth = projection_.depth,
                              .chain = short_chain});
  if (chunks_ == 1 && finishes_) finish_rows(part);
}

void ProjectionTasks::finish(int64_t block) const { finish_rows(piece(block * chunks_)); }

void ProjectionTasks::finish_rows(const Piece &piece) const {
  kernels_.attention_of(ScoreKind::additive)
      .finish_units({.rows = data_.out + piece.row * padded_units(projection_.units),
                     .count = piece.rows,
                     .step = projection_.out_stride[projection_.axes - 1],
                     .units = projection_.units,
                     .bias = data_.bias,
                     .reach = data_.reach == nullptr ? nullptr : data_.reach + piece.row});
}

ProjectionTasks::Piece ProjectionTasks::piece(int64_t index) const {
  const int last = projection_.axes - 1;
  Piece piece = {};
  piece.first_panel = index % chunks_ * panels_per_task_;
  index /= chunks_;
  const int64_t begin = index % blocks_ * rows_per_task_;
  int64_t outer = index / blocks_;
  piece.rows = std::min(rows_per_task_, inner_ - begin);
  piece.row = begin * projection_.out_stride[last];
  piece.x = data_.x + begin * projection_.stride[last];
  for (int axis = last - 1; axis >= 0; --axis) {
    piece.row += outer % projection_.size[axis] * projection_.out_stride[axis];
    piece.x += outer % projection_.size[axis] * projection_.stride[axis];
    outer /= projection_.size[axis];
  }
  if (projection_.head_rows > 0) {
    const int64_t entry = piece.row / (projection_.head_rows * data_.problem->sizes.kv_heads);
    const int64_t wanted = longest_valid_len(*data_.problem, entry) - piece.row % projection_.head_rows;
    piece.rows = std::clamp<int64_t>(wanted, 0, piece.rows);
  }
  return piece;
}

void add_projections(std::initializer_list<const ProjectionTasks *> projections, TaskList *list) {
  const auto add_stage = [&](const auto &add) {
    list->start_stage();
    for (const ProjectionTasks *p : projections) {
      if (p != nullptr) add(*p);
    }
  };
  add_stage([&](const auto &p) { list->add(p.pack_count(), TaskBody::of<&ProjectionTasks::pack>(p)); });
  add_stage([&](const auto &p) { list->add(p.multiply_count(), TaskBody::of<&ProjectionTasks::multiply>(p)); });
  add_stage([&](const auto &p) { list->add(p.finish_count(), TaskBody::of<&ProjectionTasks::finish>(p)); });
}

void pack_projection(const Context &context, int workers, const Projection &projection, const float *weight,
                     float *panels) {
  const ProjectionTasks tasks(*context.kernels, workers, projection, {.weight = weight, .panels = panels});
  run_tasks(context, workers, tasks.pack_count(), TaskBody::of<&ProjectionTasks::pack>(tasks));
}

double projection_cycles(const Projection &projection) {
  return static_cast<double>(projection.rows) * static_cast<double>(projection.units) *
         static_cast<double>(projection.depth) / 16.0;
}

}  // namespace fovea
