// What a key/value cache refuses: by name, and without a change to it or to an output.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "errors.hpp"
#include "support/kv_cache.hpp"

using namespace testing;

namespace {

AttentionProblem make_problem() {
  Random random(base_seed());
  return make_attention(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 12, .head_dim = 5, .value_dim = 3}, random);
}

// Calls every function that takes a cache; check(status) of those that report one.
template <typename Check>
void call_all(fovea_kv_cache *cache, Check check) {
  const AttentionProblem problem = make_problem();
  const AttentionResult result = problem.make_result();
  const AttentionArguments call(problem, result);
  Tensor<int32_t> source(Shape{2});
  source.assign({0, 1});
  const fovea_tensor numbers = source.view();
  unsigned char bytes[64] = {};
  check(fovea_kv_cache_append(nullptr, cache, &call.key, &call.value));
  check(fovea_kv_cache_attend(nullptr, cache, nullptr, &call.query, &call.out, &call.options));
  check(fovea_kv_cache_truncate(cache, 0));
  check(fovea_kv_cache_reorder(nullptr, cache, &numbers));
  check(fovea_kv_cache_save(cache, bytes, sizeof bytes));
  CHECK(fovea_kv_cache_length(cache) == 0);
  CHECK(fovea_kv_cache_size(cache) == 0);
  CHECK(fovea_kv_cache_saved_size(cache) == 0);
  CHECK(result.out.untouched());
  fovea_kv_cache_destroy(cache);
}

}  // namespace

TEST_SUITE("kv cache") {
  TEST_CASE("bad arguments: create") {
    fovea_kv_cache *cache = nullptr;
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      fovea_kv_cache_sizes sizes = {sizeof sizes, 2, 2, 5, 10, 7, FOVEA_F32, 0};
      spoil(sizes);
      check_refusal(fovea_kv_cache_create(&sizes, &cache), expected, words);
      CHECK(cache == nullptr);
    };
    const int64_t most = int64_t{1} << 30;
    for (int64_t bad : {int64_t{-1}, most + 1, INT64_MIN, INT64_MAX}) {
      const std::string number = std::to_string(bad);
      refuse(FOVEA_BAD_VALUE, {"sizes.batch", number}, [bad](auto &sizes) { sizes.batch = bad; });
      refuse(FOVEA_BAD_VALUE, {"sizes.kv_heads", number}, [bad](auto &sizes) { sizes.kv_heads = bad; });
      refuse(FOVEA_BAD_VALUE, {"sizes.capacity", number}, [bad](auto &sizes) { sizes.capacity = bad; });
      refuse(FOVEA_BAD_VALUE, {"sizes.head_dim", number}, [bad](auto &sizes) { sizes.head_dim = bad; });
      refuse(FOVEA_BAD_VALUE, {"sizes.value_dim", number}, [bad](auto &sizes) { sizes.value_dim = bad; });
    }
    refuse(FOVEA_BAD_VALUE, {"sizes.kv_heads", "0"}, [](auto &sizes) { sizes.kv_heads = 0; });
    refuse(FOVEA_BAD_VALUE, {"sizes.head_dim", "0"}, [](auto &sizes) { sizes.head_dim = 0; });
    refuse(FOVEA_BAD_VALUE, {"sizes.head_dim", "1025"}, [](auto &sizes) { sizes.head_dim = 1025; });
    refuse(FOVEA_BAD_VALUE, {"sizes.value_dim", "1025"}, [](auto &sizes) { sizes.value_dim = 1025; });
    refuse(FOVEA_BAD_OPTION, {"sizes.struct_size", "0"}, [](auto &sizes) { sizes.struct_size = 0; });
    refuse(FOVEA_SIZE_OVERFLOW, {"capacity", std::to_string(most)},
           [](auto &sizes) { sizes.batch = sizes.kv_heads = sizes.capacity = most; });
    refuse(FOVEA_SIZE_OVERFLOW, {"capacity", "0"}, [](auto &sizes) {  // no room for strides
      sizes.batch = sizes.kv_heads = most;
      sizes.capacity = 0;
    });
    refuse(FOVEA_SIZE_OVERFLOW, {"capacity"}, [](auto &sizes) {
      sizes.batch = 0;
      sizes.kv_heads = sizes.capacity = most;
    });
    refuse(FOVEA_OUT_OF_MEMORY, {"memory"}, [](auto &sizes) { sizes.batch = sizes.capacity = most / 64; });
    check_refusal(fovea_kv_cache_create(nullptr, &cache), FOVEA_NULL_POINTER, {"sizes", "NULL"});
    const fovea_kv_cache_sizes good = {sizeof good, 2, 2, 5, 10, 0, 0, 0};
    check_refusal(fovea_kv_cache_create(&good, nullptr), FOVEA_NULL_POINTER, {"cache", "NULL"});
  }

  TEST_CASE("size and length; a value_dim of 0 is head_dim") {
    const auto make = [](int64_t capacity, int64_t value_dim) {
      const fovea_kv_cache_sizes sizes = {sizeof sizes, 2, 3, capacity, 16, value_dim, FOVEA_F32, 0};
      fovea_kv_cache *cache = nullptr;
      REQUIRE_OK(fovea_kv_cache_create(&sizes, &cache));
      return KvCache(cache);
    };
    CHECK(fovea_kv_cache_size(make(10, 0).get()) == 2 * 3 * 10 * 32 * sizeof(float));
    CHECK(fovea_kv_cache_size(make(10, 32).get()) == 2 * 3 * 10 * 48 * sizeof(float));
    CHECK(fovea_kv_cache_size(make(0, 0).get()) == 0);
    CHECK(fovea_kv_cache_length(make(10, 0).get()) == 0);
    CHECK(fovea_kv_cache_saved_size(make(10, 0).get()) == kSavedHeader);
  }

#if defined(__linux__)
  TEST_CASE("positions that were never filled take no memory") {
    const auto resident = [] {
      long pages = 0;
      std::ifstream file("/proc/self/statm");
      file >> pages >> pages;
      return pages * sysconf(_SC_PAGESIZE);
    };
    const long before = resident();
    const fovea_kv_cache_sizes sizes = {sizeof sizes, 1, 1, int64_t{1} << 20, 64, 64, FOVEA_F32, 0};
    fovea_kv_cache *made = nullptr;
    REQUIRE_OK(fovea_kv_cache_create(&sizes, &made));
    const KvCache cache(made);
    std::vector<float> row(64, 1.0f);
    const int64_t shape[] = {1, 64};
    const fovea_tensor x = fovea_tensor_contiguous(row.data(), FOVEA_F32, 2, shape);
    REQUIRE_OK(fovea_kv_cache_append(nullptr, made, &x, &x));
    CHECK(fovea_kv_cache_size(made) == size_t{512} << 20);
    CHECK(resident() - before < long{128} << 20);  // a sanitizer's notes on it are an eighth
  }
#endif

  TEST_CASE("no cache") {
    call_all(nullptr, [](fovea_status status) { check_refusal(status, FOVEA_NULL_POINTER, {"cache", "NULL"}); });
  }

  TEST_CASE("past the capacity nothing is appended") {
    const AttentionProblem problem = make_problem();
    const KvCache cache = make_cache(problem, 10);
    append(nullptr, cache, problem, 0, 7);
    const std::vector<float> held = contents(cache);
    for (int64_t count : {4, 12}) {
      const fovea_tensor key = slice_positions(problem.key, 0, count), value = slice_positions(problem.value, 0, count);
      check_refusal(fovea_kv_cache_append(nullptr, cache.get(), &key, &value), FOVEA_BAD_SHAPE,
                    {"key has " + std::to_string(count) + " positions", "at most 3", "10"});
      CHECK(same_bits(contents(cache), held));
    }
    append(nullptr, cache, problem, 7, 10);
    append(nullptr, cache, problem, 10, 10);
    CHECK(fovea_kv_cache_length(cache.get()) == 10);
    const fovea_tensor key = slice_positions(problem.key, 0, 1), value = slice_positions(problem.value, 0, 1);
    check_refusal(fovea_kv_cache_append(nullptr, make_cache(problem, 0).get(), &key, &value), FOVEA_BAD_SHAPE,
                  {"key has 1 positions", "at most 0"});
  }

  TEST_CASE("bad arguments: append and truncate") {
    const AttentionProblem problem = make_problem();
    const KvCache cache = make_cache(problem, 20);
    append(nullptr, cache, problem, 0, 8);
    const std::vector<float> held = contents(cache);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      fovea_tensor key = slice_positions(problem.key, 8, 12), value = slice_positions(problem.value, 8, 12);
      spoil(key, value);
      check_refusal(fovea_kv_cache_append(nullptr, cache.get(), &key, &value), expected, words);
      CHECK(same_bits(contents(cache), held));
    };
    const char *names[] = {"key", "value"};
    for (int which : {0, 1}) {
      const std::string name = names[which];
      const auto spoil_one = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
        refuse(expected, words, [&](fovea_tensor &key, fovea_tensor &value) { spoil(which == 0 ? key : value); });
      };
      const std::string dim = which == 0 ? "5" : "3";
      spoil_one(FOVEA_NULL_POINTER, {name, "NULL"}, [](fovea_tensor &rows) { rows.data = nullptr; });
      spoil_one(FOVEA_BAD_DTYPE, {name + " has dtype FOVEA_I32"}, [](fovea_tensor &rows) { rows.dtype = FOVEA_I32; });
      for (int32_t rank : {1, 5}) spoil_one(FOVEA_BAD_RANK, {name}, [&](fovea_tensor &rows) { rows.rank = rank; });
      spoil_one(FOVEA_BAD_SHAPE, {name, "1 batch entries", "expected 2"}, [](fovea_tensor &r) { r.shape[0] = 1; });
      spoil_one(FOVEA_BAD_SHAPE, {name, "1 heads", "expected 2"}, [](fovea_tensor &rows) { rows.shape[1] = 1; });
      spoil_one(FOVEA_BAD_SHAPE, {name, "2 features", "expected " + dim}, [](fovea_tensor &r) { r.shape[3] = 2; });
      spoil_one(FOVEA_BAD_SHAPE, {name + ".shape[2]", "-1"}, [](fovea_tensor &rows) { rows.shape[2] = -1; });
      spoil_one(FOVEA_BAD_STRIDE, {name + ".strides[3]", "2"}, [](fovea_tensor &rows) { rows.strides[3] = 2; });
      spoil_one(FOVEA_SIZE_OVERFLOW, {name}, [](fovea_tensor &rows) { rows.strides[0] = INT64_MAX; });
      spoil_one(FOVEA_BAD_VALUE, {name, "multiple"},
                [](fovea_tensor &rows) { rows.data = static_cast<char *>(rows.data) + 1; });
    }
    refuse(FOVEA_BAD_SHAPE, {"value has 3 positions", "expected 4 (as key)"},
           [](fovea_tensor &, fovea_tensor &value) { value.shape[2] = 3; });
    const auto of_rank = [](int32_t rank, int64_t dim, fovea_tensor &rows) {
      const int64_t shape[] = {2, 2, dim};
      rows = fovea_tensor_contiguous(rows.data, FOVEA_F32, rank, shape + 3 - rank);
    };
    refuse(FOVEA_BAD_RANK, {"value has rank 4", "expected 3"},
           [&](fovea_tensor &key, fovea_tensor &) { of_rank(3, 5, key); });
    refuse(FOVEA_BAD_SHAPE, {"key has 1 heads", "expected 2"}, [&](fovea_tensor &key, fovea_tensor &value) {
      of_rank(3, 5, key);
      of_rank(3, 3, value);
    });
    refuse(FOVEA_BAD_SHAPE, {"key has 1 batch entries", "expected 2"}, [&](fovea_tensor &key, fovea_tensor &value) {
      of_rank(2, 5, key);
      of_rank(2, 3, value);
    });
    const fovea_tensor good = slice_positions(problem.key, 8, 12);
    check_refusal(fovea_kv_cache_append(nullptr, cache.get(), nullptr, &good), FOVEA_NULL_POINTER, {"key", "NULL"});
    check_refusal(fovea_kv_cache_append(nullptr, cache.get(), &good, nullptr), FOVEA_NULL_POINTER, {"value", "NULL"});
    for (int64_t length : {int64_t{-1}, int64_t{9}, INT64_MAX, INT64_MIN}) {
      check_refusal(fovea_kv_cache_truncate(cache.get(), length), FOVEA_BAD_VALUE,
                    {"length", std::to_string(length), "8"});
    }
    CHECK(same_bits(contents(cache), held));
  }

  TEST_CASE("bad arguments: reorder") {
    const AttentionProblem problem = make_problem();
    const KvCache cache = make_full_cache(nullptr, problem);
    const std::vector<float> held = contents(cache);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      Tensor<int64_t> source(Shape{2});
      source.assign({1, 1});
      fovea_tensor view = source.view();
      spoil(source, view);
      check_refusal(fovea_kv_cache_reorder(nullptr, cache.get(), &view), expected, words);
      CHECK(same_bits(contents(cache), held));
    };
    for (int64_t bad : {int64_t{-1}, int64_t{2}, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
      for (int64_t at : {0, 1}) {
        refuse(FOVEA_BAD_VALUE, {"source[" + std::to_string(at) + "] is " + std::to_string(bad), "0 to 1"},
               [&](Tensor<int64_t> &source, fovea_tensor &) { source(at) = bad; });
      }
    }
    refuse(FOVEA_BAD_SHAPE, {"source.shape[0]", "1", "2"}, [](auto &, fovea_tensor &view) { view.shape[0] = 1; });
    refuse(FOVEA_BAD_SHAPE, {"source.shape[0]", "3", "2"}, [](auto &, fovea_tensor &view) { view.shape[0] = 3; });
    refuse(FOVEA_BAD_DTYPE, {"source has dtype FOVEA_F32, expected FOVEA_I32 or FOVEA_I64"},
           [](auto &, fovea_tensor &view) { view.dtype = FOVEA_F32; });
    for (int32_t rank : {0, 2}) {
      refuse(FOVEA_BAD_RANK, {"source"}, [rank](auto &, fovea_tensor &view) { view.rank = rank; });
    }
    refuse(FOVEA_NULL_POINTER, {"source", "NULL"}, [](auto &, fovea_tensor &view) { view.data = nullptr; });
    refuse(FOVEA_SIZE_OVERFLOW, {"source"}, [](auto &, fovea_tensor &view) { view.strides[0] = INT64_MAX; });
    check_refusal(fovea_kv_cache_reorder(nullptr, cache.get(), nullptr), FOVEA_NULL_POINTER, {"source", "NULL"});
  }

  TEST_CASE("bad arguments: attend") {
    const AttentionProblem problem = make_problem();
    const KvCache cache = make_full_cache(nullptr, problem);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      const AttentionResult result = problem.make_result();
      AttentionArguments call(problem, result);
      spoil(call);
      check_refusal(fovea_kv_cache_attend(nullptr, cache.get(), nullptr, &call.query, &call.out, &call.options),
                    expected, words);
      CHECK(result.out.untouched());
      CHECK(result.log_sum_exp->untouched());
      CHECK(result.weights->untouched());
    };
    refuse(FOVEA_NULL_POINTER, {"query", "NULL"}, [](AttentionArguments &call) { call.query.data = nullptr; });
    refuse(FOVEA_BAD_SHAPE, {"query has 4 features", "expected 5"},
           [](AttentionArguments &c) { c.query.shape[3] = 4; });
    refuse(FOVEA_BAD_SHAPE, {"query has 1 batch entries", "expected 2"},
           [](AttentionArguments &call) { call.query.shape[0] = call.out.shape[0] = 1; });
    refuse(FOVEA_BAD_SHAPE, {"query has 3 heads, expected a multiple", "2"},
           [](AttentionArguments &call) { call.query.shape[1] = call.out.shape[1] = 3; });
    refuse(FOVEA_BAD_SHAPE, {"out", "2", "3"}, [](AttentionArguments &call) { call.out.shape[3] = 2; });
    for (int32_t rank : {2, 3}) {
      refuse(FOVEA_BAD_RANK, {"query has rank " + std::to_string(rank), "2 sequences of 2 heads"},
             [rank](AttentionArguments &call) { call.query.rank = rank; });
    }
    for (int32_t rank : {-1, 1, 5}) {
      refuse(FOVEA_BAD_RANK, {"query", std::to_string(rank)},
             [rank](AttentionArguments &call) { call.query.rank = rank; });
    }
    refuse(FOVEA_BAD_OPTION, {"flags"}, [](AttentionArguments &call) { call.options.flags = 0x80000000u; });
    refuse(FOVEA_OVERLAP, {"out", "query"}, [](AttentionArguments &call) { call.out.data = call.query.data; });
    const AttentionResult result = problem.make_result();
    const AttentionArguments call(problem, result);
    const auto attend_with = [&](const fovea_score *score, const fovea_tensor *query, const fovea_tensor *out) {
      return fovea_kv_cache_attend(nullptr, cache.get(), score, query, out, nullptr);
    };
    check_refusal(attend_with(nullptr, nullptr, &call.out), FOVEA_NULL_POINTER, {"query", "NULL"});
    check_refusal(attend_with(nullptr, &call.query, nullptr), FOVEA_NULL_POINTER, {"out", "NULL"});
    fovea_score score{};
    check_refusal(attend_with(&score, &call.query, &call.out), FOVEA_BAD_OPTION, {"struct_size", "0"});
    score.struct_size = sizeof score;
    score.kind = FOVEA_SCORE_ADDITIVE;
    check_refusal(attend_with(&score, &call.query, &call.out), FOVEA_NULL_POINTER, {"score", "NULL"});
    CHECK(result.out.untouched());
  }

  TEST_CASE("one sequence of two heads, two sequences of one head: which ranks a query may have") {
    for (const auto &[batch, heads] : {std::pair<int64_t, int64_t>{1, 2}, {2, 1}}) {
      Random random(base_seed());
      const AttentionProblem problem = make_attention(
          {.batch = batch, .heads = heads, .kv_heads = heads, .key_len = 4, .head_dim = 2, .value_dim = 2}, random);
      const KvCache cache = make_full_cache(nullptr, problem);
      for (int32_t rank : {2, 3}) {
        std::vector<float> query(4, 1), out(4, 7);
        const int64_t shape[] = {2, 1, 2};
        const int64_t *sizes = rank == 3 ? shape : shape + 1;
        const fovea_tensor q = fovea_tensor_contiguous(query.data(), FOVEA_F32, rank, sizes);
        const fovea_tensor o = fovea_tensor_contiguous(out.data(), FOVEA_F32, rank, sizes);
        const fovea_status status = fovea_kv_cache_attend(nullptr, cache.get(), nullptr, &q, &o, nullptr);
        if (rank == 3 && heads == 1) {
          CHECK(status == FOVEA_OK);
        } else {
          check_refusal(status, FOVEA_BAD_RANK, {"query has rank " + std::to_string(rank), "expected 4"});
          CHECK(out == std::vector<float>(4, 7));
        }
      }
    }
  }
}
