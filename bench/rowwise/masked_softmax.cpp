// Benchmarks of masked softmax over the last axis, masked_softmax/<element type>/<shape>/<instruction set>/t<threads>.
//
// What bounds it: memory. The valid part of each row is read and the whole row is written, zeros included; a row of 512
// floats stays in L1 between the passes over it. About 15 vector instructions per vector (maximum, subtract,
// exponential, sum, multiply) hide behind the transfer at 512^3, which comes from memory, on all but the base set;
// [64,128,128] is 4 MB in and 4 MB out, partly in L2, and there the arithmetic shows. The limit is what memcpy of the
// same tensor takes, per byte, times the bytes that must be touched.
//
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct SoftmaxShape {
  const char *name;
  int64_t batch, queries, keys;
  bool ragged;            // valid lengths evenly spread from 1 to keys; else all keys are valid
  bool length_per_query;  // [B,Q] instead of [B]
  fovea_dtype dtype = FOVEA_F32;
};

const std::vector<SoftmaxShape> &softmax_shapes() {
  static const std::vector<SoftmaxShape> shapes = {{"512x512x512_per_sequence", 512, 512, 512, true, false},
                                                   {"512x512x512_no_lens", 512, 512, 512, false, false},
                                                   {"64x128x128_per_query", 64, 128, 128, true, true},
                                                   {"64x128x128_no_lens", 64, 128, 128, false, false},
                                                   {"512x512x512_no_lens", 512, 512, 512, false, false, FOVEA_BF16},
                                                   {"512x512x512_no_lens", 512, 512, 512, false, false, FOVEA_F16},
                                                   {"64x128x128_no_lens", 64, 128, 128, false, false, FOVEA_BF16},
                                                   {"64x128x128_no_lens", 64, 128, 128, false, false, FOVEA_F16}};
  return shapes;
}

std::vector<int32_t> valid_lens_of(const SoftmaxShape &s) {
  if (!s.ragged) return {};
  return evenly(s.length_per_query ? s.batch * s.queries : s.batch, 1, s.keys);
}

double touched_bytes(const SoftmaxShape &s) {
  const int64_t all = s.batch * s.queries * s.keys, rows_per_length = s.length_per_query ? 1 : s.queries;
  const std::vector<int32_t> lens = valid_lens_of(s);
  const int64_t valid = lens.empty() ? all : std::accumulate(lens.begin(), lens.end(), int64_t{0}) * rows_per_length;
  return static_cast<double>(valid + all) * static_cast<double>(element_bytes(s.dtype));
}

struct SoftmaxData {
  const SoftmaxShape *shape;
  Buffer x, out;
  std::vector<int32_t> valid_lens;
  fovea_tensor x_view, out_view, lens_view;

  explicit SoftmaxData(const SoftmaxShape &s)
      : shape(&s),
        x(normals(s.batch * s.queries * s.keys, s.dtype)),
        out(zeros(s.batch * s.queries * s.keys, s.dtype)),
        valid_lens(valid_lens_of(s)),
        x_view(tensor(x.data(), {s.batch, s.queries, s.keys}, s.dtype)),
        out_view(tensor(out.data(), {s.batch, s.queries, s.keys}, s.dtype)) {
    lens_view = s.length_per_query ? tensor(valid_lens.data(), {s.batch, s.queries}, FOVEA_I32)
                                   : tensor(valid_lens.data(), {s.batch}, FOVEA_I32);
  }
};

std::function<void()> call(std::shared_ptr<SoftmaxData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  return [data, context] {
    const fovea_tensor *lens = data->shape->ragged ? &data->lens_view : nullptr;
    check(fovea_masked_softmax(context.get(), &data->x_view, lens, &data->out_view, nullptr));
  };
}

Prepared prepare(const SoftmaxShape &shape, const Variant &variant) {
  const auto data = data_of<SoftmaxData>(shape);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  prepared.shortest_seconds = [=, bytes = touched_bytes(shape)] {
    return bytes / copy_rate(data->out.data(), data->x.data(), data->x.bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_masked_softmax(Cases *list) {
  for (const SoftmaxShape &shape : softmax_shapes())
    list->push_back({.operation = "masked_softmax",
                     .model = shape.name,
                     .dtype = shape.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = touched_bytes(shape)},
                     .parameters = {{"batch", shape.batch},
                                    {"query_len", shape.queries},
                                    {"key_len", shape.keys},
                                    {"length_per_query", shape.length_per_query},
                                    {"valid_lens", valid_lens_of(shape)}},
                     .prepare = [&shape](const Variant &variant) { return prepare(shape, variant); }});
}

}  // namespace fovea_bench
