// A block of memory in parts: one object sizes it while planning and divides it once there is memory, so that the two
// cannot disagree.
//
//   MemoryLayout layout;
//   const MemoryPart<float> rows = layout.add<float>({batch, length, dim});
//   const MemoryPart<float> tables = layout.add_copies<float>(workers, table_floats);
//   if (!layout.fits()) ...
//   float *first = rows.in(memory), *mine = tables.in(memory, worker);
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace fovea {

constexpr size_t cache_line = 64;

// Where a part lies in any memory that is laid out so.
template <class T>
class MemoryPart {
 public:
  // Null where the part was never added or there is no memory.
  T *in(void *memory) const {
    if (memory == nullptr || offset_ < 0) return nullptr;
    return reinterpret_cast<T *>(static_cast<char *>(memory) + offset_);
  }
  T *in(void *memory, int64_t copy) const { return in(static_cast<char *>(memory) + copy * copy_size_); }

  explicit operator bool() const { return offset_ >= 0; }
  size_t copy_size() const { return static_cast<size_t>(copy_size_); }

 private:
  friend class MemoryLayout;
  int64_t offset_ = -1;
  int64_t copy_size_ = 0;  // bytes from one copy to the next
};

// Sizes are factors of a product, and are not to be trusted: one that does not fit makes the whole layout unfit, which
// is asked once, at the end.
class MemoryLayout {
 public:
  using Sizes = std::initializer_list<int64_t>;

  // A part that begins on a cache line, of so many elements.
  template <class T>
  MemoryPart<T> add(Sizes sizes) {
    MemoryPart<T> part;
    start_line();
    part.offset_ = take(sizes, sizeof(T));
    return part;
  }
  template <class T>
  MemoryPart<T> add(int64_t count) {
    return add<T>({count});
  }

  // A part right behind the last one, of a type that wants no stricter alignment.
  template <class T>
  MemoryPart<T> add_behind(Sizes sizes) {
    MemoryPart<T> part;
    part.offset_ = take(sizes, sizeof(T));
    return part;
  }

  // A part for each worker, all alike, each on cache lines of its own.
  template <class T>
  MemoryPart<T> add_copies(int64_t copies, int64_t count) {
    MemoryPart<T> part;
    part.copy_size_ = copy_size(count, sizeof(T));
    start_line();
    part.offset_ = take({copies, part.copy_size_}, 1);
    return part;
  }

  bool fits() const { return fits_; }
  size_t size() const;  // bytes, whole cache lines

 private:
  void start_line();
  int64_t take(Sizes sizes, size_t element);
  int64_t copy_size(int64_t count, size_t element);

  int64_t end_ = 0;
  bool fits_ = true;
};

// Memory on a cache line, to be given to std::free, even of no bytes; null when there is none.
void *allocate_lines(size_t size);

// The first cache line that begins in a block; blocks of a caller's own have room for it.
void *align_to_line(void *block);

}  // namespace fovea
