// How units of an instruction set call each other: a path's drivers are compiled once and call score functions, which
// are compiled apart, a tile of keys at a time.
#pragma once

#include "kernels/attention/gradient_problem.hpp"

namespace fovea {

// A score function as drivers call it. A table and a job are those of its path (kernels/attention/score.hpp).
struct ScoreFunction {
  int64_t (*query_floats)(int64_t head_dim);  // scratch for a band's queries
  // Puts them there, in whatever form it likes.
  void (*load_queries)(const AttentionProblem &problem, const void *table, float *query);
  void (*score)(const void *job);
  // Returns whether it has left gradients in the tile that are to be passed on as those of dot products. Null: all of
  // them are, or not of this path.
  bool (*gradient)(const void *job);
};

// The drivers of a path: many rows or few, of floats or of pairs.
struct PathKernels {
  void (*attend)(const ScoreFunction &score, const AttentionTask &task);
  // In floats, of a task of attend, and of one of the two others.
  int64_t (*attend_floats)(const ScoreFunction &score, int64_t head_dim, int64_t value_dim, bool copies);
  int64_t (*passes_floats)(const ScoreFunction &score, int64_t head_dim, bool copies);
  // Null, as these are, for few rows: second passes take many.
  void (*weights)(const ScoreFunction &score, const AttentionTask &task);
  void (*scores)(const ScoreFunction &score, const AttentionTask &task);
  int64_t (*kept_bytes)(int64_t key_len);
};

// The backward pass of many rows, of floats or of pairs. `dot`: the scores of the dot product.
struct GradientKernels {
  void (*run)(const ScoreFunction &score, const ScoreFunction &dot, const GradientTask &task);
  int64_t (*scratch_floats)(const ScoreFunction &score, int64_t head_dim, int64_t value_dim);
  int64_t (*key_floats)(int64_t head_dim, int64_t value_dim);
};

}  // namespace fovea
