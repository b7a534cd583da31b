// What tensors hold, and how far they reach.
#include <algorithm>
#include <bit>
#include <cstring>

#include "build.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace fuzz {
namespace {

// Bits of a float32 in the manner of `style`: ordinary numbers; few different ones; some that are none; of any size.
uint32_t number_of_style(Noise &noise, int style) {
  const uint64_t random = noise.next();
  const float ordinary = static_cast<float>(static_cast<int64_t>(random % 8191) - 4095) / 2048.0f;
  switch (style % 8) {
    case 5: return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random % 3) - 1));
    case 6: {
      constexpr uint32_t special[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0, 1, 0x007fffff, 0x7f7fffff};
      return random >> 60 == 0 ? special[random >> 57 & 7] : std::bit_cast<uint32_t>(ordinary);
    }
    case 7: {  // a sign, an exponent of some, a fraction
      const uint32_t spread = style & 8 ? 200 : 24, least = 127 - spread / 2;
      return (random >> 63 ? 0x80000000u : 0) | (least + static_cast<uint32_t>(random >> 32) % spread) << 23 |
             (static_cast<uint32_t>(random) & 0x7fffff);
    }
    default: return std::bit_cast<uint32_t>(ordinary);
  }
}

void put(uint8_t *at, fovea_dtype dtype, Noise &noise, int style, uint64_t most) {
  switch (dtype) {
    case FOVEA_F32: {
      const uint32_t bits = number_of_style(noise, style);
      std::memcpy(at, &bits, sizeof bits);
      break;
    }
    case FOVEA_F16:
    case FOVEA_BF16: {
      const uint16_t bits = narrowed(number_of_style(noise, style), dtype);
      std::memcpy(at, &bits, sizeof bits);
      break;
    }
    case FOVEA_I32: {
      const auto value = static_cast<int32_t>(noise.below(most + 1));
      std::memcpy(at, &value, sizeof value);
      break;
    }
    case FOVEA_I64: {
      const auto value = static_cast<int64_t>(noise.below(most + 1));
      std::memcpy(at, &value, sizeof value);
      break;
    }
    case FOVEA_I8:
    case FOVEA_U8: *at = static_cast<uint8_t>(noise.next() >> 24); break;
    default: {
      const uint64_t random = noise.next();
      *at = random % 4 == 0 ? 0 : random % 4 == 1 ? static_cast<uint8_t>(random >> 8) : 1;
      break;
    }
  }
}

}  // namespace

bool reach(const fovea_tensor &view, int64_t *low, int64_t *high) {
  *low = *high = 0;
  if (view.rank < 0 || view.rank > FOVEA_MAX_RANK || element_size(view.dtype) == 0) return false;
  bool empty = false;
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] < 0) return false;
    empty = empty || view.shape[axis] == 0;
  }
  if (empty) return true;
  __extension__ using Wide = __int128;
  constexpr int64_t far = int64_t{1} << 60;
  Wide first = 0, last = 0;
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 1) continue;
    const Wide step = static_cast<Wide>(view.shape[axis] - 1) * view.strides[axis];
    (step < 0 ? first : last) += step;
  }
  const auto size = static_cast<Wide>(element_size(view.dtype));
  *low = static_cast<int64_t>(std::max<Wide>(first * size, -far));
  *high = static_cast<int64_t>(std::min<Wide>((last + 1) * size, far));
  return true;
}

bool give_memory(Tensor &tensor, Noise &noise, int style, uint64_t most) {
  int64_t low = 0, high = 0;
  if (!reach(tensor.view, &low, &high) || high - low > static_cast<int64_t>(block_capacity / 2)) return false;
  // An output as float32 may be twice as long.
  tensor.first = -low;
  tensor.bytes.resize(static_cast<size_t>(high - low));
  const size_t size = element_size(tensor.view.dtype);
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    put(tensor.bytes.data() + at, tensor.view.dtype, noise, style, most);
  }
  return true;
}

}  // namespace fuzz
