// Grouped heads, decode (few queries against many keys, split over threads) and the layouts BHLD and BLHD.
#include <doctest/doctest.h>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

void check_sizes(const AttentionSizes &sizes, Layout layout = Layout::kHeadsFirst) {
  Random random(base_seed());
  check_attention(make_attention(sizes, random, layout));
}

}  // namespace

TEST_SUITE("sdpa heads") {
  TEST_CASE("every grouping of 12 heads") {
    for (int64_t kv_heads : {1, 2, 3, 4, 6, 12}) {
      for (int64_t query_len : {1, 2, 5, 33}) {
        check_sizes({.batch = 2,
                     .heads = 12,
                     .kv_heads = kv_heads,
                     .query_len = query_len,
                     .key_len = 50,
                     .head_dim = 8,
                     .value_dim = 8});
      }
    }
  }

  TEST_CASE("a group that is no power of two, longer than a tile") {
    for (int64_t heads : {5, 7, 71}) {
      check_sizes({.heads = heads, .kv_heads = 1, .query_len = 3, .key_len = 40, .head_dim = 16, .value_dim = 8});
    }
  }

  TEST_CASE("decode: key lengths around the edges of splits") {
    for (int64_t key_len : {1, 7, 100, 255, 256, 257, 511, 513, 1000, 1024, 2049, 4096, 4097, 5000}) {
      check_sizes({.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = key_len, .head_dim = 16, .value_dim = 16});
    }
    check_sizes({.heads = 32, .kv_heads = 8, .query_len = 1, .key_len = 700, .head_dim = 128, .value_dim = 128});
    check_sizes(
        {.batch = 3, .heads = 1, .kv_heads = 1, .query_len = 1, .key_len = 3000, .head_dim = 64, .value_dim = 64});
  }

  TEST_CASE("decode of a few tokens, causal, with a cache") {
    for (int64_t query_len : {1, 2, 3, 4, 7}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention({.batch = 2,
                                                 .heads = 4,
                                                 .kv_heads = 2,
                                                 .query_len = query_len,
                                                 .key_len = 1500,
                                                 .head_dim = 16,
                                                 .value_dim = 12},
                                                random);
      problem.flags = FOVEA_CAUSAL;
      check_attention(problem);
      problem.set_valid_lens({1500, 3});
      check_attention(problem);
      problem.set_valid_lens({0, 1025}, true);
      check_attention(problem);
      problem.sinks.emplace(Shape{4}).fill_normal(random);
      check_attention(problem);
      problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      problem.window_left = 600;
      check_attention(problem);
      problem.alibi_slopes.emplace(Shape{4}).assign({0.01f, 0.02f, 0.04f, 0.08f});
      check_attention(problem);
    }
  }

  TEST_CASE("decode with splits that hold nothing to attend") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 1, .key_len = 5000, .head_dim = 8, .value_dim = 8}, random);
    for (int64_t kept : {0, 1, 1023, 1024, 2500, 4999}) {
      problem.set_mask([kept](int64_t, int64_t, int64_t, int64_t j) { return j == kept; });
      check_attention(problem);
    }
    for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
      problem.empty_rows = policy;
      problem.set_mask([](int64_t, int64_t h, int64_t, int64_t j) { return h == 1 && j % 7 == 0; });
      check_attention(problem);
    }
  }

  TEST_CASE("layouts are just strides") {
    for (Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
      for (int64_t query_len : {1, 18, 65}) {
        check_sizes({.batch = 2,
                     .heads = 6,
                     .kv_heads = 2,
                     .query_len = query_len,
                     .key_len = 47,
                     .head_dim = 16,
                     .value_dim = 24},
                    layout);
      }
    }
  }

  TEST_CASE("the same bits in every layout") {
    const AttentionSizes sizes = {
        .batch = 2, .heads = 6, .kv_heads = 2, .query_len = 18, .key_len = 47, .head_dim = 16, .value_dim = 24};
    for_each_isa([&](const fovea_context *context) {
      std::vector<AttentionResult> results;
      for (Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
        Random random(base_seed());  // the same numbers in the same order: filled by index
        const AttentionProblem problem = make_attention(sizes, random, layout);
        results.push_back(problem.make_result(false));
        REQUIRE_OK(problem.run(context, results.back()));
        CHECK(same_bits(results.front(), results.back()));
      }
    });
  }
}
