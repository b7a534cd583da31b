// Workers draw task numbers from one counter, in order: large tasks first or last is the caller's choice, balance comes
// by itself, and scratch memory belongs to the worker and not to the thread. Results do not depend on who runs what.
//
// A task of a later stage waits for those before it. Every one of them has been drawn by then, so is running: the wait
// is at most a task long, too short to put a thread to sleep for; where that task has lost its core the wait yields.
#include "runtime/parallel.hpp"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace fovea {
namespace {

struct Crew {
  const TaskList &list;
  std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int64_t> done{0};
};

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

void work(void *crew_pointer, int64_t worker) {
  Crew &crew = *static_cast<Crew *>(crew_pointer);
  const TaskList::Part *part = crew.list.begin();
  const int64_t last_needed = crew.list.end()[-1].needed;
  for (;;) {
    const int64_t task = crew.next.fetch_add(1, std::memory_order_relaxed);
    while (task >= part->end) {
      if (++part == crew.list.end()) return;
    }
    if (part->needed > 0) wait_until(crew.done, part->needed);
    part->body(static_cast<int>(worker), task - part->begin);
    if (task < last_needed) crew.done.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace

void run_tasks(const Context &context, int workers, const TaskList &list) {
  if (workers <= 1 || list.total() <= 1) {
    for (const TaskList::Part &part : list) {
      for (int64_t task = part.begin; task < part.end; ++task) part.body(0, task - part.begin);
    }
    return;
  }
  Crew crew{.list = list};
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

void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body) {
  TaskList list;
  list.add(task_count, body);
  run_tasks(context, workers, list);
}

void run_ranges(const Context &context, int workers, int64_t task_count, TaskBody body) {
  struct Range {
    alignas(64) std::atomic<int64_t> next;
    int64_t end;
  };
  constexpr int64_t most_ranges = 64;
  const int64_t crew = std::min<int64_t>(workers, task_count);
  const int64_t count = std::min(crew, most_ranges);  // more workers share them
  if (count <= 1) return run_tasks(context, 1, task_count, body);
  Range ranges[most_ranges];
  for (int64_t r = 0; r < count; ++r) {
    ranges[r].next.store(task_count / count * r + std::min(task_count % count, r), std::memory_order_relaxed);
    if (r > 0) ranges[r - 1].end = ranges[r].next.load(std::memory_order_relaxed);
  }
  ranges[count - 1].end = task_count;
  run_tasks(context, static_cast<int>(crew), crew, [&](int worker, int64_t own) {
    for (int64_t r = own; r < own + count; ++r) {
      Range &range = ranges[r % count];
      for (;;) {
        const int64_t task = range.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= range.end) break;
        body(worker, task);
      }
    }
  });
}

int arena_concurrency() { return oneapi::tbb::this_task_arena::max_concurrency(); }

}  // namespace fovea
