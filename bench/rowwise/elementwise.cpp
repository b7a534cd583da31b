// exp and tanh of 4096 floats, exp/f32/4096/<instruction set>/t1: 16 KB in and 16 KB out, both in L1, on one core.
//
// What bounds them: instructions per vector on the two ports that also do multiply-add. exp needs about 12 (two to
// split x = n ln 2 + r, two for r, six for the polynomial, two for the scaling and the range); tanh about 25, of which
// a division costs as much as 8 to 16 others. "slots" is what a vector really costs: the time per vector over the time
// of one multiply-add instruction, measured beside it. A call also pays for its checks, about 0.1 us.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

using Function = fovea_status (*)(const fovea_context *, const fovea_tensor *, const fovea_tensor *);
constexpr int64_t count = 4096;

Prepared prepare(Function function, const Variant &variant) {
  const std::shared_ptr<fovea_context> context = make_context(variant.isa, variant.threads);
  const auto x = std::make_shared<Buffer>(normals(count)), out = std::make_shared<Buffer>(zeros(count));
  Prepared prepared;
  prepared.run = [=] {
    const fovea_tensor x_view = tensor(x->floats(), {count}), out_view = tensor(out->floats(), {count});
    check(function(context.get(), &x_view, &out_view));
  };
  prepared.share_as_slots = true;
  prepared.shortest_seconds = [variant] {
    const double vectors = static_cast<double>(count) / lanes_of(variant.isa);
    return vectors / instruction_rate(variant.isa, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_elementwise(Cases *list) {
  const std::pair<const char *, Function> functions[] = {{"exp", fovea_exp}, {"tanh", fovea_tanh}};
  for (const auto &[name, function] : functions)
    list->push_back({.operation = name,
                     .model = std::to_string(count),
                     .bound = Bound::elements,
                     .work = {.bytes = 2 * sizeof(float) * count, .elements = count},
                     .parameters = {{"count", count}},
                     .unit = benchmark::kMicrosecond,
                     .one_thread_only = true,
                     .prepare = [function = function](const Variant &v) { return prepare(function, v); }});
}

}  // namespace fovea_bench
