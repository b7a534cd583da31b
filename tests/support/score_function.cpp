#include "score_function.hpp"

#include <cmath>
#include <sstream>
#include <utility>

namespace testing {
namespace {

std::vector<float> dense_or_empty(const std::optional<Tensor<float>> &tensor) {
  return tensor ? tensor->dense() : std::vector<float>();
}

const fovea_tensor *view_or_null(const std::optional<Tensor<float>> &tensor, fovea_tensor &view) {
  if (!tensor) return nullptr;
  view = tensor->view();
  return &view;
}

}  // namespace

std::string score_name(int32_t kind) {
  switch (kind) {
    case FOVEA_SCORE_DOT: return "dot";
    case FOVEA_SCORE_BILINEAR: return "bilinear";
    case FOVEA_SCORE_ADDITIVE: return "additive";
    case FOVEA_SCORE_CONCAT: return "concat";
    case FOVEA_SCORE_GAUSSIAN: return "gaussian";
    default: return "kind " + std::to_string(kind);
  }
}

reference::Score ScoreFunction::reference_score(int64_t heads) const {
  reference::Score score;
  score.kind = static_cast<reference::ScoreKind>(kind);
  score.query_weight = dense_or_empty(query_weight);
  score.key_weight = dense_or_empty(key_weight);
  score.weight = dense_or_empty(weight);
  score.bias = dense_or_empty(bias);
  score.score_vector = dense_or_empty(score_vector);
  score.sigmas = sigmas ? sigmas->dense() : std::vector<float>(static_cast<size_t>(heads), sigma);
  return score;
}

std::vector<ScoreFunction::Parameter> ScoreFunction::parameters() {
  const std::pair<const char *, std::optional<Tensor<float>> *> all[] = {
      {"query_weight", &query_weight}, {"key_weight", &key_weight}, {"weight", &weight}, {"bias", &bias},
      {"score_vector", &score_vector}, {"sigmas", &sigmas}};
  std::vector<Parameter> present;
  for (const auto &[name, tensor] : all) {
    if (*tensor) present.push_back({name, &**tensor});
  }
  return present;
}

void ScoreFunction::freeze() const {
  for (const auto *tensor : {&query_weight, &key_weight, &weight, &bias, &score_vector, &sigmas}) {
    if (*tensor) (*tensor)->memory().freeze();
  }
}

std::string ScoreFunction::describe() const {
  std::ostringstream text;
  text << " score=" << score_name(kind);
  if (score_vector) text << " h=" << score_vector->count();
  if (sigma != 0) text << " sigma=" << sigma;
  if (sigmas) text << " sigmas";
  if (bias) text << " with bias";
  for (const auto *tensor : {&query_weight, &key_weight, &weight}) {
    if (!*tensor) continue;
    text << " strides";
    for (int64_t stride : (*tensor)->strides()) text << ' ' << stride;
  }
  return text.str();
}

ScoreFunction make_score(int32_t kind, int64_t query_dim, int64_t key_dim, int64_t hidden, Random &random) {
  ScoreFunction score;
  score.kind = kind;
  const auto make = [&random](std::optional<Tensor<float>> &tensor, const Shape &shape, double variance) {
    const auto deviation = static_cast<float>(std::sqrt(variance));
    tensor.emplace(shape).fill([&] { return random.normal() * deviation; });
  };
  const auto q = static_cast<double>(query_dim), k = static_cast<double>(key_dim), h = static_cast<double>(hidden);
  switch (kind) {
    case FOVEA_SCORE_BILINEAR: make(score.weight, {query_dim, key_dim}, 1 / (q * k)); break;
    case FOVEA_SCORE_ADDITIVE:
      make(score.query_weight, {hidden, query_dim}, 1 / q);
      make(score.key_weight, {hidden, key_dim}, 1 / k);
      make(score.score_vector, {hidden}, 2 / h);
      break;
    case FOVEA_SCORE_CONCAT:
      make(score.weight, {hidden, query_dim + key_dim}, 2 / (q + k));
      make(score.bias, {hidden}, 1);
      make(score.score_vector, {hidden}, 2 / h);
      break;
    case FOVEA_SCORE_GAUSSIAN: score.sigma = static_cast<float>(std::sqrt(q)); break;
    default: break;
  }
  return score;
}

Tensor<float> with_strides(const Tensor<float> &tensor, const Shape &strides) {
  return std::move(Tensor<float>(tensor.shape(), strides).assign(tensor.dense()));
}

ScoreArguments::ScoreArguments(const ScoreFunction &function) {
  score.struct_size = sizeof score;
  score.kind = function.kind;
  score.sigma = function.sigma;
  score.query_weight = view_or_null(function.query_weight, query_weight);
  score.key_weight = view_or_null(function.key_weight, key_weight);
  score.weight = view_or_null(function.weight, weight);
  score.bias = view_or_null(function.bias, bias);
  score.score_vector = view_or_null(function.score_vector, score_vector);
  score.sigmas = view_or_null(function.sigmas, sigmas);
}

void ScoreArguments::set_data(fovea_attention_buffers &buffers) const {
  buffers.query_weight = query_weight.data;
  buffers.key_weight = key_weight.data;
  buffers.weight = weight.data;
  buffers.score_bias = bias.data;
  buffers.score_vector = score_vector.data;
  buffers.sigmas = sigmas.data;
}

}  // namespace testing
