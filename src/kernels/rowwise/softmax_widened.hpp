// Softmax of rows from one type to another, and of rows that the powers of pairs do not take: as floats, in a room that
// stays in the first-level cache. Which way rows go stands here, too. Results are those of floats, rounded once.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/rowwise/softmax.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A row of any length, in three passes: a piece at a time if it is longer than `room`.
template <class Powers>
FOVEA_NOINLINE void softmax_of_row_as_floats(const SoftmaxRow &row, const SoftmaxRows &rows, float *room) {
  bool is_there = false;
  const auto for_each_piece = [&](const auto &body) {
    for (int64_t i = 0; i < row.valid_len; i += most_waiting_powers) {
      const int64_t count = min_of(row.valid_len - i, most_waiting_powers);
      if (!is_there) widen_rows(element_at(row.x, rows.x_type, i), rows.x_type, 0, 1, count, room, 0);
      is_there = row.valid_len <= most_waiting_powers;
      body(i, count);
    }
  };
  float row_max = -__builtin_inff();
  bool empty = true;
  for_each_piece([&](int64_t, int64_t count) {
    const float its = largest_of(room, count);
    row_max = its > row_max || its != its ? its : row_max;
    empty = empty && has_only_minus_infinity(room, count);
  });
  if (!Powers::take(row_max)) {
    return with_element(rows.out_type,
                        [&]<class T>(T) FOVEA_INLINE_BODY { put_unusual<typename T::Element>(row, rows, empty); });
  }
  const Powers power(row_max);
  Float sum = zero();  // as make_powers takes it
  for_each_piece([&](int64_t, int64_t count) {
    for (int64_t j = 0; j < count; j += lanes) {
      Float value;
      read_up_to<1>(room + j, min_of(count - j, lanes), &value);
      sum = sum + power(value);
    }
  });
  const Float factor = splat(1.0f / horizontal_sum(sum));
  for_each_piece([&](int64_t i, int64_t count) {
    for (int64_t j = 0; j < count; j += lanes) store(room + j, power(load(room + j)) * factor);
    narrow_row(room, count, element_at(row.out, rows.out_type, i), rows.out_type);
  });
  with_element(rows.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    fill_run(static_cast<typename T::Element *>(row.out) + row.valid_len, rows.key_len - row.valid_len, 0.0f);
  });
}

// As many rows at a time as a block of floats holds. Results of bfloat16 go on below the smallest power of float32.
FOVEA_NOINLINE void softmax_as_floats(const SoftmaxRows &rows, float *room) {
  constexpr int64_t most_rows = 32;
  SoftmaxRow row[most_rows];
  const int64_t together = min_of(most_rows, max_of(most_widened / max_of(rows.key_len, 1), 1));
  const bool lifts = rows.x_type == Dtype::bf16 && rows.out_type == Dtype::bf16;
  if (rows.key_len > most_waiting_powers || lifts) {
    const auto softmax_of =
        lifts ? softmax_of_row_as_floats<RowPowers<false, bfloat16_lift>> : softmax_of_row_as_floats<RowPowers<false>>;
    for (int64_t r = 0; r < rows.count; ++r) softmax_of(rows.row[r], rows, room);
    return;
  }
  for (int64_t first = 0; first < rows.count; first += together) {
    SoftmaxRows floats = rows;
    floats.row = row;
    floats.count = min_of(together, rows.count - first);
    for (int64_t r = 0; r < floats.count; ++r) {
      const SoftmaxRow &its = rows.row[first + r];
      float *at = room + r * rows.key_len;
      row[r].x = read_piece(its.x, rows.x_type, 0, its.valid_len, at);
      row[r].out = written_piece(its.out, rows.out_type, 0, at);
      row[r].valid_len = its.valid_len;
    }
    softmax_in_cache<SoftmaxKind<float>>(floats, nullptr);
    for (int64_t r = 0; r < floats.count; ++r) {
      put_piece(static_cast<const float *>(row[r].out), rows.row[first + r].out, rows.out_type, 0, rows.key_len);
    }
  }
}

void softmax_rows(const SoftmaxRows &rows) {
  alignas(64) float room[most_waiting_powers];
  if (rows.x_type != rows.out_type) return softmax_as_floats(rows, room);
#if defined(__x86_64__)
  if (rows.stream && rows.key_len * bytes_of(rows.x_type) <= most_streamed_bytes) {
    return with_element(rows.x_type,
                        [&]<class T>(T) FOVEA_INLINE_BODY { softmax_past_caches<typename T::Element>(rows, room); });
  }
#endif
  with_element(rows.x_type,
               [&]<class T>(T) FOVEA_INLINE_BODY { softmax_in_cache<SoftmaxKind<typename T::Element>>(rows, room); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
