// Workers draw task numbers from one counter, in order: large tasks first or last is the caller's choice, balance comes
// by itself, and scratch memory belongs to the worker and not to the thread. Results do not depend on who runs what.
#include "runtime/parallel.hpp"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>

namespace fovea {
namespace {

struct Crew {
  std::atomic<int64_t> next{0};
  int64_t task_count;
  TaskBody body;
};

void work(void *crew_pointer, int64_t worker) {
  Crew &crew = *static_cast<Crew *>(crew_pointer);
  for (;;) {
    const int64_t task = crew.next.fetch_add(1, std::memory_order_relaxed);
    if (task >= crew.task_count) return;
    crew.body(static_cast<int>(worker), task);
  }
}

}  // namespace

void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body) {
  if (workers <= 1 || task_count <= 1) {
    for (int64_t task = 0; task < task_count; ++task) body(0, task);
    return;
  }
  Crew crew{.task_count = task_count, .body = body};
  if (context.parallel_for != nullptr) {
    context.parallel_for(context.parallel_for_user, workers, work, &crew);
    return;
  }
  // Isolated: while a worker waits here it must not pick up the caller's unrelated tasks, which might call us again.
  oneapi::tbb::this_task_arena::isolate([&] {
    oneapi::tbb::parallel_for(
        0, workers, [&](int worker) { work(&crew, worker); }, oneapi::tbb::simple_partitioner());
  });
}

int arena_concurrency() { return oneapi::tbb::this_task_arena::max_concurrency(); }

}  // namespace fovea
