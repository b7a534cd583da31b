#include "ops/attention/problem.hpp"

#include <algorithm>

#include "ops/tensors/copy.hpp"

namespace fovea {
namespace {

// Where rows lie: as they were given, copied, or projected.
void bind_rows(const RowCopy &copy, const MemoryPart<float> &projected, char *memory, HeadRows *rows) {
  if (copy.memory) rows->data = copy.memory.in(memory);
  if (projected) rows->data = projected.in(memory);
}

void bind_vector(const float *vector, const ScoreVectorFacts &facts, ScoreInputs *score) {
  score->vector = vector;
  score->least_reach = facts.least_reach;
  score->takes_tangents = facts.takes_tangents;
}

const float *copied_vector(const Kernels &kernels, const AttentionCall &call, int64_t units, float *vector) {
  std::fill(vector + units, vector + padded_units(units), 0.0f);
  gather_floats(kernels, call.tensor[score_vector_operand], vector);
  return vector;
}

const float *inverse_widths(const AttentionCall &call, int64_t heads, float *widths) {
  gather(call.tensor[sigmas_operand], widths);
  for (int64_t head = 0; head < heads; ++head) widths[head] = inverse_square(widths[head]);
  return widths;
}

void bind_prepared(const fovea_prepared_keys &keys, AttentionProblem *problem) {
  problem->key.data = keys.rows;
  problem->score.key_scalars = keys.reach;
  if (problem->score.kind != ScoreKind::additive) return;
  bind_vector(keys.score_vector, keys.score_vector_facts, &problem->score);
}

// The score function's parameters, copied and inverted.
void bind_parameters(const AttentionPlan &plan, const AttentionCall &call, char *memory, AttentionProblem *problem) {
  const ScorePlan &score = plan.score;
  const int64_t units = problem->sizes.compared_dim;
  if (call.present[score_bias_operand] && score.bias) {
    gather_floats(*plan.kernels, call.tensor[score_bias_operand], score.bias.in(memory));
  }
  if (score.vector) {
    const float *vector = copied_vector(*plan.kernels, call, units, score.vector.in(memory));
    bind_vector(vector, score_vector_facts(vector, units), &problem->score);
  }
  if (score.widths) {
    problem->score.inverse_squares = inverse_widths(call, problem->sizes.heads, score.widths.in(memory));
  }
}

}  // namespace

AttentionProblem planned_problem(const AttentionProblem &checked, const ScorePlan &score) {
  AttentionProblem problem = checked;
  problem.sizes.compared_dim = score.compared_dim;
  problem.score.kind = score.compares;
  problem.score.key_scalars_strides = score.key_scalars_strides;
  problem.logits.scale = score.scale;
  problem.query = score.queries;
  problem.key = score.keys;
  problem.value = score.values;
  return problem;
}

AttentionProblem bound_problem(const AttentionPlan &plan, const AttentionCall &call, void *workspace) {
  AttentionProblem problem = plan.problem;
  for (const OperandRow &row : operand_rows) {
    if (row.set_data == nullptr) continue;
    row.set_data(call.present[row.operand] ? call.tensor[row.operand].data : nullptr, &problem);
  }
  const ScorePlan &score = plan.score;
  char *memory = plan.score_memory.in(workspace);
  if (score.key_scalars) problem.score.key_scalars = score.key_scalars.in(memory);
  if (score.prepared != nullptr) bind_prepared(*score.prepared, &problem);
  bind_rows(score.query_copy, score.query_rows, memory, &problem.query);
  bind_rows(score.key_copy, score.key_rows, memory, &problem.key);
  bind_rows(score.value_copy, {}, memory, &problem.value);
  bind_parameters(plan, call, memory, &problem);
  problem.packed = plan.packed.in(workspace);
  return problem;
}

AttentionProblem scores_problem(AttentionProblem problem) {
  problem.dropout = {};
  if (!problem.outputs.wants_all_keys()) return problem;
  problem.pattern = {};
  problem.pattern.key_limit = problem.sizes.key_len;
  const bool capped = problem.outputs.scores_kind == ScoresKind::capped;
  problem.logits = {.scale = problem.logits.scale, .softcap = capped ? problem.logits.softcap : 0.0f};
  return problem;
}

}  // namespace fovea
