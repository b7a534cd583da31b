// Strides of axes that are never stepped along, of size 0 or 1 or in a tensor without elements, mean nothing: NumPy
// leaves there what slicing left, or 0. No operation refuses them, computes with them, or (under the sanitizers)
// overflows.
#include <doctest/doctest.h>

#include <cstring>

#include "support/contexts.hpp"
#include "support/operations.hpp"

using namespace testing;

namespace {

// The operands of one call with memory of their own, contiguous.
struct Call {
  Call(const Operands &given, uint64_t seed) : operands(given), memory(given.size()), tensors(given.size()) {
    Random random(seed);
    for (size_t n = 0; n < operands.size(); ++n) {
      const Operand &operand = operands[n];
      const size_t count = static_cast<size_t>(element_count(operand.shape));
      memory[n].resize(count * 8 + 8);
      fill(operand, count, random, memory[n].data());
      tensors[n] = fovea_tensor_contiguous(memory[n].data(), operand.dtype, static_cast<int32_t>(operand.shape.size()),
                                           operand.shape.data());
    }
  }

  static void fill(const Operand &operand, size_t count, Random &random, unsigned char *bytes) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = random.integer(0, operand.most < 0 ? 0 : operand.most);
      if (operand.dtype == FOVEA_I64) std::memcpy(bytes + 8 * i, &number, 8);
      const auto narrow = static_cast<int32_t>(number);
      if (operand.dtype == FOVEA_I32) std::memcpy(bytes + 4 * i, &narrow, 4);
      if (operand.dtype == FOVEA_BOOL) bytes[i] = static_cast<unsigned char>(number);
      const float real = 0.1f + std::abs(random.normal());  // above 0: some are widths
      if (operand.dtype == FOVEA_F32) std::memcpy(bytes + 4 * i, &real, 4);
    }
  }

  // Puts anything where a stride is never used.
  void spoil_strides(Random &random) {
    for (fovea_tensor &tensor : tensors) {
      bool empty = false;
      for (int axis = 0; axis < tensor.rank; ++axis) empty = empty || tensor.shape[axis] == 0;
      for (int axis = 0; axis < tensor.rank; ++axis) {
        if (!empty && tensor.shape[axis] > 1) continue;
        tensor.strides[axis] = random.pick<int64_t>(
            {INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MIN / 3, -1, 0, 7, int64_t{1} << 62, INT64_MAX - 1});
      }
    }
  }

  fovea_status run(const Operation &operation, const CallSizes &sizes) const {
    Tensors given;
    for (size_t n = 0; n < operands.size(); ++n) given.push_back(operands[n].name.empty() ? nullptr : &tensors[n]);
    return operation.run(sizes, given);
  }

  Operands operands;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<fovea_tensor> tensors;
};

CallSizes small_sizes(Random &random) {
  const auto size = [&] { return random.pick<int64_t>({0, 1, 1, 1, 2, 3}); };
  CallSizes s;
  for (int64_t *length : {&s.batch, &s.queries, &s.keys, &s.rows, &s.columns, &s.depth}) *length = size();
  for (int64_t *some : {&s.kv_heads, &s.group, &s.key_dim, &s.value_dim, &s.units, &s.few_heads, &s.head_dim}) {
    *some = random.integer(1, 3);
  }
  s.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX));
  return s;
}

}  // namespace

TEST_SUITE("unused strides") {
  TEST_CASE("strides of axes that are never stepped along do not matter, in any operation") {
    for (const Operation &operation : all_operations()) {
      for_each_isa([&](const fovea_context *context) {
        int64_t accepted = 0;
        const int64_t cases = case_count(300);
        for (int64_t n = 0; n < cases; ++n) {
          const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
          Random random(seed);
          CallSizes sizes = small_sizes(random);
          sizes.context = context;
          const Call plain(operation.operands(sizes), seed);
          Call spoiled(operation.operands(sizes), seed);
          spoiled.spoil_strides(random);
          const std::string what = describe(operation, spoiled.operands, spoiled.tensors);
          CAPTURE(seed);
          CAPTURE(what);
          const fovea_status expected = plain.run(operation, sizes);
          accepted += expected == FOVEA_OK ? 1 : 0;
          const fovea_status status = spoiled.run(operation, sizes);
          if (expected == FOVEA_OK) {
            REQUIRE_OK(status);
            REQUIRE(plain.memory == spoiled.memory);
          } else {
            REQUIRE(status == expected);
          }
        }
        CAPTURE(operation.name);
        CHECK(accepted * 2 > cases);  // else the list of operations is at fault
      });
    }
  }
}
