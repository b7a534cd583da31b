// What every call runs on: a table of kernels, a thread cap, a way to run work in parallel, and one cached scratch
// buffer.
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/dispatch.hpp"
#include "status.hpp"

struct fovea_context {
  const fovea::Kernels *kernels = nullptr;
  int max_threads = 0;  // 0: as many as the arena
  int32_t precision = FOVEA_PRECISION_HIGHEST;
  fovea_parallel_for parallel_for = nullptr;
  void *parallel_for_user = nullptr;
  // A one-shot call's scratch memory is kept here for the next one, so that a loop of calls does not pay for fresh
  // pages.
  mutable std::atomic<void *> spare_workspace{nullptr};

  fovea_context() = default;
  fovea_context(const fovea_context &) = delete;
  fovea_context &operator=(const fovea_context &) = delete;
  ~fovea_context();
};

namespace fovea {

using Context = fovea_context;

// `given`, or the default context when it is null; fails when FOVEA_ISA names a set that cannot run.
[[nodiscard]] Status resolve_context(const Context *given, const Context **context);

[[nodiscard]] Status create_context(const fovea_context_options *options, Context **context);

// FOVEA_PRECISION_* of a call that asks for `asked`.
int32_t precision_of(const Context &context, int32_t asked);

// That a struct's member `precision` is one of FOVEA_PRECISION_*.
[[nodiscard]] Status check_precision(const char *owner, int32_t precision);

// How many workers a call may use at once, at least 1.
int worker_limit(const Context &context);

}  // namespace fovea
