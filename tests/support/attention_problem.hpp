// One attention problem: sizes, options and tensors. It can be run on a context and judged against the reference.
#pragma once

#include <fovea/fovea.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contexts.hpp"
#include "reference.hpp"
#include "same_bits.hpp"
#include "score_function.hpp"
#include "tensor.hpp"

namespace testing {

struct AttentionSizes {
  int64_t batch = 1, heads = 1, kv_heads = 1, query_len = 1, key_len = 1, head_dim = 1, value_dim = 1;
  int64_t key_dim = 0;  // 0: that of the query, head_dim

  int64_t key_size() const { return key_dim == 0 ? head_dim : key_dim; }
};

// How [B,H,L,D] lies in memory.
enum class Layout {
  kHeadsFirst,  // B,H,L,D
  kHeadsLast,   // B,L,H,D
  kPadded       // B,L,H,D with unused elements after each row
};

// Output tensors of one run. Those that were not asked for are empty.
struct AttentionResult {
  Tensor<float> out;
  std::optional<Tensor<float>> log_sum_exp;
  std::optional<Tensor<float>> weights;
};

struct AttentionProblem {
  AttentionSizes sizes;
  int rank = 4;  // 3: no head axis; 2: no batch axis either
  Layout out_layout = Layout::kHeadsFirst;

  std::optional<ScoreFunction> score;  // none: fovea_sdpa is called, else fovea_attention
  Tensor<float> query, key, value;
  std::optional<Tensor<int32_t>> valid_lens32;
  std::optional<Tensor<int64_t>> valid_lens64;
  std::optional<Tensor<int32_t>> query_offsets32;
  std::optional<Tensor<int64_t>> query_offsets64;
  std::optional<Tensor<uint8_t>> mask;
  std::optional<Tensor<float>> bias, alibi_slopes, sinks;

  uint32_t flags = 0;
  int32_t empty_rows = FOVEA_EMPTY_ROWS_ZERO;
  float scale = 0, softcap = 0;
  int64_t query_offset = 0, window_left = 0, window_right = 0;
  float dropout = 0;
  uint64_t dropout_seed = 0;
  bool want_log_sum_exp = true;

  // A tensor of this problem's rank: full is [B,H,L,D].
  Shape shape_of(const Shape &full) const;
  Tensor<float> make_tensor(const Shape &full, Layout layout) const;

  Shape score_shape() const { return {sizes.batch, sizes.heads, sizes.query_len, sizes.key_len}; }

  // Lengths [B] or [B,Q], whichever the count of the values fits.
  void set_valid_lens(const std::vector<int64_t> &lens, bool wide = false);
  void set_query_offsets(const std::vector<int64_t> &offsets, bool wide = false);
  // A mask over [B,H,Q,K] from a predicate, or random.
  void set_mask(const std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)> &attend);

  reference::AttentionInputs reference_inputs() const;
  // Asking for weights takes another path through the library, so most tests do both.
  AttentionResult make_result(bool want_weights = true) const;

  fovea_status run(const fovea_context *context, const AttentionResult &result) const;

  // Everything needed to read a failure: sizes, flags, options, strides.
  std::string describe() const;
};

// Query, key and value are normal numbers; everything else is off.
AttentionProblem make_attention(const AttentionSizes &sizes, Random &random, Layout layout = Layout::kHeadsFirst,
                                int rank = 4);

// The same with a score function; hidden is only for those that have units.
AttentionProblem make_scored(int32_t kind, const AttentionSizes &sizes, int64_t hidden, Random &random,
                             Layout layout = Layout::kHeadsFirst, int rank = 4);

// Positions [begin, end) of keys or values.
inline fovea_tensor slice_positions(const Tensor<float> &tensor, int64_t begin, int64_t end) {
  fovea_tensor part = tensor.view();
  const int axis = part.rank - 2;
  part.data = static_cast<float *>(part.data) + begin * part.strides[axis];
  part.shape[axis] = end - begin;
  return part;
}

// The tensors and options of a call, pointing into the problem; it must outlive them.
struct AttentionArguments {
  AttentionArguments(const AttentionProblem &problem, const AttentionResult &result);
  AttentionArguments(const AttentionArguments &) = delete;
  AttentionArguments &operator=(const AttentionArguments &) = delete;

  fovea_tensor query, key, value, out;
  fovea_tensor valid_lens{}, query_offsets{}, mask{}, bias{}, alibi_slopes{}, sinks{}, log_sum_exp{}, weights{};
  fovea_attention_options options{};
  std::optional<ScoreArguments> score;

  // The function that the problem asks for.
  fovea_status run(const fovea_context *context) const;
  fovea_status plan(const fovea_context *context, fovea_plan **plan) const;
};

// The data pointers of those tensors, for a planned run.
fovea_attention_buffers buffers_of(const AttentionArguments &arguments);

// Runs the problem on every instruction set, without weights and with, and checks out, log-sum-exp and weights:
// accuracy, exact zeros where a key is masked, nothing written outside the elements.
void check_attention(const AttentionProblem &problem);

// The same, at most twice the error of the plain float32 evaluation without any floor: for problems large enough that
// the plain evaluation has no luck.
void check_attention_strictly(const AttentionProblem &problem);

// The same of a result that came about in some other way.
void check_result(const AttentionProblem &problem, const AttentionResult &result);

// Bits of both outcomes are the same.
bool same_bits(const AttentionResult &a, const AttentionResult &b);

}  // namespace testing
