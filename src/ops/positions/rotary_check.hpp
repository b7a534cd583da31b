// The checks of rotary embedding.
#pragma once

#include "ops/tensors/check.hpp"

namespace fovea {

// How far apart the positions of a section, of a batch entry and of a row stand; 0 where one serves all.
struct PositionStrides {
  int64_t section, batch, row;
};

struct RotaryArguments {
  fovea_rotary_options options;  // without its tensors
  double base, position_scale;
  float attention_factor;
  TensorArgument positions, frequencies, sections, cosines, sines;  // each null where it was not given
  PositionStrides position_strides;
  int64_t section_count;
  int64_t dim, rotary_dim;
  bool interleaved, inverse;
  bool grouped;  // each index of x's first axis has positions, or cosines and sines, of its own

  bool rows_given() const { return cosines != nullptr && cosines->rank == 3; }  // not by position
};

// All but the data: x's, and what the options' tensors hold.
[[nodiscard]] Status check_rotary_options(const fovea_rotary_options *options, const fovea_tensor &x,
                                          RotaryArguments *call);

[[nodiscard]] Status check_rotary(const fovea_rotary_options *options, const fovea_tensor *x, const fovea_tensor *out,
                                  RotaryArguments *call);

}  // namespace fovea
