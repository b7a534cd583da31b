// Parallel loop over independent tasks. The implementation is the only file that includes oneTBB.
#pragma once

#include <cstdint>

#include "runtime/context.hpp"

namespace fovea {

// A borrowed callable: work(worker, task), no allocation.
class TaskBody {
 public:
  template <class Function>
  TaskBody(const Function &function)  // NOLINT(google-explicit-constructor): made to be passed a lambda
      : function_(&function),
        call_([](const void *f, int worker, int64_t task) { (*static_cast<const Function *>(f))(worker, task); }) {}
  void operator()(int worker, int64_t task) const { call_(function_, worker, task); }

 private:
  const void *function_;
  void (*call_)(const void *, int, int64_t);
};

// Calls body(worker, task) once for every task in [0, task_count). Tasks run in any order; `worker` is in [0, workers)
// and no two calls with one worker overlap, so it may index scratch memory. workers == 1 runs on the calling thread.
void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body);

// Threads of the calling thread's arena.
int arena_concurrency();

}  // namespace fovea
