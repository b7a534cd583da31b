// Poisoned keys and values: NaN, infinity and numbers whose sums overflow, where a mask should keep them from the
// result.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "attention_problem.hpp"
#include "contexts.hpp"
#include "tensor.hpp"

namespace testing {

// Spoils the key and value rows for which poisoned(b, j) holds.
template <typename Poisoned>
void poison(AttentionProblem &problem, Poisoned poisoned) {
  const float bad[] = {kNan, kInfinity, -kInfinity, 3e38f};
  for (const Tensor<float> *tensor : {&problem.key, &problem.value}) {
    tensor->memory().thaw();
    int n = 0;
    for_each_index(tensor->shape(), [&](const Shape &at) {
      if (poisoned(at[0], at[2])) tensor->at(at) = bad[n++ % 4];
    });
  }
}

// The problem with poison behind its masks gives the same bits as without.
template <typename Poisoned>
void check_poison(AttentionProblem &problem, Poisoned poisoned) {
  const std::vector<float> key = problem.key.dense(), value = problem.value.dense();
  const std::string what = problem.describe();
  CAPTURE(what);
  for_each_isa([&](const fovea_context *context) {
    for (bool weights : {false, true}) {
      CAPTURE(weights);
      const AttentionResult clean = problem.make_result(weights), spoiled = problem.make_result(weights);
      REQUIRE_OK(problem.run(context, clean));
      poison(problem, poisoned);
      REQUIRE_OK(problem.run(context, spoiled));
      CHECK(same_bits(clean, spoiled));
      problem.key.assign(key);
      problem.value.assign(value);
    }
  });
}

}  // namespace testing
