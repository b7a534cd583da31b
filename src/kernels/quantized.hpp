// Floats as 8-bit numbers: the largest of some, and all of them divided by what makes that 127.
#pragma once

#include "beyond_xsimd/bytes.hpp"
#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The largest magnitude of the numbers met, NaN from the first one that is not finite.
class Largest {
 public:
  template <class X>
  FOVEA_INLINE void meet(const X *x, int64_t count) {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) meet(load(x + i));
    if (i < count) meet(load_partial(x + i, count - i));
  }
  FOVEA_INLINE float magnitude() const {
    return xsimd::any(xsimd::isnan(check_)) ? __builtin_nanf("") : horizontal_max(largest_);
  }

 private:
  FOVEA_INLINE void meet(const Float &x) {
    largest_ = larger(largest_, xsimd::abs(x));
    check_ = multiply_add(x, zero(), check_);
  }

  Float largest_ = zero(), check_ = zero();
};

// x * inverse, rounded to nearest, ties to even, within [-127, 127]; 0 where inverse is.
template <class X>
FOVEA_INLINE void quantize_group(const X *x, float inverse, int64_t count, int8_t *numbers) {
  if (inverse == 0.0f) {  // NaN times 0 is none
    memset(numbers, 0, static_cast<size_t>(count));
    return;
  }
  const auto quantized = [&](const Float &value) FOVEA_INLINE_BODY {
    return at_most(at_least(value * splat(inverse), -127.0f), 127.0f).data;
  };
  int64_t d = 0;
  for (; d + lanes <= count; d += lanes) store_first_bytes(numbers + d, quantized(load(x + d)), lanes);
  if (d < count) store_first_bytes(numbers + d, quantized(load_partial(x + d, count - d)), count - d);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
