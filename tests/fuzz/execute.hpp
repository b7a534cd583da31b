// Gives a call memory, makes it, and looks whether what the headers promise of every call holds.
#pragma once

#include "memory.hpp"
#include "state.hpp"

namespace fuzz {

// In which way a call is made anew, to be compared.
struct Variant {
  const fovea_context *context = nullptr;  // null: the frame's
  bool widened = false;                    // F16, BF16 and numbers with scales become F32, handles their twins
  bool apart = false;                      // nothing in place
  int64_t entry = -1;                      // one entry of the batch
  int environment = -1;
  const FunctionRow *function = nullptr;  // null: the frame's; the arguments beyond its own are left out
};

// One output tensor's elements in row-major order.
struct Output {
  const char *name;
  fovea_dtype dtype;
  std::vector<uint8_t> elements;
  int64_t entries = 0, entry_axis = -1;  // the batch's
  std::vector<int64_t> shape;
};

struct Outcome {
  Result result;
  std::vector<Output> outputs;
  void *made = nullptr;                // a new handle
  std::vector<uint8_t> written_bytes;  // by the function, into memory of the caller's
};

// Ends the process where a promise does not hold.
Outcome execute(Memory &memory, const Frame &frame, const Variant &variant);

const fovea_context *context_of(const Frame &frame);

}  // namespace fuzz
