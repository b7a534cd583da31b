// How a case is measured, and the small tools that the bench files share.
//
// A machine that serves others too runs at half speed for a second at a time. So a case is measured in blocks of
//   probe of the limit, the case (30 ms or more), probe of the limit again, and for t > 1 the case on one thread
// and each block gives one ratio of neighbours. Reported are medians over the blocks:
//   Time       one run of the case
//   the rate   GFLOP/s, GB/s or GElem/s at that time
//   share      the time that the machine's limit allows, measured by the probes, over the time taken: 1 is the limit
//   limit      the rate at which share would be 1
//   scaling    time on one thread over time on t threads
//   workspace  scratch bytes of the plan
// With FOVEA_BENCH_QUICK set to anything but 0 the blocks are few and tiny: only to see that everything runs.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.h"
#include "harness/cases.hpp"

namespace fovea_bench {

// Has Google Benchmark measure all cases, each in every way it runs in.
void register_benchmarks();
std::vector<std::string> benchmark_names();
void set_selected(int count);  // how many will run, for the progress on stderr

// Roughly how long it takes to measure those that `selected` holds true for, on a machine that does nothing else.
double estimated_seconds(const std::function<bool(const std::string &)> &selected);

struct Medians {
  double seconds, share, scaling;  // scaling is 0 if not wanted
};
Medians measure(const Prepared &prepared);
const char *rate_name(Bound bound);

bool quick();
double seconds_of(const std::function<void()> &run, int64_t times);
int64_t runs_that_fill(double seconds, const std::function<void()> &run);  // found on a warm machine
double probe_seconds();

// Throws std::runtime_error with fovea's message unless status is FOVEA_OK.
void check(fovea_status status);

struct ContextDeleter {
  void operator()(fovea_context *context) const { fovea_context_destroy(context); }
};
using Context = std::unique_ptr<fovea_context, ContextDeleter>;
Context make_context(const std::string &isa, int threads);

struct PlanDeleter {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
};
using Plan = std::unique_ptr<fovea_plan, PlanDeleter>;

// Page-aligned memory; bytes may be 0.
class Buffer {
 public:
  explicit Buffer(size_t bytes = 0);
  size_t bytes() const { return bytes_; }
  float *floats() const { return static_cast<float *>(data_.get()); }
  void *data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void *data) const { std::free(data); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
};

Buffer zeros(int64_t count, fovea_dtype dtype = FOVEA_F32);
Buffer normals(
    int64_t count,
    fovea_dtype dtype = FOVEA_F32);  // standard normal up to about 3.5 sigma, the same million numbers every time

fovea_tensor tensor(const void *data, std::initializer_list<int64_t> shape, fovea_dtype dtype = FOVEA_F32);

size_t element_bytes(fovea_dtype dtype);  // of floats

// count whole numbers from first to last, evenly spread.
std::vector<int32_t> evenly(int64_t count, int64_t first, int64_t last);

}  // namespace fovea_bench
