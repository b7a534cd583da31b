// The C++ interface to score functions, prepared keys, kernel regression and positions: each once, with every member of
// its options told from its default. What the functions compute is tested through the C interface they call.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpp_face.hpp"

using namespace testing;

namespace {

using fovea::Input;
using fovea::Output;
using fovea::Tensor;

// One query, two keys and the values 0 and 1, so that the output is the second key's weight: 1 / (1 + exp(a0 - a1)).
struct TwoKeys {
  Floats query = {0.5f, -1.0f}, key = {1.0f, 0.25f, -0.5f, 2.0f}, value = {0, 1}, out = {0};
  Input q = Tensor<const float>(query, {1, 2}), k = Tensor<const float>(key, {2, 2}),
        v = Tensor<const float>(value, {2, 1});
  Output o = Tensor(out, {1, 1});

  void check(double first_score, double second_score) const {
    check_near(out, {1 / (1 + std::exp(first_score - second_score))});
  }
};

// The additive score of q and k with these weights: v . tanh(Wq q + Wk k), one hidden unit.
const Floats query_weight = {0.5f, -0.25f}, key_weight = {1.0f, -0.5f}, score_vector = {2.0f};
constexpr double projected_query = 0.5, first_projected = 1 - 0.125, second_projected = -0.5 - 1;
double additive_score(double projected_key, double bias = 0) {
  return 2 * std::tanh(projected_query + projected_key + bias);
}

}  // namespace

TEST_SUITE_BEGIN("cpp face scores");

TEST_CASE("every score function") {
  TwoKeys t;
  fovea::attention(fovea::Dot{}, t.q, t.k, t.v, t.o);
  t.check(0.25 / std::sqrt(2.0), -2.25 / std::sqrt(2.0));

  const Floats weight = {1, 2, 0, -1};
  fovea::attention(fovea::Bilinear{.weight = Tensor(weight, {2, 2})}, t.q, t.k, t.v, t.o);
  t.check(0.5 * 1.5 + 0.25, 0.5 * 3.5 + 2);

  const fovea::Additive additive = {.query_weight = Tensor(query_weight, {1, 2}),
                                    .key_weight = Tensor(key_weight, {1, 2}),
                                    .score_vector = score_vector};
  fovea::attention(additive, t.q, t.k, t.v, t.o);
  t.check(additive_score(first_projected), additive_score(second_projected));

  const Floats joined = {0.5f, -0.25f, 1.0f, -0.5f}, bias = {0.75f};
  fovea::attention(fovea::Concat{.weight = Tensor(joined, {1, 4}), .score_vector = score_vector}, t.q, t.k, t.v, t.o);
  t.check(additive_score(first_projected), additive_score(second_projected));
  fovea::attention(fovea::Concat{.weight = Tensor(joined, {1, 4}), .bias = bias, .score_vector = score_vector}, t.q,
                   t.k, t.v, t.o);
  t.check(additive_score(first_projected, 0.75), additive_score(second_projected, 0.75));

  const double first_distance = 0.25 + 1.5625, second_distance = 1 + 9;
  fovea::attention(fovea::Gaussian{.sigma = 2}, t.q, t.k, t.v, t.o);
  t.check(-first_distance / 8, -second_distance / 8);
  const Floats sigmas = {3};
  fovea::attention(fovea::Gaussian{.sigmas = sigmas}, t.q, t.k, t.v, t.o);
  t.check(-first_distance / 18, -second_distance / 18);
  CHECK_THROWS_AS(fovea::attention(fovea::Gaussian{}, t.q, t.k, t.v, t.o), fovea::Error);
}

TEST_CASE("a planned score function") {
  TwoKeys t;
  const fovea::Additive additive = {.query_weight = Tensor(query_weight, {1, 2}),
                                    .key_weight = Tensor(key_weight, {1, 2}),
                                    .score_vector = score_vector};
  const fovea::Plan plan = fovea::Plan::attention(additive, t.q, t.k, t.v, t.o);
  std::vector<std::byte> workspace(plan.workspace_size());
  fovea::AttentionBuffers buffers;
  buffers.query = t.query.data();
  buffers.key = t.key.data();
  buffers.value = t.value.data();
  buffers.out = t.out.data();
  buffers.query_weight = query_weight.data();
  buffers.key_weight = key_weight.data();
  buffers.score_vector = score_vector.data();
  plan.run(buffers, workspace);
  t.check(additive_score(first_projected), additive_score(second_projected));
}

TEST_CASE("dropout takes its seed from the options") {
  Floats zeros(64), values(64, 1.0f), first(64), second(64);
  const Input x(zeros, {64, 1}), v(values, {64, 1});
  fovea::sdpa(x, x, v, Tensor(first, {64, 1}), {.dropout = 0.5f, .dropout_seed = 1});
  fovea::sdpa(x, x, v, Tensor(second, {64, 1}), {.dropout = 0.5f, .dropout_seed = 2});
  CHECK_NE(first, second);
  fovea::sdpa(x, x, v, Tensor(second, {64, 1}), {.dropout = 0.5f, .dropout_seed = 1});
  CHECK_EQ(first, second);
}

TEST_CASE("prepared keys: appended, moved, truncated") {
  TwoKeys t;
  const fovea::Additive additive = {.query_weight = Tensor(query_weight, {1, 2}),
                                    .key_weight = Tensor(key_weight, {1, 2}),
                                    .score_vector = score_vector};
  fovea::PreparedKeys made(additive, {.capacity = 3, .query_dim = 2, .key_dim = 2});
  made.append(t.k);
  fovea::PreparedKeys keys = std::move(made);
  CHECK_EQ(keys.length(), 2);
  CHECK(keys.size_bytes() > 0);
  fovea::attention(t.q, keys, t.v, t.o);
  t.check(additive_score(first_projected), additive_score(second_projected));
  const fovea::Plan plan = fovea::Plan::attention(t.q, keys, t.v, t.o);
  std::vector<std::byte> workspace(plan.workspace_size());
  fovea::AttentionBuffers buffers;
  buffers.query = t.query.data();
  buffers.value = t.value.data();
  t.out[0] = 0;
  buffers.out = t.out.data();
  plan.run(buffers, workspace);
  t.check(additive_score(first_projected), additive_score(second_projected));
  CHECK_THROWS_AS(keys.append(t.k), fovea::Error);
  CHECK_EQ(keys.length(), 2);
  keys.truncate(1);
  CHECK_EQ(keys.length(), 1);
  CHECK_EQ(made.length(), 0);  // NOLINT(bugprone-use-after-move): documented
  CHECK_THROWS_AS(made.append(t.k), fovea::Error);
}

TEST_CASE("kernel_regression") {
  const Floats inputs = {0, 1}, targets = {0, 1}, queries = {0.25f};
  Floats out(1), weights(2);
  fovea::kernel_regression(queries, inputs, targets, out);
  check_near(out, {1 / (1 + std::exp(0.5 * (0.5625 - 0.0625)))});
  fovea::kernel_regression(queries, inputs, targets, out, {.sigma = 0.5f, .weights = Tensor(weights, {1, 2})});
  check_near(out, {1 / (1 + std::exp(2 * (0.5625 - 0.0625)))});
  check_near(weights, {1 - static_cast<double>(out[0]), out[0]});
  fovea::kernel_regression(queries, inputs, targets, out, {.leave_one_out = true});
  check_near(out, {1});
  check_error(FOVEA_BAD_VALUE, "options.sigma is 0",
              [&] { fovea::kernel_regression(queries, inputs, targets, out, {.sigma = 0.0f}); });
}

TEST_CASE("positions") {
  Floats table(2 * 3), sum(2 * 3), ones(2 * 3, 1.0f);
  fovea::positional_encoding(Tensor(table, {2, 3}));
  check_near(table, {0, 1, 0, std::sin(1.0), std::cos(1.0), std::sin(std::pow(10000.0, -2.0 / 3))});
  fovea::positional_encoding(Tensor(table, {2, 3}), {.base = 100, .offset = 5});
  check_near(table, {std::sin(5.0), std::cos(5.0), std::sin(5 * std::pow(100.0, -2.0 / 3)), std::sin(6.0),
                     std::cos(6.0), std::sin(6 * std::pow(100.0, -2.0 / 3))});
  fovea::add_positional_encoding(Tensor(ones, {2, 3}), Tensor(sum, {2, 3}), {.base = 100, .offset = 5});
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK(std::abs(sum[i] - 1 - table[i]) < 1e-6f);

  Floats dropped(64), other(64);
  const Floats wide(64, 1.0f);
  fovea::add_positional_encoding(Tensor(wide, {1, 64}), Tensor(dropped, {1, 64}), {.dropout = 0.5f, .dropout_seed = 1});
  fovea::add_positional_encoding(Tensor(wide, {1, 64}), Tensor(other, {1, 64}), {.dropout = 0.5f, .dropout_seed = 2});
  CHECK_NE(dropped, other);

  const Floats pair = {1, 0, 1, 0};
  Floats turned(4), back(4);
  fovea::rotary(Tensor(pair, {2, 2}), Tensor(turned, {2, 2}), {.offset = 1});
  check_near(turned, {std::cos(1.0), std::sin(1.0), std::cos(2.0), std::sin(2.0)});
  fovea::rotary(Tensor(turned, {2, 2}), Tensor(back, {2, 2}), {.inverse = true, .offset = 1});
  check_near(back, {1, 0, 1, 0});
  const std::vector<std::int64_t> positions = {4, 2};
  fovea::rotary(Tensor(pair, {2, 2}), Tensor(turned, {2, 2}), {.position_scale = 0.5f, .positions = positions});
  check_near(turned, {std::cos(2.0), std::sin(2.0), std::cos(1.0), std::sin(1.0)});

  const Floats four = {1, 0, 0, 7};  // of which the first two features turn, as neighbours or as halves
  fovea::rotary(Tensor(four, {1, 4}), Tensor(turned, {1, 4}), {.rotary_dim = 2, .offset = 1});
  check_near(turned, {std::cos(1.0), std::sin(1.0), 0, 7});
  fovea::rotary(Tensor(four, {1, 4}), Tensor(turned, {1, 4}), {.base = 4, .offset = 1});
  check_near(turned, {std::cos(1.0), -7 * std::sin(0.5), std::sin(1.0), 7 * std::cos(0.5)});
  fovea::rotary(Tensor(four, {1, 4}), Tensor(turned, {1, 4}), {.interleaved = true, .base = 4, .offset = 1});
  check_near(turned, {std::cos(1.0), std::sin(1.0), -7 * std::sin(0.5), 7 * std::cos(0.5)});

  for (const fovea::RotaryOptions &still : {fovea::RotaryOptions{.position_scale = 0.0f, .offset = 1},
                                            fovea::RotaryOptions{.rotary_dim = 0, .offset = 1}}) {
    fovea::rotary(Tensor(four, {1, 4}), Tensor(turned, {1, 4}), still);
    check_near(turned, {1, 0, 0, 7});
  }
  check_error(FOVEA_BAD_VALUE, "options.base is 0", [&] {
    fovea::rotary(Tensor(four, {1, 4}), Tensor(turned, {1, 4}), {.base = 0.0f});
  });
  check_error(FOVEA_BAD_VALUE, "options.base is 0", [&] {
    fovea::positional_encoding(Tensor(table, {2, 3}), {.base = 0.0f});
  });

  Floats slopes(2);
  fovea::alibi_slopes(slopes);
  check_near(slopes, {0.0625, 0.00390625});
}

TEST_SUITE_END();
