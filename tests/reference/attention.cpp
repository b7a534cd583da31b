// The formula of attention, out = softmax(score) value, one query at a time.
//
// score(i, j) = softcap * tanh(scale * raw(i, j) / softcap) + bias(i, j) - slope * |position(i) - j|,
// raw(i, j) from the score function, in scores.cpp
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "reference.hpp"
#include "sums.hpp"

namespace reference {
namespace {

// Scores whose weights are smaller than this part of the row's largest do not count for its accuracy, however large
// they are. The largest is that of a key which is not dropped: a sink or a dropped key may hold all but 1e-20 of the
// weight, and the output is made of the rest.
constexpr float kLeastWeight = 0x1p-24f;

// What judges float32 is known in float64.
template <typename Real>
constexpr bool kJudges = std::is_same_v<Real, double>;

template <typename Real>
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

// Where query 0 of a batch entry stands among the keys.
int64_t first_position(const AttentionInputs &in, int64_t b) {
  if (in.query_offsets) return (*in.query_offsets)[b];
  if (in.query_offset) return *in.query_offset;
  return in.top_left || in.key_len < in.query_len ? 0 : in.key_len - in.query_len;
}

// One query of one head.
struct Row {
  int64_t b, h, i;
};

int64_t score_index(const AttentionInputs &in, Row row, int64_t j) {
  return ((row.b * in.heads + row.h) * in.query_len + row.i) * in.key_len + j;
}

template <typename Real>
Real scale_of(const AttentionInputs &in) {
  if (in.scale != 0 || in.scale_given) return Real(in.scale);
  return in.score.kind == ScoreKind::kDot ? 1 / std::sqrt(Real(in.query_dim)) : Real(1);
}

template <typename Real>
Real score(const AttentionInputs &in, const RawScores<Real> &raw, Row row, int64_t j) {
  Real result = raw.values[score_index(in, row, j)] * scale_of<Real>(in);
  if (in.softcap != 0) result = Real(in.softcap) * std::tanh(result / Real(in.softcap));
  if (in.bias) result += Real((*in.bias)[score_index(in, row, j)]);
  if (in.alibi_slopes) {
    result -= Real((*in.alibi_slopes)[row.h]) * Real(std::llabs(first_position(in, row.b) + row.i - j));
  }
  return result;
}

template <typename Real>
struct RowWeights {
  std::vector<Real> weights;  // [K]
  std::vector<bool> read;     // [K]: values that take part in the sum
  Real log_sum_exp;
  std::vector<Real> factors = std::vector<Real>(weights.size(), 1);  // [K]: dropout's
  double score_allowance = 0;
  double score_size = 0;

  std::vector<int64_t> keys = {};  // those that are read
  std::vector<Real> kept = {};     // [K]: weights after dropout
  Real rest = 0;                   // what the weights of the keys leave to the sink
  bool all_nan = false;
};

template <typename Real>
RowWeights<Real> empty_row(const AttentionInputs &in) {
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
RowWeights<Real> row_weights(const AttentionInputs &in, const RawScores<Real> &raw, Row row, Real &largest_score,
                             bool &empty) {
  RowWeights<Real> result{std::vector<Real>(in.key_len, 0), attended_keys(in, row.b, row.h, row.i), 0};
  std::vector<Real> scores(in.key_len, -kInfinity<Real>);
  Real row_max = in.sinks ? Real((*in.sinks)[row.h]) : -kInfinity<Real>;
  if (std::isfinite(row_max)) largest_score = std::max(largest_score, std::abs(row_max));
  bool has_nan = false;
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (!result.read[j]) continue;
    scores[j] = score(in, raw, row, j);
    has_nan = has_nan || std::isnan(scores[j]);
    row_max = std::max(row_max, scores[j]);
  }
  if (row_max == -kInfinity<Real> && !has_nan) {
    // A sink of -infinity still keeps its row from being empty.
    empty = !in.sinks;
    RowWeights<Real> nothing{std::vector<Real>(in.key_len, 0), std::vector<bool>(in.key_len, false), -kInfinity<Real>};
    return empty ? empty_row<Real>(in) : nothing;
  }
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (result.read[j] && scores[j] != -kInfinity<Real>) result.weights[j] = std::exp(scores[j] - row_max);
  }
  const Real sink = in.sinks ? std::exp(Real((*in.sinks)[row.h]) - row_max) : 0;
  const Real sum = sink + sum_of<Real>(in.order, 0, in.key_len, [&](int64_t j) { return result.weights[j]; });
  Real most = 0;
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (in.dropout.probability != 0) {
      result.factors[j] = dropped(in.dropout, row.b, row.h, row.i, j) ? 0 : 1 / (1 - Real(in.dropout.probability));
    }
    if (!result.read[j]) continue;
    // A score of -infinity has a weight of 0 even in a row of NaN.
    if (scores[j] != -kInfinity<Real>) result.weights[j] /= sum;
    if (result.factors[j] != 0) most = std::max(most, result.weights[j]);
  }
  if (in.sinks && std::isfinite(row_max)) result.score_size = std::abs(double(row_max));
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (!result.read[j] || !(result.weights[j] > 0 && result.weights[j] >= Real(kLeastWeight) * most)) continue;
    largest_score = std::max(largest_score, std::abs(scores[j]));
    result.score_size = std::max(result.score_size, std::abs(double(scores[j])));
    const double allowance = raw.allowances[score_index(in, row, j)] * std::abs(double(scale_of<Real>(in)));
    result.score_allowance = std::max(result.score_allowance, allowance);
  }
  result.log_sum_exp = row_max == kInfinity<Real> ? row_max : row_max + std::log(sum);  // where the sum is inf / inf
  return result;
}

template <typename Real>
RowWeights<Real> finished_row(const AttentionInputs &in, const RawScores<Real> &raw, Row at, Real &largest_score) {
  bool empty = false;
  RowWeights<Real> row = row_weights<Real>(in, raw, at, largest_score, empty);
  row.all_nan = empty && in.empty_rows == EmptyRows::kNan;
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (row.read[j]) row.keys.push_back(j);
    // A weight that is dropped is 0, even if it was NaN.
    row.kept.push_back(row.factors[j] == 0 ? 0 : row.weights[j] * row.factors[j]);
  }
  const Real of_keys = sum_of<Real>(in.order, 0, static_cast<int64_t>(row.keys.size()),
                                    [&](int64_t n) { return row.weights[row.keys[n]]; });
  row.rest = std::max(1 - of_keys, Real(0));
  return row;
}

// Some features of all values of a head, from `first` on, zeros behind the last: [K].
template <typename Real>
std::vector<Several<Real>> features_of_values(const AttentionInputs &in, int64_t b, int64_t h, int64_t first) {
  const int64_t kv_head = h / (in.heads / in.kv_heads);
  const float *values = in.value.data() + (b * in.kv_heads + kv_head) * in.key_len * in.value_dim + first;
  const int64_t count = std::min(Several<Real>::kCount, in.value_dim - first);
  std::vector<Several<Real>> some(in.key_len);
  for (int64_t j = 0; j < in.key_len; ++j) {
    for (int64_t c = 0; c < count; ++c) some[j].at[c] = Real(values[j * in.value_dim + c]);
  }
  return some;
}

// A row of the output and what judges it, of some features; at: where the first of them stands.
template <typename Real>
void set_values(const AttentionInputs &in, const std::vector<Several<Real>> &values, const RowWeights<Real> &row,
                int64_t at, int64_t features, AttentionOutputs<Real> &outputs) {
  using Some = Several<Real>;
  const auto over_keys = [&](const auto &term) {
    return sum_of<Some>(in.order, 0, static_cast<int64_t>(row.keys.size()), [&](int64_t n) {
      const int64_t j = row.keys[n];
      return term(j, values[j]);
    });
  };
  const Some sum = over_keys([&](int64_t j, const Some &value) { return row.kept[j] * value; });
  for (int64_t c = 0; c < features; ++c) {
    outputs.out[at + c] = row.all_nan ? std::numeric_limits<Real>::quiet_NaN() : sum.at[c];
  }
  if constexpr (kJudges<Real>) {
    const Some magnitude = over_keys([&](int64_t j, const Some &value) { return row.kept[j] * abs(value); });
    const Some deviation =
        over_keys([&](int64_t j, const Some &value) { return row.weights[j] * abs(row.factors[j] * value - sum); });
    for (int64_t c = 0; c < features; ++c) {
      outputs.weighted_magnitude[at + c] = magnitude.at[c];
      outputs.deviation[at + c] = row.rest * std::abs(sum.at[c]) + deviation.at[c];
    }
  }
}

template <typename Real>
void append_weights(const AttentionInputs &in, Row at, const RowWeights<Real> &row, AttentionOutputs<Real> &outputs) {
  outputs.log_sum_exp.push_back(row.log_sum_exp);
  outputs.score_allowance.push_back(row.score_allowance);
  outputs.score_size.push_back(row.score_size);
  outputs.softmax.insert(outputs.softmax.end(), row.weights.begin(), row.weights.end());
  outputs.weights.insert(outputs.weights.end(), row.kept.begin(), row.kept.end());
  for (int64_t j = 0; j < in.key_len; ++j) {
    outputs.average_weights[(at.b * in.query_len + at.i) * in.key_len + j] += row.kept[j] / Real(in.heads);
  }
}

}  // namespace

std::vector<bool> attended_keys(const AttentionInputs &in, int64_t b, int64_t h, int64_t i) {
  const Row row{b, h, i};
  const int64_t left_out = i + (in.query_offsets ? (*in.query_offsets)[b] : in.query_offset.value_or(0));
  const int64_t position = first_position(in, b) + i;
  std::vector<bool> attended(in.key_len, true);
  for (int64_t j = 0; j < in.key_len; ++j) {
    if (in.valid_lens && j >= (*in.valid_lens)[b * in.query_len + i]) attended[j] = false;
    if (in.mask && (*in.mask)[score_index(in, row, j)] == 0) attended[j] = false;
    if (in.bias && (*in.bias)[score_index(in, row, j)] == -kInfinity<float>) attended[j] = false;
    if (in.causal && j > position) attended[j] = false;
    // Not position - window_left: the window may be as wide as int64 goes.
    if (in.window_left && position - j > *in.window_left) attended[j] = false;
    if (in.window_right && j - position > *in.window_right) attended[j] = false;
    if (in.leave_one_out && j == left_out) attended[j] = false;
  }
  return attended;
}

template <typename Real>
AttentionOutputs<Real> attention(const AttentionInputs &in, const RawScores<Real> &raw) {
  AttentionOutputs<Real> outputs;
  outputs.average_weights.assign(in.batch * in.query_len * in.key_len, 0);
  for (std::vector<Real> *rows : {&outputs.out, &outputs.weighted_magnitude, &outputs.deviation}) {
    rows->resize(in.batch * in.heads * in.query_len * in.value_dim);
  }
  for (int64_t b = 0; b < in.batch; ++b) {
    for (int64_t h = 0; h < in.heads; ++h) {
      std::vector<RowWeights<Real>> rows;
      for (int64_t i = 0; i < in.query_len; ++i) {
        rows.push_back(finished_row<Real>(in, raw, {b, h, i}, outputs.largest_score));
        append_weights(in, {b, h, i}, rows.back(), outputs);
      }
      for (int64_t first = 0; first < in.value_dim; first += Several<Real>::kCount) {
        const std::vector<Several<Real>> values = features_of_values<Real>(in, b, h, first);
        const int64_t count = std::min(Several<Real>::kCount, in.value_dim - first);
        for (int64_t i = 0; i < in.query_len; ++i) {
          const int64_t at = ((b * in.heads + h) * in.query_len + i) * in.value_dim + first;
          set_values(in, values, rows[i], at, count, outputs);
        }
      }
    }
  }
  return outputs;
}

template <typename Real>
AttentionOutputs<Real> attention(const AttentionInputs &in) {
  return attention(in, raw_scores<Real>(in));
}

template AttentionOutputs<float> attention<float>(const AttentionInputs &, const RawScores<float> &);
template AttentionOutputs<double> attention<double>(const AttentionInputs &, const RawScores<double> &);
template AttentionOutputs<float> attention<float>(const AttentionInputs &);
template AttentionOutputs<double> attention<double>(const AttentionInputs &);

}  // namespace reference
