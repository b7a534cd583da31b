// What the backward pass of a multi-head attention layer gives.
#pragma once

#include <utility>
#include <vector>

#include "multi_head.hpp"

namespace testing {

// The gradients of a layer, in its layouts.
struct LayerGradients {
  Tensor<float> query, key, value, query_weight, key_weight, value_weight, out_weight;
  Tensor<float> query_bias, key_bias, value_bias, out_bias;

  explicit LayerGradients(const MultiHead &layer)
      : query(layer.query.shape()),
        key(layer.key.shape()),
        value(layer.value.shape()),
        query_weight(layer.query_weight.shape()),
        key_weight(layer.key_weight.shape()),
        value_weight(layer.value_weight.shape()),
        out_weight(layer.out_weight.shape()),
        query_bias(layer.query_bias.shape()),
        key_bias(layer.key_bias.shape()),
        value_bias(layer.value_bias.shape()),
        out_bias(layer.out_bias.shape()) {}

  // The tensors that the layer has.
  std::vector<std::pair<const char *, const Tensor<float> *>> list() const {
    std::vector<std::pair<const char *, const Tensor<float> *>> all;
    for (const auto &[name, tensor] : {std::pair{"query", &query},
                                       {"key", &key},
                                       {"value", &value},
                                       {"query_weight", &query_weight},
                                       {"key_weight", &key_weight},
                                       {"value_weight", &value_weight},
                                       {"out_weight", &out_weight},
                                       {"query_bias", &query_bias},
                                       {"key_bias", &key_bias},
                                       {"value_bias", &value_bias},
                                       {"out_bias", &out_bias}}) {
      if (!tensor->shape().empty() && tensor->count() > 0) all.emplace_back(name, tensor);
    }
    return all;
  }

  fovea_status run(const fovea_context *context, const MultiHead &layer, const Tensor<float> &grad_out,
                   const fovea_mha_options *options, const fovea_attention_gradients *attention = nullptr) const {
    const MhaParameters given(layer);
    const fovea_tensor inputs[] = {layer.query.view(), layer.key.view(), layer.value.view()};
    const fovea_tensor views[] = {grad_out.view(),     query.view(),      key.view(),          value.view(),
                                  query_weight.view(), key_weight.view(), value_weight.view(), out_weight.view(),
                                  query_bias.view(),   key_bias.view(),   value_bias.view(),   out_bias.view()};
    auto gradients = sized_options<fovea_mha_gradients>();
    gradients.out = &views[0];
    gradients.query = &views[1];
    gradients.query_weight = &views[4];
    gradients.key_weight = &views[5];
    gradients.value_weight = &views[6];
    gradients.attention = attention;
    if (layer.inputs != Inputs::kOne) gradients.key = &views[2];
    if (layer.inputs == Inputs::kThree) gradients.value = &views[3];
    if (layer.sizes.outputs > 0) gradients.out_weight = &views[7];
    if (layer.sizes.biases) {
      gradients.query_bias = &views[8];
      gradients.key_bias = &views[9];
      gradients.value_bias = &views[10];
      if (layer.sizes.outputs > 0) gradients.out_bias = &views[11];
    }
    return fovea_multi_head_attention_backward(
        context, &given.parameters, &inputs[0], layer.inputs == Inputs::kOne ? nullptr : &inputs[1],
        layer.inputs == Inputs::kThree ? &inputs[2] : nullptr, options, &gradients);
  }
};

}  // namespace testing
