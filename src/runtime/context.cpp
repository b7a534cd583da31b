// Creation of contexts, and the default one.
#include "runtime/context.hpp"

#include <new>

#include "ops/check.hpp"
#include "runtime/dispatch.hpp"
#include "runtime/one_tbb.hpp"
#include "runtime/workspace.hpp"

fovea_context::~fovea_context() { fovea::free_spare_workspace(spare_workspace.load()); }

namespace fovea {

Status resolve_context(const Context *given, const Context **context) {
  if (given != nullptr) {
    *context = given;
    return FOVEA_OK;
  }
  static Context fallback;
  // Chosen once; asked again only while it fails, so that the message reaches every thread that runs into it.
  static const Status chosen = select_kernels(nullptr, nullptr, &fallback.kernels);
  if (chosen != FOVEA_OK) {
    const Kernels *none = nullptr;
    return select_kernels(nullptr, nullptr, &none);
  }
  *context = &fallback;
  return FOVEA_OK;
}

Status create_context(const fovea_context_options *options, Context **context) {
  if (context == nullptr) return fail(FOVEA_NULL_POINTER, "context is NULL, expected where to store the context");
  fovea_context_options settings;
  if (const Status status = read_options("options", options, &settings); status != FOVEA_OK) return status;
  if (settings.max_threads < 0) {
    return fail(FOVEA_BAD_VALUE, "options.max_threads is %d, expected 0 or more", settings.max_threads);
  }
  if (settings.reserved != 0) {
    return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", settings.reserved);
  }
  const Kernels *kernels = nullptr;
  if (const Status status = select_kernels(settings.max_isa, "options.max_isa", &kernels); status != FOVEA_OK) {
    return status;
  }
  auto *created = new (std::nothrow) Context;
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a context");
  created->kernels = kernels;
  created->max_threads = settings.max_threads;
  created->parallel_for = settings.parallel_for;
  created->parallel_for_user = settings.parallel_for_user;
  *context = created;
  return FOVEA_OK;
}

int worker_limit(const Context &context) {
  if (context.parallel_for != nullptr) return context.max_threads == 0 ? 1 : context.max_threads;
  const int arena = one_tbb_concurrency();
  return context.max_threads == 0 || context.max_threads > arena ? arena : context.max_threads;
}

}  // namespace fovea
