// The derivative of tanh(a + b), of what is kept of a query's unit and of a key's (scores/additive_units.hpp). Of
// exponentials t = (f - g) / (f + g) and 1 - t^2 = 4 f g / (f + g)^2, which loses no digits where t is near 1; of
// tangents 1 - t^2 = (1 - ta^2) (1 - tb^2) / (1 + ta tb)^2; where units are kept as they are it is taken from t.
#pragma once

#include "kernels/attention/score.hpp"
#include "kernels/scores/additive_units.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// tanh and a quarter of its derivative.
struct UnitSlope {
  Float tanh, quarter;
};

FOVEA_INLINE UnitSlope slope_of_exponentials(const Float &query, const Float &key) {
  const Float inverse = reciprocal(key + query);
  const Float f = key * inverse, g = query * inverse;
  return {f - g, f * g};
}

FOVEA_INLINE UnitSlope slope_of_tangents(const Float &query, const Float &key) {
  const Float inverse = reciprocal(multiply_add(query, key, splat(1.0f)));
  const Float rest = xsimd::fnma(query, query, splat(1.0f)) * (xsimd::fnma(key, key, splat(1.0f)) * splat(0.25f));
  return {(query + key) * inverse, rest * (inverse * inverse)};
}

FOVEA_INLINE UnitSlope slope_of_tanh(const Float &t) { return {t, xsimd::fnma(t, t, splat(1.0f)) * splat(0.25f)}; }

// What the forward pass keeps of a band's queries, and of the tile's keys: AdditiveManyRows' layout.
struct AdditiveUnits {
  const float *reach;  // of each row
  const float *rows;   // [unit][row]
  float *row_room;     // for a chunk of them
  float *key_room;     // likewise, [key of the tile][unit]
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
