// What the names of instruction sets allow. A name that is unknown, or that this machine cannot run, is an error and
// never a silent fallback. Without a name all is allowed but what wants AMX to be named. Attention and products of 16
// bits take AMX unless a lower set is named, for which the process gives up small signal stacks (cpu.cpp) as soon as
// there is such a call.
#include "runtime/dispatch.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace fovea {
namespace {

struct RowwiseRow {
  Features needs;
  const RowwiseKernels *kernels;
};

}  // namespace

FOVEA_OF_EACH_SET(RowwiseKernels, rowwise);

namespace {

// clang-format off
constexpr RowwiseRow rowwise_rows[] = {
    FOVEA_AVX512_ROW({feature::avx512, &rowwise_avx512})
    FOVEA_AVX2_ROW({feature::avx2, &rowwise_avx2})
    {0, &rowwise_base},
};
// clang-format on

struct Set {
  const char *name;
  bool built;
  Features needs;   // of a processor
  Features allows;  // what it has of these
};

constexpr Features every_avx2 = feature::avx2 | feature::avx_half_products;
constexpr Features every_avx512 =
    every_avx2 | feature::avx512 | feature::bfloat16_pairs | feature::byte_products | feature::half_products;

constexpr Set sets[isa_count] = {
    {"base", true, 0, 0},
    {"avx2", FOVEA_HAS_AVX2 != 0, feature::avx2, every_avx2},
    {"avx512", FOVEA_HAS_AVX512 != 0, feature::avx512, every_avx512},
    {"amx", FOVEA_HAS_AMX != 0, feature::bfloat16_tiles, every_avx512 | feature::tiles | feature::amx_by_name}};

// The first of rows for any types that need no more than `set`.
template <class Kernel, class Row, size_t count, class Suits>
constexpr const Kernel *first(const Row (&rows)[count], Features set, Suits suits) {
  for (const Row &row : rows) {
    if ((row.needs & ~set) == 0 && suits(row)) return row.kernels;
  }
  return nullptr;
}

constexpr const AttentionKernels *attention_of(ScoreKind score, Features set) {
  return first<AttentionKernels>(attention_rows, set, [=](const AttentionRow &row) {
    return row.score == score && row.multiplied == Multiplied::floats;
  });
}

constexpr ProductWish floats = {.x = Dtype::f32, .matrix = Dtype::f32};

// `set`: what every processor has that has the set. A machine that has one has those below it.
constexpr Kernels limit(const char *name, Features set, Features allowed) {
  return {.name = name,
          .allowed = allowed,
          .attention = {attention_of(ScoreKind::dot, set), attention_of(ScoreKind::additive, set),
                        attention_of(ScoreKind::gaussian, set)},
          .matmul = first<MatmulKernels>(product_rows, set, [](const ProductRow &row) { return row.fits(floats); }),
          .rowwise = first<RowwiseKernels>(rowwise_rows, set, [](const RowwiseRow &) { return true; })};
}

constexpr Kernels limit(Isa isa) {
  const Set &set = sets[static_cast<int>(isa)];
  constexpr Features common = feature::avx2 | feature::avx512;
  return limit(set.name, set.allows & common, set.allows);
}

// Constants: nothing is made at first use, which another thread's fork might leave half made.
constexpr Kernels limits[isa_count] = {limit(Isa::base), limit(Isa::avx2), limit(Isa::avx512), limit(Isa::amx)};

// Where nobody sets a limit. Whether there are tiles is asked by the first call that could use them.
constexpr Kernels unlimited = limit("avx512", feature::avx2 | feature::avx512, every_avx512 | feature::tiles);

void list_available(char *text, size_t size) {
  text[0] = '\0';
  for (int n = 0; n < isa_count; ++n) {
    if (kernels_of(static_cast<Isa>(n)) == nullptr) continue;
    const size_t used = std::strlen(text);
    std::snprintf(text + used, size - used, "%s\"%s\"", used == 0 ? "" : ", ", sets[n].name);
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
  const Set &set = sets[static_cast<int>(isa)];
  if (!set.built || (set.needs & ~cpu_features()) != 0) return nullptr;
  if ((set.needs & feature::tiles) != 0 && !tiles_granted()) return nullptr;
  return &limits[static_cast<int>(isa)];
}

bool same_set(const Kernels &a, const Kernels &b) { return std::strcmp(a.name, b.name) == 0; }

Status select_kernels(const char *name, const char *origin, const Kernels **kernels) {
  if (name == nullptr) {
    name = environment_name();
    origin = "the environment variable FOVEA_ISA";
    if (name != nullptr && name[0] == '\0') name = nullptr;  // a variable that is set to nothing
  }
  if (name == nullptr) {
    for (const Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
      if (kernels_of(isa) != nullptr) *kernels = isa == Isa::avx512 ? &unlimited : kernels_of(isa);
    }
    return FOVEA_OK;
  }
  for (int n = 0; n < isa_count; ++n) {
    if (std::strcmp(name, sets[n].name) != 0) continue;
    const Kernels *named = kernels_of(static_cast<Isa>(n));
    if (named == nullptr) continue;
    *kernels = named;
    return FOVEA_OK;
  }
  char available[64];
  list_available(available, sizeof available);
  return fail(FOVEA_UNKNOWN_ISA, "%s is \"%.40s\", expected one of %s", origin, name, available);
}

}  // namespace fovea
