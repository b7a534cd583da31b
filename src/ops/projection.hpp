// Rows of a tensor through a weight matrix, into scratch memory: what a score function with parameters does to queries
// and keys.
//   out[row][unit] = sum_d x[row][d] weight[unit][d]        rows of out are padded_units(units) floats apart
#pragma once

#include "kernels/table.hpp"
#include "runtime/context.hpp"

namespace fovea {

struct Projection {
  // The rows, in as few axes as strides allow.
  int axes;
  int64_t size[3];
  int64_t stride[3];      // of x
  int64_t out_stride[3];  // of out, in rows
  int64_t rows;
  int64_t depth;
  int64_t units;
  int64_t weight_unit_stride, weight_depth_stride;
  int64_t panel_floats;  // the weight, packed
};

struct ProjectionRows {
  int64_t batch, heads, length;
  HeadStrides strides;      // of x
  HeadStrides out_strides;  // in rows
};

struct ProjectionWeight {
  int64_t units, depth;
  int64_t unit_stride, depth_stride;
};

// False if the sizes overflow.
[[nodiscard]] bool plan_projection(const Kernels &kernels, const ProjectionRows &rows, const ProjectionWeight &weight,
                                   Projection *projection);

struct ProjectionData {
  const float *x;
  float *panels;
  float *out;
  const float *bias;  // [units]; null: none
  float *reach;       // of row i of out at reach[i]; else as UnitRows
};

void pack_projection(const Context &context, int workers, const Projection &projection, const float *weight,
                     float *panels);

// With the panels packed.
void run_projection(const Context &context, int workers, const Projection &projection, const ProjectionData &data);

}  // namespace fovea
