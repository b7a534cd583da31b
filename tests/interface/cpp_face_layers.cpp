// The C++ interface to layers: each member once, with every size and option told from its default. What the functions
// compute is tested through the C interface they call.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fovea/layers.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cpp_face.hpp"

using namespace testing;

namespace {

using fovea::Tensor;

}  // namespace

TEST_SUITE_BEGIN("cpp face layers");

TEST_CASE("linear and layer_norm with their options") {
  const Floats x = {1, -2}, weight = {1, 2, 3, 4}, bias = {10, -20}, residual = {100, 200}, scale = {2, 2};
  Floats out(2);
  const Tensor row(x, {1, 2});
  const Tensor result(out, {1, 2});
  fovea::linear(row, fovea::linear_pack(Tensor(weight, {2, 2}), fovea::WeightLayout::in_out), result);
  check_near(out, {-5, -6});
  fovea::linear(row, fovea::linear_pack(Tensor(weight, {2, 2})), result,
                {.activation = fovea::Activation::relu, .bias = bias, .residual = Tensor(residual, {1, 2})});
  check_near(out, {107, 200});
  fovea::layer_norm(row, result, {.epsilon = 0.25f, .weight = scale, .bias = bias, .residual = Tensor(weight, {1, 2})});
  check_near(out, {10 + 2 / std::sqrt(1.25), -20 - 2 / std::sqrt(1.25)});
  const Floats small = {3e-4f, -3e-4f};  // beside which 1e-5 is large
  fovea::layer_norm(Tensor(small, {1, 2}), result, {.epsilon = 0.0f});
  check_near(out, {1, -1});
}

TEST_CASE("a gated pair") {
  const Floats x = {1, -2}, weight = {1, 0, 0, 1};
  Floats up = {3, 5}, added = {10, 20};
  const fovea::PackedMatrix packed = fovea::linear_pack(Tensor(weight, {2, 2}));
  const Tensor out(up, {1, 2}), residual(added, {1, 2});
  fovea::linear(Tensor(x, {1, 2}), packed, out,
                {.activation = fovea::Activation::relu, .residual = residual, .multiplier = out});
  check_near(up, {13, 20});
}

TEST_CASE("normalisation with its outputs, activations alone") {
  const Floats x = {1, 2}, residual = {2, 2}, weight = {1, 2};
  Floats out(2), sum(2), mean(1), inverse(1);
  const Tensor row(x, {1, 2}), added(residual, {1, 2});
  const Tensor result(out, {1, 2}), total(sum, {1, 2});
  fovea::layer_norm(row, result,
                    {.epsilon = 0.75f, .residual = added, .sum = total, .mean = mean, .inverse_deviation = inverse});
  check_near(out, {-0.5, 0.5});
  check_near(sum, {3, 4});
  check_near(mean, {3.5});
  check_near(inverse, {1});
  fovea::rms_norm(row, result,
                  {.epsilon = 3.5f,
                   .weight_from_one = true,
                   .weight = weight,
                   .residual = added,
                   .sum = total,
                   .inverse_deviation = inverse});
  check_near(out, {1.5, 3});
  check_near(inverse, {0.25});
  fovea::rms_norm(row, result, {.epsilon = 0.0f});
  check_near(out, {1 / std::sqrt(2.5), 2 / std::sqrt(2.5)});
  fovea::activation(fovea::Activation::silu, x, out);
  check_near(out, {1 / (1 + std::exp(-1.0)), 2 / (1 + std::exp(-2.0))});
}

TEST_CASE("precision of packing, and of a call over what was packed") {
  using fovea::Precision;
  Floats numbers(64 * 64), out(64 * 64), packed_out(out.size()), own(out.size()), highest(out.size());
  for (size_t n = 0; n < numbers.size(); ++n) numbers[n] = std::sin(static_cast<float>(n));
  const Tensor x(numbers, {64, 64});
  const fovea::Context context({.precision = Precision::medium});
  fovea::matmul(x, x, Tensor(out, {64, 64}), context);
  const fovea::PackedMatrix packed(x, {}, Precision::medium);
  fovea::matmul(x, packed, Tensor(packed_out, {64, 64}));
  CHECK(out == packed_out);  // rounded to bfloat16 or not, as the processor has it
  const fovea::PackedMatrix weight = fovea::linear_pack(x, fovea::WeightLayout::in_out, {}, Precision::medium);
  CHECK_EQ(weight.size_bytes(), packed.size_bytes());
  fovea::linear(x, weight, Tensor(own, {64, 64}));
  CHECK(own == out);
  fovea::linear(x, weight, Tensor(own, {64, 64}), {.precision = Precision::highest});
  fovea::matmul(x, x, Tensor(highest, {64, 64}));
  CHECK_EQ(own == out, highest == out);  // the rows alone are rounded no more
  const auto attend = [&](Precision of_weights, Precision of_call, Floats &result) {
    const fovea::MultiHeadParameters parameters = {
        .heads = 2, .query_weight = x, .key_weight = x, .value_weight = x, .out_weight = x, .precision = of_weights};
    fovea::self_attention(fovea::MultiHeadWeights(parameters), x, Tensor(result, {64, 64}), {.precision = of_call});
  };
  attend(Precision::medium, Precision::unset, out);
  attend(Precision::medium, Precision::medium, own);
  CHECK(own == out);
  attend(Precision::unset, Precision::unset, highest);
  attend(Precision::highest, Precision::highest, own);
  CHECK(own == highest);
  const bool rounds = packed.size_bytes() < fovea::PackedMatrix(x).size_bytes();
  CHECK_EQ(out == highest, !rounds);
}

TEST_CASE("multi-head attention: one and three inputs, weights used once") {
  const Floats identity = {1, 0, 0, 1}, x = {1, 2, 1, 2}, bias = {5, 6};
  Floats out(4);
  const Tensor sequence(x, {1, 2, 2});
  const Tensor result(out, {1, 2, 2});
  const Tensor matrix(identity, {2, 2});
  const fovea::MultiHeadParameters parameters = {.heads = 2,
                                                 .kv_heads = 1,
                                                 .query_weight = matrix,
                                                 .key_weight = Tensor(identity, {1, 2}),
                                                 .value_weight = Tensor(identity, {1, 2}),
                                                 .out_weight = matrix,
                                                 .out_bias = bias};
  const fovea::MultiHeadWeights weights(parameters);
  CHECK(weights.size_bytes() > 0);
  fovea::self_attention(weights, sequence, result);
  check_near(out, {6, 7, 6, 7});  // both heads' value is the first feature
  fovea::multi_head_attention(weights, sequence, sequence, sequence, result, {.attention = {.causal = true}});
  check_near(out, {6, 7, 6, 7});
  fovea::multi_head_attention(parameters, sequence, {}, {}, result, {.score = fovea::Gaussian{.sigma = 1}});
  check_near(out, {6, 7, 6, 7});
  CHECK_THROWS_AS(fovea::self_attention(weights, sequence, result, {.rotary = fovea::RotaryOptions{}}), fovea::Error);
}

// Who has moved away leaves none behind: not what there was, and no crash.
TEST_CASE("owners that were moved from hold nothing") {
  const Floats numbers(16, 0.5f);
  Floats out(4), weights(16, 0.25f);
  const fovea::Input x(numbers, {1, 4}), square(weights, {4, 4}), vector(numbers, {4});
  const auto refused = [](auto call) {
    try {
      call();
    } catch (const fovea::Error &error) {
      CHECK_EQ(error.status(), FOVEA_NULL_POINTER);
      return;
    }
    FAIL_CHECK("no exception");
  };
  fovea::PackedMatrix packed(square);
  const fovea::PackedMatrix kept = std::move(packed);
  refused([&] { fovea::linear(x, packed, fovea::Tensor(out, {1, 4})); });  // NOLINT(bugprone-use-after-move)
  CHECK_EQ(packed.size_bytes(), 0);

  fovea::KvPool pool({.head_dim = 4, .positions = 3});
  fovea::Sequence sequence = pool.open();
  const fovea::Sequence kept_sequence = std::move(sequence);
  refused([&] { sequence.truncate(0); });  // NOLINT(bugprone-use-after-move)
  refused([&] { static_cast<void>(sequence.fork()); });
  CHECK_EQ(sequence.length(), -1);
  const fovea::Input rows(numbers, {1, 1, 4});
  fovea::Schedule schedule(rows, pool.keys(0), pool.values(0), fovea::Output(out, {1, 1, 4}), {});
  const fovea::Schedule kept_schedule = std::move(schedule);
  refused([&] { schedule.set(fovea::Step{}); });  // NOLINT(bugprone-use-after-move)
  refused([&] { schedule.run({}); });
  refused([&] { schedule.append(rows, rows, pool.keys(0), pool.values(0)); });
  CHECK(!schedule.positions());
  const fovea::KvPool kept_pool = std::move(pool);
  refused([&] { static_cast<void>(pool.open()); });  // NOLINT(bugprone-use-after-move)
  CHECK_EQ(pool.free_pages(), 0);
  CHECK(!pool.keys(0));

  const fovea::Additive score = {.query_weight = square, .key_weight = square, .score_vector = vector};
  fovea::PreparedKeys keys(score, {.capacity = 3, .query_dim = 4, .key_dim = 4});
  const fovea::PreparedKeys kept_keys = std::move(keys);
  refused([&] { keys.append(x); });  // NOLINT(bugprone-use-after-move)
  refused([&] { fovea::attention(x, keys, x, fovea::Tensor(out, {1, 4})); });

  fovea::MultiHeadWeights layer(
      {.heads = 1, .query_weight = square, .key_weight = square, .value_weight = square, .out_weight = square});
  const fovea::MultiHeadWeights kept_layer = std::move(layer);
  refused([&] { fovea::self_attention(layer, x, fovea::Tensor(out, {1, 4})); });  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("a sequence may outlive its pool's owner") {
  std::optional<fovea::Sequence> sequence;
  {
    fovea::KvPool pool({.head_dim = 4, .positions = 3, .sequences = 2});
    sequence = pool.open();
  }
  CHECK_EQ(sequence->length(), 0);
  const fovea::Sequence forked = sequence->fork();
  CHECK_NE(forked.number(), sequence->number());
}

TEST_SUITE_END();
