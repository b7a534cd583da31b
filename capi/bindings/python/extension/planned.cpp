#include "planned.hpp"

#include <algorithm>
#include <cstring>

#include "errors.hpp"

namespace fovea_python {
namespace {

PyObject *text_of(const fovea_tensor &tensor, const int64_t *numbers) {
  const Reference list(PyTuple_New(tensor.rank));
  for (int axis = 0; list && axis < tensor.rank; ++axis) {
    PyTuple_SetItem(list.get(), axis, PyLong_FromLongLong(numbers[axis]));
  }
  return list ? PyObject_Str(list.get()) : nullptr;
}

bool refuse(const char *name, fovea_status status, PyObject *text) {
  const Reference owned(text);
  const Reference bytes(owned ? PyUnicode_AsUTF8String(owned.get()) : nullptr);
  if (bytes) raise_status(status, name, PyBytes_AsString(bytes.get()));
  return false;
}

struct Numbers {
  const fovea_tensor &tensor;
  const int64_t *numbers;
};

bool differ(const char *name, fovea_status status, const char *what, const Numbers &planned, const Numbers &now) {
  const Reference wanted(text_of(planned.tensor, planned.numbers));
  const Reference got(text_of(now.tensor, now.numbers));
  if (!wanted || !got) return false;
  return refuse(name, status, PyUnicode_FromFormat("%s %U, planned with %U", what, got.get(), wanted.get()));
}

bool is_empty(const fovea_tensor &tensor) {
  return std::find(tensor.shape, tensor.shape + tensor.rank, 0) != tensor.shape + tensor.rank;
}

bool has_planned_shape(const fovea_tensor &given, const fovea_tensor &planned, int64_t rows) {
  if (given.rank != planned.rank) return false;
  for (int axis = 0; axis < given.rank; ++axis) {
    const bool may_be_fewer = axis == 0 && rows >= 0 && given.shape[0] < planned.shape[0];
    if (given.shape[axis] != planned.shape[axis] && !may_be_fewer) return false;
  }
  return true;
}

}  // namespace

bool as_planned(const char *name, const fovea_tensor &planned, const View &view, int64_t rows) {
  const fovea_tensor &given = view.tensor;
  if (given.dtype != planned.dtype) {
    return refuse(name, FOVEA_BAD_DTYPE,
                  PyUnicode_FromFormat("dtype %s, planned with %s", view.dtype_name(), name_of_dtype(planned.dtype)));
  }
  if (!has_planned_shape(given, planned, rows)) {
    return differ(name, FOVEA_BAD_SHAPE, "shape", {planned, planned.shape}, {given, given.shape});
  }
  if (given.rank > 0 && given.shape[0] < rows) {
    return refuse(name, FOVEA_BAD_SHAPE,
                  PyUnicode_FromFormat("%lld rows, the step has %lld tokens", static_cast<long long>(given.shape[0]),
                                       static_cast<long long>(rows)));
  }
  for (int axis = 0; axis < given.rank && !is_empty(given); ++axis) {
    if (given.strides[axis] != planned.strides[axis] && given.shape[axis] > 1) {
      return differ(name, FOVEA_BAD_STRIDE, "strides", {planned, planned.strides}, {given, given.strides});
    }
  }
  return true;
}

}  // namespace fovea_python
