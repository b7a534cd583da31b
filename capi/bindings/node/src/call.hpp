// A call on its way from JavaScript to C and back: its arguments as the C interface wants them, on any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../generated/shim.hpp"

// Where a planned tensor lies in the memory of a run: how many elements that has at least, and which is its first.
struct Layout {
  int32_t dtype = 0;
  int64_t len = 0, first = 0;
};
using Layouts = std::array<Layout, buffer_count>;

Layouts layouts_of(std::initializer_list<const fovea_tensor *> tensors);

// Bytes of an element.
size_t bytes_of(int32_t dtype);

// What a schedule or a plan of multi-head attention was made with, in the order of fovea_attention_buffers; of rank -1
// where there was nothing.
using Planned = std::vector<fovea_tensor>;

Planned planned_of(std::initializer_list<const fovea_tensor *> tensors);

// An object of the C interface, owned by a JavaScript object. Used on the main thread alone, so its counts are plain.
struct Handle {
  Kind kind = {};
  void *raw = nullptr;
  int users = 0;          // calls under way
  bool changing = false;  // one of them changes it, and is then the only one
  int holders = 0;        // plans and schedules that keep using it, arrays over its memory
  bool closed = false;
  std::vector<Handle *> held;
  std::vector<std::shared_ptr<void>> kept;  // memory that it goes on reading
  Layouts layouts = {};                     // of a plan
  Planned planned;                          // of a schedule, of a plan of multi-head attention

  void close();
  void dispose_if_unused();
  // The JavaScript object is gone.
  static void finalize(napi_env env, void *handle, void *hint);
  bool orphan = false;
};

// What a call is given as bytes.
struct Bytes {
  uint8_t *data = nullptr;
  size_t size = 0;
};

struct Call {
  explicit Call(bool asynchronous) : asynchronous(asynchronous) {}
  Call(const Call &) = delete;
  ~Call();

  const bool asynchronous;
  std::function<fovea_status()> run;
  std::vector<std::shared_ptr<void>> memory;       // the structs that run points to; off the main thread, arrays too
  std::vector<std::pair<Handle *, bool>> handles;  // that it uses; whether it changes them

  fovea_status status = FOVEA_OK;
  std::string message;

  Kind made_kind = {};
  void *made = nullptr;
  Layouts layouts = {};
  Planned planned;
  std::vector<const fovea_tensor *> lasting;  // whose data what is made goes on reading, as copies in
  std::vector<std::shared_ptr<void>> kept;

  bool gives_number = false;
  int64_t number = 0;                // what the call gives instead of a handle, or
  const fovea_step *step = nullptr;  // a pool's step

  // What an asynchronous call keeps: its arguments, and the promise.
  napi_ref arguments = nullptr;
  napi_deferred deferred = nullptr;
  napi_async_work work = nullptr;

  template <typename Struct>
  Struct *make() {
    auto made_here = std::make_shared<Struct>();
    memory.push_back(made_here);
    return made_here.get();
  }

  // A struct that the call fills.
  template <typename Struct>
  Struct *make_to_fill() {
    Struct *made_here = make<Struct>();
    made_here->struct_size = sizeof(Struct);
    return made_here;
  }

  // Gives the lasting tensors memory of their own.
  void own_lasting();
  // Makes the call and copies the message on the thread that failed.
  void execute();
  // Uses the handle until the call is gone: one that is closed meanwhile lives on till then.
  void use(Handle *handle, bool changes);
};

// Reads arguments. The first that is wrong leaves an exception, after which nothing more is read.
//
// Reading a property may run a program of the user's, which may take away or shrink an array that was read before. So
// arrays are only noted until all is read; place() then looks at them, with no JavaScript between that and the call.
class Reader {
 public:
  Reader(napi_env env, Call &call) : call(call), env_(env) {}

  void place();

  Call &call;
  bool ok() const { return ok_; }
  napi_env env() const { return env_; }

  bool is_none(napi_value value);
  napi_value get(napi_value object, const char *key);
  const fovea_tensor *tensor(napi_value value, const char *name);
  bool flag(napi_value value, bool any_value, const char *name);
  int32_t choice(napi_value value, std::initializer_list<std::pair<const char *, int32_t>> choices, const char *name);
  int32_t int32(napi_value value, const char *name);
  int64_t int64(napi_value value, const char *name);
  uint64_t uint64(napi_value value, const char *name);
  size_t size(napi_value value, const char *name);
  // Left out, or not 0.
  int64_t given_size(napi_value value, const char *name);
  float float32(napi_value value, const char *name);
  const Bytes *bytes(napi_value value, const char *name);

  template <typename Object>
  Object *handle(napi_value value, Kind kind, bool changes, const char *name) {
    return static_cast<Object *>(any_handle(value, kind, changes, name));
  }

  void refuse(const char *code, const std::string &message);
  // That an asynchronous call may use the array off the main thread.
  void keep(napi_value typed_array, const std::string &name);

 private:
  struct Noted {
    const char *name;
    napi_value array;
    fovea_tensor *tensor;  // or bytes
    int64_t offset;
    Bytes *bytes;
  };
  void place_tensor(const Noted &noted);

  void *any_handle(napi_value value, Kind kind, bool changes, const char *name);
  napi_valuetype type(napi_value value);

  napi_env env_;
  bool ok_ = true;
  std::vector<Noted> noted_;
};

// The message of the last call on this thread.
std::string last_message();

// What a typed array holds; dtype 0 for a type that no tensor has, or for what is no typed array.
struct Elements {
  void *data = nullptr;
  size_t len = 0;
  int32_t dtype = 0, other_dtype = 0;  // a Uint16Array, or a Uint8Array, holds either
  size_t size = 0;

  bool may_hold(int32_t wanted) const { return wanted != 0 && (wanted == dtype || wanted == other_dtype); }
};
Elements elements_of(napi_env env, napi_value value);

// A share in a typed array's memory, whoever else gives theirs up.
struct KeptMemory {
  std::shared_ptr<void> memory;
  bool may_shrink = false;  // its pages can be taken away all the same
};
KeptMemory keep_memory(napi_value typed_array);
Handle *handle_of(napi_env env, napi_value value);
napi_status tag_handle(napi_env env, napi_value object, Handle *handle);

struct Operation {
  const char *name;
  size_t arguments;
  void (*parse)(Reader &in, const napi_value *args);
};
extern const Operation operations[];
extern const size_t operation_count;
