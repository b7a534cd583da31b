// A set of page numbers that finds its smallest in a few steps: a tree of bits. A bit of the lowest level says that a
// number is in the set; one of a level above, that some bit is set in a word of the level below.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace fovea {

class PageSet {
 public:
  PageSet() = default;

  // Room for the numbers below count; throws std::bad_alloc. Nothing else allocates.
  explicit PageSet(int64_t count) {
    int64_t words = count;
    do {
      words = ceil_div(words, 64);
      levels_.emplace_back(static_cast<size_t>(words), 0);
    } while (words > 1);
  }

  bool holds(int64_t page) const { return (word(0, page) >> (page & 63) & 1) != 0; }

  void add(int64_t page) {
    for (size_t level = 0; level < levels_.size(); ++level, page >>= 6) {
      const bool was_empty = word(level, page) == 0;
      word(level, page) |= uint64_t{1} << (page & 63);
      if (!was_empty) return;
    }
  }

  void remove(int64_t page) {
    for (size_t level = 0; level < levels_.size(); ++level, page >>= 6) {
      word(level, page) &= ~(uint64_t{1} << (page & 63));
      if (word(level, page) != 0) return;
    }
  }

  // -1 where the set is empty.
  int64_t smallest() const {
    int64_t at = 0;
    for (size_t level = levels_.size(); level-- > 0;) {
      const uint64_t bits = levels_[level][static_cast<size_t>(at)];
      if (bits == 0) return -1;
      at = at * 64 + std::countr_zero(bits);
    }
    return at;
  }

 private:
  const uint64_t &word(size_t level, int64_t at) const { return levels_[level][static_cast<size_t>(at >> 6)]; }
  uint64_t &word(size_t level, int64_t at) { return levels_[level][static_cast<size_t>(at >> 6)]; }

  std::vector<std::vector<uint64_t>> levels_;
};

}  // namespace fovea
