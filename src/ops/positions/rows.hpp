// The rows [..., L, d] of a tensor and of one of the same shape, by position: all rows that stand at one position share
// a row of sines and cosines. The work is cut into blocks of positions, of all entries (the axes before L) or of a
// part.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/positions/problem.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"
#include "status.hpp"

namespace fovea {

constexpr int64_t most_positions_per_block = 256;
constexpr int64_t block_table_floats = 32768;  // 128 kB: stays in a core's L2 beside the rows that pass

// Rows a fixed step apart, along L or along the innermost axis of the entries.
struct PositionRun {
  int64_t x_offset, x_stride;
  int64_t out_offset, out_stride;
  int64_t count;
  int64_t entry, entry_step;        // of the first row; in row-major order over the axes before L, from 0 in each group
  int64_t position, position_step;  // counted from the block's first
};

struct PositionBlock {
  int64_t group;
  int64_t first, count;              // positions
  int64_t first_entry, entry_count;  // of the group
};

class PositionRows {
 public:
  // grouped: each index of the first axis has positions of its own. The data's layout is that of x and out, of one
  // shape.
  PositionRows(const fovea_tensor &x, const fovea_tensor &out, bool grouped);

  int64_t length() const { return length_; }
  int64_t entries() const { return entries_.count; }  // in a group
  int64_t elements() const { return groups_ * entries_.count * length_ * dim_; }

  int workers(const Context &context) const;

  // The distance for x and out.
  Distance distance(int workers) const;

  // How many positions to take together when a table has this many floats for each.
  int64_t block_length(int64_t table_floats, int workers) const;

  // Calls work(worker, block) for blocks that cover everything.
  template <class Work>
  void run_blocks(const Context &context, int workers, int64_t block_length, const Work &work) const {
    const int64_t blocks = ceil_div(length_, block_length);
    const int64_t parts = entry_parts(blocks, workers);
    const int64_t units = groups_ * blocks * parts;
    const int64_t units_per_task = std::max<int64_t>(1, least_task_floats / ceil_div(elements(), units));
    run_tasks(context, workers, ceil_div(units, units_per_task), [&](int worker, int64_t task) {
      const int64_t end = std::min(units, (task + 1) * units_per_task);
      for (int64_t unit = task * units_per_task; unit < end; ++unit) {
        const int64_t part = unit % parts;
        const int64_t first = unit / parts % blocks * block_length;
        const int64_t first_entry = part * entries() / parts;
        work(worker, PositionBlock{.group = unit / parts / blocks,
                                   .first = first,
                                   .count = std::min(block_length, length_ - first),
                                   .first_entry = first_entry,
                                   .entry_count = (part + 1) * entries() / parts - first_entry});
      }
    });
  }

  // Calls visit(run) for runs that cover the block, in the order in which x lies in memory.
  template <class Visit>
  void for_each_run(const PositionBlock &block, const Visit &visit) const {
    const int64_t x_start = block.group * x_group_stride_ + block.first * x_stride_;
    const int64_t out_start = block.group * out_group_stride_ + block.first * out_stride_;
    if (!along_entries_) return runs_along_positions(block, x_start, out_start, visit);
    for (int64_t position = 0; position < block.count; ++position) {
      runs_along_entries(block, position, x_start + position * x_stride_, out_start + position * out_stride_, visit);
    }
  }

 private:
  static constexpr int64_t least_task_floats = 16384;

  int64_t entry_parts(int64_t blocks, int workers) const;

  template <class Visit>
  void runs_along_positions(const PositionBlock &block, int64_t x_start, int64_t out_start, const Visit &visit) const {
    RowCursor cursor(entries_, block.first_entry);
    for (int64_t entry = 0; entry < block.entry_count; ++entry, cursor.next()) {
      visit(PositionRun{.x_offset = x_start + cursor.x_offset(),
                        .x_stride = x_stride_,
                        .out_offset = out_start + cursor.out_offset(),
                        .out_stride = out_stride_,
                        .count = block.count,
                        .entry = block.first_entry + entry,
                        .entry_step = 0,
                        .position = 0,
                        .position_step = 1});
    }
  }

  template <class Visit>
  void runs_along_entries(const PositionBlock &block, int64_t position, int64_t x_start, int64_t out_start,
                          const Visit &visit) const {
    const int inner = entries_.axes - 1;
    const int64_t end = block.first_entry + block.entry_count;
    for (int64_t entry = block.first_entry; entry < end;) {
      const RowCursor cursor(entries_, entry);
      const int64_t count = std::min(end - entry, entries_.shape[inner] - cursor.index(inner));
      visit(PositionRun{.x_offset = x_start + cursor.x_offset(),
                        .x_stride = entries_.x_strides[inner],
                        .out_offset = out_start + cursor.out_offset(),
                        .out_stride = entries_.out_strides[inner],
                        .count = count,
                        .entry = entry,
                        .entry_step = 1,
                        .position = position,
                        .position_step = 0});
      entry += count;
    }
  }

  RowSpace entries_;  // the axes before L, without the first where it makes groups; those that follow each other joined
  int64_t groups_ = 1;
  int64_t x_group_stride_ = 0, out_group_stride_ = 0;
  int64_t length_, x_stride_, out_stride_;  // of the axis L
  int64_t dim_;
  int64_t element_bytes_;  // of x and out together
  bool along_entries_ = false;
};

// Scratch memory of a call: the frequencies, and a table for each worker.
class PositionScratch {
 public:
  PositionScratch(const Context &context, int64_t pairs, int64_t table_floats, int workers);

  [[nodiscard]] Status status() const { return workspace_.status(); }
  double *frequencies() const { return frequencies_.in(workspace_.data()); }
  float *table(int worker) const { return tables_.in(workspace_.data(), worker); }

 private:
  MemoryLayout layout_;
  const MemoryPart<double> frequencies_;
  const MemoryPart<float> tables_;
  const Workspace workspace_;
};

constexpr double quarter_turns_per_radian = 0.63661977236758134308;  // 2 / pi

// frequencies[j] = base^(-2j / dim) in quarter turns, for `pairs` pairs; then zeros up to whole registers of `lanes`
// floats.
void fill_frequencies(double base, int64_t dim, int64_t pairs, int64_t lanes, double *frequencies);

// Whether an output is so large that it would not be found in a cache later: then it is written past the caches.
bool large_output(const fovea_tensor &x, const fovea_tensor &out);

}  // namespace fovea
