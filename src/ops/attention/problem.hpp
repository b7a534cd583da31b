// How a call becomes a problem: check.cpp makes one of what the caller asked for, planning makes a new one of it, as
// kernels will have it, and a run adds the pointers.
#pragma once

#include "ops/attention/plan.hpp"

namespace fovea {

// The problem that kernels solve, without data.
AttentionProblem planned_problem(const AttentionProblem &checked, const ScorePlan &score);

// The same with the data of a call and where its parts of the workspace lie, of which the parameters of the score
// function are filled in.
AttentionProblem bound_problem(const AttentionPlan &plan, const AttentionCall &call, void *workspace);

// The problem whose logits are the scores that are wanted.
AttentionProblem scores_problem(AttentionProblem problem);

}  // namespace fovea
