// Reads options structs as callers pass them, whichever version of the header they come from.
#pragma once

#include <cstddef>

#include "fovea/fovea.h"
#include "status.hpp"

namespace fovea {

// The sizes a struct has had, in each version of the header that declared it: the first, and the present one if that is
// another.
struct StructSizes {
  size_t first, known, alignment;
};

// Copies *given into *read. The tail stays zero when the caller's struct is older, but its size must be that of a
// version: one that ends anywhere else may end within a pointer. A newer caller's extra bytes must be zero: they ask
// for something this build does not know. A null `given` means all defaults.
[[nodiscard]] Status read_struct(const char *name, const void *given, void *read, const StructSizes &sizes);

// The size a struct had in the first header that declared it.
template <class Options>
inline constexpr size_t first_size = sizeof(Options);
template <>
inline constexpr size_t first_size<fovea_attention_options> = offsetof(fovea_attention_options, dropout);
template <>
inline constexpr size_t first_size<fovea_attention_buffers> = offsetof(fovea_attention_buffers, query_weight);
template <>
inline constexpr size_t first_size<fovea_rotary_options> = offsetof(fovea_rotary_options, frequencies);
template <>
inline constexpr size_t first_size<fovea_positional_encoding_options> = offsetof(fovea_positional_encoding_options,
                                                                                 flags);

// A zero that nobody says is meant.
template <class Number>
bool is_default(Number member, uint32_t flags, uint32_t given) {
  return member == Number{0} && (flags & given) == 0;
}

template <class Options>
[[nodiscard]] Status read_options(const char *name, const Options *given, Options *read) {
  return read_struct(name, given, read, {first_size<Options>, sizeof(Options), alignof(Options)});
}

}  // namespace fovea
