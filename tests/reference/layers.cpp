// The formulas of layer and RMS normalisation, and of softmax over an axis.
#include <algorithm>
#include <cmath>

#include "reference.hpp"

namespace reference {

namespace {

template <typename Real>
Real added(const LayerNormInputs &inputs, size_t i) {
  return inputs.residual.empty() ? Real(inputs.x[i]) : Real(inputs.x[i]) + Real(inputs.residual[i]);
}

}  // namespace

template <typename Real>
NormStatistics<Real> norm_statistics(const LayerNormInputs &inputs) {
  const auto dim = static_cast<size_t>(inputs.dim);
  NormStatistics<Real> statistics;
  for (size_t begin = 0; begin < inputs.x.size(); begin += dim) {
    Real mean = 0, variance = 0;
    for (size_t i = begin; i < begin + dim; ++i) mean += inputs.rms ? 0 : added<Real>(inputs, i);
    mean /= static_cast<Real>(dim);
    for (size_t i = begin; i < begin + dim; ++i) {
      const Real deviation = added<Real>(inputs, i) - mean;
      variance += deviation * deviation;
    }
    variance /= static_cast<Real>(dim);
    statistics.mean.push_back(mean);
    statistics.deviation.push_back(std::sqrt(variance + static_cast<Real>(inputs.epsilon)));
  }
  return statistics;
}

template <typename Real>
std::vector<Real> layer_norm(const LayerNormInputs &inputs) {
  const auto dim = static_cast<size_t>(inputs.dim);
  const NormStatistics<Real> statistics = norm_statistics<Real>(inputs);
  std::vector<Real> out(inputs.x.size());
  for (size_t n = 0; n < out.size(); ++n) {
    out[n] = (added<Real>(inputs, n) - statistics.mean[n / dim]) / statistics.deviation[n / dim];
    if (!inputs.weight.empty()) out[n] *= Real(inputs.weight[n % dim]) + (inputs.weight_from_one ? 1 : 0);
    if (!inputs.bias.empty()) out[n] += inputs.bias[n % dim];
  }
  return out;
}

template <typename Real>
std::vector<Real> softmax(const std::vector<float> &x, int64_t outer, int64_t key_len, int64_t inner, bool log) {
  std::vector<Real> out(x.size());
  for (int64_t column = 0; column < outer * inner; ++column) {
    const auto at = [&](int64_t k) {
      return static_cast<size_t>((column / inner * key_len + k) * inner + column % inner);
    };
    Real most = x[at(0)], sum = 0;
    for (int64_t k = 1; k < key_len; ++k) most = std::max(most, Real(x[at(k)]));
    for (int64_t k = 0; k < key_len; ++k) sum += std::exp(Real(x[at(k)]) - most);
    for (int64_t k = 0; k < key_len; ++k) {
      const Real apart = Real(x[at(k)]) - most;
      out[at(k)] = log ? apart - std::log(sum) : std::exp(apart) / sum;
    }
  }
  return out;
}

template std::vector<float> layer_norm(const LayerNormInputs &);
template std::vector<double> layer_norm(const LayerNormInputs &);
template NormStatistics<float> norm_statistics(const LayerNormInputs &);
template NormStatistics<double> norm_statistics(const LayerNormInputs &);
template std::vector<float> softmax(const std::vector<float> &, int64_t, int64_t, int64_t, bool);
template std::vector<double> softmax(const std::vector<float> &, int64_t, int64_t, int64_t, bool);

}  // namespace reference
