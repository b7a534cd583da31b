// What meets values in products of bytes: weights times the scales of groups of features, 16 bits of the largest of a
// piece's keys, as two signed bytes.
#pragma once

#include "beyond_xsimd/bytes_vnni.hpp"
#include "kernels/scores/byte_places.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float most_16_bits = 127 * 256;
constexpr int64_t most_byte_rows = 16;

// The weights of a piece's keys times the scales of four groups, as bytes; with 4 bits also the sums of weights times
// least numbers.
struct ByteFactors {
  static constexpr int64_t most_quads = piece_keys / 4;
  // [four keys][row][high, low][group], four keys' bytes each
  alignas(64) int32_t bytes[most_quads * most_byte_rows * 8];
  alignas(16) float unit[most_byte_rows][4];
  alignas(16) int32_t start[most_byte_rows][4];
  alignas(16) float least[most_byte_rows][4];
};

// The weights of a row of a piece, four keys at a time in lanes [key][group].
struct PieceWeights {
  const float *at;
  int64_t stride, row, keys;
  __m512i places;

  FOVEA_INLINE PieceWeights(const ScoreTile &tile, int64_t r)
      : at(tile.scores), stride(tile.stride), row(r), keys(tile.keys) {
    const __m512i key_of_lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    places = stride > 4 ? key_of_lane
                        : _mm512_add_epi32(_mm512_mullo_epi32(key_of_lane, _mm512_set1_epi32(static_cast<int>(stride))),
                                           _mm512_set1_epi32(static_cast<int>(r)));
  }
  FOVEA_INLINE __m512 of_four(int64_t j) const {
    const float *from = at + j * stride;
    if (stride <= 4) return _mm512_permutexvar_ps(places, _mm512_loadu_ps(from));
    const __m128 four = _mm_setr_ps(from[row], from[stride + row], from[2 * stride + row], from[3 * stride + row]);
    return _mm512_permutexvar_ps(places, _mm512_castps128_ps512(four));
  }
  // Not keys that are marked, whose scales may be anything.
  FOVEA_INLINE static __mmask16 which_count(__m512 weight) {
    return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(weight), _mm512_castps_si512(_mm512_set1_ps(-0.0f)));
  }
};

// Weights of the keys behind the last whole four, in `room`. Those that are not there are marked.
FOVEA_NOINLINE PieceWeights last_weights(const ScoreTile &tile, int64_t row, float *room) {
  const int64_t first = tile.keys / 4 * 4;
  ScoreTile last = tile;
  last.scores = room;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t r = 0; r < tile.stride; ++r) {
      room[i * tile.stride + r] = first + i < tile.keys ? tile.scores[(first + i) * tile.stride + r] : -0.0f;
    }
  }
  return PieceWeights(last, row);
}

// Of a piece, for the groups from `group` on; fours: values are of 4 bits.
template <bool fours>
FOVEA_NOINLINE void make_byte_factors(const ScoreTile &tile, int64_t rows, const ValuePlaces &places, int64_t group,
                                      int64_t groups, ByteFactors *to) {
  alignas(64) float scales[piece_keys * 4], leasts[fours ? piece_keys * 4 : 1], products[piece_keys * 4];
  const int64_t whole = tile.keys / 4 * 4, end = round_up(tile.keys, 4);
  for (int64_t j = 0; j < end; j += 4) {
    if constexpr (fours) {
      const ScaleAndLeast its = places.pairs_of_four(j, group, groups);
      store(scales + 4 * j, its.scale);
      store(leasts + 4 * j, its.least);
    } else {
      store(scales + 4 * j, places.scales_of_four(j, group, groups));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const PieceWeights weights(tile, r);
    // As bits, numbers that are not finite are the largest.
    __m512i most = _mm512_setzero_si512();
    Float least = zero();
    const auto take = [&](int64_t j, const PieceWeights &its, int64_t at) FOVEA_INLINE_BODY {
      const __m512 weight = its.of_four(at);
      const __mmask16 counts = its.which_count(weight);
      const __m512 factor = _mm512_maskz_mul_ps(counts, weight, load(scales + 4 * j).data);
      _mm512_store_ps(products + 4 * j, factor);
      most = _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(factor)));
      if constexpr (fours) {
        least = Float(_mm512_mask3_fmadd_ps(weight, load(leasts + 4 * j).data, least.data, counts));
      }
    };
    for (int64_t j = 0; j < whole; j += 4) take(j, weights, j);
    if (whole < end) {
      alignas(64) float last[4 * FewRowsValues::tile_rows];
      take(whole, last_weights(tile, r, last), 0);
    }
    const __m512 largest = over_keys(_mm512_castsi512_ps(most), [](__m512 a, __m512 b) FOVEA_INLINE_BODY {
      return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
    });
    // Below 2^-100 nothing is left of it beside other pieces, which have a weight of about 1 among them, or are as
    // small.
    const __m512 check = _mm512_mul_ps(largest, _mm512_setzero_ps());  // NaN or 0
    const __mmask16 some = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ) &
                           _mm512_cmp_ps_mask(check, check, _CMP_ORD_Q);
    const __m512 inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(most_16_bits), largest);
    const __m512 unit = _mm512_add_ps(_mm512_maskz_mul_ps(some, largest, _mm512_set1_ps(1 / most_16_bits)), check);
    _mm_store_ps(to->unit[r], _mm512_castps512_ps128(unit));
    __m512i sum = _mm512_setzero_si512();
    int32_t *bytes = to->bytes + r * 8;
    for (int64_t j = 0; j < end; j += 4, bytes += rows * 8) {
      const __m512i number = _mm512_maskz_cvtps_epi32(some, _mm512_mul_ps(_mm512_load_ps(products + 4 * j), inverse));
      sum = _mm512_add_epi32(sum, number);
      store_quads(bytes, number);
    }
    const __m512 all = over_keys(_mm512_castsi512_ps(sum), [](__m512 a, __m512 b) FOVEA_INLINE_BODY {
      return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
    });
    const __m512i start = _mm512_mullo_epi32(_mm512_castps_si512(all), _mm512_set1_epi32(fours ? 0 : -128));
    if constexpr (fours) {
      const auto add = [](__m512 a, __m512 b) FOVEA_INLINE_BODY { return _mm512_add_ps(a, b); };
      _mm_store_ps(to->least[r], _mm512_castps512_ps128(over_keys(least.data, add)));
    }
    _mm_store_si128(reinterpret_cast<__m128i *>(to->start[r]), _mm512_castsi512_si128(start));
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
