// Multi-head attention as the formula has it: project, attend head by head with whole rows of scores, project back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reference {

// Weights [out,in], biases empty or [out], everything dense and row-major.
struct MultiHeadInputs {
  int64_t batch = 1, query_len = 1, key_len = 1;
  int64_t query_inputs = 1, key_inputs = 1, value_inputs = 1;
  int64_t heads = 1, kv_heads = 1, head_dim = 1, value_dim = 1;
  int64_t outputs = 0;                   // 0: no output projection
  std::vector<float> query, key, value;  // [B,L,E]
  std::vector<float> query_weight, key_weight, value_weight, out_weight;
  std::vector<float> query_bias, key_bias, value_bias, out_bias;
  bool causal = false;                             // the last query faces the last key
  std::optional<std::vector<int64_t>> valid_lens;  // [B]
};

template <typename Real>
struct MultiHeadOutputs {
  std::vector<Real> out;  // [B,Q,Eo]
  Real magnitude = 0;     // the largest sum of the magnitudes of an output's terms, values being taken likewise
  // The most that an output moves when scores are off by 1 part of the magnitudes of their terms.
  Real sensitivity = 0;
};

template <typename Real>
MultiHeadOutputs<Real> multi_head(const MultiHeadInputs &inputs);

}  // namespace reference
