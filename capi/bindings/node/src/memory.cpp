// Keeps the memory of an array as long as a call uses it. Node's stable interface has no name for that: an array that
// is transferred to another thread takes its memory along, and that thread's garbage collector frees it whenever it
// likes. V8 counts who uses a buffer's memory, and here is one more. This is the only file that calls V8.
// SPDX-License-Identifier: Apache-2.0
#include <v8.h>

#include <cstring>

#include "call.hpp"

KeptMemory keep_memory(napi_value typed_array) {
  v8::Local<v8::Value> value;
  static_assert(sizeof value == sizeof typed_array, "a napi_value is a local handle of V8's");
  std::memcpy(static_cast<void *>(&value), &typed_array, sizeof value);
  const v8::Local<v8::Value> buffer = value.As<v8::ArrayBufferView>()->Buffer();
  const bool shared = buffer->IsSharedArrayBuffer();  // which only ever grows, where it is
  const std::shared_ptr<v8::BackingStore> store =
      shared ? buffer.As<v8::SharedArrayBuffer>()->GetBackingStore() : buffer.As<v8::ArrayBuffer>()->GetBackingStore();
#if V8_MAJOR_VERSION >= 11
  const bool may_shrink = !shared && store && store->IsResizableByUserJavaScript();
#else
  const bool may_shrink = false;  // buffers had one size
#endif
  return {store, may_shrink};
}
