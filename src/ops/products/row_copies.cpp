#include "ops/products/row_copies.hpp"

#include <algorithm>

namespace fovea {
namespace {

constexpr int64_t slice_words = int64_t{1} << 22;
constexpr int64_t task_words = int64_t{1} << 15;  // some 10 microseconds
constexpr int64_t line_floats = 16;

int64_t product_or_most(int64_t a, int64_t b) {
  int64_t result = 0;
  return checked_multiply(a, b, &result) ? result : INT64_MAX;
}

// Copies do not lie a power of two apart: lines that several rows have in the same place would put each other out of a
// cache.
int64_t row_words(const Product &product) {
  if (product.takes_columns) return product.matrix.columns;
  const int64_t words = product.kernels->copy_words(product.matrix.depth);
  return words % 512 == 0 ? words + 16 : words;
}

// Rows along an axis that are not one row again and again.
int64_t different_rows(const RowAxis &axis) { return axis.x_stride == 0 ? 1 : axis.size; }

bool copies_rows(const Product &product) {
  const MatmulKernels &kernels = *product.kernels;
  if (kernels.reads_in_place == nullptr || product.rows == 0 || product.matrix.depth == 0) return false;
  if (product.takes_columns) return false;
  const RowAxis &rows = product.axis[product.axes - 1];
  MatmulTask task = {};
  task.a_dtype = product.types.x;
  task.a_row_stride = rows.x_stride;
  task.a_column_stride = product.x_column_stride;
  task.rows = rows.size;
  task.depth = product.matrix.depth;
  return !kernels.reads_in_place(task) && product.rows > kernels.rows_words / kernels.copy_words(product.matrix.depth);
}

// Whether rows lie side by side as columns of floats, which are turned around some of the depth at a time: every line of
// theirs is then read once.
bool turns_columns(const Product &product) {
  return product.types.x == Dtype::f32 && product.kernels->rows_dtype == Dtype::f32 &&
         product.axis[product.axes - 1].x_stride == 1;
}

bool takes_room(const Product &product) { return copies_rows(product) || product.keeps_column_sums(); }

// Words of the copied rows along all axes but the first.
int64_t inner_words(const Product &product) {
  int64_t words = row_words(product);
  for (int n = 1; n < product.axes; ++n) words = product_or_most(words, different_rows(product.axis[n]));
  return words;
}

// Indices of the first axis whose rows are copied together. Where each has a matrix of its own, how many there are is
// bounded already.
int64_t sliced_size(const Product &product) {
  const RowAxis &first = product.axis[0];
  if (!takes_room(product) || product.matrix.count > 1 || first.x_stride == 0) return first.size;
  const int64_t most = std::max<int64_t>(slice_words / inner_words(product), 1);
  const int64_t block = product.axes == 1 ? product.kernels->block_rows : 1;
  return std::min(first.size, most < block ? most : most / block * block);
}

}  // namespace

int64_t row_copy_words(const Product &product) {
  if (!takes_room(product)) return 0;
  const bool one = product.axis[0].x_stride == 0;
  return product_or_most(inner_words(product), one ? 1 : sliced_size(product));
}

RowSlices::RowSlices(const Product &product) : whole_(product), slice_(product), together_(sliced_size(product)) {}

bool RowSlices::next(ProductData *data) {
  const RowAxis &axis = whole_.axis[0];
  if (end_ == axis.size) return false;
  const int64_t step = end_ - begin_;
  const auto move = [step](auto *pointer, Dtype dtype, int64_t stride) {
    return pointer == nullptr ? nullptr : element_at(pointer, dtype, step * stride);
  };
  data->x = move(data->x, whole_.types.x, axis.x_stride);
  data->out = move(data->out, whole_.types.out, axis.out_stride);
  data->multiplier = move(data->multiplier, whole_.types.multiplier, axis.multiplier_stride);
  data->residual = move(data->residual, whole_.types.residual, axis.residual_stride);
  begin_ = end_;
  end_ = std::min(begin_ + together_, axis.size);
  slice_.axis[0].size = end_ - begin_;
  slice_.rows = whole_.rows / axis.size * (end_ - begin_);
  return true;
}

RowCopies::RowCopies(const Product &product, const ProductData &data)
    : given_(product), copied_(product), data_(data), x_(data.x) {
  if (!copies_rows(product)) return;
  row_words_ = row_words(product);
  rows_ = 1;
  const MatmulKernels &kernels = *product.kernels;
  const int64_t elements = row_words_ * static_cast<int64_t>(sizeof(float)) / bytes_of(kernels.rows_dtype);
  for (int n = product.axes - 1; n >= 0; --n) {
    RowAxis &axis = copied_.axis[n];
    if (axis.x_stride == 0) continue;
    axis.x_stride = rows_ * elements;
    rows_ *= axis.size;
  }
  copied_.types.x = kernels.rows_dtype;
  copied_.x_column_stride = 1;
  copied_.x_depth = kernels.copied_depth(product.matrix.depth);
  data_.x = data.copies;
  depth_ = product.matrix.depth;
  if (turns_columns(product)) {
    rows_per_task_ = different_rows(product.axis[product.axes - 1]);
    depth_ = std::min(depth_, round_up(std::max<int64_t>(task_words / rows_per_task_, 1), line_floats));
  } else {
    rows_per_task_ = std::max<int64_t>(task_words / row_words_, 1);
  }
  parts_ = ceil_div(product.matrix.depth, depth_);
}

int64_t RowCopies::count() const { return rows_ == 0 ? 0 : ceil_div(rows_, rows_per_task_) * parts_; }

void RowCopies::run(int64_t task) const {
  const RowAxis &inner = given_.axis[given_.axes - 1];
  const int64_t run = different_rows(inner);
  const int64_t first = task % parts_ * depth_;
  task /= parts_;
  const int64_t end = std::min((task + 1) * rows_per_task_, rows_);
  for (int64_t row = task * rows_per_task_, some = 0; row < end; row += some) {
    some = std::min(end - row, run - row % run);
    int64_t from = row % run * inner.x_stride + first * given_.x_column_stride;
    int64_t outer = row / run;
    for (int n = given_.axes - 2; n >= 0; --n) {
      const int64_t size = different_rows(given_.axis[n]);
      from += outer % size * given_.axis[n].x_stride;
      outer /= size;
    }
    given_.kernels->copy_rows({.a = element_at(x_, given_.types.x, from),
                               .a_dtype = given_.types.x,
                               .a_row_stride = inner.x_stride,
                               .a_column_stride = given_.x_column_stride,
                               .rows = some,
                               .depth = std::min(depth_, given_.matrix.depth - first),
                               .to = static_cast<float *>(data_.copies) + row * row_words_ + first,
                               .to_stride = row_words_});
  }
}

}  // namespace fovea
