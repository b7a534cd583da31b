// Runs a step for one layer, as a whole or a share at a time.
#include <cstring>

#include "ops/attention/problem.hpp"
#include "ops/attention/score_tasks.hpp"
#include "ops/attention/split_merge.hpp"
#include "ops/ragged/check.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr int64_t pack_phase = 0, attend_phase = 1, merge_phase = 2, phase_count = 3;

// The rows of one sequence among those of all.
void move_rows(int64_t first, HeadRows *rows) {
  rows->data = element_at(rows->data, rows->dtype, first * rows->strides.position);
  if (rows->has_scales()) rows->scales.data += first * rows->scales.strides.position;
}

// A sequence as a problem of its own, which points at its pages: neither is copied.
struct SequenceProblem {
  AttentionProblem problem;
  PagePlaces keys, values;

  SequenceProblem(const RaggedCall &made, const AttentionProblem &whole, const RaggedSequence &sequence)
      : problem(whole),
        keys(whole.key, made.pages.key, made.pages.key_scales, made.pages.size, sequence.pages),
        values(whole.value, made.pages.value, made.pages.value_scales, made.pages.size, sequence.pages) {
    problem.sizes.query_len = sequence.query_len;
    problem.sizes.key_len = problem.pattern.key_limit = sequence.key_len;
    const RaggedPositions at = positions_of(made, sequence);
    problem.pattern.position_offset = at.first;
    problem.pattern.leave_out_offset = at.left_out;
    move_rows(sequence.query_start, &problem.query);
    AttentionOutputs &outputs = problem.outputs;
    outputs.out = element_at(outputs.out, outputs.out_dtype, sequence.query_start * outputs.out_strides.position);
    if (outputs.log_sum_exp != nullptr) {
      outputs.log_sum_exp += sequence.query_start * outputs.log_sum_exp_strides.position;
    }
    if (sequence.pages != nullptr) {
      problem.key.places = &keys;
      problem.value.places = &values;
      return;
    }
    move_rows(sequence.key_start, &problem.key);
    move_rows(sequence.key_start, &problem.value);
    if (problem.score.key_scalars != nullptr) problem.score.key_scalars += sequence.key_start;
  }
  // Attends those keys from `first` on that the tokens' masks have.
  void attend_tree(const RaggedSequence &sequence, int64_t first) {
    problem.pattern.has_window_right = false;
    problem.pattern.mask = sequence.tree - first;
    problem.pattern.mask_strides = {0, 0, most_drafts};
  }

  SequenceProblem(const SequenceProblem &) = delete;
  SequenceProblem &operator=(const SequenceProblem &) = delete;
};

class Run {
 public:
  Run(const fovea_schedule &schedule, const AttentionCall &call, void *workspace)
      : schedule_(schedule),
        step_(schedule.step()),
        plan_(schedule.plan),
        call_(call),
        block_(align_to_line(workspace)),
        whole_(bound_problem(plan_, call, block_)) {}

  // The same of rows that lie elsewhere.
  Run(const fovea_schedule &schedule, const RaggedRows &rows, void *workspace)
      : Run(schedule, schedule.call, workspace) {
    whole_.query = rows.query;
    if (schedule.made.pages.size == 0) {
      whole_.key = rows.key;
      whole_.value = rows.value;
    }
    whole_.key.data = rows.key.data;
    whole_.value.data = rows.value.data;
    whole_.key.scales.data = rows.key.scales.data;
    whole_.value.scales.data = rows.value.scales.data;
    whole_.outputs.out = rows.out;
    whole_.outputs.out_strides = rows.out_strides;
    whole_.outputs.log_sum_exp = nullptr;
    whole_.logits.alibi_slopes = rows.alibi_slopes;
    whole_.logits.alibi_stride = rows.alibi_stride;
    whole_.logits.sinks = rows.sinks;
    whole_.logits.sinks_stride = rows.sinks_stride;
  }

  int64_t kv_heads() const { return whole_.sizes.kv_heads; }

  void pack(int64_t task) const {
    const RaggedUnit &unit = step_.packs[task / kv_heads()];
    const RaggedSequence &sequence = step_.sequences[unit.sequence];
    const AttentionKernels &kernels = *sequence.kernels->kernels;
    const int64_t head = task % kv_heads();
    const SequenceProblem its(schedule_.made, whole_, sequence);
    const int64_t first = unit.row_block * kernels.tile_keys;
    const int64_t bytes = kernels.packed_block_bytes(whole_.sizes.compared_dim, whole_.sizes.value_dim);
    kernels.pack({.problem = &its.problem,
                  .batch = 0,
                  .kv_head = head,
                  .first_key = first,
                  .count = min_of(sequence.key_len - first, kernels.tile_keys),
                  .ahead = 0,
                  .to = packed(sequence) + (head * sequence.packed_blocks + unit.row_block) * bytes});
  }

  void attend(int worker, int64_t index) const {
    const RaggedUnit &unit = step_.units[index / kv_heads()];
    const RaggedSequence &sequence = step_.sequences[unit.sequence];
    SequenceProblem its(schedule_.made, whole_, sequence);
    if (sequence.packed_blocks > 0) its.problem.packed = packed(sequence);
    if (sequence.is_prefix) its.problem.pattern.has_window_right = false;  // all of its keys lie before all queries
    AttentionTask task = {};
    task.problem = &its.problem;
    task.kv_head = index % kv_heads();
    task.row_begin = unit.row_block * sequence.rows_per_task;
    task.row_count = min_of(sequence.rows_per_task, sequence.rows - task.row_begin);
    task.scratch = plan_.scratch.in(block_, worker);
    if (sequence.merges_itself) return attend_and_merge(sequence, worker, &its, &task);
    if (leaves_partials(sequence)) task.partial = partial_of(sequence, unit, task);
    attend_split(sequence, unit.split, &its, &task);
  }

  void merge(int worker, int64_t task) const {
    const RaggedSequence &sequence = step_.sequences[step_.merges[task / kv_heads()]];
    const int64_t head = task % kv_heads();
    const SequenceProblem its(schedule_.made, whole_, sequence);
    const auto merge_rows = [&](const SplitRows &partials) {
      merge_splits(*plan_.kernels->rowwise, *sequence.kernels->kernels, its.problem, partials, 0, head);
    };
    if (sequence.prefix < 0) return merge_rows(partials_of(sequence, head));
    for (int64_t row = 0; row < sequence.rows; ++row) merge_rows(gathered(sequence, head, row, worker));
  }

  void all() const {
    const ScoreTasks score(plan_, call_, plan_.score_memory.in(block_), whole_);
    const auto pack_one = [this](int, int64_t task) { pack(task); };
    const auto attend_one = [this](int worker, int64_t task) { attend(worker, task); };
    const auto merge_one = [this](int worker, int64_t task) { merge(worker, task); };
    TaskList list(step_.has_many_rows ? Sharing::in_order : Sharing::in_ranges);
    score.add_to(&list);
    list.start_stage();
    list.add(schedule_tasks(schedule_, pack_phase), pack_one);
    list.start_stage();
    list.add(schedule_tasks(schedule_, attend_phase), attend_one);
    list.start_stage();
    list.add(schedule_tasks(schedule_, merge_phase), merge_one);
    run_tasks(*plan_.context, plan_.workers, list);
  }

  void share(const RaggedShare &share) const {
    for (int64_t task = share.begin; task < share.end; ++task) {
      if (share.phase == pack_phase) pack(task);
      if (share.phase == attend_phase) attend(static_cast<int>(share.worker), task);
      if (share.phase == merge_phase) merge(static_cast<int>(share.worker), task);
    }
  }

 private:
  char *packed(const RaggedSequence &sequence) const { return plan_.packed.in(block_) + sequence.packed; }

  // Some rows beside one split of the keys.
  void attend_split(const RaggedSequence &sequence, int64_t split, SequenceProblem *its, AttentionTask *task) const {
    const SplitKeys keys = split_of(sequence, split);
    task->key_begin = keys.begin;
    task->key_end = keys.end;
    task->first_split = split == 0 && sequence.prefix < 0;
    if (keys.is_tree) its->attend_tree(sequence, keys.begin);
    const AttentionKernels &kernels = *sequence.kernels->kernels;
    (sequence.kernels->path == AttentionPath::few_rows ? kernels.rows : kernels.tile)(*task);
  }

  // Beside all of them, one after the other.
  void attend_and_merge(const RaggedSequence &sequence, int worker, SequenceProblem *its, AttentionTask *task) const {
    const int64_t rows = task->row_count;
    const PartialRows own = own_partials(worker, sequence.splits * rows);
    for (int64_t split = 0; split < sequence.splits; ++split) {
      task->partial = own.from(split * rows, whole_.sizes.value_dim);
      attend_split(sequence, split, its, task);
    }
    merge_splits(*plan_.kernels->rowwise, *sequence.kernels->kernels, its->problem,
                 {own.out, own.max, own.sum, sequence.splits, rows, task->row_begin}, 0, task->kv_head);
  }

  struct PartialRows {
    float *out, *max, *sum;

    AttentionPartial from(int64_t row, int64_t value_dim) const {
      return {out + row * value_dim, max + row, sum + row};
    }
  };

  PartialRows own_partials(int worker, int64_t rows) const {
    float *out = plan_.own_partials.in(block_, worker);
    float *max = out + rows * whole_.sizes.value_dim;
    return {out, max, max + rows};
  }

  PartialRows all_partials() const {
    return {plan_.partial_out.in(block_), plan_.partial_max.in(block_), plan_.partial_sum.in(block_)};
  }

  SplitRows partials_of(const RaggedSequence &sequence, int64_t head) const {
    const AttentionPartial first =
        all_partials().from(sequence.partial + head * sequence.splits * sequence.rows, whole_.sizes.value_dim);
    return {first.out, first.max, first.sum, sequence.splits, sequence.rows};
  }

  AttentionPartial partial_of(const RaggedSequence &sequence, const RaggedUnit &unit, const TaskRows &rows) const {
    const int64_t split = rows.kv_head * sequence.splits + unit.split;
    return all_partials().from(sequence.partial + split * sequence.rows + rows.row_begin, whole_.sizes.value_dim);
  }

  // The partials of one row, those of its prefix before its own.
  SplitRows gathered(const RaggedSequence &sequence, int64_t head, int64_t row, int worker) const {
    const RaggedSequence &prefix = step_.sequences[sequence.prefix];
    const int64_t splits = prefix.splits + sequence.splits, dim = whole_.sizes.value_dim;
    const PartialRows from = all_partials(), to = own_partials(worker, splits);
    const int64_t row_of_prefix = row / sequence.query_len * prefix.query_len + sequence.query_start -
                                  prefix.query_start + row % sequence.query_len;
    for (int64_t split = 0; split < splits; ++split) {
      const bool shared = split < prefix.splits;
      const RaggedSequence &its = shared ? prefix : sequence;
      const int64_t at = its.partial + (head * its.splits + split - (shared ? 0 : prefix.splits)) * its.rows +
                         (shared ? row_of_prefix : row);
      std::memcpy(to.out + split * dim, from.out + at * dim, static_cast<size_t>(dim) * sizeof(float));
      to.max[split] = from.max[at];
      to.sum[split] = from.sum[at];
    }
    return {to.out, to.max, to.sum, splits, 1, row};
  }

  const fovea_schedule &schedule_;
  const RaggedStep &step_;
  const AttentionPlan &plan_;
  const AttentionCall &call_;
  void *block_;
  AttentionProblem whole_;
};

}  // namespace

int64_t schedule_phases(const fovea_schedule &schedule) {
  return schedule.made.call.score.kind == FOVEA_SCORE_DOT ? phase_count : 0;
}

int64_t schedule_tasks(const fovea_schedule &schedule, int64_t phase) {
  const RaggedStep &step = schedule.step();
  const int64_t units = phase == pack_phase     ? step.pack_count
                        : phase == attend_phase ? step.unit_count
                        : phase == merge_phase  ? step.merge_count
                                                : 0;
  return units * schedule.made.checked.sizes.kv_heads;
}

Status run_schedule(const fovea_schedule *schedule, const fovea_attention_buffers *buffers, void *workspace,
                    size_t workspace_size) {
  FOVEA_CHECK(expect_given(schedule, "schedule", "a schedule"));
  AttentionCall call;
  FOVEA_CHECK(check_schedule_run(*schedule, buffers, &call));
  const bool own = workspace == nullptr && workspace_size == 0;
  if (!own) FOVEA_CHECK(check_schedule_workspace(*schedule, workspace, workspace_size));
  if (schedule_tasks(*schedule, attend_phase) == 0) return FOVEA_OK;
  if (!own) {
    Run(*schedule, call, workspace).all();
    return FOVEA_OK;
  }
  const Workspace from_context(*schedule->plan.context, schedule->plan.workspace_size);
  if (from_context.data() == nullptr) {
    return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", schedule->plan.workspace_size);
  }
  Run(*schedule, call, from_context.data()).all();
  return FOVEA_OK;
}

void run_schedule_on(const fovea_schedule &schedule, const RaggedRows &rows, void *workspace) {
  if (schedule_tasks(schedule, attend_phase) > 0) Run(schedule, rows, workspace).all();
}

Status run_schedule_tasks(const fovea_schedule *schedule, const fovea_attention_buffers *buffers, void *workspace,
                          size_t workspace_size, const RaggedShare &share) {
  FOVEA_CHECK(expect_given(schedule, "schedule", "a schedule"));
  FOVEA_CHECK(check_share(*schedule, share));
  AttentionCall call;
  FOVEA_CHECK(check_schedule_run(*schedule, buffers, &call));
  FOVEA_CHECK(check_schedule_workspace(*schedule, workspace, workspace_size));
  Run(*schedule, call, workspace).share(share);
  return FOVEA_OK;
}

}  // namespace fovea
