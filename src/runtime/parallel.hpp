// Parallel loops over tasks.
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

// How workers share out the tasks of a stage.
//   in_ranges  each begins with a range of its own, one task after the other, and helps others when it is done. A core
//              finds what its last task or an earlier stage, cut alike, left in its caches; and where two cores take
//              turns at neighbouring pieces of memory, each one's prefetchers fetch what the other is writing.
//   in_order   all draw the next one: for few tasks of very different length, the longest first
enum class Sharing { in_ranges, in_order };

// Stages of tasks, each of which starts when the one before is done. Threads are woken once for all of them, and a
// worker that finds no more tasks of a stage goes on to the next.
class TaskList {
 public:
  struct Group {
    int64_t begin, end;  // numbers of its tasks, counted over the whole list
    int64_t needed;      // so many tasks, the first ones, must be done before it starts
    TaskBody body;
  };

  explicit TaskList(Sharing sharing = Sharing::in_ranges) : sharing_(sharing) {}

  // What is added from here on waits for what was added before.
  void start_stage() { stage_begin_ = total_; }
  void add(int64_t task_count, TaskBody body) {
    if (task_count == 0) return;
    if (stage_begin_ == total_) ++stages_;
    groups_[count_] = {total_, total_ + task_count, stage_begin_, body};
    total_ += task_count;
    ++count_;
  }

  Sharing sharing() const { return sharing_; }
  int64_t total() const { return total_; }
  int64_t stages() const { return stages_; }
  const Group *begin() const { return groups_.data(); }
  const Group *end() const { return begin() + count_; }

 private:
  Sharing sharing_;
  std::array<Group, 16> groups_;  // a backward pass of additive scores has 15
  size_t count_ = 0;
  int64_t total_ = 0;
  int64_t stage_begin_ = 0;
  int64_t stages_ = 0;
};

// How many workers to give work that would take one thread about so many cycles: waking another costs some
// microseconds, so that below 20 of them one is quicker alone. This is the one place that says when; callers estimate
// their cycles.
int workers_for(const Context &context, double cycles);

// Calls body(worker, task) once for every task in [0, task_count). Tasks run in any order; `worker` is in [0, workers)
// and no two calls with one worker overlap, so it may index scratch memory. workers == 1 runs on the calling thread.
void run_tasks(const Context &context, int workers, const TaskList &list);
void run_tasks(const Context &context, int workers, int64_t task_count, TaskBody body);

}  // namespace fovea
