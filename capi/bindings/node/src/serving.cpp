// SPDX-License-Identifier: Apache-2.0
#include "serving.hpp"

#include <algorithm>
#include <cstring>

namespace {

napi_value undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

size_t count_of(const fovea_tensor &tensor) {
  size_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) count *= static_cast<size_t>(tensor.shape[axis]);
  return count;
}

std::string text_of(const int64_t *numbers, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

// Query, out and log-sum-exp may have fewer tokens than the schedule has room for, but no fewer than the step. So may
// query, key, value and out of multi-head attention.
bool has_tokens(int buffer, bool is_mha) {
  const std::string name = buffer_names[buffer];
  return is_mha ? buffer < 4 : name == "query" || name == "out" || name == "logSumExp";
}

bool has_planned_shape(const fovea_tensor &given, const fovea_tensor &planned, bool may_be_fewer) {
  if (given.rank != planned.rank) return false;
  for (int axis = 0; axis < given.rank; ++axis) {
    const bool fewer = axis == 0 && may_be_fewer && given.shape[0] < planned.shape[0];
    if (given.shape[axis] != planned.shape[axis] && !fewer) return false;
  }
  return true;
}

// rows: how many there are at least, -1: as many as were planned.
void expect_planned(Reader &in, int buffer, const fovea_tensor &given, const fovea_tensor &planned, int64_t rows) {
  const std::string name = buffer_names[buffer];
  if (given.dtype != planned.dtype) {
    in.refuse("FOVEA_BAD_DTYPE", name + " holds elements of another type than was planned");
  } else if (!has_planned_shape(given, planned, rows >= 0)) {
    in.refuse("FOVEA_BAD_SHAPE", name + " has shape " + text_of(given.shape, given.rank) + ", planned was " +
                                     text_of(planned.shape, planned.rank));
  } else if (rows >= 0 && given.shape[0] < rows) {
    in.refuse("FOVEA_BAD_SHAPE",
              name + " has " + std::to_string(given.shape[0]) + " rows, the step " + std::to_string(rows) + " tokens");
  }
  for (int axis = 0; axis < given.rank && in.ok(); ++axis) {
    if (given.strides[axis] == planned.strides[axis] || given.shape[axis] < 2) continue;
    in.refuse("FOVEA_BAD_STRIDE", name + " has strides " + text_of(given.strides, given.rank) + ", planned was " +
                                      text_of(planned.strides, planned.rank));
  }
}

fovea_tensor tensor_of(const fovea_kv_pool *pool, int64_t layer, const std::string &what) {
  if (what == "keys") return fovea_kv_pool_keys(pool, layer);
  if (what == "values") return fovea_kv_pool_values(pool, layer);
  if (what == "keyScales") return fovea_kv_pool_key_scales(pool, layer);
  return fovea_kv_pool_value_scales(pool, layer);
}

void let_go(napi_env, void *, void *hint) {
  auto *pool = static_cast<Handle *>(hint);
  --pool->holders;
  pool->dispose_if_unused();
}

}  // namespace

napi_value copied(napi_env env, const fovea_tensor &tensor) {
  if (tensor.rank < 0) return undefined(env);
  const size_t count = count_of(tensor), size = count * bytes_of(tensor.dtype);
  void *data = nullptr;
  napi_value buffer, array;
  if (napi_create_arraybuffer(env, size, &data, &buffer) != napi_ok) return undefined(env);
  if (size > 0) std::memcpy(data, tensor.data, size);
  napi_create_typedarray(env, tensor.dtype == FOVEA_I64 ? napi_bigint64_array : napi_int32_array, count, buffer, 0,
                         &array);
  return array;
}

napi_value step_of(napi_env env, const fovea_step &step) {
  napi_value made;
  napi_create_object(env, &made);
  const auto set = [&](const char *name, const fovea_tensor *tensor) {
    if (tensor != nullptr) napi_set_named_property(env, made, name, copied(env, *tensor));
  };
  set("queryStarts", step.query_starts);
  set("keyLens", step.key_lens);
  set("pageIds", step.page_ids);
  set("pageStarts", step.page_starts);
  return made;
}

napi_value tasks_of(napi_env env, const fovea_schedule *schedule) {
  napi_value tasks, count;
  napi_create_array(env, &tasks);
  for (int64_t phase = 0; phase < fovea_schedule_phases(schedule); ++phase) {
    napi_create_int64(env, fovea_schedule_tasks(schedule, phase), &count);
    napi_set_element(env, tasks, static_cast<uint32_t>(phase), count);
  }
  return tasks;
}

namespace {

using ReadTensors = std::array<const fovea_tensor *, mha_buffer_count>;

bool read_tensors(Reader &in, napi_value tensors, int count, ReadTensors &read) {
  for (int i = 0; i < count && in.ok(); ++i) {
    napi_value tensor;
    if (napi_get_element(in.env(), tensors, static_cast<uint32_t>(i), &tensor) != napi_ok) return false;
    read[static_cast<size_t>(i)] = in.tensor(tensor, buffer_names[i]);
  }
  return in.ok();
}

// The tensors' data, if they are what was planned. tokens: of the present step, -1: there is none.
using RunData = std::array<void *, mha_buffer_count>;

RunData data_of(Reader &in, const Planned &planned, const ReadTensors &read, int64_t tokens) {
  RunData data = {};
  const bool is_mha = planned.size() > buffer_count;
  for (size_t at = 0; at < planned.size() && in.ok(); ++at) {
    const int buffer = static_cast<int>(at);
    const bool wanted = planned[at].rank >= 0;
    if (wanted != (read[at] != nullptr && read[at]->data != nullptr)) {
      in.refuse(wanted ? "FOVEA_NULL_POINTER" : "FOVEA_BAD_VALUE",
                std::string(buffer_names[buffer]) + (wanted ? " is missing" : " was not planned"));
    } else if (wanted) {
      expect_planned(in, buffer, *read[at], planned[at], has_tokens(buffer, is_mha) ? tokens : -1);
      data[at] = read[at]->data;
    }
  }
  return data;
}

int64_t tokens_of(const void *schedule) {
  return fovea_schedule_positions(static_cast<const fovea_schedule *>(schedule)).shape[0];
}

// Uses all that the plan keeps, and gives the tokens of its schedule's present step.
int64_t use_held(Reader &in, const Handle &plan) {
  int64_t tokens = -1;
  for (Handle *held : plan.held) {
    if (held->changing) in.refuse("FOVEA_BAD_VALUE", "the plan's schedule is in use by an asynchronous call");
    if (!in.ok()) return tokens;
    in.call.use(held, false);
    if (held->kind == Kind::schedule) tokens = tokens_of(held->raw);
  }
  return tokens;
}

}  // namespace

bool read_schedule_run(Reader &in, napi_value given, napi_value tensors) {
  const auto *schedule = in.handle<fovea_schedule>(given, Kind::schedule, false, "schedule");
  ReadTensors read = {};
  if (!read_tensors(in, tensors, buffer_count, read)) return false;
  in.place();
  if (!in.ok() || schedule == nullptr) return false;
  const RunData data = data_of(in, in.call.handles.front().first->planned, read, tokens_of(schedule));
  const fovea_attention_buffers buffers = buffers_of(data.data());
  in.call.run = [=] { return fovea_schedule_run(schedule, &buffers, nullptr, 0); };
  return in.ok();
}

bool read_mha_run(Reader &in, napi_value given, napi_value workspace, napi_value tensors) {
  const auto *plan = in.handle<fovea_mha_plan>(given, Kind::mha_plan, false, "plan");
  const Bytes *memory = in.bytes(workspace, "workspace");
  ReadTensors read = {};
  if (!read_tensors(in, tensors, mha_buffer_count, read)) return false;
  in.place();
  if (!in.ok() || plan == nullptr) return false;
  const Handle &handle = *in.call.handles.front().first;
  const int64_t tokens = use_held(in, handle);
  const RunData data = data_of(in, handle.planned, read, tokens);
  in.call.run = [=] {
    fovea_attention_buffers attention;
    const fovea_mha_buffers buffers = mha_buffers_of(data.data(), attention);
    return fovea_mha_run(plan, &buffers, memory->data, memory->size);
  };
  return in.ok();
}

napi_value pool_memory(napi_env env, napi_callback_info info) {
  napi_value args[3], made, buffer, shape, number;
  size_t count = 3;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  Call call(false);
  Reader in(env, call);
  const auto *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, false, "pool");
  const int64_t layer = in.int64(args[1], "layer");
  char what[16] = "";
  napi_get_value_string_utf8(env, args[2], what, sizeof what, &count);
  if (!in.ok()) return nullptr;
  const fovea_tensor tensor = tensor_of(pool, layer, what);
  if (tensor.rank < 0) return undefined(env);
  Handle *handle = call.handles.front().first;
  const size_t size = count_of(tensor) * bytes_of(tensor.dtype);
  ++handle->holders;
  if (napi_create_external_arraybuffer(env, tensor.data, size, let_go, handle, &buffer) != napi_ok) {
    --handle->holders;
    in.refuse("FOVEA_OUT_OF_MEMORY", "this program takes no memory of others as arrays");
    return nullptr;
  }
  napi_create_object(env, &made);
  napi_create_array(env, &shape);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    napi_create_int64(env, tensor.shape[axis], &number);
    napi_set_element(env, shape, static_cast<uint32_t>(axis), number);
  }
  napi_create_int64(env, tensor.dtype, &number);
  napi_set_named_property(env, made, "buffer", buffer);
  napi_set_named_property(env, made, "shape", shape);
  napi_set_named_property(env, made, "dtype", number);
  return made;
}
