// ALiBi's slopes (Press, Smith and Lewis 2022): with P the largest power of two up to the number of heads, head h < P
// gets 2^(-8 (h+1) / P); those past P get what lies between: every other slope of 2P heads, 2^(-4 (2k+1) / P), k = h -
// P.
#include "ops/attention/alibi_slopes.hpp"

#include <cmath>

#include "ops/tensors/check.hpp"

namespace fovea {

Status alibi_slopes(const TensorArgument &out) {
  const TensorRule rule = {.name = "out", .max_rank = 1, .output = true, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(out, rule));
  auto *slopes = static_cast<float *>(out->data);
  const int64_t heads = out->shape[0];
  int64_t power = 1;
  while (power <= heads / 2) power *= 2;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t steps = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    slopes[h * out->strides[0]] =
        static_cast<float>(std::exp2(-4.0 * static_cast<double>(steps) / static_cast<double>(power)));
  }
  return FOVEA_OK;
}

}  // namespace fovea
