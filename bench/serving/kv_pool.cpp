// Benchmarks of key/value pools, kv_append/f32/<shape>/<instruction set>/t<threads> and kv_fork/f32/..., of a model
// with 8 key/value heads of 128 features (Llama 3 8B); a few of them in bfloat16, kv_append/bf16/... (given as such),
// and one whose float32 keys and values are kept as float16. kv_append_i8/bf16/... keeps bfloat16 in 8 bits, a scale
// for 32 features, kv_append_i8u4/bf16/... values in 4.
//
// kv_append is a step: room in the pool, the schedule set, and then what a schedule is set once for, the keys and values
// of several layers written. What bounds it: memory. A step of decoding writes a row of each head to a place of its own,
// far from the next; the limit shown is memcpy between regions as large as the pool (64 MB at most) all the same. Pools
// are larger than caches, as a model's are. Room and schedule of 16 sequences take 3.6 us, where a layer in bfloat16 takes
// 10 (one thread of a Zen 3, by the difference of one layer and four).
//
// kv_fork lets a beam search go on: beams that others replace are closed, the others forked, and each writes its next
// position. Only the page that it writes into is copied.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fovea/serving.h"
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

constexpr int64_t kv_heads = 8, head_dim = 128, row_elements = 2 * kv_heads * head_dim, probe_bytes = 64 << 20;
constexpr int64_t scale_group = 32;
constexpr int64_t append_layers = 4, append_positions = 16384, fork_length = 2040, page_size = 64;

// A position's, of all heads. U8: keys of 8 bits, values of 4.
int64_t row_bytes(fovea_dtype dtype) {
  const int64_t in_bytes = row_elements + row_elements / scale_group * 2;
  if (dtype == FOVEA_I8) return in_bytes;
  if (dtype == FOVEA_U8) return in_bytes / 2 + row_elements / 4 + row_elements / scale_group * 2;
  return row_elements * static_cast<int64_t>(element_bytes(dtype));
}

struct PoolDeleter {
  void operator()(fovea_kv_pool *pool) const { fovea_kv_pool_destroy(pool); }
};
struct ScheduleDeleter {
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};

struct PoolShape {
  int64_t layers, sequences, capacity;
  int64_t count;  // new positions of each sequence in a step
  fovea_dtype given, kept;
};

// Sequences, a schedule for them, and a step's keys and values, [tokens,Hkv,D], which all layers get.
class PoolCall {
 public:
  PoolCall(const PoolShape &s, const Variant &variant)
      : shape_(s),
        context_(make_context(variant.isa, variant.threads)),
        rows_(normals(s.sequences * std::max(s.count, int64_t{1}) * row_elements / 2, s.given)) {
    auto sizes = fovea_kv_pool_sizes{};
    sizes.struct_size = sizeof sizes;
    sizes.layers = s.layers;
    sizes.kv_heads = kv_heads;
    sizes.head_dim = head_dim;
    sizes.positions = 2 * s.sequences * s.capacity;
    sizes.page_size = page_size;
    sizes.sequences = 2 * s.sequences;
    sizes.key_dtype = s.kept == FOVEA_U8 ? FOVEA_I8 : s.kept;
    sizes.value_dtype = s.kept;
    if (scaled()) sizes.scale_group = scale_group;
    fovea_kv_pool *pool = nullptr;
    check(fovea_kv_pool_create(&sizes, &pool));
    pool_.reset(pool);
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      layers_.push_back({fovea_kv_pool_keys(pool, layer), fovea_kv_pool_values(pool, layer),
                         fovea_kv_pool_key_scales(pool, layer), fovea_kv_pool_value_scales(pool, layer)});
    }
    sequences_.resize(static_cast<size_t>(s.sequences));
    for (int64_t &sequence : sequences_) check(fovea_kv_pool_open(pool, &sequence));
    make_schedule();
  }
  PoolCall(const PoolCall &) = delete;

  // A step of so many positions of each sequence, whose numbers stand in rows.
  void append(int64_t count, const fovea_tensor &rows) {
    const std::vector<int64_t> tokens(sequences_.size(), count);
    const fovea_tensor which = tensor(sequences_.data(), {shape_.sequences}, FOVEA_I64);
    const fovea_tensor grow = tensor(const_cast<int64_t *>(tokens.data()), {shape_.sequences}, FOVEA_I64);
    fovea_step step;
    check(fovea_kv_pool_step(context_.get(), pool_.get(), &which, &grow, &step));
    check(fovea_schedule_set(schedule_.get(), &step));
    for (const Layer &layer : layers_) {
      auto options = fovea_append_options{};
      options.struct_size = sizeof options;
      if (scaled()) options.key_scales = &layer.key_scales, options.value_scales = &layer.value_scales;
      check(fovea_schedule_append(schedule_.get(), &rows, &rows, &layer.keys, &layer.values, &options));
    }
  }

  // Fills sequences over and over.
  void run_append() {
    if (fovea_kv_pool_length(pool_.get(), sequences_[0]) + shape_.count > shape_.capacity) truncate(0);
    append(shape_.count, rows());
  }

  void fill(int64_t length) {
    const Buffer all = normals(shape_.sequences * length * row_elements / 2, shape_.given);
    const fovea_tensor rows = tensor(all.data(), {shape_.sequences * length, kv_heads, head_dim}, shape_.given);
    append(length, rows);
  }

  // Beam b goes on from what source[b] was, by one position; then all are cut to where they began.
  void run_fork(const std::vector<int32_t> &source) {
    std::vector<int64_t> next(sequences_.size());
    for (size_t b = 0; b < next.size(); ++b) {
      check(fovea_kv_pool_fork(pool_.get(), sequences_[static_cast<size_t>(source[b])], fork_length, &next[b]));
    }
    for (const int64_t sequence : sequences_) check(fovea_kv_pool_close(pool_.get(), sequence));
    sequences_ = next;
    append(1, rows());
    truncate(fork_length);
  }

 private:
  bool scaled() const { return shape_.kept == FOVEA_I8 || shape_.kept == FOVEA_U8; }
  fovea_tensor rows() const {
    return tensor(rows_.data(), {shape_.sequences * shape_.count, kv_heads, head_dim}, shape_.given);
  }
  void truncate(int64_t length) {
    for (const int64_t sequence : sequences_) check(fovea_kv_pool_truncate(pool_.get(), sequence, length));
  }

  void make_schedule() {
    const fovea_tensor query = tensor(nullptr, {shape_.sequences * shape_.capacity, kv_heads, head_dim}, shape_.given);
    auto options = fovea_attention_options{};
    options.struct_size = sizeof options;
    const Layer &layer = layers_.front();
    if (scaled()) options.key_scales = &layer.key_scales, options.value_scales = &layer.value_scales;
    auto limits = fovea_schedule_limits{};
    limits.struct_size = sizeof limits;
    limits.sequences = shape_.sequences;
    fovea_schedule *made = nullptr;
    check(fovea_schedule_create(context_.get(), nullptr, &query, &layer.keys, &layer.values, &query, &options, &limits,
                                &made));
    schedule_.reset(made);
  }

  PoolShape shape_;
  std::shared_ptr<fovea_context> context_;
  Buffer rows_;
  std::unique_ptr<fovea_kv_pool, PoolDeleter> pool_;
  std::unique_ptr<fovea_schedule, ScheduleDeleter> schedule_;
  struct Layer {
    fovea_tensor keys, values, key_scales, value_scales;
  };
  std::vector<Layer> layers_;
  std::vector<int64_t> sequences_;
};

// `bytes` are read or written, in memory of `region` bytes.
Prepared prepare(double bytes, int64_t region, const Variant &variant) {
  const auto from = std::make_shared<Buffer>(zeros(std::min(region, probe_bytes) / 4));
  const auto to = std::make_shared<Buffer>(zeros(std::min(region, probe_bytes) / 4));
  Prepared prepared;
  prepared.shortest_seconds = [=] {
    return bytes / copy_rate(to->data(), from->data(), to->bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

struct AppendCase {
  const char *name;
  int64_t batch, count;
  fovea_dtype dtype = FOVEA_F32;  // as which it is named
  bool narrows = false;           // given as float32
  int bits = 0;                   // kept in 8, or values in 4; 0: as they are named
  fovea_dtype given() const { return narrows ? FOVEA_F32 : dtype; }
  fovea_dtype kept() const { return bits == 4 ? FOVEA_U8 : bits == 8 ? FOVEA_I8 : dtype; }
  const char *operation() const { return bits == 4 ? "kv_append_i8u4" : bits == 8 ? "kv_append_i8" : "kv_append"; }
  int64_t capacity() const { return append_positions / batch; }
  // Read and written.
  double bytes() const {
    return static_cast<double>(append_layers * batch * count * (row_bytes(given()) + row_bytes(kept())));
  }
};

Prepared prepare_append(const AppendCase &what, const Variant &variant) {
  const PoolShape shape = {append_layers, what.batch, what.capacity(), what.count, what.given(), what.kept()};
  Prepared prepared = prepare(what.bytes(), append_layers * append_positions * row_bytes(what.kept()), variant);
  const auto call = [&](int threads) -> std::function<void()> {
    const auto pool = std::make_shared<PoolCall>(shape, Variant{variant.isa, threads});
    return [pool] { pool->run_append(); };
  };
  prepared.run = call(variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(1);
  return prepared;
}

struct ForkCase {
  const char *name;
  std::vector<int32_t> source;
  int64_t copied;  // beams that write into a page that another one holds
  fovea_dtype dtype = FOVEA_F32;
  // Bytes of the last page's rows, read and written.
  double bytes() const { return 2 * static_cast<double>(copied * (fork_length % page_size) * row_bytes(dtype)); }
};

Prepared prepare_fork(const ForkCase &what, const Variant &variant) {
  const auto beams = static_cast<int64_t>(what.source.size());
  const PoolShape shape = {1, beams, fork_length + 1, 1, what.dtype, what.dtype};
  Prepared prepared = prepare(what.bytes(), beams * page_size * row_bytes(what.dtype), variant);
  const auto call = [&](int threads) -> std::function<void()> {
    const auto pool = std::make_shared<PoolCall>(shape, Variant{variant.isa, threads});
    pool->fill(fork_length);
    return [pool, source = what.source] { pool->run_fork(source); };
  };
  prepared.run = call(variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(1);
  return prepared;
}

}  // namespace

void add_kv_pool(Cases *list) {
  static const AppendCase appends[] = {{"llama8b_step", 1, 1},
                                       {"llama8b_batch_step", 16, 1},
                                       {"llama8b_prompt", 1, 1024},
                                       {"llama8b_batch_step", 16, 1, FOVEA_BF16},
                                       {"llama8b_prompt", 1, 1024, FOVEA_BF16},
                                       {"llama8b_prompt_of_f32", 1, 1024, FOVEA_F16, true},
                                       {"llama8b_prompt", 1, 1024, FOVEA_BF16, false, 8},
                                       {"llama8b_prompt", 1, 1024, FOVEA_BF16, false, 4}};
  static const ForkCase forks[] = {{"llama8b_4_beams_from_1", {2, 2, 2, 2}, 3},
                                   {"llama8b_4_beams_from_2", {1, 1, 2, 2}, 2},
                                   {"llama8b_4_beams_from_1", {2, 2, 2, 2}, 3, FOVEA_BF16}};
  const std::vector<Parameter> model = {{"kv_heads", kv_heads}, {"head_dim", head_dim}, {"value_dim", head_dim}};
  const auto add = [&](const char *operation, const auto &what, std::vector<Parameter> sizes, const auto &prepare_it) {
    sizes.insert(sizes.end(), model.begin(), model.end());
    list->push_back({.operation = operation,
                     .model = what.name,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes()},
                     .parameters = sizes,
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what, prepare_it](const Variant &variant) { return prepare_it(what, variant); }});
  };
  for (const AppendCase &what : appends)
    add(what.operation(), what,
        {{"layers", append_layers}, {"batch", what.batch}, {"count", what.count}, {"capacity", what.capacity()}},
        prepare_append);
  for (const ForkCase &what : forks)
    add("kv_fork", what, {{"source", what.source}, {"length", fork_length}}, prepare_fork);
}

}  // namespace fovea_bench
