// Runs a model's steps over a pool of keys and values: any number of sequences at once, each with one new token or a
// prompt, with one schedule for all layers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "model.hpp"

namespace smollm2 {

struct DecoderLimits {
  std::int64_t sequences = 1;
  std::int64_t tokens = 512;      // of a step
  std::int64_t positions = 4096;  // of all sequences together; those that a fork shares count once
};

// What a sequence goes on with.
struct Continuation {
  const fovea::Sequence *sequence;
  std::span<const std::int32_t> tokens;
};

class Decoder {
 public:
  // cache: what keys and values are kept as, FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; FOVEA_U8: keys as FOVEA_I8,
  // values in 4 bits.
  Decoder(const Model &model, const DecoderLimits &limits, fovea_dtype cache);

  fovea::Sequence open() { return pool_.open(); }

  // [continuations, vocabulary], until the next step. Throws fovea::Error, of FOVEA_OUT_OF_MEMORY's kind when the pool
  // is full: nothing has changed then.
  std::span<const float> step(const std::vector<Continuation> &continuations);

  // The bytes of keys and values that a step at this depth reads.
  double cache_bytes(std::int64_t depth) const;
  std::size_t pool_bytes() const { return pool_.size_bytes(); }
  const Times &times() const { return times_; }

 private:
  fovea::Schedule make_schedule(const DecoderLimits &limits);
  void embed(const std::vector<Continuation> &continuations);
  void attend(std::int64_t layer, std::int64_t tokens);
  void feed_forward(const Model::Layer &layer, std::int64_t tokens);
  void make_logits(const std::vector<Continuation> &continuations);
  fovea::Output rows(Numbers &numbers, std::int64_t tokens, std::int64_t columns) {
    return numbers.view({tokens, columns});
  }

  const Model &model_;
  fovea_dtype cache_;
  fovea::KvPool pool_;
  Numbers x_;                                      // the stream
  Numbers y_, query_key_value_, attended_, gate_;  // of the model's type
  Numbers up_;
  Numbers last_;  // the last tokens' rows of the stream
  std::vector<float> logits_;
  fovea::Schedule schedule_;
  std::vector<std::byte> workspace_;
  Times times_;
};

}  // namespace smollm2
