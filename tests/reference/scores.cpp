// The formulas of score functions, before scale, soft-cap and masks:
//
//   dot        q . k                          additive   v . tanh(Wq q + Wk k)
//   bilinear   q^T W k                        concat     v . tanh(W [q; k] + b)
//   gaussian   -|q - k|^2 / (2 sigma^2)
//
// The projections are made once per query and per key, everything else for each pair. Beside each score stands what
// float32 may lose in it (see RawScores).
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "reference.hpp"
#include "sums.hpp"

namespace reference {
namespace {

constexpr double kRounding = 0x1p-24;           // of one float32 operation, relative
constexpr double kUnitRoundings = 4;            // of one tanh, of arguments up to 1 relative to them
constexpr double kProjectionRoundings = 2;      // a float32 sum of either order stays within, of its terms' magnitude
constexpr double kDifferenceRoundings = 4;      // of |q - k|^2 / (2 sigma^2): the difference twice, square, quotient
constexpr double kHalfLargestCurvature = 0.39;  // of tanh: 2 / (3 sqrt(3)), rounded up

// One row of a projection and the sum of the magnitudes of what was added.
template <typename Real>
struct Projection {
  std::vector<Real> values;        // [rows,out_dim]
  std::vector<double> magnitudes;  // [rows,out_dim]
};

// weight[offset + o * out_stride + d * in_stride] takes feature d to unit o.
struct Weights {
  const std::vector<float> *data;
  int64_t offset, out_stride, in_stride;
};

// The weights of several units, zeros behind the last, are collected once for all rows: in memory they may lie far
// apart. Magnitudes are of use in double alone.
template <typename Real>
Projection<Real> project(int order, const std::vector<float> &x, int64_t in_dim, Weights weights, int64_t out_dim) {
  using Units = Several<Real>;
  const int64_t rows = static_cast<int64_t>(x.size()) / in_dim;
  Projection<Real> result{std::vector<Real>(rows * out_dim), std::vector<double>(rows * out_dim)};
  for (int64_t first = 0; first < out_dim; first += Units::kCount) {
    const int64_t count = std::min(Units::kCount, out_dim - first);
    std::vector<Units> units(in_dim);
    for (int64_t d = 0; d < in_dim; ++d) {
      for (int64_t u = 0; u < count; ++u) {
        units[d].at[u] = (*weights.data)[weights.offset + (first + u) * weights.out_stride + d * weights.in_stride];
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      const float *feature = x.data() + row * in_dim;
      const Units sum = sum_of<Units>(order, 0, in_dim, [&](int64_t d) { return Real(feature[d]) * units[d]; });
      std::copy(sum.at, sum.at + count, result.values.begin() + row * out_dim + first);
      if constexpr (std::is_same_v<Real, double>) {
        const Units magnitude =
            sum_of<Units>(order, 0, in_dim, [&](int64_t d) { return std::abs(Real(feature[d])) * abs(units[d]); });
        std::copy(magnitude.at, magnitude.at + count, result.magnitudes.begin() + row * out_dim + first);
      }
    }
  }
  return result;
}

// Visits each pair of a query row and a key row: visit(row of query [B,H,Q], row of key [B,Hkv,K], head).
template <typename Visit>
void for_each_pair(const AttentionInputs &in, Visit visit) {
  for (int64_t b = 0; b < in.batch; ++b) {
    for (int64_t h = 0; h < in.heads; ++h) {
      const int64_t kv_head = h / (in.heads / in.kv_heads);
      for (int64_t i = 0; i < in.query_len; ++i) {
        for (int64_t j = 0; j < in.key_len; ++j) {
          visit((b * in.heads + h) * in.query_len + i, (b * in.kv_heads + kv_head) * in.key_len + j, h);
        }
      }
    }
  }
}

template <typename Real>
void dot(const AttentionInputs &in, RawScores<Real> &scores) {
  for_each_pair(in, [&](int64_t query_row, int64_t key_row, int64_t) {
    const float *q = in.query.data() + query_row * in.query_dim, *k = in.key.data() + key_row * in.key_dim;
    scores.values.push_back(
        sum_of<Real>(in.order, 0, in.query_dim, [&](int64_t d) { return Real(q[d]) * Real(k[d]); }));
    scores.allowances.push_back(0);
  });
}

template <typename Real>
void bilinear(const AttentionInputs &in, RawScores<Real> &scores) {
  const auto query = project<Real>(in.order, in.query, in.query_dim, {&in.score.weight, 0, 1, in.key_dim}, in.key_dim);
  for_each_pair(in, [&](int64_t query_row, int64_t key_row, int64_t) {
    const Real *q = query.values.data() + query_row * in.key_dim;
    const double *magnitudes = query.magnitudes.data() + query_row * in.key_dim;
    const float *k = in.key.data() + key_row * in.key_dim;
    double magnitude = 0;
    scores.values.push_back(sum_of<Real>(in.order, 0, in.key_dim, [&](int64_t d) {
      magnitude += magnitudes[d] * std::abs(k[d]);
      return q[d] * Real(k[d]);
    }));
    scores.allowances.push_back(kProjectionRoundings * kRounding * magnitude);
  });
}

// How far tanh moves from its value t at x when x is off by at most error.
double tanh_allowance(double x, double t, double error) {
  if (error < 1e-3) return error * (1 - t * t) + kHalfLargestCurvature * error * error;  // Taylor, without a tanh
  return std::max(std::tanh(x + error) - t, t - std::tanh(x - error));
}

// Additive is concat whose weight is given in two parts, without bias.
template <typename Real>
void additive(const AttentionInputs &in, RawScores<Real> &scores) {
  const Score &score = in.score;
  const int64_t hidden = static_cast<int64_t>(score.score_vector.size()), width = in.query_dim + in.key_dim;
  const bool concat = score.kind == ScoreKind::kConcat;
  const Weights query_weights = concat ? Weights{&score.weight, 0, width, 1}  //
                                       : Weights{&score.query_weight, 0, in.query_dim, 1};
  const Weights key_weights = concat ? Weights{&score.weight, in.query_dim, width, 1}  //
                                     : Weights{&score.key_weight, 0, in.key_dim, 1};
  const auto query = project<Real>(in.order, in.query, in.query_dim, query_weights, hidden);
  const auto key = project<Real>(in.order, in.key, in.key_dim, key_weights, hidden);
  for_each_pair(in, [&](int64_t query_row, int64_t key_row, int64_t) {
    double allowance = 0;
    const Real sum = sum_of<Real>(in.order, 0, hidden, [&](int64_t u) {
      const int64_t q = query_row * hidden + u, k = key_row * hidden + u;
      const float bias = score.bias.empty() ? 0 : score.bias[u];
      const Real x = query.values[q] + key.values[k] + Real(bias), t = std::tanh(x);
      if constexpr (std::is_same_v<Real, double>) {
        const double error =
            kProjectionRoundings * kRounding * (query.magnitudes[q] + key.magnitudes[k] + std::abs(bias));
        const double roundings = kUnitRoundings * kRounding * std::min(std::abs(x), 1.0);
        allowance += std::abs(score.score_vector[u]) * (roundings + tanh_allowance(x, t, error));
      }
      return Real(score.score_vector[u]) * t;
    });
    scores.values.push_back(sum);
    scores.allowances.push_back(allowance);
  });
}

template <typename Real>
void gaussian(const AttentionInputs &in, RawScores<Real> &scores) {
  for_each_pair(in, [&](int64_t query_row, int64_t key_row, int64_t head) {
    const float *q = in.query.data() + query_row * in.query_dim, *k = in.key.data() + key_row * in.key_dim;
    const Real sigma = in.score.sigmas[head];
    const Real sum = sum_of<Real>(in.order, 0, in.query_dim,
                                  [&](int64_t d) { return (Real(q[d]) - Real(k[d])) * (Real(q[d]) - Real(k[d])); });
    scores.values.push_back(-sum / (2 * sigma * sigma));
    scores.allowances.push_back(kDifferenceRoundings * kRounding * std::abs(double(scores.values.back())));
  });
}

}  // namespace

template <typename Real>
RawScores<Real> raw_scores(const AttentionInputs &in) {
  RawScores<Real> scores;
  switch (in.score.kind) {
    case ScoreKind::kDot: dot(in, scores); break;
    case ScoreKind::kBilinear: bilinear(in, scores); break;
    case ScoreKind::kAdditive:
    case ScoreKind::kConcat: additive(in, scores); break;
    case ScoreKind::kGaussian: gaussian(in, scores); break;
  }
  return scores;
}

template RawScores<float> raw_scores<float>(const AttentionInputs &);
template RawScores<double> raw_scores<double>(const AttentionInputs &);

}  // namespace reference
