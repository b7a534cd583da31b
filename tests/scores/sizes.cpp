// Score functions at every edge of the sizes: features, hidden units, queries, keys, values; layouts of the parameters;
// the accuracy at the shapes of models.
#include <doctest/doctest.h>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

void check_sizes(int32_t kind, const AttentionSizes &sizes, int64_t hidden = 1) {
  Random random(base_seed());
  check_attention(make_scored(kind, sizes, hidden, random));
}

const std::vector<int64_t> kEdges = {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65};

}  // namespace

TEST_SUITE("scores sizes") {
  TEST_CASE("feature sizes from 1 to 70, and large ones") {
    std::vector<int64_t> dims = {127, 128, 129, 300};
    for (int64_t dim = 1; dim <= 70; ++dim) dims.push_back(dim);
    for (int32_t kind : kScoreKinds) {
      for (int64_t dim : dims) {
        for (int64_t query_len : {1, 19}) {
          check_sizes(kind, {.query_len = query_len, .key_len = 35, .head_dim = dim, .value_dim = 7}, 9);
        }
      }
      check_sizes(kind, {.query_len = 5, .key_len = 20, .head_dim = 1024, .value_dim = 1024}, 9);
    }
  }

  TEST_CASE("queries and keys of different sizes") {
    for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (int64_t query_dim : {1, 3, 16, 17, 65, 128}) {
        for (int64_t key_dim : {1, 2, 15, 33, 64, 300}) {
          for (int64_t query_len : {1, 3, 60}) {
            check_sizes(kind,
                        {.batch = 2,
                         .heads = 2,
                         .kv_heads = 1,
                         .query_len = query_len,
                         .key_len = 21,
                         .head_dim = query_dim,
                         .value_dim = 5,
                         .key_dim = key_dim},
                        13);
          }
        }
      }
      check_sizes(kind, {.query_len = 3, .key_len = 9, .head_dim = 1, .value_dim = 3, .key_dim = 1024}, 20);
      check_sizes(kind, {.query_len = 3, .key_len = 9, .head_dim = 1024, .value_dim = 3, .key_dim = 1}, 20);
    }
  }

  TEST_CASE("hidden units") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (int64_t hidden : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 256, 300, 513}) {
        for (int64_t query_len : {1, 2, 20}) {
          check_sizes(kind,
                      {.batch = 2, .query_len = query_len, .key_len = 35, .head_dim = 10, .value_dim = 7, .key_dim = 6},
                      hidden);
        }
      }
      check_sizes(kind, {.query_len = 2, .key_len = 5, .head_dim = 2, .value_dim = 2, .key_dim = 3}, 65536);
    }
  }

  TEST_CASE("every pair of edges for queries and keys") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : kEdges) {
        for (int64_t key_len : kEdges) {
          check_sizes(kind, {.query_len = query_len, .key_len = key_len, .head_dim = 6, .value_dim = 8}, 5);
        }
      }
      for (int64_t key_len : {127, 128, 129, 255, 256, 257}) {
        check_sizes(kind, {.query_len = 33, .key_len = key_len, .head_dim = 6, .value_dim = 8}, 5);
      }
    }
  }

  TEST_CASE("value sizes") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t value_dim : kEdges) {
        for (int64_t query_len : {1, 20}) {
          check_sizes(kind, {.query_len = query_len, .key_len = 35, .head_dim = 10, .value_dim = value_dim}, 12);
        }
      }
      for (int64_t value_dim : {128, 129, 256, 257, 512, 513}) {
        check_sizes(kind, {.query_len = 1, .key_len = 53, .head_dim = 10, .value_dim = value_dim}, 12);
      }
    }
  }

  TEST_CASE("decode: one query, and a few, against many keys") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t key_len : {1, 7, 100, 255, 256, 257, 383, 384, 385, 513, 769, 1024, 2049, 3000}) {
        check_sizes(
            kind, {.heads = 4, .kv_heads = 2, .query_len = 1, .key_len = key_len, .head_dim = 16, .value_dim = 16}, 8);
      }
      for (int64_t query_len : {2, 3, 4, 7}) {
        check_sizes(kind,
                    {.batch = 2,
                     .heads = 2,
                     .kv_heads = 1,
                     .query_len = query_len,
                     .key_len = 700,
                     .head_dim = 16,
                     .value_dim = 12},
                    20);
      }
    }
  }

  TEST_CASE("parameters of any strides") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 20}) {
        AttentionSizes sizes = {
            .heads = 2, .kv_heads = 1, .query_len = query_len, .key_len = 35, .head_dim = 10, .value_dim = 7};
        if (takes_two_dims(kind)) sizes.key_dim = 13;
        Random random(base_seed());
        AttentionProblem problem = make_scored(kind, sizes, 12, random);
        if (kind == FOVEA_SCORE_GAUSSIAN) {
          problem.score->sigma = 0;
          problem.score->sigmas.emplace(Shape{2}).assign({3, 4});
        }
        const AttentionResult plain = problem.make_result();
        REQUIRE_OK(problem.run(nullptr, plain));
        for (const ScoreFunction::Parameter &parameter : problem.score->parameters()) {
          CAPTURE(parameter.name);
          Tensor<float> *tensor = parameter.tensor;
          const Shape shape = tensor->shape();
          std::vector<Shape> layouts = {{3}, {-2}};
          if (shape.size() == 2) layouts = {{shape[1] + 5, 1}, {1, shape[0]}, {-shape[1], 1}, {2, -3 * shape[0]}};
          const Tensor<float> original = with_strides(*tensor, tensor->strides());
          for (const Shape &strides : layouts) {
            *tensor = with_strides(original, strides);
            check_attention(problem);
            const AttentionResult strided = problem.make_result();
            REQUIRE_OK(problem.run(nullptr, strided));
            CHECK(same_bits(plain, strided));
          }
          *tensor = with_strides(original, contiguous_strides(shape));
        }
      }
    }
  }

  TEST_CASE("parameters repeated by stride 0") {
    Random random(base_seed());
    const AttentionSizes sizes = {.query_len = 20, .key_len = 35, .head_dim = 10, .value_dim = 7};
    AttentionProblem bilinear = make_scored(FOVEA_SCORE_BILINEAR, sizes, 0, random);
    bilinear.score->weight.emplace(Shape{10, 10}, Shape{0, 1}).fill([&] { return 0.1f * random.normal(); });
    check_attention(bilinear);
    AttentionProblem additive = make_scored(FOVEA_SCORE_ADDITIVE, sizes, 12, random);
    additive.score->query_weight.emplace(Shape{12, 10}, Shape{1, 0}).fill([&] { return 0.1f * random.normal(); });
    additive.score->key_weight.emplace(Shape{12, 10}, Shape{0, 0}).fill([] { return 0.25f; });
    additive.score->score_vector.emplace(Shape{12}, Shape{0}).fill([] { return 0.5f; });
    check_attention(additive);
  }

  TEST_CASE("every buffer flush with the end of its page, with its beginning, and misaligned") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      const std::string where = placement_name(placement);
      CAPTURE(where);
      for (int32_t kind : kScoreKinds) {
        for (int64_t query_len : {1, 2, 34}) {
          for (int64_t key_len : {1, 15, 33}) {
            for (int64_t dim : {1, 3, 16, 33}) {
              for (int64_t hidden : {1, 7, 16, 33}) {
                if (!has_hidden(kind) && hidden > 1) continue;
                Random random(base_seed());
                AttentionSizes sizes = {.heads = 2,
                                        .kv_heads = 1,
                                        .query_len = query_len,
                                        .key_len = key_len,
                                        .head_dim = dim,
                                        .value_dim = 36 - dim};
                if (takes_two_dims(kind)) sizes.key_dim = 34 - dim;
                AttentionProblem problem = make_scored(kind, sizes, hidden, random);
                if (kind == FOVEA_SCORE_GAUSSIAN) {
                  problem.score->sigma = 0;
                  problem.score->sigmas.emplace(Shape{2}).assign({3, 4});
                }
                problem.set_valid_lens({key_len - key_len / 4});
                check_attention(problem);
              }
            }
          }
        }
      }
    }
  }

  TEST_CASE("the shapes of models: at most twice the error of the plain evaluation") {
    // Large enough that the plain evaluation has no luck. The dot product has its own.
    const AttentionSizes shapes[] = {
        {.batch = 16, .query_len = 1, .key_len = 60, .head_dim = 256, .value_dim = 256},
        {.batch = 4, .query_len = 40, .key_len = 60, .head_dim = 128, .value_dim = 128},
        {.heads = 2, .kv_heads = 1, .query_len = 100, .key_len = 200, .head_dim = 32, .value_dim = 64},
        {.batch = 8, .query_len = 2, .key_len = 500, .head_dim = 64, .value_dim = 64}};
    for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      for (const AttentionSizes &sizes : shapes) {
        for (int64_t hidden : {64, 256}) {
          if (!has_hidden(kind) && hidden > 64) continue;
          Random random(base_seed());
          AttentionProblem problem = make_scored(kind, sizes, hidden, random);
          check_attention_strictly(problem);
          problem.flags = FOVEA_CAUSAL;
          check_attention_strictly(problem);
        }
      }
    }
  }
}
