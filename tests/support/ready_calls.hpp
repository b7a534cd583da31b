// Every operation of the library as something to be run, for tests of what holds for all of them: in which
// floating-point mode they compute, how much stack they take, what a forked child can do.
#pragma once

#include <fovea/fovea.h>

#include <functional>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace testing {

struct ReadyCall {
  std::string name;
  std::function<fovea_status(const fovea_context *)> call;
  std::vector<const Tensor<float> *> outputs;  // contiguous; the call owns them

  // Computes nothing itself, so it may be called in any floating-point mode.
  fovea_status run(const fovea_context *context) const;
  // All that the last run wrote.
  std::vector<float> output() const;
};

struct ReadyCallSizes {
  // Just enough work for several threads.
  int64_t head_dim = 32, value_dim = 32, hidden = 24;
  int64_t many_queries = 64, keys = 128, many_keys = 1500;
  int64_t rows = 70, columns = 1024;  // of what is not attention
};

// Attention by every score function, with many queries and with one, bare and with every option; prepared keys, pages;
// multi-head attention; and what is not attention. The numbers are such that denormal ones come up.
std::vector<ReadyCall> ready_calls(const ReadyCallSizes &sizes);

}  // namespace testing
