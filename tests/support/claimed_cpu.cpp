// Stands in for the library's runtime/cpu.cpp in programs that plan and run nothing: a processor with AVX-512 and its
// products of bfloat16, but no tiles, whatever this one is.
#include "runtime/cpu.hpp"

namespace fovea {

Features cpu_features() { return feature::avx2 | feature::avx512 | feature::bfloat16_pairs; }
bool tiles_granted() { return false; }

}  // namespace fovea
