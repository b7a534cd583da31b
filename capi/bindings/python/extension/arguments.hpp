// The arguments of another library's function that takes fovea's tensors and structs, laid out in memory for it.
#pragma once

#include "python.hpp"
#include "tables.hpp"

namespace fovea_python {

// Arguments(structs by name, in the tables).
bool add_arguments_type(PyObject *module, const Struct *const *structs, size_t count);

}  // namespace fovea_python
