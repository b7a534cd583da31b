// The sequences of a pool: slots, and numbers that lead to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fovea {

struct Sequence {
  int64_t number = 0;
  bool open = false;
  int64_t length = 0;  // positions, those given back included
  int64_t first = 0;   // the first position that is kept
  std::vector<int32_t> pages =
      {};                 // that it holds: of the positions from first on, and of those before in the same page
  int64_t last_step = 0;  // the last one that named it
};

// A number is one more than its slot, plus a multiple of how many slots there are that is greater each time the slot is
// used: so it leads to the slot, and never comes again (a slot would have to be opened 2^43 times).
class Sequences {
 public:
  Sequences() = default;
  explicit Sequences(int64_t most) : most_(most) {  // throws std::bad_alloc; opening and closing do not allocate
    slots_.reserve(static_cast<size_t>(most));
    closed_.reserve(static_cast<size_t>(most));
  }

  int64_t most() const { return most_; }
  int64_t open_count() const { return static_cast<int64_t>(slots_.size() - closed_.size()); }

  // Null for a number of none that is open.
  Sequence *find(int64_t number) {
    if (number < 1) return nullptr;
    const auto slot = static_cast<size_t>((number - 1) % most_);
    if (slot >= slots_.size()) return nullptr;
    Sequence &found = slots_[slot];
    return found.open && found.number == number ? &found : nullptr;
  }
  const Sequence *find(int64_t number) const { return const_cast<Sequences *>(this)->find(number); }

  // An empty one. There must be room. Slots do not move.
  Sequence &open() {
    if (closed_.empty()) {
      slots_.push_back({.number = static_cast<int64_t>(slots_.size()) + 1 - most_});
      closed_.push_back(static_cast<int32_t>(slots_.size() - 1));
    }
    Sequence &opened = slots_[static_cast<size_t>(closed_.back())];
    closed_.pop_back();
    opened.number += most_;
    opened.open = true;
    return opened;
  }

  // One that holds no pages any more.
  void close(Sequence *sequence) {
    sequence->open = false;
    sequence->length = sequence->first = 0;
    std::vector<int32_t>().swap(sequence->pages);  // one that was long leaves no memory behind
    closed_.push_back(static_cast<int32_t>(sequence - slots_.data()));
  }

 private:
  int64_t most_ = 0;
  std::vector<Sequence> slots_;  // used so far
  std::vector<int32_t> closed_;  // slots among them; the last one is opened first
};

}  // namespace fovea
