// Prepared keys and 16 bits: keys that come in them are prepared as float32 keys of the same numbers are; those of
// BILINEAR, which are projected keys, may be kept in them, each number rounded once.
#include <doctest/doctest.h>

#include "errors.hpp"
#include "support/narrow.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

constexpr int32_t kPreparable[] = {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT};

void round_all(Tensor<float> &tensor, fovea_dtype dtype) {
  for_each_index(tensor.shape(), [&](const Shape &index) { tensor.at(index) = rounded_to(tensor.at(index), dtype); });
}

fovea_tensor positions(fovea_tensor part, int64_t begin, int64_t end) {
  const int64_t size = part.dtype == FOVEA_F32 ? 4 : 2;
  part.data = static_cast<char *>(part.data) + begin * part.strides[2] * size;
  part.shape[2] = end - begin;
  return part;
}

// Appends the problem's keys, in pieces.
void append_all(const fovea_context *context, const Keys &keys, const fovea_tensor &key) {
  for (int64_t begin = 0; begin < key.shape[2]; begin += 17) {
    const fovea_tensor part = positions(key, begin, std::min(begin + 17, key.shape[2]));
    REQUIRE_OK(fovea_prepared_keys_append(context, keys.get(), &part));
  }
}

// Queries that pick one feature each, so that the scores are the prepared keys themselves.
AttentionProblem make_picking_problem(int64_t key_len) {
  AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_BILINEAR, 10, key_len);
  problem.scale = 1;
  for_each_index(problem.query.shape(),
                 [&](const Shape &index) { problem.query.at(index) = index[2] == index[3] ? 1.0f : 0.0f; });
  return problem;
}

Tensor<float> raw_scores(const fovea_context *context, const AttentionProblem &problem, const Keys &keys) {
  const AttentionResult result = problem.make_result(false);
  Tensor<float> scores(problem.score_shape());
  AttentionArguments call(problem, result);
  const fovea_tensor view = scores.view();
  call.options.scores = &view;
  REQUIRE_OK(fovea_attention_prepared(context, &call.query, keys.get(), &call.value, &call.out, &call.options));
  return scores;
}

}  // namespace

TEST_SUITE("prepared keys") {
  TEST_CASE("keys of 16 bits give what float32 keys of the same numbers give") {
    for (const int32_t kind : kPreparable) {
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        AttentionProblem problem = make_prepared_problem(kind, 3, 60);
        round_all(problem.key, dtype);
        const NarrowTensor narrow(problem.key, dtype);
        for_each_isa([&](const fovea_context *context) {
          const Keys from_floats = make_full(context, problem), from_halves = make_keys(context, problem, 60);
          append_all(context, from_halves, narrow.view());
          const AttentionResult expected = problem.make_result(), result = problem.make_result();
          REQUIRE_OK(attend(context, problem, from_floats, expected));
          REQUIRE_OK(attend(context, problem, from_halves, result));
          CHECK(same_bits(result, expected));
        });
      }
    }
  }

  TEST_CASE("projected keys kept in 16 bits: each number rounded once, whatever the keys come in") {
    for (const fovea_dtype kept : {FOVEA_F16, FOVEA_BF16}) {
      for (const fovea_dtype given : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
        AttentionProblem problem = make_picking_problem(60);
        round_all(problem.key, given);
        const NarrowTensor narrow(problem.key, given == FOVEA_F32 ? FOVEA_F16 : given);
        for_each_isa([&](const fovea_context *context) {
          const Keys wide = make_full(context, problem), halves = make_keys(context, problem, 64, kept);
          append_all(context, halves, given == FOVEA_F32 ? problem.key.view() : narrow.view());
          REQUIRE_OK(fovea_prepared_keys_truncate(halves.get(), 40));
          const fovea_tensor again = positions(problem.key.view(), 40, 60);
          REQUIRE_OK(fovea_prepared_keys_append(context, halves.get(), &again));
          const Tensor<float> expected = raw_scores(context, problem, wide), got = raw_scores(context, problem, halves);
          int64_t wrong = 0;
          for_each_index(expected.shape(),
                         [&](const Shape &index) { wrong += got.at(index) != rounded_to(expected.at(index), kept); });
          CHECK_EQ(wrong, 0);
        });
      }
    }
  }

  TEST_CASE("projected keys kept in 16 bits, attended by few queries and by many, have half the size") {
    for (const int64_t query_len : {1, 3, 40}) {
      for (const fovea_dtype kept : {FOVEA_F16, FOVEA_BF16}) {
        const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_BILINEAR, query_len, 300);
        for_each_isa([&](const fovea_context *context) {
          const Keys wide = make_full(context, problem), halves = make_keys(context, problem, 300, kept);
          append(context, halves, problem, 0, 300);
          const AttentionResult expected = problem.make_result(false), result = problem.make_result(false);
          REQUIRE_OK(attend(context, problem, wide, expected));
          REQUIRE_OK(attend(context, problem, halves, result));
          // A score of 10 terms, each off by at most half a last place, moves by less than 1/10 here.
          double largest = 0;
          for_each_index(expected.out.shape(), [&](const Shape &index) {
            largest = std::max(largest, std::abs(double{expected.out.at(index)} - result.out.at(index)));
          });
          CHECK(largest < (kept == FOVEA_F16 ? 0.02 : 0.15));
          CHECK(largest > 0);
          const size_t rows = size_t{2} * 2 * 300 * 16;  // 10 features in rows of 16
          CHECK(fovea_prepared_keys_size(wide.get()) - fovea_prepared_keys_size(halves.get()) == rows * 2);
        });
      }
    }
  }

  TEST_CASE("bad arguments: element types") {
    for (const int32_t kind : kPreparable) {
      const AttentionProblem problem = make_prepared_problem(kind, 3, 20);
      const ScoreArguments score(*problem.score);
      fovea_prepared_keys *keys = nullptr;
      for (const fovea_dtype dtype :
           std::initializer_list<fovea_dtype>{FOVEA_F16, FOVEA_BF16, FOVEA_I32, FOVEA_I8, 4, -1}) {
        if (kind == FOVEA_SCORE_BILINEAR && (dtype == FOVEA_F16 || dtype == FOVEA_BF16)) continue;
        check_refusal(prepared_keys_create(nullptr, &score.score, 2, 2, 5, 10, 7, &keys, dtype), FOVEA_BAD_DTYPE,
                      {"sizes.dtype is", "expected FOVEA_F32"});
      }
      fovea_prepared_keys_sizes sizes = {sizeof sizes, 2, 2, 5, 10, 7, 0, 1};
      check_refusal(fovea_prepared_keys_create(nullptr, &score.score, &sizes, &keys), FOVEA_BAD_OPTION,
                    {"sizes.reserved is 1, expected 0"});
      CHECK(keys == nullptr);
    }
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_BILINEAR, 3, 20);
    const Keys keys = make_keys(nullptr, problem, 20, FOVEA_F16);
    fovea_tensor bad = problem.key.view();
    bad.dtype = FOVEA_I32;
    check_refusal(fovea_prepared_keys_append(nullptr, keys.get(), &bad), FOVEA_BAD_DTYPE,
                  {"key has dtype FOVEA_I32, expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16"});
    CHECK(fovea_prepared_keys_length(keys.get()) == 0);
  }
}
