// A decoder of Llama's form, SmolLM2-135M-Instruct, on fovea alone: tokens of several sequences in, the logits of what
// follows each of them out.
//
//     x = embedding[token]
//     each layer:  x += attention(rms_norm(x))            causal, 3 query heads to one of keys and values, rotary
//                  h = rms_norm(x);  x += (silu(h Wg) * (h Wu)) Wd
//     logits = rms_norm(x) embedding^T                    of each sequence's last token
//
// What goes from one operation to the next is of the model's type, bfloat16 or float32; the stream x and logits are
// float32. Weights have that type or are rounded to 8 bits.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fovea/fovea.hpp>
#include <vector>

#include "../model_files/numbers.hpp"
#include "../model_files/safetensors.hpp"

namespace smollm2 {

using model_files::Numbers;
using model_files::Safetensors;
using model_files::Type;

// Those of SmolLM2-135M.
struct ModelSizes {
  std::int64_t vocabulary = 49152;
  std::int64_t layers = 30;
  std::int64_t hidden = 576;
  std::int64_t heads = 9;
  std::int64_t kv_heads = 3;
  std::int64_t intermediate = 1536;
  float rotary_base = 100000;
  float epsilon = 1e-5f;

  std::int64_t head_dim() const { return hidden / heads; }
  std::int64_t columns() const {
    return (heads + 2 * kv_heads) * head_dim();
  }  // of queries, keys and values side by side
};

// Where the time of steps went, in seconds.
struct Times {
  double attention = 0;  // with its projections' rotation and the pages' writing
  double products = 0;
  double rest = 0;
};

enum class Weights { f32, bf16, i8 };

class Model {
 public:
  explicit Model(Safetensors &file, Weights weights = Weights::bf16, const ModelSizes &sizes = {});

  const ModelSizes &sizes() const { return sizes_; }
  Type type() const { return type_; }
  fovea::Precision precision() const { return precision_; }  // of packing
  std::size_t weight_bytes() const;                          // that a step reads

 private:
  friend class Decoder;
  struct Layer {
    Numbers attention_norm;
    fovea::PackedMatrix query_key_value, out;
    Numbers feed_forward_norm;
    fovea::PackedMatrix gate, up, down;
  };

  fovea::PackedMatrix pack(const std::vector<float> &weight, std::int64_t inputs) const;
  fovea::PackedMatrix pack(Safetensors &file, const std::vector<std::string> &names, std::int64_t inputs) const;
  Layer read_layer(Safetensors &file, std::int64_t number) const;

  ModelSizes sizes_;
  Type type_;
  fovea::Precision precision_;
  Numbers embedding_;  // [vocabulary, hidden]
  fovea::PackedMatrix to_logits_;
  Numbers last_norm_;
  std::vector<Layer> layers_;
};

}  // namespace smollm2
