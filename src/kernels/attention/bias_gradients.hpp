// The gradient of attention's bias, a block of queries and keys at a time: gradients of logits, made as the driver of
// the backward pass makes them, and summed up over whatever axes the bias has only one element along, in their order.
#pragma once

#include "kernels/attention/gradients.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// sums[key of the task][row] become elements of the bias's gradient.
template <class Path>
void store_bias(const GradientTask &task, const float *sums, int64_t row_count) {
  constexpr int64_t rows = Path::tile_rows;
  const BiasBlock &block = task.bias;
  const int64_t count = task.scores.key_end - task.scores.key_begin;
  with_element(block.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *out = static_cast<typename T::Element *>(block.out) + task.scores.key_begin;
    if (block.sums_queries) {
      alignas(64) float line[gradient_bias_keys];
      for (int64_t j = 0; j < count; ++j) {
        Float sum = zero();
        for (int64_t r = 0; r < rows; r += lanes) sum = sum + load(sums + j * rows + r);
        line[j] = horizontal_sum(sum);
      }
      return narrow_row(line, count, out, block.dtype);
    }
    typename T::Element *to[rows];
    for (int64_t r = 0; r < row_count; ++r) to[r] = out + r * block.row_stride;
    for (int64_t r = 0; r < row_count; r += lanes) {
      lanes_to_rows(sums + r, rows, splat(1.0f), to + r, min_of(lanes, row_count - r), count);
    }
  });
}

// One block of the bias's gradient: all that is added up for it, in order.
template <class Path>
void run_bias(const ScoreFunction &score, const ScoreFunction &dot, GradientTask task) {
  using Driver = GradientDriver<Path>;
  constexpr int64_t rows = Path::tile_rows;
  const AttentionSizes &sizes = task.problem->scores.sizes;
  const BiasBlock &block = task.bias;
  float *sums =
      static_cast<float *>(task.scores.scratch) + Driver::scratch_floats(score, sizes.compared_dim, sizes.value_dim);
  const int64_t count = task.scores.key_end - task.scores.key_begin;
  memset(sums, 0, static_cast<size_t>(count * rows) * sizeof(float));
  for (int64_t batch = block.batch; batch < block.batch_end; ++batch) {
    for (int64_t head = block.head; head < block.head_end; ++head) {
      for (int64_t query = block.query; query < block.query_end; query += rows) {
        task.scores.batch = batch;
        task.scores.kv_head = head / sizes.group;
        task.scores.row_begin = sizes.first_row_of(head) + query;
        task.scores.row_count = min_of(rows, block.query_end - query);
        Driver(score, dot, task).add_bias(sums);
      }
    }
  }
  store_bias<Path>(task, sums, min_of(rows, block.query_end - block.query));
}

template <class Path>
void pass_gradients_of(const ScoreFunction &score, const ScoreFunction &dot, const GradientTask &task) {
  if (task.part == GradientPart::bias) return run_bias<Path>(score, dot, task);
  GradientDriver<Path>(score, dot, task).run();
}

template <class Path>
constexpr GradientKernels gradient_kernels = {.run = pass_gradients_of<Path>,
                                              .scratch_floats = GradientDriver<Path>::scratch_floats,
                                              .key_floats = GradientDriver<Path>::key_floats};

}  // namespace
}  // namespace fovea::FOVEA_ISA
