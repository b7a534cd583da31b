#include "ops/attention/score_tasks.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr int64_t norms_per_task = 256;

void set_score_vector(const float *vector, const ScoreVectorFacts &facts, AttentionProblem *problem) {
  problem->score.vector = vector;
  problem->score.least_reach = facts.least_reach;
  problem->score.takes_tangents = facts.takes_tangents;
}

// The score vector and, behind it, the bias: contiguous and padded. Returns the bias, or null.
const float *copy_vectors(const AttentionCall &call, int64_t floats, float *vector, AttentionProblem *problem) {
  std::memset(vector, 0, static_cast<size_t>(floats) * sizeof(float));
  gather(call.tensor[score_vector_operand], vector);
  set_score_vector(vector, score_vector_facts(vector, problem->sizes.head_dim), problem);
  if (!call.present[score_bias_operand]) return nullptr;
  gather(call.tensor[score_bias_operand], vector + floats / 2);
  return vector + floats / 2;
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

ScoreTasks::ScoreTasks(const Kernels &kernels, int workers, const ScorePlan &plan, const AttentionCall &call,
                       char *memory, AttentionProblem *problem) {
  Lines parts = {reinterpret_cast<float *>(memory)};
  float *vector = parts.take(plan.vector_floats);
  float *widths = parts.take(plan.widths_floats);
  float *key_scalars = parts.take(plan.key_scalar_floats);
  const float *bias = plan.vector_floats > 0 ? copy_vectors(call, plan.vector_floats, vector, problem) : nullptr;
  if (plan.widths_floats > 0) invert_widths(call, widths, problem);
  if (plan.takes_norms) norms_ = {&kernels, problem, key_scalars};
  if (plan.key_scalar_floats > 0) problem->score.key_scalars = key_scalars;
  if (plan.prepared != nullptr) use_prepared(*plan.prepared, problem);
  if (plan.projects_query) {
    float *panels = parts.take(plan.query.panel_floats);
    float *out = parts.take(plan.query_floats);
    ProjectionData data = {
        static_cast<const float *>(problem->query.data), nullptr, panels, out, bias, nullptr, nullptr};
    if (plan.prepared == nullptr) {
      data.weight = query_weight_data(call);
    } else {
      data.panels = plan.prepared->query_panels;
      data.bias = plan.prepared->bias;
    }
    query_.emplace(kernels, workers, plan.query, data);
    problem->query.data = out;
  }
  if (plan.projects_key) {
    float *panels = parts.take(plan.key.panel_floats);
    float *out = parts.take(plan.key_floats);
    float *reach = problem->score.kind == ScoreKind::additive ? key_scalars : nullptr;
    const float *weight = key_weight_data(call, plan.query_dim);
    const ProjectionData data = {
        static_cast<const float *>(problem->key.data), weight, panels, out, nullptr, reach, problem};
    key_.emplace(kernels, workers, plan.key, data);
    problem->key.data = out;
  }
}

void ScoreTasks::add_to(TaskList *list) const {
  if (norms_) list->add(norms_->count(), TaskBody::of<&NormTasks::run>(*norms_));
  add_projections({query_ ? &*query_ : nullptr, key_ ? &*key_ : nullptr}, list);
}

}  // namespace fovea
