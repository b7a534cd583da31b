// Rows of numbers with binary16 scales, made rows of floats, or of bfloat16 or binary16, to which floats are rounded:
//
//   8 bits   to[j][d] = numbers[j][d] * scales[j][d / group]
//   4 bits   to[j][d] = numbers[j][d] * scales[j][2 (d / group)] + scales[j][2 (d / group) + 1]
//
// What kernels of attention read where they have none for such rows. Products are exact in float32, with 4 bits, too:
// so the sum is rounded once, whether a set has a fused multiply-add or not. A block of 32 features of 4 bits lies in
// 16 bytes: the low four bits of byte i are feature i, the high ones feature 16 + i, so that registers take them apart
// without a shuffle. A scale that is NaN or infinite makes its numbers so, but for 0 times infinity, which is NaN.
// Other numbers past binary16's range become its largest: scales are rounded up, so that what binary16 holds may be
// there.
#pragma once

#include "beyond_xsimd/bytes.hpp"
#include "beyond_xsimd/half_scalar.hpp"
#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Features of 4 bits whose bytes lie together.
constexpr int64_t four_bit_block = 32;

FOVEA_INLINE float scale_as_float(Float16 scale) { return widen_one_float16(scale.bits); }

// A number as it is, or cut to [-most, most].
template <bool cut>
FOVEA_INLINE Float cut_to(const Float &number, [[maybe_unused]] float most) {
  if constexpr (!cut) return number;
  return at_most(at_least(number, -most), most);
}
// Infinities that are there may stay.
FOVEA_INLINE float largest_of(float scale) { return scale * 0.0f == 0.0f ? 65504.0f : __builtin_inff(); }

// Which features of rows are wanted, [from, from + width), and how groups lie in them: `scales` is where the first
// one's stand in a row, which ends after `first` of the features. from: of a register, so that none has more than one
// scale.
struct Features {
  int64_t from, width, group, scales, first;

  FOVEA_INLINE Features(const ScaledRows &rows, int64_t feature, int64_t count)
      : from(feature),
        width(count),
        group(rows.group),
        scales(feature / group * (rows.dtype == Dtype::u8 ? 2 : 1)),
        first(min_of(group - feature % group, count)) {}
};

// Those of a row. cut: to binary16's range.
template <bool cut>
FOVEA_INLINE void scale_row(const int8_t *numbers, const Float16 *scales, const Features &of, float *to) {
  numbers += of.from;
  scales += of.scales;
  int64_t end = of.first;
  for (int64_t d = 0; d < of.width; ++scales, end = min_of(end + of.group, of.width)) {
    const float its = scale_as_float(*scales);
    const Float scale(its);
    const float most = largest_of(its);
    const auto scaled = [&](const Float &value) FOVEA_INLINE_BODY { return cut_to<cut>(value * scale, most); };
    for (; d + lanes <= end; d += lanes) store(to + d, scaled(Float(load_bytes(numbers + d))));
    if (d == end) continue;
    store_partial(to + d, scaled(Float(load_first_bytes(numbers + d, end - d))), end - d);
    d = end;
  }
}

// A block of 4 bits, or half of one, as `number` makes numbers of them.
template <bool has_low, bool has_high, class Number>
FOVEA_INLINE void scale_block(const uint8_t *numbers, float *to, const Number &number) {
  constexpr int64_t half = four_bit_block / 2;
  unroll<half / lanes>([&](auto i) FOVEA_INLINE_BODY {
    Floats low, high;
    load_fours(numbers + i * lanes, &low, &high);
    if constexpr (has_low) store(to + i * lanes, number(low));
    if constexpr (has_high) store(to + half + i * lanes, number(high));
  });
}

// The same of 4 bits. from and width: multiples of half a block.
template <bool cut>
FOVEA_INLINE void scale_row(const uint8_t *numbers, const Float16 *scales, const Features &of, float *to) {
  constexpr int64_t half = four_bit_block / 2;
  const bool begins_within = of.from % four_bit_block != 0;
  numbers += (of.from - (begins_within ? half : 0)) / 2;
  scales += of.scales;
  int64_t end = of.first;
  for (int64_t d = 0; d < of.width; scales += 2, end = min_of(end + of.group, of.width)) {
    const float its = scale_as_float(scales[0]), its_least = scale_as_float(scales[1]);
    const Float scale(its), least(its_least);
    const float most = largest_of(its + its_least);
    const auto number = [&](Floats fours)
                            FOVEA_INLINE_BODY { return cut_to<cut>(multiply_add(Float(fours), scale, least), most); };
    if (d == 0 && begins_within) {
      scale_block<false, true>(numbers, to - half, number);
      numbers += half;
      d = half;
    }
    for (; d + four_bit_block <= end; d += four_bit_block, numbers += half) {
      scale_block<true, true>(numbers, to + d, number);
    }
    if (d == end) continue;
    scale_block<true, false>(numbers, to + d, number);
    d = end;
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
