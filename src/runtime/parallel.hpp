// Parallel loops over tasks. The implementation is the only file that includes oneTBB.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/context.hpp"

namespace fovea {

// A borrowed callable: work(worker, task), no allocation.
class TaskBody {
 public:
  TaskBody() = default;
  template <class Function>
  TaskBody(const Function &function)  // NOLINT(google-explicit-constructor): made to be passed a lambda
      : object_(&function),
        call_([](const void *f, int worker, int64_t task) { (*static_cast<const Function *>(f))(worker, task); }) {}

  // object.method(task)
  template <auto method, class Object>
  static TaskBody of(const Object &object) {
    TaskBody body;
    body.object_ = &object;
    body.call_ = [](const void *o, int, int64_t task) { (static_cast<const Object *>(o)->*method)(task); };
    return body;
  }

  void operator()(int worker, int64_t task) const { call_(object_, worker, task); }

 private:
  const void *object_ = nullptr;
  void (*call_)(const void *, int, int64_t) = nullptr;
};

// Stages of tasks, each of which starts when the one before is done. Threads are woken once for all of them, and a
// worker that finds no more tasks of a stage goes on to the next.
class TaskList {
 public:
  struct Part {
    int64_t begin, end;  // numbers of its tasks, counted over the whole list
    int64_t needed;      // so many tasks, the first ones, must be done before it starts
    TaskBody body;
  };

  // What is added from here on waits for what was added before.
  void start_stage() { stage_begin_ = total_; }
  void add(int64_t task_count, TaskBody body) {
    if (task_count == 0) return;
    parts_[count_] = {total_, total_ + task_count, stage_begin_, body};
    total_ += task_count;
    ++count_;
  }

  int64_t total() const { return total_; }
  const Part *begin() const { return parts_.data(); }
  const Part *end() const { return begin() + count_; }

 private:
  std::array<Part, 12> parts_;
  size_t count_ = 0;
  int64_t total_ = 0;
  int64_t stage_begin_ = 0;
};

// Calls body(worker, task) once for every task in [0, task_count). Tasks run in any order; `worker` is in [0, workers)
// and no two calls with one worker overlap, so it may index scratch memory. workers == 1 runs on the calling thread.
void run_tasks(const Context &context, int workers, const TaskList &list);
void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body);

// The same, but each worker begins with tasks of its own, one after the other, and helps others when it is done: for
// passes over memory. Where two cores take turns at neighbouring pieces, each one's hardware prefetchers fetch what the
// other is writing.
void run_ranges(const Context &context, int workers, int64_t task_count, TaskBody body);

// Threads of the calling thread's arena.
int arena_concurrency();

}  // namespace fovea
