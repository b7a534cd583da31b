#include "ops/attention/split_merge.hpp"

#include <cmath>

namespace fovea {

void merge_splits(const RowwiseKernels &rowwise, const AttentionKernels &kernels, const AttentionProblem &problem,
                  const SplitRows &partials, int64_t batch, int64_t kv_head) {
  const AttentionSizes &sizes = problem.sizes;
  const AttentionOutputs &outputs = problem.outputs;
  const float unit = kernels.score_unit(problem);
  for (int64_t row = 0; row < partials.rows; ++row) {
    const int64_t row_of_head = partials.first_row + row;
    const int64_t head = kv_head * sizes.group + row_of_head / sizes.query_len;
    const int64_t query = row_of_head % sizes.query_len;
    float log_sum_exp = 0.0f;
    void *out = element_at(outputs.out, outputs.out_dtype, outputs.out_strides.at(batch, head, query));
    rowwise.merge_row({.outs = partials.out + row * sizes.value_dim,
                       .outs_type = Dtype::f32,
                       .lses = partials.max + row,
                       .sums = partials.sum + row,
                       .unit = unit,
                       .out = out,
                       .out_type = outputs.out_dtype,
                       .log_sum_exp = &log_sum_exp,
                       .parts = partials.splits,
                       .value_dim = sizes.value_dim,
                       .out_stride = partials.rows * sizes.value_dim,
                       .lse_stride = partials.rows});
    const LogitTerms &logits = problem.logits;
    if (logits.sinks != nullptr) {
      log_sum_exp = log_sum_exp_beside(logits.sinks[head * logits.sinks_stride], unit, log_sum_exp);
    }
    if (log_sum_exp == -INFINITY) {
      rowwise.fill_empty_row(problem, batch, kv_head, out);
      log_sum_exp = rowwise.empty_log_sum_exp(problem);
    }
    if (outputs.log_sum_exp != nullptr) {
      outputs.log_sum_exp[outputs.log_sum_exp_strides.at(batch, head, query)] = log_sum_exp;
    }
  }
}

}  // namespace fovea
