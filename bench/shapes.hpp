// Attention shapes of real models, and the work each one holds.
//
// Work is what the formula needs, not what an implementation may do: one multiply-add (2 flops) per attended query-key
// pair and feature, D for the score and Dv for the value. Pairs that valid lengths, causality, a window or a mask rule
// out do not count. Returned weights cost a second pass over the scores that is not counted either.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cases.hpp"

namespace fovea_bench {

struct SdpaSizes {
  const char *name;
  int64_t batch, heads, kv_heads, query_len, key_len, head_dim, value_dim;
};

struct SdpaTraits {
  Bound bound = Bound::flops;  // bytes: few queries, every key and value is read for them
  bool causal = false;
  int64_t shortest = 0;      // > 0: valid lengths from shortest to key_len, evenly spread over the batch
  int64_t window_left = -1;  // >= 0: sliding window
  int64_t prefix = 0;  // > 0: boolean mask, causal but for the first `prefix` keys, which all queries see (prefix LM)
  float softcap = 0;
  float scale = 0;
  float dropout = 0;
  bool alibi = false, bias = false, sinks = false, weights = false;
  bool heads_last = false;  // stored [B,L,H,D] instead of [B,H,L,D]
  bool cold = false;        // keys and values come from memory: many copies, used in turn
  bool one_shot = false;    // fovea_sdpa instead of plan and run
  bool micro = false;       // a few microseconds: no limit of the machine means anything
};

struct SdpaShape : SdpaSizes, SdpaTraits {};

// clang-format off
inline const std::vector<SdpaShape> &sdpa_shapes() {
  static const std::vector<SdpaShape> shapes = {
    //                     B   H   Hkv Q     K     D    Dv
    // Encoders.
    {{"bert_base",         1,  12, 12, 512,  512,  64,  64}, {}},
    {{"bert_base_blhd",    1,  12, 12, 512,  512,  64,  64}, {.heads_last = true}},
    {{"bert_base_weights", 1,  12, 12, 512,  512,  64,  64}, {.weights = true}},
    {{"bert_batch",        8,  12, 12, 128,  128,  64,  64}, {.shortest = 32}},
    {{"minilm",            16, 12, 12, 128,  128,  32,  32}, {}},
    {{"vit_b16",           8,  12, 12, 197,  197,  64,  64}, {}},
    {{"siglip_so400m",     1,  16, 16, 729,  729,  72,  72}, {}},
    {{"t5_base_bias",      1,  12, 12, 512,  512,  64,  64}, {.scale = 1, .bias = true}},
    {{"whisper_cross",     1,  8,  8,  448,  1500, 64,  64}, {}},
    // Decoders reading a prompt.
    {{"gpt2",              1,  12, 12, 1024, 1024, 64,  64}, {.causal = true}},
    {{"gpt2_dropout",      1,  12, 12, 1024, 1024, 64,  64}, {.causal = true, .dropout = 0.1f}},
    {{"llama8b_prefill",   1,  32, 8,  2048, 2048, 128, 128}, {.causal = true}},
    {{"bloom_1b1_alibi",   1,  16, 16, 1024, 1024, 96,  96}, {.causal = true, .alibi = true}},
    {{"phi2",              1,  32, 32, 1024, 1024, 80,  80}, {.causal = true}},
    {{"phi3_mini",         1,  32, 32, 1024, 1024, 96,  96}, {.causal = true}},
    {{"head_dim_112",      1,  16, 16, 1024, 1024, 112, 112}, {.causal = true}},
    {{"gemma2_2b",         1,  8,  4,  512,  6144, 256, 256}, {.causal = true, .window_left = 4095, .softcap = 50}},
    {{"mistral_window",    1,  32, 8,  512,  8192, 128, 128}, {.causal = true, .window_left = 4095}},
    {{"gpt_oss_window",    1,  64, 8,  1024, 1024, 64,  64}, {.causal = true, .window_left = 127, .sinks = true}},
    {{"deepseek_v2_lite",  1,  16, 16, 1024, 1024, 192, 128}, {.causal = true}},
    {{"prefix_lm_mask",    1,  12, 12, 1024, 1024, 64,  64}, {.prefix = 256}},
    {{"long",              1,  8,  8,  8192, 8192, 64,  64}, {.causal = true}},
    {{"long_full",         1,  8,  8,  4096, 4096, 128, 128}, {}},
    // Decoders writing: one new query (or a few, when drafts are checked) against a cache.
    {{"decode",            1,  32, 8,  1,    4096, 128, 128}, {.bound = Bound::bytes}},
    {{"decode_cold",       1,  32, 8,  1,    4096, 128, 128}, {.bound = Bound::bytes, .cold = true}},
    {{"decode_batch",      16, 32, 8,  1,    1024, 128, 128}, {.bound = Bound::bytes}},
    {{"decode_batch_cold", 16, 32, 8,  1,    1024, 128, 128}, {.bound = Bound::bytes, .cold = true}},
    {{"decode_ragged",     16, 32, 8,  1,    1024, 128, 128}, {.bound = Bound::bytes, .shortest = 64}},
    {{"decode_draft4",     1,  32, 8,  4,    4096, 128, 128}, {.bound = Bound::bytes, .causal = true}},
    {{"decode_mqa",        1,  71, 1,  1,    8192, 64,  64}, {.bound = Bound::bytes}},
    // The smallest thing anyone calls.
    {{"small",             2,  5,  5,  4,    6,    20,  20}, {.micro = true}},
    {{"small_one_shot",    2,  5,  5,  4,    6,    20,  20}, {.one_shot = true, .micro = true}},
  };
  return shapes;
}
// clang-format on

struct Interval {
  int64_t begin, end;
};

// The keys that query i of a sequence attends, as positions default to: the last query faces the last key.
inline Interval attended_keys(const SdpaShape &shape, int64_t query, int64_t valid_len) {
  const int64_t position = query + std::max<int64_t>(0, shape.key_len - shape.query_len);
  const bool backwards_only = shape.causal || shape.prefix > 0;
  const int64_t end = std::min(valid_len, backwards_only ? std::max(shape.prefix, position + 1) : shape.key_len);
  const int64_t begin = shape.window_left >= 0 ? std::max<int64_t>(0, position - shape.window_left) : 0;
  return {std::min(begin, end), end};
}

// Float32 operations of one call. valid_lens is empty or holds one length per batch entry.
inline double sdpa_flops(const SdpaShape &shape, const std::vector<int32_t> &valid_lens) {
  int64_t pairs = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t valid_len = valid_lens.empty() ? shape.key_len : valid_lens[static_cast<size_t>(b)];
    for (int64_t i = 0; i < shape.query_len; ++i) {
      const Interval keys = attended_keys(shape, i, valid_len);
      pairs += keys.end - keys.begin;
    }
  }
  return 2.0 * static_cast<double>(pairs * shape.heads * (shape.head_dim + shape.value_dim));
}

// Bytes of the keys and values that some query attends, each read once.
inline double sdpa_cache_bytes(const SdpaShape &shape, const std::vector<int32_t> &valid_lens) {
  int64_t keys = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t valid_len = valid_lens.empty() ? shape.key_len : valid_lens[static_cast<size_t>(b)];
    keys += attended_keys(shape, shape.query_len - 1, valid_len).end - attended_keys(shape, 0, valid_len).begin;
  }
  return static_cast<double>(keys * shape.kv_heads * (shape.head_dim + shape.value_dim)) * sizeof(float);
}

// [M,K] x [K,N].
struct ProductSizes {
  int64_t m, n, k;
};

inline std::string product_name(const ProductSizes &s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}
inline double product_flops(const ProductSizes &s) { return 2.0 * static_cast<double>(s.m * s.n * s.k); }
// Of few rows each weight is used but a few times.
inline Bound product_bound(const ProductSizes &s) { return s.m <= 16 ? Bound::bytes : Bound::flops; }
// The bytes are those of the weights.
inline Work product_work(const ProductSizes &s) {
  return {.flops = product_flops(s), .bytes = sizeof(float) * static_cast<double>(s.n * s.k)};
}
inline std::vector<Parameter> product_parameters(const ProductSizes &s) { return {{"m", s.m}, {"n", s.n}, {"k", s.k}}; }

struct MatmulShape : ProductSizes {
  bool one_shot;  // measured without packing beforehand, too
};

// Linear layers of MiniLM (384, 1536), BERT base (768, 3072), BERT large (1024) and Llama 8B (4096) for 1 to 2048
// tokens, and the square that libraries are compared on.
inline const std::vector<MatmulShape> &matmul_shapes() {
  static const std::vector<MatmulShape> shapes = [] {
    std::vector<MatmulShape> list = {{{2048, 2048, 2048}, true}, {{1, 768, 768}, true},     {{16, 768, 768}, false},
                                     {{128, 768, 768}, true},    {{512, 768, 768}, true},   {{16, 3072, 768}, false},
                                     {{512, 3072, 768}, true},   {{16, 4096, 4096}, false}, {{1, 4096, 4096}, true},
                                     {{512, 4096, 4096}, true}};
    const auto add = [&](int64_t n, int64_t k, std::initializer_list<int64_t> rows) {
      for (int64_t m : rows) list.push_back({{m, n, k}, false});
    };
    add(384, 384, {1, 64, 512});
    add(1536, 384, {1, 64, 512});
    add(384, 1536, {1, 64, 512});
    add(768, 768, {4, 64, 2048});
    add(3072, 768, {1, 4, 64, 128, 2048});
    add(768, 3072, {1, 4, 64, 128, 512, 2048});
    add(1024, 1024, {1, 64, 512});
    add(4096, 4096, {4, 64, 128, 2048});
    return list;
  }();
  return shapes;
}

struct SoftmaxShape {
  const char *name;
  int64_t batch, queries, keys;
  bool ragged;            // valid lengths evenly spread from 1 to keys; else all keys are valid
  bool length_per_query;  // [B,Q] instead of [B]
};

inline const std::vector<SoftmaxShape> &softmax_shapes() {
  static const std::vector<SoftmaxShape> shapes = {{"512x512x512_per_sequence", 512, 512, 512, true, false},
                                                   {"512x512x512_no_lens", 512, 512, 512, false, false},
                                                   {"64x128x128_per_query", 64, 128, 128, true, true},
                                                   {"64x128x128_no_lens", 64, 128, 128, false, false}};
  return shapes;
}

}  // namespace fovea_bench
