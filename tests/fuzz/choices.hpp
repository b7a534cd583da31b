// Decisions read from the fuzzer's bytes. Where they are used up every decision is the plainest: 0, false.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fuzz {

class Choices {
 public:
  Choices(const uint8_t *data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  uint32_t two_bytes() {
    const uint32_t low = byte();
    return low | static_cast<uint32_t>(byte()) << 8;
  }
  size_t below(size_t count) { return count < 2 ? 0 : (count <= 256 ? byte() : two_bytes()) % count; }
  // In `of` out of 256 cases.
  bool chance(int of) { return byte() >= 256 - of; }
  template <typename T, size_t n>
  T pick(const T (&choices)[n]) {
    return choices[below(n)];
  }

 private:
  const uint8_t *data_;
  size_t left_;
};

// Numbers for what a call's tensors hold, from one seed.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {  // SplitMix64 (Steele, Lea and Flood 2014)
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t count) { return count == 0 ? 0 : next() % count; }

 private:
  uint64_t state_;
};

}  // namespace fuzz
