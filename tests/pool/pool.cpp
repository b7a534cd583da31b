// What a key/value pool does: lengths around a page, forks and copies, dropped positions, a full pool, where pages lie.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "errors.hpp"
#include "support/kv_pool.hpp"

using namespace testing;

namespace {

using Pages = std::vector<int64_t>;

int64_t free_pages(const KvPool &pool) { return fovea_kv_pool_free_pages(pool.get()); }
int64_t length(const KvPool &pool, int64_t sequence) { return fovea_kv_pool_length(pool.get(), sequence); }

int64_t page_size_of(const KvPool &pool) { return fovea_kv_pool_keys(pool.get(), 0).shape[2]; }

int64_t address(const fovea_tensor &tensor) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)); }

}  // namespace

TEST_SUITE("kv pool") {
  TEST_CASE("lengths around a page") {
    const PoolSizes sizes;
    for (const int64_t page : {1, 4, 7, 16}) {
      for (const int64_t count : {int64_t{0}, int64_t{1}, page - 1, page, page + 1, 2 * page, 3 * page - 1}) {
        CAPTURE(page);
        CAPTURE(count);
        PoolSizes wanted = sizes;
        wanted.page_size = page;
        const KvPool pool = make_pool(wanted);
        const int64_t all = free_pages(pool);
        CHECK(all == (60 + page - 1) / page);
        const int64_t sequence = open_sequence(pool);
        const StepNumbers numbers = fill(pool, sequence, count, 1);
        const int64_t held = (count + page - 1) / page;
        CHECK(numbers.query_starts == Pages{0, count});
        CHECK(numbers.key_lens == Pages{count});
        CHECK(numbers.page_starts == Pages{0, held});
        CHECK(length(pool, sequence) == count);
        CHECK(free_pages(pool) == all - held);
        fill(pool, sequence, 1, 1 + static_cast<uint32_t>(count));  // one more
        CHECK(holds(pool, sequence, 0, stamps_from(1, count + 1)));
        CHECK(free_pages(pool) == all - (count + page) / page);
        REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), sequence, count));
        CHECK(length(pool, sequence) == count);
        CHECK(free_pages(pool) == all - held);
        CHECK(holds(pool, sequence, 0, stamps_from(1, count)));
        REQUIRE_OK(fovea_kv_pool_close(pool.get(), sequence));
        CHECK(length(pool, sequence) == -1);
        CHECK(free_pages(pool) == all);
      }
    }
  }

  TEST_CASE("a step of several sequences; of none") {
    const KvPool pool = make_pool({.page_size = 4});
    const int64_t a = open_sequence(pool), b = open_sequence(pool), c = open_sequence(pool);
    step(pool, {c, a}, {6, 4});
    const StepNumbers numbers = step(pool, {b, c, a}, {0, 3, 1});
    CHECK(numbers.query_starts == Pages{0, 0, 3, 4});
    CHECK(numbers.key_lens == Pages{0, 9, 5});
    CHECK(numbers.page_starts == Pages{0, 0, 3, 5});
    const StepNumbers none = step(pool, {}, {});
    CHECK(none.query_starts == Pages{0});
    CHECK(none.page_starts == Pages{0});
    CHECK(length(pool, c) == 9);
    // 32-bit numbers, and strides: as they are read, from the last to the first.
    const int32_t words[] = {static_cast<int32_t>(a), 0, static_cast<int32_t>(b)}, tokens[] = {2, 9, 1};
    const int64_t two = 2;
    fovea_tensor sequence_numbers = fovea_tensor_contiguous(words + 2, FOVEA_I32, 1, &two);
    fovea_tensor token_numbers = fovea_tensor_contiguous(tokens, FOVEA_I32, 1, &two);
    sequence_numbers.strides[0] = -2;
    token_numbers.strides[0] = 2;
    fovea_step made;
    REQUIRE_OK(fovea_kv_pool_step(nullptr, pool.get(), &sequence_numbers, &token_numbers, &made));
    CHECK(numbers_of(made).key_lens == Pages{2, 6});
  }

  TEST_CASE("a fork shares pages, and the first step that writes into one copies it") {
    for (const int threads : {1, 4}) {
      CAPTURE(threads);
      const fovea_context *const context = shared_context("base", threads);
      // Large enough that threads share the copies.
      const PoolSizes sizes = {
          .layers = 5, .kv_heads = 3, .head_dim = 64, .value_dim = 32, .positions = 400, .page_size = 32};
      const KvPool pool = make_pool(sizes);
      const int64_t all = free_pages(pool), a = open_sequence(pool);
      fill(pool, a, 70, 1, context);
      CHECK(all - free_pages(pool) == 3);
      const int64_t b = fork_sequence(pool, a, 70), c = fork_sequence(pool, a, 50), d = fork_sequence(pool, a, 64);
      CHECK(all - free_pages(pool) == 3);
      const Pages shared = pages_of(pool, a);
      CHECK(pages_of(pool, b) == shared);
      CHECK(pages_of(pool, c) == Pages(shared.begin(), shared.begin() + 2));
      CHECK(pages_of(pool, d) == Pages(shared.begin(), shared.begin() + 2));
      fill(pool, d, 1, 1000, context);  // at the end of a page nothing is copied
      CHECK(all - free_pages(pool) == 4);
      fill(pool, c, 3, 2000, context);
      CHECK(all - free_pages(pool) == 5);
      CHECK(pages_of(pool, c)[0] == shared[0]);
      CHECK(pages_of(pool, c)[1] != shared[1]);
      // b and a have their last page to themselves: the first one named copies it, the other one keeps it.
      const StepNumbers both = step(pool, {b, a}, {2, 1}, context);
      write_new(PoolRows(pool.get()), both, 0, 3000);
      write_new(PoolRows(pool.get()), both, 1, 4000);
      CHECK(all - free_pages(pool) == 6);
      CHECK(both.page(1, 2) == shared[2]);
      CHECK(both.page(0, 2) != shared[2]);
      const auto check = [&](int64_t sequence, int64_t common, uint32_t then, int64_t count) {
        CHECK(length(pool, sequence) == common + count);
        CHECK(holds(pool, sequence, 0, stamps_from(1, common)));
        CHECK(holds(pool, sequence, common, stamps_from(then, count)));
      };
      check(a, 70, 4000, 1);
      check(b, 70, 3000, 2);
      check(c, 50, 2000, 3);
      check(d, 64, 1000, 1);
      REQUIRE_OK(fovea_kv_pool_close(pool.get(), a));  // what others hold stays
      CHECK(all - free_pages(pool) == 5);
      check(b, 70, 3000, 2);
      check(c, 50, 2000, 3);
      check(d, 64, 1000, 1);
      for (const int64_t sequence : {b, c, d}) REQUIRE_OK(fovea_kv_pool_close(pool.get(), sequence));
      CHECK(free_pages(pool) == all);
    }
  }

  TEST_CASE("a sequence cut into the middle of a page that another holds") {
    const KvPool pool = make_pool({.page_size = 4});
    const int64_t all = free_pages(pool), a = open_sequence(pool);
    fill(pool, a, 8, 1);
    const int64_t b = fork_sequence(pool, a, 8);
    REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), a, 6));
    CHECK(all - free_pages(pool) == 2);
    step(pool, {a}, {0});  // writes nothing
    CHECK(all - free_pages(pool) == 2);
    fill(pool, a, 1, 100);
    CHECK(all - free_pages(pool) == 3);
    CHECK(holds(pool, a, 0, {1, 2, 3, 4, 5, 6, 100}));
    CHECK(holds(pool, b, 0, stamps_from(1, 8)));
    const int64_t empty = fork_sequence(pool, b, 0);
    CHECK(length(pool, empty) == 0);
    CHECK(pages_of(pool, empty).empty());
  }

  TEST_CASE("dropped positions keep their numbers, and a page that stands for theirs") {
    const KvPool pool = make_pool({.page_size = 4});
    const int64_t all = free_pages(pool), other = open_sequence(pool), a = open_sequence(pool);
    fill(pool, other, 3, 500);
    fill(pool, a, 18, 1);
    const Pages before = pages_of(pool, a);
    for (const int64_t first : {0, 3}) {
      REQUIRE_OK(fovea_kv_pool_drop(pool.get(), a, first));
      CHECK(pages_of(pool, a) == before);
    }
    REQUIRE_OK(fovea_kv_pool_drop(pool.get(), a, 11));
    CHECK(all - free_pages(pool) == 4);
    CHECK(pages_of(pool, a) == Pages{before[2], before[2], before[2], before[3], before[4]});
    REQUIRE_OK(fovea_kv_pool_drop(pool.get(), a, 2));  // has been
    CHECK(length(pool, a) == 18);
    const int64_t fork = fork_sequence(pool, a, 13);
    CHECK(pages_of(pool, fork) == Pages{before[2], before[2], before[2], before[3]});
    check_refusal(fovea_kv_pool_truncate(pool.get(), a, 10), FOVEA_BAD_VALUE,
                  {"length is 10, expected 11 to 18", "dropped"});
    int64_t forked = -7;
    check_refusal(fovea_kv_pool_fork(pool.get(), a, 10, &forked), FOVEA_BAD_VALUE,
                  {"length is 10, expected 11 to 18", "dropped"});
    check_refusal(fovea_kv_pool_truncate(pool.get(), fork, 10), FOVEA_BAD_VALUE, {"length is 10, expected 11 to 13"});
    fill(pool, fork, 5, 100);
    CHECK(holds(pool, a, 11, stamps_from(12, 7)));
    CHECK(holds(pool, fork, 11, {12, 13, 100, 101, 102, 103, 104}));
    REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), a, 11));
    CHECK(holds(pool, fork, 11, {12, 13}));
    REQUIRE_OK(fovea_kv_pool_drop(pool.get(), a, 11));
    REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), a, 11));
    CHECK(pages_of(pool, a) == Pages{before[2], before[2], before[2]});
    // All of them, at the end of a page: any page stands for them.
    REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), fork, 16));
    REQUIRE_OK(fovea_kv_pool_drop(pool.get(), fork, 16));
    for (const int64_t page : pages_of(pool, fork)) {
      CHECK(page >= 0);
      CHECK(page < all);
    }
    CHECK(pages_of(pool, fork).size() == 4);
    fill(pool, fork, 2, 900);
    CHECK(length(pool, fork) == 18);
    CHECK(holds(pool, fork, 16, {900, 901}));
    CHECK(holds(pool, other, 0, {500, 501, 502}));
  }

  TEST_CASE("a full pool: nothing has changed, and the message tells how many pages are needed and free") {
    const KvPool pool = make_pool({.positions = 24, .page_size = 4});
    const int64_t a = open_sequence(pool), b = open_sequence(pool);
    fill(pool, a, 7, 1);
    fill(pool, b, 9, 100);
    const int64_t c = fork_sequence(pool, a, 6);
    const fovea_step untouched = {77, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    const PoolState before = state_of(pool, {a, b, c});
    fovea_step present;
    REQUIRE_OK(step_status(pool, {b, a}, {0, 0}, &present));
    const StepNumbers numbers = numbers_of(present);
    const auto refuse = [&](const Pages &sequences, const Pages &tokens, int64_t needed) {
      fovea_step made = untouched;
      check_refusal(step_status(pool, sequences, tokens, &made), FOVEA_POOL_EXHAUSTED,
                    {"pool", "needs " + std::to_string(needed), "1 of 6 are free"});
      CHECK(made.struct_size == 77);
      CHECK(made.query_starts == nullptr);
      CHECK(numbers_of(present).page_ids == numbers.page_ids);  // the step before is still there
    };
    refuse({a, b, c}, {1, 4, 1}, 2);
    refuse({c, a}, {3, 2}, 3);
    refuse({b}, {12}, 3);
    refuse({b}, {int64_t{1} << 29}, (int64_t{1} << 27));
    CHECK(state_of(pool, {a, b, c}) == before);
    step(pool, {a, b, c}, {1, 3, 1});  // one page, which either a or c copies
    CHECK(free_pages(pool) == 0);
    fovea_step made;
    check_refusal(step_status(pool, {b}, {1}, &made), FOVEA_POOL_EXHAUSTED, {"needs 1", "0 of 6 are free"});
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), c));
    CHECK(free_pages(pool) == 1);
    step(pool, {b}, {1});
  }

  TEST_CASE("as many sequences as there may be; their numbers are never used again") {
    const KvPool pool = make_pool({.sequences = 3});
    std::vector<int64_t> numbers;
    for (int n = 0; n < 3; ++n) numbers.push_back(open_sequence(pool));
    int64_t number = -7;
    const std::initializer_list<std::string> words = {"pool has 3 open sequences", "made for 3"};
    check_refusal(fovea_kv_pool_open(pool.get(), &number), FOVEA_POOL_EXHAUSTED, words);
    check_refusal(fovea_kv_pool_fork(pool.get(), numbers[0], 0, &number), FOVEA_POOL_EXHAUSTED, words);
    const std::vector<unsigned char> bytes = save(pool, numbers[0]);
    check_refusal(fovea_kv_pool_restore(pool.get(), bytes.data(), bytes.size(), &number), FOVEA_POOL_EXHAUSTED, words);
    CHECK(number == -7);
    Random random(base_seed());
    std::set<int64_t> used(numbers.begin(), numbers.end());
    for (int round = 0; round < 100; ++round) {
      const auto closed = numbers.begin() + random.integer(0, static_cast<int64_t>(numbers.size()) - 1);
      REQUIRE_OK(fovea_kv_pool_close(pool.get(), *closed));
      numbers.erase(closed);
      if (numbers.empty() || random.chance(0.7)) {
        numbers.push_back(round % 2 == 0 || numbers.empty() ? open_sequence(pool) : fork_sequence(pool, numbers[0], 0));
      }
      while (numbers.size() < 2) numbers.push_back(open_sequence(pool));
      for (const int64_t opened : numbers) used.insert(opened);
    }
    for (const int64_t once : used) {
      const bool open = std::find(numbers.begin(), numbers.end(), once) != numbers.end();
      CHECK((length(pool, once) == 0) == open);
    }
    CHECK(used.size() >= 100);
  }

  TEST_CASE("where pages lie: neighbours where that can be, then the lowest that was given back") {
    const KvPool pool = make_pool({.positions = 40, .page_size = 4});
    const int64_t a = open_sequence(pool), b = open_sequence(pool), c = open_sequence(pool);
    CHECK(step(pool, {a}, {12}).page_ids == Pages{0, 1, 2});
    CHECK(step(pool, {b}, {8}).page_ids == Pages{3, 4});
    CHECK(step(pool, {c}, {8}).page_ids == Pages{5, 6});
    REQUIRE_OK(fovea_kv_pool_truncate(pool.get(), a, 4));
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), b));
    CHECK(step(pool, {c}, {4}).page_ids == Pages{5, 6, 7});
    const int64_t d = open_sequence(pool);
    CHECK(step(pool, {d}, {1}).page_ids == Pages{1});
    CHECK(step(pool, {a}, {4}).page_ids == Pages{0, 2});
    CHECK(step(pool, {d}, {19}).page_ids == Pages{1, 3, 4, 8, 9});
  }

  TEST_CASE("the lowest page that was given back, of thousands") {
    constexpr int64_t count = 5000;
    const KvPool pool = make_pool({.layers = 1, .kv_heads = 1, .positions = count, .page_size = 1, .sequences = count});
    Random random(base_seed());
    std::set<int64_t> given_back;
    std::vector<int64_t> numbers, pages;
    bool right = true;
    int64_t most = 0;
    for (int64_t n = 0; n < 8 * count; ++n) {
      // Fills the pool, empties it, fills it again.
      const bool opens = random.chance(n / count % 4 < 2 ? 0.9 : 0.1) ? numbers.size() < count : numbers.empty();
      if (opens) {
        const int64_t expected = given_back.empty() ? most++ : *given_back.begin();
        given_back.erase(expected);
        numbers.push_back(open_sequence(pool));
        pages.push_back(expected);
        right = step(pool, {numbers.back()}, {1}).page_ids == Pages{expected} && right;
      } else {
        const auto at = random.integer(0, static_cast<int64_t>(numbers.size()) - 1);
        REQUIRE_OK(fovea_kv_pool_close(pool.get(), numbers[static_cast<size_t>(at)]));
        given_back.insert(pages[static_cast<size_t>(at)]);
        numbers.erase(numbers.begin() + at);
        pages.erase(pages.begin() + at);
      }
    }
    CHECK(right);
    CHECK(most == count);
    CHECK(free_pages(pool) == count - static_cast<int64_t>(numbers.size()));
  }

  TEST_CASE("a page's size, where the pool chooses it") {
    const auto chosen = [](PoolSizes sizes) {
      sizes.page_size = 0;
      return page_size_of(make_pool(sizes));
    };
    CHECK(chosen({.kv_heads = 8, .head_dim = 128, .positions = 1000}) == 32);  // 4 kB a position
    CHECK(chosen({.kv_heads = 8, .head_dim = 128, .positions = 1000, .key_dtype = FOVEA_BF16}) == 64);
    CHECK(chosen({.kv_heads = 8, .head_dim = 127, .positions = 1000}) == 64);
    CHECK(chosen({.kv_heads = 64, .head_dim = 128, .positions = 1000}) == 16);
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 100000, .sequences = 1}) == 32768);
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 1000, .sequences = 1}) == 512);
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 1024, .sequences = 1}) == 1024);
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 1025, .sequences = 1}) == 1024);
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 1}) == 16);
    // Each of 8 sequences can have one.
    CHECK(chosen({.kv_heads = 1, .head_dim = 1, .positions = 1000}) == 64);
  }

  TEST_CASE("sizes, types, and where layers lie") {
    const auto expect = [](const fovea_tensor &rows, fovea_dtype dtype, const Pages &shape) {
      CHECK(rows.rank == 4);
      CHECK(rows.dtype == dtype);
      CHECK(Pages(rows.shape, rows.shape + 4) == shape);
      CHECK(Pages(rows.strides, rows.strides + 4) ==
            Pages{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1});
    };
    const KvPool pool = make_pool({.layers = 3,
                                   .kv_heads = 5,
                                   .head_dim = 7,
                                   .value_dim = 9,
                                   .positions = 50,
                                   .page_size = 4,
                                   .key_dtype = FOVEA_BF16,
                                   .value_dtype = FOVEA_F32});
    CHECK(fovea_kv_pool_size(pool.get()) == 3 * 13 * 5 * 4 * (7 * 2 + 9 * 4));
    CHECK(free_pages(pool) == 13);
    Pages ends = {0};
    for (const int64_t layer : {0, 1, 2}) {
      const fovea_tensor keys = fovea_kv_pool_keys(pool.get(), layer), values = fovea_kv_pool_values(pool.get(), layer);
      expect(keys, FOVEA_BF16, {13, 5, 4, 7});
      expect(values, FOVEA_F32, {13, 5, 4, 9});
      for (const fovea_tensor *rows : {&keys, &values}) {
        CHECK(address(*rows) % 64 == 0);
        CHECK(address(*rows) >= ends.back());
        ends.push_back(address(*rows) + rows->shape[0] * rows->strides[0] * (rows == &keys ? 2 : 4));
      }
    }
    for (const int64_t layer : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
      CHECK(fovea_kv_pool_keys(pool.get(), layer).rank == -1);
      CHECK(fovea_kv_pool_values(pool.get(), layer).rank == -1);
    }
    // Members that are 0.
    const KvPool other = make_pool({.value_dim = 0, .key_dtype = 0, .value_dtype = 0});
    expect(fovea_kv_pool_values(other.get(), 0), FOVEA_F32, {15, 2, 4, 3});
    CHECK(fovea_kv_pool_keys(other.get(), 0).dtype == FOVEA_F32);
    const KvPool narrow = make_pool({.key_dtype = FOVEA_F16, .value_dtype = 0});
    CHECK(fovea_kv_pool_values(narrow.get(), 1).dtype == FOVEA_F16);
    CHECK(fovea_kv_pool_key_scales(narrow.get(), 0).rank == -1);
    const KvPool bytes = make_pool({.head_dim = 96, .value_dim = 40, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_I8});
    expect(fovea_kv_pool_keys(bytes.get(), 1), FOVEA_I8, {15, 2, 4, 96});
    expect(fovea_kv_pool_key_scales(bytes.get(), 1), FOVEA_F16, {15, 2, 4, 3});
    expect(fovea_kv_pool_value_scales(bytes.get(), 0), FOVEA_F16, {15, 2, 4, 1});
    CHECK(fovea_kv_pool_size(bytes.get()) == 2 * 15 * 2 * 4 * (96 + 40 + 2 * 3 + 2));
    const KvPool finer =
        make_pool({.head_dim = 96, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_F32, .scale_group = 16});
    expect(fovea_kv_pool_key_scales(finer.get(), 0), FOVEA_F16, {15, 2, 4, 6});
    CHECK(fovea_kv_pool_value_scales(finer.get(), 0).rank == -1);
    const KvPool fours = make_pool({.head_dim = 96, .value_dim = 64, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_U8});
    expect(fovea_kv_pool_values(fours.get(), 1), FOVEA_U8, {15, 2, 4, 32});
    expect(fovea_kv_pool_value_scales(fours.get(), 1), FOVEA_F16, {15, 2, 4, 4});
    CHECK(fovea_kv_pool_size(fours.get()) == 2 * 15 * 2 * 4 * (96 + 32 + 2 * 3 + 2 * 4));
    const KvPool coarser = make_pool({.value_dim = 64, .value_dtype = FOVEA_U8, .scale_group = 64});
    expect(fovea_kv_pool_value_scales(coarser.get(), 0), FOVEA_F16, {15, 2, 4, 2});
    CHECK(fovea_kv_pool_key_scales(coarser.get(), 0).rank == -1);
    const KvPool large = make_pool({.layers = 1, .kv_heads = 8, .head_dim = 128, .positions = 4096});
    CHECK(address(fovea_kv_pool_keys(large.get(), 0)) % (1 << 21) == 0);
  }

#if defined(__linux__)
  TEST_CASE("pages that were never filled take no memory") {
    const auto resident = [] {
      long pages = 0;
      std::ifstream file("/proc/self/statm");
      file >> pages >> pages;
      return pages * sysconf(_SC_PAGESIZE);
    };
    const long before = resident();
    const KvPool pool = make_pool({.layers = 4,
                                   .kv_heads = 8,
                                   .head_dim = 64,
                                   .value_dim = 64,
                                   .positions = int64_t{1} << 17,
                                   .page_size = 16,
                                   .sequences = int64_t{1} << 20});
    CHECK(fovea_kv_pool_size(pool.get()) == (size_t{4} * 8 * 64 * 6) << 17);  // 1.5 GB
    fill(pool, open_sequence(pool), 3, 1);
    CHECK(resident() - before < long{256} << 20);
  }
#endif
}
