// Ring attention by one process: the calls that fovea/mpi.h lists, in their order.
#include "one_process.hpp"

#include <algorithm>

#include "one_process_calls.hpp"

namespace testing {
namespace {

struct Partial {
  std::vector<float> out, sums;  // [H,rows,Dv], [H,rows]
};

class OneRank {
 public:
  OneRank(const AttentionProblem &whole, const fovea_context *context)
      : whole_(whole), parts_(whole), context_(context) {}

  // The state of a piece of queries of a batch entry, after all blocks, given as their runs in order.
  Partial attend(int64_t b, const Positions &piece, const std::vector<Positions> &runs) const {
    const AttentionSizes &s = whole_.sizes;
    const auto rows = static_cast<int64_t>(piece.size());
    bool seen = whole_.sinks.has_value();
    Partial state = {std::vector<float>(static_cast<size_t>(s.heads * rows * s.value_dim)),
                     std::vector<float>(static_cast<size_t>(s.heads * rows), -kInfinity)};
    for (int64_t h = 0; seen && h < s.heads; ++h) {
      std::fill_n(state.sums.begin() + h * rows, rows, whole_.sinks->at({h}));
    }
    for (const Positions &run : runs) {
      Tensor<uint8_t> mask(Shape{rows, static_cast<int64_t>(run.size())});
      if (!parts_.set_mask(b, piece, run, &mask)) continue;
      Partial more = attend_run(b, piece, run, mask);
      state = seen ? merge(state, more, rows) : more;
      seen = true;
    }
    return state;
  }

 private:
  Partial attend_run(int64_t b, const Positions &piece, const Positions &run, const Tensor<uint8_t> &mask) const {
    const AttentionSizes &s = whole_.sizes;
    const auto q = static_cast<int64_t>(piece.size()), k = static_cast<int64_t>(run.size());
    const int64_t group = s.heads / s.kv_heads;
    const std::vector<float> query = OneProcess::rows_of(whole_.query, b, piece),
                             key = OneProcess::rows_of(whole_.key, b, run),
                             value = OneProcess::rows_of(whole_.value, b, run);
    Partial partial = {std::vector<float>(static_cast<size_t>(s.heads * q * s.value_dim)),
                       std::vector<float>(static_cast<size_t>(s.heads * q))};
    // Per-head parameters differ from entry to entry, so each key/value head is a call of its own here.
    for (int64_t head = 0; head < s.kv_heads; ++head) {
      const auto tensor = [&](const std::vector<float> &all, int64_t heads, int64_t length, int64_t dim) {
        const int64_t shape[] = {1, heads, length, dim};
        return fovea_tensor_contiguous(all.data() + head * heads * length * dim, FOVEA_F32, 4, shape);
      };
      const fovea_tensor q_view = tensor(query, group, q, s.head_dim), k_view = tensor(key, 1, k, s.key_size()),
                         v_view = tensor(value, 1, k, s.value_dim), out = tensor(partial.out, group, q, s.value_dim);
      fovea_tensor sums = tensor(partial.sums, group, q, 1);
      sums.rank = 3;
      sums.strides[0] = group * q, sums.strides[1] = q, sums.strides[2] = 1;
      HeadCall call;
      parts_.set(head, b, piece, run, mask, &call);
      call.options.log_sum_exp = &sums;
      REQUIRE_OK(fovea_attention(context_, call.its_score(), &q_view, &k_view, &v_view, &out, &call.options));
    }
    return partial;
  }

  Partial merge(const Partial &state, const Partial &more, int64_t rows) const {
    const AttentionSizes &s = whole_.sizes;
    std::vector<float> outs = state.out, sums = state.sums;
    outs.insert(outs.end(), more.out.begin(), more.out.end());
    sums.insert(sums.end(), more.sums.begin(), more.sums.end());
    Partial merged = {std::vector<float>(state.out.size()), std::vector<float>(state.sums.size())};
    const int64_t outs_shape[] = {2, s.heads, rows, s.value_dim};
    const fovea_tensor all = fovea_tensor_contiguous(outs.data(), FOVEA_F32, 4, outs_shape);
    const fovea_tensor all_sums = fovea_tensor_contiguous(sums.data(), FOVEA_F32, 3, outs_shape);
    const fovea_tensor out = fovea_tensor_contiguous(merged.out.data(), FOVEA_F32, 3, outs_shape + 1);
    const fovea_tensor sum = fovea_tensor_contiguous(merged.sums.data(), FOVEA_F32, 2, outs_shape + 1);
    REQUIRE_OK(fovea_merge_states(context_, &all, &all_sums, &out, &sum));
    return merged;
  }

  const AttentionProblem &whole_;
  const OneProcess parts_;
  const fovea_context *context_;
};

}  // namespace

AttentionResult ring_in_one_process(const AttentionProblem &whole, const std::vector<RankPositions> &queries,
                                    const std::vector<RankPositions> &keys, int rank, const fovea_context *context) {
  const AttentionSizes &s = whole.sizes;
  const auto ranks = static_cast<int>(keys.size());
  std::vector<Positions> runs;  // as they come round
  for (int step = 0; step < ranks; ++step) {
    for (const Positions &run : keys[static_cast<size_t>((rank - step + ranks) % ranks)].runs) runs.push_back(run);
  }
  const OneRank one(whole, context);
  const RankPositions &mine = queries[static_cast<size_t>(rank)];
  AttentionResult result = result_of_share(whole, static_cast<int64_t>(mine.all().size()));
  int64_t at = 0;
  for (const Positions &piece : pieces_of(mine)) {
    const size_t count = piece.size();
    for (int64_t b = 0; b < s.batch; ++b) {
      const Partial state = one.attend(b, piece, runs);
      for (int64_t h = 0; h < s.heads; ++h) {
        for (size_t i = 0; i < count; ++i) {
          const auto row = static_cast<size_t>(h) * count + i;
          Shape place = whole.rank == 4   ? Shape{b, h, at + static_cast<int64_t>(i)}
                        : whole.rank == 3 ? Shape{b, at + static_cast<int64_t>(i)}
                                          : Shape{at + static_cast<int64_t>(i)};
          const bool empty = state.sums[row] == -kInfinity;
          if (result.log_sum_exp) result.log_sum_exp->at(place) = state.sums[row];
          place.push_back(0);
          for (int64_t d = 0; d < s.value_dim; ++d) {
            place.back() = d;
            const float value = state.out[row * static_cast<size_t>(s.value_dim) + static_cast<size_t>(d)];
            result.out.at(place) = empty ? (whole.empty_rows == FOVEA_EMPTY_ROWS_NAN ? kNan : 0.0f) : value;
          }
        }
      }
    }
    at += static_cast<int64_t>(count);
  }
  return result;
}

}  // namespace testing
