// The C functions of contexts and instruction sets.
#include "runtime/context.hpp"

#include "guard.hpp"
#include "runtime/dispatch.hpp"

using namespace fovea;

fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **context) {
  return guarded([&] { return create_context(options, context); });
}

void fovea_context_destroy(fovea_context *context) { delete context; }

const char *fovea_isa_name(const fovea_context *context) {
  const Context *resolved = nullptr;
  const Status status = guarded([&] { return resolve_context(context, &resolved); });
  return status == FOVEA_OK ? resolved->kernels->name : "";
}

int32_t fovea_context_threads(const fovea_context *context) {
  const Context *resolved = nullptr;
  const Status status = guarded([&] { return resolve_context(context, &resolved); });
  return status == FOVEA_OK ? worker_limit(*resolved) : 1;
}

const char *fovea_isa_available(int32_t index) {
  if (index < 0) return nullptr;
  for (int isa = 0; isa < isa_count; ++isa) {
    if (kernels_of(static_cast<Isa>(isa)) == nullptr) continue;
    if (index-- == 0) return kernels_of(static_cast<Isa>(isa))->name;
  }
  return nullptr;
}
