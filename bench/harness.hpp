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

#include "cases.hpp"
#include "fovea/fovea.h"

namespace fovea_bench {

// Has Google Benchmark measure all cases, each in every way it runs in.
void register_benchmarks();
std::vector<std::string> benchmark_names();
void set_selected(int count);  // how many will run, for the progress on stderr

struct Medians {
  double seconds, share, scaling;  // scaling is 0 if not wanted
};
Medians measure(const Prepared &prepared);
const char *rate_name(Bound bound);

// Measures a few cases that stand for all and prints them as a table, for the demo.
void print_overview();
