// The driver: hands tiles to workers, merges split keys in order, and makes second passes, for weights and scores.
#include <cmath>
#include <optional>

#include "ops/attention/plan.hpp"
#include "ops/attention/score_tasks.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

// What tasks find in the workspace; null where there is none.
struct Memory {
  float *partial_out;
  float *partial_max;
  float *partial_sum;
  float *row_max;
  float *row_scale;
};

Memory divide(const AttentionPlan &plan, void *workspace) {
  return {plan.partial_out.in(workspace), plan.partial_max.in(workspace), plan.partial_sum.in(workspace),
          plan.row_max.in(workspace), plan.row_scale.in(workspace)};
}

// Task numbers run over splits, then row blocks, then heads. Of a causal head the longest block comes first, so that
// what is left at the end is short.
AttentionTask make_task(const AttentionPlan &plan, const AttentionProblem &problem, const Memory &memory,
                        int64_t index) {
  AttentionTask task = {};
  const auto take = [&index](int64_t count) {  // the usual one of one needs no division
    if (count == 1) return int64_t{0};
    const int64_t digit = index % count;
    index /= count;
    return digit;
  };
  const int64_t split = take(plan.splits);
  const int64_t block = take(plan.row_blocks);
  task.problem = &problem;
  task.kv_head = take(problem.sizes.kv_heads);
  task.batch = index;
  task.row_begin = (problem.pattern.has_window_right ? plan.row_blocks - 1 - block : block) * plan.rows_per_task;
  task.row_count = min_of(plan.rows_per_task, plan.rows - task.row_begin);
  task.key_begin = split * plan.keys_per_split;
  task.key_end = min_of(task.key_begin + plan.keys_per_split, problem.sizes.key_len);
  task.first_split = split == 0;
  if (plan.splits > 1) {
    const int64_t head = task.batch * problem.sizes.kv_heads + task.kv_head;
    const int64_t row = (head * plan.splits + split) * plan.rows + task.row_begin;
    task.partial = {memory.partial_out + row * problem.sizes.value_dim, memory.partial_max + row,
                    memory.partial_sum + row};
  }
  task.row_max = memory.row_max;
  task.row_scale = memory.row_scale;
  return task;
}

int64_t at(const HeadStrides &strides, int64_t batch, int64_t head, int64_t query) {
  return batch * strides.batch + head * strides.head + query * strides.position;
}

void merge_head(const AttentionPlan &plan, const AttentionProblem &problem, const Memory &memory, int64_t head_index) {
  const int64_t batch = head_index / problem.sizes.kv_heads;
  const int64_t kv_head = head_index % problem.sizes.kv_heads;
  const int64_t first = head_index * plan.splits * plan.rows;
  for (int64_t row = 0; row < plan.rows; ++row) {
    const int64_t head = kv_head * problem.sizes.group + row / problem.sizes.query_len;
    const int64_t query = row % problem.sizes.query_len;
    float log_sum_exp = 0.0f;
    const Dtype dtype = problem.outputs.out_dtype;
    void *out = element_at(problem.outputs.out, dtype, at(problem.outputs.out_strides, batch, head, query));
    plan.kernels->rowwise->merge_row({.outs = memory.partial_out + (first + row) * problem.sizes.value_dim,
                                      .outs_type = Dtype::f32,
                                      .lses = memory.partial_max + first + row,
                                      .sums = memory.partial_sum + first + row,
                                      .unit = plan.attention->score_unit(problem),
                                      .out = out,
                                      .out_type = dtype,
                                      .log_sum_exp = &log_sum_exp,
                                      .parts = plan.splits,
                                      .value_dim = problem.sizes.value_dim,
                                      .out_stride = plan.rows * problem.sizes.value_dim,
                                      .lse_stride = plan.rows});
    const LogitTerms &logits = problem.logits;
    if (logits.sinks != nullptr) {
      log_sum_exp = log_sum_exp_beside(logits.sinks[head * logits.sinks_stride], plan.attention->score_unit(problem),
                                       log_sum_exp);
    }
    if (log_sum_exp == -INFINITY) {
      plan.kernels->rowwise->fill_empty_row(problem, batch, kv_head, out);
      log_sum_exp = plan.kernels->rowwise->empty_log_sum_exp(problem);
    }
    if (problem.outputs.log_sum_exp != nullptr) {
      problem.outputs.log_sum_exp[at(problem.outputs.log_sum_exp_strides, batch, head, query)] = log_sum_exp;
    }
  }
}

// Weights averaged over heads: one task walks all heads of a block of queries, in order.
void average_weights(const AttentionPlan &plan, AttentionTask task, int64_t index) {
  const AttentionProblem &problem = *task.problem;
  const int64_t blocks = ceil_div(problem.sizes.query_len, plan.rows_per_task);
  const int64_t query = index % blocks * plan.rows_per_task;
  task.batch = index / blocks;
  task.row_count = min_of(plan.rows_per_task, problem.sizes.query_len - query);
  for (int64_t head = 0; head < problem.sizes.heads; ++head) {
    task.kv_head = head / problem.sizes.group;
    task.row_begin = head % problem.sizes.group * problem.sizes.query_len + query;
    plan.passes->weights(task);
  }
}

// Task numbers run over blocks of keys, then heads. Nothing is packed that no query attends.
void pack_task(const AttentionPlan &plan, const AttentionProblem &problem, char *packed, int64_t index) {
  const AttentionSizes &sizes = problem.sizes;
  const int64_t blocks = plan.pack_blocks();
  const int64_t head = index / blocks;
  const int64_t first = index % blocks * plan.attention->tile_keys;
  const int64_t batch = head / sizes.kv_heads;
  const int64_t count = min_of(longest_valid_len(problem, batch) - first, plan.attention->tile_keys);
  if (count <= 0) return;
  plan.attention->pack({.problem = &problem,
                        .batch = batch,
                        .kv_head = head % sizes.kv_heads,
                        .first_key = first,
                        .count = count,
                        .ahead = 0,
                        .to = packed + index * plan.attention->packed_block_bytes(sizes.head_dim, sizes.value_dim)});
}

// A few heads of many rows, causal ones above all, come out more even in order.
Sharing sharing(const AttentionPlan &plan) {
  const bool few_heads = plan.problem.sizes.batch * plan.problem.sizes.kv_heads < int64_t{4} * plan.workers;
  return few_heads && plan.path == AttentionPath::many_rows && plan.splits == 1 ? Sharing::in_order : Sharing::in_ranges;
}

// The problem whose logits are the scores that are wanted.
AttentionProblem scores_problem(AttentionProblem problem) {
  problem.dropout = {};
  if (!problem.outputs.wants_all_keys()) return problem;
  problem.pattern = {};
  problem.pattern.key_limit = problem.sizes.key_len;
  const bool capped = problem.outputs.scores_kind == ScoresKind::capped;
  problem.logits = {.scale = problem.logits.scale, .softcap = capped ? problem.logits.softcap : 0.0f};
  return problem;
}

void weigh_task(const AttentionPlan &plan, AttentionTask task, int64_t index) {
  if (task.problem->outputs.average_weights) {
    average_weights(plan, task, index);
  } else {
    plan.passes->weights(task);
  }
}

}  // namespace

void run_attention(const AttentionPlan &plan, const AttentionCall &call, void *workspace) {
  if (plan.tasks == 0) return;
  void *block = align_to_line(workspace);
  const Memory memory = divide(plan, block);
  AttentionProblem problem = plan.problem;
  set_data(call, &problem);
  const auto task_of = [&](int worker, int64_t index) {
    AttentionTask task = make_task(plan, problem, memory, index);
    task.scratch = plan.scratch.in(block, worker);
    task.kept_weights = plan.kept_weights.in(block, worker);
    return task;
  };
  const auto kernel = plan.path == AttentionPath::few_rows ? plan.attention->rows : plan.attention->tile;
  const auto attend = [&](int worker, int64_t index) { kernel(task_of(worker, index)); };
  const auto merge = [&](int, int64_t head) { merge_head(plan, problem, memory, head); };
  const auto weigh = [&](int worker, int64_t index) {
    weigh_task(plan, task_of(worker, problem.outputs.average_weights ? 0 : index), index);
  };
  char *packed = plan.packed.in(block);
  problem.packed = packed;
  const auto pack = [&](int, int64_t index) { pack_task(plan, problem, packed, index); };
  const ScoreTasks score(*plan.kernels, plan.workers, plan.score, call, plan.score_memory.in(block), &problem);
  std::optional<AttentionProblem> scored;
  if (problem.outputs.scores_wanted) scored = scores_problem(problem);
  const auto write_scores = [&](int worker, int64_t index) {
    AttentionTask task = task_of(worker, index);
    task.problem = &*scored;
    plan.passes->scores(task);
  };
  TaskList list(sharing(plan));
  score.add_to(&list);
  list.start_stage();
  if (packed != nullptr) list.add(problem.sizes.batch * problem.sizes.kv_heads * plan.pack_blocks(), pack);
  list.start_stage();
  list.add(plan.tasks, attend);
  list.start_stage();
  if (plan.splits > 1) list.add(problem.sizes.batch * problem.sizes.kv_heads, merge);
  if (problem.outputs.scores_wanted) list.add(plan.tasks, write_scores);
  if (problem.outputs.weights_wanted && !plan.kept_weights) {
    const int64_t blocks = ceil_div(problem.sizes.query_len, plan.rows_per_task);
    list.add(problem.outputs.average_weights ? problem.sizes.batch * blocks : plan.tasks, weigh);
  }
  run_tasks(*plan.context, plan.workers, list);
}

}  // namespace fovea
