// A caller's own parallel loop: threads that take the indices in a scrambled order. It does not allocate while it runs.
#pragma once

#include <fovea/fovea.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace testing {

class ThreadPool {
 public:
  explicit ThreadPool(int threads, int64_t scramble = 0) : scramble_(scramble) {
    for (int n = 1; n < threads; ++n) workers_.emplace_back([this] { serve(); });
  }
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread &worker : workers_) worker.join();
  }
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  // A fovea_parallel_for; user is the pool.
  static void parallel_for(void *user, int64_t count, fovea_work work, void *work_data) {
    static_cast<ThreadPool *>(user)->run(count, work, work_data);
  }

  int64_t loops() const { return loops_; }

 private:
  void run(int64_t count, fovea_work work, void *work_data) {
    const std::lock_guard one_caller(caller_mutex_);
    {
      const std::lock_guard lock(mutex_);
      count_ = count;
      work_ = work;
      work_data_ = work_data;
      next_ = 0;
      busy_ = static_cast<int>(workers_.size());
      step_ = scramble_ == 0 ? 1 : coprime_step(count);
      ++loops_;
    }
    wake_.notify_all();
    take_all();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

  int64_t coprime_step(int64_t count) const {
    int64_t step = scramble_ + loops_;
    while (std::gcd(step, count) != 1) ++step;
    return step;
  }

  void take_all() {
    for (int64_t n = next_++; n < count_; n = next_++) work_(work_data_, (n * step_ + scramble_) % count_);
  }

  void serve() {
    for (int64_t seen = 0;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || loops_ != seen; });
        if (stop_) return;
        seen = loops_;
      }
      take_all();
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex caller_mutex_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0, loops_ = 0, step_ = 1, scramble_ = 0;
  fovea_work work_ = nullptr;
  void *work_data_ = nullptr;
  int busy_ = 0;
  bool stop_ = false;
};

// A context that runs on such a pool.
class PoolContext {
 public:
  PoolContext(const std::string &isa, int threads, int64_t scramble) : pool_(threads, scramble) {
    fovea_context_options options{};
    options.struct_size = sizeof options;
    options.max_isa = isa.c_str();
    options.max_threads = threads;
    options.parallel_for = ThreadPool::parallel_for;
    options.parallel_for_user = &pool_;
    if (fovea_context_create(&options, &context_) != FOVEA_OK) context_ = nullptr;
  }
  ~PoolContext() { fovea_context_destroy(context_); }
  PoolContext(const PoolContext &) = delete;
  PoolContext &operator=(const PoolContext &) = delete;

  const fovea_context *get() const { return context_; }
  const ThreadPool &pool() const { return pool_; }

 private:
  ThreadPool pool_;
  fovea_context *context_ = nullptr;
};

}  // namespace testing
