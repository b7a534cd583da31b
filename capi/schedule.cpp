// The C functions of schedules.
#include "ops/ragged/schedule.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_schedule_create(const fovea_context *context, const fovea_score *score, const fovea_tensor *query,
                                   const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                                   const fovea_attention_options *options, const fovea_schedule_limits *limits,
                                   fovea_schedule **schedule) {
  return guarded([&] {
    return create_schedule(context, {score, query, key, nullptr, value, out, options}, limits, schedule);
  });
}

void fovea_schedule_destroy(fovea_schedule *schedule) { delete schedule; }

fovea_status fovea_schedule_set(fovea_schedule *schedule, const fovea_step *step) {
  return guarded([&] { return set_schedule(schedule, step); });
}

fovea_tensor fovea_schedule_positions(const fovea_schedule *schedule) {
  return schedule == nullptr ? contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr) : schedule_positions(*schedule);
}

size_t fovea_schedule_workspace_size(const fovea_schedule *schedule) {
  return schedule == nullptr ? 0 : schedule->plan.workspace_size;
}

size_t fovea_schedule_describe(const fovea_schedule *schedule, char *text, size_t size) {
  return schedule == nullptr ? 0 : describe_schedule(*schedule, text, size);
}

fovea_status fovea_schedule_run(const fovea_schedule *schedule, const fovea_attention_buffers *buffers, void *workspace,
                                size_t workspace_size) {
  return guarded([&] { return run_schedule(schedule, buffers, workspace, workspace_size); });
}

int64_t fovea_schedule_phases(const fovea_schedule *schedule) {
  return schedule == nullptr ? 0 : schedule_phases(*schedule);
}

int64_t fovea_schedule_tasks(const fovea_schedule *schedule, int64_t phase) {
  return schedule == nullptr ? 0 : schedule_tasks(*schedule, phase);
}

fovea_status fovea_schedule_run_tasks(const fovea_schedule *schedule, const fovea_attention_buffers *buffers,
                                      void *workspace, size_t workspace_size, int64_t phase, int64_t begin, int64_t end,
                                      int64_t worker) {
  return guarded([&] {
    return run_schedule_tasks(schedule, buffers, workspace, workspace_size, {phase, begin, end, worker});
  });
}

fovea_status fovea_schedule_append(const fovea_schedule *schedule, const fovea_tensor *key, const fovea_tensor *value,
                                   const fovea_tensor *key_pages, const fovea_tensor *value_pages,
                                   const fovea_append_options *options) {
  return guarded([&] { return append_to_pages(schedule, {key, value, key_pages, value_pages, {}, {}}, options); });
}
