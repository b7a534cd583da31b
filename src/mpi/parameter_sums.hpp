// Gradients that are sums over all queries and keys: of ALiBi slopes, of sinks and of a score's parameters. A rank adds
// up in float64 what its calls of the core give, in their order; then the ranks' sums are added in the order of ranks,
// so that all have the same bits.
#pragma once

#include "mpi/gradient_call.hpp"
#include "mpi/messages.hpp"

namespace fovea::mpi {

class ParameterSums {
 public:
  ParameterSums(Handle *handle, const Call *call, const GradientCall *gradients)
      : handle_(handle), call_(call), gradients_(gradients), messages_(handle) {}

  // All memory; sums begin at 0.
  [[nodiscard]] Status prepare();
  // Lets a call of the core for some key/value heads give what is wanted of it, as float32.
  void ask(int64_t head, int64_t heads, fovea_attention_gradients *of_call);
  // Adds what the call gave.
  void add();
  // Adds the gradient of sinks, which come to every query once.
  [[nodiscard]] Status add_sinks();
  // Collective: adds up the ranks' sums.
  [[nodiscard]] Status reduce();
  [[nodiscard]] Status write();

 private:
  static constexpr int most = static_cast<int>(sizeof summed_gradients / sizeof summed_gradients[0]);
  struct Sum {
    const fovea_tensor *fovea_attention_gradients::*tensor;
    fovea_tensor to;         // the caller's
    bool by_head, by_calls;  // whether a call gives it for its heads, and whether calls with keys give it at all
    int64_t first, count;    // its numbers among all
    fovea_tensor part;       // what the present call gives of it
  };

  double *totals() const { return reinterpret_cast<double *>(handle_->of(Use::parameters).data()); }
  double *arrived() const { return totals() + count_; }
  float *parts() const { return reinterpret_cast<float *>(arrived() + count_); }
  void add_part(const Sum &sum);

  Handle *handle_;
  const Call *call_;
  const GradientCall *gradients_;
  Messages messages_;
  Sum sums_[most];
  int sum_count_ = 0;
  int64_t count_ = 0;  // of numbers
};

}  // namespace fovea::mpi
