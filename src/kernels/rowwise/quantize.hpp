// A row of numbers as 8-bit numbers with a scale for each group of features, symmetric around 0, and back:
//
//   scale = max |x| / 127, rounded up to binary16       number = x (1 / scale), rounded to nearest, ties to even
//
// and as numbers of 4 bits, with a scale and the least number for each group:
//
//   least = min x, rounded down to binary16             scale = (max x - least) / 15, rounded up to binary16
//   number = (x - least) (1 / scale), rounded to nearest, ties to even
//
// Rounded up, no number leaves [-127, 127] or [0, 15] but where the scale or the least would leave binary16's range:
// there they are cut. A group of zeros (4 bits: of one number that binary16 has) has scale 0; another constant one gets
// a scale as all do, which holds it better than the nearest binary16. One with NaN or infinity has scale NaN, so that
// it reads back as NaN. Differences, divisions and products are float32's, so that all sets give the same bits.
//
// Bound: instructions. Scales of 8 bits are made as lanes of a register, of as many groups, from a tree of their largest
// numbers: one after the other each would wait for two divisions, and for floats that are stored to become lanes. With
// AVX-512 a group of 32 then takes 12 instructions beside its numbers' being widened twice, and 4 as its share of the
// tree and of the scales. On a Zen 4 that is 7 ns for a group (11 to 13 one after the other). 4 bits have two trees. A
// division for each number would take longer than all the rest.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/quantized.hpp"
#include "kernels/scaled_rows.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A group's scale, and what its numbers are multiplied by.
struct GroupScale {
  Float16 scale;
  float inverse;  // 0 where all numbers become 0
};

// The least binary16 that is not below a positive number, or the largest there is.
FOVEA_NOINLINE Float16 round_up_to_half(float x) {
  if (x > 65504.0f) return {0x7bff};
  const float units = x * 0x1p24f;  // exact; subnormal numbers count the last place's, of which there is at least one
  const auto whole = static_cast<uint32_t>(units);
  return {static_cast<uint16_t>(static_cast<float>(whole) < units || whole == 0 ? whole + 1 : whole)};
}

// steps: the number that `most` becomes.
FOVEA_NOINLINE GroupScale scale_for(float most, float steps) {
  if (most != most) return {{0x7e00}, 0.0f};
  const float least = most / steps;
  if (least >= 0x1p-14f && least <= 65504.0f) {  // as a float it is rounded up to binary16's digits
    uint32_t bits;
    memcpy(&bits, &least, sizeof bits);
    bits = (bits + 0x1fffu) & ~0x1fffu;
    float size;
    memcpy(&size, &bits, sizeof size);
    return {{static_cast<uint16_t>((bits - (112u << 23)) >> 13)}, 1.0f / size};
  }
  if (most == 0.0f) return {{0}, 0.0f};
  const Float16 scale = round_up_to_half(least);
  return {scale, 1.0f / scale_as_float(scale)};
}

// The largest binary16 that is not above a number of a size that binary16 has as subnormal numbers, or of one past its
// range.
FOVEA_NOINLINE Float16 round_down_to_short_half(float x) {
  if (x > 65504.0f) return {0x7bff};
  if (x < -65504.0f) return {0xfbff};
  const float units = x * 0x1p24f;  // exact
  auto whole = static_cast<int32_t>(units);
  if (static_cast<float>(whole) > units) --whole;
  return {static_cast<uint16_t>(whole >= 0 ? whole : 0x8000 - whole)};
}

// The same of any finite number; of zeros +0.
FOVEA_INLINE Float16 round_down_to_half(float x) {
  const float size = __builtin_fabsf(x);
  if (!(size >= 0x1p-14f && size <= 65504.0f)) return round_down_to_short_half(x);
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (sign != 0) bits += 0x1fffu;  // further from 0
  return {static_cast<uint16_t>(sign | (bits - (112u << 23)) >> 13)};
}

// Walks the groups of rows that are alike, some of a row at a time.
template <class X, class Number>
struct GroupCursor {
  static constexpr int64_t paired = same_type<Number, uint8_t> ? 2 : 1;  // numbers of a byte, and a group's scales
  const ScaledRowList &rows;
  const ScaledRow *row;
  int64_t group = 0;  // of the row, what comes next

  FOVEA_INLINE explicit GroupCursor(const ScaledRowList &list) : rows(list), row(list.row) {}

  struct Groups {
    const X *x;
    Number *numbers;
    Float16 *scales;
    int64_t count;
  };
  FOVEA_INLINE Groups next(int64_t most) {
    const int64_t first = group * rows.group;
    const Groups its = {static_cast<const X *>(row->floats) + first,
                        static_cast<Number *>(row->numbers) + first / paired, row->scales + group * paired,
                        min_of(most, rows.groups - group)};
    group += its.count;
    if (group == rows.groups) {
      group = 0;
      ++row;
    }
    return its;
  }
};

// The scales of some registers' worth of groups: divisions wait for each other's results less.
constexpr int64_t scale_registers = lanes < 16 ? 4 : 1;  // with AVX-512 more have not been measured
struct GroupScales {
  static constexpr int64_t most = scale_registers * lanes;
  alignas(64) int32_t bits[most];  // of binary16
  alignas(64) float inverse[most];

  // Those of a register's worth from `first` on, of which these are the bits of their largest numbers. Returns whether
  // binary16 has all scales as normal numbers.
  FOVEA_INLINE bool make(int64_t first, const Int &largest, float steps) {
    const Float least = float_of(largest) / splat(steps);
    if (xsimd::all(least >= splat(0x1p-14f) && least <= splat(65504.0f))) {  // the arithmetic of scale_for
      const Int size = (bits_of(least) + Int(0x1fff)) & Int(~0x1fff);
      ((size - Int(112 << 23)) >> 13).store_aligned(bits + first);
      store(inverse + first, splat(1.0f) / float_of(size));
      return true;
    }
    make_one_by_one(first, largest, steps);
    return false;
  }

 private:
  FOVEA_NOINLINE void make_one_by_one(int64_t first, const Int &most, float steps) {
    most.store_aligned(bits + first);
    for (int64_t g = first; g < first + lanes; ++g) {
      float largest;
      memcpy(&largest, &bits[g], sizeof largest);
      const GroupScale its = scale_for(bits[g] >= 0x7f800000 ? __builtin_nanf("") : largest, steps);
      bits[g] = its.scale.bits;
      inverse[g] = its.inverse;
    }
  }
};

// Groups whose scales are made together.
template <class X, class Number>
struct GroupBlock {
  using Cursor = GroupCursor<X, Number>;
  typename Cursor::Groups part[GroupScales::most];
  int64_t parts = 0;
  const int64_t size, count;  // of features, and of groups

  // meet(g, x) for each of them.
  template <class Meet>
  FOVEA_INLINE GroupBlock(Cursor &cursor, int64_t features, int64_t groups, const Meet &meet)
      : size(features), count(groups) {
    for (int64_t g = 0; g < count; ++parts) {
      part[parts] = cursor.next(count - g);
      const X *x = part[parts].x;
      for (const int64_t end = g + part[parts].count; g < end; ++g, x += size) meet(g, x);
    }
  }

  // write(g, x, numbers, scales) for each.
  template <class Write>
  FOVEA_INLINE void for_each(const Write &write) const {
    for (int64_t p = 0, first = 0; p < parts; first += part[p++].count) {
      const auto &its = part[p];
      for (int64_t i = 0; i < its.count; ++i) {
        write(first + i, its.x + i * size, its.numbers + i * (size / Cursor::paired), its.scales + i * Cursor::paired);
      }
    }
  }
};

// One number of each group, as lanes of some registers: the largest of each row's lanes, in the order of integers.
struct GroupSquares {
  Square square[scale_registers];

  FOVEA_INLINE void put(int64_t g, const Float &row) { square[g / lanes].row[g % lanes] = row; }
  // Of groups that are not there.
  FOVEA_INLINE void fill_up(int64_t count) {
    for (int64_t g = count; g % lanes != 0; ++g) put(g, splat(1.0f));
  }
  FOVEA_INLINE Int largest(int64_t g) { return largest_of_rows(square[g / lanes]); }
};

template <class X>
FOVEA_NOINLINE void quantize_unusual(const GroupBlock<X, int8_t> &block, const GroupScales &scales) {
  block.for_each([&](int64_t g, const X *x, int8_t *numbers, Float16 *scale) FOVEA_INLINE_BODY {
    scale->bits = static_cast<uint16_t>(scales.bits[g]);
    quantize_group<true>(x, scales.inverse[g], block.size, numbers);
  });
}

// usual_group: of so many features, or 0.
template <int usual_group, class X>
FOVEA_INLINE void quantize_in_eight_bits(const ScaledRowList &rows) {
  const int64_t size = usual_group != 0 ? usual_group : rows.group;
  GroupCursor<X, int8_t> cursor(rows);
  for (int64_t left = rows.count * rows.groups; left > 0; left -= GroupScales::most) {
    GroupSquares squares;
    const GroupBlock<X, int8_t> block(cursor, size, min_of(GroupScales::most, left),
                                      [&](int64_t g, const X *x) FOVEA_INLINE_BODY {
                                        Largest largest;
                                        largest.template meet<usual_group>(x, size);
                                        squares.put(g, largest.in_lanes());
                                      });
    squares.fill_up(block.count);
    GroupScales scales;
    bool are_usual = true;
    for (int64_t g = 0; g < block.count; g += lanes) {
      are_usual = scales.make(g, squares.largest(g), 127.0f) && are_usual;
    }
    if (!are_usual) {
      quantize_unusual(block, scales);
      continue;
    }
    block.for_each([&](int64_t g, const X *x, int8_t *numbers, Float16 *scale) FOVEA_INLINE_BODY {
      scale->bits = static_cast<uint16_t>(scales.bits[g]);
      quantize_group<false>(x, scales.inverse[g], size, numbers);
    });
  }
}

// One group after the other, whatever its numbers are.
template <class X>
FOVEA_NOINLINE void quantize_unusual(const GroupBlock<X, uint8_t> &block) {
  block.for_each([&](int64_t, const X *x, uint8_t *numbers, Float16 *scales) {
    Extent extent;
    extent.meet(x, block.size);
    const bool finite = extent.is_finite();
    scales[1] = finite ? round_down_to_half(extent.least()) : Float16{0};
    const float least = scale_as_float(scales[1]);
    const float above = extent.largest() - least;  // below 0 where all are below what binary16 holds
    const GroupScale its = scale_for(finite ? (above > 0.0f ? above : 0.0f) : __builtin_nanf(""), 15.0f);
    scales[0] = its.scale;
    quantize_fours(x, least, its.inverse, block.size, numbers);
  });
}

// The least numbers of some groups, rounded down to binary16.
struct GroupLeasts {
  alignas(64) int32_t bits[GroupScales::most];
  alignas(64) float least[GroupScales::most];

  // Those of a register's worth from `first` on, and as they are rounded. Returns whether binary16 has all of them as
  // normal numbers or zeros.
  FOVEA_INLINE bool make(int64_t first, const Float &exact, Float *rounded) {
    const Float size = xsimd::abs(exact);
    const Mask is_zero = size == zero();
    const Int sign = bits_of(exact) & Int(INT32_MIN);
    const Int away = bits_of(size) + ((sign >> 31) & Int(0x1fff));  // further from 0 below it: round_down_to_half
    const Int whole = away & Int(~0x1fff);
    const Int half = ((whole - Int(112 << 23)) >> 13) | ((sign >> 16) & Int(0x8000));
    bits_of(choose(is_zero, zero(), float_of(half))).store_aligned(bits + first);
    *rounded = choose(is_zero, zero(), float_of(whole | sign));
    store(least + first, *rounded);
    return xsimd::all(is_zero || (size >= splat(0x1p-14f) && size <= splat(65504.0f)));
  }
};

template <class X>
FOVEA_INLINE void quantize_in_four_bits(const ScaledRowList &rows) {
  GroupCursor<X, uint8_t> cursor(rows);
  for (int64_t left = rows.count * rows.groups; left > 0; left -= GroupScales::most) {
    GroupSquares most, least;
    Float check = zero();
    const GroupBlock<X, uint8_t> block(cursor, rows.group, min_of(GroupScales::most, left),
                                       [&](int64_t g, const X *x) FOVEA_INLINE_BODY {
                                         Extent extent;
                                         extent.meet(x, rows.group);
                                         check = check + extent.check();
                                         most.put(g, extent.largest_in_order());
                                         least.put(g, extent.least_in_order());
                                       });
    most.fill_up(block.count);
    least.fill_up(block.count);
    GroupScales scales;
    GroupLeasts leasts;
    bool are_usual = !xsimd::any(xsimd::isnan(check));
    for (int64_t g = 0; g < block.count && are_usual; g += lanes) {
      Float rounded;
      are_usual = leasts.make(g, -float_of(in_order(least.largest(g))), &rounded);
      scales.make(g, bits_of(at_least(float_of(in_order(most.largest(g))) - rounded, 0.0f)), 15.0f);
    }
    if (!are_usual) {
      quantize_unusual(block);
      continue;
    }
    block.for_each([&](int64_t g, const X *x, uint8_t *numbers, Float16 *its) FOVEA_INLINE_BODY {
      its[0].bits = static_cast<uint16_t>(scales.bits[g]);
      its[1].bits = static_cast<uint16_t>(leasts.bits[g]);
      quantize_fours(x, leasts.least[g], scales.inverse[g], block.size, numbers);
    });
  }
}

void quantize_rows(const ScaledRowList &rows) {
  with_element(rows.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    using X = typename T::Element;
    if (rows.numbers_dtype == Dtype::u8) return quantize_in_four_bits<X>(rows);
    rows.group == 32 ? quantize_in_eight_bits<32, X>(rows) : quantize_in_eight_bits<0, X>(rows);
  });
}

void dequantize_rows(const ScaledRowList &rows) {
  constexpr int64_t at_once = 1024;
  const int64_t dim = rows.groups * rows.group;
  for (const ScaledRow *row = rows.row; row < rows.row + rows.count; ++row) {
    for (int64_t d = 0; d < dim; d += at_once) {
      scale_rows_of({row->numbers, rows.numbers_dtype, 0, row->scales, 0, rows.group, 1}, d, min_of(at_once, dim - d),
                    element_at(row->floats, rows.dtype, d), rows.dtype, 0);
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
