// Which instruction sets this machine can run.
#pragma once

namespace fovea {

// The sets that have a table of kernels, worst first.
enum class Isa : int { base = 0, avx2 = 1, avx512 = 2, amx = 3 };
constexpr int isa_count = 4;

constexpr const char *isa_name(Isa isa) {
  constexpr const char *names[isa_count] = {"base", "avx2", "avx512", "amx"};
  return names[static_cast<int>(isa)];
}

// The CPU has the instructions (CPUID) and the operating system saves the registers (XGETBV). Asks Linux for the use of
// AMX's tiles when that set is first asked for.
bool cpu_supports(Isa isa);

// AVX-512's products of pairs of bfloat16, beside the set avx512.
bool cpu_has_bfloat16_products();

// AMX's tiles with products of bfloat16, and those of pairs; asks Linux for their use as cpu_supports does.
enum class Tiles { absent, refused, granted };
Tiles cpu_tiles();

// The same, and products of binary16 on tiles.
Tiles cpu_float16_tiles();

}  // namespace fovea
