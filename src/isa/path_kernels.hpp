// The structs through which the drivers of a path are called.
#pragma once

#include "isa/unit.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Driver>
void run_driver(const ScoreFunction &score, const AttentionTask &task) {
  Driver(score, task).run();
}

template <class Path>
int64_t passes_floats(const ScoreFunction &score, int64_t head_dim, bool copies) {
  return max_of(WeightsDriver<Path>::scratch_floats(score, head_dim, copies),
                ScoresDriver<Path>::scratch_floats(score, head_dim, copies));
}

template <class Path>
constexpr PathKernels few_rows_kernels = {.attend = run_driver<AttentionDriver<Path>>,
                                          .attend_floats = AttentionDriver<Path>::scratch_floats,
                                          .passes_floats = nullptr,
                                          .weights = nullptr,
                                          .scores = nullptr,
                                          .kept_bytes = nullptr};

template <class Path>
constexpr PathKernels many_rows_kernels = {.attend = run_driver<AttentionDriver<Path>>,
                                           .attend_floats = AttentionDriver<Path>::scratch_floats,
                                           .passes_floats = passes_floats<Path>,
                                           .weights = run_driver<WeightsDriver<Path>>,
                                           .scores = run_driver<ScoresDriver<Path>>,
                                           .kept_bytes = AttentionDriver<Path>::kept_bytes};

}  // namespace
}  // namespace fovea::FOVEA_ISA
