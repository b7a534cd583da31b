// The logarithm of softmax, row by row:  out[j] = (x[j] - max) - log sum_i e^{x[i] - max}
//
// Three passes over a row: its maximum; the sum; what is left. Neither term is rounded to a power, so that a result is
// as exact far below 0 as near it. A row of nothing but -infinity gives NaN, as the formula does; NaN and +infinity
// make all of a row NaN.
#pragma once

#include "kernels/math/log.hpp"
#include "kernels/rowwise/softmax.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class X, class Out>
FOVEA_NOINLINE void put_differences(const X *x, Out *out, int64_t count, float row_max, float log_sum) {
  const auto of = [&](const Float &value) FOVEA_INLINE_BODY { return (value - splat(row_max)) - splat(log_sum); };
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const Float a = load(x + i), b = load(x + i + lanes);
    store_two<Nans::any>(out + i, of(a), of(b));
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, of(load_partial(x + i, left)), left);
  }
}

void log_softmax_rows(const SoftmaxRows &rows) {
  with_element(rows.x_type, [&]<class X>(X) FOVEA_INLINE_BODY {
    for (int64_t r = 0; r < rows.count; ++r) {
      const auto *x = static_cast<const typename X::Element *>(rows.row[r].x);
      const float row_max = largest_of(x, rows.key_len);
      const float log_sum = log_of(row_sum<RowPowers<false>, 1>(x, rows.key_len, row_max));
      with_element(rows.out_type, [&]<class Out>(Out) FOVEA_INLINE_BODY {
        put_differences(x, static_cast<typename Out::Element *>(rows.row[r].out), rows.key_len, row_max, log_sum);
      });
    }
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
