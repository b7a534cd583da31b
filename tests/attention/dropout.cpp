// Dropout on attention weights: which are dropped is an exact question, answered by Philox; the rest is accuracy, and
// what a random choice owes to statistics. Seeds are fixed, so nothing here is left to chance.
#include <doctest/doctest.h>

#include <cmath>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/attention_problem.hpp"

#if FOVEA_HAS_RANDOM123
#include <Random123/philox.h>
#endif

using namespace testing;

namespace {

using Words = std::array<uint32_t, 4>;

AttentionResult run(const AttentionProblem &problem, const fovea_context *context, bool weights) {
  AttentionResult result = problem.make_result(weights);
  REQUIRE_OK(problem.run(context, result));
  return result;
}

// The output is the weights: value j is 1 in feature j and 0 elsewhere.
AttentionProblem make_transparent(AttentionSizes sizes, float dropout, uint64_t seed, Random &random,
                                  Layout layout = Layout::kHeadsFirst, int32_t kind = FOVEA_SCORE_DOT) {
  sizes.value_dim = sizes.key_len;
  AttentionProblem problem =
      kind == FOVEA_SCORE_DOT ? make_attention(sizes, random, layout) : make_scored(kind, sizes, 12, random, layout);
  std::vector<float> identity;
  for (int64_t n = 0; n < sizes.batch * sizes.kv_heads; ++n) {
    for (int64_t j = 0; j < sizes.key_len; ++j) {
      for (int64_t d = 0; d < sizes.key_len; ++d) identity.push_back(j == d ? 1.0f : 0.0f);
    }
  }
  problem.value.assign(identity);
  problem.dropout = dropout;
  problem.dropout_seed = seed;
  return problem;
}

// Checks that those of weights [B,H,Q,K] are 0 that are dropped or not attended, and no others.
void check_choice(const AttentionProblem &problem, const std::vector<float> &weights) {
  const AttentionSizes &s = problem.sizes;
  const reference::AttentionInputs inputs = problem.reference_inputs();
  REQUIRE_EQ(static_cast<int64_t>(weights.size()), s.batch * s.heads * s.query_len * s.key_len);
  int64_t wrong = 0;
  size_t n = 0;
  for (int64_t row = 0; row < s.batch * s.heads * s.query_len; ++row) {
    const int64_t b = row / (s.heads * s.query_len), h = row / s.query_len % s.heads, i = row % s.query_len;
    const std::vector<bool> attended = reference::attended_keys(inputs, b, h, i);
    for (int64_t j = 0; j < s.key_len; ++j, ++n) {
      const bool zero = !attended[static_cast<size_t>(j)] || reference::dropped(inputs.dropout, b, h, i, j);
      if (zero != (weights[n] == 0)) ++wrong;
    }
  }
  CHECK_EQ(wrong, 0);
}

void check_choice(const AttentionProblem &problem) {
  const std::string what = problem.describe();
  CAPTURE(what);
  for_each_isa([&](const fovea_context *context) {
    for (const bool weights : {false, true}) {
      CAPTURE(weights);
      const AttentionResult result = run(problem, context, weights);
      check_choice(problem, result.out.dense());
      if (weights) check_choice(problem, result.weights->dense());
    }
  });
}

// Sizes for every way through the library: one query, few queries, their keys split or not, one tile, several, many
// bands.
std::vector<AttentionSizes> all_ways() {
  return {{.batch = 2, .heads = 6, .kv_heads = 3, .query_len = 1, .key_len = 70, .head_dim = 8},
          {.heads = 2, .kv_heads = 1, .query_len = 2, .key_len = 1000, .head_dim = 8},
          {.heads = 1, .kv_heads = 1, .query_len = 40, .key_len = 900, .head_dim = 8},
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 37, .key_len = 99, .head_dim = 8},
          {.batch = 3, .heads = 2, .kv_heads = 2, .query_len = 300, .key_len = 33, .head_dim = 8},
          {.heads = 3, .kv_heads = 1, .query_len = 130, .key_len = 193, .head_dim = 8}};
}

// Zeros among the weights of one head, row by row. All scores are 0: no weight is 0 but by dropout.
std::vector<std::vector<bool>> choices(int64_t query_len, int64_t key_len, float dropout, uint64_t seed) {
  Random random(base_seed());
  AttentionProblem problem = make_attention({.query_len = query_len, .key_len = key_len}, random);
  problem.query.assign(std::vector<float>(static_cast<size_t>(query_len), 0.0f));
  problem.dropout = dropout;
  problem.dropout_seed = seed;
  const std::vector<float> weights = run(problem, nullptr, true).weights->dense();
  std::vector<std::vector<bool>> zeros;
  for (int64_t i = 0; i < query_len; ++i) {
    std::vector<bool> &row = zeros.emplace_back();
    for (int64_t j = 0; j < key_len; ++j) row.push_back(weights[static_cast<size_t>(i * key_len + j)] == 0);
  }
  return zeros;
}

double count(const std::vector<bool> &choice) {
  double sum = 0;
  for (const bool dropped : choice) sum += dropped ? 1 : 0;
  return sum;
}

// How many standard deviations the sum of squared, standardised counts is from what binomial counts give (chi-squared).
double spread(const std::vector<double> &counts, double trials, double probability) {
  double sum = 0;
  for (const double c : counts) {
    sum += (c - trials * probability) * (c - trials * probability) / (trials * probability * (1 - probability));
  }
  const auto n = static_cast<double>(counts.size());
  return (sum - n) / std::sqrt(2 * n);
}

}  // namespace

TEST_SUITE("dropout") {
  TEST_CASE("philox gives the published numbers") {
    const auto philox = reference::philox4x32_10;
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    constexpr uint32_t ones = 0xffffffff;
    CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  }

#if FOVEA_HAS_RANDOM123
  TEST_CASE("philox is Random123's") {
    Random random(base_seed());
    const auto word = [&] { return static_cast<uint32_t>(random.integer(0, 0xffffffff)); };
    for (int n = 0; n < 10000; ++n) {
      const Words counter = {word(), word(), word(), word()};
      const std::array<uint32_t, 2> key = {word(), word()};
      const philox4x32_ctr_t theirs =
          philox4x32_R(10, {{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
      REQUIRE(reference::philox4x32_10(counter, key) == Words{theirs.v[0], theirs.v[1], theirs.v[2], theirs.v[3]});
    }
  }
#endif

  TEST_CASE("what is dropped, on every way through the library") {
    Random random(base_seed());
    for (const AttentionSizes &sizes : all_ways()) {
      for (const float dropout : {0.1f, 0.5f, 0.97f}) {
        check_choice(make_transparent(sizes, dropout, 0x0123456789abcdef, random));
      }
      check_choice(make_transparent(sizes, 0.3f, ~uint64_t{0}, random, Layout::kHeadsLast));
      check_choice(make_transparent(sizes, 0.3f, 0, random, Layout::kPadded));
    }
  }

  TEST_CASE("what is dropped, with each score function") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const AttentionSizes &sizes : all_ways()) {
        check_choice(make_transparent(sizes, 0.4f, 14, random, Layout::kHeadsLast, kind));
      }
    }
  }

  TEST_CASE("what is dropped, with tiles that begin and end anywhere") {
    Random random(base_seed());
    for (const AttentionSizes &sizes : all_ways()) {
      AttentionProblem windowed = make_transparent(sizes, 0.4f, 11, random);
      windowed.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      windowed.window_left = 25;
      check_choice(windowed);
      AttentionProblem ragged = make_transparent(sizes, 0.4f, 12, random);
      std::vector<int64_t> lens;
      for (int64_t n = 0; n < sizes.batch * sizes.query_len; ++n) lens.push_back(random.integer(1, sizes.key_len));
      ragged.set_valid_lens(lens);
      ragged.flags = FOVEA_LEAVE_ONE_OUT;
      check_choice(ragged);
    }
    for (int64_t key_len = 1; key_len <= 20; ++key_len) {
      for (const int64_t query_len : {1, 19}) {
        AttentionProblem late = make_transparent({.query_len = query_len, .key_len = key_len}, 0.5f, 13, random);
        late.flags = FOVEA_TOP_LEFT | FOVEA_WINDOW_LEFT;
        late.window_left = 2;
        check_choice(late);
      }
    }
  }

  TEST_CASE("accuracy, alone and with everything else") {
    Random random(base_seed());
    for (AttentionSizes sizes : all_ways()) {
      sizes.value_dim = 20;
      for (const float dropout : {0.1f, 0.5f, 0.999f, 1 - 0x1p-24f}) {
        AttentionProblem problem = make_attention(sizes, random);
        problem.dropout = dropout;
        problem.dropout_seed = 5;
        check_attention(problem);
        problem.flags = FOVEA_CAUSAL | FOVEA_AVERAGE_WEIGHTS;
        problem.softcap = 5;
        problem.bias.emplace(problem.score_shape()).fill_normal(random);
        problem.alibi_slopes.emplace(Shape{sizes.heads}).fill_normal(random);
        problem.sinks.emplace(Shape{sizes.heads}).fill_normal(random);
        problem.set_mask([&](int64_t, int64_t, int64_t, int64_t) { return random.chance(0.8); });
        check_attention(problem);
      }
    }
  }

  TEST_CASE("the same bits in every layout and for any number of threads") {
    for (AttentionSizes sizes : all_ways()) {
      sizes.value_dim = 20;
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        for (const bool weights : {false, true}) {
          std::optional<AttentionResult> expected;
          for (const Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
            Random random(base_seed());  // the same numbers each time
            AttentionProblem problem = make_attention(sizes, random, layout);
            problem.dropout = 0.2f;
            for (int threads = 1; threads <= 8; ++threads) {
              CAPTURE(threads);
              AttentionResult result = run(problem, shared_context(isa, threads), weights);
              if (expected) {
                CHECK(same_bits(result, *expected));
              } else {
                expected = std::move(result);
              }
            }
          }
        }
      }
    }
  }

  TEST_CASE("probability 0, and one too small to drop anything, give the bits of no dropout") {
    for (AttentionSizes sizes : all_ways()) {
      Random random(base_seed());
      sizes.value_dim = 20;
      AttentionProblem problem = make_attention(sizes, random);
      for_each_isa([&](const fovea_context *context) {
        for (const bool weights : {false, true}) {
          problem.dropout = 0;
          problem.dropout_seed = 0;
          const AttentionResult expected = run(problem, context, weights);
          problem.dropout_seed = 77;
          CHECK(same_bits(run(problem, context, weights), expected));
          problem.dropout = -0.0f;
          CHECK(same_bits(run(problem, context, weights), expected));
          problem.dropout = 0x1p-34f;
          CHECK(same_bits(run(problem, context, weights), expected));
        }
      });
    }
  }

  TEST_CASE("log-sum-exp is that of the softmax, bit by bit") {
    for (AttentionSizes sizes : all_ways()) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(sizes, random);
      for_each_isa([&](const fovea_context *context) {
        for (const bool weights : {false, true}) {
          problem.dropout = 0;
          const AttentionResult without = run(problem, context, weights);
          problem.dropout = 0.7f;
          const AttentionResult with = run(problem, context, weights);
          CHECK(same_bits(*with.log_sum_exp, *without.log_sum_exp));
          CHECK(!same_bits(with.out, without.out));
        }
      });
    }
  }

  TEST_CASE("NaN behind a mask changes no bit") {
    for (AttentionSizes sizes : all_ways()) {
      Random random(base_seed());
      sizes.value_dim = 20;
      AttentionProblem problem = make_attention(sizes, random);
      problem.dropout = 0.3f;
      problem.dropout_seed = 3;
      problem.set_mask([&](int64_t, int64_t, int64_t i, int64_t j) { return j != 5 && (i + j) % 3 != 0; });
      const std::vector<float> harmless = problem.value.dense();
      std::vector<float> spoiled = harmless;
      for (int64_t d = 0; d < sizes.value_dim; ++d) {
        spoiled[static_cast<size_t>(5 * sizes.value_dim + d)] = d % 2 == 0 ? kNan : kInfinity;
      }
      for_each_isa([&](const fovea_context *context) {
        problem.value.assign(harmless);
        const AttentionResult expected = run(problem, context, false);
        problem.value.assign(spoiled);
        CHECK(same_bits(run(problem, context, false), expected));
      });
    }
  }

  TEST_CASE("a weight that is dropped is 0 even where the softmax is NaN; the output is NaN") {
    Random random(base_seed());
    AttentionProblem problem = make_transparent({.query_len = 3, .key_len = 40, .head_dim = 4}, 0.5f, 21, random);
    problem.query(0, 0, 1, 2) = kNan;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = run(problem, context, true);
      for (int64_t j = 0; j < 40; ++j) {
        CAPTURE(j);
        const bool zero = reference::dropped({0.5f, 21}, 0, 0, 1, j);
        const float weight = (*result.weights)(0, 0, 1, j);
        CHECK((zero ? weight == 0 : std::isnan(weight)));
        CHECK(std::isnan(result.out(0, 0, 1, j)));
      }
    });
  }

  TEST_CASE("rows with nothing to attend give what their policy says, as without dropout") {
    for (const int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
      for (const int64_t query_len : {1, 40}) {
        Random random(base_seed());
        AttentionProblem problem =
            make_attention({.batch = 2, .query_len = query_len, .key_len = 30, .head_dim = 5, .value_dim = 6}, random);
        problem.set_valid_lens({0, 17});
        problem.empty_rows = policy;
        problem.dropout = 0.5f;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("every bit of the seed counts") {
    const auto before = choices(4, 64, 0.5f, 0);
    for (int bit = 0; bit < 64; ++bit) {
      CAPTURE(bit);
      CHECK(choices(4, 64, 0.5f, uint64_t{1} << bit) != before);
    }
  }

  TEST_CASE("mean and variance of what is dropped: all of it, by query, by key, by neighbours") {
    constexpr int64_t queries = 700, keys = 900;
    for (const float dropout : {0.01f, 0.1f, 0.5f, 0.9f}) {
      for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 63}) {
        CAPTURE(dropout);
        CAPTURE(seed);
        const double p = dropout;
        const auto dropped = choices(queries, keys, dropout, seed);
        std::vector<double> by_query, by_key(keys, 0.0), pairs(1, 0.0);
        double total = 0;
        for (const std::vector<bool> &row : dropped) {
          by_query.push_back(count(row));
          total += by_query.back();
          for (size_t j = 0; j < row.size(); ++j) by_key[j] += row[j] ? 1 : 0;
          for (size_t j = 0; j + 1 < row.size(); j += 2) pairs[0] += row[j] && row[j + 1] ? 1 : 0;
        }
        CHECK(std::abs(total - queries * keys * p) < 4 * std::sqrt(queries * keys * p * (1 - p)));
        CHECK(std::abs(spread(by_query, keys, p)) < 4);
        CHECK(std::abs(spread(by_key, queries, p)) < 4);
        CHECK(spread(pairs, queries * keys / 2.0, p * p) < 10);  // one count, at most about 4 standard deviations off
      }
    }
  }

  TEST_CASE("the mean over seeds approaches the output without dropout, at the rate it must") {
    constexpr int seeds = 400;
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 30, .key_len = 50, .head_dim = 8, .value_dim = 12}, random);
    const reference::AttentionOutputs<double> truth = reference::attention<double>(problem.reference_inputs());
    problem.dropout = 0.3f;
    std::vector<double> sums(truth.out.size(), 0.0);
    for (problem.dropout_seed = 0; problem.dropout_seed < seeds; ++problem.dropout_seed) {
      const std::vector<float> out = run(problem, nullptr, false).out.dense();
      for (size_t n = 0; n < out.size(); ++n) sums[n] += static_cast<double>(out[n]);
    }
    const std::vector<float> values = problem.value.dense();
    double squares = 0;
    for (size_t n = 0; n < sums.size(); ++n) {
      double variance = 0;  // of one output: p / (1 - p) sum_j (weight_j value_j)^2
      for (size_t j = 0; j < 50; ++j) {
        const double term = truth.weights[n / 12 * 50 + j] * static_cast<double>(values[j * 12 + n % 12]);
        variance += 0.3 / 0.7 * term * term;
      }
      const double z = (sums[n] / seeds - truth.out[n]) / std::sqrt(variance / seeds);
      CHECK(std::abs(z) < 5);
      squares += z * z;
    }
    // Features of a row share their choices, so that 30 rows count, not 360 elements.
    CHECK(std::abs(squares / static_cast<double>(sums.size()) - 1) < 4 * std::sqrt(2.0 / 30));
  }

  TEST_CASE("a plan tells of dropout, and its run is the call") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 50, .key_len = 70, .head_dim = 8, .value_dim = 9}, random);
    for_each_isa([&](const fovea_context *context) {
      problem.dropout = 0;
      CHECK(AttentionPlan(context, problem, problem.make_result()).describe().find("dropout") == std::string::npos);
      problem.dropout = 0.1f;
      problem.dropout_seed = 9;
      const AttentionResult planned = problem.make_result();
      const AttentionPlan plan(context, problem, planned);
      CHECK(plan.describe().find(" dropout=0.1 ") != std::string::npos);
      REQUIRE_OK(plan.run(problem, planned));
      CHECK(same_bits(planned, run(problem, context, true)));
    });
  }

  TEST_CASE("probabilities that are none are refused") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 3, .key_len = 4}, random);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, float dropout,
                            int32_t reserved) {
      const AttentionResult result = problem.make_result();
      AttentionArguments arguments(problem, result);
      arguments.options.dropout = dropout;
      arguments.options.reserved = reserved;
      check_refusal(arguments.run(nullptr), expected, words);
      CHECK(result.out.untouched());
      CHECK(result.weights->untouched());
      fovea_plan *plan = nullptr;
      check_refusal(arguments.plan(nullptr, &plan), expected, words);
      CHECK(plan == nullptr);
    };
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "1", "less than 1"}, 1.0f, 0);
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "1.5"}, 1.5f, 0);
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "-0.25"}, -0.25f, 0);
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "nan"}, kNan, 0);
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "inf"}, kInfinity, 0);
    refuse(FOVEA_BAD_VALUE, {"options.dropout", "-inf"}, -kInfinity, 0);
    refuse(FOVEA_BAD_OPTION, {"options.reserved", "3", "0"}, 0.5f, 3);
    refuse(FOVEA_BAD_OPTION, {"options.reserved", "-1"}, 0, -1);
  }
}
