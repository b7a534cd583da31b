// Which pages of a pool are free, and how many sequences hold each of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/pool/page_set.hpp"

namespace fovea {

// Pages are numbered from 0. Those from a mark on were never taken: nothing is noted about them, and nobody has touched
// their memory.
class Pages {
 public:
  Pages() = default;
  explicit Pages(int64_t count);  // throws std::bad_alloc; nothing else allocates

  int64_t count() const { return count_; }
  int64_t free() const { return free_; }
  bool is_shared(int32_t page) const { return holders_[static_cast<size_t>(page)] > 1; }

  // A free page, of which there must be one, for one holder. It is the page behind `after` if that is free, so that
  // what is filled in one go lies in one piece; else the lowest that was given back, whose memory the system has given
  // already; else the first that was never taken. after is -1 where there is none.
  int32_t take(int32_t after);

  // One more holder, or one fewer: without any, the page is free.
  void share(int32_t page) { ++holders_[static_cast<size_t>(page)]; }
  void give_back(int32_t page);

 private:
  int64_t count_ = 0, free_ = 0;
  std::vector<int32_t> holders_;  // of the pages before the mark, which is its size
  PageSet given_back_;
};

}  // namespace fovea
