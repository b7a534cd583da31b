// The textbook's worked examples with numbers that can be checked by hand, through the C++ face, with elements of
// float32, float16 and bfloat16. Parameters of score functions are float32.
#include <doctest/doctest.h>

#include <cmath>
#include <fovea/fovea.hpp>
#include <numeric>
#include <span>
#include <vector>

#include "support/contexts.hpp"
#include "support/random.hpp"

namespace {

using Values = std::vector<float>;

template <typename T>
T element(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return T::from(x);
  }
}

template <typename T>
std::vector<T> elements(const Values &values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(element<T>(value));
  return result;
}

template <typename T>
Values floats(const std::vector<T> &values) {
  Values result;
  for (const T value : values) result.push_back(static_cast<float>(value));
  return result;
}

// Half a unit in the last place, relative.
template <typename T>
constexpr double rounding = std::is_same_v<T, float>            ? 0x1p-24
                            : std::is_same_v<T, fovea::Float16> ? 0x1p-11
                                                                : 0x1p-8;

Values normals(size_t count, testing::Random &random) {
  Values values(count);
  for (float &value : values) value = random.normal();
  return values;
}

Values counting(size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

template <typename T>
void check_near(const std::vector<T> &actual, const Values &expected, double tolerance) {
  REQUIRE_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    CAPTURE(n);
    const double value = static_cast<double>(static_cast<float>(actual[n])), truth = static_cast<double>(expected[n]);
    CHECK(std::abs(value - truth) <= tolerance + rounding<T> * std::abs(truth));
  }
}

// body(a T) for each element type.
template <typename Body>
void for_each_type(Body body) {
  SUBCASE("float32") { body(float{}); }
  SUBCASE("float16") { body(fovea::Float16{}); }
  SUBCASE("bfloat16") { body(fovea::Bfloat16{}); }
}

}  // namespace

TEST_SUITE("worked examples") {
  TEST_CASE("masked softmax: a length for each sequence, and for each query") {
    for_each_type([]<typename T>(T) {
      testing::Random random(testing::base_seed());
      const std::vector<T> x = elements<T>(normals(16, random));
      std::vector<T> out(16);
      fovea::masked_softmax(fovea::Tensor(x, {2, 2, 4}), std::vector<std::int32_t>{2, 3},
                            fovea::Tensor(out, {2, 2, 4}));
      const Values by_sequence = floats(out);
      for (size_t row = 0; row < 4; ++row) {
        const size_t valid = row < 2 ? 2 : 3;
        double sum = 0;
        for (size_t j = 0; j < 4; ++j) {
          sum += static_cast<double>(by_sequence[4 * row + j]);
          if (j >= valid) CHECK_EQ(by_sequence[4 * row + j], 0.0f);
        }
        CHECK(std::abs(sum - 1) <= 1e-6 + 3 * rounding<T>);
      }
      const std::vector<std::int32_t> lens = {1, 3, 2, 4};
      fovea::masked_softmax(fovea::Tensor(x, {2, 2, 4}), fovea::Tensor(lens, {2, 2}), fovea::Tensor(out, {2, 2, 4}));
      const Values by_query = floats(out);
      CHECK(Values(by_query.begin(), by_query.begin() + 4) == Values{1, 0, 0, 0});
      for (size_t j = 12; j < 16; ++j) CHECK(by_query[j] > 0);
    });
  }

  TEST_CASE("equal keys: the mean of the valid values, whatever the parameters") {
    for_each_type([]<typename T>(T) {
      testing::Random random(testing::base_seed());
      const std::vector<T> key = elements<T>(Values(40, 1.0f)), value = elements<T>(counting(40));
      const fovea::Tensor k(key, {2, 10, 2}), v(value, {2, 10, 4}, {0, 4, 1});
      const std::vector<std::int64_t> lens = {2, 6};
      const Values expected = {2, 3, 4, 5, 10, 11, 12, 13};
      std::vector<T> out(8);

      const std::vector<T> wide = elements<T>(normals(40, random));
      const Values query_weight = normals(8 * 20, random), key_weight = normals(8 * 2, random),
                   vector = normals(8, random);
      fovea::attention(fovea::Additive{fovea::Input(query_weight, {8, 20}), fovea::Input(key_weight, {8, 2}), vector},
                       fovea::Tensor(wide, {2, 1, 20}), k, v, fovea::Tensor(out, {2, 1, 4}), {.valid_lens = lens});
      check_near(out, expected, 1e-5);

      const std::vector<T> narrow = elements<T>(normals(4, random));
      out.assign(8, element<T>(-1));
      fovea::sdpa(fovea::Tensor(narrow, {2, 1, 2}), k, v, fovea::Tensor(out, {2, 1, 4}), {.valid_lens = lens});
      check_near(out, expected, 1e-5);
    });
  }

  TEST_CASE("positional encoding, 60 steps of 32 features: columns 6 to 9 are two pairs, the later one slower") {
    for_each_type([]<typename T>(T) {
      std::vector<T> out(60 * 32);
      fovea::positional_encoding(fovea::Tensor(out, {60, 32}));
      for (size_t column = 6; column < 10; ++column) {
        std::vector<T> actual;
        Values expected;
        for (size_t i = 0; i < 60; ++i) {
          const double angle = static_cast<double>(i) / std::pow(10000.0, static_cast<double>(column / 2 * 2) / 32);
          expected.push_back(static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle)));
          actual.push_back(out[32 * i + column]);
        }
        check_near(actual, expected, 1e-6);
      }
      // A shift by 5 is one rotation of each pair, wherever it starts.
      const Values encoding = floats(out);
      const auto at = [&](size_t i, size_t c) { return static_cast<double>(encoding[32 * i + c]); };
      const double turn = 5 / std::pow(10000.0, 6.0 / 32);
      for (size_t i = 0; i + 5 < 60; ++i) {
        CHECK(std::abs(std::cos(turn) * at(i, 6) + std::sin(turn) * at(i, 7) - at(i + 5, 6)) <= 2e-6 + 3 * rounding<T>);
        CHECK(std::abs(std::cos(turn) * at(i, 7) - std::sin(turn) * at(i, 6) - at(i + 5, 7)) <= 2e-6 + 3 * rounding<T>);
      }
    });
  }

  // Inputs of ones: all keys are equal, so each row of the output is Wo applied to Wv of the constant value.
  TEST_CASE("multi-head attention, hidden 100, 5 heads: cross-attention and self-attention") {
    for_each_type([]<typename T>(T) {
      testing::Random random(testing::base_seed());
      std::vector<std::vector<T>> weights;
      for (int n = 0; n < 4; ++n) {
        Values weight = normals(100 * 100, random);
        for (float &w : weight) w /= 10;
        weights.push_back(elements<T>(weight));
      }
      const auto view = [&](size_t n) { return fovea::Tensor(weights[n], {100, 100}); };
      const fovea::MultiHeadWeights packed(
          {.heads = 5, .query_weight = view(0), .key_weight = view(1), .value_weight = view(2), .out_weight = view(3)});
      const auto apply = [](const std::vector<T> &weight, const std::vector<double> &x) {
        std::vector<double> result(100);
        for (size_t n = 0; n < 10000; ++n) {
          result[n / 100] += static_cast<double>(static_cast<float>(weight[n])) * x[n % 100];
        }
        return result;
      };
      const std::vector<double> row = apply(weights[3], apply(weights[2], std::vector<double>(100, 1)));
      const std::vector<T> x = elements<T>(Values(2 * 4 * 100, 1.0f)), y = elements<T>(Values(2 * 6 * 100, 1.0f));
      const std::vector<std::int32_t> lens = {3, 2};
      const fovea::Tensor query(x, {2, 4, 100}), key(y, {2, 6, 100});
      for (const bool self : {false, true}) {
        std::vector<T> out(2 * 4 * 100);
        fovea::multi_head_attention(packed, query, self ? query : key, self ? query : key,
                                    fovea::Tensor(out, {2, 4, 100}), {.attention = {.valid_lens = lens}});
        Values expected;
        for (size_t n = 0; n < out.size(); ++n) expected.push_back(static_cast<float>(row[n % 100]));
        // Values, and heads side by side, may be of the type too: each element of Wo meets such a rounding.
        check_near(out, expected, 1e-4 + 4 * rounding<T>);
      }
    });
  }

  TEST_CASE("kernel regression: equal weights give the mean, a narrow kernel interpolates") {
    for_each_type([]<typename T>(T) {
      testing::Random random(testing::base_seed());
      Values x(50), y(50);
      for (size_t n = 0; n < 50; ++n) {
        x[n] = static_cast<float>(element<T>(0.125f * static_cast<float>(n)));  // exact in 16 bits, too
        const double exact = static_cast<double>(x[n]);
        y[n] = static_cast<float>(
            element<T>(static_cast<float>(2 * std::sin(exact) + std::pow(exact, 0.8)) + random.normal() / 2));
      }
      const std::vector<T> inputs = elements<T>(x), targets = elements<T>(y);
      const fovea::Tensor k(inputs, {50, 1}), v(targets, {50, 1});
      std::vector<T> out(50);
      fovea::attention(fovea::Gaussian{.sigma = 1e4f}, k, k, v, fovea::Tensor(out, {50, 1}));
      const double mean = std::accumulate(y.begin(), y.end(), 0.0) / 50;
      check_near(out, Values(50, static_cast<float>(mean)), 1e-5);
      fovea::attention(fovea::Gaussian{.sigma = 0.01f}, k, k, v, fovea::Tensor(out, {50, 1}));
      check_near(out, y, 1e-5);
    });
  }

  TEST_CASE("concat scores are additive ones when W = [Wq Wk] and b = 0") {
    for_each_type([]<typename T>(T) {
      testing::Random random(testing::base_seed());
      const Values weight = normals(8 * 7, random), vector = normals(8, random);  // 3 features of a query, 4 of a key
      const std::vector<T> query = elements<T>(normals(5 * 3, random)), key = elements<T>(normals(9 * 4, random)),
                           value = elements<T>(normals(9 * 2, random));
      const fovea::Tensor q(query, {5, 3}), k(key, {9, 4}), v(value, {9, 2});
      std::vector<T> additive(10), concat(10);
      const fovea::Input query_weight(weight, {8, 3}, {7, 1}),
          key_weight(std::span<const float>(weight).subspan(3), {8, 4}, {7, 1});
      fovea::attention(fovea::Additive{query_weight, key_weight, vector}, q, k, v, fovea::Tensor(additive, {5, 2}));
      fovea::attention(fovea::Concat{.weight = fovea::Input(weight, {8, 7}), .score_vector = vector}, q, k, v,
                       fovea::Tensor(concat, {5, 2}));
      check_near(concat, floats(additive), 1e-5);
    });
  }
}
