// Replacements for the allocation functions, on top of glibc's own. Operator new calls malloc, and is counted by it.
// mmap is counted because allocators of their own (oneTBB's) come by their memory that way.
#include "allocation_count.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if FOVEA_TEST_COUNTS_ALLOCATIONS
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<int64_t> count{0};
std::atomic<size_t> largest{0};

void note(size_t size) {
  ++count;
  for (size_t before = largest; size > before && !largest.compare_exchange_weak(before, size);) {
  }
}

}  // namespace

extern "C" {

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
  note(size);
  return __libc_malloc(size);
}
void *calloc(size_t number, size_t size) {
  note(number * size);
  return __libc_calloc(number, size);
}
void *realloc(void *block, size_t size) {
  note(size);
  return __libc_realloc(block, size);
}
void *memalign(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  note(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void **block, size_t alignment, size_t size) {
  note(size);
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
void *mmap(void *address, size_t size, int rights, int flags, int file, off_t offset) noexcept {
  note(size);
  return reinterpret_cast<void *>(syscall(SYS_mmap, address, size, rights, flags, file, offset));
}

}  // extern "C"

namespace testing {
int64_t allocation_count() { return count; }
size_t take_largest_allocation() { return largest.exchange(0); }
}  // namespace testing

#else

namespace testing {
int64_t allocation_count() { return 0; }
size_t take_largest_allocation() { return 0; }
}  // namespace testing

#endif
