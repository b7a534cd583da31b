// Blocks of rows x a few panels are handed out as tasks, and each finishes what it computes.
#include "ops/products/linear.hpp"

#include <algorithm>

#include "ops/tensors/check.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr double worth_a_thread = 60e3;  // cycles

struct Cut {
  int workers;
  int64_t rows_per_task, row_blocks;
  int64_t columns_per_task, chunks;
};

int count_workers(const Context &context, const LinearProduct &product) {
  const double weights = static_cast<double>(product.depth) * static_cast<double>(product.columns);
  const double cycles = static_cast<double>(product.batch) * static_cast<double>(product.rows) * weights / 16.0;
  return std::max(cycles, weights / 2.0) < worth_a_thread ? 1 : worker_limit(context);
}

// Into equal parts of at most `most`, in whole steps.
int64_t even_part(int64_t count, int64_t most, int64_t step) {
  return round_up(ceil_div(count, ceil_div(count, most)), step);
}

// Every worker should get several tasks, to even out. A task's rows share what it reads of the weight, so panels are
// cut apart first, and rows only where there are too few panels.
Cut cut(const Context &context, const LinearProduct &product) {
  constexpr int64_t block_rows = 6;  // of the microkernel
  constexpr int64_t most_rows = 288;
  constexpr int64_t least_rows = 2 * block_rows;
  constexpr int64_t most_columns = 512;
  const int64_t width = context.kernels->matmul->panel_columns;
  const int64_t panels = ceil_div(product.columns, width);
  Cut cut = {};
  cut.workers = count_workers(context, product);
  const int64_t enough = cut.workers == 1 ? 1 : int64_t{4} * cut.workers;
  const int64_t wanted_blocks = ceil_div(ceil_div(enough, panels), product.batch);
  const int64_t wanted_rows = std::clamp(product.rows / wanted_blocks, least_rows, most_rows);
  cut.rows_per_task = even_part(product.rows, wanted_rows, block_rows);
  cut.row_blocks = ceil_div(product.rows, cut.rows_per_task);
  const int64_t row_tasks = product.batch * cut.row_blocks;
  const int64_t wanted_panels = std::clamp<int64_t>(panels * row_tasks / enough, 1, most_columns / width);
  cut.columns_per_task = even_part(panels, wanted_panels, 1) * width;
  cut.chunks = ceil_div(product.columns, cut.columns_per_task);
  return cut;
}

// Batch entries that follow each other evenly are rows of one; so are entries of one row, however they lie.
LinearProduct merge_batch(LinearProduct product) {
  int64_t rows = 0;
  if (product.batch == 1 || product.panels_batch_stride != 0 || !checked_multiply(product.batch, product.rows, &rows)) {
    return product;
  }
  if (product.rows == 1) {
    product.x_row_stride = product.x_batch_stride;
    product.residual_row_stride = product.residual_batch_stride;
    product.out_row_stride = product.out_batch_stride;
  }
  const auto even = [&](int64_t batch_stride, int64_t row_stride) {
    return product.rows == 1 || batch_stride == product.rows * row_stride;
  };
  if (!even(product.x_batch_stride, product.x_row_stride) || !even(product.out_batch_stride, product.out_row_stride) ||
      (product.residual != nullptr && !even(product.residual_batch_stride, product.residual_row_stride))) {
    return product;
  }
  product.rows = rows;
  product.batch = 1;
  return product;
}

void run_task(const Context &context, const LinearProduct &product, const Cut &cut, int64_t index) {
  const int64_t width = context.kernels->matmul->panel_columns;
  const int64_t column = index % cut.chunks * cut.columns_per_task;
  const int64_t row = index / cut.chunks % cut.row_blocks * cut.rows_per_task;
  const int64_t batch = index / cut.chunks / cut.row_blocks;
  MatmulTask task = {.a = product.x + batch * product.x_batch_stride + row * product.x_row_stride,
                     .a_row_stride = product.x_row_stride,
                     .a_column_stride = product.x_column_stride,
                     .b = product.panels + batch * product.panels_batch_stride + column * product.depth,
                     .b_panel_stride = width * product.depth,
                     .b_row_stride = width,
                     .out = product.out + batch * product.out_batch_stride + row * product.out_row_stride + column,
                     .out_row_stride = product.out_row_stride,
                     .rows = std::min(cut.rows_per_task, product.rows - row),
                     .columns = std::min(cut.columns_per_task, product.columns - column),
                     .depth = product.depth,
                     .bias = product.bias == nullptr ? nullptr : product.bias + column,
                     .activation = product.activation,
                     .residual = nullptr,
                     .residual_row_stride = product.residual_row_stride};
  if (product.residual != nullptr) {
    task.residual =
        product.residual + batch * product.residual_batch_stride + row * product.residual_row_stride + column;
  }
  context.kernels->matmul->block(task);
}

}  // namespace

void run_linear(const Context &context, const LinearProduct &given) {
  if (given.batch == 0 || given.rows == 0 || given.columns == 0) return;
  const LinearProduct product = merge_batch(given);
  const Cut tasks = cut(context, product);
  run_tasks(context, tasks.workers, product.batch * tasks.row_blocks * tasks.chunks,
            [&](int, int64_t index) { run_task(context, product, tasks, index); });
}

namespace {

Status check_options(const fovea_linear_options &options, const fovea_tensor &out) {
  if (options.activation < FOVEA_ACTIVATION_NONE || options.activation > FOVEA_ACTIVATION_SILU) {
    return fail(FOVEA_BAD_VALUE, "options.activation is %d, expected %d to %d (FOVEA_ACTIVATION_*)", options.activation,
                FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_SILU);
  }
  if (options.reserved != 0) return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", options.reserved);
  if (options.bias != nullptr) {
    const TensorRule rule = {.name = "bias", .max_rank = 1, .contiguous_last = false};
    FOVEA_CHECK(check_tensor(options.bias, rule));
    FOVEA_CHECK(check_size(*options.bias, "bias", 0, out.shape[out.rank - 1], "weight's outputs"));
  }
  FOVEA_CHECK(check_overlaps({{"out", &out}}, {{"bias", options.bias}}));
  if (options.residual == nullptr) return FOVEA_OK;
  const TensorRule rule = {.name = "residual", .min_rank = out.rank, .max_rank = out.rank};
  FOVEA_CHECK(check_tensor(options.residual, rule));
  for (int axis = 0; axis < out.rank; ++axis) {
    FOVEA_CHECK(check_size(*options.residual, "residual", axis, out.shape[axis], "out's shape"));
  }
  const fovea_tensor *other = same_memory(*options.residual, out) ? nullptr : options.residual;
  return check_overlaps({{"out", &out}}, {{"residual", other}});
}

void add_residual(const fovea_tensor &residual, LinearProduct *product) {
  product->residual = static_cast<const float *>(residual.data);
  product->residual_row_stride = residual.strides[residual.rank - 2];
  product->residual_batch_stride = residual.rank == 3 ? residual.strides[0] : 0;
}

const float *gather_bias(const fovea_tensor &bias, float *to) {
  const auto *from = static_cast<const float *>(bias.data);
  for (int64_t i = 0; i < bias.shape[0]; ++i) to[i] = from[i * bias.strides[0]];
  return to;
}

}  // namespace

LinearProduct make_product(const fovea_tensor &x, const fovea_tensor &out) {
  return {.batch = out.rank == 3 ? out.shape[0] : 1,
          .rows = x.shape[x.rank - 2],
          .depth = x.shape[x.rank - 1],
          .columns = out.shape[out.rank - 1],
          .x = static_cast<const float *>(x.data),
          .x_batch_stride = x.rank == 3 ? x.strides[0] : 0,
          .x_row_stride = x.strides[x.rank - 2],
          .x_column_stride = x.shape[x.rank - 1] == 1 ? 1 : x.strides[x.rank - 1],
          .out = static_cast<float *>(out.data),
          .out_batch_stride = out.rank == 3 ? out.strides[0] : 0,
          .out_row_stride = out.strides[out.rank - 2]};
}

Status check_rows(const ProductNames &names, const fovea_tensor *x, const fovea_tensor *out) {
  const TensorRule x_rule = {.name = names.x, .min_rank = 2, .max_rank = 3, .contiguous_last = false};
  const TensorRule out_rule = {.name = "out", .min_rank = 2, .max_rank = 3, .output = true};
  FOVEA_CHECK(check_tensor(x, x_rule));
  FOVEA_CHECK(check_tensor(out, out_rule));
  return check_size(*out, "out", out->rank - 2, x->shape[x->rank - 2], names.x_rows);
}

Status check_packed_product(const Context &context, const ProductNames &names, const fovea_tensor *x,
                            const fovea_packed_matrix *weight, const fovea_tensor *out) {
  if (weight == nullptr) return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a packed matrix", names.weight);
  FOVEA_CHECK(check_rows(names, x, out));
  if (out->rank == 2 && x->rank == 3) return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like %s", names.x);
  const int64_t batch = out->rank == 3 ? out->shape[0] : 1;
  if (x->rank == 3) {
    FOVEA_CHECK(check_size(*x, names.x, 0, batch, "out's batch size"));
  }
  FOVEA_CHECK(check_size(*x, names.x, x->rank - 1, weight->depth, names.inputs));
  FOVEA_CHECK(check_size(*out, "out", out->rank - 1, weight->columns, names.outputs));
  FOVEA_CHECK(check_overlaps({{"out", out}}, {{names.x, x}}));
  if (weight->kernels == context.kernels) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s was packed for %s, expected %s, the context's instruction set", names.weight,
              weight->kernels->name, context.kernels->name);
}

Status linear_pack(const Context *given, const TensorArgument &weight, const fovea_linear_pack_options *given_options,
                   fovea_packed_matrix **packed) {
  fovea_linear_pack_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  if (options.layout != FOVEA_WEIGHT_OUT_IN && options.layout != FOVEA_WEIGHT_IN_OUT) {
    return fail(FOVEA_BAD_VALUE, "options.layout is %d, expected %d (OUT_IN) or %d (IN_OUT)", options.layout,
                FOVEA_WEIGHT_OUT_IN, FOVEA_WEIGHT_IN_OUT);
  }
  FOVEA_CHECK(check_reserved(options.reserved));
  return pack_matrix(given, {weight, "weight", options.layout == FOVEA_WEIGHT_OUT_IN}, packed);
}

Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
              const TensorArgument &out, const fovea_linear_options *given_options) {
  constexpr ProductNames names = {"x", "x's rows", "weight", "weight's inputs", "weight's outputs"};
  const Context *context = nullptr;
  fovea_linear_options options;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_packed_product(*context, names, x, weight, out));
  FOVEA_CHECK(read_options("options", given_options, &options));
  const TensorArgument bias(options.bias), residual(options.residual);
  options.bias = bias;
  options.residual = residual;
  FOVEA_CHECK(check_options(options, *out));
  if (element_count(*out) == 0) return FOVEA_OK;
  LinearProduct product = make_product(*x, *out);
  product.panels = weight->panels;
  product.activation = static_cast<Activation>(options.activation);
  if (residual != nullptr) add_residual(*residual, &product);
  if (bias == nullptr || bias->shape[0] == 1 || bias->strides[0] == 1) {
    if (bias != nullptr) product.bias = static_cast<const float *>(bias->data);
    run_linear(*context, product);
    return FOVEA_OK;
  }
  MemoryLayout layout;
  const auto contiguous = layout.add<float>(product.columns);  // out's last axis has as many
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  product.bias = gather_bias(*bias, contiguous.in(workspace.data()));
  run_linear(*context, product);
  return FOVEA_OK;
}

}  // namespace fovea
