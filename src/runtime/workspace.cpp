// One spare block per context, exchanged atomically: a caller takes it, and puts its own back when the slot is empty.
// A block starts with a cache line that holds its size.
#include "runtime/workspace.hpp"

#include <cstdlib>
#include <cstring>

#include "types.hpp"

namespace fovea {
namespace {

size_t block_size(const void *block) {
  size_t size = 0;
  std::memcpy(&size, block, sizeof size);
  return size;
}

// Larger blocks go back to the system at once: a rare huge call must not hold its memory for good.
constexpr size_t max_spare_size = size_t{64} << 20;

}  // namespace

bool add_lines(int64_t floats, int64_t *total) {
  return floats <= INT64_MAX - line_floats && checked_add(*total, round_up(floats, line_floats), total);
}

float *Lines::take(int64_t floats) {
  float *part = at;
  at += round_up(floats, line_floats);
  return part;
}

Workspace::Workspace(const Context &context, size_t size) : context_(context) {
  if (size == 0) return;
  block_ = context.spare_workspace.exchange(nullptr, std::memory_order_acquire);
  if (block_ != nullptr && block_size(block_) >= size) return;
  std::free(block_);
  block_ = nullptr;
  if (size > SIZE_MAX - 2 * cache_line) return;
  const size_t rounded = (size + cache_line - 1) / cache_line * cache_line;
  block_ = std::aligned_alloc(cache_line, rounded + cache_line);
  if (block_ != nullptr) std::memcpy(block_, &rounded, sizeof rounded);
}

Workspace::~Workspace() {
  if (block_ == nullptr) return;
  void *expected = nullptr;
  const bool kept = block_size(block_) <= max_spare_size &&
                    context_.spare_workspace.compare_exchange_strong(expected, block_, std::memory_order_release,
                                                                     std::memory_order_relaxed);
  if (!kept) std::free(block_);
}

void *Workspace::data() const { return block_ == nullptr ? nullptr : static_cast<char *>(block_) + cache_line; }

void free_spare_workspace(void *block) { std::free(block); }

}  // namespace fovea
