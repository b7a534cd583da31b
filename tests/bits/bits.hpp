// The table of calls whose results are pinned bit by bit: what a row is, the numbers it is given, the hash of what it
// gives. Everything goes through the C interface, so that the table outlives whatever is rebuilt behind it.
#pragma once

#include <fovea/fovea.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/attention_problem.hpp"
#include "support/ragged.hpp"
#include "support/tensor.hpp"

namespace testing {

// FNV-1a, a word at a time. Every NaN counts as the same one: which of several reaches a result is not promised, nor is
// its sign. 0 and -0 differ.
class Digest {
 public:
  void add(uint32_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
  void add(float number) {
    uint32_t word = 0x7fc00000;
    if (number == number) std::memcpy(&word, &number, sizeof word);
    add(word);
  }
  // The elements in row-major order, whatever the strides.
  void add(const Tensor<float> &tensor) {
    for (const int64_t size : tensor.shape()) add(static_cast<uint32_t>(size));
    if (tensor.strides() == contiguous_strides(tensor.shape())) {
      const float *at = tensor.data();
      for (int64_t n = 0; n < tensor.count(); ++n) add(at[n]);
    } else {
      for (const float number : tensor.dense()) add(number);
    }
  }
  void add(const AttentionResult &result) {
    add(result.out);
    if (result.log_sum_exp) add(*result.log_sum_exp);
    if (result.weights) add(*result.weights);
  }
  void add(const std::vector<unsigned char> &bytes) {
    for (const unsigned char byte : bytes) add(uint32_t{byte});
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// Numbers that are the same everywhere: a counter through the finaliser of SplitMix64 (Steele, Lea and Flood 2014), and
// from integers to floats exactly. Those of the standard library differ from one to the next.
class Numbers {
 public:
  // A row's numbers go by its name, so that no other row changes them.
  explicit Numbers(const std::string &name) {
    for (const char letter : name) state_ = (state_ ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }

  uint64_t word() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [-2, 2) as a rule; one in 16 is up to 8 times as large, one in 16 a thousandth.
  float next() {
    const uint64_t bits = word();
    const float number = static_cast<float>(static_cast<int64_t>(bits >> 40) - (int64_t{1} << 23)) * 0x1p-22F;
    if ((bits & 15) == 0) return number * static_cast<float>(1 << (bits >> 4 & 3));
    return (bits & 15) == 1 ? number * 0x1p-10F : number;
  }
  // In [low, high], both whole.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(word() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t one_in) { return integer(1, one_in) == 1; }

  // Elements in row-major order, whatever the strides.
  Tensor<float> tensor(const Shape &shape, float factor = 1) {
    return tensor(shape, contiguous_strides(shape), factor);
  }
  Tensor<float> tensor(const Shape &shape, const Shape &strides, float factor = 1) {
    return fill(Tensor<float>(shape, strides), factor);
  }
  Tensor<float> fill(Tensor<float> made, float factor = 1) {
    if (made.strides() == contiguous_strides(made.shape())) {
      for (int64_t n = 0; n < made.count(); ++n) made.data()[n] = next() * factor;
    } else {
      made.fill([&] { return next() * factor; });
    }
    return made;
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

// A power of two about 1 / sqrt(size), for weights whose sums over `size` inputs are then of the inputs' size.
inline float weight_factor(int64_t size) {
  float factor = 1;
  while (factor * factor * static_cast<float>(size) > 1) factor /= 2;
  return factor;
}

// Runs the call and adds all that it gives. Runs as often as wanted.
using BitsCall = std::function<void(const fovea_context *, Digest &)>;

struct BitsRow {
  std::string name;  // no blanks
  // Allocates the operands, in the placement of the moment.
  std::function<BitsCall()> make;
  bool projects = false;   // the queries or keys of a score function: "amx" has kernels of its own for that
  bool estimates = false;  // takes the processor's estimate of a reciprocal, where the instruction set has one
};

using BitsRows = std::vector<BitsRow>;

// A row for each group of neighbouring sizes, which runs the calls that `add` makes of each of them: an edge is where
// the neighbours differ, so one hash serves.
using Sweep = std::vector<std::vector<int64_t>>;
using AddOfSize = std::function<void(const std::string &name, int64_t size, BitsRows &rows)>;
void add_sweep(const std::string &name, const Sweep &sweep, const AddOfSize &add, BitsRows &rows);

// A call of attention, by its sizes and options. Everything that is not set is as make_attention has it.
struct AttentionRow {
  AttentionSizes sizes;
  std::function<void(AttentionProblem &, Numbers &)> options = {};
  bool weights = false;
  int32_t kind = FOVEA_SCORE_DOT;
  int64_t hidden = 16;
  float unit_factor = 1;  // of the hidden units: what decides on their form
  int rank = 4;
  Layout layout = Layout::kHeadsFirst;
};

AttentionProblem make_problem(const AttentionRow &row, Numbers &numbers);
// Parameters by which scores of numbers from Numbers are about 1 in size.
ScoreFunction make_score(const AttentionRow &row, Numbers &numbers);

// In one go, and planned, which has to give the same.
void add_attention(const std::string &name, const AttentionRow &row, BitsRows &rows);

// A step of sequences that have the row's sizes but for their lengths, and its options.
struct RaggedRow {
  std::vector<std::pair<int64_t, int64_t>> lengths;  // queries and keys of each sequence
  RaggedLayout layout = {};
  AttentionRow attention = {.sizes = {.heads = 6, .kv_heads = 2, .head_dim = 40, .value_dim = 24}};
};
void add_ragged(const std::string &name, const RaggedRow &row, BitsRows &rows);

inline bool projects_scores(int32_t kind) { return has_hidden(kind) || kind == FOVEA_SCORE_BILINEAR; }

// The table, by area.
void add_size_rows(BitsRows &rows);
void add_option_rows(BitsRows &rows);
void add_score_rows(BitsRows &rows);
void add_product_rows(BitsRows &rows);
void add_row_wise_rows(BitsRows &rows);  // what works row by row or element by element
void add_position_rows(BitsRows &rows);
void add_multi_head_rows(BitsRows &rows);
void add_ragged_rows(BitsRows &rows);
void add_scaled_rows(BitsRows &rows);  // of numbers with scales: attention, schedules, quantising
void add_gradient_rows(BitsRows &rows);

BitsRows all_bits_rows();

inline std::string number(int64_t value) { return std::to_string(value); }

// Tells apart processors whose estimates of a reciprocal differ; "" where the instruction set has none.
std::string estimate_fingerprint(const std::string &isa);

}  // namespace testing
