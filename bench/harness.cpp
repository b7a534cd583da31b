// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>

namespace fovea_bench {
namespace {

double seconds_of(const std::function<void()> &run, int64_t times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// Runs that fill a block, found on a warm machine.
int64_t runs_per_block(const std::function<void()> &run) {
  const double block = quick() ? 0.001 : 0.03;
  int64_t runs = 1;
  double elapsed = seconds_of(run, 1);
  while (elapsed < block) {
    elapsed = seconds_of(run, runs);
    if (elapsed >= block) break;
    runs = std::max(runs + 1, static_cast<int64_t>(std::ceil(1.2 * runs * block / std::max(elapsed, 1e-7))));
  }
  return runs;
}

struct Medians {
  double seconds, share, scaling;
};

Medians measure(const Prepared &prepared) {
  const int64_t runs = runs_per_block(prepared.run);
  const int64_t single_runs = prepared.run_on_one_thread ? runs_per_block(prepared.run_on_one_thread) : 0;
  const bool slow = seconds_of(prepared.run, 1) > 0.1;
  const int blocks = quick() ? 2 : slow ? 7 : 11;
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

void report(benchmark::State &state, const Prepared &prepared, const Medians &medians) {
  if (prepared.rate_name) state.counters[prepared.rate_name] = prepared.work / medians.seconds * 1e-9;
  if (prepared.work_padded > 0) state.counters["padded"] = prepared.work_padded / medians.seconds * 1e-9;
  if (prepared.shortest_seconds && prepared.share_as_slots) state.counters["slots"] = 1 / medians.share;
  if (prepared.shortest_seconds && !prepared.share_as_slots) {
    state.counters["share"] = medians.share;
    state.counters["limit"] = prepared.work / medians.seconds * 1e-9 / medians.share;
  }
  if (prepared.run_on_one_thread) state.counters["scaling"] = medians.scaling;
  for (const auto &[name, value] : prepared.counters) state.counters[name] = value;
}

std::vector<std::string> registered;
int selected = 0, started = 0;

}  // namespace

void set_selected(int count) { selected = count; }

void add(const std::string &name, benchmark::TimeUnit unit, std::function<Prepared()> prepare) {
  registered.push_back(name);
  benchmark::RegisterBenchmark(name.c_str(),
                               [name, prepare = std::move(prepare)](benchmark::State &state) {
                                 std::fprintf(stderr, "[%d/%d] %s\n", ++started, selected, name.c_str());
                                 try {
                                   const Prepared prepared = prepare();
                                   const Medians medians = measure(prepared);
                                   for (auto _ : state) state.SetIterationTime(medians.seconds);
                                   report(state, prepared, medians);
                                 } catch (const std::exception &error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Unit(unit)
      ->Iterations(1)
      ->UseManualTime();
}

const std::vector<std::string> &names() { return registered; }

bool quick() {
  static const char *value = std::getenv("FOVEA_BENCH_QUICK");
  return value && *value && std::strcmp(value, "0") != 0;
}

double probe_seconds() { return quick() ? 0.001 : 0.02; }

const std::vector<Variant> &variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> list;
    const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int32_t i = 0; const char *isa = fovea_isa_available(i); ++i) {
      list.push_back({isa, 1});
      if (most > 1) list.push_back({isa, most});
    }
    return list;
  }();
  return all;
}

std::vector<Variant> variants_but_amx() {
  std::vector<Variant> some;
  for (const Variant &variant : variants()) {
    if (variant.isa != "amx") some.push_back(variant);
  }
  return some;
}

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

Buffer zeros(int64_t count) {
  Buffer buffer(static_cast<size_t>(count) * sizeof(float));
  std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

Buffer normals(int64_t count) {
  Buffer buffer(static_cast<size_t>(count) * sizeof(float));
  uint32_t state = 2463534242u;  // xorshift32 (Marsaglia 2003); the sum of its four bytes is close to normal
  for (int64_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    const uint32_t sum = (state & 255) + (state >> 8 & 255) + (state >> 16 & 255) + (state >> 24);
    buffer.floats()[i] = (static_cast<float>(sum) - 510.0f) * (1.0f / 147.8f);
  }
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
