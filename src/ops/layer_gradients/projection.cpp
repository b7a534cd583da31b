#include "ops/layer_gradients/projection.hpp"

#include <utility>

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/row_sums.hpp"
#include "ops/layer_gradients/rows.hpp"
#include "ops/products/matmul.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

// Rows of all batch entries as those of one, if they lie so.
bool join_entries(fovea_tensor *rows) {
  if (rows->rank == 2) return true;
  const int64_t entries = rows->shape[0], count = rows->shape[1];
  const bool even = rows->strides[0] == rows->strides[1] * count;
  if (entries > 1 && count > 1 && !even) return false;
  const int64_t stride = count > 1 ? rows->strides[1] : rows->strides[0];
  *rows = {rows->data, rows->dtype, 2, {entries * count, rows->shape[2]}, {stride, rows->strides[2]}};
  return true;
}

// Rows of a product that sums over them, of which entries may lie anywhere: joined or copied, so that sums have one
// order.
class JoinedRows {
 public:
  JoinedRows(const fovea_tensor &rows, MemoryLayout *layout)
      : given_(rows), rows_(rows), joined_(join_entries(&rows_)) {
    if (joined_) return;
    const auto size = static_cast<int64_t>(dtype_size(static_cast<Dtype>(rows.dtype)));
    copy_ = layout->add<char>({rows.shape[0], rows.shape[1], rows.shape[2], size});
  }

  // Rows side by side, in memory of the layout.
  const fovea_tensor &in(const Context &context, void *memory) {
    if (joined_) return rows_;
    const auto type = static_cast<Dtype>(given_.dtype);
    fovea_tensor copy = contiguous_tensor(copy_.in(memory), given_.dtype, 3, given_.shape);
    if (given_.shape[2] <= 1 || given_.strides[2] == 1) {
      copy_rows(context, given_, copy);
    } else {
      const int64_t count = given_.shape[1], rows = given_.shape[0] * count;
      run_tasks(context, copying_workers(context, element_count(given_)), rows, [&](int, int64_t row) {
        const int64_t at = row / count * given_.strides[0] + row % count * given_.strides[1];
        const fovea_tensor vector = {
            element_at(given_.data, type, at), given_.dtype, 1, {given_.shape[2]}, {given_.strides[2]}};
        gather(vector, element_at(copy.data, type, row * given_.shape[2]));
      });
    }
    join_entries(&copy);
    return rows_ = copy;
  }

 private:
  fovea_tensor given_, rows_;
  bool joined_;
  MemoryPart<char> copy_;
};

}  // namespace

fovea_tensor transposed(const fovea_tensor &matrix) {
  fovea_tensor other = matrix;
  std::swap(other.shape[0], other.shape[1]);
  std::swap(other.strides[0], other.strides[1]);
  return other;
}

Status sum_products(const Context &context, const fovea_tensor &left, const fovea_tensor &right,
                    const fovea_tensor &out) {
  if (element_count(out) == 0) return FOVEA_OK;
  MemoryLayout layout;
  JoinedRows a(left, &layout), b(right, &layout);
  if (!layout.fits()) return too_large_for_sums("x");
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  const fovea_tensor columns = transposed(a.in(context, workspace.data()));
  return matmul(&context, &columns, &b.in(context, workspace.data()), &out);
}

Status add_up_weight(const Context &context, const fovea_tensor &h, const fovea_tensor &x, bool lies_in_out,
                     const fovea_tensor &out) {
  return lies_in_out ? sum_products(context, x, h, out) : sum_products(context, h, x, out);
}

Status project_back(const Context &context, const fovea_tensor &h, const fovea_tensor &weight, bool add,
                    const fovea_tensor &out) {
  fovea_gemm_options options = {};
  options.struct_size = sizeof options;
  options.c = add ? &out : nullptr;
  return gemm(&context, &h, &weight, &out, &options);
}

Status add_up_bias(const Context &context, const fovea_tensor &h, const fovea_tensor &out) {
  if (element_count(out) == 0) return FOVEA_OK;
  const fovea_tensor *tensors[] = {&h};
  const auto rows = ManyRows<1>::of(tensors);
  const int64_t width = h.shape[h.rank - 1];
  const auto type = static_cast<Dtype>(h.dtype);
  MemoryLayout layout;
  const RowSums sums(rows.count, width, width, &layout);
  if (!layout.fits()) return too_large_for_sums("gradients.out");
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  const RowwiseKernels &kernels = *context.kernels->rowwise;
  const auto add = [&](int64_t first, int64_t count, float *floats) {
    ManyRowsCursor<1> row(rows, first);
    for (int64_t i = 0; i < count; ++i, row.next()) {
      kernels.add_row({.row = element_at(h.data, type, row.offset(0)), .dtype = type, .dim = width, .sums = floats});
    }
  };
  const int workers = workers_for(context, static_cast<double>(rows.count * width));
  run_tasks(context, workers, sums.tasks(), [&](int, int64_t task) { sums.run(task, workspace.data(), add); });
  sums.store(kernels, workspace.data(), 0, out);
  return FOVEA_OK;
}

}  // namespace fovea
