// The sines and cosines that a block of rows turns by: made from angles, or from rows of a table that was given.
#pragma once

#include "kernels/positions/problem.hpp"
#include "ops/positions/rotary_check.hpp"
#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"

namespace fovea {

class RotaryTables {
 public:
  // A table for each worker, for `block_length` rows, two runs of `width` floats for each.
  RotaryTables(const RotaryArguments &call, const Context &context, int64_t width, int64_t block_length, int workers);

  // Bytes that they take.
  const MemoryLayout &layout() const { return layout_; }

  // There is the memory; on a cache line.
  void fill(void *memory);

  // Makes the table of rows first ... first + count - 1 of a group, which is an index of x's first axis.
  const float *make(int worker, int64_t group, int64_t first, int64_t count) const;

 private:
  // What is read more often than once, or by position, is copied first.
  void fill_frequencies() const;
  void copy_sections() const;

  int64_t position(int64_t section, int64_t group, int64_t row) const;
  void place(int64_t group, int64_t first, int64_t count, double *positions) const;
  RotaryTable angles(int64_t count, float *table) const;
  void turn_by_sections(int worker, int64_t group, int64_t row, float *table) const;
  void turn_as_given(int worker, int64_t group, int64_t row, float *table) const;
  const float *gather_turns(const fovea_tensor &from, int64_t group, int64_t row, float *to) const;

  const RotaryArguments &call_;
  const RowwiseKernels &kernels_;
  const int64_t pairs_, width_;
  MemoryLayout layout_;
  const MemoryPart<double> frequencies_;
  const MemoryPart<int32_t> sections_;       // of each pair
  const MemoryPart<double> pair_positions_;  // where each pair of a row stands
  const MemoryPart<float> pair_turns_;       // a row's cosines, then its sines, each pair's from where it stands
  const MemoryPart<float> tables_;
  void *memory_ = nullptr;
};

}  // namespace fovea
