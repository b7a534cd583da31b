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

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/fovea.h"

namespace fovea_bench {

// A case with everything allocated, ready to run.
struct Prepared {
  std::function<void()> run;
  std::function<void()> run_on_one_thread;   // empty: no scaling is reported
  std::function<double()> shortest_seconds;  // probes the limit: the least time one run can take; empty: no share
  double work = 0;                           // per run, in units of rate_name
  double work_padded = 0;                    // > 0: "padded", the rate if all of a padded batch counted
  const char *rate_name = nullptr;           // "GFLOP/s", ...; NULL: only the time is of interest
  bool share_as_slots = false;  // shortest_seconds is one instruction per vector: report 1 / share as "slots" instead
  std::map<std::string, double> counters;  // reported as they are
};

// Registers a case. `prepare` is called when its turn comes, and what it returns is freed before the next case.
void add(const std::string &name, benchmark::TimeUnit unit, std::function<Prepared()> prepare);
const std::vector<std::string> &names();
void set_selected(int count);  // how many cases will run, for the progress on stderr

bool quick();
double probe_seconds();

// The combinations every case runs in: each instruction set of the machine, on one thread and on all of them.
struct Variant {
  std::string isa;
  int threads;
  std::string suffix() const { return "/" + isa + "/t" + std::to_string(threads); }
};
const std::vector<Variant> &variants();
std::vector<Variant> variants_but_amx();  // for what has no kernel of its own there: avx512's serve both

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

Buffer zeros(int64_t count);
Buffer normals(int64_t count);  // standard normal up to about 3.5 sigma, the same numbers every time

fovea_tensor tensor(const void *data, std::initializer_list<int64_t> shape, fovea_dtype dtype = FOVEA_F32);

// count whole numbers from first to last, evenly spread.
std::vector<int32_t> evenly(int64_t count, int64_t first, int64_t last);

void add_sdpa();
void add_scores();
void add_merge_states();
void add_masked_softmax();
void add_kv_cache();
void add_matmul();
void add_linear();
void add_multi_head();
void add_elementwise();
void add_positional();
void add_layer_norm();

}  // namespace fovea_bench
