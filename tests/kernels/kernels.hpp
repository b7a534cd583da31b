// Kernels called directly, as the library's own table has them: what is new there can be tested before anything calls
// it. Operands lie between guard pages, flush with one or the other, so that reading or writing past a tail stops the
// test.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/dispatch.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

namespace testing {

// body(kernels) for each table the machine can run, with memory that ends before a guard page and with memory that
// begins behind one, not aligned to more than a float.
template <typename Body>
void for_each_table(Body body) {
  for (const std::string &isa : instruction_sets()) {
    const fovea::Kernels *kernels = nullptr;
    REQUIRE_EQ(fovea::select_kernels(isa.c_str(), "isa", &kernels), FOVEA_OK);
    for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      const std::string where = isa + ", " + placement_name(placement);
      CAPTURE(where);
      body(*kernels);
    }
  }
}

// Kernels of a score function that multiply pairs of bfloat16; null: the table or this processor has none.
inline const fovea::AttentionKernels *pairs_of(const fovea::Kernels &table, fovea::ScoreKind score) {
  for (const fovea::AttentionRow &row : fovea::attention_rows) {
    const bool pairs = row.score == score && row.kernels->reads_pairs;
    if (pairs && (row.needs & ~(table.allowed & fovea::cpu_features())) == 0) return row.kernels;
  }
  return nullptr;
}

// Floats in memory of their own, filled at once.
class Floats {
 public:
  explicit Floats(const std::vector<float> &values) : Floats(static_cast<int64_t>(values.size())) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(float));
  }
  explicit Floats(int64_t count) : count_(count), memory_(static_cast<size_t>(count) * sizeof(float), sizeof(float)) {
    std::fill(data(), data() + count, kNan);  // what is not written shows
  }
  float *data() const { return reinterpret_cast<float *>(memory_.data()); }
  float *or_null(bool given) const { return given ? data() : nullptr; }
  int64_t count() const { return count_; }
  std::vector<float> values() const { return {data(), data() + count_}; }

 private:
  int64_t count_;
  GuardedMemory memory_;
};

inline std::vector<float> normals(int64_t count, Random &random, float factor = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) value = random.normal() * factor;
  return values;
}

// Every element within its bound of the truth; NaN and infinities where the truth has them.
inline std::string judge_within(const std::vector<float> &actual, const std::vector<double> &truth,
                                const std::vector<double> &bounds) {
  if (actual.size() != truth.size() || bounds.size() != truth.size()) return "sizes differ";
  for (size_t n = 0; n < actual.size(); ++n) {
    const bool fits = std::isfinite(truth[n]) ? std::abs(actual[n] - truth[n]) <= bounds[n]
                                              : (std::isnan(truth[n]) ? std::isnan(actual[n]) : actual[n] == truth[n]);
    if (!fits) {
      return "element " + std::to_string(n) + " is " + std::to_string(actual[n]) + ", expected " +
             std::to_string(truth[n]) + " within " + std::to_string(bounds[n] / kEpsilon) + " roundings of 1";
    }
  }
  return "";
}

// Bounds of so many roundings of each value's size, and of 1.
inline std::vector<double> roundings(const std::vector<double> &truth, double of_values, double of_one = 0) {
  std::vector<double> bounds;
  for (const double value : truth) bounds.push_back(kEpsilon * (of_values * std::abs(value) + of_one) + 0x1p-140);
  return bounds;
}

}  // namespace testing

#define CHECK_WITHIN(actual, truth, bounds) CHECK_EQ(testing::judge_within((actual), (truth), (bounds)), "")
