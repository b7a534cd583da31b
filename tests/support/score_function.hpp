// A score function with its parameters, as the tests hold it: tensors in guarded memory, of any strides.
#pragma once

#include <fovea/fovea.h>

#include <optional>
#include <string>
#include <vector>

#include "reference.hpp"
#include "tensor.hpp"

namespace testing {

inline constexpr int32_t kScoreKinds[] = {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE,
                                          FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN};

std::string score_name(int32_t kind);

// Has hidden units: additive or concat.
inline bool has_hidden(int32_t kind) { return kind == FOVEA_SCORE_ADDITIVE || kind == FOVEA_SCORE_CONCAT; }
// Takes queries and keys of different sizes.
inline bool takes_two_dims(int32_t kind) { return has_hidden(kind) || kind == FOVEA_SCORE_BILINEAR; }

struct ScoreFunction {
  int32_t kind = FOVEA_SCORE_DOT;
  float sigma = 0;
  std::optional<Tensor<float>> query_weight, key_weight, weight, bias, score_vector, sigmas;

  reference::Score reference_score(int64_t heads) const;
  void freeze() const;
  std::string describe() const;

  struct Parameter {
    std::string name;
    Tensor<float> *tensor;
  };
  // Those that are there, by the names they have in fovea_score.
  std::vector<Parameter> parameters();
};

// Parameters that give scores of about normal distribution to normal queries and keys of the given sizes. Concat gets a
// bias, Gaussian one sigma.
ScoreFunction make_score(int32_t kind, int64_t query_dim, int64_t key_dim, int64_t hidden, Random &random);

// The same elements at other strides.
Tensor<float> with_strides(const Tensor<float> &tensor, const Shape &strides);

// The score of a call, pointing into the function; it must outlive it.
struct ScoreArguments {
  ScoreArguments() = default;
  explicit ScoreArguments(const ScoreFunction &function);
  ScoreArguments(const ScoreArguments &) = delete;
  ScoreArguments &operator=(const ScoreArguments &) = delete;

  void set_data(fovea_attention_buffers &buffers) const;

  fovea_tensor query_weight{}, key_weight{}, weight{}, bias{}, score_vector{}, sigmas{};
  fovea_score score{};
};

}  // namespace testing
