// Layer normalisation.
#include <cmath>

#include "reference.hpp"

namespace reference {

template <typename Real>
std::vector<Real> layer_norm(const LayerNormInputs &inputs) {
  const auto dim = static_cast<size_t>(inputs.dim);
  std::vector<Real> out(inputs.x.size());
  for (size_t begin = 0; begin < out.size(); begin += dim) {
    Real *row = out.data() + begin;
    Real mean = 0, variance = 0;
    for (size_t i = 0; i < dim; ++i) {
      row[i] = inputs.x[begin + i];
      if (!inputs.residual.empty()) row[i] += inputs.residual[begin + i];
      mean += row[i];
    }
    mean /= static_cast<Real>(dim);
    for (size_t i = 0; i < dim; ++i) variance += (row[i] - mean) * (row[i] - mean);
    variance /= static_cast<Real>(dim);
    for (size_t i = 0; i < dim; ++i) {
      row[i] = (row[i] - mean) / std::sqrt(variance + static_cast<Real>(inputs.epsilon));
      if (!inputs.weight.empty()) row[i] *= inputs.weight[i];
      if (!inputs.bias.empty()) row[i] += inputs.bias[i];
    }
  }
  return out;
}

template std::vector<float> layer_norm(const LayerNormInputs &);
template std::vector<double> layer_norm(const LayerNormInputs &);

}  // namespace reference
