// Choice of path, split and threads.
#include "ops/attention/plan.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace fovea {
namespace {

// A few rows leave cores idle unless the keys are split too, into the fewer spans the more blocks of rows there are. A
// task loses a microsecond or two before memory is as busy as it can be, so where heads already make tasks spans are
// longer. Which rows are few, and where keys are split, depends on a batch entry's shapes alone: neither batch size nor
// thread count changes a result.
int64_t keys_per_split(const AttentionPlan &plan) {
  const int64_t grid = plan.tiles == Tiles::granted ? 256 : 96;  // whole tiles, where rows are several
  constexpr int64_t most_spans = 16;
  constexpr int64_t most_blocks = 4;
  constexpr int64_t tasks = 16;  // of an entry, if spans of 384 to 1024 keys make so many
  const AttentionProblem &p = plan.problem;
  const int64_t key_len = p.sizes.key_len;
  const int64_t blocks = std::max<int64_t>(1, ceil_div(plan.rows, plan.attention->tile_rows));
  const bool few_rows = blocks == 1 || (blocks <= most_blocks && blocks * p.sizes.kv_heads <= most_blocks);
  if (!few_rows) return std::max<int64_t>(key_len, 1);
  const int64_t share = key_len / tasks * std::min(tasks, p.sizes.kv_heads);
  const int64_t span = std::max(std::clamp<int64_t>(share, 256, 1024), ceil_div(key_len, most_spans));
  const int64_t least = std::max<int64_t>(blocks * span, 384);
  const int64_t even = ceil_div(key_len, std::max<int64_t>(1, key_len / least));
  return std::min(round_up(std::max<int64_t>(even, 1), grid), 4096 / grid * grid);
}

// Weights of each head are kept by the tasks that make them as long as that takes a worker no more than some megabytes. Keys
// alone decide: weights that are computed again have other bits.
bool keeps_weights(const AttentionPlan &plan) {
  constexpr int64_t most_kept_keys = 16384;
  const AttentionOutputs &outputs = plan.problem.outputs;
  return outputs.weights_wanted && !outputs.average_weights && plan.attention->kept_bytes != nullptr &&
         plan.problem.sizes.key_len <= most_kept_keys;
}

// Bands of a tile share what they read of keys and values, so as many as leave each thread several tasks to even out.
// This may depend on the threads: a row's result does not depend on which rows it is computed with.
int64_t tile_task_rows(const AttentionPlan &plan) {
  const AttentionProblem &p = plan.problem;
  const double enough = 8.0 * worker_limit(*plan.context);
  int64_t bands = plan.attention->tile_bands(p.sizes.head_dim, p.sizes.value_dim);
  if (keeps_weights(plan)) {  // in half of a second-level cache
    constexpr int64_t most_bytes = 512 * 1024;
    bands =
        std::clamp<int64_t>(most_bytes / std::max<int64_t>(1, plan.attention->kept_bytes(p.sizes.key_len)), 1, bands);
  }
  const double spans =
      static_cast<double>(p.sizes.batch) * static_cast<double>(p.sizes.kv_heads) * static_cast<double>(plan.splits);
  while (bands > 1 && spans * static_cast<double>(ceil_div(plan.rows, bands * plan.attention->tile_rows)) < enough)
    bands /= 2;
  return bands * plan.attention->tile_rows;
}

// A rough count of the cycles of one thread: multiply-adds against bytes read.
double estimate_cycles(const AttentionProblem &p) {
  const double pairs = static_cast<double>(p.sizes.batch) * static_cast<double>(p.sizes.heads) *
                       static_cast<double>(p.sizes.query_len) * static_cast<double>(p.sizes.key_len);
  const double features = static_cast<double>(p.sizes.head_dim + p.sizes.value_dim);
  const double bytes = 4.0 * static_cast<double>(p.sizes.batch) * static_cast<double>(p.sizes.kv_heads) *
                       static_cast<double>(p.sizes.key_len) * features;
  return std::max(pairs * features / 16.0, bytes / 8.0);
}

Status plan_memory(AttentionPlan *plan) {
  const AttentionSizes &sizes = plan->problem.sizes;
  const bool copies = plan->problem.key.are_copied() || plan->problem.value.are_copied();
  const int64_t entries = sizes.batch * sizes.kv_heads;
  MemoryLayout layout;
  const AttentionOutputs &outputs = plan->problem.outputs;
  int64_t scratch = plan->attention->scratch_floats(sizes.head_dim, sizes.value_dim, copies);
  if (outputs.weights_wanted || outputs.scores_wanted) {
    scratch = std::max(scratch, plan->passes->scratch_floats(sizes.head_dim, sizes.value_dim, copies));
  }
  plan->scratch = layout.add_copies<float>(plan->workers, scratch);
  if (plan->splits > 1) {
    plan->partial_out = layout.add<float>({entries, plan->rows, plan->splits, sizes.value_dim});
    plan->partial_max = layout.add_behind<float>({entries, plan->rows, plan->splits});
    plan->partial_sum = layout.add_behind<float>({entries, plan->rows, plan->splits});
  }
  if (plan->problem.outputs.weights_wanted) {
    plan->row_max = layout.add<float>({entries, plan->rows});
    plan->row_scale = layout.add_behind<float>({entries, plan->rows});
  }
  if (keeps_weights(*plan)) {
    const int64_t bands = plan->rows_per_task / plan->attention->tile_rows;
    plan->kept_weights = layout.add_copies<char>(plan->workers, bands * plan->attention->kept_bytes(sizes.key_len));
  }
  if (plan->attention->pack != nullptr && plan->row_blocks > 1) {  // else tasks share none
    plan->packed = layout.add<char>(
        {entries, plan->pack_blocks(), plan->attention->packed_block_bytes(sizes.head_dim, sizes.value_dim)});
  }
  plan->score_memory = layout.add<char>(static_cast<int64_t>(plan->score.layout.size()));
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "the workspace of this call would exceed the address space");
  plan->workspace_size = layout.size() + cache_line;
  return FOVEA_OK;
}

// Whether all that is multiplied is of that type, or may be rounded to it.
bool all_are(Dtype dtype, const AttentionProblem &problem, bool narrows) {
  for (const HeadRows *rows : {&problem.query, &problem.key, &problem.value}) {
    if (rows->dtype != dtype && !(narrows && rows->dtype == Dtype::f32)) return false;
  }
  return true;
}

bool is_bfloat16(const AttentionProblem &problem, bool narrows) { return all_are(Dtype::bf16, problem, narrows); }

// Whether products of pairs would be what is quickest. Differences are float32's, so where all pairs get them, values alone
// would gain.
bool suits_pairs(const Kernels &kernels, const AttentionProblem &problem, bool narrows) {
  if (kernels.pairs_of(problem.score.kind) == nullptr) return false;
  if (!is_bfloat16(problem, narrows) || !cpu_has_bfloat16_products()) return false;
  return problem.score.kind != ScoreKind::gaussian || problem.sizes.head_dim > most_differences;
}

// And features come in whole pairs.
bool takes_pairs(const Kernels &kernels, const AttentionProblem &problem, bool narrows) {
  return suits_pairs(kernels, problem, narrows) && problem.sizes.head_dim % 2 == 0;
}

// Whether keys are read as pairs where they lie, or copied anyway. Many rows have others copied; few rows would wait for that.
bool keys_in_pairs(const AttentionProblem &problem) {
  return problem.key.dtype == Dtype::f32 || problem.key.in_whole_pairs();
}

// What else is wanted of bfloat16 than the output comes from pairs. Scaled by what dropout keeps, weights of binary16 might
// overflow.
Tiles tiles_for(const Kernels &kernels, const AttentionProblem &problem, bool narrows, const AttentionKernels **tiles) {
  if (kernels.dot_tiles == nullptr || problem.sizes.key_len == 0) return Tiles::absent;
  if (problem.score.kind != ScoreKind::dot) return Tiles::absent;
  if (all_are(Dtype::f16, problem, false) && problem.dropout.threshold == 0) {
    *tiles = kernels.dot_float16_tiles;
    return cpu_float16_tiles();
  }
  if (!is_bfloat16(problem, narrows)) return Tiles::absent;
  const bool other_passes = problem.outputs.weights_wanted || problem.outputs.scores_wanted;
  if (other_passes && !takes_pairs(kernels, problem, narrows)) return Tiles::absent;
  *tiles = kernels.dot_tiles;
  return cpu_tiles();
}

// Rows of a head's keys that stay with vectors where there are tiles. For 32 keys of 128 + 128 features tiles take 256 cycles
// for 16 rows and about 700 to pack what nothing else will read, vectors 256 for each row in float32 (two multiply-adds a
// cycle) and 128 in products of pairs. From memory, 16 kB at 10 bytes a cycle, all of that but more rows of float32 is hidden.
constexpr int64_t most_rows_beside_tiles = 8;

// Without rows there is nothing to project and nothing to keep.
void plan_nothing(const AttentionCall &call, AttentionPlan *plan) {
  plan->score.kind = call.score.kind;
  plan->score.prepared = call.prepared;
  plan->path = AttentionPath::rows;
  plan->rows_per_task = plan->keys_per_split = plan->splits = plan->workers = 1;
}

}  // namespace

Status plan_attention(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                      AttentionPlan *plan) {
  *plan = {};
  plan->context = &context;
  plan->kernels = context.kernels;
  plan->problem = checked;
  AttentionProblem &problem = plan->problem;
  plan->attention = &plan->kernels->attention_of(problem.score.kind);
  if (!has_rows(problem)) {
    plan_nothing(call, plan);
    return FOVEA_OK;
  }
  FOVEA_CHECK(plan_score(context, call, &problem, &plan->score));
  plan->attention = &plan->kernels->attention_of(problem.score.kind);
  plan->rows = problem.sizes.group * problem.sizes.query_len;
  const bool invariant = (call.options.flags & FOVEA_QUERY_INVARIANT) != 0;  // then few rows are as many
  const bool one_pass = !problem.outputs.weights_wanted && !problem.outputs.scores_wanted;
  const bool few_ways = one_pass && !invariant;
  const bool narrows = call.score.kind == FOVEA_SCORE_DOT && call.prepared == nullptr &&
                       precision_of(context, call.options.precision) == FOVEA_PRECISION_MEDIUM;
  const AttentionKernels *tiles = nullptr;
  if (!few_ways || plan->rows > most_rows_beside_tiles) {
    plan->tiles = tiles_for(*plan->kernels, problem, narrows, &tiles);
  }
  // Fewer rows are as quick when they are widened: memory bounds them. float32 is narrowed only where its rows are many.
  constexpr int64_t least_paired = 4;
  const bool many = plan->rows > plan->attention->few_rows(problem.sizes.head_dim);
  const AttentionKernels *paired = plan->kernels->pairs_of(problem.score.kind);
  const bool pairs = plan->rows >= least_paired && takes_pairs(*plan->kernels, problem, narrows && many) &&
                     (many || keys_in_pairs(problem));
  const AttentionKernels *few = pairs && paired->rows != nullptr ? paired : plan->attention;
  const bool takes_few = few_ways && plan->rows <= few->few_rows(problem.sizes.head_dim);
  plan->path = takes_few && plan->tiles != Tiles::granted ? AttentionPath::rows : AttentionPath::tile;
  if (plan->path == AttentionPath::rows) plan->attention = few;
  if (plan->path == AttentionPath::tile) {
    if (takes_pairs(*plan->kernels, problem, narrows)) plan->attention = paired;
    if (plan->tiles == Tiles::granted) plan->attention = tiles;
  }
  plan->passes = plan->attention;
  if (plan->passes->weights == nullptr) {
    plan->passes =
        takes_pairs(*plan->kernels, problem, narrows) ? paired : &plan->kernels->attention_of(problem.score.kind);
  }
  const bool bfloat16 = plan->attention == paired || plan->attention == plan->kernels->dot_tiles;
  const bool has_pairs = paired != nullptr && (plan->path == AttentionPath::tile || paired->rows != nullptr);
  if (!bfloat16 && has_pairs && plan->rows >= least_paired && suits_pairs(*plan->kernels, problem, narrows && many)) {
    plan->without_pairs = problem.sizes.head_dim % 2 != 0 ? " pairs=odd_dim" : " pairs=odd_stride";
  }
  const bool reads_pairs = plan->attention == paired || !one_pass;  // tiles are packed from keys of any stride
  if (bfloat16) FOVEA_CHECK(plan_narrowing(reads_pairs && !keys_in_pairs(problem), &problem, &plan->score));
  if (plan->path == AttentionPath::tile) FOVEA_CHECK(plan_norms(&problem, &plan->score));
  plan->keys_per_split = few_ways ? keys_per_split(*plan) : std::max<int64_t>(problem.sizes.key_len, 1);
  plan->splits = std::max<int64_t>(1, ceil_div(problem.sizes.key_len, plan->keys_per_split));
  plan->rows_per_task = plan->path == AttentionPath::rows ? std::max<int64_t>(plan->rows, 1) : tile_task_rows(*plan);
  plan->row_blocks = ceil_div(plan->rows, plan->rows_per_task);
  int64_t tasks = 0;
  if (!checked_multiply(problem.sizes.batch * problem.sizes.kv_heads, plan->row_blocks, &tasks) ||
      !checked_multiply(tasks, plan->splits, &plan->tasks)) {
    return fail(FOVEA_SIZE_OVERFLOW, "the number of tiles of this call does not fit 63 bits");
  }
  const double cycles = estimate_cycles(problem) + product_cycles(plan->score.query) + product_cycles(plan->score.key);
  const int limit = workers_for(context, cycles);
  const bool projects = plan->score.projects_query || plan->score.projects_key;
  plan->workers = static_cast<int>(std::clamp<int64_t>(projects ? limit : plan->tasks, 1, limit));
  return plan_memory(plan);
}

size_t describe_attention(const AttentionPlan &plan, char *text, size_t size) {
  const bool rows = plan.path == AttentionPath::rows;
  char dropout[32] = "";
  if (plan.problem.dropout.threshold != 0) {
    std::snprintf(dropout, sizeof dropout, " dropout=%g", plan.problem.dropout.threshold * 0x1p-32);
  }
  char projection[32] = "";
  if (plan.score.projects_query || plan.score.projects_key) {
    const Product &projected = plan.score.projects_query ? plan.score.query : plan.score.key;
    std::snprintf(projection, sizeof projection, " projection=%s", projected.kernels->set);
  }
  const char *points = plan.score.point_factor == 1.0 ? "" : " points=scaled";
  const int length = std::snprintf(
      text, size,
      "op=%s isa=%s kernels=%s%s%s%s%s path=%s tile=%" PRId64 "x%" PRId64 " row_blocks=%" PRId64 " splits=%" PRId64
      " keys_per_split=%" PRId64 " tasks=%" PRId64
      " threads=%d passes=%d%s scratch_per_thread=%zu projections=%zu workspace=%zu",
      score_name(plan.score.kind), plan.kernels->name, plan.attention->set,
      plan.tiles == Tiles::refused ? " tiles=refused" : "", plan.without_pairs, projection, points,
      rows ? "rows" : "tile", plan.rows_per_task,
      rows ? plan.attention->few_rows_keys(plan.rows_per_task) : plan.attention->tile_keys, plan.row_blocks,
      plan.splits, plan.keys_per_split, plan.tasks, plan.workers,
      1 + (plan.problem.outputs.weights_wanted && !plan.kept_weights) + plan.problem.outputs.scores_wanted, dropout,
      plan.scratch.copy_size() + plan.kept_weights.copy_size(), plan.score.layout.size(), plan.workspace_size);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

}  // namespace fovea
