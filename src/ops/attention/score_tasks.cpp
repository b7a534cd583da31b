#include "ops/attention/score_tasks.hpp"

#include <algorithm>

#include "ops/tensors/copy.hpp"

namespace fovea {
namespace {

constexpr int64_t norms_per_task = 256;
constexpr int64_t widened_per_task = 256;

void set_score_vector(const float *vector, const ScoreVectorFacts &facts, AttentionProblem *problem) {
  problem->score.vector = vector;
  problem->score.least_reach = facts.least_reach;
  problem->score.takes_tangents = facts.takes_tangents;
}

void copy_score_vector(const AttentionCall &call, float *vector, AttentionProblem *problem) {
  const int64_t units = problem->sizes.head_dim;
  std::fill(vector + units, vector + padded_units(units), 0.0f);
  gather(call.tensor[score_vector_operand], vector);
  set_score_vector(vector, score_vector_facts(vector, units), problem);
}

void invert_widths(const AttentionCall &call, float *widths, AttentionProblem *problem) {
  gather(call.tensor[sigmas_operand], widths);
  for (int64_t head = 0; head < problem->sizes.heads; ++head) widths[head] = inverse_square(widths[head]);
  problem->score.inverse_squares = widths;
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
  const HeadRows &keys = problem->key;
  kernels->attention_of(ScoreKind::gaussian)
      .squared_norms({.rows = element_at(keys.head(head / problem->sizes.kv_heads, head % problem->sizes.kv_heads),
                                         keys.dtype, begin * keys.strides.position),
                      .dtype = keys.dtype,
                      .stride = problem->key.strides.position,
                      .count = std::clamp<int64_t>(last - begin, 0, norms_per_task),
                      .dim = problem->sizes.head_dim,
                      .out = norms + head * problem->sizes.key_len + begin});
}

int64_t WidenTasks::count() const { return batch * heads * ceil_div(length, widened_per_task); }

void WidenTasks::run(int64_t task) const {
  const int64_t blocks = ceil_div(length, widened_per_task);
  const int64_t begin = task % blocks * widened_per_task;
  const int64_t head = task / blocks;
  kernels->rowwise->widen_rows(
      element_at(from.head(head / heads, head % heads), from.dtype, begin * from.strides.position), from.dtype,
      from.strides.position, std::min(widened_per_task, length - begin), dim, to + (head * length + begin) * dim, dim);
}

ScoreTasks::ScoreTasks(const Kernels &kernels, int workers, const ScorePlan &plan, const AttentionCall &call,
                       char *memory, AttentionProblem *problem) {
  float *key_scalars = plan.key_scalars.in(memory);
  float *bias = call.present[score_bias_operand] ? plan.bias.in(memory) : nullptr;
  if (bias != nullptr) gather(call.tensor[score_bias_operand], bias);
  if (plan.vector) copy_score_vector(call, plan.vector.in(memory), problem);
  if (plan.widths) invert_widths(call, plan.widths.in(memory), problem);
  if (plan.key_scalars) problem->score.key_scalars = key_scalars;
  if (plan.key_scalars && problem->score.kind == ScoreKind::gaussian) norms_ = {&kernels, problem, key_scalars};
  if (plan.prepared != nullptr) use_prepared(*plan.prepared, problem);
  const AttentionSizes &sizes = problem->sizes;
  if (plan.wide_query) {
    HeadRows from = plan.narrow_query;
    from.data = problem->query.data;
    float *to = plan.wide_query.in(memory);
    wide_query_ = {&kernels, from, sizes.batch, sizes.heads, sizes.query_len, plan.query_dim, to};
    problem->query.data = to;
  }
  if (plan.wide_key) {
    HeadRows from = plan.narrow_key;
    from.data = problem->key.data;
    float *to = plan.wide_key.in(memory);
    wide_key_ = {&kernels, from, sizes.batch, sizes.kv_heads, sizes.key_len, sizes.key_dim, to};
    problem->key.data = to;
  }
  if (plan.projects_query) {
    const fovea_prepared_keys *prepared = plan.prepared;
    float *out = plan.query_rows.in(memory);
    query_.emplace(
        plan.query,
        ProductData{.x = static_cast<const float *>(problem->query.data),
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
                 ProductData{.x = static_cast<const float *>(problem->key.data),
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
  if (wide_query_) list->add(wide_query_->count(), TaskBody::of<&WidenTasks::run>(*wide_query_));
  if (wide_key_) list->add(wide_key_->count(), TaskBody::of<&WidenTasks::run>(*wide_key_));
  if (norms_) list->add(norms_->count(), TaskBody::of<&NormTasks::run>(*norms_));
  add_products({query_ ? &*query_ : nullptr, key_ ? &*key_ : nullptr}, list);
}

}  // namespace fovea
