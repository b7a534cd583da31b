// Hands out tasks. Those of a stage stand in one range for each worker, or in a single one, in their order. A
// worker empties its own range, then helps with the others: balance comes by itself, and scratch memory belongs to the
// worker and not to the thread. Results do not depend on who runs what.
//
// A task of a later stage waits for those before it. Every one of them has been drawn by then, so it is running: the
// wait is at most a task long, too short to put a thread to sleep for; where that task has lost its core the wait
// yields.
#include "runtime/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "runtime/float_mode.hpp"
#include "runtime/one_tbb.hpp"

namespace fovea {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void wait_until(const std::atomic<int64_t> &done, int64_t needed) {
  constexpr int patient = 256;  // some microseconds; then another thread may be waiting for this core
  for (int turn = 0; done.load(std::memory_order_acquire) < needed; ++turn) {
    turn < patient ? pause() : std::this_thread::yield();
  }
}

// Tasks [next, end) of one stage. `next` is shared: it is used as an atomic.
struct Range {
  alignas(64) int64_t next;
  int64_t end;
};

class Crew {
 public:
  Crew(const TaskList &list, int workers)
      : list_(list),
        ranges_per_stage_(list.sharing() == Sharing::in_order
                              ? 1
                              : std::min<int64_t>(workers, most_ranges / std::max<int64_t>(list.stages(), 1))) {
    Range *range = ranges_;
    for (const TaskList::Group *group = list.begin(); group != list.end();) {
      const TaskList::Group *next = next_stage(group);
      const int64_t tasks = next[-1].end - group->begin;
      const int64_t each = tasks / ranges_per_stage_;
      const int64_t longer = tasks % ranges_per_stage_;
      int64_t at = group->begin;
      for (int64_t r = 0; r < ranges_per_stage_; ++r, ++range) {
        range->next = at;
        at += each + (r < longer ? 1 : 0);
        range->end = at;
      }
      group = next;
    }
  }

  void work(int worker) {
    Range *stage_ranges = ranges_;
    for (const TaskList::Group *group = list_.begin(); group != list_.end(); group = next_stage(group)) {
      for (int64_t r = worker; r < worker + ranges_per_stage_; ++r) {
        empty(&stage_ranges[r % ranges_per_stage_], group, worker);
      }
      stage_ranges += ranges_per_stage_;
    }
  }

 private:
  static constexpr int64_t most_ranges = 128;  // more workers than there are ranges share them

  const TaskList::Group *next_stage(const TaskList::Group *group) const {
    const int64_t needed = group->needed;
    while (group != list_.end() && group->needed == needed) ++group;
    return group;
  }

  void empty(Range *range, const TaskList::Group *stage, int worker) {
    const std::atomic_ref<int64_t> next(range->next);
    const int64_t last_needed = list_.end()[-1].needed;
    while (next.load(std::memory_order_relaxed) < range->end) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= range->end) return;
      if (stage->needed > 0) wait_until(done_, stage->needed);
      const TaskList::Group *group = stage;
      while (task >= group->end) ++group;
      group->body(worker, task - group->begin);
      if (task < last_needed) done_.fetch_add(1, std::memory_order_release);
    }
  }

  const TaskList &list_;
  const int64_t ranges_per_stage_;
  alignas(64) std::atomic<int64_t> done_{0};
  Range ranges_[most_ranges];
};

void work(void *crew, int64_t worker) {
  const StandardFloatMode mode;
  static_cast<Crew *>(crew)->work(static_cast<int>(worker));
}

// False if something is left to do.
bool work_together(const Context &context, int workers, Crew *crew) {
  const CallersFloatMode mode;
  if (context.parallel_for == nullptr) return run_on_one_tbb(workers, work, crew);
  context.parallel_for(context.parallel_for_user, workers, work, crew);
  return true;
}

}  // namespace

int workers_for(const Context &context, double cycles) {
  constexpr double worth_a_thread = 65536;
  return cycles < worth_a_thread ? 1 : worker_limit(context);
}

void run_tasks(const Context &context, int workers, const TaskList &list) {
  if (workers <= 1 || list.total() <= 1) {
    for (const TaskList::Group &group : list) {
      for (int64_t task = group.begin; task < group.end; ++task) group.body(0, task - group.begin);
    }
    return;
  }
  Crew crew(list, workers);
  // Whichever worker it is finds and does all that is left: each task is drawn once.
  if (!work_together(context, workers, &crew)) crew.work(0);
}

void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body) {
  TaskList list;
  list.add(task_count, body);
  run_tasks(context, static_cast<int>(std::min<int64_t>(workers, task_count)), list);
}

}  // namespace fovea
