// The interface as tests walk it: which functions take tensors, and where. operand_table.py writes the tables from the
// description of the interface, so that a new function, option or output is in them.
#pragma once

#include <fovea/fovea.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace testing {

enum class Holds { number, input, output, options, made, data_in, data_out, other };

// A member of a struct, or an argument of a function (whose offset is 0).
struct TableMember {
  const char *name;
  Holds holds;
  int options;  // index of the struct it points to
  size_t offset;
};

struct TableStruct {
  const char *name;
  size_t size;
  std::vector<TableMember> members;
};

struct Value {
  void *pointer = nullptr;
  int64_t number = 0;
};

struct TableFunction {
  const char *name;
  std::vector<TableMember> arguments;
  fovea_status (*call)(const Value *values);
  void (*destroy)(void *made);  // what the function makes; null: nothing
};

extern const std::vector<TableStruct> table_structs;
extern const std::vector<TableFunction> table_functions;

}  // namespace testing
