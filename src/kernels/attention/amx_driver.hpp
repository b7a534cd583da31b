// One task of attention on AMX's tiles: many rows of queries of bfloat16 or binary16 against all their keys, in bands
// of 32 rows and blocks of 128 keys. The grid is the same for all rows, so what a row gives does not depend on its
// neighbours:
//
//   scores of a block                                  amx_products.hpp, tiles
//   scale, soft-cap, bias, ALiBi, masks                logit_terms.hpp, where there are any
//   largest scores, weights as pairs of 16 bits        amx_softmax.hpp
//   weighted sum of values                             amx_products.hpp, tiles
//
// Tiles and vectors work side by side, in one stream of instructions: the scores of a band's next block between the
// weights of the present one, and the weighted sum of the present one between the maxima of the next. Two buffers of
// scores, 32 kB; weights replace scores in place. Where one task has all rows of a head, it packs keys and values
// itself, a block at a time: they are read once, and written to no memory. Else they are packed before
// (AttentionKernels::pack), and a run of blocks goes to one band before the next band takes it: then the band's sums
// stay in the first-level cache, and the run's keys and values (512 of each) in the second.
//
// Limit, for 32 rows x 32 keys: (head_dim + value_dim) / 32 x 4 products of tiles of 16 cycles; as many loads of tiles,
// 8 cycles each from the first-level cache; 64 registers of scores, 9.5 micro-operations of vectors each on two ports:
// 304 cycles, where tiles take 256 at head size 64, 512 at 128, 1024 at 256. So tiles are the bound from 76 features
// on, the softmax below. A block of 128 keys loads and stores its sums once, 24 cycles a tile: a tenth of the products'
// time.
//
// Errors: each weight is rounded to bfloat16 (a relative 2^-8 at most; binary16 2^-11) after a power with a relative
// error of 9e-5; the sums that divide are sums of rounded weights (binary16: of weights before rounding). Products are
// exact, 32 of them are added to a sum at once. Subnormal elements of bfloat16 count as 0, as the tile unit has it.
// Scores of binary16 are float32 in the tiles, so scores beyond 65504 are like any others.
//
// Values behind a mask: as in driver.hpp, a row that comes out not finite is computed again by itself, with masked
// values as 0; if that is not finite either, once more with weights of at most 1.
#pragma once

#include "kernels/attention/amx_softmax.hpp"
#include "kernels/attention/drop_weights.hpp"
#include "kernels/attention/empty_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Element>
struct AmxAttention {
  static constexpr int64_t most_bands = 8;
  static constexpr int64_t run_blocks = 4;

  struct Band {
    RowTable<band_rows> table;
    TileSoftmax softmax;
    int64_t row_begin, row_count;
    char *query;
    float *out;  // [feature][band_rows]
    bool adds;   // something has been added to out
  };

  // A band against what it attends of a block.
  struct Unit {
    Band *band;
    int64_t first_key;  // of the block
    KeySteps steps;     // whole ones
    KeyRange keys;      // that some row may attend, counted from the block's first
    bool plain;         // by all rows, without anything else that is to be done to scores
    float *scores;
    const char *packed;  // the block
  };

  const AttentionTask &task;
  const AttentionProblem &problem;
  ScoreScale scale;
  ScaledExp2 exponent;
  const char *packed;  // of the task's head; null: the task packs its blocks itself
  int64_t block_bytes, value_offset, steps, tiles;
  bool wants_exact;
  float *scores[2];
  char *harmless;
  char *own_block[2];  // the present one, and the one that is scored beside its weights
  int64_t own_index[2] = {-1, -1};
  int64_t own_slot = 0, own_keys = 0;
  char *bands_memory;
  Band bands[most_bands];
  int64_t band_count = 0;
  // What next() gives next.
  int64_t run_begin = 0, run_end = 0, run_length = run_blocks, block = 0, band = 0, last_block = 0;
  int64_t made = 0;

  static int64_t bands_of(int64_t head_dim, int64_t value_dim) {
    // Queries and sums of a task beside a run of keys and values, in about a megabyte of the second-level cache.
    return max_of(1, min_of(most_bands, 2048 / max_of(1, head_dim + value_dim)));
  }
  static int64_t query_bytes(int64_t head_dim) { return 2 * head_steps(head_dim) * tile_bytes; }
  static int64_t out_bytes(int64_t value_dim) { return 2 * value_tiles(value_dim) * tile_bytes; }

  static int64_t scratch_floats(int64_t head_dim, int64_t value_dim) {
    const int64_t band_bytes = query_bytes(head_dim) + out_bytes(value_dim);
    const int64_t bytes = 2 * block_keys * score_stride_bytes + value_block_bytes(value_dim) +
                          2 * packed_block_bytes(head_dim, value_dim) + bands_of(head_dim, value_dim) * band_bytes;
    return bytes / static_cast<int64_t>(sizeof(float));
  }

  FOVEA_INLINE explicit AmxAttention(const AttentionTask &t)
      : task(t), problem(*t.problem), scale(problem), exponent(scale.exponent_scale) {
    const AttentionSizes &sizes = problem.sizes;
    steps = head_steps(sizes.compared_dim);
    tiles = value_tiles(sizes.value_dim);
    block_bytes = packed_block_bytes(sizes.compared_dim, sizes.value_dim);
    value_offset = key_block_bytes(sizes.compared_dim);
    const int64_t blocks = ceil_div(sizes.key_len, block_keys);
    packed = problem.packed;
    if (packed != nullptr) packed += (task.batch * sizes.kv_heads + task.kv_head) * blocks * block_bytes;
    if (packed == nullptr) {
      run_length = 1;
      own_keys = longest_valid_len(problem, task.batch);
    }
    wants_exact =
        problem.outputs.log_sum_exp != nullptr || problem.outputs.weights_wanted || task.partial.out != nullptr;
    scores[0] = static_cast<float *>(task.scratch);
    scores[1] = scores[0] + block_keys * band_rows;
    harmless = reinterpret_cast<char *>(scores[1] + block_keys * band_rows);
    own_block[0] = harmless + value_block_bytes(sizes.value_dim);
    own_block[1] = own_block[0] + block_bytes;
    bands_memory = own_block[1] + block_bytes;
  }

  FOVEA_INLINE static void nothing() {}

  // Lays rows out in bands.
  FOVEA_NOINLINE void start(int64_t row_begin, int64_t row_count) {
    const AttentionSizes &sizes = problem.sizes;
    char *at = bands_memory;
    band_count = ceil_div(row_count, band_rows);
    KeyRange any = {task.key_end, task.key_begin};
    for (int64_t b = 0; b < band_count; ++b) {
      Band &next = bands[b];
      next.row_begin = row_begin + b * band_rows;
      next.row_count = min_of(band_rows, row_count - b * band_rows);
      next.table.fill(task, next.row_begin, next.row_count);
      next.query = at;
      next.out = reinterpret_cast<float *>(at + query_bytes(sizes.compared_dim));
      next.adds = false;
      at += query_bytes(sizes.compared_dim) + out_bytes(sizes.value_dim);
      pack_queries(next.table.query, next.row_count, sizes.compared_dim, next.query);
      next.softmax.template start<Element>(next.table, problem.logits.sinks != nullptr && task.first_split,
                                           scale.natural, scale.exponent_scale);
      if (next.table.any.first < next.table.any.last) any = cover(any, next.table.any);
    }
    block = run_begin = any.first / block_keys;
    last_block = any.first < any.last ? ceil_div(any.last, block_keys) : run_begin;
    run_end = min_of(run_begin + run_length, last_block);
    band = 0;
  }

  // A block that only this task reads, packed by it. The block before is still in use.
  FOVEA_NOINLINE const char *own_packed(int64_t index) {
    for (int slot = 0; slot < 2; ++slot) {
      if (own_index[slot] == index) return own_block[slot];
    }
    own_slot = 1 - own_slot;
    own_index[own_slot] = index;
    const int64_t first = index * block_keys, next = first + block_keys;
    pack_block({.problem = &problem,
                .batch = task.batch,
                .kv_head = task.kv_head,
                .first_key = first,
                .count = clamp_to(own_keys - first, 0, block_keys),
                .ahead = max_of(0, min_of(min_of(own_keys, last_block * block_keys) - next, block_keys)),
                .to = own_block[own_slot]});
    return own_block[own_slot];
  }
  FOVEA_INLINE const char *packed_at(int64_t index) {
    return packed != nullptr ? packed + index * block_bytes : own_packed(index);
  }

  // The band's part of a block; false: it attends nothing there.
  FOVEA_INLINE bool make_unit(Band &of, int64_t index, Unit *unit) {
    const int64_t begin = index * block_keys;
    KeyRange keys = {max_of(0, of.table.any.first - begin), min_of(block_keys, of.table.any.last - begin)};
    if (keys.first >= keys.last) return false;
    if (problem.pattern.mask != nullptr) {
      const KeyRange allowed = keys_allowed(of.table, begin + keys.first, keys.last - keys.first);
      if (allowed.first >= allowed.last) return false;
      keys = {keys.first + allowed.first, keys.first + allowed.last};
    }
    const KeySteps range = {keys.first / step_terms, ceil_div(keys.last, step_terms)};
    const bool whole =
        begin + range.first * step_terms >= of.table.all.first && begin + range.last * step_terms <= of.table.all.last;
    *unit = {&of, begin, range, keys, whole && scale.plain, scores[made++ % 2], packed_at(index)};
    return true;
  }

  // For each run of blocks, for each band: all blocks of the run.
  FOVEA_INLINE bool next(Unit *unit) {
    for (; run_begin < last_block;
         run_begin += run_length, run_end = min_of(run_begin + run_length, last_block), block = run_begin, band = 0) {
      for (; band < band_count; ++band, block = run_begin) {
        while (block < run_end) {
          if (make_unit(bands[band], block++, unit)) return true;
        }
      }
    }
    return false;
  }

  // Calls `part` for the next of `count` parts of something else, evenly spread over `calls` calls.
  template <class Part>
  struct Spread {
    const Part &part;
    int64_t count, calls, done = 0, credit = 0;

    FOVEA_INLINE void operator()() {
      for (credit += count; credit >= calls && done < count; credit -= calls) part(done++);
    }
    FOVEA_INLINE void finish() {
      while (done < count) part(done++);
    }
  };
  template <class Part>
  FOVEA_INLINE static Spread<Part> spread(const Part &part, int64_t count, int64_t calls) {
    return {part, count, calls};
  }

  FOVEA_INLINE static int64_t keys_of(const Unit &unit) { return (unit.steps.last - unit.steps.first) * step_terms; }
  FOVEA_INLINE static float *scores_of(const Unit &unit) {
    return unit.scores + unit.steps.first * step_terms * band_rows;
  }

  // Weights of `unit` beside `tile_work(beside)`, which calls beside() `calls` times.
  template <class TileWork>
  FOVEA_INLINE void weigh_beside(const Unit &unit, int64_t calls, const TileWork &tile_work) {
    TileSoftmax &state = unit.band->softmax;
    const int64_t vectors = unit.band->table.vectors;
    float *first = scores_of(unit);
    const auto part = [&](int64_t n) FOVEA_INLINE_BODY {
      const int64_t slice = vectors == 2 ? n / 2 : n;
      weigh_slice<Element>(state, first + slice * slice_keys * band_rows, vectors == 2 ? n % 2 : 0,
                           scale.exponent_scale);
    };
    auto beside = spread(part, keys_of(unit) / slice_keys * vectors, max_of(1, calls));
    tile_work(beside);
    beside.finish();
  }

  FOVEA_INLINE ScoreProduct score_product(const Unit &unit) const {
    return {unit.packed, unit.band->query, unit.scores, steps, unit.steps};
  }
  template <class Beside>
  FOVEA_INLINE void score(const Unit &unit, Beside &beside) const {
    unit.band->table.vectors == 2 ? multiply_scores<Element, 2>(score_product(unit), beside)
                                  : multiply_scores<Element, 1>(score_product(unit), beside);
  }

  // The weights of one unit, beside the scores of the next.
  FOVEA_NOINLINE void weigh_and_score(const Unit &unit, const Unit &following) {
    const int64_t calls = (following.steps.last - following.steps.first) * steps;
    weigh_beside(unit, calls, [&](auto &beside) FOVEA_INLINE_BODY { score(following, beside); });
    end_sum(unit.band->softmax, unit.band->table.vectors);
  }

  FOVEA_NOINLINE void weigh_alone(const Unit &unit) {
    weigh_beside(unit, 0, [](auto &) FOVEA_INLINE_BODY {});
    end_sum(unit.band->softmax, unit.band->table.vectors);
  }

  // Dropped weights of bfloat16: those of binary16 would overflow when they are scaled, and do not come here.
  FOVEA_NOINLINE void weigh_with_dropout(const Unit &unit) {
    TileSoftmax &state = unit.band->softmax;
    const RowTable<band_rows> &table = unit.band->table;
    weigh_apart(state, scores_of(unit), keys_of(unit), table.vectors, scale.exponent_scale);
    end_sum(state, table.vectors);
    apply_dropout(make_tile(scores_of(unit), table, unit.first_key + unit.steps.first * step_terms, keys_of(unit)),
                  table, problem.dropout, task.batch);
    pair_weights(scores_of(unit), keys_of(unit), table.vectors);
  }

  FOVEA_NOINLINE void score_alone(const Unit &unit) const {
    auto beside = [] {};
    score(unit, beside);
  }

  // Scores become logits; what is masked, and what fills the last step up, minus infinity.
  FOVEA_NOINLINE void finish_scores(const Unit &unit) const {
    if (unit.plain) return;
    const RowTable<band_rows> &table = unit.band->table;
    const int64_t begin = unit.steps.first * step_terms;
    const ScoreTile tile = make_tile(scores_of(unit), table, unit.first_key + begin, unit.keys.last - begin);
    to_logits(tile, table, problem, scale);
    for (int64_t j = unit.keys.last; j < unit.steps.last * step_terms; ++j) {
      for (int64_t r = 0; r < band_rows; r += lanes) store(unit.scores + j * band_rows + r, minus_infinity());
    }
  }

  // The weighted sum of values, beside the largest scores of another unit, if there is one.
  FOVEA_NOINLINE void add_values(const Unit &unit, const char *values, const Unit *following) {
    Band &of = *unit.band;
    const ValueProduct product = {values, unit.scores, of.out, tiles, unit.steps, of.adds};
    const int64_t vectors = following == nullptr ? 1 : following->band->table.vectors;
    const int64_t parts = following == nullptr ? 0 : (following->steps.last - following->steps.first) * vectors;
    const auto part = [&](int64_t n) FOVEA_INLINE_BODY {
      const int64_t slice = vectors == 2 ? n / 2 : n;
      max_slice(following->band->softmax, scores_of(*following) + slice * max_slice_keys * band_rows,
                vectors == 2 ? n % 2 : 0);
    };
    if (following != nullptr) start_max(following->band->softmax);
    auto beside = spread(part, parts, max_of(1, ceil_div(tiles, 2) * (unit.steps.last - unit.steps.first)));
    of.table.vectors == 2 ? multiply_values<Element, 2>(product, beside) : multiply_values<Element, 1>(product, beside);
    beside.finish();
    of.adds = true;
  }

  FOVEA_NOINLINE void find_max(const Unit &unit) const {
    start_max(unit.band->softmax);
    for (int64_t j = 0; j < keys_of(unit); j += max_slice_keys) {
      for (int64_t v = 0; v < unit.band->table.vectors; ++v) {
        max_slice(unit.band->softmax, scores_of(unit) + j * band_rows, v);
      }
    }
  }

  // Once the unit's largest scores are known and all that came before has been added.
  FOVEA_NOINLINE void follow(const Unit &unit, float allowed_growth = most_growth) const {
    Band &of = *unit.band;
    const int64_t vectors = of.table.vectors;
    if (wants_exact) add_exact_sums(of.softmax, scores_of(unit), keys_of(unit), vectors, exponent);
    if (!follow_max<Element>(of.softmax, vectors, scale.exponent_scale, allowed_growth) || !of.adds) return;
    for (int64_t v = 0; v < vectors; ++v) {
      const Float factor = load(of.softmax.rescale + v * lanes);
      float *out = of.out + v * lanes;
      for (int64_t d = 0; d < tiles * tile_edge; ++d, out += band_rows) store(out, load(out) * factor);
    }
  }

  FOVEA_INLINE const char *values_of(const Unit &unit) const { return unit.packed + value_offset; }

  FOVEA_NOINLINE void attend() {
    Unit unit;
    Unit following;
    if (!next(&unit)) return;
    score_alone(unit);
    finish_scores(unit);
    find_max(unit);
    follow(unit);
    for (bool more = true; more;) {
      more = next(&following);
      if (problem.dropout.threshold != 0) {
        weigh_with_dropout(unit);
        if (more) score_alone(following);
      } else {
        more ? weigh_and_score(unit, following) : weigh_alone(unit);
      }
      if (more) finish_scores(following);
      add_values(unit, values_of(unit), more ? &following : nullptr);
      if (!more) return;
      follow(following);
      unit = following;
    }
  }

  // One row by itself, with masked values taken as 0.
  FOVEA_NOINLINE void attend_harmless(int64_t row, float allowed_growth) {
    start(row, 1);
    for (Unit unit; next(&unit);) {
      score_alone(unit);
      finish_scores(unit);
      find_max(unit);
      uint32_t masked[block_steps] = {};
      for (int64_t j = unit.steps.first * step_terms; j < unit.steps.last * step_terms; ++j) {
        if (unit.scores[j * band_rows] == -INFINITY) masked[j / step_terms] |= uint32_t{1} << j % step_terms;
      }
      follow(unit, allowed_growth);
      problem.dropout.threshold != 0 ? weigh_with_dropout(unit) : weigh_alone(unit);
      copy_harmless_values(values_of(unit), problem.sizes.value_dim, masked, harmless);
      add_values(unit, harmless, nullptr);
    }
  }

  // No key was attended: else a weight of about 1 has been added.
  FOVEA_INLINE static bool empty(const Band &of, int64_t r) { return of.softmax.sum[r] == 0.0f; }

  FOVEA_INLINE void *out_row(const QueryCursor &row) const {
    return element_at(problem.outputs.out, problem.outputs.out_dtype, row.at(problem.outputs.out_strides));
  }

  // Divides and writes. Bit r of the result: the row is not finite although its weights are.
  FOVEA_NOINLINE uint32_t store_outputs(Band &of) const {
    void *rows[band_rows] = {};
    alignas(64) float factor[band_rows] = {};
    QueryCursor row(problem, task.batch, task.kv_head, of.row_begin);
    const bool partial = task.partial.out != nullptr;
    for (int64_t r = 0; r < of.row_count; ++r, row.advance()) {
      rows[r] =
          partial ? task.partial.out + (of.row_begin - task.row_begin + r) * problem.sizes.value_dim : out_row(row);
      factor[r] = empty(of, r) ? 0.0f : 1.0f / of.softmax.sum[r];
    }
    if (!of.adds) memset(of.out, 0, static_cast<size_t>(out_bytes(problem.sizes.value_dim)));
    uint32_t wrong = 0;
    const int64_t dim = problem.sizes.value_dim;
    with_element(partial ? Dtype::f32 : problem.outputs.out_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      typename T::Element *to[band_rows];
      for (int64_t r = 0; r < of.row_count; ++r) to[r] = static_cast<typename T::Element *>(rows[r]);
      for (int64_t r = 0; r < of.row_count; r += lanes) {
        __m512 check = _mm512_setzero_ps();
        for (int64_t d = 0; d < dim; ++d) {
          check = _mm512_fmadd_ps(_mm512_load_ps(of.out + d * band_rows + r), _mm512_setzero_ps(), check);
        }
        const __mmask16 rows_there = first_halves(min_of(lanes, of.row_count - r));
        wrong |= static_cast<uint32_t>(_mm512_mask_cmp_ps_mask(rows_there, check, check, _CMP_UNORD_Q)) << r;
        lanes_to_rows(of.out + r, band_rows, load(factor + r), to + r, min_of(lanes, of.row_count - r), dim);
      }
    });
    for (int64_t r = 0; r < of.row_count; ++r) {
      if (empty(of, r) || of.softmax.sum[r] != of.softmax.sum[r]) wrong &= ~(uint32_t{1} << r);  // nothing to repair
    }
    return wrong;
  }

  FOVEA_NOINLINE void store_statistics(const Band &of) const {
    const AttentionOutputs &outputs = problem.outputs;
    if (task.partial.out != nullptr) {
      for (int64_t r = 0, at = of.row_begin - task.row_begin; r < of.row_count; ++r, ++at) {
        task.partial.max[at] = empty(of, r) ? -INFINITY : of.softmax.exact_max[r];
        task.partial.sum[at] = empty(of, r) ? 0.0f : of.softmax.exact_sum[r];
      }
      return;
    }
    QueryCursor row(problem, task.batch, task.kv_head, of.row_begin);
    for (int64_t r = 0; r < of.row_count; ++r, row.advance()) {
      const bool none = empty(of, r);
      if (outputs.weights_wanted) {
        task.row_max[of.row_begin + r] = of.softmax.exact_max[r];
        task.row_scale[of.row_begin + r] = none ? 0.0f : 1.0f / of.softmax.exact_sum[r];
      }
      if (none) fill_empty_row(problem, task.batch, task.kv_head, out_row(row));
      if (outputs.log_sum_exp != nullptr) {
        float log_sum_exp = log_of_sum(of.softmax.exact_max[r] * scale.natural, of.softmax.exact_sum[r]);
        if (problem.logits.sinks != nullptr) {
          log_sum_exp = log_sum_exp_beside(of.table.sink[r], scale.natural, log_sum_exp);
        }
        outputs.log_sum_exp[row.at(outputs.log_sum_exp_strides)] = none ? empty_log_sum_exp(problem) : log_sum_exp;
      }
    }
  }

  // Uses up the bands. Weights above 1 may overflow with huge values where no weight above 1 would.
  FOVEA_NOINLINE void repair(int64_t row) {
    for (const float allowed_growth : {most_growth, 0.0f}) {
      attend_harmless(row, allowed_growth);
      if (store_outputs(bands[0]) == 0) return;
    }
  }

  FOVEA_NOINLINE void run_configured() {
    configure_whole_tiles();
    start(task.row_begin, task.row_count);
    attend();
    uint32_t wrong[most_bands];
    const int64_t count = band_count;
    for (int64_t b = 0; b < count; ++b) {
      wrong[b] = store_outputs(bands[b]);
      store_statistics(bands[b]);
    }
    for (int64_t b = 0; b < count; ++b) {
      for (; wrong[b] != 0; wrong[b] &= wrong[b] - 1) repair(task.row_begin + b * band_rows + __builtin_ctz(wrong[b]));
    }
  }

  void run() {
    with_tiles([this] { run_configured(); });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
