// Every operation of the interface as a list of operands and a call, for tests of what holds for all of them: which
// strides do not matter, how long a call with nothing to compute may take.
#pragma once

#include <fovea/fovea.h>

#include <functional>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace testing {

// What the shapes of an operation are made of. A call whose sizes are drawn at random may well be refused.
struct CallSizes {
  // May be anything.
  int64_t batch = 2, kv_heads = 2, group = 2, queries = 3, keys = 4;
  int64_t rows = 3, columns = 4, depth = 3;
  // Sizes of what a call reads or copies whatever else it does: small.
  int64_t head_dim = 3, key_dim = 3, value_dim = 2, units = 5, few_heads = 2;
  uint64_t choices = 0;  // which options, ranks and optional tensors
  const fovea_context *context = nullptr;

  int64_t heads() const { return kv_heads * group; }
  bool choice(int bit) const { return (choices >> bit & 1) != 0; }
};

enum class Role {
  input,      // read for the outputs only
  parameter,  // read in any case, and small
  copied,     // into a handle: what is computed, like an output
  output
};

struct Operand {
  std::string name;  // empty: not given
  Role role = Role::input;
  Shape shape;
  bool any_stride = false;  // along the last axis too
  fovea_dtype dtype = FOVEA_F32;
  int64_t most = 0;     // of integers
  bool narrow = false;  // F16 and BF16 are taken, too
};

inline Operand optional(bool given, Operand operand) {
  if (!given) operand.name.clear();
  return operand;
}

inline Shape batched(bool wanted, int64_t batch, int64_t rows, int64_t columns) {
  return wanted ? Shape{batch, rows, columns} : Shape{rows, columns};
}

using Operands = std::vector<Operand>;
using Tensors = std::vector<const fovea_tensor *>;  // one for each operand; null: not given

struct Operation {
  std::string name;
  std::function<Operands(const CallSizes &)> operands;
  std::function<fovea_status(const CallSizes &, const Tensors &)> run;
};

// Attention in all its forms.
std::vector<Operation> attention_operations();

// Building blocks, positions, linear layers, 8-bit numbers.
std::vector<Operation> layer_operations();

// Pools, schedules and multi-head attention.
std::vector<Operation> serving_operations();

std::vector<Operation> all_operations();

// Whether the call has an element to compute, write or copy.
bool computes(const Operands &operands);

// The case in a line: the operation, its operands' shapes and strides.
std::string describe(const Operation &operation, const Operands &operands, const std::vector<fovea_tensor> &tensors);

}  // namespace testing
