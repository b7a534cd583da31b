#include "ready_calls.hpp"
#include "creation.hpp"

#include <cstring>
#include <memory>
#include <utility>

#include "attention_problem.hpp"
#include "linear_layer.hpp"
#include "multi_head.hpp"
#include "paged_layer.hpp"
#include "prepared_keys.hpp"

namespace testing {
namespace {

// Each kind of option once; the mask leaves every other key out for some of the queries.
void set_every_option(AttentionProblem &problem, Random &random) {
  const AttentionSizes &s = problem.sizes;
  problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | FOVEA_AVERAGE_WEIGHTS;
  problem.window_left = s.key_len - 5;
  problem.softcap = 20;
  problem.dropout = 0.1F;
  problem.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(s.batch), s.key_len - 3));
  problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 7 != 0; });
  problem.bias.emplace(Shape{1, 1, s.query_len, s.key_len}).fill_normal(random);
  problem.alibi_slopes.emplace(Shape{s.heads}).fill([] { return 0.01F; });
  problem.sinks.emplace(Shape{s.heads}).fill_normal(random);
}

struct Attention {
  explicit Attention(AttentionProblem made, bool weights)
      : problem(std::move(made)), result(problem.make_result(weights)) {}
  AttentionProblem problem;
  AttentionResult result;

  std::vector<const Tensor<float> *> outputs() const {
    if (result.weights) return {&result.out, &*result.log_sum_exp, &*result.weights};
    return {&result.out, &*result.log_sum_exp};
  }
};

AttentionProblem make_problem(int32_t kind, const ReadyCallSizes &sizes, bool many, Random &random) {
  const AttentionSizes s = {.batch = 1,
                            .heads = 4,
                            .kv_heads = 2,
                            .query_len = many ? sizes.many_queries : 1,
                            .key_len = many ? sizes.keys : sizes.many_keys,
                            .head_dim = sizes.head_dim,
                            .value_dim = sizes.value_dim};
  AttentionProblem problem =
      kind == FOVEA_SCORE_DOT ? make_attention(s, random) : make_scored(kind, s, sizes.hidden, random);
  problem.value.fill([&] { return random.normal() * (random.chance(0.5) ? 1 : 0x1p-127F); });
  return problem;
}

void add_attention(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  for (const int32_t kind : kScoreKinds) {
    for (const bool many : {true, false}) {
      for (const bool options : {false, true}) {
        AttentionProblem problem = make_problem(kind, sizes, many, random);
        if (options) set_every_option(problem, random);
        const auto call = std::make_shared<Attention>(std::move(problem), options);
        list->push_back(
            {score_name(kind) + (many ? ", many queries" : ", one query") + (options ? ", every option" : ""),
             [call](const fovea_context *context) { return call->problem.run(context, call->result); },
             call->outputs()});
      }
    }
  }
}

// One sequence in a pool, in pages too small to hold it: saved and restored, a position of it forked again, attended.
struct Paged {
  Paged(const ReadyCallSizes &sizes, Random &random)
      : attention(make_problem(FOVEA_SCORE_DOT, sizes, false, random), false) {}
  Attention attention;

  // [1,H,L,D] as [L,H,D].
  static fovea_tensor rows(const Tensor<float> &from) {
    fovea_tensor view = from.view();
    return {view.data,
            view.dtype,
            3,
            {view.shape[2], view.shape[1], view.shape[3]},
            {view.strides[2], view.strides[1], view.strides[3]}};
  }

  fovea_status create(const fovea_context *context, KvPool *pool, OwnSchedule *schedule) const {
    const AttentionSizes &s = attention.problem.sizes;
    const fovea_kv_pool_sizes sizes =
        PoolSizes{1, s.kv_heads, s.head_dim, s.value_dim, s.key_len + 64, 32, 3, FOVEA_F32, FOVEA_F32}.sizes();
    fovea_kv_pool *made = nullptr;
    fovea_status status = fovea_kv_pool_create(&sizes, &made);
    pool->reset(made);
    if (status != FOVEA_OK) return status;
    const int64_t query_shape[] = {s.key_len, s.heads, s.head_dim}, out_shape[] = {s.key_len, s.heads, s.value_dim};
    const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, query_shape);
    const fovea_tensor out = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, out_shape);
    const fovea_tensor keys = fovea_kv_pool_keys(made, 0), values = fovea_kv_pool_values(made, 0);
    auto limits = sized_options<fovea_schedule_limits>();
    limits.sequences = 1;
    fovea_schedule *planned = nullptr;
    status = fovea_schedule_create(context, nullptr, &query, &keys, &values, &out, nullptr, &limits, &planned);
    schedule->reset(planned);
    return status;
  }

  fovea_status set(const fovea_context *context, fovea_kv_pool *pool, const OwnSchedule &schedule, int64_t sequence,
                   int64_t grows) const {
    const int64_t one = 1;
    const fovea_tensor sequences = fovea_tensor_contiguous(&sequence, FOVEA_I64, 1, &one);
    const fovea_tensor growths = fovea_tensor_contiguous(&grows, FOVEA_I64, 1, &one);
    fovea_step step;
    const fovea_status status = fovea_kv_pool_step(context, pool, &sequences, &growths, &step);
    return status != FOVEA_OK ? status : fovea_schedule_set(schedule.get(), &step);
  }

  fovea_status run(const fovea_context *context) const {
    KvPool pool;
    OwnSchedule schedule;
    fovea_status status = create(context, &pool, &schedule);
    int64_t first = -1, forked = -1, restored = -1;
    const int64_t key_len = attention.problem.sizes.key_len;
    if (status == FOVEA_OK) status = fovea_kv_pool_open(pool.get(), &first);
    if (status == FOVEA_OK) status = set(context, pool.get(), schedule, first, key_len);
    const fovea_tensor keys = fovea_kv_pool_keys(pool.get(), 0), values = fovea_kv_pool_values(pool.get(), 0);
    const fovea_tensor key = rows(attention.problem.key), value = rows(attention.problem.value);
    if (status == FOVEA_OK) status = fovea_schedule_append(schedule.get(), &key, &value, &keys, &values, nullptr);
    // The last position again, behind the others in pages that are shared: these are copied.
    if (status == FOVEA_OK) status = fovea_kv_pool_fork(pool.get(), first, key_len - 1, &forked);
    if (status == FOVEA_OK) status = set(context, pool.get(), schedule, forked, 1);
    const fovea_tensor last_key = last(key), last_value = last(value);
    if (status == FOVEA_OK) {
      status = fovea_schedule_append(schedule.get(), &last_key, &last_value, &keys, &values, nullptr);
    }
    if (status != FOVEA_OK) return status;
    std::vector<unsigned char> bytes(fovea_kv_pool_saved_size(pool.get(), forked));
    status = fovea_kv_pool_save(pool.get(), forked, bytes.data(), bytes.size());
    if (status == FOVEA_OK) status = fovea_kv_pool_close(pool.get(), first);
    if (status == FOVEA_OK) status = fovea_kv_pool_close(pool.get(), forked);
    if (status == FOVEA_OK) status = fovea_kv_pool_restore(pool.get(), bytes.data(), bytes.size(), &restored);
    return status != FOVEA_OK ? status : attend(context, pool.get(), schedule, restored);
  }

  // One query over all of it.
  fovea_status attend(const fovea_context *context, fovea_kv_pool *pool, const OwnSchedule &schedule,
                      int64_t sequence) const {
    const int64_t none = 0, one = 1, starts[] = {0, 1}, two = 2;
    const fovea_tensor sequences = fovea_tensor_contiguous(&sequence, FOVEA_I64, 1, &one);
    const fovea_tensor growths = fovea_tensor_contiguous(&none, FOVEA_I64, 1, &one);
    const fovea_tensor query_starts = fovea_tensor_contiguous(starts, FOVEA_I64, 1, &two);
    fovea_step step;
    fovea_status status = fovea_kv_pool_step(context, pool, &sequences, &growths, &step);
    if (status != FOVEA_OK) return status;
    step.query_starts = &query_starts;
    status = fovea_schedule_set(schedule.get(), &step);
    auto buffers = sized_options<fovea_attention_buffers>();
    buffers.query = attention.problem.query.data();
    buffers.key = fovea_kv_pool_keys(pool, 0).data;
    buffers.value = fovea_kv_pool_values(pool, 0).data;
    buffers.out = attention.result.out.data();
    return status != FOVEA_OK ? status : fovea_schedule_run(schedule.get(), &buffers, nullptr, 0);
  }

  static fovea_tensor last(fovea_tensor rows) {
    rows.data = static_cast<float *>(rows.data) + (rows.shape[0] - 1) * rows.strides[0];
    rows.shape[0] = 1;
    return rows;
  }
};

// Made, filled and attended in one go: they belong to an instruction set.
void add_kept_keys(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_BILINEAR}) {
    const auto call = std::make_shared<Attention>(make_problem(kind, sizes, false, random), false);
    list->push_back({"prepared keys, " + score_name(kind),
                     [call](const fovea_context *context) {
                       const AttentionSizes &s = call->problem.sizes;
                       const ScoreArguments score(*call->problem.score);
                       const fovea_tensor key = call->problem.key.view();
                       fovea_prepared_keys *keys = nullptr;
                       fovea_status status = prepared_keys_create(context, &score.score, s.batch, s.kv_heads, s.key_len,
                                                                  s.head_dim, s.key_size(), &keys);
                       if (status == FOVEA_OK) status = fovea_prepared_keys_append(context, keys, &key);
                       const Keys owned(keys);
                       return status != FOVEA_OK ? status : attend(context, call->problem, owned, call->result);
                     },
                     call->outputs()});
  }
  const auto paged = std::make_shared<Paged>(sizes, random);
  list->push_back(
      {"pages", [paged](const fovea_context *context) { return paged->run(context); }, {&paged->attention.result.out}});
}

void add_multi_head(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  const MultiHeadSizes s = {.batch = 1,
                            .query_len = sizes.many_queries,
                            .key_len = sizes.many_queries,
                            .query_inputs = 2 * sizes.head_dim,
                            .key_inputs = 2 * sizes.head_dim,
                            .value_inputs = 2 * sizes.head_dim,
                            .heads = 2,
                            .kv_heads = 2,
                            .head_dim = sizes.head_dim,
                            .value_dim = sizes.value_dim,
                            .outputs = 2 * sizes.head_dim};
  const auto layer = std::make_shared<MultiHead>(make_multi_head(s, Inputs::kOne, random));
  const auto out = std::make_shared<Tensor<float>>(layer->make_out());
  list->push_back({"multi-head",
                   [layer, out](const fovea_context *context) {
                     const MhaParameters given(*layer);
                     fovea_mha_weights *weights = nullptr;
                     const fovea_status status = fovea_mha_weights_create(context, &given.parameters, &weights);
                     if (status != FOVEA_OK) return status;
                     fovea_rotary_options rotary{};
                     rotary.struct_size = sizeof rotary;
                     fovea_mha_options options{};
                     options.struct_size = sizeof options;
                     options.rotary = &rotary;
                     return layer->run(context, MhaWeights(weights), *out, &options);
                   },
                   {out.get()}});
  const auto once_out = std::make_shared<Tensor<float>>(layer->make_out());
  list->push_back({"multi-head, once",
                   [layer, once_out](const fovea_context *context) {
                     const MhaParameters given(*layer);
                     const fovea_tensor x = layer->query.view(), to = once_out->view();
                     return fovea_multi_head_attention_once(context, &given.parameters, &x, nullptr, nullptr, &to,
                                                            nullptr);
                   },
                   {once_out.get()}});
}

void add_planned(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  for (const int32_t kind : kScoreKinds) {
    const auto call = std::make_shared<Attention>(make_problem(kind, sizes, true, random), true);
    list->push_back({"planned, " + score_name(kind),
                     [call](const fovea_context *context) {
                       const AttentionArguments arguments(call->problem, call->result);
                       fovea_plan *plan = nullptr;
                       fovea_status status = arguments.plan(context, &plan);
                       std::vector<char> workspace(fovea_plan_workspace_size(plan));
                       const fovea_attention_buffers buffers = buffers_of(arguments);
                       if (status == FOVEA_OK) {
                         status = fovea_attention_run(plan, &buffers, workspace.data(), workspace.size());
                       }
                       fovea_plan_destroy(plan);
                       return status;
                     },
                     call->outputs()});
  }
}

// x, and what a call makes of it: an output of the same shape.
using Call = fovea_status (*)(const fovea_context *, const fovea_tensor &x, const fovea_tensor &out);

template <typename Make>
void add_simple(const std::string &name, const Shape &shape, Make make, Call call, std::vector<ReadyCall> *list) {
  const auto x = std::make_shared<Tensor<float>>(shape), out = std::make_shared<Tensor<float>>(shape);
  x->fill(make);
  list->push_back({name,
                   [=](const fovea_context *context) {
                     const fovea_tensor in = x->view(), to = out->view();
                     return call(context, in, to);
                   },
                   {out.get()}});
}

void add_simple_ones(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  const Shape shape = {sizes.rows, sizes.columns};
  const auto normal = [&] { return random.normal(); };
  add_simple(
      "exp", shape, [&] { return random.uniform(-104, 5); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_exp(c, &x, &out); },
      list);
  add_simple(
      "tanh", shape, [&] { return random.normal() * (random.chance(0.5) ? 1 : 0x1p-127F); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_tanh(c, &x, &out); },
      list);
  add_simple(
      "masked softmax", shape, [&] { return random.uniform(-90, 5); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        const int64_t length = x.shape[1] - 3, lens_shape[] = {1};
        const fovea_tensor lens = fovea_tensor_contiguous(&length, FOVEA_I64, 1, lens_shape);
        return fovea_masked_softmax(c, &x, &lens, &out, nullptr);
      },
      list);
  add_simple(
      "layer norm", shape, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_layer_norm(c, &x, &out, nullptr);
      },
      list);
  add_simple(
      "RMS norm", shape, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_rms_norm(c, &x, &out, nullptr);
      },
      list);
  add_simple(
      "softmax over columns", shape, [&] { return random.uniform(-90, 5); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_softmax(c, &x, 0, &out);
      },
      list);
  add_simple(
      "log softmax", shape, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_log_softmax(c, &x, -1, &out);
      },
      list);
  add_simple(
      "activation", shape, [&] { return random.normal() * (random.chance(0.5) ? 1 : 0x1p-127F); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_activation(c, FOVEA_ACTIVATION_GELU, &x, &out);
      },
      list);
  add_simple(
      "positional encoding", shape, normal,
      [](const fovea_context *c, const fovea_tensor &, const fovea_tensor &out) {
        return fovea_positional_encoding(c, &out, nullptr);
      },
      list);
  add_simple(
      "added positional encoding", shape, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_add_positional_encoding(c, &x, &out, nullptr);
      },
      list);
  add_simple(
      "rotary", shape, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_rotary(c, &x, &out, nullptr);
      },
      list);
  add_simple(
      "kernel regression", {4 * sizes.rows}, normal,
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_kernel_regression(c, &x, &x, &x, &out, nullptr);
      },
      list);
  add_simple(
      "ALiBi slopes", {sizes.rows}, normal,
      [](const fovea_context *, const fovea_tensor &, const fovea_tensor &out) { return fovea_alibi_slopes(&out); },
      list);
}

void add_products(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  const int64_t depth = 128;
  const auto a = std::make_shared<Tensor<float>>(normal(random, {sizes.rows, depth}));
  const auto b = std::make_shared<Tensor<float>>(normal(random, {depth, sizes.columns}));
  const auto out = std::make_shared<Tensor<float>>(Shape{sizes.rows, sizes.columns});
  a->fill([&] { return random.normal() * 0x1p-100F; });
  b->fill([&] { return random.normal() * (random.chance(0.5) ? 1 : 0x1p-27F); });
  list->push_back({"matmul",
                   [=](const fovea_context *context) {
                     const fovea_tensor x = a->view(), y = b->view(), to = out->view();
                     return fovea_matmul(context, &x, &y, &to);
                   },
                   {out.get()}});
  const auto sum_out = std::make_shared<Tensor<float>>(Shape{sizes.rows, sizes.columns});
  const auto added = std::make_shared<Tensor<float>>(normal(random, {sizes.columns}));
  list->push_back({"gemm",
                   [=](const fovea_context *context) {
                     const fovea_tensor x = a->view(), y = b->view(), c = added->view(), to = sum_out->view();
                     fovea_gemm_options options{};
                     options.struct_size = sizeof options;
                     options.alpha = 0x1p-10F;
                     options.beta = 0x1p-127F;
                     options.c = &c;
                     return fovea_gemm(context, &x, &y, &to, &options);
                   },
                   {sum_out.get()}});
  const auto transposed = std::make_shared<Tensor<float>>(normal(random, {depth, sizes.rows}));
  const auto transposed_out = std::make_shared<Tensor<float>>(out->shape());
  list->push_back({"matmul, transposed",
                   [=](const fovea_context *context) {
                     fovea_tensor x = transposed->view();
                     std::swap(x.shape[0], x.shape[1]);
                     std::swap(x.strides[0], x.strides[1]);
                     const fovea_tensor y = b->view(), to = transposed_out->view();
                     return fovea_matmul(context, &x, &y, &to);
                   },
                   {transposed_out.get()}});
  for (const int32_t activation : kActivations) {
    const auto layer_out = std::make_shared<Tensor<float>>(out->shape());
    const auto bias = std::make_shared<Tensor<float>>(normal(random, {sizes.columns}));
    list->push_back({"linear, activation " + std::to_string(activation),
                     [=](const fovea_context *context) {
                       const fovea_tensor x = a->view(), y = b->view(), c = bias->view(), to = layer_out->view();
                       fovea_packed_matrix *packed = nullptr;
                       const fovea_status status = linear_pack(context, &y, FOVEA_WEIGHT_IN_OUT, &packed);
                       const Packed owned(packed);
                       const fovea_linear_options options = {sizeof options, activation, 0, &c, nullptr, nullptr};
                       return status != FOVEA_OK ? status : fovea_linear(context, &x, packed, &to, &options);
                     },
                     {layer_out.get()}});
  }
}

void add_merge(const ReadyCallSizes &sizes, Random &random, std::vector<ReadyCall> *list) {
  const auto outs = std::make_shared<Tensor<float>>(normal(random, {3, sizes.columns, sizes.value_dim}));
  const auto lses = std::make_shared<Tensor<float>>(normal(random, {3, sizes.columns}));
  const auto out = std::make_shared<Tensor<float>>(Shape{sizes.columns, sizes.value_dim});
  const auto lse = std::make_shared<Tensor<float>>(Shape{sizes.columns});
  list->push_back({"merging",
                   [=](const fovea_context *context) {
                     const fovea_tensor parts = outs->view(), sums = lses->view(), to = out->view(), sum = lse->view();
                     return fovea_merge_states(context, &parts, &sums, &to, &sum);
                   },
                   {out.get(), lse.get()}});
}

}  // namespace

fovea_status ReadyCall::run(const fovea_context *context) const {
  for (const Tensor<float> *output : outputs) std::memset(output->data(), 0xA7, output->memory().size());
  return call(context);
}

std::vector<float> ReadyCall::output() const {
  std::vector<float> all;
  for (const Tensor<float> *output : outputs) all.insert(all.end(), output->data(), output->data() + output->count());
  return all;
}

std::vector<ReadyCall> ready_calls(const ReadyCallSizes &sizes) {
  Random random(base_seed());
  std::vector<ReadyCall> list;
  add_attention(sizes, random, &list);
  add_kept_keys(sizes, random, &list);
  add_multi_head(sizes, random, &list);
  add_planned(sizes, random, &list);
  add_simple_ones(sizes, random, &list);
  add_products(sizes, random, &list);
  add_merge(sizes, random, &list);
  return list;
}

}  // namespace testing
