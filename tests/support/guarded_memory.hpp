// Memory between two pages that may not be touched, so that reading or writing one byte past either end stops the
// program. A block shorter than its pages can only be flush with one end; Placement says which.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "random.hpp"

namespace testing {

enum class Placement {
  kEnd,        // the last byte is followed by the guard page
  kBegin,      // the first byte follows the guard page; aligned to a page
  kMisaligned  // as kBegin but one element in, so that no vector type is aligned
};

inline std::string placement_name(Placement placement) {
  switch (placement) {
    case Placement::kEnd: return "end";
    case Placement::kBegin: return "begin";
    default: return "misaligned";
  }
}

// Where new blocks are put. A plain global: tests are built on one thread.
inline Placement current_placement = Placement::kEnd;

class WithPlacement {
 public:
  explicit WithPlacement(Placement placement) : before_(std::exchange(current_placement, placement)) {}
  ~WithPlacement() { current_placement = before_; }
  WithPlacement(const WithPlacement &) = delete;
  WithPlacement &operator=(const WithPlacement &) = delete;

 private:
  Placement before_;
};

// Bytes left open between a block and the guard page after it: 0 but under an emulator whose masked loads touch the
// lanes that are masked out (QEMU 7.2 does, no processor does).
inline size_t slack_after_block() {
  static const size_t slack = static_cast<size_t>(environment_number("FOVEA_TEST_SLACK", 0));
  return slack;
}

// Whole pages of zeros between two that may not be touched; what is given back may not be touched either until it is
// handed out again.
std::byte *map_between_guards(size_t size);
void unmap_between_guards(std::byte *first, size_t size) noexcept;

class GuardedMemory {
 public:
  GuardedMemory() = default;
  explicit GuardedMemory(size_t size, size_t element_size = 1) : size_(size) {
    const Placement placement = current_placement;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t shift = placement == Placement::kMisaligned ? element_size : 0;
    const size_t slack = slack_after_block();
    usable_ = (size + shift + slack + page - 1) / page * page;
    first_ = map_between_guards(usable_);
    data_ = placement == Placement::kEnd ? first_ + usable_ - size - slack : first_ + shift;
  }
  GuardedMemory(GuardedMemory &&other) noexcept { swap(other); }
  GuardedMemory &operator=(GuardedMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedMemory();  // not inline: GCC 12 believes that an empty std::optional's would be read

  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

  // From here on a write stops the program.
  void freeze() const { protect(true); }
  void thaw() const { protect(false); }

 private:
  void protect(bool frozen) const {
    if (usable_ == 0 || frozen_ == frozen) return;
    if (mprotect(first_, usable_, frozen ? PROT_READ : PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    frozen_ = frozen;
  }
  void swap(GuardedMemory &other) noexcept {
    std::swap(first_, other.first_);
    std::swap(data_, other.data_);
    std::swap(usable_, other.usable_);
    std::swap(size_, other.size_);
    std::swap(frozen_, other.frozen_);
  }

  std::byte *first_ = nullptr;  // of whole pages
  std::byte *data_ = nullptr;
  size_t usable_ = 0;
  size_t size_ = 0;
  mutable bool frozen_ = false;
};

}  // namespace testing
