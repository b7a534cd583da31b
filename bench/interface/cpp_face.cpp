// Benchmarks of what the C++ face costs over C, cpp_face/f32/<call>/<instruction set>/t1.
//
// The call is the smallest that anyone makes (sdpa's "small"), by fovea.hpp; "over_c" is what it takes more than the
// same call by the C function, as a part of that: both in turns, the quicker tenth of many short blocks, which others
// on the machine disturb least. A planned run hands over pointers that stand already; the one-shot call makes tensors
// and options of spans and names.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <fovea/fovea.hpp>
#include <span>

#include "harness/harness.hpp"

namespace fovea_bench {
namespace {

constexpr int64_t batch = 2, heads = 5, query_len = 4, key_len = 6, head_dim = 20;
constexpr int64_t query_floats = batch * heads * query_len * head_dim, key_floats = batch * heads * key_len * head_dim;

struct CppFaceShape {
  const char *name;
  bool planned;
};

// The same memory and the same context for both.
struct CppFaceData {
  Buffer query = normals(query_floats), key = normals(key_floats), out = zeros(query_floats);
  fovea::Context context;

  explicit CppFaceData(const std::string &isa)
      : context(fovea::ContextOptions{.max_threads = 1, .max_isa = isa.c_str()}) {}
  fovea::Input queries() const {
    return {std::span<const float>(query.floats(), query_floats), {batch, heads, query_len, head_dim}};
  }
  fovea::Input keys() const {
    return {std::span<const float>(key.floats(), key_floats), {batch, heads, key_len, head_dim}};
  }
  fovea::Output outs() const { return {std::span(out.floats(), query_floats), {batch, heads, query_len, head_dim}}; }
};

// (by C, by C++)
using Both = std::pair<std::function<void()>, std::function<void()>>;

Both planned(const std::shared_ptr<CppFaceData> &data) {
  // The plan uses data's context and memory, and so do both calls.
  const auto plan = std::shared_ptr<fovea::Plan>(
      new fovea::Plan(fovea::Plan::sdpa(data->queries(), data->keys(), data->keys(), data->outs(), {}, data->context)),
      [data](fovea::Plan *made) { delete made; });
  const auto workspace = std::make_shared<Buffer>(plan->workspace_size());
  fovea::AttentionBuffers buffers;  // C's own struct
  buffers.query = data->query.floats();
  buffers.key = buffers.value = data->key.floats();
  buffers.out = data->out.floats();
  return {[=] { check(fovea_attention_run(plan->get(), &buffers, workspace->data(), workspace->bytes())); },
          [=] { plan->run(buffers, std::span(static_cast<std::byte *>(workspace->data()), workspace->bytes())); }};
}

Both one_shot(const std::shared_ptr<CppFaceData> &data) {
  return {[data] {
            const fovea_tensor query = tensor(data->query.floats(), {batch, heads, query_len, head_dim});
            const fovea_tensor key = tensor(data->key.floats(), {batch, heads, key_len, head_dim});
            const fovea_tensor out = tensor(data->out.floats(), {batch, heads, query_len, head_dim});
            fovea_attention_options options{};
            options.struct_size = sizeof options;
            options.flags = FOVEA_CAUSAL;
            check(fovea_sdpa(data->context.get(), &query, &key, &key, &out, &options));
          },
          [data] {
            fovea::sdpa(data->queries(), data->keys(), data->keys(), data->outs(), {.causal = true}, data->context);
          }};
}

double over(const std::function<void()> &run, const std::function<void()> &other) {
  const size_t blocks = quick() ? 10 : 1000;
  constexpr int64_t runs = 50;
  std::vector<double> seconds, other_seconds;
  for (size_t block = 0; block < blocks; ++block) {
    seconds.push_back(seconds_of(run, runs));
    other_seconds.push_back(seconds_of(other, runs));
  }
  const auto tenth = static_cast<std::ptrdiff_t>(blocks / 10);
  std::nth_element(seconds.begin(), seconds.begin() + tenth, seconds.end());
  std::nth_element(other_seconds.begin(), other_seconds.begin() + tenth, other_seconds.end());
  return seconds[blocks / 10] / other_seconds[blocks / 10] - 1;
}

Prepared prepare(const CppFaceShape &shape, const Variant &variant) {
  const auto data = std::make_shared<CppFaceData>(variant.isa);
  const auto [in_c, in_cpp] = shape.planned ? planned(data) : one_shot(data);
  Prepared prepared;
  prepared.run = in_cpp;
  prepared.counters["over_c"] = over(in_cpp, in_c);
  return prepared;
}

}  // namespace

void add_cpp_face(Cases *list) {
  static const CppFaceShape shapes[] = {{"planned", true}, {"one_shot", false}};
  for (const CppFaceShape &shape : shapes) {
    Case one;
    one.operation = "cpp_face";
    one.model = shape.name;
    one.parameters = {{"planned", shape.planned}};
    one.unit = benchmark::kMicrosecond;
    one.one_thread_only = true;
    one.prepare = [&shape](const Variant &variant) { return prepare(shape, variant); };
    list->push_back(one);
  }
}

}  // namespace fovea_bench
