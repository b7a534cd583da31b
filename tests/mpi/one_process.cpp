// Ring attention by one process: the calls that fovea/mpi.h lists, in their order.
#include "one_process.hpp"

#include <algorithm>

namespace testing {
namespace {

constexpr size_t kPiece = 512;

// [B,H,L,D] of a tensor of any rank.
Shape lifted(const Tensor<float> &tensor) {
  const Shape &s = tensor.shape();
  if (s.size() == 4) return s;
  if (s.size() == 3) return {s[0], 1, s[1], s[2]};
  return {1, 1, s[0], s[1]};
}

struct Partial {
  std::vector<float> out, sums;  // [H,rows,Dv], [H,rows]
};

class OneRank {
 public:
  OneRank(const AttentionProblem &whole, const fovea_context *context)
      : whole_(whole), inputs_(whole.reference_inputs()), context_(context) {}

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
      if (!set_mask(b, piece, run, &mask)) continue;
      Partial more = attend_run(b, piece, run, mask);
      state = seen ? merge(state, more, rows) : more;
      seen = true;
    }
    return state;
  }

 private:
  bool set_mask(int64_t b, const Positions &piece, const Positions &run, Tensor<uint8_t> *mask) const {
    bool any = false;
    for (size_t i = 0; i < piece.size(); ++i) {
      const std::vector<bool> attended = reference::attended_keys(inputs_, b, 0, piece[i]);
      for (size_t j = 0; j < run.size(); ++j) {
        const bool yes = attended[static_cast<size_t>(run[j])];
        (*mask)(static_cast<int64_t>(i), static_cast<int64_t>(j)) = yes ? 1 : 0;
        any = any || yes;
      }
    }
    return any;
  }

  // One entry's positions, contiguous [Hkv,group,L,D].
  std::vector<float> rows_of(const Tensor<float> &tensor, int64_t b, const Positions &positions) const {
    const Shape shape = lifted(tensor);
    const std::vector<float> dense = tensor.dense();
    std::vector<float> rows;
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (const int64_t p : positions) {
        const auto at = dense.begin() + ((b * shape[1] + h) * shape[2] + p) * shape[3];
        rows.insert(rows.end(), at, at + shape[3]);
      }
    }
    return rows;
  }

  Partial attend_run(int64_t b, const Positions &piece, const Positions &run, const Tensor<uint8_t> &mask) const {
    const AttentionSizes &s = whole_.sizes;
    const auto q = static_cast<int64_t>(piece.size()), k = static_cast<int64_t>(run.size());
    const int64_t group = s.heads / s.kv_heads;
    const std::vector<float> query = rows_of(whole_.query, b, piece), key = rows_of(whole_.key, b, run),
                             value = rows_of(whole_.value, b, run);
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
      fovea_tensor sums = tensor(partial.sums, group, q, 1), mask_view = mask.view(), slopes{}, sigmas{};
      sums.rank = 3;
      sums.strides[0] = group * q, sums.strides[1] = q, sums.strides[2] = 1;
      fovea_attention_options options = {};
      options.struct_size = sizeof options;
      options.flags = whole_.flags & (FOVEA_SCALE_GIVEN | FOVEA_QUERY_INVARIANT);
      options.scale = whole_.scale;
      options.softcap = whole_.softcap;
      options.mask = &mask_view;
      options.log_sum_exp = &sums;
      const auto per_head = [&](const Tensor<float> &all, fovea_tensor *part) {
        *part = all.view();
        part->data = &all.at({head * group});
        part->shape[0] = group;
      };
      if (whole_.alibi_slopes) {  // runs of neighbours only
        per_head(*whole_.alibi_slopes, &slopes);
        options.alibi_slopes = &slopes;
        options.flags |= FOVEA_QUERY_OFFSET;
        options.query_offset = offset_of(b) + piece[0] - run[0];
      }
      std::optional<ScoreArguments> score;
      if (whole_.score) score.emplace(*whole_.score);
      if (whole_.score && whole_.score->sigmas) {
        per_head(*whole_.score->sigmas, &sigmas);
        score->score.sigmas = &sigmas;
      }
      REQUIRE_OK(fovea_attention(context_, score ? &score->score : nullptr, &q_view, &k_view, &v_view, &out, &options));
    }
    return partial;
  }

  int64_t offset_of(int64_t b) const {
    if (inputs_.query_offsets) return (*inputs_.query_offsets)[static_cast<size_t>(b)];
    if (inputs_.query_offset) return *inputs_.query_offset;
    return inputs_.top_left ? 0 : std::max<int64_t>(0, inputs_.key_len - inputs_.query_len);
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
  const reference::AttentionInputs inputs_;
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
  for (const Positions &run : mine.runs) {
    for (size_t first = 0; first < run.size(); first += kPiece) {
      const size_t count = std::min(kPiece, run.size() - first);
      const Positions piece(run.begin() + static_cast<int64_t>(first),
                            run.begin() + static_cast<int64_t>(first + count));
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
  }
  return result;
}

}  // namespace testing
