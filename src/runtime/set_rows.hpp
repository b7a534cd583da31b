// How lists of kernels leave out what was not built: a row of AVX2's, AVX-512's or AMX's is there if that set is, one
// of pairs or of tiles if its element type is, too.
#pragma once

#include "built_types.hpp"
#include "isa/built_sets.hpp"

#if FOVEA_HAS_AVX2
#define FOVEA_AVX2_ROW(...) __VA_ARGS__,
#else
#define FOVEA_AVX2_ROW(...)
#endif
#if FOVEA_HAS_AVX512
#define FOVEA_AVX512_ROW(...) __VA_ARGS__,
#else
#define FOVEA_AVX512_ROW(...)
#endif
#if FOVEA_HAS_AVX512 && FOVEA_HAS_BF16
#define FOVEA_PAIRS_ROW(...) __VA_ARGS__,
#else
#define FOVEA_PAIRS_ROW(...)
#endif
#if FOVEA_HAS_AMX
#define FOVEA_AMX_ROW(...) __VA_ARGS__,
#else
#define FOVEA_AMX_ROW(...)
#endif
#if FOVEA_HAS_AMX && FOVEA_HAS_BF16
#define FOVEA_BFLOAT16_TILES_ROW(...) __VA_ARGS__,
#else
#define FOVEA_BFLOAT16_TILES_ROW(...)
#endif
#if FOVEA_HAS_AMX && FOVEA_HAS_F16
#define FOVEA_FLOAT16_TILES_ROW(...) __VA_ARGS__,
#else
#define FOVEA_FLOAT16_TILES_ROW(...)
#endif

// A struct that every set exports.
#define FOVEA_OF_EACH_SET(type, topic) extern const type topic##_base, topic##_avx2, topic##_avx512
