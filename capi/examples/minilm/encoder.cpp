// SPDX-License-Identifier: Apache-2.0
#include "encoder.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace minilm {

using fovea::Tensor;

// Sentences padded to one length, [sentences, length, hidden], and the memory that a layer works in.
struct Encoder::Batch {
  Batch(const EncoderSizes &sizes, Type type, std::int64_t sentences, std::int64_t longest)
      : count(sentences),
        length(longest),
        x(type, static_cast<std::size_t>(sentences * longest * sizes.hidden)),
        y(type, x.size()),
        hidden(type, static_cast<std::size_t>(sentences * longest * sizes.intermediate)) {}

  std::int64_t rows() const { return count * length; }

  std::int64_t count, length;
  std::vector<std::int32_t> lengths;
  Numbers x, y, hidden;
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
  for (std::int64_t b = 0; b < batch.count; ++b) {
    const Tokens &tokens = *sentences[static_cast<std::size_t>(b)];
    batch.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
    auto row = static_cast<std::size_t>(b * batch.length * e);
    for (const std::int32_t token : tokens) {
      batch.y.assign(row, words_, static_cast<std::size_t>(token * e), static_cast<std::size_t>(e));
      row += static_cast<std::size_t>(e);
    }
  }
  // Every sentence has the same positions: a stride of 0.
  const fovea::Shape shape = {batch.count, batch.length, e};
  normalise(embedding_norm_, batch.y.view(shape), Tensor(positions_, shape, {0, e, 1}), batch.x.view(shape));
}

void Encoder::run_layer(const Layer &layer, Batch &batch) const {
  const std::int64_t e = sizes_.hidden;
  const fovea::Shape sequences = {batch.count, batch.length, e};
  const fovea::Output x = batch.x.view({batch.rows(), e}), y = batch.y.view({batch.rows(), e}),
                      hidden = batch.hidden.view({batch.rows(), sizes_.intermediate});
  fovea::self_attention(layer.attention, batch.x.view(sequences), batch.y.view(sequences),
                        {.attention = {.valid_lens = batch.lengths}});
  normalise(layer.attention_norm, y, x, x);
  fovea::linear(x, layer.up.weight, hidden, {.activation = fovea::Activation::gelu, .bias = layer.up.bias});
  fovea::linear(hidden, layer.down.weight, y, {.bias = layer.down.bias});
  normalise(layer.output_norm, y, x, x);
}

std::vector<float> Encoder::embed(const std::vector<Tokens> &sentences) const {
  constexpr std::size_t batch_rows = 2048;  // whose intermediate layer is 12 MB
  const auto e = static_cast<std::size_t>(sizes_.hidden);
  for (const Tokens &sentence : sentences) check(sentence);
  // Neighbours in a batch are of about one length, so that little is padding.
  std::vector<std::size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t n) { return std::pair(-std::ssize(sentences[n]), n); });

  std::vector<float> embeddings(sentences.size() * e);
  for (std::size_t first = 0; first < order.size();) {
    const std::size_t longest = sentences[order[first]].size();
    const std::size_t count = std::min(order.size() - first, std::max(batch_rows / longest, std::size_t{1}));
    std::vector<const Tokens *> members;
    for (std::size_t n = first; n < first + count; ++n) members.push_back(&sentences[order[n]]);
    Batch batch(sizes_, type_, static_cast<std::int64_t>(count), static_cast<std::int64_t>(longest));
    embed_tokens(members, batch);
    for (const Layer &layer : layers_) run_layer(layer, batch);
    for (std::size_t b = 0; b < count; ++b) {
      float *mean = embeddings.data() + order[first + b] * e;
      for (std::size_t token = 0; token < members[b]->size(); ++token) {
        batch.x.add_to(mean, (b * longest + token) * e, e);
      }
      const float norm = std::sqrt(std::inner_product(mean, mean + e, mean, 0.0f));
      for (std::size_t i = 0; i < e; ++i) mean[i] /= norm;
    }
    first += count;
  }
  return embeddings;
}

}  // namespace minilm
