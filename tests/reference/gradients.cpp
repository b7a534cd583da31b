// With p the weights before dropout and d its factor, z the score times scale, c the soft-cap:
//
//   dp = d (grad_out . v + grad_weight)   m = grad_out . out + sum_j d p grad_weight
//   dl = p (dp - m + grad_lse)            dv += d p grad_out        dbias = dl      dslope -= dl |position - j|
//   da = dl (1 - tanh^2(z / c)) scale     dsink -= p_sink (m - grad_lse)
//
// and of the score a(q, k):
//   dot        dq += da k                   dk += da q
//   bilinear   dq += da W k                 dk += da W^T q               dW += da q k^T
//   gaussian   dq += da (k - q) / sigma^2   dk += da (q - k) / sigma^2   dsigma += da |q - k|^2 / sigma^3
//   additive   with t = tanh(x), e = da v (1 - t^2) of each unit: dq += e Wq, dk += e Wk, dWq += e q, dWk += e k, dbias += e,
//              dv += da t
#include "gradients.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace reference {
namespace {

template <typename Real>
class Pass {
 public:
  Pass(const AttentionInputs &in, const OutputGradients &given)
      : in_(in), given_(given), raw_(raw_scores<Real>(in)), forward_(attention(in, raw_)) {
    result_.largest_score = forward_.largest_score;
    result_.query.clear(in.query.size());
    result_.key.clear(in.key.size());
    result_.value.clear(in.value.size());
    result_.bias.clear(in.batch * in.heads * in.query_len * in.key_len);
    result_.alibi_slopes.clear(in.heads);
    result_.sinks.clear(in.heads);
    result_.sigmas.clear(in.heads);
    result_.query_weight.clear(in.score.query_weight.size());
    result_.key_weight.clear(in.score.key_weight.size());
    result_.weight.clear(in.score.weight.size());
    result_.score_bias.clear(in.score.bias.size());
    result_.score_vector.clear(in.score.score_vector.size());
  }

  AttentionGradients<Real> run() {
    for (int64_t b = 0; b < in_.batch; ++b) {
      for (int64_t h = 0; h < in_.heads; ++h) {
        for (int64_t i = 0; i < in_.query_len; ++i) pass_row(b, h, i);
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

  Real scale() const {
    if (in_.scale != 0 || in_.scale_given) return Real(in_.scale);
    return in_.score.kind == ScoreKind::kDot ? 1 / std::sqrt(Real(in_.query_dim)) : Real(1);
  }

  int64_t position(int64_t b, int64_t i) const {
    if (in_.query_offsets) return (*in_.query_offsets)[b] + i;
    if (in_.query_offset) return *in_.query_offset + i;
    return (in_.top_left || in_.key_len < in_.query_len ? 0 : in_.key_len - in_.query_len) + i;
  }

  Real grad_weight(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!given_.weights) return 0;
    if (given_.averaged) return Real((*given_.weights)[(b * in_.query_len + i) * in_.key_len + j]) / Real(in_.heads);
    return Real((*given_.weights)[((b * in_.heads + h) * in_.query_len + i) * in_.key_len + j]);
  }

  void pass_row(int64_t b, int64_t h, int64_t i) {
    const int64_t row = (b * in_.heads + h) * in_.query_len + i;
    const int64_t kv_head = b * in_.kv_heads + h / (in_.heads / in_.kv_heads);
    const Real lse = forward_.log_sum_exp[row];
    const std::vector<bool> attended = attended_keys(in_, b, h, i);
    const float *grad_out = given_.out.data() + row * in_.value_dim;
    const auto factor = [&](int64_t j) {
      if (in_.dropout.probability == 0) return Real(1);
      return dropped(in_.dropout, b, h, i, j) ? Real(0) : 1 / (1 - Real(in_.dropout.probability));
    };
    Real mean = 0;
    double mean_size = 0;
    for (int64_t d = 0; d < in_.value_dim; ++d) {
      mean += Real(grad_out[d]) * forward_.out[row * in_.value_dim + d];
      mean_size += std::abs(double(grad_out[d]) * double(forward_.weighted_magnitude[row * in_.value_dim + d]));
    }
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < in_.key_len; ++j) {
      // An empty row attends nothing, whatever its policy makes of it.
      if (attended[j] && !(logit(b, h, i, j) == -kInfinity)) keys.push_back(j);
    }
    if (keys.empty() && !in_.sinks) return;
    std::vector<Real> softmax(in_.key_len, 0);
    for (const int64_t j : keys) {
      softmax[j] = std::exp(logit(b, h, i, j) - lse);
      const Real term = softmax[j] * factor(j) * grad_weight(b, h, i, j);
      mean += term;
      mean_size += std::abs(double(term));
    }
    const Real grad_lse = given_.log_sum_exp ? Real((*given_.log_sum_exp)[row]) : 0;
    if (in_.sinks && (*in_.sinks)[h] != -std::numeric_limits<float>::infinity()) {
      const Real p = std::exp(Real((*in_.sinks)[h]) - lse);
      result_.sinks.add(h, -p * (mean - grad_lse), double(p) * (mean_size + std::abs(double(grad_lse))));
    }
    for (const int64_t j : keys) {
      const float *v = in_.value.data() + (kv_head * in_.key_len + j) * in_.value_dim;
      const Real p = softmax[j], kept = factor(j);
      Real dp = kept * grad_weight(b, h, i, j);
      double size = std::abs(double(dp)) + mean_size + std::abs(double(grad_lse));
      for (int64_t d = 0; d < in_.value_dim; ++d) {
        dp += kept * Real(grad_out[d]) * Real(v[d]);
        size += std::abs(double(kept) * grad_out[d] * v[d]);
      }
      add_row(result_.value, (kv_head * in_.key_len + j) * in_.value_dim, kept * p, grad_out, in_.value_dim, 1, 1);
      const Real dl = p * (dp - mean + grad_lse);
      size *= std::abs(double(p));
      result_.bias.add(row * in_.key_len + j, dl, size);
      const Real distance = Real(std::llabs(position(b, i) - j));
      result_.alibi_slopes.add(h, -dl * distance, size * double(distance));
      const Real raw = raw_.values[row * in_.key_len + j];
      Real da = dl * scale();
      if (in_.softcap != 0) {
        const Real t = std::tanh(raw * scale() / Real(in_.softcap));
        da *= 1 - t * t;
      }
      pass_pair({h, row, kv_head * in_.key_len + j}, raw, da, size * std::abs(double(scale())));
    }
  }

  Real logit(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t at = ((b * in_.heads + h) * in_.query_len + i) * in_.key_len + j;
    Real score = raw_.values[at] * scale();
    if (in_.softcap != 0) score = Real(in_.softcap) * std::tanh(score / Real(in_.softcap));
    if (in_.bias) score += Real((*in_.bias)[at]);
    if (in_.alibi_slopes) score -= Real((*in_.alibi_slopes)[h]) * Real(std::llabs(position(b, i) - j));
    return score;
  }

  struct Pair {
    int64_t head, query, key;
  };

  // Adds da factor x[d] to each of a row's elements, size |factor x[d]| being the magnitude.
  static void add_row(Gradient<Real> &to, int64_t at, Real factor, const float *x, int64_t count, Real da,
                      double size) {
    Real *const values = to.values.data() + at;
    double *const magnitudes = to.magnitudes.data() + at;
    for (int64_t d = 0; d < count; ++d) {
      const Real term = factor * Real(x[d]);
      values[d] += da * term;
      if constexpr (std::is_same_v<Real, double>) magnitudes[d] += size * std::abs(term);
    }
  }

  void pass_pair(const Pair &pair, Real raw, Real da, double size) {
    const float *q = in_.query.data() + pair.query * in_.query_dim, *k = in_.key.data() + pair.key * in_.key_dim;
    const auto add = [&](Gradient<Real> &to, int64_t at, Real factor) {
      to.add(at, da * factor, size * std::abs(double(factor)));
    };
    switch (in_.score.kind) {
      case ScoreKind::kDot:
        add_row(result_.query, pair.query * in_.query_dim, 1, k, in_.query_dim, da, size);
        add_row(result_.key, pair.key * in_.key_dim, 1, q, in_.key_dim, da, size);
        break;
      case ScoreKind::kGaussian: {
        const Real sigma = Real(in_.score.sigmas[pair.head]);
        for (int64_t d = 0; d < in_.query_dim; ++d) {
          const Real factor = (Real(k[d]) - Real(q[d])) / (sigma * sigma);
          add(result_.query, pair.query * in_.query_dim + d, factor);
          add(result_.key, pair.key * in_.key_dim + d, -factor);
        }
        add(result_.sigmas, pair.head, -2 * raw / sigma);
        break;
      }
      case ScoreKind::kBilinear:
        for (int64_t c = 0; c < in_.query_dim; ++c) {
          const float *w = in_.score.weight.data() + c * in_.key_dim;
          const int64_t at = pair.query * in_.query_dim + c;
          Real value = result_.query.values[at];  // not in memory while it is added to: each addition would wait for it
          double magnitude = result_.query.magnitudes[at];
          for (int64_t d = 0; d < in_.key_dim; ++d) {
            const Real term = Real(w[d]) * Real(k[d]);
            value += da * term;
            magnitude += size * std::abs(double(term));
          }
          result_.query.values[at] = value;
          result_.query.magnitudes[at] = magnitude;
          add_row(result_.key, pair.key * in_.key_dim, Real(q[c]), w, in_.key_dim, da, size);
          add_row(result_.weight, c * in_.key_dim, Real(q[c]), k, in_.key_dim, da, size);
        }
        break;
      default: pass_units(pair, q, k, da, size);
    }
  }

  // The weights of an additive or concat score, a row for each unit, and where a row begins in them.
  struct Units {
    const std::vector<float> &weight;
    Gradient<Real> &gradient;
    int64_t width, first, dim;

    const float *row(int64_t u) const { return weight.data() + at(u); }
    int64_t at(int64_t u) const { return u * width + first; }

    // What x [rows,dim] adds to the argument of each unit: [rows,h].
    std::vector<Real> project(const std::vector<float> &x, int64_t hidden) const {
      std::vector<Real> projected;
      for (const float *from = x.data(); from != x.data() + x.size(); from += dim) {
        for (int64_t u = 0; u < hidden; ++u) {
          Real sum = 0;
          for (int64_t d = 0; d < dim; ++d) sum += Real(row(u)[d]) * Real(from[d]);
          projected.push_back(sum);
        }
      }
      return projected;
    }
  };
  Units query_units() {
    if (in_.score.kind != ScoreKind::kConcat) {
      return {in_.score.query_weight, result_.query_weight, in_.query_dim, 0, in_.query_dim};
    }
    return {in_.score.weight, result_.weight, in_.query_dim + in_.key_dim, 0, in_.query_dim};
  }
  Units key_units() {
    if (in_.score.kind != ScoreKind::kConcat) {
      return {in_.score.key_weight, result_.key_weight, in_.key_dim, 0, in_.key_dim};
    }
    return {in_.score.weight, result_.weight, in_.query_dim + in_.key_dim, in_.query_dim, in_.key_dim};
  }

  void pass_units(const Pair &pair, const float *q, const float *k, Real da, double size) {
    const Score &score = in_.score;
    const int64_t hidden = static_cast<int64_t>(score.score_vector.size());
    const Units of_query = query_units(), of_key = key_units();
    if (projected_queries_.empty()) {
      projected_queries_ = of_query.project(in_.query, hidden);
      projected_keys_ = of_key.project(in_.key, hidden);
    }
    for (int64_t u = 0; u < hidden; ++u) {
      const Real bias = score.bias.empty() ? Real(0) : Real(score.bias[u]);
      const Real x = projected_queries_[pair.query * hidden + u] + projected_keys_[pair.key * hidden + u] + bias;
      const Real t = std::tanh(x);
      const Real e = Real(score.score_vector[u]) * (1 - t * t);
      const auto add = [&](Gradient<Real> &to, int64_t at, Real factor) {
        to.add(at, da * factor, size * std::abs(double(factor)));
      };
      add(result_.score_vector, u, t);
      if (!score.bias.empty()) add(result_.score_bias, u, e);
      add_row(result_.query, pair.query * in_.query_dim, e, of_query.row(u), in_.query_dim, da, size);
      add_row(of_query.gradient, of_query.at(u), e, q, in_.query_dim, da, size);
      add_row(result_.key, pair.key * in_.key_dim, e, of_key.row(u), in_.key_dim, da, size);
      add_row(of_key.gradient, of_key.at(u), e, k, in_.key_dim, da, size);
    }
  }

  const AttentionInputs &in_;
  const OutputGradients &given_;
  const RawScores<Real> raw_;
  const AttentionOutputs<Real> forward_;
  AttentionGradients<Real> result_;
  std::vector<Real> projected_queries_, projected_keys_;  // of additive and concat scores
};

}  // namespace

template <typename Real>
AttentionGradients<Real> attention_gradients(const AttentionInputs &inputs, const OutputGradients &gradients) {
  return Pass<Real>(inputs, gradients).run();
}

template AttentionGradients<float> attention_gradients<float>(const AttentionInputs &, const OutputGradients &);
template AttentionGradients<double> attention_gradients<double>(const AttentionInputs &, const OutputGradients &);

}  // namespace reference
