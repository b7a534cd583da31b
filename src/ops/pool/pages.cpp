// Takes pages and gives them back.
#include "ops/pool/pages.hpp"

namespace fovea {

Pages::Pages(int64_t count) : count_(count), free_(count), given_back_(count) {
  holders_.reserve(static_cast<size_t>(count));  // memory that is not touched before it is needed
}

int32_t Pages::take(int32_t after) {
  const auto mark = static_cast<int64_t>(holders_.size());
  int64_t page = int64_t{after} + 1;
  const bool is_free = after >= 0 && page < count_ && (page == mark || given_back_.holds(page));
  if (!is_free) page = given_back_.smallest();
  if (page < 0) page = mark;
  if (page == mark) {
    holders_.push_back(1);
  } else {
    given_back_.remove(page);
    holders_[static_cast<size_t>(page)] = 1;
  }
  --free_;
  return static_cast<int32_t>(page);
}

void Pages::give_back(int32_t page) {
  if (--holders_[static_cast<size_t>(page)] > 0) return;
  given_back_.add(page);
  ++free_;
}

}  // namespace fovea
