// Gradients of layer and RMS normalisation against float64: sizes near a register and a chunk, strides, types, in
// place, many rows, rows that are hard for float32, the same bits on any number of threads.
#include "support/judged_gradients.hpp"

using namespace testing;

namespace {

struct NormGradientProblem {
  TypedTensor x, grad_out;
  std::optional<TypedTensor> residual, weight, bias, grad_sum;
  bool rms = false, weight_from_one = false, in_place = false;
  float epsilon = 1e-5f;
  TypedTensor grad_x, grad_weight, grad_bias;

  fovea_status run(const fovea_context *context, NormGradientProblem *outputs) const {
    const auto view = [](const std::optional<TypedTensor> &tensor) { return tensor ? tensor->view() : fovea_tensor{}; };
    const fovea_tensor x_view = x.view(), residual_view = view(residual), weight_view = view(weight),
                       bias_view = view(bias), sum_view = view(grad_sum), out_view = grad_out.view();
    const fovea_tensor grad_x_view = in_place ? out_view : outputs->grad_x.view();
    const fovea_tensor grad_weight_view = outputs->grad_weight.view(), grad_bias_view = outputs->grad_bias.view();
    fovea_norm_gradients gradients = {sizeof gradients,
                                      &out_view,
                                      grad_sum ? &sum_view : nullptr,
                                      &grad_x_view,
                                      weight ? &grad_weight_view : nullptr,
                                      bias ? &grad_bias_view : nullptr};
    if (rms) {
      fovea_rms_norm_options options = {};
      options.struct_size = sizeof options;
      options.epsilon = epsilon;
      options.flags = weight_from_one ? FOVEA_NORM_WEIGHT_FROM_ONE : 0;
      options.weight = weight ? &weight_view : nullptr;
      options.residual = residual ? &residual_view : nullptr;
      return fovea_rms_norm_backward(context, &x_view, &options, &gradients);
    }
    fovea_layer_norm_options options = {};
    options.struct_size = sizeof options;
    options.epsilon = epsilon;
    options.weight = weight ? &weight_view : nullptr;
    options.bias = bias ? &bias_view : nullptr;
    options.residual = residual ? &residual_view : nullptr;
    return fovea_layer_norm_backward(context, &x_view, &options, &gradients);
  }

  reference::LayerNormInputs inputs() const {
    const auto dense = [](const std::optional<TypedTensor> &tensor) {
      return tensor ? tensor->dense() : std::vector<float>();
    };
    return {.dim = x.shape().back(),
            .epsilon = static_cast<double>(epsilon),
            .x = x.dense(),
            .residual = dense(residual),
            .weight = dense(weight),
            .bias = dense(bias),
            .rms = rms,
            .weight_from_one = weight_from_one};
  }
};

NormGradientProblem make_problem(const Shape &shape, Random &random, bool any_type) {
  NormGradientProblem problem;
  problem.x = normal_tensor(shape, random, any_type);
  problem.grad_out = normal_tensor(shape, random, any_type);
  problem.rms = random.chance(0.4);
  const Shape features = {shape.back()};
  if (random.chance(0.7)) problem.weight = TypedTensor(features).fill_normal(random);
  if (!problem.rms && random.chance(0.7)) problem.bias = TypedTensor(features).fill_normal(random);
  if (random.chance(0.4)) problem.residual = normal_tensor(shape, random, any_type);
  if (problem.residual && random.chance(0.6)) problem.grad_sum = normal_tensor(shape, random, any_type);
  problem.weight_from_one = problem.rms && random.chance(0.3);
  problem.in_place = random.chance(0.2);
  problem.grad_x = problem.in_place ? TypedTensor(shape) : output_tensor(shape, random, any_type);
  problem.grad_weight = output_tensor(features, random, any_type);
  problem.grad_bias = output_tensor(features, random, any_type);
  return problem;
}

// With outputs that are not written.
NormGradientProblem fresh(const NormGradientProblem &problem) {
  NormGradientProblem copy = problem;
  copy.grad_x = like(problem.grad_x);
  copy.grad_weight = like(problem.grad_weight);
  copy.grad_bias = like(problem.grad_bias);
  return copy;
}

void check(const NormGradientProblem &problem) {
  constexpr double roundings = 16;
  const std::vector<float> grad = problem.grad_out.dense();
  const std::vector<float> sum = problem.grad_sum ? problem.grad_sum->dense() : std::vector<float>();
  const auto truth = reference::norm_gradients<double>(problem.inputs(), grad, sum);
  const auto plain = reference::norm_gradients<float>(problem.inputs(), grad, sum);
  for_each_isa([&](const fovea_context *context) {
    NormGradientProblem own = fresh(problem);
    REQUIRE_OK(own.run(context, &own));
    judge_gradient("x", own.in_place ? own.grad_out : own.grad_x, truth.x, plain.x, roundings);
    if (own.weight) judge_gradient("weight", own.grad_weight, truth.weight, plain.weight, roundings);
    if (own.bias) judge_gradient("bias", own.grad_bias, truth.bias, plain.bias, roundings);
  });
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("norm gradients: a worked example") {
    // y = (-1, 0, 1): variance 2/3, r = sqrt(3/2) without epsilon; g = (1, 0, 0).
    for_each_isa([&](const fovea_context *context) {
      NormGradientProblem problem;
      problem.x = TypedTensor({1, 3});
      problem.grad_out = TypedTensor({1, 3});
      problem.grad_x = TypedTensor({1, 3});
      float next = 4;
      problem.x.fill([&] { return next += 1; });
      next = 2;
      problem.grad_out.fill([&] { return (next -= 1) > 0 ? 1.0f : 0.0f; });
      problem.epsilon = 1e-12f;
      REQUIRE_OK(problem.run(context, &problem));
      const std::vector<float> found = problem.grad_x.dense();
      const double r = std::sqrt(1.5), expected[] = {r * (1 - 1.0 / 3 - 0.5), r * (-1.0 / 3), r * (-1.0 / 3 + 0.5)};
      for (size_t i = 0; i < 3; ++i) CHECK(static_cast<double>(found[i]) == doctest::Approx(expected[i]).epsilon(1e-6));
    });
  }

  TEST_CASE("norm gradients: every size up to 70, and near a chunk, at both ends of a page") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t dim = 2; dim <= 70; dim += placement == Placement::kEnd ? 1 : 3) {
        CAPTURE(dim);
        check(make_problem({3, dim}, random, false));
      }
    }
    for (const int64_t dim : {1023, 1024, 1025, 2047, 2048, 2049, 2063, 4096, 4099, 6151}) {
      CAPTURE(dim);
      check(make_problem({3, dim}, random, false));
    }
  }

  TEST_CASE("norm gradients: random shapes, strides and types") {
    for (int64_t n = 0; n < case_count(150); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      Shape shape;
      const int64_t rank = random.integer(1, 5);
      for (int64_t axis = 0; axis + 1 < rank; ++axis) shape.push_back(random.integer(1, 4));
      if (rank > 1 && random.chance(0.05)) shape[0] = 0;
      shape.push_back(random.chance(0.5) ? random.integer(2, 40) : random.integer(2, 3000));
      check(make_problem(shape, random, true));
    }
  }

  TEST_CASE("norm gradients: sums over many rows") {
    Random random(base_seed());
    for (const int64_t rows : {63, 64, 65, 129, 4097, 20000}) {
      CAPTURE(rows);
      NormGradientProblem problem = make_problem({rows, 5}, random, false);
      problem.weight = TypedTensor({5}).fill_normal(random);
      check(problem);
    }
  }

  TEST_CASE("norm gradients: a large mean, and squares that a float cannot hold") {
    Random random(base_seed());
    for (const float scale : {1e25f, 5e37f, 1e-20f, 1e-38f, 1.0f}) {
      for (const int64_t dim : {2, 50, 768, 3000}) {
        CAPTURE(scale);
        CAPTURE(dim);
        NormGradientProblem problem = make_problem({2, dim}, random, false);
        const float mean = scale == 1.0f ? 100.0f : 0.0f;
        problem.x.fill([&] { return scale * random.normal() + mean; });
        problem.residual.reset();
        problem.grad_sum.reset();
        problem.epsilon = scale < 1 ? 1e-45f : 1e-5f;
        if (scale > 1) problem.grad_out.fill([&] { return 1e20f * random.normal(); });
        check(problem);
      }
    }
  }

  TEST_CASE("norm gradients: all but constant rows beside an epsilon of next to nothing") {
    Random random(base_seed());
    for (const float value : {1e-40f, 0.1f, 1e20f, 3e38f}) {
      for (const int64_t dim : {2, 50, 768, 3000}) {
        CAPTURE(value);
        CAPTURE(dim);
        NormGradientProblem problem = make_problem({3, dim}, random, false);
        problem.x.fill(
            [&, n = int64_t{0}]() mutable { return n++ % dim == dim / 2 ? std::nextafter(value, 0.0f) : value; });
        problem.rms = problem.weight_from_one = false;
        problem.residual.reset();
        problem.grad_sum.reset();
        problem.epsilon = 1e-45f;
        check(problem);
      }
    }
  }

  TEST_CASE("norm gradients: NaN stays in its row, but for what is summed over rows") {
    Random random(base_seed());
    for (const int64_t dim : {3, 100, 2500}) {
      for (const bool in_x : {false, true}) {
        NormGradientProblem problem = make_problem({3, dim}, random, false);
        problem.in_place = false;
        problem.grad_x = TypedTensor({3, dim});
        (in_x ? problem.x : problem.grad_out).set({1, dim / 2}, kNan);
        for_each_isa([&](const fovea_context *context) {
          NormGradientProblem own = fresh(problem);
          REQUIRE_OK(own.run(context, &own));
          const std::vector<float> found = own.grad_x.dense();
          for (int64_t i = 0; i < 3 * dim; ++i) CHECK(std::isnan(found[static_cast<size_t>(i)]) == (i / dim == 1));
        });
      }
    }
  }

  TEST_CASE("norm gradients: the same bits on one to eight threads, and whatever else is wanted") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{1000, 64}, Shape{300, 768}, Shape{7, 5000}}) {
      NormGradientProblem problem = make_problem(shape, random, true);
      problem.in_place = false;
      problem.grad_x = output_tensor(shape, random, true);
      problem.weight = TypedTensor({shape.back()}).fill_normal(random);
      for (const std::string &isa : instruction_sets()) {
        NormGradientProblem once = fresh(problem);
        REQUIRE_OK(once.run(shared_context(isa, 1), &once));
        for (const int threads : {2, 3, 8, 8}) {
          NormGradientProblem other = fresh(problem);
          REQUIRE_OK(other.run(shared_context(isa, threads), &other));
          CHECK(other.grad_x.dense() == once.grad_x.dense());
          CHECK(other.grad_weight.dense() == once.grad_weight.dense());
          CHECK(other.grad_bias.dense() == once.grad_bias.dense());
        }
        const fovea_tensor x = problem.x.view(), out = problem.grad_out.view(), weight = problem.weight->view();
        const NormGradientProblem alone = fresh(problem);
        const fovea_tensor wanted = alone.grad_weight.view();
        const fovea_norm_gradients gradients = {sizeof gradients, &out, nullptr, nullptr, &wanted, nullptr};
        if (problem.rms || problem.residual) continue;
        fovea_layer_norm_options options = {};
        options.struct_size = sizeof options;
        options.epsilon = problem.epsilon;
        options.weight = &weight;
        REQUIRE_OK(fovea_layer_norm_backward(shared_context(isa, 2), &x, &options, &gradients));
        CHECK(alone.grad_weight.dense() == once.grad_weight.dense());
      }
    }
  }
}
