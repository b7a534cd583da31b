// The checksum of saved bytes, sixteen of them a step, and elements in their order of bytes.
#include "ops/tensors/saved_bytes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "ops/tensors/dtype.hpp"

namespace fovea {
namespace {

constexpr size_t step = 16;

// table[k][byte]: the remainder of that byte followed by k bytes of zeros.
std::array<std::array<uint32_t, 256>, step> make_tables() {
  constexpr uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41 with its bits reversed
  std::array<std::array<uint32_t, 256>, step> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? polynomial : 0);
    table[0][byte] = remainder;
  }
  for (size_t k = 1; k < step; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
    }
  }
  return table;
}

class Crc32c {
 public:
  void add(const unsigned char *bytes, size_t size) {
    static const auto table = make_tables();  // 16 kB, made when first wanted: the library need not carry them
    for (; size >= step; bytes += step, size -= step) {
      // The remainder goes into the first four bytes alone: what the others give does not wait for it.
      const uint64_t first = get_number<uint64_t>(bytes) ^ remainder_;
      const uint64_t last = get_number<uint64_t>(bytes + 8);
      uint32_t next = 0;
      for (size_t n = 8; n-- > 0;) next ^= table[7 - n][last >> (8 * n) & 255];
      for (size_t n = 8; n-- > 0;) next ^= table[15 - n][first >> (8 * n) & 255];
      remainder_ = next;
    }
    for (; size > 0; ++bytes, --size) remainder_ = remainder_ >> 8 ^ table[0][(remainder_ ^ *bytes) & 255];
  }
  uint32_t value() const { return ~remainder_; }

 private:
  uint32_t remainder_ = 0xffffffff;
};

}  // namespace

uint32_t saved_checksum(const unsigned char *bytes, size_t size) {
  Crc32c crc;
  crc.add(bytes, saved_checksum_at);
  crc.add(bytes + saved_header_size, size - saved_header_size);
  return crc.value();
}

void copy_saved_elements(const void *from, size_t size, Dtype dtype, void *to) {
  std::memcpy(to, from, size);
  if constexpr (std::endian::native == std::endian::big) {
    const size_t element = dtype_size(dtype);
    auto *bytes = static_cast<unsigned char *>(to);
    for (size_t at = 0; at < size; at += element) std::reverse(bytes + at, bytes + at + element);
  }
}

}  // namespace fovea
