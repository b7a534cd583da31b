// Threads that cannot be created and memory that cannot be had while oneTBB starts: a shortage, so calls go on with the
// threads there are, or say FOVEA_OUT_OF_MEMORY; they neither hang nor crash, and what they give is right.
#include "support/shortage.hpp"

#include <doctest/doctest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "support/child.hpp"
#include "support/contexts.hpp"
#include "support/ready_calls.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr int kThreads = 4;

bool skipped() {
  if (FOVEA_TEST_HAS_SHORTAGES == 0)
    MESSAGE("skipped: this build's functions cannot be replaced (sanitizer or not glibc)");
  return FOVEA_TEST_HAS_SHORTAGES == 0;
}

using Outputs = std::vector<std::vector<float>>;

// What one thread gives: this process does not start oneTBB, its children do.
Outputs expected_outputs(const std::vector<ReadyCall> &operations) {
  Outputs outputs;
  for (const ReadyCall &operation : operations) {
    REQUIRE_OK(operation.run(shared_context("base", 1)));
    outputs.push_back(operation.output());
  }
  return outputs;
}

// In an arena of several threads, whatever this machine has.
template <typename Body>
void in_arena(Body body) {
  const oneapi::tbb::global_control several(oneapi::tbb::global_control::max_allowed_parallelism, kThreads);
  oneapi::tbb::task_arena(kThreads).execute(body);
}

bool all_right(const std::vector<ReadyCall> &operations, const Outputs &expected) {
  bool right = true;
  for (size_t n = 0; n < operations.size(); ++n) {
    const fovea_status status = operations[n].run(shared_context("base"));
    right = right && status == FOVEA_OK && same_bits(operations[n].output(), expected[n]);
  }
  return right;
}

// Runs all operations where so many threads can be created.
void check_with_threads(int64_t count) {
  const std::vector<ReadyCall> operations = ready_calls({});
  const Outputs expected = expected_outputs(operations);
  CHECK_EQ(outcome_in_child([&] {
             bool right = true;
             allow_threads(count);
             in_arena([&] {
               for (int round = 0; round < 3; ++round) right = all_right(operations, expected) && right;
             });
             return right;
           }),
           "");
}

fovea_status run_in_new_context(const ReadyCall &operation) {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_isa = "base";
  fovea_context *context = nullptr;
  fovea_status status = fovea_context_create(&options, &context);
  if (status == FOVEA_OK) status = operation.run(context);
  fovea_context_destroy(context);
  return status;
}

// Lets the first allocation of a process's first call fail, or all from there on, then the second, and so on until the
// call needs no more. What became of the calls that did not do as they should.
std::string failures_of_allocations(bool and_all_that_follow) {
  const std::vector<ReadyCall> operations = {ready_calls({}).front()};
  const Outputs expected = expected_outputs(operations);
  auto *const failed = static_cast<volatile bool *>(
      mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *failed = true;
  std::string failures;
  int64_t count = 0;
  for (; *failed; ++count) {
    const std::string outcome = outcome_in_child(
        [&] {
          fail_allocation_after(count, and_all_that_follow);
          const fovea_status status = run_in_new_context(operations[0]);
          *failed = stop_failing();
          if (status != FOVEA_OK && status != FOVEA_OUT_OF_MEMORY) return false;
          if (status == FOVEA_OK && !same_bits(operations[0].output(), expected[0])) return false;
          return run_in_new_context(operations[0]) == FOVEA_OK && same_bits(operations[0].output(), expected[0]);
        },
        2);
    if (!outcome.empty()) failures += " " + std::to_string(count) + ": " + outcome;
  }
  CHECK(count > 10);
  return failures;
}

}  // namespace

TEST_SUITE("shortages") {
  TEST_CASE("no thread can be created: calls run on their own thread") {
    if (skipped()) return;
    check_with_threads(0);
  }

  TEST_CASE("some threads can be created, not as many as oneTBB wants: it would end the process") {
    if (skipped()) return;
    for (int64_t count = 1; count < kThreads; ++count) {
      CAPTURE(count);
      check_with_threads(count);
    }
  }

  TEST_CASE("there were enough threads when it was tried, then there are none") {
    if (skipped()) return;
    check_with_threads(kThreads - 1);
  }

  TEST_CASE("a shortage that ends: threads are used again") {
    if (skipped()) return;
    const std::vector<ReadyCall> operations = ready_calls({});
    const Outputs expected = expected_outputs(operations);
    CHECK_EQ(outcome_in_child([&] {
               bool right = true;
               allow_threads(0);
               in_arena([&] {
                 right = all_right(operations, expected);
                 const int64_t before = threads_asked_for();
                 right = all_right(operations, expected) && right;
                 right = right && threads_asked_for() == before;  // not tried at every call
                 allow_threads(INT64_MAX);
                 std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                 right = all_right(operations, expected) && right;
                 right = right && threads_asked_for() >= before + 2 * (kThreads - 1);
               });
               return right;
             }),
             "");
  }

  TEST_CASE("a caller whose group of tasks is cancelled gets the whole result") {
    const std::vector<ReadyCall> operations = ready_calls({});
    const Outputs expected = expected_outputs(operations);
    CHECK_EQ(outcome_in_child([&] {
               bool right = true;
               in_arena([&] {
                 oneapi::tbb::task_group_context group;
                 oneapi::tbb::parallel_for(
                     0, 1,
                     [&](int) {
                       group.cancel_group_execution();
                       right = all_right(operations, expected);
                     },
                     group);
               });
               return right;
             }),
             "");
  }

  TEST_CASE("no memory for the default context: a status, and the next call makes it") {
    if (skipped()) return;
    CHECK_EQ(outcome_in_child([] {
               float number = 0;
               const int64_t shape[] = {1};
               const fovea_tensor x = fovea_tensor_contiguous(&number, FOVEA_F32, 1, shape);
               fail_allocation_after(0, true);
               const fovea_status status = fovea_exp(nullptr, &x, &x);
               const bool failed = stop_failing();
               const std::string message = fovea_last_error();
               return failed && status == FOVEA_OUT_OF_MEMORY && message.find("memory") != std::string::npos &&
                      number == 0 && fovea_exp(nullptr, &x, &x) == FOVEA_OK && number == 1;
             }),
             "");
  }

  TEST_CASE("memory that cannot be had while oneTBB starts, from whichever allocation on") {
    if (skipped()) return;
    CHECK_EQ(failures_of_allocations(false), "");
    CHECK_EQ(failures_of_allocations(true), "");
  }
}
