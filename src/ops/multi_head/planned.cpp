#include "ops/multi_head/planned.hpp"

#include <new>

#include "ops/attention/run_check.hpp"
#include "ops/multi_head/check.hpp"
#include "ops/multi_head/planned_check.hpp"

namespace fovea {
namespace {

constexpr const fovea_tensor *fovea_mha_options::*page_options[] = {
    &fovea_mha_options::key_pages, &fovea_mha_options::value_pages, &fovea_mha_options::key_scales,
    &fovea_mha_options::value_scales};

// A run's own copy of the plan with its data.
struct Run {
  MultiHeadCall call;
  MultiHeadTensors tensors;
  fovea_tensor pages[paged_operand_count], alibi_slopes, sinks;

  explicit Run(const fovea_mha_plan &plan) : call(plan.call), tensors(plan.tensors) {
    call.has_data = call.planned = true;
    for (int n = 0; n < rotary_tensor_count; ++n) {
      if (call.rotary.*rotary_tensors[n] != nullptr) call.rotary.*rotary_tensors[n] = &plan.rotary[n];
    }
    for (int n = 0; n < paged_operand_count; ++n) {
      const fovea_tensor *planned = plan.pages[n];
      if (planned != nullptr) pages[n] = *planned;
      call.options.*page_options[n] = planned == nullptr ? nullptr : &pages[n];
    }
    copy(plan.alibi_slopes, &alibi_slopes, &call.attention.alibi_slopes);
    copy(plan.sinks, &sinks, &call.attention.sinks);
    if (plan.turns_by_schedule) {
      call.positions = schedule_positions(*call.options.schedule);
      call.rotary.positions = &call.positions;
    }
  }
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  // A schedule's step has a number of tokens of its own.
  Status set_tokens() {
    if (call.options.schedule == nullptr) return FOVEA_OK;
    const int64_t tokens = call.options.schedule->step().tokens;
    FOVEA_CHECK(check_planned_tokens(call, tokens));
    for (TensorArgument MultiHeadTensors::*tensor :
         {&MultiHeadTensors::query, &MultiHeadTensors::key, &MultiHeadTensors::value, &MultiHeadTensors::out}) {
      shorten(tokens, &(tensors.*tensor));
    }
    for (Sequences MultiHeadCall::*rows :
         {&MultiHeadCall::query, &MultiHeadCall::key, &MultiHeadCall::value, &MultiHeadCall::out}) {
      (call.*rows).length = tokens;
    }
    call.attends = tokens > 0;
    return plan_multi_head(&call);
  }

 private:
  static void copy(const fovea_tensor *planned, fovea_tensor *to, const fovea_tensor **option) {
    if (planned != nullptr) *to = *planned;
    *option = planned == nullptr ? nullptr : to;
  }
  static void shorten(int64_t tokens, TensorArgument *tensor) {
    const fovea_tensor *whole = *tensor;
    if (whole == nullptr) return;
    fovea_tensor some = *whole;
    some.shape[0] = tokens;
    *tensor = TensorArgument(&some);
  }
};

void set_data(const void *data, TensorArgument *tensor, Sequences *rows) {
  const fovea_tensor *planned = *tensor;
  rows->data = const_cast<void *>(data);
  if (planned == nullptr) return;
  fovea_tensor bound = *planned;
  bound.data = const_cast<void *>(data);
  *tensor = TensorArgument(&bound);
}

// Keys are the query, and values the keys, where they were not planned.
void bind_rows(const fovea_mha_buffers &buffers, Run *run) {
  MultiHeadCall &call = run->call;
  set_data(buffers.query, &run->tensors.query, &call.query);
  set_data(run->tensors.key == nullptr ? buffers.query : buffers.key, &run->tensors.key, &call.key);
  set_data(run->tensors.value == nullptr ? call.key.data : buffers.value, &run->tensors.value, &call.value);
  set_data(buffers.out, &run->tensors.out, &call.out);
}

void bind_schedule(const fovea_mha_buffers &buffers, const fovea_attention_buffers &attention, Run *run) {
  void *const pages[] = {buffers.key_pages, buffers.value_pages, buffers.key_scales, buffers.value_scales};
  for (int n = 0; n < paged_operand_count; ++n) run->pages[n].data = pages[n];
  run->alibi_slopes.data = const_cast<void *>(attention.alibi_slopes);
  run->sinks.data = const_cast<void *>(attention.sinks);
}

}  // namespace

Status make_mha_plan(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
                     const fovea_mha_options *options, fovea_mha_plan **plan) {
  FOVEA_CHECK(expect_given(plan, "plan", "where to store the plan"));
  fovea_mha_plan made = {};
  MultiHeadCall &call = made.call;
  FOVEA_CHECK(check_multi_head(given, weights, tensors, options, &call));
  FOVEA_CHECK(check_planned_options(call));
  FOVEA_CHECK(plan_multi_head(&call));
  FOVEA_CHECK(check_planned_rotary(call));
  made.tensors = tensors;
  for (int n = 0; n < paged_operand_count; ++n) made.pages[n] = TensorArgument(call.options.*page_options[n]);
  made.alibi_slopes = TensorArgument(call.attention.alibi_slopes);
  made.sinks = TensorArgument(call.attention.sinks);
  for (int n = 0; n < rotary_tensor_count; ++n) {
    const fovea_tensor *tensor = call.rotary.*rotary_tensors[n];
    if (tensor != nullptr) made.rotary[n] = *tensor;
  }
  made.turns_by_schedule = call.rotary.positions == &call.positions;
  auto *created = new (std::nothrow) fovea_mha_plan(made);
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a plan");
  *plan = created;
  return FOVEA_OK;
}

size_t mha_workspace_size(const fovea_mha_plan &plan) {
  if (plan.call.options.schedule == nullptr) return plan.call.layout.size() + cache_line;
  Run run(plan);
  return run.set_tokens() == FOVEA_OK ? run.call.layout.size() + cache_line : 0;
}

Status run_mha_plan(const fovea_mha_plan *plan, const fovea_mha_buffers *given, void *workspace,
                    size_t workspace_size) {
  FOVEA_CHECK(expect_given(plan, "plan", "a plan"));
  fovea_mha_buffers buffers;
  FOVEA_CHECK(expect_given(given, "buffers", "the data of the run"));
  FOVEA_CHECK(read_options("buffers", given, &buffers));
  fovea_attention_buffers attention;
  FOVEA_CHECK(within("buffers.attention", read_options("buffers", buffers.attention, &attention)));
  attention.struct_size = sizeof attention;
  FOVEA_CHECK(check_mha_buffers(*plan, buffers, attention));
  Run run(*plan);
  FOVEA_CHECK(run.set_tokens());
  bind_rows(buffers, &run);
  if (run.call.options.schedule != nullptr) {
    bind_schedule(buffers, attention, &run);
    FOVEA_CHECK(check_bound_pages(run.call));
  } else {
    FOVEA_CHECK(within("buffers.attention", bind_buffers(&attention, &run.call.plan.call)));
  }
  FOVEA_CHECK(check_mha_workspace(run.call, workspace, workspace_size));
  FOVEA_CHECK(check_bound_tensors(run.tensors));
  void *memory = run.call.layout.size() == 0 ? nullptr : align_to_line(workspace);
  return run_multi_head(run.tensors, memory, &run.call);
}

}  // namespace fovea
