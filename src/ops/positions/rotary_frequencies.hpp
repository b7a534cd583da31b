// The frequencies of rotary embedding as models are configured.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "status.hpp"

namespace fovea {

// What was asked for.
struct FrequencySettings {
  int32_t kind;
  bool rounds;  // YaRN's range, to whole pairs
  double base, factor;
  double original_length, length;
  double low_frequency_factor, high_frequency_factor;
  double fast_rotations, slow_rotations;
  double mscale, mscale_all_dim;
  TensorArgument short_factors, long_factors;
};

[[nodiscard]] Status check_frequencies(const TensorArgument &frequencies, const TensorArgument &attention_factor,
                                       const fovea_rotary_frequencies_options *options, FrequencySettings *settings);

[[nodiscard]] Status rotary_frequencies(const TensorArgument &frequencies, const TensorArgument &attention_factor,
                                        const fovea_rotary_frequencies_options *options);

}  // namespace fovea
