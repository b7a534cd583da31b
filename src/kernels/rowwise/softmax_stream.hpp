// Softmax of rows whose results will not be read again soon: written past the caches, so that the memory written is not
// read first. One loop works on three rows at once, for arithmetic and memory to overlap: it makes the exponentials of
// a row in the first-level cache, scales those of the row before and sends them off, and fetches a later row.
#pragma once

#include "kernels/rowwise/row_pass.hpp"
#include "kernels/rowwise/softmax_narrow.hpp"

#if defined(__x86_64__)
namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t max_streamed_row = 4096;  // keys: three rows of 16 kB, of floats, are in use at a time

// A row on its way out: out[j] = powers[j] * factor for j < valid_len, then zeros. Of the aligned registers [at,
// whole_end) those before data_end are powers throughout; [whole_end, end) is what is left.
template <class Out>
struct LeavingRow {
  const float *powers = nullptr;
  Out *out = nullptr;
  int64_t at = 0, data_end = 0, whole_end = 0, valid_len = 0, end = 0;
  float factor = 0.0f;

  // Sends off what lies before the first aligned register.
  FOVEA_INLINE void start(const float *row_powers, const SoftmaxRow &row, int64_t count, float row_factor) {
    powers = row_powers;
    out = static_cast<Out *>(row.out);
    valid_len = row.valid_len;
    end = count;
    factor = row_factor;
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(Out) % lanes);
    const int64_t first = past == 0 ? 0 : min_of(lanes - past, count);
    whole_end = first + (count - first) / lanes * lanes;
    data_end = first + max_of(valid_len - first, 0) / lanes * lanes;
    at = 0;
    if (first > 0) store_partial(out, mixed(), first);
    at = first;
  }
  FOVEA_INLINE void step() {
    stream(out + at, load(powers + at) * factor);
    at += lanes;
  }
  FOVEA_INLINE void finish() {
    while (at < data_end) step();
    if (at < valid_len && at < whole_end) {
      stream(out + at, mixed());
      at += lanes;
    }
    for (; at < whole_end; at += lanes) stream(out + at, zero());
    if (at < end) store_partial(out + at, mixed(), end - at);
    at = data_end = whole_end = end;
  }

 private:
  // Zeros where the factor may be NaN.
  FOVEA_INLINE Float mixed() const { return choose(lanes_below(valid_len - at), load(powers + at) * factor, zero()); }
};

// Exponentials of row.x into powers while the row before leaves. All are stored as whole registers: the loads that send
// them off find each in one store. From two that hold a part each they would wait until both have left the store queue,
// where they stand behind the row that leaves.
template <class X, class Out>
FOVEA_INLINE float exponentials_beside(const SoftmaxRow &row, float *powers, float row_max, LeavingRow<Out> &before,
                                       const X *later_x) {
  const RowExp2<X, Out> exp(log2_of_e);
  const auto *x = static_cast<const X *>(row.x);
  const Float maximum = splat(row_max);
  Float sum = zero();
  const int64_t together = min_of(row.valid_len / lanes * lanes, before.data_end - before.at);
  LeavingRow<Out> leaving = before;
  for (int64_t i = 0; i < together; i += lanes) {
    __builtin_prefetch(later_x + i);
    const Float power = exp(load(x + i) - maximum);
    store(powers + i, power);
    sum = sum + power;
    leaving.step();
  }
  leaving.finish();
  before = leaving;
  return exponentials_from<RowExp2<X, Out>>(together, x, row.valid_len, maximum, sum,
                                            [&](int64_t i, const Float &power, int64_t)
                                                FOVEA_INLINE_BODY { store(powers + i, power); });
}

template <class X, class Out>
FOVEA_NOINLINE void softmax_past_caches(const SoftmaxRows &rows) {
  alignas(64) float powers[2][max_streamed_row + lanes];  // of the row at work and of the row leaving
  int at_work = 0;
  LeavingRow<Out> leaving;
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    const float row_max = run_max(static_cast<const X *>(row.x), row.valid_len);
    if (done_as_empty<X, Out>(row, rows, row_max)) continue;
    const auto *later_x = static_cast<const X *>(rows.row[min_of(r + fetch_ahead, rows.count - 1)].x);
    float *own = powers[at_work];
    at_work ^= 1;
    const float sum = exponentials_beside<X, Out>(row, own, row_max, leaving, later_x);
    leaving.start(own, row, rows.key_len, 1.0f / sum);
  }
  leaving.finish();
  stream_fence();
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
#endif

namespace fovea::FOVEA_ISA {
namespace {

// Results of another type than x's do not go past the caches.
void softmax_rows(const SoftmaxRows &rows) {
#if defined(__AVX2__)
  if (rows.x_type == rows.out_type && is_widened(rows.x_type)) return narrow_softmax_rows(rows);
#endif
#if defined(__x86_64__)
  if (rows.stream && rows.key_len <= max_streamed_row && rows.x_type == rows.out_type) {
    return with_element(rows.x_type, [&]<class T>(T) FOVEA_INLINE_BODY {
      softmax_past_caches<typename T::Element, typename T::Element>(rows);
    });
  }
#endif
  rows.x_type == Dtype::f32 &&rows.out_type == Dtype::f32 ? softmax_in_cache(rows) : softmax_of_types(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
