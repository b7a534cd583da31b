// What is used of DLPack, whose layouts never change (https://dmlc.github.io/dlpack), and of NumPy's array interface
// (https://numpy.org/doc/stable/reference/arrays.interface.html).
#pragma once

#include <cstdint>

#include "python.hpp"

namespace fovea_python {

struct DlTensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

enum : uint8_t { kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlComplex = 5, kDlBool = 6 };
enum : int32_t { kDlCpu = 1, kDlCuda = 2 };

struct DlManaged {
  DlTensor tensor;
  void *manager;
  void (*deleter)(DlManaged *self);
};

struct DlManagedVersioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(DlManagedVersioned *self);
  uint64_t flags;
  DlTensor tensor;
};

enum : uint64_t { kDlReadOnly = 1 };

// `type.__dlpack_c_exchange_api__`, the way without Python objects between.
struct DlExchange {
  uint32_t major, minor;
  DlExchange *older;
  void *allocate, *from_object;
  int (*to_object)(DlManagedVersioned *managed, void **object);  // which owns it from then on
  int (*look)(void *object, DlTensor *out);
};

// `array.__array_struct__`
struct ArrayStruct {
  int two;
  int rank;
  char kind;
  int item_size;
  int flags;
  Py_ssize_t *shape, *strides;  // in bytes
  void *data;
};

enum : int { kArrayNotSwapped = 0x200, kArrayWriteable = 0x400 };

}  // namespace fovea_python
