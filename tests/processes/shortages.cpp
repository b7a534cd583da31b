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
#include <new>
#include <thread>

#include "support/child.hpp"
#include "support/contexts.hpp"
#include "support/multi_head.hpp"
#include "support/paged_layer.hpp"
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

// On one thread, and without scratch memory from an earlier call.
OwnContext new_context() { return make_context("base", FOVEA_PRECISION_DEFAULT, 1); }

// Lets the call's first allocation fail and all that follow, then the second one and so on, until it needs no more:
// body() returns the status, untouched() whether a call that failed left everything as it was. How often it failed; -1
// where it did otherwise than it should.
template <typename Body, typename Untouched>
int times_out_of_memory(Body body, Untouched untouched) {
  for (int count = 0;; ++count) {
    const auto context = new_context();
    fovea_status status = FOVEA_OUT_OF_MEMORY;
    fail_allocation_after(count, true);
    try {
      status = body(context.get());
    } catch (const std::bad_alloc &) {  // the test's own
    }
    if (!stop_failing()) return status == FOVEA_OK ? count : -1;
    if (status != FOVEA_OK && (status != FOVEA_OUT_OF_MEMORY || !untouched())) return -1;
  }
}

bool holds_only(const ReadyCall &operation, unsigned char byte) {
  for (const Tensor<float> *output : operation.outputs) {
    const auto *bytes = reinterpret_cast<const unsigned char *>(output->data());
    for (size_t n = 0; n < output->memory().size(); ++n) {
      if (bytes[n] != byte) return false;
    }
  }
  return true;
}

}  // namespace

TEST_SUITE("shortages") {
  // The first of all: nothing in this process may have started oneTBB yet.
  TEST_CASE("oneTBB that could not start for lack of memory is not asked again, though there is memory again") {
    if (skipped()) return;
    const fovea_context *const context = shared_context("base");
    std::vector<float> numbers(1 << 20, 0.0f);
    const int64_t shape[] = {1 << 20};
    const fovea_tensor x = fovea_tensor_contiguous(numbers.data(), FOVEA_F32, 1, shape);
    CHECK_EQ(outcome_in_child([&] {
               fail_allocation_after(0, true);
               const int32_t threads = fovea_context_threads(context);
               bool right = stop_failing() && threads == 1;
               for (int round = 0; round < 3; ++round) right = fovea_exp(context, &x, &x) == FOVEA_OK && right;
               return right && threads_asked_for() == 0 && fovea_context_threads(context) == 1;
             }),
             "");
  }

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
    // All of them take longer than it takes until threads are tried again.
    const std::vector<ReadyCall> few(operations.begin(), operations.begin() + 3);
    const Outputs few_expected = expected_outputs(few);
    CHECK_EQ(outcome_in_child([&] {
               bool right = true;
               allow_threads(0);
               in_arena([&] {
                 right = all_right(operations, expected) && all_right(few, few_expected);
                 const int64_t before = threads_asked_for();
                 right = all_right(few, few_expected) && right;
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

  // Its count of requests for threads is wrong from then on: the next request would wait for ever.
  TEST_CASE("oneTBB that did not get its threads is not used again, though there are threads again") {
    if (skipped()) return;
    const std::vector<ReadyCall> operations = ready_calls({});
    const Outputs expected = expected_outputs(operations);
    CHECK_EQ(outcome_in_child([&] {
               bool right = true;
               allow_threads(kThreads - 1);
               in_arena([&] {
                 right = all_right(operations, expected);
                 allow_threads(INT64_MAX);
                 std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                 const int64_t before = threads_asked_for();
                 for (int round = 0; round < 3; ++round) right = all_right(operations, expected) && right;
                 right = right && threads_asked_for() == before;
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

  TEST_CASE("no memory for scratch: a status, and outputs as they were, in every operation") {
    if (skipped()) return;
    int failures = 0;
    for (const ReadyCall &operation : ready_calls({.many_queries = 20, .keys = 24, .many_keys = 300, .columns = 64})) {
      CAPTURE(operation.name);
      const int failed =
          times_out_of_memory([&](const fovea_context *context) { return operation.run(context); },
                              [&] { return holds_only(operation, 0xA7) && fovea_last_error()[0] != '\0'; });
      CHECK(failed >= 0);
      failures += failed;
    }
    CHECK(failures > 50);
  }

  TEST_CASE("no memory for multi-head attention: out and the pages are as before") {
    if (skipped()) return;
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 4,
                                             .query_inputs = 10,
                                             .heads = 2,
                                             .kv_heads = 2,
                                             .head_dim = 6,
                                             .value_dim = 5,
                                             .outputs = 10},
                                            Inputs::kOne, random);
    PagedLayer paged(shared_context("base", 1), layer.sizes, {.sequences = 2, .tokens = 8, .positions = 100});
    paged.grow({4, 4});
    const MhaWeights weights = layer.make_weights(shared_context("base", 1));
    const auto rotary = sized_options<fovea_rotary_options>();
    auto options = sized_options<fovea_mha_options>();
    options.rotary = &rotary;
    paged.give(&options);
    const Pieces all = pieces_of(2, 0, 4);
    const Tensor<float> x = packed_rows(layer.query, all), out({8, 10});
    const fovea_tensor x_view = x.view(), to = out.view();
    const std::vector<float> empty = paged.kept(1, paged.keys());
    const int failed = times_out_of_memory(
        [&](const fovea_context *context) {
          return fovea_multi_head_attention(context, weights.get(), &x_view, nullptr, nullptr, &to, &options);
        },
        [&] { return out.untouched() && paged.kept(1, paged.keys()) == empty; });
    CHECK(failed > 0);
    CHECK(paged.kept(1, paged.keys()) != empty);
  }
}
