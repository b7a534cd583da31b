// Keeps the floating-point environment that the call on this thread was made in.
#include "runtime/float_mode.hpp"

namespace fovea {

thread_local constinit const FloatEnvironment *CallFloatMode::callers = nullptr;

}  // namespace fovea
