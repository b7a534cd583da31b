// The gradients of an attention problem: what reaches its outputs, what is wanted of its inputs, and the judgment of
// these by the reference.
#pragma once

#include <map>

#include "attention_problem.hpp"
#include "gradients.hpp"

namespace testing {

struct GradientTensors {
  Tensor<float> out;
  std::optional<Tensor<float>> log_sum_exp, weights;
  Tensor<float> query, key, value;
  std::optional<Tensor<float>> bias, alibi_slopes, sinks, query_weight, key_weight, weight, score_bias, score_vector,
      sigmas;
};

// Normal numbers reach the outputs, all gradients that the problem has are wanted. problem.want_log_sum_exp becomes
// true.
GradientTensors make_gradients(AttentionProblem &problem, Random &random, bool of_log_sum_exp = false,
                               bool of_weights = false);

// What reaches the problem's outputs, for the reference.
reference::OutputGradients output_gradients(const AttentionProblem &problem, const GradientTensors &given);

// Fresh outputs of the same layouts, the same inputs.
GradientTensors unwritten(const GradientTensors &gradients);

// The descriptors of a call, pointing into the tensors; they must outlive it.
struct GradientArguments {
  explicit GradientArguments(const GradientTensors &tensors);
  GradientArguments(const GradientArguments &) = delete;
  GradientArguments &operator=(const GradientArguments &) = delete;

  fovea_tensor out{}, log_sum_exp{}, weights{}, query{}, key{}, value{}, bias{}, alibi_slopes{}, sinks{},
      query_weight{}, key_weight{}, weight{}, score_bias{}, score_vector{}, sigmas{};
  fovea_attention_gradients gradients{};
};

// The data pointers of a planned run, forward's and gradients'.
fovea_attention_buffers buffers_of(const AttentionArguments &forward, const GradientArguments &backward);

// fovea_attention_backward of the problem, whose forward result is `result`.
fovea_status run_backward(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result,
                          const GradientTensors &gradients);

bool same_bits(const GradientTensors &a, const GradientTensors &b);

enum class Strictness { floor, no_floor };

// Forward and backward on every instruction set, judged: each gradient at most twice as far off as a plain float32
// evaluation or some roundings of what is added up, and nothing written outside the elements. Without a floor gradients
// of many elements are judged by the plain evaluation alone (judge_closely).
void check_gradients(AttentionProblem &problem, const GradientTensors &gradients,
                     Strictness strictness = Strictness::floor);

// The same of gradients that came about in some other way.
void judge_gradients(const AttentionProblem &problem, const GradientTensors &given, const GradientTensors &actual);

}  // namespace testing
