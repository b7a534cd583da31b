// What may be wrong with a call: each kind of argument in each way, one or two at a time. A wrong tensor may say to
// reach far beyond its memory. Such a call has to be refused, or to have no need of that memory; where neither is sure,
// something else is made wrong too.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "build.hpp"
#include "memory.hpp"

namespace fuzz {
namespace {

constexpr int64_t huge_numbers[] = {-1,
                                    int64_t{1} << 30,
                                    (int64_t{1} << 30) + 1,
                                    -(int64_t{1} << 30) - 1,
                                    int64_t{1} << 40,
                                    int64_t{1} << 56,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT32_MAX,
                                    INT32_MIN,
                                    1025,
                                    65537};

void spoil_tensor(Choices &choices, Frame &frame, Node &node) {
  Tensor &tensor = frame.tensors[static_cast<size_t>(node.tensor)];
  fovea_tensor &view = tensor.view;
  const size_t axis = choices.below(static_cast<size_t>(std::clamp(view.rank, 1, FOVEA_MAX_RANK)));
  constexpr int32_t ranks[] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, INT32_MAX, INT32_MIN};
  constexpr int64_t strides[] = {0, 2, -1, 3, INT64_MAX, INT64_MIN, int64_t{1} << 56};
  switch (choices.below(11)) {
    case 0: view.rank = choices.pick(ranks); break;
    case 1: view.shape[axis] += choices.chance(128) ? 1 : -1; break;
    case 2: view.shape[axis] = choices.pick(huge_numbers); break;
    case 3: view.shape[axis] = static_cast<int64_t>(choices.below(3)); break;
    case 4: view.strides[axis] = choices.pick(strides); break;
    case 5: view.dtype = static_cast<fovea_dtype>(choices.below(14)) - 1; break;
    case 6: view.dtype = choices.chance(128) ? INT32_MAX : INT32_MIN; break;
    case 7: tensor.data = DataKind::null; break;
    case 8: tensor.skew = element_size(view.dtype) > 1 ? 1 : 0; break;  // single bytes lie anywhere
    case 9: node.given = false; break;
    default:  // in the memory of another, some elements on
      if (frame.tensors.size() > 1) {
        const size_t other = choices.below(frame.tensors.size());
        if (other == static_cast<size_t>(node.tensor) || frame.tensors[other].shares >= 0) break;
        for (const Tensor &third : frame.tensors) {
          if (third.shares == node.tensor) return;
        }
        tensor.shares = static_cast<int>(other);
        tensor.first = frame.tensors[other].first +
                       static_cast<int64_t>(choices.below(4)) * static_cast<int64_t>(element_size(view.dtype));
      }
      break;
  }
  for (size_t other = 0; other < FOVEA_MAX_RANK; ++other) {  // what is past the rank is ignored
    if (static_cast<int>(other) >= view.rank) view.shape[other] = view.strides[other] = static_cast<int64_t>(other) - 3;
  }
}

// Integers in a tensor, out of their range.
void spoil_integers(Choices &choices, Tensor &tensor) {
  const size_t size = element_size(tensor.view.dtype);
  if (tensor.bytes.size() < size || size < 4) return;
  const int64_t value = choices.pick(huge_numbers);
  const size_t at = choices.below(tensor.bytes.size() / size) * size;
  std::memcpy(tensor.bytes.data() + at, &value, size);
}

void spoil_struct(Choices &choices, Struct &structure) {
  const size_t size = structure.row->size;
  const size_t sizes[] = {0,        1,         8,        size - 8,        size - 4, size + 8,
                          size + 4, size + 64, SIZE_MAX, size_t{1} << 40, size / 2};
  structure.struct_size = sizes[choices.below(std::size(sizes))];
  structure.beyond = choices.chance(128) ? 0 : 1;
}

void spoil_number(Choices &choices, Node &node) {
  constexpr float numbers[] = {-1.0f,
                               1.0f,
                               1e30f,
                               1e-30f,
                               1e-42f,
                               -0.0f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  if (node.slot->kind == Kind::f32) node.real = choices.pick(numbers);
  const int64_t value = choices.chance(128) ? choices.pick(huge_numbers) : static_cast<int64_t>(1) << choices.below(32);
  node.integer = choices.chance(64) ? node.integer ^ value : value;
}

// The checksum that saved bytes carry, made to fit: else nothing behind it would ever be looked at.
void mend_checksum(std::vector<uint8_t> &bytes) {
  constexpr size_t place = 60, header = 64;
  if (bytes.size() < header) return;
  uint32_t remainder = UINT32_MAX;  // CRC-32C
  for (size_t n = 0; n < bytes.size(); ++n) {
    if (n >= place && n < header) continue;
    remainder ^= bytes[n];
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? 0x82f63b78u : 0);
  }
  remainder = ~remainder;
  for (size_t n = 0; n < 4; ++n) bytes[place + n] = static_cast<uint8_t>(remainder >> (8 * n));
}

void take_default_context(Frame &frame) {
  frame.context = nullptr;
  for (size_t n = 0; n < sets().names.size(); ++n) {
    if (sets().names[n] == fovea_isa_name(nullptr)) frame.set = static_cast<int>(n);
  }
}

void spoil_node(Choices &choices, Frame &frame, Node &node) {
  switch (node.slot->kind) {
    case Kind::tensor:
      if (node.tensor < 0) break;
      if (node.slot->elements == Elements::integers && choices.chance(100)) {
        spoil_integers(choices, frame.tensors[static_cast<size_t>(node.tensor)]);
      } else {
        spoil_tensor(choices, frame, node);
      }
      break;
    case Kind::structure:
      if (choices.chance(64)) {
        node.given = false;
      } else if (node.structure != nullptr) {
        spoil_struct(choices, *node.structure);
      }
      break;
    case Kind::handle:
    case Kind::changed_handle:
    case Kind::new_handle:
    case Kind::written_tensor:
    case Kind::integers:
    case Kind::dl_tensor:
      node.given = false;
      if (node.slot->handle == handle_kind("fovea_context_destroy")) take_default_context(frame);
      break;
    case Kind::text: node.text = choices.chance(128) ? "no such set\n\x01" : ""; break;
    case Kind::bytes: spoil_bytes(choices, node.bytes); break;
    case Kind::written_bytes: node.bytes.resize(choices.below(node.bytes.size() + 1)); break;
    case Kind::buffer: node.given = !node.given; break;
    default: spoil_number(choices, node); break;
  }
}

bool is_plan(const Frame &frame) { return std::strstr(frame.function->name, "_plan_create") != nullptr; }

// Something that every function refuses, or nothing where there is none.
bool make_it_fail(Choices &choices, Frame &frame, const std::vector<Node *> &nodes) {
  Tensor *output = nullptr;
  for (const Node *node : nodes) {
    if (node->tensor < 0 || !node->given) continue;
    Tensor &tensor = frame.tensors[static_cast<size_t>(node->tensor)];
    if (tensor.output) output = &tensor;
  }
  if (output == nullptr) return false;
  if (choices.chance(128)) {
    output->view.dtype = 99;
  } else {
    output->view.rank = -1;
  }
  frame.must_fail = true;
  return true;
}

// Whether the descriptor reaches what is not there, or one number more often than a call may take time for.
bool reaches_too_far(const Frame &frame, const Tensor &tensor) {
  int64_t low = 0, high = 0;
  if (!reach(tensor.view, &low, &high) || tensor.data == DataKind::null) return false;
  constexpr uint64_t most_elements = uint64_t{1} << 20;
  uint64_t elements = 1;
  for (int axis = 0; axis < tensor.view.rank; ++axis) {
    const auto size = static_cast<uint64_t>(tensor.view.shape[axis]);
    if (__builtin_mul_overflow(elements, size, &elements)) elements = UINT64_MAX;
    if (size == 0) return false;
  }
  if (elements > most_elements) return true;
  const Tensor &owner = tensor.shares < 0 ? tensor : frame.tensors[static_cast<size_t>(tensor.shares)];
  return tensor.first + low < 0 || tensor.first + high > static_cast<int64_t>(owner.bytes.size());
}

}  // namespace

void spoil_bytes(Choices &choices, std::vector<uint8_t> &bytes) {
  if (bytes.empty()) return;
  for (size_t n = choices.below(4); n-- > 0;) {
    uint8_t &byte = bytes[choices.below(std::min<size_t>(bytes.size(), 80))];
    byte = choices.chance(128) ? choices.byte() : static_cast<uint8_t>(byte ^ 1u << choices.below(8));
  }
  if (choices.chance(64)) bytes.resize(choices.below(bytes.size() + 1));
  if (!choices.chance(64)) mend_checksum(bytes);
}

void spoil(State &, Choices &choices, Frame &frame) {
  std::vector<Node *> nodes;
  for_each_node(frame.arguments, [&](Node &node, Struct *) { nodes.push_back(&node); });
  if (nodes.empty()) return;
  frame.spoiled = true;
  const std::vector<Tensor> tensors = frame.tensors;
  for (size_t count = 1 + choices.below(2); count-- > 0;)
    spoil_node(choices, frame, *nodes[choices.below(nodes.size())]);

  nodes.clear();  // what stands in a struct that is no longer given is not part of the call
  for_each_node(frame.arguments, [&](Node &node, Struct *) { nodes.push_back(&node); });
  bool far = false, reading = false;
  for (Node *node : nodes) {
    if (node->tensor < 0 || !node->given) continue;
    Tensor &tensor = frame.tensors[static_cast<size_t>(node->tensor)];
    if (!reaches_too_far(frame, tensor)) continue;
    far = true;
    reading = reading || (!is_plan(frame) && tensor.slot->elements == Elements::integers) ||
              std::strncmp(tensor.slot->name, "sigma", 5) == 0;
  }
  if (!far) return;
  // Its numbers are looked at before anything is refused; or there is nothing that would be.
  if (reading || (!is_plan(frame) && !make_it_fail(choices, frame, nodes))) {
    frame.tensors = tensors;
    return;
  }
  for (size_t n = 0; n < frame.tensors.size(); ++n) {
    if (!reaches_too_far(frame, frame.tensors[n])) continue;
    const bool shared = std::any_of(frame.tensors.begin(), frame.tensors.end(),
                                    [n](const Tensor &other) { return other.shares == static_cast<int>(n); });
    if (!shared) {
      frame.tensors[n].data = DataKind::forbidden;
      frame.tensors[n].shares = -1;
    }
  }
}

}  // namespace fuzz
