// The structs of the units that RowwiseKernels is made of.
#pragma once

#include "isa/unit.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea {

struct SoftmaxKernels {
  void (*rows)(const SoftmaxRows &rows);
  void (*log_rows)(const SoftmaxRows &rows);
};

struct ColumnKernels {
  void (*softmax)(const SoftmaxColumns &columns);
};

struct NormKernels {
  void (*rows)(const NormRows &rows);
  void (*gradient_rows)(const NormGradientRows &rows);
};

struct RowGradientKernels {
  void (*activation)(const ActivationGradients &all);
  void (*softmax_rows)(const SoftmaxGradientRows &rows);
  void (*softmax_columns)(const SoftmaxGradientColumns &columns);
  void (*merge_row)(const MergeGradientRow &row);
  void (*add_row)(const SummedRow &row);
};

struct ElementKernels {
  void (*exp)(const ElementRun &run);
  void (*tanh)(const ElementRun &run);
  void (*activate)(const ElementRun &run, Activation kind);
};

struct PositionKernels {
  void (*encode_rows)(const EncodingRows &rows);
  void (*add_rows)(const AddedRows &rows);
  void (*rotary_table)(const RotaryTable &rows);
  void (*rotary_row_of_positions)(const RotaryTable &row);
  void (*rotary_given_row)(const GivenTurns &row);
  void (*rotate_rows)(const RotatedRows &rows);
};

extern const SoftmaxKernels FOVEA_KERNELS(softmax);
extern const ColumnKernels FOVEA_KERNELS(columns);
extern const NormKernels FOVEA_KERNELS(norm);
extern const ElementKernels FOVEA_KERNELS(elements);
extern const PositionKernels FOVEA_KERNELS(positions);
extern const RowGradientKernels FOVEA_KERNELS(row_gradients);

}  // namespace fovea
