// Whoever writes to a call's integers while the call runs gets wrong numbers or an error, and the call stays within the
// tensors: every operand that holds integers, of every function, with memory around the tensors that may not be
// touched. Once by a thread that writes all the time, and once after each of the call's reads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "changing_memory.hpp"
#include "operand_call.hpp"

using namespace testing;

namespace {

// Numbers that were good when they were checked, and those that lead far outside.
template <typename Integer>
constexpr Integer kBad[] = {std::numeric_limits<Integer>::max(), std::numeric_limits<Integer>::min(), -1, 1 << 29,
                            4096};

bool is_answer(fovea_status status) {
  return status == FOVEA_OK || status == FOVEA_BAD_VALUE || status == FOVEA_BAD_SHAPE || status == FOVEA_POOL_EXHAUSTED;
}

// Numbers that were good when they were checked, and those that lead far outside.
template <typename Integer>
void flip(std::byte *data, size_t count, const std::atomic<bool> &stop) {
  for (size_t turn = 0; !stop; ++turn) {
    const Integer number =
        turn % 2 == 0 ? static_cast<Integer>(turn / 2 % 2) : kBad<Integer>[turn / 2 % std::size(kBad<Integer>)];
    for (size_t n = 0; n < count; ++n) {
      __atomic_store_n(reinterpret_cast<Integer *>(data) + n, number, __ATOMIC_RELAXED);
    }
  }
}

void run_while_flipping(OperandCall &call, const Slot &slot) {
  std::atomic<bool> stop = false;
  auto *const data = static_cast<std::byte *>(slot.tensor.data);
  std::thread writer([&] {
    slot.tensor.dtype == FOVEA_I64 ? flip<int64_t>(data, slot.bytes() / 8, stop)
                                   : flip<int32_t>(data, slot.bytes() / 4, stop);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < end) {
    CHECK(is_answer(call.run()));
  }
  stop = true;
  writer.join();
}

std::vector<int64_t> numbers_of(const Slot &slot) {
  std::vector<int64_t> numbers;
  const bool wide = slot.tensor.dtype == FOVEA_I64;
  for (size_t n = 0; n < slot.bytes() / (wide ? 8 : 4); ++n) {
    numbers.push_back(wide ? static_cast<const int64_t *>(slot.tensor.data)[n]
                           : static_cast<const int32_t *>(slot.tensor.data)[n]);
  }
  return numbers;
}

// The same numbers in the other size.
void give_numbers(OperandCall &call, Slot &slot, const Shape &shape, fovea_dtype dtype,
                  const std::vector<int64_t> &numbers) {
  call.give(slot, shape, dtype, 0);
  for (size_t n = 0; n < numbers.size(); ++n) {
    if (dtype == FOVEA_I64) {
      static_cast<int64_t *>(slot.tensor.data)[n] = numbers[n];
    } else {
      static_cast<int32_t *>(slot.tensor.data)[n] = static_cast<int32_t>(numbers[n]);
    }
  }
}

// body(call, slot) for every operand of integers, of both sizes; all other tensors between pages that may not be
// touched.
template <typename Body>
int for_each_of_integers(const Body &body) {
  int tried = 0;
  for (const TableFunction &function : table_functions) {
    const std::string name = function.name;
    CAPTURE(name);
    if (name == "fovea_mha_plan_create") continue;  // does not look at data
    for (const auto &call : good_calls(function)) {
      for (Slot &slot : call->slots()) {
        if (slot.given) call->guard(slot);
      }
      for (Slot &slot : call->slots()) {
        if (!slot.holds_integers()) continue;
        CAPTURE(slot.path);
        const Shape shape(slot.tensor.shape, slot.tensor.shape + slot.tensor.rank);
        const std::vector<int64_t> numbers = numbers_of(slot);
        const fovea_dtype own = slot.tensor.dtype;
        for (const fovea_dtype dtype : {FOVEA_I32, FOVEA_I64}) {
          if (slot.path == "step.tree" && dtype == FOVEA_I32) continue;  // bits are of 64 bits alone
          give_numbers(*call, slot, shape, dtype, numbers);
          call->guard(slot);
          REQUIRE(call->run() == FOVEA_OK);
          body(*call, slot);
          ++tried;
        }
        give_numbers(*call, slot, shape, own, numbers);
      }
    }
  }
  return tried;
}

#ifdef FOVEA_TEST_CHANGING_MEMORY
template <typename Integer>
void change_after_each_read(OperandCall &call, Slot &slot, ChangingMemory &memory) {
  const size_t size = slot.bytes(), count = size / sizeof(Integer);
  const std::vector<int64_t> numbers = numbers_of(slot);
  const std::vector<Integer> good(numbers.begin(), numbers.end());
  slot.tensor.data = memory.data(size);
  const auto run = [&] { CHECK(is_answer(call.run())); };
  const size_t reads = memory.run(good.data(), good.data(), size, 0, run);
  CHECK(reads >= 1);
  // All bad numbers after the first reads, which are those of checks; then one after the other: each read takes two
  // signals.
  constexpr size_t all_after = 6;
  for (size_t after = 1, turn = 0; after <= reads; after += 1 + after / 16) {
    for (size_t n = 0; n < (after <= all_after ? std::size(kBad<Integer>) : 1); ++n, ++turn) {
      const std::vector<Integer> bad(count, kBad<Integer>[turn % std::size(kBad<Integer>)]);
      memory.run(good.data(), bad.data(), size, after, run);
    }
  }
}
#endif

}  // namespace

TEST_SUITE("races") {
  TEST_CASE("integers that another thread changes during a call lead nowhere outside the tensors") {
    const int tried = for_each_of_integers([](OperandCall &call, const Slot &slot) { run_while_flipping(call, slot); });
    CHECK(tried > 20);
  }

#ifdef FOVEA_TEST_CHANGING_MEMORY
  TEST_CASE("integers that change after any of a call's reads lead nowhere outside the tensors") {
    ChangingMemory memory;
    const int tried = for_each_of_integers([&](OperandCall &call, Slot &slot) {
      slot.tensor.dtype == FOVEA_I64 ? change_after_each_read<int64_t>(call, slot, memory)
                                     : change_after_each_read<int32_t>(call, slot, memory);
    });
    CHECK(tried > 20);
  }
#endif
}
