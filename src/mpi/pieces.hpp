// A rank's queries, cut into pieces, and what a call of the core is given for a piece and some heads.
//
// In the calls of the core each key/value head is a batch entry, with its H / Hkv query heads: the bits of an entry do
// not depend on what else is in a call, so that it does not matter how many heads a call has.
#pragma once

#include <memory>

#include "mpi/pattern.hpp"

namespace fovea::mpi {

// Called between calls of the core, so that messages move on.
using Progress = void (*)(void *);

// Neighbours of a run, at most 512.
class Pieces {
 public:
  static constexpr int64_t most_queries = 512;
  // False if there is no memory.
  bool cut(const Share &queries);
  int64_t count() const { return count_; }
  const Run &operator[](int64_t index) const { return pieces_[static_cast<size_t>(index)]; }

 private:
  std::unique_ptr<Run[]> pieces_;
  int64_t count_ = 0;
};

// How many key/value heads a call takes at once. products: of the size of the scores.
int64_t heads_per_call(const Handle &handle, const Call &call, int64_t queries, int64_t keys, double products);

// Tensors of heads [H,...] as batch entries, [Hkv,H / Hkv,...].
fovea_tensor by_kv_heads(const Call &call, const fovea_tensor &heads);

// Score and options of a call of the core for some key/value heads. Without sinks and outputs.
class HeadArguments {
 public:
  HeadArguments(const Call &call, const Meeting &meeting, int64_t head, int64_t heads);
  HeadArguments(const HeadArguments &) = delete;
  HeadArguments &operator=(const HeadArguments &) = delete;

  fovea_attention_options options = {};
  const fovea_score *score() const { return has_score_ ? &score_ : nullptr; }

 private:
  bool has_score_;
  fovea_score score_ = {};
  int64_t keys_;
  fovea_tensor lengths_ = {}, slopes_ = {}, sigmas_ = {};
};

}  // namespace fovea::mpi
