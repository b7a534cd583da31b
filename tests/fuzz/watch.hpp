// A limit on a call's time: the processor's, so that a busy machine does not count.
#pragma once

#include "frame.hpp"

namespace fuzz {

// While it lives, the process ends with the call's description when that takes longer than any of these calls may.
class Watch {
 public:
  explicit Watch(const Frame &frame);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
};

}  // namespace fuzz
