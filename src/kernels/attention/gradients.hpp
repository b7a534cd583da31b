// Runs one task of attention's backward pass. With the weights p = e^(logit - log_sum_exp) made again tile by tile, d a
// factor of dropout, and the row's mean m = sum_j p_j dp_j = grad_out . out:
//
//   dp = d (grad_out . v)            gradient of a weight before dropout; plus that of the returned weight
//   dl = p (dp - m + grad_lse)       of a logit
//   ds = dl (1 - tanh^2) scale       of a raw score
//   dv += d p grad_out               dq, dk: what the score function makes of ds (ScoreFunction::gradient)
//
// Lanes are rows of queries, as in the forward pass, whose sources, scores and logits are used as they are. A task has
// several bands of rows, so that a tile of keys and what has been summed up for it stay in the second-level cache for
// all of them; sums for queries stay with their band. One pass: five products of the size of the scores (dot product),
// of which two are made again, where passes of their own for queries and keys would take seven. All sums are taken in
// an order that shapes alone decide.
//
// The bias's gradient is a pass of its own: it may be summed up over the axes along which tasks are cut, and without
// those sums nobody would have to wait. So are the sums of returned weights times their gradients, which the mean needs
// beforehand.
//
// Where all rows are of bfloat16 and the path takes pairs of it, all five products do: of features for scores and
// gradients of weights, of keys for dq, of rows for dv and dk. Then p and ds are rounded to bfloat16 where they meet rows.
//
// A masked key has p = 0 and dl = 0 by choice, not by multiplication, but 0 * NaN is NaN where such a zero meets a row
// of a query or of a key. Where a mask meets what is not finite, each row goes by itself through the runs of keys that
// it attends.
#pragma once

#include "kernels/attention/drop_weights.hpp"
#include "kernels/attention/gradient_problem.hpp"
#include "kernels/attention/gradient_rows.hpp"
#include "kernels/attention/logits.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/weighted_rows.hpp"
#include "kernels/math/tanh.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Path>
struct GradientDriver {
  static constexpr int64_t rows = Path::tile_rows;
  static constexpr int64_t keys = Path::tile_keys;
  static constexpr int64_t most_bands = 4;

  struct Band {
    RowTable<rows> table;
    int64_t row_begin;
    bool finite;        // its queries and rows of grad_out; known if some of its keys are masked
    float *query;       // as the score function wants them
    float *query_rows;  // [row][key_stride], or half as many of pairs
    float *query_sums;  // [d][row]
    float *grads;       // grad_out, [d][row]
    float *grad_rows;   // [row][value_stride], likewise
    alignas(64) float log_sum_exp[rows];
    alignas(64) float mean[rows];
    alignas(64) float slope_sum[rows];
    alignas(64) float width_sum[rows];
    const void *grad_weights[rows];
  };

  const ScoreFunction &score;
  const ScoreFunction &dot;
  const GradientTask &task;
  const GradientProblem &gradients;
  const AttentionProblem &problem;
  Logits<Path> logits;
  HeadSource values;
  HeadSource key_pairs;  // the keys as pairs, where products take these
  ScaledExp2 exponent;
  int64_t key_stride, value_stride;
  float *scores;  // [key][row] of a tile, three times
  float *grads;
  float *raw;
  float *key_sums;             // [key of the task][key_stride]
  float *value_sums;           // [key of the task][value_stride]
  Band bands[most_bands + 1];  // the last: a row by itself
  int64_t band_count = 0;
  bool keeps_raw, has_extras;
  bool parts_pairs;  // near ones from far ones
  bool tile_is_known = false, tile_is_finite = false;

  static constexpr int64_t bands_of(int64_t head_dim, int64_t value_dim) {
    return max_of(1, min_of(most_bands, 512 / (head_dim + value_dim)));
  }
  static int64_t band_floats(const ScoreFunction &score, int64_t head_dim, int64_t value_dim) {
    return score.query_floats(head_dim) +
           rows * (whole_registers(head_dim) + whole_registers(value_dim) + head_dim + value_dim);
  }
  // Room for a key's sums.
  static int64_t key_floats(int64_t head_dim, int64_t value_dim) {
    return whole_registers(head_dim) + whole_registers(value_dim);
  }
  // Without the sums of the task's keys, which stand behind.
  static int64_t scratch_floats(const ScoreFunction &score, int64_t head_dim, int64_t value_dim) {
    return 3 * keys * rows + keys * (padded_units(head_dim) + value_dim) +
           (bands_of(head_dim, value_dim) + 1) * band_floats(score, head_dim, value_dim);
  }

  FOVEA_INLINE static float *copy_room(const GradientTask &task) {
    return static_cast<float *>(task.scores.scratch) + 3 * keys * rows;
  }

  FOVEA_NOINLINE GradientDriver(const ScoreFunction &its, const ScoreFunction &products, const GradientTask &t)
      : score(its),
        dot(products),
        task(t),
        gradients(*t.problem),
        problem(gradients.scores),
        logits(its, t.scores, copy_room(t)),
        values(gradients.values.key, t.scores.batch, t.scores.kv_head, problem.sizes.value_dim,
               Path::takes_pairs ? RowForm::given : RowForm::widened,
               copy_room(t) + keys * padded_units(problem.sizes.compared_dim)),
        key_pairs(problem.key, t.scores.batch, t.scores.kv_head, problem.sizes.compared_dim, RowForm::pairs,
                  copy_room(t)),
        exponent(1.44269504088896340736f) {
    const int64_t head_dim = problem.sizes.compared_dim, value_dim = problem.sizes.value_dim;
    key_stride = whole_registers(head_dim);
    value_stride = whole_registers(value_dim);
    scores = static_cast<float *>(t.scores.scratch);
    grads = scores + keys * rows;
    raw = grads + keys * rows;
    float *at = copy_room(t) + keys * (padded_units(head_dim) + value_dim);
    for (int64_t b = 0; b < bands_of(head_dim, value_dim); ++b) at = lay_out(bands[b], at);
    at = lay_out(bands[most_bands], at);
    key_sums = t.key_part != nullptr ? t.key_part : at;
    value_sums = key_sums + key_count() * key_stride;
    if (t.key_part == nullptr && t.part == GradientPart::gradients) {
      key_sums = place_of(gradients.key, head_dim, key_sums);
      value_sums = place_of(gradients.value, value_dim, value_sums);
    }
    has_extras = task.part == GradientPart::gradients &&
                 (problem.logits.softcap != 0.0f || problem.score.inverse_squares != nullptr ||
                  gradients.wants_slopes || gradients.wants_widths);
    parts_pairs = problem.score.kind == ScoreKind::gaussian && problem.score.key_scalars != nullptr;
    keeps_raw = problem.logits.softcap != 0.0f || gradients.wants_widths;
  }

  // Gives the band its arrays; returns where the next begin.
  FOVEA_INLINE float *lay_out(Band &band, float *at) const {
    band.query = at;
    band.query_rows = band.query + score.query_floats(problem.sizes.compared_dim);
    band.query_sums = band.query_rows + rows * key_stride;
    band.grads = band.query_sums + rows * problem.sizes.compared_dim;
    band.grad_rows = band.grads + rows * problem.sizes.value_dim;
    return band.grad_rows + rows * value_stride;
  }

  // Where the task's keys are summed up: where they go, if rows of sums lie there side by side, else in scratch memory.
  FOVEA_INLINE float *place_of(const GradientRows &to, int64_t dim, float *scratch) const {
    const bool lie_there = to.wanted && to.dtype == Dtype::f32 && to.strides.position == dim && dim % lanes == 0;
    return lie_there ? static_cast<float *>(row_of_keys(to, 0)) : scratch;
  }

  FOVEA_INLINE void *row_of_keys(const GradientRows &to, int64_t key) const {
    const AttentionTask &its = task.scores;
    return element_at(to.data, to.dtype, to.strides.at(its.batch, its.kv_head, its.key_begin + key));
  }

  FOVEA_INLINE int64_t key_count() const { return task.scores.key_end - task.scores.key_begin; }

  // The first key of a band: of two that make a pair the first, so that neighbours do not change what is summed.
  FOVEA_INLINE int64_t first_key(const Band &band) const {
    return Path::takes_pairs ? band.table.any.first / 2 * 2 : band.table.any.first;
  }

  // Whether a row of the band may see other keys of a tile than its neighbours do.
  FOVEA_INLINE bool has_masks(const Band &band) const {
    return problem.pattern.mask != nullptr || problem.logits.bias != nullptr || problem.pattern.leave_one_out ||
           band.table.all.first > first_key(band) || band.table.all.last < band.table.any.last;
  }

  FOVEA_INLINE void copy_row(const void *from, Dtype dtype, int64_t dim, float *to, int64_t stride) const {
    for (int64_t d = dim; d < stride; ++d) to[d] = 0.0f;
    widen_rows(from, dtype, 0, 1, dim, to, 0);
  }

  FOVEA_NOINLINE void load_rows(Band &band, int64_t row_begin, int64_t row_count) {
    band.row_begin = row_begin;
    band.table.fill(task.scores, row_begin, row_count);
    Path::clear_out(band.query_sums, problem.sizes.compared_dim, row_count);
    memset(band.slope_sum, 0, sizeof band.slope_sum);
    memset(band.width_sum, 0, sizeof band.width_sum);
    if (band.table.any.first < band.table.any.last || gradients.wants_sinks) copy_rows(band);
  }

  FOVEA_NOINLINE void copy_rows(Band &band) {
    const int64_t row_count = band.table.count;
    logits.load_queries(band.table, band.query);
    const AttentionOutputs &outputs = problem.outputs;
    const HeadRows &grad_out = gradients.values.query;
    const int64_t value_dim = problem.sizes.value_dim;
    RowTable<rows> grad_table;
    grad_table.count = row_count;
    QueryCursor row(problem, task.scores.batch, task.scores.kv_head, band.row_begin);
    for (int64_t r = 0; r < row_count; ++r, row.advance()) {
      grad_table.query[r] = element_at(grad_out.data, grad_out.dtype, row.at(grad_out.strides));
      float *grad = Path::takes_pairs ? band.grads : band.grad_rows + r * value_stride;
      copy_row(grad_table.query[r], grad_out.dtype, value_dim, grad, value_stride);
      if constexpr (!Path::takes_pairs) {
        copy_row(band.table.query[r], problem.query.dtype, problem.sizes.compared_dim, band.query_rows + r * key_stride,
                 key_stride);
      }
      band.log_sum_exp[r] = outputs.log_sum_exp[row.at(outputs.log_sum_exp_strides)];
      band.mean[r] = row_product(element_at(outputs.out, outputs.out_dtype, row.at(outputs.out_strides)),
                                 outputs.out_dtype, grad, value_dim);
      if (gradients.grad_weights != nullptr) {
        const int64_t at = row.at(gradients.grad_weights_strides);
        band.grad_weights[r] = element_at(gradients.grad_weights, gradients.grad_weights_dtype, at);
        if (task.part != GradientPart::weight_sums) band.mean[r] += *weight_sum(row);
      }
      if (gradients.grad_log_sum_exp.data != nullptr) {
        band.mean[r] -= gradients.grad_log_sum_exp.data[row.at(gradients.grad_log_sum_exp.strides)];
      }
    }
    if (task.part == GradientPart::weight_sums) memset(band.mean, 0, sizeof band.mean);
    for (int64_t r = row_count; r < band.table.vectors * lanes; ++r) {
      band.log_sum_exp[r] = INFINITY;
      band.mean[r] = 0.0f;
    }
    if constexpr (Path::takes_pairs) {
      pair_band_rows(band.table, problem.sizes.compared_dim, band.query_rows, key_stride);
      pair_band_rows(grad_table, value_dim, band.grad_rows, value_stride);
      Path::transpose_queries(grad_table, Dtype::f32, value_dim / 2, band.grads);  // pairs of bits
    } else {
      Path::transpose_queries(grad_table, grad_out.dtype, value_dim, band.grads);
    }
    band.finite = !has_masks(band) || (copies_are_finite(band.query_rows, key_stride, row_count) &&
                                       copies_are_finite(band.grad_rows, value_stride, row_count));
  }

  FOVEA_INLINE static void pair_band_rows(const RowTable<rows> &table, int64_t dim, float *to, int64_t stride) {
    for (int64_t r = 0; r < table.count; r += 2, to += stride) {
      for (int64_t d = dim; d < stride; ++d) to[d] = 0.0f;
      pair_two_rows(table.query[r], r + 1 < table.count ? table.query[r + 1] : nullptr, dim, to);
    }
  }
  FOVEA_INLINE static bool copies_are_finite(const float *from, int64_t stride, int64_t row_count) {
    if constexpr (!Path::takes_pairs) return rows_are_finite(from, Dtype::f32, stride, row_count, stride);
    return rows_are_finite(from, Dtype::bf16, 2 * stride, ceil_div(row_count, 2), 2 * stride);
  }

  // Logits and gradients of weights become weights and gradients of logits; of raw scores where nothing comes between.
  FOVEA_NOINLINE void weigh(const Band &band, const ScoreTile &tile) const {
    constexpr int count = 4;
    const Float natural(logits.scale.natural);
    const bool to_scores = task.part == GradientPart::gradients && !has_extras;
    const Float factor(to_scores ? problem.logits.scale : 1.0f);
    for (int64_t v = 0; v < tile.vectors; ++v) {
      const Float lse = load(band.log_sum_exp + v * lanes);
      const Float mean = load(band.mean + v * lanes);
      const auto some = [&](auto number, int64_t j) FOVEA_INLINE_BODY {
        constexpr int n = decltype(number)::value;
        Float weight[n];
        Mask masked[n];
        unroll<n>([&](auto i) FOVEA_INLINE_BODY {
          const Float logit = load(tile.scores + (j + i) * rows + v * lanes);
          masked[i] = logit == minus_infinity();
          weight[i] = multiply_add(logit, natural, -lse);
        });
        exponent.apply(weight);
        unroll<n>([&](auto i) FOVEA_INLINE_BODY {
          float *grad = grads + (j + i) * rows + v * lanes;
          const Float slope = weight[i] * (load(grad) - mean) * factor;
          store(tile.scores + (j + i) * rows + v * lanes, choose(masked[i], zero(), weight[i]));
          store(grad, choose(masked[i], zero(), slope));
        });
      };
      int64_t j = 0;
      for (; j + count <= tile.keys; j += count) some(Index<count>{}, j);
      for (; j < tile.keys; ++j) some(Index<1>{}, j);
    }
  }

  // From gradients of logits to those of raw scores where the soft-cap or a width for each head comes between, and the
  // sums of each row that are wanted.
  FOVEA_NOINLINE void pass_extras(Band &band, const ScoreTile &tile) const {
    const bool caps = problem.logits.softcap != 0.0f, has_widths = problem.score.inverse_squares != nullptr;
    const Float inverse_cap(!caps ? 0.0f : min_of_floats(1.0f / problem.logits.softcap, __FLT_MAX__));
    for (int64_t v = 0; v < tile.vectors; ++v) {
      const int64_t r = v * lanes;
      Float slope_sum = load(band.slope_sum + r);
      Float width_sum = load(band.width_sum + r);
      Float scale(problem.logits.scale);
      if (has_widths) scale = scale * load(band.table.inverse_square + r);
      for (int64_t j = 0; j < tile.keys; ++j) {
        float *at = grads + j * rows + r;
        Float grad = load(at);
        const Mask none = grad == zero();
        if (gradients.wants_slopes) {
          const Int ahead = Int::load_aligned(band.table.position + r) - Int(static_cast<int32_t>(tile.key + j));
          slope_sum = slope_sum - grad * xsimd::to_float(xsimd::abs(ahead));
        }
        if (caps) {
          const Float t = tanh_register(load(raw + j * rows + r) * scale * inverse_cap);
          grad = grad * xsimd::fnma(t, t, splat(1.0f));
        }
        grad = grad * scale;
        if (caps) grad = choose(none, zero(), grad);  // a masked score may be anything
        if (gradients.wants_widths) width_sum = width_sum + choose(none, zero(), grad * load(raw + j * rows + r));
        store(at, grad);
      }
      store(band.slope_sum + r, slope_sum);
      store(band.width_sum + r, width_sum);
    }
  }
  FOVEA_INLINE static float min_of_floats(float a, float b) { return a < b ? a : b; }

  // Weights and gradients of logits of keys [first, last), which are of one tile. Returns the tile of weights.
  FOVEA_NOINLINE ScoreTile weigh_tile(const Band &band, int64_t first, int64_t last) {
    const ScoreTile tile = make_tile(scores, band.table, first, last - first);
    const ScoreTile grad_tile = gradients_of(tile);
    if (task.part == GradientPart::weight_sums) {
      grad_tile.for_each([](const Float &, int64_t, int64_t) FOVEA_INLINE_BODY { return zero(); });
    } else if (gradients.wants_scores() || task.part == GradientPart::bias) {
      const ScoreJob<rows> products = {
          gradients.values, band.table, band.grads,  values.span<false>(first, last - first),
          nullptr,          grad_tile,  nothing_next};
      dot.score(&products);
    }
    if (gradients.grad_weights != nullptr) {
      with_element(gradients.grad_weights_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
        add_transposed<typename T::Element>(grad_tile, band.grad_weights, band.table.count,
                                            gradients.grad_weights_factor);
      });
    }
    if (problem.dropout.threshold != 0) apply_dropout(grad_tile, band.table, problem.dropout, task.scores.batch);
    logits.score(band.table, band.query, tile, nothing_next);
    const bool wants_raw = keeps_raw || has_near_pairs(band);
    if (wants_raw) memcpy(raw, scores, static_cast<size_t>(tile.keys * rows) * sizeof(float));
    logits.finish(band.table, tile);
    weigh(band, tile);
    return tile;
  }

  // Of the tile whose scores have been made last.
  FOVEA_INLINE bool has_near_pairs(const Band &band) const { return parts_pairs && band.query[some_near_at] != 0.0f; }

  FOVEA_INLINE ScoreTile gradients_of(ScoreTile tile) const {
    tile.scores = grads;
    return tile;
  }

  FOVEA_NOINLINE void attend_tile(Band &band, int64_t first, int64_t last) {
    const ScoreTile tile = weigh_tile(band, first, last);
    if (task.part == GradientPart::weight_sums) return add_weight_sums(band, tile);
    const int64_t key = first - task.scores.key_begin;
    if (gradients.value.wanted) {
      if (problem.dropout.threshold != 0) apply_dropout(tile, band.table, problem.dropout, task.scores.batch);
      add_weighted_rows<Path>(value_sums + key * value_stride, tile, band.grad_rows, value_stride, band.table.count,
                              scores);
    }
    if (!gradients.wants_scores()) return;
    const ScoreTile grad_tile = gradients_of(tile);
    if (has_extras) pass_extras(band, grad_tile);
    const GradientJob<rows> job = {
        .score = {problem, band.table, band.query, summed_keys().template span<false>(first, last - first),
                  logits.key_scalars, grad_tile, nothing_next},
        .query_rows = band.query_rows,
        .stride = key_stride,
        .query_sums = gradients.query.wanted ? band.query_sums : nullptr,
        .key_sums = gradients.key.wanted ? key_sums + key * key_stride : nullptr,
        .vector_sums = task.vector_part,
        .raw = has_near_pairs(band) ? raw : nullptr};
    if (score.gradient == nullptr || score.gradient(&job)) pass_dot_gradients<Path>(job, scores);
  }

  // As sums for queries read them.
  FOVEA_INLINE HeadSource &summed_keys() {
    if constexpr (Path::takes_pairs) return key_pairs;
    return logits.keys;
  }

  FOVEA_INLINE float *weight_sum(const QueryCursor &row) const {
    const int64_t head = task.scores.batch * problem.sizes.heads + row.head;
    return task.weight_sums + head * problem.sizes.query_len + row.query;
  }

  FOVEA_NOINLINE void add_weight_sums(const Band &band, const ScoreTile &tile) const {
    QueryCursor row(problem, task.scores.batch, task.scores.kv_head, band.row_begin);
    for (int64_t r = 0; r < band.table.count; ++r, row.advance()) {
      float sum = 0.0f;
      for (int64_t j = 0; j < tile.keys; ++j) sum += grads[j * rows + r];
      *weight_sum(row) += sum;
    }
  }

  // The same where a mask meets what is not finite: a row at a time, a run of attended keys at a time.
  FOVEA_NOINLINE void attend_runs(Band &band, int64_t first, int64_t last) {
    Band &single = bands[most_bands];
    const int64_t row_count = band.table.count;
    for (int64_t r = 0; r < row_count; ++r) {
      load_rows(single, band.row_begin + r, 1);
      const ScoreTile tile = make_tile(scores, single.table, first, last - first);
      bool attended[keys];
      tile.for_each([](const Float &, int64_t, int64_t) FOVEA_INLINE_BODY { return zero(); });
      logits.finish(single.table, tile);
      for (int64_t j = 0; j < tile.keys; ++j) {
        const bool in_range = first + j >= single.table.first_key[0] && first + j < single.table.last_key[0];
        attended[j] = in_range && scores[j * rows] != -INFINITY;
      }
      for (int64_t j = 0, end = 0; j < tile.keys; j = end) {
        for (end = j; end < tile.keys && attended[end] == attended[j];) ++end;
        if (attended[j]) attend_tile(single, first + j, first + end);
      }
      for (int64_t d = 0; d < problem.sizes.compared_dim; ++d) {
        band.query_sums[d * rows + r] += single.query_sums[d * rows];
      }
      band.slope_sum[r] += single.slope_sum[0];
      band.width_sum[r] += single.width_sum[0];
    }
  }

  FOVEA_INLINE bool meets_nan(const Band &band, int64_t first, int64_t last) {
    if (!has_masks(band)) return false;
    if (!band.finite) return true;
    if (!tile_is_known) tile_is_finite = logits.keys.are_finite(first, last) && values.are_finite(first, last);
    tile_is_known = true;
    return !tile_is_finite;
  }

  // Tiles lie on one grid for all bands.
  FOVEA_NOINLINE void attend(int64_t row_begin, int64_t row_count) {
    band_count = ceil_div(row_count, rows);
    KeyRange any = {task.scores.key_end, task.scores.key_begin};
    for (int64_t b = 0; b < band_count; ++b) {
      load_rows(bands[b], row_begin + b * rows, min_of(rows, row_count - b * rows));
      const KeyRange its = {first_key(bands[b]), bands[b].table.any.last};
      if (bands[b].table.any.first < its.last) any = cover(any, its);
    }
    logits.keys.end = values.end = any.last;
    const bool wants_tiles =
        gradients.wants_scores() || gradients.value.wanted || task.part == GradientPart::weight_sums;
    for (int64_t key = any.first / keys * keys; wants_tiles && key < any.last; key += keys) {
      const KeyRange tile = {max_of(key, any.first), min_of(key + keys, any.last)};
      tile_is_known = false;
      summed_keys().template span<false>(tile.first, tile.last - tile.first);  // copied once for all bands, if at all
      values.span<false>(tile.first, tile.last - tile.first);
      for (int64_t b = 0; b < band_count; ++b) {
        const int64_t first = max_of(tile.first, first_key(bands[b]));
        const int64_t last = min_of(tile.last, bands[b].table.any.last);
        if (first >= last) continue;
        if (meets_nan(bands[b], tile.first, tile.last)) {
          attend_runs(bands[b], first, last);
        } else {
          attend_tile(bands[b], first, last);
        }
      }
    }
    if (task.part == GradientPart::weight_sums) return;
    for (int64_t b = 0; b < band_count; ++b) store_rows(bands[b]);
  }

  FOVEA_NOINLINE void store_rows(const Band &band) const {
    const int64_t row_count = band.table.count;
    const int64_t row_of_task = band.row_begin - task.scores.row_begin;
    const GradientRows &query = gradients.query;
    QueryCursor row(problem, task.scores.batch, task.scores.kv_head, band.row_begin);
    void *pointers[rows];
    alignas(64) float factor[rows], finite[rows];
    for (int64_t r = 0; r < row_count; ++r, row.advance()) {
      const int64_t of_head = band.row_begin + r;
      pointers[r] = task.query_part != nullptr ? task.query_part + (row_of_task + r) * problem.sizes.compared_dim
                                               : element_at(query.data, query.dtype, row.at(query.strides));
      if (task.sums.slope != nullptr) task.sums.slope[of_head] = band.slope_sum[r];
      if (task.sums.width != nullptr) task.sums.width[of_head] = band.width_sum[r];
      if (task.sums.sink != nullptr && task.scores.first_split) {
        const float sink = problem.logits.sinks[row.head * problem.logits.sinks_stride];
        const float weight = expf(sink - band.log_sum_exp[r]);
        task.sums.sink[of_head] = weight == 0.0f ? 0.0f : -weight * band.mean[r];
      }
    }
    for (int64_t r = 0; r < rows; r += lanes) store(factor + r, splat(gradients.point_factor));
    if (!query.wanted) return;
    const Dtype dtype = task.query_part != nullptr ? Dtype::f32 : query.dtype;
    Path::store_out(band.query_sums, problem.sizes.compared_dim, factor, pointers, dtype, row_count, finite);
  }

  FOVEA_NOINLINE void store_keys(const GradientRows &to, const float *sums, int64_t stride, int64_t dim) const {
    if (!to.wanted || sums == row_of_keys(to, 0)) return;
    for (int64_t j = 0; j < key_count(); ++j) narrow_row(sums + j * stride, dim, row_of_keys(to, j), to.dtype);
  }

  // Adds to sums[key of the task][row], of at most gradient_bias_keys keys.
  void add_bias(float *sums) {
    Band &band = bands[0];
    load_rows(band, task.scores.row_begin, task.scores.row_count);
    logits.keys.end = values.end = band.table.any.last;
    for (int64_t key = band.table.any.first / keys * keys; key < band.table.any.last; key += keys) {
      const int64_t first = max_of(key, band.table.any.first);
      const ScoreTile tile = weigh_tile(band, first, min_of(key + keys, band.table.any.last));
      float *to = sums + (first - task.scores.key_begin) * rows;
      for (int64_t at = 0; at < tile.keys * rows; at += rows) {
        for (int64_t r = 0; r < tile.vectors * lanes; r += lanes) {
          store(to + at + r, load(to + at + r) + load(grads + at + r));
        }
      }
    }
  }

  // The sums of a task's rows begin with nothing.
  void clear_weight_sums() const {
    QueryCursor row(problem, task.scores.batch, task.scores.kv_head, task.scores.row_begin);
    for (int64_t r = 0; r < task.scores.row_count; ++r, row.advance()) *weight_sum(row) = 0.0f;
  }

  void run() {
    const bool sums_weights = task.part == GradientPart::weight_sums;
    if (sums_weights) clear_weight_sums();
    const int64_t key_floats = key_count() * key_stride;
    if (!sums_weights) {
      memset(key_sums, 0, static_cast<size_t>(key_floats) * sizeof(float));
      memset(value_sums, 0, static_cast<size_t>(key_count() * value_stride) * sizeof(float));
    }
    if (task.vector_part != nullptr) {
      memset(task.vector_part, 0, static_cast<size_t>(problem.sizes.compared_dim) * sizeof(float));
    }
    const int64_t at_once = bands_of(problem.sizes.compared_dim, problem.sizes.value_dim) * rows;
    const int64_t end = task.scores.row_begin + task.scores.row_count;
    for (int64_t row = task.scores.row_begin; row < end; row += at_once) attend(row, min_of(at_once, end - row));
    if (sums_weights) return;
    if (gradients.point_factor != 1.0f) {
      for (int64_t i = 0; i < key_floats; ++i) key_sums[i] *= gradients.point_factor;
    }
    if (task.key_part != nullptr) return;
    store_keys(gradients.key, key_sums, key_stride, problem.sizes.compared_dim);
    store_keys(gradients.value, value_sums, value_stride, problem.sizes.value_dim);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
