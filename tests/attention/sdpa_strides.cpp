// Strides: broadcast inputs (stride 0), negative strides, gaps, overlapping inputs, lower ranks, buffers at either end
// of a page.
#include <doctest/doctest.h>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 3, .heads = 4, .kv_heads = 2, .query_len = 10, .key_len = 33, .head_dim = 8, .value_dim = 6};

AttentionProblem make_problem() {
  Random random(base_seed());
  return make_attention(kSizes, random);
}

}  // namespace

TEST_SUITE("sdpa strides") {
  TEST_CASE("inputs repeated by stride 0") {
    Random random(base_seed());
    AttentionProblem problem = make_problem();
    problem.key = Tensor<float>({3, 2, 33, 8}, {0, 33 * 8, 8, 1});
    problem.key.fill_normal(random);
    check_attention(problem);
    problem.value = Tensor<float>({3, 2, 33, 6}, {33 * 6, 0, 6, 1});
    problem.value.fill_normal(random);
    check_attention(problem);
    problem.query = Tensor<float>({3, 4, 10, 8}, {0, 0, 0, 1});
    problem.query.fill_normal(random);
    check_attention(problem);
    problem.key = Tensor<float>({3, 2, 33, 8}, {0, 0, 0, 1});
    problem.key.fill_normal(random);
    check_attention(problem);
    problem.alibi_slopes.emplace(Shape{4}, Shape{0}).fill([] { return 0.1f; });
    problem.sinks.emplace(Shape{4}, Shape{5}).fill_normal(random);
    check_attention(problem);
  }

  TEST_CASE("inputs that overlap themselves: sliding rows") {
    Random random(base_seed());
    AttentionProblem problem = make_problem();
    problem.key = Tensor<float>({3, 2, 33, 8}, {40, 5, 1, 1});
    problem.key.fill_normal(random);
    check_attention(problem);
  }

  TEST_CASE("negative strides") {
    Random random(base_seed());
    AttentionProblem problem = make_problem();
    problem.key = Tensor<float>({3, 2, 33, 8}, {2 * 33 * 8, 33 * 8, -8, 1});
    problem.key.fill_normal(random);
    problem.query = Tensor<float>({3, 4, 10, 8}, {-4 * 10 * 8, 10 * 8, 8, 1});
    problem.query.fill_normal(random);
    problem.value = Tensor<float>({3, 2, 33, 6}, {2 * 33 * 6, -33 * 6, 6, 1});
    problem.value.fill_normal(random);
    check_attention(problem);
  }

  TEST_CASE("outputs of any layout") {
    const AttentionProblem problem = make_problem();
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult plain = problem.make_result();
      REQUIRE_OK(problem.run(context, plain));
      AttentionResult strided;
      strided.out = Tensor<float>({3, 4, 10, 6}, {-4 * 10 * 9, 9, 4 * 9, 1});
      strided.log_sum_exp.emplace(Shape{3, 4, 10}, Shape{1, 30, 3});
      strided.weights.emplace(Shape{3, 4, 10, 33}, permuted_strides({3, 4, 10, 33}, {2, 0, 1, 3}, 2));
      REQUIRE_OK(problem.run(context, strided));
      CHECK(same_bits(plain, strided));
      CHECK(strided.out.gaps_untouched());
      CHECK(strided.weights->gaps_untouched());
    });
  }

  TEST_CASE("rank 3 and rank 2") {
    for (int rank : {2, 3}) {
      for (int64_t query_len : {1, 10, 40}) {
        Random random(base_seed());
        const int64_t batch = rank == 2 ? 1 : 3;
        AttentionProblem problem =
            make_attention({.batch = batch, .query_len = query_len, .key_len = 33, .head_dim = 8, .value_dim = 6},
                           random, Layout::kPadded, rank);
        check_attention(problem);
        problem.set_mask([](int64_t b, int64_t, int64_t i, int64_t j) { return (b + i + j) % 3 != 0; });
        problem.bias.emplace(problem.shape_of({1, 1, 1, 33})).fill_normal(random);
        problem.alibi_slopes.emplace(Shape{1}).assign({0.2f});
        problem.sinks.emplace(Shape{1}).assign({1.5f});
        check_attention(problem);
        problem.set_valid_lens(batch == 1 ? std::vector<int64_t>{20} : std::vector<int64_t>{0, 20, 33});
        check_attention(problem);
        problem.flags = FOVEA_AVERAGE_WEIGHTS;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("strides of axes of size 1 are not read") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 1, .key_len = 20, .head_dim = 4, .value_dim = 4}, random);
    const AttentionResult result = problem.make_result();
    const AttentionResult odd = problem.make_result();
    for_each_isa([&](const fovea_context *context) {
      REQUIRE_OK(problem.run(context, result));
      AttentionArguments arguments(problem, odd);
      for (int axis : {0, 1}) {
        arguments.query.strides[axis] = -12345;
        arguments.key.strides[axis] = 1LL << 60;
        arguments.out.strides[axis] = 0;
      }
      REQUIRE_OK(
          fovea_sdpa(context, &arguments.query, &arguments.key, &arguments.value, &arguments.out, &arguments.options));
      CHECK(same_bits(result, odd));
    });
  }

  TEST_CASE("every buffer flush with the end of its page, with its beginning, and misaligned") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      const std::string where = placement_name(placement);
      CAPTURE(where);
      for (int64_t query_len : {1, 2, 15, 34}) {
        for (int64_t key_len : {1, 15, 33, 130}) {
          for (int64_t head_dim : {1, 3, 16, 33, 65}) {
            for (int64_t value_dim : {1, 3, 16, 33, 65}) {
              Random random(base_seed());
              AttentionProblem problem = make_attention({.heads = 2,
                                                         .kv_heads = 1,
                                                         .query_len = query_len,
                                                         .key_len = key_len,
                                                         .head_dim = head_dim,
                                                         .value_dim = value_dim},
                                                        random);
              problem.set_valid_lens({key_len - key_len / 4});
              problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 5 != 1; });
              problem.bias.emplace(problem.score_shape()).fill_normal(random);
              problem.sinks.emplace(Shape{2}).fill_normal(random);
              problem.alibi_slopes.emplace(Shape{2}).assign({0.5f, 0.1f});
              check_attention(problem);
            }
          }
        }
      }
    }
  }
}
