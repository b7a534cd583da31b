// The sinusoidal encoding and rotary position embedding.
#include "positions.hpp"

#include <cmath>
#include <complex>

namespace reference {

double angle(double position, int64_t pair, int64_t dim, double base) {
  return position / std::pow(base, 2.0 * static_cast<double>(pair) / static_cast<double>(dim));
}

std::vector<double> positional_encoding(const std::vector<int64_t> &positions, int64_t dim, double base) {
  std::vector<double> encoding;
  for (int64_t position : positions) {
    for (int64_t c = 0; c < dim; ++c) {
      const double a = angle(static_cast<double>(position), c / 2, dim, base);
      encoding.push_back(c % 2 == 0 ? std::sin(a) : std::cos(a));
    }
  }
  return encoding;
}

std::vector<double> rotary(const std::vector<float> &x, const std::vector<int64_t> &positions, const Rotary &how) {
  std::vector<double> out(x.begin(), x.end());
  const size_t dim = positions.empty() ? 0 : x.size() / positions.size();
  for (size_t row = 0; row < positions.size(); ++row) {
    for (int64_t j = 0; j < how.rotary_dim / 2; ++j) {
      const size_t first = row * dim + static_cast<size_t>(how.interleaved ? 2 * j : j);
      const size_t second = row * dim + static_cast<size_t>(how.interleaved ? 2 * j + 1 : j + how.rotary_dim / 2);
      const double a = angle(how.position_scale * static_cast<double>(positions[row]), j, how.rotary_dim, how.base);
      const std::complex<double> turned =
          std::complex<double>(x[first], x[second]) * std::polar(1.0, how.inverse ? -a : a);
      out[first] = turned.real();
      out[second] = turned.imag();
    }
  }
  return out;
}

}  // namespace reference
