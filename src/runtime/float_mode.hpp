// The one floating-point mode that the library computes in: round to nearest, denormal numbers kept, no exception
// trapped. Callers and their threads may have set another, so each call and each share of a parallel one begins by
// setting it, and puts back what it found: control bits and the sticky flags. Where nothing has to be set this costs a
// read and a comparison at each end.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace fovea {

#if defined(__x86_64__)

// MXCSR: C++ for x86-64 computes nothing by the x87 unit but long double, which is not used here.
struct FloatEnvironment {
  static constexpr uint32_t standard_mode = 0x1f80;
  uint32_t mxcsr;

  // Memory is clobbered so that no operand is loaded, and no result stored, on the wrong side of a change.
  static FloatEnvironment current() {
    FloatEnvironment now;
    asm volatile("stmxcsr %0" : "=m"(now.mxcsr) : : "memory");
    return now;
  }
  void set() const { asm volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory"); }
  static void set_standard() { FloatEnvironment{standard_mode}.set(); }
  bool is_standard() const {
    constexpr uint32_t sticky_flags = 0x3f;
    return (mxcsr & ~sticky_flags) == standard_mode;
  }
  bool operator==(const FloatEnvironment &) const = default;
};

#elif defined(__aarch64__)

struct FloatEnvironment {
  uint64_t fpcr, fpsr;

  static FloatEnvironment current() {
    FloatEnvironment now;
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(now.fpcr), "=r"(now.fpsr) : : "memory");
    return now;
  }
  void set() const { asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fpcr), "r"(fpsr) : "memory"); }
  static void set_standard() { FloatEnvironment{0, 0}.set(); }
  bool is_standard() const { return fpcr == 0; }
  bool operator==(const FloatEnvironment &) const = default;
};

#else

struct FloatEnvironment {
  fenv_t environment;

  static FloatEnvironment current() {
    FloatEnvironment now;
    fegetenv(&now.environment);
    return now;
  }
  void set() const { fesetenv(&environment); }
  static void set_standard() { fesetenv(FE_DFL_ENV); }
  bool is_standard() const { return false; }  // what an fenv_t holds is not told
  bool operator==(const FloatEnvironment &) const { return false; }
};

#endif

// The standard mode, for as long as this lives.
class StandardFloatMode {
 public:
  StandardFloatMode() : found_(FloatEnvironment::current()) {
    if (!found_.is_standard()) FloatEnvironment::set_standard();
  }
  ~StandardFloatMode() {
    if (FloatEnvironment::current() != found_) found_.set();
  }
  StandardFloatMode(const StandardFloatMode &) = delete;
  StandardFloatMode &operator=(const StandardFloatMode &) = delete;

 protected:
  const FloatEnvironment &found() const { return found_; }

 private:
  const FloatEnvironment found_;
};

// The same for a call from outside, which remembers what it found for CallersFloatMode.
class CallFloatMode : StandardFloatMode {
 public:
  CallFloatMode() : outer_(callers) { callers = &found(); }
  ~CallFloatMode() { callers = outer_; }
  CallFloatMode(const CallFloatMode &) = delete;
  CallFloatMode &operator=(const CallFloatMode &) = delete;

 private:
  friend class CallersFloatMode;
  static thread_local constinit const FloatEnvironment *callers;  // of the call that runs on this thread, if one does

  const FloatEnvironment *const outer_;  // a caller's parallel loop may call again
};

// The caller's environment for as long as this lives, inside a call: for code that is not ours, a caller's parallel
// loop and oneTBB, which hands the mode it finds on to the tasks of a whole arena.
class CallersFloatMode {
 public:
  CallersFloatMode() {
    if (CallFloatMode::callers != nullptr) CallFloatMode::callers->set();
  }
  ~CallersFloatMode() { FloatEnvironment::set_standard(); }
  CallersFloatMode(const CallersFloatMode &) = delete;
  CallersFloatMode &operator=(const CallersFloatMode &) = delete;
};

}  // namespace fovea
