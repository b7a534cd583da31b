// What this machine's processor can do beyond what all processors of its architecture can.
#pragma once

namespace fovea {

// A set of features: what a kernel needs, what a processor has, or what a limit allows.
using Features = int;

namespace feature {
constexpr Features avx2 = 1;            // x86-64-v3
constexpr Features avx512 = 2;          // x86-64-v4
constexpr Features bfloat16_pairs = 4;  // AVX-512's products of pairs of bfloat16
constexpr Features bfloat16_tiles = 8;  // AMX's tiles, with products of bfloat16
constexpr Features float16_tiles = 16;  // and of binary16
constexpr Features tiles = bfloat16_tiles | float16_tiles;
// What a limit allows and no processor lacks: kernels that are taken only where the set amx is named.
constexpr Features amx_by_name = 32;
constexpr Features byte_products = 64;       // AVX-512's products of bytes, with permutations of them (VNNI and VBMI)
constexpr Features half_products = 128;      // AVX-512's products of pairs of 16-bit whole numbers (VNNI)
constexpr Features avx_half_products = 256;  // AVX2's (AVX-VNNI)
}  // namespace feature

// Those of the processor whose registers the operating system saves. Asks the system for nothing.
Features cpu_features();

// Whether the system lets this process use tiles, which it has to be asked. To be called where a call would use them,
// as the process then gives up small signal stacks.
bool tiles_granted();

}  // namespace fovea
