// Runs one task of attention, in the same way on every path:
//
//   rows: where they lie, what they may attend          attention/row_table.hpp
//   for each tile of keys, for each band of rows that may attend some of them:
//     raw scores                                        ScoreFunction::score, in kernels/scores/
//     scale, soft-cap, bias, ALiBi, masks               attention/logit_terms.hpp
//     online softmax                                    attention/online_softmax.hpp
//     dropout, where wanted                             attention/drop_weights.hpp
//     weighted sum of values                            Path::add_values
//   divide by the sum, write out                        Path::store_out
//   weights, where they are wanted too                  attention/kept_weights.hpp
//
// A task has several bands of Path::tile_rows rows, so that a tile of keys and values is fetched once for all of them
// and stays in the second-level cache. Memory that will be touched once (queries, outputs, the next tile) is prefetched
// during the work before it.
//
// Tiles lie on one grid for all rows of a task (multiples of tile_keys from its first key on), so what a row gives does
// not depend on its neighbours. Rounding errors grow with the number of terms that are added one after the other, so
// sums of values have three levels: chains of keys (value_chain), tiles, and runs of tiles (run_keys), whose sums wait
// in Band::total. The errors of long rows stay about 1.6 times those of pairwise sums.
//
// A masked key has weight 0, but 0 * NaN is NaN: values behind a mask must not reach the output. Looking for them in
// every tile would cost; they show in the output instead. A row that comes out not finite is computed again
// (attention/repair.hpp).
#pragma once

#include <math.h>

#include "kernels/attention/dense_tile.hpp"
#include "kernels/attention/drop_weights.hpp"
#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/kept_weights.hpp"
#include "kernels/attention/logits.hpp"
#include "kernels/attention/repair.hpp"
#include "kernels/attention/weights.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Path>
struct AttentionDriver {
  static constexpr int64_t rows = Path::tile_rows;
  static constexpr int64_t keys = Path::tile_keys;
  static_assert(keys % chains == 0);
  static_assert(!Path::is_few_rows || keys % (dense_step * lanes) == 0);
  // What a mask leaves out at a tile's beginning is passed over in steps that leave each key in its sum's chain.
  static constexpr int64_t skipped_keys = 48;
  static_assert(skipped_keys % chains == 0 && (!Path::is_few_rows || skipped_keys % (dense_step * lanes) == 0));
  static constexpr int64_t run_keys = 1536;
  static_assert(run_keys % keys == 0 && run_keys % Path::line_keys == 0);
  static_assert(Path::line_keys <= keys * rows);  // there is room for the line
  // Values without masked ones are copied so many at a time: what Path::add_values sums together.
  static constexpr int64_t harmless_keys = Path::value_keys;
  static constexpr RowForm value_form = Path::is_few_rows   ? RowForm::given
                                        : Path::takes_pairs ? RowForm::pairs
                                                            : RowForm::widened;

  struct Band {
    RowTable<rows> table;
    SoftmaxState<rows> state;
    int64_t row_begin, row_count;
    float *query;
    float *out;    // of the present run of tiles
    float *total;  // of those before it, if there were any, before it is multiplied by total_rescale
    alignas(64) float total_rescale[rows];
    bool has_total;
    KeptWeights<rows, keys> kept;
  };

  const AttentionTask &task;
  const AttentionProblem &problem;
  Logits<Path> logits;
  HeadSource values;
  ScaledExp2 exponent;
  int64_t tile_keys;  // what this task takes of `keys`
  int64_t width;      // of a dense tile; `rows` if tiles are not dense
  Band bands[Path::max_bands];
  int64_t band_count = 0;
  int64_t first_tile_end = 0;
  bool next_is_fetched = false;
  int64_t last_key = 0;  // past the last one that any band attends
  float *scores;
  float *harmless;  // [harmless_keys][value_dim], values without the masked ones
  Again again;
  // Where the next tile's keys and values lie, if that is in several runs.
  RowBlock next_keys_at[Path::is_few_rows ? 1 : keys], next_values_at[Path::is_few_rows ? 1 : keys];

  // A band's arrays begin a cache line further each: a few rows use the first lines of each step of `rows`, and if
  // these were the same sets of the first-level cache in all arrays, they would push each other out of it.
  static constexpr int64_t apart = line_floats;

  static int64_t scratch_floats(const ScoreFunction &score, int64_t head_dim, int64_t value_dim, bool copies) {
    const int64_t band = score.query_floats(head_dim) + 2 * Path::out_floats(value_dim) + 3 * apart;
    const int64_t tile = keys * (padded_units(head_dim) + value_dim);
    const int64_t copied = !copies ? 0 : Path::is_few_rows ? scaled_at_once * padded_units(head_dim) : tile;
    return band * Path::bands(head_dim, value_dim) + keys * rows + harmless_keys * value_dim + copied;
  }

  // What a band of a task needs to keep its weights.
  static int64_t kept_bytes(int64_t key_len) {
    return KeptWeights<rows, keys>::tiles_of(key_len) * static_cast<int64_t>(sizeof(KeptTile<rows, keys>));
  }

  // Room for copies of a tile of keys, and behind it of values: behind all else. Few rows take elements as they lie,
  // but for those with scales, some at a time.
  FOVEA_INLINE static float *copy_room(const ScoreFunction &score, const AttentionTask &task) {
    const AttentionSizes &sizes = task.problem->sizes;
    return static_cast<float *>(task.scratch) + scratch_floats(score, sizes.compared_dim, sizes.value_dim, false);
  }
  // Values of few rows with scales go where harmless ones would: never both are there.
  FOVEA_INLINE static float *value_room(const ScoreFunction &score, const AttentionTask &task) {
    if (Path::is_few_rows) return static_cast<float *>(task.scratch) + keys * rows;
    return copy_room(score, task) + keys * padded_units(task.problem->sizes.compared_dim);
  }

  FOVEA_INLINE AttentionDriver(const ScoreFunction &score, const AttentionTask &t)
      : task(t),
        problem(*t.problem),
        logits(score, t, copy_room(score, t)),
        values(problem.value, task.batch, task.kv_head, problem.sizes.value_dim, value_form, value_room(score, t),
               scaled_type<Path>),
        exponent(logits.scale.exponent_scale) {
    tile_keys = Path::keys_at_once(task.row_count);
    // Decided for the whole task, so that a row that is computed again by itself goes the same way.
    width = Path::is_few_rows ? min_of(dense_width(task.row_count), rows) : rows;
    scores = static_cast<float *>(task.scratch);
    harmless = scores + keys * rows;
  }

  // Whether a row of the band may see other keys of a tile than its neighbours do.
  FOVEA_INLINE bool has_masks(const Band &band) const {
    return problem.pattern.mask != nullptr || problem.logits.bias != nullptr || problem.pattern.leave_one_out ||
           band.table.all.first > first_key(band) || band.table.all.last < band.table.any.last;
  }

  // Not for many rows, and not where a register is full of rows.
  FOVEA_INLINE bool is_dense() const { return Path::is_few_rows && width < rows; }

  // The first key the band's tiles take in: a whole step of the sums' chains, so at times before what any row attends.
  FOVEA_INLINE int64_t first_key(const Band &band) const {
    const int64_t step = is_dense() && width > 1 ? dense_step_keys(width) : chains;
    return band.table.any.first / step * step;
  }

  FOVEA_INLINE void attend_tile(Band &band, int64_t key, int64_t key_end) {
    if (problem.pattern.mask != nullptr) {
      const KeyRange allowed = keys_allowed(band.table, key, key_end - key);
      if (allowed.first >= allowed.last) return;
      key_end = key + allowed.last;
      key += allowed.first / skipped_keys * skipped_keys;
    }
    ScoreTile tile = make_tile(scores, band.table, key, key_end - key);
    const bool plain = logits.are_scores(tile);
    if (is_dense() && plain) tile = empty_dense_tile(tile, width);
    Upcoming next_values;
    if constexpr (Path::is_few_rows) {
      const RowsNext its_values = {&values, key, tile.keys};
      logits.score(band.table, band.query, tile, nothing_next, Path::takes_bytes ? &its_values : nullptr);
    } else {
      logits.score(band.table, band.query, tile, upcoming(band, key, tile.keys, &next_values));
    }
    next_is_fetched = true;
    if (!plain) logits.finish(band.table, tile);
    bool masked[Path::line_keys];
    if (again.spares_masked) {
      for (int64_t j = 0; j < tile.keys; ++j) masked[j] = tile.scores[j * tile.stride] == -INFINITY;
    }
    if (is_dense()) {
      if (!plain) tile = to_dense_tile(tile, width);
      update_softmax_of_dense(softmax_tile(band.state, tile, exponent));
    } else {
      update_softmax(softmax_tile(band.state, tile, exponent));
    }
    if (problem.dropout.threshold != 0) {
      if (is_dense()) tile = from_dense_tile(tile, rows);  // lanes have to be rows
      apply_dropout(tile, band.table, problem.dropout, task.batch);
    }
    if (!again.goes && keeps_weights()) band.kept.keep(tile, band.state.max);
    if (again.share != 1.0f) take_share(tile, again.share);
    if (again.spares_masked) {
      add_harmless_values<Path>(*this, band, tile, masked);
    } else {
      RowSpan span = values.template span<Path::is_few_rows>(key, tile.keys);
      if constexpr (!Path::is_few_rows) span.next = &next_values;
      const RowsNext next_keys = {&logits.keys, key + tile.keys, last_key - (key + tile.keys)};
      if constexpr (Path::takes_bytes) span.then = &next_keys;
      Path::add_values(band.out, span, problem.sizes.value_dim, band.row_count, tile, band.state.rescale);
    }
    for (int64_t r = 0; band.has_total && r < band.row_count; r += lanes) {
      store(band.total_rescale + r, load(band.total_rescale + r) * load(band.state.rescale + r));
    }
  }

  FOVEA_INLINE void add_total(Band &band) const {
    Path::add_out(band.out, band.total, band.total_rescale, problem.sizes.value_dim, band.row_count);
  }

  FOVEA_NOINLINE void end_run(Band &band) const {
    if (band.has_total) add_total(band);
    float *total = band.out;
    band.out = band.total;
    band.total = total;
    band.has_total = true;
    for (int64_t r = 0; r < rows; r += lanes) store(band.total_rescale + r, splat(1.0f));
    Path::clear_out(band.out, problem.sizes.value_dim, band.row_count);
  }

  // Whether scores are written as a line at once and stay one, for which there is room however many they are.
  FOVEA_INLINE bool is_line(const Band &band, int64_t key, int64_t key_end) const {
    return width == 1 && problem.dropout.threshold == 0 &&
           logits.are_scores(make_tile(scores, band.table, key, key_end - key));
  }

  // The tile's part that the band's rows can attend, cut to whole steps of the sums' chains. It is one call, and attend()
  // has one of it, so that there is one copy of all that a tile takes.
  FOVEA_INLINE void attend_band(Band &band, int64_t key) {
    const int64_t first = max_of(key, first_key(band));
    const int64_t last = min_of(key + tile_keys, band.table.any.last);
    if (first >= last) return;
    const bool whole = last - first <= keys || is_line(band, first, last);
    for (int64_t begin = whole ? first : key, end = 0; begin < last; begin = end) {
      end = whole ? last : min_of(begin + keys, last);
      if (end > first) attend_tile(band, max_of(begin, first), end);
    }
    const int64_t next = key + tile_keys;
    if ((next - task.key_begin) % run_keys == 0 && next < band.table.any.last) end_run(band);
  }

  // Rows from `row` on at `base`, if they are evenly spaced: all in one head.
  FOVEA_INLINE Upcoming rows_from(const QueryCursor &row, int64_t count, const void *base, Dtype dtype,
                                  const HeadStrides &strides, int64_t dim) const {
    const bool one_head = row.query + count <= problem.sizes.query_len;
    return {element_at(base, dtype, row.at(strides)), dtype, strides.position, dim, one_head ? count : 0};
  }
  FOVEA_INLINE Upcoming band_rows(const Band &band, const void *base, Dtype dtype, const HeadStrides &strides,
                                  int64_t dim) const {
    return rows_from({problem, task.batch, task.kv_head, band.row_begin}, band.row_count, base, dtype, strides, dim);
  }

  // Prefetches, while a task's last tile, of `tile_count` keys, is at work: the first rows of the next task, and the
  // first keys if it is of another head. Otherwise short rows would wait for a large part of all they read.
  FOVEA_NOINLINE void fetch_next_task(bool wants_keys, bool wants_queries, int64_t tile_count, Prefetch *prefetch,
                                      Upcoming *next_values) {
    const TaskRows &next = task.next;
    const bool same_head = next.batch == task.batch && next.kv_head == task.kv_head;
    if (wants_keys && !same_head) {
      const auto first_tile = [&](const HeadRows &rows_of, int64_t dim, RowBlock *room) FOVEA_INLINE_BODY {
        HeadSource source(rows_of, next.batch, next.kv_head, dim, RowForm::given, nullptr);
        source.end = min_of(tile_keys, valid_len(problem, next.batch, 0));
        Upcoming tile = source.upcoming(0, source.end, room);
        tile.speed = ceil_div(source.end, tile_count);
        return tile;
      };
      prefetch->keys = first_tile(problem.key, key_row_size(problem), next_keys_at);
      *next_values = first_tile(problem.value, problem.sizes.value_dim, next_values_at);
    }
    if (wants_queries) {
      prefetch->queries =
          rows_from({problem, next.batch, next.kv_head, next.row_begin}, min_of(rows, next.row_count),
                    problem.query.data, problem.query.dtype, problem.query.strides, problem.sizes.compared_dim);
      prefetch->queries.speed = ceil_div(prefetch->queries.rows, tile_count);
    }
  }

  // What to prefetch while the band works on the tile at `key`: the first to do so fetches keys and values for all.
  FOVEA_INLINE Prefetch upcoming(const Band &band, int64_t key, int64_t tile_count, Upcoming *next_values) {
    Prefetch prefetch;
    const int64_t b = &band - bands;
    const int64_t next = key / tile_keys * tile_keys + tile_keys;
    // Behind a task's last tile comes that of the next split, which most often the same thread takes next.
    const int64_t end = last_key == task.key_end ? problem.sizes.key_len : last_key;
    if (!next_is_fetched && next < end) {
      const int64_t count = min_of(tile_keys, end - next);
      prefetch.keys = logits.keys.upcoming(next, count, next_keys_at);
      *next_values = values.upcoming(next, count, next_values_at);
    }
    if (next >= end && task.next.row_count > 0) {
      const bool wants_keys = !next_is_fetched && !problem.pattern.has_window_left;
      fetch_next_task(wants_keys, b + 1 == band_count, tile_count, &prefetch, next_values);
    }
    if (key < first_tile_end && b + 1 < band_count) {
      prefetch.queries = band_rows(bands[b + 1], problem.query.data, problem.query.dtype, problem.query.strides,
                                   problem.sizes.compared_dim);
    }
    if (next + tile_keys >= band.table.any.last && task.partial.out == nullptr) {
      prefetch.out = band_rows(band, problem.outputs.out, problem.outputs.out_dtype, problem.outputs.out_strides,
                               problem.sizes.value_dim);
    }
    return prefetch;
  }

  FOVEA_INLINE bool keeps_weights() const { return !Path::is_few_rows && task.kept_weights != nullptr; }

  FOVEA_INLINE void start(Band &band) {
    logits.load_queries(band.table, band.query);
    Path::clear_out(band.out, problem.sizes.value_dim, band.row_count);
    band.has_total = false;
    band.state.start(band.table, problem.logits.sinks != nullptr && task.first_split, logits.scale.natural);
  }

  // Lays out `count` rows from row_begin on in bands.
  FOVEA_INLINE void divide(int64_t row_begin, int64_t count) {
    float *at = harmless + harmless_keys * problem.sizes.value_dim;
    auto *kept_tiles = static_cast<KeptTile<rows, keys> *>(task.kept_weights);
    band_count = ceil_div(count, rows);
    for (int64_t b = 0; b < band_count; ++b) {
      Band &band = bands[b];
      band.row_begin = row_begin + b * rows;
      band.row_count = min_of(rows, count - b * rows);
      band.table.fill(task, band.row_begin, band.row_count);
      band.query = at + apart;
      band.kept = {};
      if (keeps_weights()) band.kept.tiles = kept_tiles + b * band.kept.tiles_of(problem.sizes.key_len);
      band.out = band.query + logits.function.query_floats(problem.sizes.compared_dim) + apart;
      band.total = band.out + Path::out_floats(problem.sizes.value_dim) + apart;
      at = band.total + Path::out_floats(problem.sizes.value_dim);
    }
  }

  FOVEA_NOINLINE void attend(int64_t row_begin, int64_t row_count) {
    divide(row_begin, row_count);
    KeyRange any = bands[0].table.any;
    for (int64_t b = 1; b < band_count; ++b) {
      any = {min_of(any.first, bands[b].table.any.first), max_of(any.last, bands[b].table.any.last)};
    }
    const int64_t first = task.key_begin + (any.first - task.key_begin) / tile_keys * tile_keys;
    first_tile_end = first + tile_keys;
    last_key = logits.keys.end = values.end = any.last;
    int64_t key = first;
    do {
      next_is_fetched = false;
      for (int64_t b = 0; b < band_count; ++b) {
        if (key == first) start(bands[b]);
        attend_band(bands[b], key);
      }
      key += tile_keys;
    } while (key < any.last);
    for (int64_t b = 0; b < band_count; ++b) {
      if (bands[b].has_total) add_total(bands[b]);
    }
  }

  // No key was attended: any key's weight would be positive, or NaN.
  FOVEA_INLINE static bool empty(const Band &band, int64_t r) { return band.state.sum[r] == 0.0f; }

  FOVEA_INLINE float log_sum_exp(const Band &band, int64_t r) const {
    if (empty(band, r)) return -INFINITY;
    const float sum = log_of_sum(band.state.max[r] * logits.scale.natural, band.state.sum[r]);
    return problem.logits.sinks == nullptr ? sum : log_sum_exp_beside(band.table.sink[r], logits.scale.natural, sum);
  }

  FOVEA_INLINE void *out_row(const QueryCursor &row) const {
    return element_at(problem.outputs.out, problem.outputs.out_dtype, row.at(problem.outputs.out_strides));
  }

  // Divides and writes; finite[r] is NaN for a row that is not finite, else 0. Returns whether some row attended no
  // key. Of rows that are computed again, only those are written that were not finite: what the others give goes where
  // scores were.
  static_assert(keys * rows >= largest_value_dim);
  FOVEA_NOINLINE bool store_outputs(const Band &band, float *finite) {
    bool some_empty = false;
    void *pointers[rows] = {};
    alignas(64) float factor[rows] = {};
    // Copied, since the compiler cannot know that none of it changes on the way.
    float *const partial = task.partial.out;
    void *const out = problem.outputs.out;
    const HeadStrides strides = problem.outputs.out_strides;
    const Dtype dtype = partial != nullptr ? Dtype::f32 : problem.outputs.out_dtype;
    QueryCursor row(problem, task.batch, task.kv_head, band.row_begin);
    for (int64_t r = 0; r < band.row_count; ++r, row.advance()) {
      pointers[r] = partial != nullptr ? partial + (band.row_begin - task.row_begin + r) * problem.sizes.value_dim
                                       : element_at(out, dtype, row.at(strides));
      factor[r] = empty(band, r) ? 0.0f : 1.0f / band.state.sum[r];
      if (again.goes) {
        factor[r] = factor[r] / again.share;
        if (finite[r] == 0.0f) pointers[r] = scores;
      }
      some_empty = some_empty || empty(band, r);
    }
    Path::store_out(band.out, problem.sizes.value_dim, factor, pointers, dtype, band.row_count, finite);
    return some_empty;
  }

  FOVEA_INLINE void store_statistics(const Band &band, bool some_empty) {
    if (task.partial.out != nullptr) {
      for (int64_t r = 0; r < band.row_count; ++r) {
        const int64_t row = band.row_begin - task.row_begin + r;
        task.partial.max[row] = empty(band, r) ? -INFINITY : band.state.max[r];
        task.partial.sum[row] = band.state.sum[r];
      }
      return;
    }
    if (!some_empty && !problem.outputs.weights_wanted && problem.outputs.log_sum_exp == nullptr) return;
    QueryCursor row(problem, task.batch, task.kv_head, band.row_begin);
    float *row_max = task.row_max + band.row_begin;
    float *row_scale = task.row_scale + band.row_begin;
    for (int64_t r = 0; r < band.row_count; ++r, row.advance()) {
      if (problem.outputs.weights_wanted) {
        row_max[r] = band.state.max[r];
        row_scale[r] = empty(band, r) ? 0.0f : 1.0f / band.state.sum[r];
      }
      if (empty(band, r)) {
        fill_empty_row(problem, task.batch, task.kv_head, out_row(row));
      }
      if (problem.outputs.log_sum_exp != nullptr) {
        problem.outputs.log_sum_exp[row.at(problem.outputs.log_sum_exp_strides)] =
            empty(band, r) ? empty_log_sum_exp(problem) : log_sum_exp(band, r);
      }
    }
  }

  void run() {
    alignas(64) float finite[rows * Path::max_bands];
    attend(task.row_begin, task.row_count);
    bool masked = false;
    for (int64_t b = 0; b < band_count; ++b) {
      const bool some_empty = store_outputs(bands[b], finite + b * rows);
      store_statistics(bands[b], some_empty);
      if (keeps_weights()) bands[b].kept.write(task, bands[b].row_begin, bands[b].row_count, bands[b].state, exponent);
      masked = masked || has_masks(bands[b]);
    }
    repair(*this, masked, finite);
    // Last: it lays out scratch anew, where copies of keys and values lie that a repair may read once more.
    if constexpr (!Path::is_few_rows) {
      if (keeps_weights()) write_weights_of_nans<Path>(logits.function, task);
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
