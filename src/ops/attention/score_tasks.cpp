#include "ops/attention/score_tasks.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "ops/tensors/dtype.hpp"

namespace fovea {
namespace {

constexpr int64_t norms_per_task = 256;
constexpr int64_t copied_per_task = 256;
constexpr int64_t kept_per_task = 64;

// By a power of two. Finite numbers stay finite.
void multiply(float *x, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) {
    const auto product = static_cast<float>(static_cast<double>(x[i]) * factor);
    x[i] = std::isinf(product) && !std::isinf(x[i]) ? std::copysign(FLT_MAX, product) : product;
  }
}

// Where the caller keeps what is projected.
KeptRows kept_rows(const KeptUnits &units, const AttentionCall &call, int operand, const AttentionProblem &problem) {
  if (!units.written && !units.read) return {};
  const bool keys = operand == projected_key_operand;
  const AttentionSizes &sizes = problem.sizes;
  return {.data = static_cast<float *>(call.tensor[operand].data),
          .strides = units.strides,
          .heads = keys ? sizes.kv_heads : sizes.heads,
          .length = keys ? sizes.key_len : sizes.query_len,
          .problem = keys ? &problem : nullptr};
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
                                                  .dim = problem->sizes.compared_dim,
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

int64_t KeptTasks::count() const { return batch * kept.heads * ceil_div(kept.length, kept_per_task); }

void KeptTasks::run(int64_t task) const {
  const int64_t blocks = ceil_div(kept.length, kept_per_task);
  const int64_t head = task / blocks, first = task % blocks * kept_per_task;
  const int64_t row = head * kept.length + first;
  kernels->attention_of(ScoreKind::additive)
      .finish_units({.rows = to + row * padded_units(units),
                     .count = kept.wanted(head, first, std::min(kept_per_task, kept.length - first)),
                     .step = 1,
                     .units = units,
                     .bias = nullptr,
                     .reach = reach == nullptr ? nullptr : reach + row,
                     .given = kept.row(head, first),
                     .given_stride = kept.strides.position});
}

ScoreTasks::ScoreTasks(const AttentionPlan &plan, const AttentionCall &call, char *memory,
                       const AttentionProblem &problem) {
  const ScorePlan &score = plan.score;
  const Kernels &kernels = *plan.kernels;
  float *key_scalars = score.key_scalars.in(memory);
  if (score.key_scalars && score.compares == ScoreKind::gaussian) norms_ = {&kernels, &problem, key_scalars};
  const auto ready = [&](const RowCopy &copy, int operand, std::optional<CopyTasks> *tasks) {
    const void *data = call.tensor[operand].data;
    if (!copy.memory) return data;
    void *to = copy.memory.in(memory);
    *tasks = {&kernels, copy, data, problem.sizes.batch, to, score.point_factor};
    return static_cast<const void *>(to);
  };
  const void *query = ready(score.query_copy, query_operand, &query_copy_);
  const void *key = ready(score.key_copy, key_operand, &key_copy_);
  ready(score.value_copy, value_operand, &value_copy_);
  const KeptRows query_rows = kept_rows(score.kept_query, call, projected_query_operand, problem);
  const KeptRows key_rows = kept_rows(score.kept_key, call, projected_key_operand, problem);
  const fovea_prepared_keys *prepared = score.prepared;
  if (score.kept_query.read) {
    kept_query_ = {&kernels, query_rows, problem.sizes.batch, score.compared_dim, score.query_rows.in(memory), nullptr};
  } else if (score.projects_query) {
    const float *own_bias = call.present[score_bias_operand] ? score.bias.in(memory) : nullptr;
    const float *bias = prepared != nullptr ? prepared->bias : own_bias;
    query_.emplace(score.query,
                   ProductData{.x = query,
                               .matrix = prepared != nullptr ? nullptr : query_weight_data(call),
                               .panels = prepared != nullptr ? prepared->query_panels : score.query_panels.in(memory),
                               .out = score.query_rows.in(memory),
                               .finish = finish_of(kernels, score.query, bias, nullptr, query_rows)},
                   plan.workers);
  }
  if (score.kept_key.read) {
    kept_key_ = {&kernels, key_rows, problem.sizes.batch, score.compared_dim, score.key_rows.in(memory), key_scalars};
  } else if (score.projects_key) {
    float *reach = score.compares == ScoreKind::additive ? key_scalars : nullptr;
    key_.emplace(score.key,
                 ProductData{.x = key,
                             .matrix = key_weight_data(call, problem.sizes.head_dim),
                             .panels = score.key_panels.in(memory),
                             .out = score.key_rows.in(memory),
                             .finish = finish_of(kernels, score.key, nullptr, reach, key_rows),
                             .problem = &problem},
                 plan.workers);
  }
}

void ScoreTasks::add_to(TaskList *list) const {
  for (const std::optional<CopyTasks> *copy : {&query_copy_, &key_copy_, &value_copy_}) {
    if (*copy) list->add((*copy)->count(), TaskBody::of<&CopyTasks::run>(**copy));
  }
  for (const std::optional<KeptTasks> *kept : {&kept_query_, &kept_key_}) {
    if (*kept) list->add((*kept)->count(), TaskBody::of<&KeptTasks::run>(**kept));
  }
  if (norms_ && key_copy_) list->start_stage();
  if (norms_) list->add(norms_->count(), TaskBody::of<&NormTasks::run>(*norms_));
  add_products({query_ ? &*query_ : nullptr, key_ ? &*key_ : nullptr}, list);
}

}  // namespace fovea
