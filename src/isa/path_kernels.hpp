// The structs through which the workers of a path are called.
#pragma once

#include "isa/unit.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Worker>
void run_worker(const ScoreFunction &score, const AttentionTask &task) {
  Worker(score, task).run();
}

template <class Path>
int64_t passes_floats(const ScoreFunction &score, int64_t head_dim, bool copies) {
  return max_of(WeightsWorker<Path>::scratch_floats(score, head_dim, copies),
                ScoresWorker<Path>::scratch_floats(score, head_dim, copies));
}

template <class Path>
constexpr PathKernels few_rows_kernels = {.attend = run_worker<AttentionWorker<Path>>,
                                          .attend_floats = AttentionWorker<Path>::scratch_floats,
                                          .passes_floats = nullptr,
                                          .weights = nullptr,
                                          .scores = nullptr,
                                          .kept_bytes = nullptr};

template <class Path>
constexpr PathKernels many_rows_kernels = {.attend = run_worker<AttentionWorker<Path>>,
                                           .attend_floats = AttentionWorker<Path>::scratch_floats,
                                           .passes_floats = passes_floats<Path>,
                                           .weights = run_worker<WeightsWorker<Path>>,
                                           .scores = run_worker<ScoresWorker<Path>>,
                                           .kept_bytes = AttentionWorker<Path>::kept_bytes};

}  // namespace
}  // namespace fovea::FOVEA_ISA
