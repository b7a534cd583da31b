// What kernels/shared_rows.hpp declares.
#include "isa/unit.hpp"
#include "kernels/attention/bias_and_mask.hpp"
#include "kernels/attention/change_scores.hpp"
#include "kernels/attention/dense_tile.hpp"
#include "kernels/attention/drop_weights.hpp"
#include "kernels/attention/empty_row_output.hpp"
#include "kernels/products/float_rows.hpp"
#include "kernels/scaled_rows.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {

void widen_rows(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim, float *to,
                int64_t to_stride) {
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *rows = static_cast<const typename T::Element *>(from);
    for (int64_t j = 0; j < count; ++j, rows += stride, to += to_stride) {
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) store(to + d, load(rows + d));
      if (d < dim) store_partial(to + d, load_partial(rows + d, dim - d), dim - d);
    }
  });
}

void narrow_row(const float *from, int64_t dim, void *to, Dtype dtype) {
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *row = static_cast<typename T::Element *>(to);
    int64_t d = 0;
    for (; d + 2 * lanes <= dim; d += 2 * lanes) store_two<Nans::any>(row + d, load(from + d), load(from + d + lanes));
    for (; d < dim; d += lanes) {
      const int64_t left = min_of(dim - d, lanes);
      store_partial(row + d, load_partial(from + d, left), left);
    }
  });
}

bool rows_are_finite(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim) {
  Float check = zero();  // NaN from the first that is not
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *row = static_cast<const typename T::Element *>(from);
    for (int64_t j = 0; j < count; ++j, row += stride) {
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) check = multiply_add(load(row + d), zero(), check);
      if (d < dim) check = multiply_add(load_partial(row + d, dim - d), zero(), check);
    }
  });
  return !xsimd::any(xsimd::isnan(check));
}

namespace {

template <class Number>
FOVEA_INLINE void scale_rows_as(const ScaledRows &from, const Features &features, void *to, Dtype dtype,
                                int64_t to_stride) {
  constexpr int64_t room_floats = 1024;  // the most features there are
  alignas(64) float room[room_floats];
  for (int64_t j = 0; j < from.count; ++j) {
    const Number *numbers = static_cast<const Number *>(from.numbers) + j * from.stride;
    const Float16 *scales = from.scales + j * from.scale_stride;
    void *row = element_at(to, dtype, j * to_stride);
    if (dtype == Dtype::f32) {
      scale_row<false>(numbers, scales, features, static_cast<float *>(row));
      continue;
    }
    dtype == Dtype::f16 ? scale_row<true>(numbers, scales, features, room)
                        : scale_row<false>(numbers, scales, features, room);
    narrow_row(room, features.width, row, dtype);
  }
}

}  // namespace

void scale_rows_of(const ScaledRows &from, int64_t feature, int64_t width, void *to, Dtype dtype, int64_t to_stride) {
  const Features features(from, feature, width);
  if (from.dtype == Dtype::u8) return scale_rows_as<uint8_t>(from, features, to, dtype, to_stride);
  scale_rows_as<int8_t>(from, features, to, dtype, to_stride);
}

void add_bias_and_mask(const MaskedScores &tile) {
  with_element(tile.bias_dtype, [&]<class T>(T) FOVEA_INLINE_BODY { add_addends<typename T::Element>(tile); });
}

void change_scores(const LogitTile &tile, const AttentionProblem &problem, float multiply) {
  change_all_scores(tile, problem, multiply);
}

void drop_weights(const LogitTile &tile, const Dropout &dropout, int64_t batch) {
  drop_weights_of(tile, dropout, batch);
}

void update_softmax(const SoftmaxTile &tile) { softmax_of_rows(tile); }
void update_softmax_of_dense(const SoftmaxTile &tile) { softmax_of_dense(tile); }

void fill_empty_row(const AttentionProblem &problem, int64_t batch, int64_t kv_head, void *out) {
  write_empty_row(problem, batch, kv_head, out);
}

void copy_float_rows(const MatmulRows &rows) {
  if (rows.a_dtype == Dtype::f32 && rows.a_row_stride == 1) return turn_columns(rows);
  for (int64_t r = 0; r < rows.rows; ++r) copy_float_row(rows, r, rows.to + r * rows.to_stride);
}

void rows_to_lanes(const float *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride) {
  squares_to_lanes(rows, row_count, columns, tile, tile_stride);
}
void lanes_to_rows(const float *tile, int64_t tile_stride, const Float &factor, float *const *rows, int64_t row_count,
                   int64_t columns) {
  squares_to_rows(tile, tile_stride, factor, rows, row_count, columns);
}
#if FOVEA_HAS_BF16
void rows_to_lanes(const Bfloat16 *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride) {
  squares_to_lanes(rows, row_count, columns, tile, tile_stride);
}
void lanes_to_rows(const float *tile, int64_t tile_stride, const Float &factor, Bfloat16 *const *rows,
                   int64_t row_count, int64_t columns) {
  squares_to_rows(tile, tile_stride, factor, rows, row_count, columns);
}
#endif
#if FOVEA_HAS_F16
void rows_to_lanes(const Float16 *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride) {
  squares_to_lanes(rows, row_count, columns, tile, tile_stride);
}
void lanes_to_rows(const float *tile, int64_t tile_stride, const Float &factor, Float16 *const *rows, int64_t row_count,
                   int64_t columns) {
  squares_to_rows(tile, tile_stride, factor, rows, row_count, columns);
}
#endif

}  // namespace fovea::FOVEA_ISA
