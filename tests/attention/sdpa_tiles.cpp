// Sizes around the edges of tiles: 0, 1, T-1, T, T+1 for the tile sizes a kernel may use, and primes, in every
// dimension.
#include <doctest/doctest.h>

#include <vector>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

const std::vector<int64_t> kEdges = {0,  1,  2,  3,  5,  7,  13, 15, 16,  17,  31,  32,  33,  37,  47, 48,
                                     49, 63, 64, 65, 67, 95, 96, 97, 127, 128, 129, 131, 255, 256, 257};

void check_sizes(const AttentionSizes &sizes, uint64_t seed) {
  CAPTURE(seed);
  Random random(seed);
  const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
  check_attention(make_attention(sizes, random));
}

}  // namespace

TEST_SUITE("sdpa tiles") {
  TEST_CASE("query_len") {
    for (int64_t size : kEdges)
      check_sizes({.query_len = size, .key_len = 37, .head_dim = 16, .value_dim = 16}, base_seed());
  }

  TEST_CASE("key_len") {
    for (int64_t size : kEdges)
      check_sizes({.query_len = 9, .key_len = size, .head_dim = 16, .value_dim = 16}, base_seed());
    for (int64_t size : {511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049}) {
      check_sizes({.query_len = 3, .key_len = size, .head_dim = 16, .value_dim = 16}, base_seed());
    }
  }

  TEST_CASE("one query and a few, around tiles of several hundred keys") {
    for (int64_t query_len : {1, 2, 5}) {
      for (int64_t key_len : {191, 192, 193, 287, 289, 383, 384, 385, 767, 768, 769, 1153}) {
        Random random(base_seed());
        AttentionProblem problem =
            make_attention({.query_len = query_len, .key_len = key_len, .head_dim = 20, .value_dim = 36}, random);
        check_attention(problem);
        problem.set_valid_lens({key_len - 1});
        check_attention(problem);
        problem.valid_lens32.reset();
        problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
        problem.window_left = key_len / 3;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("one query of heads enough not to be split, around lines of 1536 keys") {
    for (int64_t key_len : {1151, 1535, 1536, 1537, 3071, 3073}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.heads = 32, .kv_heads = 16, .query_len = 1, .key_len = key_len, .head_dim = 20, .value_dim = 36}, random);
      problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      problem.window_left = 1530;
      check_attention(problem);
      AttentionProblem one = make_attention({.batch = 2,
                                             .heads = 16,
                                             .kv_heads = 16,
                                             .query_len = 1,
                                             .key_len = key_len,
                                             .head_dim = 20,
                                             .value_dim = 36},
                                            random);
      check_attention(one);
      one.set_valid_lens({key_len - 1, 1536});
      if (key_len >= 1536) check_attention(one);
      one.valid_lens32.reset();
      one.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      for (const int64_t window : {383, 384, 1150}) {
        one.window_left = window;
        check_attention(one);
      }
    }
  }

  TEST_CASE("head_dim, one query and many") {
    for (int64_t size : kEdges) {
      if (size == 0) continue;
      check_sizes({.query_len = 1, .key_len = 37, .head_dim = size, .value_dim = 16}, base_seed());
      check_sizes({.query_len = 33, .key_len = 37, .head_dim = size, .value_dim = 16}, base_seed());
    }
    for (int64_t size : {511, 512, 1000, 1023, 1024}) {
      check_sizes({.query_len = 17, .key_len = 19, .head_dim = size, .value_dim = 5}, base_seed());
    }
  }

  TEST_CASE("value_dim, one query and many") {
    for (int64_t size : kEdges) {
      if (size == 0) continue;
      check_sizes({.query_len = 1, .key_len = 37, .head_dim = 16, .value_dim = size}, base_seed());
      check_sizes({.query_len = 33, .key_len = 37, .head_dim = 16, .value_dim = size}, base_seed());
    }
    for (int64_t size : {511, 512, 1000, 1023, 1024}) {
      check_sizes({.query_len = 17, .key_len = 19, .head_dim = 5, .value_dim = size}, base_seed());
    }
  }

  TEST_CASE("every pair of edges for queries and keys") {
    const std::vector<int64_t> edges = {0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129};
    for (int64_t query_len : edges) {
      for (int64_t key_len : edges) {
        check_sizes({.query_len = query_len, .key_len = key_len, .head_dim = 8, .value_dim = 8}, base_seed());
      }
    }
  }

  TEST_CASE("every pair of edges for the feature sizes") {
    const std::vector<int64_t> edges = {1, 3, 15, 16, 17, 31, 33, 64, 65, 80, 96, 129};
    for (int64_t head_dim : edges) {
      for (int64_t value_dim : edges) {
        check_sizes({.query_len = 19, .key_len = 35, .head_dim = head_dim, .value_dim = value_dim}, base_seed());
        check_sizes({.query_len = 1, .key_len = 35, .head_dim = head_dim, .value_dim = value_dim}, base_seed());
      }
    }
  }

  TEST_CASE("causal at the edges of tiles") {
    for (int64_t query_len : {1, 15, 16, 17, 64, 65, 129}) {
      for (int64_t key_len : {1, 15, 16, 17, 63, 64, 65, 129, 257}) {
        Random random(base_seed());
        AttentionProblem problem =
            make_attention({.query_len = query_len, .key_len = key_len, .head_dim = 8, .value_dim = 8}, random);
        problem.flags = FOVEA_CAUSAL;
        check_attention(problem);
        problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("the shapes of models: at most twice the error of the plain evaluation") {
    const AttentionSizes shapes[] = {
        {.heads = 2, .kv_heads = 2, .query_len = 384, .key_len = 384, .head_dim = 64, .value_dim = 64},
        {.heads = 4, .kv_heads = 1, .query_len = 100, .key_len = 300, .head_dim = 128, .value_dim = 128},
        {.heads = 32, .kv_heads = 8, .query_len = 1, .key_len = 1000, .head_dim = 128, .value_dim = 128},
        {.heads = 8, .kv_heads = 1, .query_len = 3, .key_len = 3000, .head_dim = 64, .value_dim = 64},
        {.query_len = 200, .key_len = 200, .head_dim = 72, .value_dim = 72},
        {.query_len = 100, .key_len = 200, .head_dim = 256, .value_dim = 256},
        {.query_len = 70, .key_len = 150, .head_dim = 512, .value_dim = 512},
        {.query_len = 70, .key_len = 150, .head_dim = 192, .value_dim = 128},
        {.query_len = 60, .key_len = 2000, .head_dim = 64, .value_dim = 64},
        {.query_len = 70, .key_len = 12000, .head_dim = 8, .value_dim = 8},
        {.heads = 64, .kv_heads = 64, .query_len = 1, .key_len = 9000, .head_dim = 8, .value_dim = 8}};
    for (const AttentionSizes &sizes : shapes) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(sizes, random);
      check_attention_strictly(problem);
      problem.flags = FOVEA_CAUSAL;
      check_attention_strictly(problem);
    }
  }

  TEST_CASE("sizes of zero") {
    check_sizes({.batch = 0, .heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 4, .head_dim = 5, .value_dim = 6},
                base_seed());
    check_sizes({.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 0, .key_len = 4, .head_dim = 5, .value_dim = 6},
                base_seed());
    for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 0, .head_dim = 5, .value_dim = 6}, random);
      problem.empty_rows = policy;
      check_attention(problem);
      problem.sinks.emplace(Shape{2}).assign({0.5f, -2.0f});
      check_attention(problem);
    }
  }
}
