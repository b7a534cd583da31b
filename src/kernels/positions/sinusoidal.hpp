// The sinusoidal encoding, out[i,2j] = sin(position(i) * frequency(j)), out[i,2j+1] = cos(the same), and its sum with
// x.
//
// Where each row of the encoding is needed once it is added as it is made: the arithmetic, some 36 instructions for two
// registers of the result, hides behind the memory. Where many batch entries share it, it is made once and added from a
// cache. Both do the same sums, so that the result does not depend on which it was.
#pragma once

#include "kernels/math/sincos.hpp"
#include "kernels/positions/problem.hpp"
#include "kernels/random/dropout.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Columns [column, column + 2 * lanes) of out = x + encoding, or of out = encoding.
template <bool add, class X, class Out, class Store>
FOVEA_INLINE void put_encoding(const X *x, Out *out, int64_t column, int64_t dim, const Float &low, const Float &high,
                               const Store &store_to) {
  if (column + 2 * lanes <= dim) {
    store_to.template two<nans_of<X>>(out + column, add ? load(x + column) + low : low,
                                      add ? load(x + column + lanes) + high : high);
    return;
  }
  const auto put = [&](int64_t first, const Float &encoding) FOVEA_INLINE_BODY {
    const int64_t left = min_of(dim - first, lanes);
    if (left > 0) store_partial(out + first, add ? load_partial(x + first, left) + encoding : encoding, left);
  };
  put(column, low);
  put(column + lanes, high);
}

template <bool add, class X, class Out, class Store>
FOVEA_INLINE void encode_rows_with(const EncodingRows &rows, const Store &store_to) {
  constexpr int64_t line = line_bytes / static_cast<int64_t>(sizeof(X));
  const int64_t rows_ahead = fetch_rows_ahead<X>(rows.dim);
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto *all_x = static_cast<const X *>(rows.x);
    const X *x = add ? all_x + r * rows.x_stride : nullptr;
    const X *later_x = add ? all_x + min_of(r + rows_ahead, rows.count - 1) * rows.x_stride : nullptr;
    Out *out = static_cast<Out *>(rows.out) + r * rows.out_stride;
    for (int64_t column = 0; column < rows.dim; column += 2 * lanes) {
      if (add && column % line == 0) __builtin_prefetch(later_x + column);
      if (add && 2 * lanes > line) __builtin_prefetch(later_x + min_of(column + line, rows.dim));
      const SinCos value = sincos_of(rows.frequencies + column / 2, rows.positions[r]);
      Float low;
      Float high;
      interleave(value.sine, value.cosine, &low, &high);
      put_encoding<add>(x, out, column, rows.dim, low, high, store_to);
    }
  }
}

template <class Element>
void encode_of(const EncodingRows &rows) {
  const bool stream = can_stream(rows.stream, static_cast<Element *>(rows.out), rows.out_stride);
  if (rows.x == nullptr) {
    return stream ? encode_rows_with<false, Element, Element>(rows, StreamedStore())
                  : encode_rows_with<false, Element, Element>(rows, CachedStore());
  }
  stream ? encode_rows_with<true, Element, Element>(rows, StreamedStore())
         : encode_rows_with<true, Element, Element>(rows, CachedStore());
}

FOVEA_NOINLINE void encode_any(const EncodingRows &rows) {
  alignas(64) float floats[most_widened];
  for_each_block(rows.count, rows.dim, [&](int64_t r, int64_t count, int64_t column, int64_t columns) {
    EncodingRows block = rows;
    block.frequencies += column / 2;
    block.positions += r;
    block.count = count;
    block.dim = block.x_stride = block.out_stride = columns;
    block.out = floats;
    block.stream = false;
    if (rows.x != nullptr) {
      widen_rows(element_at(rows.x, rows.x_type, r * rows.x_stride + column), rows.x_type, rows.x_stride, count,
                 columns, floats, columns);
      block.x = floats;
    }
    encode_of<float>(block);
    round_rows(floats, count, columns, element_at(rows.out, rows.out_type, r * rows.out_stride + column), rows.out_type,
               rows.out_stride);
  });
}

void encode_rows(const EncodingRows &rows) {
  const bool one_type = rows.x == nullptr || rows.x_type == rows.out_type;
  const bool done = with_kernel_of(one_type, rows.out_type,
                                   [&]<class T>(T) FOVEA_INLINE_BODY { encode_of<typename T::Element>(rows); });
  if (done) return;
  const bool directly =
      with_kernel_of_both(rows.x_type, rows.out_type, [&]<class X, class Out>(X, Out) FOVEA_INLINE_BODY {
        encode_rows_with<true, typename X::Element, typename Out::Element>(rows, CachedStore());
      });
  if (!directly) encode_any(rows);
}

// fetch(column) asks for what comes later.
template <class X, class Out, class Store, class Fetch>
FOVEA_INLINE void add_row(const X *x, const float *encoding, Out *out, int64_t dim, const Store &store_to,
                          const Fetch &fetch) {
  constexpr int64_t line = line_bytes / static_cast<int64_t>(sizeof(X) > sizeof(Out) ? sizeof(X) : sizeof(Out));
  int64_t column = 0;
  if constexpr (is_narrow_element<Out>) {
    for (; column + 2 * lanes <= dim; column += 2 * lanes) {
      if (column % line == 0) fetch(column);
      store_to.template two<nans_of<X>>(out + column, load(x + column) + load(encoding + column),
                                        load(x + column + lanes) + load(encoding + column + lanes));
    }
  }
  for (; column + lanes <= dim; column += lanes) {
    if (column % line == 0) fetch(column);
    store_to(out + column, load(x + column) + load(encoding + column));
  }
  const int64_t left = dim - column;
  if (left > 0)
    store_partial(out + column, load_partial(x + column, left) + load_partial(encoding + column, left), left);
}

// What is dropped is 0 whatever x holds there.
void drop_row(const Dropout &dropout, const PhiloxKey &key, int64_t batch, int64_t query, int64_t first_column,
              float *row, int64_t dim) {
  for (int64_t column = 0; column < dim; column += drop_factors_width) {
    Float factor[4];
    drop_factors(dropout, key, batch, 0, query, first_column + column, factor);
    unroll<4>([&](auto v) FOVEA_INLINE_BODY {
      const int64_t count = min_of(dim - column - v * lanes, lanes);
      if (count <= 0) return;
      float *at = row + column + v * lanes;
      const Float kept = load_partial(at, count) * factor[v];
      store_partial(at, choose(factor[v] == zero(), zero(), kept), count);
    });
  }
}

void add_rows_and_drop(const AddedRows &rows) {
  const PhiloxKey key(rows.dropout->seed);
  for (int64_t r = 0; r < rows.count; ++r) {
    float *out = static_cast<float *>(rows.out) + r * rows.out_stride;
    add_row(static_cast<const float *>(rows.x) + r * rows.x_stride, rows.encoding + r * rows.encoding_stride, out,
            rows.dim, CachedStore(), [](int64_t) FOVEA_INLINE_BODY {});
    drop_row(*rows.dropout, key, rows.batch + r * rows.batch_step, rows.query + r * rows.query_step, rows.first_column,
             out, rows.dim);
  }
}

template <class X, class Out, Distance distance, class Store>
FOVEA_INLINE void add_rows_with(const AddedRows &rows, const Store &store_to) {
  const auto *x = static_cast<const X *>(rows.x);
  auto *out = static_cast<Out *>(rows.out);
  const int64_t rows_ahead = fetch_rows_ahead<X>(rows.dim);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t later = min_of(r + rows_ahead, rows.count - 1);
    const X *later_x = x + later * rows.x_stride;
    const Out *later_out = out + later * rows.out_stride;
    add_row(x + r * rows.x_stride, rows.encoding + r * rows.encoding_stride, out + r * rows.out_stride, rows.dim,
            store_to, [&](int64_t column) FOVEA_INLINE_BODY {
              if (distance != Distance::far) return;
              __builtin_prefetch(later_x + column);
              if (Store::reads_first) __builtin_prefetch(later_out + column, 1);
            });
  }
}

template <class Element>
void add_rows_of(const AddedRows &rows) {
  if (rows.distance < Distance::far) return add_rows_with<Element, Element, Distance::cached>(rows, CachedStore());
  if (can_stream(rows.stream, static_cast<Element *>(rows.out), rows.out_stride)) {
    return add_rows_with<Element, Element, Distance::far>(rows, StreamedStore());
  }
  add_rows_with<Element, Element, Distance::far>(rows, CachedStore());
}

void add_floats(const AddedRows &rows) { rows.dropout != nullptr ? add_rows_and_drop(rows) : add_rows_of<float>(rows); }

FOVEA_NOINLINE void add_any(const AddedRows &rows) {
  alignas(64) float floats[most_widened];
  for_each_block(rows.count, rows.dim, [&](int64_t r, int64_t count, int64_t column, int64_t columns) {
    AddedRows block = rows;
    block.x = block.out = floats;
    block.encoding += r * rows.encoding_stride + column;
    block.count = count;
    block.dim = block.x_stride = block.out_stride = columns;
    block.distance = Distance::near;
    block.stream = false;
    block.batch += r * rows.batch_step;
    block.query += r * rows.query_step;
    block.first_column += column;
    widen_rows(element_at(rows.x, rows.x_type, r * rows.x_stride + column), rows.x_type, rows.x_stride, count, columns,
               floats, columns);
    add_floats(block);
    round_rows(floats, count, columns, element_at(rows.out, rows.out_type, r * rows.out_stride + column), rows.out_type,
               rows.out_stride);
  });
}

void add_rows(const AddedRows &rows) {
  const bool floats = rows.x_type == Dtype::f32 && rows.out_type == Dtype::f32;
  if (floats && rows.dropout != nullptr) return add_rows_and_drop(rows);
  const bool done = with_kernel_of(rows.x_type == rows.out_type && rows.dropout == nullptr, rows.x_type,
                                   [&]<class T>(T) FOVEA_INLINE_BODY { add_rows_of<typename T::Element>(rows); });
  if (done) return;
  const bool directly =
      rows.dropout == nullptr &&
      with_kernel_of_both(rows.x_type, rows.out_type, [&]<class X, class Out>(X, Out) FOVEA_INLINE_BODY {
        using From = typename X::Element;
        using To = typename Out::Element;
        if (rows.distance >= Distance::far) return add_rows_with<From, To, Distance::far>(rows, CachedStore());
        add_rows_with<From, To, Distance::cached>(rows, CachedStore());
      });
  if (!directly) add_any(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
