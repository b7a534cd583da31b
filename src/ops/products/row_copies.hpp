// Rows of a product's left side that its kernel cannot read where they lie, because they have another element type or
// do not lie side by side: copied as the kernel wants them, once for all columns, before they are multiplied. The
// kernel copies few rows by itself.
#pragma once

#include "ops/products/product.hpp"

namespace fovea {

// What run_product wants room for, in 32-bit words: copies, or the sums of products that take columns; 0: neither. The
// product's kernels and rows are set. Sizes may be any: too large ones do not fit a layout.
int64_t row_copy_words(const Product &product);

// A product's rows in slices, so that the room for copies does not grow with their number: for the first of each
// `for (RowSlices slices(product); slices.next(&data);)` gives its product and moves data to it.
class RowSlices {
 public:
  explicit RowSlices(const Product &product);

  bool next(ProductData *data);
  const Product &product() const { return slice_; }

 private:
  const Product &whole_;
  Product slice_;
  int64_t together_;  // along the first axis
  int64_t begin_ = 0, end_ = 0;
};

// The copies of one slice, as tasks, and the product of them; without any the product as it was.
class RowCopies {
 public:
  RowCopies(const Product &product, const ProductData &data);

  int64_t count() const;
  void run(int64_t task) const;
  const Product &product() const { return copied_; }
  const ProductData &data() const { return data_; }

 private:
  const Product &given_;
  Product copied_;
  ProductData data_;
  const void *x_;  // as given
  int64_t rows_ = 0, row_words_ = 0, rows_per_task_ = 1;
  int64_t depth_ = 0, parts_ = 1;  // of a task: so much of the depth, which so many share
};

}  // namespace fovea
