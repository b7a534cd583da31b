// The checks of positional encodings and of rotary embedding.
#pragma once

#include "ops/tensors/check.hpp"

namespace fovea {

// x and out are of one shape, rank 2 to 6, and do not overlap unless they are the same.
[[nodiscard]] Status check_position_tensors(const fovea_tensor *x, const fovea_tensor *out);

struct RotaryArguments {
  fovea_rotary_options options;  // without its tensor
  double base, position_scale;
  bool has_positions;
  fovea_tensor positions;
  int64_t dim, rotary_dim;
  bool interleaved;
};

[[nodiscard]] Status check_rotary(const fovea_rotary_options *options, const fovea_tensor *x, const fovea_tensor *out,
                                  RotaryArguments *call);

struct EncodingSettings {
  double base;
  int64_t offset;
  Dropout dropout;
};

[[nodiscard]] Status check_encoding(const fovea_positional_encoding_options *given, bool may_drop,
                                    EncodingSettings *settings);

}  // namespace fovea
