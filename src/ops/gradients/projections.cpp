#include "ops/gradients/projections.hpp"

#include <algorithm>
#include <cmath>

#include "ops/products/projection.hpp"
#include "ops/products/row_copies.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t rows_per_copy = 64;

HeadStrides packed_rows(int64_t heads, int64_t length, int64_t dim) {
  return {heads * length * dim, length * dim, dim};
}

// The weight the other way round: from what it makes to what it is made of.
ProductMatrix transposed(const ProductMatrix &weight) {
  return {.columns = weight.depth,
          .depth = weight.columns,
          .column_stride = weight.depth_stride,
          .depth_stride = weight.column_stride,
          .dtype = weight.dtype};
}

// dx = W^T dy
void plan_row_product(const Kernels &kernels, const ProductMatrix &weight, int64_t batch, MemoryLayout *layout,
                      ProjectedSide *side) {
  const ProductMatrix matrix = transposed(weight);
  side->row_product = {.kernels = &projection_kernels(kernels, Dtype::f32, matrix),
                       .matrix = matrix,
                       .types = {.x = Dtype::f32, .out = side->wanted.dtype},
                       .cut = Cut::rows,
                       .chain = short_chain};
  const HeadStrides from = side->compared.strides, to = side->wanted.strides;
  set_rows(
      {{batch, from.batch, to.batch}, {side->heads, from.head, to.head}, {side->length, from.position, to.position}},
      &side->row_product);
  side->row_panels = add_panels(*side->row_product.kernels, matrix, layout);
}

// dW = sum over rows of dy x^T, or x dy^T where the weight lies [in][out].
void plan_weight_product(const Kernels &kernels, bool bilinear, int64_t batch, MemoryLayout *layout,
                         ProjectedSide *side) {
  const int64_t rows = side->row_count(batch);
  const int64_t left = bilinear ? side->dim : side->compared_dim, right = bilinear ? side->compared_dim : side->dim;
  const ProductMatrix matrix = {.columns = right, .depth = rows, .column_stride = 1, .depth_stride = right};
  side->weight_product = {.kernels = &projection_kernels(kernels, Dtype::f32, matrix),
                          .matrix = matrix,
                          .types = {.x = Dtype::f32, .out = Dtype::f32}};
  side->weight_product.x_column_stride = left;
  side->weight_product.chain = short_chain;
  set_rows({{left, 1, right}}, &side->weight_product);
  side->row_copy = layout->add<float>({rows, side->dim});
  side->weight_panels = add_panels(*side->weight_product.kernels, matrix, layout);
  side->weight_copies = layout->add<float>(row_copy_words(side->weight_product));
  side->weight_sums = layout->add<float>({left, right});
}

void plan_side(const Kernels &kernels, const ProductMatrix &weight, bool bilinear, int64_t batch, MemoryLayout *layout,
               ProjectedSide *side) {
  side->projects = true;
  side->dim = weight.depth;
  side->compared_dim = weight.columns;
  side->compared = {.strides = packed_rows(side->heads, side->length, side->compared_dim), .wanted = true};
  side->compared_rows = layout->add<float>({batch, side->heads, side->length, side->compared_dim});
  if (!layout->fits() || side->row_count(batch) > deepest_product) return;
  if (side->wanted.wanted) plan_row_product(kernels, weight, batch, layout, side);
  if (side->wants_weight) plan_weight_product(kernels, bilinear, batch, layout, side);
}

bool has_gradient(const float *row, int64_t count) {
  return std::any_of(row, row + count, [](float x) { return x != 0.0f; });  // NaN too
}

// Runs the products of one call.
class ProjectionRun {
 public:
  ProjectionRun(const ProjectionPlan &plan, const AttentionCall &call, const GradientCall &gradients, int64_t batch,
                const Context &context, void *block)
      : plan_(plan), call_(call), gradients_(gradients), batch_(batch), context_(context), block_(block) {}

  // Rows that nothing attended, or that attend nothing, may hold anything.
  int64_t copy_tasks(const ProjectedSide &side) const {
    return side.wants_weight ? ceil_div(side.row_count(batch_), rows_per_copy) : 0;
  }
  void copy(const ProjectedSide &side, const void *data, int64_t index) const {
    HeadRows rows = side.rows;
    rows.data = data;
    const int64_t last = std::min((index + 1) * rows_per_copy, side.row_count(batch_));
    for (int64_t row = index * rows_per_copy; row < last; ++row) {
      float *to = side.row_copy.in(block_) + row * side.dim;
      if (!has_gradient(side.compared_rows.in(block_) + row * side.compared_dim, side.compared_dim)) {
        std::fill(to, to + side.dim, 0.0f);
        continue;
      }
      const int64_t head = row / side.length;
      const int64_t at = head / side.heads * rows.strides.batch + head % side.heads * rows.strides.head +
                         row % side.length * rows.strides.position;
      context_.kernels->rowwise->widen_rows(element_at(data, rows.dtype, at), rows.dtype, 0, 1, side.dim, to, 0);
    }
  }

  ProductData row_data(const ProjectedSide &side, const void *weight, void *out) const {
    return {.x = side.compared_rows.in(block_), .matrix = weight, .panels = side.row_panels.in(block_), .out = out};
  }
  ProductData weight_data(const ProjectedSide &side) const {
    const float *compared = side.compared_rows.in(block_), *rows = side.row_copy.in(block_);
    return {.x = plan_.bilinear ? rows : compared,
            .copies = side.weight_copies.in(block_),
            .matrix = plan_.bilinear ? compared : rows,
            .panels = side.weight_panels.in(block_),
            .out = side.weight_sums.in(block_)};
  }

  // A row of the weight's gradient, from where it was summed up to the caller's strides.
  void store_weight(const ProjectedSide &side, const fovea_tensor &to, int64_t first_column, int64_t row) const {
    const int64_t columns = side.weight_product.matrix.columns;
    const float *from = side.weight_sums.in(block_) + row * columns;
    const auto dtype = static_cast<Dtype>(to.dtype);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t at = row * to.strides[0] + (first_column + c) * to.strides[1];
      context_.kernels->rowwise->narrow_row(from + c, 1, element_at(to.data, dtype, at), dtype);
    }
  }

  // A unit's bias: the sum of its gradients of all queries.
  void store_bias(int64_t unit) const {
    const float *rows = plan_.query.compared_rows.in(block_);
    double sum = 0.0;
    for (int64_t row = 0; row < plan_.query.row_count(batch_); ++row) {
      sum += static_cast<double>(rows[row * plan_.query.compared_dim + unit]);
    }
    const fovea_tensor &to = gradients_.tensor[score_bias_gradient];
    const auto number = static_cast<float>(sum);
    const auto dtype = static_cast<Dtype>(to.dtype);
    context_.kernels->rowwise->narrow_row(&number, 1, element_at(to.data, dtype, unit * to.strides[0]), dtype);
  }

  const AttentionCall &call() const { return call_; }
  const fovea_tensor &gradient(GradientOperand operand) const { return gradients_.tensor[operand]; }

 private:
  const ProjectionPlan &plan_;
  const AttentionCall &call_;
  const GradientCall &gradients_;
  const int64_t batch_;
  const Context &context_;
  void *const block_;
};

}  // namespace

Status plan_projection_gradients(const Context &context, const AttentionCall &call, const GradientCall &gradients,
                                 const ScorePlan &score, const AttentionProblem &checked, GradientProblem *problem,
                                 MemoryLayout *layout, ProjectionPlan *plan) {
  plan->bilinear = call.score.kind == FOVEA_SCORE_BILINEAR;
  if (!score.projects_query && !score.projects_key) return FOVEA_OK;
  const AttentionSizes &sizes = checked.sizes;
  const ScoreWeights weights = score_weights(call, sizes.head_dim);
  const bool weight = gradients.present[weight_gradient];
  ProjectedSide &query = plan->query, &key = plan->key;
  query.heads = sizes.heads;
  query.length = sizes.query_len;
  query.rows = checked.query;
  query.wanted = problem->query;
  query.wants_weight = weight || gradients.present[query_weight_gradient];
  key.heads = sizes.kv_heads;
  key.length = sizes.key_len;
  key.rows = checked.key;
  key.wanted = problem->key;
  key.wants_weight = weight || gradients.present[key_weight_gradient];
  plan->wants_bias = gradients.present[score_bias_gradient];
  if (query.wanted.wanted || query.wants_weight || plan->wants_bias) {
    plan_side(*context.kernels, weights.query, plan->bilinear, sizes.batch, layout, &query);
    problem->query = query.compared;
  }
  if (score.projects_key && (key.wanted.wanted || key.wants_weight)) {
    plan_side(*context.kernels, weights.key, false, sizes.batch, layout, &key);
    problem->key = key.compared;
  }
  plan->workers = workers_for(context, 2.0 * (product_cycles(score.query) + product_cycles(score.key)));
  return FOVEA_OK;
}

void bind_projection_gradients(const ProjectionPlan &plan, void *block, GradientProblem *problem) {
  if (plan.query.projects) problem->query.data = plan.query.compared_rows.in(block);
  if (plan.key.projects) problem->key.data = plan.key.compared_rows.in(block);
}

void run_projection_gradients(const Context &context, const ProjectionPlan &plan, const AttentionCall &call,
                              const GradientCall &gradients, int64_t batch, void *block) {
  if (!plan.query.projects && !plan.key.projects) return;
  const ProjectionRun run(plan, call, gradients, batch, context, block);
  const ProjectedSide &query = plan.query, &key = plan.key;
  const int64_t query_dim = call.tensor[query_operand].shape[call.tensor[query_operand].rank - 1];
  const auto copy_query = [&](int, int64_t index) { run.copy(query, call.tensor[query_operand].data, index); };
  const auto copy_key = [&](int, int64_t index) { run.copy(key, call.tensor[key_operand].data, index); };
  const bool one_weight = gradients.present[weight_gradient];
  const auto store_query_weight = [&](int, int64_t row) {
    run.store_weight(query, run.gradient(one_weight ? weight_gradient : query_weight_gradient), 0, row);
  };
  const auto store_key_weight = [&](int, int64_t row) {
    run.store_weight(key, run.gradient(one_weight ? weight_gradient : key_weight_gradient), one_weight ? query_dim : 0,
                     row);
  };
  const auto store_bias = [&](int, int64_t unit) { run.store_bias(unit); };
  TaskList copies;
  if (query.projects) copies.add(run.copy_tasks(query), copy_query);
  if (key.projects) copies.add(run.copy_tasks(key), copy_key);
  run_tasks(context, plan.workers, copies);
  if (query.projects && query.wanted.wanted) {
    run_product(context, query.row_product,
                run.row_data(query, query_weight_data(call), run.gradient(query_gradient).data));
  }
  if (key.projects && key.wanted.wanted) {
    run_product(context, key.row_product,
                run.row_data(key, key_weight_data(call, query_dim), run.gradient(key_gradient).data));
  }
  if (query.projects && query.wants_weight) run_product(context, query.weight_product, run.weight_data(query));
  if (key.projects && key.wants_weight) run_product(context, key.weight_product, run.weight_data(key));
  TaskList stores;
  if (query.projects && query.wants_weight) stores.add(query.weight_product.rows, store_query_weight);
  if (key.projects && key.wants_weight) stores.add(key.weight_product.rows, store_key_weight);
  if (plan.wants_bias) stores.add(query.compared_dim, store_bias);
  run_tasks(context, plan.workers, stores);
}

}  // namespace fovea
