// What a rank has of gradients while blocks go round: the sums of its queries, in float32, and how a block adds to them
// and to its own.
#pragma once

#include "mpi/block.hpp"
#include "mpi/gradient_call.hpp"
#include "mpi/parameter_sums.hpp"
#include "mpi/pieces.hpp"

namespace fovea::mpi {

class GradientState {
 public:
  GradientState(Handle *handle, const Call *call, const GradientCall *gradients, ParameterSums *parameters)
      : handle_(handle), call_(call), gradients_(gradients), parameters_(parameters) {}

  // Room for the sums of queries, which begin at 0, and for what a call of the core gives of a run of so many keys.
  [[nodiscard]] Status prepare(const Pattern &pattern, const Share &queries, int64_t longest_run);
  // Adds what the rank's queries and a block give, to the queries' sums, the parameters' and `sums`, the block's.
  [[nodiscard]] Status attend(const Block &block, const Block &sums, Progress progress, void *progress_data);
  // Rounds the queries' sums to the type of their gradient.
  [[nodiscard]] Status write();

 private:
  // What a call of the core takes: [kv heads, group or 1, rows, features]. Sums without elements are not wanted.
  struct Operands {
    fovea_tensor query, key, value, out, log_sum_exp, grad_out, grad_log_sum_exp;
    fovea_tensor query_sums, key_sums, value_sums;
  };

  bool wants(const fovea_tensor *fovea_attention_gradients::*tensor) const {
    return gradients_->given.*tensor != nullptr;
  }
  fovea_tensor query_sums() const;  // [B,H,Qr,Dq]
  Operands operands_of(int64_t batch, const Run &piece, const Block &block, const Block &sums, int run) const;
  [[nodiscard]] Status attend_run(const Run &piece, const Meeting &meeting, const Operands &all, Progress progress,
                                  void *progress_data);
  [[nodiscard]] Status attend_heads(int64_t head, const Meeting &meeting, const Operands &some);

  Handle *handle_;
  const Call *call_;
  const GradientCall *gradients_;
  ParameterSums *parameters_;
  const Pattern *pattern_ = nullptr;
  Pieces pieces_;
  float *query_sums_ = nullptr, *query_terms_ = nullptr, *key_terms_ = nullptr, *value_terms_ = nullptr;
};

}  // namespace fovea::mpi
