#include "gradient_problem.hpp"

#include <algorithm>
#include <cmath>

#include "accuracy.hpp"

namespace testing {
namespace {

Tensor<float> like(const Tensor<float> &tensor) { return Tensor<float>(tensor.shape(), tensor.strides()); }

Tensor<float> copy_of(const Tensor<float> &tensor) {
  Tensor<float> copy = like(tensor);
  copy.assign(tensor.dense());
  return copy;
}

Tensor<float> normal_like(const Tensor<float> &tensor, Random &random) {
  Tensor<float> filled = like(tensor);
  filled.fill_normal(random);
  return filled;
}

std::optional<Tensor<float>> like(const std::optional<Tensor<float>> &tensor) {
  return tensor ? std::optional(like(*tensor)) : std::nullopt;
}

const fovea_tensor *describe(const std::optional<Tensor<float>> &tensor, fovea_tensor &view) {
  if (!tensor) return nullptr;
  view = tensor->view();
  return &view;
}

// A gradient of [B,H,Q,K] summed over the axes along which the bias has size 1, cut to its keys.
template <typename Number>
std::vector<Number> reduce(const AttentionProblem &problem, const std::vector<Number> &full, const Shape &to) {
  const Shape from = problem.shape_of(problem.score_shape());
  const size_t missing = from.size() - to.size();
  std::vector<Number> sums(static_cast<size_t>(element_count(to)), Number{});
  size_t next = 0;
  for_each_index(from, [&](const Shape &at) {
    const Number term = full[next++];
    if (at.back() >= to.back()) return;
    int64_t place = 0;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      place = place * to[axis] + (to[axis] == 1 && axis + 1 < to.size() ? 0 : at[missing + axis]);
    }
    sums[static_cast<size_t>(place)] += term;
  });
  return sums;
}

template <typename Number>
std::vector<Number> total(const std::vector<Number> &values) {
  Number sum{};
  for (const Number value : values) sum += value;
  return {sum};
}

struct Expected {
  std::vector<double> truth;
  std::vector<float> plain;
  std::vector<double> magnitudes;
};

constexpr size_t many = 1000;  // elements: their errors are no matter of luck

void judge_gradient(const char *name, const Tensor<float> &actual, const Expected &expected, double roundings,
                    Strictness strictness) {
  CAPTURE(name);
  CHECK(actual.gaps_untouched());
  if (strictness == Strictness::no_floor && expected.truth.size() >= many) {
    CHECK_EQ(judge_closely(actual.dense(), expected.truth, expected.plain), "");
    return;
  }
  double largest = 0;
  for (const double magnitude : expected.magnitudes) {
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  CHECK_ACCURATE(actual.dense(), expected.truth, expected.plain, roundings * kEpsilon * largest);
}

// What the formula gives, in float64 and in float32.
class Judge {
 public:
  Judge(const AttentionProblem &problem, const GradientTensors &given) : problem_(problem) {
    const reference::AttentionInputs inputs = problem.reference_inputs();
    const reference::OutputGradients reaching = output_gradients(problem, given);
    truth_ = reference::attention_gradients<double>(inputs, reaching);
    plain_ = reference::attention_gradients<float>(inputs, reaching);
    roundings_ = 16 + 8 * truth_.largest_score;  // of a weight, from a score and a log-sum-exp, and of the mean
  }

  void judge(const GradientTensors &actual, Strictness strictness) const {
    const auto &truth = truth_;
    const auto &plain = plain_;
    const auto whole = [](const auto &t, const auto &p) { return Expected{t.values, p.values, t.magnitudes}; };
    const auto check = [&](const char *name, const auto &gradient, const Expected &expected) {
      judge_gradient(name, gradient, expected, roundings_, strictness);
    };
    check("query", actual.query, whole(truth.query, plain.query));
    check("key", actual.key, whole(truth.key, plain.key));
    check("value", actual.value, whole(truth.value, plain.value));
    if (actual.bias) {
      const Shape &shape = actual.bias->shape();
      check("bias", *actual.bias,
            {reduce(problem_, truth.bias.values, shape), reduce(problem_, plain.bias.values, shape),
             reduce(problem_, truth.bias.magnitudes, shape)});
    }
    if (actual.alibi_slopes) {
      check("slopes", *actual.alibi_slopes, whole(truth.alibi_slopes, plain.alibi_slopes));
    }
    if (actual.query_weight) check("query_weight", *actual.query_weight, whole(truth.query_weight, plain.query_weight));
    if (actual.key_weight) check("key_weight", *actual.key_weight, whole(truth.key_weight, plain.key_weight));
    if (actual.weight) check("weight", *actual.weight, whole(truth.weight, plain.weight));
    if (actual.score_bias) check("score_bias", *actual.score_bias, whole(truth.score_bias, plain.score_bias));
    if (actual.score_vector) check("score_vector", *actual.score_vector, whole(truth.score_vector, plain.score_vector));
    if (actual.sinks) check("sinks", *actual.sinks, whole(truth.sinks, plain.sinks));
    if (actual.sigmas && problem_.score->sigmas) {
      check("sigmas", *actual.sigmas, whole(truth.sigmas, plain.sigmas));
    } else if (actual.sigmas) {
      check("sigma", *actual.sigmas,
            {total(truth.sigmas.values), total(plain.sigmas.values), total(truth.sigmas.magnitudes)});
    }
  }

 private:
  const AttentionProblem &problem_;
  reference::AttentionGradients<double> truth_;
  reference::AttentionGradients<float> plain_;
  double roundings_ = 0;
};

}  // namespace

reference::OutputGradients output_gradients(const AttentionProblem &problem, const GradientTensors &given) {
  reference::OutputGradients reaching;
  reaching.out = given.out.dense();
  if (given.log_sum_exp) reaching.log_sum_exp = given.log_sum_exp->dense();
  if (given.weights) reaching.weights = given.weights->dense();
  reaching.averaged = (problem.flags & FOVEA_AVERAGE_WEIGHTS) != 0;
  return reaching;
}

GradientTensors make_gradients(AttentionProblem &problem, Random &random, bool of_log_sum_exp, bool of_weights) {
  problem.want_log_sum_exp = true;
  const AttentionResult result = problem.make_result(of_weights);
  GradientTensors gradients;
  gradients.out = normal_like(result.out, random);
  if (of_log_sum_exp) gradients.log_sum_exp = normal_like(*result.log_sum_exp, random);
  if (of_weights) gradients.weights = normal_like(*result.weights, random);
  gradients.query = like(problem.query);
  gradients.key = like(problem.key);
  gradients.value = like(problem.value);
  if (problem.bias) gradients.bias.emplace(problem.bias->shape());
  gradients.alibi_slopes = like(problem.alibi_slopes);
  gradients.sinks = like(problem.sinks);
  if (problem.score) {
    gradients.query_weight = like(problem.score->query_weight);
    gradients.key_weight = like(problem.score->key_weight);
    gradients.weight = like(problem.score->weight);
    gradients.score_bias = like(problem.score->bias);
    gradients.score_vector = like(problem.score->score_vector);
  }
  if (problem.score && problem.score->kind == FOVEA_SCORE_GAUSSIAN) {
    gradients.sigmas.emplace(Shape{problem.score->sigmas ? problem.sizes.heads : 1});
  }
  return gradients;
}

GradientTensors unwritten(const GradientTensors &gradients) {
  GradientTensors fresh;
  fresh.out = copy_of(gradients.out);
  if (gradients.log_sum_exp) fresh.log_sum_exp = copy_of(*gradients.log_sum_exp);
  if (gradients.weights) fresh.weights = copy_of(*gradients.weights);
  fresh.query = like(gradients.query);
  fresh.key = like(gradients.key);
  fresh.value = like(gradients.value);
  fresh.bias = like(gradients.bias);
  fresh.alibi_slopes = like(gradients.alibi_slopes);
  fresh.sinks = like(gradients.sinks);
  fresh.query_weight = like(gradients.query_weight);
  fresh.key_weight = like(gradients.key_weight);
  fresh.weight = like(gradients.weight);
  fresh.score_bias = like(gradients.score_bias);
  fresh.score_vector = like(gradients.score_vector);
  fresh.sigmas = like(gradients.sigmas);
  return fresh;
}

GradientArguments::GradientArguments(const GradientTensors &tensors)
    : out(tensors.out.view()), query(tensors.query.view()), key(tensors.key.view()), value(tensors.value.view()) {
  gradients.struct_size = sizeof gradients;
  gradients.out = &out;
  gradients.log_sum_exp = describe(tensors.log_sum_exp, log_sum_exp);
  gradients.weights = describe(tensors.weights, weights);
  gradients.query = &query;
  gradients.key = &key;
  gradients.value = &value;
  gradients.bias = describe(tensors.bias, bias);
  gradients.alibi_slopes = describe(tensors.alibi_slopes, alibi_slopes);
  gradients.sinks = describe(tensors.sinks, sinks);
  gradients.query_weight = describe(tensors.query_weight, query_weight);
  gradients.key_weight = describe(tensors.key_weight, key_weight);
  gradients.weight = describe(tensors.weight, weight);
  gradients.score_bias = describe(tensors.score_bias, score_bias);
  gradients.score_vector = describe(tensors.score_vector, score_vector);
  gradients.sigmas = describe(tensors.sigmas, sigmas);
}

fovea_attention_buffers buffers_of(const AttentionArguments &forward, const GradientArguments &backward) {
  fovea_attention_buffers buffers = buffers_of(forward);
  buffers.grad_out = backward.out.data;
  buffers.grad_log_sum_exp = backward.log_sum_exp.data;
  buffers.grad_weights = backward.weights.data;
  buffers.grad_query = backward.query.data;
  buffers.grad_key = backward.key.data;
  buffers.grad_value = backward.value.data;
  buffers.grad_bias = backward.bias.data;
  buffers.grad_alibi_slopes = backward.alibi_slopes.data;
  buffers.grad_sinks = backward.sinks.data;
  buffers.grad_query_weight = backward.query_weight.data;
  buffers.grad_key_weight = backward.key_weight.data;
  buffers.grad_weight = backward.weight.data;
  buffers.grad_score_bias = backward.score_bias.data;
  buffers.grad_score_vector = backward.score_vector.data;
  buffers.grad_sigmas = backward.sigmas.data;
  return buffers;
}

fovea_status run_backward(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result,
                          const GradientTensors &gradients) {
  const AttentionArguments forward(problem, result);
  const GradientArguments backward(gradients);
  return fovea_attention_backward(context, forward.score ? &forward.score->score : nullptr, &forward.query,
                                  &forward.key, &forward.value, &forward.out, &forward.options, &backward.gradients);
}

bool same_bits(const GradientTensors &a, const GradientTensors &b) {
  const auto same = [](const std::optional<Tensor<float>> &x, const std::optional<Tensor<float>> &y) {
    return !x || same_bits(*x, *y);
  };
  return same_bits(a.query, b.query) && same_bits(a.key, b.key) && same_bits(a.value, b.value) &&
         same(a.bias, b.bias) && same(a.alibi_slopes, b.alibi_slopes) && same(a.sinks, b.sinks) &&
         same(a.query_weight, b.query_weight) && same(a.key_weight, b.key_weight) && same(a.weight, b.weight) &&
         same(a.score_bias, b.score_bias) && same(a.score_vector, b.score_vector) && same(a.sigmas, b.sigmas);
}

void check_gradients(AttentionProblem &problem, const GradientTensors &gradients, Strictness strictness) {
  const std::string what = problem.describe();
  CAPTURE(what);
  const Judge judge(problem, gradients);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = problem.make_result(false);
    REQUIRE_OK(problem.run(context, result));
    const GradientTensors actual = unwritten(gradients);
    REQUIRE_OK(run_backward(context, problem, result, actual));
    judge.judge(actual, strictness);
  });
}

void judge_gradients(const AttentionProblem &problem, const GradientTensors &given, const GradientTensors &actual) {
  Judge(problem, given).judge(actual, Strictness::floor);
}

}  // namespace testing
