// Key/value caches: the bits of the call that is given keys and values as tensors, however they were appended;
// truncation, reordering, step by step against the whole, threads.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "support/kv_cache.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

AttentionProblem make_problem(int64_t query_len, int64_t key_len, Layout layout = Layout::kHeadsFirst) {
  Random random(base_seed());
  return make_attention({.batch = 2,
                         .heads = 6,
                         .kv_heads = 2,
                         .query_len = query_len,
                         .key_len = key_len,
                         .head_dim = 10,
                         .value_dim = 7},
                        random, layout);
}

// Normal numbers at strides of any kind, 0 and negative ones among them.
Tensor<float> make_rows(const Shape &shape, const Shape &strides, Random &random) {
  Tensor<float> rows(shape, strides);
  rows.fill_normal(random);
  return rows;
}

template <typename Integer>
fovea_status reorder(const fovea_context *context, const KvCache &cache, const std::vector<int64_t> &source,
                     int64_t stride = 1) {
  Tensor<Integer> numbers(Shape{static_cast<int64_t>(source.size())}, Shape{stride});
  numbers.assign(std::vector<Integer>(source.begin(), source.end()));
  numbers.memory().freeze();
  const fovea_tensor view = numbers.view();
  return fovea_kv_cache_reorder(context, cache.get(), &view);
}

// Sequence b of both halves becomes what sequence source[b] was.
std::vector<float> reordered(const std::vector<float> &held, const AttentionSizes &s, int64_t length,
                             const std::vector<int64_t> &source) {
  std::vector<float> expected;
  const int64_t key_floats = s.kv_heads * length * s.head_dim, value_floats = s.kv_heads * length * s.value_dim;
  const auto copy = [&](int64_t begin, int64_t floats) {
    expected.insert(expected.end(), held.begin() + begin, held.begin() + begin + floats);
  };
  for (int64_t from : source) copy(from * key_floats, key_floats);
  for (int64_t from : source) copy(s.batch * key_floats + from * value_floats, value_floats);
  return expected;
}

}  // namespace

TEST_SUITE("kv cache") {
  TEST_CASE("the same bits as tensors, appended at once, one by one, in pieces, from any layout") {
    for (int64_t key_len : {0, 1, 17, 131}) {
      for (int64_t query_len : {0, 1, 3, 40}) {
        for (Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
          const AttentionProblem problem = make_problem(query_len, key_len, layout);
          for_each_isa([&](const fovea_context *context) {
            for (int64_t step : {int64_t{1}, int64_t{7}, int64_t{13}, INT64_MAX}) {
              CAPTURE(step);
              check_same(context, problem, make_full_cache(context, problem, step));
              check_same(context, problem, make_full_cache(context, problem, step, 5));
            }
          });
        }
      }
    }
  }

  TEST_CASE("each rank; one sequence, one head") {
    for (int rank : {2, 3, 4}) {
      for (int64_t batch : {1, 3}) {
        if (rank == 2 && batch != 1) continue;
        Random random(base_seed());
        const AttentionProblem problem = make_attention(
            {.batch = batch, .heads = rank == 4 ? 3 : 1, .query_len = 5, .key_len = 70, .head_dim = 8, .value_dim = 9},
            random, Layout::kPadded, rank);
        for_each_isa([&](const fovea_context *context) {
          check_same(context, problem, make_full_cache(context, problem, 33, 3));
        });
      }
    }
  }

  TEST_CASE("every score function") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 20}) {
        Random random(base_seed());
        AttentionSizes sizes = {.batch = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .query_len = query_len,
                                .key_len = 90,
                                .head_dim = 10,
                                .value_dim = 6};
        if (takes_two_dims(kind)) sizes.key_dim = 7;
        const AttentionProblem problem = make_scored(kind, sizes, 19, random);
        for_each_isa([&](const fovea_context *context) {
          check_same(context, problem, make_full_cache(context, problem, 31, 7));
        });
      }
    }
  }

  TEST_CASE("every option") {
    using Change = void (*)(AttentionProblem &);
    const Change changes[] = {
        [](AttentionProblem &p) { p.flags = FOVEA_CAUSAL; },
        [](AttentionProblem &p) { p.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT; },
        [](AttentionProblem &p) { p.flags = FOVEA_LEAVE_ONE_OUT; },
        [](AttentionProblem &p) { p.flags = FOVEA_AVERAGE_WEIGHTS; },
        [](AttentionProblem &p) { p.flags = FOVEA_QUERY_INVARIANT; },
        [](AttentionProblem &p) {
          p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
          p.query_offset = 20;
        },
        [](AttentionProblem &p) {
          p.flags = FOVEA_CAUSAL;
          p.set_query_offsets({20, 3});
        },
        [](AttentionProblem &p) {
          p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
          p.window_left = 11;
          p.window_right = 5;
        },
        [](AttentionProblem &p) {
          p.set_valid_lens({0, 70});
        },
        [](AttentionProblem &p) {
          p.set_valid_lens({64, 3}, true);
        },
        [](AttentionProblem &p) {
          p.set_valid_lens({0, 70});
          p.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
        },
        [](AttentionProblem &p) { p.set_mask([](auto, auto h, auto i, auto j) { return (h + i + j) % 3 != 0; }); },
        [](AttentionProblem &p) {
          float next = 0;
          p.bias.emplace(Shape{1, 6, 1, 100}).fill([&] { return next += 0.01f; });
        },
        [](AttentionProblem &p) { p.alibi_slopes.emplace(Shape{6}).fill([] { return 0.125f; }); },
        [](AttentionProblem &p) { p.sinks.emplace(Shape{6}).fill([] { return 0.25f; }); },
        [](AttentionProblem &p) {
          p.scale = 0.5f;
          p.softcap = 2;
        },
        [](AttentionProblem &p) {
          p.dropout = 0.25f;
          p.dropout_seed = 77;
        },
    };
    for (const Change &change : changes) {
      for (int64_t query_len : {1, 40}) {
        AttentionProblem problem = make_problem(query_len, 100);
        change(problem);
        for_each_isa([&](const fovea_context *context) {
          check_same(context, problem, make_full_cache(context, problem, 37, 28));
        });
      }
    }
  }

  TEST_CASE("appended from strides of 0, negative ones, and next to pages that must not be touched") {
    const int64_t n = 37;
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement placed(placement);
      for (const Shape &axes : {Shape{0, 0, 1}, Shape{0, 1, 0}, Shape{1, 0, 0}, Shape{-1, 1, 1}, Shape{1, -1, -1}}) {
        AttentionProblem problem = make_problem(3, n);
        Random random(base_seed());
        const auto strides = [&](int64_t dim) {
          return Shape{axes[0] * 2 * n * dim, axes[1] * n * dim, axes[2] * dim, 1};
        };
        problem.key = make_rows({2, 2, n, 10}, strides(10), random);
        problem.value = make_rows({2, 2, n, 7}, strides(7), random);
        for_each_isa([&](const fovea_context *context) {
          for (int64_t step : {1, 11, 37}) check_same(context, problem, make_full_cache(context, problem, step, 2));
        });
      }
    }
  }

  TEST_CASE("the stride of an axis of size 1 does not matter") {
    Random random(base_seed());
    const AttentionProblem problem =
        make_attention({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 9, .head_dim = 4, .value_dim = 4}, random,
                       Layout::kPadded);
    const KvCache cache = make_cache(problem, 9);
    for (int64_t begin = 0; begin < 9; ++begin) {
      fovea_tensor key = slice_positions(problem.key, begin, begin + 1);
      fovea_tensor value = slice_positions(problem.value, begin, begin + 1);
      for (fovea_tensor *rows : {&key, &value}) {
        rows->strides[0] = INT64_MAX;
        rows->strides[2] = INT64_MIN;
      }
      REQUIRE_OK(fovea_kv_cache_append(nullptr, cache.get(), &key, &value));
    }
    check_same(nullptr, problem, cache);
  }

  TEST_CASE("each dimension from 1 to the largest") {
    for (int64_t dim : {1, 2, 3, 16, 17, 64, 128, 1024}) {
      Random random(base_seed());
      const AttentionProblem problem = make_attention({.batch = 2,
                                                       .heads = 2,
                                                       .kv_heads = 2,
                                                       .query_len = 2,
                                                       .key_len = 19,
                                                       .head_dim = dim,
                                                       .value_dim = 1025 - dim},
                                                      random, Layout::kHeadsLast);
      for_each_isa(
          [&](const fovea_context *context) { check_same(context, problem, make_full_cache(context, problem, 4, 1)); });
    }
  }

  TEST_CASE("step by step: the bits of one causal call over all, and as accurate with one query") {
    const int64_t count = 45;
    AttentionProblem whole = make_problem(count, count);
    whole.flags = FOVEA_CAUSAL;
    AttentionProblem invariant = make_problem(count, count);
    invariant.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    for_each_isa([&](const fovea_context *context) {
      const KvCache cache = make_cache(whole, count);
      const AttentionResult all = invariant.make_result(false);
      REQUIRE_OK(invariant.run(context, all));
      for (int64_t length = 1; length <= count; ++length) {
        CAPTURE(length);
        append(context, cache, whole, length - 1, length);
        AttentionProblem step = make_problem(1, length);
        for_each_index(step.query.shape(),
                       [&](const Shape &at) { step.query.at(at) = whole.query(at[0], at[1], length - 1, at[3]); });
        for_each_index(step.key.shape(), [&](const Shape &at) { step.key.at(at) = whole.key.at(at); });
        for_each_index(step.value.shape(), [&](const Shape &at) { step.value.at(at) = whole.value.at(at); });
        step.flags = FOVEA_CAUSAL;
        const AttentionResult result = step.make_result(false);
        REQUIRE_OK(attend(context, step, cache, result));
        check_result(step, result);
        step.flags |= FOVEA_QUERY_INVARIANT;
        const AttentionResult same = step.make_result(false);
        REQUIRE_OK(attend(context, step, cache, same));
        int64_t different = 0;
        for_each_index(same.out.shape(), [&](const Shape &at) {
          different += same.out.at(at) != all.out(at[0], at[1], length - 1, at[3]) ? 1 : 0;
        });
        CHECK(different == 0);
      }
      check_same(context, whole, cache);
      check_same(context, invariant, cache);
    });
  }

  TEST_CASE("truncated and appended again: what was forgotten leaves no trace") {
    const AttentionProblem problem = make_problem(3, 100);
    AttentionProblem spoiled = make_problem(3, 100);
    spoiled.key.fill([n = 0]() mutable { return n++ % 2 == 0 ? kNan : 1e30f; });
    spoiled.value.fill([] { return kNan; });
    for_each_isa([&](const fovea_context *context) {
      const KvCache cache = make_cache(problem, 100);
      append(context, cache, spoiled, 0, 90);
      REQUIRE_OK(fovea_kv_cache_truncate(cache.get(), 90));
      CHECK(fovea_kv_cache_length(cache.get()) == 90);
      REQUIRE_OK(fovea_kv_cache_truncate(cache.get(), 0));
      CHECK(fovea_kv_cache_length(cache.get()) == 0);
      append(context, cache, problem, 0, 35);
      append(context, cache, spoiled, 35, 100);
      REQUIRE_OK(fovea_kv_cache_truncate(cache.get(), 33));
      append(context, cache, problem, 33, 33);  // none
      append(context, cache, problem, 33, 100);
      check_same(context, problem, cache);
    });
  }

  TEST_CASE("reordering by every map of up to 5 sequences") {
    const fovea_context *context = shared_context(instruction_sets().back(), 1);
    for (int64_t batch = 1; batch <= 5; ++batch) {
      Random random(base_seed());
      const AttentionProblem problem = make_attention(
          {.batch = batch, .heads = 2, .kv_heads = 2, .key_len = 3, .head_dim = 2, .value_dim = 1}, random);
      const KvCache full = make_full_cache(context, problem, 2, 1);
      const std::vector<unsigned char> saved = save(full);
      const std::vector<float> held = contents(full);
      int64_t maps = 1, wrong = 0;
      for (int64_t b = 0; b < batch; ++b) maps *= batch;
      for (int64_t map = 0; map < maps; ++map) {
        std::vector<int64_t> source;
        for (int64_t b = 0, digits = map; b < batch; ++b, digits /= batch) source.push_back(digits % batch);
        fovea_kv_cache *restored = nullptr;
        REQUIRE_OK(fovea_kv_cache_restore(saved.data(), saved.size(), 0, &restored));
        const KvCache cache(restored);
        REQUIRE_OK(map % 2 == 0 ? reorder<int32_t>(context, cache, source) : reorder<int64_t>(context, cache, source));
        wrong += same_bits(contents(cache), reordered(held, problem.sizes, 3, source)) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("reordering many sequences, of lengths around a piece, with any number of threads") {
    Random random(base_seed());
    for (int64_t length : {1, 1365, 1366, 2731, 4096, 4097}) {
      const AttentionProblem problem = make_attention(
          {.batch = 23, .heads = 2, .kv_heads = 2, .key_len = length, .head_dim = 3, .value_dim = 1}, random);
      std::vector<int64_t> cycle(23), shuffled(23), repeats(23);
      for (int64_t b = 0; b < 23; ++b) cycle[static_cast<size_t>(b)] = (b + 1) % 23;
      std::iota(shuffled.begin(), shuffled.end(), 0);
      std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(7));
      for (int64_t &from : repeats) from = random.integer(0, 6) * 3;
      for (int threads = 1; threads <= 8; ++threads) {
        const PoolContext pool(instruction_sets().back(), threads, threads);
        const KvCache cache = make_full_cache(pool.get(), problem, INT64_MAX, 2);
        std::vector<float> expected = contents(cache);
        for (const std::vector<int64_t> &source : {cycle, shuffled, repeats, cycle}) {
          expected = reordered(expected, problem.sizes, length, source);
          REQUIRE_OK(reorder<int64_t>(pool.get(), cache, source));
          CHECK(same_bits(contents(cache), expected));
        }
        CHECK((pool.pool().loops() != 0) == (threads > 1 && length > 1000));
      }
    }
  }

  TEST_CASE("reordering: both types of integers at any stride; then appended to and attended") {
    const AttentionProblem problem = make_problem(3, 50);
    AttentionProblem swapped = make_problem(3, 50);
    for (Tensor<float> *rows : {&swapped.key, &swapped.value}) {
      const Tensor<float> &from = rows == &swapped.key ? problem.key : problem.value;
      for_each_index(rows->shape(), [&](const Shape &at) {
        rows->at(at) = from(at[2] < 30 ? 1 - at[0] : at[0], at[1], at[2], at[3]);
      });
    }
    for_each_isa([&](const fovea_context *context) {
      for (int64_t stride : {1, 3, -1, -2}) {
        for (bool wide : {false, true}) {
          const KvCache cache = make_cache(problem, 60);
          append(context, cache, problem, 0, 30);
          REQUIRE_OK(wide ? reorder<int64_t>(context, cache, {1, 0}, stride)
                          : reorder<int32_t>(context, cache, {1, 0}, stride));
          append(context, cache, problem, 30, 50);
          check_same(context, swapped, cache);
        }
      }
    });
    const KvCache cache = make_full_cache(nullptr, problem);
    const std::vector<float> held = contents(cache);
    REQUIRE_OK(reorder<int32_t>(nullptr, cache, {1, 1}, 0));  // one number for all
    CHECK(same_bits(contents(cache), reordered(held, problem.sizes, 50, {1, 1})));
    REQUIRE_OK(reorder<int32_t>(nullptr, make_cache(problem, 0), {1, 0}));
    AttentionProblem none = make_problem(1, 0);
    none.sizes.batch = 0;
    REQUIRE_OK(reorder<int32_t>(nullptr, make_cache(none, 10), {}));
  }

  TEST_CASE("appending much, with any number of threads") {
    for (Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
      for (int64_t heads : {1, 5}) {
        Random random(base_seed());
        const AttentionProblem problem = make_attention(
            {.batch = 1, .heads = heads, .kv_heads = heads, .key_len = 2111, .head_dim = 67, .value_dim = 64}, random,
            layout);
        std::vector<float> expected = problem.key.dense();
        const std::vector<float> values = problem.value.dense();
        expected.insert(expected.end(), values.begin(), values.end());
        for (int threads = 1; threads <= 8; ++threads) {
          const PoolContext pool(instruction_sets().back(), threads, threads);
          CHECK(same_bits(contents(make_full_cache(pool.get(), problem, INT64_MAX, 3)), expected));
          CHECK((pool.pool().loops() != 0) == (threads > 1));
        }
      }
    }
  }

  TEST_CASE("many threads attend to one cache while others come and go") {
    const AttentionProblem problem = make_problem(5, 300);
    for (const std::string &isa : instruction_sets()) {
      const fovea_context *context = shared_context(isa);
      const KvCache cache = make_full_cache(context, problem, 50, 10);
      const AttentionResult expected = problem.make_result();
      REQUIRE_OK(problem.run(context, expected));
      constexpr size_t kCallers = 8;
      std::vector<AttentionResult> results;
      for (size_t n = 0; n < kCallers; ++n) results.push_back(problem.make_result());
      std::atomic<int> failures{0};
      std::vector<std::thread> callers;
      for (size_t n = 0; n < kCallers; ++n) {
        callers.emplace_back([&, n] {
          const fovea_kv_cache_sizes sizes = cache_sizes(problem, 4);
          for (int repeat = 0; repeat < 20; ++repeat) {
            fovea_kv_cache *other = nullptr;
            failures += fovea_kv_cache_create(&sizes, &other) == FOVEA_OK ? 0 : 1;
            failures += attend(context, problem, cache, results[n]) == FOVEA_OK ? 0 : 1;
            fovea_kv_cache_destroy(other);
          }
        });
      }
      for (std::thread &caller : callers) caller.join();
      CHECK(failures == 0);
      for (const AttentionResult &result : results) CHECK(same_bits(result, expected));
    }
  }
}
