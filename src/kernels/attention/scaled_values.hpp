// Values of numbers with scales, in whole blocks of 32 features that each have one scale: a register's worth at a time
// made floats, with the very bits that rows of floats would have (kernels/scaled_rows.hpp).
#pragma once

#include "beyond_xsimd/bytes.hpp"
#include "kernels/attention/source.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct ScaledValues {
  ValueRuns<uint8_t> numbers;
  const float *scales;  // of all rows, one after the other
  int64_t of_row;       // scales
  int64_t group;        // features that share one

  // body(runs, load(at, values)) for `features` from d on, 16 or whole blocks: load is to be called for one row after
  // the other.
  template <int features, class Body>
  FOVEA_INLINE void with_load(Dtype dtype, int64_t d, const Body &body) const {
    constexpr int blocks = features < 32 ? 1 : features / 32;
    const int64_t paired = dtype == Dtype::u8 ? 2 : 1;
    int64_t places[blocks];
    for (int64_t b = 0; b < blocks; ++b) places[b] = (d + 32 * b) / group * paired;
    const float *its = scales;
    if (dtype == Dtype::i8) {
      body(numbers.from(d), [&](const uint8_t *at, Float *values) FOVEA_INLINE_BODY {
        constexpr int in_block = min_of(features, 32) / lanes;
        unroll<blocks>([&](auto b) FOVEA_INLINE_BODY {
          const Float scale(its[places[b]]);
          unroll<in_block>([&](auto v) FOVEA_INLINE_BODY {
            const auto *bytes = reinterpret_cast<const int8_t *>(at) + (b * in_block + v) * lanes;
            values[b * in_block + v] = Float(load_bytes(bytes)) * scale;
          });
        });
        its += of_row;
      });
    } else if (features >= 32 || d % 32 == 0) {
      body(numbers.from(d / 2), [&](const uint8_t *at, Float *values)
                                    FOVEA_INLINE_BODY { its = take_fours<features, false>(at, its, places, values); });
    } else {
      body(numbers.from(d / 32 * 16), [&](const uint8_t *at, Float *values) FOVEA_INLINE_BODY {
        its = take_fours<features, true>(at, its, places, values);
      });
    }
  }

 private:
  // high: the second half of a block alone.
  template <int features, bool high>
  FOVEA_INLINE const float *take_fours(const uint8_t *at, const float *its, const int64_t *places,
                                       Float *values) const {
    constexpr int in_half = 16 / lanes, blocks = features < 32 ? 1 : features / 32;
    unroll<blocks>([&](auto b) FOVEA_INLINE_BODY {
      const Float scale(its[places[b]]), least(its[places[b] + 1]);
      unroll<in_half>([&](auto v) FOVEA_INLINE_BODY {
        Floats first, second;
        load_fours(at + 16 * b + v * lanes, &first, &second);
        if constexpr (features < 32) {
          values[v] = multiply_add(Float(high ? second : first), scale, least);
        } else {
          values[2 * in_half * b + v] = multiply_add(Float(first), scale, least);
          values[2 * in_half * b + in_half + v] = multiply_add(Float(second), scale, least);
        }
      });
    });
    return its + of_row;
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
