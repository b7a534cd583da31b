// Replacements for pthread_create and for the allocation functions, on top of glibc's own. Operator new calls malloc;
// mmap is among them because oneTBB's allocator comes by its memory that way.
#include "shortage.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace {
std::atomic<int64_t> threads_left{INT64_MAX}, threads_wanted{0}, allocations_left{INT64_MAX};
std::atomic<bool> all_that_follow{false};
}  // namespace

namespace testing {
void allow_threads(int64_t count) { threads_left = count; }
int64_t threads_asked_for() { return threads_wanted; }
void fail_allocation_after(int64_t count, bool and_all_that_follow) {
  all_that_follow = and_all_that_follow;
  allocations_left = count;
}
bool stop_failing() { return allocations_left.exchange(INT64_MAX) < 0; }
}  // namespace testing

#if FOVEA_TEST_HAS_SHORTAGES
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local constinit bool in_dlopen = false;

bool fails() {
  if (in_dlopen) return false;
  const int64_t left = allocations_left.fetch_sub(1);
  if (left > 0 || (left < 0 && !all_that_follow)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) noexcept {
  ++threads_wanted;
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  return reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, body, argument);
}

// glibc's own (2.36) crashes where it has no memory for the message of its error.
void *dlopen(const char *file, int mode) noexcept {
  const bool outer = std::exchange(in_dlopen, true);
  using Open = void *(*)(const char *, int);
  void *const library = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "dlopen"))(file, mode);
  in_dlopen = outer;
  return library;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void *calloc(size_t number, size_t size) { return fails() ? nullptr : __libc_calloc(number, size); }
void *realloc(void *block, size_t size) { return fails() ? nullptr : __libc_realloc(block, size); }
void *memalign(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
  void *const made = memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}
void *mmap(void *address, size_t size, int rights, int flags, int file, off_t offset) noexcept {
  if (fails()) return MAP_FAILED;
  return reinterpret_cast<void *>(syscall(SYS_mmap, address, size, rights, flags, file, offset));
}

}  // extern "C"
#endif
