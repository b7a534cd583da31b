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

class GuardedMemory {
 public:
  GuardedMemory() = default;
  explicit GuardedMemory(size_t size, size_t element_size = 1) : size_(size) {
    const Placement placement = current_placement;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t shift = placement == Placement::kMisaligned ? element_size : 0;
    const size_t slack = slack_after_block();
    usable_ = (size + shift + slack + page - 1) / page * page;
    mapped_ = usable_ + 2 * page;
    void *mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mapping_ = static_cast<std::byte *>(mapping);
    if (usable_ != 0) protect(PROT_READ | PROT_WRITE);
    std::byte *first = mapping_ + page;
    data_ = placement == Placement::kEnd ? first + usable_ - size - slack : first + shift;
  }
  GuardedMemory(GuardedMemory &&other) noexcept { swap(other); }
  GuardedMemory &operator=(GuardedMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedMemory() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
  }

  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

  // From here on a write stops the program.
  void freeze() const {
    if (usable_ != 0) protect(PROT_READ);
  }
  void thaw() const {
    if (usable_ != 0) protect(PROT_READ | PROT_WRITE);
  }

 private:
  void protect(int rights) const {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (mprotect(mapping_ + page, usable_, rights) != 0) throw std::bad_alloc();
  }
  void swap(GuardedMemory &other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    std::swap(usable_, other.usable_);
    std::swap(size_, other.size_);
  }

  std::byte *mapping_ = nullptr;
  std::byte *data_ = nullptr;
  size_t mapped_ = 0;
  size_t usable_ = 0;
  size_t size_ = 0;
};

}  // namespace testing
