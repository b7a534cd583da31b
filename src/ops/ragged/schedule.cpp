// Making, setting and describing schedules.
#include "ops/ragged/schedule.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "ops/attention/problem.hpp"
#include "ops/ragged/check.hpp"

void fovea_schedule::Free::operator()(void *block) const { std::free(block); }

namespace fovea {
namespace {

// How many units a step can have at most.
struct MostUnits {
  int64_t units, packs;
};

// Sums of sizes that may be any; false if one does not fit.
bool most_units(const fovea_schedule &schedule, MostUnits *most) {
  const RaggedLimits &limits = schedule.made.limits;
  int64_t tile_rows = most_telling_rows, block_keys = 0;
  for (const auto &choices : schedule.choice) {
    for (int64_t rows = 1; rows <= most_telling_rows; ++rows) {
      const AttentionKernels &kernels = *choices[rows]->kernels;
      tile_rows = min_of(tile_rows, kernels.tile_rows);
      if (kernels.pack != nullptr) block_keys = kernels.tile_keys;
    }
  }
  int64_t rows = 0, keys = limits.keys;
  if (!checked_multiply(limits.tokens, schedule.made.checked.sizes.group, &rows)) return false;
  if (schedule.made.pages.size > 0 && !checked_multiply(limits.page_ids, schedule.made.pages.size, &keys)) return false;
  constexpr int64_t largest = INT32_MAX;
  if (rows / tile_rows > largest || keys > largest * split_positions) return false;
  most->units = 2 * (rows / tile_rows) + keys / split_positions + 4 * limits.sequences;
  most->packs = block_keys == 0 ? 0 : keys / block_keys + limits.sequences;
  return most->units <= largest && most->packs <= largest;
}

Status allocate_steps(fovea_schedule *schedule) {
  const RaggedLimits &limits = schedule->made.limits;
  MostUnits most = {};
  const bool counted = most_units(*schedule, &most);
  struct StepPlaces {
    MemoryPart<RaggedSequence> sequences;
    MemoryPart<RaggedUnit> units, packs;
    MemoryPart<int32_t> merges, page_ids, positions;
    MemoryPart<uint8_t> tree_masks;
  } places[2];
  MemoryLayout layout;
  for (StepPlaces &its : places) {
    its.sequences = layout.add<RaggedSequence>({2, limits.sequences});
    its.units = layout.add<RaggedUnit>(most.units);
    its.packs = layout.add<RaggedUnit>(most.packs);
    its.merges = layout.add<int32_t>(limits.sequences);
    its.page_ids = layout.add<int32_t>(limits.page_ids);
    its.positions = layout.add<int32_t>(limits.tokens);
    its.tree_masks = layout.add<uint8_t>({limits.tokens, most_drafts});
  }
  const auto writer_step = layout.add<int64_t>(schedule->made.pages.count);
  const auto writer = layout.add<int64_t>(schedule->made.pages.count);
  if (!counted || !layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW, "limits of %" PRId64 " sequences and %" PRId64 " tokens are too large",
                limits.sequences, limits.tokens);
  }
  schedule->memory.reset(allocate_lines(layout.size()));
  void *memory = schedule->memory.get();
  if (memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a schedule of %zu bytes", layout.size());
  for (int n = 0; n < 2; ++n) {
    RaggedStep &step = schedule->steps[n];
    step.sequences = places[n].sequences.in(memory);
    step.units = places[n].units.in(memory);
    step.packs = places[n].packs.in(memory);
    step.merges = places[n].merges.in(memory);
    step.page_ids = places[n].page_ids.in(memory);
    step.positions = places[n].positions.in(memory);
    step.tree_masks = places[n].tree_masks.in(memory);
  }
  schedule->writer_step = writer_step.in(memory);
  schedule->writer = writer.in(memory);
  for (int64_t page = 0; page < schedule->made.pages.count; ++page) schedule->writer_step[page] = 0;
  return FOVEA_OK;
}

// What all steps have in common, seen in the largest.
Status plan_largest(const Context &context, fovea_schedule *schedule) {
  AttentionPlan &plan = schedule->plan;
  plan = {};
  plan.context = &context;
  plan.kernels = context.kernels;
  FOVEA_CHECK(plan_score(context, schedule->made.call, schedule->made.checked, &plan.score));
  plan.problem = planned_problem(schedule->made.checked, plan.score);
  choose_kernels(schedule);
  return FOVEA_OK;
}

// Does nothing until a step is set.
void plan_no_step(const RaggedCall &made, const AttentionPlan &common, AttentionCall *call, AttentionPlan *plan) {
  *call = made.call;
  *plan = {};
  plan->context = common.context;
  plan->kernels = common.kernels;
  plan->problem = common.problem;
  plan->problem.sizes.query_len = 0;
  plan->workers = 1;
  for (const int operand : {query_operand, out_operand, log_sum_exp_operand}) call->tensor[operand].shape[2] = 0;
}

}  // namespace

Status create_schedule(const Context *given, const AttentionArguments &arguments, const fovea_schedule_limits *limits,
                       fovea_schedule **schedule) {
  FOVEA_CHECK(expect_given(schedule, "schedule", "where to store the schedule"));
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  std::unique_ptr<fovea_schedule> made(new (std::nothrow) fovea_schedule);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a schedule");
  FOVEA_CHECK(check_schedule(*context, arguments, limits, &made->made));
  FOVEA_CHECK(plan_largest(*context, made.get()));
  FOVEA_CHECK(allocate_steps(made.get()));
  const AttentionPlan common = made->plan;
  plan_no_step(made->made, common, &made->call, &made->plan);
  *schedule = made.release();
  return FOVEA_OK;
}

Status set_schedule(fovea_schedule *schedule, const fovea_step *step) {
  FOVEA_CHECK(expect_given(schedule, "schedule", "a schedule"));
  RaggedStep &next = schedule->steps[1 - schedule->now];
  FOVEA_CHECK(read_step(schedule, step, &next));
  AttentionCall call;
  AttentionPlan plan;
  if (next.tokens == 0) {
    plan_no_step(schedule->made, schedule->plan, &call, &plan);
    next.unit_count = next.pack_count = next.merge_count = next.prefix_count = 0;
    next.partial_rows = next.packed_bytes = 0;
  } else {
    FOVEA_CHECK(plan_step(*schedule, &next, &call, &plan));
  }
  schedule->call = call;
  schedule->plan = plan;
  schedule->now = 1 - schedule->now;
  return FOVEA_OK;
}

fovea_tensor schedule_positions(const fovea_schedule &schedule) {
  const RaggedStep &step = schedule.step();
  return contiguous_tensor(step.positions, FOVEA_I32, 1, &step.tokens);
}

size_t describe_schedule(const fovea_schedule &schedule, char *text, size_t size) {
  const AttentionPlan &plan = schedule.plan;
  const RaggedStep &step = schedule.step();
  int64_t tile_sequences = 0, splits = 0;
  const char *few = "none", *many = "none";
  for (int64_t s = 0; s < step.sequence_count; ++s) {
    const RaggedSequence &sequence = step.sequences[s];
    if (sequence.kernels == nullptr) continue;
    const bool is_tile = sequence.kernels->path == AttentionPath::many_rows;
    tile_sequences += is_tile;
    splits = max_of(splits, sequence.splits);
    (is_tile ? many : few) = sequence.kernels->kernels->set;
  }
  const int length = std::snprintf(
      text, size,
      "op=ragged score=%s isa=%s kernels=%s,%s sequences=%" PRId64 " tile_sequences=%" PRId64 " prefixes=%" PRId64
      " tokens=%" PRId64 " page=%" PRId64 " tasks=%" PRId64 " most_splits=%" PRId64
      " threads=%d scratch_per_thread=%zu projections=%zu workspace=%zu",
      score_name(schedule.made.call.score.kind), plan.kernels->name, few, many, step.sequence_count, tile_sequences,
      step.prefix_count, step.tokens, schedule.made.pages.size, step.unit_count * plan.problem.sizes.kv_heads, splits,
      plan.workers, plan.scratch.copy_size(), plan.score.layout.size(), plan.workspace_size);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

}  // namespace fovea
