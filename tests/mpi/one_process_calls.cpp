// Masks, rows and options of the calls of one process.
#include "one_process_calls.hpp"

#include <algorithm>

namespace testing {
namespace {

// [B,H,L,D] of a tensor of any rank.
Shape lifted(const Tensor<float> &tensor) {
  const Shape &s = tensor.shape();
  if (s.size() == 4) return s;
  if (s.size() == 3) return {s[0], 1, s[1], s[2]};
  return {1, 1, s[0], s[1]};
}

}  // namespace

std::vector<Positions> pieces_of(const RankPositions &queries) {
  std::vector<Positions> pieces;
  for (const Positions &run : queries.runs) {
    for (size_t first = 0; first < run.size(); first += kPiece) {
      const auto begin = run.begin() + static_cast<int64_t>(first);
      pieces.emplace_back(begin, begin + static_cast<int64_t>(std::min(kPiece, run.size() - first)));
    }
  }
  return pieces;
}

bool OneProcess::set_mask(int64_t b, const Positions &piece, const Positions &run, Tensor<uint8_t> *mask) const {
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

std::vector<float> OneProcess::rows_of(const Tensor<float> &tensor, int64_t b, const Positions &positions) {
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

void OneProcess::set(int64_t head, int64_t b, const Positions &piece, const Positions &run, const Tensor<uint8_t> &mask,
                     HeadCall *call) const {
  const int64_t group = whole_.sizes.heads / whole_.sizes.kv_heads;
  fovea_attention_options &options = call->options;
  options.struct_size = sizeof options;
  options.flags = whole_.flags & (FOVEA_SCALE_GIVEN | FOVEA_QUERY_INVARIANT);
  options.scale = whole_.scale;
  options.softcap = whole_.softcap;
  call->mask = mask.view();
  options.mask = &call->mask;
  const auto per_head = [&](const Tensor<float> &all, fovea_tensor *part) {
    *part = all.view();
    part->data = &all.at({head * group});
    part->shape[0] = group;
  };
  if (whole_.alibi_slopes) {  // runs of neighbours only
    per_head(*whole_.alibi_slopes, &call->slopes);
    options.alibi_slopes = &call->slopes;
    options.flags |= FOVEA_QUERY_OFFSET;
    options.query_offset = offset_of(b) + piece[0] - run[0];
  }
  if (whole_.score) call->score.emplace(*whole_.score);
  if (whole_.score && whole_.score->sigmas) {
    per_head(*whole_.score->sigmas, &call->sigmas);
    call->score->score.sigmas = &call->sigmas;
  }
}

int64_t OneProcess::offset_of(int64_t b) const {
  if (inputs_.query_offsets) return (*inputs_.query_offsets)[static_cast<size_t>(b)];
  if (inputs_.query_offset) return *inputs_.query_offset;
  return inputs_.top_left ? 0 : std::max<int64_t>(0, inputs_.key_len - inputs_.query_len);
}

}  // namespace testing
