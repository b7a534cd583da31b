// What bytes of saved keys and values have in common, whatever holds them: little-endian numbers, a header of 64 bytes
// that ends in a checksum, and elements.
//
// The checksum is CRC-32C (Castagnoli, Bräuer and Herrmann 1993), as iSCSI and ext4 use it: it finds every error within
// 32 consecutive bits, is defined by a number and a test vector, and sixteen tables take sixteen bytes a step (Kounavis
// and Berry 2008). It guards against accidents; bytes made to deceive are caught by checking every field before it is
// used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace fovea {

constexpr size_t saved_checksum_at = 60;
constexpr size_t saved_header_size = 64;

template <class Unsigned>
Unsigned get_number(const unsigned char *bytes) {
  Unsigned number = 0;
  for (size_t n = 0; n < sizeof number; ++n) number |= static_cast<Unsigned>(bytes[n]) << (8 * n);
  return number;
}

template <class Unsigned>
void put_number(Unsigned number, unsigned char *bytes) {
  for (size_t n = 0; n < sizeof number; ++n) bytes[n] = static_cast<unsigned char>(number >> (8 * n));
}

// The checksum of the header before its place and of all behind it. There is at least a header.
uint32_t saved_checksum(const unsigned char *bytes, size_t size);

// `size` bytes of elements, from memory to what is saved or back: little-endian in the latter.
void copy_saved_elements(const void *from, size_t size, Dtype dtype, void *to);

}  // namespace fovea
