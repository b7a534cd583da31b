// The C functions of positional encodings.
#include "guard.hpp"
#include "ops/attention/alibi_slopes.hpp"
#include "ops/positions/positional_encoding.hpp"
#include "ops/positions/rotary.hpp"
#include "ops/positions/rotary_frequencies.hpp"

using namespace fovea;

fovea_status fovea_positional_encoding(const fovea_context *context, const fovea_tensor *out,
                                       const fovea_positional_encoding_options *options) {
  return guarded([&] { return positional_encoding(context, out, options); });
}

fovea_status fovea_add_positional_encoding(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                                           const fovea_positional_encoding_options *options) {
  return guarded([&] { return add_positional_encoding(context, x, out, options); });
}

fovea_status fovea_rotary(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                          const fovea_rotary_options *options) {
  return guarded([&] { return rotary(context, x, out, options); });
}

fovea_status fovea_rotary_frequencies(const fovea_tensor *frequencies, const fovea_tensor *attention_factor,
                                      const fovea_rotary_frequencies_options *options) {
  return guarded([&] { return rotary_frequencies(frequencies, attention_factor, options); });
}

fovea_status fovea_alibi_slopes(const fovea_tensor *out) {
  return guarded([&] { return alibi_slopes(out); });
}
