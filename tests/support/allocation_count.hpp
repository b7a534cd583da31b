// Counts heap allocations of the whole program, on every thread. The program that links allocation_count.cpp has its
// malloc replaced; address sanitizer wants malloc for itself, so there counting is off.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sanitized.hpp"

#if FOVEA_TEST_SANITIZED || !defined(__GLIBC__)
#define FOVEA_TEST_COUNTS_ALLOCATIONS 0
#else
#define FOVEA_TEST_COUNTS_ALLOCATIONS 1
#endif

namespace testing {

// Allocations since the program began: malloc, calloc, realloc, aligned forms, operator new and mmap. Releases do not
// count.
int64_t allocation_count();

// The most bytes that one of them asked for since the last call of this.
size_t take_largest_allocation();

}  // namespace testing
