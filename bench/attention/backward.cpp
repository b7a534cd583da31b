// Benchmarks of attention's backward pass, backward/f32/<shape>/<instruction set>/t<threads>, planned: gradients of
// queries, keys and values, and of the parameters that a score function has (backward_additive, backward_gaussian,
// backward_bilinear). Additive scores' projections are kept, as the forward pass makes them.
//
// What bounds each case
//   backward: five products of the size of the scores at the multiply-add peak, two of which the forward pass has computed, too
//     (scores, gradients of weights; then what these give values, queries and keys): 5 / 2 of the forward pass's multiply-adds,
//     2.5 D + 2.5 Dv for each pair. On the same ports some 25 instructions for a vector of pairs, of which the exponential
//     takes 14: at most 5 D / (5 D + 25) of the peak where D = Dv, 93 % at D 64. Loading a band of 64 rows, which is turned
//     around for each split of the keys, takes about 2 %. bfloat16 by pairs: half as many, so at most 5 D / 2 / (5 D / 2 + 35),
//     10 more to round and join weights and gradients of scores, of twice the peak.
//   backward_gaussian: as the dot product, since pairs of these points are far but for few; two of the five products would take
//     differences of near ones, one instruction more each, 7 / 5 of the arithmetic.
//   backward_bilinear: as the dot product, and three products of the size of the projection: made again, its gradient for
//     queries, that for the weight.
//   backward_additive: the forward pass's score once more, and 11 instructions for each unit of a vector of pairs
//     (scores/additive_gradients.hpp); two products of the size of each projection, most of nmt and seq2seq_step. The rest of
//     these two is rows at the rate of copies: gradients of projected rows must be there before a product can begin.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "attention/sdpa_shapes.hpp"
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct BackwardShape {
  const char *name;
  int32_t kind;
  int64_t batch, heads, kv_heads, query_len, key_len, dim;
  int64_t units = 0;
  bool causal = false;
  int64_t shortest = 0;  // > 0: valid lengths from shortest to key_len, evenly over the batch
  fovea_dtype dtype = FOVEA_F32;

  int64_t rows() const { return batch * heads * query_len; }
  int64_t keys() const { return batch * kv_heads * key_len; }
  SdpaShape attended() const {
    return {{name, batch, heads, kv_heads, query_len, key_len, dim, dim},
            {.causal = causal, .shortest = shortest, .dtype = dtype}};
  }
  double pairs() const {
    const SdpaShape shape = attended();
    return sdpa_flops(shape, valid_lens_of(shape)) / (4.0 * static_cast<double>(dim));
  }
  bool keeps() const { return kind == FOVEA_SCORE_ADDITIVE; }
  double flops() const { return 10.0 * pairs() * static_cast<double>(dim); }
  // What the score's projections take: gradients of rows and of the weight; those that are not kept are made again.
  double projection_flops() const {
    const double projected = kind == FOVEA_SCORE_ADDITIVE   ? static_cast<double>((rows() + keys()) * units)
                             : kind == FOVEA_SCORE_BILINEAR ? static_cast<double>(rows() * dim)
                                                            : 0.0;
    return (keeps() ? 2 : 3) * 2 * projected * static_cast<double>(dim);
  }
  // Additive: queries, keys, values, rows of grad_out, what is kept, and the gradients of all that; of projected rows those
  // are written by one stage and read by the products for the rows and for the weight.
  double row_bytes() const {
    return static_cast<double>((rows() + keys()) * (4 * dim + (1 + 3) * units)) * sizeof(float);
  }
};

// clang-format off
constexpr BackwardShape shapes[] = {
    //                                        B   H   Hkv Q     K     D    units
    {"bert_base",      FOVEA_SCORE_DOT,       1,  12, 12, 512,  512,  64},
    {"bert_batch",     FOVEA_SCORE_DOT,       8,  12, 12, 128,  128,  64,  0, false, 32},
    {"gpt2",           FOVEA_SCORE_DOT,       1,  12, 12, 1024, 1024, 64,  0, true},
    {"llama8b",        FOVEA_SCORE_DOT,       1,  32, 8,  1024, 1024, 128, 0, true},
    {"one_head",       FOVEA_SCORE_DOT,       1,  1,  1,  2048, 2048, 64},
    {"one_head_d128",  FOVEA_SCORE_DOT,       1,  1,  1,  2048, 2048, 128, 0, true},
    {"bert_base",      FOVEA_SCORE_DOT,       1,  12, 12, 512,  512,  64,  0, false, 0, FOVEA_BF16},
    {"bert_batch",     FOVEA_SCORE_DOT,       8,  12, 12, 128,  128,  64,  0, false, 32, FOVEA_BF16},
    {"gpt2",           FOVEA_SCORE_DOT,       1,  12, 12, 1024, 1024, 64,  0, true, 0, FOVEA_BF16},
    {"llama8b",        FOVEA_SCORE_DOT,       1,  32, 8,  1024, 1024, 128, 0, true, 0, FOVEA_BF16},
    {"one_head",       FOVEA_SCORE_DOT,       1,  1,  1,  2048, 2048, 64,  0, false, 0, FOVEA_BF16},
    {"one_head_d128",  FOVEA_SCORE_DOT,       1,  1,  1,  2048, 2048, 128, 0, true, 0, FOVEA_BF16},
    {"bert_base",      FOVEA_SCORE_GAUSSIAN,  1,  12, 12, 512,  512,  64},
    {"bert_base",      FOVEA_SCORE_BILINEAR,  1,  12, 12, 512,  512,  64},
    {"nmt",            FOVEA_SCORE_ADDITIVE,  32, 1,  1,  32,   32,   512, 512},
    {"long",           FOVEA_SCORE_ADDITIVE,  4,  1,  1,  256,  512,  256, 256},
    {"seq2seq_step",   FOVEA_SCORE_ADDITIVE,  64, 1,  1,  1,    32,   256, 256},
};
// clang-format on

const char *operation_of(int32_t kind) {
  constexpr const char *names[] = {"backward", "backward_bilinear", "backward_additive", "backward_concat",
                                   "backward_gaussian"};
  return names[kind];
}

// The width of the Gaussian.
double sigma_of(const BackwardShape &s) { return std::sqrt(static_cast<float>(s.dim)); }

// Weights under which projected units are about 0.5.
Buffer scaled(int64_t out, int64_t in) {
  Buffer weights = normals(out * in);
  for (int64_t n = 0; n < out * in; ++n) weights.floats()[n] *= 0.5f / std::sqrt(static_cast<float>(in));
  return weights;
}

struct BackwardData {
  const BackwardShape shape;
  const Buffer query, key, value, out, grad_out, log_sum_exp, grad_query, grad_key, grad_value;
  const Buffer query_weight, key_weight, weight, vector, grad_query_weight, grad_key_weight, grad_weight, grad_vector;
  const Buffer projected_query, projected_key;
  const std::vector<int32_t> valid_lens;

  explicit BackwardData(const BackwardShape &s)
      : shape(s),
        query(normals(s.rows() * s.dim, s.dtype)),
        key(normals(s.keys() * s.dim, s.dtype)),
        value(normals(s.keys() * s.dim, s.dtype)),
        out(zeros(s.rows() * s.dim, s.dtype)),
        grad_out(normals(s.rows() * s.dim, s.dtype)),
        log_sum_exp(zeros(s.rows())),
        grad_query(zeros(s.rows() * s.dim, s.dtype)),
        grad_key(zeros(s.keys() * s.dim, s.dtype)),
        grad_value(zeros(s.keys() * s.dim, s.dtype)),
        query_weight(scaled(s.units, s.dim)),
        key_weight(scaled(s.units, s.dim)),
        weight(scaled(s.dim, s.dim)),
        vector(normals(s.units)),
        grad_query_weight(zeros(s.units * s.dim)),
        grad_key_weight(zeros(s.units * s.dim)),
        grad_weight(zeros(s.dim * s.dim)),
        grad_vector(zeros(s.units)),
        projected_query(zeros(s.keeps() ? s.rows() * s.units : 0)),
        projected_key(zeros(s.keeps() ? s.keys() * s.units : 0)),
        valid_lens(valid_lens_of(s.attended())) {}
};

// The forward call, made once, and the backward pass planned.
class BackwardCall {
 public:
  BackwardCall(std::shared_ptr<BackwardData> data, const std::string &isa, int threads)
      : data_(std::move(data)), context_(make_context(isa, threads)) {
    const BackwardData &d = *data_;
    const BackwardShape &s = d.shape;
    const fovea_tensor query = tensor(d.query.data(), {s.batch, s.heads, s.query_len, s.dim}, s.dtype),
                       key = tensor(d.key.data(), {s.batch, s.kv_heads, s.key_len, s.dim}, s.dtype),
                       value = tensor(d.value.data(), {s.batch, s.kv_heads, s.key_len, s.dim}, s.dtype),
                       out = tensor(d.out.data(), {s.batch, s.heads, s.query_len, s.dim}, s.dtype),
                       lse = tensor(d.log_sum_exp.data(), {s.batch, s.heads, s.query_len}),
                       lens = tensor(d.valid_lens.data(), {s.batch}, FOVEA_I32),
                       query_weight = tensor(d.query_weight.data(), {s.units, s.dim}),
                       key_weight = tensor(d.key_weight.data(), {s.units, s.dim}),
                       weight = tensor(d.weight.data(), {s.dim, s.dim}), vector = tensor(d.vector.data(), {s.units}),
                       projected_query = tensor(d.projected_query.data(), {s.batch, s.heads, s.query_len, s.units}),
                       projected_key = tensor(d.projected_key.data(), {s.batch, s.kv_heads, s.key_len, s.units});
    fovea_score score{};
    score.struct_size = sizeof score;
    score.kind = s.kind;
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.log_sum_exp = &lse;
    options.flags = s.causal ? FOVEA_CAUSAL : 0;
    if (s.shortest > 0) options.valid_lens = &lens;
    if (s.kind == FOVEA_SCORE_GAUSSIAN) score.sigma = static_cast<float>(sigma_of(s));
    if (s.kind == FOVEA_SCORE_BILINEAR) score.weight = &weight;
    if (s.kind == FOVEA_SCORE_ADDITIVE) {
      score.query_weight = &query_weight;
      score.key_weight = &key_weight;
      score.score_vector = &vector;
    }
    if (s.keeps()) {
      options.projected_query = &projected_query;
      options.projected_key = &projected_key;
    }
    check(fovea_attention(context_.get(), &score, &query, &key, &value, &out, &options));
    plan(score, options, {query, key, value, out});
  }

  void run() { check(fovea_attention_run(plan_.get(), &buffers_, workspace_.data(), workspace_.bytes())); }
  size_t workspace_size() const { return workspace_.bytes(); }

 private:
  struct Tensors {
    fovea_tensor query, key, value, out;
  };

  void plan(const fovea_score &score, const fovea_attention_options &options, const Tensors &t) {
    const BackwardData &d = *data_;
    const auto like = [](fovea_tensor view, const Buffer &data) {
      view.data = data.data();
      return view;
    };
    const fovea_tensor grad_out = like(t.out, d.grad_out), grad_query = like(t.query, d.grad_query),
                       grad_key = like(t.key, d.grad_key), grad_value = like(t.value, d.grad_value);
    fovea_attention_gradients gradients{};
    gradients.struct_size = sizeof gradients;
    gradients.out = &grad_out;
    gradients.query = &grad_query;
    gradients.key = &grad_key;
    gradients.value = &grad_value;
    gradients.weight = score.weight;  // of these only the layout counts
    gradients.query_weight = score.query_weight;
    gradients.key_weight = score.key_weight;
    gradients.score_vector = score.score_vector;
    fovea_plan *plan = nullptr;
    check(fovea_attention_backward_plan_create(context_.get(), &score, &t.query, &t.key, &t.value, &t.out, &options,
                                               &gradients, &plan));
    plan_.reset(plan);
    workspace_ = Buffer(fovea_plan_workspace_size(plan));
    buffers_.struct_size = sizeof buffers_;
    buffers_.query = d.query.data();
    buffers_.key = d.key.data();
    buffers_.value = d.value.data();
    buffers_.out = d.out.data();
    buffers_.log_sum_exp = d.log_sum_exp.data();
    if (options.valid_lens) buffers_.valid_lens = d.valid_lens.data();
    if (d.shape.keeps()) {
      buffers_.projected_query = d.projected_query.data();
      buffers_.projected_key = d.projected_key.data();
    }
    buffers_.grad_out = d.grad_out.data();
    buffers_.grad_query = d.grad_query.data();
    buffers_.grad_key = d.grad_key.data();
    buffers_.grad_value = d.grad_value.data();
    const auto parameter = [](const fovea_tensor *given, const Buffer &data, const void **from, const Buffer &gradient,
                              void **to) {
      if (given == nullptr) return;
      *from = data.data();
      *to = gradient.data();
    };
    parameter(score.weight, d.weight, &buffers_.weight, d.grad_weight, &buffers_.grad_weight);
    parameter(score.query_weight, d.query_weight, &buffers_.query_weight, d.grad_query_weight,
              &buffers_.grad_query_weight);
    parameter(score.key_weight, d.key_weight, &buffers_.key_weight, d.grad_key_weight, &buffers_.grad_key_weight);
    parameter(score.score_vector, d.vector, &buffers_.score_vector, d.grad_vector, &buffers_.grad_score_vector);
  }

  std::shared_ptr<BackwardData> data_;
  Context context_;
  fovea_attention_buffers buffers_{};
  Plan plan_;  // after the context: destroyed before it
  Buffer workspace_;
};

// Additive: 11 instructions for the derivative of a unit, about 5 for the unit itself, and what every row brings through
// the caches before the projections' products begin, at the rate at which as much memory is copied.
double least_seconds(const BackwardData &data, const Variant &variant) {
  const BackwardShape &shape = data.shape;
  const auto rate = shape.dtype == FOVEA_BF16 ? bfloat16_rate : multiply_add_rate;
  const double peak = rate(variant.isa, variant.threads, probe_seconds());
  if (shape.kind != FOVEA_SCORE_ADDITIVE) return (shape.flops() + shape.projection_flops()) / peak;
  const auto half = static_cast<int64_t>(shape.row_bytes() / 2 / sizeof(float));
  const Buffer from = zeros(half), to = zeros(half);
  const double copied = copy_rate(to.data(), from.data(), from.bytes(), variant.threads, probe_seconds());
  const double units = shape.pairs() * static_cast<double>(shape.units) / lanes_of(variant.isa) * 16;
  return units / (variant.threads * instruction_rate(variant.isa, probe_seconds())) +
         (4 * shape.pairs() * static_cast<double>(shape.dim) + shape.projection_flops()) / peak +
         shape.row_bytes() / copied;
}

Prepared prepare(const BackwardShape &shape, const Variant &variant) {
  const auto data = std::make_shared<BackwardData>(shape);
  const auto call = std::make_shared<BackwardCall>(data, variant.isa, variant.threads);
  Prepared prepared;
  prepared.run = [call] { call->run(); };
  prepared.counters["workspace"] = static_cast<double>(call->workspace_size());
  if (variant.threads > 1) {
    const auto single = std::make_shared<BackwardCall>(data, variant.isa, 1);
    prepared.run_on_one_thread = [single] { single->run(); };
  }
  prepared.shortest_seconds = [=] { return least_seconds(*data, variant); };
  return prepared;
}

const char *score_of(int32_t kind) {
  constexpr const char *names[] = {"dot", "bilinear", "additive", "concat", "gaussian"};
  return names[kind];
}

std::vector<Parameter> parameters_of(const BackwardShape &s) {
  return {{"score", score_of(s.kind)}, {"sigma", s.kind == FOVEA_SCORE_GAUSSIAN ? sigma_of(s) : 0.0},
          {"batch", s.batch},          {"heads", s.heads},
          {"kv_heads", s.kv_heads},    {"query_len", s.query_len},
          {"key_len", s.key_len},      {"head_dim", s.dim},
          {"value_dim", s.dim},        {"causal", s.causal},
          {"hidden_units", s.units},   {"valid_lens", valid_lens_of(s.attended())}};
}

}  // namespace

void add_backward(Cases *list) {
  for (const BackwardShape &shape : shapes) {
    const bool additive = shape.kind == FOVEA_SCORE_ADDITIVE;
    list->push_back({.operation = operation_of(shape.kind),
                     .model = shape.name,
                     .dtype = shape.dtype,
                     .bound = additive ? Bound::elements : Bound::flops,
                     .work = {.flops = shape.flops(), .elements = shape.pairs() * static_cast<double>(shape.units)},
                     .parameters = parameters_of(shape),
                     .prepare = [&shape](const Variant &variant) { return prepare(shape, variant); }});
  }
}

}  // namespace fovea_bench
