// fovea for C++20: the C interface with owners that clean up, tensors that know their type, and exceptions.
//
// fovea.h is the manual: what a function computes, the shapes it takes and the errors it reports stand there, under the
// same name with the prefix fovea_. Here is only what differs.
//
// Tensors   A Tensor<float> may be written, a Tensor<const float> only read; the first converts to the second. Elements
//           of 16 bits are Float16, Bfloat16 or the compiler's own std::float16_t, std::bfloat16_t, _Float16 and
//           __bf16; of 8 bits, with scales, std::int8_t; two of 4 bits, with scales, a std::byte. A vector, array or
//           span stands for a tensor of rank 1. A tensor made without arguments is "none": what an optional argument is
//           unless set. Sizes and strides are checked against the range they are laid over.
// Errors    A status other than FOVEA_OK becomes an Error: its what() is fovea_last_error(), its status() the number.
// Owners    Context, Plan, PackedMatrix and the others can be moved, not copied. What was moved from holds nothing:
//           a Context is then the default one, and calls that need one of the others throw FOVEA_NULL_POINTER.
// Context   The last argument everywhere; left out, it is the default context.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_FOVEA_HPP
#define FOVEA_FOVEA_HPP

#include <fovea/fovea.h>
#include <fovea/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fovea {
inline namespace face {

namespace detail {

template <typename... Views>
const fovea_tensor *get(const std::variant<Views...> &choice) noexcept {
  return std::visit([](const auto &tensor) { return tensor.get(); }, choice);
}

// The owner of an object of the C interface.
template <typename Object, void (*destroy)(Object *)>
struct Destroy {
  void operator()(Object *object) const noexcept { destroy(object); }
};
template <typename Object, void (*destroy)(Object *)>
using Owner = std::unique_ptr<Object, Destroy<Object, destroy>>;

template <typename Options>
Options sized() noexcept {
  Options options{};
  options.struct_size = sizeof(Options);
  return options;
}

// A number that may be 0: with the flag that says it is meant.
template <typename Number>
void set_given(const std::optional<Number> &given, int flag, Number &member, std::uint32_t &flags) noexcept {
  member = given.value_or(0);
  flags |= static_cast<std::uint32_t>(given.has_value()) * static_cast<std::uint32_t>(flag);
}

}  // namespace detail

// ---- context --------------------------------------------------------------------------------------------------------

enum class Precision : std::int32_t {
  unset = FOVEA_PRECISION_DEFAULT,  // the packing's or the context's
  highest = FOVEA_PRECISION_HIGHEST,
  high = FOVEA_PRECISION_HIGH,
  medium = FOVEA_PRECISION_MEDIUM,
  int8 = FOVEA_PRECISION_INT8
};

struct ContextOptions {
  std::int32_t max_threads = 0;               // 0: as many as there are
  const char *max_isa = nullptr;              // "base", "avx2", "avx512", "amx"
  fovea_parallel_for parallel_for = nullptr;  // the caller's own loop; must not throw
  void *parallel_for_user = nullptr;
  Precision precision = Precision::highest;
};

class Context {
 public:
  Context() noexcept = default;  // the default one
  explicit Context(const ContextOptions &options) {
    auto c = detail::sized<fovea_context_options>();
    c.max_threads = options.max_threads;
    c.precision = static_cast<std::int32_t>(options.precision);
    c.max_isa = options.max_isa;
    c.parallel_for = options.parallel_for;
    c.parallel_for_user = options.parallel_for_user;
    fovea_context *created = nullptr;
    check(fovea_context_create(&c, &created));
    context_.reset(created);
  }

  const char *isa_name() const noexcept { return fovea_isa_name(get()); }
  std::int32_t threads() const noexcept { return fovea_context_threads(get()); }
  const fovea_context *get() const noexcept { return context_.get(); }

 private:
  detail::Owner<fovea_context, fovea_context_destroy> context_;
};

inline std::string_view version() noexcept { return fovea_version(); }

// The instruction sets this machine can run, worst first.
inline std::vector<std::string_view> isa_available() {
  std::vector<std::string_view> names;
  for (std::int32_t index = 0; const char *name = fovea_isa_available(index); ++index) names.emplace_back(name);
  return names;
}

// ---- attention ------------------------------------------------------------------------------------------------------

enum class EmptyRows : std::int32_t {
  zero = FOVEA_EMPTY_ROWS_ZERO,
  uniform = FOVEA_EMPTY_ROWS_UNIFORM,
  nan = FOVEA_EMPTY_ROWS_NAN
};

enum class ScoresKind : std::int32_t {
  raw = FOVEA_SCORES_RAW,
  capped = FOVEA_SCORES_CAPPED,
  logits = FOVEA_SCORES_LOGITS
};

// {.causal = true, .window_left = 128}
struct AttentionOptions {
  bool causal = false;
  bool top_left = false;
  bool leave_one_out = false;
  bool average_weights = false;
  bool query_invariant = false;
  EmptyRows empty_rows = EmptyRows::zero;
  std::optional<float> scale = {};  // none: the score function's own
  float softcap = 0;
  std::optional<std::int64_t> query_offset = {};
  std::optional<std::int64_t> window_left = {}, window_right = {};
  Integers valid_lens = {};
  Mask mask = {};
  Input bias = {};
  Input alibi_slopes = {}, sinks = {};
  Output log_sum_exp = {}, weights = {};
  float dropout = 0;
  std::uint64_t dropout_seed = 0;
  Integers query_offsets = {};
  Output scores = {};
  ScoresKind scores_kind = ScoresKind::raw;
  Precision precision = Precision::unset;
  Input key_scales = {}, value_scales = {};         // of keys and values of std::int8_t, or std::byte
  Output projected_query = {}, projected_key = {};  // which backward() reads

  // For the C functions. Points into this object.
  fovea_attention_options c_options() const noexcept {
    auto c = detail::sized<fovea_attention_options>();
    const auto set = [&c](bool wanted, int flag) {  // without a branch: compilers make a tree of ten
      c.flags |= static_cast<std::uint32_t>(wanted) * static_cast<std::uint32_t>(flag);
    };
    set(causal, FOVEA_CAUSAL);
    set(top_left, FOVEA_TOP_LEFT);
    set(leave_one_out, FOVEA_LEAVE_ONE_OUT);
    set(average_weights, FOVEA_AVERAGE_WEIGHTS);
    set(query_invariant, FOVEA_QUERY_INVARIANT);
    set(query_offset.has_value(), FOVEA_QUERY_OFFSET);
    set(window_left.has_value(), FOVEA_WINDOW_LEFT);
    set(window_right.has_value(), FOVEA_WINDOW_RIGHT);
    c.empty_rows = static_cast<std::int32_t>(empty_rows);
    detail::set_given(scale, FOVEA_SCALE_GIVEN, c.scale, c.flags);
    c.softcap = softcap;
    c.query_offset = query_offset.value_or(0);
    c.window_left = window_left.value_or(0);
    c.window_right = window_right.value_or(0);
    c.valid_lens = detail::get(valid_lens);
    c.mask = detail::get(mask);
    c.bias = bias.get();
    c.alibi_slopes = alibi_slopes.get();
    c.sinks = sinks.get();
    c.log_sum_exp = log_sum_exp.get();
    c.weights = weights.get();
    c.dropout = dropout;
    c.dropout_seed = dropout_seed;
    c.query_offsets = detail::get(query_offsets);
    c.scores = scores.get();
    c.scores_kind = static_cast<std::int32_t>(scores_kind);
    c.precision = static_cast<std::int32_t>(precision);
    c.key_scales = key_scales.get();
    c.value_scales = value_scales.get();
    c.projected_query = projected_query.get();
    c.projected_key = projected_key.get();
    return c;
  }
};

// The score functions: Additive{.query_weight = wq, .key_weight = wk, .score_vector = v}
struct Dot {};

struct Bilinear {
  Input weight = {};
};

struct Additive {
  Input query_weight = {};
  Input key_weight = {};
  Input score_vector = {};
};

struct Concat {
  Input weight = {};
  Input bias = {};  // may be none
  Input score_vector = {};
};

struct Gaussian {
  float sigma = 0;    // needed unless sigmas is given
  Input sigmas = {};  // one for each query head
};

using Score = std::variant<Dot, Bilinear, Additive, Concat, Gaussian>;

namespace detail {

inline void set_score(const Dot &, fovea_score &c) noexcept { c.kind = FOVEA_SCORE_DOT; }
inline void set_score(const Bilinear &score, fovea_score &c) noexcept {
  c.kind = FOVEA_SCORE_BILINEAR;
  c.weight = score.weight.get();
}
inline void set_score(const Additive &score, fovea_score &c) noexcept {
  c.kind = FOVEA_SCORE_ADDITIVE;
  c.query_weight = score.query_weight.get();
  c.key_weight = score.key_weight.get();
  c.score_vector = score.score_vector.get();
}
inline void set_score(const Concat &score, fovea_score &c) noexcept {
  c.kind = FOVEA_SCORE_CONCAT;
  c.weight = score.weight.get();
  c.bias = score.bias.get();
  c.score_vector = score.score_vector.get();
}
inline void set_score(const Gaussian &score, fovea_score &c) noexcept {
  c.kind = FOVEA_SCORE_GAUSSIAN;
  c.sigma = score.sigma;
  c.sigmas = score.sigmas.get();
}

// Points into the score.
inline fovea_score c_score(const Score &score) noexcept {
  auto c = sized<fovea_score>();
  std::visit([&c](const auto &kind) { set_score(kind, c); }, score);
  return c;
}

}  // namespace detail

inline void sdpa(const Input &query, const Input &key, const Input &value, const Output &out,
                 const AttentionOptions &options = {}, const Context &context = {}) {
  const fovea_attention_options c = options.c_options();
  check(fovea_sdpa(context.get(), query.get(), key.get(), value.get(), out.get(), &c));
}

inline void attention(const Score &score, const Input &query, const Input &key, const Input &value, const Output &out,
                      const AttentionOptions &options = {}, const Context &context = {}) {
  const fovea_score s = detail::c_score(score);
  const fovea_attention_options c = options.c_options();
  check(fovea_attention(context.get(), &s, query.get(), key.get(), value.get(), out.get(), &c));
}

// Keys that are attended again and again.
class PreparedKeys {
 public:
  struct Sizes {
    std::int64_t batch = 1;
    std::int64_t kv_heads = 1;
    std::int64_t capacity = 0;
    std::int64_t query_dim = 0;
    std::int64_t key_dim = 0;
    fovea_dtype dtype = FOVEA_F32;
  };

  PreparedKeys(const Score &score, const Sizes &sizes, const Context &context = {}) {
    const fovea_score s = detail::c_score(score);
    auto c = detail::sized<fovea_prepared_keys_sizes>();
    c.batch = sizes.batch;
    c.kv_heads = sizes.kv_heads;
    c.capacity = sizes.capacity;
    c.query_dim = sizes.query_dim;
    c.key_dim = sizes.key_dim;
    c.dtype = sizes.dtype;
    fovea_prepared_keys *created = nullptr;
    check(fovea_prepared_keys_create(context.get(), &s, &c, &created));
    keys_.reset(created);
  }

  void append(const Input &key, const Context &context = {}) {
    check(fovea_prepared_keys_append(context.get(), keys_.get(), key.get()));
  }
  void truncate(std::int64_t length) { check(fovea_prepared_keys_truncate(keys_.get(), length)); }
  std::int64_t length() const noexcept { return fovea_prepared_keys_length(keys_.get()); }
  std::size_t size_bytes() const noexcept { return fovea_prepared_keys_size(keys_.get()); }
  const fovea_prepared_keys *get() const noexcept { return keys_.get(); }

 private:
  detail::Owner<fovea_prepared_keys, fovea_prepared_keys_destroy> keys_;
};

inline void attention(const Input &query, const PreparedKeys &keys, const Input &value, const Output &out,
                      const AttentionOptions &options = {}, const Context &context = {}) {
  const fovea_attention_options c = options.c_options();
  check(fovea_attention_prepared(context.get(), query.get(), keys.get(), value.get(), out.get(), &c));
}

// The pointers of a planned run; NULL where the plan had no tensor.
struct AttentionBuffers : fovea_attention_buffers {
  AttentionBuffers() noexcept : fovea_attention_buffers(detail::sized<fovea_attention_buffers>()) {}
};

// A checked call without its data. The context it was made with must outlive it.
class Plan {
 public:
  static Plan sdpa(const Input &query, const Input &key, const Input &value, const Output &out,
                   const AttentionOptions &options = {}, const Context &context = {}) {
    const fovea_attention_options c = options.c_options();
    fovea_plan *plan = nullptr;
    check(fovea_sdpa_plan_create(context.get(), query.get(), key.get(), value.get(), out.get(), &c, &plan));
    return Plan(plan);
  }
  static Plan attention(const Score &score, const Input &query, const Input &key, const Input &value, const Output &out,
                        const AttentionOptions &options = {}, const Context &context = {}) {
    const fovea_score s = detail::c_score(score);
    const fovea_attention_options c = options.c_options();
    fovea_plan *plan = nullptr;
    check(fovea_attention_plan_create(context.get(), &s, query.get(), key.get(), value.get(), out.get(), &c, &plan));
    return Plan(plan);
  }
  // The keys must outlive the plan, too.
  static Plan attention(const Input &query, const PreparedKeys &keys, const Input &value, const Output &out,
                        const AttentionOptions &options = {}, const Context &context = {}) {
    const fovea_attention_options c = options.c_options();
    fovea_plan *plan = nullptr;
    check(fovea_attention_prepared_plan_create(context.get(), query.get(), keys.get(), value.get(), out.get(), &c,
                                               &plan));
    return Plan(plan);
  }

  std::size_t workspace_size() const noexcept { return fovea_plan_workspace_size(plan_.get()); }
  std::string describe() const {
    std::string text(fovea_plan_describe(plan_.get(), nullptr, 0), '\0');
    fovea_plan_describe(plan_.get(), text.data(), text.size() + 1);
    return text;
  }

  // Allocates nothing. workspace: workspace_size() bytes, not shared with a run at the same time.
  void run(const AttentionBuffers &buffers, std::span<std::byte> workspace) const {
    check(fovea_attention_run(plan_.get(), &buffers, workspace.data(), workspace.size()));
  }

  const fovea_plan *get() const noexcept { return plan_.get(); }

  // Takes over what a C function has made.
  explicit Plan(fovea_plan *plan) noexcept : plan_(plan) {}

 private:
  detail::Owner<fovea_plan, fovea_plan_destroy> plan_;
};

struct KernelRegressionOptions {
  bool leave_one_out = false;
  std::optional<float> sigma = {};  // none: 1
  Output weights = {};
};

inline void kernel_regression(const Input &queries, const Input &inputs, const Input &targets, const Output &out,
                              const KernelRegressionOptions &options = {}, const Context &context = {}) {
  auto c = detail::sized<fovea_kernel_regression_options>();
  if (options.leave_one_out) c.flags = FOVEA_LEAVE_ONE_OUT;
  detail::set_given(options.sigma, FOVEA_SIGMA_GIVEN, c.sigma, c.flags);
  c.weights = options.weights.get();
  check(fovea_kernel_regression(context.get(), queries.get(), inputs.get(), targets.get(), out.get(), &c));
}

inline void merge_states(const Input &outs, const Input &lses, const Output &out, const Output &log_sum_exp = {},
                         const Context &context = {}) {
  check(fovea_merge_states(context.get(), outs.get(), lses.get(), out.get(), log_sum_exp.get()));
}

// ---- positions ------------------------------------------------------------------------------------------------------

struct PositionalEncodingOptions {
  std::optional<float> base = {};  // none: 10000
  float dropout = 0;
  std::int64_t offset = 0;
  std::uint64_t dropout_seed = 0;
  bool dropout_alone = false;  // of add_positional_encoding: nothing is added

  fovea_positional_encoding_options c_options() const noexcept {
    auto c = detail::sized<fovea_positional_encoding_options>();
    detail::set_given(base, FOVEA_ENCODING_BASE_GIVEN, c.base, c.flags);
    if (dropout_alone) c.flags |= static_cast<std::uint32_t>(FOVEA_ENCODING_DROPOUT_ALONE);
    c.dropout = dropout;
    c.offset = offset;
    c.dropout_seed = dropout_seed;
    return c;
  }
};

inline void positional_encoding(const Output &out, const PositionalEncodingOptions &options = {},
                                const Context &context = {}) {
  const fovea_positional_encoding_options c = options.c_options();
  check(fovea_positional_encoding(context.get(), out.get(), &c));
}

inline void add_positional_encoding(const Input &x, const Output &out, const PositionalEncodingOptions &options = {},
                                    const Context &context = {}) {
  const fovea_positional_encoding_options c = options.c_options();
  check(fovea_add_positional_encoding(context.get(), x.get(), out.get(), &c));
}

inline void alibi_slopes(const Output &out) { check(fovea_alibi_slopes(out.get())); }

// ---- building blocks ------------------------------------------------------------------------------------------------

struct MaskedSoftmaxOptions {
  EmptyRows empty_rows = EmptyRows::zero;
};

// valid_lens: {} for none.
inline void masked_softmax(const Input &x, const Integers &valid_lens, const Output &out,
                           const MaskedSoftmaxOptions &options = {}, const Context &context = {}) {
  auto c = detail::sized<fovea_masked_softmax_options>();
  c.empty_rows = static_cast<std::int32_t>(options.empty_rows);
  check(fovea_masked_softmax(context.get(), x.get(), detail::get(valid_lens), out.get(), &c));
}

// axis: from 0, or from -1 for the last one backwards.
inline void softmax(const Input &x, std::int32_t axis, const Output &out, const Context &context = {}) {
  check(fovea_softmax(context.get(), x.get(), axis, out.get()));
}
inline void log_softmax(const Input &x, std::int32_t axis, const Output &out, const Context &context = {}) {
  check(fovea_log_softmax(context.get(), x.get(), axis, out.get()));
}

// A right-hand side in the order that the kernel reads.
class PackedMatrix {
 public:
  explicit PackedMatrix(const Input &b, const Context &context = {}, Precision precision = Precision::unset) {
    auto c = detail::sized<fovea_matmul_pack_options>();
    c.precision = static_cast<std::int32_t>(precision);
    fovea_packed_matrix *packed = nullptr;
    check(fovea_matmul_pack(context.get(), b.get(), &c, &packed));
    packed_.reset(packed);
  }
  explicit PackedMatrix(fovea_packed_matrix *packed) noexcept : packed_(packed) {}  // which becomes its own
  std::size_t size_bytes() const noexcept { return fovea_packed_matrix_size(packed_.get()); }
  const fovea_packed_matrix *get() const noexcept { return packed_.get(); }

 private:
  detail::Owner<fovea_packed_matrix, fovea_packed_matrix_destroy> packed_;
};

inline void matmul(const Input &a, const Input &b, const Output &out, const Context &context = {}) {
  check(fovea_matmul(context.get(), a.get(), b.get(), out.get()));
}

inline void matmul(const Input &a, const PackedMatrix &b, const Output &out, const Context &context = {}) {
  check(fovea_matmul_packed(context.get(), a.get(), b.get(), out.get()));
}

struct GemmOptions {
  std::optional<float> alpha = {};  // none: 1
  std::optional<float> beta = {};   // none: 1
  Input c = {};
};

inline void gemm(const Input &a, const Input &b, const Output &out, const GemmOptions &options = {},
                 const Context &context = {}) {
  auto c = detail::sized<fovea_gemm_options>();
  detail::set_given(options.alpha, FOVEA_GEMM_ALPHA_GIVEN, c.alpha, c.flags);
  detail::set_given(options.beta, FOVEA_GEMM_BETA_GIVEN, c.beta, c.flags);
  c.c = options.c.get();
  check(fovea_gemm(context.get(), a.get(), b.get(), out.get(), &c));
}

inline void exp(const Input &x, const Output &out, const Context &context = {}) {
  check(fovea_exp(context.get(), x.get(), out.get()));
}

inline void tanh(const Input &x, const Output &out, const Context &context = {}) {
  check(fovea_tanh(context.get(), x.get(), out.get()));
}

}  // namespace face
}  // namespace fovea

#include <fovea/layers.hpp>

#endif  // FOVEA_FOVEA_HPP
