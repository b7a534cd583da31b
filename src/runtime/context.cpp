// Creates contexts, and the default one.
#include "runtime/context.hpp"

#include <atomic>
#include <memory>
#include <new>

#include "read_options.hpp"
#include "runtime/dispatch.hpp"
#include "runtime/one_tbb.hpp"
#include "runtime/workspace.hpp"

fovea_context::~fovea_context() { fovea::free_spare_workspace(spare_workspace.load()); }

namespace fovea {
namespace {

// The default context. Threads that come first at once may each make one, and the first to be done wins: there is no
// lock that another thread could hold when this one forks. Kept to the end, since objects that are destroyed even later
// may call.
std::atomic<Context *> fallback{nullptr};

Status make_fallback(const Context **context) {
  const Kernels *kernels = nullptr;
  FOVEA_CHECK(select_kernels(nullptr, nullptr, &kernels));
  std::unique_ptr<Context> made(new (std::nothrow) Context);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a context");
  made->kernels = kernels;
  Context *first = nullptr;
  *context = fallback.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel) ? made.release() : first;
  return FOVEA_OK;
}

}  // namespace

Status resolve_context(const Context *given, const Context **context) {
  *context = given != nullptr ? given : fallback.load(std::memory_order_acquire);
  return *context != nullptr ? FOVEA_OK : make_fallback(context);
}

Status create_context(const fovea_context_options *options, Context **context) {
  if (context == nullptr) return fail(FOVEA_NULL_POINTER, "context is NULL, expected where to store the context");
  fovea_context_options settings;
  FOVEA_CHECK(read_options("options", options, &settings));
  if (settings.max_threads < 0) {
    return fail(FOVEA_BAD_VALUE, "options.max_threads is %d, expected 0 or more", settings.max_threads);
  }
  FOVEA_CHECK(check_precision("options", settings.precision));
  const Kernels *kernels = nullptr;
  FOVEA_CHECK(select_kernels(settings.max_isa, "options.max_isa", &kernels));
  auto *created = new (std::nothrow) Context;
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a context");
  created->kernels = kernels;
  created->max_threads = settings.max_threads;
  created->precision = settings.precision;
  created->parallel_for = settings.parallel_for;
  created->parallel_for_user = settings.parallel_for_user;
  *context = created;
  return FOVEA_OK;
}

Status check_precision(const char *owner, int32_t precision) {
  if (precision >= FOVEA_PRECISION_DEFAULT && precision <= FOVEA_PRECISION_INT8) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s.precision is %d, expected %d to %d", owner, precision, FOVEA_PRECISION_DEFAULT,
              FOVEA_PRECISION_INT8);
}

int32_t precision_of(const Context &context, int32_t asked) {
  const int32_t precision = asked == FOVEA_PRECISION_DEFAULT ? context.precision : asked;
  return precision == FOVEA_PRECISION_DEFAULT ? FOVEA_PRECISION_HIGHEST : precision;
}

int worker_limit(const Context &context) {
  if (context.parallel_for != nullptr) return context.max_threads == 0 ? 1 : context.max_threads;
  const int arena = one_tbb_concurrency();
  return context.max_threads == 0 || context.max_threads > arena ? arena : context.max_threads;
}

}  // namespace fovea
