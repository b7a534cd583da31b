// One multi-head attention layer: sizes, weights, inputs. It can be run in one call, or as the calls it is made of.
#pragma once

#include <fovea/fovea.h>

#include <memory>
#include <optional>

#include "contexts.hpp"
#include "multi_head_reference.hpp"
#include "tensor.hpp"

namespace testing {

struct MultiHeadSizes {
  int64_t batch = 1, query_len = 1, key_len = 1;
  int64_t query_inputs = 1, key_inputs = 1, value_inputs = 1;
  int64_t heads = 1, kv_heads = 1, head_dim = 1, value_dim = 1;
  int64_t key_dim = 0;  // 0: head_dim
  int64_t outputs = 0;  // 0: no output projection
  bool biases = true;

  int64_t key_size() const { return key_dim == 0 ? head_dim : key_dim; }
  int64_t out_features() const { return outputs > 0 ? outputs : heads * value_dim; }
};

struct DestroyWeights {
  void operator()(fovea_mha_weights *weights) const { fovea_mha_weights_destroy(weights); }
};
using MhaWeights = std::unique_ptr<fovea_mha_weights, DestroyWeights>;

// Which tensors the call is given.
enum class Inputs { kOne, kTwo, kThree };

struct MultiHead {
  MultiHeadSizes sizes;
  Inputs inputs = Inputs::kThree;
  Tensor<float> query, key, value;                                   // key and value only where they are given
  Tensor<float> query_weight, key_weight, value_weight, out_weight;  // [out,in]
  Tensor<float> query_bias, key_bias, value_bias, out_bias;

  const Tensor<float> &key_input() const { return inputs == Inputs::kOne ? query : key; }
  const Tensor<float> &value_input() const { return inputs == Inputs::kThree ? value : key_input(); }
  int64_t key_len() const { return inputs == Inputs::kOne ? sizes.query_len : sizes.key_len; }

  Tensor<float> make_out() const { return Tensor<float>(Shape{sizes.batch, sizes.query_len, sizes.out_features()}); }
  MhaWeights make_weights(const fovea_context *context) const;

  fovea_status run(const fovea_context *context, const MhaWeights &weights, const Tensor<float> &out,
                   const fovea_mha_options *options = nullptr) const;

  // The same from fovea_linear, fovea_rotary and fovea_attention.
  void compose(const fovea_context *context, const Tensor<float> &out,
               const fovea_attention_options *attention = nullptr, const fovea_score *score = nullptr,
               const fovea_rotary_options *rotary = nullptr) const;

  reference::MultiHeadInputs reference_inputs() const;
};

// Sizes of all kinds: grouped heads, odd sizes, few and many queries, no output projection.
std::vector<MultiHeadSizes> multi_head_sizes();

// Normal inputs, weights scaled so that what they give is about 1.
MultiHead make_multi_head(const MultiHeadSizes &sizes, Inputs inputs, Random &random);

// The parameters of a layer; points into it and into itself.
struct MhaParameters {
  explicit MhaParameters(const MultiHead &layer);
  MhaParameters(const MhaParameters &) = delete;
  MhaParameters &operator=(const MhaParameters &) = delete;

  fovea_tensor query_weight, key_weight, value_weight, out_weight, query_bias, key_bias, value_bias, out_bias;
  fovea_mha_parameters parameters{};
};

// A few roundings on the way of a value, and two of a score.
inline double rounding_floor(const reference::MultiHeadOutputs<double> &truth) {
  return 0x1p-24 * (4 * truth.magnitude + 2 * truth.sensitivity);
}

template <typename Options>
Options sized_options() {
  Options options{};
  options.struct_size = sizeof options;
  return options;
}

}  // namespace testing
