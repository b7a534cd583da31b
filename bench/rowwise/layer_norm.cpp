// Benchmarks of layer normalisation with weight and bias, layer_norm/<element
// type>/<rows>x<features>[_residual]/<instruction set>/t<threads>; and RMS normalisation with a weight, rms_norm/...,
// whose "_sum" is written in place of the residual, as pre-norm layers do.
//
// What bounds them: memory. x, and the residual where there is one, is read once and out, and the sum, written once; a
// row stays in the first-level cache between the passes over it. The limit is the time in which memcpy moves as many
// bytes between two buffers that are together as large as these tensors. 512x384 is 0.8 MB in each tensor, in a core's
// second-level cache at best: there the some 12 vector instructions per vector (sum; subtract, sum, square; subtract,
// scale, weigh, add; loads and a store) and the latency of each row's root and quotient show.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct NormCase {
  const char *name;
  int64_t rows, features;
  bool residual;
  fovea_dtype dtype = FOVEA_F32;
  bool rms = false;
  bool sum = false;  // takes the residual's place

  int64_t elements() const { return rows * features; }
  // Half of all that is read and written.
  int64_t copied() const { return elements() * (2 + (residual ? 1 : 0) + (sum ? 1 : 0)) / 2; }
  double bytes() const { return 2.0 * static_cast<double>(element_bytes(dtype)) * static_cast<double>(copied()); }
};

constexpr NormCase norm_cases[] = {
    {"512x384", 512, 384, false},
    {"512x384_residual", 512, 384, true},
    {"4096x768", 4096, 768, false},
    {"4096x768_residual", 4096, 768, true},
    {"2048x4096", 2048, 4096, false},
    {"2048x4096_residual", 2048, 4096, true},
    {"16384x1024", 16384, 1024, false},
    {"16384x1024_residual", 16384, 1024, true},
    {"512x384", 512, 384, false, FOVEA_BF16},
    {"512x384", 512, 384, false, FOVEA_F16},
    {"16384x1024", 16384, 1024, false, FOVEA_BF16},
    {"16384x1024_residual", 16384, 1024, true, FOVEA_BF16},
    {"16384x1024", 16384, 1024, false, FOVEA_F16},
    {"512x2048", 512, 2048, false, FOVEA_F32, true},
    {"512x2048_sum", 512, 2048, true, FOVEA_F32, true, true},
    {"8192x4096", 8192, 4096, false, FOVEA_F32, true},
    {"8192x4096_sum", 8192, 4096, true, FOVEA_F32, true, true},
    {"1x4096_sum", 1, 4096, true, FOVEA_F32, true, true},
    {"512x2048_sum", 512, 2048, true, FOVEA_BF16, true, true},
    {"8192x4096_sum", 8192, 4096, true, FOVEA_BF16, true, true},
    {"8192x4096_sum", 8192, 4096, true, FOVEA_F16, true, true},
};

struct NormData {
  const NormCase *what;
  Buffer x, residual, weight, bias, out;
  fovea_tensor x_view, residual_view, weight_view, bias_view, out_view;

  explicit NormData(const NormCase &c)
      : what(&c),
        x(normals(c.copied(), c.dtype)),
        residual(normals(c.residual ? c.elements() : 0, c.dtype)),
        weight(normals(c.features, c.dtype)),
        bias(normals(c.features, c.dtype)),
        out(zeros(c.copied(), c.dtype)),
        x_view(tensor(x.data(), {c.rows, c.features}, c.dtype)),
        residual_view(tensor(residual.data(), {c.rows, c.features}, c.dtype)),
        weight_view(tensor(weight.data(), {c.features}, c.dtype)),
        bias_view(tensor(bias.data(), {c.features}, c.dtype)),
        out_view(tensor(out.data(), {c.rows, c.features}, c.dtype)) {}
};

std::function<void()> call(std::shared_ptr<NormData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  if (data->what->rms) {
    fovea_rms_norm_options options{};
    options.struct_size = sizeof options;
    options.weight = &data->weight_view;
    if (data->what->residual) options.residual = &data->residual_view;
    if (data->what->sum) options.sum = &data->residual_view;
    return [data, context, options] { check(fovea_rms_norm(context.get(), &data->x_view, &data->out_view, &options)); };
  }
  fovea_layer_norm_options options{};
  options.struct_size = sizeof options;
  options.weight = &data->weight_view;
  options.bias = &data->bias_view;
  if (data->what->residual) options.residual = &data->residual_view;
  return [data, context, options] { check(fovea_layer_norm(context.get(), &data->x_view, &data->out_view, &options)); };
}

Prepared prepare(const NormCase &what, const Variant &variant) {
  const auto data = data_of<NormData>(what);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  prepared.shortest_seconds = [=, bytes = what.bytes()] {
    return bytes / copy_rate(data->out.data(), data->x.data(), data->x.bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_layer_norm(Cases *list) {
  for (const NormCase &what : norm_cases)
    list->push_back({.operation = what.rms ? "rms_norm" : "layer_norm",
                     .model = what.name,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes()},
                     .parameters = {{"rows", what.rows},
                                    {"features", what.features},
                                    {"residual", what.residual},
                                    {"sum", what.sum}},
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what](const Variant &variant) { return prepare(what, variant); }});
}

}  // namespace fovea_bench
