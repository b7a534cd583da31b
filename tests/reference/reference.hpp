// The formulas, written for reading: no tiles, no tricks, dense row-major arrays.
//
// Each is a template over the type it computes in. With double it is the truth the library is measured against; with
// float it is the plain evaluation, sequential and textbook, whose error the library may at most double.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "philox.hpp"

namespace reference {

// Values as in fovea.h; kept apart so that the reference does not follow a mistake made there.
enum class EmptyRows { kZero = 0, kUniform = 1, kNan = 2 };

enum class ScoreKind { kDot = 0, kBilinear = 1, kAdditive = 2, kConcat = 3, kGaussian = 4 };

// A score function and its parameters; those of other kinds are empty.
struct Score {
  ScoreKind kind = ScoreKind::kDot;
  std::vector<float> query_weight;  // [h,Dq]
  std::vector<float> key_weight;    // [h,Dk]
  std::vector<float> weight;        // bilinear [Dq,Dk], concat [h,Dq+Dk]
  std::vector<float> bias;          // [h] or empty
  std::vector<float> score_vector;  // [h]
  std::vector<float> sigmas;        // [H]

  bool operator==(const Score &) const = default;
};

struct AttentionInputs {
  int64_t batch = 1, heads = 1, kv_heads = 1, query_len = 0, key_len = 0, query_dim = 1, key_dim = 1, value_dim = 1;
  std::vector<float> query;  // [B,H,Q,Dq]
  std::vector<float> key;    // [B,Hkv,K,Dk]
  std::vector<float> value;  // [B,Hkv,K,Dv]
  Score score;

  std::optional<std::vector<int64_t>> valid_lens;  // [B,Q]
  std::optional<std::vector<uint8_t>> mask;        // [B,H,Q,K]
  std::optional<std::vector<float>> bias;          // [B,H,Q,K]
  std::optional<std::vector<float>> alibi_slopes;  // [H]
  std::optional<std::vector<float>> sinks;         // [H]

  EmptyRows empty_rows = EmptyRows::kZero;
  float scale = 0;  // 0 unless given: 1 / sqrt(D) for the dot product, 1 for the others
  bool scale_given = false;
  float softcap = 0;  // 0: none
  bool causal = false;
  bool top_left = false;
  bool leave_one_out = false;
  std::optional<int64_t> query_offset;
  std::optional<std::vector<int64_t>> query_offsets;  // [B]
  std::optional<int64_t> window_left;
  std::optional<int64_t> window_right;
  Dropout dropout;

  int order = 0;  // in which sums over features, units and keys are taken (sums.hpp)

  bool operator==(const AttentionInputs &) const = default;
};

template <typename Real>
struct AttentionOutputs {
  std::vector<Real> out;              // [B,H,Q,Dv]
  std::vector<Real> log_sum_exp;      // [B,H,Q]
  std::vector<Real> weights;          // [B,H,Q,K], after dropout
  std::vector<Real> average_weights;  // [B,Q,K]

  // What the accuracy of a row is judged by: only in double.
  std::vector<Real> weighted_magnitude;  // [B,H,Q,Dv]: sum_j weight_j |value_j|
  std::vector<Real> softmax;             // [B,H,Q,K]: weights before dropout
  // [B,H,Q,Dv]: sum_j softmax_j |value_j - out|, a sink's value being 0 and others times what dropout multiplies by
  std::vector<Real> deviation;
  // A row's scores count if their weights are at least 2^-24 of the largest that is not dropped; the sink counts too.
  Real largest_score = 0;               // the largest |score| anywhere
  std::vector<double> score_size;       // [B,H,Q]: the row's
  std::vector<double> score_allowance;  // [B,H,Q]: the largest allowance (see RawScores) of a score
};

template <typename Real>
struct RawScores {
  std::vector<Real> values;  // [B,H,Q,K]: before scale, soft-cap and everything that is added

  // [B,H,Q,K]: what a score may be off by, beside what a plain evaluation is off by:
  //   additive, concat   sum_u |v_u| (4 roundings of the argument or of 1, whichever is less, + how far tanh moves when
  //                      the projections are off by 2 roundings of the sum of the magnitudes of their terms)
  //   bilinear           2 roundings of the sum of the magnitudes of the terms of q^T W k
  //   gaussian           4 roundings of the score
  //   dot                0
  // Only of use in double.
  std::vector<double> allowances;
};

template <typename Real>
RawScores<Real> raw_scores(const AttentionInputs &inputs);

template <typename Real>
AttentionOutputs<Real> attention(const AttentionInputs &inputs);
// The same from scores that are known already.
template <typename Real>
AttentionOutputs<Real> attention(const AttentionInputs &inputs, const RawScores<Real> &raw);

// The keys that query i of batch entry b, head h may attend, before the scores are known.
std::vector<bool> attended_keys(const AttentionInputs &inputs, int64_t b, int64_t h, int64_t i);

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

enum class Activation { kNone = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3, kSilu = 4 };

// The limits at -infinity and infinity.
template <typename Real>
Real activate(Activation activation, Real x);

// To the precision of long double, for negative x too.
double exact_activation(Activation activation, float x);

struct LinearInputs {
  int64_t rows, depth, columns;
  std::vector<float> x;       // [M,K]
  std::vector<float> weight;  // [K,N]
  Activation activation = Activation::kNone;
  std::vector<float> bias;        // [N] or empty
  std::vector<float> multiplier;  // [M,N] or empty
  std::vector<float> residual;    // [M,N] or empty
};

template <typename Real>
struct Linear {
  std::vector<Real> out;        // [M,N]
  std::vector<Real> activated;  // [M,N]: before the residual, multiplied
  std::vector<Real> magnitude;  // [M,N]: sum_k |x_k| |w_k|, and |bias|, multiplied
};

template <typename Real>
Linear<Real> linear(const LinearInputs &inputs);

template <typename Real>
struct MergedState {
  std::vector<Real> out;          // [rows,Dv]
  std::vector<Real> log_sum_exp;  // [rows]
};

// outs [S,rows,Dv], lses [S,rows]
template <typename Real>
MergedState<Real> merge_states(const std::vector<float> &outs, const std::vector<float> &lses, int64_t parts,
                               int64_t rows, int64_t value_dim);

struct LayerNormInputs {
  int64_t dim = 1;
  double epsilon = 1e-5;
  std::vector<float> x;             // [rows,dim]
  std::vector<float> residual;      // the same or empty
  std::vector<float> weight, bias;  // [dim] or empty
  bool rms = false;                 // by the root of the mean square
  bool weight_from_one = false;     // 1 + weight is the weight
};

// sqrt(variance + epsilon), or of the mean square, whose mean is 0.
template <typename Real>
struct NormStatistics {
  std::vector<Real> mean, deviation;  // [rows]
};

template <typename Real>
std::vector<Real> layer_norm(const LayerNormInputs &inputs);
template <typename Real>
NormStatistics<Real> norm_statistics(const LayerNormInputs &inputs);

// Over the middle one of three axes; or its logarithm.
template <typename Real>
std::vector<Real> softmax(const std::vector<float> &x, int64_t outer, int64_t key_len, int64_t inner, bool log);

// To the precision of long double, so that the result is right in all but the last bits of a double.
double exp(float x);
double tanh(float x);

}  // namespace reference
