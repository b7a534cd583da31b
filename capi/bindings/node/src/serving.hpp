// What pools and schedules need beside the functions that are generated: steps as JavaScript has them, runs whose
// tensors are compared with what was planned, and the memory of pages as arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call.hpp"

// A copy of a contiguous tensor of I32 or I64 as a typed array; undefined for one of rank -1.
napi_value copied(napi_env env, const fovea_tensor &tensor);

// { queryStarts, keyLens, pageIds, pageStarts }: copies, as the pool changes its own.
napi_value step_of(napi_env env, const fovea_step &step);

napi_value tasks_of(napi_env env, const fovea_schedule *schedule);

// Reads what a run takes into in.call. False with an exception.
bool read_schedule_run(Reader &in, napi_value schedule, napi_value tensors);

bool read_mha_run(Reader &in, napi_value plan, napi_value workspace, napi_value tensors);

// poolMemory(pool, layer, what): { buffer, shape, dtype } of its 'keys', 'values', 'keyScales' or 'valueScales', or
// undefined. The buffer lies over the pool's own memory, and keeps it.
napi_value pool_memory(napi_env env, napi_callback_info info);
