// Benchmarks of attention with score functions other than the scaled dot product, <case>/f32/<shape>/<instruction
// set>/t<threads>.
//
// What bounds each case
//   additive: both projections and all, planned. Projections and weighted sum are multiply-adds at the peak; the score
//     takes, for four units of a register of pairs, 21 instructions, of which AVX-512's estimate of a reciprocal counts
//     as three; all on the same ports, but on AMD's machines, whose eight additions go elsewhere and whose estimate
//     counts as two (scores/additive_many_rows.hpp). With few queries half of the additions are multiply-adds instead.
//     Elements are B Q K units. seq2seq and nmt are mostly their projections,
//     277 MFLOP and 1.07 GFLOP: those at the multiply-add peak are 98 % and 85 % of the limit with AVX-512 on Intel's.
//     With AMX their limit is a sixth of the tile unit's rate (products/amx_matmul.hpp).
//     long is 0.40 GFLOP of projections and 134 M elements.
//   additive_padded: the same with valid lengths from a quarter to all of the keys; what is behind them is not projected.
//   concat: additive but for where the weights lie.
//   additive_step: one query of every sequence over keys that were prepared once, as a decoder asks. The query has to be
//     projected before a key can be used, at the multiply-add peak. Then prepared keys and values are read, all in cache
//     here (4 to 5 MB), or the score's instructions and the weighted sum take longer; a query's exponential is about 13
//     instructions for a register of units, 10 on AMD's. Left in between: only scores have arithmetic to hide what they
//     read behind.
//   additive_tile: the loop over tiles alone, as far as a call can show it: queries, keys and values of one feature,
//     keys prepared. Softmax is 15 instructions for 256 units' 900 to 1200 and does not count.
//   gaussian: the scaled dot product of the same shape, measured beside it, is the limit: the norms of keys are a sum
//     more per key and row. sigma = sqrt(D), so that no pair needs the squared difference itself.
//   kernel_regression: sigma = 1/2, about what 4096 normal inputs of 8 features ask for, and narrow: every pair takes
//     the squared difference. 2 D instructions for it, T for the targets (1) and about 15 for the softmax, per register
//     of pairs.
//   bilinear: arithmetic, as the scaled dot product, and one projection.
// The kernel regression is a one-shot call, whose workspace stays in the context: nothing is allocated once it is warm.
// Weights are scaled so that projected units are about 0.5, as trained ones are, and all share reciprocals.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct ScoreShape {
  std::string name;
  int64_t batch, heads, query_len, key_len;
  int64_t query_dim, key_dim, value_dim;
  int64_t units = 0;     // of ADDITIVE
  int64_t shortest = 0;  // > 0: valid lengths from shortest to key_len, evenly spread over the batch

  std::vector<int32_t> valid_lens() const {
    return shortest > 0 ? evenly(batch, shortest, key_len) : std::vector<int32_t>{};
  }
  double rows(int64_t length) const { return static_cast<double>(batch * heads * length); }
  double keys() const {
    if (shortest == 0) return rows(key_len);
    const std::vector<int32_t> lens = valid_lens();
    return static_cast<double>(heads * std::accumulate(lens.begin(), lens.end(), int64_t{0}));
  }
  double pairs() const { return keys() * static_cast<double>(query_len); }
  double elements() const { return pairs() * static_cast<double>(units); }
  double value_flops() const { return 2 * pairs() * static_cast<double>(value_dim); }
  double prepared_bytes() const { return sizeof(float) * keys() * static_cast<double>(units + value_dim); }
  double query_projection_flops() const { return 2 * rows(query_len) * static_cast<double>(query_dim * units); }
  double key_projection_flops() const { return 2 * keys() * static_cast<double>(key_dim * units); }
};

// From further on in the sequence than inputs are, out of step with their rows: a query that is a row of the weight
// would have a unit of 8.
Buffer weights(int64_t out, int64_t in) {
  constexpr int64_t skipped = 4099;
  const Buffer sequence = normals(skipped + out * in);
  Buffer buffer = zeros(out * in);
  const float scale = 0.5f / std::sqrt(static_cast<float>(in));
  for (int64_t i = 0; i < out * in; ++i) buffer.floats()[i] = scale * sequence.floats()[skipped + i];
  return buffer;
}

// The sigma of the Gaussian score.
float sigma_of(const ScoreShape &s) { return std::sqrt(static_cast<float>(s.query_dim)); }

// The weight of CONCAT, or of BILINEAR.
struct WeightShape {
  int64_t out, in;
};

WeightShape weight_shape(const ScoreShape &s, int32_t kind) {
  if (kind == FOVEA_SCORE_CONCAT) return {s.units, s.query_dim + s.key_dim};
  return {s.query_dim, s.key_dim};
}

// All memory of one call and its description; fovea_score and the tensors point into it.
struct ScoreData {
  const ScoreShape shape;
  const Buffer query, key, value, out, query_weight, key_weight, weight, score_vector;
  std::vector<int32_t> valid_lens;
  const fovea_tensor query_view, key_view, value_view, out_view;
  const fovea_tensor query_weight_view, key_weight_view, weight_view, score_vector_view, valid_lens_view;
  fovea_attention_options options{};
  fovea_score score{};

  ScoreData(const ScoreShape &s, int32_t kind)
      : shape(s),
        query(normals(s.batch * s.heads * s.query_len * s.query_dim)),
        key(normals(s.batch * s.heads * s.key_len * s.key_dim)),
        value(normals(s.batch * s.heads * s.key_len * s.value_dim)),
        out(zeros(s.batch * s.heads * s.query_len * s.value_dim)),
        query_weight(weights(s.units, s.query_dim)),
        key_weight(weights(s.units, s.key_dim)),
        weight(weights(weight_shape(s, kind).out, weight_shape(s, kind).in)),
        score_vector(normals(s.units)),
        valid_lens(s.valid_lens()),
        query_view(tensor(query.data(), {s.batch, s.heads, s.query_len, s.query_dim})),
        key_view(tensor(key.data(), {s.batch, s.heads, s.key_len, s.key_dim})),
        value_view(tensor(value.data(), {s.batch, s.heads, s.key_len, s.value_dim})),
        out_view(tensor(out.data(), {s.batch, s.heads, s.query_len, s.value_dim})),
        query_weight_view(tensor(query_weight.data(), {s.units, s.query_dim})),
        key_weight_view(tensor(key_weight.data(), {s.units, s.key_dim})),
        weight_view(tensor(weight.data(), {weight_shape(s, kind).out, weight_shape(s, kind).in})),
        score_vector_view(tensor(score_vector.data(), {s.units})),
        valid_lens_view(tensor(valid_lens.data(), {s.batch}, FOVEA_I32)) {
    options.struct_size = sizeof options;
    if (!valid_lens.empty()) options.valid_lens = &valid_lens_view;
    score.struct_size = sizeof score;
    score.kind = kind;
    if (kind == FOVEA_SCORE_GAUSSIAN) score.sigma = sigma_of(s);
    if (kind == FOVEA_SCORE_BILINEAR || kind == FOVEA_SCORE_CONCAT) score.weight = &weight_view;
    if (kind == FOVEA_SCORE_ADDITIVE || kind == FOVEA_SCORE_CONCAT) score.score_vector = &score_vector_view;
    if (kind == FOVEA_SCORE_ADDITIVE) {
      score.query_weight = &query_weight_view;
      score.key_weight = &key_weight_view;
    }
  }
  ScoreData(const ScoreData &) = delete;
};

class PlannedCall {
 public:
  PlannedCall(std::shared_ptr<ScoreData> data, const std::string &isa, int threads)
      : data_(std::move(data)), context_(make_context(isa, threads)) {
    const ScoreData &d = *data_;
    fovea_plan *plan = nullptr;
    check(fovea_attention_plan_create(context_.get(), &d.score, &d.query_view, &d.key_view, &d.value_view, &d.out_view,
                                      &d.options, &plan));
    plan_.reset(plan);
    workspace_ = Buffer(fovea_plan_workspace_size(plan));
    buffers_.struct_size = sizeof buffers_;
    buffers_.query = d.query.floats();
    buffers_.key = d.key.floats();
    buffers_.value = d.value.floats();
    buffers_.out = d.out.floats();
    if (d.options.valid_lens) buffers_.valid_lens = d.valid_lens.data();
    if (d.score.weight) buffers_.weight = d.weight.floats();
    if (d.score.query_weight) buffers_.query_weight = d.query_weight.floats();
    if (d.score.key_weight) buffers_.key_weight = d.key_weight.floats();
    if (d.score.score_vector) buffers_.score_vector = d.score_vector.floats();
  }

  void run() { check(fovea_attention_run(plan_.get(), &buffers_, workspace_.data(), workspace_.bytes())); }
  size_t workspace_size() const { return workspace_.bytes(); }

 private:
  std::shared_ptr<ScoreData> data_;
  Context context_;
  fovea_attention_buffers buffers_{};
  Plan plan_;  // after the context: destroyed before it
  Buffer workspace_;
};

// Additive attention over keys that were prepared before, planned.
class PreparedCall {
 public:
  PreparedCall(std::shared_ptr<ScoreData> data, const std::string &isa, int threads)
      : data_(std::move(data)), context_(make_context(isa, threads)) {
    const ScoreShape &s = data_->shape;
    const fovea_prepared_keys_sizes sizes = {sizeof sizes, s.batch,   s.heads,   s.key_len,
                                             s.query_dim,  s.key_dim, FOVEA_F32, 0};
    fovea_prepared_keys *keys = nullptr;
    check(fovea_prepared_keys_create(context_.get(), &data_->score, &sizes, &keys));
    keys_.reset(keys);
    const ScoreData &d = *data_;
    check(fovea_prepared_keys_append(context_.get(), keys, &d.key_view));
    fovea_plan *plan = nullptr;
    check(fovea_attention_prepared_plan_create(context_.get(), &d.query_view, keys, &d.value_view, &d.out_view, nullptr,
                                               &plan));
    plan_.reset(plan);
    workspace_ = Buffer(fovea_plan_workspace_size(plan));
    buffers_.struct_size = sizeof buffers_;
    buffers_.query = d.query.floats();
    buffers_.value = d.value.floats();
    buffers_.out = d.out.floats();
  }

  void run() { check(fovea_attention_run(plan_.get(), &buffers_, workspace_.data(), workspace_.bytes())); }
  size_t workspace_size() const { return workspace_.bytes(); }

 private:
  struct Destroy {
    void operator()(fovea_prepared_keys *keys) const { fovea_prepared_keys_destroy(keys); }
  };

  std::shared_ptr<ScoreData> data_;
  Context context_;
  std::unique_ptr<fovea_prepared_keys, Destroy> keys_;
  fovea_attention_buffers buffers_{};
  Plan plan_;  // destroyed before what it was made from
  Buffer workspace_;
};

// Either kind of call on the variant's threads, and on one for the scaling.
template <class Call>
void set_runs(const std::shared_ptr<ScoreData> &data, const Variant &variant, Prepared *prepared) {
  const auto call = std::make_shared<Call>(data, variant.isa, variant.threads);
  prepared->run = [call] { call->run(); };
  prepared->counters["workspace"] = static_cast<double>(call->workspace_size());
  if (variant.threads > 1) {
    const auto single = std::make_shared<Call>(data, variant.isa, 1);
    prepared->run_on_one_thread = [single] { single->run(); };
  }
}

double flop_seconds(double flops, const Variant &variant) {
  return flops / multiply_add_rate(variant.isa, variant.threads, probe_seconds());
}

double projection_seconds(double flops, const Variant &variant) {
  return flops / product_rate(variant.isa, variant.threads, probe_seconds());
}

double instruction_seconds(double instructions, const Variant &variant) {
  return instructions / (variant.threads * instruction_rate(variant.isa, probe_seconds()));
}

// AMD's cores since Zen add on other ports than they multiply on.
bool adds_elsewhere() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// On the ports that also do multiply-add. The base set divides instead of the estimate and the step of Newton's rule;
// what SSE2 does not fuse, and how long a division takes, is left out.
double additive_instructions(const ScoreShape &shape, const std::string &isa, bool few_rows = false) {
  const double on_all_ports = lanes_of(isa) == 16 ? 23 : isa == "avx2" ? 21 : 19;
  const double additions = few_rows ? 4 : 8;
  const double elsewhere = !adds_elsewhere() ? 0 : lanes_of(isa) == 16 ? additions + 1 : additions;
  return shape.elements() / lanes_of(isa) * (on_all_ports - elsewhere) / 4;
}

// Exponentials of projected queries, times the score vector, on the same ports.
double query_instructions(const ScoreShape &shape, const std::string &isa) {
  return shape.rows(shape.query_len) * static_cast<double>(shape.units) / lanes_of(isa) * (adds_elsewhere() ? 10 : 13);
}

Prepared prepare_whole(int32_t kind, const ScoreShape &shape, const Variant &variant) {
  Prepared prepared;
  set_runs<PlannedCall>(std::make_shared<ScoreData>(shape, kind), variant, &prepared);
  prepared.shortest_seconds = [=] {
    const double projections = shape.query_projection_flops() + shape.key_projection_flops();
    return projection_seconds(projections, variant) + flop_seconds(shape.value_flops(), variant) +
           instruction_seconds(additive_instructions(shape, variant.isa), variant);
  };
  return prepared;
}

Prepared prepare_additive(const ScoreShape &shape, const Variant &variant) {
  return prepare_whole(FOVEA_SCORE_ADDITIVE, shape, variant);
}

Prepared prepare_concat(const ScoreShape &shape, const Variant &variant) {
  return prepare_whole(FOVEA_SCORE_CONCAT, shape, variant);
}

Prepared prepare_step(const ScoreShape &shape, const Variant &variant) {
  Prepared prepared;
  set_runs<PreparedCall>(std::make_shared<ScoreData>(shape, FOVEA_SCORE_ADDITIVE), variant, &prepared);
  // Keys and values are what is read, at the speed of a region as large as all that a step touches: the query's weight,
  // queries, projected queries and outputs take their part of the caches.
  const double bytes = shape.prepared_bytes();
  const auto others =
      static_cast<int64_t>(shape.rows(shape.query_len)) * (shape.query_dim + shape.units + shape.value_dim);
  const int64_t floats = static_cast<int64_t>(bytes / sizeof(float)) + shape.units * shape.query_dim + others;
  const auto memory = std::make_shared<Buffer>(zeros(floats));
  const auto region = std::make_shared<ReadRegion>(memory->data(), memory->bytes());
  prepared.shortest_seconds = [=, keep = memory] {
    const double instructions =
        additive_instructions(shape, variant.isa, true) + query_instructions(shape, variant.isa);
    const double arithmetic = flop_seconds(shape.value_flops(), variant) + instruction_seconds(instructions, variant);
    const double reading = bytes / region->rate(variant.isa, variant.threads, probe_seconds());
    return flop_seconds(shape.query_projection_flops(), variant) + std::max(arithmetic, reading);
  };
  return prepared;
}

Prepared prepare_tile(const ScoreShape &shape, const Variant &variant) {
  Prepared prepared;
  set_runs<PreparedCall>(std::make_shared<ScoreData>(shape, FOVEA_SCORE_ADDITIVE), variant, &prepared);
  prepared.shortest_seconds = [=] { return instruction_seconds(additive_instructions(shape, variant.isa), variant); };
  return prepared;
}

double dot_product_flops(const ScoreShape &shape) {
  return 2 * shape.pairs() * static_cast<double>(shape.key_dim) + shape.value_flops();
}

// Seconds of one run, from as many as fill a probe.
double seconds_per_run(PlannedCall &call) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double elapsed = 0;
  int runs = 0;
  do {
    call.run();
    ++runs;
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (elapsed < probe_seconds());
  return elapsed / runs;
}

Prepared prepare_gaussian(const ScoreShape &shape, const Variant &variant) {
  Prepared prepared;
  set_runs<PlannedCall>(std::make_shared<ScoreData>(shape, FOVEA_SCORE_GAUSSIAN), variant, &prepared);
  const auto dot_data = std::make_shared<ScoreData>(shape, FOVEA_SCORE_DOT);
  const auto dot = std::make_shared<PlannedCall>(dot_data, variant.isa, variant.threads);
  prepared.shortest_seconds = [dot] { return seconds_per_run(*dot); };
  return prepared;
}

// Queries or keys are projected, whichever are fewer.
double bilinear_projection_flops(const ScoreShape &shape) {
  const double rows = std::min(shape.rows(shape.query_len), shape.rows(shape.key_len));
  return 2 * rows * static_cast<double>(shape.query_dim * shape.key_dim);
}

Prepared prepare_bilinear(const ScoreShape &shape, const Variant &variant) {
  Prepared prepared;
  set_runs<PlannedCall>(std::make_shared<ScoreData>(shape, FOVEA_SCORE_BILINEAR), variant, &prepared);
  const double projection = bilinear_projection_flops(shape);
  prepared.shortest_seconds = [=] {
    return flop_seconds(dot_product_flops(shape), variant) + projection_seconds(projection, variant);
  };
  return prepared;
}

constexpr int64_t regression_count = 4096, regression_features = 8;
constexpr double regression_pairs = static_cast<double>(regression_count * regression_count);
constexpr float regression_sigma = 0.5f;

Prepared prepare_regression(const Variant &variant) {
  constexpr int64_t count = regression_count, features = regression_features;
  struct Data {
    Buffer queries = normals(count * features), inputs = normals(count * features), targets = normals(count);
    Buffer out = zeros(count);
  };
  const auto data = std::make_shared<Data>();
  const auto run_on = [&](int threads) {
    const std::shared_ptr<fovea_context> context = make_context(variant.isa, threads);
    return [data, context] {
      const fovea_tensor queries = tensor(data->queries.data(), {count, features});
      const fovea_tensor inputs = tensor(data->inputs.data(), {count, features});
      const fovea_tensor targets = tensor(data->targets.data(), {count}), out = tensor(data->out.data(), {count});
      fovea_kernel_regression_options options{};
      options.struct_size = sizeof options;
      options.sigma = regression_sigma;
      check(fovea_kernel_regression(context.get(), &queries, &inputs, &targets, &out, &options));
    };
  };
  Prepared prepared;
  prepared.run = run_on(variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = run_on(1);
  prepared.shortest_seconds = [variant] {
    return instruction_seconds(regression_pairs / lanes_of(variant.isa) * (2 * features + 1 + 15), variant);
  };
  return prepared;
}

const char *name_of_kind(int32_t kind) {
  constexpr const char *kinds[] = {"dot", "bilinear", "additive", "concat", "gaussian"};
  return kinds[kind];
}

std::vector<Parameter> parameters_of(const ScoreShape &s, int32_t kind, bool prepared_keys) {
  std::vector<Parameter> list = {{"score", name_of_kind(kind)},
                                 {"batch", s.batch},
                                 {"heads", s.heads},
                                 {"query_len", s.query_len},
                                 {"key_len", s.key_len},
                                 {"query_dim", s.query_dim},
                                 {"key_dim", s.key_dim},
                                 {"value_dim", s.value_dim},
                                 {"hidden_units", s.units},
                                 {"prepared_keys", prepared_keys},
                                 {"valid_lens", s.valid_lens()}};
  if (kind == FOVEA_SCORE_GAUSSIAN) list.push_back({"sigma", double{sigma_of(s)}});
  return list;
}

// Without the scores of hidden units, which are elements.
double flops_of(const ScoreShape &s, int32_t kind, bool prepared_keys) {
  if (kind == FOVEA_SCORE_GAUSSIAN) return dot_product_flops(s);
  if (kind == FOVEA_SCORE_BILINEAR) return dot_product_flops(s) + bilinear_projection_flops(s);
  return s.value_flops() + s.query_projection_flops() + (prepared_keys ? 0 : s.key_projection_flops());
}

using Prepare = Prepared (*)(const ScoreShape &, const Variant &);

Case case_of(const char *operation, const ScoreShape &shape, int32_t kind, Bound bound, Prepare prepare) {
  const bool prepared_keys = prepare == prepare_step || prepare == prepare_tile;
  return {.operation = operation,
          .model = shape.name,
          .bound = bound,
          .work = {.flops = flops_of(shape, kind, prepared_keys),
                   .bytes = prepared_keys ? shape.prepared_bytes() : 0,
                   .elements = shape.elements()},
          .parameters = parameters_of(shape, kind, prepared_keys),
          .on_amx = !prepared_keys && kind != FOVEA_SCORE_GAUSSIAN,
          .prepare = [=](const Variant &variant) { return prepare(shape, variant); }};
}

void add_regression(Cases *list) {
  constexpr int64_t count = regression_count;
  list->push_back({.operation = "kernel_regression",
                   .model = "4096x4096x8",
                   .bound = Bound::elements,
                   .work = {.elements = regression_pairs},
                   .parameters = {{"queries", count},
                                  {"inputs", count},
                                  {"features", regression_features},
                                  {"targets", int64_t{1}},
                                  {"sigma", double{regression_sigma}}},
                   .prepare = prepare_regression});
}

}  // namespace

void add_scores(Cases *list) {
  //                                  B   H  Q     K    Dq   Dk   Dv   units
  const ScoreShape additive[] = {{"seq2seq", 64, 1, 1, 32, 256, 256, 256, 256},
                                 {"nmt", 32, 1, 32, 32, 512, 512, 512, 512},
                                 {"long", 4, 1, 256, 512, 256, 256, 256, 256}};
  const ScoreShape tile = {"long", 4, 1, 1024, 512, 1, 1, 1, 256};
  const ScoreShape dot[] = {{"bert_base", 1, 12, 512, 512, 64, 64, 64}, {"long_full", 1, 8, 4096, 4096, 128, 128, 128}};
  const auto add = [&](const char *operation, const ScoreShape &shape, int32_t kind, Bound bound, Prepare prepare) {
    list->push_back(case_of(operation, shape, kind, bound, prepare));
  };
  for (const ScoreShape &shape : additive)
    add("additive", shape, FOVEA_SCORE_ADDITIVE, Bound::elements, prepare_additive);
  for (ScoreShape shape : additive) {
    shape.shortest = shape.key_len / 4;
    add("additive_padded", shape, FOVEA_SCORE_ADDITIVE, Bound::elements, prepare_additive);
  }
  add("concat", additive[1], FOVEA_SCORE_CONCAT, Bound::elements, prepare_concat);
  for (ScoreShape shape : additive) {
    shape.query_len = 1;
    add("additive_step", shape, FOVEA_SCORE_ADDITIVE, Bound::bytes, prepare_step);
  }
  add("additive_tile", tile, FOVEA_SCORE_ADDITIVE, Bound::elements, prepare_tile);
  for (const ScoreShape &shape : dot) add("gaussian", shape, FOVEA_SCORE_GAUSSIAN, Bound::flops, prepare_gaussian);
  add("bilinear", dot[0], FOVEA_SCORE_BILINEAR, Bound::flops, prepare_bilinear);
  add_regression(list);
}

}  // namespace fovea_bench
