// Reads tensors, numbers and handles from JavaScript. What is read may be anything: lengths are those of the moment,
// and a view is checked against them here, whoever made it.
// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

#include <cmath>
#include <cstring>

namespace {

// Tells this addon's handles from other addons' externals.
constexpr napi_type_tag handle_tag = {0x9d1c6a0be2f54c11, 0xb7f1f0e94a7d3c52};

// Memory for a view without elements: a null pointer would be an error.
int64_t nothing;

// Lowest and highest element that a view reaches, from its first; false where it has none or they do not fit.
bool reach(const fovea_tensor &view, int64_t &lowest, int64_t &highest) {
  lowest = highest = 0;
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] < 1) return false;
    int64_t far = 0;
    if (view.shape[axis] > 1 && __builtin_mul_overflow(view.strides[axis], view.shape[axis] - 1, &far)) return false;
    int64_t &end = far < 0 ? lowest : highest;
    if (__builtin_add_overflow(end, far, &end)) return false;
  }
  return true;
}

bool is_empty(const fovea_tensor &view) {
  for (int axis = 0; axis < view.rank; ++axis)
    if (view.shape[axis] == 0) return true;
  return false;
}

std::string text_of(const int64_t *numbers, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

}  // namespace

Elements elements_of(napi_env env, napi_value value) {
  Elements found;
  napi_typedarray_type type;
  if (napi_get_typedarray_info(env, value, &type, &found.len, &found.data, nullptr, nullptr) != napi_ok) return {};
  switch (type) {
    case napi_float32_array: found.dtype = FOVEA_F32, found.size = 4; break;
    case napi_int32_array: found.dtype = FOVEA_I32, found.size = 4; break;
    case napi_bigint64_array: found.dtype = FOVEA_I64, found.size = 8; break;
    case napi_int8_array: found.dtype = FOVEA_I8, found.size = 1; break;
    case napi_uint8_array: found.dtype = FOVEA_BOOL, found.other_dtype = FOVEA_U8, found.size = 1; break;
    case napi_int16_array: found.dtype = FOVEA_F16, found.size = 2; break;  // a Float16Array: see index.js
    case napi_uint16_array: found.dtype = FOVEA_F16, found.other_dtype = FOVEA_BF16, found.size = 2; break;
    default: break;
  }
  if (found.len == 0) found.data = &nothing;
  return found;
}

Layouts layouts_of(std::initializer_list<const fovea_tensor *> tensors) {
  Layouts layouts = {};
  size_t at = 0;
  for (const fovea_tensor *tensor : tensors) {
    Layout &layout = layouts[at++];
    if (tensor == nullptr) continue;
    layout.dtype = tensor->dtype;
    int64_t lowest, highest;
    if (!reach(*tensor, lowest, highest)) continue;
    layout.len = highest - lowest + 1;
    layout.first = -lowest;
  }
  return layouts;
}

Planned planned_of(std::initializer_list<const fovea_tensor *> tensors) {
  Planned planned;
  for (const fovea_tensor *tensor : tensors) {
    planned.push_back(tensor != nullptr ? *tensor : fovea_tensor{});
    if (tensor == nullptr) planned.back().rank = -1;
  }
  return planned;
}

void Reader::refuse(const char *code, const std::string &message) {
  if (ok_) napi_throw_error(env_, code, message.c_str());
  ok_ = false;
}

napi_valuetype Reader::type(napi_value value) {
  napi_valuetype found = napi_undefined;
  if (ok_) napi_typeof(env_, value, &found);
  return found;
}

bool Reader::is_none(napi_value value) {
  const napi_valuetype found = type(value);
  return found == napi_undefined || found == napi_null;
}

napi_value Reader::get(napi_value object, const char *key) {
  napi_value found = nullptr;
  if (ok_ && napi_get_named_property(env_, object, key, &found) != napi_ok) ok_ = false;  // a getter that throws
  if (!ok_) napi_get_undefined(env_, &found);
  return found;
}

// A tensor is { memory, view }: a typed array and a BigInt64Array of dtype, rank, offset, six sizes and six strides.
// memory may be missing in plans.
const fovea_tensor *Reader::tensor(napi_value value, const char *name) {
  if (is_none(value)) return nullptr;
  fovea_tensor &made = *call.make<fovea_tensor>();
  int64_t numbers[3 + 2 * FOVEA_MAX_RANK];
  const Elements view = elements_of(env_, get(value, "view"));
  if (!ok_) return nullptr;
  if (view.dtype != FOVEA_I64 || view.len * sizeof(int64_t) != sizeof numbers) {
    refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " is no tensor");
    return nullptr;
  }
  std::memcpy(numbers, view.data, sizeof numbers);
  const napi_value array = get(value, "memory");
  made.dtype = static_cast<int32_t>(numbers[0]);
  made.rank = static_cast<int32_t>(numbers[1]);
  std::memcpy(made.shape, numbers + 3, sizeof made.shape);
  std::memcpy(made.strides, numbers + 3 + FOVEA_MAX_RANK, sizeof made.strides);
  if (made.rank < 0 || made.rank > FOVEA_MAX_RANK) return &made;  // which the library refuses
  if (!is_none(array)) noted_.push_back({name, array, &made, numbers[2], nullptr});
  return &made;
}

void Reader::place() {
  for (const Noted &noted : noted_) {
    if (!ok_) return;
    if (noted.tensor != nullptr) {
      place_tensor(noted);
    } else {
      const Elements found = elements_of(env_, noted.array);
      *noted.bytes = {static_cast<uint8_t *>(found.data), found.len};
    }
    if (ok_) keep(noted.array, noted.name);
  }
}

void Reader::place_tensor(const Noted &noted) {
  fovea_tensor &made = *noted.tensor;
  const Elements data = elements_of(env_, noted.array);
  const int64_t offset = noted.offset, len = static_cast<int64_t>(data.len);
  int64_t lowest, highest;
  const bool empty = is_empty(made);
  if (!data.may_hold(made.dtype)) {
    refuse("FOVEA_BAD_DTYPE", std::string(noted.name) + " holds elements of another type than it was made with");
  } else if (!empty && (!reach(made, lowest, highest) || offset < 0 || offset >= len || offset + lowest < 0 ||
                        highest >= len - offset)) {
    refuse("FOVEA_BAD_SHAPE", std::string(noted.name) + " of shape " + text_of(made.shape, made.rank) +
                                  " and strides " + text_of(made.strides, made.rank) + " from element " +
                                  std::to_string(offset) + " on does not lie within an array of " +
                                  std::to_string(len));
  } else {
    made.data = empty ? data.data : static_cast<char *>(data.data) + offset * static_cast<int64_t>(data.size);
  }
}

void Reader::keep(napi_value typed_array, const std::string &name) {
  if (!call.asynchronous) return;  // nothing else happens meanwhile
  KeptMemory kept = keep_memory(typed_array);
  if (kept.may_shrink)
    refuse("FOVEA_BAD_VALUE", name +
                                  " lies in a resizable ArrayBuffer, which could shrink during an asynchronous call: "
                                  "use the Sync form, or a buffer of one size");
  call.memory.push_back(std::move(kept.memory));
}

bool Reader::flag(napi_value value, bool any_value, const char *name) {
  if (is_none(value) || !ok_) return false;
  if (any_value) return true;
  bool found = false;
  if (napi_get_value_bool(env_, value, &found) != napi_ok)
    refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " must be true or false");
  return found;
}

int32_t Reader::choice(napi_value value, std::initializer_list<std::pair<const char *, int32_t>> choices,
                       const char *name) {
  if (is_none(value) || !ok_) return 0;
  char text[32] = "";
  size_t length = 0;
  if (napi_get_value_string_utf8(env_, value, text, sizeof text, &length) == napi_ok)
    for (const auto &[word, number] : choices)
      if (std::strcmp(word, text) == 0) return number;
  std::string expected;
  for (const auto &[word, number] : choices) expected += std::string(expected.empty() ? "'" : ", '") + word + "'";
  refuse("ERR_INVALID_ARG_VALUE", std::string(name) + " must be one of " + expected);
  return 0;
}

int64_t Reader::int64(napi_value value, const char *name) {
  if (is_none(value) || !ok_) return 0;
  int64_t found = 0;
  bool lossless = false;
  double number = 0;
  if (type(value) == napi_bigint) {
    if (napi_get_value_bigint_int64(env_, value, &found, &lossless) == napi_ok && lossless) return found;
  } else if (napi_get_value_double(env_, value, &number) == napi_ok && number == std::floor(number) &&
             std::fabs(number) <= 9007199254740991.0) {
    return static_cast<int64_t>(number);
  }
  refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " must be a whole number or a BigInt of 64 bits");
  return 0;
}

uint64_t Reader::uint64(napi_value value, const char *name) {
  if (type(value) != napi_bigint) {
    const int64_t found = int64(value, name);
    if (found < 0) refuse("ERR_OUT_OF_RANGE", std::string(name) + " must not be negative");
    return static_cast<uint64_t>(found);
  }
  uint64_t found = 0;
  bool lossless = false;
  if (napi_get_value_bigint_uint64(env_, value, &found, &lossless) != napi_ok || !lossless)
    refuse("ERR_OUT_OF_RANGE", std::string(name) + " must be a BigInt of 64 bits, not negative");
  return found;
}

int32_t Reader::int32(napi_value value, const char *name) {
  const int64_t found = int64(value, name);
  if (found != static_cast<int32_t>(found)) refuse("ERR_OUT_OF_RANGE", std::string(name) + " must fit 32 bits");
  return static_cast<int32_t>(found);
}

size_t Reader::size(napi_value value, const char *name) { return uint64(value, name); }

int64_t Reader::given_size(napi_value value, const char *name) {
  const int64_t found = int64(value, name);
  if (found == 0 && !is_none(value)) refuse("FOVEA_BAD_VALUE", std::string(name) + " is 0, expected at least 1");
  return found;
}

float Reader::float32(napi_value value, const char *name) {
  if (is_none(value) || !ok_) return 0;
  double found = 0;
  if (napi_get_value_double(env_, value, &found) != napi_ok)
    refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " must be a number");
  return static_cast<float>(found);
}

const Bytes *Reader::bytes(napi_value value, const char *name) {
  Bytes *made = call.make<Bytes>();
  const Elements found = elements_of(env_, value);
  if (found.dtype != FOVEA_BOOL) refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " must be a Uint8Array");
  noted_.push_back({name, value, nullptr, 0, made});
  return made;
}

// A handle of JavaScript's is an object whose property handle is this addon's external.
Handle *handle_of(napi_env env, napi_value value) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_object) return nullptr;
  bool tagged = false;
  void *found = nullptr;
  if (napi_check_object_type_tag(env, value, &handle_tag, &tagged) != napi_ok || !tagged) return nullptr;
  return napi_unwrap(env, value, &found) == napi_ok ? static_cast<Handle *>(found) : nullptr;
}

void *Reader::any_handle(napi_value value, Kind kind, bool changes, const char *name) {
  if (is_none(value) || !ok_) return nullptr;
  Handle *found = handle_of(env_, get(value, "handle"));
  if (found == nullptr || found->kind != kind) {
    refuse("ERR_INVALID_ARG_TYPE", std::string(name) + " is another kind of object");
  } else if (found->closed) {
    refuse("FOVEA_BAD_VALUE", std::string(name) + " was closed");
  } else if (found->changing || (changes && found->users > 0)) {
    refuse("FOVEA_BAD_VALUE", std::string(name) + " is in use by an asynchronous call");
  } else {
    call.use(found, changes);
    return found->raw;
  }
  return nullptr;
}

std::string last_message() {
  std::string message(fovea_last_error_copy(nullptr, 0) + 1, '\0');
  fovea_last_error_copy(message.data(), message.size());
  message.pop_back();
  return message;
}

size_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case FOVEA_F16:
    case FOVEA_BF16: return 2;
    case FOVEA_I64: return 8;
    case FOVEA_I8:
    case FOVEA_U8: return 1;
    default: return 4;
  }
}

void Call::own_lasting() {
  for (const fovea_tensor *tensor : lasting) {
    int64_t lowest, highest;
    if (tensor == nullptr || tensor->data == nullptr || is_empty(*tensor) || !reach(*tensor, lowest, highest)) continue;
    const auto element = static_cast<int64_t>(bytes_of(tensor->dtype));
    const auto size = static_cast<size_t>((highest - lowest + 1) * element);
    const std::shared_ptr<void> copy(operator new(size), [](void *memory) { operator delete(memory); });
    std::memcpy(copy.get(), static_cast<const char *>(tensor->data) + lowest * element, size);
    const_cast<fovea_tensor *>(tensor)->data = static_cast<char *>(copy.get()) - lowest * element;
    kept.push_back(copy);
  }
}

void Call::execute() {
  own_lasting();
  status = run();
  if (status != FOVEA_OK) message = last_message();
}

void Call::use(Handle *handle, bool changes) {
  ++handle->users;
  handle->changing = handle->changing || changes;
  handles.emplace_back(handle, changes);
}

Call::~Call() {
  for (auto &[handle, changes] : handles) {
    --handle->users;
    if (changes) handle->changing = false;
    handle->dispose_if_unused();
  }
}

void Handle::dispose_if_unused() {
  if (!closed || users > 0 || holders > 0) return;
  if (raw != nullptr) {
    destroy(kind, raw);
    raw = nullptr;
    for (Handle *other : held) {
      --other->holders;
      other->dispose_if_unused();
    }
    held.clear();
  }
  if (orphan) delete this;
}

void Handle::close() {
  if (closed) return;
  closed = true;
  dispose_if_unused();
}

void Handle::finalize(napi_env, void *handle, void *) {
  Handle *self = static_cast<Handle *>(handle);
  self->orphan = self->closed = true;
  self->dispose_if_unused();
}

napi_status tag_handle(napi_env env, napi_value object, Handle *handle) {
  const napi_status tagged = napi_type_tag_object(env, object, &handle_tag);
  return tagged != napi_ok ? tagged : napi_wrap(env, object, handle, Handle::finalize, nullptr, nullptr);
}
