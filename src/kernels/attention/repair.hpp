// Rows of attention that came out not finite although their weights are, computed again (attention/driver.hpp). Either
//
//   values behind a mask   have weight 0, but 0 * NaN is NaN: the row goes by itself, with the masked values taken as 0
//   sums before they are   left float32's range where their quotients do not: weights meet the values times 2^-31, which no
//   divided                sum outgrows. What that makes subnormal is nothing beside sums of 2^128
//
// and what comes out has the very bits that it would have had. Where all values that a task reads are finite it was the
// second, and all its rows are computed again together.
#pragma once

#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/logit_terms.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// How a task's driver goes through rows again.
struct Again {
  bool goes = false;            // else for the first time
  float share = 1.0f;           // of each weight that meets a value
  bool spares_masked = false;   // masked values are taken as 0
  bool attends_finite = false;  // and all others were finite
};

// A tile of weights times `share`.
FOVEA_NOINLINE void take_share(const ScoreTile &tile, float share) {
  const Float factor(share);
  if (tile.stride >= lanes) {
    return tile.for_each([&](const Float &weight, int64_t, int64_t) FOVEA_INLINE_BODY { return weight * factor; });
  }
  for (int64_t i = 0; i < tile.keys * tile.stride; i += lanes) {
    store(tile.scores + i, load(tile.scores + i) * factor);
  }
}

// `count` values from row `first` on, or what pairs are made of if they are taken in pairs, without the masked ones.
template <class Path, class Driver>
FOVEA_INLINE RowSpan harmless_values(Driver &driver, int64_t first, int64_t count, const bool *masked) {
  const HeadSource &values = driver.values;
  const int64_t value_dim = values.dim;
  for (int64_t j = 0; j < count; ++j) {
    driver.again.attends_finite =
        driver.again.attends_finite && (masked[j] || values.are_finite(first + j, first + j + 1));
  }
  if constexpr (Path::takes_bytes) {
    return driver.values.template span<true>(first, count);
  } else if constexpr (Path::takes_pairs) {
    auto *rows = reinterpret_cast<uint16_t *>(driver.harmless);
    for (int64_t j = 0; j < count; ++j) {
      const size_t bytes = static_cast<size_t>(value_dim) * sizeof(uint16_t);
      uint16_t *to = rows + j * value_dim;
      if (masked[j]) memset(to, 0, bytes);
      if (!masked[j]) values.gather(first + j, 1, to);
    }
    if constexpr (Path::is_few_rows) return {rows, value_dim, count, values.dtype};
    float *pairs = driver.harmless + Driver::harmless_keys / 2 * value_dim;
    pair_rows(rows, value_dim, count, value_dim, pairs);
    return {pairs, value_dim, count};
  } else {
    for (int64_t j = 0; j < count; ++j) {
      float *to = driver.harmless + j * value_dim;
      if (masked[j]) memset(to, 0, static_cast<size_t>(value_dim) * sizeof(float));
      if (!masked[j]) values.float_row(first + j, to);
    }
    return {driver.harmless, value_dim, count};
  }
}

// Path::add_values of a single row, with masked values taken as 0.
template <class Path, class Driver>
FOVEA_NOINLINE void add_harmless_values(Driver &driver, typename Driver::Band &band, const ScoreTile &tile,
                                        const bool *masked) {
  alignas(64) float rescale[Driver::rows] = {band.state.rescale[0]};
  for (int64_t first = 0; first < tile.keys;) {
    ScoreTile part = tile;
    part.scores += first * tile.stride;
    part.key += first;
    part.keys = min_of(Driver::harmless_keys - part.key % Driver::harmless_keys, tile.keys - first);
    const RowSpan values = harmless_values<Path>(driver, part.key, part.keys, masked + first);
    if constexpr (Path::takes_bytes) Path::mark_masked(part, masked + first);
    Path::add_values(band.out, values, driver.problem.sizes.value_dim, 1, part, rescale);
    rescale[0] = 1.0f;
    first += part.keys;
  }
}

// First masked values may have been what was wrong, then sums, unless a value that is attended was.
template <class Driver>
FOVEA_NOINLINE void repair_row(Driver &driver, int64_t row) {
  for (const float share : {1.0f, least_share}) {
    alignas(64) float finite[Driver::rows] = {NAN};
    driver.again = {.goes = true, .share = share, .spares_masked = true, .attends_finite = true};
    driver.attend(row, 1);
    driver.store_outputs(driver.bands[0], finite);
    if (finite[0] == 0.0f || !driver.again.attends_finite) return;
  }
}

template <class Driver>
FOVEA_NOINLINE void repair_rows(Driver &driver, bool masked, float *finite) {
  int64_t first = driver.last_key;
  for (int64_t b = 0; b < driver.band_count; ++b) {
    const KeyRange &any = driver.bands[b].table.any;
    if (any.first < any.last) first = min_of(first, driver.first_key(driver.bands[b]));
  }
  if (driver.values.are_finite(first, driver.last_key)) {
    driver.again = {.goes = true, .share = least_share};
    driver.attend(driver.task.row_begin, driver.task.row_count);
    for (int64_t b = 0; b < driver.band_count; ++b) {
      driver.store_outputs(driver.bands[b], finite + b * Driver::rows);
    }
    return;
  }
  for (int64_t r = 0; masked && r < driver.task.row_count; ++r) {
    if (finite[r] != 0.0f) repair_row(driver, driver.task.row_begin + r);
  }
}

// Whether a row was not finite. No repair helps one whose weights are not.
template <class Driver>
FOVEA_NOINLINE bool some_to_repair(const Driver &driver, float *finite) {
  bool some = false;
  for (int64_t b = 0; b < driver.band_count; ++b) {
    const auto &state = driver.bands[b].state;
    for (int64_t r = 0; r < driver.bands[b].row_count; ++r) {
      float &its = finite[b * Driver::rows + r];
      if (state.sum[r] == 0.0f || state.sum[r] != state.sum[r]) its = 0.0f;
      some = some || its != 0.0f;
    }
  }
  return some;
}

// finite: of all the task's rows, as store_outputs leaves it. Uses up the bands.
template <class Driver>
FOVEA_INLINE void repair(Driver &driver, bool masked, float *finite) {
  bool wrong = false;
  for (int64_t b = 0; b < driver.band_count; ++b) {
    for (int64_t r = 0; r < driver.bands[b].row_count; ++r) wrong = wrong | (finite[b * Driver::rows + r] != 0.0f);
  }
  if (wrong && some_to_repair(driver, finite)) repair_rows(driver, masked, finite);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
