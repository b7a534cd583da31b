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

// By a power of two. Finite numbers stay finite.
void multiply(float *x, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) {
    const auto product = static_cast<float>(static_cast<double>(x[i]) * factor);
    x[i] = std::isinf(product) && !std::isinf(x[i]) ? std::copysign(FLT_MAX, product) : product;
  }
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
  const HeadRows &keys = problem->key;
  kernels->attention_of(ScoreKind::gaussian)
      .squared_norms({.rows = element_at(keys.head(head / problem->sizes.kv_heads, head % problem->sizes.kv_heads),
                                         keys.dtype, begin * keys.strides.position),
                      .dtype = keys.dtype,
                      .stride = problem->key.strides.position,
                      .count = std::clamp<int64_t>(last - begin, 0, norms_per_task),
                      .dim = problem->sizes.compared_dim,
                      .out = norms + head * problem->sizes.key_len + begin});
}

int64_t CopyTasks::count() const { return batch * copy.heads * ceil_div(copy.length, copied_per_task); }

void CopyTasks::run(int64_t task) const {
  const int64_t blocks = ceil_div(copy.length, copied_per_task);
  const int64_t begin = task % blocks * copied_per_task;
  const int64_t head = task / blocks;
  HeadRows given = copy.given;
  given.data = data;
  const int64_t stride = given.strides.position;
  const void *from = element_at(given.head(head / copy.heads, head % copy.heads), given.dtype, begin * stride);
  void *rows = element_at(to, copy.dtype, (head * copy.length + begin) * copy.dim);
  const int64_t count = std::min(copied_per_task, copy.length - begin);
  if (copy.dtype == Dtype::f32) {
    kernels->rowwise->widen_rows(from, given.dtype, stride, count, copy.dim, static_cast<float *>(rows), copy.dim);
    if (factor != 1.0) multiply(static_cast<float *>(rows), count * copy.dim, factor);
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    const void *row = element_at(from, given.dtype, r * stride);
    void *its = element_at(rows, copy.dtype, r * copy.dim);
    if (given.dtype == copy.dtype) {
      std::memcpy(its, row, static_cast<size_t>(copy.dim) * dtype_size(copy.dtype));
    } else {
      kernels->rowwise->narrow_row(static_cast<const float *>(row), copy.dim, its, copy.dtype);
    }
  }
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
  const fovea_prepared_keys *prepared = score.prepared;
  if (score.projects_query) {
    const float *bias = call.present[score_bias_operand] ? score.bias.in(memory) : nullptr;
    query_.emplace(
        score.query,
        ProductData{.x = query,
                    .matrix = prepared != nullptr ? nullptr : query_weight_data(call),
                    .panels = prepared != nullptr ? prepared->query_panels : score.query_panels.in(memory),
                    .out = score.query_rows.in(memory),
                    .finish = finish_of(kernels, score.query, prepared != nullptr ? prepared->bias : bias, nullptr)},
        plan.workers);
  }
  if (score.projects_key) {
    float *reach = score.compares == ScoreKind::additive ? key_scalars : nullptr;
    key_.emplace(score.key,
                 ProductData{.x = key,
                             .matrix = key_weight_data(call, problem.sizes.head_dim),
                             .panels = score.key_panels.in(memory),
                             .out = score.key_rows.in(memory),
                             .finish = finish_of(kernels, score.key, nullptr, reach),
                             .problem = &problem},
                 plan.workers);
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
