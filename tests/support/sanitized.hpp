// Whether this is a sanitizer's build: then frames are larger, malloc and pthread_create are not to be replaced, and a
// child forked while other threads allocate may hang in the sanitizer's own allocator.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOVEA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOVEA_TEST_SANITIZED 1
#else
#define FOVEA_TEST_SANITIZED 0
#endif
#else
#define FOVEA_TEST_SANITIZED 0
#endif
