// A call before it has memory: its arguments as a tree of plain values. Executions give it addresses, and may do so
// differently: with other types, threads, or one entry of the batch.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "choices.hpp"
#include "model.hpp"

namespace fuzz {

constexpr size_t max_symbols = 64;

// The sizes that the letters of a call stand for.
struct Sizes {
  std::array<uint64_t, max_symbols> value{};
  std::array<bool, max_symbols> bound{};
  std::vector<int64_t> more;  // the axes that "..." stands for

  void bind(size_t symbol, uint64_t size) {
    value[symbol] = size;
    bound[symbol] = true;
  }
};

enum class DataKind { own, null, forbidden };

struct Tensor {
  const SlotRow *slot = nullptr;
  fovea_tensor view{};  // data is set by an execution
  DataKind data = DataKind::own;
  std::vector<uint8_t> bytes;   // what lies there before the call, gaps too
  int64_t first = 0;            // the byte of element 0
  int64_t skew = 0;             // bytes that data is off its element
  int shares = -1;              // the tensor in whose memory it lies, `first` counting from that one's bytes
  int batch_axis = -1;
  bool output = false;
};

struct Frame;

struct Handle {
  int kind = 0;
  void *pointer = nullptr;
  void *twin = nullptr;  // made from the same numbers as float32
  Sizes sizes;
  int set = -1;        // the instruction set it was made for
  bool destroyed = false;
  bool narrow = false;  // holds numbers of 16 bits
  std::shared_ptr<Frame> made_by;
  std::vector<Handle *> uses;  // those that have to outlive it
};

struct Struct;

struct Node {
  const SlotRow *slot = nullptr;
  bool given = false;
  int64_t integer = 0;
  float real = 0;
  int tensor = -1;
  std::unique_ptr<Struct> structure;
  Handle *handle = nullptr;
  std::vector<uint8_t> bytes;
  const char *text = nullptr;
};

struct Struct {
  const StructRow *row = nullptr;
  size_t struct_size = 0;
  std::vector<Node> members;
  uint8_t beyond = 0;  // what a newer program's members hold
};

struct Frame {
  const FunctionRow *function = nullptr;
  std::vector<Node> arguments;
  std::vector<Tensor> tensors;
  Sizes sizes;
  int set = 0;            // the instruction set of the context
  int turn = 0;           // which context of that set
  Handle *context = nullptr;  // in place of one of those
  int environment = 0;    // the floating-point mode of the caller
  bool spoiled = false;   // something may be wrong with it
  bool must_fail = false;
  bool at_end = true;     // blocks are flush with the page behind them
  bool dropout = false, medium = false;
};

// Calls f(node, the struct it is a member of or null) for every argument and member that is there.
template <typename F>
void for_each_node(std::vector<Node> &nodes, F f, Struct *in = nullptr) {
  for (Node &node : nodes) {
    f(node, in);
    if (node.structure != nullptr && node.given) for_each_node(node.structure->members, f, node.structure.get());
  }
}
template <typename F>
void for_each_node(const std::vector<Node> &nodes, F f, const Struct *in = nullptr) {
  for (const Node &node : nodes) {
    f(node, in);
    if (node.structure != nullptr && node.given) {
      for_each_node(static_cast<const std::vector<Node> &>(node.structure->members), f, node.structure.get());
    }
  }
}

inline size_t element_size(fovea_dtype dtype) {
  switch (dtype) {
    case FOVEA_F32:
    case FOVEA_I32: return 4;
    case FOVEA_I64: return 8;
    case FOVEA_F16:
    case FOVEA_BF16: return 2;
    case FOVEA_BOOL:
    case FOVEA_I8:
    case FOVEA_U8:
    case FOVEA_F8_E4M3:
    case FOVEA_F8_E5M2: return 1;
    default: return 0;
  }
}
inline bool is_narrow(fovea_dtype dtype) { return dtype == FOVEA_F16 || dtype == FOVEA_BF16; }

// The call in one or several lines, for people.
std::string describe(const Frame &frame);

// Every element's place, in elements from element 0, in row-major order. Only for small tensors whose rank is right.
template <typename F>
void for_each_element(const fovea_tensor &view, F f) {
  int64_t index[FOVEA_MAX_RANK] = {};
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] <= 0) return;
  }
  for (;;) {
    int64_t at = 0;
    for (int axis = 0; axis < view.rank; ++axis) at += view.shape[axis] > 1 ? index[axis] * view.strides[axis] : 0;
    f(at);
    int axis = view.rank - 1;
    while (axis >= 0 && ++index[axis] == view.shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

}  // namespace fuzz
