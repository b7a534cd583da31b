// The formulas of the sinusoidal encoding and rotary position embedding.
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

double rotary_angle(const Rotary &how, int64_t position, int64_t pair) {
  const double scaled = how.position_scale * static_cast<double>(position);
  if (how.frequencies.empty()) return angle(scaled, pair, how.rotary_dim, how.base);
  return scaled * static_cast<double>(how.frequencies.at(static_cast<size_t>(pair)));
}

std::vector<double> turned(const std::vector<float> &x, const std::vector<std::complex<double>> &turns,
                           const Rotary &how) {
  std::vector<double> out(x.begin(), x.end());
  const auto pairs = static_cast<size_t>(how.rotary_dim / 2);
  const size_t rows = pairs == 0 ? 0 : turns.size() / pairs;
  const size_t dim = rows == 0 ? 0 : x.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t j = 0; j < pairs; ++j) {
      const size_t first = row * dim + (how.interleaved ? 2 * j : j);
      const size_t second = row * dim + (how.interleaved ? 2 * j + 1 : j + pairs);
      const std::complex<double> turn = turns[row * pairs + j];
      const std::complex<double> result =
          std::complex<double>(x[first], x[second]) * (how.inverse ? std::conj(turn) : turn) * how.attention_factor;
      out[first] = result.real();
      out[second] = result.imag();
    }
  }
  return out;
}

std::vector<double> rotary(const std::vector<float> &x, const std::vector<int64_t> &positions, const Rotary &how) {
  std::vector<std::complex<double>> turns;
  for (const int64_t position : positions) {
    for (int64_t j = 0; j < how.rotary_dim / 2; ++j) turns.push_back(std::polar(1.0, rotary_angle(how, position, j)));
  }
  return turned(x, turns, how);
}

namespace {

constexpr double two_pi = 6.283185307179586;

// By wavelengths, as Llama 3.1's own code has it.
double llama3_frequency(const RopeScaling &s, double frequency) {
  const double wavelength = two_pi / frequency;
  if (wavelength < s.original_length / s.high_freq_factor) return frequency;
  if (wavelength > s.original_length / s.low_freq_factor) return frequency / s.factor;
  const double smooth = (s.original_length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

double yarn_frequency(const RopeScaling &s, double frequency, int64_t pair, double dim) {
  // Where base^(-2 pair/dim) original_length is 2 pi times the rotations.
  const auto border = [&](double rotations) {
    return dim / 2 * std::log(s.original_length / rotations / two_pi) / std::log(s.theta);
  };
  double low = border(s.beta_fast), high = border(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = low < 0 ? 0 : low;
  high = high > dim - 1 ? dim - 1 : high;
  if (low == high) high += 0.001;
  double ramp = (static_cast<double>(pair) - low) / (high - low);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  return ramp * frequency / s.factor + (1 - ramp) * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeScaling &s, int64_t dim) {
  using Type = RopeScaling::Type;
  const auto size = static_cast<double>(dim);
  double base = s.theta;
  if (s.type == Type::dynamic && s.length > s.original_length && dim > 2) {
    base *= std::pow(s.factor * s.length / s.original_length - s.factor + 1, size / (size - 2));
  }
  std::vector<double> frequencies;
  for (int64_t j = 0; j < dim / 2; ++j) {
    const double frequency = angle(1, j, dim, base);
    const auto pair = static_cast<size_t>(j);
    frequencies.push_back(s.type == Type::linear   ? frequency / s.factor
                          : s.type == Type::yarn   ? yarn_frequency(s, frequency, j, size)
                          : s.type == Type::llama3 ? llama3_frequency(s, frequency)
                          : s.type != Type::longrope
                              ? frequency
                              : frequency / (s.length > s.original_length ? s.long_factor : s.short_factor).at(pair));
  }
  return frequencies;
}

double rope_attention_factor(const RopeScaling &s) {
  const auto scale = [&](double mscale) { return s.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(s.factor) + 1; };
  if (s.type == RopeScaling::Type::longrope) {
    return s.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(s.factor) / std::log(s.original_length));
  }
  if (s.type != RopeScaling::Type::yarn) return 1;
  return s.mscale > 0 && s.mscale_all_dim > 0 ? scale(s.mscale) / scale(s.mscale_all_dim) : scale(1);
}

}  // namespace reference
