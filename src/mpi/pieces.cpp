// Cuts queries into pieces, and makes the arguments of calls of the core.
#include "mpi/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Enough for the call's own cost not to matter, little enough for messages to move on: about 5 ms of a core.
constexpr double operations_per_call = 2.5e8;

fovea_tensor one_length(int64_t *length, int64_t entries) {
  fovea_tensor tensor = fovea_tensor_contiguous(length, FOVEA_I64, 1, &entries);
  tensor.strides[0] = 0;
  return tensor;
}

}  // namespace

bool Pieces::cut(const Share &queries) {
  count_ = 0;
  for (int run = 0; run < queries.count; ++run) count_ += (queries.runs[run].count + most_queries - 1) / most_queries;
  pieces_.reset(new (std::nothrow) Run[static_cast<size_t>(count_)]);
  if (pieces_ == nullptr) return false;
  int64_t piece = 0;
  for (int run = 0; run < queries.count; ++run) {
    const Run &all = queries.runs[run];
    for (int64_t begin = 0; begin < all.count; begin += most_queries) {
      const int64_t count = std::min(most_queries, all.count - begin);
      pieces_[static_cast<size_t>(piece++)] = {all.first + begin * all.step, all.step, count, all.at + begin};
    }
  }
  return true;
}

int64_t heads_per_call(const Handle &handle, const Call &c, int64_t queries, int64_t keys, double products) {
  if (c.has_alibi_slopes || (c.score != nullptr && c.score->sigmas != nullptr)) return 1;
  const double operations = products * static_cast<double>(c.group()) * static_cast<double>(queries) *
                            static_cast<double>(keys) * static_cast<double>(c.key.shape[3] + c.value_dim());
  const double wanted = std::ceil(operations_per_call * fovea_context_threads(handle.context) / operations);
  return static_cast<int64_t>(std::min(wanted, static_cast<double>(c.kv_heads())));
}

fovea_tensor by_kv_heads(const Call &call, const fovea_tensor &heads) { return split_axis(heads, 0, call.kv_heads()); }

HeadArguments::HeadArguments(const Call &c, const Meeting &meeting, int64_t head, int64_t heads)
    : has_score_(c.score != nullptr), keys_(meeting.keys) {
  options.struct_size = sizeof options;
  options.flags = meeting.flags;
  options.scale = c.options.scale;
  options.softcap = c.options.softcap;
  options.query_offset = meeting.query_offset;
  options.window_left = meeting.window_left;
  options.window_right = meeting.window_right;
  options.precision = c.options.precision;
  lengths_ = one_length(&keys_, heads);
  if (c.has_valid_lens) options.valid_lens = &lengths_;
  const auto of_group = [&](const fovea_tensor &per_head) { return part_of(per_head, 0, head * c.group(), c.group()); };
  if (c.has_alibi_slopes) slopes_ = of_group(c.alibi_slopes), options.alibi_slopes = &slopes_;
  if (has_score_) score_ = *c.score;
  if (score_.sigmas != nullptr) sigmas_ = of_group(*score_.sigmas), score_.sigmas = &sigmas_;
}

}  // namespace fovea::mpi
