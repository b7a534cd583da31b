// The checks of a score function's parameters: which of them a kind takes, their sizes, their values.
#include <cinttypes>
#include <cmath>

#include "ops/attention/call.hpp"

namespace fovea {
namespace {

constexpr int64_t most_units = 65536;

enum class Need { absent, optional, required };

struct Kind {
  const char *name;
  Need need[score_operand_count];  // query_weight, key_weight, weight, bias, score_vector, sigmas
};

const Kind &kind_of(const AttentionCall &call) {
  constexpr Need no = Need::absent, may = Need::optional, yes = Need::required;
  static constexpr Kind kinds[] = {{"FOVEA_SCORE_DOT", {no, no, no, no, no, no}},
                                   {"FOVEA_SCORE_BILINEAR", {no, no, yes, no, no, no}},
                                   {"FOVEA_SCORE_ADDITIVE", {yes, yes, no, no, yes, no}},
                                   {"FOVEA_SCORE_CONCAT", {no, no, yes, may, yes, no}},
                                   {"FOVEA_SCORE_GAUSSIAN", {no, no, no, no, no, may}}};
  return kinds[call.score.kind];
}

Status check_presence(const AttentionCall &call) {
  const Kind &kind = kind_of(call);
  for (int operand = first_score_operand; operand <= last_score_operand; ++operand) {
    const Need need = kind.need[operand - first_score_operand];
    if (call.present[operand] && need == Need::absent) {
      return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s does not take it", operand_name(call, operand),
                  kind.name);
    }
    if (!call.present[operand] && need == Need::required) {
      return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a tensor: %s needs it", operand_name(call, operand),
                  kind.name);
    }
  }
  return FOVEA_OK;
}

Status check_sigma(const AttentionCall &call) {
  const float sigma = call.score.sigma;
  if (call.score.kind == FOVEA_SCORE_GAUSSIAN && !call.present[sigmas_operand]) {
    if (std::isfinite(sigma) && sigma > 0.0f) return FOVEA_OK;
    return fail(FOVEA_BAD_VALUE, "score.sigma is %g, expected a finite number above 0", static_cast<double>(sigma));
  }
  if (sigma == 0.0f) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "score.sigma is %g, expected 0: %s", static_cast<double>(sigma),
              call.score.kind == FOVEA_SCORE_GAUSSIAN ? "sigmas is given" : "the score function does not take it");
}

// A parameter of two axes or one, of the given sizes; -1 stands for any number of hidden units.
Status check_parameter(const AttentionCall &call, int operand, int64_t first, int64_t second, const char *why) {
  if (!call.present[operand]) return FOVEA_OK;
  const fovea_tensor &tensor = call.tensor[operand];
  const int rank = second < 0 ? 1 : 2;
  const char *name = operand_name(call, operand);
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(call, operand, rank, rank)));
  FOVEA_CHECK(check_size(tensor, name, 0, first, why));
  return rank == 1 ? FOVEA_OK : check_size(tensor, name, 1, second, why);
}

Status check_hidden(const AttentionCall &call, const AttentionSizes &sizes) {
  const fovea_tensor &vector = call.tensor[score_vector_operand];
  const TensorRule rule = operand_rule(call, score_vector_operand, 1, 1);
  FOVEA_CHECK(check_tensor(&vector, rule));
  const int64_t units = vector.shape[0];
  FOVEA_CHECK(expect_size_in(rule.name, "hidden units", units, 1, most_units));
  const char *why = "hidden units of score_vector, size of query and key";
  if (call.score.kind == FOVEA_SCORE_CONCAT) {
    FOVEA_CHECK(check_parameter(call, weight_operand, units, sizes.head_dim + sizes.key_dim, why));
    return check_parameter(call, score_bias_operand, units, -1, why);
  }
  FOVEA_CHECK(check_parameter(call, query_weight_operand, units, sizes.head_dim,
                              "hidden units of score_vector, size of query"));
  return check_parameter(call, key_weight_operand, units, sizes.key_dim, "hidden units of score_vector, size of key");
}

}  // namespace

Status read_score(const fovea_score *score, AttentionCall *call) {
  FOVEA_CHECK(read_options("score", score, &call->score));
  if (call->score.kind < FOVEA_SCORE_DOT || call->score.kind > FOVEA_SCORE_GAUSSIAN) {
    return fail(FOVEA_BAD_VALUE, "score.kind is %d, expected %d to %d", call->score.kind, FOVEA_SCORE_DOT,
                FOVEA_SCORE_GAUSSIAN);
  }
  for (int operand = first_score_operand; operand <= last_score_operand; ++operand) {
    const fovea_tensor *tensor = operand_rows[operand].tensor_of(call->score);
    call->present[operand] = tensor != nullptr;
    if (tensor != nullptr) call->tensor[operand] = *TensorArgument(tensor);
  }
  return FOVEA_OK;
}

Status check_score(const AttentionCall &call, const AttentionSizes &sizes) {
  FOVEA_CHECK(check_presence(call));
  FOVEA_CHECK(check_sigma(call));
  switch (call.score.kind) {
    case FOVEA_SCORE_BILINEAR:
      return check_parameter(call, weight_operand, sizes.head_dim, sizes.key_dim, "size of query, size of key");
    case FOVEA_SCORE_ADDITIVE:
    case FOVEA_SCORE_CONCAT: return check_hidden(call, sizes);
    default: return check_parameter(call, sigmas_operand, sizes.heads, -1, "the number of query heads");
  }
}

Status check_score_data(const AttentionCall &call) {
  if (!call.present[sigmas_operand]) return FOVEA_OK;
  const fovea_tensor &sigmas = call.tensor[sigmas_operand];
  const int64_t widths = sigmas.strides[0] == 0 ? min_of(sigmas.shape[0], 1) : sigmas.shape[0];
  for (int64_t head = 0; head < widths; ++head) {
    const float sigma = static_cast<const float *>(sigmas.data)[head * sigmas.strides[0]];
    if (std::isfinite(sigma) && sigma > 0.0f) continue;
    return fail(FOVEA_BAD_VALUE, "%s[%" PRId64 "] is %g, expected a finite number above 0",
                operand_name(call, sigmas_operand), head, static_cast<double>(sigma));
  }
  return FOVEA_OK;
}

}  // namespace fovea
