// Tensors for the projections that additive and concat attention keeps for its backward pass, and calls with them.
#pragma once

#include "gradient_problem.hpp"

namespace testing {

enum class Kept { both, query, key };

// In the layout of the problem's own queries and keys, whatever they are: B,L,H,units with gaps where these have some.
struct KeptProjections {
  Kept which;
  Tensor<float> query, key;

  explicit KeptProjections(const AttentionProblem &problem, Kept some = Kept::both)
      : which(some), query(like(problem.query, units_of(problem))), key(like(problem.key, units_of(problem))) {}

  fovea_status attend(const fovea_context *context, const AttentionProblem &problem,
                      const AttentionResult &result) const;
  fovea_status go_back(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result,
                       const GradientTensors &gradients) const;

  // NaN in the keys' rows for which unattended(index) is true.
  template <typename Unattended>
  void poison_unattended(const Unattended &unattended) const {
    key.memory().thaw();
    for_each_index(key.shape(), [&](const Shape &at) {
      if (unattended(at)) key.at(at) = kNan;
    });
  }

 private:
  static int64_t units_of(const AttentionProblem &problem) { return problem.score->score_vector->shape()[0]; }

  static Tensor<float> like(const Tensor<float> &rows, int64_t units) {
    Shape shape = rows.shape();
    shape.back() = units;
    const bool has_gaps = rows.strides() != contiguous_strides(rows.shape());
    if (!has_gaps) return Tensor<float>(shape);
    std::vector<int> order;
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) order.push_back(axis);
    if (order.size() == 4) std::swap(order[1], order[2]);
    return Tensor<float>(shape, permuted_strides(shape, order, 5));
  }
};

// Gives a call's options the tensors; must outlive the call.
struct KeptArguments {
  KeptArguments(const KeptProjections &kept, fovea_attention_options &options)
      : KeptArguments(kept, options, kept.which) {}
  KeptArguments(const KeptProjections &kept, fovea_attention_options &options, Kept which)
      : query(kept.query.view()), key(kept.key.view()) {
    if (which != Kept::key) options.projected_query = &query;
    if (which != Kept::query) options.projected_key = &key;
  }
  KeptArguments(const KeptArguments &) = delete;
  KeptArguments &operator=(const KeptArguments &) = delete;

  fovea_tensor query, key;
};

inline fovea_status KeptProjections::attend(const fovea_context *context, const AttentionProblem &problem,
                                            const AttentionResult &result) const {
  AttentionArguments forward(problem, result);
  const KeptArguments its(*this, forward.options);
  return forward.run(context);
}

inline fovea_status KeptProjections::go_back(const fovea_context *context, const AttentionProblem &problem,
                                             const AttentionResult &result, const GradientTensors &gradients) const {
  AttentionArguments forward(problem, result);
  const KeptArguments its(*this, forward.options);
  const GradientArguments backward(gradients);
  query.memory().freeze();
  key.memory().freeze();
  const fovea_status status =
      fovea_attention_backward(context, &forward.score->score, &forward.query, &forward.key, &forward.value,
                               &forward.out, &forward.options, &backward.gradients);
  query.memory().thaw();
  key.memory().thaw();
  return status;
}

}  // namespace testing
