// A BERT encoder with mean pooling, on fovea alone: sentences in, unit vectors out; in float32, float16 or bfloat16.
//
//     x = layer_norm(word[token] + position + token_type[0])
//     each layer:  x = layer_norm(x + self_attention(x))                       keys past the sentence's end left out
//                  x = layer_norm(x + gelu(x W1 + b1) W2 + b2)
//     embedding = mean of x over the sentence's tokens, divided by its length
//
// Weights, word embeddings and all that goes from one operation to the next are of the encoder's type; what a processor
// computes in between, biases, the parameters of normalisation and embeddings are float32.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fovea/fovea.hpp>
#include <vector>

#include "../model_files/numbers.hpp"
#include "../model_files/safetensors.hpp"

namespace minilm {

using model_files::Numbers;
using model_files::Safetensors;
using model_files::Type;

// Those of all-MiniLM-L6-v2.
struct EncoderSizes {
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512;
  std::int64_t layers = 6;
  std::int64_t hidden = 384;
  std::int64_t heads = 12;
  std::int64_t intermediate = 1536;
  float epsilon = 1e-12f;
};

using Tokens = std::vector<std::int32_t>;

class Encoder {
 public:
  explicit Encoder(Safetensors &file, Type type = Type::f32, const EncoderSizes &sizes = {});

  // [sentences, hidden]. A sentence has 1 to sizes.positions tokens. Throws std::invalid_argument, fovea::Error.
  std::vector<float> embed(const std::vector<Tokens> &sentences) const;

  const EncoderSizes &sizes() const { return sizes_; }
  Type type() const { return type_; }

 private:
  struct Dense {
    fovea::PackedMatrix weight;
    std::vector<float> bias;
  };
  struct Norm {
    std::vector<float> weight, bias;
  };
  struct Layer {
    fovea::MultiHeadWeights attention;
    Norm attention_norm;
    Dense up, down;
    Norm output_norm;
  };
  struct Batch;

  Layer read_layer(Safetensors &file, const std::string &prefix) const;
  Dense read_dense(Safetensors &file, const std::string &name, std::int64_t outputs, std::int64_t inputs) const;
  Norm read_norm(Safetensors &file, const std::string &name) const;
  void check(const Tokens &sentence) const;
  void embed_tokens(const std::vector<const Tokens *> &sentences, Batch &batch) const;
  void run_layer(const Layer &layer, Batch &batch) const;
  void normalise(const Norm &norm, const fovea::Input &y, const fovea::Input &residual, const fovea::Output &out) const;

  EncoderSizes sizes_;
  Type type_;
  Numbers words_;                 // [vocabulary, hidden]
  std::vector<float> positions_;  // [positions, hidden], with token_type[0], which is all that one sentence needs
  Norm embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace minilm
