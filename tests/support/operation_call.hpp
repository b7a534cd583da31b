// The operands of one call of an operation with memory of their own: contiguous, random, each between pages that may
// not be touched. Tests spoil what they like of the descriptors.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "operations.hpp"

namespace testing {

inline size_t size_of(fovea_dtype dtype) {
  if (dtype == FOVEA_BOOL || dtype == FOVEA_I8 || dtype == FOVEA_U8) return 1;
  if (dtype == FOVEA_F16 || dtype == FOVEA_BF16) return 2;
  return dtype == FOVEA_I64 ? 8 : 4;
}

struct OperationCall {
  OperationCall(const Operands &given, uint64_t seed) : operands(given), tensors(given.size()) {
    Random random(seed);
    for (size_t n = 0; n < operands.size(); ++n) {
      const Operand &operand = operands[n];
      const auto count = static_cast<size_t>(element_count(operand.shape));
      memory.emplace_back(count * size_of(operand.dtype), size_of(operand.dtype));
      fill(operand, count, random, reinterpret_cast<unsigned char *>(memory[n].data()));
      tensors[n] = fovea_tensor_contiguous(memory[n].data(), operand.dtype, static_cast<int32_t>(operand.shape.size()),
                                           operand.shape.data());
    }
  }

  bool given(size_t n) const { return !operands[n].name.empty(); }
  bool is_output(size_t n) const { return operands[n].role == Role::output; }

  fovea_status run(const Operation &operation, const CallSizes &sizes) const {
    return run(operation, sizes, tensors.data());
  }
  // With descriptors that lie elsewhere.
  fovea_status run(const Operation &operation, const CallSizes &sizes, const fovea_tensor *descriptors) const {
    Tensors pointers;
    for (size_t n = 0; n < operands.size(); ++n) pointers.push_back(given(n) ? &descriptors[n] : nullptr);
    return operation.run(sizes, pointers);
  }

  std::vector<unsigned char> bytes(size_t n) const {
    const auto *data = reinterpret_cast<const unsigned char *>(memory[n].data());
    return {data, data + memory[n].size()};
  }
  // The bytes of all outputs, one after the other.
  std::vector<unsigned char> outputs() const {
    std::vector<unsigned char> all;
    for (size_t n = 0; n < operands.size(); ++n) {
      const std::vector<unsigned char> one = is_output(n) && given(n) ? bytes(n) : std::vector<unsigned char>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Operands operands;
  std::vector<GuardedMemory> memory;
  std::vector<fovea_tensor> tensors;

 private:
  static void fill(const Operand &operand, size_t count, Random &random, unsigned char *bytes) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = random.integer(0, operand.most < 0 ? 0 : operand.most);
      if (operand.dtype == FOVEA_I64) std::memcpy(bytes + 8 * i, &number, 8);
      const auto narrow = static_cast<int32_t>(number);
      if (operand.dtype == FOVEA_I32) std::memcpy(bytes + 4 * i, &narrow, 4);
      if (operand.dtype == FOVEA_BOOL) bytes[i] = static_cast<unsigned char>(number);
      if (operand.dtype == FOVEA_I8 || operand.dtype == FOVEA_U8)
        bytes[i] = static_cast<unsigned char>(random.integer(0, 255));
      const auto half = static_cast<uint16_t>(0x3c00 + random.integer(0, 255));  // 1 and more
      if (operand.dtype == FOVEA_F16) std::memcpy(bytes + 2 * i, &half, 2);
      const float real = 0.1f + std::abs(random.normal());  // above 0: some are widths
      if (operand.dtype == FOVEA_F32) std::memcpy(bytes + 4 * i, &real, 4);
    }
  }
};

}  // namespace testing
