// Chooses kernels for each sequence and cuts a step into tasks. All that changes bits depends on a sequence's own
// numbers of queries and keys.
#include <algorithm>

#include "ops/attention/problem.hpp"
#include "ops/ragged/schedule.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

bool is_invariant(const AttentionCall &call) { return (call.options.flags & FOVEA_QUERY_INVARIANT) != 0; }

// Keys of bfloat16 whose features do not lie in pairs count as those of another type: kernels of pairs would want a
// copy of all of them. F32 is not rounded here, whatever the context's precision.
AttentionWish wish_of(const fovea_schedule &schedule, const ScorePlan &score, int64_t rows, bool has_keys) {
  const bool in_pairs = keys_in_pairs(score.keys);
  const Kernels &kernels = *schedule.plan.kernels;
  return {.score = score.compares,
          .query = score.queries.dtype,
          .key = score.keys.dtype == Dtype::bf16 && !in_pairs ? Dtype::f32 : read_as(score.keys, score.queries.dtype),
          .value = read_as(score.values, score.queries.dtype),
          .rounds = false,
          .keys_in_pairs = in_pairs,
          .in_bytes =
              in_bytes(score.keys, score.compared_dim) && in_bytes(score.values, schedule.made.checked.sizes.value_dim),
          .drops_weights = false,
          .wants_passes = false,
          .counts_rows = !is_invariant(schedule.made.call),
          .many_rows = rows > kernels.attention_of(score.compares).most_few_rows(score.compared_dim),
          .rows = rows,
          .key_len = has_keys ? 1 : 0,
          .compared_dim = score.compared_dim};
}

bool takes_few_rows(const RaggedSequence &sequence) { return sequence.kernels->path == AttentionPath::few_rows; }

// The splits that some query attends. Of more than one block of rows a task takes all keys; where queries are to be
// invariant it takes them split by split all the same, as one block does. A tree's own keys are left to a task that has
// their mask.
void split_keys(const fovea_schedule &schedule, const AttentionProblem &problem, RaggedSequence *sequence) {
  const bool one_block = takes_few_rows(*sequence) || sequence->rows <= sequence->kernels->kernels->tile_rows;
  const bool is_split = one_block || is_invariant(schedule.made.call);
  const int64_t before = sequence->tree == nullptr ? sequence->key_len : sequence->key_len - sequence->query_len;
  sequence->first_split = 0;
  sequence->keys_per_split = is_split ? split_positions : max_of(before, 1);
  const int64_t splits = ceil_div(before, sequence->keys_per_split);
  sequence->splits = sequence->tree == nullptr ? max_of(splits, 1) : splits + 1;
  sequence->merges_itself = is_split && !one_block && sequence->splits > 1;
  if (!is_split) return;
  if (problem.pattern.has_window_left) {
    const RaggedPositions at = positions_of(schedule.made, *sequence);
    const int64_t first_key = at.first - problem.pattern.window_left;
    sequence->first_split = clamp_to(first_key, 0, sequence->key_len) / split_positions;
    sequence->first_split = min_of(sequence->first_split, sequence->splits - 1);
    sequence->splits -= sequence->first_split;
  }
}

// Bands of rows in a task share what they read of keys, so as many as leave each thread several tasks to even out. A
// row's bits do not depend on them.
void cut_rows(const fovea_schedule &schedule, RaggedStep *step) {
  const AttentionSizes &sizes = schedule.plan.problem.sizes;
  const auto bands_of = [&](const RaggedSequence &sequence) {
    return sequence.kernels->kernels->tile_bands(sizes.compared_dim, sizes.value_dim);
  };
  const auto cut = [&](int64_t most_bands) {
    int64_t tasks = 0;
    for (int64_t s = 0; s < step->entry_count(); ++s) {
      RaggedSequence &sequence = step->sequences[s];
      if (sequence.kernels == nullptr) continue;
      sequence.rows_per_task = takes_few_rows(sequence)
                                   ? sequence.rows
                                   : min_of(bands_of(sequence), most_bands) * sequence.kernels->kernels->tile_rows;
      sequence.row_blocks = ceil_div(sequence.rows, sequence.rows_per_task);
      tasks += sequence.row_blocks * sequence.splits * sizes.kv_heads;
    }
    return tasks;
  };
  int64_t bands = 1;
  for (int64_t s = 0; step->has_many_rows && s < step->entry_count(); ++s) {
    const RaggedSequence &sequence = step->sequences[s];
    if (sequence.kernels != nullptr && !takes_few_rows(sequence)) bands = max_of(bands, bands_of(sequence));
  }
  const int64_t enough = int64_t{8} * worker_limit(*schedule.plan.context);
  while (cut(bands) < enough && bands > 1) bands /= 2;
}

double estimate_cycles(const AttentionSizes &sizes, const RaggedStep &step) {
  const auto features = static_cast<double>(sizes.compared_dim + sizes.value_dim);
  double cycles = 0.0;
  for (int64_t s = 0; s < step.sequence_count; ++s) {
    const RaggedSequence &sequence = step.sequences[s];
    const double keys = static_cast<double>(sequence.key_len) * static_cast<double>(sizes.kv_heads);
    cycles += keys * features * std::max(static_cast<double>(sequence.rows) / 16.0, 0.5);
  }
  return cycles;
}

Status plan_memory(const fovea_schedule &schedule, const RaggedStep &step, AttentionPlan *plan) {
  MemoryLayout layout;
  const int64_t workers = std::max<int64_t>(schedule.made.limits.workers, plan->workers);
  plan->scratch = layout.add_copies<float>(workers, schedule.scratch_floats);
  if (step.partial_rows > 0) {
    plan->partial_out = layout.add<float>({step.partial_rows, plan->problem.sizes.value_dim});
    plan->partial_max = layout.add_behind<float>({step.partial_rows});
    plan->partial_sum = layout.add_behind<float>({step.partial_rows});
  }
  // A task's own, which it merges, or a row's, brought together.
  const int64_t row_floats = plan->problem.sizes.value_dim + 2;
  plan->own_partials = layout.add_copies<float>(workers, max_of(step.task_partial_rows, step.most_parts) * row_floats);
  if (step.packed_bytes > 0) plan->packed = layout.add<char>(step.packed_bytes);
  plan->score_memory = layout.add<char>(static_cast<int64_t>(plan->score.layout.size()));
  if (!layout.fits())
    return fail(FOVEA_SIZE_OVERFLOW, "step is too long: its workspace would exceed the address space");
  plan->workspace_size = layout.size() + cache_line;
  return FOVEA_OK;
}

}  // namespace

RaggedPositions positions_of(const RaggedCall &made, const RaggedSequence &sequence) {
  const uint32_t flags = made.call.options.flags;
  const int64_t given = (flags & FOVEA_QUERY_OFFSET) != 0 ? made.call.options.query_offset : 0;
  const bool bottom_right = (flags & (FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET)) == 0;
  return {bottom_right ? max_of(sequence.key_len - sequence.query_len, 0) : given, given};
}

void choose_kernels(fovea_schedule *schedule) {
  const AttentionSizes &sizes = schedule->plan.problem.sizes;
  const bool copies = schedule->made.pages.size > 0 || schedule->plan.problem.key.are_copied() ||
                      schedule->plan.problem.value.are_copied();
  for (const KeysKind kind : {KeysKind::none, KeysKind::some, KeysKind::tree}) {
    // A tree's keys begin anywhere, AMX's blocks do not.
    const Features but = kind == KeysKind::tree ? Features{feature::tiles} : Features{0};
    for (int64_t rows = 1; rows <= most_telling_rows; ++rows) {
      const AttentionWish wish = wish_of(*schedule, schedule->plan.score, rows, kind != KeysKind::none);
      const AttentionRow *row = choose_attention(schedule->plan.kernels->allowed & ~but, wish).row;
      schedule->choice[static_cast<int>(kind)][rows] = row;
      schedule->scratch_floats =
          max_of(schedule->scratch_floats, row->kernels->scratch_floats(sizes.compared_dim, sizes.value_dim, copies));
    }
  }
}

Status plan_step(const fovea_schedule &schedule, RaggedStep *step, AttentionCall *call, AttentionPlan *plan) {
  const RaggedCall &made = schedule.made;
  *plan = {};
  plan->context = schedule.plan.context;
  plan->kernels = schedule.plan.kernels;
  plan->problem = made.checked;
  plan->problem.sizes.query_len = step->tokens;
  *call = made.call;
  call->tensor[query_operand].shape[2] = call->tensor[out_operand].shape[2] = step->tokens;
  call->tensor[log_sum_exp_operand].shape[2] = step->tokens;
  if (made.pages.size == 0) {
    plan->problem.sizes.key_len = step->keys;
    for (const Operand operand : paged_operands) call->tensor[operand].shape[2] = step->keys;
  }
  // What a score function makes of queries and keys it makes of all sequences' at once. A row's bits are the same
  // however many there are.
  AttentionCall invariant = *call;
  invariant.options.flags |= FOVEA_QUERY_INVARIANT;
  FOVEA_CHECK(plan_score(*plan->context, invariant, plan->problem, &plan->score));
  step->has_many_rows = false;
  for (int64_t s = 0; s < step->sequence_count; ++s) {
    RaggedSequence &sequence = step->sequences[s];
    sequence.prefix = -1;
    sequence.rows = sequence.query_len * made.checked.sizes.group;
    if (sequence.rows == 0) continue;
    const KeysKind kind = sequence.tree != nullptr ? KeysKind::tree
                          : sequence.key_len > 0   ? KeysKind::some
                                                   : KeysKind::none;
    sequence.kernels = schedule.choice[static_cast<int>(kind)][min_of(sequence.rows, most_telling_rows)];
    step->has_many_rows = step->has_many_rows || !takes_few_rows(sequence);
    split_keys(schedule, plan->problem, &sequence);
  }
  if (step->has_many_rows) FOVEA_CHECK(plan_norms(plan->problem.sizes, &plan->score));
  plan->problem = planned_problem(plan->problem, plan->score);
  step->prefix_count = 0;
  if (is_invariant(made.call)) find_prefixes(made, plan->problem, step);
  cut_rows(schedule, step);
  list_units(plan->problem, step);
  const double cycles =
      estimate_cycles(plan->problem.sizes, *step) + product_cycles(plan->score.query) + product_cycles(plan->score.key);
  plan->workers = workers_for(*plan->context, cycles);
  return plan_memory(schedule, *step, plan);
}

}  // namespace fovea
