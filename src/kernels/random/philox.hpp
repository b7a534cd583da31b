// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): from a counter of four words and a key of two, four random words.
// A round, and it has ten, with the key's words raised by two constants before each but the first:
//   (c0, c1, c2, c3)  ->  (high(m1 c2) ^ c1 ^ k0,  low(m1 c2),  high(m0 c0) ^ c3 ^ k1,  low(m0 c0))
//
// A register has as many counters as lanes, and one key for all. Products of 32 x 32 bits fill 64-bit lanes, so each
// word of the counters is kept as two registers, of the even and of the odd lanes, in the lower halves of 64-bit lanes.
// Nothing looks at the upper halves: a product is its own low word, and a shift gives the high one. That is 12
// instructions a round with AVX-512, 16 with AVX2 and SSE2, 20 with NEON, for all lanes.
#pragma once

#include "beyond_xsimd/low_halves.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

using Word = xsimd::batch<uint32_t, Arch>;
using Wide = xsimd::batch<uint64_t, Arch>;

constexpr int philox_rounds = 10;
constexpr uint32_t philox_m0 = 0xD2511F53;
constexpr uint32_t philox_m1 = 0xCD9E8D57;

// The key's words in each round.
struct PhiloxKey {
  uint32_t word[philox_rounds][2];

  FOVEA_INLINE explicit PhiloxKey(uint64_t seed) {
    auto low = static_cast<uint32_t>(seed);
    auto high = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < philox_rounds; ++round, low += 0x9E3779B9, high += 0xBB67AE85) {
      word[round][0] = low;
      word[round][1] = high;
    }
  }
};

FOVEA_INLINE uint32_t high_product(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
}

// A word of every lane's counter: of the even lanes, of the odd lanes.
struct SplitWord {
  Wide half[2];
};

FOVEA_INLINE SplitWord split(const Word &word) {
  const Wide even = xsimd::bitwise_cast<uint64_t>(word);
  return {{even, even >> 32}};
}

FOVEA_INLINE Word join(const SplitWord &word) { return join_low_halves(word.half[0], word.half[1]); }

FOVEA_INLINE Wide splat_word(uint32_t word) { return xsimd::bitwise_cast<uint64_t>(Word(word)); }

struct PhiloxCounters {
  SplitWord word[4];

  FOVEA_INLINE void round(const uint32_t (&key)[2]) {
    const Wide key_0 = splat_word(key[0]);
    const Wide key_1 = splat_word(key[1]);
    unroll<2>([&](auto i) FOVEA_INLINE_BODY {
      const Wide product_0 = multiply_low_halves(word[0].half[i], splat_word(philox_m0));
      const Wide product_1 = multiply_low_halves(word[2].half[i], splat_word(philox_m1));
      word[0].half[i] = xor_three(product_1 >> 32, word[1].half[i], key_0);
      word[1].half[i] = product_1;
      word[2].half[i] = xor_three(product_0 >> 32, word[3].half[i], key_1);
      word[3].half[i] = product_0;
    });
  }

  // The rounds from number `first` on, and what comes out.
  template <int first>
  FOVEA_INLINE void finish(const PhiloxKey &key, Word (&random)[4]) {
    unroll<philox_rounds - first>([&](auto i) FOVEA_INLINE_BODY { round(key.word[first + i]); });
    unroll<4>([&](auto i) FOVEA_INLINE_BODY { random[i] = join(word[i]); });
  }
};

// Counters (j, i, h, b) whose lanes differ in i and h. The first two rounds mix j with b and i with h, but not yet one
// pair with the other, so that they are done in scalars: once for each (i, h), once for each (j, b). With k the key:
//   round 1   c0 = high(m1 h) ^ i ^ k0    c1 = low(m1 h)    c2 = high(m0 j) ^ b ^ k1    c3 = low(m0 j)
//   round 2   c0 = high(m1 c2) ^ c1 ^ k0  c1 = low(m1 c2)   c2 = high(m0 c0) ^ c3 ^ k1  c3 = low(m0 c0)
constexpr int philox_rounds_ahead = 2;

// What (i, h) brings to words 0, 2 and 3.
struct PhiloxRow {
  uint32_t word_0, word_2, word_3;

  FOVEA_INLINE PhiloxRow(uint32_t i, uint32_t h, const PhiloxKey &key) {
    const uint32_t first = high_product(philox_m1, h) ^ i ^ key.word[0][0];
    word_0 = philox_m1 * h;
    word_2 = high_product(philox_m0, first);
    word_3 = philox_m0 * first;
  }
};

// What (j, b) brings to words 0, 1 and 2.
struct PhiloxColumn {
  uint32_t word_0, word_1, word_2;

  FOVEA_INLINE PhiloxColumn(uint32_t j, uint32_t b, const PhiloxKey &key) {
    const uint32_t third = high_product(philox_m0, j) ^ b ^ key.word[0][1];
    word_0 = high_product(philox_m1, third) ^ key.word[1][0];
    word_1 = philox_m1 * third;
    word_2 = (philox_m0 * j) ^ key.word[1][1];
  }
};

// After those rounds. row_words: of PhiloxRow's words 0, 2 and 3 those of `lanes` rows.
FOVEA_INLINE PhiloxCounters counters_ahead(const uint32_t *const (&row_words)[3], const PhiloxColumn &column) {
  return {{split(Word::load_unaligned(row_words[0]) ^ Word(column.word_0)), split(Word(column.word_1)),
           split(Word::load_unaligned(row_words[1]) ^ Word(column.word_2)), split(Word::load_unaligned(row_words[2]))}};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
