// A row of any element type added to sums of columns: of few enough rows that their caller adds up what comes of them
// in float64.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/rowwise/gradient_problem.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void add_row_to_sums(const SummedRow &all) {
  alignas(64) float floats[piece_floats];
  for (int64_t first = 0; first < all.dim; first += piece_floats) {
    const int64_t count = min_of(piece_floats, all.dim - first);
    const float *row = read_piece(all.row, all.dtype, first, count, floats);
    float *sums = all.sums + first;
    for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      store_up_to(sums + i, load_up_to(sums + i, width) + load_up_to(row + i, width), width);
    });
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
