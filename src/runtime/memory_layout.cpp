#include "runtime/memory_layout.hpp"

#include <cstdlib>

#include "types.hpp"

namespace fovea {
namespace {

constexpr auto line = static_cast<int64_t>(cache_line);

// So that code that adds a line or two to a size need not check again.
constexpr int64_t largest_size = INT64_MAX - 4096;

}  // namespace

size_t MemoryLayout::size() const { return static_cast<size_t>(round_up(end_, line)); }

void MemoryLayout::start_line() { end_ = round_up(end_, line); }

int64_t MemoryLayout::take(Sizes sizes, size_t element) {
  const int64_t begin = end_;
  auto bytes = static_cast<int64_t>(element);
  for (const int64_t size : sizes) fits_ = fits_ && checked_multiply(bytes, size, &bytes);
  int64_t end = 0;
  fits_ = fits_ && checked_add(begin, bytes, &end) && end <= largest_size;
  if (fits_) end_ = end;
  return begin;
}

int64_t MemoryLayout::copy_size(int64_t count, size_t element) {
  MemoryLayout one;
  one.take({count}, element);
  fits_ = fits_ && one.fits();
  return static_cast<int64_t>(one.size());
}

void *allocate_lines(size_t size) {
  if (size > static_cast<size_t>(largest_size)) return nullptr;
  const size_t lines = (size + cache_line - 1) / cache_line;
  return std::aligned_alloc(cache_line, (lines == 0 ? 1 : lines) * cache_line);
}

void *align_to_line(void *block) {
  const auto past = reinterpret_cast<uintptr_t>(block) % cache_line;
  return static_cast<char *>(block) + (cache_line - past) % cache_line;
}

}  // namespace fovea
