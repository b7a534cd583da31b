// What the conventions at the head of fovea.h promise of every declaration, asked of every operation: inputs and
// descriptors are only read, entries past the rank are ignored, a stride of 0 repeats, what is refused is refused by
// name and writes nothing, whether there is something to compute or not, and a batch entry has the same bits wherever
// it stands.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "errors.hpp"
#include "support/contexts.hpp"
#include "support/operation_call.hpp"

using namespace testing;

namespace {

CallSizes random_sizes(Random &random, int64_t least) {
  CallSizes s;
  for (int64_t *length : {&s.batch, &s.queries, &s.keys, &s.rows, &s.columns, &s.depth}) {
    *length = random.integer(least, 5);
  }
  for (int64_t *some : {&s.kv_heads, &s.group, &s.few_heads}) *some = random.integer(1, 2);
  for (int64_t *some : {&s.key_dim, &s.value_dim, &s.units, &s.head_dim}) *some = random.integer(1, 6);
  s.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX));
  return s;
}

// body(operation, sizes, seed) for random calls of every operation that compute something, or nothing.
template <typename Body>
void for_each_call(bool computing, int64_t cases, Body body) {
  for (const Operation &operation : all_operations()) {
    CAPTURE(operation.name);
    for (int64_t n = 0; n < std::min(cases, case_count(cases)); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      CallSizes sizes = random_sizes(random, computing ? 1 : 0);
      for (int turn = 0; computes(operation.operands(sizes)) != computing && turn < 1000; ++turn) {
        sizes = random_sizes(random, computing ? 1 : 0);
      }
      body(operation, sizes, seed);
    }
  }
}

// A message calls the parameters of a score function by other names than the list of operands does.
std::string name_in_messages(const std::string &name) { return name == "score_bias" ? "score.bias" : name; }

struct Spoiled {
  const char *what;
  fovea_status expected;
  std::function<bool(fovea_tensor &)> spoil;  // false: it cannot be, of this tensor
};

const Spoiled kSpoiled[] = {
    {"rank -1", FOVEA_BAD_RANK, [](fovea_tensor &t) { return t.rank = -1, true; }},
    {"rank 7", FOVEA_BAD_RANK, [](fovea_tensor &t) { return t.rank = 7, true; }},
    {"element type", FOVEA_BAD_DTYPE, [](fovea_tensor &t) { return t.dtype = 99, true; }},
    {"bfloat16 elements", FOVEA_BAD_DTYPE, [](fovea_tensor &t) { return t.dtype = FOVEA_BF16, true; }},
    {"8-bit elements", FOVEA_BAD_DTYPE, [](fovea_tensor &t) { return t.dtype = FOVEA_F8_E4M3, true; }},
    {"negative size", FOVEA_BAD_SHAPE, [](fovea_tensor &t) { return t.shape[0] = -3, true; }},
    {"no data", FOVEA_NULL_POINTER,
     [](fovea_tensor &t) {
       t.data = nullptr;
       for (int axis = 0; axis < t.rank; ++axis) {
         if (t.shape[axis] == 0) return false;
       }
       return true;
     }},
    {"data between elements", FOVEA_BAD_VALUE, [](fovea_tensor &t) {
       t.data = static_cast<char *>(t.data) + 1;
       for (int axis = 0; axis < t.rank; ++axis) {
         if (t.shape[axis] == 0) return false;
       }
       return t.dtype != FOVEA_BOOL && t.dtype != FOVEA_I8 && t.dtype != FOVEA_U8;
     }}};

// Every operand of the call spoiled in each way, one at a time.
void check_refusals(const Operation &operation, const CallSizes &sizes, uint64_t seed) {
  const OperationCall good(operation.operands(sizes), seed), call(operation.operands(sizes), seed);
  if (good.run(operation, sizes) != FOVEA_OK) return;  // sizes that one or the other operation does not take
  const std::vector<unsigned char> before = call.outputs();
  for (size_t n = 0; n < call.operands.size(); ++n) {
    if (!call.given(n)) continue;
    const std::string name = call.operands[n].name;
    CAPTURE(name);
    for (const Spoiled &bad : kSpoiled) {
      CAPTURE(bad.what);
      std::vector<fovea_tensor> spoiled = call.tensors;
      if (!bad.spoil(spoiled[n])) continue;
      if (spoiled[n].dtype == FOVEA_BF16 && call.operands[n].narrow) continue;
      check_refusal(call.run(operation, sizes, spoiled.data()), bad.expected, {name_in_messages(name)});
      CHECK(call.outputs() == before);
    }
  }
}

// Entry b of a call's tensors, cut out of the axis, if any, that is as long as the batch.
OperationCall cut_batch(const OperationCall &all, const Operands &operands, int64_t batch, int64_t b) {
  OperationCall one(operands, 0);
  for (size_t n = 0; n < operands.size(); ++n) {
    const Shape &shape = all.operands[n].shape;
    size_t inner = size_of(operands[n].dtype), outer = 1, size = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const bool found = size > 1;
      if (shape[axis] == batch && !found) {
        size = static_cast<size_t>(batch);
      } else {
        (found ? outer : inner) *= static_cast<size_t>(shape[axis]);
      }
    }
    const size_t at = size > 1 ? static_cast<size_t>(b) : 0;
    for (size_t block = 0; block < outer; ++block) {
      std::memcpy(one.memory[n].data() + block * inner, all.memory[n].data() + (block * size + at) * inner, inner);
    }
  }
  return one;
}

// Gradients of what all entries share are sums over them, not an entry's: those of an array without a batch axis, and
// of a bias, which may have one of size 1.
void forget_sums(const Operation &operation, const OperationCall &alone) {
  if (operation.name.find("backward") == std::string::npos) return;
  for (size_t i = 0; i < alone.operands.size(); ++i) {
    const std::string &name = alone.operands[i].name;
    bool of_entry = false;
    for (const char *rows : {"query", "key", "value", "grad_x", "gradients.x", "gradients.multiplier", "gradients.outs",
                             "gradients.lses", "gradients.query", "gradients.key", "gradients.value"}) {
      of_entry = of_entry || name == rows;
    }
    if (alone.is_output(i) && !of_entry) std::memset(alone.memory[i].data(), 0, alone.memory[i].size());
  }
}

}  // namespace

TEST_SUITE("every operation") {
  TEST_CASE("inputs and descriptors are only read") {
    for_each_call(true, 25, [](const Operation &operation, CallSizes sizes, uint64_t seed) {
      for_each_isa([&](const fovea_context *context) {
        sizes.context = context;
        const OperationCall call(operation.operands(sizes), seed);
        const size_t size = call.tensors.size() * sizeof(fovea_tensor);
        const GuardedMemory descriptors(size);
        std::memcpy(descriptors.data(), call.tensors.data(), size);
        descriptors.freeze();
        for (size_t n = 0; n < call.operands.size(); ++n) {
          if (!call.is_output(n)) call.memory[n].freeze();
        }
        const auto *frozen = reinterpret_cast<const fovea_tensor *>(descriptors.data());
        REQUIRE(call.run(operation, sizes, frozen) != FOVEA_INTERNAL_ERROR);  // a write ends the program
      });
    });
  }

  TEST_CASE("entries of shape and strides past the rank do not matter") {
    for_each_call(true, 25, [](const Operation &operation, CallSizes sizes, uint64_t seed) {
      for_each_isa([&](const fovea_context *context) {
        sizes.context = context;
        const OperationCall plain(operation.operands(sizes), seed);
        OperationCall spoiled(operation.operands(sizes), seed);
        for (fovea_tensor &tensor : spoiled.tensors) {
          for (int axis = tensor.rank; axis < FOVEA_MAX_RANK; ++axis) {
            tensor.shape[axis] = axis % 2 == 0 ? -5 : INT64_MAX;
            tensor.strides[axis] = axis % 2 == 0 ? INT64_MIN : 12345;
          }
        }
        REQUIRE(spoiled.run(operation, sizes) == plain.run(operation, sizes));
        CHECK(spoiled.outputs() == plain.outputs());
      });
    });
  }

  TEST_CASE("a stride of 0 repeats an input: the bits of the repeated input written out") {
    for_each_call(true, 8, [](const Operation &operation, CallSizes sizes, uint64_t seed) {
      for_each_isa([&](const fovea_context *context) {
        sizes.context = context;
        const OperationCall first(operation.operands(sizes), seed);
        for (size_t n = 0; n < first.operands.size(); ++n) {
          const Operand &operand = first.operands[n];
          if (!first.given(n) || first.is_output(n)) continue;
          const size_t axes = operand.any_stride ? operand.shape.size() : operand.shape.size() - 1;
          for (size_t axis = 0; axis < axes; ++axis) {
            CAPTURE(operand.name);
            CAPTURE(axis);
            OperationCall repeated(first.operands, seed), written(first.operands, seed);
            repeated.tensors[n].strides[axis] = 0;
            size_t block = size_of(operand.dtype);
            for (size_t i = axis + 1; i < operand.shape.size(); ++i) block *= static_cast<size_t>(operand.shape[i]);
            const size_t size = block * static_cast<size_t>(operand.shape[axis]);
            for (size_t at = 0; at + block <= written.memory[n].size(); at += block) {
              std::memmove(written.memory[n].data() + at, written.memory[n].data() + at / size * size, block);
            }
            REQUIRE(repeated.run(operation, sizes) == written.run(operation, sizes));
            CHECK(repeated.outputs() == written.outputs());
          }
        }
      });
    });
  }

  TEST_CASE("every operand spoiled: a code, one line that names it, outputs as they were") {
    for_each_call(true, 10, check_refusals);
  }

  // There is nothing to compute, and yet what is wrong is told.
  TEST_CASE("a call whose outputs have no elements is checked like any other") {
    for_each_call(false, 15, check_refusals);
  }

  TEST_CASE("an output that overlaps an input or another output is refused") {
    for_each_call(true, 12, [](const Operation &operation, const CallSizes &sizes, uint64_t seed) {
      const OperationCall good(operation.operands(sizes), seed), call(operation.operands(sizes), seed);
      if (good.run(operation, sizes) != FOVEA_OK) return;
      const std::vector<unsigned char> before = call.outputs();
      for (size_t output = 0; output < call.operands.size(); ++output) {
        if (!call.given(output) || !call.is_output(output)) continue;
        for (size_t other = 0; other < call.operands.size(); ++other) {
          const Role role = call.operands[other].role;
          if (other == output || !call.given(other) || (role != Role::input && role != Role::output)) continue;
          if (call.memory[other].size() < 8) continue;  // behind the first element there must be another
          CAPTURE(call.operands[output].name);
          CAPTURE(call.operands[other].name);
          // One element on, so that operations which allow in place refuse it too.
          const auto address = reinterpret_cast<uintptr_t>(call.tensors[other].data);
          std::vector<fovea_tensor> overlapping = call.tensors;
          overlapping[output].data = reinterpret_cast<void *>((address + 4) / 4 * 4);
          check_refusal(call.run(operation, sizes, overlapping.data()), FOVEA_OVERLAP,
                        {name_in_messages(call.operands[other].name)});
          CHECK(call.outputs() == before);
        }
      }
    });
  }

  TEST_CASE("a batch entry has the same bits alone and wherever it stands in a batch") {
    constexpr int64_t batch = 13;  // no other size is, nor the sum of two features', nor rotary's number of pairs
    int64_t compared = 0;
    for (const Operation &operation : all_operations()) {
      CAPTURE(operation.name);
      for (int64_t n = 0; n < 8; ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        CAPTURE(seed);
        Random random(seed);
        CallSizes sizes = random_sizes(random, 1);
        sizes.batch = batch;
        for (int64_t *length : {&sizes.queries, &sizes.keys, &sizes.rows, &sizes.columns, &sizes.depth}) {
          *length = random.chance(0.5) ? random.integer(8, 12) : random.integer(14, 40);
        }
        if ((sizes.columns + 1) / 2 == batch) sizes.columns += 2;
        sizes.choices &= ~(uint64_t{1} << 22);  // dropout goes by the entry's number
        if (operation.name == "add_positional_encoding") sizes.choices &= ~(uint64_t{1} << 3);
        CallSizes one = sizes;
        one.batch = 1;
        for_each_isa([&](const fovea_context *context) {
          sizes.context = one.context = context;
          const OperationCall all(operation.operands(sizes), seed);
          if (all.run(operation, sizes) != FOVEA_OK) return;
          for (int64_t b : {0, 4, 12}) {
            CAPTURE(b);
            const OperationCall alone = cut_batch(all, operation.operands(one), batch, b);
            forget_sums(operation, alone);
            const std::vector<unsigned char> expected = alone.outputs();
            for (size_t i = 0; i < alone.operands.size(); ++i) {
              if (alone.is_output(i)) std::memset(alone.memory[i].data(), 0xA7, alone.memory[i].size());
            }
            REQUIRE_OK(alone.run(operation, one));
            forget_sums(operation, alone);
            CHECK(alone.outputs() == expected);
            ++compared;
          }
        });
      }
    }
    CHECK(compared > 0);
  }

  TEST_CASE("nothing is printed, by calls that succeed and by calls that are refused") {
    char name[] = "/tmp/fovea-printed-XXXXXX";
    const int file = mkstemp(name);
    REQUIRE(file >= 0);
    unlink(name);
    std::fflush(nullptr);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    for (const Operation &operation : all_operations()) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Random random(seed);
        const CallSizes sizes = random_sizes(random, static_cast<int64_t>(seed % 2));
        OperationCall call(operation.operands(sizes), seed);
        static_cast<void>(call.run(operation, sizes));
        for (fovea_tensor &tensor : call.tensors) tensor.dtype = 99;
        static_cast<void>(call.run(operation, sizes));
      }
    }
    std::fflush(nullptr);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    for (const int descriptor : {out, error}) close(descriptor);
    CHECK(lseek(file, 0, SEEK_END) == 0);
    close(file);
  }
}
