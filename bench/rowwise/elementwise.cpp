// Benchmarks of exp, tanh and the activations silu and gelu, exp/<element type>/4096/<instruction set>/t1. Their 4096
// numbers are 16 KB of floats in and as much out, both in L1, on one core; 262144 come from L2 and beyond.
//
// What bounds them: instructions per vector on the two ports that also do multiply-add. With AVX-512 exp needs 11, tanh
// 18, seven of them tables; elsewhere exp about 18 and tanh 30, of which a division costs as much as 8 to 16 others.
// "slots" is what a vector really costs: the time per vector over the time of one multiply-add instruction, measured
// beside it. A call also pays for its checks, about 0.1 us. 16 bits add their conversions, two to widen bfloat16 and
// some nine to round to it.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

using Function = fovea_status (*)(const fovea_context *, const fovea_tensor *, const fovea_tensor *);

struct ElementwiseCase {
  const char *operation;
  Function function;
  int64_t count;
  fovea_dtype dtype;
};

template <int32_t kind>
fovea_status activation(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out) {
  return fovea_activation(context, kind, x, out);
}

constexpr ElementwiseCase elementwise_cases[] = {
    {"exp", fovea_exp, 4096, FOVEA_F32},
    {"exp", fovea_exp, 4096, FOVEA_BF16},
    {"exp", fovea_exp, 4096, FOVEA_F16},
    {"exp", fovea_exp, 262144, FOVEA_F32},
    {"tanh", fovea_tanh, 4096, FOVEA_F32},
    {"tanh", fovea_tanh, 4096, FOVEA_BF16},
    {"tanh", fovea_tanh, 4096, FOVEA_F16},
    {"tanh", fovea_tanh, 262144, FOVEA_F32},
    {"silu", activation<FOVEA_ACTIVATION_SILU>, 4096, FOVEA_F32},
    {"silu", activation<FOVEA_ACTIVATION_SILU>, 4096, FOVEA_BF16},
    {"gelu", activation<FOVEA_ACTIVATION_GELU>, 4096, FOVEA_F32},
};

Prepared prepare(const ElementwiseCase &what, const Variant &variant) {
  const std::shared_ptr<fovea_context> context = make_context(variant.isa, variant.threads);
  const auto x = std::make_shared<Buffer>(normals(what.count, what.dtype));
  const auto out = std::make_shared<Buffer>(zeros(what.count, what.dtype));
  Prepared prepared;
  prepared.run = [=] {
    const fovea_tensor x_view = tensor(x->data(), {what.count}, what.dtype);
    const fovea_tensor out_view = tensor(out->data(), {what.count}, what.dtype);
    check(what.function(context.get(), &x_view, &out_view));
  };
  prepared.share_as_slots = true;
  prepared.shortest_seconds = [variant, count = what.count] {
    const double vectors = static_cast<double>(count) / lanes_of(variant.isa);
    return vectors / instruction_rate(variant.isa, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_elementwise(Cases *list) {
  for (const ElementwiseCase &what : elementwise_cases)
    list->push_back(
        {.operation = what.operation,
         .model = std::to_string(what.count),
         .dtype = what.dtype,
         .bound = Bound::elements,
         .work = {.bytes = 2 * static_cast<double>(what.count) * static_cast<double>(element_bytes(what.dtype)),
                  .elements = static_cast<double>(what.count)},
         .parameters = {{"count", what.count}},
         .unit = benchmark::kMicrosecond,
         .one_thread_only = true,
         .prepare = [&what](const Variant &v) { return prepare(what, v); }});
}

}  // namespace fovea_bench
