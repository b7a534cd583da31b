// Makes calls from bytes.
#pragma once

#include <optional>

#include "state.hpp"

namespace fuzz {

// Makes handles that a call needs and nobody has; null where it did not succeed.
using MakeHandle = Handle *(*)(State &state, Choices &choices, int kind, int depth);

// A call of the function; none where the sizes that came out are too large to try. `plain`: nothing is wrong with it,
// as far as the headers can be understood.
std::optional<Frame> build(State &state, Choices &choices, size_t function, bool plain, int depth, MakeHandle make);

// Makes some things wrong, and sees to it that whatever the call may then touch is there.
void spoil(State &state, Choices &choices, Frame &frame);

// Alters saved bytes, and mostly has their checksum fit.
void spoil_bytes(Choices &choices, std::vector<uint8_t> &bytes);

// Bytes, element 0 and contents of a tensor's memory for its descriptor; false if that takes more than a block.
bool give_memory(Tensor &tensor, Noise &noise, int style, uint64_t most);

// The bytes that the descriptor reaches from element 0: [low, high); false where it is no tensor.
bool reach(const fovea_tensor &view, int64_t *low, int64_t *high);

}  // namespace fuzz
