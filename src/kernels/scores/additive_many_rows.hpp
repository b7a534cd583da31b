// The additive (and concat) score, many rows: scores[key][row] = sum_u v[u] tanh(query[u][row] + key[key][u]), on
// projected queries and prepared keys; method and error in scores/additive_units.hpp.
//
// Bound: for four units of a register of exponentials 4 additions each for numerators and denominators, 12 products and
// multiply-adds and one estimate of a reciprocal. Where all share two ports (Intel; AVX-512's estimate takes three
// slots) that is 23 slots with AVX-512, 21 with AVX2. Zen 4 does the additions on ports of their own and the estimate
// in two slots (AVX2: one), which leaves 14 and 13. A division would be no better: one of 512 bits takes 10 to 16
// cycles, the estimate and Newton's step 2.5 to 4. Tangents take 4 multiply-adds in place of 4 additions.
//
// Blocks are one register of rows by several keys: each load of a query's registers serves all the keys of a block, and
// a key's unit is broadcast by the addition that uses it. That is not only fewer instructions: with one full-width load
// for each multiply-add some cores run at a lower clock.
//
// A chunk of units passes over the whole tile: first the keys of each form in blocks, then one by one those that ask
// for a form of their own. Each row gets what it and the key ask for, so no score depends on which rows or keys it is
// computed with. Where rows or keys that hold tangents meet exponentials, a copy of the chunk is made of them.
#pragma once

#include "kernels/attention/many_rows.hpp"
#include "kernels/scores/additive_gradients.hpp"
#include "kernels/scores/additive_row_gradients.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveManyRows : ManyRowsValues {
  // Units of a pass over the tile: they and the keys' stay in the first-level cache.
  static constexpr int64_t chunk = 32;
  static constexpr int key_block = has_32_registers ? 8 : 4;
  // At most this many units add to a score one after the other; of more units, sums of this many do.
  static constexpr int64_t long_sum = 32 * chunk;

  // What load_queries makes, and room for score(). The rows' reaches; two floats for each unit of each row, of a row of
  // tangents tanh a and v tanh a, of one of exponentials g and -v g, else the unit. Then, for a chunk of units: rows
  // and keys of tangents turned into exponentials, and the keys' units times v.
  struct Layout {
    int64_t first, second, row_copies, key_copies, products, sums, end;

    FOVEA_INLINE explicit constexpr Layout(int64_t units)
        : first(tile_rows),
          second(first + units * tile_rows),
          row_copies(second + units * tile_rows),
          key_copies(row_copies + 2 * chunk * tile_rows),
          products(key_copies + tile_keys * chunk),
          sums(products + tile_keys * chunk),
          end(sums + (units > long_sum ? tile_keys * tile_rows : 0)) {}
  };

  static constexpr int64_t query_floats(int64_t head_dim) { return Layout(padded_units(head_dim)).end; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.sizes.compared_dim);
    const Layout layout(units);
    float *first = query + layout.first;
    float *second = query + layout.second;
    const float *weight = problem.score.vector;
    if (table.count == 1) return load_one_row(problem, static_cast<const float *>(table.query[0]), query);
    transpose_queries(table, Dtype::f32, units, first);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      Reach reach;
      for (int64_t u = 0; u < units; ++u) reach.take(load(first + u * tile_rows + r));
      const Float most = reach.of_lanes();
      const Mask tangents = problem.score.takes_tangents ? most <= splat(tangent_reach) : zero() != zero();
      const Float value = choose(tangents, most, larger(most, splat(problem.score.least_reach)));
      store(query + r, value);
      const Mask exponentials = value <= splat(largest_reach);
      for (int64_t u = 0; u < units; ++u) {
        const int64_t at = u * tile_rows + r;
        const Float unit = load(first + at);
        Float kept = choose(exponentials, query_exponential(unit), unit);
        Float term = -kept * splat(weight[u]);
        if (xsimd::any(tangents)) {
          kept = choose(tangents, tanh_register(unit), kept);
          term = choose(tangents, kept * splat(weight[u]), term);
        }
        store(first + at, kept);
        store(second + at, term);
      }
    }
    for (int64_t r = table.count; r < table.vectors * lanes; ++r) query[r] = query[0];  // no form of their own
  }

  // The same of a band of one row: lanes are units. Its other lanes hold what the first one does.
  FOVEA_NOINLINE static void load_one_row(const AttentionProblem &problem, const float *row, float *query) {
    const int64_t units = padded_units(problem.sizes.compared_dim);
    const Layout layout(units);
    Reach reach;
    for (int64_t u = 0; u < units; u += lanes) reach.take(load(row + u));
    const float most = reach.of_all(), least = problem.score.least_reach;
    const bool tangents = problem.score.takes_tangents && most <= tangent_reach;
    const float value = tangents || most >= least ? most : least;
    store(query, splat(value));
    alignas(64) float kept[lanes], terms[lanes];
    for (int64_t u = 0; u < units; u += lanes) {
      const Float weight = load(problem.score.vector + u);
      Float unit = load(row + u);
      if (tangents) {
        unit = tanh_register(unit);
      } else if (value <= largest_reach) {
        unit = query_exponential(unit);
      }
      store(kept, unit);
      store(terms, tangents ? unit * weight : -unit * weight);
      for (int64_t i = 0; i < lanes; ++i) {
        store(query + layout.first + (u + i) * tile_rows, splat(kept[i]));
        store(query + layout.second + (u + i) * tile_rows, splat(terms[i]));
      }
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t units = padded_units(job.problem.sizes.compared_dim);
    const Forms forms(job);
    for (int64_t begin = 0; begin < units; begin += long_sum) {
      const int64_t end = min_of(begin + long_sum, units);
      const Sums sums = {begin == 0 ? job.tile.scores : job.query + Layout(units).sums, begin};
      for (int64_t u = begin; u < end; u += chunk) score_chunk({job, forms, sums, u, min_of(chunk, end - u)});
      if (begin == 0) continue;
      job.tile.for_each([&](const Float &score, int64_t j, int64_t r)
                            FOVEA_INLINE_BODY { return score + load(sums.scores + j * tile_rows + r); });
    }
  }

  FOVEA_NOINLINE static bool gradient(const GradientJob<tile_rows> &job) {
    const Layout layout(padded_units(job.score.problem.sizes.compared_dim));
    float *query = job.score.query;
    const AdditiveUnits units = {query, query + layout.first, query + layout.row_copies, query + layout.key_copies};
    if (job.score.table.count == 1) {
      AdditiveRowGradients{job, units}.run();
    } else {
      AdditiveGradients(job, units).run();
    }
    return false;
  }

 private:
  // The keys of the tile, by the form that they take against the band's rows.
  struct Forms {
    const bool share;  // a reciprocal
    bool tangent_rows = false, exponential_rows = false, other_rows = false;
    // Keys that hold tangents or exponentials, and those that some row meets in a form of its own.
    int16_t tangent[tile_keys], exponential[tile_keys], mixed[tile_keys];
    int64_t tangents = 0, exponentials = 0, mixeds = 0;

    FOVEA_INLINE explicit Forms(const ScoreJob<tile_rows> &job) : share(may_share(job.problem)) {
      const float most = share ? shared_reach : largest_reach;
      for (int64_t r = 0; r < job.table.count; ++r) {
        const float reach = job.query[r];
        tangent_rows = tangent_rows || reach <= tangent_reach;
        exponential_rows = exponential_rows || (reach > tangent_reach && reach <= most);
        other_rows = other_rows || !(reach <= most);
      }
      for (int64_t j = 0; j < job.tile.keys; ++j) {
        const float reach = job.key_scalar(j);
        const auto key = static_cast<int16_t>(j);
        if (!other_rows && reach <= tangent_reach) {
          tangent[tangents++] = key;
        } else if (!other_rows && reach <= most) {
          exponential[exponentials++] = key;
        } else {
          mixed[mixeds++] = key;
        }
      }
    }
  };

  // Where the chunks from `begin` on are summed.
  struct Sums {
    float *scores;
    int64_t begin;
  };

  // `units` units from u on.
  struct Chunk {
    const ScoreJob<tile_rows> &job;
    const Forms &forms;
    const Sums &sums;
    int64_t u, units;

    FOVEA_INLINE int64_t present() const { return min_of(units, job.problem.sizes.compared_dim - u); }
    FOVEA_INLINE bool starts() const { return u == sums.begin; }
    FOVEA_INLINE Layout layout() const { return Layout(padded_units(job.problem.sizes.compared_dim)); }
    FOVEA_INLINE const float *key(int64_t j) const { return job.keys.row(j) + u; }
    FOVEA_INLINE float *score(int64_t j, int64_t v) const { return sums.scores + j * tile_rows + v * lanes; }
  };

  // The chunk's units of all rows, two floats each as in Layout.
  struct RowUnits {
    const float *first, *second;
  };
  FOVEA_INLINE static RowUnits row_units(const Chunk &chunk) {
    const Layout layout = chunk.layout();
    return {chunk.job.query + layout.first + chunk.u * tile_rows,
            chunk.job.query + layout.second + chunk.u * tile_rows};
  }

  // Some keys of the tile.
  struct Keys {
    const int16_t *index;
    int64_t count;
    bool copied;    // as exponentials
    bool tangents;  // the keys hold tangents
  };

  FOVEA_INLINE static void score_chunk(const Chunk &chunk) {
    const Forms &forms = chunk.forms;
    const RowUnits rows = row_units(chunk);
    const bool copies_rows = forms.tangent_rows && forms.exponentials + forms.mixeds > 0;
    const RowUnits exponentials = copies_rows ? copy_rows(chunk) : rows;
    score_exponentials(chunk, exponentials, {forms.exponential, forms.exponentials, false, false});
    if (forms.tangent_rows) {
      score_in_blocks<UnitForm::tangent>(chunk, rows, {forms.tangent, forms.tangents, false, true});
    }
    if (forms.exponential_rows && forms.tangents > 0) {
      copy_keys(chunk, forms.tangent, forms.tangents);
      score_exponentials(chunk, rows, {forms.tangent, forms.tangents, true, true});
    }
    if (forms.mixeds == 0) return;
    copy_keys(chunk, forms.mixed, forms.mixeds);
    for (int64_t i = 0; i < forms.mixeds; ++i) score_mixed(chunk, rows, exponentials, forms.mixed[i]);
  }

  // A copy of the chunk's rows in which tangents have become exponentials.
  FOVEA_NOINLINE static RowUnits copy_rows(const Chunk &chunk) {
    const RowUnits rows = row_units(chunk);
    float *first = chunk.job.query + chunk.layout().row_copies;
    float *second = first + AdditiveManyRows::chunk * tile_rows;
    for (int64_t r = 0; r < chunk.job.tile.vectors * lanes; r += lanes) {
      const Mask tangents = load(chunk.job.query + r) <= splat(tangent_reach);
      for (int64_t i = 0; i < chunk.units; ++i) {
        const Float unit = load(rows.first + i * tile_rows + r);
        const Float exponential = exponential_of_tangent(-unit);
        const Float weighted = -exponential * splat(chunk.job.problem.score.vector[chunk.u + i]);
        store(first + i * tile_rows + r, choose(tangents, exponential, unit));
        store(second + i * tile_rows + r, choose(tangents, weighted, load(rows.second + i * tile_rows + r)));
      }
    }
    return {first, second};
  }

  FOVEA_INLINE static float *key_copy(const Chunk &chunk, int64_t j) {
    return chunk.job.query + chunk.layout().key_copies + j * AdditiveManyRows::chunk;
  }

  // Those of the keys that hold tangents, as exponentials.
  FOVEA_NOINLINE static void copy_keys(const Chunk &chunk, const int16_t *index, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (!(chunk.job.key_scalar(index[i]) <= tangent_reach)) continue;
      float *to = key_copy(chunk, index[i]);
      for (int64_t u = 0; u < chunk.units; u += lanes) {
        store(to + u, exponential_of_tangent(load(chunk.key(index[i]) + u)));
      }
    }
  }

  FOVEA_INLINE static float *key_product(const Chunk &chunk, int64_t j) {
    return chunk.job.query + chunk.layout().products + j * AdditiveManyRows::chunk;
  }

  // The units of a key times v.
  FOVEA_INLINE static void multiply_key(const Chunk &chunk, int64_t j, const float *key) {
    const float *weight = chunk.job.problem.score.vector + chunk.u;
    float *to = key_product(chunk, j);
    for (int64_t u = 0; u < chunk.units; u += lanes) store(to + u, load(key + u) * load(weight + u));
  }

  FOVEA_INLINE static const float *key_units(const Chunk &chunk, const Keys &keys, int64_t i) {
    const int64_t j = keys.index[i];
    return keys.copied ? key_copy(chunk, j) : chunk.key(j);
  }

  FOVEA_INLINE static void score_exponentials(const Chunk &chunk, const RowUnits &rows, const Keys &keys) {
    if (chunk.forms.share) {
      score_in_blocks<UnitForm::shared>(chunk, rows, keys);
    } else {
      score_in_blocks<UnitForm::corrected>(chunk, rows, keys);
    }
  }

  template <UnitForm form>
  FOVEA_INLINE static void score_in_blocks(const Chunk &chunk, const RowUnits &rows, const Keys &keys) {
    constexpr int rest = 4;  // the last key more than once if there are fewer
    int64_t i = 0;
    if constexpr (shares_reciprocals<form>) {
      if (chunk.job.table.count == 1) return score_one_row<form>(chunk, rows, keys);
      for (; i < keys.count; ++i) multiply_key(chunk, keys.index[i], key_units(chunk, keys, i));
    }
    for (i = 0; i + key_block <= keys.count; i += key_block) score_block<form, key_block>(chunk, rows, keys, i);
    for (; i < keys.count; i += rest) score_block<form, rest>(chunk, rows, keys, i);
  }

  // The same scores of a band of one row, whose other lanes would be idle: lanes are keys, whose units are turned around
  // in squares. A score is made of the same terms in the same order.
  template <UnitForm form>
  FOVEA_NOINLINE static void score_one_row(const Chunk &chunk, const RowUnits &rows, const Keys &keys) {
    const float *weight = chunk.job.problem.score.vector + chunk.u;
    for (int64_t i = 0; i < keys.count; i += lanes) {
      const int64_t count = min_of(lanes, keys.count - i);
      if (chunk.u == 0 && !keys.copied) chunk.job.next.fetch(keys.index[i], count);
      const float *key[lanes];
      unroll<lanes>([&](auto y) FOVEA_INLINE_BODY { key[y] = key_units(chunk, keys, min_of(i + y, keys.count - 1)); });
      Float sum = zero();
      for (int64_t u = 0; u < chunk.units; u += lanes) {
        Square square;
        unroll<lanes>([&](auto y) FOVEA_INLINE_BODY { square.row[y] = load(key[y] + u); });
        transpose(square);
        unroll<lanes / units_at_once>([&](auto four) FOVEA_INLINE_BODY {
          Float w[units_at_once];
          Float d[units_at_once];
          unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
            const Float &unit = square.row[four * units_at_once + k];
            const int64_t at = u + four * units_at_once + k;
            const UnitTerms<form> terms = {splat(rows.first[at * tile_rows]), splat(rows.second[at * tile_rows])};
            w[k] = terms.numerator(unit * splat(weight[at]));
            d[k] = terms.denominator(unit);
          });
          sum = add_quotients(w, d, sum);
        });
      }
      alignas(64) float sums[lanes];
      store(sums, sum);
      for (int64_t y = 0; y < count; ++y) {
        float *score = chunk.score(keys.index[i + y], 0);
        store(score, add_chunk(chunk, splat(*score), splat(sums[y])));
      }
    }
  }

  // Where keys hold tangents each form writes only the rows it is for.
  template <UnitForm form>
  FOVEA_INLINE static Mask rows_written(const Chunk &chunk, const Keys &keys, int64_t v) {
    if (!keys.tangents) return zero() == zero();
    const Mask tangents = load(chunk.job.query + v * lanes) <= splat(tangent_reach);
    return form == UnitForm::tangent ? tangents : ~tangents;
  }

  template <UnitForm form, int count>
  FOVEA_NOINLINE static void score_block(const Chunk &chunk, const RowUnits &rows, const Keys &keys, int64_t i) {
    if (chunk.u == 0 && !keys.copied) chunk.job.next.fetch(keys.index[i], count);
    const float *key[count];
    const float *product[count];
    float *score[count];
    unroll<count>([&](auto y) FOVEA_INLINE_BODY {
      const int64_t at = min_of(i + y, keys.count - 1);
      key[y] = key_units(chunk, keys, at);
      product[y] = key_product(chunk, keys.index[at]);
      score[y] = chunk.score(keys.index[at], 0);
    });
    for (int64_t v = 0; v < chunk.job.tile.vectors; ++v) {
      const Mask written = rows_written<form>(chunk, keys, v);
      if (!xsimd::any(written)) continue;
      Float sum[count];
      sum_units<form, count>(chunk, rows, key, product, v, sum);
      unroll<count>([&](auto y) FOVEA_INLINE_BODY {
        const Float before = load(score[y] + v * lanes);
        sum[y] = choose(written, add_chunk(chunk, before, sum[y]), before);
      });
      unroll<count>([&](auto y) FOVEA_INLINE_BODY { store(score[y] + v * lanes, sum[y]); });
    }
  }

  FOVEA_INLINE static Float add_chunk(const Chunk &chunk, const Float &before, const Float &sum) {
    return chunk.starts() ? sum : before + sum;
  }

  // v tanh of a chunk's units, for `keys` keys.
  template <UnitForm form, int keys>
  FOVEA_INLINE static void sum_units(const Chunk &chunk, const RowUnits &rows, const float *const (&key)[keys],
                                     const float *const (&product)[keys], int64_t v, Float (&sum)[keys]) {
    const float *first = rows.first + v * lanes;
    const float *second = rows.second + v * lanes;
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY { sum[y] = zero(); });
    if constexpr (!shares_reciprocals<form>) {
      const float *weight = chunk.job.problem.score.vector + chunk.u;
      for (int64_t i = 0; i < chunk.present(); ++i) {
        const Float row = load(first + i * tile_rows);
        const Float v_i = splat(weight[i]);
        unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
          sum[y] = multiply_add(v_i, single_unit<form>(row, splat(key[y][i])), sum[y]);
        });
      }
      return;
    }
    for (int64_t i = 0; i < chunk.units; i += units_at_once) {
      UnitTerms<form> terms[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
        const int64_t at = (i + k) * tile_rows;
        terms[k] = {load(first + at), load(second + at)};
      });
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        Float w[units_at_once];
        Float d[units_at_once];
        unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
          w[k] = terms[k].numerator(splat(product[y][i + k]));
          d[k] = terms[k].denominator(splat(key[y][i + k]));
        });
        sum[y] = add_quotients(w, d, sum[y]);
      });
    }
  }

  template <UnitForm form>
  FOVEA_INLINE static Float sum_one(const Chunk &chunk, const RowUnits &rows, int64_t j, const float *key, int64_t v,
                                    const Float &before) {
    const float *only[] = {key};
    const float *product[] = {key_product(chunk, j)};
    Float sum[1];
    if constexpr (shares_reciprocals<form>) multiply_key(chunk, j, key);
    sum_units<form>(chunk, rows, only, product, v, sum);
    return add_chunk(chunk, before, sum[0]);
  }

  // v tanh of a chunk's units where the row, the key or both are kept as they are.
  FOVEA_INLINE static Float sum_direct(const Chunk &chunk, const RowUnits &rows, bool row_is_exponential,
                                       const float *key, bool key_is_exponential, int64_t v) {
    Float sum = zero();
    for (int64_t i = 0; i < chunk.present(); ++i) {  // 0 * infinity must not come from padding
      const Float value = tanh_of_sum(load(rows.first + i * tile_rows + v * lanes), row_is_exponential, splat(key[i]),
                                      key_is_exponential);
      sum = multiply_add(splat(chunk.job.problem.score.vector[chunk.u + i]), value, sum);
    }
    return sum;
  }

  // One key against all rows, each in the form that it and the key ask for.
  FOVEA_NOINLINE static void score_mixed(const Chunk &chunk, const RowUnits &rows, const RowUnits &exponentials,
                                         int64_t j) {
    if (chunk.u == 0) chunk.job.next.fetch(j, 1);
    const float fact = chunk.job.key_scalar(j);
    const float *key = fact <= tangent_reach ? key_copy(chunk, j) : chunk.key(j);
    const bool key_is_exponential = fact <= largest_reach;
    for (int64_t v = 0; v < chunk.job.tile.vectors; ++v) {
      const Float row_reach = load(chunk.job.query + v * lanes);
      const Float reach = larger(larger(row_reach, splat(fact)), splat(chunk.job.problem.score.least_reach));
      const Mask tangent = larger(row_reach, splat(fact)) <= splat(tangent_reach);
      const Mask shared = (reach <= splat(shared_reach)) & ~tangent;
      const Mask exponential_rows = row_reach <= splat(largest_reach);
      const Mask single = (reach <= splat(largest_reach)) & ~shared & ~tangent;
      const Mask direct = ~(tangent | shared | single);
      float *at = chunk.score(j, v);
      const Float before = load(at);
      Float score = before;
      const auto take = [&](const Mask &rows_of_form, const auto &value) FOVEA_INLINE_BODY {
        if (xsimd::any(rows_of_form)) score = choose(rows_of_form, value(), score);
      };
      take(tangent,
           [&]() FOVEA_INLINE_BODY { return sum_one<UnitForm::tangent>(chunk, rows, j, chunk.key(j), v, before); });
      take(shared,
           [&]() FOVEA_INLINE_BODY { return sum_one<UnitForm::shared>(chunk, exponentials, j, key, v, before); });
      take(single, [&]() FOVEA_INLINE_BODY {
        return chunk.forms.share ? sum_one<UnitForm::single>(chunk, exponentials, j, key, v, before)
                                 : sum_one<UnitForm::corrected>(chunk, exponentials, j, key, v, before);
      });
      take(direct & exponential_rows, [&]() FOVEA_INLINE_BODY {
        return add_chunk(chunk, before, sum_direct(chunk, exponentials, true, key, key_is_exponential, v));
      });
      take(direct & ~exponential_rows, [&]() FOVEA_INLINE_BODY {
        return add_chunk(chunk, before, sum_direct(chunk, exponentials, false, key, key_is_exponential, v));
      });
      store(at, score);
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
