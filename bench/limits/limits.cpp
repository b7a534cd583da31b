// SPDX-License-Identifier: Apache-2.0
#include "limits/limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "limits/kernels.hpp"

namespace fovea_bench {
namespace {

const LimitKernels &kernels_for(const std::string &isa) {
  if (isa == "base") return limits_base;
#if defined(__x86_64__)
  if (isa == "avx2") return limits_avx2;
  if (isa == "avx512" || isa == "amx") return limits_avx512;
#endif
  throw std::runtime_error("no limit is known for the instruction set " + isa);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Each thread calls work(thread) until `seconds` have passed since all of them were ready; work returns what it has
// done.
double summed_rate(int threads, double seconds, const std::function<double(int)> &work) {
  std::atomic<int> ready{0};
  std::vector<double> rates(static_cast<size_t>(threads));
  const auto body = [&](int thread) {
    ++ready;
    while (ready < threads) std::this_thread::yield();
    const double begin = now();
    double done = 0, elapsed = 0;
    do {
      done += work(thread);
      elapsed = now() - begin;
    } while (elapsed < seconds);
    rates[static_cast<size_t>(thread)] = done / elapsed;
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  for (auto &other : others) other.join();
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

std::atomic<float> sink;  // keeps the compiler from dropping a probe's result

}  // namespace

double multiply_add_rate(const std::string &isa, int threads, double seconds) {
  const LimitKernels &kernels = kernels_for(isa);
  constexpr int64_t steps = 10000;
  const double flops = 2.0 * steps * kernels.accumulators * kernels.lanes;
  return summed_rate(threads, seconds, [&](int) {
    sink = kernels.multiply_add(steps, 0.5f, 1.0f);
    return flops;
  });
}

double product_rate(const std::string &isa, int threads, double seconds) {
#if defined(__x86_64__)
  if (isa == "amx") {
    constexpr int64_t steps = 1000;
    constexpr double tile_products = 6;
    return summed_rate(threads, seconds, [](int) {
      multiply_tiles(steps);
      return 4 * steps * tile_product_flops / tile_products;
    });
  }
#endif
  return multiply_add_rate(isa, threads, seconds);
}

double bfloat16_rate(const std::string &isa, int threads, double seconds) {
#if defined(__x86_64__)
  constexpr int64_t steps = 1000;
  if (isa == "amx") {
    return summed_rate(threads, seconds, [](int) {
      multiply_tiles(steps);
      return 4 * steps * tile_product_flops;
    });
  }
  if (isa == "avx512" && __builtin_cpu_supports("avx512bf16")) {
    return summed_rate(threads, seconds, [](int) {
      multiply_pairs(steps);
      return steps * pair_step_flops;
    });
  }
#endif
  return multiply_add_rate(isa, threads, seconds);
}

double instruction_rate(const std::string &isa, double seconds) {
  const LimitKernels &kernels = kernels_for(isa);
  const double steps_per_second = multiply_add_rate(isa, 1, seconds) / (2.0 * kernels.accumulators * kernels.lanes);
  return steps_per_second * kernels.instructions_per_step;
}

int lanes_of(const std::string &isa) { return kernels_for(isa).lanes; }

double ReadRegion::rate(const std::string &isa, int threads, double seconds) {
  const LimitKernels &kernels = kernels_for(isa);
  // Small regions are cut finer so that every thread has several slices. A slice is a multiple of 256 floats.
  constexpr size_t largest = size_t{256} << 10, unit = 1024;
  const size_t slice = std::clamp(bytes_ / (static_cast<size_t>(threads) * 8) / unit * unit, unit, largest);
  const size_t slices = bytes_ / slice;
  if (slices == 0) throw std::runtime_error("a read region needs at least 1024 bytes");
  std::atomic<size_t> next{cursor_ / slice};
  const double result = summed_rate(threads, seconds, [&](int) {
    const char *from = data_ + next.fetch_add(1) % slices * slice;
    sink = kernels.read(reinterpret_cast<const float *>(from), slice / sizeof(float));
    return static_cast<double>(slice);
  });
  set_cursor(next * slice);
  return result;
}

double copy_rate(void *to, const void *from, size_t bytes, int threads, double seconds) {
  const size_t part = bytes / static_cast<size_t>(threads);
  return summed_rate(threads, seconds, [&](int thread) {
    const size_t offset = static_cast<size_t>(thread) * part;
    std::memcpy(static_cast<char *>(to) + offset, static_cast<const char *>(from) + offset, part);
    return 2.0 * static_cast<double>(part);
  });
}

size_t cold_bytes() {
  size_t bytes = 1500000000;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (level3 > 0) bytes = std::max(bytes, 4 * static_cast<size_t>(level3));
#endif
  const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) bytes = std::min(bytes, static_cast<size_t>(pages) * static_cast<size_t>(page) / 2);
  return bytes;
}

}  // namespace fovea_bench
