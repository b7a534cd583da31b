// Parts of the calls that one process makes in place of a rank.
#pragma once

#include "ranks.hpp"

namespace testing {

// Neighbouring queries of a run that go into one call at most.
inline constexpr size_t kPiece = 512;
std::vector<Positions> pieces_of(const RankPositions &queries);

// Score and options of a call for one key/value head.
struct HeadCall {
  HeadCall() = default;
  HeadCall(const HeadCall &) = delete;
  HeadCall &operator=(const HeadCall &) = delete;
  fovea_tensor mask{}, slopes{}, sigmas{};
  fovea_attention_options options{};
  std::optional<ScoreArguments> score;
  const fovea_score *its_score() const { return score ? &score->score : nullptr; }
};

class OneProcess {
 public:
  explicit OneProcess(const AttentionProblem &whole) : whole_(whole), inputs_(whole.reference_inputs()) {}

  // Which keys of a run the queries of a piece attend, by the reference; false if none.
  bool set_mask(int64_t b, const Positions &piece, const Positions &run, Tensor<uint8_t> *mask) const;
  // One entry's positions, contiguous [Hkv,group,L,D].
  static std::vector<float> rows_of(const Tensor<float> &tensor, int64_t b, const Positions &positions);
  void set(int64_t head, int64_t b, const Positions &piece, const Positions &run, const Tensor<uint8_t> &mask,
           HeadCall *call) const;

 private:
  int64_t offset_of(int64_t b) const;

  const AttentionProblem &whole_;
  const reference::AttentionInputs inputs_;
};

}  // namespace testing
