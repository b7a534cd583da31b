// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fovea/fovea.h>

enum class Kind { context, kv_pool, mha_plan, mha_weights, packed_matrix, plan, prepared_keys, schedule };

constexpr int buffer_count = 38;

/* Those of multi-head attention come after them. */
constexpr int mha_buffer_count = buffer_count + 4;

/* Of a planned run: the pointers in the order of fovea_attention_buffers. */
fovea_attention_buffers buffers_of(void *const *data);

/* Of a run of multi-head attention, whose attention has all but the rows. */
fovea_mha_buffers mha_buffers_of(void *const *data, fovea_attention_buffers &attention);
void destroy(Kind kind, void *raw);
const char *name_of(Kind kind);
extern const char *const buffer_names[];
