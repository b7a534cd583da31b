// Memory for packed weights: read in full again and again, front to back.
#pragma once

#include <cstddef>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fovea {

// Cache-line aligned, to be given to std::free; null when there is none. Of two megabytes or more what can lie in huge pages
// does, where the system leaves that to programs: with pages of 4 kB, translating addresses took a fifth of the time of a
// product of 64 x 3072 with 3072 x 768 weights, and reading weights larger than the caches was half as fast (Zen 4).
inline float *allocate_weights(size_t size) {
  constexpr size_t cache_line = 64;
  constexpr size_t huge_page = size_t{1} << 21;
  void *memory = nullptr;
  if (posix_memalign(&memory, size < huge_page ? cache_line : huge_page, size == 0 ? cache_line : size) != 0) {
    return nullptr;
  }
#if defined(__linux__)
  if (size >= huge_page) static_cast<void>(madvise(memory, size / huge_page * huge_page, MADV_HUGEPAGE));
#endif
  return static_cast<float *>(memory);
}

}  // namespace fovea
