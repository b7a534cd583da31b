#include "narrow.hpp"

#include <cmath>

namespace testing {
namespace {

// Bits of the fraction and the exponents of the largest and the smallest normal number.
struct Format {
  int fraction, most, least;
};

Format format_of(fovea_dtype dtype) { return dtype == FOVEA_BF16 ? Format{7, 127, -126} : Format{10, 15, -14}; }

}  // namespace

uint16_t narrowed(float x, fovea_dtype dtype) {
  const Format format = format_of(dtype);
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const int infinity = (format.most * 2 + 1) << format.fraction;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | infinity | 1 << (format.fraction - 1));
  if (std::isinf(x)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = x == 0 ? format.least : std::max(std::ilogb(x), format.least);
  // A whole number of last places; what carries into the next exponent does so in the bits as well.
  const int places =
      static_cast<int>(std::nearbyint(std::ldexp(std::fabs(static_cast<double>(x)), format.fraction - exponent)));
  const int bits = ((exponent - format.least) << format.fraction) + places;
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

float widened(uint16_t bits, fovea_dtype dtype) {
  const Format format = format_of(dtype);
  const int fraction = bits & ((1 << format.fraction) - 1);
  const int exponent = (bits & 0x7fff) >> format.fraction;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == format.most * 2 + 1) return fraction != 0 ? kNan : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), format.least - format.fraction);
  return sign * std::ldexp(static_cast<float>(fraction + (1 << format.fraction)),
                           exponent - 1 + format.least - format.fraction);
}

NarrowTensor::NarrowTensor(const Tensor<float> &from, fovea_dtype dtype)
    : bits_(from.shape(), from.strides()), dtype_(dtype) {
  for_each_index(from.shape(), [&](const Shape &index) { bits_.at(index) = narrowed(from.at(index), dtype); });
}

fovea_tensor NarrowTensor::view() const {
  fovea_tensor view = bits_.view();
  view.dtype = dtype_;
  return view;
}

}  // namespace testing
