// Benchmarks of merging attention over parts of the keys, merge_states/f32/<shape>/<instruction set>/t<threads>.
//
// What bounds it: reading the S partial outputs once, one multiply-add for each value; the weights are S exponentials
// per row of Dv = 128. decode_8_parts is what a server merges that has split 16 sequences over 8 workers (2 MB, in L2
// and L3); prefill_2_parts is a prompt of 2048 tokens attended in two halves (67 MB).
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct MergeShape {
  const char *name;
  int64_t parts, batch, heads, query_len, value_dim;
  double bytes() const { return sizeof(float) * static_cast<double>(parts * batch * heads * query_len * value_dim); }
};

struct MergeData {
  Buffer outs, lses, out, log_sum_exp;
  fovea_tensor outs_view, lses_view, out_view, log_sum_exp_view;
  ReadRegion region;

  explicit MergeData(const MergeShape &s)
      : outs(normals(s.parts * s.batch * s.heads * s.query_len * s.value_dim)),
        lses(normals(s.parts * s.batch * s.heads * s.query_len)),
        out(zeros(s.batch * s.heads * s.query_len * s.value_dim)),
        log_sum_exp(zeros(s.batch * s.heads * s.query_len)),
        outs_view(tensor(outs.floats(), {s.parts, s.batch, s.heads, s.query_len, s.value_dim})),
        lses_view(tensor(lses.floats(), {s.parts, s.batch, s.heads, s.query_len})),
        out_view(tensor(out.floats(), {s.batch, s.heads, s.query_len, s.value_dim})),
        log_sum_exp_view(tensor(log_sum_exp.floats(), {s.batch, s.heads, s.query_len})),
        region(outs.data(), outs.bytes()) {}
};

std::function<void()> call(std::shared_ptr<MergeData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  return [=] {
    check(fovea_merge_states(context.get(), &data->outs_view, &data->lses_view, &data->out_view,
                             &data->log_sum_exp_view));
  };
}

Prepared prepare(const MergeShape &shape, const Variant &variant) {
  const auto data = data_of<MergeData>(shape);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  prepared.shortest_seconds = [=, bytes = shape.bytes()] {
    return bytes / data->region.rate(variant.isa, variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_merge_states(Cases *list) {
  static const MergeShape shapes[] = {{"decode_8_parts", 8, 16, 32, 1, 128}, {"prefill_2_parts", 2, 1, 32, 2048, 128}};
  for (const MergeShape &shape : shapes)
    list->push_back({.operation = "merge_states",
                     .model = shape.name,
                     .bound = Bound::bytes,
                     .work = {.bytes = shape.bytes()},
                     .parameters = {{"parts", shape.parts},
                                    {"batch", shape.batch},
                                    {"heads", shape.heads},
                                    {"query_len", shape.query_len},
                                    {"value_dim", shape.value_dim}},
                     .prepare = [&shape](const Variant &variant) { return prepare(shape, variant); }});
}

}  // namespace fovea_bench
