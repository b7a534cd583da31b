// Rows of a tensor through a weight matrix, into scratch memory: what a score function with parameters does to queries
// and keys.
//   out[row][unit] = sum_d x[row][d] weight[unit][d]        rows of out are padded_units(units) floats apart
#pragma once

#include <initializer_list>

#include "kernels/kernel_table.hpp"
#include "runtime/parallel.hpp"

namespace fovea {

struct Projection {
  const MatmulKernels *product;
  // The rows, in as few axes as strides allow.
  int axes;
  int64_t size[3];
  int64_t stride[3];      // of x
  int64_t out_stride[3];  // of out, in rows
  int64_t rows;
  int64_t head_rows;  // of so many rows of a head only those that some query attends are wanted; 0: all are
  int64_t depth;
  int64_t units;
  int64_t weight_unit_stride, weight_depth_stride;
  int64_t panel_floats;  // the weight, packed: all panels
};

struct ProjectionRows {
  int64_t batch, heads, length;
  HeadStrides strides;      // of x
  HeadStrides out_strides;  // in rows
  bool valid_only = false;  // keys that no query attends may be left out; out_strides are those of packed rows
};

struct ProjectionWeight {
  int64_t units, depth;
  int64_t unit_stride, depth_stride;
};

// False if the sizes overflow.
[[nodiscard]] bool plan_projection(const MatmulKernels &product, const ProjectionRows &rows,
                                   const ProjectionWeight &weight, Projection *projection);

struct ProjectionData {
  const float *x = nullptr;
  const float *weight = nullptr;  // null: the panels are packed already
  float *panels = nullptr;
  float *out = nullptr;
  const float *bias = nullptr;                // [units]; null: none
  float *reach = nullptr;                     // of row i of out at reach[i]; else as UnitRows
  const AttentionProblem *problem = nullptr;  // whose valid lengths they are, if not all rows are wanted
};

// The tasks of one projection, in three stages, any of which may have none. Lists they are put in borrow them.
class ProjectionTasks {
 public:
  ProjectionTasks(const Kernels &kernels, int workers, const Projection &projection, const ProjectionData &data);

  int64_t pack_count() const;
  int64_t multiply_count() const;
  int64_t finish_count() const;
  void pack(int64_t panel) const;
  void multiply(int64_t task) const;
  void finish(int64_t block) const;

 private:
  // A block of rows and a run of panels: one task.
  struct Piece {
    const float *x;
    int64_t row;  // of out
    int64_t rows;
    int64_t first_panel;
  };

  Piece piece(int64_t index) const;
  void finish_rows(const Piece &piece) const;

  const Kernels &kernels_;
  const Projection &projection_;
  ProjectionData data_;
  int64_t inner_, rows_per_task_, blocks_;
  int64_t panels_, panels_per_task_, chunks_;
  int64_t row_tasks_;
  bool finishes_;  // bias, padding or reach are to be done
};

// All tasks of projections (or null) that do not need each other's results, stage by stage.
void add_projections(std::initializer_list<const ProjectionTasks *> projections, TaskList *list);

// Packing alone.
void pack_projection(const Context &context, int workers, const Projection &projection, const float *weight,
                     float *panels);

// A rough count of the cycles of one thread.
double projection_cycles(const Projection &projection);

}  // namespace fovea
