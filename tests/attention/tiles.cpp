// Attention of bfloat16 and binary16 on AMX's tiles, native or emulated: against the formula in double at every edge of
// tiles and blocks, what must not change bits, and what a plan says of it. Masks and all other options:
// element_types.cpp, which runs on tiles as well.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "support/narrow.hpp"
#include "support/random_attention.hpp"
#include "support/tile_cpu.hpp"
#include "support/tile_emulator.hpp"

using namespace testing;

namespace {

void round_elements(Tensor<float> &tensor, fovea_dtype dtype) {
  const std::vector<float> dense = tensor.dense();
  size_t next = 0;
  tensor.fill([&] { return rounded_to(dense[next++], dtype); });
}

// A problem whose queries, keys and values have 16 bits. Bound to memory of its own.
struct Call {
  AttentionProblem &problem;
  AttentionResult result;
  AttentionArguments arguments;
  NarrowTensor query, key, value;

  explicit Call(AttentionProblem &p, bool want_weights = false, fovea_dtype dtype = FOVEA_BF16)
      : problem(rounded(p, dtype)),
        result(p.make_result(want_weights)),
        arguments(p, result),
        query(p.query, dtype),
        key(p.key, dtype),
        value(p.value, dtype) {
    arguments.query = query.view();
    arguments.key = key.view();
    arguments.value = value.view();
  }

  static AttentionProblem &rounded(AttentionProblem &p, fovea_dtype dtype) {
    for (Tensor<float> *tensor : {&p.query, &p.key, &p.value}) round_elements(*tensor, dtype);
    return p;
  }

  std::string describe(const fovea_context *context) const {
    fovea_plan *plan = nullptr;
    REQUIRE_OK(arguments.plan(context, &plan));
    char text[512];
    fovea_plan_describe(plan, text, sizeof text);
    fovea_plan_destroy(plan);
    return text;
  }

  std::vector<float> run(int threads = 1) const {
    REQUIRE_OK(arguments.run(shared_context("amx", threads)));
    return result.out.dense();
  }
};

bool says(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

// Tiles of AMX-FP16, which not every tile unit has.
bool has_float16_tiles() {
  Random random(base_seed());
  AttentionProblem problem = make_attention({.query_len = 64, .key_len = 64, .head_dim = 8, .value_dim = 8}, random);
  return says(Call(problem, false, FOVEA_F16).describe(shared_context("amx")), "kernels=amxfp16");
}

std::vector<fovea_dtype> tile_types() {
  if (has_float16_tiles()) return {FOVEA_F16, FOVEA_BF16};
  MESSAGE("no tiles of binary16: not tested");
  return {FOVEA_BF16};
}

// A weight is off by its rounding to 8 or 11 bits and by the 2^-13 of its power, and so is the sum that divides; all
// sums are float32. Weights of binary16 below 2^-21 of the largest are off by 2^-32 of that.
void check_truth(AttentionProblem &problem, fovea_dtype dtype, bool want_weights = false,
                 uint32_t flags = FOVEA_QUERY_INVARIANT) {
  CAPTURE(problem.describe());
  CAPTURE(dtype);
  problem.flags |= flags;  // few rows take tiles as well
  const Call call(problem, want_weights, dtype);
  const bool wide = dtype == FOVEA_BF16;
  REQUIRE(says(call.describe(shared_context("amx")), wide ? "kernels=amxbf16" : "kernels=amxfp16"));
  const std::vector<float> out = call.run();
  CHECK_FALSE(has_tiles());
  const auto truth = reference::attention<double>(problem.reference_inputs());
  double largest = 0;
  for (const float v : problem.value.dense()) largest = std::max(largest, std::abs(static_cast<double>(v)));
  const double lost = wide ? 0 : 0x1p-31 * static_cast<double>(problem.sizes.key_len) * largest;
  double worst = 0;
  for (size_t n = 0; n < out.size(); ++n) {
    const double allowed = 2 * ((wide ? 0x1p-8 : 0x1p-11) + 0x1p-13) * truth.weighted_magnitude[n] + lost + 0x1p-120;
    const double used = std::abs(out[n] - truth.out[n]) / allowed;
    worst = used <= worst ? worst : used;  // NaN counts
  }
  CHECK_LE(worst, 1.0);
  const std::vector<float> log_sum_exp = call.result.log_sum_exp->dense();
  double worst_sum = 0;
  for (size_t n = 0; n < log_sum_exp.size(); ++n) {
    const double used = log_sum_exp[n] == truth.log_sum_exp[n]
                            ? 0
                            : std::abs(log_sum_exp[n] - truth.log_sum_exp[n]) / (1 + std::abs(truth.log_sum_exp[n]));
    worst_sum = used <= worst_sum ? worst_sum : used;
  }
  CHECK_LE(worst_sum, 3e-6);
  CHECK(call.result.out.gaps_untouched());
}

void check_truth(AttentionProblem &problem) {
  static const std::vector<fovea_dtype> types = tile_types();
  for (const fovea_dtype dtype : types) check_truth(problem, dtype);
}

void check_masked_nan(fovea_dtype dtype) {
  CAPTURE(dtype);
  Random random(base_seed());
  AttentionProblem problem = make_attention({.query_len = 40, .key_len = 300, .head_dim = 32, .value_dim = 48}, random);
  problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i * 7 + j) % 5 != 0 && j % 11 != 3; });
  const std::vector<float> harmless = Call(problem, false, dtype).run();
  for (int64_t j = 3; j < 300; j += 11) {  // masked for all
    for (int64_t d = 0; d < 48; ++d) problem.value.at({0, 0, j, d}) = d % 2 == 0 ? kNan : kInfinity;
    for (int64_t d = 0; d < 32; ++d) problem.key.at({0, 0, j, d}) = kNan;
  }
  CHECK(same_bits(Call(problem, false, dtype).run(), harmless));
  problem.value.at({0, 0, 0, 7}) = kNan;
  const std::vector<float> shown = Call(problem, false, dtype).run();
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t d = 0; d < 48; ++d) {
      const size_t n = static_cast<size_t>(i * 48 + d);
      CHECK_EQ(std::isnan(shown[n]), d == 7 && i * 7 % 5 != 0);
    }
  }
}

void check_same_bits(AttentionProblem &problem, fovea_dtype dtype) {
  CAPTURE(dtype);
  const Call call(problem, false, dtype);
  const std::vector<float> one = call.run(1);
  for (const int threads : {1, 2, 3, 5, 8}) CHECK(same_bits(call.run(threads), one));
  AttentionArguments alone(problem, call.result);
  alone.query = call.query.view();
  alone.key = call.key.view();
  alone.value = call.value.view();
  for (fovea_tensor *tensor : {&alone.query, &alone.key, &alone.value, &alone.out}) {
    tensor->shape[0] = 1;
    tensor->data = static_cast<char *>(tensor->data) + 2 * tensor->strides[0] * (tensor == &alone.out ? 4 : 2);
  }
  alone.options.log_sum_exp = nullptr;
  REQUIRE_OK(alone.run(shared_context("amx", 1)));
  CHECK(same_bits(call.result.out.dense(), one));
}

}  // namespace

TEST_SUITE("attention tiles") {
  TEST_CASE("every edge of rows, keys and features") {
    Random random(base_seed());
    const auto check = [&](int64_t queries, int64_t keys, int64_t head_dim, int64_t value_dim) {
      AttentionProblem problem =
          make_attention({.query_len = queries, .key_len = keys, .head_dim = head_dim, .value_dim = value_dim}, random);
      check_truth(problem);
    };
    for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const int64_t queries : {1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 65, 255, 256, 257})
        check(queries, 37, 40, 24);
      for (const int64_t keys : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511, 513, 641}) {
        check(19, keys, 40, 24);
        check(5, keys, 8, 50);
      }
      for (const int64_t dim : {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 72, 80, 112, 127, 129}) {
        check(17, 70, dim, 20);
        check(17, 70, 20, dim);
      }
      check(20, 140, 512, 1024);
      check(3, 140, 1024, 512);
    }
  }

  TEST_CASE(
      "grouped heads of few queries over many keys: cut into spans, packed by the task, without a workspace of keys") {
    Random random(base_seed());
    for (const fovea_dtype dtype : tile_types()) {
      for (const int64_t queries : {3, 4, 8, 15}) {
        AttentionProblem problem = make_attention({.batch = 2,
                                                   .heads = 8,
                                                   .kv_heads = 2,
                                                   .query_len = queries,
                                                   .key_len = 1500,
                                                   .head_dim = 40,
                                                   .value_dim = 72},
                                                  random);
        problem.flags = FOVEA_CAUSAL;
        check_truth(problem, dtype, false, 0);
        problem.sinks.emplace(Shape{8}).fill_normal(random);
        problem.set_valid_lens({1500, 771});
        check_truth(problem, dtype, false, 0);
        problem.set_valid_lens({0, 1});
        check_truth(problem, dtype, false, 0);
        const Call call(problem, false, dtype);
        CHECK(says(call.describe(shared_context("amx")), queries == 15 ? " splits=2 " : " splits=3 "));
        const std::vector<float> one = call.run(1);
        for (const int threads : {2, 5, 8}) CHECK(same_bits(call.run(threads), one));
      }
    }
  }

  TEST_CASE("up to 8 rows stay with vectors, more take tiles") {
    Random random(base_seed());
    for (const int64_t queries : {1, 2, 3, 5}) {
      AttentionProblem problem = make_attention(
          {.heads = 8, .kv_heads = 2, .query_len = queries, .key_len = 300, .head_dim = 16, .value_dim = 16}, random);
      const std::string text = Call(problem).describe(shared_context("amx"));
      CHECK(says(text, 4 * queries <= 8 ? "path=rows" : "kernels=amxbf16 path=tile"));
    }
  }

  TEST_CASE("grouped heads, causal, windows, lengths: many blocks") {
    Random random(base_seed());
    for (const uint32_t flags : {0u, static_cast<uint32_t>(FOVEA_CAUSAL)}) {
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 6, .kv_heads = 2, .query_len = 150, .key_len = 700, .head_dim = 64, .value_dim = 64},
          random, Layout::kHeadsLast);
      problem.flags = flags;
      check_truth(problem);
      problem.set_valid_lens({700, 333});
      check_truth(problem);
      problem.flags |= FOVEA_WINDOW_LEFT;
      problem.window_left = 100;
      check_truth(problem);
    }
  }

  TEST_CASE("scores that grow from block to block, huge ones, a sink, soft-caps") {
    Random random(base_seed());
    for (const float size : {1.0f, 30.0f, 1000.0f, 1e6f, 1e15f}) {
      CAPTURE(size);
      AttentionProblem problem =
          make_attention({.query_len = 40, .key_len = 600, .head_dim = 16, .value_dim = 16}, random);
      int64_t n = 0;
      problem.key.fill([&] { return random.normal() * size * static_cast<float>(1 + n++ / 16) / 600; });
      for (const float softcap : {0.0f, 30.0f}) {
        problem.softcap = softcap;
        size > 1000 ? check_truth(problem, FOVEA_BF16) : check_truth(problem);  // binary16 ends at 65504, scores do not
      }
    }
  }

  TEST_CASE("binary16: weights far below the largest, the largest values, subnormal ones") {
    if (!has_float16_tiles()) return;
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 40, .key_len = 700, .head_dim = 16, .value_dim = 16}, random);
    problem.query.fill([&] { return 1.0f; });
    for (const float below :
         {9.0f, 14.0f, 20.0f}) {  // weights of 2^-13, 2^-20, 2^-29 beside one of 1, later one larger still
      int64_t n = 0;
      problem.key.fill([&] {
        const int64_t key = n++ / 16;
        return key == 300 ? 1.0f : key == 0 ? 0.0f : -below / 4;
      });
      for (const float size : {1.0f, 60000.0f, 0x1p-24f}) {
        problem.value.fill([&] { return size * static_cast<float>(1 + random.integer(0, 1)) / 2; });
        check_truth(problem, FOVEA_F16);
      }
    }
  }

  TEST_CASE("binary16 with dropout takes other kernels: scaled weights would overflow") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 64, .key_len = 100, .head_dim = 16, .value_dim = 16}, random);
    problem.dropout = 0.9f;
    CHECK(says(Call(problem, false, FOVEA_F16).describe(shared_context("amx")), "kernels=avx512 "));
  }

  TEST_CASE("weights and scores as outputs") {
    Random random(base_seed());
    for (const fovea_dtype dtype : tile_types()) {
      AttentionProblem problem = make_attention(
          {.heads = 2, .kv_heads = 2, .query_len = 40, .key_len = 200, .head_dim = 32, .value_dim = 32}, random);
      const Call call(problem, true, dtype);
      call.run();
      const auto truth = reference::attention<double>(problem.reference_inputs());
      const std::vector<float> weights = call.result.weights->dense();
      double worst = 0;
      for (size_t n = 0; n < weights.size(); ++n) worst = std::max(worst, std::abs(weights[n] - truth.weights[n]));
      CHECK_LE(worst, 2e-6);
    }
  }

  TEST_CASE("NaN and infinity behind a mask give the bits of harmless values; in front of it they show") {
    for (const fovea_dtype dtype : tile_types()) check_masked_nan(dtype);
  }

  TEST_CASE("keys and values behind the lengths are not looked at") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 30, .key_len = 300, .head_dim = 24, .value_dim = 24}, random);
    problem.set_valid_lens({137});
    const std::vector<float> harmless = Call(problem).run();
    for (int64_t j = 137; j < 300; ++j) {
      for (int64_t d = 0; d < 24; ++d) problem.value.at({0, 0, j, d}) = problem.key.at({0, 0, j, d}) = kNan;
    }
    CHECK(same_bits(Call(problem).run(), harmless));
  }

  TEST_CASE("the same bits for 1 to 8 threads, again, and alone in a batch") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 3, .heads = 4, .kv_heads = 2, .query_len = 130, .key_len = 400, .head_dim = 64, .value_dim = 64},
        random);
    problem.flags = FOVEA_CAUSAL;
    for (const fovea_dtype dtype : tile_types()) check_same_bits(problem, dtype);
  }

  TEST_CASE("outputs do not depend on what else is asked for") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 50, .key_len = 333, .head_dim = 32, .value_dim = 32}, random);
    const std::vector<float> with = Call(problem).run();
    problem.want_log_sum_exp = false;
    CHECK(same_bits(Call(problem).run(), with));
    CHECK(same_bits(Call(problem, true).run(), with));
  }

  TEST_CASE("tiles belong to the task: several threads of a caller do not meet") {
    const auto make = [] {
      Random random(base_seed());
      return make_attention({.query_len = 64, .key_len = 200, .head_dim = 64, .value_dim = 64}, random);
    };
    AttentionProblem problem = make();
    const std::vector<float> alone = Call(problem).run();
    std::vector<std::thread> threads;
    std::vector<int> same(4, 0);
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        AttentionProblem own = make();
        const Call call(own);
        for (int n = 0; n < 5; ++n) same[t] += same_bits(call.run(), alone) && !has_tiles() ? 1 : 0;
      });
    }
    for (std::thread &thread : threads) thread.join();
    for (const int count : same) CHECK_EQ(count, 5);
  }

  TEST_CASE("a plan says which kernels it takes, and why not tiles") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 64, .key_len = 200, .head_dim = 64, .value_dim = 64}, random);
    const Call call(problem);
    CHECK(says(call.describe(shared_context("amx")), "kernels=amxbf16 path=tile tile=32x128"));
    CHECK(says(call.describe(nullptr), "isa=avx512 kernels=amxbf16"));  // by default, without being named
    CHECK(says(call.describe(shared_context("avx512")), "kernels=avx512bf16 path"));
    set_tile_access(TileAccess::refused);
    CHECK(says(call.describe(nullptr), "kernels=avx512bf16 tiles=refused path"));
    REQUIRE_OK(call.arguments.run(nullptr));
    set_tile_access(TileAccess::absent);
    CHECK(says(call.describe(nullptr), "kernels=avx512bf16 path"));
    set_tile_access(TileAccess::granted);
    AttentionArguments floats(problem, call.result);
    fovea_plan *plan = nullptr;
    REQUIRE_OK(floats.plan(nullptr, &plan));
    char text[512];
    fovea_plan_describe(plan, text, sizeof text);
    fovea_plan_destroy(plan);
    CHECK(says(text, "kernels=avx512 "));
  }

  TEST_CASE("the workspace holds keys and values once more") {
    Random random(base_seed());
    const auto workspace = [&](int64_t queries, int64_t keys) {
      AttentionProblem problem = make_attention(
          {.heads = 4, .kv_heads = 2, .query_len = queries, .key_len = keys, .head_dim = 64, .value_dim = 32}, random);
      const Call call(problem);
      fovea_plan *plan = nullptr;
      REQUIRE_OK(call.arguments.plan(shared_context("amx", 1), &plan));
      const auto size = static_cast<int64_t>(fovea_plan_workspace_size(plan));
      fovea_plan_destroy(plan);
      return size;
    };
    CHECK_EQ(workspace(256, 2048) - workspace(256, 1024), 1024 * 2 * (64 + 32) * 2);
    CHECK_EQ(workspace(2048, 1024), workspace(512, 1024));
    CHECK_EQ(workspace(16, 256), workspace(16, 128));  // one task for all rows of a head's keys packs them itself
  }

  TEST_CASE("no more products of tiles than the padded shape has, and half of them if causal") {
    if (tiles_are_native()) return;
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 1, .query_len = 512, .key_len = 512, .head_dim = 72, .value_dim = 72}, random);
    const auto products = [&] {
      const Call call(problem);
      const int64_t before = tile_counts().products;
      call.run();
      return tile_counts().products - before;
    };
    const int64_t pairs = 2 * (512 / 16) * (512 / 16);  // squares of 16 x 16
    CHECK_EQ(products(), pairs * (96 / 32) + pairs * 80 / 32);
    problem.flags = FOVEA_CAUSAL;
    const int64_t diagonal = 2 * (512 / 32) * 4;  // squares of 32 x 32 on it are whole
    CHECK_EQ(products(), (pairs + diagonal) / 2 * (96 / 32) + (pairs + diagonal) / 2 * 80 / 32);
  }
}
