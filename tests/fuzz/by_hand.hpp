// Calls that the tables do not describe, as their numbers depend on each other.
#pragma once

#include "choices.hpp"
#include "memory.hpp"

namespace fuzz {

// Each ends the process where a promise does not hold.
using ByHand = void (*)(Memory &memory, Choices &choices);

void serve(Memory &memory, Choices &choices);             // schedules: serving.cpp
void keep_projections(Memory &memory, Choices &choices);  // keeping.cpp
void use_pool(Memory &memory, Choices &choices);          // pooling.cpp

constexpr ByHand by_hand[] = {serve, keep_projections, use_pool};

}  // namespace fuzz
