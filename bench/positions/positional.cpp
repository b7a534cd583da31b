// Benchmarks of positional encodings, add_positional_encoding/<element type>/<shape>/<instruction set>/t<threads> and
// rotary/<element type>/<shape>_<halves|interleaved>[_in_place|_frequencies|_sections|_table]/<instruction
// set>/t<threads>.
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

// Where rotary's cosines and sines come from.
enum class Turns { base, frequencies, sections, table };

struct PositionalCase {
  std::string model;
  std::vector<int64_t> shape;
  bool rotary, interleaved, in_place;
  fovea_dtype dtype = FOVEA_F32;
  Turns turns = Turns::base;

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
  const std::pair<const char *, Turns> models[] = {
      {"frequencies", Turns::frequencies}, {"sections", Turns::sections}, {"table", Turns::table}};
  for (const auto &[name, turns] : models) {
    list.push_back({std::string("llama8b_key_halves_") + name, shapes[1].second, true, false, false, FOVEA_F32, turns});
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
  std::vector<float> table;  // of frequencies; of cosines that serve as sines, too
  std::vector<int32_t> sections, positions;
  fovea_tensor table_view, sections_view, positions_view;

  explicit PositionalData(const PositionalCase &c)
      : what(c), x(normals(c.count(), c.dtype)), out(zeros(c.count(), c.dtype)) {
    make_models_tensors();
    const auto rank = static_cast<int32_t>(c.shape.size());
    x_view = fovea_tensor_contiguous(x.data(), c.dtype, rank, c.shape.data());
    out_view = c.in_place ? x_view : fovea_tensor_contiguous(out.data(), c.dtype, rank, c.shape.data());
  }

  fovea_rotary_options options() const {
    fovea_rotary_options options{};
    options.struct_size = sizeof options;
    options.flags = what.interleaved ? FOVEA_ROTARY_INTERLEAVED : 0;
    options.offset = first_position;
    if (what.turns == Turns::frequencies) options.frequencies = &table_view;
    if (what.turns == Turns::table) options.cosines = options.sines = &table_view;
    if (what.turns == Turns::sections) options.sections = &sections_view, options.positions = &positions_view;
    return options;
  }

 private:
  void make_models_tensors() {
    const int64_t pairs = what.shape.back() / 2, length = what.shape[what.shape.size() - 2];
    const int64_t table_shape[] = {first_position + length, pairs}, positions_shape[] = {3, length};
    const bool by_position = what.turns == Turns::table;
    table.assign(static_cast<size_t>((by_position ? table_shape[0] : 1) * pairs), 0.5f);
    for (int64_t j = 0; j < pairs; ++j) sections.push_back(static_cast<int32_t>(j % 3));
    for (int64_t n = 0; n < 3 * length; ++n) positions.push_back(static_cast<int32_t>(first_position + n % length));
    table_view = by_position ? fovea_tensor_contiguous(table.data(), FOVEA_F32, 2, table_shape)
                             : fovea_tensor_contiguous(table.data(), FOVEA_F32, 1, table_shape + 1);
    sections_view = fovea_tensor_contiguous(sections.data(), FOVEA_I32, 1, table_shape + 1);
    positions_view = fovea_tensor_contiguous(positions.data(), FOVEA_I32, 2, positions_shape);
  }
};

std::function<void()> call(std::shared_ptr<PositionalData> data, const std::string &isa, int threads) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  if (!data->what.rotary) {
    return [data, context] {
      check(fovea_add_positional_encoding(context.get(), &data->x_view, &data->out_view, nullptr));
    };
  }
  const fovea_rotary_options options = data->options();
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
