// Matrix product. b is packed into panels a slice of columns at a time, then blocks of rows x a few panels are handed
// out. Every element sums k in the same order however the work is cut, so packed, unpacked and threaded calls agree bit
// for bit.
#include "ops/matmul.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/check.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

fovea_packed_matrix::~fovea_packed_matrix() { std::free(panels); }

namespace fovea {
namespace {

constexpr int64_t task_columns = 512;
// A slice of b is packed and used before the next one, so that scratch memory does not grow with n.
constexpr int64_t slice_floats = int64_t{1} << 20;
constexpr double worth_a_thread = 60e3;  // cycles

struct Matrix {
  float *data;
  int64_t rows, columns;
  int64_t row_stride, column_stride;
  int64_t batch_stride;  // 0 when one matrix serves all
};

struct Product {
  const Kernels *kernels;
  const Context *context;
  int64_t batch;
  Matrix a, out;
  int64_t depth, columns;
  int workers;
  int64_t rows_per_task;
};

Matrix as_matrix(const fovea_tensor &tensor) {
  const int last = tensor.rank - 1;
  const auto stride = [&](int axis) { return tensor.shape[axis] == 1 ? 0 : tensor.strides[axis]; };
  return {static_cast<float *>(tensor.data),
          tensor.shape[last - 1],
          tensor.shape[last],
          stride(last - 1),
          tensor.shape[last] == 1 ? 1 : tensor.strides[last],
          tensor.rank == 3 ? stride(0) : 0};
}

Status check_left(const fovea_tensor *a, const fovea_tensor *out) {
  for (const bool is_out : {false, true}) {
    const TensorRule rule = {
        .name = is_out ? "out" : "a", .min_rank = 2, .max_rank = 3, .output = is_out, .contiguous_last = is_out};
    if (const Status status = check_tensor(is_out ? out : a, rule); status != FOVEA_OK) return status;
  }
  return check_size(*out, "out", out->rank - 2, a->shape[a->rank - 2], "a's rows");
}

Status check_batch(const fovea_tensor &tensor, const char *name, int64_t batch) {
  if (tensor.rank == 2) return FOVEA_OK;
  return check_size(tensor, name, 0, batch, "out's batch size");
}

Status check_depth(const fovea_tensor &a, int64_t depth) { return check_size(a, "a", a.rank - 1, depth, "b's rows"); }

// A task's rows share what it reads of b, so as many as leave each worker several tasks to even out.
int64_t rows_per_task(const Product &product) {
  constexpr int64_t most = 288;
  constexpr int64_t least = 48;
  const double chunks =
      static_cast<double>(product.batch) * static_cast<double>(ceil_div(product.columns, task_columns));
  int64_t rows = most;
  while (rows > least && chunks * static_cast<double>(ceil_div(product.a.rows, rows)) < 4.0 * product.workers)
    rows /= 2;
  // Equal shares: a slice of b is used up before the next is packed, and nobody should wait for the one with a block
  // more.
  const int64_t blocks = round_up(ceil_div(std::max<int64_t>(product.a.rows, 1), rows), product.workers);
  const int64_t even = round_up(ceil_div(product.a.rows, blocks), 6);
  return std::clamp(even, std::min(least, rows), most);
}

// Common to both entry points once shapes are known to fit.
Product make_product(const Context &context, const fovea_tensor &a, const fovea_tensor &out) {
  Product product = {};
  product.context = &context;
  product.kernels = context.kernels;
  product.a = as_matrix(a);
  product.out = as_matrix(out);
  product.batch = out.rank == 3 ? out.shape[0] : 1;
  product.depth = product.a.columns;
  product.columns = product.out.columns;
  const double cycles = static_cast<double>(product.batch) * static_cast<double>(product.a.rows) *
                        static_cast<double>(product.depth) * static_cast<double>(product.columns) / 16.0;
  const double bytes = 4.0 * static_cast<double>(product.depth) * static_cast<double>(product.columns);
  product.workers = std::max(cycles, bytes / 8.0) < worth_a_thread ? 1 : worker_limit(context);
  product.rows_per_task = rows_per_task(product);
  return product;
}

int64_t panels_of(const Kernels &kernels, int64_t columns) { return ceil_div(columns, kernels.matmul.panel_columns); }

// Floats that columns of this depth need in panels; false on overflow.
bool packed_floats(const Kernels &kernels, int64_t depth, int64_t columns, int64_t *floats) {
  int64_t padded = 0;
  int64_t bytes = 0;
  return checked_add(columns, kernels.matmul.panel_columns - 1, &padded) &&
         checked_multiply(panels_of(kernels, columns) * kernels.matmul.panel_columns, depth, floats) &&
         checked_multiply(*floats, sizeof(float), &bytes) && checked_add(bytes, 4096, &bytes);
}

// A run of batch entries and of columns that is packed, then multiplied.
struct Slice {
  int64_t first_batch, batches;
  int64_t first_column, columns;
  int64_t panel_floats;  // from one batch entry's panels to the next one's; 0 when b is shared
};

void pack_panels(const Context &context, int workers, const Matrix &b, const Slice &slice, float *out) {
  const Kernels &kernels = *context.kernels;
  const int64_t width = kernels.matmul.panel_columns;
  const int64_t panels = ceil_div(slice.columns, width);
  const int64_t batches = slice.panel_floats == 0 ? 1 : slice.batches;
  run_tasks(context, workers, batches * panels, [&](int, int64_t index) {
    const int64_t batch = index / panels;
    const int64_t column = index % panels * width;
    kernels.matmul_pack(
        {.b = b.data + (slice.first_batch + batch) * b.batch_stride + (slice.first_column + column) * b.column_stride,
         .b_row_stride = b.row_stride,
         .b_column_stride = b.column_stride,
         .depth = b.rows,
         .columns = std::min(width, slice.columns - column),
         .out = out + batch * slice.panel_floats + column * b.rows});
  });
}

void multiply(const Product &product, const Slice &slice, const float *panels) {
  const int64_t width = product.kernels->matmul.panel_columns;
  const int64_t row_blocks = ceil_div(product.a.rows, product.rows_per_task);
  const int64_t chunk = std::max(width, task_columns / width * width);
  const int64_t chunks = ceil_div(slice.columns, chunk);
  run_tasks(*product.context, product.workers, slice.batches * row_blocks * chunks, [&](int, int64_t index) {
    const int64_t column = index % chunks * chunk;
    const int64_t row = index / chunks % row_blocks * product.rows_per_task;
    const int64_t batch = index / chunks / row_blocks;
    const Matrix &a = product.a;
    const Matrix &out = product.out;
    product.kernels->matmul_block({.a = a.data + (slice.first_batch + batch) * a.batch_stride + row * a.row_stride,
                                   .a_row_stride = a.row_stride,
                                   .a_column_stride = a.column_stride,
                                   .b = panels + batch * slice.panel_floats + column * product.depth,
                                   .b_panel_stride = width * product.depth,
                                   .b_row_stride = width,
                                   .out = out.data + (slice.first_batch + batch) * out.batch_stride +
                                          row * out.row_stride + slice.first_column + column,
                                   .out_row_stride = out.row_stride,
                                   .rows = std::min(product.rows_per_task, a.rows - row),
                                   .columns = std::min(chunk, slice.columns - column),
                                   .depth = product.depth});
  });
}

Status no_memory(size_t size) { return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of scratch", size); }

Status check_matmul(const fovea_tensor *a, const fovea_tensor *b, const fovea_tensor *out) {
  if (const Status status = check_left(a, out); status != FOVEA_OK) return status;
  const TensorRule rule = {.name = "b", .min_rank = 2, .max_rank = 3, .contiguous_last = false};
  if (const Status status = check_tensor(b, rule); status != FOVEA_OK) return status;
  if (out->rank == 2 && (a->rank == 3 || b->rank == 3)) {
    return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like %s", a->rank == 3 ? "a" : "b");
  }
  const int64_t batch = out->rank == 3 ? out->shape[0] : 1;
  if (const Status status = check_batch(*a, "a", batch); status != FOVEA_OK) return status;
  if (const Status status = check_batch(*b, "b", batch); status != FOVEA_OK) return status;
  if (const Status status = check_depth(*a, b->shape[b->rank - 2]); status != FOVEA_OK) return status;
  if (const Status status = check_size(*out, "out", out->rank - 1, b->shape[b->rank - 1], "b's columns");
      status != FOVEA_OK) {
    return status;
  }
  return check_overlaps({{"out", out}}, {{"a", a}, {"b", b}});
}

}  // namespace

Status matmul(const Context *given, const fovea_tensor *a, const fovea_tensor *b, const fovea_tensor *out) {
  const Context *context = nullptr;
  if (const Status status = resolve_context(given, &context); status != FOVEA_OK) return status;
  if (const Status status = check_matmul(a, b, out); status != FOVEA_OK) return status;
  if (element_count(*out) == 0) return FOVEA_OK;
  const Product product = make_product(*context, *a, *out);
  const Matrix right = as_matrix(*b);
  const int64_t width = context->kernels->matmul.panel_columns;
  const bool shared = product.batch == 1 || right.batch_stride == 0;
  const int64_t most_columns = std::max(width, slice_floats / std::max<int64_t>(product.depth, 1) / width * width);
  int64_t panel_floats = 0;
  if (!packed_floats(*context->kernels, product.depth, std::min(most_columns, product.columns), &panel_floats)) {
    return fail(FOVEA_SIZE_OVERFLOW, "b's shape is too large to pack");
  }
  const int64_t together = std::clamp<int64_t>(slice_floats / std::max<int64_t>(panel_floats, 1), 1, product.batch);
  const int64_t batches = shared ? product.batch : together;
  const size_t size = static_cast<size_t>(std::max<int64_t>(panel_floats * (shared ? 1 : batches), 1)) * sizeof(float);
  const Workspace workspace(*context, size);
  if (workspace.data() == nullptr) return no_memory(size);
  auto *panels = static_cast<float *>(workspace.data());
  for (int64_t batch = 0; batch < product.batch; batch += batches) {
    for (int64_t column = 0; column < product.columns; column += most_columns) {
      const Slice slice = {batch, std::min(batches, product.batch - batch), column,
                           std::min(most_columns, product.columns - column), shared ? 0 : panel_floats};
      pack_panels(*context, product.workers, right, slice, panels);
      multiply(product, slice, panels);
    }
  }
  return FOVEA_OK;
}

Status matmul_pack(const Context *given, const fovea_tensor *b, fovea_packed_matrix **packed) {
  const Context *context = nullptr;
  if (const Status status = resolve_context(given, &context); status != FOVEA_OK) return status;
  if (packed == nullptr) return fail(FOVEA_NULL_POINTER, "packed is NULL, expected where to store the packed matrix");
  const TensorRule rule = {.name = "b", .min_rank = 2, .max_rank = 2, .contiguous_last = false};
  if (const Status status = check_tensor(b, rule); status != FOVEA_OK) return status;
  int64_t floats = 0;
  if (!packed_floats(*context->kernels, b->shape[0], b->shape[1], &floats)) {
    return fail(FOVEA_SIZE_OVERFLOW, "b's shape is too large to pack");
  }
  std::unique_ptr<fovea_packed_matrix> made(new (std::nothrow) fovea_packed_matrix{});
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a packed matrix");
  made->kernels = context->kernels;
  made->depth = b->shape[0];
  made->columns = b->shape[1];
  made->size = static_cast<size_t>(round_up(floats * static_cast<int64_t>(sizeof(float)), cache_line));
  made->panels = static_cast<float *>(std::aligned_alloc(cache_line, std::max(made->size, cache_line)));
  if (made->panels == nullptr) return no_memory(made->size);
  const Matrix right = as_matrix(*b);
  const int workers = floats < (1 << 16) ? 1 : worker_limit(*context);
  pack_panels(*context, workers, right, {0, 1, 0, right.columns, 0}, made->panels);
  *packed = made.release();
  return FOVEA_OK;
}

Status matmul_packed(const Context *given, const fovea_tensor *a, const fovea_packed_matrix *b,
                     const fovea_tensor *out) {
  const Context *context = nullptr;
  if (const Status status = resolve_context(given, &context); status != FOVEA_OK) return status;
  if (b == nullptr) return fail(FOVEA_NULL_POINTER, "b is NULL, expected a packed matrix");
  if (const Status status = check_left(a, out); status != FOVEA_OK) return status;
  if (out->rank == 2 && a->rank == 3) return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like a");
  if (const Status status = check_batch(*a, "a", out->rank == 3 ? out->shape[0] : 1); status != FOVEA_OK) return status;
  if (const Status status = check_depth(*a, b->depth); status != FOVEA_OK) return status;
  if (const Status status = check_size(*out, "out", out->rank - 1, b->columns, "b's columns"); status != FOVEA_OK) {
    return status;
  }
  if (const Status status = check_overlaps({{"out", out}}, {{"a", a}}); status != FOVEA_OK) return status;
  if (b->kernels != context->kernels) {
    return fail(FOVEA_BAD_VALUE, "b was packed for %s, expected %s, the context's instruction set", b->kernels->name,
                context->kernels->name);
  }
  if (element_count(*out) == 0) return FOVEA_OK;
  const Product product = make_product(*context, *a, *out);
  multiply(product, {0, product.batch, 0, product.columns, 0}, b->panels);
  return FOVEA_OK;
}

}  // namespace fovea
