// What a model takes on this machine: tokens per second of a prompt and of decoding, where the time goes and what bounds
// it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "decoder.hpp"

namespace smollm2 {

void bench(const Model &model, fovea_dtype cache);

// A table for picture.py: tokens per second of 1 to 32 sequences at depth 512.
void scaling(const Model &model, fovea_dtype cache);

}  // namespace smollm2
