// Queries, keys, values, bias, outputs and weights of 16 bits. All that is computed between loading and storing is
// float32, in an order that does not depend on element types: so what comes out is, bit by bit, what float32 tensors
// with the same numbers give, rounded once. Only where 16 bits meet the processor's own products of them are weights
// rounded, too.
#include <doctest/doctest.h>

#include <optional>

#include "support/narrow.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

struct Types {
  fovea_dtype query, key, value, bias, out, weights;
};

fovea_dtype any_type(Random &random) { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); }

void round_all(Tensor<float> &tensor, fovea_dtype dtype) {
  const std::vector<float> dense = tensor.dense();
  size_t next = 0;
  tensor.fill([&] { return rounded_to(dense[next++], dtype); });
}

// A tensor of the call, in memory of its own where it is narrow.
class Narrowed {
 public:
  Narrowed(const Tensor<float> &from, fovea_dtype dtype, fovea_tensor *view) {
    if (dtype == FOVEA_F32) return;
    tensor_.emplace(from, dtype);
    *view = tensor_->view();
  }

  // Whether every element is that of `truth`, rounded. NaNs are equal.
  bool holds(const Tensor<float> &truth, const Tensor<float> &floats, fovea_dtype dtype) const {
    if (!tensor_) return same_bits_but_nan(truth, floats);
    bool same = tensor_->gaps_untouched();
    for_each_index(truth.shape(), [&](const Shape &index) {
      const float expected = truth.at(index);
      const uint16_t bits = tensor_->at(index);
      same = same && (std::isnan(expected) ? std::isnan(widened(bits, dtype)) : bits == narrowed(expected, dtype));
    });
    return same;
  }

  uint16_t bits(const Shape &index) const { return tensor_->at(index); }

 private:
  static bool same_bits_but_nan(const Tensor<float> &a, const Tensor<float> &b) {
    bool same = true;
    for_each_index(a.shape(), [&](const Shape &index) {
      const float x = a.at(index), y = b.at(index);
      same = same && ((std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0);
    });
    return same;
  }

  std::optional<NarrowTensor> tensor_;
};

// What is rounded to bfloat16 on the way: nothing; weights; weights, and the sum that divides is one of rounded
// weights. Or weights to binary16.
enum class Rounding { none, weights, both, float16 };

// What the plan says of its kernels.
Rounding rounding_of(const AttentionArguments &call, const fovea_context *context) {
  fovea_plan *plan = nullptr;
  REQUIRE_OK(call.plan(context, &plan));
  char text[512];
  fovea_plan_describe(plan, text, sizeof text);
  fovea_plan_destroy(plan);
  if (std::string(text).find("kernels=amxbf16") != std::string::npos) return Rounding::both;
  if (std::string(text).find("kernels=amxfp16") != std::string::npos) return Rounding::float16;
  return std::string(text).find("kernels=avx512bf16") != std::string::npos ? Rounding::weights : Rounding::none;
}

bool has_pair_products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// The sums of |value| that the problem's weights give.
Tensor<float> magnitudes(AttentionProblem &problem, const fovea_context *context) {
  const std::vector<float> values = problem.value.dense();
  size_t next = 0;
  problem.value.fill([&] { return std::abs(values[next++]); });
  AttentionResult result = problem.make_result(false);
  REQUIRE_OK(problem.run(context, result));
  next = 0;
  problem.value.fill([&] { return values[next++]; });
  return std::move(result.out);
}

void check_close(const Tensor<float> &got, const Tensor<float> &truth) {
  int64_t wrong = 0;
  for_each_index(truth.shape(), [&](const Shape &index) {
    const float a = got.at(index), b = truth.at(index);
    wrong += std::isfinite(b) ? !(std::abs(a - b) <= 1e-5f * (1 + std::abs(b))) : std::isnan(a) != std::isnan(b);
  });
  CHECK_EQ(wrong, 0);
}

// A rounding of each weight to 8 bits (and of scores whose subnormal terms are 0), then of the output. Tiles take
// weights from a power with an error of 2^-13.
void check_near(const Narrowed &out, const Tensor<float> &truth, const Tensor<float> &floats, fovea_dtype dtype,
                const Tensor<float> &magnitude, Rounding rounding) {
  const bool tiles = rounding == Rounding::both || rounding == Rounding::float16;
  const float of_weights = rounding == Rounding::weights ? 0x1p-8f
                           : rounding == Rounding::both  ? 2 * (0x1p-8f + 0x1p-13f)
                                                         : 2 * (0x1p-11f + 0x1p-13f);
  int64_t wrong = 0;
  for_each_index(truth.shape(), [&](const Shape &index) {
    const float expected = truth.at(index),
                got = dtype == FOVEA_F32 ? floats.at(index) : widened(out.bits(index), dtype);
    const float allowed =
        of_weights * magnitude.at(index) + (dtype == FOVEA_F32 ? 0 : 0x1p-8f * std::abs(expected) + 0x1p-24f);
    wrong += std::isfinite(expected)
                 ? !(std::abs(got - expected) <= allowed)
                 : std::isnan(expected) != std::isnan(got) || (std::isinf(expected) && got != expected);
    // A tile's two sums may overflow to either side before they meet.
    if (tiles && std::isinf(expected)) wrong -= std::isnan(got) ? 1 : 0;
  });
  CHECK_EQ(wrong, 0);
}

void check_types(AttentionProblem &problem, const Types &types, bool want_weights) {
  CAPTURE(problem.describe());
  CAPTURE(types.query);
  CAPTURE(types.key);
  CAPTURE(types.value);
  CAPTURE(types.out);
  round_all(problem.query, types.query);
  round_all(problem.key, types.key);
  round_all(problem.value, types.value);
  if (problem.bias) round_all(*problem.bias, types.bias);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult truth = problem.make_result(want_weights);
    REQUIRE_OK(problem.run(context, truth));
    const AttentionResult result = problem.make_result(want_weights);
    AttentionArguments call(problem, result);
    const Narrowed query(problem.query, types.query, &call.query), key(problem.key, types.key, &call.key),
        value(problem.value, types.value, &call.value), out(result.out, types.out, &call.out);
    std::optional<Narrowed> bias, weights;
    if (problem.bias) bias.emplace(*problem.bias, types.bias, &call.bias);
    if (result.weights) weights.emplace(*result.weights, types.weights, &call.weights);
    REQUIRE_OK(call.run(context));
    if (const Rounding rounding = rounding_of(call, context); rounding != Rounding::none) {
      check_near(out, truth.out, result.out, types.out, magnitudes(problem, context), rounding);
      if (result.weights && types.weights == FOVEA_F32) check_close(*result.weights, *truth.weights);
      if (truth.log_sum_exp) check_close(*result.log_sum_exp, *truth.log_sum_exp);
      return;
    }
    CHECK(out.holds(truth.out, result.out, types.out));
    if (truth.log_sum_exp) CHECK(same_bits(*truth.log_sum_exp, *result.log_sum_exp));
    if (truth.weights) CHECK(weights->holds(*truth.weights, *result.weights, types.weights));
  });
}

void check_random_types(int64_t cases, uint64_t first_seed, int64_t most_len, int64_t most_dim) {
  for (int64_t n = 0; n < cases; ++n) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(n);
    CAPTURE(seed);
    Random random(seed);
    const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
    AttentionProblem problem = random_problem(random, most_len, most_dim, random.pick({Scores::kSdpa, Scores::kAny}));
    Types types = {any_type(random), any_type(random), any_type(random),
                   any_type(random), any_type(random), any_type(random)};
    if ((problem.flags & FOVEA_AVERAGE_WEIGHTS) != 0) types.weights = FOVEA_F32;
    check_types(problem, types, random.chance(0.4));
  }
}

}  // namespace

TEST_SUITE("element types") {
  TEST_CASE("any types give what float32 gives, rounded once: small problems") {
    check_random_types(case_count(800), base_seed(), 40, 24);
  }
  TEST_CASE("any types give what float32 gives, rounded once: larger problems") {
    check_random_types(case_count(40), base_seed() + 7000, 300, 140);
  }

  TEST_CASE("one query over many keys, cut into parts") {
    Random random(base_seed());
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (const int64_t head_dim : {64, 80, 257}) {
        AttentionProblem problem = make_attention(
            {.heads = 4, .kv_heads = 2, .key_len = 3000, .head_dim = head_dim, .value_dim = head_dim}, random);
        check_types(problem, {dtype, dtype, dtype, dtype, dtype, dtype}, false);
        check_types(problem, {FOVEA_F32, dtype, dtype, dtype, FOVEA_F32, dtype}, false);
      }
    }
  }

  TEST_CASE("grouped heads and drafts: every number of few rows, whichever of them read keys and values together") {
    Random random(base_seed());
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (const int64_t group : {1, 2, 3, 4, 5, 7, 8, 11, 12, 16}) {
        const int64_t dim = random.pick({64, 80, 100, 136, 200});
        AttentionProblem problem = make_attention({.heads = 2 * group,
                                                   .kv_heads = 2,
                                                   .query_len = group == 4 ? 4 : 1,
                                                   .key_len = 450,
                                                   .head_dim = dim,
                                                   .value_dim = random.pick({dim, dim - 7})},
                                                  random);
        if (group == 4) problem.flags = FOVEA_CAUSAL;
        check_types(problem, {FOVEA_F32, dtype, dtype, FOVEA_F32, FOVEA_F32, FOVEA_F32}, false);
        check_types(problem, {dtype, dtype, dtype, FOVEA_F32, FOVEA_F32, FOVEA_F32}, false);
      }
    }
  }

  TEST_CASE(
      "bfloat16 by products of pairs: up to two rows are exact, more are not widened, more than eight take tiles") {
    Random random(base_seed());
    for (const int64_t group : {1, 2, 3, 16}) {
      AttentionProblem problem = make_attention(
          {.heads = 2 * group, .kv_heads = 2, .query_len = 1, .key_len = 700, .head_dim = 64, .value_dim = 48}, random);
      round_all(problem.query, FOVEA_BF16);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        AttentionArguments call(problem, result);
        const Narrowed query(problem.query, FOVEA_BF16, &call.query), key(problem.key, FOVEA_BF16, &call.key),
            value(problem.value, FOVEA_BF16, &call.value);
        const std::string isa = fovea_isa_name(context);
        const bool pairs = group > 2 && (isa == "avx512" || isa == "amx") && has_pair_products();
        const Rounding expected = group > 8 && isa == "amx" ? Rounding::both
                                  : pairs                   ? Rounding::weights
                                                            : Rounding::none;
        CHECK_EQ(static_cast<int>(rounding_of(call, context)), static_cast<int>(expected));
      });
    }
  }

  // The last of an odd number of keys meets no other: what lies behind it, or behind a mask, must not.
  TEST_CASE("bfloat16 by products of pairs: few rows, odd numbers of keys, NaN behind masks and behind the last key") {
    for (int64_t n = 0; n < case_count(60); ++n) {
      const uint64_t seed = base_seed() + 120000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t group = random.pick({4, 5, 6, 7, 8, 13, 16});
      const int64_t key_len = random.pick({1, 2, 47, 95, 96, 97, 193, 389, 601});
      const int64_t head_dim = random.pick({2, 30, 32, 34, 64, 126, 130}),
                    value_dim = random.pick({1, 15, 33, 64, 80, 97});
      AttentionProblem problem = make_attention({.heads = group,
                                                 .kv_heads = 1,
                                                 .query_len = 1,
                                                 .key_len = key_len,
                                                 .head_dim = head_dim,
                                                 .value_dim = value_dim},
                                                random);
      if (random.chance(0.6)) {
        const int64_t hidden = random.integer(0, key_len - 1);
        problem.set_mask([&](int64_t, int64_t, int64_t, int64_t j) { return j < hidden / 2 || j > hidden; });
        for (int64_t j = hidden / 2; j <= hidden; ++j) problem.value.at({0, 0, j, j % value_dim}) = kNan;
      }
      check_types(problem, {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_F32, any_type(random), FOVEA_F32}, false);
    }
  }

  // A row that is computed again by itself, for what lies behind its mask, sums as it did among its neighbours.
  TEST_CASE("bfloat16, few rows: NaN behind a mask gives the bits of harmless values, however many rows there are") {
    Random random(base_seed());
    for (const int64_t group : {1, 4, 5, 8, 9, 12, 13, 16}) {
      CAPTURE(group);
      const int64_t key_len = 333;
      AttentionProblem problem = make_attention({.heads = group,
                                                 .kv_heads = 1,
                                                 .query_len = 1,
                                                 .key_len = key_len,
                                                 .head_dim = random.pick({64, 70, 130}),
                                                 .value_dim = 40},
                                                random);
      problem.set_mask(
          [](int64_t, int64_t head, int64_t, int64_t key) { return key % 11 != 0 && (head + key) % 3 != 0; });
      const auto run_all = [&] {
        std::vector<std::vector<float>> outputs;
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          AttentionArguments call(problem, result);
          const Narrowed query(problem.query, FOVEA_BF16, &call.query), key(problem.key, FOVEA_BF16, &call.key),
              value(problem.value, FOVEA_BF16, &call.value);
          REQUIRE_OK(call.run(context));
          outputs.push_back(result.out.dense());
        });
        return outputs;
      };
      const std::vector<std::vector<float>> harmless = run_all();
      for (int64_t key = 0; key < key_len; key += 11) problem.value.at({0, 0, key, key % 40}) = kNan;
      const std::vector<std::vector<float>> spoilt = run_all();
      for (size_t set = 0; set < harmless.size(); ++set) CHECK(same_bits(harmless[set], spoilt[set]));
    }
  }

  TEST_CASE("bfloat16 by products of pairs: sizes at every edge, masks, NaN behind masks") {
    for (int64_t n = 0; n < case_count(250); ++n) {
      const uint64_t seed = base_seed() + 90000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      AttentionProblem problem = random_problem(random, random.pick({40, 220}), 70);
      if (random.chance(0.2) && problem.mask && problem.sizes.key_len > 0 &&
          problem.sizes.batch * problem.sizes.heads > 0) {
        problem.value.fill([&] { return random.chance(0.02) ? kNan : random.normal(); });
      }
      const fovea_dtype out = any_type(random);
      check_types(problem, {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_F32, out, FOVEA_F32}, random.chance(0.4));
    }
  }

  TEST_CASE("bfloat16 by products of pairs, Gaussian: sizes at every edge, near and far, masks, NaN behind masks") {
    for (int64_t n = 0; n < case_count(250); ++n) {
      const uint64_t seed = base_seed() + 150000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      AttentionProblem problem = random_problem(random, random.pick({40, 220}), random.pick({30, 70, 140}));
      const AttentionSizes &sizes = problem.sizes;
      problem.score = make_score(FOVEA_SCORE_GAUSSIAN, sizes.head_dim, sizes.head_dim, 0, random);
      problem.score->sigma *= random.pick({1.0f, 0.3f, 5.0f});
      const float centre = random.pick({0.0f, 1.0f, 30.0f}), spread = random.pick({1.0f, 0.1f});
      for (Tensor<float> *points : {&problem.query, &problem.key}) {
        points->fill([&] { return centre + spread * random.normal(); });
      }
      if (random.chance(0.2) && problem.mask && sizes.key_len > 0 && sizes.batch * sizes.heads > 0) {
        problem.value.fill([&] { return random.chance(0.02) ? kNan : random.normal(); });
      }
      const fovea_dtype out = any_type(random);
      check_types(problem, {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_F32, out, FOVEA_F32}, random.chance(0.4));
    }
  }

  TEST_CASE("bfloat16, Gaussian: infinities, NaN and the largest numbers in queries and keys, attended and masked") {
    for (const float spoilt : {kInfinity, -kInfinity, kNan, 3e38f, 1e20f}) {
      for (const bool masked : {false, true}) {
        CAPTURE(spoilt);
        Random random(base_seed());
        AttentionProblem problem =
            make_scored(FOVEA_SCORE_GAUSSIAN,
                        {.heads = 2, .query_len = 70, .key_len = 120, .head_dim = 24, .value_dim = 9}, 0, random);
        for (const int64_t j : {3, 50, 119}) problem.key(0, 0, j, j % 24) = spoilt;
        for (const int64_t i : {0, 33}) problem.query(0, 1, i, i % 24) = spoilt;
        if (masked)
          problem.set_mask([](int64_t, int64_t, int64_t, int64_t j) { return j != 3 && j != 50 && j != 119; });
        check_types(problem, {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_F32, FOVEA_F32, FOVEA_F32}, true);
      }
    }
  }

  TEST_CASE("bfloat16 by products of pairs: the same bits for any threads and neighbours") {
    Random random(base_seed());
    for (const bool causal : {false, true}) {
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 150, .key_len = 333, .head_dim = 48, .value_dim = 40},
          random);
      problem.flags = FOVEA_QUERY_INVARIANT | (causal ? FOVEA_CAUSAL : 0);
      const NarrowTensor query(problem.query, FOVEA_BF16), key(problem.key, FOVEA_BF16),
          value(problem.value, FOVEA_BF16);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const AttentionResult one = problem.make_result(false), three = problem.make_result(false);
        const auto run = [&](const AttentionResult &result, int threads, int64_t first_query, int64_t queries) {
          AttentionArguments call(problem, result);
          call.query = query.view();
          call.key = key.view();
          call.value = value.view();
          if (causal) call.options.flags |= FOVEA_QUERY_OFFSET;
          call.options.query_offset = 333 - 150 + first_query;
          for (fovea_tensor *tensor : {&call.query, &call.out}) {
            const int64_t size = tensor == &call.query ? 2 : 4;
            tensor->data = static_cast<char *>(tensor->data) + first_query * tensor->strides[2] * size;
            tensor->shape[2] = queries;
          }
          call.options.log_sum_exp = nullptr;
          REQUIRE_OK(call.run(shared_context(isa, threads)));
        };
        run(one, 1, 0, 150);
        run(three, 3, 0, 150);
        CHECK(same_bits(one.out, three.out));
        for (const int64_t query_index : {0, 1, 63, 64, 149}) run(three, 1, query_index, 1);
        CHECK(same_bits(one.out, three.out));
      }
    }
  }

  TEST_CASE("extremes: the largest numbers, subnormal ones, infinities and NaN behind a mask") {
    Random random(base_seed());
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      AttentionProblem problem =
          make_attention({.query_len = 9, .key_len = 100, .head_dim = 16, .value_dim = 16}, random);
      const float most = widened(dtype == FOVEA_F16 ? 0x7bff : 0x7f7f, dtype);
      problem.value.fill([&] {
        return random.pick({most, -most, widened(1, dtype), widened(0x8003, dtype), kInfinity, 1.0f, 0.0f});
      });
      problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 3 != 0; });
      for (int64_t j = 0; j < 100; j += 7) problem.value.at({0, 0, j, j % 16}) = kNan;
      check_types(problem, {dtype, dtype, dtype, dtype, dtype, dtype}, true);
    }
  }

  TEST_CASE("outputs that overflow the type become infinite, small ones subnormal") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 3, .key_len = 5, .head_dim = 4, .value_dim = 2}, random);
    problem.value.fill([&] { return random.pick({1e6f, 2e6f}); });
    check_types(problem, {FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_F32}, false);
    problem.value.fill([&] { return random.pick({1e-6f, 3e-8f, 1e-9f}); });
    check_types(problem, {FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_F32}, false);
  }

  TEST_CASE("what does not take 16 bits says so") {
    Random random(base_seed());
    AttentionProblem averaged = make_attention({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 5}, random);
    averaged.flags = FOVEA_AVERAGE_WEIGHTS;
    const AttentionResult weights = averaged.make_result();
    AttentionArguments with_weights(averaged, weights);
    const Narrowed narrow(*weights.weights, FOVEA_F16, &with_weights.weights);
    CHECK_EQ(with_weights.run(nullptr), FOVEA_BAD_DTYPE);
    CHECK_EQ(std::string(fovea_last_error()),
             "weights has dtype FOVEA_F16, expected FOVEA_F32 for averages over heads");

    AttentionArguments integers(averaged, weights);
    integers.query.dtype = FOVEA_I32;
    CHECK_EQ(integers.run(nullptr), FOVEA_BAD_DTYPE);
    CHECK_EQ(std::string(fovea_last_error()), "query has dtype FOVEA_I32, expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16");
  }
}
