// Rows times a matrix in panels, and what is done to a finished row: every matrix product is described, cut into tasks
// and scheduled here.
//   out[row][c] = sum_k x[row][k] b[k][c]
// The kernels fix the order of every sum; the cut only decides who does what.
#pragma once

#include <initializer_list>
#include <optional>

#include "kernels/kernel_table.hpp"
#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"
#include "runtime/parallel.hpp"

namespace fovea {

// The right-hand side as it is before it is packed: element (k, c) at [k * depth_stride + c * column_stride].
struct ProductMatrix {
  int64_t columns, depth;
  int64_t column_stride = 0, depth_stride = 0;
  int64_t count = 1;  // more: the rows' first axis has a matrix for each index
  int64_t next = 0;   // from one matrix to the next
  Dtype dtype = Dtype::f32;
  bool in_place = false;                // never packed: kernels read it where it lies
  std::optional<Dtype> packed_as = {};  // if not as it is: rounded

  Dtype panel_dtype() const { return packed_as.value_or(dtype); }
};

// The element types of the operands beside the matrix.
struct ProductTypes {
  Dtype x = Dtype::f32, out = Dtype::f32, bias = Dtype::f32, multiplier = Dtype::f32, residual = Dtype::f32;
};

// The kernels that pack a matrix of that type.
const MatmulKernels &matrix_kernels(const Kernels &kernels, Dtype matrix);

// The kernels for these operands, the matrix's type being that of its panels: on a processor that has products of 16
// bits, theirs. `kernels` are those it was packed with. `medium`: rows of float32 may be rounded to bfloat16.
const MatmulKernels &product_kernels(const Kernels &kernels, Dtype x, Dtype matrix, bool medium);

// Whether there are products of bfloat16, on this processor and below the limit that was set. Whoever asks may use
// them: this asks the system for tiles.
bool multiplies_bfloat16(const Kernels &kernels);

// Whether float32 may be rounded to bfloat16 to be multiplied more quickly: a precision of medium or less, where that
// is so.
bool narrows_products(const Context &context, int32_t precision);

// What a matrix of that type and depth is rounded to when it is packed at that precision. Without rows it has no
// panels, which would hold the scales of 8 bits.
Dtype packed_dtype(const Context &context, int32_t precision, Dtype matrix, int64_t depth);

// Strides are in elements.
struct RowAxis {
  int64_t size;
  int64_t x_stride, out_stride;
  int64_t residual_stride = 0, multiplier_stride = 0;
};

// How a product becomes tasks.
enum class Cut {
  // Panels are cut apart first, and rows only where there are too few panels: a task's rows share what it reads of
  // them.
  columns,
  // Rows are cut apart first, and panels only where there are too few rows: a row is finished where it was multiplied,
  // while it is in that core's cache, and the next stage, cut alike, finds it there.
  rows
};

struct Product {
  const MatmulKernels *kernels = nullptr;
  ProductMatrix matrix = {};
  ProductTypes types = {};
  Cut cut = Cut::columns;
  int axes = 0;  // of the rows, as few as strides allow
  RowAxis axis[3] = {};
  int64_t rows = 0;  // over all axes
  int64_t x_column_stride = 1;
  int64_t x_depth = 0;         // elements of a row, if they are more than the matrix is deep: zeros
  int64_t chain = INT64_MAX;   // as MatmulTask's
  int64_t head_rows = 0;       // of so many rows of a head only those that some query attends are wanted; 0: all are
  bool takes_columns = false;  // see take_columns
  float scale = 1, residual_scale = 1;
  bool residual_is_column = false;  // of one column, which all columns get

  int64_t panels() const { return ceil_div(matrix.columns, kernels->panel_columns); }
  int64_t panel_floats() const { return kernels->panel_floats(matrix.depth, matrix.panel_dtype()); }

  // Whether sums then wait in memory beside out.
  bool keeps_column_sums() const { return takes_columns && matrix.depth > columns_alone; }
};

// Sets the rows: axes of size 1 go, neighbours that are evenly spaced on all sides become one, but for positions where
// not all of a head's are wanted. kernels and matrix are there already, and all sizes together fit.
void set_rows(std::initializer_list<RowAxis> axes, Product *product);

// Has x's rows multiplied as the columns that they lie as, if they do and there is a kernel for it. Nothing is done to the
// product's sums; all else is set. Once for the whole product: slices of its rows, however few, go the same way.
void take_columns(Product *product);

// A rough count of the cycles that its multiply-adds take one thread.
double product_cycles(const Product &product);

// Room for the packed matrices, of which there are none in place. Any sizes: too large ones do not fit the layout.
MemoryPart<float> add_panels(const MatmulKernels &kernels, const ProductMatrix &matrix, MemoryLayout *layout);

// Where the caller keeps rows of hidden units, [batch][heads][length].
struct KeptRows {
  float *data = nullptr;  // null: nowhere
  HeadStrides strides = {};
  int64_t heads = 0, length = 0;
  const AttentionProblem *problem = nullptr;  // whose valid lengths they are: of keys; null: all rows are kept

  // Of `count` rows of a head from `first` on, those that some query attends. Heads are numbered over all entries.
  int64_t wanted(int64_t head, int64_t first, int64_t count) const;
  float *row(int64_t head, int64_t position) const { return data + strides.at(head / heads, head % heads, position); }
};

// Bias, padding and reach of hidden units, which lie in rows of padded_units(columns) floats.
struct UnitFinish {
  const AttentionKernels *kernels = nullptr;  // null: nothing is to be done
  const float *bias = nullptr;                // [columns]; null: none
  float *reach = nullptr;                     // of the row at out + i rows at reach[i]; else as UnitRows
  KeptRows kept = {};                         // of out's rows, which are then packed
};

struct ProductData {
  const void *x = nullptr;
  void *copies = nullptr;        // room for row_copy_words(product) of 32 bits
  const void *matrix = nullptr;  // null: the panels are packed already; or what is read in place
  float *panels = nullptr;       // written only where they are to be packed
  void *out = nullptr;
  // What the kernel does as it stores.
  const void *bias = nullptr;
  Activation activation = Activation::none;
  const void *multiplier = nullptr;  // may be out
  const void *residual = nullptr;    // likewise
  // What is done when all columns of a row are there.
  UnitFinish finish = {};
  const AttentionProblem *problem = nullptr;  // whose valid lengths they are, if not all rows are wanted
};

// The tasks of one product, in three stages, any of which may have none. Lists that hold them borrow them, and they
// borrow the product.
class ProductTasks {
 public:
  ProductTasks(const Product &product, const ProductData &data, int workers);

  int64_t pack_count() const;
  int64_t multiply_count() const { return row_tasks_ * chunks_; }
  int64_t finish_count() const;
  void pack(int64_t task) const;
  void multiply(int64_t task) const;
  void finish(int64_t block) const;

 private:
  // A block of rows and a run of panels: one task.
  struct Piece {
    int64_t x, out, residual, multiplier;  // where it begins: elements
    int64_t matrix, panel;                 // elements of the matrix, 32-bit words of its panels
    int64_t rows, columns;
    int64_t first_column;
  };

  void cut_columns(int workers);
  void cut_few_rows(int workers);
  void cut_column_pieces(int workers);
  void cut_rows(int workers);
  Piece piece(int64_t index) const;
  int64_t wanted_rows(const Piece &piece) const;
  void finish_rows(const Piece &piece) const;

  const Product &product_;
  ProductData data_;
  int64_t inner_;  // rows along the last axis
  int64_t panels_, panel_floats_;
  int64_t rows_per_task_, blocks_;
  int64_t panels_per_task_, chunks_;
  int64_t row_tasks_;
};

// All tasks of products (or null) that do not need each other's results, stage by stage.
void add_products(std::initializer_list<const ProductTasks *> products, TaskList *list);

// A product to be run; null: none.
struct ProductRun {
  const Product *product = nullptr;
  ProductData data = {};
};

// Up to four that do not need each other's results, stage by stage. Neither fails nor allocates. ProductTasks, unlike these,
// take products whose rows need no copies.
void run_products(const Context &context, std::initializer_list<ProductRun> runs);
void run_product(const Context &context, const Product &product, const ProductData &data);

// Packing alone.
void pack_panels(const Context &context, const MatmulKernels &kernels, const ProductMatrix &matrix, const void *data,
                 float *panels);

}  // namespace fovea
