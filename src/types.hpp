// Plain types shared by every room: element types, statuses, checked arithmetic. Structs and constexpr only, so that
// the per-instruction-set units can include this file without emitting a symbol.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fovea {

// The values of fovea_dtype.
enum class Dtype : int32_t { f32 = 1, f16 = 2, bf16 = 3, i32 = 5, i64 = 6, boolean = 7 };

// What lies in memory where elements have 16 bits.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// Whether this one of the types that queries, keys, values and outputs may have takes 16 bits.
constexpr bool is_narrow(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
[[gnu::always_inline]] inline const void *element_at(const void *data, Dtype dtype, int64_t index) {
  return static_cast<const char *>(data) + index * (is_narrow(dtype) ? 2 : 4);
}
[[gnu::always_inline]] inline void *element_at(void *data, Dtype dtype, int64_t index) {
  return static_cast<char *>(data) + index * (is_narrow(dtype) ? 2 : 4);
}

// The values of FOVEA_EMPTY_ROWS_*.
enum class EmptyRows : int32_t { zero = 0, uniform = 1, nan = 2 };

// The values of FOVEA_ACTIVATION_*.
enum class Activation : int32_t { none = 0, relu = 1, gelu = 2, gelu_tanh = 3, silu = 4 };

// a * b and a + b into *result; false when the result does not fit. Sizes come from the caller and are not to be
// trusted.
[[nodiscard]] inline bool checked_multiply(int64_t a, int64_t b, int64_t *result) {
  return !__builtin_mul_overflow(a, b, result);
}
[[nodiscard]] inline bool checked_add(int64_t a, int64_t b, int64_t *result) {
  return !__builtin_add_overflow(a, b, result);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

// The distance between projected rows, in floats: whole registers of every instruction set, whole cache lines.
constexpr int64_t padded_units(int64_t units) { return round_up(units, 16); }

}  // namespace fovea
