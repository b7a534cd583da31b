// Runs a plan: hands tasks to workers, merges split keys in order, and makes second passes, for weights and scores.
#include <optional>

#include "ops/attention/problem.hpp"
#include "ops/attention/score_tasks.hpp"
#include "ops/attention/split_merge.hpp"
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

// Points the task at its head's statistics; `row` is the number of the head's first row among all rows.
void set_statistics(const Memory &memory, int64_t row, AttentionTask *task) {
  if (memory.row_max == nullptr) return;
  task->row_max = memory.row_max + row;
  task->row_scale = memory.row_scale + row;
}

AttentionTask make_task(const AttentionPlan &plan, const AttentionProblem &problem, const Memory &memory,
                        int64_t index) {
  const TaskGrid &grid = plan.grid;
  const TaskCell cell = grid.cell(index);
  AttentionTask task = {};
  task.problem = &problem;
  static_cast<TaskRows &>(task) = cell.rows;
  task.key_begin = cell.key_begin;
  task.key_end = cell.key_end;
  task.first_split = cell.split == 0;
  if (grid.splits > 1) {
    const int64_t row = (cell.head * grid.splits + cell.split) * grid.rows + cell.rows.row_begin;
    task.partial = {memory.partial_out + row * problem.sizes.value_dim, memory.partial_max + row,
                    memory.partial_sum + row};
  }
  set_statistics(memory, cell.head * grid.rows, &task);
  if (plan.asks_ahead && index + 1 < plan.grid.tasks()) task.next = grid.cell(index + 1).rows;
  return task;
}

void merge_head(const AttentionPlan &plan, const AttentionProblem &problem, const Memory &memory, int64_t head) {
  const TaskGrid &grid = plan.grid;
  const int64_t first = head * grid.splits * grid.rows;
  const SplitRows partials = {memory.partial_out + first * problem.sizes.value_dim, memory.partial_max + first,
                              memory.partial_sum + first, grid.splits, grid.rows};
  merge_splits(*plan.kernels->rowwise, *grid.kernels, problem, partials, head / problem.sizes.kv_heads,
               head % problem.sizes.kv_heads);
}

// Weights averaged over heads: one task walks all heads of a block of queries, in order.
void average_weights(const AttentionPlan &plan, const Memory &memory, AttentionTask task, int64_t index) {
  const AttentionSizes &sizes = task.problem->sizes;
  for (int64_t head = 0; head < sizes.heads; ++head) {
    static_cast<TaskRows &>(task) = plan.grid.query_block(index, head, sizes.group);
    set_statistics(memory, (task.batch * sizes.kv_heads + task.kv_head) * plan.grid.rows, &task);
    plan.passes->weights(task);
  }
}

// Task numbers run over blocks of keys, then heads. Nothing is packed that no query attends.
void pack_task(const AttentionPlan &plan, const AttentionProblem &problem, char *packed, int64_t index) {
  const AttentionSizes &sizes = problem.sizes;
  const int64_t blocks = plan.pack_blocks();
  const int64_t head = index / blocks;
  const int64_t first = index % blocks * plan.grid.kernels->tile_keys;
  const int64_t batch = head / sizes.kv_heads;
  const int64_t count = min_of(longest_valid_len(problem, batch) - first, plan.grid.kernels->tile_keys);
  if (count <= 0) return;
  plan.grid.kernels->pack(
      {.problem = &problem,
       .batch = batch,
       .kv_head = head % sizes.kv_heads,
       .first_key = first,
       .count = count,
       .ahead = 0,
       .to = packed + index * plan.grid.kernels->packed_block_bytes(sizes.compared_dim, sizes.value_dim)});
}

// A few heads of many rows, causal ones above all, come out more even in order.
Sharing sharing(const AttentionPlan &plan) {
  const TaskGrid &grid = plan.grid;
  const bool few_heads = grid.heads() < int64_t{4} * plan.workers;
  return few_heads && grid.path == AttentionPath::many_rows && grid.splits == 1 ? Sharing::in_order
                                                                                : Sharing::in_ranges;
}

}  // namespace

void run_attention(const AttentionPlan &plan, const AttentionCall &call, void *workspace) {
  const TaskGrid &grid = plan.grid;
  if (grid.tasks() == 0) return;
  void *block = align_to_line(workspace);
  const Memory memory = divide(plan, block);
  const AttentionProblem problem = bound_problem(plan, call, block);
  const auto task_of = [&](int worker, int64_t index) {
    AttentionTask task = make_task(plan, problem, memory, index);
    task.scratch = plan.scratch.in(block, worker);
    task.kept_weights = plan.kept_weights.in(block, worker);
    return task;
  };
  const auto kernel = grid.path == AttentionPath::few_rows ? grid.kernels->rows : grid.kernels->tile;
  const auto attend = [&](int worker, int64_t index) { kernel(task_of(worker, index)); };
  const auto merge = [&](int, int64_t head) { merge_head(plan, problem, memory, head); };
  const auto weigh = [&](int worker, int64_t index) { plan.passes->weights(task_of(worker, index)); };
  const auto average = [&](int worker, int64_t index) { average_weights(plan, memory, task_of(worker, 0), index); };
  char *packed = plan.packed.in(block);
  const auto pack = [&](int, int64_t index) { pack_task(plan, problem, packed, index); };
  const ScoreTasks score(plan, call, plan.score_memory.in(block), problem);
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
  if (packed != nullptr) list.add(grid.heads() * plan.pack_blocks(), pack);
  list.start_stage();
  list.add(grid.tasks(), attend);
  list.start_stage();
  if (grid.splits > 1) list.add(grid.heads(), merge);
  if (problem.outputs.scores_wanted) list.add(grid.tasks(), write_scores);
  if (problem.outputs.weights_wanted && problem.outputs.average_weights) {
    list.add(grid.query_tasks(), average);
  } else if (problem.outputs.weights_wanted && !plan.kept_weights) {
    list.add(grid.tasks(), weigh);
  }
  run_tasks(*plan.context, plan.workers, list);
}

}  // namespace fovea
