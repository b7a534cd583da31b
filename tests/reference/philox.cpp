// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, section 3.3): ten times a substitution by two wide products and a
// permutation, with a key that a Weyl sequence raises in between.
#include "philox.hpp"

#include <cmath>

namespace reference {
namespace {

struct Product {
  uint32_t high, low;
};

Product multiply(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * uint64_t{b};
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product & 0xffffffff)};
}

}  // namespace

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const auto [high_0, low_0] = multiply(0xD2511F53, counter[0]);
    const auto [high_1, low_1] = multiply(0xCD9E8D57, counter[2]);
    counter = {high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

bool dropped(const Dropout &dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
  const auto word = [](int64_t number) { return static_cast<uint32_t>(static_cast<uint64_t>(number)); };
  const std::array<uint32_t, 4> random =
      philox4x32_10({word(j / 4), word(i), word(h), word(b)},
                    {static_cast<uint32_t>(dropout.seed), static_cast<uint32_t>(dropout.seed >> 32)});
  const double threshold = std::floor(static_cast<double>(dropout.probability) * 4294967296.0 + 0.5);
  return static_cast<double>(random[static_cast<size_t>(j % 4)]) < threshold;
}

}  // namespace reference
