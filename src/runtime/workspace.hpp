// Scratch memory of one-shot calls.
#pragma once

#include <cstddef>

#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"
#include "status.hpp"

namespace fovea {

// A cache-line aligned buffer, taken from the context's spare one when that is large enough, given back on destruction.
class Workspace {
 public:
  Workspace(const Context &context, size_t size);
  Workspace(const Context &context, const MemoryLayout &layout) : Workspace(context, layout.size()) {}
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

  // Whether there is the memory that was asked for.
  [[nodiscard]] Status status() const;

  // Null when there is none (and when no bytes were asked for).
  void *data() const;

 private:
  const Context &context_;
  const size_t size_;
  void *block_ = nullptr;
};

void free_spare_workspace(void *block);

}  // namespace fovea
