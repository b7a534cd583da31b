// Where guarded memory comes from. The kernel takes longer to map, clear and unmap pages than most tests take to compute
// on them, so those of small blocks are kept and handed out again.
#include "guarded_memory.hpp"

#include <mutex>

namespace testing {
namespace {

constexpr size_t kMostPages = 256, kMostOfASize = 64, kMostBytes = size_t{64} << 20;

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Blocks that were given back, by their number of pages. It allocates nothing: tests of shortages give blocks back, too.
struct Kept {
  std::mutex mutex;
  std::byte *blocks[kMostPages + 1][kMostOfASize];
  size_t counts[kMostPages + 1] = {};
  size_t bytes = 0;
};
Kept kept;

std::byte *take(size_t size) {
  const size_t pages = size / page_size();
  const std::lock_guard lock(kept.mutex);
  if (pages > kMostPages || kept.counts[pages] == 0) return nullptr;
  kept.bytes -= size;
  return kept.blocks[pages][--kept.counts[pages]];
}

bool keep(std::byte *first, size_t size) {
  const size_t pages = size / page_size();
  const std::lock_guard lock(kept.mutex);
  if (pages > kMostPages || kept.counts[pages] == kMostOfASize || kept.bytes + size > kMostBytes) return false;
  kept.blocks[pages][kept.counts[pages]++] = first;
  kept.bytes += size;
  return true;
}

}  // namespace

std::byte *map_between_guards(size_t size) {
  std::byte *first = take(size);
  const bool used = first != nullptr;
  if (!used) {
    void *mapping = mmap(nullptr, size + 2 * page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    first = static_cast<std::byte *>(mapping) + page_size();
  }
  if (size != 0 && mprotect(first, size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  if (used) std::memset(first, 0, size);
  return first;
}

void unmap_between_guards(std::byte *first, size_t size) noexcept {
  const bool untouchable = size == 0 || mprotect(first, size, PROT_NONE) == 0;
  if (!untouchable || !keep(first, size)) munmap(first - page_size(), size + 2 * page_size());
}

GuardedMemory::~GuardedMemory() {
  if (first_ != nullptr) unmap_between_guards(first_, usable_);
}

}  // namespace testing
