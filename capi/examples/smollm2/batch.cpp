// SPDX-License-Identifier: Apache-2.0
#include "batch.hpp"

#include <algorithm>

namespace smollm2 {

void Batch::begin_with(const std::vector<std::int32_t> &tokens) {
  common_ = decoder_.open();
  for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(tokens_)) {
    const std::size_t count = std::min(tokens.size() - at, static_cast<std::size_t>(tokens_));
    decoder_.step({{&*common_, std::span(tokens).subspan(at, count)}});
  }
}

void Batch::admit() {
  while (active_.size() < together_ && !waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const SamplerOptions sampling = next.request.sampling;
    active_.push_back(std::make_unique<Active>(Active{.number = next.number,
                                                      .request = std::move(next.request),
                                                      .sequence = common_ ? common_->fork() : decoder_.open(),
                                                      .sampler = Sampler(sampling)}));
  }
}

bool Batch::step(const Told &told) {
  admit();
  if (active_.empty()) return false;
  // Answers first: nobody waits for a token because another one's prompt is long.
  std::int64_t left = tokens_;
  for (const auto &a : active_) {
    const bool answers = a->taken == a->request.prompt.size();
    a->now = answers ? std::span(&a->last, 1) : std::span<const std::int32_t>();
    left -= answers ? 1 : 0;
  }
  std::vector<Continuation> continuations;
  std::vector<Active *> stepped;
  for (const auto &a : active_) {
    const std::size_t rest = a->request.prompt.size() - a->taken;
    if (rest > 0) {
      const std::size_t count = std::min(rest, static_cast<std::size_t>(left));
      a->now = std::span(a->request.prompt).subspan(a->taken, count);
      a->taken += count;
      left -= static_cast<std::int64_t>(count);
    }
    if (a->now.empty()) continue;
    continuations.push_back({&a->sequence, a->now});
    stepped.push_back(a.get());
  }
  const std::span<const float> logits = decoder_.step(continuations);
  const std::size_t vocabulary = logits.size() / stepped.size();
  for (std::size_t n = 0; n < stepped.size(); ++n) {
    Active &a = *stepped[n];
    if (a.taken < a.request.prompt.size() || !ended(a, logits.subspan(n * vocabulary, vocabulary), told)) continue;
    std::erase_if(active_, [&](const auto &other) { return other.get() == &a; });
  }
  return true;
}

bool Batch::ended(Active &a, std::span<const float> logits, const Told &told) const {
  a.last = a.sampler(logits);
  told(a.number, a.last);
  return a.last == end_ || ++a.made >= a.request.most;
}

}  // namespace smollm2
