// What the generated tables consist of.
#pragma once

#include "python.hpp"

namespace fovea_python {

enum class Kind : uint8_t {
  i32,
  u32,
  i64,
  u64,
  size,
  f32,   // numbers
  text,  // str or None
  tensor,
  output,     // an array or None
  structure,  // a dict or None
  handle,
  changed_handle,  // a Handle or None
  new_handle,      // none: the call's result, as are
  new_i64,         // a number
  new_structure,   // and a struct of tensors, which become copies
  bytes,
  changed_bytes  // a buffer, and its length
};

struct Struct;

// A struct's member, or a function's argument.
struct Member {
  const char *name;
  Kind kind;
  size_t offset;
  const Struct *structure;
  int handle_kind;
  int buffer;  // of a planned call: in which buffer a run takes this tensor, by number; -1: in none
};

struct Struct {
  const char *name;
  size_t size;
  const Member *members;
  int count;
};

// A tensor's result goes to where `pointer` points.
struct Slot {
  union {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f32;
    size_t size;
    void *pointer;
    const char *text;
    fovea_status status;
  };
  size_t length;
};

// A tensor is memory of the first handle among the arguments, or to be copied at once.
enum class Result : uint8_t { status, text, size, i64, i32, tensor, copied_tensor };

struct Function {
  const char *name;
  Result result;
  const Member *arguments;
  int count;
  void (*call)(Slot *arguments, Slot &result);
};

// A member of fovea_attention_buffers, of fovea_mha_buffers, or of both.
struct Buffer {
  const char *name;
  size_t offset, mha_offset;
};

constexpr size_t no_offset = SIZE_MAX;

constexpr int most_buffers = 48;

// The tensors of a planned call, by the buffers that its runs take them in. What one plan writes another reads:
// log-sum-exp.
struct PlannedTensor {
  int buffer;
  fovea_tensor tensor;
  bool output;
};
struct PlannedTensors {
  int count;
  PlannedTensor tensors[most_buffers];
};

struct HandleKind {
  const char *name;
  void (*destroy)(void *handle);
};

struct Constant {
  const char *name;
  long value;
};

}  // namespace fovea_python
