// Benchmarks of the backward passes of rows, <operation>/<element type>/<rows>x<features>/<instruction set>/t<threads>:
// layer_norm_backward with weight and bias, and with a residual where the case says so, rms_norm_backward with a weight,
// softmax_backward over the last axis, activation_backward of GELU.
//
// What bounds them: memory. x (or what the forward call gave) and the gradient are read once and a gradient written
// once; the limit is the time in which memcpy moves as many bytes. Where all of it lies in a cache arithmetic shows:
// some 25 instructions a vector for normalisation with its sums over rows, 10 for softmax, 45 for GELU.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

enum class Kind { layer_norm, rms_norm, softmax, gelu };

struct RowCase {
  const char *name;
  Kind kind;
  int64_t rows, features;
  fovea_dtype dtype = FOVEA_F32;
  bool has_residual = false;

  int64_t elements() const { return rows * features; }
  double bytes() const {
    const double tensors = has_residual ? 4.0 : 3.0;
    return tensors * static_cast<double>(element_bytes(dtype)) * static_cast<double>(elements());
  }
  const char *operation() const {
    constexpr const char *names[] = {"layer_norm_backward", "rms_norm_backward", "softmax_backward",
                                     "activation_backward"};
    return names[static_cast<int>(kind)];
  }
};

constexpr RowCase row_cases[] = {
    {"512x384", Kind::layer_norm, 512, 384},
    {"4096x768", Kind::layer_norm, 4096, 768},
    {"16384x1024", Kind::layer_norm, 16384, 1024},
    {"4096x768", Kind::layer_norm, 4096, 768, FOVEA_BF16},
    {"512x384_residual", Kind::layer_norm, 512, 384, FOVEA_F32, true},
    {"4096x768_residual", Kind::layer_norm, 4096, 768, FOVEA_F32, true},
    {"4096x768_residual", Kind::layer_norm, 4096, 768, FOVEA_BF16, true},
    {"8192x4096", Kind::rms_norm, 8192, 4096},
    {"512x512", Kind::softmax, 512, 512},
    {"12288x1024", Kind::softmax, 12288, 1024},
    {"512x3072", Kind::gelu, 512, 3072},
    {"16384x1024", Kind::gelu, 16384, 1024},
};

struct RowData {
  const RowCase *what;
  Buffer x, grad_out, grad_x, residual, weight, bias, grad_weight, grad_bias;
  fovea_tensor x_view, grad_view, to_view, residual_view, weight_view, bias_view, grad_weight_view, grad_bias_view;

  explicit RowData(const RowCase &c)
      : what(&c),
        x(normals(c.elements() * 3 / 2, c.dtype)),
        grad_out(normals(c.elements(), c.dtype)),
        grad_x(zeros(c.elements() * 3 / 2, c.dtype)),
        residual(normals(c.has_residual ? c.elements() : 1, c.dtype)),
        weight(normals(c.features)),
        bias(normals(c.features)),
        grad_weight(zeros(c.features)),
        grad_bias(zeros(c.features)),
        x_view(tensor(x.data(), {c.rows, c.features}, c.dtype)),
        grad_view(tensor(grad_out.data(), {c.rows, c.features}, c.dtype)),
        to_view(tensor(grad_x.data(), {c.rows, c.features}, c.dtype)),
        residual_view(tensor(residual.data(), {c.rows, c.features}, c.dtype)),
        weight_view(tensor(weight.data(), {c.features})),
        bias_view(tensor(bias.data(), {c.features})),
        grad_weight_view(tensor(grad_weight.data(), {c.features})),
        grad_bias_view(tensor(grad_bias.data(), {c.features})) {}
};

std::function<void()> call(std::shared_ptr<RowData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  const RowData &d = *data;
  const bool layer = d.what->kind == Kind::layer_norm;
  const fovea_norm_gradients gradients = {sizeof gradients, &d.grad_view,        nullptr,
                                          &d.to_view,       &d.grad_weight_view, layer ? &d.grad_bias_view : nullptr};
  switch (d.what->kind) {
    case Kind::layer_norm: {
      fovea_layer_norm_options options{};
      options.struct_size = sizeof options;
      options.weight = &d.weight_view;
      options.bias = &d.bias_view;
      if (d.what->has_residual) options.residual = &d.residual_view;
      return [=] { check(fovea_layer_norm_backward(context.get(), &data->x_view, &options, &gradients)); };
    }
    case Kind::rms_norm: {
      fovea_rms_norm_options options{};
      options.struct_size = sizeof options;
      options.weight = &d.weight_view;
      return [=] { check(fovea_rms_norm_backward(context.get(), &data->x_view, &options, &gradients)); };
    }
    case Kind::softmax:
      return [=] { check(fovea_softmax_backward(context.get(), &data->x_view, -1, &data->grad_view, &data->to_view)); };
    default:
      return [=] {
        check(fovea_activation_backward(context.get(), FOVEA_ACTIVATION_GELU, &data->x_view, &data->grad_view,
                                        &data->to_view));
      };
  }
}

Prepared prepare(const RowCase &what, const Variant &variant) {
  const auto data = data_of<RowData>(what);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  prepared.shortest_seconds = [=, bytes = what.bytes()] {
    return bytes / copy_rate(data->grad_x.data(), data->x.data(), data->x.bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_row_gradients(Cases *list) {
  for (const RowCase &what : row_cases)
    list->push_back({.operation = what.operation(),
                     .model = what.name,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes()},
                     .parameters = {{"rows", what.rows}, {"features", what.features}},
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what](const Variant &variant) { return prepare(what, variant); }});
}

}  // namespace fovea_bench
