// Where rows of queries, keys and values lie. A source (attention/source.hpp) turns this into what kernels read: runs,
// rows that follow each other in memory, evenly spaced, until memory ends.
#pragma once

#include "types.hpp"

namespace fovea {

// Strides in elements; the last axis is contiguous.
struct HeadStrides {
  int64_t batch;
  int64_t head;
  int64_t position;

  // Where a row lies, in elements from the first.
  [[gnu::always_inline]] int64_t at(int64_t in_batch, int64_t in_head, int64_t at_position) const {
    return in_batch * batch + in_head * head + at_position * position;
  }
};

struct RowRun {
  const void *first;
  int64_t stride;  // in elements
  int64_t count;
  const Float16 *scales = nullptr;  // of the first row, if rows have scales
};

// Scales of rows of numbers. Of 8 bits (i8): feature d of a row stands for its number times scale d / features of the
// row. Of 4 bits (u8, two features a byte, kernels/scaled_rows.hpp): pairs, of a scale and the number that 0 stands
// for.
struct RowScales {
  const Float16 *data = nullptr;
  HeadStrides strides = {};
  int64_t features = 0;  // that share a scale: a multiple of 16 (of 32: 4 bits), or whole rows. 0: there are no scales
};

// A layout whose rows are not evenly spaced (pages of a pool, say) derives from this and says where they are. Several
// threads ask it at once. Rows behind the last that a task's queries attend are not asked for. Before the first that a
// window leaves some are, and they are read (they share a tile with it, or an AMX block), so a page that has been given
// back needs a stand-in. With empty rows as UNIFORM all rows are read.
struct RowPlaces {
  // Where row `first` of a head lies. *count, rows from there on, becomes how many of those follow it in memory: at
  // least 1. They are HeadStrides::position elements apart in every run.
  const void *(*find)(const RowPlaces &places, int64_t batch, int64_t head, int64_t first, int64_t *count);
  // Where the scales of row `first` lie; those of the rest of its run are RowScales::strides.position apart. Null where
  // rows have no scales.
  const Float16 *(*find_scales)(const RowPlaces &places, int64_t batch, int64_t head, int64_t first) = nullptr;
};

// Rows of queries, keys or values.
struct HeadRows {
  const void *data;
  HeadStrides strides;
  Dtype dtype;                        // one that kernels load as floats, or that has scales
  const RowPlaces *places = nullptr;  // null: evenly spaced, as the strides say
  RowScales scales = {};

  [[gnu::always_inline]] bool evenly_spaced() const { return places == nullptr; }
  [[gnu::always_inline]] bool has_scales() const { return scales.features != 0; }
  [[gnu::always_inline]] bool in_four_bits() const { return dtype == Dtype::u8; }

  // Elements of so many features.
  [[gnu::always_inline]] int64_t elements_of(int64_t dim) const { return in_four_bits() ? dim / 2 : dim; }

  // All scales of a row, the least numbers among them.
  [[gnu::always_inline]] int64_t scales_of_row(int64_t dim) const {
    return dim / scales.features * (in_four_bits() ? 2 : 1);
  }

  // Whether two neighbouring elements of a row can be read as one: rows are then whole pairs apart.
  [[gnu::always_inline]] bool in_whole_pairs() const { return strides.position % 2 == 0; }

  // Whether a tile of them reaches kernels for many rows of queries as a copy: widened, or brought together.
  [[gnu::always_inline]] bool are_copied() const { return is_widened(dtype) || has_scales() || !evenly_spaced(); }

  // Where a head's rows begin, if they are evenly spaced.
  [[gnu::always_inline]] const void *head(int64_t batch, int64_t index) const {
    return element_at(data, dtype, batch * strides.batch + index * strides.head);
  }

  // The run that begins with row `first` of a head, of at most `count` rows.
  [[gnu::always_inline]] RowRun run(int64_t batch, int64_t index, int64_t first, int64_t count) const {
    const void *row = evenly_spaced() ? element_at(head(batch, index), dtype, first * strides.position)
                                      : places->find(*places, batch, index, first, &count);
    return {row, strides.position, count, has_scales() ? scales_of(batch, index, first) : nullptr};
  }

  [[gnu::always_inline]] const Float16 *scales_of(int64_t batch, int64_t index, int64_t first) const {
    if (!evenly_spaced()) return places->find_scales(*places, batch, index, first);
    const HeadStrides &apart = scales.strides;
    return scales.data + batch * apart.batch + index * apart.head + first * apart.position;
  }

  // body(run, first) for all runs of `count` rows from `first` on, with the number of each run's first row.
  template <class Body>
  [[gnu::always_inline]] void for_each_run(int64_t batch, int64_t index, int64_t first, int64_t count,
                                           const Body &body) const {
    for (const int64_t last = first + count; first < last;) {
      const RowRun next = run(batch, index, first, last - first);
      body(next, first);
      first += next.count;
    }
  }
};

}  // namespace fovea
