// Benchmarks of multi-head attention, projections and all, with packed weights: multi_head/f32/<shape>/<instruction
// set>/t<threads>; bf16 with inputs, weights and outputs of it, and <shape>_medium of float32 at medium precision.
//
// What bounds it: arithmetic. 2 (E HD + E HkvD + E HkvDv + HDv E) flops a position for the projections, which run at
// what matmul_packed reaches, and 4 H D for each pair of positions that may attend, at what sdpa reaches: for B8 L128
// hidden 768 a twelfth of the work is attention's, for L2048 hidden 1024 a third. A step of a decoder reads each weight
// and the whole cache once for one row: bytes, at the rate at which memory of that size can be read. The tiny layer is
// 8 rows of 100 x 100 products, of which 112 columns are computed, on one thread: waking another costs more than it
// brings.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fovea/fovea.hpp>

#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct MultiHeadShape {
  const char *name;
  int64_t batch = 1, length = 1, hidden = 1, heads = 1, kv_heads = 1;
  int64_t key_len = 0;  // > 0: cross-attention over so many positions
  int64_t cached = 0;   // > 0: one step over a cache of so many positions
  bool causal = false, rotary = false;
  bool micro = false;  // shown in microseconds
  fovea_dtype dtype = FOVEA_F32;
  int32_t precision = FOVEA_PRECISION_DEFAULT;
};

constexpr MultiHeadShape shapes[] = {
    {.name = "b8_l128_768_12", .batch = 8, .length = 128, .hidden = 768, .heads = 12, .kv_heads = 12},
    {.name = "b1_l512_768_12", .batch = 1, .length = 512, .hidden = 768, .heads = 12, .kv_heads = 12},
    {.name = "b1_l2048_1024_16", .batch = 1, .length = 2048, .hidden = 1024, .heads = 16, .kv_heads = 16},
    {.name = "minilm_b32_l64", .batch = 32, .length = 64, .hidden = 384, .heads = 12, .kv_heads = 12},
    {.name = "llama1b_prefill",
     .batch = 1,
     .length = 512,
     .hidden = 2048,
     .heads = 32,
     .kv_heads = 8,
     .causal = true,
     .rotary = true},
    {.name = "cross_64_1500_512", .batch = 1, .length = 64, .hidden = 512, .heads = 8, .kv_heads = 8, .key_len = 1500},
    {.name = "gpt2_step_1000",
     .batch = 1,
     .length = 1,
     .hidden = 768,
     .heads = 12,
     .kv_heads = 12,
     .cached = 1000,
     .causal = true},
    {.name = "llama1b_step_1000",
     .batch = 1,
     .length = 1,
     .hidden = 2048,
     .heads = 32,
     .kv_heads = 8,
     .cached = 1000,
     .causal = true,
     .rotary = true},
    {.name = "tiny_b2_l4_100_5", .batch = 2, .length = 4, .hidden = 100, .heads = 5, .kv_heads = 5, .micro = true},
    {.name = "b1_l512_768_12", .length = 512, .hidden = 768, .heads = 12, .kv_heads = 12, .dtype = FOVEA_BF16},
    {.name = "llama1b_prefill",
     .length = 512,
     .hidden = 2048,
     .heads = 32,
     .kv_heads = 8,
     .causal = true,
     .rotary = true,
     .dtype = FOVEA_BF16},
    {.name = "b1_l512_768_12_medium",
     .length = 512,
     .hidden = 768,
     .heads = 12,
     .kv_heads = 12,
     .precision = FOVEA_PRECISION_MEDIUM},
};

int64_t kv_width(const MultiHeadShape &s) { return s.hidden / s.heads * s.kv_heads; }
int64_t attended(const MultiHeadShape &s) { return s.cached > 0 ? s.cached : s.key_len > 0 ? s.key_len : s.length; }

double flops(const MultiHeadShape &s) {
  const auto rows = static_cast<double>(s.batch * s.length);
  const auto key_rows = static_cast<double>(s.batch * (s.key_len > 0 ? s.key_len : s.length));
  const auto hidden = static_cast<double>(s.hidden);
  const double pairs = rows * static_cast<double>(attended(s)) * (s.causal && s.cached == 0 ? 0.5 : 1.0);
  return 4.0 * rows * hidden * hidden + 4.0 * key_rows * hidden * static_cast<double>(kv_width(s)) +
         4.0 * pairs * hidden;
}

int64_t weight_floats(const MultiHeadShape &s) { return 2 * s.hidden * (s.hidden + kv_width(s)); }
int64_t cache_floats(const MultiHeadShape &s) { return 2 * s.batch * s.cached * kv_width(s); }

struct MhaDeleter {
  void operator()(fovea_mha_weights *weights) const { fovea_mha_weights_destroy(weights); }
};
struct PoolDeleter {
  void operator()(fovea_kv_pool *pool) const { fovea_kv_pool_destroy(pool); }
};
struct ScheduleDeleter {
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};

// One shape on one context.
class MultiHeadCall {
 public:
  MultiHeadCall(const MultiHeadShape &s, const std::string &isa, int threads)
      : shape_(s),
        context_(make_context(isa, threads)),
        x_(normals(s.batch * s.length * s.hidden, s.dtype)),
        y_(normals(s.batch * s.key_len * s.hidden, s.dtype)),
        out_(zeros(s.batch * s.length * s.hidden, s.dtype)),
        x_view_(tensor(x_.data(), {s.batch, s.length, s.hidden}, s.dtype)),
        y_view_(tensor(y_.data(), {s.batch, s.key_len, s.hidden}, s.dtype)),
        out_view_(tensor(out_.data(), {s.batch, s.length, s.hidden}, s.dtype)) {
    make_weights();
    attention_.struct_size = sizeof attention_;
    if (s.causal) attention_.flags = FOVEA_CAUSAL;
    rotary_.struct_size = sizeof rotary_;
    options_.struct_size = sizeof options_;
    if (s.rotary) options_.rotary = &rotary_;
    if (s.cached == 0) options_.attention = &attention_;
    if (s.cached > 0) make_pages();
  }
  MultiHeadCall(const MultiHeadCall &) = delete;  // options_ points into the object

  void run() {
    if (pool_) {  // one position again
      check(fovea_kv_pool_truncate(pool_.get(), sequence_, shape_.cached - 1));
      grow(1);
    }
    check(fovea_multi_head_attention(context_.get(), weights_.get(), &x_view_, shape_.key_len > 0 ? &y_view_ : nullptr,
                                     nullptr, &out_view_, &options_));
  }

 private:
  // The floats as float32 or bfloat16.
  Buffer in_type(const Buffer &floats) const {
    const size_t count = floats.bytes() / sizeof(float);
    Buffer typed(count * element_bytes(shape_.dtype));
    for (size_t i = 0; i < count; ++i) {
      if (shape_.dtype == FOVEA_F32) {
        typed.floats()[i] = floats.floats()[i];
      } else {
        static_cast<fovea::Bfloat16 *>(typed.data())[i] = fovea::Bfloat16::from(floats.floats()[i]);
      }
    }
    return typed;
  }

  void make_weights() {
    const int64_t hidden = shape_.hidden, outputs = hidden + 2 * kv_width(shape_);
    const Buffer in = normals(outputs * hidden), out = normals(hidden * hidden), bias = normals(outputs);
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(hidden)));
    for (const Buffer *weight : {&in, &out})
      for (size_t i = 0; i < weight->bytes() / sizeof(float); ++i) weight->floats()[i] *= factor;
    const Buffer typed_in = in_type(in), typed_out = in_type(out);
    const fovea_tensor in_view = tensor(typed_in.data(), {outputs, hidden}, shape_.dtype);
    const fovea_tensor out_view = tensor(typed_out.data(), {hidden, hidden}, shape_.dtype);
    const fovea_tensor in_bias = tensor(bias.floats(), {outputs}), out_bias = tensor(bias.floats(), {hidden});
    fovea_mha_parameters p{};
    p.struct_size = sizeof p;
    p.heads = shape_.heads;
    p.kv_heads = shape_.kv_heads;
    p.in_weight = &in_view;
    p.in_bias = &in_bias;
    p.out_weight = &out_view;
    p.out_bias = &out_bias;
    p.precision = shape_.precision;
    fovea_mha_weights *weights = nullptr;
    check(fovea_mha_weights_create(context_.get(), &p, &weights));
    weights_.reset(weights);
  }

  // A sequence of `cached` positions, of which the last is each run's.
  void make_pages() {
    const int64_t dim = shape_.hidden / shape_.heads;
    fovea_kv_pool_sizes sizes{};
    sizes.struct_size = sizeof sizes;
    sizes.layers = sizes.sequences = 1;
    sizes.kv_heads = shape_.kv_heads;
    sizes.positions = shape_.cached;
    sizes.head_dim = dim;
    fovea_kv_pool *pool = nullptr;
    check(fovea_kv_pool_create(&sizes, &pool));
    pool_.reset(pool);
    keys_ = fovea_kv_pool_keys(pool, 0);
    values_ = fovea_kv_pool_values(pool, 0);
    const fovea_tensor query = tensor(nullptr, {shape_.cached, shape_.heads, dim});
    fovea_schedule_limits limits{};
    limits.struct_size = sizeof limits;
    limits.sequences = 1;
    fovea_schedule *schedule = nullptr;
    check(fovea_schedule_create(context_.get(), nullptr, &query, &keys_, &values_, &query, &attention_, &limits,
                                &schedule));
    schedule_.reset(schedule);
    check(fovea_kv_pool_open(pool, &sequence_));
    grow(shape_.cached);
    const Buffer rows = normals(kv_width(shape_) * shape_.cached);
    const fovea_tensor view = tensor(rows.floats(), {shape_.cached, shape_.kv_heads, dim});
    check(fovea_schedule_append(schedule, &view, &view, &keys_, &values_, nullptr));
    for (fovea_tensor *rows_of : {&x_view_, &out_view_})
      *rows_of = tensor(rows_of->data, {1, shape_.hidden}, shape_.dtype);
    options_.schedule = schedule;
    options_.key_pages = &keys_;
    options_.value_pages = &values_;
  }

  void grow(int64_t tokens) {
    const fovea_tensor which = tensor(&sequence_, {1}, FOVEA_I64), by = tensor(&tokens, {1}, FOVEA_I64);
    fovea_step step;
    check(fovea_kv_pool_step(context_.get(), pool_.get(), &which, &by, &step));
    check(fovea_schedule_set(schedule_.get(), &step));
  }

  const MultiHeadShape &shape_;
  Context context_;
  Buffer x_, y_, out_;
  fovea_tensor x_view_, y_view_, out_view_;
  std::unique_ptr<fovea_mha_weights, MhaDeleter> weights_;
  std::unique_ptr<fovea_kv_pool, PoolDeleter> pool_;
  std::unique_ptr<fovea_schedule, ScheduleDeleter> schedule_;
  fovea_tensor keys_{}, values_{};
  int64_t sequence_ = -1;
  fovea_attention_options attention_{};
  fovea_rotary_options rotary_{};
  fovea_mha_options options_{};
};

Prepared prepare(const MultiHeadShape &shape, const Variant &variant) {
  const auto call = std::make_shared<MultiHeadCall>(shape, variant.isa, variant.threads);
  Prepared prepared;
  prepared.run = [call] { call->run(); };
  if (variant.threads > 1) {
    const auto single = std::make_shared<MultiHeadCall>(shape, variant.isa, 1);
    prepared.run_on_one_thread = [single] { single->run(); };
  }
  if (shape.cached > 0) {
    const auto region = std::make_shared<Buffer>(zeros(weight_floats(shape) + cache_floats(shape)));
    const auto reader = std::make_shared<ReadRegion>(region->data(), region->bytes());
    prepared.shortest_seconds = [=] {
      return static_cast<double>(region->bytes()) / reader->rate(variant.isa, variant.threads, probe_seconds());
    };
    return prepared;
  }
  prepared.shortest_seconds = [=, work = flops(shape)] {
    return work / multiply_add_rate(variant.isa, variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_multi_head(Cases *list) {
  for (const MultiHeadShape &s : shapes)
    list->push_back(
        {.operation = "multi_head",
         .model = s.name,
         .dtype = s.dtype,
         .bound = s.cached > 0 ? Bound::bytes : Bound::flops,
         .work = {.flops = flops(s), .bytes = sizeof(float) * static_cast<double>(weight_floats(s) + cache_floats(s))},
         .parameters = {{"batch", s.batch},
                        {"query_len", s.length},
                        {"key_len", attended(s)},
                        {"hidden", s.hidden},
                        {"heads", s.heads},
                        {"kv_heads", s.kv_heads},
                        {"head_dim", s.hidden / s.heads},
                        {"cross", s.key_len > 0},
                        {"cached", s.cached},
                        {"causal", s.causal},
                        {"rotary", s.rotary},
                        {"bias", true}},
         .unit = s.micro ? benchmark::kMicrosecond : benchmark::kMillisecond,
         .prepare = [&s](const Variant &variant) { return prepare(s, variant); }});
}

}  // namespace fovea_bench
