// Positional encodings by their formulas in float64. Dense row-major arrays.
#pragma once

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
};

// x [rows,dim], row r at positions[r]: each pair of features, as a complex number, times e^(i angle).
std::vector<double> rotary(const std::vector<float> &x, const std::vector<int64_t> &positions, const Rotary &how);

}  // namespace reference
