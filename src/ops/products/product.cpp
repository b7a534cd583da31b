#include "ops/products/product.hpp"

#include <algorithm>
#include <optional>

#include "ops/products/row_copies.hpp"

namespace fovea {
namespace {

// Into equal parts of at most `most`, in whole steps.
int64_t even_part(int64_t count, int64_t most, int64_t step) {
  return round_up(ceil_div(count, ceil_div(count, most)), step);
}

bool even(const RowAxis &outer, const RowAxis &inner) {
  return outer.x_stride == inner.x_stride * inner.size && outer.out_stride == inner.out_stride * inner.size &&
         outer.residual_stride == inner.residual_stride * inner.size &&
         outer.multiplier_stride == inner.multiplier_stride * inner.size;
}

// Packing takes a cycle for each float.
double packing_cycles(const MatmulKernels &kernels, const ProductMatrix &matrix) {
  return static_cast<double>(round_up(matrix.columns, kernels.panel_columns)) * static_cast<double>(matrix.depth) *
         static_cast<double>(matrix.count);
}

// So many rows of a matrix a task packs, into all panels; 0: a task packs one panel.
int64_t rows_per_pack(const MatmulKernels &kernels, const ProductMatrix &matrix) {
  constexpr int64_t task_floats = int64_t{1} << 15, least_rows = 16;
  if (kernels.pack_rows == nullptr || matrix.dtype != Dtype::f32 || matrix.panel_dtype() != Dtype::f32 ||
      matrix.column_stride != 1) {
    return 0;
  }
  return std::max(task_floats / std::max<int64_t>(matrix.columns, 1), least_rows);
}

int64_t pack_tasks(const MatmulKernels &kernels, const ProductMatrix &matrix) {
  const int64_t rows = rows_per_pack(kernels, matrix);
  return matrix.count * (rows == 0 ? ceil_div(matrix.columns, kernels.panel_columns) : ceil_div(matrix.depth, rows));
}

void pack_rows(const MatmulKernels &kernels, const ProductMatrix &matrix, int64_t task, const void *b, float *panels) {
  const int64_t rows = rows_per_pack(kernels, matrix), tasks_each = ceil_div(matrix.depth, rows);
  const int64_t first = task % tasks_each * rows, panel_floats = kernels.panel_floats(matrix.depth, Dtype::f32);
  const int64_t of_matrix = task / tasks_each * ceil_div(matrix.columns, kernels.panel_columns) * panel_floats;
  const int64_t at = task / tasks_each * matrix.next + first * matrix.depth_stride;
  kernels.pack_rows({.b = static_cast<const float *>(b) + at,
                     .b_row_stride = matrix.depth_stride,
                     .b_column_stride = 1,
                     .depth = std::min(rows, matrix.depth - first),
                     .columns = matrix.columns,
                     .out = panels + of_matrix + kernels.panel_floats(first, Dtype::f32),
                     .panel_stride = panel_floats});
}

void pack_panel(const MatmulKernels &kernels, const ProductMatrix &matrix, int64_t panel, const void *b,
                float *panels) {
  const int64_t panels_each = ceil_div(matrix.columns, kernels.panel_columns);
  const int64_t column = panel % panels_each * kernels.panel_columns;
  const int64_t first = panel / panels_each * matrix.next + column * matrix.column_stride;
  kernels.pack({.b = element_at(b, matrix.dtype, first),
                .dtype = matrix.dtype,
                .panel_dtype = matrix.panel_dtype(),
                .b_row_stride = matrix.depth_stride,
                .b_column_stride = matrix.column_stride,
                .depth = matrix.depth,
                .columns = std::min(kernels.panel_columns, matrix.columns - column),
                .out = panels + panel * kernels.panel_floats(matrix.depth, matrix.panel_dtype())});
}

void pack_part(const MatmulKernels &kernels, const ProductMatrix &matrix, int64_t task, const void *b, float *panels) {
  rows_per_pack(kernels, matrix) == 0 ? pack_panel(kernels, matrix, task, b, panels)
                                      : pack_rows(kernels, matrix, task, b, panels);
}

}  // namespace

const MatmulKernels &matrix_kernels(const Kernels &kernels, Dtype matrix) {
  return choose_product(kernels.allowed, {.x = Dtype::f32, .matrix = matrix});
}

bool multiplies_bfloat16(const Kernels &kernels) {
  return &choose_product(kernels.allowed, {.x = Dtype::bf16, .matrix = Dtype::bf16}) != kernels.matmul;
}

const MatmulKernels &product_kernels(const Kernels &kernels, Dtype x, Dtype matrix, bool medium) {
  return choose_product(kernels.allowed, {.x = x, .matrix = matrix, .rounds = medium});
}

bool narrows_products(const Context &context, int32_t precision) {
  return precision_of(context, precision) >= FOVEA_PRECISION_MEDIUM && multiplies_bfloat16(*context.kernels);
}

Dtype packed_dtype(const Context &context, int32_t precision, Dtype matrix, int64_t depth) {
  if (depth > 0 && precision_of(context, precision) == FOVEA_PRECISION_INT8) return Dtype::i8;
  return matrix == Dtype::f32 && narrows_products(context, precision) ? Dtype::bf16 : matrix;
}

void set_rows(std::initializer_list<RowAxis> axes, Product *product) {
  Product &p = *product;
  p.rows = 1;
  p.axes = 0;
  for (const RowAxis &axis : axes) {
    p.rows *= axis.size;
    const bool innermost = &axis == axes.end() - 1;
    const bool below_matrices = p.matrix.count > 1 && p.axes == 1;  // the axis before this one is not its like
    if (axis.size == 1 && !(innermost && (below_matrices || p.axes == 0))) continue;
    const bool alone = p.axes == 0 || below_matrices || (p.head_rows > 0 && innermost);
    if (alone || !even(p.axis[p.axes - 1], axis)) {
      p.axis[p.axes++] = axis;
    } else {
      const int64_t size = p.axis[p.axes - 1].size;
      p.axis[p.axes - 1] = axis;
      p.axis[p.axes - 1].size *= size;
    }
  }
}

void take_columns(Product *product) {
  const Product &p = *product;
  const bool floats = p.types.x == Dtype::f32 && p.matrix.panel_dtype() == Dtype::f32 && p.types.out == Dtype::f32;
  const bool chains_fit = p.chain == long_chain || p.chain >= columns_alone;
  product->takes_columns = p.kernels->columns != nullptr && floats && chains_fit && !p.matrix.in_place && p.axes == 1 &&
                           p.axis[0].x_stride == 1 && p.rows >= least_columns;
}

double product_cycles(const Product &product) {
  return static_cast<double>(product.rows) * static_cast<double>(product.matrix.depth) *
         static_cast<double>(product.matrix.columns) / 16.0;
}

MemoryPart<float> add_panels(const MatmulKernels &kernels, const ProductMatrix &matrix, MemoryLayout *layout) {
  if (matrix.columns == 0 || matrix.depth == 0) return layout->add<float>(0);
  if (matrix.columns > INT64_MAX - kernels.panel_columns || matrix.depth > deepest_product) {
    return layout->add<float>(INT64_MAX);
  }
  if (matrix.in_place) return layout->add<float>(0);
  return layout->add<float>({ceil_div(matrix.columns, kernels.panel_columns),
                             kernels.panel_floats(matrix.depth, matrix.panel_dtype()), matrix.count});
}

ProductTasks::ProductTasks(const Product &product, const ProductData &data, int workers)
    : product_(product),
      data_(data),
      inner_(product.rows == 0 ? 1 : product.axis[product.axes - 1].size),
      panels_(product.panels()),
      panel_floats_(product.panel_floats()) {
  if (product.matrix.in_place) {
    cut_few_rows(workers);
  } else if (product.takes_columns) {
    cut_column_pieces(workers);
  } else {
    product.cut == Cut::columns ? cut_columns(workers) : cut_rows(workers);
  }
}

// All rows at once, so that the matrix is read once, in runs of columns that are long enough to be read as streams.
void ProductTasks::cut_few_rows(int workers) {
  constexpr int64_t least_bytes = 1024;
  const int64_t least_columns = least_bytes / bytes_of(product_.matrix.dtype);
  rows_per_task_ = inner_;
  blocks_ = 1;
  row_tasks_ = product_.rows / inner_;
  const int64_t enough = workers == 1 ? 1 : ceil_div(int64_t{2} * workers, std::max<int64_t>(row_tasks_, 1));
  const int64_t least_panels = least_columns / product_.kernels->panel_columns;
  panels_per_task_ = even_part(panels_, std::max(ceil_div(panels_, enough), least_panels), 1);
  chunks_ = ceil_div(panels_, panels_per_task_);
}

// A piece of x is copied for all panels of a task, whose sums should stay in the second-level cache.
void ProductTasks::cut_column_pieces(int workers) {
  constexpr int64_t most_columns = 1024;
  rows_per_task_ = std::min(column_piece, inner_);
  blocks_ = row_tasks_ = ceil_div(inner_, rows_per_task_);
  const int64_t enough = workers == 1 ? 1 : ceil_div(int64_t{4} * workers, row_tasks_);
  panels_per_task_ =
      even_part(panels_, std::min(ceil_div(panels_, enough), most_columns / product_.kernels->panel_columns), 1);
  chunks_ = ceil_div(panels_, panels_per_task_);
}

// Every worker should get several tasks, to even out.
void ProductTasks::cut_columns(int workers) {
  const int64_t step = product_.kernels->row_step;
  constexpr int64_t most_rows = 288;
  const int64_t least_rows = std::max<int64_t>(12, step);
  constexpr int64_t most_columns = 512;
  const int64_t outer = std::max<int64_t>(product_.rows / inner_, 1);
  const int64_t enough = workers == 1 ? 1 : int64_t{4} * workers;
  const int64_t wanted_blocks = ceil_div(ceil_div(enough, panels_), outer);
  rows_per_task_ = even_part(inner_, std::clamp(inner_ / wanted_blocks, least_rows, most_rows), step);
  blocks_ = ceil_div(inner_, rows_per_task_);
  row_tasks_ = product_.rows / inner_ * blocks_;
  const int64_t most_panels = most_columns / product_.kernels->panel_columns;
  panels_per_task_ = even_part(panels_, std::clamp<int64_t>(panels_ * row_tasks_ / enough, 1, most_panels), 1);
  chunks_ = ceil_div(panels_, panels_per_task_);
}

// Few rows are cut alike for all workers, so that what comes next finds in a core's cache what that core multiplied.
void ProductTasks::cut_rows(int workers) {
  constexpr int64_t most_rows = 384;
  constexpr int64_t few_rows = 12;  // still worth the reading of the weight
  const int64_t least_rows = product_.kernels->block_rows;
  const int64_t even = ceil_div(product_.rows, int64_t{8} * workers);
  if (even > least_rows) {
    rows_per_task_ = std::min(round_up(even, least_rows), most_rows);
  } else {
    const int64_t blocks = round_up(ceil_div(inner_, least_rows), workers);
    const int64_t alike = round_up(ceil_div(inner_, blocks), 2);
    rows_per_task_ = alike >= few_rows ? alike : least_rows;
  }
  rows_per_task_ = std::min(rows_per_task_, inner_);
  blocks_ = ceil_div(inner_, rows_per_task_);
  row_tasks_ = product_.rows / inner_ * blocks_;
  const int64_t enough = int64_t{4} * workers;
  panels_per_task_ =
      workers == 1 || row_tasks_ >= enough ? panels_ : std::max<int64_t>(1, panels_ * row_tasks_ / enough);
  chunks_ = ceil_div(panels_, panels_per_task_);
}

int64_t ProductTasks::pack_count() const {
  return data_.matrix == nullptr || product_.matrix.in_place ? 0 : pack_tasks(*product_.kernels, product_.matrix);
}

// Rows that one task multiplies as a whole are finished there.
int64_t ProductTasks::finish_count() const { return chunks_ == 1 || data_.finish.kernels == nullptr ? 0 : row_tasks_; }

void ProductTasks::pack(int64_t task) const {
  pack_part(*product_.kernels, product_.matrix, task, data_.matrix, data_.panels);
}

void ProductTasks::multiply(int64_t task) const {
  const Piece part = piece(task);
  if (part.rows == 0) return;
  const RowAxis &rows = product_.axis[product_.axes - 1];
  const ProductTypes &types = product_.types;
  const auto from = [](const void *data, Dtype dtype, int64_t index) {
    return data == nullptr ? nullptr : element_at(data, dtype, index);
  };
  MatmulTask block = {.a = element_at(data_.x, types.x, part.x),
                      .a_dtype = types.x,
                      .a_row_stride = rows.x_stride,
                      .a_column_stride = product_.x_column_stride,
                      .b = nullptr,
                      .b_dtype = product_.matrix.panel_dtype(),
                      .b_panel_stride = panel_floats_,
                      .b_row_stride = product_.matrix.depth_stride,
                      .b_rows = product_.matrix.depth,
                      .out = element_at(data_.out, types.out, part.out + part.first_column),
                      .out_dtype = types.out,
                      .out_row_stride = rows.out_stride,
                      .rows = part.rows,
                      .columns = part.columns,
                      .depth = product_.x_depth == 0 ? product_.matrix.depth : product_.x_depth,
                      .chain = product_.chain,
                      .bias = from(data_.bias, types.bias, part.first_column),
                      .bias_dtype = types.bias,
                      .activation = data_.activation,
                      .multiplier = from(data_.multiplier, types.multiplier, part.multiplier + part.first_column),
                      .multiplier_dtype = types.multiplier,
                      .multiplier_row_stride = rows.multiplier_stride,
                      .residual = from(data_.residual, types.residual,
                                       part.residual + (product_.residual_is_column ? 0 : part.first_column)),
                      .residual_dtype = types.residual,
                      .residual_row_stride = rows.residual_stride,
                      .residual_is_column = product_.residual_is_column,
                      .scale = product_.scale,
                      .residual_scale = product_.residual_scale};
  if (product_.matrix.in_place) {
    block.b_in_place = element_at(data_.matrix, product_.matrix.dtype, part.matrix);
    product_.kernels->few_rows(block);
  } else {
    block.b = data_.panels + part.panel;
    if (product_.keeps_column_sums()) {
      block.block_sums_stride = product_.matrix.columns;
      block.block_sums = static_cast<float *>(data_.copies) + part.x * block.block_sums_stride + part.first_column;
    }
    product_.takes_columns ? product_.kernels->columns(block) : product_.kernels->block(block);
  }
  if (chunks_ == 1 && data_.finish.kernels != nullptr) finish_rows(part);
}

void ProductTasks::finish(int64_t block) const { finish_rows(piece(block * chunks_)); }

void ProductTasks::finish_rows(const Piece &piece) const {
  const int64_t row_floats = padded_units(product_.matrix.columns);
  const UnitFinish &finish = data_.finish;
  UnitRows rows = {.rows = static_cast<float *>(data_.out) + piece.out,
                   .count = piece.rows,
                   .step = product_.axis[product_.axes - 1].out_stride / row_floats,
                   .units = product_.matrix.columns,
                   .bias = finish.bias,
                   .reach = finish.reach == nullptr ? nullptr : finish.reach + piece.out / row_floats};
  const KeptRows &kept = finish.kept;
  if (kept.data == nullptr) return finish.kernels->finish_units(rows);
  rows.kept_stride = kept.strides.position;
  int64_t row = piece.out / row_floats;
  for (const int64_t last = row + piece.rows; row < last; row += rows.count) {  // a head at a time
    const int64_t head = row / kept.length, position = row % kept.length;
    rows.count = std::min(last - row, kept.length - position);
    rows.kept = kept.row(head, position);
    rows.kept_count = kept.wanted(head, position, rows.count);
    finish.kernels->finish_units(rows);
    rows.rows += rows.count * row_floats;
    if (rows.reach != nullptr) rows.reach += rows.count;
  }
}

ProductTasks::Piece ProductTasks::piece(int64_t index) const {
  const int last = product_.axes - 1;
  const int64_t first_panel = index % chunks_ * panels_per_task_;
  index /= chunks_;
  const int64_t begin = index % blocks_ * rows_per_task_;
  int64_t outer = index / blocks_;
  Piece piece = {.x = begin * product_.axis[last].x_stride,
                 .out = begin * product_.axis[last].out_stride,
                 .residual = begin * product_.axis[last].residual_stride,
                 .multiplier = begin * product_.axis[last].multiplier_stride,
                 .matrix = first_panel * product_.kernels->panel_columns,
                 .panel = first_panel * panel_floats_,
                 .rows = std::min(rows_per_task_, inner_ - begin),
                 .columns = 0,
                 .first_column = first_panel * product_.kernels->panel_columns};
  piece.columns =
      std::min(panels_per_task_ * product_.kernels->panel_columns, product_.matrix.columns - piece.first_column);
  for (int n = last - 1; n >= 0; --n) {
    const RowAxis &axis = product_.axis[n];
    const int64_t at = n == 0 ? outer : outer % axis.size;
    piece.x += at * axis.x_stride;
    piece.out += at * axis.out_stride;
    piece.residual += at * axis.residual_stride;
    piece.multiplier += at * axis.multiplier_stride;
    if (n == 0 && product_.matrix.count > 1) {
      piece.matrix += at * product_.matrix.next;
      piece.panel += at * panels_ * panel_floats_;
    }
    outer /= axis.size;
  }
  if (product_.head_rows > 0) piece.rows = wanted_rows(piece);
  return piece;
}

int64_t KeptRows::wanted(int64_t head, int64_t first, int64_t count) const {
  return problem == nullptr ? count : std::clamp<int64_t>(longest_valid_len(*problem, head / heads) - first, 0, count);
}

int64_t ProductTasks::wanted_rows(const Piece &piece) const {
  const int64_t row = piece.out / padded_units(product_.matrix.columns);
  const int64_t entry = row / (product_.head_rows * data_.problem->sizes.kv_heads);
  const int64_t wanted = longest_valid_len(*data_.problem, entry) - row % product_.head_rows;
  return std::clamp<int64_t>(wanted, 0, piece.rows);
}

void add_products(std::initializer_list<const ProductTasks *> products, TaskList *list) {
  const auto add_stage = [&](const auto &add) {
    list->start_stage();
    for (const ProductTasks *p : products) {
      if (p != nullptr) add(*p);
    }
  };
  add_stage([&](const auto &p) { list->add(p.pack_count(), TaskBody::of<&ProductTasks::pack>(p)); });
  add_stage([&](const auto &p) { list->add(p.multiply_count(), TaskBody::of<&ProductTasks::multiply>(p)); });
  add_stage([&](const auto &p) { list->add(p.finish_count(), TaskBody::of<&ProductTasks::finish>(p)); });
}

namespace {

// A run of run_products, a slice of its rows at a time.
class SlicedProduct {
 public:
  explicit SlicedProduct(const ProductRun &run) : run_(run), part_(run.data), slices_(*run.product) {}

  // False when all of its rows are done.
  bool next(int workers) {
    tasks_.reset();
    const bool is_there = slices_.next(&part_);
    if (!is_there) return false;
    copies_.emplace(slices_.product(), part_);
    tasks_.emplace(copies_->product(), copies_->data(), workers);
    part_.matrix = run_.product->matrix.in_place ? run_.data.matrix : nullptr;  // panels are packed once
    return true;
  }
  const RowCopies &copies() const { return *copies_; }
  const ProductTasks *tasks() const { return tasks_.has_value() ? &*tasks_ : nullptr; }

 private:
  const ProductRun &run_;
  ProductData part_;
  RowSlices slices_;
  std::optional<RowCopies> copies_;
  std::optional<ProductTasks> tasks_;
};

double cycles_of(const ProductRun &run) {
  const ProductMatrix &matrix = run.product->matrix;
  const double words =
      static_cast<double>(matrix.depth) * static_cast<double>(matrix.columns) * static_cast<double>(matrix.count);
  const double reading = words * static_cast<double>(bytes_of(matrix.panel_dtype())) / 8.0;
  const bool packs = run.data.matrix != nullptr && !matrix.in_place;
  return std::max(product_cycles(*run.product), reading) +
         (packs ? packing_cycles(*run.product->kernels, matrix) : 0.0);
}

}  // namespace

void run_products(const Context &context, std::initializer_list<ProductRun> runs) {
  std::optional<SlicedProduct> sliced[4];
  size_t count = 0;
  double cycles = 0;
  for (const ProductRun &run : runs) {
    if (run.product == nullptr || run.product->rows == 0 || run.product->matrix.columns == 0) continue;
    sliced[count++].emplace(run);
    cycles += cycles_of(run);
  }
  const int workers = workers_for(context, cycles);
  for (bool more = count > 0; more;) {
    TaskList list;
    const ProductTasks *tasks[4] = {};
    more = false;
    for (size_t n = 0; n < count; ++n) {
      if (!sliced[n]->next(workers)) continue;
      more = true;
      tasks[n] = sliced[n]->tasks();
      list.add(sliced[n]->copies().count(), TaskBody::of<&RowCopies::run>(sliced[n]->copies()));
    }
    if (!more) break;
    add_products({tasks[0], tasks[1], tasks[2], tasks[3]}, &list);
    run_tasks(context, workers, list);
  }
}

void run_product(const Context &context, const Product &product, const ProductData &data) {
  run_products(context, {{&product, data}});
}

void pack_panels(const Context &context, const MatmulKernels &kernels, const ProductMatrix &matrix, const void *data,
                 float *panels) {
  if (matrix.columns == 0 || matrix.depth == 0) return;
  run_tasks(context, workers_for(context, packing_cycles(kernels, matrix)), pack_tasks(kernels, matrix),
            [&](int, int64_t task) { pack_part(kernels, matrix, task, data, panels); });
}

}  // namespace fovea
