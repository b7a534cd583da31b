// The additive (and concat) score, few rows: lanes are units. Bound by the bytes of the prepared keys, or by the same
// instructions as for many rows when they are in cache. A tile is checked at once for keys and rows that ask for
// another form: one key after the other, the checks would take more than they save.
#pragma once

#if defined(__AVX2__)
#include "beyond_xsimd/sum_four.hpp"
#endif
#include "kernels/attention/few_rows.hpp"
#include "kernels/scores/additive_units.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveFewRows : FewRowsValues {
  static constexpr int streams = 4;  // keys at once, a quarter of the tile apart
  // Units that are added in one chain: a quarter as many sums.
  static constexpr int64_t chain = short_chain * lanes;

  // The rows' reaches; what is kept of each row's units, two floats for each as in AdditiveManyRows, and two more as
  // exponentials of a row that holds tangents.
  static constexpr int64_t rows_at = tile_rows;
  static constexpr int64_t query_floats(int64_t head_dim) { return rows_at + 4 * padded_units(head_dim) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.sizes.compared_dim);
    const float *weight = problem.score.vector;
    for (int64_t r = 0; r < table.count; ++r) {
      const auto *from = static_cast<const float *>(table.query[r]);
      float *exponentials = query + rows_at + r * 4 * units;
      float *tangents = exponentials + 2 * units;
      Reach reach;
      for (int64_t u = 0; u < units; u += lanes) {
        const Float unit = load(from + u);
        const Float exponential = query_exponential(unit);
        reach.take(unit);
        store(exponentials + u, exponential);
        store(exponentials + units + u, -exponential * load(weight + u));
      }
      const float most = reach.of_all();
      if (problem.score.takes_tangents && most <= tangent_reach) {
        query[r] = most;
        for (int64_t u = 0; u < units; u += lanes) {
          const Float tangent = tanh_register(load(from + u));
          store(tangents + u, tangent);
          store(tangents + units + u, tangent * load(weight + u));
        }
      } else {
        query[r] = most <= problem.score.least_reach ? problem.score.least_reach : most;
        if (!(query[r] <= largest_reach)) memcpy(exponentials, from, static_cast<size_t>(units) * sizeof(float));
      }
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    switch (form_of_all(job)) {
      case UnitForm::tangent: return score_streams<UnitForm::tangent>(job);
      case UnitForm::shared: return score_streams<UnitForm::shared>(job);
      default: return score_one_by_one(job);
    }
  }

 private:
  FOVEA_INLINE static const float *key_of(const ScoreJob<tile_rows> &job, int64_t j) { return job.keys.row(j); }
  FOVEA_INLINE static float *score_of(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    return job.tile.scores + j * job.tile.stride + r;
  }
  template <UnitForm form>
  FOVEA_INLINE static const float *query_of(const ScoreJob<tile_rows> &job, int64_t r) {
    const int64_t units = padded_units(job.problem.sizes.compared_dim);
    return job.query + rows_at + (4 * r + (form == UnitForm::tangent ? 2 : 0)) * units;
  }

  // What all rows and keys of the tile ask for; `direct` if not the same.
  FOVEA_INLINE static UnitForm form_of_all(const ScoreJob<tile_rows> &job) {
    float row_reach = job.query[0];
    for (int64_t r = 1; r < job.table.count; ++r) row_reach = job.query[r] > row_reach ? job.query[r] : row_reach;
    const float *scalars = job.key_scalars + job.tile.key;
    Float most = splat(scalars[0]);
    Float least = most;
    int64_t j = 0;
    for (; j + lanes <= job.tile.keys; j += lanes) {
      most = larger(load(scalars + j), most);
      least = xsimd::min(load(scalars + j), least);
    }
    if (j < job.tile.keys) {
      const Float rest = choose(lanes_below(job.tile.keys - j), load_partial(scalars + j, job.tile.keys - j), least);
      most = larger(rest, most);
      least = xsimd::min(rest, least);
    }
    const UnitForm form = unit_form(row_reach, horizontal_max(most), job.problem);
    // Rows of tangents are kept as exponentials, too; keys are not.
    if (form == UnitForm::shared && !(xsimd::reduce_min(least) > tangent_reach)) return UnitForm::direct;
    return form;
  }

  struct KeyIndices {
    int64_t at[streams];
  };

  template <UnitForm form>
  FOVEA_NOINLINE static void score_streams(const ScoreJob<tile_rows> &job) {
    const int64_t ahead = job.keys.ahead<float>(keys_ahead(padded_units(job.problem.sizes.compared_dim)));
    const int64_t stream_keys = job.tile.keys / streams;
    for (int64_t j = 0; j < stream_keys; ++j) {
      score_keys<form>(job, {j, j + stream_keys, j + 2 * stream_keys, j + 3 * stream_keys}, ahead);
    }
    if (stream_keys * streams < job.tile.keys) score_rest<form>(job, stream_keys * streams, ahead);
  }

  template <UnitForm form>
  FOVEA_INLINE static void score_keys(const ScoreJob<tile_rows> &job, const KeyIndices &index, int64_t ahead) {
    const float *key[streams];
    unroll<streams>([&](auto i) FOVEA_INLINE_BODY { key[i] = key_of(job, index.at[i]); });
    for (int64_t r = 0; r < job.table.count; ++r) {
      Float sum[streams];
      float scores[streams];
      sum_quotients<form>(job, key, r, ahead, sum);
      finish(sum, scores);
      unroll<streams>([&](auto i) FOVEA_INLINE_BODY { *score_of(job, index.at[i], r) = scores[i]; });
    }
  }

  // The tile's last keys, fewer than there are streams.
  template <UnitForm form>
  FOVEA_NOINLINE static void score_rest(const ScoreJob<tile_rows> &job, int64_t first, int64_t ahead) {
    const int64_t last = job.tile.keys - 1;
    score_keys<form>(job, {first, min_of(first + 1, last), min_of(first + 2, last), last}, ahead);
  }

  // A tile with keys or rows of different forms.
  FOVEA_NOINLINE static void score_one_by_one(const ScoreJob<tile_rows> &job) {
    for (int64_t j = 0; j < job.tile.keys; ++j) {
      for (int64_t r = 0; r < job.table.count; ++r) *score_of(job, j, r) = score_one(job, j, r);
    }
  }

  FOVEA_INLINE static float score_one(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const bool tangents = job.key_scalar(j) <= tangent_reach;
    switch (unit_form(job.query[r], job.key_scalar(j), job.problem)) {
      case UnitForm::tangent: return score_alone<UnitForm::tangent, false>(job, j, r);
      case UnitForm::shared:
        return tangents ? score_alone<UnitForm::shared, true>(job, j, r)
                        : score_alone<UnitForm::shared, false>(job, j, r);
      case UnitForm::single: return horizontal_sum(sum_single<UnitForm::single>(job, j, r));
      case UnitForm::corrected: return horizontal_sum(sum_single<UnitForm::corrected>(job, j, r));
      case UnitForm::direct: return horizontal_sum(sum_direct(job, j, r));
    }
    return 0.0f;
  }

  // In the order of score_keys: a score must not depend on the keys it is computed with.
  template <UnitForm form, bool converts>
  FOVEA_NOINLINE static float score_alone(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *key[] = {key_of(job, j)};
    Float sum[1];
    float scores[streams];
    sum_quotients<form, converts>(job, key, r, 0, sum);
    finish({sum[0], sum[0], sum[0], sum[0]}, scores);
    return scores[0];
  }

  FOVEA_INLINE static void finish(const Float (&sum)[streams], float *scores) {
#if defined(__AVX2__)
    sum_four(sum, scores);
#else
    Square square;
    unroll<streams>([&](auto i) FOVEA_INLINE_BODY { square.row[i] = sum[i]; });
    store(scores, sum_rows(square));
#endif
  }

  // v tanh of all units; of keys' tangents exponentials are made where wanted.
  template <UnitForm form, bool converts = false, int keys>
  FOVEA_INLINE static void sum_quotients(const ScoreJob<tile_rows> &job, const float *const (&key)[keys], int64_t r,
                                         int64_t ahead, Float (&sum)[keys]) {
    const int64_t units = padded_units(job.problem.sizes.compared_dim);
    sum_chain<form, converts>(job, key, r, ahead, 0, min_of(chain, units), sum);
    for (int64_t u = chain; u < units; u += chain) {
      Float more[keys];
      sum_chain<form, converts>(job, key, r, ahead, u, min_of(u + chain, units), more);
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY { sum[y] = sum[y] + more[y]; });
    }
  }

  template <UnitForm form, bool converts, int keys>
  FOVEA_INLINE static void sum_chain(const ScoreJob<tile_rows> &job, const float *const (&key)[keys], int64_t r,
                                     int64_t ahead, int64_t begin, int64_t end, Float (&sum)[keys]) {
    const float *first = query_of<form>(job, r);
    const float *second = first + padded_units(job.problem.sizes.compared_dim);
    const float *weight = job.problem.score.vector;
    const auto terms_at = [&](int64_t u) FOVEA_INLINE_BODY {
      return UnitTerms<form>{load(first + u), load(second + u)};
    };
    const auto unit = [&](int y, int64_t u) FOVEA_INLINE_BODY {
      const Float kept = load(key[y] + u);
      return converts ? exponential_of_tangent(kept) : kept;
    };
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
      sum[y] = zero();
      if (begin == 0) prefetch_row<ask_for(1)>(key[y] + ahead, padded_units(job.problem.sizes.compared_dim));
    });
    int64_t u = begin;
    for (; u + units_at_once * lanes <= end; u += units_at_once * lanes) {
      UnitTerms<form> terms[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY { terms[k] = terms_at(u + k * lanes); });
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        Float w[units_at_once];
        Float d[units_at_once];
        unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
          if constexpr (k * lanes % line_floats == 0) prefetch_line<ask_for(1)>(key[y] + u + k * lanes + ahead);
          const Float of_key = unit(y, u + k * lanes);
          w[k] = multiply_add(load(weight + u + k * lanes), of_key, terms[k].second);
          d[k] = terms[k].denominator(of_key);
        });
        sum[y] = add_quotients(w, d, sum[y]);
      });
    }
    for (; u < end; u += lanes) {
      const UnitTerms<form> terms = terms_at(u);
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        const Float of_key = unit(y, u);
        sum[y] = multiply_add(multiply_add(load(weight + u), of_key, terms.second),
                              reciprocal(terms.denominator(of_key)), sum[y]);
      });
    }
  }

  // A register of a key's units as they are kept, or as exponentials in place of tangents.
  FOVEA_INLINE static Float key_units(const ScoreJob<tile_rows> &job, int64_t j, int64_t u) {
    const Float kept = load(key_of(job, j) + u);
    return job.key_scalar(j) <= tangent_reach ? exponential_of_tangent(kept) : kept;
  }

  // Sums of a form with a reciprocal for each unit, in chains.
  template <class Term>
  FOVEA_INLINE static Float sum_terms(int64_t units, const Term &term) {
    Float sum = zero();
    for (int64_t begin = 0; begin < units; begin += short_chain * lanes) {
      Float part = zero();
      for (int64_t u = begin; u < min_of(begin + short_chain * lanes, units); u += lanes) part = part + term(u);
      sum = sum + part;
    }
    return sum;
  }

  template <UnitForm form>
  FOVEA_NOINLINE static Float sum_single(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *query = query_of<form>(job, r);
    return sum_terms(padded_units(job.problem.sizes.compared_dim), [&](int64_t u) FOVEA_INLINE_BODY {
      return load(job.problem.score.vector + u) * single_unit<form>(load(query + u), key_units(job, j, u));
    });
  }

  FOVEA_NOINLINE static Float sum_direct(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *query = query_of<UnitForm::direct>(job, r);
    const int64_t units = job.problem.sizes.compared_dim;
    return sum_terms(units, [&](int64_t u) FOVEA_INLINE_BODY {
      const Float value = tanh_of_sum(load(query + u), job.query[r] <= largest_reach, key_units(job, j, u),
                                      job.key_scalar(j) <= largest_reach);
      const Float product = load(job.problem.score.vector + u) * value;
      return choose(lanes_below(units - u), product, zero());  // 0 * infinity must not come from padding
    });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
