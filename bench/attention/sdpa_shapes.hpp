// Attention shapes of models that people run, and the work each one holds.
//
// Work is what the formula needs, not what an implementation may do: one multiply-add (2 flops) per attended query-key
// pair and feature, D for the score and Dv for the value. Pairs that valid lengths, causality, a window or a mask rule
// out do not count. Returned weights cost a second pass over the scores that is not counted either.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "harness/cases.hpp"

namespace fovea_bench {

struct SdpaSizes {
  const char *name;
  int64_t batch, heads, kv_heads, query_len, key_len, head_dim, value_dim;
};

struct SdpaTraits {
  Bound bound = Bound::flops;  // bytes: few queries, every key and value is read for them
  bool causal = false;
  int64_t shortest = 0;                         // > 0: valid lengths from shortest to key_len, evenly over the batch
  int64_t window_left = -1, window_right = -1;  // >= 0: sliding window
  int64_t prefix = 0;  // > 0: boolean mask, causal but for the first `prefix` keys, which all queries see (prefix LM)
  float softcap = 0;
  float scale = 0;
  float dropout = 0;
  bool alibi = false, bias = false, sinks = false, weights = false;
  fovea_dtype dtype = FOVEA_F32;  // of query, key, value and out
  bool heads_last = false;        // stored [B,L,H,D] instead of [B,H,L,D]
  bool cold = false;              // keys and values come from memory: many copies, used in turn
  bool one_shot = false;          // fovea_sdpa instead of plan and run
};

struct SdpaShape : SdpaSizes, SdpaTraits {};

const std::vector<SdpaShape> &sdpa_shapes();

struct Interval {
  int64_t begin, end;
};

// The keys that query i of a sequence attends, as positions default to: the last query faces the last key.
Interval attended_keys(const SdpaShape &shape, int64_t query, int64_t valid_len);

// One length per batch entry, or none.
std::vector<int32_t> valid_lens_of(const SdpaShape &shape);

// Operations of one call, and bytes of the keys and values that some query attends, each read once. valid_lens
// is empty or holds one length per batch entry.
double sdpa_flops(const SdpaShape &shape, const std::vector<int32_t> &valid_lens);
double sdpa_cache_bytes(const SdpaShape &shape, const std::vector<int32_t> &valid_lens);

}  // namespace fovea_bench
