#include "narrow.hpp"

#include <bit>
#include <cmath>

namespace testing {
namespace {

// Bits of the fraction and the exponents of the largest and the smallest normal number.
struct Format {
  int fraction, most, least;
};

Format format_of(fovea_dtype dtype) { return dtype == FOVEA_BF16 ? Format{7, 127, -126} : Format{10, 15, -14}; }

// 2^exponent, a normal number.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

}  // namespace

uint16_t narrowed(float x, fovea_dtype dtype) {
  const Format format = format_of(dtype);
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const int infinity = (format.most * 2 + 1) << format.fraction;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | infinity | 1 << (format.fraction - 1));
  if (std::isinf(x)) return static_cast<uint16_t>(sign | infinity);
  // That of a float's bits is its own, or -127 below the smallest normal one.
  const int exponent = std::max(static_cast<int>(std::bit_cast<uint32_t>(x) >> 23 & 0xff) - 127, format.least);
  // A whole number of last places; what carries into the next exponent does so in the bits as well.
  const int places =
      static_cast<int>(std::nearbyint(std::fabs(static_cast<double>(x)) * power_of_two(format.fraction - exponent)));
  const int bits = ((exponent - format.least) << format.fraction) + places;
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

float widened(uint16_t bits, fovea_dtype dtype) {
  const Format format = format_of(dtype);
  const int fraction = bits & ((1 << format.fraction) - 1);
  const int exponent = (bits & 0x7fff) >> format.fraction;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == format.most * 2 + 1) return fraction != 0 ? kNan : sign * kInfinity;
  const int places = exponent == 0 ? fraction : fraction + (1 << format.fraction);
  return sign * static_cast<float>(places * power_of_two(std::max(exponent - 1, 0) + format.least - format.fraction));
}

NarrowTensor::NarrowTensor(const Tensor<float> &from, fovea_dtype dtype)
    : bits_(from.shape(), from.strides()), dtype_(dtype) {
  for_each_offset(from.shape(), from.strides(),
                  [&](int64_t offset) { bits_.data()[offset] = narrowed(from.data()[offset], dtype); });
}

fovea_tensor NarrowTensor::view() const {
  fovea_tensor view = bits_.view();
  view.dtype = dtype_;
  return view;
}

}  // namespace testing
