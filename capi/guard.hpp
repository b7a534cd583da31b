// The border between C and C++: no exception passes, and everything computes in one floating-point mode.
#pragma once

#include <exception>
#include <new>

#include "runtime/float_mode.hpp"
#include "status.hpp"

namespace fovea {

template <class Body>
Status guarded(const Body &body) noexcept {
  const CallFloatMode mode;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception &error) {
    return fail(FOVEA_INTERNAL_ERROR, "unexpected exception: %s", error.what());
  } catch (...) {
    return fail(FOVEA_INTERNAL_ERROR, "unexpected exception");
  }
}

}  // namespace fovea
