// What is known of the types that arrays have, kept by type: looking an attribute up in vain costs more than all else
// here.
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace fovea_python {

struct KnownType {
  PyObject *type = nullptr;
  const DlExchange *exchange = nullptr;  // without Python objects between; nullptr if the type has no such way
  bool is_numpy = false, is_masked = false, is_torch = false;
  bool runs_code = true;  // whether asking it for its memory may run code of others
};

KnownType known(PyTypeObject *type);

// NumPy's own attribute of an array, whatever a subclass has in its place: a new reference, nullptr with Python's error
// set.
PyObject *array_struct_of(PyObject *array);
PyObject *dtype_of(PyObject *array);

// Whether a tensor of PyTorch's shows its memory with the sign turned round: 1, 0, or -1 with Python's error set.
int is_negated(PyObject *tensor);

// To be called before all else here. False with Python's error set.
bool find_numpy();

}  // namespace fovea_python
