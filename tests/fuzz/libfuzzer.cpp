// The same calls from the bytes that libFuzzer brings.
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::fuzz_one(data, size);
  return 0;
}
