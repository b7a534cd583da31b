// What every unit includes. Each file here is compiled once for each set, with its flags and its name in FOVEA_ISA, and
// exports structs of kernels, named after topic and set; one exports kernels/shared_rows.hpp, in the set's namespace.
// All else has internal linkage, so the linker can never take a wide copy of a shared inline function for a narrow
// machine.
#pragma once

#define FOVEA_JOIN(topic, set) topic##_##set
#define FOVEA_NAMED(topic, set) FOVEA_JOIN(topic, set)
#define FOVEA_KERNELS(topic) FOVEA_NAMED(topic, FOVEA_ISA)
#define FOVEA_TEXT(name) #name
#define FOVEA_TEXT_OF(name) FOVEA_TEXT(name)
#define FOVEA_SET_NAME FOVEA_TEXT_OF(FOVEA_ISA)

// The set's xsimd architecture.
#if defined(__AVX512F__)
#define FOVEA_ARCH xsimd::avx512bw  // amx's too
#elif defined(__AVX2__)
#define FOVEA_ARCH xsimd::fma3<xsimd::avx2>
#elif defined(__aarch64__)
#define FOVEA_ARCH xsimd::neon64
#else
#define FOVEA_ARCH xsimd::sse2
#endif
