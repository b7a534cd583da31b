// The C interface as tables, which generate.py writes from its description.
#pragma once

#include <fovea/fovea.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace fuzz {

// An axis of a tensor: its size as a function of the call's sizes, which of them it is (-1: a sum or product), and a
// bit for each that it is made of. size null: "...", any number of axes.
struct Axis {
  uint64_t (*size)(const uint64_t *sizes);
  int symbol;
  uint64_t symbols;
};
struct Shape {
  const Axis *axes;
  size_t count;
};

enum class Elements { floats, scales, integers, truth };  // scales: of numbers of 8 or 4 bits

enum class Kind {
  tensor,
  written_tensor,  // a descriptor that the function fills in
  structure,
  handle,
  changed_handle,
  new_handle,
  i32,
  u32,
  i64,
  u64,
  size,
  f32,
  text,
  bytes,  // with their size behind them
  written_bytes,
  size_of_bytes,
  buffer,  // a planned tensor's data
  address,
  callback,
  integers,
  dl_tensor
};

struct EnumValue {
  const char *name;
  int64_t value;
};

struct StructRow;

// An argument of a function or a member of a struct.
struct SlotRow {
  const char *name;
  Kind kind;
  size_t offset = 0;
  const Shape *shapes = nullptr;
  size_t shape_count = 0;
  const char *shape_of = nullptr;  // the argument or member whose shape it has
  Elements elements = Elements::floats;
  uint64_t (*bound)(const uint64_t *sizes) = nullptr;  // the largest integer in it
  const StructRow *structure = nullptr;
  int handle = -1;
  bool output = false, reserved = false;
  bool float32 = false;   // an output of that type alone
  bool optional = false;  // may be NULL, as the function's comment says
  const EnumValue *values = nullptr;
  size_t value_count = 0;
  bool bits = false;
  int symbol = -1;  // of a number that is a size of the call
  const char *const *words = nullptr;
  size_t word_count = 0;
};

// A member that goes with a kind, and its shapes there.
struct KindMember {
  int slot;
  const Shape *shapes;
  size_t shape_count;
};
struct KindRow {
  int64_t value;
  const KindMember *members;
  size_t member_count;
  int equal[2];  // two sizes that have to be the same, or -1
  bool numbers;  // all its numbers are wanted
};
struct Group {
  const int *slots;
  size_t count;
};

struct StructRow {
  const char *name;
  size_t size;
  const SlotRow *slots;  // all but struct_size
  size_t slot_count;
  bool buffers = false;
  int kind_slot = -1;
  const KindRow *kinds = nullptr;
  size_t kind_count = 0;
  const Group *groups = nullptr;  // of which one is given
  size_t group_count = 0;
};

enum class ResultKind { status, text, size, number, tensor, nothing };

struct Word {
  void *pointer = nullptr;
  int64_t integer = 0;
  float real = 0;
};
struct Result {
  fovea_status status = FOVEA_OK;
  const char *text = nullptr;
  size_t size = 0;
  int64_t number = 0;
  fovea_tensor tensor{};
};

struct FunctionRow {
  const char *name;
  const SlotRow *slots;
  size_t slot_count;
  ResultKind result;
  void (*call)(const Word *arguments, Result &result);
  bool inexact_narrow;  // may round more than once where all its tensors have one type of 16 bits
};

struct Tables {
  const FunctionRow *functions;
  size_t function_count;
  const StructRow *const *structs;
  size_t struct_count;
  const char *const *symbols;
  size_t symbol_count;
  const char *const *destroyers;  // for each kind of handle
  size_t handle_count;
};
extern const Tables tables;

}  // namespace fuzz
