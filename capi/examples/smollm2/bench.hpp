// What a model takes on this machine: tokens per second of a prompt and of decoding, where the time goes and what
// bounds it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "decoder.hpp"

namespace smollm2 {

void bench(const Model &model, fovea_dtype cache);

// For each line on standard input, 'prompt 1 LENGTH' or 'decode SEQUENCES DEPTH', a line of tokens per second, their
// bound and the shares of attention, products and the rest. picture.py and peers.py read them.
void measure(const Model &model, fovea_dtype cache);

}  // namespace smollm2
