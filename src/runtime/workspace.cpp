// Keeps one spare block per context, exchanged atomically: a caller takes it, and puts its own back when the slot is
// empty. A block starts with a cache line that holds its size.
#include "runtime/workspace.hpp"

#include <cstdlib>
#include <cstring>

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

Workspace::Workspace(const Context &context, size_t size) : context_(context), size_(size) {
  if (size == 0) return;
  block_ = context.spare_workspace.exchange(nullptr, std::memory_order_acquire);
  if (block_ != nullptr && block_size(block_) >= size) return;
  std::free(block_);
  block_ = nullptr;
  if (size > SIZE_MAX - cache_line) return;
  block_ = allocate_lines(size + cache_line);
  if (block_ != nullptr) std::memcpy(block_, &size, sizeof size);
}

Workspace::~Workspace() {
  if (block_ == nullptr) return;
  void *expected = nullptr;
  const bool kept = block_size(block_) <= max_spare_size &&
                    context_.spare_workspace.compare_exchange_strong(expected, block_, std::memory_order_release,
                                                                     std::memory_order_relaxed);
  if (!kept) std::free(block_);
}

Status Workspace::status() const {
  if (block_ != nullptr || size_ == 0) return FOVEA_OK;
  return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", size_);
}

void *Workspace::data() const { return block_ == nullptr ? nullptr : static_cast<char *>(block_) + cache_line; }

void free_spare_workspace(void *block) { std::free(block); }

}  // namespace fovea
