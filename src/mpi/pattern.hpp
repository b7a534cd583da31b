// Which keys of a run the queries of another run attend, when positions of both count in the whole sequence.
//
// Query i of a run stands at position p_i = offset + q + s i, key j at k + s j, s being the step between neighbours and
// offset the call's own (query_offset). With d = offset + q - k, a window of `left` and `right` positions allows
//     ceil((d - left) / s) <= j - i <= floor((d + right) / s)
// which is again a window about some whole offset: what fovea_attention takes.
#pragma once

#include "mpi/call.hpp"
#include "mpi/positions.hpp"

namespace fovea::mpi {

// What is asked of fovea_attention for one batch entry, run of queries and run of keys.
struct Meeting {
  bool any;  // some query attends some key
  uint32_t flags;
  int64_t query_offset, window_left, window_right;
  int64_t keys;  // valid ones of the run
};

class Pattern {
 public:
  Pattern() = default;
  Pattern(const Call &call, const WholeLengths &lengths);
  Meeting meet(int64_t batch, const Run &queries, const Run &keys) const;

 private:
  int64_t offset_of(int64_t batch) const;

  const Call *call_ = nullptr;
  int64_t offset_ = 0;            // of positions
  int64_t leave_out_offset_ = 0;  // of the key that a query leaves out
  bool counts_positions_ = false;
};

}  // namespace fovea::mpi
