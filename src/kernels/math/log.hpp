// The logarithm of one number, rounded once.
#pragma once

#include <math.h>

#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE float log_of(float sum) { return static_cast<float>(log(static_cast<double>(sum))); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
