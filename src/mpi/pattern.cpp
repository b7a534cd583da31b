// Turns positions of the whole sequence into those of two runs.
#include "mpi/pattern.hpp"

#include <algorithm>
#include <limits>

namespace fovea::mpi {
namespace {

constexpr int64_t farther_than_any = int64_t{1} << 40;

int64_t floor_divided(int64_t number, int64_t step) {
  return number >= 0 ? number / step : -((-number + step - 1) / step);
}
int64_t ceil_divided(int64_t number, int64_t step) { return -floor_divided(-number, step); }

}  // namespace

Pattern::Pattern(const Call &call, const WholeLengths &lengths) : call_(&call) {
  const bool explicit_offset = call.has(FOVEA_QUERY_OFFSET);
  const bool bottom_right = !call.has(FOVEA_TOP_LEFT) && !explicit_offset && lengths.keys > lengths.queries;
  leave_out_offset_ = explicit_offset ? call.options.query_offset : 0;
  offset_ = bottom_right ? lengths.keys - lengths.queries : leave_out_offset_;
  counts_positions_ = call.has(FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT) || call.has_alibi_slopes;
}

int64_t Pattern::offset_of(int64_t batch) const {
  return call_->has_query_offsets ? integer_at(call_->query_offsets, batch) : offset_;
}

Meeting Pattern::meet(int64_t batch, const Run &queries, const Run &keys) const {
  Meeting meeting = {false, call_->options.flags & (FOVEA_QUERY_INVARIANT | FOVEA_SCALE_GIVEN), 0, 0, 0, keys.count};
  const int64_t step = keys.step;
  if (call_->has_valid_lens) {
    const int64_t left = integer_at(call_->valid_lens, batch) - keys.first;
    meeting.keys = std::clamp<int64_t>(ceil_divided(left, step), 0, keys.count);
  }
  if (queries.count == 0 || meeting.keys == 0) return meeting;
  const int64_t distance = offset_of(batch) + queries.first - keys.first;
  const bool left = call_->has(FOVEA_WINDOW_LEFT), right = call_->has(FOVEA_WINDOW_RIGHT | FOVEA_CAUSAL);
  const int64_t to_left = std::min(call_->options.window_left, farther_than_any);
  const int64_t to_right = call_->has(FOVEA_CAUSAL) ? 0 : std::min(call_->options.window_right, farther_than_any);
  const int64_t least = left ? ceil_divided(distance - to_left, step) : -farther_than_any;
  const int64_t most = right ? floor_divided(distance + to_right, step) : farther_than_any;
  meeting.any = least <= most && least < meeting.keys && most > -queries.count;
  if (!meeting.any) return meeting;
  if (counts_positions_) {
    meeting.flags |= FOVEA_QUERY_OFFSET;
    meeting.query_offset = std::clamp(floor_divided(distance, step), least, most);
  }
  if (left) meeting.flags |= FOVEA_WINDOW_LEFT;
  if (right) meeting.flags |= FOVEA_WINDOW_RIGHT;
  meeting.window_left = left ? meeting.query_offset - least : 0;
  meeting.window_right = right ? most - meeting.query_offset : 0;
  const int64_t left_out =
      (call_->has_query_offsets ? offset_of(batch) : leave_out_offset_) + queries.first - keys.first;
  if (call_->has(FOVEA_LEAVE_ONE_OUT) && left_out % step == 0) {
    meeting.flags |= FOVEA_LEAVE_ONE_OUT | FOVEA_QUERY_OFFSET;
    if (!counts_positions_) meeting.query_offset = left_out / step;
  }
  return meeting;
}

}  // namespace fovea::mpi
