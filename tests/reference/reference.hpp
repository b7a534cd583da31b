// The formulas, written for reading: no tiles, no tricks, dense row-major arrays.
//
// Each is a template over the type it computes in. With double it is the truth the library is measured against; with
// float it is the plain evaluation, sequential and textbook, whose error the library may at most double.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reference {

// Values as in fovea.h; kept apart so that the reference does not follow a mistake made there.
enum class EmptyRows { kZero = 0, kUniform = 1, kNan = 2 };

struct SdpaInputs {
  int64_t batch = 1, heads = 1, kv_heads = 1, query_len = 0, key_len = 0, head_dim = 1, value_dim = 1;
  std::vector<float> query;  // [B,H,Q,D]
  std::vector<float> key;    // [B,Hkv,K,D]
  std::vector<float> value;  // [B,Hkv,K,Dv]

  std::optional<std::vector<int64_t>> valid_lens;  // [B,Q]
  std::optional<std::vector<uint8_t>> mask;        // [B,H,Q,K]
  std::optional<std::vector<float>> bias;          // [B,H,Q,K]
  std::optional<std::vector<float>> alibi_slopes;  // [H]
  std::optional<std::vector<float>> sinks;         // [H]

  EmptyRows empty_rows = EmptyRows::kZero;
  float scale = 0;    // 0: 1 / sqrt(D)
  float softcap = 0;  // 0: none
  bool causal = false;
  bool top_left = false;
  bool leave_one_out = false;
  std::optional<int64_t> query_offset;
  std::optional<int64_t> window_left;
  std::optional<int64_t> window_right;
};

template <typename Real>
struct SdpaOutputs {
  std::vector<Real> out;              // [B,H,Q,Dv]
  std::vector<Real> log_sum_exp;      // [B,H,Q]
  std::vector<Real> weights;          // [B,H,Q,K]
  std::vector<Real> average_weights;  // [B,Q,K]

  // What the accuracy of a row is judged by.
  std::vector<Real> weighted_magnitude;  // [B,H,Q,Dv]: sum_j weight_j |value_j|
  Real largest_score = 0;                // largest finite |score| attended anywhere, sinks included
};

template <typename Real>
SdpaOutputs<Real> sdpa(const SdpaInputs &inputs);

// The keys that query i of batch entry b, head h may attend, before the scores are known.
std::vector<bool> attended_keys(const SdpaInputs &inputs, int64_t b, int64_t h, int64_t i);

// Softmax of the first valid_lens[row] of each row of x [rows,K].
template <typename Real>
std::vector<Real> masked_softmax(const std::vector<float> &x, const std::vector<int64_t> &valid_lens, int64_t key_len,
                                 EmptyRows empty_rows);

template <typename Real>
struct Matmul {
  std::vector<Real> out;        // [M,N]
  std::vector<Real> magnitude;  // [M,N]: sum_k |a_k| |b_k|
};

// a [M,K], b [K,N]
template <typename Real>
Matmul<Real> matmul(const std::vector<float> &a, const std::vector<float> &b, int64_t m, int64_t n, int64_t k);

template <typename Real>
struct MergedState {
  std::vector<Real> out;          // [rows,Dv]
  std::vector<Real> log_sum_exp;  // [rows]
};

// outs [S,rows,Dv], lses [S,rows]
template <typename Real>
MergedState<Real> merge_states(const std::vector<float> &outs, const std::vector<float> &lses, int64_t parts,
                               int64_t rows, int64_t value_dim);

// To the precision of long double, so that the result is right in all but the last bits of a double.
double exp(float x);
double tanh(float x);

}  // namespace reference
