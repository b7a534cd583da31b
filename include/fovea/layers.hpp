// Rotary embedding, linear layers, normalisation, multi-head attention: part of fovea.hpp, which includes
// this and says how the C++ interface differs from the C one; layers.h is the manual.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_LAYERS_HPP
#define FOVEA_LAYERS_HPP

#include <fovea/fovea.hpp>

namespace fovea {
inline namespace face {

enum class WeightLayout : std::int32_t { out_in = FOVEA_WEIGHT_OUT_IN, in_out = FOVEA_WEIGHT_IN_OUT };

// ---- rotary position embedding -------------------------------------------------------------------------------------

struct RotaryOptions {
  bool interleaved = false;
  bool inverse = false;
  std::optional<float> base = {};               // none: 10000
  std::optional<float> position_scale = {};     // none: 1
  std::optional<std::int64_t> rotary_dim = {};  // none: all features
  std::int64_t offset = 0;
  Integers positions = {};
  Input frequencies = {};
  Integers sections = {};
  Input cosines = {}, sines = {};
  std::optional<float> attention_factor = {};  // none: 1

  // For the C functions. Points into this object.
  fovea_rotary_options c_options() const noexcept {
    auto c = detail::sized<fovea_rotary_options>();
    if (interleaved) c.flags |= static_cast<std::uint32_t>(FOVEA_ROTARY_INTERLEAVED);
    if (inverse) c.flags |= static_cast<std::uint32_t>(FOVEA_ROTARY_INVERSE);
    detail::set_given(base, FOVEA_ROTARY_BASE_GIVEN, c.base, c.flags);
    detail::set_given(position_scale, FOVEA_ROTARY_POSITION_SCALE_GIVEN, c.position_scale, c.flags);
    detail::set_given(rotary_dim, FOVEA_ROTARY_DIM_GIVEN, c.rotary_dim, c.flags);
    c.offset = offset;
    c.positions = detail::get(positions);
    c.frequencies = frequencies.get();
    c.sections = detail::get(sections);
    c.cosines = cosines.get();
    c.sines = sines.get();
    detail::set_given(attention_factor, FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN, c.attention_factor, c.flags);
    return c;
  }
};

inline void rotary(const Input &x, const Output &out, const RotaryOptions &options = {}, const Context &context = {}) {
  const fovea_rotary_options c = options.c_options();
  check(fovea_rotary(context.get(), x.get(), out.get(), &c));
}

enum class FrequenciesKind : std::int32_t {
  plain = FOVEA_FREQUENCIES_PLAIN,
  linear = FOVEA_FREQUENCIES_LINEAR,
  dynamic = FOVEA_FREQUENCIES_DYNAMIC,
  yarn = FOVEA_FREQUENCIES_YARN,
  longrope = FOVEA_FREQUENCIES_LONGROPE,
  llama3 = FOVEA_FREQUENCIES_LLAMA3
};

// {.kind = FrequenciesKind::linear, .base = 10000, .factor = 4}
struct RotaryFrequenciesOptions {
  FrequenciesKind kind = FrequenciesKind::plain;
  bool unrounded = false;
  float base = 10000;
  float factor = 0;
  std::int64_t original_length = 0, length = 0;
  float low_frequency_factor = 0, high_frequency_factor = 0;
  std::optional<float> fast_rotations = {}, slow_rotations = {};  // none: YaRN's 32 and 1
  float mscale = 0, mscale_all_dim = 0;
  Input short_factors = {}, long_factors = {};

  // For the C function. Points into this object.
  fovea_rotary_frequencies_options c_options() const noexcept {
    const bool yarn = kind == FrequenciesKind::yarn;
    auto c = detail::sized<fovea_rotary_frequencies_options>();
    if (unrounded) c.flags = FOVEA_YARN_UNROUNDED;
    c.kind = static_cast<std::int32_t>(kind);
    c.base = base;
    c.factor = factor;
    c.original_length = original_length;
    c.length = length;
    c.low_frequency_factor = low_frequency_factor;
    c.high_frequency_factor = high_frequency_factor;
    c.fast_rotations = fast_rotations.value_or(yarn ? 32.0f : 0.0f);
    c.slow_rotations = slow_rotations.value_or(yarn ? 1.0f : 0.0f);
    c.mscale = mscale;
    c.mscale_all_dim = mscale_all_dim;
    c.short_factors = short_factors.get();
    c.long_factors = long_factors.get();
    return c;
  }
};

// Writes the frequencies; returns the attention factor.
inline float rotary_frequencies(const Output &frequencies, const RotaryFrequenciesOptions &options = {}) {
  const fovea_rotary_frequencies_options c = options.c_options();
  float factor = 1;
  const std::int64_t one = 1;
  const fovea_tensor view = fovea_tensor_contiguous(&factor, FOVEA_F32, 1, &one);
  check(fovea_rotary_frequencies(frequencies.get(), &view, &c));
  return factor;
}

// ---- linear layers --------------------------------------------------------------------------------------------------

enum class Activation : std::int32_t {
  none = FOVEA_ACTIVATION_NONE,
  relu = FOVEA_ACTIVATION_RELU,
  gelu = FOVEA_ACTIVATION_GELU,
  gelu_tanh = FOVEA_ACTIVATION_GELU_TANH,
  silu = FOVEA_ACTIVATION_SILU
};

inline PackedMatrix linear_pack(const Input &weight, WeightLayout layout = WeightLayout::out_in,
                                const Context &context = {}, Precision precision = Precision::unset) {
  auto c = detail::sized<fovea_linear_pack_options>();
  c.layout = static_cast<std::int32_t>(layout);
  c.precision = static_cast<std::int32_t>(precision);
  fovea_packed_matrix *packed = nullptr;
  check(fovea_linear_pack(context.get(), weight.get(), &c, &packed));
  return PackedMatrix(packed);
}

struct LinearOptions {
  Activation activation = Activation::none;
  Input bias = {};
  Input residual = {};
  Precision precision = Precision::unset;
  Input multiplier = {};  // of what the activation gave

  fovea_linear_options c_options() const noexcept {
    auto c = detail::sized<fovea_linear_options>();
    c.activation = static_cast<std::int32_t>(activation);
    c.precision = static_cast<std::int32_t>(precision);
    c.bias = bias.get();
    c.multiplier = multiplier.get();
    c.residual = residual.get();
    return c;
  }
};

inline void linear(const Input &x, const PackedMatrix &weight, const Output &out, const LinearOptions &options = {},
                   const Context &context = {}) {
  const fovea_linear_options c = options.c_options();
  check(fovea_linear(context.get(), x.get(), weight.get(), out.get(), &c));
}

// Element by element.
inline void activation(Activation kind, const Input &x, const Output &out, const Context &context = {}) {
  check(fovea_activation(context.get(), static_cast<std::int32_t>(kind), x.get(), out.get()));
}

// ---- numbers of 8 or 4 bits -----------------------------------------------------------------------------------------

// out: of std::int8_t, or of std::byte, two numbers of 4 bits each.
inline void quantize(const Input &x, const Output &out, const Output &scales, const Context &context = {}) {
  check(fovea_quantize(context.get(), x.get(), out.get(), scales.get()));
}
inline void dequantize(const Input &q, const Input &scales, const Output &out, const Context &context = {}) {
  check(fovea_dequantize(context.get(), q.get(), scales.get(), out.get()));
}

// ---- normalisation --------------------------------------------------------------------------------------------------

struct LayerNormOptions {
  std::optional<float> epsilon = {};  // none: 1e-5
  Input weight = {};
  Input bias = {};
  Input residual = {};
  // Filled in where given.
  Output sum = {};
  Output mean = {};
  Output inverse_deviation = {};

  fovea_layer_norm_options c_options() const noexcept {
    auto c = detail::sized<fovea_layer_norm_options>();
    detail::set_given(epsilon, FOVEA_NORM_EPSILON_GIVEN, c.epsilon, c.flags);
    c.weight = weight.get();
    c.bias = bias.get();
    c.residual = residual.get();
    c.sum = sum.get();
    c.mean = mean.get();
    c.inverse_deviation = inverse_deviation.get();
    return c;
  }
};

inline void layer_norm(const Input &x, const Output &out, const LayerNormOptions &options = {},
                       const Context &context = {}) {
  const fovea_layer_norm_options c = options.c_options();
  check(fovea_layer_norm(context.get(), x.get(), out.get(), &c));
}

struct RmsNormOptions {
  std::optional<float> epsilon = {};  // none: 1e-5
  bool weight_from_one = false;
  Input weight = {};
  Input residual = {};
  // Filled in where given.
  Output sum = {};
  Output inverse_deviation = {};

  fovea_rms_norm_options c_options() const noexcept {
    auto c = detail::sized<fovea_rms_norm_options>();
    detail::set_given(epsilon, FOVEA_NORM_EPSILON_GIVEN, c.epsilon, c.flags);
    if (weight_from_one) c.flags |= static_cast<std::uint32_t>(FOVEA_NORM_WEIGHT_FROM_ONE);
    c.weight = weight.get();
    c.residual = residual.get();
    c.sum = sum.get();
    c.inverse_deviation = inverse_deviation.get();
    return c;
  }
};

inline void rms_norm(const Input &x, const Output &out, const RmsNormOptions &options = {},
                     const Context &context = {}) {
  const fovea_rms_norm_options c = options.c_options();
  check(fovea_rms_norm(context.get(), x.get(), out.get(), &c));
}

// ---- multi-head attention -------------------------------------------------------------------------------------------

// {.heads = 12, .in_weight = in_proj, .out_weight = out_proj}
struct MultiHeadParameters {
  WeightLayout layout = WeightLayout::out_in;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  // 0: heads
  Input query_weight = {}, key_weight = {}, value_weight = {};
  Input in_weight = {};  // instead of the three
  Input out_weight = {};
  Input query_bias = {}, key_bias = {}, value_bias = {};
  Input in_bias = {};
  Input out_bias = {};
  Precision precision = Precision::unset;

  // For the C functions. Points into this object.
  fovea_mha_parameters c_parameters() const noexcept {
    auto c = detail::sized<fovea_mha_parameters>();
    c.layout = static_cast<std::int32_t>(layout);
    c.precision = static_cast<std::int32_t>(precision);
    c.heads = heads;
    c.kv_heads = kv_heads;
    c.query_weight = query_weight.get();
    c.key_weight = key_weight.get();
    c.value_weight = value_weight.get();
    c.in_weight = in_weight.get();
    c.out_weight = out_weight.get();
    c.query_bias = query_bias.get();
    c.key_bias = key_bias.get();
    c.value_bias = value_bias.get();
    c.in_bias = in_bias.get();
    c.out_bias = out_bias.get();
    return c;
  }
};

class MultiHeadWeights {
 public:
  explicit MultiHeadWeights(const MultiHeadParameters &parameters, const Context &context = {}) {
    const fovea_mha_parameters c = parameters.c_parameters();
    fovea_mha_weights *created = nullptr;
    check(fovea_mha_weights_create(context.get(), &c, &created));
    weights_.reset(created);
  }
  std::size_t size_bytes() const noexcept { return fovea_mha_weights_size(weights_.get()); }
  const fovea_mha_weights *get() const noexcept { return weights_.get(); }

 private:
  detail::Owner<fovea_mha_weights, fovea_mha_weights_destroy> weights_;
};

class Schedule;  // serving.hpp

struct MultiHeadOptions {
  bool keep_pages = false;
  AttentionOptions attention = {};
  Score score = Dot{};
  std::optional<RotaryOptions> rotary = {};
  const Schedule *schedule = nullptr;
  Output key_pages = {}, value_pages = {};
  Output key_scales = {}, value_scales = {};
  Output kept = {};  // float, rank 1: multi_head_attention_backward() reads it
  Precision precision = Precision::unset;
};

namespace detail {

inline const fovea_schedule *c_schedule(const Schedule *schedule) noexcept;

// Calls body with the options as the C functions take them.
template <typename Body>
void with_c_options(const MultiHeadOptions &options, const Body &body) {
  const fovea_attention_options attention = options.attention.c_options();
  const fovea_score score = c_score(options.score);
  fovea_rotary_options rotary{};
  auto c = sized<fovea_mha_options>();
  if (options.keep_pages) c.flags = FOVEA_MHA_KEEP_PAGES;
  c.attention = &attention;
  c.score = std::holds_alternative<Dot>(options.score) ? nullptr : &score;
  if (options.rotary) {
    rotary = options.rotary->c_options();
    c.rotary = &rotary;
  }
  c.schedule = c_schedule(options.schedule);
  c.key_pages = options.key_pages.get();
  c.value_pages = options.value_pages.get();
  c.key_scales = options.key_scales.get();
  c.value_scales = options.value_scales.get();
  c.kept = options.kept.get();
  c.precision = static_cast<std::int32_t>(options.precision);
  body(c);
}

}  // namespace detail

// key {}: query; value {}: key.
inline void multi_head_attention(const MultiHeadWeights &weights, const Input &query, const Input &key,
                                 const Input &value, const Output &out, const MultiHeadOptions &options = {},
                                 const Context &context = {}) {
  detail::with_c_options(options, [&](const fovea_mha_options &c) {
    check(fovea_multi_head_attention(context.get(), weights.get(), query.get(), key.get(), value.get(), out.get(), &c));
  });
}

inline void self_attention(const MultiHeadWeights &weights, const Input &x, const Output &out,
                           const MultiHeadOptions &options = {}, const Context &context = {}) {
  multi_head_attention(weights, x, {}, {}, out, options, context);
}

// With weights that are used once.
inline void multi_head_attention(const MultiHeadParameters &parameters, const Input &query, const Input &key,
                                 const Input &value, const Output &out, const MultiHeadOptions &options = {},
                                 const Context &context = {}) {
  const fovea_mha_parameters p = parameters.c_parameters();
  detail::with_c_options(options, [&](const fovea_mha_options &c) {
    check(fovea_multi_head_attention_once(context.get(), &p, query.get(), key.get(), value.get(), out.get(), &c));
  });
}

}  // namespace face
}  // namespace fovea

#include <fovea/serving.hpp>
#include <fovea/training.hpp>

#endif  // FOVEA_LAYERS_HPP
