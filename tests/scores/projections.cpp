// Projections large enough for kernels of their own (tiles of bfloat16 with AMX): every edge of their blocks, elements
// that their parts cannot hold, and bits that do not depend on what is computed beside them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/attention_problem.hpp"
#include "support/batch_entry.hpp"

using namespace testing;

namespace {

constexpr int32_t kProjecting[] = {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT};

AttentionProblem make_projected(int32_t kind, const AttentionSizes &sizes, int64_t hidden) {
  Random random(base_seed());
  return make_scored(kind, sizes, hidden, random);
}

// `count` positions of a tensor with one batch entry and one head.
std::vector<float> slice(const Tensor<float> &tensor, int64_t first, int64_t count) {
  const std::vector<float> dense = tensor.dense();
  const int64_t dim = tensor.shape().back();
  return {dense.begin() + first * dim, dense.begin() + (first + count) * dim};
}

void set_element(Tensor<float> &tensor, int64_t at, float value) {
  std::vector<float> dense = tensor.dense();
  dense[static_cast<size_t>(at)] = value;
  tensor.assign(dense);
}

AttentionResult run(const AttentionProblem &problem, const fovea_context *context) {
  AttentionResult result = problem.make_result();
  REQUIRE_OK(problem.run(context, result));
  return result;
}

}  // namespace

TEST_SUITE("scores projections") {
  TEST_CASE("rows, elements and units at every edge of a block") {
    const AttentionSizes base = {.batch = 2, .query_len = 2, .key_len = 40, .head_dim = 70, .value_dim = 3};
    for (int32_t kind : kProjecting) {
      for (int64_t rows : {31, 32, 33, 47, 48, 49, 63, 64, 65, 97}) {
        AttentionSizes sizes = base;
        sizes.key_len = rows;
        check_attention(make_projected(kind, sizes, 70));
        std::swap(sizes.key_len, sizes.query_len);
        check_attention(make_projected(kind, sizes, 70));
      }
      for (int64_t dim : {63, 64, 65, 95, 96, 97, 128, 255, 256, 257, 288, 300, 513}) {
        AttentionSizes sizes = base;
        sizes.query_len = 33;
        sizes.head_dim = dim;
        sizes.key_dim = kind == FOVEA_SCORE_BILINEAR ? 0 : 333 - dim / 2;
        check_attention(make_projected(kind, sizes, 65));
      }
      for (int64_t units : {63, 64, 65, 79, 80, 81, 95, 96, 97, 112, 127, 128, 129, 200}) {
        AttentionSizes sizes = base;
        if (kind == FOVEA_SCORE_BILINEAR) sizes.key_dim = units;
        check_attention(make_projected(kind, sizes, units));
      }
    }
  }

  TEST_CASE("at most twice the error of the plain evaluation") {
    for (int32_t kind : kProjecting) {
      for (int64_t dim : {64, 256, 512}) {
        const AttentionSizes sizes = {
            .batch = 3, .query_len = 40, .key_len = 90, .head_dim = dim, .value_dim = 64, .key_dim = dim};
        check_attention_strictly(make_projected(kind, sizes, 128));
      }
    }
  }

  TEST_CASE("every buffer flush with the end of its page, with its beginning, and misaligned") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      const std::string where = placement_name(placement);
      CAPTURE(where);
      for (int32_t kind : kProjecting) {
        for (int64_t dim : {65, 81, 96, 260}) {
          const AttentionSizes sizes = {.query_len = 33, .key_len = 45, .head_dim = dim, .value_dim = 5, .key_dim = 64};
          check_attention(make_projected(kind, sizes, dim - 1));
        }
      }
    }
  }

  TEST_CASE("weights of any strides give the same bits") {
    for (int32_t kind : kProjecting) {
      AttentionProblem problem =
          make_projected(kind, {.query_len = 34, .key_len = 50, .head_dim = 70, .value_dim = 5, .key_dim = 100}, 72);
      for (const ScoreFunction::Parameter &parameter : problem.score->parameters()) {
        const Shape shape = parameter.tensor->shape();
        if (shape.size() != 2) continue;
        const Tensor<float> original = with_strides(*parameter.tensor, parameter.tensor->strides());
        for_each_isa([&](const fovea_context *context) {
          *parameter.tensor = with_strides(original, contiguous_strides(shape));
          const AttentionResult plain = run(problem, context);
          for (const Shape &strides :
               {Shape{shape[1] + 5, 1}, Shape{1, shape[0]}, Shape{-shape[1], 1}, Shape{2, -3 * shape[0]}}) {
            *parameter.tensor = with_strides(original, strides);
            CHECK(same_bits(plain, run(problem, context)));
          }
        });
        *parameter.tensor = with_strides(original, contiguous_strides(shape));
      }
    }
  }

  // Denormal parts, parts beyond the largest bfloat16, and what is no number.
  TEST_CASE("elements too small and too large to be taken apart") {
    const float infinity = std::numeric_limits<float>::infinity();
    const float values[] = {0.0f,   -0.0f,   0x1p-47f, -0x1p-49f, 0x1p-60f, 1e-30f,
                            1e-40f, 0x1p59f, -0x1p61f, 1e30f,     infinity, NAN};
    for (int32_t kind : kProjecting) {
      const AttentionSizes sizes = {
          .batch = 2, .query_len = 33, .key_len = 45, .head_dim = 65, .value_dim = 5, .key_dim = 65};
      for (float value : values) {
        if (kind == FOVEA_SCORE_BILINEAR && std::fabs(value) > 1) continue;  // so would the scores be, and their errors
        CAPTURE(value);
        AttentionProblem problem = make_projected(kind, sizes, 66);
        set_element(problem.key, 40 * 65 + 64, value);
        set_element(problem.query, 20 * 65 + 1, value);
        check_attention(problem);
      }
      for (float value : {1e-30f, 0x1p-49f, 1e-40f, 0x1p61f, infinity}) {
        if (kind == FOVEA_SCORE_BILINEAR && value > 1) continue;
        CAPTURE(value);
        AttentionProblem problem = make_projected(kind, sizes, 66);
        for (const ScoreFunction::Parameter &parameter : problem.score->parameters()) {
          if (parameter.tensor->shape().size() == 2) set_element(*parameter.tensor, 65, value);
        }
        check_attention(problem);
      }
      AttentionProblem tiny = make_projected(kind, sizes, 66);
      std::vector<float> keys = tiny.key.dense();
      for (float &x : keys) x *= 1e-33f;
      tiny.key.assign(keys);
      check_attention(tiny);
    }
  }

  TEST_CASE("a batch entry has the same bits alone and beside any neighbours") {
    for (int32_t kind : kProjecting) {
      for (int64_t key_len : {33, 40, 47, 64, 100}) {
        for (int64_t query_len : {1, 35, 48}) {
          const AttentionSizes sizes = {
              .batch = 5, .query_len = query_len, .key_len = key_len, .head_dim = 80, .value_dim = 6, .key_dim = 96};
          AttentionProblem many = make_projected(kind, sizes, 72);
          AttentionProblem odd = make_projected(kind, sizes, 72);
          for (int64_t n = 0; n < sizes.batch; n += 2) {
            set_element(odd.key, (n * key_len + key_len - 1) * 96, 1e-30f);
            set_element(odd.query, n * query_len * 80, NAN);
          }
          AttentionSizes one = sizes;
          one.batch = 1;
          AttentionProblem alone = make_projected(kind, one, 72);
          alone.score = make_projected(kind, sizes, 72).score;
          for (const std::string &isa : instruction_sets()) {
            for (int threads : {1, 2, 8}) {
              const std::string what = many.describe() + " " + isa + " threads=" + std::to_string(threads);
              CAPTURE(what);
              const fovea_context *context = shared_context(isa, threads);
              const AttentionResult all = run(many, context);
              const AttentionResult beside = run(odd, context);
              for (int64_t n : {1, 3}) {
                CAPTURE(n);
                alone.query = batch_entry(many.query, n);
                alone.key = batch_entry(many.key, n);
                alone.value = batch_entry(many.value, n);
                const AttentionResult expected = run(alone, shared_context(isa, 1));
                CHECK(same_bits(batch_entry(all.out, n), expected.out));
                CHECK(same_bits(batch_entry(beside.out, n), expected.out));
              }
            }
          }
        }
      }
    }
  }

  // Prepared keys and steps of a decoder come by one key at a time.
  TEST_CASE("a query's bits depend on neither the other queries nor keys it does not attend, where that is asked for") {
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      AttentionSizes sizes = {.query_len = 50, .key_len = 50, .head_dim = 80, .value_dim = 6};
      if (takes_two_dims(kind)) sizes.key_dim = 96;
      AttentionProblem many = make_projected(kind, sizes, 72);
      many.flags = FOVEA_QUERY_INVARIANT | FOVEA_CAUSAL;
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> all = run(many, context).out.dense();
        for (int64_t i : {0, 30, 31, 32, 49}) {
          AttentionSizes first = sizes;
          first.query_len = 1;
          first.key_len = i + 1;
          AttentionProblem step = make_projected(kind, first, 72);
          step.flags = many.flags;
          step.score = make_projected(kind, sizes, 72).score;
          step.query.assign(slice(many.query, i, 1));
          step.key.assign(slice(many.key, 0, i + 1));
          step.value.assign(slice(many.value, 0, i + 1));
          CHECK(run(step, context).out.dense() == std::vector<float>(all.begin() + i * 6, all.begin() + (i + 1) * 6));
        }
      });
    }
  }

  // Without the flag BILINEAR projects the keys where they are fewer: other bits for a query that is alone.
  TEST_CASE("a query's bits do not depend on the other queries for any score, be they more than the keys") {
    for (int32_t kind : kScoreKinds) {
      AttentionSizes sizes = {.query_len = 50, .key_len = 12, .head_dim = 20, .value_dim = 6};
      Random random(base_seed());
      AttentionProblem many = make_scored(kind, sizes, 40, random);
      many.flags = FOVEA_QUERY_INVARIANT;
      sizes.query_len = 1;
      AttentionProblem one = make_scored(kind, sizes, 40, random);
      one.flags = many.flags;
      Random first(base_seed()), again(base_seed());
      many.score = make_score(kind, 20, 20, 40, first);
      one.score = make_score(kind, 20, 20, 40, again);
      one.key.assign(many.key.dense());
      one.value.assign(many.value.dense());
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> all = run(many, context).out.dense();
        for (int64_t i = 0; i < 50; ++i) {
          CAPTURE(kind);
          CAPTURE(i);
          one.query.memory().thaw();
          one.query.assign(slice(many.query, i, 1));
          CHECK(run(one, context).out.dense() == std::vector<float>(all.begin() + i * 6, all.begin() + (i + 1) * 6));
        }
      });
    }
  }
}
