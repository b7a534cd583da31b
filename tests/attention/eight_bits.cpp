// Keys and values of 8 bits with scales. Kernels read what the numbers stand for: as float32, with the bits that F32
// tensors of these numbers give, or rounded to the query's type where its products are the processor's own.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "support/errors.hpp"
#include "support/scaled_numbers.hpp"

using namespace testing;

namespace {

// What tensors of the type that is multiplied give. `values`: whether they are of 8 bits, too; else they are float32.
void check_eight_bits(const AttentionProblem &problem, fovea_dtype query_type, const EightBits *keys,
                      const EightBits *values, bool want_weights) {
  CAPTURE(problem.describe());
  CAPTURE(query_type);
  std::optional<NarrowTensor> query;
  if (query_type != FOVEA_F32) query.emplace(problem.query, query_type);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = problem.make_result(want_weights), expected = problem.make_result(want_weights);
    ScaledCall eight(problem, result, keys, values);
    AttentionArguments call(problem, expected);
    if (query) eight.call.query = call.query = query->view();
    const std::string plan = plan_text(eight.call, context);
    CAPTURE(plan);
    const fovea_dtype type = multiplied(plan);
    std::optional<NarrowTensor> key, value;
    if (type != FOVEA_F32) {
      key.emplace(packed(problem.key, type));
      value.emplace(packed(problem.value, type));
      call.key = key->view();
      call.value = value->view();
    }
    REQUIRE_OK(eight.call.run(context));
    REQUIRE_OK(call.run(context));
    CHECK(result.out.gaps_untouched());
    if (by_bytes(plan)) return check_near(problem, result, expected);
    CHECK(same_but_nan(result.out, expected.out));
    if (expected.log_sum_exp) CHECK(same_but_nan(*result.log_sum_exp, *expected.log_sum_exp));
    // Beside tiles of binary16, floats make weights, of the numbers themselves.
    if (expected.weights && type != FOVEA_F16) CHECK(same_but_nan(*result.weights, *expected.weights));
  });
}

void check_random(int64_t cases, uint64_t first_seed, int64_t most_len, int64_t most_dim) {
  for (int64_t n = 0; n < cases; ++n) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(n);
    CAPTURE(seed);
    Random random(seed);
    const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
    AttentionProblem problem = random_problem(random, most_len, most_dim);
    const fovea_dtype query = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_BF16});
    // The mean of all values is that of the numbers themselves.
    if (problem.empty_rows == FOVEA_EMPTY_ROWS_UNIFORM && query != FOVEA_F32) problem.empty_rows = FOVEA_EMPTY_ROWS_NAN;
    EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random);
    EightBits values(problem.value, any_group(random, problem.sizes.value_dim), random);
    if (random.chance(0.1) && problem.sizes.key_len > 0 && problem.value.count() > 0) {
      values.scales().fill([&] { return narrowed(random.chance(0.02) ? kNan : 0.01f, FOVEA_F16); });
      values.read_back(problem.value);
    }
    const bool key_too = random.chance(0.85), value_too = !key_too || random.chance(0.85);
    check_eight_bits(problem, query, key_too ? &keys : nullptr, value_too ? &values : nullptr, random.chance(0.4));
  }
}

}  // namespace

TEST_SUITE("eight bits") {
  TEST_CASE("8 bits give what tensors of their numbers give: small problems") {
    check_random(case_count(600), base_seed(), 40, 48);
  }
  TEST_CASE("8 bits give what tensors of their numbers give: larger problems") {
    check_random(case_count(60), base_seed() + 7000, 300, 160);
  }

  TEST_CASE("products of bytes: few rows, every kind of group, numbers of keys around a block and a piece") {
    for (int64_t n = 0; n < case_count(250); ++n) {
      const uint64_t seed = base_seed() + 20000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      AttentionProblem problem = any_few_rows_of_bytes(random);
      if (random.chance(0.1)) problem.query.fill([&] { return random.normal() * 1e-36f; });
      EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random);
      EightBits values(problem.value, any_group(random, problem.sizes.value_dim), random);
      if (random.chance(0.2)) {
        values.scales().fill([&] { return random.pick<uint16_t>({0x2400, 0x2400, 0x2400, 0x7e00}); });
        values.read_back(problem.value);
      }
      check_eight_bits(problem, random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), &keys, &values, false);
    }
  }

  TEST_CASE("one query and grouped heads over many keys, cut into parts") {
    Random random(base_seed());
    for (const fovea_dtype query : {FOVEA_F32, FOVEA_BF16}) {
      for (const int64_t group : {1, 2, 4, 5, 8, 13}) {
        const int64_t dim = random.pick({64, 96, 128, 100});
        AttentionProblem problem = make_attention({.heads = 2 * group,
                                                   .kv_heads = 2,
                                                   .key_len = 3000,
                                                   .head_dim = dim,
                                                   .value_dim = random.pick({dim, dim / 2})},
                                                  random);
        const EightBits keys(problem.key, any_group(random, dim), random),
            values(problem.value, any_group(random, problem.sizes.value_dim), random);
        check_eight_bits(problem, query, &keys, &values, false);
      }
    }
  }

  TEST_CASE("the formula, in double, of the numbers") {
    for (int64_t n = 0; n < case_count(40); ++n) {
      const uint64_t seed = base_seed() + 30000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const int64_t group = random.pick({1, 1, 4, 9});
      AttentionProblem problem = make_attention({.batch = 2,
                                                 .heads = 2 * group,
                                                 .kv_heads = 2,
                                                 .query_len = random.pick({1, 1, 3, 70}),
                                                 .key_len = random.integer(1, 500),
                                                 .head_dim = random.pick({16, 32, 64, 65, 128}),
                                                 .value_dim = random.pick({16, 33, 64, 128})},
                                                random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast}));
      if (random.chance(0.5)) problem.flags = FOVEA_CAUSAL;
      const EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random, 0.02f),
          values(problem.value, any_group(random, problem.sizes.value_dim), random, 0.02f);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        const ScaledCall eight(problem, result, &keys, &values);
        REQUIRE_OK(eight.call.run(context));
        by_bytes(plan_text(eight.call, context)) ? check_near_formula(problem, result) : check_result(problem, result);
      });
    }
  }

  // The scales of a key that nobody attends may be anything.
  TEST_CASE("NaN and infinity in scales behind a mask give the bits of harmless ones") {
    for (int64_t n = 0; n < case_count(80); ++n) {
      const uint64_t seed = base_seed() + 40000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t key_len = random.integer(2, 400), dim = random.pick({16, 32, 64, 40});
      AttentionProblem problem = make_attention({.heads = random.pick({1, 2, 4, 5, 9, 40}),
                                                 .kv_heads = 1,
                                                 .query_len = random.pick({1, 1, 2}),
                                                 .key_len = key_len,
                                                 .head_dim = dim,
                                                 .value_dim = dim},
                                                random);
      problem.set_mask(
          [](int64_t, int64_t head, int64_t, int64_t key) { return key % 7 != 0 && (head + key) % 3 != 0; });
      EightBits keys(problem.key, any_group(random, dim), random),
          values(problem.value, any_group(random, dim), random);
      const NarrowTensor query(problem.query, FOVEA_BF16);
      const bool narrow = random.chance(0.5);
      const auto run_all = [&] {
        std::vector<std::vector<float>> outputs;
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          ScaledCall eight(problem, result, &keys, &values);
          if (narrow) eight.call.query = query.view();
          REQUIRE_OK(eight.call.run(context));
          outputs.push_back(result.out.dense());
        });
        return outputs;
      };
      const std::vector<std::vector<float>> harmless = run_all();
      for (EightBits *rows : {&keys, &values}) {
        rows->scales().memory().thaw();
        for (int64_t key = 0; key < key_len; key += 7) {
          rows->scales().at({0, 0, key, 0}) = random.pick<uint16_t>({0x7e00, 0x7c00, 0xfc00});
        }
      }
      const std::vector<std::vector<float>> spoilt = run_all();
      for (size_t set = 0; set < harmless.size(); ++set) CHECK(same_bits(harmless[set], spoilt[set]));
    }
  }

  TEST_CASE("a scale that is NaN reaches those who attend its key, in its group alone") {
    Random random(base_seed());
    for (const int64_t heads : {1, 4, 12, 40}) {
      AttentionProblem problem =
          make_attention({.heads = heads, .kv_heads = 1, .key_len = 130, .head_dim = 64, .value_dim = 64}, random);
      EightBits keys(problem.key, 32, random), values(problem.value, 32, random);
      values.scales().memory().thaw();
      values.scales().at({0, 0, 77, 1}) = 0x7e00;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(ScaledCall(problem, result, &keys, &values).call.run(context));
        int64_t wrong = 0;
        for_each_index(result.out.shape(),
                       [&](const Shape &index) { wrong += std::isnan(result.out.at(index)) != (index[3] >= 32); });
        CHECK_EQ(wrong, 0);
      });
    }
  }

  TEST_CASE("bits do not depend on how many queries there are where that is promised") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 70, .key_len = 300, .head_dim = 64, .value_dim = 64}, random);
    problem.flags = FOVEA_QUERY_INVARIANT;
    problem.want_log_sum_exp = false;
    const EightBits keys(problem.key, 32, random), values(problem.value, 64, random);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult all = problem.make_result(false);
      REQUIRE_OK(ScaledCall(problem, all, &keys, &values).call.run(context));
      const Tensor<float> single({1, 2, 1, 64});
      ScaledCall call(problem, all, &keys, &values);
      call.call.query.shape[2] = 1;
      call.call.out = single.view();
      REQUIRE_OK(call.call.run(context));
      for (int64_t d = 0; d < 64; ++d) CHECK_EQ(all.out.at({0, 1, 0, d}), single.at({0, 1, 0, d}));
    });
  }

  TEST_CASE("planned, and with other lengths: the bits of a call") {
    Random random(base_seed());
    for (const int64_t heads : {2, 8, 40}) {
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = heads, .kv_heads = 2, .key_len = 400, .head_dim = 64, .value_dim = 32}, random);
      const EightBits keys(problem.key, 16, random), values(problem.value, 32, random);
      for_each_isa([&](const fovea_context *context) {
        problem.set_valid_lens({400, 400});
        const AttentionResult planned = problem.make_result(false), called = problem.make_result(false);
        ScaledCall call(problem, planned, &keys, &values);
        fovea_plan *plan = nullptr;
        REQUIRE_OK(call.call.plan(context, &plan));
        std::vector<std::byte> workspace(fovea_plan_workspace_size(plan));
        problem.set_valid_lens({123, 377});
        ScaledCall second(problem, called, &keys, &values);
        fovea_attention_buffers buffers = buffers_of(call.call);
        buffers.valid_lens = second.call.valid_lens.data;
        buffers.key_scales = call.key_scales.data;
        CHECK_EQ(fovea_attention_run(plan, &buffers, workspace.data(), workspace.size()), FOVEA_NULL_POINTER);
        CHECK(std::string(fovea_last_error()).find("buffers.value_scales") != std::string::npos);
        buffers.value_scales = call.value_scales.data;
        REQUIRE_OK(fovea_attention_run(plan, &buffers, workspace.data(), workspace.size()));
        REQUIRE_OK(second.call.run(context));
        CHECK(same_bits(planned, called));
        fovea_plan_destroy(plan);
      });
    }
  }

  TEST_CASE("float32 queries at medium precision: what BF16 tensors give where products of those are taken") {
    Random random(base_seed());
    for (const int64_t queries : {1, 70}) {
      AttentionProblem problem = make_attention(
          {.heads = 2, .kv_heads = 2, .query_len = queries, .key_len = 200, .head_dim = 48, .value_dim = 40}, random);
      const EightBits keys(problem.key, 16, random), values(problem.value, 40, random);
      for (const std::string &isa : instruction_sets()) {
        const OwnContext context = make_context(isa, FOVEA_PRECISION_MEDIUM);
        const AttentionResult result = problem.make_result(false), expected = problem.make_result(false);
        ScaledCall eight(problem, result, &keys, &values);
        AttentionArguments call(problem, expected);
        const NarrowTensor query = packed(problem.query, FOVEA_BF16), key = packed(problem.key, FOVEA_BF16),
                           value = packed(problem.value, FOVEA_BF16);
        if (multiplied(plan_text(eight.call, context.get())) == FOVEA_BF16) {
          call.query = query.view();
          call.key = key.view();
          call.value = value.view();
        }
        REQUIRE_OK(eight.call.run(context.get()));
        REQUIRE_OK(call.run(context.get()));
        CHECK(same_bits(result, expected));
      }
    }
  }

  TEST_CASE("a bilinear score") {
    Random random(base_seed());
    for (const int64_t queries : {1, 90}) {
      AttentionProblem problem = make_scored(
          FOVEA_SCORE_BILINEAR,
          {.heads = 2, .query_len = queries, .key_len = 60, .head_dim = 24, .value_dim = 32, .key_dim = 48}, 0, random);
      problem.sizes.kv_heads = 1;
      problem.key = problem.make_tensor({1, 1, 60, 48}, Layout::kHeadsFirst);
      problem.value = problem.make_tensor({1, 1, 60, 32}, Layout::kHeadsFirst);
      const EightBits keys(problem.key, 16, random), values(problem.value, 32, random);
      problem.want_log_sum_exp = false;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        ScaledCall call(problem, result, &keys, &values);
        REQUIRE_OK(call.call.run(context));
        const reference::AttentionOutputs<double> truth = reference::attention<double>(problem.reference_inputs());
        const std::vector<float> out = result.out.dense();
        int64_t wrong = 0;
        for (size_t i = 0; i < out.size(); ++i)
          wrong += !(std::abs(out[i] - truth.out[i]) <= 1e-4 * (1 + truth.weighted_magnitude[i]));
        CHECK_EQ(wrong, 0);
      });
    }
  }
}

TEST_SUITE("errors") {
  TEST_CASE("keys and values of 8 bits: scales that are missing, too many or of the wrong kind") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 64, .value_dim = 64}, random);
    problem.want_log_sum_exp = false;
    const EightBits keys(problem.key, 32, random), values(problem.value, 64, random);
    const auto refused = [&](fovea_status status, std::initializer_list<std::string> words, const auto &spoil) {
      const AttentionResult result = problem.make_result(false);
      ScaledCall call(problem, result, &keys, &values);
      spoil(call);
      check_refusal(call.call.run(nullptr), status, words);
      CHECK(result.out.untouched());
    };
    refused(FOVEA_NULL_POINTER, {"key_scales is NULL", "FOVEA_I8"},
            [](ScaledCall &call) { call.call.options.key_scales = nullptr; });
    refused(FOVEA_NULL_POINTER, {"value_scales is NULL", "FOVEA_I8"},
            [](ScaledCall &call) { call.call.options.value_scales = nullptr; });
    refused(FOVEA_BAD_VALUE, {"key_scales is given", "key has dtype FOVEA_F32"},
            [&](ScaledCall &call) { call.call.key = problem.key.view(); });
    refused(FOVEA_BAD_VALUE, {"value_scales is given", "value has dtype FOVEA_F32"},
            [&](ScaledCall &call) { call.call.value = problem.value.view(); });
    for (const fovea_dtype dtype : kDtypes) {
      if (dtype == FOVEA_F16) continue;
      refused(FOVEA_BAD_DTYPE, {"key_scales has dtype " + dtype_name(dtype), "expected FOVEA_F16"},
              [&](ScaledCall &call) { call.key_scales.dtype = dtype; });
    }
    refused(FOVEA_BAD_RANK, {"key_scales has rank 3"}, [](ScaledCall &call) { call.key_scales.rank = 3; });
    const char *axes[] = {"batch entries", "heads", "positions", "groups"};
    for (int axis = 0; axis < 4; ++axis) {
      refused(FOVEA_BAD_SHAPE, {"value_scales has", axes[axis]},
              [&](ScaledCall &call) { call.value_scales.shape[axis] = 9; });
    }
    for (const int64_t groups : {0, 3, 8, 64, 65}) {  // of 64 features: 8 groups are of 8
      refused(FOVEA_BAD_SHAPE, {"key_scales has " + std::to_string(groups) + " groups", "64"},
              [&](ScaledCall &call) { call.key_scales.shape[3] = groups; });
    }
    refused(FOVEA_BAD_STRIDE, {"key_scales.strides[3]"}, [](ScaledCall &call) { call.key_scales.strides[3] = 2; });
    refused(FOVEA_NULL_POINTER, {"key_scales"}, [](ScaledCall &call) { call.key_scales.data = nullptr; });
    refused(FOVEA_OVERLAP, {"out", "value_scales"},
            [](ScaledCall &call) { call.value_scales.data = call.call.out.data; });
    refused(FOVEA_BAD_DTYPE, {"query has dtype FOVEA_I8"}, [](ScaledCall &call) { call.call.query.dtype = FOVEA_I8; });
    refused(FOVEA_BAD_DTYPE, {"key has dtype FOVEA_U8"}, [](ScaledCall &call) { call.call.key.dtype = FOVEA_U8; });
  }

  TEST_CASE("8 bits are the scaled dot product's and the bilinear score's alone") {
    Random random(base_seed());
    for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      AttentionProblem problem =
          make_scored(kind, {.query_len = 3, .key_len = 5, .head_dim = 16, .value_dim = 16}, 4, random);
      const EightBits keys(problem.key, 16, random), values(problem.value, 16, random);
      const AttentionResult result = problem.make_result(false);
      check_refusal(ScaledCall(problem, result, &keys, nullptr).call.run(nullptr), FOVEA_BAD_DTYPE,
                    {"key has dtype FOVEA_I8"});
      check_refusal(ScaledCall(problem, result, nullptr, &values).call.run(nullptr), FOVEA_BAD_DTYPE,
                    {"value has dtype FOVEA_I8"});
      CHECK(result.out.untouched());
    }
  }
}
