// SPDX-License-Identifier: Apache-2.0
#include "encoder.hpp"

#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>

namespace minilm {

using fovea::Tensor;

// Sentences of any lengths one behind the other, [tokens, hidden], and the memory that a layer works in.
struct Encoder::Batch {
  Batch(const EncoderSizes &sizes, Type type, const std::vector<const Tokens *> &sentences)
      : starts(starts_of(sentences)),
        x(type, static_cast<std::size_t>(tokens() * sizes.hidden)),
        y(type, x.size()),
        hidden(type, static_cast<std::size_t>(tokens() * sizes.intermediate)),
        schedule(make_schedule(sizes, type)) {
    schedule.set({.query_starts = starts, .key_starts = starts});
  }

  static std::vector<std::int32_t> starts_of(const std::vector<const Tokens *> &sentences) {
    std::vector<std::int32_t> starts = {0};
    for (const Tokens *sentence : sentences)
      starts.push_back(starts.back() + static_cast<std::int32_t>(sentence->size()));
    return starts;
  }

  // Each sentence attends itself. Between projections and attention numbers are bfloat16 where the model is, else
  // float32.
  fovea::Schedule make_schedule(const EncoderSizes &sizes, Type type) {
    const fovea::Shape shape = {tokens(), sizes.heads, sizes.hidden / sizes.heads};
    const fovea::Output rows = type == Type::bf16 ? x.view(shape) : fovea::Output(Tensor<float>::at(nullptr, shape));
    return {rows, rows, rows, rows, {.sequences = static_cast<std::int64_t>(starts.size()) - 1}};
  }

  std::int64_t tokens() const { return starts.back(); }

  std::vector<std::int32_t> starts;
  Numbers x, y, hidden;
  fovea::Schedule schedule;
};

Encoder::Encoder(Safetensors &file, Type type, const EncoderSizes &sizes)
    : sizes_(sizes),
      type_(type),
      words_(type, file.floats("embeddings.word_embeddings.weight", {sizes.vocabulary, sizes.hidden})),
      positions_(file.floats("embeddings.position_embeddings.weight", {sizes.positions, sizes.hidden})),
      embedding_norm_(read_norm(file, "embeddings.LayerNorm")) {
  const std::vector<float> types = file.floats("embeddings.token_type_embeddings.weight", {2, sizes.hidden});
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  for (std::size_t i = 0; i < positions_.size(); ++i) positions_[i] += types[i % hidden];
  for (std::int64_t n = 0; n < sizes.layers; ++n) {
    layers_.push_back(read_layer(file, "encoder.layer." + std::to_string(n) + "."));
  }
}

Encoder::Layer Encoder::read_layer(Safetensors &file, const std::string &prefix) const {
  const std::int64_t e = sizes_.hidden;
  const auto weight = [&](const std::string &name) {
    return Numbers(type_, file.floats(prefix + name + ".weight", {e, e}));
  };
  const auto bias = [&](const std::string &name) { return file.floats(prefix + name + ".bias", {e}); };
  const std::string query = "attention.self.query", key = "attention.self.key", value = "attention.self.value",
                    out = "attention.output.dense";
  const Numbers query_weight = weight(query), key_weight = weight(key), value_weight = weight(value),
                out_weight = weight(out);
  const std::vector<float> query_bias = bias(query), key_bias = bias(key), value_bias = bias(value),
                           out_bias = bias(out);
  return {.attention = fovea::MultiHeadWeights({.heads = sizes_.heads,
                                                .query_weight = query_weight.view({e, e}),
                                                .key_weight = key_weight.view({e, e}),
                                                .value_weight = value_weight.view({e, e}),
                                                .out_weight = out_weight.view({e, e}),
                                                .query_bias = query_bias,
                                                .key_bias = key_bias,
                                                .value_bias = value_bias,
                                                .out_bias = out_bias}),
          .attention_norm = read_norm(file, prefix + "attention.output.LayerNorm"),
          .up = read_dense(file, prefix + "intermediate.dense", sizes_.intermediate, e),
          .down = read_dense(file, prefix + "output.dense", e, sizes_.intermediate),
          .output_norm = read_norm(file, prefix + "output.LayerNorm")};
}

Encoder::Dense Encoder::read_dense(Safetensors &file, const std::string &name, std::int64_t outputs,
                                   std::int64_t inputs) const {
  const Numbers weight(type_, file.floats(name + ".weight", {outputs, inputs}));
  return {.weight = fovea::linear_pack(weight.view({outputs, inputs})), .bias = file.floats(name + ".bias", {outputs})};
}

Encoder::Norm Encoder::read_norm(Safetensors &file, const std::string &name) const {
  return {.weight = file.floats(name + ".weight", {sizes_.hidden}),
          .bias = file.floats(name + ".bias", {sizes_.hidden})};
}

void Encoder::check(const Tokens &sentence) const {
  if (sentence.empty() || static_cast<std::int64_t>(sentence.size()) > sizes_.positions) {
    throw std::invalid_argument("a sentence has " + std::to_string(sentence.size()) + " tokens, expected 1 to " +
                                std::to_string(sizes_.positions));
  }
  for (const std::int32_t token : sentence) {
    if (token >= 0 && token < sizes_.vocabulary) continue;
    throw std::invalid_argument("token " + std::to_string(token) + ", expected 0 to " +
                                std::to_string(sizes_.vocabulary - 1));
  }
}

void Encoder::normalise(const Norm &norm, const fovea::Input &y, const fovea::Input &residual,
                        const fovea::Output &out) const {
  fovea::layer_norm(y, out,
                    {.epsilon = sizes_.epsilon, .weight = norm.weight, .bias = norm.bias, .residual = residual});
}

void Encoder::embed_tokens(const std::vector<const Tokens *> &sentences, Batch &batch) const {
  const std::int64_t e = sizes_.hidden;
  const auto size = static_cast<std::size_t>(e);
  std::vector<float> positions;
  positions.reserve(batch.y.size());
  std::size_t row = 0;
  for (const Tokens *sentence : sentences) {
    for (const std::int32_t token : *sentence) {
      batch.y.assign(row, words_, static_cast<std::size_t>(token * e), size);
      row += size;
    }
    positions.insert(positions.end(), positions_.begin(), positions_.begin() + std::ssize(*sentence) * e);
  }
  const fovea::Shape shape = {batch.tokens(), e};
  normalise(embedding_norm_, batch.y.view(shape), Tensor(positions, shape), batch.x.view(shape));
}

void Encoder::run_layer(const Layer &layer, Batch &batch) const {
  const std::int64_t e = sizes_.hidden;
  const fovea::Output x = batch.x.view({batch.tokens(), e}), y = batch.y.view({batch.tokens(), e}),
                      hidden = batch.hidden.view({batch.tokens(), sizes_.intermediate});
  fovea::self_attention(layer.attention, x, y, {.schedule = &batch.schedule});
  normalise(layer.attention_norm, y, x, x);
  fovea::linear(x, layer.up.weight, hidden, {.activation = fovea::Activation::gelu, .bias = layer.up.bias});
  fovea::linear(hidden, layer.down.weight, y, {.bias = layer.down.bias});
  normalise(layer.output_norm, y, x, x);
}

std::vector<float> Encoder::embed(const std::vector<Tokens> &sentences) const {
  constexpr std::size_t batch_tokens = 2048;  // whose intermediate layer is 12 MB
  const auto e = static_cast<std::size_t>(sizes_.hidden);
  for (const Tokens &sentence : sentences) check(sentence);
  std::vector<float> embeddings(sentences.size() * e);
  for (std::size_t first = 0; first < sentences.size();) {
    std::vector<const Tokens *> members;
    std::size_t tokens = 0;
    for (std::size_t n = first; n < sentences.size() && (tokens == 0 || tokens + sentences[n].size() <= batch_tokens);
         ++n) {
      members.push_back(&sentences[n]);
      tokens += sentences[n].size();
    }
    Batch batch(sizes_, type_, members);
    embed_tokens(members, batch);
    for (const Layer &layer : layers_) run_layer(layer, batch);
    for (std::size_t b = 0; b < members.size(); ++b) {
      float *mean = embeddings.data() + (first + b) * e;
      for (std::int64_t token = batch.starts[b]; token < batch.starts[b + 1]; ++token) {
        batch.x.add_to(mean, static_cast<std::size_t>(token) * e, e);
      }
      const float norm = std::sqrt(std::inner_product(mean, mean + e, mean, 0.0f));
      for (std::size_t i = 0; i < e; ++i) mean[i] /= norm;
    }
    first += members.size();
  }
  return embeddings;
}

}  // namespace minilm
