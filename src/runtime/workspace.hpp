// Scratch memory of one-shot calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/context.hpp"

namespace fovea {

constexpr size_t cache_line = 64;
constexpr int64_t line_floats = static_cast<int64_t>(cache_line / sizeof(float));

// Adds `floats`, rounded up to whole cache lines, to *total; false on overflow.
[[nodiscard]] bool add_lines(int64_t floats, int64_t *total);

// Hands out memory that was sized so, part after part.
struct Lines {
  float *at;

  float *take(int64_t floats);
};

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
