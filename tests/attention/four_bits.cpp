// Values of 4 bits with scales and least numbers, beside keys of 8 bits or of floats. Kernels read what the numbers
// stand for: as float32, with the bits that F32 tensors of these numbers give, or rounded to the query's type where its
// products are the processor's own; products of bytes come close.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "support/errors.hpp"
#include "support/scaled_numbers.hpp"

using namespace testing;

namespace {

// What a call multiplies where the processor's own products are taken: everything has the query's type or scales.
struct Types {
  fovea_dtype query = FOVEA_F32, key = FOVEA_F32;  // key: of keys without scales
};

void check_four_bits(const AttentionProblem &problem, const Types &types, const EightBits *keys, const FourBits &values,
                     bool want_weights) {
  CAPTURE(problem.describe());
  CAPTURE(types.query);
  CAPTURE(types.key);
  CAPTURE(keys != nullptr);
  std::optional<NarrowTensor> query, narrow_key;
  if (types.query != FOVEA_F32) query.emplace(problem.query, types.query);
  if (types.key != FOVEA_F32) narrow_key.emplace(problem.key, types.key);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = problem.make_result(want_weights), expected = problem.make_result(want_weights);
    ScaledCall four(problem, result, keys, &values);
    AttentionArguments call(problem, expected);
    if (query) four.call.query = call.query = query->view();
    if (narrow_key) four.call.key = call.key = narrow_key->view();
    const std::string plan = plan_text(four.call, context);
    CAPTURE(plan);
    const fovea_dtype type = multiplied(plan);
    std::optional<NarrowTensor> key, value;
    if (type != FOVEA_F32) {
      if (keys != nullptr) key.emplace(packed(problem.key, type));
      if (keys != nullptr) call.key = key->view();
      value.emplace(packed(problem.value, type));
      call.value = value->view();
    }
    REQUIRE_OK(four.call.run(context));
    REQUIRE_OK(call.run(context));
    CHECK(result.out.gaps_untouched());
    if (by_bytes(plan)) return check_near(problem, result, expected);
    CHECK(same_but_nan(result.out, expected.out));
    if (expected.log_sum_exp) CHECK(same_but_nan(*result.log_sum_exp, *expected.log_sum_exp));
    // Beside tiles of binary16, floats make weights, of the numbers themselves.
    if (expected.weights && type != FOVEA_F16) CHECK(same_but_nan(*result.weights, *expected.weights));
  });
}

// Values of whole blocks.
void resize_values(AttentionProblem &problem, int64_t dim, Random &random) {
  const AttentionSizes &s = problem.sizes;
  problem.sizes.value_dim = dim;
  problem.value = problem.make_tensor({s.batch, s.kv_heads, s.key_len, dim},
                                      random.pick({Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}));
}

void check_random(int64_t cases, uint64_t first_seed, int64_t most_len, int64_t most_dim) {
  for (int64_t n = 0; n < cases; ++n) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(n);
    CAPTURE(seed);
    Random random(seed);
    const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
    AttentionProblem problem = random_problem(random, most_len, most_dim);
    resize_values(problem, 32 * random.integer(1, most_dim / 32), random);
    Types types = {random.pick<fovea_dtype>({FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_BF16}), FOVEA_F32};
    // The mean of all values is that of the numbers themselves.
    if (problem.empty_rows == FOVEA_EMPTY_ROWS_UNIFORM && types.query != FOVEA_F32)
      problem.empty_rows = FOVEA_EMPTY_ROWS_NAN;
    EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random);
    FourBits values(problem.value, any_group(random, problem.sizes.value_dim, 32), random);
    if (random.chance(0.1) && problem.sizes.key_len > 0 && problem.value.count() > 0) {
      values.scales().fill([&] { return narrowed(random.chance(0.02) ? kNan : 0.01f, FOVEA_F16); });
      values.read_back(problem.value);
    }
    const bool keys_too = random.chance(0.6);
    if (!keys_too) types.key = random.pick<fovea_dtype>({FOVEA_F32, FOVEA_F16, FOVEA_BF16, types.query});
    check_four_bits(problem, types, keys_too ? &keys : nullptr, values, random.chance(0.4));
  }
}

}  // namespace

TEST_SUITE("four bits") {
  TEST_CASE("values of 4 bits give what tensors of their numbers give: small problems") {
    check_random(case_count(500), base_seed(), 40, 64);
  }
  TEST_CASE("values of 4 bits give what tensors of their numbers give: larger problems") {
    check_random(case_count(60), base_seed() + 7000, 300, 192);
  }

  TEST_CASE("4 bits by products of bytes: few rows, every kind of group, numbers of keys around a block and a piece") {
    for (int64_t n = 0; n < case_count(200); ++n) {
      const uint64_t seed = base_seed() + 20000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      AttentionProblem problem = any_few_rows_of_bytes(random);
      const EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random);
      FourBits values(problem.value, any_group(random, problem.sizes.value_dim, 32), random);
      if (random.chance(0.2)) {
        values.scales().fill([&] { return random.pick<uint16_t>({0x2400, 0x2400, 0x2400, 0x7e00}); });
        values.read_back(problem.value);
      }
      check_four_bits(problem, {random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), FOVEA_F32}, &keys, values, false);
    }
  }

  TEST_CASE("4 bits: one query and grouped heads over many keys, cut into parts") {
    Random random(base_seed());
    for (const fovea_dtype query : {FOVEA_F32, FOVEA_BF16}) {
      for (const int64_t group : {1, 2, 4, 5, 8, 13}) {
        const int64_t dim = random.pick({64, 96, 128, 100});
        AttentionProblem problem = make_attention({.heads = 2 * group,
                                                   .kv_heads = 2,
                                                   .key_len = 3000,
                                                   .head_dim = dim,
                                                   .value_dim = random.pick({32, 64, 128})},
                                                  random);
        const EightBits keys(problem.key, any_group(random, dim), random);
        const FourBits values(problem.value, any_group(random, problem.sizes.value_dim, 32), random);
        check_four_bits(problem, {query, FOVEA_F32}, &keys, values, false);
      }
    }
  }

  TEST_CASE("4 bits: the formula, in double, of the numbers") {
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
                                                 .value_dim = random.pick({32, 64, 96, 1024})},
                                                random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast}));
      if (random.chance(0.5)) problem.flags = FOVEA_CAUSAL;
      const EightBits keys(problem.key, any_group(random, problem.sizes.head_dim), random, 0.02f);
      const FourBits values(problem.value, any_group(random, problem.sizes.value_dim, 32), random, 0.2f);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        const ScaledCall four(problem, result, &keys, &values);
        REQUIRE_OK(four.call.run(context));
        by_bytes(plan_text(four.call, context)) ? check_near_formula(problem, result) : check_result(problem, result);
      });
    }
  }

  // The scales of a key that nobody attends may be anything, and so may its least numbers.
  TEST_CASE("4 bits: NaN and infinity in scales behind a mask give the bits of harmless ones") {
    for (int64_t n = 0; n < case_count(80); ++n) {
      const uint64_t seed = base_seed() + 40000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t key_len = random.integer(2, 400), dim = random.pick({32, 64, 96});
      AttentionProblem problem = make_attention({.heads = random.pick({1, 2, 4, 5, 9, 40}),
                                                 .kv_heads = 1,
                                                 .query_len = random.pick({1, 1, 2}),
                                                 .key_len = key_len,
                                                 .head_dim = dim,
                                                 .value_dim = dim},
                                                random);
      problem.set_mask(
          [](int64_t, int64_t head, int64_t, int64_t key) { return key % 7 != 0 && (head + key) % 3 != 0; });
      const EightBits keys(problem.key, any_group(random, dim), random);
      FourBits values(problem.value, any_group(random, dim, 32), random);
      const NarrowTensor query(problem.query, FOVEA_BF16);
      const bool narrow = random.chance(0.5);
      const auto run_all = [&] {
        std::vector<std::vector<float>> outputs;
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          ScaledCall four(problem, result, &keys, &values);
          if (narrow) four.call.query = query.view();
          REQUIRE_OK(four.call.run(context));
          outputs.push_back(result.out.dense());
        });
        return outputs;
      };
      const std::vector<std::vector<float>> harmless = run_all();
      values.scales().memory().thaw();
      for (int64_t key = 0; key < key_len; key += 7) {
        const int64_t last = values.scales().shape().back() - 1;
        values.scales().at({0, 0, key, random.integer(0, last)}) = random.pick<uint16_t>({0x7e00, 0x7c00, 0xfc00});
      }
      const std::vector<std::vector<float>> spoilt = run_all();
      for (size_t set = 0; set < harmless.size(); ++set) CHECK(same_bits(harmless[set], spoilt[set]));
    }
  }

  TEST_CASE("4 bits: a scale or a least number that is NaN reaches those who attend its key, in its group alone") {
    Random random(base_seed());
    for (const int64_t heads : {1, 4, 12, 40}) {
      for (const int64_t place : {2, 3}) {
        AttentionProblem problem =
            make_attention({.heads = heads, .kv_heads = 1, .key_len = 130, .head_dim = 64, .value_dim = 64}, random);
        const EightBits keys(problem.key, 32, random);
        FourBits values(problem.value, 32, random);
        values.scales().memory().thaw();
        values.scales().at({0, 0, 77, place}) = 0x7e00;
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
  }

  TEST_CASE("4 bits: bits do not depend on how many queries there are where that is promised, nor on threads") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 70, .key_len = 300, .head_dim = 64, .value_dim = 64}, random);
    problem.flags = FOVEA_QUERY_INVARIANT;
    problem.want_log_sum_exp = false;
    const EightBits keys(problem.key, 32, random);
    const FourBits values(problem.value, 64, random);
    for (const std::string &isa : instruction_sets()) {
      const AttentionResult all = problem.make_result(false);
      REQUIRE_OK(ScaledCall(problem, all, &keys, &values).call.run(shared_context(isa, 1)));
      for (const int threads : {2, 5, 8}) {
        const AttentionResult again = problem.make_result(false);
        REQUIRE_OK(ScaledCall(problem, again, &keys, &values).call.run(shared_context(isa, threads)));
        CHECK(same_bits(all, again));
      }
      const Tensor<float> single({1, 2, 1, 64});
      ScaledCall call(problem, all, &keys, &values);
      call.call.query.shape[2] = 1;
      call.call.out = single.view();
      REQUIRE_OK(call.call.run(shared_context(isa, 1)));
      for (int64_t d = 0; d < 64; ++d) CHECK_EQ(all.out.at({0, 1, 0, d}), single.at({0, 1, 0, d}));
    }
  }

  TEST_CASE("4 bits: planned, and with other lengths: the bits of a call") {
    Random random(base_seed());
    for (const int64_t heads : {2, 8, 40}) {
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = heads, .kv_heads = 2, .key_len = 400, .head_dim = 64, .value_dim = 32}, random);
      const EightBits keys(problem.key, 16, random);
      const FourBits values(problem.value, 32, random);
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
        buffers.value_scales = call.value_scales.data;
        REQUIRE_OK(fovea_attention_run(plan, &buffers, workspace.data(), workspace.size()));
        REQUIRE_OK(second.call.run(context));
        CHECK(same_bits(planned, called));
        fovea_plan_destroy(plan);
      });
    }
  }

  TEST_CASE("4 bits: float32 queries at medium precision: what BF16 tensors give where products of those are taken") {
    Random random(base_seed());
    for (const int64_t queries : {1, 70}) {
      AttentionProblem problem = make_attention(
          {.heads = 2, .kv_heads = 2, .query_len = queries, .key_len = 200, .head_dim = 48, .value_dim = 64}, random);
      const EightBits keys(problem.key, 16, random);
      const FourBits values(problem.value, 32, random);
      for (const std::string &isa : instruction_sets()) {
        const OwnContext context = make_context(isa, FOVEA_PRECISION_MEDIUM);
        const AttentionResult result = problem.make_result(false), expected = problem.make_result(false);
        ScaledCall four(problem, result, &keys, &values);
        AttentionArguments call(problem, expected);
        const NarrowTensor query = packed(problem.query, FOVEA_BF16), key = packed(problem.key, FOVEA_BF16),
                           value = packed(problem.value, FOVEA_BF16);
        if (multiplied(plan_text(four.call, context.get())) == FOVEA_BF16) {
          call.query = query.view();
          call.key = key.view();
          call.value = value.view();
        }
        REQUIRE_OK(four.call.run(context.get()));
        REQUIRE_OK(call.run(context.get()));
        CHECK(same_bits(result, expected));
      }
    }
  }

  TEST_CASE("4 bits: a bilinear score") {
    Random random(base_seed());
    for (const int64_t queries : {1, 90}) {
      AttentionProblem problem = make_scored(
          FOVEA_SCORE_BILINEAR,
          {.heads = 2, .query_len = queries, .key_len = 60, .head_dim = 24, .value_dim = 32, .key_dim = 48}, 0, random);
      problem.sizes.kv_heads = 1;
      problem.key = problem.make_tensor({1, 1, 60, 48}, Layout::kHeadsFirst);
      problem.value = problem.make_tensor({1, 1, 60, 32}, Layout::kHeadsFirst);
      const EightBits keys(problem.key, 16, random);
      const FourBits values(problem.value, 32, random);
      problem.want_log_sum_exp = false;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(ScaledCall(problem, result, &keys, &values).call.run(context));
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
  TEST_CASE("values of 4 bits: scales that are missing or do not fit, rows that are no blocks, keys") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 64, .value_dim = 96}, random);
    const EightBits keys(problem.key, 16, random);
    const FourBits values(problem.value, 32, random);
    const AttentionResult result = problem.make_result(false);
    const auto refused = [&](fovea_status status, std::initializer_list<std::string> words, const auto &spoil) {
      ScaledCall call(problem, result, &keys, &values);
      spoil(call);
      check_refusal(call.call.run(nullptr), status, words);
      fovea_plan *plan = nullptr;
      if (status != FOVEA_NULL_POINTER && status != FOVEA_OVERLAP) {
        check_refusal(call.call.plan(nullptr, &plan), status, words);
      }
      CHECK(plan == nullptr);
      CHECK(result.out.untouched());
    };
    refused(FOVEA_NULL_POINTER, {"value_scales is NULL", "value has dtype FOVEA_U8"},
            [](ScaledCall &call) { call.call.options.value_scales = nullptr; });
    refused(FOVEA_BAD_VALUE, {"value_scales is given", "value has dtype FOVEA_F32"},
            [&](ScaledCall &call) { call.call.value = problem.value.view(); });
    for (const int64_t count : {0, 1, 3, 4, 5, 12, 96}) {  // of 96 features: 4 are of 48 features, 12 of 16
      refused(FOVEA_BAD_SHAPE,
              {"value_scales has " + std::to_string(count) + " numbers", "multiple of 32", "96 features"},
              [&](ScaledCall &call) { call.value_scales.shape[3] = count; });
    }
    refused(FOVEA_BAD_SHAPE, {"out has 96 features", "64"}, [](ScaledCall &call) { call.call.value.shape[3] = 32; });
    refused(FOVEA_BAD_SHAPE, {"value_scales has 6 numbers", "80 features"}, [](ScaledCall &call) {
      call.call.value.shape[3] = 40;
      call.call.out.shape[3] = 80;
    });
    refused(FOVEA_BAD_SHAPE, {"value has 1056 features", "1024"}, [](ScaledCall &call) {
      call.call.value.shape[3] = 528;
      for (int axis = 0; axis < 3; ++axis) call.call.value.strides[axis] = 0;
    });
    const char *axes[] = {"batch entries", "heads", "positions"};
    for (int axis = 0; axis < 3; ++axis) {
      refused(FOVEA_BAD_SHAPE, {"value_scales has", axes[axis]},
              [&](ScaledCall &call) { call.value_scales.shape[axis] = 9; });
    }
    refused(FOVEA_OVERLAP, {"out", "value_scales"},
            [](ScaledCall &call) { call.value_scales.data = call.call.out.data; });
    refused(FOVEA_OVERLAP, {"out", "value"}, [](ScaledCall &call) { call.call.value.data = call.call.out.data; });
    refused(FOVEA_BAD_DTYPE, {"key has dtype FOVEA_U8"}, [](ScaledCall &call) { call.call.key.dtype = FOVEA_U8; });
    refused(FOVEA_BAD_DTYPE, {"query has dtype FOVEA_U8"}, [](ScaledCall &call) { call.call.query.dtype = FOVEA_U8; });
    refused(FOVEA_BAD_DTYPE, {"out has dtype FOVEA_U8"}, [](ScaledCall &call) { call.call.out.dtype = FOVEA_U8; });
  }

  TEST_CASE("values of 4 bits are the scaled dot product's and the bilinear score's alone") {
    Random random(base_seed());
    for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      AttentionProblem problem =
          make_scored(kind, {.query_len = 3, .key_len = 5, .head_dim = 16, .value_dim = 32}, 4, random);
      const FourBits values(problem.value, 32, random);
      const AttentionResult result = problem.make_result(false);
      check_refusal(ScaledCall(problem, result, nullptr, &values).call.run(nullptr), FOVEA_BAD_DTYPE,
                    {"value has dtype FOVEA_U8"});
      CHECK(result.out.untouched());
    }
  }
}
