// Which table of kernels a context runs.
#pragma once

#include "kernels/kernel_table.hpp"
#include "runtime/cpu.hpp"
#include "status.hpp"

namespace fovea {

// The table of a set, or nullptr when this build or this machine lacks it.
const Kernels *kernels_of(Isa isa);

// Whether what is packed for one serves the other: without a limit a context has more kernels than with the name of its set.
bool same_set(const Kernels &a, const Kernels &b);

// The best table not above the named set; nullptr names the environment's FOVEA_ISA, else the best there is. The
// argument `origin` is what the message calls the name.
[[nodiscard]] Status select_kernels(const char *name, const char *origin, const Kernels **kernels);

}  // namespace fovea
