// Masked softmax over the last axis, masked_softmax/f32/<shape>/<instruction set>/t<threads>.
//
// What bounds it: memory. The valid part of each row is read and the whole row is written, zeros included; a row of 512
// floats stays in L1 between the passes over it. About 15 vector instructions per vector (maximum, subtract,
// exponential, sum, multiply) hide behind the transfer at 512^3, which comes from memory, on all but the base set;
// [64,128,128] is 4 MB in and 4 MB out, partly in L2, and there the arithmetic shows. The limit is what memcpy of the
// same tensor takes, per byte, times the bytes that must be touched.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"
#include "limits.hpp"
#include "shapes.hpp"

namespace fovea_bench {
namespace {

// The tensors of the shape measured last, kept for its other instruction sets and thread counts.
struct SoftmaxData {
  const SoftmaxShape *shape;
  Buffer x, out;
  std::vector<int32_t> valid_lens;
  fovea_tensor x_view, out_view, lens_view;
  int64_t touched_floats;

  explicit SoftmaxData(const SoftmaxShape &s)
      : shape(&s),
        x(normals(s.batch * s.queries * s.keys)),
        out(zeros(s.batch * s.queries * s.keys)),
        x_view(tensor(x.floats(), {s.batch, s.queries, s.keys})),
        out_view(tensor(out.floats(), {s.batch, s.queries, s.keys})) {
    const int64_t rows = s.batch * s.queries, rows_per_length = s.length_per_query ? 1 : s.queries;
    int64_t valid_floats = rows * s.keys;
    if (s.ragged) {
      valid_lens = evenly(rows / rows_per_length, 1, s.keys);
      valid_floats = 0;
      for (int32_t length : valid_lens) valid_floats += length * rows_per_length;
    }
    lens_view = s.length_per_query ? tensor(valid_lens.data(), {s.batch, s.queries}, FOVEA_I32)
                                   : tensor(valid_lens.data(), {s.batch}, FOVEA_I32);
    touched_floats = valid_floats + rows * s.keys;
  }
};

std::shared_ptr<SoftmaxData> data_for(const SoftmaxShape &shape) {
  static std::shared_ptr<SoftmaxData> last;
  if (!last || last->shape != &shape) {
    last.reset();
    last = std::make_shared<SoftmaxData>(shape);
  }
  return last;
}

std::function<void()> call(std::shared_ptr<SoftmaxData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  return [data, context] {
    const fovea_tensor *lens = data->shape->ragged ? &data->lens_view : nullptr;
    check(fovea_masked_softmax(context.get(), &data->x_view, lens, &data->out_view, nullptr));
  };
}

Prepared prepare(const SoftmaxShape &shape, const Variant &variant) {
  const auto data = data_for(shape);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  const double bytes = static_cast<double>(data->touched_floats) * sizeof(float);
  prepared.work = bytes;
  prepared.rate_name = "GB/s";
  prepared.shortest_seconds = [=] {
    return bytes / copy_rate(data->out.data(), data->x.data(), data->x.bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_masked_softmax() {
  for (const SoftmaxShape &shape : softmax_shapes())
    for (const Variant &variant : variants_but_amx())
      add(std::string("masked_softmax/f32/") + shape.name + variant.suffix(), benchmark::kMillisecond,
          [&shape, variant] { return prepare(shape, variant); });
}

}  // namespace fovea_bench
