// The addon: every operation as a function that works at once or, off the event loop, gives a promise; contexts; runs
// of plans, which are short and therefore take their arguments as they come.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "call.hpp"
#include "serving.hpp"

namespace {

napi_value undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

napi_value error_of(napi_env env, fovea_status status, const std::string &message) {
  napi_value code, text, error;
  napi_create_string_utf8(env, fovea_status_name(status), NAPI_AUTO_LENGTH, &code);
  napi_create_string_utf8(env, message.c_str(), message.size(), &text);
  napi_create_error(env, code, text, &error);
  return error;
}

// A handle's JavaScript side: an object that nothing but this addon can make.
napi_value wrap(napi_env env, const Call &call, const std::vector<Handle *> &held) {
  Handle *handle = new Handle;
  handle->kind = call.made_kind;
  handle->raw = call.made;
  handle->layouts = call.layouts;
  handle->planned = call.planned;
  handle->kept = call.kept;
  for (Handle *other : held) {
    ++other->holders;
    handle->held.push_back(other);
  }
  napi_value object;
  if (napi_create_object(env, &object) != napi_ok || tag_handle(env, object, handle) != napi_ok) {
    Handle::finalize(env, handle, nullptr);
    return undefined(env);
  }
  return object;
}

// What a call that went well gives: a number, a step, or the handle it made, if it makes one. Plans and schedules keep
// using their context, keys, weights and schedule.
napi_value result_of(napi_env env, const Call &call) {
  if (call.gives_number) {
    napi_value number;
    napi_create_int64(env, call.number, &number);
    return number;
  }
  if (call.step != nullptr) return step_of(env, *call.step);
  if (call.made == nullptr) return undefined(env);
  std::vector<Handle *> held;
  if (call.made_kind == Kind::plan || call.made_kind == Kind::schedule || call.made_kind == Kind::mha_plan)
    for (const auto &[handle, changes] : call.handles) held.push_back(handle);
  return wrap(env, call, held);
}

void execute(napi_env, void *data) { static_cast<Call *>(data)->execute(); }

void complete(napi_env env, napi_status status, void *data) {
  std::unique_ptr<Call> call(static_cast<Call *>(data));
  if (status != napi_ok) {
    napi_reject_deferred(env, call->deferred, error_of(env, FOVEA_INTERNAL_ERROR, "the call was cancelled"));
  } else if (call->status == FOVEA_OK) {
    napi_resolve_deferred(env, call->deferred, result_of(env, *call));
  } else {
    napi_reject_deferred(env, call->deferred, error_of(env, call->status, call->message));
  }
  napi_delete_reference(env, call->arguments);
  napi_delete_async_work(env, call->work);
}

napi_value start(napi_env env, std::unique_ptr<Call> call, const napi_value *args, size_t count) {
  napi_value promise, kept, name;
  napi_create_array_with_length(env, count, &kept);
  for (size_t i = 0; i < count; ++i) napi_set_element(env, kept, static_cast<uint32_t>(i), args[i]);
  napi_create_string_utf8(env, "fovea", NAPI_AUTO_LENGTH, &name);
  if (napi_create_reference(env, kept, 1, &call->arguments) != napi_ok ||
      napi_create_promise(env, &call->deferred, &promise) != napi_ok ||
      napi_create_async_work(env, nullptr, name, execute, complete, call.get(), &call->work) != napi_ok ||
      napi_queue_async_work(env, call->work) != napi_ok) {
    napi_throw_error(env, "FOVEA_OUT_OF_MEMORY", "the call could not be queued");
    return nullptr;
  }
  call.release();  // complete has it
  return promise;
}

// operation(asynchronous, argument...)
napi_value operate(napi_env env, napi_callback_info info) {
  constexpr size_t most = 12;
  napi_value args[1 + most];
  size_t count = 1 + most;
  void *data = nullptr;
  napi_get_cb_info(env, info, &count, args, nullptr, &data);
  const Operation &operation = *static_cast<const Operation *>(data);
  bool asynchronous = false;
  napi_get_value_bool(env, args[0], &asynchronous);
  auto call = std::make_unique<Call>(asynchronous);
  Reader in(env, *call);
  operation.parse(in, args + 1);
  in.place();
  if (!in.ok()) return nullptr;
  if (asynchronous) return start(env, std::move(call), args + 1, operation.arguments);
  call->execute();
  if (call->status == FOVEA_OK) return result_of(env, *call);
  napi_throw(env, error_of(env, call->status, call->message));
  return nullptr;
}

napi_value context_create(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  Call call(false);
  Reader in(env, call);
  fovea_context_options options = {};
  options.struct_size = sizeof options;
  options.max_threads = in.int32(args[0], "maxThreads");
  char name[32] = "";
  size_t length = 0;
  if (!in.is_none(args[1])) {
    if (napi_get_value_string_utf8(env, args[1], name, sizeof name, &length) != napi_ok)
      in.refuse("ERR_INVALID_ARG_TYPE", "maxIsa must be a string");
    options.max_isa = name;
  }
  options.precision = in.choice(args[2],
                                {{"default", FOVEA_PRECISION_DEFAULT},
                                 {"highest", FOVEA_PRECISION_HIGHEST},
                                 {"high", FOVEA_PRECISION_HIGH},
                                 {"medium", FOVEA_PRECISION_MEDIUM},
                                 {"int8", FOVEA_PRECISION_INT8}},
                                "precision");
  if (!in.ok()) return nullptr;
  call.made_kind = Kind::context;
  call.run = [&] { return fovea_context_create(&options, reinterpret_cast<fovea_context **>(&call.made)); };
  call.execute();
  if (call.status == FOVEA_OK) return result_of(env, call);
  napi_throw(env, error_of(env, call.status, call.message));
  return nullptr;
}

// A buffer that is as long as the plan wants it, as a pointer to its tensor's first element. none: left out.
void place(Reader &in, napi_value value, const Layout &planned, int which, void *&pointer) {
  const Elements found = elements_of(in.env(), value);
  const bool fits = found.may_hold(planned.dtype) && static_cast<int64_t>(found.len) >= planned.len;
  if (fits) pointer = static_cast<char *>(found.data) + planned.first * static_cast<int64_t>(found.size);
  if (fits && !in.call.asynchronous) return;
  if (in.is_none(value)) return;  // refused by the library where one was planned
  const std::string name = "buffer " + std::to_string(which);
  if (fits) return in.keep(value, name);
  if (planned.dtype == 0) {
    in.refuse("FOVEA_BAD_VALUE", name + " was not planned");
  } else if (!found.may_hold(planned.dtype)) {
    in.refuse("FOVEA_BAD_DTYPE", name + " holds elements of another type than was planned");
  } else {
    in.refuse("FOVEA_BAD_SHAPE",
              name + " has " + std::to_string(found.len) + " elements, the plan needs " + std::to_string(planned.len));
  }
}

// run(asynchronous, plan, workspace, query, key, value, out, rest): rest undefined or an array of the other buffers, in
// the order of fovea_attention_buffers.
napi_value run(napi_env env, napi_callback_info info) {
  napi_value args[8], given[buffer_count];
  size_t count = 8;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  bool asynchronous = false;
  napi_get_value_bool(env, args[0], &asynchronous);
  auto call = std::make_unique<Call>(asynchronous);
  Reader in(env, *call);
  std::copy(args + 3, args + 7, given);
  const int buffers_given = in.is_none(args[7]) ? 4 : buffer_count;
  for (int i = 4; i < buffers_given; ++i)  // the last that may run JavaScript
    if (napi_get_element(env, args[7], static_cast<uint32_t>(i - 4), &given[i]) != napi_ok) return nullptr;
  Handle *plan = handle_of(env, args[1]);
  if (plan == nullptr || plan->kind != Kind::plan || plan->closed) {
    in.refuse("FOVEA_NULL_POINTER", "the plan was closed");
    return nullptr;
  }
  void *data[buffer_count] = {};
  for (int i = 0; i < buffers_given && in.ok(); ++i)
    place(in, given[i], plan->layouts[static_cast<size_t>(i)], i, data[i]);
  for (Handle *held : plan->held)
    if (held->changing) in.refuse("FOVEA_BAD_VALUE", "the plan's keys are in use by an asynchronous call");
  const Elements workspace = elements_of(env, args[2]);
  if (workspace.dtype != FOVEA_BOOL) in.refuse("ERR_INVALID_ARG_TYPE", "workspace must be a Uint8Array");
  if (!in.ok()) return nullptr;
  const fovea_attention_buffers buffers = buffers_of(data);
  const fovea_plan *raw = static_cast<const fovea_plan *>(plan->raw);
  if (!asynchronous) {
    const fovea_status status = fovea_attention_run(raw, &buffers, workspace.data, workspace.len);
    if (status != FOVEA_OK) napi_throw(env, error_of(env, status, last_message()));
    return nullptr;
  }
  in.keep(args[2], "workspace");
  call->run = [=] { return fovea_attention_run(raw, &buffers, workspace.data, workspace.len); };
  call->use(plan, false);
  for (Handle *held : plan->held) call->use(held, false);
  return start(env, std::move(call), args, 8);
}

// scheduleRun(asynchronous, schedule, tensors): of these an array in the order of fovea_attention_buffers.
napi_value schedule_run(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  bool asynchronous = false;
  napi_get_value_bool(env, args[0], &asynchronous);
  auto call = std::make_unique<Call>(asynchronous);
  Reader in(env, *call);
  if (!read_schedule_run(in, args[1], args[2])) return nullptr;
  if (asynchronous) return start(env, std::move(call), args, 3);
  call->execute();
  if (call->status != FOVEA_OK) napi_throw(env, error_of(env, call->status, call->message));
  return nullptr;
}

// mhaRun(asynchronous, plan, workspace, tensors): likewise, those of multi-head attention behind them.
napi_value mha_run(napi_env env, napi_callback_info info) {
  napi_value args[4];
  size_t count = 4;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  bool asynchronous = false;
  napi_get_value_bool(env, args[0], &asynchronous);
  auto call = std::make_unique<Call>(asynchronous);
  Reader in(env, *call);
  if (!read_mha_run(in, args[1], args[2], args[3])) return nullptr;
  if (asynchronous) return start(env, std::move(call), args, 4);
  call->execute();
  if (call->status != FOVEA_OK) napi_throw(env, error_of(env, call->status, call->message));
  return nullptr;
}

napi_value close(napi_env env, napi_callback_info info) {
  napi_value arg;
  size_t count = 1;
  napi_get_cb_info(env, info, &count, &arg, nullptr, nullptr);
  Handle *handle = handle_of(env, arg);
  if (handle != nullptr) handle->close();
  return undefined(env);
}

// ---- what handles tell of themselves --------------------------------------------------------------------------------

napi_value number(napi_env env, double value) {
  napi_value made;
  napi_create_double(env, value, &made);
  return made;
}

napi_value string(napi_env env, const char *text) {
  napi_value made;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &made);
  return made;
}

// about(what, handle[, sequence of a pool])
napi_value about(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3;
  napi_get_cb_info(env, info, &count, args, nullptr, nullptr);
  char what[32] = "";
  napi_get_value_string_utf8(env, args[0], what, sizeof what, &count);
  const Handle *handle = handle_of(env, args[1]);
  Call call(false);
  Reader in(env, call);
  if (handle == nullptr) {
    in.refuse("ERR_INVALID_ARG_TYPE", "this is no object that fovea made");
  } else if (handle->closed) {
    in.refuse("FOVEA_BAD_VALUE", std::string("the ") + name_of(handle->kind) + " was closed");
  } else if (handle->changing) {
    in.refuse("FOVEA_BAD_VALUE", std::string("the ") + name_of(handle->kind) + " is in use by an asynchronous call");
  }
  if (!in.ok()) return nullptr;
  const Kind kind = handle->kind;
  const void *raw = handle->raw;
  const auto *pool = static_cast<const fovea_kv_pool *>(kind == Kind::kv_pool ? raw : nullptr);
  const auto *schedule = static_cast<const fovea_schedule *>(kind == Kind::schedule ? raw : nullptr);
  const int64_t sequence = pool != nullptr && !in.is_none(args[2]) ? in.int64(args[2], "sequence") : 0;
  const auto *keys = static_cast<const fovea_prepared_keys *>(kind == Kind::prepared_keys ? raw : nullptr);
  const auto *plan = static_cast<const fovea_plan *>(kind == Kind::plan ? raw : nullptr);
  const auto *context = static_cast<const fovea_context *>(kind == Kind::context ? raw : nullptr);
  const std::string name = what;
  if (name == "threads") return number(env, fovea_context_threads(context));
  if (name == "isaName") return string(env, fovea_isa_name(context));
  if (name == "workspaceSize") {
    const auto *layer = static_cast<const fovea_mha_plan *>(kind == Kind::mha_plan ? raw : nullptr);
    const size_t size = schedule != nullptr ? fovea_schedule_workspace_size(schedule)
                        : layer != nullptr  ? fovea_mha_plan_workspace_size(layer)
                                            : fovea_plan_workspace_size(plan);
    return number(env, static_cast<double>(size));
  }
  if (name == "savedSize") return number(env, static_cast<double>(fovea_kv_pool_saved_size(pool, sequence)));
  if (name == "freePages") return number(env, static_cast<double>(fovea_kv_pool_free_pages(pool)));
  if (name == "length") {
    const int64_t length = keys != nullptr ? fovea_prepared_keys_length(keys) : fovea_kv_pool_length(pool, sequence);
    return number(env, static_cast<double>(length));
  }
  if (name == "positions") return copied(env, fovea_schedule_positions(schedule));
  if (name == "tasks") return tasks_of(env, schedule);
  if (name == "describe") {
    const auto describe = [&](char *text, size_t size) {
      return schedule != nullptr ? fovea_schedule_describe(schedule, text, size)
                                 : fovea_plan_describe(plan, text, size);
    };
    std::string text(describe(nullptr, 0) + 1, '\0');
    describe(text.data(), text.size());
    return string(env, text.c_str());
  }
  size_t size = 0;
  if (kind == Kind::kv_pool) size = fovea_kv_pool_size(pool);
  if (kind == Kind::prepared_keys) size = fovea_prepared_keys_size(keys);
  if (kind == Kind::packed_matrix) size = fovea_packed_matrix_size(static_cast<const fovea_packed_matrix *>(raw));
  if (kind == Kind::mha_weights) size = fovea_mha_weights_size(static_cast<const fovea_mha_weights *>(raw));
  return number(env, static_cast<double>(size));
}

napi_value isa_available(napi_env env, napi_callback_info) {
  napi_value names;
  napi_create_array(env, &names);
  for (int32_t i = 0; fovea_isa_available(i) != nullptr; ++i)
    napi_set_element(env, names, static_cast<uint32_t>(i), string(env, fovea_isa_available(i)));
  return names;
}

napi_value init(napi_env env, napi_value exports) {
  const auto add = [&](const char *name, napi_callback function, const void *data) {
    napi_value made;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, function, const_cast<void *>(data), &made);
    napi_set_named_property(env, exports, name, made);
  };
  for (size_t i = 0; i < operation_count; ++i) add(operations[i].name, operate, &operations[i]);
  add("contextCreate", context_create, nullptr);
  add("run", run, nullptr);
  add("scheduleRun", schedule_run, nullptr);
  add("mhaRun", mha_run, nullptr);
  add("poolMemory", pool_memory, nullptr);
  add("close", close, nullptr);
  add("about", about, nullptr);
  add("isaAvailable", isa_available, nullptr);
  napi_set_named_property(env, exports, "version", string(env, fovea_version()));
  return exports;
}

}  // namespace

NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
