// Gradients of linear layers and of merged attention against float64.
#include <array>

#include "support/judged_gradients.hpp"

using namespace testing;

namespace {

struct LinearGradientProblem {
  TypedTensor x, weight, bias, multiplier, grad_out;
  TypedTensor grad_x, grad_weight, grad_bias, grad_multiplier;
  int32_t activation = FOVEA_ACTIVATION_NONE;
  bool in_out = false, has_bias = false, has_multiplier = false, wants_multiplier = true;

  fovea_status run(const fovea_context *context) const {
    const fovea_tensor x_view = x.view(), weight_view = weight.view(), bias_view = bias.view(),
                       multiplier_view = multiplier.view(), out_view = grad_out.view(), grad_x_view = grad_x.view(),
                       grad_weight_view = grad_weight.view(), grad_bias_view = grad_bias.view(),
                       grad_multiplier_view = grad_multiplier.view();
    fovea_linear_options options = {};
    options.struct_size = sizeof options;
    options.activation = activation;
    options.bias = has_bias ? &bias_view : nullptr;
    options.multiplier = has_multiplier ? &multiplier_view : nullptr;
    const bool multiplies = has_multiplier && wants_multiplier;
    const fovea_linear_gradients gradients = {sizeof gradients,
                                              &out_view,
                                              &grad_x_view,
                                              &grad_weight_view,
                                              has_bias ? &grad_bias_view : nullptr,
                                              multiplies ? &grad_multiplier_view : nullptr};
    return fovea_linear_backward(context, &x_view, &weight_view, in_out ? FOVEA_WEIGHT_IN_OUT : FOVEA_WEIGHT_OUT_IN,
                                 &options, &gradients);
  }

  LinearGradientProblem fresh() const {
    LinearGradientProblem copy = *this;
    copy.grad_x = like(grad_x);
    copy.grad_weight = like(grad_weight);
    copy.grad_bias = like(grad_bias);
    copy.grad_multiplier = like(grad_multiplier);
    return copy;
  }
};

template <typename Number>
std::vector<Number> flipped(const std::vector<Number> &from, int64_t rows, int64_t columns) {
  std::vector<Number> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * columns + c)];
    }
  }
  return to;
}

// Numbers of 16 bits in both factors may be multiplied as such, with their own rounding: kept apart by `any_type`.
LinearGradientProblem make_linear(Random &random, const Shape &x_shape, int64_t columns, bool any_type) {
  LinearGradientProblem problem;
  const int64_t depth = x_shape.back();
  Shape out_shape = x_shape;
  out_shape.back() = columns;
  problem.in_out = random.chance(0.5);
  problem.x = normal_tensor(x_shape, random, any_type);
  const Shape weight = problem.in_out ? Shape{depth, columns} : Shape{columns, depth};
  problem.weight = TypedTensor(weight, FOVEA_F32, some_strides(weight, random)).fill_normal(random);
  problem.bias = normal_tensor({columns}, random, any_type);
  problem.multiplier = normal_tensor(out_shape, random, any_type);
  problem.grad_out = normal_tensor(out_shape, random, false);
  problem.grad_x = output_tensor(x_shape, random, any_type);
  problem.grad_weight = output_tensor(weight, random, any_type);
  problem.grad_bias = output_tensor({columns}, random, any_type);
  problem.grad_multiplier = output_tensor(out_shape, random, any_type);
  problem.activation = static_cast<int32_t>(random.integer(0, 4));
  problem.has_bias = random.chance(0.6);
  problem.has_multiplier = random.chance(0.4);
  problem.wants_multiplier = random.chance(0.6);
  return problem;
}

void check(const LinearGradientProblem &problem) {
  const Shape &shape = problem.x.shape();
  const int64_t depth = shape.back(), columns = problem.weight.shape()[problem.in_out ? 1 : 0];
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  const std::vector<float> weight = problem.weight.dense();
  const reference::LinearInputs inputs = {
      .rows = rows,
      .depth = depth,
      .columns = columns,
      .x = problem.x.dense(),
      .weight = problem.in_out ? weight : flipped(weight, columns, depth),
      .activation = static_cast<reference::Activation>(problem.activation),
      .bias = problem.has_bias ? problem.bias.dense() : std::vector<float>(),
      .multiplier = problem.has_multiplier ? problem.multiplier.dense() : std::vector<float>(),
      .residual = {}};
  auto truth = reference::linear_gradients<double>(inputs, problem.grad_out.dense());
  auto plain = reference::linear_gradients<float>(inputs, problem.grad_out.dense());
  if (!problem.in_out) {
    truth.weight = {flipped(truth.weight.value, depth, columns), flipped(truth.weight.magnitude, depth, columns)};
    plain.weight = {flipped(plain.weight.value, depth, columns), flipped(plain.weight.magnitude, depth, columns)};
  }
  CAPTURE(shape);
  CAPTURE(columns);
  CAPTURE(problem.activation);
  CAPTURE(problem.in_out);
  CAPTURE(problem.has_bias);
  CAPTURE(problem.has_multiplier);
  const auto terms = [](int64_t count) { return 16 + 2 * static_cast<double>(count); };
  for_each_isa([&](const fovea_context *context) {
    const LinearGradientProblem own = problem.fresh();
    REQUIRE_OK(own.run(context));
    judge_gradient("x", own.grad_x, truth.x, plain.x, terms(columns));
    judge_gradient("weight", own.grad_weight, truth.weight, plain.weight, terms(rows));
    if (own.has_bias) judge_gradient("bias", own.grad_bias, truth.bias, plain.bias, terms(64));
    if (own.has_multiplier && own.wants_multiplier) {
      judge_gradient("multiplier", own.grad_multiplier, truth.multiplier, plain.multiplier, terms(depth));
    }
  });
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("linear gradients: a worked example") {
    for_each_isa([&](const fovea_context *context) {
      Tensor<float> x({2, 2}), weight({1, 2}), grad({2, 1}), grad_x({2, 2}), grad_weight({1, 2}), bias({1}),
          grad_bias({1});
      x.assign({1, 2, 3, -4});
      weight.assign({2, 1});  // x W: 4, 2
      bias.assign({-3});      // 1, -1: the second row is cut off
      grad.assign({10, 100});
      const fovea_tensor views[] = {x.view(),           weight.view(), grad.view(),     grad_x.view(),
                                    grad_weight.view(), bias.view(),   grad_bias.view()};
      fovea_linear_options options = {};
      options.struct_size = sizeof options;
      options.activation = FOVEA_ACTIVATION_RELU;
      options.bias = &views[5];
      const fovea_linear_gradients gradients = {sizeof gradients, &views[2], &views[3], &views[4], &views[6], nullptr};
      REQUIRE_OK(fovea_linear_backward(context, &views[0], &views[1], FOVEA_WEIGHT_OUT_IN, &options, &gradients));
      CHECK(grad_x.dense() == std::vector<float>{20, 10, 0, 0});
      CHECK(grad_weight.dense() == std::vector<float>{10, 20});
      CHECK(grad_bias.dense() == std::vector<float>{10});
    });
  }

  TEST_CASE("linear gradients: random sizes, strides, types, activations") {
    for (int64_t n = 0; n < case_count(120); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      Shape shape;
      if (random.chance(0.5)) shape.push_back(random.integer(0, 4));
      shape.push_back(random.chance(0.1) ? 0 : random.integer(1, 40));
      shape.push_back(random.chance(0.1) ? 0 : random.integer(1, 50));
      check(make_linear(random, shape, random.chance(0.1) ? 0 : random.integer(1, 60), true));
    }
  }

  TEST_CASE("linear gradients: sizes at the edges of tiles, many rows") {
    Random random(base_seed());
    for (const auto &[rows, depth, columns] :
         {std::array<int64_t, 3>{1, 1, 1}, {6, 16, 17}, {7, 15, 16}, {97, 33, 64}, {300, 64, 31}, {2000, 9, 7}}) {
      for (int n = 0; n < 3; ++n) check(make_linear(random, {rows, depth}, columns, false));
    }
  }

  TEST_CASE("linear gradients: the same bits on one to eight threads") {
    Random random(base_seed());
    for (int n = 0; n < 6; ++n) {
      const LinearGradientProblem problem = make_linear(random, {3, 200, 96}, 130, true);
      for (const std::string &isa : instruction_sets()) {
        const LinearGradientProblem once = problem.fresh();
        REQUIRE_OK(once.run(shared_context(isa, 1)));
        for (const int threads : {2, 3, 8, 8}) {
          const LinearGradientProblem other = problem.fresh();
          REQUIRE_OK(other.run(shared_context(isa, threads)));
          CHECK(other.grad_x.dense() == once.grad_x.dense());
          CHECK(other.grad_weight.dense() == once.grad_weight.dense());
          CHECK(other.grad_bias.dense() == once.grad_bias.dense());
        }
      }
    }
  }

  TEST_CASE("merge gradients: random parts, some without keys, whose outs are not read") {
    for (int64_t n = 0; n < case_count(150); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const int64_t parts = random.chance(0.2) ? random.integer(30, 70) : random.integer(1, 6);
      const int64_t value_dim = random.chance(0.1) ? random.integer(1000, 2100) : random.integer(0, 70);
      Shape outer;
      for (int64_t rank = random.integer(0, 4); rank > 0; --rank) outer.push_back(random.integer(1, 3));
      Shape outs_shape = {parts}, lses_shape = {parts}, out_shape = outer;
      outs_shape.insert(outs_shape.end(), outer.begin(), outer.end());
      lses_shape.insert(lses_shape.end(), outer.begin(), outer.end());
      outs_shape.push_back(value_dim);
      out_shape.push_back(value_dim);
      TypedTensor outs = normal_tensor(outs_shape, random), lses = normal_tensor(lses_shape, random, false);
      const float scale = random.pick({1.0f, 30.0f, 300.0f});
      lses.fill([&] { return random.chance(0.2) ? -kInfinity : scale * random.normal(); });
      for_each_index(lses_shape, [&](const Shape &at) {
        if (value_dim == 0) return;
        const fovea_tensor view = lses.view();
        int64_t offset = 0;
        for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * view.strides[axis];
        if (static_cast<const float *>(view.data)[offset] != -kInfinity) return;
        Shape first = at;
        first.push_back(0);
        outs.set(first, kNan);
      });
      const TypedTensor grad = normal_tensor(out_shape, random);
      const bool has_sums = !outer.empty() && random.chance(0.5);
      const TypedTensor grad_sums = has_sums ? normal_tensor(outer, random, false) : TypedTensor();
      const TypedTensor outs_layout = output_tensor(outs_shape, random),
                        lses_layout = output_tensor(lses_shape, random, false);
      const int64_t rows = element_count(outer);
      const std::vector<float> sums = has_sums ? grad_sums.dense() : std::vector<float>();
      const auto truth =
          reference::merge_gradients<double>(outs.dense(), lses.dense(), parts, rows, value_dim, grad.dense(), sums);
      const auto plain =
          reference::merge_gradients<float>(outs.dense(), lses.dense(), parts, rows, value_dim, grad.dense(), sums);
      for_each_isa([&](const fovea_context *context) {
        const TypedTensor grad_outs = like(outs_layout), grad_lses = like(lses_layout);
        const fovea_tensor views[] = {outs.view(),      lses.view(),      grad.view(),
                                      grad_sums.view(), grad_outs.view(), grad_lses.view()};
        const fovea_merge_gradients gradients = {sizeof gradients, &views[2], has_sums ? &views[3] : nullptr, &views[4],
                                                 &views[5]};
        REQUIRE_OK(fovea_merge_states_backward(context, &views[0], &views[1], &gradients));
        judge_gradient("outs", grad_outs, truth.outs, plain.outs, 600);
        judge_gradient("lses", grad_lses, truth.lses, plain.lses, 600);
      });
    }
  }
}
