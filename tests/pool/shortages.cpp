// Memory that cannot be had: a pool says so and is as before, whichever allocation fails; and what needs none.
#include "support/shortage.hpp"

#include <doctest/doctest.h>

#include <new>

#include "errors.hpp"
#include "support/kv_pool.hpp"

using namespace testing;

namespace {

bool skipped() {
  if (FOVEA_TEST_HAS_SHORTAGES == 0)
    MESSAGE("skipped: this build's functions cannot be replaced (sanitizer or not glibc)");
  return FOVEA_TEST_HAS_SHORTAGES == 0;
}

// Lets the call's first allocation fail, then the second one and so on, until it needs no more; check() after each
// failure. How often it failed.
template <typename Call, typename Check>
int times_out_of_memory(Call call, Check check) {
  for (int count = 0;; ++count) {
    fail_allocation_after(count, false);
    const fovea_status status = call();
    const std::string said = fovea_last_error();
    if (!stop_failing()) {
      CHECK(status == FOVEA_OK);
      return count;
    }
    CHECK(status == FOVEA_OUT_OF_MEMORY);
    CHECK(said.find("memory") != std::string::npos);
    check();
  }
}

}  // namespace

TEST_SUITE("pool shortages") {
  TEST_CASE("no memory for a pool") {
    if (skipped()) return;
    for (const int64_t positions : {100, 1000000}) {  // and what is large enough for huge pages
      const fovea_kv_pool_sizes sizes = PoolSizes{.positions = positions}.sizes();
      fovea_kv_pool *pool = nullptr;
      const int failed =
          times_out_of_memory([&] { return fovea_kv_pool_create(&sizes, &pool); }, [&] { CHECK(pool == nullptr); });
      CHECK(failed > 8);
      fovea_kv_pool_destroy(pool);
    }
  }

  TEST_CASE("no memory for a fork, for a step, for what is restored: nothing has changed") {
    if (skipped()) return;
    const KvPool pool = make_pool({.positions = 4000, .page_size = 1, .sequences = 40});
    const int64_t a = open_sequence(pool);
    fill(pool, a, 100, 1);
    const int64_t b = fork_sequence(pool, a, 50), c = open_sequence(pool);
    const std::vector<unsigned char> bytes = save(pool, a);
    const PoolState before = state_of(pool, {a, b, c});
    const auto unchanged = [&] { CHECK(state_of(pool, {a, b, c}) == before); };
    int64_t made = -7;
    CHECK(times_out_of_memory([&] { return fovea_kv_pool_fork(pool.get(), a, 70, &made); },
                              [&] {
                                unchanged();
                                CHECK(made == -7);
                              }) > 0);
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), made));
    made = -7;
    CHECK(times_out_of_memory([&] { return fovea_kv_pool_restore(pool.get(), bytes.data(), bytes.size(), &made); },
                              [&] {
                                unchanged();
                                CHECK(made == -7);
                              }) > 0);
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), made));
    const std::vector<int64_t> numbers = {c, a, b}, counts = {300, 500, 400};
    const fovea_tensor sequences = vector_of(numbers), tokens = vector_of(counts);
    fovea_step present, step = {};
    REQUIRE_OK(step_status(pool, {a}, {0}, &present));
    CHECK(times_out_of_memory([&] { return fovea_kv_pool_step(nullptr, pool.get(), &sequences, &tokens, &step); },
                              [&] {
                                CHECK(step.struct_size == 0);
                                CHECK(numbers_of(present).page_ids == before.pages[0]);  // still there
                                CHECK(state_of(pool, {a, b, c}) == before);
                                REQUIRE_OK(step_status(pool, {a}, {0}, &present));
                              }) >= 3);
    CHECK(numbers_of(step).key_lens == std::vector<int64_t>{300, 600, 450});
    CHECK(holds(pool, a, 0, stamps_from(1, 100)));
  }

  TEST_CASE("a pool that is at work needs no memory") {
    if (skipped()) return;
    const KvPool pool = make_pool({.positions = 400, .page_size = 16});
    const int64_t a = open_sequence(pool), b = open_sequence(pool);
    fill(pool, a, 100, 1);
    fill(pool, b, 40, 1);
    const std::vector<int64_t> numbers = {a, b}, counts = {1, 1};
    const fovea_tensor sequences = vector_of(numbers), tokens = vector_of(counts);
    bool right = true;
    step(pool, numbers, counts);  // from here on its lists are long enough
    fail_allocation_after(0, true);
    for (int n = 0; n < 5; ++n) {
      fovea_step step;
      int64_t opened;
      right = fovea_kv_pool_step(nullptr, pool.get(), &sequences, &tokens, &step) == FOVEA_OK && right;
      right = fovea_kv_pool_open(pool.get(), &opened) == FOVEA_OK && right;
      right = fovea_kv_pool_truncate(pool.get(), a, 90 - n) == FOVEA_OK && right;
      right = fovea_kv_pool_drop(pool.get(), a, 10 * n) == FOVEA_OK && right;
      right = fovea_kv_pool_close(pool.get(), opened) == FOVEA_OK && right;
    }
    CHECK(!stop_failing());
    CHECK(right);
  }

  TEST_CASE("a pool made for many sequences needs no memory for the first step of them, for copies, for closing them") {
    if (skipped()) return;
    const KvPool pool = make_pool({.positions = 400, .page_size = 16});
    const int64_t longest = open_sequence(pool);
    fill(pool, longest, 160, 1);  // the list of a step's pages is long enough
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), longest));
    std::vector<int64_t> numbers = {open_sequence(pool)};
    fill(pool, numbers[0], 5, 1);
    while (numbers.size() < 8) numbers.push_back(fork_sequence(pool, numbers[0], 5));
    const std::vector<int64_t> counts(8, 1);
    const fovea_tensor sequences = vector_of(numbers), tokens = vector_of(counts);
    fovea_step step;
    fail_allocation_after(0, true);
    bool right = fovea_kv_pool_step(nullptr, pool.get(), &sequences, &tokens, &step) == FOVEA_OK;
    right = right && fovea_kv_pool_free_pages(pool.get()) == 25 - 8;
    for (const int64_t number : numbers) right = fovea_kv_pool_close(pool.get(), number) == FOVEA_OK && right;
    for (int64_t &number : numbers) right = fovea_kv_pool_open(pool.get(), &number) == FOVEA_OK && right;
    CHECK(!stop_failing());
    CHECK(right);
  }
}
