// out = softmax(score) value, one query at a time.
//
// score(i, j) = softcap * tanh(scale * q_i . k_j / softcap) + bias(i, j) - slope * |position(i) - j|
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference.hpp"

namespace reference {
namespace {

template <typename Real>
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

// Where query 0 stands among the keys.
int64_t first_position(const SdpaInputs &in) {
  if (in.query_offset) return *in.query_offset;
  return in.top_left || in.key_len < in.query_len ? 0 : in.key_len - in.query_len;
}

// One query of one head.
struct Row {
  int64_t b, h, i;
};

int64_t score_index(const SdpaInputs &in, Row row, int64_t j) {
  return ((row.b * in.heads + row.h) * in.query_len + row.i) * in.key_len + j;
}

template <typename Real>
Real score(const SdpaInputs &in, Row row, int64_t j) {
  const int64_t kv_head = row.h / (in.heads / in.kv_heads);
  const float *q = in.query.data() + ((row.b * in.heads + row.h) * in.query_len + row.i) * in.head_dim;
  const float *k = in.key.data() + ((row.b * in.kv_heads + kv_head) * in.key_len + j) * in.head_dim;
  Real dot = 0;
  for (int64_t d = 0; d < in.head_dim; ++d) dot += Real(q[d]) * Real(k[d]);
  Real result = dot * (in.scale == 0 ? 1 / std::sqrt(Real(in.head_dim)) : Real(in.scale));
  if (in.softcap != 0) result = Real(in.softcap) * std::tanh(result / Real(in.softcap));
  if (in.bias) result += Real((*in.bias)[score_index(in, row, j)]);
  if (in.alibi_slopes) {
    result -= Real((*in.alibi_slopes)[row.h]) * Real(std::llabs(first_position(in) + row.i - j));
  }
  return result;
}

template <typename Real>
struct RowWeights {
  std::vector<Real> weights;  // [K]
  std::vector<bool> read;     // [K]: values that take part in the sum
  Real log_sum_exp;
};

template <typename Real>
RowWeights<Real> empty_row(const SdpaInputs &in) {
  RowWeights<Real> row{std::vector<Real>(in.key_len, 0), std::vector<bool>(in.key_len, false), -kInfinity<Real>};
  if (in.empty_rows == EmptyRows::kUniform && in.key_len > 0) {
    row.weights.assign(in.key_len, 1 / Real(in.key_len));
    row.read.assign(in.key_len, true);
    row.log_sum_exp = Real(-1e6) + std::log(Real(in.key_len));
  }
  if (in.empty_rows == EmptyRows::kNan) row.weights.assign(in.key_len, std::numeric_limits<Real>::quiet_NaN());
  return row;
}

template <typename Real>
RowWeights<Real> row_weights(const SdpaInputs &in, Row row, Real &largest_score, bool &empty) {
  RowWeights<Real> result{std::vector<Real>(in.key_len, 0), attended_keys(in, row.b, row.h, row.i), 0};
  std::vector<Real> scores(in.key_len, -kInfinity<Real>);
  Real row_max = in.sinks ? Real((*in.sinks)[row.h]) : -kInfinity<Real>;
  if (std::isfinite(row_max)) largest_score = std::max(largest_score, std::abs(row_max));
  bool has_nan = false;
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (!result.read[j]) continue;
    scores[j] = score<Real>(in, row, j);
    has_nan = has_nan || std::isnan(scores[j]);
    row_max = std::max(row_max, scores[j]);
    if (std::isfinite(scores[j])) largest_score = std::max(largest_score, std::abs(scores[j]));
  }
  if (row_max == -kInfinity<Real> && !has_nan) {
    // A sink of -infinity still keeps its row from being empty.
    empty = !in.sinks;
    RowWeights<Real> nothing{std::vector<Real>(in.key_len, 0), std::vector<bool>(in.key_len, false), -kInfinity<Real>};
    return empty ? empty_row<Real>(in) : nothing;
  }
  Real sum = in.sinks ? std::exp(Real((*in.sinks)[row.h]) - row_max) : 0;
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (!result.read[j]) continue;
    result.weights[j] = std::exp(scores[j] - row_max);
    sum += result.weights[j];
  }
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (result.read[j]) result.weights[j] /= sum;
  }
  result.log_sum_exp = row_max + std::log(sum);
  return result;
}

template <typename Real>
void append_row(const SdpaInputs &in, Row row, const RowWeights<Real> &weights, bool nan_row,
                SdpaOutputs<Real> &outputs) {
  const int64_t kv_head = row.h / (in.heads / in.kv_heads);
  const float *values = in.value.data() + (row.b * in.kv_heads + kv_head) * in.key_len * in.value_dim;
  for (int64_t d = 0; d < in.value_dim; ++d) {
    Real sum = 0, magnitude = 0;
    for (int64_t j = 0; j < in.key_len; ++j) {
      if (!weights.read[j]) continue;
      const Real value = values[j * in.value_dim + d];
      sum += weights.weights[j] * value;
      magnitude += weights.weights[j] * std::abs(value);
    }
    outputs.out.push_back(nan_row ? std::numeric_limits<Real>::quiet_NaN() : sum);
    outputs.weighted_magnitude.push_back(magnitude);
  }
  outputs.log_sum_exp.push_back(weights.log_sum_exp);
  outputs.weights.insert(outputs.weights.end(), weights.weights.begin(), weights.weights.end());
}

}  // namespace

std::vector<bool> attended_keys(const SdpaInputs &in, int64_t b, int64_t h, int64_t i) {
  const Row row{b, h, i};
  const int64_t position = first_position(in) + i;
  std::vector<bool> attended(in.key_len, true);
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (in.valid_lens && j >= (*in.valid_lens)[b * in.query_len + i]) attended[j] = false;
    if (in.mask && (*in.mask)[score_index(in, row, j)] == 0) attended[j] = false;
    if (in.bias && (*in.bias)[score_index(in, row, j)] == -kInfinity<float>) attended[j] = false;
    if (in.causal && j > position) attended[j] = false;
    // Not position - window_left: the window may be as wide as int64 goes.
    if (in.window_left && position - j > *in.window_left) attended[j] = false;
    if (in.window_right && j - position > *in.window_right) attended[j] = false;
    if (in.leave_one_out && j == i + in.query_offset.value_or(0)) attended[j] = false;
  }
  return attended;
}

template <typename Real>
SdpaOutputs<Real> sdpa(const SdpaInputs &in) {
  SdpaOutputs<Real> outputs;
  outputs.average_weights.assign(in.batch * in.query_len * in.key_len, 0);
  for (int64_t b = 0; b < in.batch; ++b) {
    for (int64_t h = 0; h < in.heads; ++h) {
      for (int64_t i = 0; i < in.query_len; ++i) {
        bool empty = false;
        const RowWeights<Real> row = row_weights<Real>(in, {b, h, i}, outputs.largest_score, empty);
        append_row(in, {b, h, i}, row, empty && in.empty_rows == EmptyRows::kNan, outputs);
        for (int64_t j = 0; j < in.key_len; ++j) {
          outputs.average_weights[(b * in.query_len + i) * in.key_len + j] += row.weights[j] / Real(in.heads);
        }
      }
    }
  }
  return outputs;
}

template SdpaOutputs<float> sdpa<float>(const SdpaInputs &);
template SdpaOutputs<double> sdpa<double>(const SdpaInputs &);

}  // namespace reference
