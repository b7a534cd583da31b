// Pools of pages of any sizes and types, and bytes that their positions hold.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "choices.hpp"
#include "frame.hpp"
#include "scaled.hpp"

namespace fuzz {

struct DestroyPool {
  void operator()(fovea_kv_pool *pool) const { fovea_kv_pool_destroy(pool); }
};
using Pool = std::unique_ptr<fovea_kv_pool, DestroyPool>;

inline fovea_kv_pool_sizes choose_pool_sizes(Choices &choices) {
  constexpr int64_t dims[] = {8, 1, 3, 16, 32, 64}, page_sizes[] = {4, 1, 2, 5, 16};
  constexpr fovea_dtype keys[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_I8},
                        values[] = {FOVEA_F32, FOVEA_F16, FOVEA_I8, FOVEA_U8};
  fovea_kv_pool_sizes sizes{};
  sizes.struct_size = sizeof sizes;
  sizes.layers = 1 + static_cast<int64_t>(choices.below(3));
  sizes.kv_heads = 1 + static_cast<int64_t>(choices.below(3));
  sizes.head_dim = choices.pick(dims);
  sizes.value_dim = choices.pick(dims);
  sizes.page_size = choices.pick(page_sizes);
  sizes.positions = 1 + static_cast<int64_t>(choices.below(static_cast<size_t>(12 * sizes.page_size)));
  sizes.sequences = 1 + static_cast<int64_t>(choices.below(6));
  sizes.key_dtype = choices.pick(keys);
  sizes.value_dtype = choices.pick(values);
  if (sizes.value_dtype == FOVEA_U8) sizes.value_dim = 32 * (1 + static_cast<int64_t>(choices.below(2)));
  const bool scaled = is_scaled(sizes.key_dtype) || is_scaled(sizes.value_dtype);
  if (scaled && choices.chance(96)) {
    sizes.scale_group = 32;
    sizes.head_dim = 64;
    sizes.value_dim = 32;
  }
  return sizes;
}

inline Pool make_pool(const fovea_kv_pool_sizes &sizes) {
  fovea_kv_pool *pool = nullptr;
  if (fovea_kv_pool_create(&sizes, &pool) != FOVEA_OK) {
    std::fprintf(stderr, "\nFAILED: a pool is refused: %s\n", fovea_last_error());
    abort();
  }
  return Pool(pool);
}

// What a pool holds of one position, bytes that its stamp makes: another one for each element of each layer and head.
class Positions {
 public:
  explicit Positions(const fovea_kv_pool *pool, int64_t layers) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (const auto rows :
           {fovea_kv_pool_keys, fovea_kv_pool_values, fovea_kv_pool_key_scales, fovea_kv_pool_value_scales})
        if (const fovea_tensor view = rows(pool, layer); view.rank >= 0) stores_.push_back(view);
    }
  }

  void write(int64_t page, int64_t at, uint32_t stamp) const {
    Noise noise(stamp);
    for_each_byte(page, at, [&](uint8_t &byte) { byte = static_cast<uint8_t>(noise.next() >> 24); });
  }
  bool hold(int64_t page, int64_t at, uint32_t stamp) const {
    Noise noise(stamp);
    bool same = true;
    for_each_byte(page, at,
                  [&](const uint8_t &byte) { same = same && byte == static_cast<uint8_t>(noise.next() >> 24); });
    return same;
  }

 private:
  template <typename F>
  void for_each_byte(int64_t page, int64_t at, F f) const {
    for (const fovea_tensor &view : stores_) {
      const auto size = static_cast<int64_t>(element_size(view.dtype));
      for (int64_t head = 0; head < view.shape[1]; ++head) {
        uint8_t *row = static_cast<uint8_t *>(view.data) +
                       (page * view.strides[0] + head * view.strides[1] + at * view.strides[2]) * size;
        for (int64_t n = 0; n < view.shape[3] * size; ++n) f(row[n]);
      }
    }
  }

  std::vector<fovea_tensor> stores_;
};

}  // namespace fuzz
