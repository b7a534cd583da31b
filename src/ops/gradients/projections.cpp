#include "ops/gradients/projections.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "ops/products/projection.hpp"
#include "ops/products/row_copies.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t rows_per_copy = 64;
constexpr int64_t units_per_sum = 16;  // a cache line

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
                       .chain = long_chain};
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
  side->weight_product.chain = long_chain;
  set_rows({{left, 1, right}}, &side->weight_product);
  take_columns(&side->weight_product);
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

bool is_finite(const float *row, int64_t count) {
  return std::all_of(row, row + count, [](float x) { return std::isfinite(x); });
}

// Whether a side's rows are floats that lie evenly, one position's stride apart.
bool lie_evenly(const ProjectedSide &side, int64_t batch) {
  const HeadStrides &strides = side.rows.strides;
  const int64_t of_head = side.length * strides.position;
  return side.rows.dtype == Dtype::f32 && (side.heads == 1 || strides.head == of_head) &&
         (batch == 1 || strides.batch == side.heads * of_head);
}

// Runs what a side's weight asks for. Lists that hold its tasks borrow it.
class SideRun {
 public:
  SideRun(const Context &context, const ProjectionPlan &plan, const ProjectedSide &side, const AttentionCall &call,
          const GradientCall &gradients, int64_t batch, void *block)
      : context_(context),
        bilinear_(plan.bilinear),
        side_(side),
        data_(call.tensor[side.operand].data),
        gradients_(gradients),
        count_(side.row_count(batch)),
        compared_(side.compared_rows.in(block)),
        copies_(side.row_copy.in(block)),
        block_(block),
        in_place_(side.wants_weight && lie_evenly(side, batch)) {}

  // Rows that nothing attended, or that attend nothing, may hold anything: then all are copied, and such are zeros.
  // Else they are multiplied where they lie, if they can be.
  int64_t copy_tasks() const { return side_.wants_weight ? ceil_div(count_, rows_per_copy) : 0; }
  void look(int64_t task) const {
    const int64_t last = std::min((task + 1) * rows_per_copy, count_);
    for (int64_t row = task * rows_per_copy; in_place_ && row < last; ++row) {
      if (!gives(row) && !is_finite(static_cast<const float *>(at(row)), side_.dim)) in_place_ = false;
    }
  }
  void copy(int64_t task) const {
    if (in_place_) return;
    const int64_t last = std::min((task + 1) * rows_per_copy, count_);
    for (int64_t row = task * rows_per_copy; row < last; ++row) {
      float *to = copies_ + row * side_.dim;
      if (gives(row)) {
        context_.kernels->rowwise->widen_rows(at(row), side_.rows.dtype, 0, 1, side_.dim, to, 0);
      } else {
        std::fill(to, to + side_.dim, 0.0f);
      }
    }
  }

  // The products for rows and for the weight.
  ProductRun row_run(const void *weight) const {
    if (!side_.projects || !side_.wanted.wanted) return {};
    return {&side_.row_product,
            {.x = compared_,
             .matrix = weight,
             .panels = side_.row_panels.in(block_),
             .out = gradients_.tensor[side_.gradient].data}};
  }
  ProductRun weight_run(Product *room) const {
    if (!side_.projects || !side_.wants_weight) return {};
    *room = side_.weight_product;
    const void *rows = copies_;
    if (in_place_) {
      rows = data_;
      (bilinear_ ? room->x_column_stride : room->matrix.depth_stride) = side_.rows.strides.position;
    }
    return {room,
            {.x = bilinear_ ? rows : compared_,
             .copies = side_.weight_copies.in(block_),
             .matrix = bilinear_ ? compared_ : rows,
             .panels = side_.weight_panels.in(block_),
             .out = side_.weight_sums.in(block_)}};
  }

  // A row of the weight's gradient, from where it was summed up to the caller's strides.
  int64_t store_tasks() const { return side_.wants_weight ? side_.weight_product.rows : 0; }
  void store_weight(int64_t row) const {
    const int64_t columns = side_.weight_product.matrix.columns;
    const float *from = side_.weight_sums.in(block_) + row * columns;
    const fovea_tensor &to = gradients_.tensor[side_.weight_gradient];
    const RowwiseKernels &kernels = *context_.kernels->rowwise;
    const int64_t first = row * to.strides[0] + side_.first_column * to.strides[1];
    if (to.strides[1] == 1) {
      const auto dtype = static_cast<Dtype>(to.dtype);
      return kernels.narrow_row(from, columns, element_at(to.data, dtype, first), dtype);
    }
    for (int64_t c = 0; c < columns; ++c) store_float(kernels, from[c], to, first + c * to.strides[1]);
  }

  // The bias of some units: sums of their gradients of all rows.
  void store_bias(int64_t task) const {
    sum_units(*context_.kernels->rowwise, {compared_, count_, side_.compared_dim, side_.compared_dim}, task,
              gradients_.tensor[score_bias_gradient]);
  }

 private:
  // Whether a row has a gradient.
  bool gives(int64_t row) const { return has_gradient(compared_ + row * side_.compared_dim, side_.compared_dim); }

  // Where the caller's row lies.
  const void *at(int64_t row) const {
    const HeadRows &rows = side_.rows;
    const int64_t head = row / side_.length;
    return element_at(data_, rows.dtype, rows.strides.at(head / side_.heads, head % side_.heads, row % side_.length));
  }

  const Context &context_;
  const bool bilinear_;
  const ProjectedSide &side_;
  const void *const data_;
  const GradientCall &gradients_;
  const int64_t count_;
  float *const compared_, *const copies_;
  void *const block_;
  mutable std::atomic<bool> in_place_;
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
  query.operand = query_operand;
  query.gradient = query_gradient;
  query.weight_gradient = weight ? weight_gradient : query_weight_gradient;
  query.heads = sizes.heads;
  query.length = sizes.query_len;
  query.rows = checked.query;
  query.wanted = problem->query;
  key.operand = key_operand;
  key.gradient = key_gradient;
  key.weight_gradient = weight ? weight_gradient : key_weight_gradient;
  key.first_column = weight ? sizes.head_dim : 0;
  key.heads = sizes.kv_heads;
  key.length = sizes.key_len;
  key.rows = checked.key;
  key.wanted = problem->key;
  for (ProjectedSide *side : {&query, &key}) side->wants_weight = gradients.present[side->weight_gradient];
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
  const SideRun query(context, plan, plan.query, call, gradients, batch, block),
      key(context, plan, plan.key, call, gradients, batch, block);
  const int64_t query_dim = call.tensor[query_operand].shape[call.tensor[query_operand].rank - 1];
  TaskList copies, stores;
  if (plan.query.projects) copies.add(query.copy_tasks(), TaskBody::of<&SideRun::look>(query));
  if (plan.key.projects) copies.add(key.copy_tasks(), TaskBody::of<&SideRun::look>(key));
  copies.start_stage();
  if (plan.query.projects) copies.add(query.copy_tasks(), TaskBody::of<&SideRun::copy>(query));
  if (plan.key.projects) copies.add(key.copy_tasks(), TaskBody::of<&SideRun::copy>(key));
  run_tasks(context, plan.workers, copies);
  Product of_query, of_key;
  const void *key_weight = plan.key.projects ? key_weight_data(call, query_dim) : nullptr;
  const void *query_weight = plan.query.projects ? query_weight_data(call) : nullptr;
  run_products(context, {query.row_run(query_weight), query.weight_run(&of_query), key.row_run(key_weight),
                         key.weight_run(&of_key)});
  if (plan.query.projects) stores.add(query.store_tasks(), TaskBody::of<&SideRun::store_weight>(query));
  if (plan.key.projects) stores.add(key.store_tasks(), TaskBody::of<&SideRun::store_weight>(key));
  if (plan.wants_bias) stores.add(unit_tasks(plan.query.compared_dim), TaskBody::of<&SideRun::store_bias>(query));
  run_tasks(context, plan.workers, stores);
}

int64_t unit_tasks(int64_t units) { return ceil_div(units, units_per_sum); }

void sum_units(const RowwiseKernels &kernels, const UnitSums &sums, int64_t task, const fovea_tensor &to) {
  const int64_t first = task * units_per_sum, count = std::min(units_per_sum, sums.units - first);
  double total[units_per_sum] = {};
  for (int64_t row = 0; row < sums.count; ++row) {
    const float *units = sums.rows + row * sums.stride + first;
    for (int64_t unit = 0; unit < count; ++unit) total[unit] += static_cast<double>(units[unit]);
  }
  for (int64_t unit = 0; unit < count; ++unit) {
    store_float(kernels, static_cast<float>(total[unit]), to, (first + unit) * to.strides[0]);
  }
}

}  // namespace fovea
