// Benchmarks of linear layers with packed weights, linear/f32/<M>x<N>x<K>_<what follows>/...: the first half of a
// feed-forward block (bias and GELU or SiLU) and the second (bias and residual), of BERT base and MiniLM.
//
// What bounds them: what bounds the product (see matmul.cpp), which is the limit here, and for each register of out
// what follows the product, while out is in the nearest cache: some 35 instructions for GELU, 45 with the hyperbolic
// tangent, 25 for SiLU, against K multiply-adds; 5 % of a product of depth 768.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "harness/harness.hpp"
#include "limits/limits.hpp"
#include "products/product.hpp"

namespace fovea_bench {
namespace {

struct LinearShape : ProductSizes {
  const char *name;
  int32_t activation;
  bool residual;
};

const std::vector<LinearShape> &shapes() {
  static const std::vector<LinearShape> list = {{{1, 3072, 768}, "gelu", FOVEA_ACTIVATION_GELU, false},
                                                {{64, 3072, 768}, "gelu", FOVEA_ACTIVATION_GELU, false},
                                                {{512, 3072, 768}, "gelu", FOVEA_ACTIVATION_GELU, false},
                                                {{512, 3072, 768}, "gelu_tanh", FOVEA_ACTIVATION_GELU_TANH, false},
                                                {{512, 3072, 768}, "silu", FOVEA_ACTIVATION_SILU, false},
                                                {{512, 3072, 768}, "relu", FOVEA_ACTIVATION_RELU, false},
                                                {{512, 768, 3072}, "residual", FOVEA_ACTIVATION_NONE, true},
                                                {{128, 1536, 384}, "gelu", FOVEA_ACTIVATION_GELU, false},
                                                {{128, 384, 1536}, "residual", FOVEA_ACTIVATION_NONE, true}};
  return list;
}

struct PackedDeleter {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};

struct LinearData {
  Buffer x, weight, bias, residual, out;
  ReadRegion weight_region;

  explicit LinearData(const LinearShape &s)
      : x(normals(s.m * s.k)),
        weight(normals(s.n * s.k)),
        bias(normals(s.n)),
        residual(normals(s.m * s.n)),
        out(zeros(s.m * s.n)),
        weight_region(weight.data(), weight.bytes()) {}
};

std::function<void()> call(const LinearShape &s, const std::shared_ptr<LinearData> &data, const std::string &isa,
                           int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  fovea_packed_matrix *made = nullptr;
  const fovea_tensor weight = tensor(data->weight.floats(), {s.n, s.k});
  check(fovea_linear_pack(context.get(), &weight, nullptr, &made));
  const std::shared_ptr<fovea_packed_matrix> packed(made, PackedDeleter{});
  return [=] {
    const fovea_tensor x = tensor(data->x.floats(), {s.m, s.k}), out = tensor(data->out.floats(), {s.m, s.n});
    const fovea_tensor bias = tensor(data->bias.floats(), {s.n}),
                       residual = tensor(data->residual.floats(), {s.m, s.n});
    const fovea_linear_options options = {sizeof options, s.activation, 0, &bias, s.residual ? &residual : nullptr,
                                          nullptr};
    check(fovea_linear(context.get(), &x, packed.get(), &out, &options));
  };
}

Prepared prepare(const LinearShape &shape, const Variant &variant) {
  const auto data = data_of<LinearData>(shape);
  Prepared prepared;
  prepared.run = call(shape, data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(shape, data, variant.isa, 1);
  prepared.shortest_seconds = [=, flops = product_flops(shape)] {
    const double arithmetic = flops / multiply_add_rate(variant.isa, variant.threads, probe_seconds());
    if (product_bound(shape) == Bound::flops) return arithmetic;
    const double rate = data->weight_region.rate(variant.isa, variant.threads, probe_seconds());
    return std::max(arithmetic, static_cast<double>(data->weight.bytes()) / rate);
  };
  return prepared;
}

}  // namespace

void add_linear(Cases *list) {
  const std::map<int32_t, const char *> activations = {{FOVEA_ACTIVATION_NONE, nullptr},
                                                       {FOVEA_ACTIVATION_GELU, "gelu"},
                                                       {FOVEA_ACTIVATION_GELU_TANH, "gelu_tanh"},
                                                       {FOVEA_ACTIVATION_SILU, "silu"},
                                                       {FOVEA_ACTIVATION_RELU, "relu"}};
  for (const LinearShape &shape : shapes()) {
    std::vector<Parameter> parameters = product_parameters(shape);
    parameters.insert(parameters.end(), {{"packed", true},
                                         {"bias", true},
                                         {"activation", activations.at(shape.activation)},
                                         {"residual", shape.residual}});
    list->push_back({.operation = "linear",
                     .model = product_name(shape) + "_" + shape.name,
                     .bound = product_bound(shape),
                     .work = product_work(shape),
                     .parameters = parameters,
                     .prepare = [&shape](const Variant &variant) { return prepare(shape, variant); }});
  }
}

}  // namespace fovea_bench
