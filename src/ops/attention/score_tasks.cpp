#include "ops/attention/score_tasks.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "ops/tensors/copy.hpp"
#include "ops/tensors/dtype.hpp"

namespace fovea {
namespace {

constexpr int64_t norms_per_task = 256;
constexpr int64_t copied_per_task = 256;

void set_score_vector(const float *vector, const ScoreVectorFacts &facts, AttentionProblem *problem) {
  problem->score.vector = vector;
  problem->score.least_reach = facts.least_reach;
  problem->score.takes_tangents = facts.takes_tangents;
}

void copy_score_vector(const Kernels &kernels, const AttentionCall &call, float *vector, AttentionProblem *problem) {
  const int64_t units = problem->sizes.head_dim;
  std::fill(vector + units, vector + padded_units(units), 0.0f);
  gather_floats(kernels, call.tensor[score_vector_operand], vector);
  set_score_vector(vector, score_vector_facts(vector, units), problem);
}

void invert_widths(const AttentionCall &call, float *widths, AttentionProblem *problem) {
  gather(call.tensor[sigmas_operand], widths);
  for (int64_t head = 0; head < problem->sizes.heads; ++head) widths[head] = inverse_square(widths[head]);
  problem->score.inverse_squares = widths;
}

// By a power of two. Finite numbers stay finite.
void multiply(float *x, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) {
    const auto product = static_cast<float>(static_cast<double>(x[i]) * factor);
    x[i] = std::isinf(product) && !std::isinf(x[i]) ? std::copysign(FLT_MAX, product) : product;
  }
}

// Everything but the queries.
void use_prepared(const fovea_prepared_keys &keys, AttentionProblem *problem) {
  problem->key.data = keys.rows;
  problem->score.key_scalars = keys.reach;
  if (problem->score.kind == ScoreKind::additive) set_score_vector(keys.score_vector, keys.score_vector_facts, problem);
}

}  // namespace

int64_t NormTasks::count() const {
  return problem->sizes.batch * problem->sizes.kv_heads * ceil_div(problem->sizes.key_len, norms_per_task);
}

void NormTasks::run(int64_t task) const {
  const int64_t blocks = ceil_div(problem->sizes.key_len, norms_per_task);
  const int64_t begin = task % blocks * norms_per_task;
  const int64_t head = task / blocks;
  const int64_t last = problem->outputs.wants_all_keys() ? problem->sizes.key_len
                                                         : longest_valid_len(*problem, head / problem->sizes.kv_heads);
  float *out = norms + head * problem->sizes.key_len;
  problem->key.for_each_run(head / problem->sizes.kv_heads, head % problem->sizes.kv_heads, begin,
                            std::clamp<int64_t>(last - begin, 0, norms_per_task),
                            [&](const RowRun &run, int64_t first) {
                              kernels->attention_of(ScoreKind::gaussian)
                                  .squared_norms({.rows = run.first,
                                                  .dtype = problem->key.dtype,
                                                  .stride = run.stride,
                                                  .count = run.count,
                                                  .dim = problem->sizes.head_dim,
                                                  .out = out + first});
                            });
}

int64_t CopyTasks::count() const { return batch * copy.heads * ceil_div(copy.length, copied_per_task); }

void CopyTasks::run(int64_t task) const {
  const int64_t blocks = ceil_div(copy.length, copied_per_task);
  const int64_t begin = task % blocks * copied_per_task;
  const int64_t head = task / blocks;
  HeadRows given = copy.given;
  given.data = data;
  given.for_each_run(head / copy.heads, head % copy.heads, begin, std::min(copied_per_task, copy.length - begin),
                     [&](const RowRun &run, int64_t first) {
                       copy_run(run, element_at(to, copy.dtype, (head * copy.length + first) * copy.dim));
                     });
}

void CopyTasks::copy_run(const RowRun &run, void *rows) const {
  const Dtype given = copy.given.dtype;
  if (copy.dtype == Dtype::f32) {
    kernels->rowwise->widen_rows(run.first, given, run.stride, run.count, copy.dim, static_cast<float *>(rows),
                                 copy.dim);
    if (factor != 1.0) multiply(static_cast<float *>(rows), run.count * copy.dim, factor);
    return;
  }
  for (int64_t r = 0; r < run.count; ++r) {
    const void *row = element_at(run.first, given, r * run.stride);
    void *its = element_at(rows, copy.dtype, r * copy.dim);
    if (given == copy.dtype) {
      std::memcpy(its, row, static_cast<size_t>(copy.dim) * dtype_size(copy.dtype));
    } else {
      kernels->rowwise->narrow_row(static_cast<const float *>(row), copy.dim, its, copy.dtype);
    }
  }
}

ScoreTasks::ScoreTasks(const Kernels &kernels, int workers, const ScorePlan &plan, const AttentionCall &call,
                       char *memory, AttentionProblem *problem) {
  float *key_scalars = plan.key_scalars.in(memory);
  float *bias = call.present[score_bias_operand] ? plan.bias.in(memory) : nullptr;
  if (bias != nullptr) gather_floats(kernels, call.tensor[score_bias_operand], bias);
  if (plan.vector) copy_score_vector(kernels, call, plan.vector.in(memory), problem);
  if (plan.widths) invert_widths(call, plan.widths.in(memory), problem);
  if (plan.key_scalars) problem->score.key_scalars = key_scalars;
  if (plan.key_scalars && problem->score.kind == ScoreKind::gaussian) norms_ = {&kernels, problem, key_scalars};
  if (plan.prepared != nullptr) use_prepared(*plan.prepared, problem);
  const auto copies = [&](const RowCopy &copy, HeadRows *rows, std::optional<CopyTasks> *tasks) {
    if (!copy.memory) return;
    void *to = copy.memory.in(memory);
    *tasks = {&kernels, copy, rows->data, problem->sizes.batch, to, plan.point_factor};
    rows->data = to;
  };
  copies(plan.query_copy, &problem->query, &query_copy_);
  copies(plan.key_copy, &problem->key, &key_copy_);
  copies(plan.value_copy, &problem->value, &value_copy_);
  if (plan.projects_query) {
    const fovea_prepared_keys *prepared = plan.prepared;
    float *out = plan.query_rows.in(memory);
    query_.emplace(
        plan.query,
        ProductData{.x = problem->query.data,
                    .matrix = prepared != nullptr ? nullptr : query_weight_data(call),
                    .panels = prepared != nullptr ? prepared->query_panels : plan.query_panels.in(memory),
                    .out = out,
                    .finish = finish_of(kernels, plan.query, prepared != nullptr ? prepared->bias : bias, nullptr)},
        workers);
    problem->query.data = out;
  }
  if (plan.projects_key) {
    float *out = plan.key_rows.in(memory);
    float *reach = problem->score.kind == ScoreKind::additive ? key_scalars : nullptr;
    key_.emplace(plan.key,
                 ProductData{.x = problem->key.data,
                             .matrix = key_weight_data(call, plan.query_dim),
                             .panels = plan.key_panels.in(memory),
                             .out = out,
                             .finish = finish_of(kernels, plan.key, nullptr, reach),
                             .problem = problem},
                 workers);
    problem->key.data = out;
  }
}

void ScoreTasks::add_to(TaskList *list) const {
  for (const std::optional<CopyTasks> *copy : {&query_copy_, &key_copy_, &value_copy_}) {
    if (*copy) list->add((*copy)->count(), TaskBody::of<&CopyTasks::run>(**copy));
  }
  if (norms_ && key_copy_) list->start_stage();
  if (norms_) list->add(norms_->count(), TaskBody::of<&NormTasks::run>(*norms_));
  add_products({query_ ? &*query_ : nullptr, key_ ? &*key_ : nullptr}, list);
}

}  // namespace fovea
