// The frequencies of rotary embedding as models are configured, in float64: f(j) = base^(-2j/d), stretched. The
// formulas stand in layers.h. Sources: Su et al. 2021; Chen et al. 2023, "Extending context window of large language
// models via positional interpolation"; Peng et al. 2023, "YaRN", whose appendix B.2 has dynamic NTK; Ding et al. 2024,
// "LongRoPE"; the code that Meta published with Llama 3.1.
#include "ops/positions/rotary_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea {
namespace {

// YaRN's ramp over pairs: 0 where they keep their frequency, 1 where it is divided by the factor.
struct Ramp {
  double low, high;

  double at(int64_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
};

Ramp yarn_ramp(const FrequencySettings &s, double dim) {
  constexpr double least_width = 0.001;  // a step
  // The pair, in fractions, that turns so many times in the original length.
  const auto pair_of = [&](double rotations) {
    return dim * std::log(s.original_length / (2.0 * std::numbers::pi * rotations)) / (2.0 * std::log(s.base));
  };
  double low = pair_of(s.fast_rotations);
  double high = pair_of(s.slow_rotations);
  if (s.rounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  return {low, low == high ? high + least_width : high};
}

double llama3_frequency(const FrequencySettings &s, double frequency) {
  const double turns = s.original_length * frequency / (2.0 * std::numbers::pi);
  const double kept =
      std::clamp((turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor), 0.0, 1.0);
  return (1.0 - kept) * frequency / s.factor + kept * frequency;
}

double dynamic_base(const FrequencySettings &s, double dim) {
  const double length = std::max(s.length, s.original_length);
  const double stretch = s.factor * length / s.original_length - (s.factor - 1.0);
  return s.base * std::pow(stretch, dim / (dim - 2.0));
}

void fill(const FrequencySettings &s, const fovea_tensor &out) {
  const int64_t pairs = out.shape[0];
  const auto dim = static_cast<double>(2 * pairs);
  const double base = s.kind == FOVEA_FREQUENCIES_DYNAMIC && pairs > 1 ? dynamic_base(s, dim) : s.base;
  const Ramp ramp = s.kind == FOVEA_FREQUENCIES_YARN ? yarn_ramp(s, dim) : Ramp{0.0, 1.0};
  const TensorArgument &divisors = s.length > s.original_length ? s.long_factors : s.short_factors;
  for (int64_t j = 0; j < pairs; ++j) {
    double frequency = std::pow(base, -2.0 * static_cast<double>(j) / dim);
    switch (s.kind) {
      case FOVEA_FREQUENCIES_LINEAR: frequency /= s.factor; break;
      case FOVEA_FREQUENCIES_YARN: frequency *= 1.0 - ramp.at(j) + ramp.at(j) / s.factor; break;
      case FOVEA_FREQUENCIES_LONGROPE:
        frequency /= static_cast<const float *>(divisors->data)[j * divisors->strides[0]];
        break;
      case FOVEA_FREQUENCIES_LLAMA3: frequency = llama3_frequency(s, frequency); break;
      default: break;
    }
    static_cast<float *>(out.data)[j * out.strides[0]] = static_cast<float>(frequency);
  }
}

double attention_factor_of(const FrequencySettings &s) {
  if (s.factor <= 1.0) return 1.0;
  const double log_factor = std::log(s.factor);
  if (s.kind == FOVEA_FREQUENCIES_LONGROPE) return std::sqrt(1.0 + log_factor / std::log(s.original_length));
  if (s.kind != FOVEA_FREQUENCIES_YARN) return 1.0;
  const bool both = s.mscale != 0.0 && s.mscale_all_dim != 0.0;
  const auto temperature = [&](double scale) { return 1.0 + scale * log_factor / 10.0; };
  return both ? temperature(s.mscale) / temperature(s.mscale_all_dim) : temperature(1.0);
}

}  // namespace

Status rotary_frequencies(const TensorArgument &frequencies, const TensorArgument &attention_factor,
                          const fovea_rotary_frequencies_options *options) {
  FrequencySettings settings = {};
  FOVEA_CHECK(check_frequencies(frequencies, attention_factor, options, &settings));
  fill(settings, *frequencies);
  if (attention_factor != nullptr) {
    *static_cast<float *>(attention_factor->data) = static_cast<float>(attention_factor_of(settings));
  }
  return FOVEA_OK;
}

}  // namespace fovea
