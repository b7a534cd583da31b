// Finite inputs, finite results: attention at the ends of float32's range. What the formula says scales is multiplied
// by powers of two, from 2^-120 to 2^127, and results follow, to the bit where nothing on the way is subnormal.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "support/attention_problem.hpp"
#include "support/poison.hpp"

using namespace testing;

namespace {

struct Case {
  std::string name;
  AttentionSizes sizes;
};

// Few rows and many, tiles of one key more, split keys, values of more than a register.
const Case kCases[] = {
    {"a row", {.heads = 2, .kv_heads = 1, .query_len = 1, .key_len = 390, .head_dim = 9, .value_dim = 11}},
    {"3 rows", {.batch = 2, .query_len = 3, .key_len = 397, .head_dim = 16, .value_dim = 33}},
    {"split keys", {.query_len = 1, .key_len = 3000, .head_dim = 8, .value_dim = 17}},
    {"70 rows", {.heads = 2, .query_len = 70, .key_len = 401, .head_dim = 20, .value_dim = 5}},
    {"long rows", {.query_len = 40, .key_len = 1700, .head_dim = 4, .value_dim = 9}}};

float scaled(float x, int power) { return std::ldexp(x, power); }

void multiply(Tensor<float> &tensor, int power) {
  std::vector<float> dense = tensor.dense();
  for (float &x : dense) x = scaled(x, power);
  tensor.assign(dense);
}

// Multiples of 2^-8, so that 2^-120 of them are exact.
Tensor<float> &coarse(Tensor<float> &tensor, Random &random) {
  return tensor.fill([&] { return std::nearbyint(random.normal() * 256.0f) / 256.0f; });
}

// Weights of like size, values of one sign for most features: unnormalised sums are as large as they can be.
AttentionProblem flat_problem(int32_t kind, const AttentionSizes &sizes) {
  Random random(base_seed());
  AttentionProblem problem = make_scored(kind, sizes, 24, random);
  problem.query.fill([&] { return 0.05f * random.normal(); });
  problem.value.fill([&] { return random.uniform(0.5f, 1.0f) * (random.chance(0.9) ? 1.0f : -1.0f); });
  return problem;
}

AttentionResult results_of(const AttentionProblem &problem, const fovea_context *context, bool weights) {
  AttentionResult result = problem.make_result(weights);
  REQUIRE_OK(problem.run(context, result));
  return result;
}

std::vector<float> all_of(const AttentionResult &result) {
  std::vector<float> all = result.out.dense();
  for (const auto *other : {&result.log_sum_exp, &result.weights}) {
    if (!*other) continue;
    const std::vector<float> more = (*other)->dense();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// How many of the elements differ from 2^power times what they were by more than that.
int64_t strays(const Tensor<float> &now, const Tensor<float> &before, int power, float allowed) {
  const std::vector<float> a = now.dense(), b = before.dense();
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::fabs(a[i] - scaled(b[i], power)) <= allowed ? 0 : 1;
  return count;
}

void check_scaled_values(AttentionProblem &problem) {
  for_each_isa([&](const fovea_context *context) {
    for (bool weights : {false, true}) {
      CAPTURE(weights);
      const AttentionResult base = results_of(problem, context, weights);
      for (int power : {-120, -100, -60, 60, 100, 118, 120, 127}) {
        CAPTURE(power);
        multiply(problem.value, power);
        const AttentionResult result = results_of(problem, context, weights);
        multiply(problem.value, -power);
        const float lost = power < -100 ? static_cast<float>(problem.sizes.key_len) * 0x1p-149f : 0.0f;
        CHECK_EQ(strays(result.out, base.out, power, lost), 0);
        CHECK(same_bits(*result.log_sum_exp, *base.log_sum_exp));
      }
    }
  });
}

void check_same(const AttentionProblem &problem, const AttentionProblem &scaled_problem) {
  for_each_isa([&](const fovea_context *context) {
    for (bool weights : {false, true}) {
      CAPTURE(weights);
      CHECK(same_bits(results_of(scaled_problem, context, weights), results_of(problem, context, weights)));
    }
  });
}

void check_close(const AttentionProblem &problem, const AttentionProblem &scaled_problem, float allowed) {
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> a = all_of(results_of(scaled_problem, context, true));
    const std::vector<float> b = all_of(results_of(problem, context, true));
    float most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::isnan(a[i]) ? kInfinity : std::max(most, std::fabs(a[i] - b[i]));
    CHECK(most <= allowed);
  });
}

}  // namespace

TEST_SUITE("range") {
  TEST_CASE("values times a power of two: so are outputs, by every score function") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      for (int32_t kind : kScoreKinds) {
        CAPTURE(score_name(kind));
        if (kind != FOVEA_SCORE_DOT && its.sizes.key_len > 1000) continue;
        AttentionProblem problem = flat_problem(kind, its.sizes);
        check_scaled_values(problem);
      }
    }
  }

  TEST_CASE("and with masks, dropout, sinks and poison that nobody attends") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      const int64_t key_len = its.sizes.key_len, query_len = its.sizes.query_len;
      AttentionProblem causal = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      causal.flags = FOVEA_CAUSAL;
      check_scaled_values(causal);
      AttentionProblem masked = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      masked.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return j != 5 && (i + j) % 7 != 0; });
      masked.sinks.emplace(Shape{its.sizes.heads}).fill([] { return 0.5f; });
      check_scaled_values(masked);
      masked.value.memory().thaw();
      for_each_index(masked.value.shape(), [&](const Shape &at) {
        if (at[2] == 5) masked.value.at(at) = kNan;
      });
      check_scaled_values(masked);
      AttentionProblem window = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      window.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      window.window_left = 300;
      window.value.memory().thaw();
      for_each_index(window.value.shape(), [&](const Shape &at) {
        if (at[2] < key_len - query_len - 300) window.value.at(at) = kInfinity;
      });
      check_scaled_values(window);
      AttentionProblem dropped = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      dropped.dropout = 0.25f;
      dropped.value.fill([n = 0]() mutable { return ++n % 3 == 0 ? -0.25f : 0.5f; });
      check_scaled_values(dropped);
    }
  }

  TEST_CASE("an infinite value or a NaN among huge ones still arrives, and nowhere else") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      for (float odd : {kInfinity, -kInfinity, kNan}) {
        AttentionProblem problem = flat_problem(FOVEA_SCORE_DOT, its.sizes);
        problem.value.fill([] { return 0x1p126f; });
        const int64_t at = its.sizes.key_len - 2;
        problem.value.memory().thaw();
        problem.value(0, 0, at, 1) = odd;
        problem.set_mask([at](int64_t, int64_t, int64_t i, int64_t j) { return j != at || i % 2 == 0; });
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = results_of(problem, context, false);
          for_each_index(result.out.shape(), [&](const Shape &index) {
            const float x = result.out.at(index);
            if (index[0] == 0 && index[2] % 2 == 0 && index[3] == 1) {
              CHECK_FALSE(std::isfinite(x));  // sums too large on the way to an infinity of the other sign are NaN
            } else if (index[2] % 2 == 1) {
              CHECK(std::fabs(x - 0x1p126f) < 0x1p106f);
            }
          });
        });
      }
    }
  }

  TEST_CASE("an empty row's mean of huge values") {
    for (const Case &its : kCases) {
      AttentionProblem problem = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      problem.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
      problem.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(its.sizes.batch), 0));
      check_scaled_values(problem);
    }
  }

  TEST_CASE("queries times a power of two, keys or weights by its inverse: the same bits") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      for (int32_t kind : {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE}) {
        CAPTURE(score_name(kind));
        const auto make = [&](int power) {
          Random random(base_seed());
          AttentionProblem problem = make_scored(kind, its.sizes, 24, random);
          multiply(coarse(problem.query, random), power);
          coarse(problem.key, random);
          if (kind == FOVEA_SCORE_DOT) multiply(problem.key, -power);
          if (kind == FOVEA_SCORE_BILINEAR) multiply(coarse(*problem.score->weight, random), -power);
          if (kind == FOVEA_SCORE_ADDITIVE) multiply(coarse(*problem.score->query_weight, random), -power);
          return problem;
        };
        for (int power : {-110, -60, 60, 110}) {
          CAPTURE(power);
          check_same(make(0), make(power));
        }
      }
    }
  }

  TEST_CASE("queries times a power of two, the scale by its inverse: the same to rounding") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      const auto make = [&](int power) {
        Random random(base_seed());
        AttentionProblem problem = make_attention(its.sizes, random);
        multiply(problem.query, power);
        problem.scale = scaled(0.25f, -power);
        return problem;
      };
      for (int power : {-110, 110}) {
        CAPTURE(power);
        check_close(make(0), make(power), 2e-5f);
      }
      AttentionProblem capped = make(0);
      for (float softcap : {1e-40f, 1e-38f, 1e38f, FLT_MAX}) {
        CAPTURE(softcap);
        capped.softcap = softcap;
        check_attention(capped);
      }
    }
  }

  TEST_CASE("a score vector times a power of two, the scale by its inverse") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (const Case &its : kCases) {
        if (its.sizes.key_len > 1000) continue;
        CAPTURE(its.name);
        const auto make = [&](int power) {
          Random random(base_seed());
          AttentionProblem problem = make_scored(kind, its.sizes, 40, random);
          multiply(*problem.score->score_vector, power);
          problem.scale = scaled(0.5f, -power);
          return problem;
        };
        for (int power : {-110, -60, 60, 110}) {
          CAPTURE(power);
          check_close(make(0), make(power), 1e-4f);
        }
      }
    }
  }

  TEST_CASE("Gaussian: queries, keys and sigma times a power of two give the same bits") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      for (int64_t dim : {int64_t{1}, its.sizes.head_dim, int64_t{40}}) {
        CAPTURE(dim);
        AttentionSizes sizes = its.sizes;
        sizes.head_dim = dim;
        // Points times 2^power; sigma likewise, or the scale by the square's inverse, or a sigma for each head.
        enum class By { sigma, scale, sigmas };
        const auto make = [&](int power, By by) {
          Random random(base_seed());
          AttentionProblem problem = make_scored(FOVEA_SCORE_GAUSSIAN, sizes, 1, random);
          multiply(coarse(problem.query, random), power);
          multiply(coarse(problem.key, random), power);
          problem.score->sigma = by == By::sigma ? scaled(1.7f, power) : by == By::scale ? 1.7f : 0.0f;
          problem.scale = by == By::scale ? scaled(1.0f, -2 * power) : 1.0f;
          if (by != By::sigmas) return problem;
          problem.score->sigmas.emplace(Shape{sizes.heads}).fill([power, n = 0]() mutable {
            return scaled(1.5f + static_cast<float>(n++), power);
          });
          return problem;
        };
        for (int power : {-120, -90, -34, -33, -20, 20, 33, 34, 90, 120}) {
          CAPTURE(power);
          check_same(make(0, By::sigma), make(power, By::sigma));
          if (power > -61 && power < 61) check_same(make(0, By::scale), make(power, By::scale));
        }
        for (int power : {-40, 40}) {
          CAPTURE(power);
          check_same(make(0, By::sigmas), make(power, By::sigmas));
        }
      }
    }
  }

  TEST_CASE("Gaussian: coordinates beyond all that a tiny sigma tells apart give numbers") {
    for (float sigma : {1e-36f, 1e-42f}) {
      CAPTURE(sigma);
      Random random(base_seed());
      AttentionProblem problem =
          make_scored(FOVEA_SCORE_GAUSSIAN, {.query_len = 5, .key_len = 9, .head_dim = 2, .value_dim = 3}, 1, random);
      problem.score->sigma = sigma;
      problem.key.fill([n = 0]() mutable { return 1e20f * static_cast<float>(++n); });
      problem.query.fill([n = 0]() mutable { return 1e20f * static_cast<float>(++n); });
      for_each_isa([&](const fovea_context *context) {
        for (float x : results_of(problem, context, false).out.dense()) CHECK(std::isfinite(x));
      });
    }
  }

  TEST_CASE("kernel regression: queries, inputs and sigma times a power of two give the same bits") {
    for (int64_t count : {1, 9, 300, 900}) {
      for (int64_t queries : {1, 50}) {
        Random random(base_seed());
        Tensor<float> x({queries, 3}), inputs({count, 3}), targets({count, 2});
        coarse(x, random);
        coarse(inputs, random);
        targets.fill_normal(random);
        for_each_isa([&](const fovea_context *context) {
          Tensor<float> base({queries, 2});
          for (int power : {0, -120, -60, 60, 120}) {
            CAPTURE(power);
            Tensor<float> out({queries, 2});
            multiply(x, power);
            multiply(inputs, power);
            fovea_kernel_regression_options options{};
            options.struct_size = sizeof options;
            options.sigma = scaled(0.7f, power);
            const fovea_tensor a = x.view(), b = inputs.view(), c = targets.view(), d = out.view();
            REQUIRE_OK(fovea_kernel_regression(context, &a, &b, &c, &d, &options));
            multiply(x, -power);
            multiply(inputs, -power);
            if (power == 0) base.assign(out.dense());
            CHECK(same_bits(out, base));
          }
        });
      }
    }
  }

  TEST_CASE("a finite sink of any size") {
    for (const Case &its : kCases) {
      CAPTURE(its.name);
      AttentionProblem without = flat_problem(FOVEA_SCORE_DOT, its.sizes);
      for (float sink : {1e37f, 8.6e37f, 3e38f, FLT_MAX, -8.6e37f, -3e38f, -FLT_MAX}) {
        CAPTURE(sink);
        AttentionProblem problem = flat_problem(FOVEA_SCORE_DOT, its.sizes);
        problem.scale = without.scale = 0.25f;
        problem.sinks.emplace(Shape{its.sizes.heads}).fill([sink] { return sink; });
        if (sink < 0) check_same(without, problem);
        if (sink < 0) problem.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(its.sizes.batch), 0));
        for_each_isa([&](const fovea_context *context) {
          for (bool weights : {false, true}) {
            const AttentionResult result = results_of(problem, context, weights);
            for (float x : result.out.dense()) CHECK_EQ(x, 0);
            for (float x : result.log_sum_exp->dense()) CHECK_EQ(x, sink);
          }
        });
      }
    }
  }

  TEST_CASE("merging huge and tiny states") {
    for (int64_t parts : {2, 5, 40}) {
      for (int64_t dim : {1, 3, 8, 40}) {
        Random random(base_seed());
        Tensor<float> outs({parts, 7, dim}), lses({parts, 7});
        outs.fill([&] { return random.uniform(0.5f, 1.0f); });
        lses.fill([&] { return random.normal(); });
        for_each_isa([&](const fovea_context *context) {
          Tensor<float> base({7, dim});
          for (int power : {0, -120, 60, 120, 127}) {
            CAPTURE(power);
            Tensor<float> out({7, dim}), lse({7});
            multiply(outs, power);
            const fovea_tensor a = outs.view(), b = lses.view(), c = out.view(), d = lse.view();
            REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
            multiply(outs, -power);
            if (power == 0) base.assign(out.dense());
            CHECK_EQ(strays(out, base, power, power < -100 ? static_cast<float>(parts) * 0x1p-149f : 0), 0);
          }
        });
      }
    }
  }

  TEST_CASE("merging: log-sum-exps of any finite size, and infinite parts among huge ones") {
    Tensor<float> outs({3, 1, 5}), lses({3, 1}), out({1, 5}), lse({1});
    lses.assign({-FLT_MAX, FLT_MAX, FLT_MAX});
    for (float odd : {0x1p127f, kInfinity, -kInfinity, kNan}) {
      outs.fill([] { return 0x1p127f; });
      outs(1, 0, 2) = odd;
      const fovea_tensor a = outs.view(), b = lses.view(), c = out.view(), d = lse.view();
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
        if (std::isfinite(odd)) CHECK_EQ(out(0, 1), 0x1p127f);
        CHECK((std::isnan(odd) ? std::isnan(out(0, 2)) : out(0, 2) == odd));
        CHECK_EQ(lse(0), FLT_MAX);
      });
    }
  }

  TEST_CASE("ALiBi reckons with whole numbers: a few keys before a position beyond 2^24") {
    constexpr int64_t key_len = (int64_t{1} << 24) + 40;
    std::vector<float> keys(key_len), values(key_len);  // zeros that no one touches take no memory
    Tensor<float> query({1, 1}), out({1, 1}), slopes({1}), lse({1});
    query.assign({1.0f});
    slopes.assign({0.5f});
    for (int64_t j = key_len - 5; j < key_len; ++j) values[static_cast<size_t>(j)] = static_cast<float>(key_len - j);
    const int64_t shape[] = {key_len, 1};
    const fovea_tensor k = fovea_tensor_contiguous(keys.data(), FOVEA_F32, 2, shape);
    const fovea_tensor v = fovea_tensor_contiguous(values.data(), FOVEA_F32, 2, shape);
    double sum = 0, mean = 0;
    for (int distance = 0; distance < 5; ++distance) {
      sum += std::exp(-0.5 * distance);
      mean += std::exp(-0.5 * distance) * (distance + 1);
    }
    const fovea_tensor q = query.view(), o = out.view(), s = slopes.view(), l = lse.view();
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
    options.window_left = 4;
    options.alibi_slopes = &s;
    options.log_sum_exp = &l;
    for_each_isa([&](const fovea_context *context) {
      REQUIRE_OK(fovea_sdpa(context, &q, &k, &v, &o, &options));
      CHECK(std::fabs(out(0, 0) - mean / sum) < 1e-6);
      CHECK(std::fabs(lse(0) - std::log(sum)) < 1e-6);
    });
  }
}
