#include "placing.hpp"

#include <algorithm>
#include <cstring>

#include "numbers.hpp"
#include "scaled.hpp"

namespace fuzz {
namespace {

void put_number(uint8_t *at, fovea_dtype dtype, Noise &noise) {
  const float number = static_cast<float>(static_cast<int64_t>(noise.next() % 8191) - 4095) / 2048.0f;
  uint32_t float_bits = 0;
  std::memcpy(&float_bits, &number, sizeof float_bits);
  uint64_t bits = float_bits;
  if (is_narrow(dtype)) bits = narrowed(float_bits, dtype);
  if (is_scaled(dtype)) bits = noise.next() >> 32;
  std::memcpy(at, &bits, element_size(dtype));
}

// f(the first byte of each element)
template <typename F>
void for_each_first_byte(const Placed &placed, F f) {
  const size_t size = element_size(placed.view.dtype);
  for_each_element(placed.view, [&](int64_t at) { f(static_cast<size_t>(at) * size); });
}

}  // namespace

Placed Placer::place(const std::vector<int64_t> &shape, fovea_dtype dtype, std::vector<size_t> order) {
  if (order.empty()) {
    for (size_t axis = 0; axis < shape.size(); ++axis) order.push_back(axis);
  }
  fovea_tensor view{};
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1, last = 0;
  for (size_t n = order.size(); n-- > 0;) {
    view.shape[order[n]] = shape[order[n]];
    view.strides[order[n]] = stride;
    last += std::max<int64_t>(shape[order[n]] - 1, 0) * stride;
    stride *= std::max<int64_t>(shape[order[n]], 1);
    if (n + 1 == order.size()) stride += static_cast<int64_t>(choices_.below(4));
  }
  return filled(view, static_cast<size_t>(last + 1) * element_size(dtype));
}

Placed Placer::place_contiguous(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return filled(fovea_tensor_contiguous(nullptr, FOVEA_F32, static_cast<int32_t>(shape.size()), shape.data()),
                static_cast<size_t>(count) * sizeof(float));
}

Placed Placer::filled(fovea_tensor view, size_t size) {
  const Block block = take(size);
  view.data = block.data;
  const size_t element = element_size(view.dtype);
  for (size_t at = 0; at < block.size; at += element) put_number(block.data + at, view.dtype, noise_);
  return {view, block};
}

Block Placer::take(size_t size) {
  blocks_.push_back(memory_.take(size, at_end_));
  return blocks_.back();
}

bool Placer::marks_intact() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block &block) { return memory_.marks_intact(block); });
}

void make_blank(const Placed &placed) {
  if (placed.block.size != 0) std::memset(placed.block.data, blank, placed.block.size);
}

bool is_blank_beside_elements(const Placed &placed) {
  std::vector<bool> may(placed.block.size);
  for_each_first_byte(placed, [&](size_t at) {
    std::fill_n(may.begin() + static_cast<ptrdiff_t>(at), element_size(placed.view.dtype), true);
  });
  for (size_t at = 0; at < placed.block.size; ++at) {
    if (!may[at] && placed.block.data[at] != blank) return false;
  }
  return true;
}

std::vector<uint8_t> elements_of(const Placed &placed) {
  std::vector<uint8_t> bytes;
  for_each_first_byte(placed, [&](size_t at) {
    bytes.insert(bytes.end(), placed.block.data + at, placed.block.data + at + element_size(placed.view.dtype));
  });
  return bytes;
}

}  // namespace fuzz
