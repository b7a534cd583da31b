// The C++ interface to gradients: in one go and planned, each member once. What they compute is tested through the C
// interface.
#include <cmath>
#include <cstddef>
#include <vector>

#include "cpp_face.hpp"

using namespace testing;

namespace {

using fovea::Tensor;

// One query, two keys and the values 0 and 1: out is the second key's weight w, and moves by w (1 - w) with its score.
struct TwoKeys {
  Floats query = {0.5f, -1.0f}, key = {1.0f, 0.25f, -0.5f, 2.0f}, value = {0, 1}, out = {0}, lse = {0}, ones = {1};
  Floats grad_query = {0, 0}, grad_key = {0, 0, 0, 0}, grad_value = {0, 0};

  fovea::AttentionOptions options() { return {.scale = 1.0f, .log_sum_exp = Tensor(lse, {1})}; }
  fovea::AttentionGradients gradients() {
    return {.out = Tensor<const float>(ones, {1, 1}),
            .query = Tensor(grad_query, {1, 2}),
            .key = Tensor(grad_key, {2, 2}),
            .value = Tensor(grad_value, {2, 1})};
  }
  fovea::Input q() const { return Tensor<const float>(query, {1, 2}); }
  fovea::Input k() const { return Tensor<const float>(key, {2, 2}); }
  fovea::Input v() const { return Tensor<const float>(value, {2, 1}); }
  fovea::Input o() const { return Tensor<const float>(out, {1, 1}); }

  void attend() { fovea::attention(fovea::Dot{}, q(), k(), v(), Tensor(out, {1, 1}), options()); }
  void check() const {
    const double w = static_cast<double>(out[0]), slope = w * (1 - w);
    check_near(grad_value, {1 - w, w});
    check_near(grad_query, {slope * (-0.5 - 1.0), slope * (2.0 - 0.25)});
    check_near(grad_key, {-slope * 0.5, slope, slope * 0.5, -slope});
  }
};

}  // namespace

TEST_SUITE_BEGIN("cpp face training");

TEST_CASE("gradients of attention, in one go and planned") {
  TwoKeys t;
  t.attend();
  fovea::attention_backward(fovea::Dot{}, t.q(), t.k(), t.v(), t.o(), t.options(), t.gradients());
  t.check();

  t.grad_query = t.grad_value = {0, 0};
  const fovea::Plan plan =
      fovea::plan_attention_backward(fovea::Dot{}, t.q(), t.k(), t.v(), t.o(), t.options(), t.gradients());
  std::vector<std::byte> workspace(plan.workspace_size());
  fovea::AttentionBuffers buffers;
  buffers.query = t.query.data();
  buffers.key = t.key.data();
  buffers.value = t.value.data();
  buffers.out = t.out.data();
  buffers.log_sum_exp = t.lse.data();
  buffers.grad_out = t.ones.data();
  buffers.grad_query = t.grad_query.data();
  buffers.grad_key = t.grad_key.data();
  buffers.grad_value = t.grad_value.data();
  plan.run(buffers, workspace);
  t.check();
}

// Of one unit: score tanh(0.5 q + 2 k), with keys 0.25 and -0.5.
TEST_CASE("projections that additive attention keeps") {
  Floats query = {1}, key = {0.25f, -0.5f}, value = {0, 1}, out = {0}, lse = {0}, ones = {1};
  Floats query_weight = {0.5f}, key_weight = {2}, vector = {1};
  Floats kept_query = {0}, kept_key = {0, 0}, grad_query = {0}, grad_key = {0, 0};
  const fovea::Additive score = {.query_weight = Tensor<const float>(query_weight, {1, 1}),
                                 .key_weight = Tensor<const float>(key_weight, {1, 1}),
                                 .score_vector = Tensor<const float>(vector, {1})};
  const Tensor<const float> q(query, {1, 1}), k(key, {2, 1}), v(value, {2, 1});
  const fovea::AttentionOptions options = {.log_sum_exp = Tensor(lse, {1}),
                                           .projected_query = Tensor(kept_query, {1, 1}),
                                           .projected_key = Tensor(kept_key, {2, 1})};
  fovea::attention(score, q, k, v, Tensor(out, {1, 1}), options);
  check_near(kept_query, {0.5});
  check_near(kept_key, {0.5, -1});
  const fovea::AttentionGradients gradients = {
      .out = Tensor<const float>(ones, {1, 1}), .query = Tensor(grad_query, {1, 1}), .key = Tensor(grad_key, {2, 1})};
  const auto tanh_slope = [](double x) { return 1 - std::tanh(x) * std::tanh(x); };
  const auto check = [&](double first, double second) {  // what the units of the two keys are
    const double w = static_cast<double>(out[0]), slope = w * (1 - w);
    check_near(grad_key, {-slope * 2 * tanh_slope(first), slope * 2 * tanh_slope(second)});
    check_near(grad_query, {slope * 0.5 * (tanh_slope(second) - tanh_slope(first))});
  };
  fovea::attention_backward(score, q, k, v, Tensor<const float>(out, {1, 1}), options, gradients);
  check(1.0, -0.5);
}

TEST_CASE("every member of gradients reaches the C struct") {
  std::vector<Floats> n(15, Floats(1));
  const fovea::AttentionGradients gradients = {.out = n[0],
                                               .log_sum_exp = n[1],
                                               .weights = n[2],
                                               .query = n[3],
                                               .key = n[4],
                                               .value = n[5],
                                               .bias = n[6],
                                               .alibi_slopes = n[7],
                                               .sinks = n[8],
                                               .query_weight = n[9],
                                               .key_weight = n[10],
                                               .weight = n[11],
                                               .score_bias = n[12],
                                               .score_vector = n[13],
                                               .sigmas = n[14]};
  const fovea_attention_gradients c = gradients.c_gradients();
  const fovea_tensor *const members[] = {c.out,        c.log_sum_exp, c.weights,      c.query,        c.key,
                                         c.value,      c.bias,        c.alibi_slopes, c.sinks,        c.query_weight,
                                         c.key_weight, c.weight,      c.score_bias,   c.score_vector, c.sigmas};
  for (size_t member = 0; member < 15; ++member) CHECK(members[member]->data == n[member].data());
}

TEST_CASE("gradients of layers") {
  Floats x = {1, -2}, grad = {3, 5}, half = {0.5f, 0.5f}, weight = {1, 2, 3, 4}, zeros = {0, 0}, outs = {1, 3},
         one = {1};
  Floats found = {0, 0}, of_weight = {0, 0, 0, 0}, of_bias = {0, 0};
  const fovea::Input row = Tensor<const float>(x, {1, 2}), reaching = Tensor<const float>(grad, {1, 2});
  const fovea::Input matrix = Tensor<const float>(weight, {2, 2});
  const fovea::Output to = Tensor(found, {1, 2});
  fovea::activation_backward(fovea::Activation::relu, row, reaching, to);
  check_near(found, {3, 0});
  fovea::softmax_backward(Tensor<const float>(half, {1, 2}), -1, reaching, to);
  check_near(found, {-0.5, 0.5});
  fovea::masked_softmax_backward(Tensor<const float>(half, {1, 2}), {}, reaching, to);
  check_near(found, {-0.5, 0.5});
  Floats logarithms = {std::log(0.5f), std::log(0.5f)};
  fovea::log_softmax_backward(Tensor<const float>(logarithms, {1, 2}), -1, reaching, to);
  check_near(found, {-1, 1});
  fovea::rms_norm_backward(row, {}, {.out = reaching, .x = to});
  check_near(found, {std::sqrt(0.4) * (3 + 7 * 0.4 / 2), std::sqrt(0.4) * (5 - 7 * 0.4)}, 1e-4);
  fovea::layer_norm_backward(row, {}, {.out = reaching, .x = to});
  check_near(found, {0, 0}, 1e-4);
  fovea::linear_backward(row, matrix, fovea::WeightLayout::out_in, {.bias = zeros},
                         {.out = reaching, .x = to, .weight = Tensor(of_weight, {2, 2}), .bias = of_bias});
  check_near(found, {18, 26});
  check_near(of_weight, {3, -6, 5, -10});
  check_near(of_bias, {3, 5});
  fovea::merge_states_backward(Tensor<const float>(outs, {2, 1}), zeros,
                               {.out = one, .outs = Tensor(found, {2, 1}), .lses = of_bias});
  check_near(found, {0.5, 0.5});
  check_near(of_bias, {-0.5, 0.5});
  fovea::multi_head_attention_backward({.query_weight = matrix, .key_weight = matrix, .value_weight = matrix}, row, {},
                                       {}, {},
                                       {.out = reaching, .query = to, .value_weight = Tensor(of_weight, {2, 2})});
  check_near(found, {18, 26});
  check_near(of_weight, {3, -6, 5, -10});
  Floats kept(9), heads(2);
  const fovea::MultiHeadOptions keeping = {.kept = Tensor(kept, {9})};
  fovea::multi_head_attention({.query_weight = matrix, .key_weight = matrix, .value_weight = matrix}, row, {}, {},
                              Tensor(heads, {1, 2}), keeping);
  found = {0, 0};
  fovea::multi_head_attention_backward({.query_weight = matrix, .key_weight = matrix, .value_weight = matrix}, row, {},
                                       {}, keeping, {.out = reaching, .query = to});
  check_near(found, {18, 26});
  fovea::add_positional_encoding(row, to, {.dropout_alone = true});
  check_near(found, {1, -2});
}

TEST_CASE("every member of a layer's gradients reaches the C struct") {
  std::vector<Floats> n(14, Floats(1));
  const fovea::NormGradients norm = {.out = n[0], .sum = n[1], .x = n[2], .weight = n[3], .bias = n[4]};
  const fovea_norm_gradients c_norm = norm.c_gradients();
  const fovea_tensor *const of_norm[] = {c_norm.out, c_norm.sum, c_norm.x, c_norm.weight, c_norm.bias};
  for (size_t member = 0; member < 5; ++member) CHECK(of_norm[member]->data == n[member].data());
  const fovea::LinearGradients linear = {.out = n[0], .x = n[1], .weight = n[2], .bias = n[3], .multiplier = n[4]};
  const fovea_linear_gradients c_linear = linear.c_gradients();
  const fovea_tensor *const of_linear[] = {c_linear.out, c_linear.x, c_linear.weight, c_linear.bias,
                                           c_linear.multiplier};
  for (size_t member = 0; member < 5; ++member) CHECK(of_linear[member]->data == n[member].data());
  const fovea::MultiHeadGradients mha = {.out = n[0],
                                         .query = n[1],
                                         .key = n[2],
                                         .value = n[3],
                                         .query_weight = n[4],
                                         .key_weight = n[5],
                                         .value_weight = n[6],
                                         .in_weight = n[7],
                                         .out_weight = n[8],
                                         .query_bias = n[9],
                                         .key_bias = n[10],
                                         .value_bias = n[11],
                                         .in_bias = n[12],
                                         .out_bias = n[13]};
  const fovea_attention_gradients of_attention = mha.attention.c_gradients();
  const fovea_mha_gradients c = mha.c_gradients(of_attention);
  const fovea_tensor *const members[] = {c.out,        c.query,        c.key,       c.value,      c.query_weight,
                                         c.key_weight, c.value_weight, c.in_weight, c.out_weight, c.query_bias,
                                         c.key_bias,   c.value_bias,   c.in_bias,   c.out_bias};
  for (size_t member = 0; member < 14; ++member) CHECK(members[member]->data == n[member].data());
  CHECK(c.attention == &of_attention);
}

TEST_SUITE_END();
