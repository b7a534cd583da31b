// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <string>

namespace smollm2 {

Model::Model(Safetensors &file, Weights weights, const ModelSizes &sizes)
    : sizes_(sizes),
      type_(weights == Weights::f32 ? Type::f32 : Type::bf16),
      precision_(weights == Weights::i8 ? fovea::Precision::int8 : fovea::Precision::unset),
      embedding_(type_, file.floats("token_embd.weight", {sizes.vocabulary, sizes.hidden})),
      to_logits_(pack(file.floats("token_embd.weight", {sizes.vocabulary, sizes.hidden}), sizes.hidden)),
      last_norm_(Type::f32, file.floats("output_norm.weight", {sizes.hidden})) {
  for (std::int64_t n = 0; n < sizes.layers; ++n) layers_.push_back(read_layer(file, n));
}

std::size_t Model::weight_bytes() const {
  std::size_t bytes = to_logits_.size_bytes();
  for (const Layer &layer : layers_) {
    for (const fovea::PackedMatrix *matrix :
         {&layer.query_key_value, &layer.out, &layer.gate, &layer.up, &layer.down}) {
      bytes += matrix->size_bytes();
    }
  }
  return bytes;
}

fovea::PackedMatrix Model::pack(const std::vector<float> &weight, std::int64_t inputs) const {
  const Numbers numbers(precision_ == fovea::Precision::int8 ? Type::f32 : type_, weight);
  return fovea::linear_pack(numbers.view({static_cast<std::int64_t>(weight.size()) / inputs, inputs}),
                            fovea::WeightLayout::out_in, {}, precision_);
}

// Matrices with the same inputs, one below the other.
fovea::PackedMatrix Model::pack(Safetensors &file, const std::vector<std::string> &names, std::int64_t inputs) const {
  std::vector<float> all;
  for (const std::string &name : names) {
    const std::vector<float> one = file.floats(name, {file.shape(name).at(0), inputs});
    all.insert(all.end(), one.begin(), one.end());
  }
  return pack(all, inputs);
}

Model::Layer Model::read_layer(Safetensors &file, std::int64_t number) const {
  const std::string prefix = "blk." + std::to_string(number) + ".";
  const auto named = [&](const std::string &name) { return prefix + name + ".weight"; };
  const auto norm = [&](const std::string &name) {
    return Numbers(Type::f32, file.floats(named(name), {sizes_.hidden}));
  };
  return {.attention_norm = norm("attn_norm"),
          .query_key_value = pack(file, {named("attn_q"), named("attn_k"), named("attn_v")}, sizes_.hidden),
          .out = pack(file, {named("attn_output")}, sizes_.hidden),
          .feed_forward_norm = norm("ffn_norm"),
          .gate = pack(file, {named("ffn_gate")}, sizes_.hidden),
          .up = pack(file, {named("ffn_up")}, sizes_.hidden),
          .down = pack(file, {named("ffn_down")}, sizes_.intermediate)};
}

}  // namespace smollm2
