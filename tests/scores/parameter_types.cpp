// Parameters of score functions in 16 bits. They are widened, which is exact, so the result is, bit by bit, what
// float32 parameters of the same numbers give. Where rows and weight are bfloat16 and the processor multiplies those,
// sums go another way: scores are as good as float32's, not the same.
#include <doctest/doctest.h>

#include <optional>

#include "support/narrow.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

constexpr int32_t kParametric[] = {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT};

fovea_dtype any_type(Random &random) { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); }

// What has been used by a call can only be read.
void round_all(Tensor<float> &tensor, fovea_dtype dtype) {
  for_each_index(tensor.shape(), [&](const Shape &index) {
    const float rounded = rounded_to(tensor.at(index), dtype);
    if (tensor.at(index) != rounded) tensor.at(index) = rounded;
  });
}

// The problem's query, key and parameters, rounded, and the call that has them in those types.
class TypedCall {
 public:
  TypedCall(AttentionProblem &problem, const AttentionResult &result, fovea_dtype query, fovea_dtype key,
            const std::function<fovea_dtype()> &next_type)
      : call(problem, result) {
    narrow(problem.query, query, &call.query);
    narrow(problem.key, key, &call.key);
    ScoreArguments &score = *call.score;
    fovea_tensor *views[] = {&score.query_weight, &score.key_weight, &score.weight, &score.bias, &score.score_vector};
    const char *names[] = {"query_weight", "key_weight", "weight", "bias", "score_vector"};
    for (const ScoreFunction::Parameter &parameter : problem.score->parameters()) {
      for (int n = 0; n < 5; ++n) {
        if (parameter.name == names[n]) narrow(*parameter.tensor, next_type(), views[n]);
      }
    }
  }

  AttentionArguments call;

 private:
  void narrow(Tensor<float> &floats, fovea_dtype dtype, fovea_tensor *view) {
    if (dtype == FOVEA_F32) return;
    round_all(floats, dtype);
    tensors_.emplace_back(floats, dtype);
    *view = tensors_.back().view();
  }

  std::vector<NarrowTensor> tensors_;
};

bool multiplies_pairs(const fovea_context *context) {
#if defined(__x86_64__)
  const std::string isa = fovea_isa_name(context);
  return (isa == "avx512" || isa == "amx") && __builtin_cpu_supports("avx512bf16");
#else
  (void)context;
  return false;
#endif
}

// Largest differences of log-sum-exp and output, of numbers about 1.
double difference(const AttentionResult &a, const AttentionResult &b) {
  double largest = 0;
  for_each_index(a.out.shape(), [&](const Shape &index) {
    largest = std::max(largest, std::abs(double{a.out.at(index)} - b.out.at(index)));
  });
  for_each_index(a.log_sum_exp->shape(), [&](const Shape &index) {
    largest = std::max(largest, std::abs(double{a.log_sum_exp->at(index)} - b.log_sum_exp->at(index)));
  });
  return largest;
}

AttentionSizes any_sizes(Random &random) {
  AttentionSizes sizes = {.batch = random.pick({1, 2}),
                          .heads = 4,
                          .kv_heads = random.pick({2, 4}),
                          .query_len = random.pick({1, 3, 17, 40}),
                          .key_len = random.pick({1, 31, 33, 100}),
                          .head_dim = random.pick({1, 7, 10, 64, 70}),
                          .value_dim = 6};
  sizes.key_dim = random.pick({1, 5, 8, 64, 66});
  return sizes;
}

}  // namespace

TEST_SUITE("scores parameter types") {
  TEST_CASE("parameters of 16 bits give what float32 parameters of the same numbers give") {
    for (int64_t n = 0; n < case_count(90); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const int32_t kind = kParametric[n % 3];
      AttentionProblem problem = make_scored(kind, any_sizes(random), random.pick({1, 15, 33, 64, 100}), random,
                                             random.pick({Layout::kHeadsFirst, Layout::kPadded}));
      CAPTURE(problem.describe());
      const AttentionResult result = problem.make_result(false), expected = problem.make_result(false);
      const fovea_dtype query = any_type(random), key = any_type(random);
      bool pairs = false;
      const TypedCall typed(problem, result, query, key, [&] {
        const fovea_dtype dtype = any_type(random);
        pairs = pairs || dtype == FOVEA_BF16;
        return dtype;
      });
      pairs = pairs && (query == FOVEA_BF16 || key == FOVEA_BF16);
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(problem.run(context, expected));
        REQUIRE_OK(typed.call.run(context));
        if (pairs && multiplies_pairs(context)) {
          CHECK(difference(result, expected) < 2e-5);
        } else {
          CHECK(same_bits(result, expected));
        }
      });
    }
  }

  TEST_CASE("all in bfloat16: as exact as float32, the same bits for any threads, strides and batch entry") {
    for (const int32_t kind : kParametric) {
      for (const int64_t dim : {6, 64, 130, 512}) {  // rows of the last are more than a kernel copies by itself
        const int64_t query_len = dim == 512 ? 120 : 40;
        CAPTURE(kind);
        CAPTURE(dim);
        Random random(base_seed());
        AttentionProblem problem = make_scored(kind,
                                               {.batch = 3,
                                                .heads = 2,
                                                .kv_heads = 2,
                                                .query_len = query_len,
                                                .key_len = 50,
                                                .head_dim = dim,
                                                .value_dim = 8,
                                                .key_dim = dim + 2},
                                               48, random);
        const AttentionResult result = problem.make_result(false), expected = problem.make_result(false);
        const auto bfloat16 = [] { return FOVEA_BF16; };
        const TypedCall typed(problem, result, FOVEA_BF16, FOVEA_BF16, bfloat16);
        check_attention(problem);
        for_each_isa([&](const fovea_context *context) {
          REQUIRE_OK(typed.call.run(context));
          check_result(problem, result);
          for (const int threads : {1, 3, 8}) {
            const TypedCall again(problem, expected, FOVEA_BF16, FOVEA_BF16, bfloat16);
            REQUIRE_OK(again.call.run(shared_context(fovea_isa_name(context), threads)));
            CHECK(same_bits(result, expected));
          }
          // Rows an odd number of elements apart, which pairs cannot be read from.
          const int64_t row = dim + 1, key_row = dim + 3;
          const NarrowTensor query(with_strides(problem.query, {2 * query_len * row, query_len * row, row, 1}),
                                   FOVEA_BF16),
              key(with_strides(problem.key, {2 * 50 * key_row, 50 * key_row, key_row, 1}), FOVEA_BF16);
          TypedCall odd(problem, expected, FOVEA_BF16, FOVEA_BF16, bfloat16);
          odd.call.query = query.view();
          odd.call.key = key.view();
          REQUIRE_OK(odd.call.run(context));
          CHECK(same_bits(result, expected));
        });
      }
    }
  }

  TEST_CASE("prepared keys with parameters of 16 bits: the bits of one call") {
    for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        for (const bool all : {false, true}) {
          Random random(base_seed());
          AttentionProblem problem = make_scored(kind,
                                                 {.batch = 2,
                                                  .heads = 4,
                                                  .kv_heads = 2,
                                                  .query_len = 5,
                                                  .key_len = 37,
                                                  .head_dim = 10,
                                                  .value_dim = 6,
                                                  .key_dim = 8},
                                                 20, random);
          const AttentionResult result = problem.make_result(false), expected = problem.make_result(false);
          const fovea_dtype rows = all ? dtype : FOVEA_F32;
          const TypedCall typed(problem, expected, rows, rows, [&] { return dtype; });
          for_each_isa([&](const fovea_context *context) {
            REQUIRE_OK(typed.call.run(context));
            fovea_prepared_keys *made = nullptr;
            REQUIRE_OK(prepared_keys_create(context, &typed.call.score->score, 2, 2, 40, 10, 8, &made));
            const Keys keys(made);
            for (const int64_t begin : {0, 20}) {
              fovea_tensor part = typed.call.key;
              part.data = static_cast<char *>(part.data) + begin * part.strides[2] * (rows == FOVEA_F32 ? 4 : 2);
              part.shape[2] = begin == 0 ? 20 : 17;
              REQUIRE_OK(fovea_prepared_keys_append(context, keys.get(), &part));
            }
            AttentionArguments call(problem, result);
            call.query = typed.call.query;
            REQUIRE_OK(
                fovea_attention_prepared(context, &call.query, keys.get(), &call.value, &call.out, &call.options));
            CHECK(same_bits(result, expected));
          });
        }
      }
    }
  }
}
