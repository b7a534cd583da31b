// Chooses path, splits and threads.
#include "ops/attention/plan.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "ops/attention/problem.hpp"

namespace fovea {
namespace {

// A few rows leave cores idle unless the keys are split too, into the fewer spans the more blocks of rows there are. A
// task loses a microsecond or two before memory is as busy as it can be, so where heads already make tasks spans are
// longer. Which rows are few, and where keys are split, depends on a batch entry's shapes alone: neither batch size nor
// thread count changes a result.
int64_t keys_per_split(const TaskGrid &grid) {
  constexpr int64_t most_spans = 16;
  constexpr int64_t most_blocks = 4;
  constexpr int64_t tasks = 16;  // of an entry, if spans of 384 to 1024 keys make so many
  const int64_t step = grid.kernels->split_keys;
  const int64_t blocks = std::max<int64_t>(1, ceil_div(grid.rows, grid.kernels->tile_rows));
  const bool few_blocks = blocks == 1 || (blocks <= most_blocks && blocks * grid.kv_heads <= most_blocks);
  if (!few_blocks) return std::max<int64_t>(grid.key_len, 1);
  const int64_t share = grid.key_len / tasks * std::min(tasks, grid.kv_heads);
  const int64_t span = std::max(std::clamp<int64_t>(share, 256, 1024), ceil_div(grid.key_len, most_spans));
  const int64_t least = std::max<int64_t>(blocks * span, 384);
  const int64_t even = ceil_div(grid.key_len, std::max<int64_t>(1, grid.key_len / least));
  return std::min(round_up(std::max<int64_t>(even, 1), step), 4096 / step * step);
}

// Weights of each head are kept by the tasks that make them as long as that takes a worker no more than some megabytes.
// Keys alone decide: weights that are computed again have other bits.
bool keeps_weights(const AttentionPlan &plan) {
  constexpr int64_t most_kept_keys = 16384;
  const AttentionOutputs &outputs = plan.problem.outputs;
  return outputs.weights_wanted && !outputs.average_weights && plan.grid.kernels->kept_bytes != nullptr &&
         plan.problem.sizes.key_len <= most_kept_keys;
}

// Bands of a tile share what they read of keys and values, so as many as leave each thread several tasks to even out.
// This may depend on the threads: a row's result does not depend on which rows it is computed with.
int64_t tile_task_rows(const AttentionPlan &plan) {
  const AttentionProblem &p = plan.problem;
  const double enough = 8.0 * worker_limit(*plan.context);
  int64_t bands = plan.grid.kernels->tile_bands(p.sizes.compared_dim, p.sizes.value_dim);
  if (keeps_weights(plan)) {  // in half of a second-level cache
    constexpr int64_t most_bytes = 512 * 1024;
    bands = std::clamp<int64_t>(most_bytes / std::max<int64_t>(1, plan.grid.kernels->kept_bytes(p.sizes.key_len)), 1,
                                bands);
  }
  const TaskGrid &grid = plan.grid;
  const double spans =
      static_cast<double>(grid.entries) * static_cast<double>(grid.kv_heads) * static_cast<double>(grid.splits);
  while (bands > 1 && spans * static_cast<double>(ceil_div(grid.rows, bands * grid.kernels->tile_rows)) < enough)
    bands /= 2;
  return bands * grid.kernels->tile_rows;
}

// A rough count of the cycles of one thread: multiply-adds against bytes read.
double estimate_cycles(const AttentionProblem &p) {
  const double pairs = static_cast<double>(p.sizes.batch) * static_cast<double>(p.sizes.heads) *
                       static_cast<double>(p.sizes.query_len) * static_cast<double>(p.sizes.key_len);
  const double features = static_cast<double>(p.sizes.compared_dim + p.sizes.value_dim);
  const double bytes = 4.0 * static_cast<double>(p.sizes.batch) * static_cast<double>(p.sizes.kv_heads) *
                       static_cast<double>(p.sizes.key_len) * features;
  return std::max(pairs * features / 16.0, bytes / 8.0);
}

// Whether a call reads more than usually lies in the second-level cache anyway, where prefetching costs 2 % and gains
// nothing. The sum is a double: sizes whose strides are 0 may be any.
bool leaves_caches(const AttentionProblem &problem) {
  const AttentionSizes &sizes = problem.sizes;
  const double rows_read =
      static_cast<double>(sizes.kv_heads) *
      (static_cast<double>(sizes.group) * static_cast<double>(sizes.query_len) + static_cast<double>(sizes.key_len));
  return static_cast<double>(sizes.batch) * rows_read * static_cast<double>(sizes.compared_dim + sizes.value_dim) >
         0x1p19;
}

Status plan_memory(AttentionPlan *plan) {
  const AttentionSizes &sizes = plan->problem.sizes;
  const bool copies = plan->problem.key.are_copied() || plan->problem.value.are_copied();
  const TaskGrid &grid = plan->grid;
  const int64_t heads = grid.heads();
  MemoryLayout layout;
  int64_t scratch = grid.kernels->scratch_floats(sizes.compared_dim, sizes.value_dim, copies);
  if (plan->passes != nullptr) {
    scratch = std::max(scratch, plan->passes->scratch_floats(sizes.compared_dim, sizes.value_dim, copies));
  }
  plan->scratch = layout.add_copies<float>(plan->workers, scratch);
  if (grid.splits > 1) {
    plan->partial_out = layout.add<float>({heads, grid.rows, grid.splits, sizes.value_dim});
    plan->partial_max = layout.add_behind<float>({heads, grid.rows, grid.splits});
    plan->partial_sum = layout.add_behind<float>({heads, grid.rows, grid.splits});
  }
  if (plan->problem.outputs.weights_wanted) {
    plan->row_max = layout.add<float>({heads, grid.rows});
    plan->row_scale = layout.add_behind<float>({heads, grid.rows});
  }
  if (keeps_weights(*plan)) {
    const int64_t bands = grid.rows_per_task / grid.kernels->tile_rows;
    plan->kept_weights = layout.add_copies<char>(plan->workers, bands * plan->grid.kernels->kept_bytes(sizes.key_len));
  }
  if (grid.kernels->pack != nullptr && grid.row_blocks > 1) {  // else tasks share none
    plan->packed = layout.add<char>(
        {heads, plan->pack_blocks(), grid.kernels->packed_block_bytes(sizes.compared_dim, sizes.value_dim)});
  }
  plan->score_memory = layout.add<char>(static_cast<int64_t>(plan->score.layout.size()));
  if (!layout.fits())
    return fail(FOVEA_SIZE_OVERFLOW,
                "query and key are too long: the workspace of this call would exceed the address space");
  plan->workspace_size = layout.size() + cache_line;
  return FOVEA_OK;
}

AttentionWish wish_of(const AttentionPlan &plan, const AttentionCall &call, const AttentionProblem &checked) {
  const ScorePlan &score = plan.score;
  const bool wants_passes = checked.outputs.weights_wanted || checked.outputs.scores_wanted;
  const bool invariant = (call.options.flags & FOVEA_QUERY_INVARIANT) != 0;  // then few rows are as many
  const bool medium = precision_of(*plan.context, call.options.precision) >= FOVEA_PRECISION_MEDIUM;
  return {.score = score.compares,
          .query = score.queries.dtype,
          .key = read_as(score.keys, score.queries.dtype),
          .value = read_as(score.values, score.queries.dtype),
          .rounds = medium && call.score.kind == FOVEA_SCORE_DOT && call.prepared == nullptr,
          .keys_in_pairs = keys_in_pairs(score.keys),
          .in_bytes = in_bytes(score.keys, score.compared_dim) && in_bytes(score.values, checked.sizes.value_dim),
          .drops_weights = checked.dropout.threshold != 0,
          .wants_passes = wants_passes,
          .counts_rows = !wants_passes && !invariant,
          .many_rows = plan.grid.rows > plan.kernels->attention_of(score.compares).most_few_rows(score.compared_dim),
          .rows = plan.grid.rows,
          .key_len = checked.sizes.key_len,
          .compared_dim = score.compared_dim};
}

// The kernels, and copies of keys and values where these cannot read them as they lie.
Status plan_kernels(const AttentionWish &wish, const AttentionSizes &sizes, AttentionPlan *plan) {
  const AttentionChoice choice = choose_attention(plan->kernels->allowed, wish);
  plan->grid.kernels = choice.row->kernels;
  plan->grid.path = choice.row->path;
  plan->better_pairs = choice.pairs;
  plan->tiles_refused = choice.tiles_refused;
  plan->passes = wish.wants_passes ? &choose_passes(plan->kernels->allowed, wish) : nullptr;
  if (choice.row->multiplied == Multiplied::bfloat16) {
    const bool reads_pairs = plan->grid.kernels->reads_pairs || (plan->passes != nullptr && plan->passes->reads_pairs);
    FOVEA_CHECK(plan_narrowing(reads_pairs && !wish.keys_in_pairs, sizes, &plan->score));
  }
  return plan->grid.path == AttentionPath::many_rows ? plan_norms(sizes, &plan->score) : FOVEA_OK;
}

// Splits of keys, blocks of rows, and how many tasks they make.
Status plan_tasks(const AttentionWish &wish, AttentionPlan *plan, int64_t *tasks) {
  TaskGrid &grid = plan->grid;
  grid.set_keys_per_split(wish.counts_rows ? keys_per_split(grid) : std::max<int64_t>(grid.key_len, 1));
  grid.set_rows_per_task(grid.path == AttentionPath::few_rows ? std::max<int64_t>(grid.rows, 1)
                                                              : tile_task_rows(*plan));
  if (!checked_multiply(grid.heads(), grid.row_blocks, tasks) || !checked_multiply(*tasks, grid.splits, tasks)) {
    return fail(FOVEA_SIZE_OVERFLOW, "the number of tiles of this call does not fit 63 bits");
  }
  plan->asks_ahead = grid.splits == 1 && leaves_caches(plan->problem);
  return FOVEA_OK;
}

// Without rows there is nothing to project and nothing to keep.
void plan_nothing(const AttentionCall &call, AttentionPlan *plan) {
  plan->score.kind = call.score.kind;
  plan->score.prepared = call.prepared;
  plan->grid.kernels = &plan->kernels->attention_of(plan->problem.score.kind);
  plan->workers = 1;
}

}  // namespace

Status plan_attention(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                      AttentionPlan *plan) {
  *plan = {};
  plan->context = &context;
  plan->kernels = context.kernels;
  plan->problem = checked;
  if (!has_rows(checked)) {
    plan_nothing(call, plan);
    return FOVEA_OK;
  }
  FOVEA_CHECK(plan_score(context, call, checked, &plan->score));
  plan->grid.entries = checked.sizes.batch;
  plan->grid.kv_heads = checked.sizes.kv_heads;
  plan->grid.query_len = checked.sizes.query_len;
  plan->grid.rows = checked.sizes.query_len * checked.sizes.group;
  plan->grid.key_len = checked.sizes.key_len;
  plan->grid.last_rows_first = checked.pattern.has_window_right;
  const AttentionWish wish = wish_of(*plan, call, checked);
  FOVEA_CHECK(plan_kernels(wish, checked.sizes, plan));
  plan->problem = planned_problem(checked, plan->score);
  int64_t tasks = 0;
  FOVEA_CHECK(plan_tasks(wish, plan, &tasks));
  const double cycles =
      estimate_cycles(plan->problem) + product_cycles(plan->score.query) + product_cycles(plan->score.key);
  const int limit = workers_for(context, cycles);
  const bool projects = plan->score.projects_query || plan->score.projects_key;
  plan->workers = static_cast<int>(std::clamp<int64_t>(projects ? limit : tasks, 1, limit));
  return plan_memory(plan);
}

namespace {

const char *describe_fit(Fit pairs) {
  if (pairs == Fit::odd_dim) return " pairs=odd_dim";
  return pairs == Fit::odd_stride ? " pairs=odd_stride" : "";
}

}  // namespace

size_t describe_attention(const AttentionPlan &plan, char *text, size_t size) {
  const TaskGrid &grid = plan.grid;
  const bool rows = grid.path == AttentionPath::few_rows;
  char dropout[32] = "";
  if (plan.problem.dropout.threshold != 0) {
    std::snprintf(dropout, sizeof dropout, " dropout=%g", plan.problem.dropout.threshold * 0x1p-32);
  }
  char projection[32] = "";
  if (plan.score.projects_query || plan.score.projects_key) {
    const Product &projected = plan.score.projects_query ? plan.score.query : plan.score.key;
    std::snprintf(projection, sizeof projection, " projection=%s", projected.kernels->set);
  }
  const char *keeps = kept_name(plan.score);
  const char *points = plan.score.point_factor == 1.0 ? "" : " points=scaled";
  const int length = std::snprintf(
      text, size,
      "op=%s isa=%s kernels=%s%s%s%s%s path=%s tile=%" PRId64 "x%" PRId64 " row_blocks=%" PRId64 " splits=%" PRId64
      " keys_per_split=%" PRId64 " tasks=%" PRId64
      " threads=%d passes=%d%s%s%s scratch_per_thread=%zu projections=%zu workspace=%zu",
      score_name(plan.score.kind), plan.kernels->name, grid.kernels->set, plan.tiles_refused ? " tiles=refused" : "",
      describe_fit(plan.better_pairs), projection, points, rows ? "rows" : "tile", grid.rows_per_task,
      rows ? grid.kernels->few_rows_keys(grid.rows_per_task) : grid.kernels->tile_keys, grid.row_blocks, grid.splits,
      grid.keys_per_split, grid.tasks(), plan.workers,
      1 + (plan.problem.outputs.weights_wanted && !plan.kept_weights) + plan.problem.outputs.scores_wanted, dropout,
      keeps[0] == '\0' ? "" : " keeps=", keeps, plan.scratch.copy_size() + plan.kept_weights.copy_size(),
      plan.score.layout.size(), plan.workspace_size);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

}  // namespace fovea
