// Software prefetch into the second-level cache: what will be needed next is asked for during the work before, a little
// at a time. A burst of prefetches stalls as soon as the core's line buffers are full.
#pragma once

#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t line_floats = 16;
constexpr int64_t line_bytes = 64;

// So many rows that follow each other.
struct RowBlock {
  const void *first;
  int64_t count;
};

// Rows of memory that will be read or written soon, in bytes.
struct Upcoming {
  const char *from = nullptr;
  int64_t stride = 0;
  int64_t size = 0;  // of a row
  int64_t rows = 0;
  int64_t element = 4;
  int64_t speed = 1;               // so many times as fast as what is worked on
  const RowBlock *more = nullptr;  // where memory ends before the rows do: the blocks behind these
  int64_t more_count = 0;

  Upcoming() = default;
  FOVEA_INLINE Upcoming(const void *data, Dtype dtype, int64_t row_stride, int64_t dim, int64_t count)
      : from(static_cast<const char *>(data)),
        stride(row_stride * bytes_of(dtype)),
        size(dim * bytes_of(dtype)),
        rows(count),
        element(bytes_of(dtype)) {}

  FOVEA_INLINE void fetch(int64_t first, int64_t count) const {
    const int64_t begin = first * speed, end = (first + count) * speed;
    for (int64_t r = begin; r < min_of(end, rows); ++r) fetch_row(from + r * stride);
    if (more_count > 0 && end > rows) fetch_more(begin, end);
  }

 private:
  FOVEA_INLINE void fetch_row(const char *row) const {
    for (int64_t i = 0; i < size; i += line_bytes) __builtin_prefetch(row + i, 0, 2);
  }

  FOVEA_NOINLINE void fetch_more(int64_t begin, int64_t end) const {
    int64_t row = rows;
    for (int64_t block = 0; block < more_count && row < end; row += more[block++].count) {
      const char *first = static_cast<const char *>(more[block].first);
      for (int64_t r = max_of(begin, row); r < min_of(end, row + more[block].count); ++r) {
        fetch_row(first + (r - row) * stride);
      }
    }
  }
};

// The same rows, one line after the other, as fast as elements of their kind are worked on: memory is then busy all the
// time and never asked for so much at once that the core waits.
struct PacedFetch {
  const char *row;
  int64_t stride, size, rows;
  int64_t element;   // bytes that may be asked for, for each element worked on
  int64_t at = 0;    // of the row, what comes next
  int64_t owed = 0;  // bytes that may be asked for
  const RowBlock *more, *end;
  int64_t row_size;

  FOVEA_INLINE explicit PacedFetch(const Upcoming &next)
      : row(next.from),
        stride(next.stride),
        size(next.size),
        rows(next.rows),
        element(next.element * next.speed),
        more(next.more),
        end(next.more + next.more_count),
        row_size(next.size) {
    close_gaps();
  }

  FOVEA_INLINE void worked_on(int64_t elements) {
    for (owed += elements * element; owed >= line_bytes && rows > 0; owed -= line_bytes) {
      __builtin_prefetch(row + at, 0, 2);
      at += line_bytes;
      if (at < size) continue;
      at = 0;
      row += stride;
      if (--rows == 0 && more != end) {
        row = static_cast<const char *>(more->first);
        rows = more++->count;
        close_gaps();
      }
    }
  }

 private:
  // Rows without gaps are one.
  FOVEA_INLINE void close_gaps() {
    size = row_size;
    if (stride != size) return;
    size *= rows;
    rows = min_of(rows, 1);
  }
};

// What is prefetched while a tile's keys are at work, spread over them.
struct Prefetch {
  Upcoming keys;     // of the next tile
  Upcoming queries;  // of the next band of rows
  Upcoming out;      // of this band, when the tile is one of its last

  // Fetches what keys [first, first + count) need and no pace asks for.
  FOVEA_INLINE void fetch_rows(int64_t first, int64_t count) const {
    queries.fetch(first, count);
    out.fetch(first, count);
  }
  FOVEA_INLINE void fetch(int64_t first, int64_t count) const {
    keys.fetch(first, count);
    fetch_rows(first, count);
  }
};

// For those that ask for what is next by themselves.
constexpr Upcoming no_rows_next{};
constexpr Prefetch nothing_next{};

}  // namespace
}  // namespace fovea::FOVEA_ISA
