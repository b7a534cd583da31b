// Benchmarks of softmax over an axis that is not the last, softmax_over_axis/<element
// type>/<outer>x<keys>x<inner>/<instruction set>/t<threads>, and its logarithm over the last one, log_softmax/<element
// type>/<rows>x<keys>/...
//
// What bounds them: from memory, bytes, each number read and written once; from caches, exponentials, of which results
// of 16 bits take two for each number over another axis. The limit is the time in which memcpy moves as many bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct AxisCase {
  const char *name;
  int64_t outer, keys, inner;  // inner 1: over the last axis
  bool log;
  fovea_dtype dtype = FOVEA_F32;

  int64_t elements() const { return outer * keys * inner; }
  double bytes() const { return 2.0 * static_cast<double>(elements()) * static_cast<double>(element_bytes(dtype)); }
};

constexpr AxisCase axis_cases[] = {
    {"1x21x262144", 1, 21, 262144, false},  // classes of an image's points
    {"64x128x128", 64, 128, 128, false},    // scores over queries
    {"64x128x128", 64, 128, 128, false, FOVEA_BF16},
    {"64x32000", 64, 32000, 1, true},  // a language model's words
    {"64x32000", 64, 32000, 1, true, FOVEA_BF16},
};

Prepared prepare(const AxisCase &what, const Variant &variant) {
  const auto x = std::make_shared<Buffer>(normals(what.elements(), what.dtype));
  const auto out = std::make_shared<Buffer>(zeros(what.elements(), what.dtype));
  const auto call = [=, &what](int threads) {
    const std::shared_ptr<fovea_context> context = make_context(variant.isa, threads);
    const fovea_tensor from = tensor(x->data(), {what.outer, what.keys, what.inner}, what.dtype);
    const fovea_tensor to = tensor(out->data(), {what.outer, what.keys, what.inner}, what.dtype);
    const fovea_tensor rows = tensor(x->data(), {what.outer, what.keys}, what.dtype);
    const fovea_tensor logs = tensor(out->data(), {what.outer, what.keys}, what.dtype);
    return std::function<void()>([=, keep = std::make_pair(x, out), log = what.log] {
      check(log ? fovea_log_softmax(context.get(), &rows, -1, &logs) : fovea_softmax(context.get(), &from, 1, &to));
    });
  };
  Prepared prepared;
  prepared.run = call(variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(1);
  prepared.shortest_seconds = [=, bytes = what.bytes()] {
    return bytes / copy_rate(out->data(), x->data(), x->bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_softmax(Cases *list) {
  for (const AxisCase &what : axis_cases)
    list->push_back({.operation = what.log ? "log_softmax" : "softmax_over_axis",
                     .model = what.name,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes(), .elements = static_cast<double>(what.elements())},
                     .parameters = {{"outer", what.outer}, {"keys", what.keys}, {"inner", what.inner}},
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what](const Variant &variant) { return prepare(what, variant); }});
}

}  // namespace fovea_bench
