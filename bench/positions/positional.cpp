// Positional encodings, add_positional_encoding/<element type>/<shape>/<instruction set>/t<threads> and
// rotary/<element type>/<shape>_<halves|interleaved>[_in_place]/<instruction set>/t<threads>.
//
// What bounds them: memory. Each element is read once and written once; the sines and cosines of a position are made
// once for all batch entries and heads. Where there is only one batch entry, as in 1x4096x4096, each serves one
// element: there are some 36 vector instructions for two registers of the result, and on the base set those are what
// bounds it. The limit is what memcpy of the same tensor takes; rotating in place touches half of the memory and may be
// faster. From a cache the arithmetic shows: a row of 128 features is 16 instructions, and its share of the sines and
// cosines 18 more where 8 heads share them (llama8b_key), against some 48 cycles of two Zen 4 cores that copy it.
// decode_batch_query is too little for a second thread.
//
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <numeric>

#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

struct PositionalCase {
  std::string model;
  std::vector<int64_t> shape;
  bool rotary, interleaved, in_place;
  fovea_dtype dtype = FOVEA_F32;

  int64_t count() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
  double bytes() const { return 2.0 * static_cast<double>(element_bytes(dtype)) * static_cast<double>(count()); }
};

constexpr int64_t first_position = 4095;

std::vector<PositionalCase> make_shapes() {
  std::vector<PositionalCase> list = {
      {"8x512x768", {8, 512, 768}, false, false, false},
      {"1x4096x4096", {1, 4096, 4096}, false, false, false},
  };
  const std::pair<const char *, std::vector<int64_t>> shapes[] = {{"llama8b_query", {1, 32, 2048, 128}},
                                                                  {"llama8b_key", {1, 8, 2048, 128}},
                                                                  {"decode_batch_query", {16, 32, 1, 128}}};
  for (const auto &[name, shape] : shapes) {
    for (const bool interleaved : {false, true}) {
      for (const bool in_place : {false, true}) {
        list.push_back({std::string(name) + (interleaved ? "_interleaved" : "_halves") + (in_place ? "_in_place" : ""),
                        shape, true, interleaved, in_place});
      }
    }
  }
  for (const fovea_dtype dtype : {FOVEA_BF16, FOVEA_F16}) {
    list.push_back({"8x512x768", {8, 512, 768}, false, false, false, dtype});
    for (const auto &[name, shape] : shapes)
      list.push_back({std::string(name) + "_halves", shape, true, false, false, dtype});
  }
  return list;
}

struct PositionalData {
  PositionalCase what;
  Buffer x, out;
  fovea_tensor x_view, out_view;

  explicit PositionalData(const PositionalCase &c)
      : what(c), x(normals(c.count(), c.dtype)), out(zeros(c.count(), c.dtype)) {
    const auto rank = static_cast<int32_t>(c.shape.size());
    x_view = fovea_tensor_contiguous(x.data(), c.dtype, rank, c.shape.data());
    out_view = c.in_place ? x_view : fovea_tensor_contiguous(out.data(), c.dtype, rank, c.shape.data());
  }
};

std::function<void()> call(std::shared_ptr<PositionalData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  if (!data->what.rotary) {
    return [data, context] {
      check(fovea_add_positional_encoding(context.get(), &data->x_view, &data->out_view, nullptr));
    };
  }
  fovea_rotary_options options{};
  options.struct_size = sizeof options;
  options.flags = data->what.interleaved ? FOVEA_ROTARY_INTERLEAVED : 0;
  options.offset = first_position;
  return [data, context, options] { check(fovea_rotary(context.get(), &data->x_view, &data->out_view, &options)); };
}

Prepared prepare(const PositionalCase &what, const Variant &variant) {
  const auto data = data_of<PositionalData>(what);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1);
  prepared.shortest_seconds = [=, bytes = what.bytes()] {
    return bytes / copy_rate(data->out.data(), data->x.data(), data->x.bytes(), variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_positional(Cases *list) {
  static const std::vector<PositionalCase> shapes = make_shapes();
  for (const PositionalCase &what : shapes) {
    std::vector<Parameter> parameters = {{"shape", what.shape}, {"in_place", what.in_place}};
    if (what.rotary)
      parameters.insert(parameters.end(), {{"interleaved", what.interleaved}, {"offset", first_position}});
    list->push_back({.operation = what.rotary ? "rotary" : "add_positional_encoding",
                     .model = what.model,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes()},
                     .parameters = parameters,
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what](const Variant &variant) { return prepare(what, variant); }});
  }
}

}  // namespace fovea_bench
