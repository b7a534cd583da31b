// SPDX-License-Identifier: Apache-2.0
#include "harness/harness.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fovea/tensor.hpp>
#include <map>
#include <new>
#include <stdexcept>

#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

double block_seconds() { return quick() ? 0.001 : 0.03; }
int blocks_of(double run_seconds) { return quick() ? 2 : run_seconds > 0.5 ? 5 : run_seconds > 0.1 ? 7 : 11; }

}  // namespace

Medians measure(const Prepared &prepared) {
  const int64_t runs = runs_that_fill(block_seconds(), prepared.run);
  const int64_t single_runs =
      prepared.run_on_one_thread ? runs_that_fill(block_seconds(), prepared.run_on_one_thread) : 0;
  const int blocks = blocks_of(seconds_of(prepared.run, 1));
  std::vector<double> seconds, shares, scalings;
  for (int block = 0; block < blocks; ++block) {
    const double before = prepared.shortest_seconds ? prepared.shortest_seconds() : 0;
    const double taken = seconds_of(prepared.run, runs) / static_cast<double>(runs);
    const double after = prepared.shortest_seconds ? prepared.shortest_seconds() : 0;
    seconds.push_back(taken);
    shares.push_back(0.5 * (before + after) / taken);
    if (single_runs > 0) {
      const double single = seconds_of(prepared.run_on_one_thread, single_runs) / static_cast<double>(single_runs);
      scalings.push_back(single / taken);
    }
  }
  return {median(seconds), median(shares), scalings.empty() ? 0 : median(scalings)};
}

const char *rate_name(Bound bound) {
  return bound == Bound::flops ? "GFLOP/s" : bound == Bound::bytes ? "GB/s" : "GElem/s";
}

namespace {

void report(benchmark::State &state, const Case &what, const Prepared &prepared, const Medians &medians) {
  const double rate = what.work.in(what.bound) / medians.seconds * 1e-9;
  if (what.bound != Bound::none) state.counters[rate_name(what.bound)] = rate;
  if (what.padded.in(what.bound) > 0) state.counters["padded"] = what.padded.in(what.bound) / medians.seconds * 1e-9;
  if (prepared.shortest_seconds && prepared.share_as_slots) state.counters["slots"] = 1 / medians.share;
  if (prepared.shortest_seconds && !prepared.share_as_slots) {
    state.counters["share"] = medians.share;
    state.counters["limit"] = rate / medians.share;
  }
  if (prepared.run_on_one_thread) state.counters["scaling"] = medians.scaling;
  for (const auto &[name, value] : prepared.counters) state.counters[name] = value;
}

int selected = 0, started = 0;

void run_benchmark(benchmark::State &state, const std::string &name, const Case &what, const Variant &variant) {
  std::fprintf(stderr, "[%d/%d] %s\n", ++started, selected, name.c_str());
  try {
    const Prepared prepared = what.prepare(variant);
    const Medians medians = measure(prepared);
    for (auto _ : state) state.SetIterationTime(medians.seconds);
    report(state, what, prepared, medians);
  } catch (const std::exception &error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace

namespace {

// What a thread is taken to reach: estimates are for a person who waits. Arithmetic runs at two thirds of the probe's
// rate.
constexpr double assumed_bytes_per_second = 2e10, assumed_flops_per_element = 8, filled_floats_per_second = 5e8;

double estimated_run(const Case &what, const Variant &variant) {
  static std::map<std::string, double> rates;
  double &rate = rates[variant.isa];
  if (rate == 0) rate = 0.67 * multiply_add_rate(variant.isa, 1, 0.005);
  const Work &work = what.work;
  const double arithmetic = (work.flops + work.elements * assumed_flops_per_element) / (rate * variant.threads);
  return std::max(arithmetic, work.bytes / assumed_bytes_per_second) + 1e-6;
}

// As measure() goes about it.
double estimated_measuring(const Case &what, const Variant &variant) {
  const double run = estimated_run(what, variant), block = std::max(block_seconds(), run);
  const double single = variant.threads > 1 ? std::max(block_seconds(), run * variant.threads) : 0;
  const double probes_of_limit = what.bound == Bound::none ? 0 : what.bound == Bound::flops ? 2 : 4;
  return blocks_of(run) * (block + single + probes_of_limit * probe_seconds()) +
         (run > block_seconds() ? 2 : 4) * (block + single);
}

}  // namespace

double estimated_seconds(const std::function<bool(const std::string &)> &selected) {
  double seconds = 0;
  for (const Case &what : cases()) {
    bool prepared = false;
    for (const Variant &variant : variants_of(what)) {
      if (!selected(what.name() + variant.suffix())) continue;
      seconds += estimated_measuring(what, variant);
      if (!prepared) seconds += what.work.bytes / sizeof(float) / filled_floats_per_second;
      prepared = true;
    }
  }
  return seconds;
}

double seconds_of(const std::function<void()> &run, int64_t times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int64_t runs_that_fill(double seconds, const std::function<void()> &run) {
  int64_t runs = 1;
  double elapsed = seconds_of(run, 1);
  while (elapsed < seconds) {
    elapsed = seconds_of(run, runs);
    if (elapsed >= seconds) break;
    const double wanted = 1.2 * static_cast<double>(runs) * seconds / std::max(elapsed, 1e-7);
    runs = std::max(runs + 1, static_cast<int64_t>(std::ceil(wanted)));
  }
  return runs;
}

void register_benchmarks() {
  for (const Case &what : cases()) {
    for (const Variant &variant : variants_of(what)) {
      const std::string name = what.name() + variant.suffix();
      const auto run = [name, &what, variant](benchmark::State &state) { run_benchmark(state, name, what, variant); };
      benchmark::RegisterBenchmark(name.c_str(), run)->Unit(what.unit)->Iterations(1)->UseManualTime();
    }
  }
}

std::vector<std::string> benchmark_names() {
  std::vector<std::string> names;
  for (const Case &what : cases())
    for (const Variant &variant : variants_of(what)) names.push_back(what.name() + variant.suffix());
  return names;
}

void set_selected(int count) { selected = count; }

bool quick() {
  static const char *value = std::getenv("FOVEA_BENCH_QUICK");
  return value && *value && std::strcmp(value, "0") != 0;
}

double probe_seconds() { return quick() ? 0.001 : 0.02; }

void check(fovea_status status) {
  if (status != FOVEA_OK) throw std::runtime_error(std::string(fovea_status_name(status)) + ": " + fovea_last_error());
}

Context make_context(const std::string &isa, int threads) {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_threads = threads;
  options.max_isa = isa.c_str();
  fovea_context *context = nullptr;
  check(fovea_context_create(&options, &context));
  return Context(context);
}

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  constexpr size_t page = 4096;
  data_.reset(std::aligned_alloc(page, (bytes + page) / page * page));
  if (!data_) throw std::bad_alloc();
}

size_t element_bytes(fovea_dtype dtype) { return dtype == FOVEA_F32 ? 4 : 2; }

Buffer zeros(int64_t count, fovea_dtype dtype) {
  Buffer buffer(static_cast<size_t>(count) * element_bytes(dtype));
  std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

Buffer normals(int64_t count, fovea_dtype dtype) {
  constexpr int64_t period = 1 << 20;  // then they repeat: filling memory would take longer than measuring
  const size_t size = element_bytes(dtype);
  Buffer buffer(static_cast<size_t>(count) * size);
  auto *bytes = static_cast<char *>(buffer.data());
  static uint32_t seed = 2463534242u;  // each buffer has numbers of its own: a query is not its key, nor its weight
  seed += 2654435770u;
  uint32_t state = seed;  // xorshift32 (Marsaglia 2003); the sum of its four bytes is close to normal
  for (int64_t i = 0; i < std::min(count, period); ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    const uint32_t sum = (state & 255) + (state >> 8 & 255) + (state >> 16 & 255) + (state >> 24);
    const float number = (static_cast<float>(sum) - 510.0f) * (1.0f / 147.8f);
    const uint16_t bits = dtype == FOVEA_BF16 ? fovea::Bfloat16::from(number).bits : fovea::Float16::from(number).bits;
    const void *element = dtype == FOVEA_F32 ? static_cast<const void *>(&number) : &bits;
    std::memcpy(bytes + static_cast<size_t>(i) * size, element, size);
  }
  for (int64_t i = period; i < count; i += period)
    std::memcpy(bytes + static_cast<size_t>(i) * size, bytes, static_cast<size_t>(std::min(period, count - i)) * size);
  return buffer;
}

fovea_tensor tensor(const void *data, std::initializer_list<int64_t> shape, fovea_dtype dtype) {
  return fovea_tensor_contiguous(const_cast<void *>(data), dtype, static_cast<int32_t>(shape.size()), shape.begin());
}

std::vector<int32_t> evenly(int64_t count, int64_t first, int64_t last) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double step = count > 1 ? static_cast<double>(last - first) / static_cast<double>(count - 1) : 0;
    values[static_cast<size_t>(i)] =
        static_cast<int32_t>(std::lround(static_cast<double>(first) + step * static_cast<double>(i)));
  }
  return values;
}

}  // namespace fovea_bench
