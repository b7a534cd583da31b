// Positional encodings by their formulas in float64. Dense row-major arrays.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace reference {

// position / base^(2 pair / dim)
double angle(double position, int64_t pair, int64_t dim, double base);

// [positions,dim]
std::vector<double> positional_encoding(const std::vector<int64_t> &positions, int64_t dim, double base);

struct Rotary {
  int64_t rotary_dim;
  double base = 10000;
  double position_scale = 1;
  bool interleaved = false;
  bool inverse = false;
  std::vector<float> frequencies = {};  // of pairs, in place of those of base
  double attention_factor = 1;
};

// The angle by which a pair turns.
double rotary_angle(const Rotary &how, int64_t position, int64_t pair);

// x [rows,dim], row r at positions[r]: each pair of features, as a complex number, times e^(i angle).
std::vector<double> rotary(const std::vector<float> &x, const std::vector<int64_t> &positions, const Rotary &how);

// x [rows,dim], turns [rows,pairs]: each pair of features times its turn, or divided by its direction, and times
// attention_factor.
std::vector<double> turned(const std::vector<float> &x, const std::vector<std::complex<double>> &turns,
                           const Rotary &how);

// The frequencies and the attention factor of a model's configuration, in its words.
struct RopeScaling {
  enum class Type { plain, linear, dynamic, yarn, longrope, llama3 };
  Type type = Type::plain;
  double theta = 10000, factor = 1;
  double original_length = 0, length = 0;
  double low_freq_factor = 0, high_freq_factor = 0;
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0;
  bool truncate = true;
  std::vector<float> short_factor = {}, long_factor = {};
};

std::vector<double> rope_frequencies(const RopeScaling &scaling, int64_t dim);
double rope_attention_factor(const RopeScaling &scaling);

}  // namespace reference
