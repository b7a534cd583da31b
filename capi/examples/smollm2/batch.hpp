// Answers requests together, as a server does: new ones join while others decode, finished ones leave, and what all of
// them begin with is computed once and forked.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "decoder.hpp"
#include "sampler.hpp"

namespace smollm2 {

struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t most = 256;  // tokens of the answer
  SamplerOptions sampling = {};
};

class Batch {
 public:
  using Told = std::function<void(std::size_t request, std::int32_t token)>;  // also of the token that ends an answer

  // At most `together` requests at a time, whose steps have at most `tokens` tokens: the rest of a long prompt waits.
  Batch(Decoder &decoder, std::int64_t together, std::int64_t tokens, std::int32_t end)
      : decoder_(decoder), together_(static_cast<std::size_t>(together)), tokens_(tokens), end_(end) {}

  // All prompts go on from these tokens.
  void begin_with(const std::vector<std::int32_t> &tokens);

  // Numbered from 0 on.
  void add(Request request) { waiting_.push_back({requests_++, std::move(request)}); }

  // One step of all that are there; false once there are none. Told of every token.
  bool step(const Told &told);

 private:
  struct Waiting {
    std::size_t number;
    Request request;
  };
  struct Active {
    std::size_t number;
    Request request;
    fovea::Sequence sequence;
    Sampler sampler;
    std::int64_t made = 0;                // tokens of the answer
    std::size_t taken = 0;                // of the prompt, by steps
    std::int32_t last = 0;                // token, once the prompt is taken
    std::span<const std::int32_t> now{};  // this step's tokens
  };

  void admit();
  bool ended(Active &active, std::span<const float> logits, const Told &told) const;

  Decoder &decoder_;
  std::size_t together_;
  std::int64_t tokens_;
  std::int32_t end_;
  std::optional<fovea::Sequence> common_;
  std::deque<Waiting> waiting_;
  std::vector<std::unique_ptr<Active>> active_;
  std::size_t requests_ = 0;
};

}  // namespace smollm2
