// The checks of positional encodings, and those that rotary embedding shares.
#pragma once

#include "ops/tensors/check.hpp"

namespace fovea {

// x and out are of one shape, rank 2 to 6, and do not overlap unless they are the same.
[[nodiscard]] Status check_position_tensors(const fovea_tensor *x, const fovea_tensor *out);

// options.base, 0 being 10000 unless that flag is among flags.
[[nodiscard]] Status check_base(float given, uint32_t flags, uint32_t given_flag, double *base);

// options.offset.
[[nodiscard]] Status check_offset(int64_t offset);

struct EncodingSettings {
  double base;
  int64_t offset;
  bool dropout_alone;  // nothing is added
  Dropout dropout;
};

[[nodiscard]] Status check_encoding(const fovea_positional_encoding_options *given, bool may_drop,
                                    EncodingSettings *settings);

}  // namespace fovea
