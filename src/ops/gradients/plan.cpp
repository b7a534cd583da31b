// Chooses splits and threads of attention's backward pass.
#include "ops/gradients/plan.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "ops/attention/problem.hpp"
#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

// Tasks enough for several threads to even out, where the heads of a batch entry alone do not make so many: first rows
// are split, then keys. A split of rows leaves sums of keys to be added up; one of keys leaves sums of queries, and all
// rows are turned around once more for it. The size of the batch does not count, so an entry's gradients are those it
// has alone. A split of less than 192 keys would spend its time on its queries; and 12 heads or more have tasks for
// many threads already, so short ones are left whole: bert_base took 1.06 of the time in two tasks a head (Zen 3).
constexpr int64_t enough_tasks = 16;
constexpr int64_t many_heads = 12;
constexpr int64_t least_rows = 512;
constexpr int64_t least_keys(int64_t heads) { return heads < many_heads ? 192 : 512; }

void split(const AttentionKernels &kernels, GradientGrid *grid) {
  const int64_t wanted = grid->kv_heads == 0 ? 1 : ceil_div(enough_tasks, grid->kv_heads);
  const int64_t row_splits = std::clamp<int64_t>(grid->rows / least_rows, 1, wanted);
  grid->rows_per_split = std::max(round_up(ceil_div(grid->rows, row_splits), kernels.tile_rows), kernels.tile_rows);
  grid->row_splits = std::max<int64_t>(1, ceil_div(grid->rows, grid->rows_per_split));
  const int64_t key_splits =
      std::clamp<int64_t>(grid->keys / least_keys(grid->kv_heads), 1, ceil_div(wanted, grid->row_splits));
  grid->keys_per_split = std::max(round_up(ceil_div(grid->keys, key_splits), kernels.tile_keys), kernels.tile_keys);
  grid->key_splits = std::max<int64_t>(1, ceil_div(grid->keys, grid->keys_per_split));
}

GradientProblem planned_gradients(const AttentionProblem &scores, const GradientProblem &checked,
                                  const GradientCall &gradients, const ScorePlan &score) {
  GradientProblem problem = checked;
  problem.scores = scores;
  problem.point_factor = static_cast<float>(score.point_factor);
  problem.values = scores;
  const fovea_tensor &grad_out = gradients.tensor[out_gradient];
  problem.values.query = {nullptr, head_strides(lift_heads(grad_out)), static_cast<Dtype>(grad_out.dtype)};
  problem.values.key = scores.value;
  problem.values.sizes.compared_dim = scores.sizes.value_dim;
  problem.values.score = {};
  return problem;
}

// What the backward pass asks of its kernels, which read rows where they lie: products of pairs multiply features of
// grad_out and of values, too.
AttentionWish wish_of(const GradientProblem &problem) {
  const AttentionProblem &scores = problem.scores;
  const bool in_pairs = keys_in_pairs(scores.key) && keys_in_pairs(scores.value) &&
                        problem.values.query.dtype == Dtype::bf16 && scores.sizes.value_dim % 2 == 0;
  return {.score = scores.score.kind,
          .query = in_pairs ? scores.query.dtype : Dtype::f32,
          .key = scores.key.dtype,
          .value = scores.value.dtype,
          .rounds = false,
          .keys_in_pairs = in_pairs,
          .in_bytes = false,
          .drops_weights = scores.dropout.threshold != 0,
          .wants_passes = false,
          .counts_rows = false,
          .many_rows = true,
          .rows = scores.sizes.query_len * scores.sizes.group,
          .key_len = scores.sizes.key_len,
          .compared_dim = scores.sizes.compared_dim};
}

// layout: what lies in the workspace already.
Status plan_memory(const GradientCall &gradients, MemoryLayout layout, GradientPlan *plan) {
  const AttentionSizes &sizes = plan->problem.scores.sizes;
  const GradientGrid &grid = plan->grid;
  const int64_t dim = sizes.compared_dim;
  const int64_t key_floats = grid.row_splits == 1 && grid.heads > 0 ? plan->key_part_floats() : 0;
  const int64_t bias_floats = plan->bias_tasks() > 0 ? gradient_bias_keys * plan->kernels->tile_rows : 0;
  plan->scratch = layout.add_copies<float>(
      plan->workers, plan->kernels->gradient_floats(dim, sizes.value_dim) + std::max(key_floats, bias_floats));
  if (grid.key_splits > 1 && plan->problem.query.wanted) {
    plan->query_parts = layout.add<float>({grid.heads, grid.key_splits, grid.rows, dim});
  }
  if (grid.row_splits > 1) plan->key_parts = layout.add<float>({grid.tasks(), plan->key_part_floats()});
  const auto add_sums = [&](bool wanted, int64_t splits, MemoryPart<float> *part) {
    if (wanted) *part = layout.add<float>({grid.heads, splits, grid.rows});
  };
  add_sums(plan->problem.wants_slopes, grid.key_splits, &plan->slope_sums);
  add_sums(plan->problem.wants_widths, grid.key_splits, &plan->width_sums);
  add_sums(plan->problem.wants_sinks, 1, &plan->sink_sums);
  add_sums(gradients.present[weights_gradient], 1, &plan->weight_sums);
  if (plan->problem.wants_vector) plan->vector_parts = layout.add<float>({grid.tasks(), dim});
  plan->scores.score_memory = layout.add<char>(static_cast<int64_t>(plan->scores.score.layout.size()));
  if (!layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "query and key are too long: the workspace of this call would exceed the address space");
  }
  plan->workspace_size = layout.size() + cache_line;
  return FOVEA_OK;
}

// Multiply-adds of all products, seven where the bias has a pass of its own.
double estimate_cycles(const AttentionSizes &sizes, bool has_bias) {
  const double pairs = static_cast<double>(sizes.batch) * static_cast<double>(sizes.heads) *
                       static_cast<double>(sizes.query_len) * static_cast<double>(sizes.key_len);
  return pairs * static_cast<double>(sizes.compared_dim + sizes.value_dim) * (has_bias ? 3.5 : 2.5) / 16.0;
}

}  // namespace

GradientCell GradientGrid::cell(int64_t task) const {
  GradientCell cell = {};
  cell.row_split = row_splits - 1 - task % row_splits;
  task /= row_splits;
  cell.head = task % heads;
  cell.key_split = task / heads;
  cell.rows = {.batch = cell.head / kv_heads,
               .kv_head = cell.head % kv_heads,
               .row_begin = cell.row_split * rows_per_split,
               .row_count = 0};
  cell.rows.row_count = std::min(rows_per_split, rows - cell.rows.row_begin);
  cell.key_begin = cell.key_split * keys_per_split;
  cell.key_end = std::min(cell.key_begin + keys_per_split, keys);
  return cell;
}

int64_t GradientPlan::key_part_floats() const {
  const AttentionSizes &sizes = problem.scores.sizes;
  return grid.keys_per_split * kernels->gradient_key_floats(sizes.compared_dim, sizes.value_dim);
}

int64_t GradientPlan::bias_row_blocks() const { return ceil_div(bias_queries, kernels->tile_rows); }
int64_t GradientPlan::bias_tasks() const {
  return bias_batch * bias_heads * bias_row_blocks() * ceil_div(bias_keys, gradient_bias_keys);
}

Status plan_gradients(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                      const GradientCall &gradients, const GradientProblem &problem, GradientPlan *plan) {
  *plan = {};
  AttentionPlan &scores = plan->scores;
  scores.context = &context;
  scores.kernels = context.kernels;
  scores.problem = checked;
  plan->problem = problem;
  plan->kernels = &context.kernels->attention_of(ScoreKind::dot);
  scores.score.kind = call.score.kind;
  if (!wants_gradients(gradients)) return FOVEA_OK;
  plan->grid.heads = checked.sizes.batch * checked.sizes.kv_heads;
  MemoryLayout layout;
  AttentionCall invariant = call;  // bilinear scores project queries
  invariant.options.flags |= FOVEA_QUERY_INVARIANT;
  FOVEA_CHECK(plan_score(context, invariant, checked, &scores.score));
  FOVEA_CHECK(plan_norms(checked.sizes, &scores.score));
  FOVEA_CHECK(plan_projection_gradients(context, call, gradients, scores.score, checked, &plan->problem, &layout,
                                        &plan->projections));
  scores.problem = planned_problem(checked, scores.score);
  plan->problem = planned_gradients(scores.problem, plan->problem, gradients, scores.score);
  plan->kernels = &choose_gradients(context.kernels->allowed, wish_of(plan->problem));
  GradientGrid &grid = plan->grid;
  grid.kv_heads = checked.sizes.kv_heads;
  grid.rows = checked.sizes.query_len * checked.sizes.group;
  grid.keys = checked.sizes.key_len;
  split(*plan->kernels, &grid);
  if (gradients.present[bias_gradient]) {
    const fovea_tensor bias = lift_heads(gradients.tensor[bias_gradient]);
    plan->bias_batch = bias.shape[0];
    plan->bias_heads = bias.shape[1];
    plan->bias_queries = bias.shape[2];
    plan->bias_keys = bias.shape[3];
  }
  const int limit = workers_for(context, estimate_cycles(scores.problem.sizes, plan->bias_tasks() > 0));
  plan->workers = static_cast<int>(std::clamp<int64_t>(grid.tasks() + plan->bias_tasks(), 1, limit));
  scores.workers = plan->workers;
  return plan_memory(gradients, layout, plan);
}

size_t describe_gradients(const GradientPlan &plan, char *text, size_t size) {
  const char *kept = kept_name(plan.scores.score);
  const int length = std::snprintf(
      text, size,
      "op=%s_backward isa=%s kernels=%s row_splits=%" PRId64 " key_splits=%" PRId64 " keys_per_split=%" PRId64
      " tasks=%" PRId64 " bias_tasks=%" PRId64 " threads=%d%s%s scratch_per_thread=%zu workspace=%zu",
      score_name(plan.scores.score.kind), plan.scores.kernels->name, plan.kernels->set, plan.grid.row_splits,
      plan.grid.key_splits, plan.grid.keys_per_split, plan.grid.tasks(), plan.bias_tasks(), plan.workers,
      kept[0] == '\0' ? "" : " kept=", kept, plan.scratch.copy_size(), plan.workspace_size);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

}  // namespace fovea
