// Calls of schedules.
#pragma once

#include "choices.hpp"
#include "memory.hpp"

namespace fuzz {

// Ends the process where a promise does not hold.
void serve(Memory &memory, Choices &choices);

}  // namespace fuzz
