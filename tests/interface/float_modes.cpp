// Rounding modes, flushed denormals, unmasked exceptions: a caller's floating-point environment changes no bit of a
// result, on however many threads it is computed, and is as it was afterwards, sticky flags included.
#include <doctest/doctest.h>

#include <cfenv>

#include "support/contexts.hpp"
#include "support/float_environment.hpp"
#include "support/ready_calls.hpp"
#include "support/same_bits.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

struct Outcome {
  fovea_status status;
  FloatEnvironment after;
};

// Nothing but the call happens in that environment.
Outcome run_in(const FloatEnvironment &environment, const ReadyCall &operation, const fovea_context *context) {
  const FloatEnvironment before = float_environment();
  set_float_environment(environment);
  const fovea_status status = operation.run(context);
  const FloatEnvironment after = float_environment();
  set_float_environment(before);
  return {status, after};
}

void check_in(const NamedEnvironment &mode, const std::vector<ReadyCall> &operations, const fovea_context *context,
              const std::vector<std::vector<float>> &expected) {
  CAPTURE(mode.name);
  for (size_t n = 0; n < operations.size(); ++n) {
    CAPTURE(operations[n].name);
    const Outcome outcome = run_in(mode.environment, operations[n], context);
    REQUIRE_OK(outcome.status);
    CHECK(outcome.after == mode.environment);
    CHECK(same_bits(operations[n].output(), expected[n]));
  }
}

std::vector<std::vector<float>> outputs_on_one_thread(const std::vector<ReadyCall> &operations,
                                                      const std::string &isa) {
  std::vector<std::vector<float>> outputs;
  for (const ReadyCall &operation : operations) {
    REQUIRE_OK(operation.run(shared_context(isa, 1)));
    outputs.push_back(operation.output());
  }
  return outputs;
}

// A caller's loop that looks at the environment it is called in, and at the one that work leaves.
struct Loop {
  FloatEnvironment entered{}, left{};
  int calls = 0;

  static void run(void *user, int64_t count, fovea_work work, void *data) {
    auto *const loop = static_cast<Loop *>(user);
    loop->entered = float_environment();
    for (int64_t n = 0; n < count; ++n) work(data, n);
    loop->left = float_environment();
    ++loop->calls;
  }
};

}  // namespace

TEST_SUITE("float modes") {
  TEST_CASE("the caller's floating-point environment changes no bit, and is restored") {
    const std::vector<ReadyCall> operations = ready_calls({});
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const std::vector<std::vector<float>> expected = outputs_on_one_thread(operations, isa);
      const bool last = isa == instruction_sets().back();  // threads are the same for all
      int threads = 2;
      for (const NamedEnvironment &mode : float_environments()) {
        check_in(mode, operations, shared_context(isa, 1), expected);
        if (last) check_in(mode, operations, shared_context(isa, threads), expected);
        threads = threads == 4 ? 2 : threads + 1;
      }
    }
  }

  TEST_CASE("nor does that of the threads of the caller's own parallel loop") {
    const std::vector<ReadyCall> operations = ready_calls({});
    const std::string &isa = instruction_sets().back();
    const std::vector<std::vector<float>> expected = outputs_on_one_thread(operations, isa);
    for (const NamedEnvironment &mode : float_environments()) {
      CAPTURE(mode.name);
      const FloatEnvironment before = float_environment();
      set_float_environment(mode.environment);  // threads begin in that of the thread that starts them
      const PoolContext context(isa, 3, 5);
      set_float_environment(before);
      REQUIRE(context.get() != nullptr);
      for (size_t n = 0; n < operations.size(); ++n) {
        CAPTURE(operations[n].name);
        REQUIRE_OK(operations[n].run(context.get()));
        CHECK(same_bits(operations[n].output(), expected[n]));
      }
      CHECK(context.pool().loops() > 0);
    }
  }

  TEST_CASE("the caller's own parallel loop runs in the caller's environment") {
    const std::vector<ReadyCall> operations = ready_calls({});
    for (const NamedEnvironment &mode : float_environments()) {
      CAPTURE(mode.name);
      Loop loop;
      fovea_context_options options{};
      options.struct_size = sizeof options;
      options.max_threads = 3;
      options.parallel_for = Loop::run;
      options.parallel_for_user = &loop;
      fovea_context *context = nullptr;
      REQUIRE_OK(fovea_context_create(&options, &context));
      const Outcome outcome = run_in(mode.environment, operations.front(), context);
      REQUIRE_OK(outcome.status);
      CHECK(outcome.after == mode.environment);
      CHECK(loop.calls > 0);
      CHECK(loop.entered == mode.environment);
      CHECK(loop.left == mode.environment);
      fovea_context_destroy(context);
    }
  }

#if defined(__GLIBC__) && defined(__x86_64__)
  TEST_CASE("what a program sets through the C library, for the x87 unit too") {
    const std::vector<ReadyCall> operations = ready_calls({});
    const std::string &isa = instruction_sets().back();
    const std::vector<std::vector<float>> expected = outputs_on_one_thread(operations, isa);
    const fovea_context *context = shared_context(isa, 2);
    for (size_t n = 0; n < operations.size(); ++n) {
      CAPTURE(operations[n].name);
      std::fenv_t before;
      std::fegetenv(&before);
      std::feclearexcept(FE_ALL_EXCEPT);
      std::fesetround(FE_UPWARD);
      feenableexcept(FE_ALL_EXCEPT);
      const fovea_status status = operations[n].run(context);
      const int rounding = std::fegetround(), raised = std::fetestexcept(FE_ALL_EXCEPT), trapped = fegetexcept();
      std::fesetenv(&before);
      REQUIRE_OK(status);
      CHECK(rounding == FE_UPWARD);
      CHECK(raised == 0);
      CHECK(trapped == FE_ALL_EXCEPT);
      CHECK(same_bits(operations[n].output(), expected[n]));
    }
  }
#endif

  TEST_CASE("a call that fails restores the environment too") {
    for (const NamedEnvironment &mode : float_environments()) {
      CAPTURE(mode.name);
      const ReadyCall refused = {"refused", [](const fovea_context *c) { return fovea_exp(c, nullptr, nullptr); }, {}};
      const Outcome outcome = run_in(mode.environment, refused, nullptr);
      CHECK_EQ(outcome.status, FOVEA_NULL_POINTER);
      CHECK(outcome.after == mode.environment);
    }
  }
}
