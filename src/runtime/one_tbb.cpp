// The only file that includes oneTBB. What it does here is plain; the rest of this file is about when it cannot be
// asked to, found in oneTBB 2021.8 and much the same in later ones:
//
//   - An exception out of its first initialisation leaves that begun for ever: a thread that asks again spins. So one
//     thread starts it, in two halves, and after a failure no thread asks again.
//   - Threads are created when there is work, the first by the caller, the others by one another, in functions that must
//     not throw: where some can be created and others not, the process ends. So before the first time this file
//     tries whether there can be as many at once.
//   - Where the first one cannot be created, parallel_for throws. By then all its tasks have ended: what throws is caught
//     by the calling thread's dispatch loop, cancels what was not begun, and is thrown again when the others are done.
//     But the arena's count of requests for threads is one short from then on, and the next request would wait for it
//     for ever. So oneTBB is not used again.
//   - A forked child has its state but not its threads, nor is it known what these held at that moment.
//   - Its threads sleep in its code, which must not be unloaded: neither the shared object this code is part of, which
//     keeps oneTBB loaded, nor the code below, whose last lines a thread may still be about to run when a call returns.
//
// Without oneTBB a call does all its work on the calling thread.
#include "runtime/one_tbb.hpp"

#include <dlfcn.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

namespace fovea {
namespace {

enum class State {
  untouched,
  starting,  // a thread is about it; others wait
  started,   // its threads have not been needed yet, or cannot be had
  trying,    // a thread tries whether they can be had; others do without
  running,
  unusable
};
std::atomic<State> state{State::untouched};

std::atomic<int> threads_tried{0};  // so many could be created at once

using Clock = std::chrono::steady_clock;
std::atomic<Clock::rep> next_try{Clock::duration::min().count()};

void after_fork_in_child() {
  const State left = state.load(std::memory_order_relaxed);
  if (left != State::untouched && left != State::started) state.store(State::unusable, std::memory_order_relaxed);
}

[[maybe_unused]] const int forks_are_handled = pthread_atfork(nullptr, nullptr, after_fork_in_child);

State start() {
  try {
    static_cast<void>(oneapi::tbb::this_task_arena::max_concurrency());
    return State::started;
  } catch (...) {
    return State::unusable;
  }
}

bool is_started() {
  for (;;) {
    State now = state.load(std::memory_order_acquire);
    if (now == State::untouched && state.compare_exchange_strong(now, State::starting)) {
      now = start();
      state.store(now, std::memory_order_release);
      return now == State::started;
    }
    if (now != State::starting) return now != State::unusable;
    std::this_thread::yield();
  }
}

void *pass(void *gate) {
  const std::lock_guard wait(*static_cast<std::mutex *>(gate));
  return nullptr;
}

bool can_have_threads(int count) {
  const std::unique_ptr<pthread_t[]> threads(new (std::nothrow) pthread_t[static_cast<size_t>(count)]);
  if (threads == nullptr) return false;
  std::mutex gate;
  gate.lock();
  int created = 0;
  while (created < count && pthread_create(&threads[created], nullptr, pass, &gate) == 0) ++created;
  gate.unlock();
  for (int n = 0; n < created; ++n) pthread_join(threads[n], nullptr);
  return created == count;
}

// A library linked into a plugin is unloaded with it. There is nothing to keep where this is part of the program
// itself.
void stay_loaded() {
#if defined(RTLD_NOLOAD) && defined(RTLD_NODELETE)
  Dl_info here;
  if (dladdr(reinterpret_cast<const void *>(&stay_loaded), &here) == 0 || here.dli_fname == nullptr) return;
  static_cast<void>(dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
#endif
}

// The state after it, which was `before` if that cannot be.
State try_threads(int count, State before) {
  if (!can_have_threads(count)) {
    constexpr auto pause = std::chrono::seconds(1);
    next_try.store((Clock::now() + pause).time_since_epoch().count(), std::memory_order_relaxed);
    return before;
  }
  stay_loaded();
  try {
    oneapi::tbb::this_task_arena::isolate([] {});  // the other half of its initialisation
  } catch (...) {
    return State::unusable;
  }
  threads_tried.store(count, std::memory_order_relaxed);
  return State::running;
}

bool has_threads() {
  const int wanted = oneapi::tbb::this_task_arena::max_concurrency() - 1;
  State now = state.load(std::memory_order_acquire);
  if (now == State::running && wanted <= threads_tried.load(std::memory_order_relaxed)) return true;
  if (now != State::started && now != State::running) return false;
  if (Clock::now().time_since_epoch().count() < next_try.load(std::memory_order_relaxed)) return false;
  if (!state.compare_exchange_strong(now, State::trying)) return false;
  const State then = try_threads(wanted, now);
  State trying = State::trying;  // unless another call has found it unusable
  return state.compare_exchange_strong(trying, then) && then == State::running &&
         wanted <= threads_tried.load(std::memory_order_relaxed);
}

}  // namespace

int one_tbb_concurrency() { return is_started() ? oneapi::tbb::this_task_arena::max_concurrency() : 1; }

bool run_on_one_tbb(int workers, void (*work)(void *data, int64_t worker), void *data) {
  if (!is_started() || !has_threads()) return false;
  try {
    // A context of its own: the caller may be a task of a group that is cancelled, which must not leave a result half
    // done.
    oneapi::tbb::task_group_context context(oneapi::tbb::task_group_context::isolated);
    // Isolated: while a worker waits here it must not pick up the caller's unrelated tasks, which might call us again.
    oneapi::tbb::this_task_arena::isolate([&] {
      oneapi::tbb::parallel_for(
          0, workers, [&](int worker) { work(data, worker); }, oneapi::tbb::simple_partitioner(), context);
    });
    if (!context.is_group_execution_cancelled()) return true;
  } catch (...) {
  }
  state.store(State::unusable, std::memory_order_release);
  return false;
}

}  // namespace fovea
