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

size_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case FOVEA_F16:
    case FOVEA_BF16: return 2;
    case FOVEA_I64: return 8;
    case FOVEA_I8: return 1;
    default: return 4;
  }
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

// Query, out and log-sum-exp may have fewer tokens than the schedule has room for, but no fewer than the step.
bool has_tokens(int buffer) {
  const std::string name = buffer_names[buffer];
  return name == "query" || name == "out" || name == "logSumExp";
}

bool has_planned_shape(const fovea_tensor &given, const fovea_tensor &planned, bool may_be_fewer) {
  if (given.rank != planned.rank) return false;
  for (int axis = 0; axis < given.rank; ++axis) {
    const bool fewer = axis == 0 && may_be_fewer && given.shape[0] < planned.shape[0];
    if (given.shape[axis] != planned.shape[axis] && !fewer) return false;
  }
  return true;
}

void expect_planned(Reader &in, int buffer, const fovea_tensor &given, const fovea_tensor &planned, int64_t tokens) {
  const std::string name = buffer_names[buffer];
  if (given.dtype != planned.dtype) {
    in.refuse("FOVEA_BAD_DTYPE", name + " holds elements of another type than the schedule was made with");
  } else if (!has_planned_shape(given, planned, has_tokens(buffer))) {
    in.refuse("FOVEA_BAD_SHAPE", name + " has shape " + text_of(given.shape, given.rank) +
                                     ", the schedule was made with " + text_of(planned.shape, planned.rank));
  } else if (has_tokens(buffer) && given.shape[0] < tokens) {
    in.refuse("FOVEA_BAD_SHAPE", name + " has " + std::to_string(given.shape[0]) + " rows, the step " +
                                     std::to_string(tokens) + " tokens");
  }
  for (int axis = 0; axis < given.rank && in.ok(); ++axis) {
    if (given.strides[axis] == planned.strides[axis] || given.shape[axis] < 2) continue;
    in.refuse("FOVEA_BAD_STRIDE", name + " has strides " + text_of(given.strides, given.rank) +
                                      ", the schedule was made with " + text_of(planned.strides, planned.rank));
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

bool read_schedule_run(Reader &in, napi_value given, napi_value tensors) {
  const auto *schedule = in.handle<fovea_schedule>(given, Kind::schedule, false, "schedule");
  std::array<const fovea_tensor *, buffer_count> read = {};
  for (int i = 0; i < buffer_count && in.ok(); ++i) {
    napi_value tensor;
    if (napi_get_element(in.env(), tensors, static_cast<uint32_t>(i), &tensor) != napi_ok) return false;
    read[static_cast<size_t>(i)] = in.tensor(tensor, buffer_names[i]);
  }
  in.place();
  if (!in.ok() || schedule == nullptr) return false;
  const Planned &planned = in.call.handles.front().first->planned;
  const int64_t tokens = fovea_schedule_positions(schedule).shape[0];
  void *data[buffer_count] = {};
  for (int i = 0; i < buffer_count && in.ok(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool wanted = planned[at].rank >= 0;
    if (wanted != (read[at] != nullptr && read[at]->data != nullptr)) {
      in.refuse(wanted ? "FOVEA_NULL_POINTER" : "FOVEA_BAD_VALUE",
                std::string(buffer_names[i]) + (wanted ? " is missing" : " was not there when the schedule was made"));
    } else if (wanted) {
      expect_planned(in, i, *read[at], planned[at], tokens);
      data[i] = read[at]->data;
    }
  }
  const fovea_attention_buffers buffers = buffers_of(data);
  in.call.run = [=] { return fovea_schedule_run(schedule, &buffers, nullptr, 0); };
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
