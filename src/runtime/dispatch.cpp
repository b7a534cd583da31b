// Selection of the table. A name that is unknown, or that this machine cannot run, is an error and never a silent
// fallback. AMX has to be named: it is worth half of a projection's time or costs a fifth more, as its cores are shared or
// not (kernels/matmul_parts.hpp), and it takes small signal stacks from the whole process (cpu.cpp).
#include "runtime/dispatch.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fovea {
namespace {

constexpr Isa all_sets[isa_count] = {Isa::base, Isa::avx2, Isa::avx512, Isa::amx};

#if defined(__x86_64__)
const Kernels *amx_table() {
  static const Kernels table = [] {
    Kernels kernels = kernels_avx512;
    kernels.name = isa_name(Isa::amx);
    kernels.projection = projection_kernels_amx;
    return kernels;
  }();
  return &table;
}
#endif

const Kernels *built_table(Isa isa) {
  switch (isa) {
    case Isa::base: return &kernels_base;
#if defined(__x86_64__)
    case Isa::avx2: return &kernels_avx2;
    case Isa::avx512: return &kernels_avx512;
    case Isa::amx: return amx_table();
#endif
    default: return nullptr;
  }
}

void list_available(char *text, size_t size) {
  text[0] = '\0';
  for (const Isa isa : all_sets) {
    if (kernels_of(isa) == nullptr) continue;
    const size_t used = std::strlen(text);
    std::snprintf(text + used, size - used, "%s\"%s\"", used == 0 ? "" : ", ", isa_name(isa));
  }
}

// Whoever starts a program with raised privileges must not choose its code.
const char *environment_name() {
#if defined(__GLIBC__)
  return secure_getenv("FOVEA_ISA");
#else
  return std::getenv("FOVEA_ISA");
#endif
}

}  // namespace

const Kernels *kernels_of(Isa isa) { return cpu_supports(isa) ? built_table(isa) : nullptr; }

Status select_kernels(const char *name, const char *origin, const Kernels **kernels) {
  if (name == nullptr) {
    name = environment_name();
    origin = "the environment variable FOVEA_ISA";
  }
  if (name == nullptr || name[0] == '\0') {
    for (const Isa isa : all_sets) {
      if (isa != Isa::amx && kernels_of(isa) != nullptr) *kernels = kernels_of(isa);
    }
    return FOVEA_OK;
  }
  for (const Isa isa : all_sets) {
    if (std::strcmp(name, isa_name(isa)) == 0 && kernels_of(isa) != nullptr) {
      *kernels = kernels_of(isa);
      return FOVEA_OK;
    }
  }
  char available[64];
  list_available(available, sizeof available);
  return fail(FOVEA_UNKNOWN_ISA, "%s is \"%.40s\", expected one of %s", origin, name, available);
}

}  // namespace fovea
