// How elements are called: by NumPy's kinds, by formats of the buffer protocol, by DLPack's codes, and in messages.
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace fovea_python {

using ElementName = char[32];

// Those of a kind and size as NumPy has them. False if DLPack has no name for them.
bool describe_kind(char kind, Py_ssize_t size, DlTensor &out);

// Those of a format of the buffer protocol, nullptr being bytes. False if DLPack has no name for them, or if the format
// does not go with the size.
bool describe_format(const char *format, Py_ssize_t size, DlTensor &out);

bool is_in_other_order(const char *format);

// "float64"
void name_elements(const DlTensor &described, ElementName &name);

// A text of others, as far as it is printable and fits.
void copy_name(const char *text, ElementName &name);

// "float32" for FOVEA_F32: what NumPy and others call it. nullptr for none.
const char *name_of_dtype(fovea_dtype dtype);

// A message of the library with these names in place of the C interface's: a new str, nullptr with Python's error set.
PyObject *with_names(const char *message);

}  // namespace fovea_python
