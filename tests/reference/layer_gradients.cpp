#include "layer_gradients.hpp"

#include <cmath>
#include <limits>

#include "sums.hpp"

namespace reference {
namespace {

template <typename Real>
Gradient<Real> zeros(size_t count) {
  return {std::vector<Real>(count), std::vector<Real>(count)};
}

template <typename Real>
void put(Gradient<Real> &gradient, size_t at, Real value, Real magnitude) {
  gradient.value[at] = value;
  gradient.magnitude[at] = magnitude;
}

template <typename Real>
Real number(float x) {
  return static_cast<Real>(x);
}

}  // namespace

template <typename Real>
Real activation_derivative(Activation activation, Real x) {
  const Real half = Real(1) / 2;
  switch (activation) {
    case Activation::kNone: return 1;
    case Activation::kRelu: return x > 0 ? Real(1) : x <= 0 ? Real(0) : x;
    case Activation::kGelu: {
      if (std::isinf(x)) return x > 0 ? Real(1) : Real(0);
      const Real density = std::exp(-x * x / 2) / std::sqrt(Real(2) * std::acos(Real(-1)));
      return std::erfc(-x / std::sqrt(Real(2))) * half + x * density;
    }
    case Activation::kGeluTanh: {
      if (std::isinf(x)) return x > 0 ? Real(1) : Real(0);
      const Real c = std::sqrt(Real(2) / std::acos(Real(-1))), a = Real(0.044715);
      const Real t = std::tanh(c * (x + a * x * x * x));
      return half * (1 + t) + half * x * (1 - t * t) * c * (1 + 3 * a * x * x);
    }
    case Activation::kSilu: {
      if (std::isinf(x)) return x > 0 ? Real(1) : Real(0);
      const Real s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
  }
  return 0;
}

template <typename Real>
Gradient<Real> softmax_gradient(const std::vector<float> &out, const std::vector<float> &grad, int64_t outer,
                                int64_t key_len, int64_t inner, bool log, const std::vector<int64_t> &valid_lens) {
  Gradient<Real> gradient = zeros<Real>(out.size());
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t valid = valid_lens.empty() ? key_len : valid_lens[static_cast<size_t>(o)];
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t k) { return static_cast<size_t>((o * key_len + k) * inner + i); };
      const auto term = [&](int64_t k) {
        return log ? number<Real>(grad[at(k)]) : number<Real>(out[at(k)]) * number<Real>(grad[at(k)]);
      };
      const Real sum = sum_of<Real>(0, 0, valid, term);
      const Real size = sum_of<Real>(0, 0, valid, [&](int64_t k) { return std::abs(term(k)); });
      for (int64_t k = 0; k < valid; ++k) {
        const Real p = log ? std::exp(number<Real>(out[at(k)])) : number<Real>(out[at(k)]),
                   g = number<Real>(grad[at(k)]);
        put(gradient, at(k), log ? g - p * sum : p * (g - sum),
            log ? std::abs(g) + p * size : p * (std::abs(g) + size));
      }
    }
  }
  return gradient;
}

template <typename Real>
NormGradients<Real> norm_gradients(const LayerNormInputs &inputs, const std::vector<float> &grad,
                                   const std::vector<float> &grad_sum) {
  const int64_t dim = inputs.dim, rows = static_cast<int64_t>(inputs.x.size()) / dim;
  const NormStatistics<Real> statistics = norm_statistics<Real>(inputs);
  NormGradients<Real> all = {zeros<Real>(inputs.x.size()), zeros<Real>(static_cast<size_t>(dim)),
                             zeros<Real>(static_cast<size_t>(dim))};
  // reach: of z, with what roundings of y, and of the mean of numbers a deviation apart, may move it by.
  std::vector<Real> z(inputs.x.size()), g(inputs.x.size()), reach(inputs.x.size());
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = [&](int64_t i) { return static_cast<size_t>(r * dim + i); };
    const Real deviation = statistics.deviation[static_cast<size_t>(r)];
    const Real mean = inputs.rms ? Real(0) : statistics.mean[static_cast<size_t>(r)];
    for (int64_t i = 0; i < dim; ++i) {
      const Real y =
          number<Real>(inputs.x[at(i)]) + (inputs.residual.empty() ? Real(0) : number<Real>(inputs.residual[at(i)]));
      Real weight = inputs.weight.empty() ? Real(1) : number<Real>(inputs.weight[static_cast<size_t>(i)]);
      if (inputs.weight_from_one && !inputs.weight.empty()) weight += 1;
      z[at(i)] = (y - mean) / deviation;
      reach[at(i)] = (std::abs(y) + std::abs(mean)) / deviation + 1;
      g[at(i)] = number<Real>(grad[at(i)]) * weight;
    }
    const auto count = static_cast<Real>(dim);
    const Real mean_g = inputs.rms ? Real(0) : sum_of<Real>(0, 0, dim, [&](int64_t i) { return g[at(i)]; }) / count;
    const Real moment = sum_of<Real>(0, 0, dim, [&](int64_t i) { return g[at(i)] * z[at(i)]; }) / count;
    const Real size_g = sum_of<Real>(0, 0, dim, [&](int64_t i) { return std::abs(g[at(i)]); }) / count;
    const Real size = sum_of<Real>(0, 0, dim, [&](int64_t i) { return std::abs(g[at(i)]) * reach[at(i)]; }) / count;
    for (int64_t i = 0; i < dim; ++i) {
      const Real more = grad_sum.empty() ? Real(0) : number<Real>(grad_sum[at(i)]);
      put(all.x, at(i), (g[at(i)] - mean_g - z[at(i)] * moment) / deviation + more,
          (std::abs(g[at(i)]) + size_g + reach[at(i)] * size) / deviation + std::abs(more));
    }
  }
  for (int64_t i = 0; i < dim; ++i) {
    const auto at = [&](int64_t r) { return static_cast<size_t>(r * dim + i); };
    const auto of_weight = [&](int64_t r) { return number<Real>(grad[at(r)]) * z[at(r)]; };
    const auto of_bias = [&](int64_t r) { return number<Real>(grad[at(r)]); };
    put(all.weight, static_cast<size_t>(i), sum_of<Real>(0, 0, rows, of_weight),
        sum_of<Real>(0, 0, rows, [&](int64_t r) { return std::abs(number<Real>(grad[at(r)])) * reach[at(r)]; }));
    put(all.bias, static_cast<size_t>(i), sum_of<Real>(0, 0, rows, of_bias),
        sum_of<Real>(0, 0, rows, [&](int64_t r) { return std::abs(of_bias(r)); }));
  }
  return all;
}

template <typename Real>
LinearGradients<Real> linear_gradients(const LinearInputs &in, const std::vector<float> &grad) {
  const int64_t rows = in.rows, depth = in.depth, columns = in.columns;
  const auto x = [&](int64_t m, int64_t k) { return number<Real>(in.x[static_cast<size_t>(m * depth + k)]); };
  const auto w = [&](int64_t k, int64_t n) { return number<Real>(in.weight[static_cast<size_t>(k * columns + n)]); };
  LinearGradients<Real> all = {zeros<Real>(in.x.size()), zeros<Real>(in.weight.size()),
                               zeros<Real>(static_cast<size_t>(columns)), zeros<Real>(grad.size())};
  std::vector<Real> h(grad.size()), size(grad.size());
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      const auto at = static_cast<size_t>(m * columns + n);
      const Real bias = in.bias.empty() ? Real(0) : number<Real>(in.bias[static_cast<size_t>(n)]);
      const Real y = sum_of<Real>(0, 0, depth, [&](int64_t k) { return x(m, k) * w(k, n); }) + bias;
      const Real reach =
          sum_of<Real>(0, 0, depth, [&](int64_t k) { return std::abs(x(m, k) * w(k, n)); }) + std::abs(bias);
      const Real g = number<Real>(grad[at]), by = in.multiplier.empty() ? Real(1) : number<Real>(in.multiplier[at]);
      h[at] = g * by * activation_derivative(in.activation, y);
      // How far the argument's rounding errors move the derivative, whose own derivative is below 1.2; none has of ReLU
      // and NONE.
      const bool curved = in.activation > Activation::kRelu;
      size[at] = std::abs(h[at]) + std::abs(g * by) * (curved ? 1 + reach : Real(0));
      put(all.multiplier, at, g * activate(in.activation, y), std::abs(g) * (reach + std::abs(y)));
    }
  }
  const auto of = [&](const std::vector<Real> &list, int64_t m, int64_t n) {
    return list[static_cast<size_t>(m * columns + n)];
  };
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < depth; ++k) {
      put(all.x, static_cast<size_t>(m * depth + k),
          sum_of<Real>(0, 0, columns, [&](int64_t n) { return of(h, m, n) * w(k, n); }),
          sum_of<Real>(0, 0, columns, [&](int64_t n) { return of(size, m, n) * std::abs(w(k, n)); }));
    }
  }
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < depth; ++k) {
      put(all.weight, static_cast<size_t>(k * columns + n),
          sum_of<Real>(0, 0, rows, [&](int64_t m) { return x(m, k) * of(h, m, n); }),
          sum_of<Real>(0, 0, rows, [&](int64_t m) { return std::abs(x(m, k)) * of(size, m, n); }));
    }
    put(all.bias, static_cast<size_t>(n), sum_of<Real>(0, 0, rows, [&](int64_t m) { return of(h, m, n); }),
        sum_of<Real>(0, 0, rows, [&](int64_t m) { return of(size, m, n); }));
  }
  return all;
}

template <typename Real>
MergeGradients<Real> merge_gradients(const std::vector<float> &outs, const std::vector<float> &lses, int64_t parts,
                                     int64_t rows, int64_t value_dim, const std::vector<float> &grad,
                                     const std::vector<float> &grad_log_sum_exp) {
  MergeGradients<Real> all = {zeros<Real>(outs.size()), zeros<Real>(lses.size())};
  for (int64_t r = 0; r < rows; ++r) {
    const auto lse = [&](int64_t s) { return lses[static_cast<size_t>(s * rows + r)]; };
    const auto takes_part = [&](int64_t s) { return lse(s) != -std::numeric_limits<float>::infinity(); };
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < parts; ++s) most = std::max(most, lse(s));
    const auto power = [&](int64_t s) {
      return takes_part(s) ? std::exp(number<Real>(lse(s)) - number<Real>(most)) : Real(0);
    };
    const Real total = sum_of<Real>(0, 0, parts, power);
    const auto out = [&](int64_t s, int64_t d) {
      return number<Real>(outs[static_cast<size_t>((s * rows + r) * value_dim + d)]);
    };
    const auto g = [&](int64_t d) { return number<Real>(grad[static_cast<size_t>(r * value_dim + d)]); };
    const auto dot = [&](int64_t s) {
      return takes_part(s) ? sum_of<Real>(0, 0, value_dim, [&](int64_t d) { return out(s, d) * g(d); }) : Real(0);
    };
    const auto size = [&](int64_t s) {
      return takes_part(s) ? sum_of<Real>(0, 0, value_dim, [&](int64_t d) { return std::abs(out(s, d) * g(d)); })
                           : Real(0);
    };
    const Real mean = sum_of<Real>(0, 0, parts, [&](int64_t s) { return power(s) / total * dot(s); });
    const Real mean_size = sum_of<Real>(0, 0, parts, [&](int64_t s) { return power(s) / total * size(s); });
    const Real more = grad_log_sum_exp.empty() ? Real(0) : number<Real>(grad_log_sum_exp[static_cast<size_t>(r)]);
    for (int64_t s = 0; s < parts; ++s) {
      if (!takes_part(s)) continue;
      const Real w = power(s) / total;
      put(all.lses, static_cast<size_t>(s * rows + r), w * (dot(s) - mean + more),
          w * (size(s) + mean_size + std::abs(more)));
      for (int64_t d = 0; d < value_dim; ++d) {
        put(all.outs, static_cast<size_t>((s * rows + r) * value_dim + d), w * g(d), std::abs(w * g(d)));
      }
    }
  }
  return all;
}

template double activation_derivative(Activation, double);
template float activation_derivative(Activation, float);
template Gradient<double> softmax_gradient(const std::vector<float> &, const std::vector<float> &, int64_t, int64_t,
                                           int64_t, bool, const std::vector<int64_t> &);
template Gradient<float> softmax_gradient(const std::vector<float> &, const std::vector<float> &, int64_t, int64_t,
                                          int64_t, bool, const std::vector<int64_t> &);
template NormGradients<double> norm_gradients(const LayerNormInputs &, const std::vector<float> &,
                                              const std::vector<float> &);
template NormGradients<float> norm_gradients(const LayerNormInputs &, const std::vector<float> &,
                                             const std::vector<float> &);
template LinearGradients<double> linear_gradients(const LinearInputs &, const std::vector<float> &);
template LinearGradients<float> linear_gradients(const LinearInputs &, const std::vector<float> &);
template MergeGradients<double> merge_gradients(const std::vector<float> &, const std::vector<float> &, int64_t,
                                                int64_t, int64_t, const std::vector<float> &,
                                                const std::vector<float> &);
template MergeGradients<float> merge_gradients(const std::vector<float> &, const std::vector<float> &, int64_t, int64_t,
                                               int64_t, const std::vector<float> &, const std::vector<float> &);

}  // namespace reference
