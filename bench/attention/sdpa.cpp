// Benchmarks of scaled dot-product attention, sdpa/f32/<shape>/<instruction set>/t<threads>, planned, so that no
// allocation is timed. A handful of shapes in 16 bits, too: sdpa/bf16/..., sdpa/f16/....
//
// What bounds each case
//   Prompts and encoders (Bound::flops): arithmetic. A vector of W scores (W = 16, 8, 4 for avx512, avx2, base) takes D
//     fused multiply-adds for the score and Dv for the value (twice as many instructions without fused ones), and about
//     15 more for the softmax on the same two ports: scale, running maximum, mask, exponential, sum. The most that a
//     kernel without overlap by other units can reach is therefore (D + Dv) / (D + Dv + 15) of the multiply-add peak:
//       D  32   64   72   80   96  112  128  256  512   deepseek_v2_lite 192 + 128
//       %  81   90   91   91   93   94   94   97   99                    96
//     Causal and windowed shapes compute the tiles that the diagonal or the window edge crosses in full, and reading a
//     tile of keys must be shared by enough queries; both cost a few percent more.
//   bert_base_weights: weights are kept, then multiplied, transposed and written, H Q K floats: some 9 instructions per
//     vector, so at most (D + Dv) / (D + Dv + 24) = 84 % of the peak for D = Dv = 64, if writing took no time.
//   t5_base_bias: one more load and add per vector; prefix_lm_mask: one load, compare and blend; alibi: two
//     instructions; softcap: a tanh, about 25 instructions per vector (gemma2_2b: at most 93 %).
//   gpt2_dropout: four random words, one for each of four weights, take eight rounds of 12 instructions (16 with AVX2);
//     with what prepares and applies them 29 instructions per vector (41): at most 74 % of the peak with AVX-512.
//   gpt_oss_window, modernbert_window: 128 keys per query, so half of the tiles that are touched lie on an edge.
//   Decoding (Bound::bytes): every key and value is read once from where it lies, and grouped heads share the read. The
//     limit is the larger of that read at the measured rate and the arithmetic at the multiply-add peak; with
//     decode_mqa and starcoder_15b_step, 71 and 48 heads sharing one, the arithmetic is the larger. decode holds 34 MB
//     (L3), decode_batch 134 MB; the cold cases go round enough copies that every byte comes from memory.
//   bfloat16: a product of pairs adds two terms to a lane, where the processor has it, so the peak is that of pairs; what
//     rounds the weights adds 3.5 instructions to the softmax's 15, so at most (D + Dv) / (D + Dv + 37) of it, 78 % at D 64 and
//     87 % at 128. float16 is widened, and reaches no more than float32 does. Both halve the bytes.
//   Bound::none: nothing but the way in and out: checks, dispatch, a few hundred vector instructions. Only time is
//     reported.
//
// bert_batch, decode_ragged and others have valid lengths; "padded" is the rate as if all keys were valid, which is how
// a library that does not skip padding counts.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "attention/sdpa_shapes.hpp"
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

int64_t kv_elements(const SdpaShape &shape) {
  return shape.batch * shape.kv_heads * shape.key_len * (shape.head_dim + shape.value_dim);
}

int64_t kv_bytes(const SdpaShape &shape) {
  return kv_elements(shape) * static_cast<int64_t>(element_bytes(shape.dtype));
}

int64_t cache_copies(const SdpaShape &shape) {
  if (!shape.cold) return 1;
  const int64_t one = kv_bytes(shape);
  const int64_t all = quick() ? 2 * one : static_cast<int64_t>(cold_bytes());
  return std::max<int64_t>(2, (all + one - 1) / one);
}

// A tensor [B,H,L,D] in either storage order.
fovea_tensor heads_tensor(const void *data, const SdpaShape &shape, int64_t heads, int64_t length, int64_t size) {
  fovea_tensor view = tensor(data, {shape.batch, heads, length, size}, shape.dtype);
  if (shape.heads_last) {
    view.strides[1] = size;
    view.strides[2] = heads * size;
  }
  return view;
}

// All memory of one shape. Each copy of the cache holds the keys, then the values.
struct SdpaData {
  const SdpaShape shape;
  std::vector<int32_t> valid_lens;
  Buffer query, cache, out, bias, slopes, sinks, weights;
  std::vector<uint8_t> mask;
  ReadRegion region;

  explicit SdpaData(const SdpaShape &s)
      : shape(s),
        valid_lens(valid_lens_of(s)),
        query(normals(s.batch * s.heads * s.query_len * s.head_dim, s.dtype)),
        cache(normals(kv_elements(s) * cache_copies(s), s.dtype)),
        out(zeros(s.batch * s.heads * s.query_len * s.value_dim, s.dtype)),
        bias(normals(s.bias ? s.heads * s.query_len * s.key_len : 0)),
        slopes(normals(s.alibi ? s.heads : 0)),
        sinks(normals(s.sinks ? s.heads : 0)),
        weights(zeros(s.weights ? s.batch * s.heads * s.query_len * s.key_len : 0)),
        region(cache.data(), cache.bytes()) {
    for (int64_t h = 0; s.alibi && h < s.heads; ++h)
      slopes.floats()[h] = std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(s.heads));
    if (s.prefix > 0) mask.resize(static_cast<size_t>(s.query_len * s.key_len));
    for (size_t n = 0; n < mask.size(); ++n) {
      const int64_t i = static_cast<int64_t>(n) / s.key_len, j = static_cast<int64_t>(n) % s.key_len;
      mask[n] = j < attended_keys(s, i, s.key_len).end;
    }
  }

  // The next copy of the cache. The cursor is shared with the read probe.
  const char *next_cache() {
    const auto one = static_cast<size_t>(kv_bytes(shape));
    const size_t index = (region.cursor() + one - 1) / one % (cache.bytes() / one);
    region.set_cursor((index + 1) * one);
    return static_cast<const char *>(cache.data()) + index * one;
  }
};

// One shape on one context: the call, planned or not.
class SdpaCall {
 public:
  SdpaCall(std::shared_ptr<SdpaData> data, const std::string &isa, int threads)
      : data_(std::move(data)), context_(make_context(isa, threads)) {
    describe();
    fovea_plan *plan = nullptr;
    check(fovea_sdpa_plan_create(context_.get(), &query_, &key_, &value_, &out_, &options_, &plan));
    plan_.reset(plan);
    workspace_ = Buffer(fovea_plan_workspace_size(plan));
  }
  SdpaCall(const SdpaCall &) = delete;  // options_ points into the object

  size_t workspace_size() const { return workspace_.bytes(); }

  void run() {
    const char *cache = data_->next_cache();
    buffers_.key = cache;
    buffers_.value = cache + value_offset_;
    check(fovea_attention_run(plan_.get(), &buffers_, workspace_.data(), workspace_.bytes()));
  }

  void run_one_shot() { check(fovea_sdpa(context_.get(), &query_, &key_, &value_, &out_, &options_)); }

 private:
  void describe() {
    const SdpaShape &s = data_->shape;
    value_offset_ = s.batch * s.kv_heads * s.key_len * s.head_dim * static_cast<int64_t>(element_bytes(s.dtype));
    const auto *cache = static_cast<const char *>(data_->cache.data());
    query_ = heads_tensor(data_->query.data(), s, s.heads, s.query_len, s.head_dim);
    key_ = heads_tensor(cache, s, s.kv_heads, s.key_len, s.head_dim);
    value_ = heads_tensor(cache + value_offset_, s, s.kv_heads, s.key_len, s.value_dim);
    out_ = heads_tensor(data_->out.data(), s, s.heads, s.query_len, s.value_dim);
    buffers_.struct_size = sizeof buffers_;
    buffers_.query = data_->query.data();
    buffers_.out = data_->out.data();
    options_.struct_size = sizeof options_;
    options_.scale = s.scale;
    options_.softcap = s.softcap;
    options_.dropout = s.dropout;
    if (s.causal) options_.flags |= FOVEA_CAUSAL;
    if (s.window_left >= 0) options_.flags |= FOVEA_WINDOW_LEFT;
    if (s.window_right >= 0) options_.flags |= FOVEA_WINDOW_RIGHT;
    options_.window_left = std::max<int64_t>(0, s.window_left);
    options_.window_right = std::max<int64_t>(0, s.window_right);
    describe_options(s);
  }

  void describe_options(const SdpaShape &s) {
    if (s.shortest > 0) {
      valid_lens_ = tensor(buffers_.valid_lens = data_->valid_lens.data(), {s.batch}, FOVEA_I32);
      options_.valid_lens = &valid_lens_;
    }
    if (s.prefix > 0) {
      mask_ = tensor(buffers_.mask = data_->mask.data(), {1, 1, s.query_len, s.key_len}, FOVEA_BOOL);
      options_.mask = &mask_;
    }
    if (s.bias) {
      bias_ = tensor(buffers_.bias = data_->bias.floats(), {1, s.heads, s.query_len, s.key_len});
      options_.bias = &bias_;
    }
    if (s.alibi) {
      slopes_ = tensor(buffers_.alibi_slopes = data_->slopes.floats(), {s.heads});
      options_.alibi_slopes = &slopes_;
    }
    if (s.sinks) {
      sinks_ = tensor(buffers_.sinks = data_->sinks.floats(), {s.heads});
      options_.sinks = &sinks_;
    }
    if (s.weights) {
      weights_ = tensor(buffers_.weights = data_->weights.floats(), {s.batch, s.heads, s.query_len, s.key_len});
      options_.weights = &weights_;
    }
  }

  std::shared_ptr<SdpaData> data_;
  Context context_;
  fovea_tensor query_{}, key_{}, value_{}, out_{}, valid_lens_{}, mask_{}, bias_{}, slopes_{}, sinks_{}, weights_{};
  fovea_attention_options options_{};
  fovea_attention_buffers buffers_{};
  int64_t value_offset_ = 0;  // in bytes
  Plan plan_;                 // after the context: destroyed before it
  Buffer workspace_;
};

Prepared prepare(const SdpaShape &shape, const Variant &variant) {
  const auto data = data_of<SdpaData>(shape);
  const auto call = std::make_shared<SdpaCall>(data, variant.isa, variant.threads);
  Prepared prepared;
  prepared.counters["workspace"] = static_cast<double>(call->workspace_size());
  if (shape.one_shot) {
    prepared.run = [call] { call->run_one_shot(); };
  } else {
    prepared.run = [call] { call->run(); };
  }
  if (shape.bound == Bound::none) return prepared;
  if (variant.threads > 1) {
    const auto single = std::make_shared<SdpaCall>(data, variant.isa, 1);
    prepared.run_on_one_thread = [single] { single->run(); };
  }
  const double flops = sdpa_flops(shape, data->valid_lens), bytes = sdpa_cache_bytes(shape, data->valid_lens);
  const bool by_bytes = shape.bound == Bound::bytes;
  prepared.shortest_seconds = [=, &shape] {
    const bool pairs = shape.dtype == FOVEA_BF16;
    double seconds = flops / (pairs ? bfloat16_rate(variant.isa, variant.threads, probe_seconds())
                                    : multiply_add_rate(variant.isa, variant.threads, probe_seconds()));
    if (by_bytes) seconds = std::max(seconds, bytes / data->region.rate(variant.isa, variant.threads, probe_seconds()));
    return seconds;
  };
  return prepared;
}

// Every option of the call; cold and one_shot are ways to measure it.
std::vector<Parameter> parameters_of(const SdpaShape &s) {
  const double scale = s.scale != 0 ? double{s.scale} : 1 / std::sqrt(static_cast<double>(s.head_dim));
  return {{"batch", s.batch},
          {"heads", s.heads},
          {"kv_heads", s.kv_heads},
          {"query_len", s.query_len},
          {"key_len", s.key_len},
          {"head_dim", s.head_dim},
          {"value_dim", s.value_dim},
          {"causal", s.causal},
          {"window_left", s.window_left},
          {"window_right", s.window_right},
          {"prefix", s.prefix},
          {"softcap", double{s.softcap}},
          {"scale", scale},
          {"dropout", double{s.dropout}},
          {"alibi", s.alibi},
          {"bias", s.bias},
          {"sinks", s.sinks},
          {"weights", s.weights},
          {"heads_last", s.heads_last},
          {"cold", s.cold},
          {"one_shot", s.one_shot},
          {"valid_lens", valid_lens_of(s)}};
}

}  // namespace

void add_sdpa(Cases *list) {
  for (const SdpaShape &shape : sdpa_shapes()) {
    const std::vector<int32_t> lens = valid_lens_of(shape);
    Case one;
    one.operation = "sdpa";
    one.model = shape.name;
    one.dtype = shape.dtype;
    one.on_amx = shape.dtype == FOVEA_BF16;
    one.bound = shape.bound;
    one.work = {.flops = sdpa_flops(shape, lens), .bytes = sdpa_cache_bytes(shape, lens)};
    if (!lens.empty()) one.padded = {.flops = sdpa_flops(shape, {}), .bytes = sdpa_cache_bytes(shape, {})};
    one.parameters = parameters_of(shape);
    one.unit = one.work.flops < 5e7 ? benchmark::kMicrosecond : benchmark::kMillisecond;
    one.prepare = [&shape](const Variant &variant) { return prepare(shape, variant); };
    list->push_back(one);
  }
}

}  // namespace fovea_bench
