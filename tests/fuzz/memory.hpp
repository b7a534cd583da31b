// Memory for one call: every block lies in pages of its own between pages that nobody may touch, flush with one of
// them, and what is left of its pages next to it is marked. Blocks are used again by the next call: mapping memory
// takes longer than most calls.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fuzz {

constexpr size_t block_capacity = size_t{1} << 17;
constexpr size_t mark_size = 192;
constexpr uint8_t mark = 0xC7;

struct Block {
  uint8_t *data = nullptr;
  size_t size = 0;
  size_t place = 0;
};

class Memory {
 public:
  // flush with the guard page behind, or with the one before.
  Block take(size_t size, bool at_end) {
    if (size > block_capacity) abort();
    if (used_ == places_.size()) map_place();
    uint8_t *first = places_[used_];
    const Block block = {at_end ? first + block_capacity - size : first, size, used_++};
    std::memset(before(block), mark, static_cast<size_t>(block.data - before(block)));
    std::memset(block.data + size, mark, static_cast<size_t>(after(block) - (block.data + size)));
    return block;
  }
  void release_all() { used_ = 0; }

  // Whether the bytes around the block are as they were.
  bool marks_intact(const Block &block) const {
    for (const uint8_t *at = before(block); at < block.data; ++at) {
      if (*at != mark) return false;
    }
    for (const uint8_t *at = block.data + block.size; at < after(block); ++at) {
      if (*at != mark) return false;
    }
    return true;
  }

  // Where nothing may be read or written, whatever the size of what is said to lie there.
  static void *forbidden() {
    static void *const page = mmap(nullptr, size_t{1} << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page;
  }

 private:
  uint8_t *before(const Block &block) const {
    uint8_t *first = places_[block.place];
    return block.data - first < static_cast<ptrdiff_t>(mark_size) ? first : block.data - mark_size;
  }
  uint8_t *after(const Block &block) const {
    uint8_t *last = places_[block.place] + block_capacity;
    uint8_t *end = block.data + block.size;
    return last - end < static_cast<ptrdiff_t>(mark_size) ? last : end + mark_size;
  }
  void map_place() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *mapping = mmap(nullptr, block_capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) abort();
    uint8_t *first = static_cast<uint8_t *>(mapping) + page;
    if (mprotect(first, block_capacity, PROT_READ | PROT_WRITE) != 0) abort();
    places_.push_back(first);
  }

  std::vector<uint8_t *> places_;
  size_t used_ = 0;
};

}  // namespace fuzz
