// Matrix product. b is packed into panels a slice of columns at a time, or read where it lies if there are few rows.
// Every element sums k in the same order however the work is cut, so packed, unpacked and threaded calls agree bit for
// bit.
#include "ops/products/matmul.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/products/batches.hpp"
#include "ops/products/check.hpp"
#include "ops/products/linear.hpp"
#include "ops/products/row_copies.hpp"
#include "runtime/large_memory.hpp"
#include "runtime/workspace.hpp"

fovea_packed_matrix::~fovea_packed_matrix() { std::free(memory); }

namespace fovea {
namespace {

// A slice of b is packed and used before the next one, so that scratch memory does not grow with n.
constexpr int64_t slice_floats = int64_t{1} << 20;

ProductMatrix as_matrix(const fovea_tensor &tensor) {
  const int last = tensor.rank - 1;
  return {.columns = tensor.shape[last],
          .depth = tensor.shape[last - 1],
          .column_stride = tensor.shape[last] == 1 ? 1 : tensor.strides[last],
          .depth_stride = tensor.strides[last - 1],
          .count = 1,
          .next = tensor.rank == 3 ? tensor.strides[0] : 0,
          .dtype = static_cast<Dtype>(tensor.dtype)};
}

// Some batch entries of a tensor, or of one without batch all of it.
fovea_tensor entries_of(const fovea_tensor &tensor, int64_t first, int64_t count) {
  fovea_tensor entries = tensor;
  if (tensor.rank < 3) return entries;
  entries.data = element_at(tensor.data, static_cast<Dtype>(tensor.dtype), first * tensor.strides[0]);
  entries.shape[0] = count;
  return entries;
}

// Which columns and batch entries are packed together, then multiplied by.
struct Slices {
  ProductMatrix matrix;     // the largest slice
  int64_t batch, together;  // entries
  bool shared;              // one matrix serves all entries

  // Slices of b's matrices, `count` in all. In place, only copies of a's rows take room.
  Slices(const ProductMatrix &b, int64_t batch_size, int64_t rows, int64_t width) : matrix(b), batch(batch_size) {
    // Deeper ones than this are as good as infinitely deep.
    const int64_t depth = std::clamp<int64_t>(b.depth, 1, slice_floats);
    const int64_t most_columns = b.in_place ? b.columns : std::max(width, slice_floats / depth / width * width);
    matrix.columns = std::min(most_columns, b.columns);
    shared = b.count == 1;
    const int64_t floats = (b.in_place ? rows : round_up(matrix.columns, width)) * depth;
    together = shared ? batch : std::clamp<int64_t>(slice_floats / floats, 1, batch);
    matrix.count = shared ? 1 : together;
  }
};

// Whether b is read where it lies, all at once by all rows. Rows of a batch that share it are not always evenly spaced.
// A depth that no memory holds, by strides of 0, is left to packing, which says so instead of multiplying for hours.
bool reads_in_place(const Product &product) {
  constexpr int64_t deepest_in_place = int64_t{1} << 32;
  const ProductMatrix &b = product.matrix;
  const MatmulKernels &kernels = *product.kernels;
  return kernels.few_rows != nullptr && b.column_stride == 1 && b.depth <= deepest_in_place &&
         b.panel_dtype() == b.dtype && product.axes == (b.count == 1 ? 1 : 2) &&
         product.axis[product.axes - 1].size <= kernels.most_few_rows;
}

// What a product's sums become.
struct Ending {
  float scale = 1, added_scale = 1;
  const fovea_tensor *added = nullptr;  // like out, with strides of 0 where it repeats; null: none
  bool added_is_column = false;         // whose columns are one

  // The element of `added` that stands at out's column.
  const void *from(const fovea_tensor &part, int64_t column) const {
    return element_at(part.data, static_cast<Dtype>(part.dtype), added_is_column ? 0 : column);
  }
};

// a, out and ending.added are of rank 3.
Status multiply(const Context &context, const fovea_tensor &a, const fovea_tensor &b, const fovea_tensor &out,
                const Ending &ending) {
  const bool medium = narrows_products(context, FOVEA_PRECISION_DEFAULT);
  ProductMatrix right = as_matrix(b);
  right.packed_as = packed_dtype(context, FOVEA_PRECISION_DEFAULT, right.dtype, right.depth);
  if (right.packed_as == Dtype::bf16 && static_cast<Dtype>(a.dtype) == Dtype::f16) right.packed_as = right.dtype;
  const MatmulKernels &kernels = matrix_kernels(*context.kernels, right.panel_dtype());
  const auto out_dtype = static_cast<Dtype>(out.dtype);
  const int64_t batch = out.shape[0];
  right.count = batch == 1 || right.next == 0 ? 1 : batch;
  const auto describe = [&](const ProductMatrix &matrix, const fovea_tensor &x, const fovea_tensor &to) {
    Product product = tensor_product(*context.kernels, matrix, {.x = x, .out = to, .residual = ending.added}, medium);
    product.scale = ending.scale;
    product.residual_scale = ending.added_scale;
    product.residual_is_column = ending.added_is_column;
    if (batch == 1 && ending.added == nullptr && ending.scale == 1.0f) take_columns(&product);
    return product;
  };
  right.in_place = reads_in_place(describe(right, a, out));
  const Slices slices(right, batch, out.shape[1], kernels.panel_columns);
  MemoryLayout layout;
  const auto panels = add_panels(kernels, slices.matrix, &layout);
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "b's shape is too large to pack");
  const Product largest =
      describe(slices.matrix, entries_of(a, 0, slices.together), entries_of(out, 0, slices.together));
  const auto copies = layout.add<float>(row_copy_words(largest));
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "a's shape is too large to copy");
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  for (int64_t entry = 0; entry < slices.batch; entry += slices.together) {
    const int64_t entries = std::min(slices.together, slices.batch - entry);
    const fovea_tensor x = entries_of(a, entry, entries), to = entries_of(out, entry, entries);
    const fovea_tensor added = ending.added == nullptr ? fovea_tensor{} : entries_of(*ending.added, entry, entries);
    for (int64_t column = 0; column < right.columns; column += slices.matrix.columns) {
      ProductMatrix slice = slices.matrix;
      slice.columns = std::min(slice.columns, right.columns - column);
      slice.count = slices.shared ? 1 : entries;
      const int64_t first = entry * slice.next + column * slice.column_stride;
      run_product(context, describe(slice, x, to),
                  {.x = x.data,
                   .copies = copies.in(workspace.data()),
                   .matrix = element_at(b.data, right.dtype, first),
                   .panels = panels.in(workspace.data()),
                   .out = element_at(to.data, out_dtype, column),
                   .residual = ending.added == nullptr ? nullptr : ending.from(added, column)});
    }
  }
  return FOVEA_OK;
}

// added null: none.
Status multiply_batches(const Context &context, const fovea_tensor &a, const fovea_tensor &b, const fovea_tensor &out,
                        const fovea_tensor *added, float scale, float added_scale) {
  const Batches batches(a, b, out, added);
  Ending ending = {.scale = scale, .added_scale = added_scale, .added = nullptr, .added_is_column = false};
  ending.added_is_column = added != nullptr && added->shape[added->rank - 1] != out.shape[out.rank - 1];
  for (int64_t outer = 0; outer < batches.count(); ++outer) {
    const fovea_tensor its_added = batches.added(outer);
    if (added != nullptr) ending.added = &its_added;
    FOVEA_CHECK(multiply(context, batches.a(outer), batches.b(outer), batches.out(outer), ending));
  }
  return FOVEA_OK;
}

}  // namespace

Status matmul(const Context *given, const TensorArgument &a, const TensorArgument &b, const TensorArgument &out) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_matmul(a, b, out));
  if (element_count(*out) == 0) return FOVEA_OK;
  return multiply_batches(*context, *a, *b, *out, nullptr, 1, 1);
}

Status gemm(const Context *given, const TensorArgument &a, const TensorArgument &b, const TensorArgument &out,
            const fovea_gemm_options *given_options) {
  const Context *context = nullptr;
  fovea_gemm_options options;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(read_options("options", given_options, &options));
  const TensorArgument c(options.c);
  options.c = c;
  FOVEA_CHECK(check_gemm_options(&options));
  FOVEA_CHECK(check_matmul(a, b, out));
  FOVEA_CHECK(check_added(options, *out));
  if (element_count(*out) == 0) return FOVEA_OK;
  const fovea_tensor *added = options.beta == 0.0f ? nullptr : options.c;
  return multiply_batches(*context, *a, *b, *out, added, options.alpha, options.beta);
}

Status pack_matrix(const Context *given, const MatrixToPack &from, fovea_packed_matrix **packed) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(packed, "packed", "where to store the packed matrix"));
  const TensorRule rule = {.name = from.name, .min_rank = 2, .max_rank = 2, .contiguous_last = false, .narrow = true};
  FOVEA_CHECK(check_tensor(from.matrix, rule));
  ProductMatrix b = as_matrix(*from.matrix);
  if (from.transposed) {
    std::swap(b.depth, b.columns);
    std::swap(b.depth_stride, b.column_stride);
  }
  b.packed_as = packed_dtype(*context, from.precision, b.dtype, b.depth);
  const MatmulKernels &kernels = matrix_kernels(*context->kernels, b.panel_dtype());
  MemoryLayout layout;
  const auto panels = add_panels(kernels, b, &layout);
  if (!layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW, "%s's shape is too large to pack", from.name);
  }
  std::unique_ptr<fovea_packed_matrix> made(new (std::nothrow) fovea_packed_matrix{});
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a packed matrix");
  made->kernels = context->kernels;
  made->depth = b.depth;
  made->columns = b.columns;
  made->dtype = b.panel_dtype();
  made->medium = narrows_products(*context, from.precision);
  made->size = layout.size();
  made->memory = allocate_large(made->size);
  if (made->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of weights", made->size);
  made->panels = panels.in(made->memory);
  pack_panels(*context, kernels, b, from.matrix->data, made->panels);
  *packed = made.release();
  return FOVEA_OK;
}

Status matmul_pack(const Context *given, const TensorArgument &b, const fovea_matmul_pack_options *given_options,
                   fovea_packed_matrix **packed) {
  fovea_matmul_pack_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  FOVEA_CHECK(check_flags(options.flags, 0));
  FOVEA_CHECK(check_precision("options", options.precision));
  return pack_matrix(given, {b, matmul_names.weight, false, options.precision}, packed);
}

Status matmul_packed(const Context *given, const TensorArgument &a, const fovea_packed_matrix *b,
                     const TensorArgument &out) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_packed_product(*context, matmul_names, a, b, out));
  if (element_count(*out) == 0) return FOVEA_OK;
  Product product = packed_product(*b, {.x = *a, .out = *out}, b->medium);
  take_columns(&product);
  MemoryLayout layout;
  const auto copies = layout.add<float>(row_copy_words(product));
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "a's shape is too large to copy");
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  run_product(*context, product,
              {.x = a->data, .copies = copies.in(workspace.data()), .panels = b->panels, .out = out->data});
  return FOVEA_OK;
}

}  // namespace fovea
