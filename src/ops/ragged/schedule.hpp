// Attention over sequences of different lengths: made once for the most there may be (a schedule), cut into tasks once
// a step, run once a layer.
//
// To kernels each sequence is a problem of its own, with one batch entry: a task copies what all have in common and
// points it at its sequence. So nothing that a sequence gives depends on the others, and kernels know nothing of steps.
#pragma once

#include <memory>

#include "ops/attention/plan.hpp"
#include "ops/ragged/pages.hpp"
#include "ops/ragged/step.hpp"

namespace fovea {

// So many rows of queries of a head have the kernels of any more.
constexpr int64_t most_telling_rows = 128;

// Where keys are left to several tasks, these begin at multiples of so many positions: whole tiles of every kernel.
constexpr int64_t split_positions = 576;

struct RaggedLimits {
  int64_t sequences, tokens, keys;  // keys: of packed ones, of all sequences
  int64_t key_len;                  // of a sequence
  int64_t page_ids;
  int64_t workers;
};

// What kernels of a sequence depend on beside its rows.
enum class KeysKind { none, some, tree };

// What lies in pages, if anything does.
constexpr Operand paged_operands[] = {key_operand, value_operand, key_scales_operand, value_scales_operand};
constexpr int paged_operand_count = 4;

// What both kinds of keys and values have: where they lie, and what else a call tells.
struct RaggedCall {
  AttentionCall call;        // lifted to one batch entry, but for pages: what there is of these is their tensor
  AttentionProblem checked;  // of any sequence
  PageShape pages;           // size 0: keys are packed
  RaggedLimits limits;
};

}  // namespace fovea

struct fovea_schedule {
  fovea::RaggedCall made = {};
  const fovea::AttentionRow *choice[3][fovea::most_telling_rows + 1] = {};  // [KeysKind][rows]
  int64_t scratch_floats = 0;                                               // for any of them
  struct Free {
    void operator()(void *memory) const;
  };
  std::unique_ptr<void, Free> memory;  // holds the arrays of both steps
  fovea::RaggedStep steps[2];          // the present one, and room for the next
  int now = 0;
  int64_t *writer_step = nullptr, *writer = nullptr;  // of a page: who last wrote into it, and in which step
  int64_t step_count = 0;
  fovea::AttentionCall call = {};  // of the present step
  fovea::AttentionPlan plan;

  const fovea::RaggedStep &step() const { return steps[now]; }
};

namespace fovea {

[[nodiscard]] Status create_schedule(const Context *given, const AttentionArguments &arguments,
                                     const fovea_schedule_limits *limits, fovea_schedule **schedule);
[[nodiscard]] Status set_schedule(fovea_schedule *schedule, const fovea_step *step);

// Where a sequence's first query stands, and which key it leaves out if queries do so.
struct RaggedPositions {
  int64_t first, left_out;
};
RaggedPositions positions_of(const RaggedCall &made, const RaggedSequence &sequence);

// Cuts `step`, which has been read, into tasks, and plans all that its sequences share.
[[nodiscard]] Status plan_step(const fovea_schedule &schedule, RaggedStep *step, AttentionCall *call,
                               AttentionPlan *plan);

// Sequences that begin alike get an entry for that, behind all of them.
void find_prefixes(const RaggedCall &made, const AttentionProblem &problem, RaggedStep *step);

// Fills in a step's lists once its entries are cut.
void list_units(const AttentionProblem &problem, RaggedStep *step);

// Fills in the kernels for each number of rows, and the scratch memory that any of them wants.
void choose_kernels(fovea_schedule *schedule);

[[nodiscard]] Status run_schedule(const fovea_schedule *schedule, const fovea_attention_buffers *buffers,
                                  void *workspace, size_t workspace_size);

// Rows of a step as another operation has them, [token][head] of the types that the schedule was made with. What the
// score function has beside them is the dot product's: nothing.
struct RaggedRows {
  HeadRows query, key, value;  // of pages the data alone
  void *out;
  HeadStrides out_strides;
  const float *alibi_slopes = nullptr, *sinks = nullptr;
  int64_t alibi_stride = 0, sinks_stride = 0;
};
void run_schedule_on(const fovea_schedule &schedule, const RaggedRows &rows, void *workspace);

// One worker's share of a phase.
struct RaggedShare {
  int64_t phase, begin, end, worker;
};
[[nodiscard]] Status run_schedule_tasks(const fovea_schedule *schedule, const fovea_attention_buffers *buffers,
                                        void *workspace, size_t workspace_size, const RaggedShare &share);

// What a caller's own threads share: 0 phases where a score function has work of its own to do before attention.
int64_t schedule_phases(const fovea_schedule &schedule);
int64_t schedule_tasks(const fovea_schedule &schedule, int64_t phase);

// Where the present step's tokens stand in their sequences, I32.
fovea_tensor schedule_positions(const fovea_schedule &schedule);

// As snprintf.
size_t describe_schedule(const fovea_schedule &schedule, char *text, size_t size);

struct AppendedTensors {
  TensorArgument key, value, key_pages, value_pages;
  TensorArgument key_scales, value_scales;  // of pages of 8 or 4 bits
};
[[nodiscard]] Status append_to_pages(const fovea_schedule *schedule, AppendedTensors tensors,
                                     const fovea_append_options *options);
// What has been checked.
void write_to_pages(const fovea_schedule &schedule, const AppendedTensors &tensors);

}  // namespace fovea
