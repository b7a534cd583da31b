#include "scaled.hpp"

#include <bit>
#include <cstring>

#include "build.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace fuzz {
namespace {

constexpr const char suffix[] = "_scales";

const Tensor *tensor_named(const Frame &frame, const std::string &name) {
  for (const Tensor &tensor : frame.tensors) {
    if (name == tensor.slot->name) return &tensor;
  }
  return nullptr;
}

bool is_there(const Tensor &tensor) {
  int64_t low = 0, high = 0;
  return tensor.data == DataKind::own && tensor.shares < 0 && tensor.skew == 0 && reach(tensor.view, &low, &high) &&
         tensor.first + low >= 0 && tensor.first + high <= static_cast<int64_t>(tensor.bytes.size());
}

// Of no more elements than floats have memory.
bool is_small(const fovea_tensor &view) {
  uint64_t elements = 2;
  for (int axis = 0; axis < view.rank; ++axis) {
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(view.shape[axis]), &elements)) return false;
  }
  return elements <= block_capacity / sizeof(float);
}

bool belong_together(const fovea_tensor &numbers, const fovea_tensor &scales) {
  if (!is_scaled(numbers.dtype) || scales.dtype != FOVEA_F16 || numbers.rank < 1 || numbers.rank != scales.rank) {
    return false;
  }
  const int last = numbers.rank - 1;
  if (numbers.dtype == FOVEA_U8 && numbers.shape[last] % 16 != 0) return false;
  for (int axis = 0; axis < last; ++axis) {
    if (numbers.shape[axis] != scales.shape[axis]) return false;
  }
  const int64_t paired = numbers.dtype == FOVEA_U8 ? 2 : 1, groups = scales.shape[last] / paired;
  return groups > 0 && scales.shape[last] % paired == 0 && features_of(numbers) % groups == 0;
}

// Where the elements of a row stand, from element 0 of the tensor, for each row in row-major order.
std::vector<int64_t> row_places(fovea_tensor view) {
  std::vector<int64_t> places;
  view.rank -= 1;
  for_each_element(view, [&](int64_t at) { places.push_back(at); });
  return places;
}

float half_at(const Tensor &scales, int64_t at) {
  uint16_t bits = 0;
  std::memcpy(&bits, scales.bytes.data() + scales.first + 2 * at, sizeof bits);
  return std::bit_cast<float>(widened(bits, FOVEA_F16));
}

// Products of a scale and a number of 8 or 4 bits are exact, so that each is rounded once.
float number_at(const Tensor &numbers, const Tensor &scales, int64_t row, int64_t scales_row, int64_t d) {
  const int last = numbers.view.rank - 1;
  const int64_t step = numbers.view.strides[last], scales_step = scales.view.strides[last];
  const bool fours = numbers.view.dtype == FOVEA_U8;
  const int64_t groups = scales.view.shape[last] / (fours ? 2 : 1), group = d / (features_of(numbers.view) / groups);
  const auto byte = [&](int64_t n) { return numbers.bytes[static_cast<size_t>(numbers.first + row + n * step)]; };
  if (!fours)
    return half_at(scales, scales_row + group * scales_step) * static_cast<float>(static_cast<int8_t>(byte(d)));
  const int pair = byte(d / 32 * 16 + d % 16);
  const auto number = static_cast<float>(d % 32 < 16 ? pair % 16 : pair / 16);
  return half_at(scales, scales_row + 2 * group * scales_step) * number +
         half_at(scales, scales_row + (2 * group + 1) * scales_step);
}

}  // namespace

std::string numbers_named(const Frame &frame, const SlotRow &scales) {
  const std::string name = scales.name;
  if (name.size() > std::strlen(suffix)) return name.substr(0, name.size() - std::strlen(suffix));
  return std::strcmp(frame.function->name, "fovea_quantize") == 0 ? "out" : "q";
}

int scales_of(const Frame &frame, const Tensor &numbers) {
  const Tensor *scales = tensor_named(frame, std::string(numbers.slot->name) + suffix);
  if (scales == nullptr || !is_scaled(numbers.view.dtype)) return -1;
  return static_cast<int>(scales - frame.tensors.data());
}

bool is_of_rows(const Frame &frame, const Tensor &scales) {
  if (scales.slot->elements != Elements::scales || scales.output) return false;
  const Tensor *numbers = tensor_named(frame, numbers_named(frame, *scales.slot));
  return numbers != nullptr && scales_of(frame, *numbers) == static_cast<int>(&scales - frame.tensors.data());
}

bool may_be_floats(const Frame &frame) {
  for (const Tensor &numbers : frame.tensors) {
    const int found = scales_of(frame, numbers);
    if (found < 0) continue;
    const Tensor &scales = frame.tensors[static_cast<size_t>(found)];
    if (numbers.output || !is_there(numbers) || !is_there(scales) || !is_small(numbers.view)) return false;
    if (!belong_together(numbers.view, scales.view)) return false;
  }
  return true;
}

std::vector<uint8_t> floats_of(const Frame &frame, const Tensor &numbers, fovea_tensor *view) {
  const Tensor &scales = frame.tensors[static_cast<size_t>(scales_of(frame, numbers))];
  const std::vector<int64_t> rows = row_places(numbers.view), scales_rows = row_places(scales.view);
  const int64_t features = features_of(numbers.view);
  std::vector<float> floats;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int64_t d = 0; d < features; ++d) floats.push_back(number_at(numbers, scales, rows[row], scales_rows[row], d));
  }
  *view = numbers.view;
  view->dtype = FOVEA_F32;
  int64_t stride = 1;
  for (int axis = view->rank - 1; axis >= 0; --axis) {
    if (axis == view->rank - 1) view->shape[axis] = features;
    view->strides[axis] = stride;
    stride *= view->shape[axis] > 0 ? view->shape[axis] : 1;
  }
  std::vector<uint8_t> bytes(floats.size() * sizeof(float));
  if (!floats.empty()) std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

}  // namespace fuzz
