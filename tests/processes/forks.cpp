// Children forked while other threads are inside the library, or after it has used oneTBB: no lock is held there for
// ever, and no thread waited for that does not exist.
#include <doctest/doctest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

#include "support/child.hpp"
#include "support/contexts.hpp"
#include "support/paged_layer.hpp"
#include "support/ready_calls.hpp"
#include "support/sanitized.hpp"

using namespace testing;

namespace {

constexpr unsigned kPatience = 5;  // seconds; a child needs some milliseconds

// Threads that do something again and again until they are told to stop.
class Others {
 public:
  template <typename Body>
  Others(int count, Body body) {
    for (int n = 0; n < count; ++n) {
      threads_.emplace_back([this, body] {
        while (!stop_) body();
      });
    }
  }
  ~Others() {
    stop_ = true;
    for (std::thread &thread : threads_) thread.join();
  }
  Others(const Others &) = delete;
  Others &operator=(const Others &) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Outcomes of children forked one after the other, but for "".
template <typename Body>
std::string outcomes(int children, Body body) {
  std::string bad;
  for (int n = 0; n < children && bad.size() < 40; ++n) {
    const std::string outcome = outcome_in_child(body, kPatience);
    if (!outcome.empty()) bad += " " + std::to_string(n) + ": " + outcome;
  }
  return bad;
}

// Two tokens of one sequence.
bool use_pool(const fovea_context *context) {
  const fovea_kv_pool_sizes sizes = {sizeof sizes, 1, 1, 8, 8, 4, 2, 1, FOVEA_F32, FOVEA_F32, 0};
  const int64_t shape[] = {2, 1, 8}, one = 1, two = 2;
  float in[16] = {1}, out[16];
  const fovea_tensor x = fovea_tensor_contiguous(in, FOVEA_F32, 3, shape);
  int64_t sequence = -1;
  const fovea_tensor sequences = fovea_tensor_contiguous(&sequence, FOVEA_I64, 1, &one);
  const fovea_tensor tokens = fovea_tensor_contiguous(&two, FOVEA_I64, 1, &one);
  fovea_kv_pool *made = nullptr;
  fovea_schedule *planned = nullptr;
  bool right = fovea_kv_pool_create(&sizes, &made) == FOVEA_OK;
  const KvPool pool(made);
  fovea_step step;
  right = right && fovea_kv_pool_open(made, &sequence) == FOVEA_OK &&
          fovea_kv_pool_step(context, made, &sequences, &tokens, &step) == FOVEA_OK;
  if (!right) return false;
  const fovea_tensor keys = fovea_kv_pool_keys(made, 0), values = fovea_kv_pool_values(made, 0);
  auto limits = sized_options<fovea_schedule_limits>();
  limits.sequences = 1;
  right = fovea_schedule_create(context, nullptr, &x, &keys, &values, &x, nullptr, &limits, &planned) == FOVEA_OK;
  const OwnSchedule schedule(planned);
  auto buffers = sized_options<fovea_attention_buffers>();
  buffers.query = in;
  buffers.key = keys.data;
  buffers.value = values.data;
  buffers.out = out;
  return right && fovea_schedule_set(planned, &step) == FOVEA_OK &&
         fovea_schedule_append(planned, &x, &x, &keys, &values, nullptr) == FOVEA_OK &&
         fovea_schedule_run(planned, &buffers, nullptr, 0) == FOVEA_OK && fovea_kv_pool_length(made, sequence) == 2;
}

bool use_context() {
  fovea_context *context = nullptr;
  const bool right = fovea_context_create(nullptr, &context) == FOVEA_OK && use_pool(context);
  fovea_context_destroy(context);
  return right;
}

bool all_right(const std::vector<ReadyCall> &operations, const fovea_context *context,
               const std::vector<std::vector<float>> &expected) {
  for (size_t n = 0; n < operations.size(); ++n) {
    if (operations[n].run(context) != FOVEA_OK || !same_bits(operations[n].output(), expected[n])) return false;
  }
  return true;
}

std::vector<std::vector<float>> outputs(const std::vector<ReadyCall> &operations, const fovea_context *context) {
  std::vector<std::vector<float>> all;
  for (const ReadyCall &operation : operations) {
    REQUIRE_OK(operation.run(context));
    all.push_back(operation.output());
  }
  return all;
}

int64_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

bool skipped() {
  if (FOVEA_TEST_SANITIZED != 0) MESSAGE("skipped: a sanitizer's allocator may itself hang in such a child");
  return FOVEA_TEST_SANITIZED != 0;
}

}  // namespace

TEST_SUITE("forks") {
  TEST_CASE("a child may use the library that other threads use for the first time just then") {
    if (skipped()) return;
    for (int n = 0; n < 20; ++n) {
      CHECK_EQ(outcome_in_child([] {
                 const Others others(2, [] { use_pool(nullptr); });
                 return outcomes(3, [] { return use_pool(nullptr); }).empty();
               }),
               "");
    }
  }

  TEST_CASE("children of a process whose threads create and destroy pools, schedules and contexts") {
    if (skipped()) return;
    const Others others(3, [] { use_context(); });
    CHECK_EQ(outcomes(400, [] { return use_context() && use_pool(nullptr); }), "");
  }

  TEST_CASE("children of a process that has used oneTBB finish their calls") {
    const std::vector<ReadyCall> operations = ready_calls({});
    const fovea_context *context = shared_context(instruction_sets().back());
    const std::vector<std::vector<float>> expected = outputs(operations, context);
    CHECK_EQ(outcomes(5, [&] { return all_right(operations, context, expected); }), "");
    CHECK_EQ(outcomes(5,
                      [&] {
                        bool right = false;
                        std::thread([&] { right = all_right(operations, context, expected); }).join();
                        return right && fovea_context_threads(context) >= 1;
                      }),
             "");
  }

#if defined(__linux__)
  // In an arena that would have oneTBB create more threads than the parent had.
  TEST_CASE("children of a process that has used oneTBB do all their work on the calling thread") {
    const std::vector<ReadyCall> operations = ready_calls({});
    const fovea_context *context = shared_context(instruction_sets().back());
    const std::vector<std::vector<float>> expected = outputs(operations, context);
    CHECK_EQ(outcomes(3,
                      [&] {
                        bool right = false;
                        const oneapi::tbb::global_control several(oneapi::tbb::global_control::max_allowed_parallelism,
                                                                  4);
                        oneapi::tbb::task_arena(4).execute([&] { right = all_right(operations, context, expected); });
                        return right && threads_of_this_process() == 1;
                      }),
             "");
  }
#endif

  TEST_CASE("and children of one in which other threads are using oneTBB") {
    if (skipped()) return;
    const std::vector<ReadyCall> operations = ready_calls({});
    const std::vector<ReadyCall> others_operations = ready_calls({});
    const fovea_context *context = shared_context(instruction_sets().back());
    const std::vector<std::vector<float>> expected = outputs(operations, context);
    const Others others(1, [&] {
      for (const ReadyCall &operation : others_operations) static_cast<void>(operation.run(context));
    });
    CHECK_EQ(outcomes(25, [&] { return all_right(operations, context, expected); }), "");
  }
}
