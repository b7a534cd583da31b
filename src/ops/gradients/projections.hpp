// What a score function with weights makes of the gradients of the rows that its kernel compares. Of rows projected by
// a weight, y = W x:
//
//   dx = W^T dy        dW = sum over rows of dy x^T        of additive scores' hidden units also db = sum over rows of dy
//
// All of these are products of matrices; the sums over rows are long, and taken in chains.
#pragma once

#include "ops/gradients/call.hpp"

namespace fovea {

// One side: rows of queries, or of keys.
struct ProjectedSide {
  bool projects = false;  // else the kernel's gradients are the rows' own
  Operand operand = query_operand;
  GradientOperand gradient = query_gradient, weight_gradient = query_weight_gradient;
  int64_t first_column = 0;                                  // of the weight's, where queries and keys share one
  GradientRows wanted = {};                                  // the rows' own
  GradientRows compared = {};                                // what the kernel writes: in the workspace
  int64_t heads = 0, length = 0, dim = 0, compared_dim = 0;  // of the rows, and of what they become
  bool wants_weight = false;
  MemoryPart<float> compared_rows;  // [batch][heads][length][compared_dim]
  MemoryPart<float> row_copy;       // [batch][heads][length][dim], of rows that have a gradient; the others are zeros
  HeadRows rows = {};
  Product row_product = {}, weight_product = {};
  MemoryPart<float> row_panels, weight_panels, weight_copies;
  MemoryPart<float> weight_sums;  // [out][in]; of a bilinear weight [in][out]

  int64_t row_count(int64_t batch) const { return batch * heads * length; }
};

struct ProjectionPlan {
  ProjectedSide query, key;
  bool bilinear = false;  // its weight lies [in][out]
  bool wants_bias = false;
  int workers = 1;
};

// Fills in the plan, and tells the problem which of what it compares is wanted, and where that goes. layout: the
// workspace's.
[[nodiscard]] Status plan_projection_gradients(const Context &context, const AttentionCall &call,
                                               const GradientCall &gradients, const ScorePlan &score,
                                               const AttentionProblem &checked, GradientProblem *problem,
                                               MemoryLayout *layout, ProjectionPlan *plan);

// Points the problem at the workspace.
void bind_projection_gradients(const ProjectionPlan &plan, void *block, GradientProblem *problem);

// Once the kernel's gradients are there.
void run_projection_gradients(const Context &context, const ProjectionPlan &plan, const AttentionCall &call,
                              const GradientCall &gradients, int64_t batch, void *block);

// Rows of hidden units.
struct UnitSums {
  const float *rows;
  int64_t count, stride, units;
};

// The sums over all rows of some units, which become elements of a vector: tasks that share the units among them.
int64_t unit_tasks(int64_t units);
void sum_units(const RowwiseKernels &kernels, const UnitSums &sums, int64_t task, const fovea_tensor &to);

}  // namespace fovea
