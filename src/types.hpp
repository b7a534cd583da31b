// Plain types shared by every folder: element types, statuses, checked arithmetic. Structs and constexpr only, so that
// the per-instruction-set units can include this file without emitting a symbol.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "built_types.hpp"

namespace fovea {

// The values of fovea_dtype.
enum class Dtype : int32_t {
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  i32 = 5,
  i64 = 6,
  boolean = 7,
  i8 = 8,
  u8 = 9,
  f8_e4m3 = 10,
  f8_e5m2 = 11
};

// How kernels make a float of an element: they do not; it is one; by an instruction or a few (kernels/elements.hpp).
enum class ElementLoad : uint8_t { none, as_it_is, widened };

// Whether a number is meant to be multiplied by a scale that stands elsewhere, as keys and values of 8 bits are.
enum class ElementScale : uint8_t { none, shared };

// All that is known of an element type beside its name, which is in ops/tensors/dtype.cpp.
struct ElementTraits {
  Dtype dtype;
  uint8_t bytes;
  ElementLoad load;
  ElementScale scale;
};

// A type that was left out of the build is one that kernels do not load.
constexpr ElementLoad widened_if(int built) { return built != 0 ? ElementLoad::widened : ElementLoad::none; }

constexpr ElementTraits element_traits[] = {{Dtype::f32, 4, ElementLoad::as_it_is, ElementScale::none},
                                            {Dtype::f16, 2, widened_if(FOVEA_HAS_F16), ElementScale::none},
                                            {Dtype::bf16, 2, widened_if(FOVEA_HAS_BF16), ElementScale::none},
                                            {Dtype::i32, 4, ElementLoad::none, ElementScale::none},
                                            {Dtype::i64, 8, ElementLoad::none, ElementScale::none},
                                            {Dtype::boolean, 1, ElementLoad::none, ElementScale::none},
                                            {Dtype::i8, 1, ElementLoad::none, ElementScale::shared},
                                            {Dtype::u8, 1, ElementLoad::none, ElementScale::shared},
                                            {Dtype::f8_e4m3, 1, ElementLoad::none, ElementScale::none},
                                            {Dtype::f8_e5m2, 1, ElementLoad::none, ElementScale::none}};

// Sizes are asked for in loops over rows, so all of them lie in one number, four bits each, and so do answers of yes
// and no, a bit each.
constexpr uint64_t packed_element_bytes() {
  uint64_t packed = 0;
  for (const ElementTraits &traits : element_traits)
    packed |= uint64_t{traits.bytes} << 4 * static_cast<int>(traits.dtype);
  return packed;
}
constexpr uint32_t types_loaded(ElementLoad load) {
  uint32_t types = 0;
  for (const ElementTraits &traits : element_traits) {
    if (traits.load == load && traits.scale == ElementScale::none) types |= 1u << static_cast<int>(traits.dtype);
  }
  return types;
}

// Bytes of an element whose type has been checked.
[[gnu::always_inline]] constexpr int64_t bytes_of(Dtype dtype) {
  constexpr uint64_t packed = packed_element_bytes();
  return static_cast<int64_t>(packed >> (4 * static_cast<uint32_t>(dtype) & 63) & 15);
}

// Whether elements of a checked type become floats as they are loaded, and floats become them as they are stored.
[[gnu::always_inline]] constexpr bool is_widened(Dtype dtype) {
  constexpr uint32_t types = types_loaded(ElementLoad::widened);
  return (types >> (static_cast<uint32_t>(dtype) & 31) & 1) != 0;
}

// Whether any number is a type that kernels take and give where they compute with floats. Checks ask this, and kernels
// rely on it.
constexpr bool is_number(Dtype dtype) {
  constexpr uint32_t types = types_loaded(ElementLoad::as_it_is) | types_loaded(ElementLoad::widened);
  return static_cast<uint32_t>(dtype) < 32 && (types >> static_cast<uint32_t>(dtype) & 1) != 0;
}

// What lies in memory where elements have 16 bits.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

[[gnu::always_inline]] inline const void *element_at(const void *data, Dtype dtype, int64_t index) {
  return static_cast<const char *>(data) + index * bytes_of(dtype);
}
[[gnu::always_inline]] inline void *element_at(void *data, Dtype dtype, int64_t index) {
  return static_cast<char *>(data) + index * bytes_of(dtype);
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
