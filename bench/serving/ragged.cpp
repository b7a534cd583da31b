// Benchmarks of schedules, ragged/<element type>/<case>/<instruction set>/t<threads>: attention of sequences of
// different lengths whose keys lie in pages of 128 positions, shuffled, all heads of a page side by side.
// ragged_set/... is the time to set a step.
//
// What bounds each case
//   Steps (Bound::bytes): each key and value is read once. The limit is that read at the measured rate of one piece of memory
//     as large as all pages, or the arithmetic at the multiply-add peak where that is more: 4 rows share a read.
//   Prompts (Bound::flops): the multiply-adds of the scores that causality leaves, at the peak of the type (sdpa.cpp tells what a
//     kernel can reach of it). Tiles on the diagonal are computed in full.
//   shared_16: sixteen steps whose pages are the same for 4096 positions, with invariant queries. Their bytes are read once; the
//     arithmetic of 64 rows is the larger where there are no tiles for it.
//   step_cached: keys and values of one head that stay in caches (in 8 bits within 0.3 MB, in float32 1.2), so the arithmetic of
//     4 rows and what a step takes beside it.
//   8 bits (ragged_i8/...): queries in bfloat16, keys and values of 8 bits with a scale for 32 features: 34 bytes where bfloat16
//     has 64.
//   4 bits (ragged_i8u4/...): likewise, but values of 4 bits: 20 bytes.
//   Setting a step copies page ids and writes a task's entry: nanoseconds each. Only time is reported.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>

#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct Sequence {
  int64_t query_len, key_len;
};

struct RaggedCase {
  const char *name;
  std::vector<Sequence> sequences;
  int64_t heads, kv_heads, dim;
  fovea_dtype dtype;       // of queries
  fovea_dtype key, value;  // as they are kept
  Bound bound;
  int64_t shared = 0;  // positions that all sequences have in common
  uint32_t flags = FOVEA_CAUSAL;
};

constexpr int64_t page_size = 128, scale_group = 32;

int64_t pages_of(int64_t positions) { return (positions + page_size - 1) / page_size; }

// Features that an element is, and scales that a group has.
int64_t in_each(fovea_dtype kept) { return kept == FOVEA_U8 ? 2 : 1; }

double bytes_of_feature(fovea_dtype kept) {
  if (kept == FOVEA_U8) return 0.5 + 4.0 / scale_group;
  return kept == FOVEA_I8 ? 1.0 + 2.0 / scale_group : static_cast<double>(element_bytes(kept));
}

bool has_scales(fovea_dtype kept) { return kept == FOVEA_I8 || kept == FOVEA_U8; }

double read_bytes(const RaggedCase &what) {
  double positions = static_cast<double>(what.shared);
  for (const Sequence &s : what.sequences) positions += static_cast<double>(s.key_len - what.shared);
  const double of_both = bytes_of_feature(what.key) + bytes_of_feature(what.value);
  return positions * static_cast<double>(what.kv_heads * what.dim) * of_both;
}

double causal_flops(const RaggedCase &what) {
  double pairs = 0;
  for (const Sequence &s : what.sequences) {
    const auto q = static_cast<double>(s.query_len), k = static_cast<double>(s.key_len);
    pairs += q * k - q * (q - 1) / 2;
  }
  return pairs * static_cast<double>(what.heads) * 4 * static_cast<double>(what.dim);
}

// All memory of a case, and the step that describes it.
struct RaggedData {
  const RaggedCase what;
  std::vector<int32_t> query_starts = {0}, key_lens, page_starts = {0}, page_ids;
  int64_t page_count = 0;
  int64_t tokens;  // behind what is filled in while they are counted
  Buffer query, out, key, value, key_scales, value_scales;
  ReadRegion region;

  explicit RaggedData(const RaggedCase &c)
      : what(c),
        tokens(add_sequences()),
        query(normals(tokens * c.heads * c.dim, c.dtype)),
        out(zeros(tokens * c.heads * c.dim, c.dtype)),
        key(pages(c.key)),
        value(pages(c.value)),
        key_scales(scales(c.key)),
        value_scales(scales(c.value)),
        region(key.data(), key.bytes()) {}

  int64_t add_sequences() {
    const int64_t shared = what.shared / page_size;
    std::vector<int32_t> common(static_cast<size_t>(shared));
    int64_t next = shared, all = 0;
    for (const Sequence &s : what.sequences) {
      all += s.query_len;
      query_starts.push_back(static_cast<int32_t>(all));
      key_lens.push_back(static_cast<int32_t>(s.key_len));
      for (int64_t n = 0; n < pages_of(s.key_len); ++n)
        page_ids.push_back(static_cast<int32_t>(n < shared ? n : next++));
      page_starts.push_back(static_cast<int32_t>(page_ids.size()));
    }
    page_count = next;
    std::vector<int32_t> order(static_cast<size_t>(page_count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    for (int32_t &id : page_ids) id = order[static_cast<size_t>(id)];
    return all;
  }

  Buffer pages(fovea_dtype kept) const {
    const int64_t elements = page_count * what.kv_heads * page_size * what.dim / in_each(kept);
    return has_scales(kept) ? normals(elements / 4) : normals(elements, kept);
  }
  Buffer scales(fovea_dtype kept) const {
    if (!has_scales(kept)) return Buffer();
    const int64_t groups = page_count * what.kv_heads * page_size * what.dim / scale_group;
    Buffer made(static_cast<size_t>(groups * in_each(kept) * 2));
    std::fill_n(static_cast<uint16_t *>(made.data()), made.bytes() / 2, uint16_t{0x2000});  // 2^-7
    return made;
  }
};

struct ScheduleDeleter {
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};

class RaggedCall {
 public:
  RaggedCall(std::shared_ptr<RaggedData> data, const std::string &isa, int threads)
      : data_(std::move(data)), context_(make_context(isa, threads)) {
    const RaggedCase &c = data_->what;
    const fovea_tensor query = tensor(data_->query.data(), {data_->tokens, c.heads, c.dim}, c.dtype);
    const fovea_tensor out = tensor(data_->out.data(), {data_->tokens, c.heads, c.dim}, c.dtype);
    const auto pages = [&](const Buffer &memory, int64_t row, fovea_dtype dtype) {
      return tensor(memory.data(), {data_->page_count, c.kv_heads, page_size, row}, dtype);
    };
    const fovea_tensor key = pages(data_->key, c.dim, c.key),
                       value = pages(data_->value, c.dim / in_each(c.value), c.value);
    const fovea_tensor key_scales = pages(data_->key_scales, c.dim / scale_group, FOVEA_F16);
    const fovea_tensor value_scales = pages(data_->value_scales, c.dim / scale_group * in_each(c.value), FOVEA_F16);
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.flags = c.flags;
    if (has_scales(c.key)) options.key_scales = &key_scales;
    if (has_scales(c.value)) options.value_scales = &value_scales;
    fovea_schedule_limits limits{};
    limits.struct_size = sizeof limits;
    limits.sequences = static_cast<int64_t>(c.sequences.size());
    limits.page_ids = static_cast<int64_t>(data_->page_ids.size());
    fovea_schedule *made = nullptr;
    check(fovea_schedule_create(context_.get(), nullptr, &query, &key, &value, &out, &options, &limits, &made));
    schedule_.reset(made);
    set();
    workspace_ = Buffer(fovea_schedule_workspace_size(made));
    buffers_.struct_size = sizeof buffers_;
    buffers_.query = query.data;
    buffers_.key = key.data;
    buffers_.value = value.data;
    buffers_.out = out.data;
    buffers_.key_scales = has_scales(c.key) ? key_scales.data : nullptr;
    buffers_.value_scales = has_scales(c.value) ? value_scales.data : nullptr;
  }

  void set() {
    const auto integers = [](const std::vector<int32_t> &values) {
      return tensor(values.data(), {static_cast<int64_t>(values.size())}, FOVEA_I32);
    };
    const fovea_tensor query_starts = integers(data_->query_starts), key_lens = integers(data_->key_lens),
                       page_ids = integers(data_->page_ids), page_starts = integers(data_->page_starts);
    fovea_step step{};
    step.struct_size = sizeof step;
    step.query_starts = &query_starts;
    step.key_lens = &key_lens;
    step.page_ids = &page_ids;
    step.page_starts = &page_starts;
    check(fovea_schedule_set(schedule_.get(), &step));
  }

  void run() { check(fovea_schedule_run(schedule_.get(), &buffers_, workspace_.data(), workspace_.bytes())); }
  size_t workspace_size() const { return workspace_.bytes(); }

 private:
  std::shared_ptr<RaggedData> data_;
  Context context_;
  std::unique_ptr<fovea_schedule, ScheduleDeleter> schedule_;
  fovea_attention_buffers buffers_{};
  Buffer workspace_;
};

Prepared prepare(const RaggedCase &what, const Variant &variant) {
  const auto data = data_of<RaggedData>(what);
  const auto call = std::make_shared<RaggedCall>(data, variant.isa, variant.threads);
  Prepared prepared;
  prepared.counters["workspace"] = static_cast<double>(call->workspace_size());
  prepared.run = [call] { call->run(); };
  if (variant.threads > 1) {
    const auto single = std::make_shared<RaggedCall>(data, variant.isa, 1);
    prepared.run_on_one_thread = [single] { single->run(); };
  }
  const double flops = causal_flops(what), bytes = what.bound == Bound::bytes ? read_bytes(what) : 0.0;
  prepared.shortest_seconds = [=, &what] {
    const double rate = what.dtype == FOVEA_BF16 ? bfloat16_rate(variant.isa, variant.threads, probe_seconds())
                                                 : multiply_add_rate(variant.isa, variant.threads, probe_seconds());
    const double seconds = flops / rate;
    if (bytes == 0.0) return seconds;
    return std::max(seconds, bytes / data->region.rate(variant.isa, variant.threads, probe_seconds()));
  };
  return prepared;
}

Prepared prepare_set(const RaggedCase &what, const Variant &variant) {
  const auto data = data_of<RaggedData>(what);
  const auto call = std::make_shared<RaggedCall>(data, variant.isa, variant.threads);
  Prepared prepared;
  prepared.run = [call] { call->set(); };
  return prepared;
}

std::vector<Sequence> ragged_steps(int64_t count, int64_t longest) {
  std::vector<Sequence> sequences;
  for (const int32_t length : evenly(count, 1, longest)) sequences.push_back({1, length});
  return sequences;
}

std::vector<Sequence> prompts(int64_t count, int64_t shortest, int64_t longest) {
  std::vector<Sequence> sequences;
  for (const int32_t length : evenly(count, shortest, longest)) sequences.push_back({length, length});
  return sequences;
}

std::vector<Sequence> mixed() {
  std::vector<Sequence> sequences = ragged_steps(24, 3000);
  sequences.push_back({512, 512});
  sequences.push_back({300, 1500});
  return sequences;
}

// The shapes of a layer of Llama 3 8B, but for steps of one head of queries for each of keys and for the prompts of an
// encoder of 12 heads of 64.
std::vector<RaggedCase> make_cases() {
  const std::vector<std::pair<const char *, std::vector<Sequence>>> steps = {
      {"step_4096", {{1, 4096}}},
      {"steps_16x1024", std::vector<Sequence>(16, {1, 1024})},
      {"steps_32", ragged_steps(32, 4096)},
      {"drafts_4x4", std::vector<Sequence>(4, {4, 2048})}};
  std::vector<RaggedCase> cases;
  const struct {
    fovea_dtype query, key, value;
  } types[] = {{FOVEA_F32, FOVEA_F32, FOVEA_F32},
               {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16},
               {FOVEA_BF16, FOVEA_I8, FOVEA_I8},
               {FOVEA_BF16, FOVEA_I8, FOVEA_U8}};
  for (const auto &[query, key, value] : types) {
    for (const auto &[name, sequences] : steps)
      cases.push_back({name, sequences, 32, 8, 128, query, key, value, Bound::bytes});
    cases.push_back({"step_cached", {{1, 1152}}, 4, 1, 128, query, key, value, Bound::bytes});
    cases.push_back({"steps_one_row", steps[1].second, 8, 8, 128, query, key, value, Bound::bytes});
    cases.push_back({"prompt_2048", {{2048, 2048}}, 32, 8, 128, query, key, value, Bound::flops});
    cases.push_back({"mixed", mixed(), 32, 8, 128, query, key, value, Bound::flops});
    cases.push_back({"prompts_64", prompts(64, 16, 2048), 12, 12, 64, query, key, value, Bound::flops});
    const uint32_t invariant = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    cases.push_back({"shared_16", std::vector<Sequence>(16, {1, 4100}), 32, 8, 128, query, key, value, Bound::bytes,
                     4096, invariant});
    cases.push_back({"shared_1", {{1, 4100}}, 32, 8, 128, query, key, value, Bound::bytes, 4096, invariant});
  }
  return cases;
}

Case describe(const RaggedCase &what) {
  Case one;
  one.operation = what.value == FOVEA_U8 ? "ragged_i8u4" : what.value == FOVEA_I8 ? "ragged_i8" : "ragged";
  one.model = what.name;
  one.dtype = what.dtype;
  one.on_amx = what.dtype == FOVEA_BF16;
  one.bound = what.bound;
  one.work = {.flops = causal_flops(what), .bytes = read_bytes(what)};
  one.parameters = {{"heads", what.heads},    {"kv_heads", what.kv_heads},
                    {"head_dim", what.dim},   {"sequences", static_cast<int64_t>(what.sequences.size())},
                    {"page_size", page_size}, {"shared", what.shared}};
  one.unit = one.work.flops < 5e8 ? benchmark::kMicrosecond : benchmark::kMillisecond;
  one.prepare = [&what](const Variant &variant) { return prepare(what, variant); };
  return one;
}

}  // namespace

void add_ragged(Cases *list) {
  static const std::vector<RaggedCase> ragged = make_cases();
  for (const RaggedCase &what : ragged) list->push_back(describe(what));
  static const RaggedCase sets[] = {
      {"steps_64", ragged_steps(64, 4096), 32, 8, 128, FOVEA_F32, FOVEA_F32, FOVEA_F32, Bound::none},
      {"prompts_64", prompts(64, 16, 2048), 12, 12, 64, FOVEA_F32, FOVEA_F32, FOVEA_F32, Bound::none}};
  for (const RaggedCase &what : sets) {
    Case one = describe(what);
    one.operation = "ragged_set";
    one.work = {};
    one.unit = benchmark::kMicrosecond;
    one.one_thread_only = true;
    one.prepare = [&what](const Variant &variant) { return prepare_set(what, variant); };
    list->push_back(one);
  }
}

}  // namespace fovea_bench
