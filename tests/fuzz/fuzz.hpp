// A byte string as a sequence of calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fuzz {

// Makes the calls that the bytes stand for, looks at what they did, and ends the process where a promise of the headers
// does not hold.
void fuzz_one(const uint8_t *data, size_t size);

// Prints each call before it is made.
extern bool talkative;

}  // namespace fuzz
