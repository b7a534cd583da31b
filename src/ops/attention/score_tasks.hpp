// The tasks of what a score function does before attention itself.
#pragma once

#include <optional>

#include "ops/attention/plan.hpp"

namespace fovea {

// Norms of rows of keys.
struct NormTasks {
  const Kernels *kernels;
  const AttentionProblem *problem;
  float *norms;

  int64_t count() const;
  void run(int64_t task) const;
};

// Rows in another element type, [batch][head][length][dim].
struct CopyTasks {
  const Kernels *kernels;
  RowCopy copy;
  const void *data;  // of what is given
  int64_t batch;
  void *to;
  double factor;  // a power of two, of rows that become float32

  int64_t count() const;
  void run(int64_t task) const;

 private:
  void copy_run(const RowRun &run, void *rows) const;
};

// Rows of hidden units that were kept, as kernels read them: padded, keys as tangents or exponentials.
struct KeptTasks {
  const Kernels *kernels;
  KeptRows kept;
  int64_t batch, units;
  float *to;     // [batch][heads][length] rows of padded_units(units)
  float *reach;  // of each row: they are keys'; else null

  int64_t count() const;
  void run(int64_t task) const;
};

class ScoreTasks {
 public:
  // memory: plan.score.layout.size() bytes on a cache line. The problem has been bound to it.
  ScoreTasks(const AttentionPlan &plan, const AttentionCall &call, char *memory, const AttentionProblem &problem);

  // The list borrows *this and the problem.
  void add_to(TaskList *list) const;

 private:
  std::optional<CopyTasks> query_copy_, key_copy_, value_copy_;
  std::optional<NormTasks> norms_;
  std::optional<KeptTasks> kept_query_, kept_key_;
  std::optional<ProductTasks> query_, key_;
};

}  // namespace fovea
