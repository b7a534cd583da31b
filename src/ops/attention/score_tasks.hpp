// What a score function has to do before attention itself, as tasks.
#pragma once

#include <optional>

#include "ops/attention/score_plan.hpp"

namespace fovea {

// Norms of rows of keys.
struct NormTasks {
  const Kernels *kernels;
  const AttentionProblem *problem;
  float *norms;

  int64_t count() const;
  void run(int64_t task) const;
};

// Rows of 16 bits as floats, [batch][head][length][dim].
struct WidenTasks {
  const Kernels *kernels;
  HeadRows from;
  int64_t batch, heads, length, dim;
  float *to;

  int64_t count() const;
  void run(int64_t task) const;
};

class ScoreTasks {
 public:
  // Points the problem at what the tasks will make, in plan.size bytes of memory on a cache line.
  ScoreTasks(const Kernels &kernels, int workers, const ScorePlan &plan, const AttentionCall &call, char *memory,
             AttentionProblem *problem);

  // The list borrows *this and the problem.
  void add_to(TaskList *list) const;

 private:
  std::optional<WidenTasks> wide_query_, wide_key_;
  std::optional<NormTasks> norms_;
  std::optional<ProductTasks> query_, key_;
};

}  // namespace fovea
