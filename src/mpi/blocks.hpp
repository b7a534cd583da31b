// The blocks of keys and values that go round. At step t a rank has the block of the rank t before it: it sends it on
// and receives the next one into a second buffer, while somebody computes with it.
//
// A run of a block goes on while a rank further round attends any of it. All ranks find out the same from what they
// agreed on, so no message says how long the next one is.
#pragma once

#include "mpi/block.hpp"
#include "mpi/messages.hpp"
#include "mpi/pattern.hpp"

namespace fovea::mpi {

class Blocks {
 public:
  Blocks(Handle *handle, const Call *call, const fovea_mpi_ring_options &options);

  // All ranks' lengths, of which each has stated its own. All ranks come to the same errors.
  [[nodiscard]] Status read_lengths(const Statement &statement);
  // Memory for two blocks. The messages of a step are at most `requests`.
  [[nodiscard]] Status prepare(const Messages &messages, int64_t *requests);

  const Pattern &pattern() const { return pattern_; }
  Share queries_of(int rank) const { return share_in(order_, lengths_.query_begin, handle_->ranks, rank); }
  Share keys_of(int rank) const { return share_in(order_, lengths_.key_begin, handle_->ranks, rank); }
  int64_t longest() const { return longest_; }  // positions of a block
  int owner_at(int step) const { return (handle_->rank - step + handle_->ranks) % handle_->ranks; }
  // The last rank that attends any of a run, counted from its owner. Every rank that has it before passes it on.
  int last_step(int owner, int run) const { return handle_->steps()[2 * owner + run]; }
  Block at(int step) const { return layout_.in(buffer(step), keys_of(owner_at(step))); }

  // Puts the call's own keys and values where step 0 finds them.
  void pack(Status *computed) const;
  // Starts the messages of a step: the block of this step goes on, that of the next one comes.
  [[nodiscard]] Status exchange(int step, Messages *messages) const;

 private:
  int find_last_step(int owner, int run) const;
  char *buffer(int step) const { return handle_->of(step % 2 == 0 ? Use::sent : Use::received).data(); }

  Handle *handle_;
  const Call *call_;
  int32_t order_;
  BlockLayout layout_;  // in the types that blocks travel in
  WholeLengths lengths_;
  int64_t longest_ = 0;
  Pattern pattern_;
};

// Copies, or rounds by the activation that changes nothing.
[[nodiscard]] Status copy_rounded(const Handle &handle, const fovea_tensor &from, const fovea_tensor &to);

}  // namespace fovea::mpi
