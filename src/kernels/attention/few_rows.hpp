// Attention of few rows (decoding): keys and values are read once, at the speed of memory, lanes along the features.
// Scores still come out as tiles whose lanes are rows, so masks and softmax are those of many rows. FewRowsValues is
// what all score functions share; FeatureRows (feature_rows.hpp) adds those that sum something over the features:
//
//   out[row][d..] += weight[key][row] * value[key][d..]
//   scores[key][row] = sum of lanes of  sum_d f(key[key][d..], query[row][d..])
//
// `lanes` such sums (rows x keys), or some registers' worth, are kept at once and reduced together.
//
// Bound: bytes of key and value. Three things let so much arithmetic run at the speed of memory:
//   order      memory is read row after row, as hardware prefetchers expect: keys as four streams a quarter of a tile
//              apart, values as one. Neighbouring keys side by side, or values column by column, look like no stream.
//              With AVX2 values are several streams, too (add_in_turns).
//   length     of the tiles of one query: each change from keys to values and back stops the streams, and the softmax
//              between reads nothing.
//   prefetch   every pass asks for what it or a later one will read, so that memory has work to do also while a pass
//              finds its own data in a cache. It asks into the second-level cache: prefetches into the first hold its
//              few miss buffers until memory answers, and the reads themselves wait behind them. And it asks for no
//              more than it must: with AVX-512 and one query, one line in 16 does.
#pragma once

#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/scaled_values.hpp"
#include "kernels/attention/score.hpp"
#include "kernels/products/microkernel.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct FewRowsValues {
  static constexpr int64_t tile_rows = lanes;
  static constexpr int64_t tile_keys = 384;   // at most, but for
  static constexpr int64_t line_keys = 1536;  // of a single row whose scores are its logits
  static constexpr bool is_few_rows = true;
  static constexpr bool takes_pairs = false;
  static constexpr bool takes_bytes = false;   // of 8 bits with scales, as they lie
  static constexpr bool takes_numbers = true;  // with scales, blocks of which registers make floats of
  static constexpr int64_t max_bands = 1;

  // Whether each key and value is read by up to four rows at once, and both in turns from several places, which are as
  // many streams: cores with AVX2 get half as much again from several streams as from one, and less where all that they
  // read is asked for (Zen 3; docs/performance.md).
  static constexpr bool in_turns = lanes == 8;
  // Rows that share what is read of a key.
  static constexpr int rows_together = static_cast<int>(in_turns ? lanes / 2 : max_of(lanes / 4, 1));

  // A single row reads a tile once; several may do so in passes, which should find it in the caches.
  static constexpr int64_t keys_at_once(int64_t rows) {
    return rows == 1 ? line_keys : in_turns ? tile_keys : lanes < 16 ? 48 : 96;
  }

  // At most 128 kB. Not a multiple of a quarter of a tile, the distance of the streams of keys: each stream would ask
  // for what the next one is reading. In turns it is a tile, or several pages: what is asked for beside a page's rows
  // then lies in one page, too.
  template <bool turns = false>
  FOVEA_INLINE static int64_t keys_ahead(int64_t dim) {
    if constexpr (turns) return dim <= 256 ? tile_keys : tile_keys / 4;
    if (dim <= 204) return 160;  // small calls are spared the division
    return max_of(4, 32768 / dim);
  }

  // Up to this many rows, this path is the faster one.
  static constexpr int64_t few_rows_of(int64_t) { return tile_rows / 2; }

  template <class Element>
  static constexpr int64_t line_of = line_bytes / static_cast<int64_t>(sizeof(Element));

  // What is asked for ahead of time. Before a row that is read for one query by registers of whole lines, the hardware's
  // prefetchers need only a hint: one line in 16. One or two rows in turns get more from those alone.
  enum class Ask { nothing, hints, lines };
  template <bool turns = false>
  static constexpr Ask ask_for(int rows) {
    if (turns) return rows <= 2 ? Ask::nothing : Ask::lines;
    return rows == 1 && lanes == line_floats ? Ask::hints : Ask::lines;
  }
  template <Ask ask, class Element>
  FOVEA_INLINE static void prefetch_row(const Element *at, int64_t dim) {
    for (int64_t i = 0; ask == Ask::hints && i < dim; i += 16 * line_of<Element>) __builtin_prefetch(at + i, 0, 2);
  }
  template <Ask ask>
  FOVEA_INLINE static void prefetch_line(const void *at) {
    if constexpr (ask == Ask::lines) __builtin_prefetch(at, 0, 2);
  }

  static constexpr int64_t bands(int64_t, int64_t) { return 1; }

  static constexpr int64_t out_floats(int64_t value_dim) { return round_up(value_dim, lanes) * tile_rows; }

  // body(Index<rows>, first) over `count` rows in groups of `most` (4, 2 or 1), then of 2 and 1.
  template <int most, class Body>
  FOVEA_INLINE static void for_each_row_group(int64_t count, const Body &body) {
    int64_t r = 0;
    for (; r + most <= count; r += most) body(Index<most>{}, r);
    if constexpr (most > 2) {
      if (r + 2 <= count) {
        body(Index<2>{}, r);
        r += 2;
      }
    }
    if constexpr (most > 1) {
      if (r < count) body(Index<1>{}, r);
    }
  }

  // One of the passes in which several rows read the same keys or values. From eight rows on, and for narrow elements,
  // each asks for its share of what comes next: if the first asked for all of it, memory would have nothing to do in
  // the others. Shares are of four keys (of each stream), whatever the steps of a pass. That of a last single row is
  // short, and asks for nothing unless it is the only one. Fewer rows of float32 wait for memory anyway: all of their
  // passes ask for all.
  static constexpr int64_t sharing_rows = 8;
  struct Pass {
    uint64_t turns;  // a bit for each of 64 keys

    template <int group>
    FOVEA_INLINE bool asks_at(int64_t key) const {
      if constexpr (group == 1) return turns != 0;  // all or nothing
      return (turns >> (key & 63) & 1) != 0;
    }
  };
  static constexpr Pass all_keys = {~uint64_t{0}}, no_keys = {0};
  static constexpr int most_passes = 8;
  struct Shares {
    Pass of[most_passes + 1][most_passes] = {};  // [passes that ask][pass]

    constexpr Shares() {
      for (int passes = 1; passes <= most_passes; ++passes) {
        for (int key = 0; key < 64; ++key) of[passes][key / 4 % passes].turns |= uint64_t{1} << key;
      }
    }
  };
  template <int most, class Element>
  FOVEA_INLINE static Pass pass_of(int64_t row, int64_t rows) {
    static constexpr Shares shares;
    if ((row == 0 && rows <= most) || (sizeof(Element) == sizeof(float) && rows < sharing_rows)) return all_keys;
    if (rows - row == 1) return no_keys;
    return shares.of[rows / most + (most > 2 && rows % most >= 2)][ceil_div(row, most)];
  }

  // Loads that wait for memory hold up what is asked for behind them, so a pass asks first. It does not where values
  // are short, several passes read them, all but one from a cache, and all of them ask.
  enum class Order { ask_load, load_ask };

  // `vectors` registers of each of `group` rows; load_value(at, value) loads those of a value.
  template <int group, int vectors, Order order = Order::ask_load, class Element, class Load>
  FOVEA_INLINE static void add_columns(float *out, const ValueRuns<Element> &values, int64_t padded, int64_t row,
                                       Pass pass, const ScoreTile &tile, const float *rescale, const Load &load_value) {
    Block<group, vectors> sum;
    const float *weight = tile.scores + row;
    const int64_t first = tile.key % value_chain;
    auto from = values.cursor();
    sum_in_chains(sum, first, first + tile.keys, value_chain, [&](int64_t key, int64_t count) FOVEA_INLINE_BODY {
      for (const int64_t last = key + count; key < last;) {
        for (const int64_t end = key + from.take(last - key); key < end;
             ++key, from.row += values.stride, weight += tile.stride) {
          Float value[vectors];
          if constexpr (order == Order::load_ask) load_value(from.row, value);
          if (pass.template asks_at<group>(key)) {
            prefetch_row<ask_for(group)>(from.row + from.ahead, vectors * lanes);
            unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
              if constexpr (v * lanes % line_of<Element> == 0) {
                prefetch_line<ask_for(group)>(from.row + v * lanes + from.ahead);
              }
            });
          }
          if constexpr (order == Order::ask_load) load_value(from.row, value);
          unroll<group>([&](auto r) FOVEA_INLINE_BODY {
            const Float w(weight[r]);
            unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
              constexpr int at = decltype(r)::value * vectors + decltype(v)::value;
              sum.at[at] = multiply_add(w, value[v], sum.at[at]);
            });
          });
        }
      }
    });
    unroll<group>([&](auto r) FOVEA_INLINE_BODY {
      const Float factor(rescale[row + r]);
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        float *at = out + (row + r) * padded + v * lanes;
        store(at, multiply_add(load(at), factor, sum.at[r * vectors + v]));
      });
    });
  }

  // Values of one or two registers: four rows in one pass.
  template <int vectors, class Element>
  FOVEA_INLINE static void add_few_columns(float *out, const ValueRuns<Element> &values, int64_t value_dim,
                                           int64_t row_count, const ScoreTile &tile, const float *rescale) {
    const auto load_value = [&](const Element *at, Float *value) FOVEA_INLINE_BODY {
      unroll<vectors - 1>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(at + v * lanes); });
      value[vectors - 1] = load_partial(at + (vectors - 1) * lanes, value_dim - (vectors - 1) * lanes);
    };
    for_each_row_group<4>(row_count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      add_columns<decltype(group)::value, vectors>(out, values, vectors * lanes, row,
                                                   pass_of<4, Element>(row, row_count), tile, rescale, load_value);
    });
  }

  // Rows whose sums do not fit the registers: whole values, so that each is read once, two neighbours at a time in turns
  // from several chains of keys. Memory then is several streams, which hardware prefetchers keep further ahead of than
  // of one. The order of sums is that of add_columns. Sums are kept as registers have them: those of each row's two (at
  // an end one) behind each other.
  template <int rows, int keys, class Element>
  FOVEA_INLINE static void add_whole(float *sums, const Element *values, int64_t value_stride, int64_t ahead,
                                     int64_t value_dim, const ScoreTile &tile, int64_t row, int64_t j) {
    Float weight[rows * keys];
    unroll<rows * keys>([&](auto i) FOVEA_INLINE_BODY {
      weight[i] = splat(tile.scores[(j + i % keys) * tile.stride + row + i / keys]);
    });
    // `count` registers; load_value(at, v) loads those of a value.
    const auto add = [&](auto count, int64_t d, const auto &load_value) FOVEA_INLINE_BODY {
      constexpr int vectors = decltype(count)::value;
      Float v[keys * vectors];
      unroll<keys>([&](auto i) FOVEA_INLINE_BODY { load_value(values + i * value_stride + d, v + i * vectors); });
      unroll<rows * vectors>([&](auto at) FOVEA_INLINE_BODY {
        float *to = sums + d * rows + at * lanes;
        Float sum = load(to);
        unroll<keys>([&](auto i) FOVEA_INLINE_BODY {
          sum = multiply_add(weight[at / vectors * keys + i], v[i * vectors + at % vectors], sum);
        });
        store(to, sum);
      });
    };
    const auto add_two = [&](int64_t d) FOVEA_INLINE_BODY {
      add(Index<2>{}, d, [](const Element *at, Float *v) FOVEA_INLINE_BODY { load_two_in_any_order(at, v, v + 1); });
    };
    const auto ask = [&](int64_t d) FOVEA_INLINE_BODY {
      unroll<keys>(
          [&](auto i) FOVEA_INLINE_BODY { prefetch_line<ask_for<true>(rows)>(values + i * value_stride + d + ahead); });
    };
    int64_t d = 0;
    for (; d + line_of<Element> <= value_dim; d += line_of<Element>) {
      ask(d);
      unroll<line_of<Element> / (2 * lanes)>([&](auto v) FOVEA_INLINE_BODY { add_two(d + v * 2 * lanes); });
    }
    if (d < value_dim) ask(d);
    for (; d + 2 * lanes <= value_dim; d += 2 * lanes) add_two(d);
    for (; d < value_dim; d += lanes) {
      const int64_t width = min_of(lanes, value_dim - d);
      add(Index<1>{}, d, [&](const Element *at, Float *v) FOVEA_INLINE_BODY { *v = load_partial(at, width); });
    }
  }

  template <class Element>
  struct Chain {
    ValueCursor<Element> from;
    int64_t key, last;
  };

  template <int rows, class Element>
  FOVEA_INLINE static void add_in_turns(float *out, const ValueRuns<Element> &values, int64_t value_dim, int64_t row,
                                        const ScoreTile &tile, const float *rescale) {
    constexpr int64_t together = rows < 4 ? 4 : 2;
    const int64_t padded = round_up(value_dim, lanes);
    alignas(64) float sums[(together + 1) * largest_value_dim * rows];  // of each chain, and of those before them
    float *const before = sums + together * padded * rows;
    clear_out(before, value_dim, rows);
    auto from = values.cursor();
    for (int64_t j = 0; j < tile.keys;) {
      Chain<Element> chain[together];
      int64_t count = 0;
      for (; count < together && j < tile.keys; ++count) {
        const int64_t keys = min_of(value_chain - (tile.key + j) % value_chain, tile.keys - j);
        chain[count] = {from, j, j + keys};
        from.skip(keys, values.stride);
        j += keys;
      }
      clear_out(sums, value_dim, rows * count);
      for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int64_t i = 0; i < count; ++i) {
          Chain<Element> &its = chain[i];
          if (its.key == its.last) continue;
          float *to = sums + i * padded * rows;
          const int64_t keys = its.from.take(min_of(2, its.last - its.key));
          if (keys == 2) {
            add_whole<rows, 2>(to, its.from.row, values.stride, its.from.ahead, value_dim, tile, row, its.key);
          } else {
            add_whole<rows, 1>(to, its.from.row, values.stride, its.from.ahead, value_dim, tile, row, its.key);
          }
          its.from.row += keys * values.stride;
          its.key += keys;
          goes_on = true;
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t d = 0; d < padded * rows; d += lanes) {
          store(before + d, load(before + d) + load(sums + i * padded * rows + d));
        }
      }
    }
    unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
      float *to = out + (row + r) * padded;
      const Float factor = splat(rescale[row + r]);
      const auto add = [&](int64_t d, const Float &sum)
                           FOVEA_INLINE_BODY { store(to + d, multiply_add(load(to + d), factor, sum)); };
      int64_t d = 0;
      for (; d + 2 * lanes <= value_dim; d += 2 * lanes) {
        const float *at = before + d * rows + r * 2 * lanes;
        Float first = load(at), second = load(at + lanes);
        put_in_order<Element>(&first, &second);
        add(d, first);
        add(d + lanes, second);
      }
      for (; d < padded; d += lanes) add(d, load(before + d * rows + r * lanes));
    });
  }

  // Shorter ones are whole passes of add_columns.
  static constexpr bool goes_in_turns(int64_t value_dim) { return in_turns && value_dim > 8 * lanes; }

  // The values of this many keys make one addition to the output, itself a sum of chains.
  static constexpr int64_t value_keys = 192;

  FOVEA_INLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                      const ScoreTile &tile, const float *rescale) {
    for_each_piece<1>(value_dim, tile, rescale,
                      [&](int64_t j, int64_t ahead, const ScoreTile &piece, const float *factors) FOVEA_INLINE_BODY {
                        if (values.source != nullptr && values.source->in_blocks()) {
                          return add_numbers(out, values, j, ahead, value_dim, row_count, piece, factors);
                        }
                        with_element(values.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
                          ValueRun<typename T::Element> room[value_keys];
                          const int64_t rows = goes_in_turns(value_dim) ? keys_ahead<true>(value_dim) : ahead;
                          add_piece(out, HeadSource::value_runs(values, j, piece.keys, rows, room), value_dim,
                                    row_count, piece, factors);
                        });
                      });
  }

  // Values of numbers with scales, floats in registers alone. What a register needs of a row: a load, for 4 bits of two
  // of them, one or two instructions to part them, a conversion, a multiplication.
  FOVEA_NOINLINE static void add_numbers(float *out, const RowSpan &values, int64_t j, int64_t ahead, int64_t value_dim,
                                         int64_t row_count, const ScoreTile &piece, const float *factors) {
    const HeadSource &source = *values.source;
    ValueRun<uint8_t> room[value_keys];
    source.list_numbers(values.first + j, piece.keys, ahead, room);
    const ScaledValues from = {{room, source.rows.strides.position},
                               source.list_scales(values.first + j, piece.keys),
                               source.rows.scales_of_row(value_dim),
                               source.rows.scales.features};
    constexpr int most = lanes < 8 ? 2 : 4;
    for_each_row_group<most>(row_count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      constexpr int rows = decltype(group)::value;
      constexpr int features = static_cast<int>(max_of(16, min_of(64, 8 * lanes / rows)));
      const auto add = [&](auto count, int64_t d) FOVEA_INLINE_BODY {
        constexpr int its = decltype(count)::value;
        from.template with_load<its>(
            source.rows.dtype, d, [&](const ValueRuns<uint8_t> &runs, const auto &load_value) FOVEA_INLINE_BODY {
              add_columns<rows, its / static_cast<int>(lanes)>(
                  out + d, runs, value_dim, row, pass_of<most, uint8_t>(row, row_count), piece, factors, load_value);
            });
      };
      int64_t d = 0;
      for (; d + features <= value_dim; d += features) add(Index<features>{}, d);
      if constexpr (features > 32) {
        if (d < value_dim) add(Index<32>{}, d);
      }
    });
  }

  // body(first key, rows to ask ahead for, piece, factors) for each piece of a tile that has a row of weights for so
  // many keys.
  template <int keys_of_row, class Body>
  FOVEA_INLINE static void for_each_piece(int64_t value_dim, const ScoreTile &tile, const float *rescale,
                                          const Body &body) {
    alignas(64) float ones[tile_rows];
    store(ones, splat(1.0f));
    ScoreTile piece = tile;
    const int64_t ahead = keys_ahead(round_up(value_dim, lanes));
    for (int64_t j = 0; j < tile.keys; j += piece.keys) {
      piece.scores = tile.scores + j / keys_of_row * tile.stride;
      piece.key = tile.key + j;
      piece.keys = min_of(value_keys - piece.key % value_keys, tile.keys - j);
      body(j, ahead, piece, j == 0 ? rescale : ones);
    }
  }

  // Two rows by many registers, rather than a square: a pass reads as much of each value's row as possible. Narrow rows
  // are half as long, and widened in every pass: four rows by four registers there.
  template <class Element>
  FOVEA_NOINLINE static void add_piece(float *out, const ValueRuns<Element> &values, int64_t value_dim,
                                       int64_t row_count, const ScoreTile &tile, const float *rescale) {
    constexpr int most = sizeof(Element) < sizeof(float) ? 4 : 2;
    if constexpr (most < 4) {  // else four rows take them below, too
      if (value_dim < lanes) return add_few_columns<1>(out, values, value_dim, row_count, tile, rescale);
    }
    if (value_dim > lanes && value_dim < 2 * lanes) {
      return add_few_columns<2>(out, values, value_dim, row_count, tile, rescale);
    }
    if constexpr (in_turns) {
      if (goes_in_turns(value_dim)) {
        return for_each_row_group<4>(row_count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
          add_in_turns<decltype(group)::value>(out, values, value_dim, row, tile, rescale);
        });
      }
    }
    const int64_t padded = round_up(value_dim, lanes);
    const int64_t whole = value_dim / lanes * lanes;
    for_each_row_group<most>(row_count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      constexpr int rows = decltype(group)::value;
      const Pass pass = pass_of<most, Element>(row, row_count);
      int64_t d = 0;
      const auto add_while = [&](auto vectors) FOVEA_INLINE_BODY {
        constexpr int count = decltype(vectors)::value;
        const auto load_whole = [](const Element *at, Float *value) FOVEA_INLINE_BODY {
          unroll<count / 2>([&](auto v)
                                FOVEA_INLINE_BODY { load_two(at + v * 2 * lanes, &value[v * 2], &value[v * 2 + 1]); });
          if constexpr (count % 2 != 0) value[count - 1] = load(at + (count - 1) * lanes);
        };
        if constexpr (lanes == line_floats && rows == 2 && count == 4 && !is_narrow_element<Element>) {
          if (row_count > 2 && row_count < sharing_rows && value_dim == count * lanes) {
            add_columns<rows, count, Order::load_ask>(out, values, padded, row, pass, tile, rescale, load_whole);
            d = whole;
          }
        }
        for (; d + count * lanes <= whole; d += count * lanes) {
          add_columns<rows, count>(out + d, values.from(d), padded, row, pass, tile, rescale, load_whole);
        }
      };
      if constexpr (has_32_registers && rows == 1) add_while(Index<16>{});
      if constexpr (rows == 1 || (has_32_registers && rows == 2)) add_while(Index<8>{});
      if constexpr (rows <= 2 || has_32_registers) add_while(Index<4>{});
      add_while(Index<2>{});
      add_while(Index<1>{});
      if (whole < value_dim) {
        add_columns<rows, 1>(out + d, values.from(d), padded, row, pass, tile, rescale,
                             [&](const Element *at, Float *value)
                                 FOVEA_INLINE_BODY { *value = load_partial(at, value_dim - whole); });
      }
    });
  }

  FOVEA_INLINE static void clear_out(float *out, int64_t value_dim, int64_t row_count) {
    for (int64_t i = 0; i < round_up(value_dim, lanes) * row_count; i += lanes) store(out + i, zero());
  }

  // out = out + total * factor
  FOVEA_NOINLINE static void add_out(float *out, const float *total, const float *factor, int64_t value_dim,
                                     int64_t row_count) {
    const int64_t padded = round_up(value_dim, lanes);
    for (int64_t r = 0; r < row_count; ++r) {
      const Float scale = splat(factor[r]);
      for (int64_t i = r * padded; i < (r + 1) * padded; i += lanes) {
        store(out + i, multiply_add(load(total + i), scale, load(out + i)));
      }
    }
  }

  FOVEA_NOINLINE static void store_out(const float *out, int64_t value_dim, const float *factor, void *const *rows,
                                       Dtype dtype, int64_t row_count, float *finite) {
    with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      store_rows<typename T::Element>(out, value_dim, factor, rows, row_count, finite);
    });
  }

  template <class Element>
  FOVEA_INLINE static void store_rows(const float *out, int64_t value_dim, const float *factor, void *const *rows,
                                      int64_t row_count, float *finite) {
    const int64_t padded = round_up(value_dim, lanes);
    for (int64_t r = 0; r < row_count; ++r) {
      const Float scale(factor[r]);
      auto *to = static_cast<Element *>(rows[r]);
      Float check = zero();
      const auto next = [&](int64_t d) FOVEA_INLINE_BODY {
        const Float value = load(out + r * padded + d);
        check = multiply_add(value, zero(), check);
        return value * scale;
      };
      int64_t d = 0;
      for (; d + 2 * lanes <= value_dim; d += 2 * lanes) store_two<Nans::any>(to + d, next(d), next(d + lanes));
      if (d + lanes < value_dim) {
        store_two_partial<Nans::any>(to + d, next(d), next(d + lanes), value_dim - d);
      } else if (d < value_dim) {
        store_partial(to + d, next(d), value_dim - d);
      }
      finite[r] = xsimd::any(xsimd::isnan(check)) ? NAN : 0.0f;
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
