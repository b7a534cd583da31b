// Where the keys or the values of one head come from: nothing else knows where their rows lie. Kernels take them in
// spans:
//
//   span(first, count)       those rows: where the first lies, how far apart they are, how many, of which type
//   upcoming(first, count)   the same rows, to be prefetched; a span takes them along, to be asked for while it is read
//   row(first)               one row
//
// Memory may end within a tile (HeadRows::places), and a tile's keys then are several runs; where tiles begin never
// depends on runs, so neither do bits. Many rows of queries read each tile often: rows of float32 in one run where they
// lie, others from a copy in scratch, which is made once for all bands of rows that read it. Few rows of queries read
// each row once and take it from where it lies, of whichever type, run by run: scores a run at a time (for_each_span),
// sums of values without an interruption (value_runs). What nothing behind this needs to know, a layout may choose.
//
// Rows of numbers with scales, of 8 bits or of 4, are read where they lie by kernels of bytes, which take 8, and by few
// rows of queries where a row is whole blocks (in_blocks): registers make floats of them there (scaled_values.hpp,
// feature_rows.hpp). For all others they become rows of `dtype` in scratch, a tile for many rows of queries, a piece of
// a tile for few (kernels/scaled_rows.hpp).
#pragma once

#include "kernels/attention/problem.hpp"
#include "kernels/elements.hpp"
#include "kernels/prefetch.hpp"
#if defined(__AVX512BF16__)
#include "beyond_xsimd/bfloat16_pairs.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

// Rows with scales that few rows of queries get at once: few enough to stay in the first-level caches until they are
// read.
constexpr int64_t scaled_at_once = 48;

FOVEA_INLINE bool scales_are_finite(const Float16 *scales, int64_t stride, int64_t count, int64_t of_row) {
  bool finite = true;
  for (int64_t j = 0; j < count; ++j, scales += stride) {
    for (int64_t g = 0; g < of_row; ++g) finite = finite && (scales[g].bits & 0x7c00u) != 0x7c00u;
  }
  return finite;
}

// They are binary16 also where the build takes no other numbers of that type.
FOVEA_INLINE void widen_scales(const Float16 *from, int64_t count, float *to) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(from + i));
  if (i < count) store_partial(to + i, load_partial(from + i, count - i), count - i);
}

struct HeadSource;

// Rows that are read when those at work have been.
struct RowsNext {
  const HeadSource *source = nullptr;
  int64_t first = 0, count = 0;
};

struct RowSpan {
  const void *data;
  int64_t stride;
  int64_t count;
  Dtype dtype = Dtype::f32;
  const Upcoming *next = &no_rows_next;
  // Only for few rows, where a head is in several runs: whose rows these are, and the number of the first. Values may
  // then be in more than one of them.
  const HeadSource *source = nullptr;
  int64_t first = 0;
  // Of rows of numbers that are read where they lie: those of the first row, as floats, and how many a row has.
  const float *scales = nullptr;
  int64_t scales_of_row = 0;
  const RowsNext *then = nullptr;  // given to kernels of bytes alone

  // Row j of a span of floats.
  FOVEA_INLINE const float *row(int64_t j) const { return static_cast<const float *>(data) + j * stride; }
  template <class Element>
  FOVEA_INLINE const Element *row_of(int64_t j) const {
    return static_cast<const Element *>(data) + j * stride;
  }

  // Elements from the first row to the one so many rows on, which is to be asked for meanwhile.
  template <class Element>
  FOVEA_INLINE int64_t ahead(int64_t rows) const {
    return source == nullptr ? rows * stride : bytes_ahead(rows) / static_cast<int64_t>(sizeof(Element));
  }

  // Two neighbouring elements of 16 bits as one of 32.
  FOVEA_INLINE RowSpan in_pairs() const {
    RowSpan pairs = *this;
    pairs.stride /= 2;
    pairs.dtype = Dtype::f32;
    return pairs;
  }

 private:
  FOVEA_INLINE int64_t bytes_ahead(int64_t rows) const;
};

// Values of a piece of a tile where they lie, for sums that run over the ends of memory.
template <class Element>
struct ValueRun {
  const Element *first;
  int64_t count;
  int64_t ahead;  // elements to the row that is to be asked for beside one of these
};

// Walks the rows of a list of runs.
template <class Element>
struct ValueCursor {
  const ValueRun<Element> *run;
  int64_t column;
  const Element *row;
  int64_t left, ahead;

  ValueCursor() = default;
  FOVEA_INLINE ValueCursor(const ValueRun<Element> *first, int64_t from_column) : run(first), column(from_column) {
    enter();
  }
  FOVEA_INLINE void enter() {
    row = run->first + column;
    left = run->count;
    ahead = run->ahead;
    ++run;
  }
  // Takes those of `count` rows from `row` on that lie within one run, and returns how many. The rest lie in the next
  // run.
  FOVEA_INLINE int64_t take(int64_t count) {
    if (left == 0) enter();
    const int64_t taken = min_of(count, left);
    left -= taken;
    return taken;
  }
  // Passes over the next `count` rows, `stride` apart.
  FOVEA_INLINE void skip(int64_t count, int64_t stride) {
    for (int64_t some = 0; count > 0; count -= some) {
      some = take(count);
      row += some * stride;
    }
  }
};

template <class Element>
struct ValueRuns {
  const ValueRun<Element> *run;
  int64_t stride;
  int64_t next_column = 0;

  // The same rows from column d on.
  FOVEA_INLINE ValueRuns from(int64_t d) const { return {run, stride, next_column + d}; }
  FOVEA_INLINE ValueCursor<Element> cursor() const { return {run, next_column}; }
};

// How rows of 16 bits are given: as they lie, as floats, or (bfloat16) as pairs of rows, [pair][feature] of 32 bits
// each.
enum class RowForm { given, widened, pairs };

#if defined(__AVX512BF16__)
// A row of pairs; second: null where there is none, which counts as zeros.
FOVEA_INLINE void pair_two_rows(const void *first, const void *second, int64_t dim, float *to) {
  const auto *a = static_cast<const uint16_t *>(first), *b = static_cast<const uint16_t *>(second);
  for (int64_t d = 0; d < dim; d += 2 * lanes) {
    const int64_t width = min_of(2 * lanes, dim - d);
    const __m512i others = b != nullptr ? load_first_elements(b + d, width) : _mm512_setzero_si512();
    const PairRegisters pairs = join_rows(load_first_elements(a + d, width), others);
    store_partial(to + d, Float(pairs.low), min_of(lanes, width));
    if (width > lanes) store_partial(to + d + lanes, Float(pairs.high), width - lanes);
  }
}

// The last pair of an odd number of rows ends with zeros.
FOVEA_NOINLINE inline void pair_rows(const void *from, int64_t stride, int64_t count, int64_t dim, float *to) {
  const auto *rows = static_cast<const uint16_t *>(from);
  for (int64_t j = 0; j < count; j += 2, to += dim) {
    const uint16_t *first = rows + j * stride;
    pair_two_rows(first, j + 1 < count ? first + stride : nullptr, dim, to);
  }
}
#else
FOVEA_INLINE void pair_two_rows(const void *, const void *, int64_t, float *) {}
FOVEA_INLINE void pair_rows(const void *, int64_t, int64_t, int64_t, float *) {}
#endif

struct HeadSource {
  const HeadRows &rows;
  int64_t batch, head;
  const void *first_row;  // of evenly spaced ones
  int64_t stride;
  int64_t dim;
  Dtype dtype;      // as they are read: where they have scales, what they become
  bool lies_ready;  // evenly spaced, and without scales
  RowForm form;
  float *scratch;   // room for a tile of rows, if they are not given as they lie
  int64_t end = 0;  // rows from here on are not asked for ahead of time where that takes looking for them
  int64_t made_first = 0, made_last = 0;

  // scaled_type: what rows with scales become.
  FOVEA_INLINE HeadSource(const HeadRows &given, int64_t batch_entry, int64_t head_index, int64_t features,
                          RowForm narrow_form, float *memory, Dtype scaled_type = Dtype::f32)
      : rows(given),
        batch(batch_entry),
        head(head_index),
        first_row(given.evenly_spaced() ? given.head(batch_entry, head_index) : nullptr),
        stride(given.strides.position),
        dim(features),
        dtype(given.has_scales() ? scaled_type : given.dtype),
        lies_ready(given.evenly_spaced() && !given.has_scales()),
        form(is_widened(dtype) ? narrow_form : RowForm::given),
        scratch(memory) {}

  FOVEA_INLINE bool evenly_spaced() const { return rows.evenly_spaced(); }

  FOVEA_INLINE bool has_scales() const { return rows.has_scales(); }

  // Whether a row is whole blocks of 32 features that each have one scale: registers then take numbers from where they
  // lie.
  FOVEA_INLINE bool in_blocks() const { return has_scales() && dim % 32 == 0 && rows.scales.features % 32 == 0; }

  // All scales of those rows as floats, a row's behind another's, in scratch.
  FOVEA_NOINLINE const float *list_scales(int64_t first, int64_t count) const {
    const int64_t of_row = rows.scales_of_row(dim), apart = rows.scales.strides.position;
    rows.for_each_run(batch, head, first, count, [&](const RowRun &its, int64_t at) {
      float *to = scratch + (at - first) * of_row;
      const bool side_by_side = apart == of_row;
      const int64_t size = side_by_side ? its.count * of_row : of_row;
      for (int64_t j = 0; j < (side_by_side ? 1 : its.count); ++j) {
        widen_scales(its.scales + j * apart, size, to + j * of_row);
      }
    });
    return scratch;
  }

  // Where it lies, of the type it has there.
  FOVEA_INLINE const void *row(int64_t first) const {
    return evenly_spaced() ? element_at(first_row, rows.dtype, first * stride) : run(first, 1).first;
  }

  // The row as one of `dtype`: where it lies, or in `room` if it has scales.
  FOVEA_INLINE const void *ready_row(int64_t first, void *room) const {
    if (!has_scales()) return row(first);
    scale_rows(first, 1, room, 0);
    return room;
  }

  FOVEA_INLINE void float_row(int64_t first, float *to) const {
    alignas(64) uint16_t room[largest_value_dim];
    if (has_scales() && dtype == Dtype::f32) return scale_rows(first, 1, to, 0);
    widen_rows(ready_row(first, room), dtype, 0, 1, dim, to, 0);
  }

  // Features [from, from + width) of rows with scales, made rows of `dtype`. from: a multiple of 16.
  FOVEA_NOINLINE void scale_part(int64_t first, int64_t count, int64_t from, int64_t width, void *to,
                                 int64_t to_stride) const {
    rows.for_each_run(batch, head, first, count, [&](const RowRun &its, int64_t at) {
      scale_rows_of(ScaledRows{its.first, rows.dtype, its.stride, its.scales, rows.scales.strides.position,
                               rows.scales.features, its.count},
                    from, width, element_at(to, dtype, (at - first) * to_stride), dtype, to_stride);
    });
  }
  FOVEA_INLINE void scale_rows(int64_t first, int64_t count, void *to, int64_t to_stride) const {
    scale_part(first, count, 0, dim, to, to_stride);
  }

  // Prefetches rows with scales, those that there are of [first, last).
  FOVEA_NOINLINE void ask_for(int64_t first, int64_t last) const {
    const int64_t bytes = rows.elements_of(dim);
    if (first >= min_of(last, end)) return;
    rows.for_each_run(batch, head, first, min_of(last, end) - first, [&](const RowRun &its, int64_t) {
      const auto *row = static_cast<const char *>(its.first);
      for (int64_t j = 0; j < its.count; ++j, row += its.stride) {
        for (int64_t i = 0; i < bytes; i += line_bytes) __builtin_prefetch(row + i, 0, 2);
        if (j % 4 == 0) __builtin_prefetch(its.scales + j * rows.scales.strides.position, 0, 2);
      }
    });
  }

  // body(span, first) for each run of them, with the number of its first row.
  template <class Body>
  FOVEA_INLINE void for_each_span(int64_t first, int64_t count, const Body &body) const {
    rows.for_each_run(batch, head, first, count, [&](const RowRun &run, int64_t row) FOVEA_INLINE_BODY {
      body(RowSpan{run.first, stride, run.count, dtype, &no_rows_next, evenly_spaced() ? nullptr : this, row}, row);
    });
  }

  // The same for scores. Rows with scales come where they lie, with scales as floats, or some at a time, in scratch.
  template <class Body>
  FOVEA_INLINE void for_each_scored_span(int64_t first, int64_t count, bool as_they_lie, const Body &body) const {
    if (!has_scales()) return for_each_span(first, count, body);
    if (as_they_lie) {
      const int64_t of_row = rows.scales_of_row(dim);
      const float *scales = list_scales(first, count);
      return rows.for_each_run(batch, head, first, count, [&](const RowRun &run, int64_t row) FOVEA_INLINE_BODY {
        RowSpan span = {run.first, stride, run.count, rows.dtype, &no_rows_next, evenly_spaced() ? nullptr : this, row};
        span.scales = scales + (row - first) * of_row;
        span.scales_of_row = of_row;
        body(span, row);
      });
    }
    for (int64_t j = 0; j < count; j += scaled_at_once) {
      const int64_t some = min_of(scaled_at_once, count - j);
      ask_for(first + j + some, first + j + 2 * some);
      scale_rows(first + j, some, scratch, dim);
      body(RowSpan{scratch, dim, some, dtype}, first + j);
    }
  }

  // Those rows if they are in one run and need no scales; else without data.
  FOVEA_INLINE RowSpan whole_span(int64_t first, int64_t count) const {
    if (has_scales()) return {nullptr, dim, count, dtype};
    const RowRun whole = evenly_spaced() ? RowRun{row(first), stride, count} : run(first, count);
    return {whole.count == count ? whole.first : nullptr, stride, count, dtype};
  }

  // Many rows of queries get one span of evenly spaced rows; few rows may get several runs.
  template <bool few_rows>
  FOVEA_INLINE RowSpan span(int64_t first, int64_t count) {
    if (lies_ready && form == RowForm::given) return {row(first), stride, count, dtype};
    if constexpr (few_rows) return {nullptr, has_scales() ? dim : stride, count, dtype, &no_rows_next, this, first};
    return copied(first, count);
  }

  // The runs of `count` rows of a span, from row j on, written into room for as many.
  template <class Element>
  FOVEA_INLINE static ValueRuns<Element> value_runs(const RowSpan &span, int64_t j, int64_t count, int64_t rows_ahead,
                                                    ValueRun<Element> *room) {
    if (span.source == nullptr) {
      room[0] = {span.row_of<Element>(j), count, rows_ahead * span.stride};
    } else {
      span.source->list_values(span.first + j, count, rows_ahead, room);
    }
    return {room, span.stride};
  }

  // room: for as many runs, if there may be more than one.
  FOVEA_INLINE Upcoming upcoming(int64_t first, int64_t count, RowBlock *room) const {
    if (evenly_spaced()) return {row(first), rows.dtype, stride, rows.elements_of(dim), count};
    return upcoming_runs(first, min_of(count, end - first), room);
  }

  // Whether all elements of rows [first, last) are finite.
  FOVEA_NOINLINE bool are_finite(int64_t first, int64_t last) const {
    bool finite = true;
    rows.for_each_run(batch, head, first, last - first, [&](const RowRun &its, int64_t) {
      finite = finite && (has_scales() ? scales_are_finite(its.scales, rows.scales.strides.position, its.count,
                                                           rows.scales_of_row(dim))
                                       : rows_are_finite(its.first, dtype, stride, its.count, dim));
    });
    return finite;
  }

  // Bytes from a row to the one that is to be asked for beside it: none where that one may be nowhere.
  FOVEA_NOINLINE int64_t bytes_ahead(int64_t first, int64_t count) const {
    if (first + count >= end) return 0;
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(run(first + count, 1).first) -
                                reinterpret_cast<uintptr_t>(run(first, 1).first));
  }

  // Rows of `dtype`, one after the other.
  FOVEA_NOINLINE void gather(int64_t first, int64_t count, void *to) const {
    if (has_scales()) return scale_rows(first, count, to, dim);
    const auto bytes = static_cast<size_t>(dim * bytes_of(dtype));
    for_each_span(first, count, [&](const RowSpan &span, int64_t at) FOVEA_INLINE_BODY {
      for (int64_t j = 0; j < span.count; ++j) {
        memcpy(element_at(to, dtype, (at - first + j) * dim), element_at(span.data, dtype, j * stride), bytes);
      }
    });
  }

  // Rows of numbers where they lie, as bytes.
  FOVEA_NOINLINE void list_numbers(int64_t first, int64_t count, int64_t rows_ahead, ValueRun<uint8_t> *room) const {
    rows.for_each_run(batch, head, first, count, [&](const RowRun &run, int64_t row) {
      const int64_t ahead = evenly_spaced() ? rows_ahead * stride : bytes_ahead(row, rows_ahead);
      *room++ = {static_cast<const uint8_t *>(run.first), run.count, ahead};
    });
  }

 private:
  FOVEA_NOINLINE RowRun run(int64_t first, int64_t count) const { return rows.run(batch, head, first, count); }

  FOVEA_NOINLINE RowSpan copied(int64_t first, int64_t count) {
    const int64_t last = first + count;
    // A pair that only begins within the span must not bring what lies behind it.
    const auto cuts_pair = [&](int64_t row) { return form == RowForm::pairs && (row - made_first) % 2 != 0; };
    if (first < made_first || last > made_last || cuts_pair(first) || (last != made_last && cuts_pair(last))) {
      if (form == RowForm::given) {
        const RowSpan whole = whole_span(first, count);
        if (whole.data != nullptr) return whole;
      }
      made_first = first;
      made_last = last;
      if (lies_ready) {
        copy_run({row(first), stride, count}, scratch);
      } else {
        copy_runs(first, count);
      }
    }
    const int64_t ahead = (first - made_first) / (form == RowForm::pairs ? 2 : 1);
    if (form == RowForm::given) return {element_at(scratch, dtype, ahead * dim), dim, count, dtype};
    return {scratch + ahead * dim, dim, count, Dtype::f32};
  }

  FOVEA_NOINLINE void copy_run(const RowRun &from, float *to) const {
    if (form == RowForm::pairs) {
      pair_rows(from.first, from.stride, from.count, dim, to);
    } else {
      widen_rows(from.first, dtype, from.stride, from.count, dim, to, dim);
    }
  }

  // Whether no pair begins in one run and ends in the next.
  FOVEA_INLINE bool pairs_lie_in_runs(int64_t first, int64_t count) const {
    bool they_do = !has_scales();
    for_each_span(first, count, [&](const RowSpan &, int64_t at) { they_do = they_do && (at - first) % 2 == 0; });
    return they_do;
  }

  FOVEA_NOINLINE void copy_runs(int64_t first, int64_t count) const {
    if (form == RowForm::given) return gather(first, count, scratch);
    if (form == RowForm::pairs && !pairs_lie_in_runs(first, count)) {
      float *behind = scratch + ceil_div(count, 2) * dim;
      gather(first, count, behind);
      return copy_run({behind, dim, count}, scratch);
    }
    const int64_t rows_of_one = form == RowForm::pairs ? 2 : 1;
    for_each_span(first, count, [&](const RowSpan &span, int64_t at) {
      copy_run({span.data, stride, span.count}, scratch + (at - first) / rows_of_one * dim);
    });
  }

  FOVEA_NOINLINE Upcoming upcoming_runs(int64_t first, int64_t count, RowBlock *room) const {
    if (count <= 0) return {};
    int64_t blocks = 0;
    for_each_span(first, count, [&](const RowSpan &span, int64_t) { room[blocks++] = {span.data, span.count}; });
    Upcoming next(room[0].first, rows.dtype, stride, rows.elements_of(dim), room[0].count);
    next.more = room + 1;
    next.more_count = blocks - 1;
    return next;
  }

  template <class Element>
  FOVEA_NOINLINE void list_values(int64_t first, int64_t count, int64_t rows_ahead, ValueRun<Element> *room) const {
    if (has_scales()) {
      ask_for(first + count, first + 2 * count);
      scale_rows(first, count, scratch, dim);
      *room = {reinterpret_cast<const Element *>(scratch), count, 0};
      return;
    }
    for_each_span(first, count, [&](const RowSpan &span, int64_t) {
      *room++ = {span.row_of<Element>(0), span.count, span.ahead<Element>(rows_ahead)};
    });
  }
};

FOVEA_INLINE int64_t RowSpan::bytes_ahead(int64_t rows) const { return source->bytes_ahead(first, rows); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
