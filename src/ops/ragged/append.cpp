// Writes a step's new keys and values into pages.
#include <algorithm>
#include <optional>

#include "ops/positions/rotary.hpp"
#include "ops/ragged/check.hpp"
#include "ops/tensors/copy.hpp"
#include "ops/tensors/lift.hpp"
#include "ops/tensors/scaled.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr int64_t task_elements = 32768;    // at most
constexpr double cycles_per_element = 2.0;  // of single rows, which come from no cache

// Keys or values: new rows [tokens][head][dim], and pages [page][head][position][dim], of 8 or 4 bits with scales.
struct Side {
  const fovea_tensor *rows, *pages, *scales;
  Dtype from, to;
  int64_t heads, dim;

  Side(const fovea_tensor *new_rows, const fovea_tensor *its_pages, const fovea_tensor *its_scales)
      : rows(new_rows),
        pages(its_pages),
        scales(its_scales),
        from(static_cast<Dtype>(new_rows->dtype)),
        to(static_cast<Dtype>(its_pages->dtype)),
        heads(new_rows->shape[1]),
        dim(new_rows->shape[2]) {}
};

// Writes a task's tokens on one side. Rows wait for each other, whichever heads and tokens they are of: where one goes is
// asked for when it begins to wait, and scales are made of many at a time.
class SideWriter {
 public:
  SideWriter(const Side &side, const RowwiseKernels &kernels)
      : side_(side),
        kernels_(kernels),
        row_bytes_(side.pages->shape[3] * bytes_of(side.to)),
        most_(std::clamp<int64_t>(waiting_bytes / std::max<int64_t>(row_bytes_, 1), 1, most)) {}

  void write(int64_t token, int64_t page, int64_t position) {
    const fovea_tensor &rows = *side_.rows;
    for (int64_t head = 0; head < side_.heads; ++head) {
      const auto place = [&](const fovea_tensor &in) {
        return element_at(in.data, static_cast<Dtype>(in.dtype),
                          page * in.strides[0] + head * in.strides[1] + position * in.strides[2]);
      };
      ScaledRow &row = waiting_[count_++];
      row.numbers = place(*side_.pages);
      row.scales = side_.scales == nullptr ? nullptr : static_cast<Float16 *>(place(*side_.scales));
      row.floats = element_at(rows.data, side_.from, token * rows.strides[0] + head * rows.strides[1]);
      ask_for(row.numbers);
      if (count_ == most_) finish();
    }
  }

  // What still waits is written.
  void finish() {
    if (side_.scales == nullptr) {
      for (const ScaledRow *row = waiting_; row < waiting_ + count_; ++row) {
        convert_elements(kernels_, row->floats, side_.from, side_.dim, row->numbers, side_.to);
      }
    } else if (count_ > 0) {
      const int64_t groups = last_size(*side_.scales) / paired(side_.pages->dtype);
      kernels_.quantize_rows({.row = waiting_,
                              .count = count_,
                              .numbers_dtype = side_.to,
                              .group = side_.dim / groups,
                              .groups = groups,
                              .dtype = side_.from});
    }
    count_ = 0;
  }

 private:
  static constexpr int64_t most = 32, waiting_bytes = 4096;

  void ask_for(const void *row) const {
    const auto *bytes = static_cast<const char *>(row);
    for (int64_t i = 0; i < std::min(row_bytes_, waiting_bytes); i += cache_line) __builtin_prefetch(bytes + i, 1);
  }

  const Side &side_;
  const RowwiseKernels &kernels_;
  const int64_t row_bytes_, most_;
  ScaledRow waiting_[most];
  int64_t count_ = 0;
};

}  // namespace

void write_to_pages(const fovea_schedule &schedule, const AppendedTensors &tensors) {
  const RaggedStep &step = schedule.step();
  const Side key(tensors.key, tensors.key_pages, tensors.key_scales);
  std::optional<Side> value;  // none: they are parts of keys
  if (tensors.value != nullptr) value.emplace(tensors.value, tensors.value_pages, tensors.value_scales);
  const int64_t row_elements = key.heads * (key.dim + (value ? value->dim : 0));
  const Context &context = *schedule.plan.context;
  const int workers = workers_for(context, cycles_per_element * static_cast<double>(step.tokens * row_elements));
  const int64_t most_tokens = std::max<int64_t>(1, task_elements / std::max<int64_t>(1, row_elements));
  const int64_t tokens_per_task =
      std::clamp<int64_t>(ceil_div(step.tokens, workers == 1 ? 1 : int64_t{4} * workers), 1, most_tokens);
  const int64_t size = schedule.made.pages.size;
  run_tasks(context, workers, ceil_div(step.tokens, tokens_per_task), [&](int, int64_t task) {
    const int64_t first = task * tokens_per_task;
    const int64_t end = min_of(first + tokens_per_task, step.tokens);
    const RaggedSequence *sequence =
        std::upper_bound(step.sequences, step.sequences + step.sequence_count, first,
                         [](int64_t token, const RaggedSequence &s) { return token < s.query_start; }) -
        1;
    SideWriter keys(key, *context.kernels->rowwise);
    std::optional<SideWriter> values;
    if (value) values.emplace(*value, *context.kernels->rowwise);
    for (int64_t token = first; token < end; ++token) {
      while (token >= sequence->query_start + sequence->query_len) ++sequence;
      const int64_t position = sequence->key_len - sequence->query_len + token - sequence->query_start;
      const int64_t page = sequence->pages[position / size];
      keys.write(token, page, position % size);
      if (values) values->write(token, page, position % size);
    }
    keys.finish();
    if (values) values->finish();
  });
}

namespace {

// [T,H,D] as [1,H,T,D].
fovea_tensor heads_of_tokens(const fovea_tensor &rows) { return lift(rows, {2, 1, 3}); }

// New keys turned in memory of their own, as float32.
Status append_turned(const fovea_schedule &schedule, const AppendedTensors &tensors,
                     const fovea_append_options &options) {
  fovea_rotary_options rotary_options;
  FOVEA_CHECK(within("options.rotary", read_options("options", options.rotary, &rotary_options)));
  const int64_t tokens = schedule.step().tokens;
  const bool turns_rows = rotary_options.cosines != nullptr && rotary_options.cosines->rank == 3;
  const fovea_tensor positions = schedule_positions(schedule);
  if (rotary_options.positions == nullptr && !turns_rows) rotary_options.positions = &positions;
  rotary_options.struct_size = sizeof rotary_options;
  fovea_tensor given = heads_of_tokens(*tensors.key);
  given.shape[2] = tokens;
  MemoryLayout layout;
  const auto part = layout.add<float>({tokens, given.shape[1], given.shape[3]});
  if (!layout.fits())
    return fail(FOVEA_SIZE_OVERFLOW, "key is too long: its turned rows would exceed the address space");
  const Context &context = *schedule.plan.context;
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  const int64_t shape[] = {tokens, given.shape[1], given.shape[3]};
  const fovea_tensor turned = contiguous_tensor(part.in(workspace.data()), FOVEA_F32, 3, shape);
  const fovea_tensor out = heads_of_tokens(turned);
  FOVEA_CHECK(within("options.rotary", rotary(&context, &given, &out, &rotary_options)));
  FOVEA_CHECK(check_turning(tensors, rotary_options));
  AppendedTensors then = tensors;
  then.key = &turned;
  write_to_pages(schedule, then);
  return FOVEA_OK;
}

}  // namespace

Status append_to_pages(const fovea_schedule *schedule, AppendedTensors tensors, const fovea_append_options *given) {
  FOVEA_CHECK(expect_given(schedule, "schedule", "a schedule"));
  fovea_append_options options;
  FOVEA_CHECK(read_options("options", given, &options));
  tensors.key_scales = options.key_scales;
  tensors.value_scales = options.value_scales;
  FOVEA_CHECK(check_appended(*schedule, tensors));
  if (options.rotary != nullptr && schedule->step().tokens > 0) return append_turned(*schedule, tensors, options);
  write_to_pages(*schedule, tensors);
  return FOVEA_OK;
}

}  // namespace fovea
