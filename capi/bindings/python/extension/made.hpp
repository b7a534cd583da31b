// Outputs that a run makes itself: an array of the library that the other arrays are of, over memory of ours.
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace fovea_python {

// How to make an output as `maker(*arguments)` does, without asking it again: PyTorch's own function takes three times
// as long as handing it memory through DLPack. nullptr if that cannot be had, or Python's error is set.
const DlExchange *exchange_for(PyObject *maker, PyObject *arguments, const fovea_tensor &planned);

// A contiguous array of the planned shape and element type, whose elements lie at *data.
PyObject *make_array(const DlExchange &exchange, const fovea_tensor &planned, void **data);

}  // namespace fovea_python
