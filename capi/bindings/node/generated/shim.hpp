// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fovea/fovea.h>

enum class Kind { context, kv_pool, mha_plan, mha_weights, packed_matrix, plan, prepared_keys, schedule };

constexpr int buffer_count = 21;

/* Of a planned run: the pointers in the order of fovea_attention_buffers. */
fovea_attention_buffers buffers_of(void *const *data);
void destroy(Kind kind, void *raw);
const char *name_of(Kind kind);
extern const char *const buffer_names[];
