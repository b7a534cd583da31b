// The C++ interface to rotary embedding as models have it: each member of its options told from its default.
#include <cmath>
#include <cstdint>
#include <vector>

#include "cpp_face.hpp"

using namespace testing;

namespace {

using fovea::FrequenciesKind;
using fovea::Tensor;

Floats frequencies_of(std::size_t pairs, const fovea::RotaryFrequenciesOptions &options, double attention_factor = 1) {
  Floats made(pairs);
  CHECK(std::abs(fovea::rotary_frequencies(made, options) - static_cast<float>(attention_factor)) < 1e-6f);
  return made;
}

}  // namespace

TEST_SUITE_BEGIN("cpp face");

TEST_CASE("rotary as models have it") {
  const Floats x = {1, 0, 0, 1};  // pairs (1, 0) and (0, 1)
  Floats out(4);
  const Floats frequencies = {0.5f, 2};
  fovea::rotary(Tensor(x, {1, 4}), Tensor(out, {1, 4}), {.offset = 1, .frequencies = frequencies});
  check_near(out, {std::cos(0.5), -std::sin(2.0), std::sin(0.5), std::cos(2.0)});
  fovea::rotary(Tensor(x, {1, 4}), Tensor(out, {1, 4}),
                {.offset = 1, .frequencies = frequencies, .attention_factor = 3.0f});
  check_near(out, {3 * std::cos(0.5), -3 * std::sin(2.0), 3 * std::sin(0.5), 3 * std::cos(2.0)});
  fovea::rotary(Tensor(x, {1, 4}), Tensor(out, {1, 4}), {.offset = 1, .attention_factor = 0.0f});
  check_near(out, {0, 0, 0, 0});

  const std::vector<std::int32_t> positions = {1, 3}, sections = {1, 0};
  fovea::rotary(Tensor(x, {1, 4}), Tensor(out, {1, 4}),
                {.positions = Tensor(positions, {2, 1}), .frequencies = frequencies, .sections = sections});
  check_near(out, {std::cos(1.5), -std::sin(2.0), std::sin(1.5), std::cos(2.0)});

  const Floats cosines = {1, 1, 0.6f, 0.8f}, sines = {0, 0, 0.8f, 0.6f};
  fovea::rotary(Tensor(x, {1, 4}), Tensor(out, {1, 4}),
                {.offset = 1, .cosines = Tensor(cosines, {2, 2}), .sines = Tensor(sines, {2, 2})});
  check_near(out, {0.6, -0.6, 0.8, 0.8});
}

TEST_CASE("frequencies of models") {
  const double step = std::pow(10000.0, -0.5);
  check_near(frequencies_of(2, {}), {1, step});
  check_near(frequencies_of(2, {.base = 16}), {1, 0.25});
  check_near(frequencies_of(2, {.kind = FrequenciesKind::linear, .base = 16, .factor = 4}), {0.25, 0.0625});
  const fovea::RotaryFrequenciesOptions dynamic = {
      .kind = FrequenciesKind::dynamic, .base = 16, .factor = 2, .original_length = 8, .length = 20};
  check_near(frequencies_of(2, dynamic), {1, 1 / std::sqrt(16 * std::pow(2.0 * 20 / 8 - 1, 2))});
  const fovea::RotaryFrequenciesOptions llama = {.kind = FrequenciesKind::llama3,
                                                 .base = 10000,
                                                 .factor = 8,
                                                 .original_length = 8192,
                                                 .low_frequency_factor = 1,
                                                 .high_frequency_factor = 4};
  check_near(frequencies_of(1, llama), {1});

  // With 8 pairs, YaRN's default range is from the first to the last but one, so each member has an effect.
  fovea::RotaryFrequenciesOptions yarn = {
      .kind = FrequenciesKind::yarn, .base = 100, .factor = 4, .original_length = 64};
  const Floats usual = frequencies_of(8, yarn, 1 + std::log(4.0) / 10);
  CHECK_NE(usual[3], std::pow(100.0f, -3.0f / 8));
  yarn.fast_rotations = 32.0f;
  yarn.slow_rotations = 1.0f;
  CHECK_EQ(frequencies_of(8, yarn, 1 + std::log(4.0) / 10), usual);
  yarn.slow_rotations = 4.0f;
  CHECK_NE(frequencies_of(8, yarn, 1 + std::log(4.0) / 10), usual);
  yarn.slow_rotations = {};
  yarn.fast_rotations = 2.0f;
  CHECK_NE(frequencies_of(8, yarn, 1 + std::log(4.0) / 10), usual);
  yarn.unrounded = true;
  yarn.fast_rotations = {};
  CHECK_NE(frequencies_of(8, yarn, 1 + std::log(4.0) / 10), usual);
  yarn.mscale = 2;
  yarn.mscale_all_dim = 0.5f;
  frequencies_of(8, yarn, (1 + 0.2 * std::log(4.0)) / (1 + 0.05 * std::log(4.0)));

  const Floats short_factors = {2, 4}, long_factors = {5, 10};
  fovea::RotaryFrequenciesOptions longrope = {.kind = FrequenciesKind::longrope,
                                              .base = 16,
                                              .factor = 4,
                                              .original_length = 64,
                                              .length = 64,
                                              .short_factors = short_factors,
                                              .long_factors = long_factors};
  const double factor = std::sqrt(1 + std::log(4.0) / std::log(64.0));
  check_near(frequencies_of(2, longrope, factor), {0.5, 0.0625});
  longrope.length = 65;
  check_near(frequencies_of(2, longrope, factor), {0.2, 0.025});
  CHECK_THROWS_AS(frequencies_of(2, {.base = 1}), fovea::Error);
}

TEST_SUITE_END();
