// Makes the system short of threads or of memory: a program that links shortage.cpp has pthread_create, and its
// allocation functions, replaced. Sanitizers have replacements of their own, so there this does nothing.
#pragma once

#include <cstdint>

#include "allocation_count.hpp"

#define FOVEA_TEST_HAS_SHORTAGES FOVEA_TEST_COUNTS_ALLOCATIONS

namespace testing {

// So many threads can be created from here on, then no more (EAGAIN).
void allow_threads(int64_t count);

// How many were created, or would have been.
int64_t threads_asked_for();

// The allocation after `count` more fails, that one alone or with all that follow; on every thread.
void fail_allocation_after(int64_t count, bool and_all_that_follow);
// Whether it did.
bool stop_failing();

}  // namespace testing
