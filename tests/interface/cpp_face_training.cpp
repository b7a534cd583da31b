// The C++ interface to gradients: in one go and planned, each member once. What they compute is tested through the C interface.
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

TEST_SUITE_END();
