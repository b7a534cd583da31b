// Scratch memory of one-shot calls.
#pragma once

#include <cstddef>

#include "runtime/context.hpp"

namespace fovea {

constexpr size_t cache_line = 64;

// A cache-line aligned buffer, taken from the context's spare one when that is large enough, given back on destruction.
class Workspace {
 public:
  Workspace(const Context &context, size_t size);
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

  // Null when memory ran out (and when no bytes were asked for).
  void *data() const;

 private:
  const Context &context_;
  void *block_ = nullptr;
};

void free_spare_workspace(void *block);

}  // namespace fovea
