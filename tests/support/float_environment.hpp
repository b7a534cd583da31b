// The floating-point environment of a thread, as the bits of its registers, and settings that programs make to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace testing {

#if defined(__x86_64__)

struct FloatEnvironment {
  uint32_t mxcsr;
  bool operator==(const FloatEnvironment &) const = default;
};
inline FloatEnvironment float_environment() {
  FloatEnvironment now{};
  asm volatile("stmxcsr %0" : "=m"(now.mxcsr)::"memory");
  return now;
}
inline void set_float_environment(const FloatEnvironment &wanted) {
  asm volatile("ldmxcsr %0" ::"m"(wanted.mxcsr) : "memory");
}

// Bits of MXCSR.
inline constexpr uint32_t kFlushToZero = 0x8000, kDenormalsAreZero = 0x40, kMasks = 0x1f80, kUpward = 0x4000,
                          kDownward = 0x2000, kTowardZero = 0x6000, kSomeFlags = 0x09;

struct NamedEnvironment {
  std::string name;
  FloatEnvironment environment;
};
inline std::vector<NamedEnvironment> float_environments() {
  return {{"default", {kMasks}},
          {"default, with flags raised", {kMasks | kSomeFlags}},
          {"upward", {kMasks | kUpward}},
          {"downward", {kMasks | kDownward}},
          {"toward zero", {kMasks | kTowardZero | kSomeFlags}},
          {"flush to zero", {kMasks | kFlushToZero}},
          {"denormals are zero", {kMasks | kDenormalsAreZero}},
          {"both, upward", {kMasks | kFlushToZero | kDenormalsAreZero | kUpward}},
          {"exceptions unmasked", {0}},
          {"exceptions unmasked, both, downward", {kFlushToZero | kDenormalsAreZero | kDownward}}};
}

#elif defined(__aarch64__)

struct FloatEnvironment {
  uint64_t fpcr, fpsr;
  bool operator==(const FloatEnvironment &) const = default;
};
inline FloatEnvironment float_environment() {
  FloatEnvironment now{};
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(now.fpcr), "=r"(now.fpsr)::"memory");
  return now;
}
inline void set_float_environment(const FloatEnvironment &wanted) {
  asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(wanted.fpcr), "r"(wanted.fpsr) : "memory");
}

// Bits of FPCR and of FPSR. What traps is left alone: few of these processors can.
inline constexpr uint64_t kFlushToZero = 1U << 24, kUpward = 1U << 22, kDownward = 2U << 22, kTowardZero = 3U << 22,
                          kDefaultNan = 1U << 25, kSomeFlags = 0x09;

struct NamedEnvironment {
  std::string name;
  FloatEnvironment environment;
};
inline std::vector<NamedEnvironment> float_environments() {
  return {{"default", {0, 0}},
          {"default, with flags raised", {0, kSomeFlags}},
          {"upward", {kUpward, 0}},
          {"downward", {kDownward, 0}},
          {"toward zero", {kTowardZero, kSomeFlags}},
          {"flush to zero", {kFlushToZero, 0}},
          {"flush to zero, upward, default NaN", {kFlushToZero | kUpward | kDefaultNan, 0}}};
}

#endif

}  // namespace testing
