// A rank's running state: what its queries have seen so far, in float32, and how another block is added to it.
#pragma once

#include <memory>

#include "mpi/block.hpp"
#include "mpi/handle.hpp"
#include "mpi/pieces.hpp"

namespace fovea::mpi {

class State {
 public:
  // Room for the queries of the call; sinks, if there are any, are its first state.
  [[nodiscard]] Status prepare(Handle *handle, const Call &call, const Pattern &pattern, const Share &queries);
  // Adds one rank's block; seconds of computing are added to figures.
  [[nodiscard]] Status attend(const Block &block, Progress progress, void *progress_data);
  // Rounds the state to the call's out and log_sum_exp.
  [[nodiscard]] Status write();

 private:
  enum Slot : signed char { first, result, second, nowhere };  // in memory in this order

  // What a call of the core takes: [kv heads, group or 1, rows, features].
  struct Operands {
    fovea_tensor query, key, value, out, sums;
  };

  Slot &state_of(int64_t batch, const Run &piece) const {
    return where_[static_cast<size_t>(batch * pieces_.count() + (&piece - &pieces_[0]))];
  }
  fovea_tensor out_of(Slot slot, int64_t batch, const Run &piece) const;   // [H,count,Dv]
  fovea_tensor sums_of(Slot slot, int64_t batch, const Run &piece) const;  // [H,count]
  void put_nothing(int64_t batch, const Run &piece);
  void put_sinks(int64_t batch, const Run &piece);
  Operands operands_of(int64_t batch, const Run &piece, const Block &block, int run) const;
  [[nodiscard]] Status attend_run(const Run &piece, const Meeting &meeting, const Operands &all, Progress progress,
                                  void *progress_data);
  [[nodiscard]] Status attend_heads(int64_t head, const Meeting &meeting, const Operands &some);
  [[nodiscard]] Status merge(int64_t batch, const Run &piece);
  [[nodiscard]] Status write_piece(int64_t batch, const Run &piece);

  Handle *handle_ = nullptr;
  const Call *call_ = nullptr;
  const Pattern *pattern_ = nullptr;
  Pieces pieces_;
  std::unique_ptr<Slot[]> where_;  // [B][pieces]
  float *out_ = nullptr;           // [3][B,H,Qr,Dv]
  float *sums_ = nullptr;          // [3][B,H,Qr]
};

}  // namespace fovea::mpi
