// The C++ interface to pools, schedules and 8-bit numbers: each member once, with every size and option told from its
// default. What the functions compute is tested through the C interface they call.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fovea/serving.hpp>
#include <utility>
#include <vector>

#include "cpp_face.hpp"

using namespace testing;

namespace {

using fovea::KvPool;
using fovea::Output;
using fovea::Schedule;
using fovea::Sequence;
using fovea::Tensor;
using Numbers = std::vector<std::int64_t>;

const void *data_of(const fovea::Input &tensor) { return tensor.data(); }

// Two sequences of up to two tokens together, whose keys are two numbers and whose values one.
struct TwoSequences {
  KvPool pool{{.head_dim = 2, .value_dim = 1, .positions = 12, .page_size = 2, .sequences = 3}};
  Sequence first = pool.open(), second = pool.open();
  Floats query = {1, 1, 1, 1}, out = {0, 0};
  Schedule schedule = make();

  Schedule make(const fovea::AttentionOptions &options = {}, const fovea::Context &context = {}) const {
    return Schedule(fovea::Input::at(nullptr, {2, 1, 2}), pool.keys(0), pool.values(0), Output::at(nullptr, {2, 1, 1}),
                    {.sequences = 2}, options, context);
  }
  void append(const Floats &key, const Floats &value, const fovea::AppendOptions &options = {}) {
    const auto tokens = static_cast<std::int64_t>(value.size());
    schedule.append(Tensor(key, {tokens, 1, 2}), Tensor(value, {tokens, 1, 1}), pool.keys(0), pool.values(0), options);
  }
  fovea::AttentionBuffers buffers() {
    fovea::AttentionBuffers buffers;
    buffers.query = query.data();
    buffers.key = data_of(pool.keys(0));
    buffers.value = data_of(pool.values(0));
    buffers.out = out.data();
    return buffers;
  }
  const Floats &run() {
    schedule.run(buffers());
    return out;
  }
};

}  // namespace

TEST_SUITE_BEGIN("cpp face serving");

TEST_CASE("a pool: sizes, layers, sequences that close themselves") {
  KvPool pool({.layers = 2,
               .kv_heads = 3,
               .head_dim = 4,
               .value_dim = 5,
               .positions = 7,
               .page_size = 2,
               .sequences = 2,
               .key_dtype = FOVEA_F16,
               .value_dtype = FOVEA_BF16});
  const auto shape = [](const Output &tensor) { return Numbers(tensor.shape().begin(), tensor.shape().end()); };
  CHECK_EQ(shape(pool.keys(1)), Numbers{4, 3, 2, 4});
  CHECK_EQ(shape(pool.values(1)), Numbers{4, 3, 2, 5});
  CHECK_EQ(pool.keys(0).dtype(), FOVEA_F16);
  CHECK_EQ(pool.values(0).dtype(), FOVEA_BF16);
  CHECK(!pool.keys(2));
  CHECK(!pool.key_scales(0));
  CHECK(!pool.value_scales(0));
  CHECK(pool.size_bytes() >= 2 * 3 * 8 * 9 * 2);
  const Sequence first = pool.open();
  {
    const Sequence second = pool.open();
    CHECK_THROWS_AS(static_cast<void>(pool.open()), fovea::Error);
    static_cast<void>(pool.step({{&second, 3}}));
    CHECK_EQ(second.length(), 3);
    CHECK_EQ(pool.free_pages(), 2);
  }
  CHECK_EQ(pool.free_pages(), 4);
  Sequence other = pool.open();
  CHECK(other.number() != first.number());
  CHECK_THROWS_AS(KvPool({.head_dim = 0, .positions = 1}), fovea::Error);
  KvPool plain({.head_dim = 4, .positions = 3});
  CHECK_EQ(shape(plain.values(0))[3], 4);
  CHECK_EQ(plain.values(0).dtype(), FOVEA_F32);
}

TEST_CASE("a sequence: forked, truncated, dropped, saved, restored, moved") {
  KvPool pool({.head_dim = 1, .positions = 16, .page_size = 2, .sequences = 4});
  Sequence first = pool.open();
  const fovea_step step = pool.step({{&first, 5}});
  CHECK_EQ(step.key_lens->shape[0], 1);
  for (int n = 0; n < 5; ++n) {
    const auto page = static_cast<const std::int32_t *>(step.page_ids->data)[n / 2];
    static_cast<float *>(pool.keys(0).data())[2 * page + n % 2] = static_cast<float>(n);
  }
  Sequence whole = first.fork(), part = first.fork(3);
  CHECK_EQ(whole.length(), 5);
  CHECK_EQ(part.length(), 3);
  CHECK_EQ(pool.free_pages(), 5);
  part = std::move(whole);
  CHECK_EQ(part.length(), 5);
  part.truncate(4);
  CHECK_EQ(part.length(), 4);
  CHECK_THROWS_AS(part.truncate(5), fovea::Error);
  first.drop(4);
  CHECK_THROWS_AS(static_cast<void>(first.fork(1)), fovea::Error);
  const std::vector<std::byte> bytes = part.save();
  const Sequence same = pool.restore(bytes);
  CHECK_EQ(same.length(), 4);
  CHECK(same.save() == bytes);
  CHECK_THROWS_AS(static_cast<void>(pool.restore(std::vector<std::byte>(10))), fovea::Error);
}

TEST_CASE("a schedule over pages: steps by sequences and by numbers, append, run, options") {
  TwoSequences t;
  CHECK_EQ(t.schedule.positions().shape()[0], 0);
  t.schedule.set(t.pool.step({{&t.first, 1}, {&t.second, 1}}));
  CHECK_EQ(t.schedule.positions().shape()[0], 2);
  t.append({1, 2, 3, 4}, {10, 20});
  check_near(t.run(), {10, 20});
  const Numbers numbers = {t.second.number(), t.first.number()};
  t.schedule.set(t.pool.step(numbers, std::vector<std::int32_t>{1, 1}));
  CHECK_EQ(t.schedule.positions().data()[1], 1);
  t.append({0, 3, -1, 0}, {50, 40});
  const auto mixed = [](double first, double second, double first_score, double second_score) {
    return first + (second - first) / (1 + std::exp(first_score - second_score));
  };
  t.query = {1, 1, 1, 1};
  const double root = std::sqrt(2.0);
  check_near(t.run(), {mixed(20, 50, 7 / root, 3 / root), mixed(10, 40, 3 / root, -1 / root)});
  const fovea::Context one({.max_threads = 1});
  t.schedule = t.make({.scale = 1}, one);
  t.schedule.set(t.pool.step({{&t.first, 0}, {&t.second, 0}}));
  t.schedule.set({.query_starts = Numbers{0, 1, 2},
                  .key_lens = std::vector<std::int32_t>{1, 2},
                  .page_ids = std::vector<std::int32_t>{0, 1},
                  .page_starts = Numbers{0, 1, 2}});
  std::vector<std::byte> workspace(t.schedule.workspace_size());
  t.schedule.run(t.buffers(), workspace);
  check_near(t.out, {10, mixed(20, 50, 7, 3)});
  CHECK(t.schedule.describe().find("op=ragged") == 0);
  t.out = {0, 0};
  REQUIRE_EQ(t.schedule.phases(), 3);
  for (std::int64_t phase = 0; phase < 3; ++phase) {
    t.schedule.run_tasks(t.buffers(), workspace, phase, 0, t.schedule.tasks(phase), 0);
  }
  check_near(t.out, {10, mixed(20, 50, 7, 3)});
}

TEST_CASE("a schedule's limits") {
  TwoSequences t;
  const auto made = [&](const Schedule::Limits &limits) {
    return Schedule(fovea::Input::at(nullptr, {2, 1, 2}), t.pool.keys(0), t.pool.values(0),
                    Output::at(nullptr, {2, 1, 1}), limits);
  };
  const auto step = [](std::int64_t length, const Numbers &ids) {
    return [=](Schedule schedule) {
      const auto count = static_cast<std::int64_t>(ids.size());
      schedule.set({.query_starts = Numbers{0, 1},
                    .key_lens = Numbers{length},
                    .page_ids = ids,
                    .page_starts = Numbers{0, count}});
    };
  };
  step(4, {0, 1})(made({}));
  check_error(FOVEA_BAD_VALUE, "key_lens", [&] { step(4, {0, 1})(made({.key_len = 3})); });
  check_error(FOVEA_BAD_SHAPE, "page ids", [&] { step(4, {0, 1})(made({.page_ids = 1})); });
  check_error(FOVEA_BAD_VALUE, "worker", [&] {
    Schedule schedule = made({.workers = 2});
    schedule.set(
        {.query_starts = Numbers{0, 1}, .key_lens = Numbers{1}, .page_ids = Numbers{0}, .page_starts = Numbers{0, 1}});
    std::vector<std::byte> workspace(schedule.workspace_size());
    schedule.run_tasks(t.buffers(), workspace, 1, 0, 1, 1);
    schedule.run_tasks(t.buffers(), workspace, 1, 0, 1, 2);
  });
}

TEST_CASE("append with rotary: turned where tokens stand") {
  TwoSequences t;
  t.schedule.set(t.pool.step({{&t.first, 2}}));
  t.append({1, 0, 1, 0}, {1, 1}, {.rotary = fovea::RotaryOptions{}});
  const auto *keys = static_cast<const float *>(t.pool.keys(0).data());
  const std::int64_t page = 0;
  check_near(Floats(keys + 4 * page, keys + 4 * page + 4), {1, 0, std::cos(1.0), std::sin(1.0)});
}

TEST_CASE("packed keys, by a score function") {
  const Floats query = {1, 1, 1}, key = {1, 3, 2}, value = {10, 20, 30};
  Floats out(3);
  const fovea::Input q(query, {3, 1, 1}), k(key, {3, 1, 1}), v(value, {3, 1, 1});
  Schedule schedule(fovea::Gaussian{.sigma = 1}, q, k, v, Output(out, {3, 1, 1}), {.sequences = 2}, {.causal = true});
  const Numbers starts = {0, 2, 3};
  schedule.set({.query_starts = starts, .key_starts = starts});
  fovea::AttentionBuffers buffers;
  buffers.query = query.data();
  buffers.key = key.data();
  buffers.value = value.data();
  buffers.out = out.data();
  schedule.run(buffers);
  check_near(out, {10, 10 + 10 / (1 + std::exp(2.0)), 30});
  CHECK_EQ(schedule.phases(), 0);
}

TEST_CASE("multi-head attention over a schedule, and over pages that are kept") {
  const Floats identity = {1, 0, 0, 1}, x = {1, 2, 3, 4};
  Floats out(4), kept(4);
  const Tensor matrix(identity, {2, 2});
  const fovea::MultiHeadWeights weights(
      {.query_weight = matrix, .key_weight = matrix, .value_weight = matrix, .out_weight = matrix});
  KvPool pool({.head_dim = 2, .positions = 4, .page_size = 4});
  const Sequence sequence = pool.open();
  Schedule schedule(fovea::Input::at(nullptr, {2, 1, 2}), pool.keys(0), pool.values(0), Output::at(nullptr, {2, 1, 2}),
                    {}, {.causal = true});
  schedule.set(pool.step({{&sequence, 2}}));
  fovea::MultiHeadOptions options = {.schedule = &schedule, .key_pages = pool.keys(0), .value_pages = pool.values(0)};
  fovea::self_attention(weights, Tensor(x, {2, 2}), Tensor(out, {2, 2}), options);
  Floats expected(4);
  fovea::self_attention(weights, Tensor(x, {2, 2}), Tensor(expected, {2, 2}), {.attention = {.causal = true}});
  check_near(out, {expected[0], expected[1], expected[2], expected[3]});
  CHECK_EQ(static_cast<const float *>(pool.keys(0).data())[3], 4);
  options.keep_pages = true;
  fovea::self_attention(weights, Tensor(x, {2, 2}), Tensor(kept, {2, 2}), options);
  CHECK(kept == out);
}

TEST_CASE("8-bit numbers: quantized, read back, attended with their scales") {
  Floats x(64), back(64), value(64), out(32), expected(32);
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = std::sin(static_cast<float>(n));
  for (std::size_t n = 0; n < x.size(); ++n) value[n] = std::cos(static_cast<float>(n));
  std::vector<std::int8_t> keys(64), values(64);
  std::vector<fovea::Float16> key_scales(4), value_scales(2);
  fovea::quantize(Tensor(x, {2, 32}), Tensor(keys, {2, 32}), Tensor(key_scales, {2, 2}));
  fovea::quantize(Tensor(value, {2, 32}), Tensor(values, {2, 32}), Tensor(value_scales, {2, 1}));
  fovea::dequantize(Tensor(keys, {2, 32}), Tensor(key_scales, {2, 2}), Tensor(back, {2, 32}));
  for (std::size_t n = 0; n < x.size(); ++n) CHECK(std::abs(back[n] - x[n]) < 0.005f);
  const fovea::Input query(x, {1, 32});
  fovea::sdpa(query, Tensor(keys, {2, 32}), Tensor(values, {2, 32}), Output(out, {1, 32}),
              {.key_scales = Tensor(key_scales, {2, 2}), .value_scales = Tensor(value_scales, {2, 1})});
  fovea::sdpa(query, Tensor(x, {2, 32}), Tensor(value, {2, 32}), Output(expected, {1, 32}));
  for (std::size_t n = 0; n < out.size(); ++n) CHECK(std::abs(out[n] - expected[n]) < 0.02f);
}

TEST_CASE("4-bit numbers: quantized, read back, attended, in a pool") {
  Floats x(64), back(64), out(32), expected(32);
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = std::sin(static_cast<float>(n));
  std::vector<std::byte> values(32);
  std::vector<fovea::Float16> scales(4);
  const fovea::Output v(values, {2, 16}), s(scales, {2, 2});
  fovea::quantize(Tensor(x, {2, 32}), v, s);
  fovea::dequantize(v, s, Tensor(back, {2, 32}));
  for (std::size_t n = 0; n < x.size(); ++n) CHECK(std::abs(back[n] - x[n]) < 0.07f);
  const fovea::Input query(x, {1, 32}), key(x, {2, 32});
  fovea::sdpa(query, key, v, Output(out, {1, 32}), {.value_scales = s});
  fovea::sdpa(query, key, Tensor(back, {2, 32}), Output(expected, {1, 32}));
  CHECK(out == expected);
  const fovea::KvPool pool(
      {.head_dim = 64, .positions = 32, .sequences = 1, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_U8});
  CHECK(pool.values(0).dtype() == FOVEA_U8);
  CHECK(pool.values(0).shape().back() == 32);
  CHECK(pool.value_scales(0).shape().back() == 4);
}

TEST_SUITE_END();
