// Selection of kernels: for each topic the best row. A name that is unknown, or that this machine cannot run, is an error
// and never a silent fallback. AMX has to be named for projections: it is worth half of their time or costs a fifth more,
// as its cores are shared or not (kernels/products/amx_matmul.hpp). Attention and products of 16 bits take it unless a
// lower set is named, for which the process gives up small signal stacks (cpu.cpp) as soon as there is such a call.
#include "runtime/dispatch.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "isa/built_sets.hpp"

namespace fovea {
namespace {

constexpr Isa all_sets[isa_count] = {Isa::base, Isa::avx2, Isa::avx512, Isa::amx};

constexpr bool is_built(Isa isa) {
  constexpr bool built[isa_count] = {true, FOVEA_HAS_AVX2, FOVEA_HAS_AVX512, FOVEA_HAS_AMX};
  return built[static_cast<int>(isa)];
}

// A row: kernels, and the set a machine must have and a limit allow for them. Best last.
template <class Struct>
struct Row {
  Isa set;
  const Struct *kernels;
};

#if FOVEA_HAS_AVX2
#define FOVEA_AVX2_ROW(topic) {Isa::avx2, &topic##_avx2},
#else
#define FOVEA_AVX2_ROW(topic)
#endif
#if FOVEA_HAS_AVX512
#define FOVEA_AVX512_ROW(topic) {Isa::avx512, &topic##_avx512},
#else
#define FOVEA_AVX512_ROW(topic)
#endif
#define FOVEA_ROWS_OF(topic) {Isa::base, &topic##_base}, FOVEA_AVX2_ROW(topic) FOVEA_AVX512_ROW(topic)

constexpr Row<AttentionKernels> dot_rows[] = {FOVEA_ROWS_OF(dot)};
constexpr Row<AttentionKernels> additive_rows[] = {FOVEA_ROWS_OF(additive)};
constexpr Row<AttentionKernels> gaussian_rows[] = {FOVEA_ROWS_OF(gaussian)};
constexpr Row<MatmulKernels> product_rows[] = {FOVEA_ROWS_OF(products)};
constexpr Row<AttentionKernels> dot_pairs_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AVX512
    {Isa::avx512, &dot_avx512bf16},
#endif
};
constexpr Row<AttentionKernels> gaussian_pairs_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AVX512
    {Isa::avx512, &gaussian_avx512bf16},
#endif
};
constexpr Row<AttentionKernels> dot_tiles_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AMX
    {Isa::amx, &dot_amxbf16},
#endif
};
constexpr Row<AttentionKernels> dot_float16_tiles_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AMX
    {Isa::amx, &dot_amxfp16},
#endif
};
constexpr Row<MatmulKernels> product_pairs_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AVX512
    {Isa::avx512, &products_avx512bf16},
#endif
};
constexpr Row<MatmulKernels> product_tiles_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AMX
    {Isa::amx, &products_amxbf16},
#endif
};
constexpr Row<MatmulKernels> product_float16_tiles_rows[] = {
    {Isa::base, nullptr},
#if FOVEA_HAS_AMX
    {Isa::amx, &products_amxfp16},
#endif
};
constexpr Row<RowwiseKernels> rowwise_rows[] = {FOVEA_ROWS_OF(rowwise)};
constexpr Row<MatmulKernels> projection_rows[] = {
    FOVEA_ROWS_OF(products)
#if FOVEA_HAS_AMX
        {Isa::amx, &parts_amx},
#endif
};

template <class Struct, size_t count>
constexpr const Struct *best(const Row<Struct> (&rows)[count], Isa limit) {
  const Struct *kernels = nullptr;
  for (const Row<Struct> &row : rows) {
    if (row.set <= limit) kernels = row.kernels;
  }
  return kernels;
}

// A machine that has a set has those below it. `tiles`: the limit for attention and products of 16 bits.
constexpr Kernels choose(Isa limit, Isa tiles) {
  return {.name = isa_name(limit),
          .attention = {best(dot_rows, limit), best(additive_rows, limit), best(gaussian_rows, limit)},
          .pairs = {best(dot_pairs_rows, limit), nullptr, best(gaussian_pairs_rows, limit)},
          .dot_tiles = best(dot_tiles_rows, tiles),
          .dot_float16_tiles = best(dot_float16_tiles_rows, tiles),
          .matmul = best(product_rows, limit),
          .projection = best(projection_rows, limit),
          .rowwise = best(rowwise_rows, limit),
          .matmul_pairs = best(product_pairs_rows, limit),
          .matmul_tiles = best(product_tiles_rows, tiles),
          .matmul_float16_tiles = best(product_float16_tiles_rows, tiles)};
}

// Constants: nothing is made at first use, which another thread's fork might leave half made.
constexpr Kernels choices[isa_count] = {choose(Isa::base, Isa::base), choose(Isa::avx2, Isa::avx2),
                                        choose(Isa::avx512, Isa::avx512), choose(Isa::amx, Isa::amx)};

// Where nobody sets a limit. Whether there are tiles is asked by the first call that could use them.
constexpr Kernels unlimited = choose(Isa::avx512, Isa::amx);

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

const Kernels *kernels_of(Isa isa) {
  return is_built(isa) && cpu_supports(isa) ? &choices[static_cast<int>(isa)] : nullptr;
}

bool same_set(const Kernels &a, const Kernels &b) { return std::strcmp(a.name, b.name) == 0; }

Status select_kernels(const char *name, const char *origin, const Kernels **kernels) {
  if (name == nullptr) {
    name = environment_name();
    origin = "the environment variable FOVEA_ISA";
    if (name != nullptr && name[0] == '\0') name = nullptr;  // a variable that is set to nothing
  }
  if (name == nullptr) {
    for (const Isa isa : all_sets) {
      if (isa != Isa::amx && kernels_of(isa) != nullptr) *kernels = isa == Isa::avx512 ? &unlimited : kernels_of(isa);
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
