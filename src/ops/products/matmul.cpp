// Matrix product. b is packed into panels a slice of columns at a time, which products/linear.cpp multiplies by. Every element
// sums k in the same order however the work is cut, so packed, unpacked and threaded calls agree bit for bit.
#include "ops/products/matmul.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/products/linear.hpp"
#include "ops/tensors/check.hpp"
#include "runtime/parallel.hpp"
#include "runtime/weight_memory.hpp"
#include "runtime/workspace.hpp"

fovea_packed_matrix::~fovea_packed_matrix() { std::free(panels); }

namespace fovea {
namespace {

// A slice of b is packed and used before the next one, so that scratch memory does not grow with n.
constexpr int64_t slice_floats = int64_t{1} << 20;

constexpr ProductNames names = {"a", "a's rows", "b", "b's rows", "b's columns"};

// b, of one batch entry or many.
struct Matrix {
  const float *data;
  int64_t rows, columns;
  int64_t row_stride, column_stride;
  int64_t batch_stride;  // 0 when one matrix serves all
};

Matrix as_matrix(const fovea_tensor &tensor) {
  const int last = tensor.rank - 1;
  return {static_cast<const float *>(tensor.data),
          tensor.shape[last - 1],
          tensor.shape[last],
          tensor.strides[last - 1],
          tensor.shape[last] == 1 ? 1 : tensor.strides[last],
          tensor.rank == 3 ? tensor.strides[0] : 0};
}

int64_t panels_of(const Kernels &kernels, int64_t columns) { return ceil_div(columns, kernels.matmul->panel_columns); }

// Floats that columns of this depth need in panels; false on overflow.
bool packed_floats(const Kernels &kernels, int64_t depth, int64_t columns, int64_t *floats) {
  int64_t padded = 0;
  return checked_add(columns, kernels.matmul->panel_columns - 1, &padded) &&
         checked_multiply(panels_of(kernels, columns) * kernels.matmul->panel_columns, depth, floats);
}

// A run of batch entries and of columns that is packed, then multiplied.
struct Slice {
  int64_t first_batch, batches;
  int64_t first_column, columns;
  int64_t panel_floats;  // from one batch entry's panels to the next one's; 0 when b is shared
};

void pack_panels(const Context &context, const Matrix &b, const Slice &slice, float *out) {
  constexpr int64_t floats_worth_a_thread = 1 << 16;
  const Kernels &kernels = *context.kernels;
  const int64_t width = kernels.matmul->panel_columns;
  const int64_t panels = ceil_div(slice.columns, width);
  const int64_t batches = slice.panel_floats == 0 ? 1 : slice.batches;
  const int workers = batches * panels * width * b.rows < floats_worth_a_thread ? 1 : worker_limit(context);
  run_tasks(context, workers, batches * panels, [&](int, int64_t index) {
    const int64_t batch = index / panels;
    const int64_t column = index % panels * width;
    kernels.matmul->pack(
        {.b = b.data + (slice.first_batch + batch) * b.batch_stride + (slice.first_column + column) * b.column_stride,
         .b_row_stride = b.row_stride,
         .b_column_stride = b.column_stride,
         .depth = b.rows,
         .columns = std::min(width, slice.columns - column),
         .out = out + batch * slice.panel_floats + column * b.rows});
  });
}

void multiply(const Context &context, const LinearProduct &product, const Slice &slice, const float *panels) {
  LinearProduct part = product;
  part.batch = slice.batches;
  part.columns = slice.columns;
  part.x += slice.first_batch * product.x_batch_stride;
  part.panels = panels;
  part.panels_batch_stride = slice.panel_floats;
  part.out += slice.first_batch * product.out_batch_stride + slice.first_column;
  run_linear(context, part);
}

Status check_matmul(const fovea_tensor *a, const fovea_tensor *b, const fovea_tensor *out) {
  FOVEA_CHECK(check_rows(names, a, out));
  const TensorRule rule = {.name = "b", .min_rank = 2, .max_rank = 3, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(b, rule));
  if (out->rank == 2 && (a->rank == 3 || b->rank == 3)) {
    return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like %s", a->rank == 3 ? "a" : "b");
  }
  const int64_t batch = out->rank == 3 ? out->shape[0] : 1;
  for (const bool left : {true, false}) {
    const fovea_tensor &operand = left ? *a : *b;
    if (operand.rank == 2) continue;
    FOVEA_CHECK(check_size(operand, left ? "a" : "b", 0, batch, "out's batch size"));
  }
  FOVEA_CHECK(check_size(*a, "a", a->rank - 1, b->shape[b->rank - 2], names.inputs));
  FOVEA_CHECK(check_size(*out, "out", out->rank - 1, b->shape[b->rank - 1], names.outputs));
  return check_overlaps({{"out", out}}, {{"a", a}, {"b", b}});
}

}  // namespace

Status matmul(const Context *given, const TensorArgument &a, const TensorArgument &b, const TensorArgument &out) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_matmul(a, b, out));
  if (element_count(*out) == 0) return FOVEA_OK;
  const LinearProduct product = make_product(*a, *out);
  const Matrix right = as_matrix(*b);
  const int64_t width = context->kernels->matmul->panel_columns;
  const bool shared = product.batch == 1 || right.batch_stride == 0;
  const int64_t most_columns = std::max(width, slice_floats / std::max<int64_t>(product.depth, 1) / width * width);
  int64_t panel_floats = 0;
  const bool counted =
      packed_floats(*context->kernels, product.depth, std::min(most_columns, product.columns), &panel_floats);
  const int64_t together = std::clamp<int64_t>(slice_floats / std::max<int64_t>(panel_floats, 1), 1, product.batch);
  const int64_t batches = shared ? product.batch : together;
  MemoryLayout layout;
  const auto panels_part = layout.add<float>({shared ? 1 : batches, panel_floats});
  if (!counted || !layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "b's shape is too large to pack");
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  float *panels = panels_part.in(workspace.data());
  for (int64_t batch = 0; batch < product.batch; batch += batches) {
    for (int64_t column = 0; column < product.columns; column += most_columns) {
      const Slice slice = {batch, std::min(batches, product.batch - batch), column,
                           std::min(most_columns, product.columns - column), shared ? 0 : panel_floats};
      pack_panels(*context, right, slice, panels);
      multiply(*context, product, slice, panels);
    }
  }
  return FOVEA_OK;
}

Status pack_matrix(const Context *given, const MatrixToPack &from, fovea_packed_matrix **packed) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  if (packed == nullptr) return fail(FOVEA_NULL_POINTER, "packed is NULL, expected where to store the packed matrix");
  const TensorRule rule = {.name = from.name, .min_rank = 2, .max_rank = 2, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(from.matrix, rule));
  Matrix b = as_matrix(*from.matrix);
  if (from.transposed) {
    std::swap(b.rows, b.columns);
    std::swap(b.row_stride, b.column_stride);
  }
  int64_t floats = 0;
  MemoryLayout layout;
  const bool counted = packed_floats(*context->kernels, b.rows, b.columns, &floats);
  layout.add<float>(floats);
  if (!counted || !layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW, "%s's shape is too large to pack", from.name);
  }
  std::unique_ptr<fovea_packed_matrix> made(new (std::nothrow) fovea_packed_matrix{});
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a packed matrix");
  made->kernels = context->kernels;
  made->depth = b.rows;
  made->columns = b.columns;
  made->size = layout.size();
  made->panels = static_cast<float *>(allocate_weights(made->size));
  if (made->panels == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of weights", made->size);
  if (floats > 0) pack_panels(*context, b, {0, 1, 0, b.columns, 0}, made->panels);  // else there may be 2^60 columns
  *packed = made.release();
  return FOVEA_OK;
}

Status matmul_pack(const Context *given, const TensorArgument &b, const fovea_matmul_pack_options *given_options,
                   fovea_packed_matrix **packed) {
  fovea_matmul_pack_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  FOVEA_CHECK(check_no_flags(options.flags));
  FOVEA_CHECK(check_reserved(options.reserved));
  return pack_matrix(given, {b, names.weight, false}, packed);
}

Status matmul_packed(const Context *given, const TensorArgument &a, const fovea_packed_matrix *b,
                     const TensorArgument &out) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_packed_product(*context, names, a, b, out));
  if (element_count(*out) == 0) return FOVEA_OK;
  LinearProduct product = make_product(*a, *out);
  product.panels = b->panels;
  run_linear(*context, product);
  return FOVEA_OK;
}

}  // namespace fovea
