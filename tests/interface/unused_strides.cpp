// Strides of axes that are never stepped along, of size 0 or 1 or in a tensor without elements, mean nothing: NumPy
// leaves there what slicing left, or 0. No operation refuses them, computes with them, or (under the sanitizers)
// overflows.
#include <doctest/doctest.h>

#include "support/contexts.hpp"
#include "support/operation_call.hpp"

using namespace testing;

namespace {

// Puts anything where a stride is never used.
void spoil_strides(std::vector<fovea_tensor> &tensors, Random &random) {
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
        const int64_t cases = case_count(200);
        for (int64_t n = 0; n < cases; ++n) {
          const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
          Random random(seed);
          CallSizes sizes = small_sizes(random);
          sizes.context = context;
          const OperationCall plain(operation.operands(sizes), seed);
          OperationCall spoiled(operation.operands(sizes), seed);
          spoil_strides(spoiled.tensors, random);
          const std::string what = describe(operation, spoiled.operands, spoiled.tensors);
          CAPTURE(seed);
          CAPTURE(what);
          const fovea_status expected = plain.run(operation, sizes);
          accepted += expected == FOVEA_OK ? 1 : 0;
          const fovea_status status = spoiled.run(operation, sizes);
          if (expected == FOVEA_OK) {
            REQUIRE_OK(status);
            REQUIRE(plain.outputs() == spoiled.outputs());
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
