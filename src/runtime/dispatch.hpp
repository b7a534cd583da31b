// Which kernels a context runs: those whose features a limit allows, of which each call takes the first that suits it.
#pragma once

#include "runtime/attention_rows.hpp"
#include "runtime/product_rows.hpp"
#include "status.hpp"

namespace fovea {

// The instruction sets a limit may name, worst first.
enum class Isa : int { base = 0, avx2 = 1, avx512 = 2, amx = 3 };
constexpr int isa_count = 4;

// What a limit allows, and of it what every call can take, whatever its types.
struct Kernels {
  const char *name;  // of the limit
  Features allowed;
  const AttentionKernels *attention[score_kinds];  // by ScoreKind; many rows and few
  const MatmulKernels *matmul;
  const RowwiseKernels *rowwise;

  const AttentionKernels &attention_of(ScoreKind score) const { return *attention[static_cast<int>(score)]; }
};

// What a set's limit allows, or nullptr when this build or this machine lacks the set. Asks the system for tiles when
// that is the set of them.
const Kernels *kernels_of(Isa isa);

// Whether what is packed for one serves the other: without a limit a context has more kernels than with the name of its
// set.
bool same_set(const Kernels &a, const Kernels &b);

// The most that is not above the named set; nullptr names the environment's FOVEA_ISA, else all there is. `origin` is
// what the message calls the name.
[[nodiscard]] Status select_kernels(const char *name, const char *origin, const Kernels **kernels);

}  // namespace fovea
