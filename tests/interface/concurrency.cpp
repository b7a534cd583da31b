// Many callers at once on one context: every operation, the right bits, and each thread's own error message.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/attention_problem.hpp"
#include "support/ready_calls.hpp"

using namespace testing;

namespace {

constexpr int kCallers = 32;

// Starts the callers together; body(caller) returns how many of its checks failed (doctest's own are slow under
// contention).
template <typename Body>
int failures_of_callers(Body body) {
  std::atomic<int> ready{0}, failures{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&, caller] {
      for (++ready; ready < kCallers;) std::this_thread::yield();
      failures += body(caller);
    });
  }
  for (std::thread &thread : threads) thread.join();
  return failures;
}

struct Work {
  explicit Work(Random &random)
      : problem(make_attention(
            {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 20, .key_len = 60, .head_dim = 16, .value_dim = 16},
            random)),
        decode(make_attention(
            {.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = 2000, .head_dim = 16, .value_dim = 16}, random)),
        a({40, 50}),
        b({50, 60}) {
    a.fill_normal(random);
    b.fill_normal(random);
    for (const AttentionProblem *p : {&problem, &decode}) p->query.memory().freeze();
  }
  AttentionProblem problem, decode;
  Tensor<float> a, b;
};

struct Results {
  explicit Results(const Work &work)
      : problem(work.problem.make_result()),
        decode(work.decode.make_result(false)),
        product({40, 60}),
        softmax({40, 50}),
        tanh({40, 50}) {}
  AttentionResult problem, decode;
  Tensor<float> product, softmax, tanh;

  bool same(const Results &other) const {
    return same_bits(problem, other.problem) && same_bits(decode, other.decode) && same_bits(product, other.product) &&
           same_bits(softmax, other.softmax) && same_bits(tanh, other.tanh);
  }
};

int failed_calls(const fovea_context *context, const Work &work, const Results &results) {
  const fovea_tensor a = work.a.view(), b = work.b.view(), product = results.product.view(),
                     softmax = results.softmax.view(), tanh = results.tanh.view();
  const fovea_status statuses[] = {work.problem.run(context, results.problem), work.decode.run(context, results.decode),
                                   fovea_matmul(context, &a, &b, &product),
                                   fovea_masked_softmax(context, &a, nullptr, &softmax, nullptr),
                                   fovea_tanh(context, &a, &tanh)};
  int failed = 0;
  for (fovea_status status : statuses) failed += status != FOVEA_OK ? 1 : 0;
  return failed;
}

}  // namespace

TEST_SUITE("concurrency") {
  TEST_CASE("32 callers, one context, several operations") {
    for (int threads : {0, 1, 2}) {
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        CAPTURE(threads);
        Random random(base_seed());
        const Work work(random);
        const fovea_context *context = shared_context(isa, threads);
        const Results expected(work);
        REQUIRE(failed_calls(context, work, expected) == 0);
        CHECK(failures_of_callers([&](int) {
                int failed = 0;
                for (int repeat = 0; repeat < 5; ++repeat) {
                  const Results results(work);
                  failed += failed_calls(context, work, results);
                  failed += results.same(expected) ? 0 : 1;
                }
                return failed;
              }) == 0);
      }
    }
  }

  TEST_CASE("32 callers of the default context, from its first use") {
    Random random(base_seed());
    const Work work(random);
    const Results expected(work);
    std::vector<Results> results;
    for (int n = 0; n < kCallers; ++n) results.emplace_back(work);
    CHECK(failures_of_callers(
              [&](int caller) { return failed_calls(nullptr, work, results[static_cast<size_t>(caller)]); }) == 0);
    REQUIRE(failed_calls(nullptr, work, expected) == 0);
    for (const Results &result : results) CHECK(result.same(expected));
  }

  TEST_CASE("every operation by several callers at once, on one context and on the default one") {
    const ReadyCallSizes sizes = {.many_queries = 40, .keys = 60, .many_keys = 700, .rows = 40, .columns = 300};
    constexpr int callers = 4;
    std::vector<std::vector<ReadyCall>> operations;
    for (int n = 0; n < callers; ++n) operations.push_back(ready_calls(sizes));
    for (const fovea_context *context :
         {shared_context(instruction_sets().back(), 2), (const fovea_context *)nullptr}) {
      std::vector<std::vector<float>> expected;
      for (const ReadyCall &operation : operations[0]) {
        REQUIRE_OK(operation.run(context));
        expected.push_back(operation.output());
      }
      std::vector<std::string> wrong(callers);
      std::vector<std::thread> threads;
      for (size_t caller = 0; caller < callers; ++caller) {
        threads.emplace_back([&, caller] {
          const std::vector<ReadyCall> &own = operations[caller];
          for (size_t n = 0; n < own.size(); ++n) {
            const size_t which = (n + caller * own.size() / callers) % own.size();
            const bool right = own[which].run(context) == FOVEA_OK && same_bits(own[which].output(), expected[which]);
            if (!right) wrong[caller] += " " + own[which].name + ";";
          }
        });
      }
      for (std::thread &thread : threads) thread.join();
      for (const std::string &names : wrong) CHECK_EQ(names, "");
    }
  }

  TEST_CASE("contexts made and destroyed by many threads") {
    CHECK(failures_of_callers([&](int) {
            int failed = 0;
            for (int n = 0; n < 50; ++n) {
              fovea_context *context = nullptr;
              failed += fovea_context_create(nullptr, &context) != FOVEA_OK ? 1 : 0;
              failed += std::string(fovea_isa_name(context)).empty() ? 1 : 0;
              fovea_context_destroy(context);
            }
            return failed;
          }) == 0);
  }

  TEST_CASE("each thread keeps its own last error") {
    CHECK(failures_of_callers([&](int caller) {
            int failed = fovea_last_error()[0] != '\0' ? 1 : 0;  // none yet on this thread
            const int64_t wrong = -1 - caller;
            float x = 0;
            const int64_t shape[1] = {wrong};
            for (int n = 0; n < 200; ++n) {
              const fovea_tensor tensor = fovea_tensor_contiguous(&x, FOVEA_F32, 1, shape);
              failed += fovea_exp(nullptr, &tensor, &tensor) != FOVEA_BAD_SHAPE ? 1 : 0;
              failed += std::string(fovea_last_error()).find(std::to_string(wrong)) == std::string::npos ? 1 : 0;
            }
            return failed;
          }) == 0);
  }
}
