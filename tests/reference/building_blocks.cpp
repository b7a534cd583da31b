// The formulas of masked softmax, matmul, linear layers, the merge of partial attention, exp and tanh.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference.hpp"

namespace reference {

template <typename Real>
std::vector<Real> masked_softmax(const std::vector<float> &x, const std::vector<int64_t> &valid_lens, int64_t key_len,
                                 EmptyRows empty_rows) {
  std::vector<Real> out(x.size(), 0);
  for (size_t row = 0; row < valid_lens.size(); ++row) {
    const float *scores = x.data() + row * key_len;
    Real *weights = out.data() + row * key_len;
    const int64_t len = valid_lens[row];
    if (len == 0) {
      if (empty_rows == EmptyRows::kUniform) std::fill_n(weights, key_len, 1 / Real(key_len));
      if (empty_rows == EmptyRows::kNan) std::fill_n(weights, key_len, std::numeric_limits<Real>::quiet_NaN());
      continue;
    }
    const Real row_max = *std::max_element(scores, scores + len);
    Real sum = 0;
    for (int64_t j = 0; j < len; ++j) sum += weights[j] = std::exp(Real(scores[j]) - row_max);
    for (int64_t j = 0; j < len; ++j) weights[j] /= sum;
  }
  return out;
}

template <typename Real>
Matmul<Real> matmul(const std::vector<float> &a, const std::vector<float> &b, int64_t m, int64_t n, int64_t k) {
  Matmul<Real> result{std::vector<Real>(m * n, 0), std::vector<Real>(m * n, 0)};
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t inner = 0; inner < k; ++inner) {
      const Real left = a[row * k + inner];
      for (int64_t column = 0; column < n; ++column) {
        const Real product = left * Real(b[inner * n + column]);
        result.out[row * n + column] += product;
        result.magnitude[row * n + column] += std::abs(product);
      }
    }
  }
  return result;
}

template <typename Real>
Real activate(Activation activation, Real x) {
  if (activation == Activation::kNone || std::isnan(x)) return x;
  if (activation == Activation::kRelu) return std::max(x, Real(0));
  if (std::isinf(x)) return x > 0 ? x : Real(0);
  const Real pi = std::acos(Real(-1));
  if (activation == Activation::kGelu) return x * (1 + std::erf(x / std::sqrt(Real(2)))) / 2;
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  return x * (1 + std::tanh(std::sqrt(2 / pi) * (x + Real(0.044715) * x * x * x))) / 2;
}

double exact_activation(Activation activation, float x) {
  const long double wide = x, pi = std::acos(-1.0L);
  if (std::isinf(x) || activation <= Activation::kRelu) return activate<long double>(activation, wide);
  if (activation == Activation::kGelu) return wide * std::erfc(-wide / std::sqrt(2.0L)) / 2;
  if (activation == Activation::kSilu) return activate<long double>(activation, wide);
  // 1 + tanh u = 2 / (1 + e^-2u)
  return wide / (1 + std::exp(-2 * std::sqrt(2 / pi) * (wide + 0.044715L * wide * wide * wide)));
}

template <typename Real>
Linear<Real> linear(const LinearInputs &inputs) {
  Matmul<Real> product = matmul<Real>(inputs.x, inputs.weight, inputs.rows, inputs.columns, inputs.depth);
  Linear<Real> result{std::move(product.out), {}, std::move(product.magnitude)};
  for (size_t i = 0; i < result.out.size(); ++i) {
    Real &out = result.out[i];
    if (!inputs.bias.empty()) {
      const Real bias = inputs.bias[i % static_cast<size_t>(inputs.columns)];
      out += bias;
      result.magnitude[i] += std::abs(bias);
    }
    out = activate(inputs.activation, out);
    if (!inputs.multiplier.empty()) {
      out *= inputs.multiplier[i];
      result.magnitude[i] *= std::abs(Real(inputs.multiplier[i]));
    }
    result.activated.push_back(out);
    if (!inputs.residual.empty()) out += inputs.residual[i];
  }
  return result;
}

template <typename Real>
MergedState<Real> merge_states(const std::vector<float> &outs, const std::vector<float> &lses, int64_t parts,
                               int64_t rows, int64_t value_dim) {
  constexpr Real kMinusInfinity = -std::numeric_limits<Real>::infinity();
  MergedState<Real> merged{std::vector<Real>(rows * value_dim, 0), std::vector<Real>(rows, kMinusInfinity)};
  for (int64_t row = 0; row < rows; ++row) {
    Real row_max = kMinusInfinity;
    for (int64_t s = 0; s < parts; ++s) row_max = std::max(row_max, Real(lses[s * rows + row]));
    if (row_max == kMinusInfinity) continue;
    Real sum = 0;
    for (int64_t s = 0; s < parts; ++s) sum += std::exp(Real(lses[s * rows + row]) - row_max);
    merged.log_sum_exp[row] = row_max + std::log(sum);
    for (int64_t s = 0; s < parts; ++s) {
      if (Real(lses[s * rows + row]) == kMinusInfinity) continue;
      const Real weight = std::exp(Real(lses[s * rows + row]) - row_max) / sum;
      for (int64_t d = 0; d < value_dim; ++d) {
        merged.out[row * value_dim + d] += weight * Real(outs[(s * rows + row) * value_dim + d]);
      }
    }
  }
  return merged;
}

double exp(float x) { return static_cast<double>(std::exp(static_cast<long double>(x))); }
double tanh(float x) { return static_cast<double>(std::tanh(static_cast<long double>(x))); }

template std::vector<float> masked_softmax<float>(const std::vector<float> &, const std::vector<int64_t> &, int64_t,
                                                  EmptyRows);
template std::vector<double> masked_softmax<double>(const std::vector<float> &, const std::vector<int64_t> &, int64_t,
                                                    EmptyRows);
template Matmul<float> matmul<float>(const std::vector<float> &, const std::vector<float> &, int64_t, int64_t, int64_t);
template Matmul<double> matmul<double>(const std::vector<float> &, const std::vector<float> &, int64_t, int64_t,
                                       int64_t);
template float activate<float>(Activation, float);
template double activate<double>(Activation, double);
template Linear<float> linear<float>(const LinearInputs &);
template Linear<double> linear<double>(const LinearInputs &);
template MergedState<float> merge_states<float>(const std::vector<float> &, const std::vector<float> &, int64_t,
                                                int64_t, int64_t);
template MergedState<double> merge_states<double>(const std::vector<float> &, const std::vector<float> &, int64_t,
                                                  int64_t, int64_t);

}  // namespace reference
