// Where rows of numbers with scales lie, for kernels of bytes: a pointer for each, whatever the runs they lie in, and
// their scales, four groups of four rows in a register.
#pragma once

#include "beyond_xsimd/bytes_vnni.hpp"
#include "kernels/attention/few_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// So many keys make one sum of values.
constexpr int64_t piece_keys = FewRowsValues::value_keys;

struct ScaleAndLeast {
  Float scale, least;
};

// Where keys or values lie, and their scales. Behind the last of `count` it is found again.
template <int64_t most>
struct BytePlaces {
  const int8_t *row[most + 8];  // places are written eight at a time
  const Float16 *scales[most + 8];
  FOVEA_INLINE void find(const HeadSource &source, int64_t first, int64_t count, int64_t padded) {
    int64_t n = 0;
    source.rows.for_each_run(source.batch, source.head, first, count,
                             [&](const RowRun &run, int64_t) FOVEA_INLINE_BODY {
                               const auto *its = static_cast<const int8_t *>(run.first);
                               const Float16 *its_scales = run.scales;
                               const int64_t apart = source.rows.scales.strides.position;
                               fill_places(row + n, its, run.stride, run.count);
                               fill_places(scales + n, its_scales, apart * 2, run.count);
                               n += run.count;
                             });
    for (; n < padded; ++n) {
      row[n] = row[n - 1];
      scales[n] = scales[n - 1];
    }
  }

  FOVEA_INLINE void ask_for_row(int64_t j, int64_t feature) const { __builtin_prefetch(row[j] + feature, 0, 2); }
  FOVEA_INLINE void ask_for_scales(int64_t j) const { __builtin_prefetch(scales[j], 0, 2); }

  // Rows up to the end of a piece; at least so many places are there. Returns how many rows.
  FOVEA_INLINE int64_t find_piece(const RowsNext &rows, int64_t least) {
    const int64_t count = min_of(rows.count, piece_keys - rows.first % piece_keys);
    if (count > 0) find(*rows.source, rows.first, count, round_up(max_of(count, least), 4));
    return count;
  }

  FOVEA_INLINE static bool side_by_side(const Float16 *const *row) {
    return row[1] == row[0] + 4 && row[2] == row[0] + 8 && row[3] == row[0] + 12;
  }

  // Scales of four groups from `group` on, of four rows, [row][group], and the least numbers that stand beside each.
  FOVEA_INLINE ScaleAndLeast pairs_of_four(int64_t j, int64_t group, int64_t groups) const {
    __m128i four[4];
    for (int64_t i = 0; i < 4; ++i) {
      const Float16 *at = scales[j + i];
      if (groups >= 4) {
        four[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at + 2 * group));
      } else {  // one, or two: as four
        int32_t first, last;
        memcpy(&first, at, sizeof first);
        memcpy(&last, at + 2 * (groups - 1), sizeof last);
        four[i] = _mm_setr_epi32(first, first, last, last);
      }
    }
    __m512i all = _mm512_castsi128_si512(four[0]);
    all = _mm512_inserti32x4(all, four[1], 1);
    all = _mm512_inserti32x4(all, four[2], 2);
    all = _mm512_inserti32x4(all, four[3], 3);
    const auto widened = [](__m512i numbers)
                             FOVEA_INLINE_BODY { return Float(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(numbers))); };
    return {widened(all), widened(_mm512_srli_epi32(all, 16))};
  }

  // Scales of four groups from `group` on, of four rows: [row][group].
  FOVEA_INLINE Float scales_of_four(int64_t j, int64_t group, int64_t groups) const {
    if (groups == 4 && side_by_side(scales + j)) return load(scales[j]);
    uint64_t four[4];
    for (int64_t i = 0; i < 4; ++i) {
      const Float16 *at = scales[j + i];
      if (groups >= 4) {
        memcpy(&four[i], at + group, sizeof four[i]);
      } else {  // one, or two: as four
        const uint64_t first = at[0].bits, last = at[groups - 1].bits;
        four[i] = first * 0x10001u + (last * 0x10001u << 32);
      }
    }
    return Float(_mm512_cvtph_ps(_mm256_setr_epi64x(static_cast<long long>(four[0]), static_cast<long long>(four[1]),
                                                    static_cast<long long>(four[2]), static_cast<long long>(four[3]))));
  }
};

using ValuePlaces = BytePlaces<piece_keys>;

// The first piece of values behind a tile's keys, asked for in so many shares.
struct ValuesAhead {
  ValuePlaces places;
  int64_t count, share, next = 0, bytes;

  FOVEA_INLINE ValuesAhead(const RowsNext &rows, int64_t shares)
      : count(places.find_piece(rows, 0)),
        share(ceil_div(count, shares)),
        bytes(rows.source->rows.elements_of(rows.source->dim)) {}
  FOVEA_INLINE void ask_for_share() {
    for (const int64_t end = min_of(next + share, count); next < end; ++next) {
      for (int64_t d = 0; d < bytes; d += line_bytes) places.ask_for_row(next, d);
      if (next % 4 == 0) places.ask_for_scales(next);
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
