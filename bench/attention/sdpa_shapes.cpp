// The table of attention shapes. Heads, head sizes and windows are those of published models; lengths are what a model
// is used with, images and sound at the size they are trained for. Names: <model>[_what is special]; `decode` and its
// variants are a step of Llama 3 8B, `long` and `long_full` squares of round numbers that libraries are compared on.
//
// SPDX-License-Identifier: Apache-2.0
#include "attention/sdpa_shapes.hpp"

#include <algorithm>
#include <iterator>

#include "harness/harness.hpp"

namespace fovea_bench {
namespace {

constexpr auto bytes = Bound::bytes, none = Bound::none;

// clang-format off
constexpr SdpaShape encoders[] = {
    //                         B   H   Hkv Q     K     D    Dv
    // Text: one sequence, batches, batches with lengths.
    {{"bert_base",             1,  12, 12, 512,  512,  64,  64}, {}},
    {{"bert_base_blhd",        1,  12, 12, 512,  512,  64,  64}, {.heads_last = true}},
    {{"bert_base_weights",     1,  12, 12, 512,  512,  64,  64}, {.weights = true}},
    {{"bert_batch",            8,  12, 12, 128,  128,  64,  64}, {.shortest = 32}},
    {{"bert_base_l16",         1,  12, 12, 16,   16,   64,  64}, {}},
    {{"bert_large",            1,  16, 16, 512,  512,  64,  64}, {}},
    {{"minilm",                16, 12, 12, 128,  128,  32,  32}, {}},
    {{"bge_m3_batch",          16, 16, 16, 512,  512,  64,  64}, {.shortest = 16}},
    {{"modernbert_window",     1,  12, 12, 8192, 8192, 64,  64}, {.window_left = 64, .window_right = 64}},
    {{"t5_base_bias",          1,  12, 12, 512,  512,  64,  64}, {.scale = 1, .bias = true}},
    {{"marian_batch",          32, 8,  8,  64,   64,   64,  64}, {.shortest = 8}},
    // Images: patches; windows of them, with a bias for each pair of places in Swin's; what a prompt is painted from.
    {{"vit_b16",               8,  12, 12, 197,  197,  64,  64}, {}},
    {{"clip_vit_l14_336",      1,  16, 16, 577,  577,  64,  64}, {}},
    {{"siglip_so400m",         1,  16, 16, 729,  729,  72,  72}, {}},
    {{"dinov2_giant",          1,  24, 24, 1370, 1370, 64,  64}, {}},
    {{"internvit_6b",          1,  25, 25, 1025, 1025, 128, 128}, {}},
    {{"qwen2_vl_vision",       1,  16, 16, 1024, 1024, 80,  80}, {}},
    {{"sam_vit_h_windows",     25, 16, 16, 196,  196,  80,  80}, {}},
    {{"swin_tiny_windows",     64, 3,  3,  49,   49,   32,  32}, {.bias = true}},
    {{"sd15_64x64",            2,  8,  8,  4096, 4096, 40,  40}, {}},
    {{"sd15_32x32",            2,  8,  8,  1024, 1024, 80,  80}, {}},
    {{"sd15_16x16",            2,  8,  8,  256,  256,  160, 160}, {}},
    {{"sd15_vae",              1,  1,  1,  4096, 4096, 512, 512}, {}},
    {{"flux_512",              1,  24, 24, 1536, 1536, 128, 128}, {}},
    // Sound: ten seconds, thirty seconds.
    {{"wav2vec2_base",         1,  12, 12, 499,  499,  64,  64}, {}},
    {{"whisper_large_encoder", 1,  20, 20, 1500, 1500, 64,  64}, {}},
    // Cross attention: text over sound, an image over text, text over four tiles of an image, objects over an image.
    {{"whisper_cross",         1,  8,  8,  448,  1500, 64,  64}, {}},
    {{"sd15_cross",            2,  8,  8,  4096, 77,   40,  40}, {}},
    {{"sdxl_cross",            2,  10, 10, 4096, 77,   64,  64}, {}},
    {{"llama32_vision_cross",  1,  32, 8,  64,   6404, 128, 128}, {}},
    {{"detr_cross",            1,  8,  8,  100,  850,  32,  32}, {}},
};

constexpr SdpaShape prompts[] = {
    //                         B   H   Hkv Q     K      D    Dv
    {{"gpt2",                  1,  12, 12, 1024, 1024,  64,  64}, {.causal = true}},
    {{"gpt2_dropout",          1,  12, 12, 1024, 1024,  64,  64}, {.causal = true, .dropout = 0.1f}},
    {{"stories15m",            1,  6,  6,  256,  256,   48,  48}, {.causal = true}},
    {{"smollm2_135m_8k",       1,  9,  3,  8192, 8192,  64,  64}, {.causal = true}},
    {{"qwen2_05b",             1,  14, 2,  1024, 1024,  64,  64}, {.causal = true}},
    {{"llama1b_512",           1,  32, 8,  512,  512,   64,  64}, {.causal = true}},
    {{"llama8b_128",           1,  32, 8,  128,  128,   128, 128}, {.causal = true}},
    {{"llama8b_prefill",       1,  32, 8,  2048, 2048,  128, 128}, {.causal = true}},
    {{"llama8b_batch",         4,  32, 8,  512,  512,   128, 128}, {.causal = true, .shortest = 64}},
    {{"llama8b_chunk_8k",      1,  32, 8,  256,  8192,  128, 128}, {.causal = true}},
    {{"llama70b_512",          1,  64, 8,  512,  512,   128, 128}, {.causal = true}},
    {{"bloom_1b1_alibi",       1,  16, 16, 1024, 1024,  96,  96}, {.causal = true, .alibi = true}},
    {{"mpt30b_alibi",          1,  64, 64, 1024, 1024,  112, 112}, {.causal = true, .alibi = true}},
    {{"phi2",                  1,  32, 32, 1024, 1024,  80,  80}, {.causal = true}},
    {{"phi3_mini",             1,  32, 32, 1024, 1024,  96,  96}, {.causal = true}},
    {{"openllama_3b",          1,  32, 32, 512,  512,   100, 100}, {.causal = true}},
    {{"gptj_6b",               1,  16, 16, 1024, 1024,  256, 256}, {.causal = true}},
    {{"starcoder_15b",         1,  48, 1,  1024, 1024,  128, 128}, {.causal = true}},
    {{"falcon7b_512",          1,  71, 1,  512,  512,   64,  64}, {.causal = true}},
    {{"gemma2_2b",             1,  8,  4,  512,  6144,  256, 256}, {.causal = true, .window_left = 4095, .softcap = 50}},
    {{"gemma3_1b_window",      1,  4,  1,  4096, 4096,  256, 256}, {.causal = true, .window_left = 511}},
    {{"mistral_window",        1,  32, 8,  512,  8192,  128, 128}, {.causal = true, .window_left = 4095}},
    {{"mistral_window_32k",    1,  32, 8,  256,  32768, 128, 128}, {.causal = true, .window_left = 4095}},
    {{"gpt_oss_window",        1,  64, 8,  1024, 1024,  64,  64}, {.causal = true, .window_left = 127, .sinks = true}},
    {{"deepseek_v2_lite",      1,  16, 16, 1024, 1024,  192, 128}, {.causal = true}},
    {{"prefix_lm_mask",        1,  12, 12, 1024, 1024,  64,  64}, {.prefix = 256}},
    {{"long",                  1,  8,  8,  8192, 8192,  64,  64}, {.causal = true}},
    {{"long_full",             1,  8,  8,  4096, 4096,  128, 128}, {}},
};

// One new query (or a few, when drafts are checked) against a cache; for encoder-decoder models, against the encoder's
// keys. DeepSeek's latent cache as its projections leave it when they are taken over to the queries: one key of 512 +
// 64 features for all heads, at the scale of the 192 that they stand for.
constexpr SdpaShape steps[] = {
    //                           B   H   Hkv Q  K      D    Dv
    {{"gpt2_step",               1,  12, 12, 1, 1000,  64,  64}, {.bound = bytes}},
    {{"stories15m_step",         1,  6,  6,  1, 128,   48,  48}, {.bound = none}},
    {{"llama1b_step",            1,  32, 8,  1, 2048,  64,  64}, {.bound = bytes}},
    {{"llama8b_first_step",      1,  32, 8,  1, 1,     128, 128}, {.bound = none}},
    {{"llama8b_step_128",        1,  32, 8,  1, 128,   128, 128}, {.bound = bytes}},
    {{"decode",                  1,  32, 8,  1, 4096,  128, 128}, {.bound = bytes}},
    {{"decode_cold",             1,  32, 8,  1, 4096,  128, 128}, {.bound = bytes, .cold = true}},
    {{"decode_batch",            16, 32, 8,  1, 1024,  128, 128}, {.bound = bytes}},
    {{"decode_batch_cold",       16, 32, 8,  1, 1024,  128, 128}, {.bound = bytes, .cold = true}},
    {{"decode_ragged",           16, 32, 8,  1, 1024,  128, 128}, {.bound = bytes, .shortest = 64}},
    {{"decode_ragged_b64",       64, 32, 8,  1, 512,   128, 128}, {.bound = bytes, .shortest = 16}},
    {{"decode_draft4",           1,  32, 8,  4, 4096,  128, 128}, {.bound = bytes, .causal = true}},
    {{"decode_draft4_cold",      1,  32, 8,  4, 4096,  128, 128}, {.bound = bytes, .causal = true, .cold = true}},
    {{"decode_mha_cold",         1,  8,  8,  1, 8192,  128, 128}, {.bound = bytes, .cold = true}},
    {{"decode_32k",              1,  32, 8,  1, 32768, 128, 128}, {.bound = bytes}},
    {{"decode_mqa",              1,  71, 1,  1, 8192,  64,  64}, {.bound = bytes}},  // Falcon 7B
    {{"starcoder_15b_step",      1,  48, 1,  1, 8192,  128, 128}, {.bound = bytes}},
    {{"chatglm2_6b_step_32k",    1,  32, 2,  1, 32768, 128, 128}, {.bound = bytes}},
    {{"qwen2_7b_step_32k",       1,  28, 4,  1, 32768, 128, 128}, {.bound = bytes}},
    {{"gemma3_1b_step_32k",      1,  4,  1,  1, 32768, 256, 256}, {.bound = bytes}},
    {{"gemma_2b_step",           1,  8,  1,  1, 2048,  256, 256}, {.bound = bytes}},
    {{"gpt_oss_step",            1,  64, 8,  1, 8192,  64,  64}, {.bound = bytes, .sinks = true}},
    {{"deepseek_v2_lite_latent", 1,  16, 1,  1, 4096,  576, 512}, {.bound = bytes, .scale = 0.0721687837f}},
    {{"whisper_large_step",      5,  20, 20, 1, 1500,  64,  64}, {.bound = bytes}},  // five beams
    {{"nllb_600m_step",          32, 16, 16, 1, 128,   64,  64}, {.bound = bytes, .shortest = 16}},
    // The smallest thing anyone calls.
    {{"small",                   2,  5,  5,  4, 6,     20,  20}, {.bound = none}},
    {{"small_one_shot",          2,  5,  5,  4, 6,     20,  20}, {.bound = none, .one_shot = true}},
};

// A handful of them in 16 bits, the smallest too, and steps of several rows whose keys come from memory.
constexpr auto bf16 = FOVEA_BF16, f16 = FOVEA_F16;
constexpr SdpaShape narrow[] = {
    //                           B   H   Hkv Q     K     D    Dv
    {{"bert_base",               1,  12, 12, 512,  512,  64,  64}, {.dtype = bf16}},
    {{"bert_base",               1,  12, 12, 512,  512,  64,  64}, {.dtype = f16}},
    {{"bert_batch",              8,  12, 12, 128,  128,  64,  64}, {.shortest = 32, .dtype = bf16}},
    {{"gpt2",                    1,  12, 12, 1024, 1024, 64,  64}, {.causal = true, .dtype = bf16}},
    {{"llama8b_128",             1,  32, 8,  128,  128,  128, 128}, {.causal = true, .dtype = bf16}},
    {{"llama8b_prefill",         1,  32, 8,  2048, 2048, 128, 128}, {.causal = true, .dtype = bf16}},
    {{"decode",                  1,  32, 8,  1,    4096, 128, 128}, {.bound = bytes, .dtype = bf16}},
    {{"decode",                  1,  32, 8,  1,    4096, 128, 128}, {.bound = bytes, .dtype = f16}},
    {{"decode_mha_cold",         1,  8,  8,  1,    8192, 128, 128}, {.bound = bytes, .dtype = bf16, .cold = true}},
    {{"decode_cold",             1,  32, 8,  1,    4096, 128, 128}, {.bound = bytes, .dtype = bf16, .cold = true}},
    {{"decode_cold",             1,  32, 8,  1,    4096, 128, 128}, {.bound = bytes, .dtype = f16, .cold = true}},
    {{"decode_draft2_cold",      1,  32, 8,  2,    4096, 128, 128}, {.bound = bytes, .causal = true, .dtype = bf16, .cold = true}},
    {{"decode_draft4_cold",      1,  32, 8,  4,    4096, 128, 128}, {.bound = bytes, .causal = true, .dtype = bf16, .cold = true}},
    {{"small",                   2,  5,  5,  4,    6,    20,  20}, {.bound = none, .dtype = bf16}},
    {{"small",                   2,  5,  5,  4,    6,    20,  20}, {.bound = none, .dtype = f16}},
};
// clang-format on

}  // namespace

const std::vector<SdpaShape> &sdpa_shapes() {
  static const std::vector<SdpaShape> all = [] {
    std::vector<SdpaShape> list(std::begin(encoders), std::end(encoders));
    list.insert(list.end(), std::begin(prompts), std::end(prompts));
    list.insert(list.end(), std::begin(steps), std::end(steps));
    list.insert(list.end(), std::begin(narrow), std::end(narrow));
    return list;
  }();
  return all;
}

Interval attended_keys(const SdpaShape &shape, int64_t query, int64_t valid_len) {
  const int64_t position = query + std::max<int64_t>(0, shape.key_len - shape.query_len);
  const bool backwards_only = shape.causal || shape.prefix > 0;
  int64_t end = std::min(valid_len, backwards_only ? std::max(shape.prefix, position + 1) : shape.key_len);
  if (shape.window_right >= 0) end = std::min(end, position + 1 + shape.window_right);
  const int64_t begin = shape.window_left >= 0 ? std::max<int64_t>(0, position - shape.window_left) : 0;
  return {std::min(begin, end), end};
}

std::vector<int32_t> valid_lens_of(const SdpaShape &shape) {
  return shape.shortest > 0 ? evenly(shape.batch, shape.shortest, shape.key_len) : std::vector<int32_t>{};
}

double sdpa_flops(const SdpaShape &shape, const std::vector<int32_t> &valid_lens) {
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

double sdpa_cache_bytes(const SdpaShape &shape, const std::vector<int32_t> &valid_lens) {
  int64_t keys = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t valid_len = valid_lens.empty() ? shape.key_len : valid_lens[static_cast<size_t>(b)];
    keys += attended_keys(shape, shape.query_len - 1, valid_len).end - attended_keys(shape, 0, valid_len).begin;
  }
  return static_cast<double>(keys * shape.kv_heads * (shape.head_dim + shape.value_dim)) *
         static_cast<double>(element_bytes(shape.dtype));
}

}  // namespace fovea_bench
