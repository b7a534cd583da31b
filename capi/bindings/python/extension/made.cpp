// An array's memory stands behind its description, in one block that is freed through DLPack, by whichever thread lets
// go of the array last, with or without the interpreter's lock.
#include "made.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "view.hpp"

namespace fovea_python {
namespace {

constexpr size_t alignment = 64;  // as PyTorch's own

struct alignas(alignment) Block {
  DlManagedVersioned managed;
  int64_t shape[FOVEA_MAX_RANK], strides[FOVEA_MAX_RANK];
};

struct ElementType {
  fovea_dtype dtype;
  uint8_t code, bits;
};
constexpr ElementType element_types[] = {
    {FOVEA_F32, kDlFloat, 32}, {FOVEA_F16, kDlFloat, 16}, {FOVEA_BF16, kDlBfloat, 16}};

const ElementType *element_type(fovea_dtype dtype) {
  for (const ElementType &one : element_types) {
    if (one.dtype == dtype) return &one;
  }
  return nullptr;
}

bool same_layout(const fovea_tensor &one, const fovea_tensor &other) {
  const size_t size = static_cast<size_t>(one.rank) * sizeof(int64_t);
  return one.dtype == other.dtype && one.rank == other.rank && std::memcmp(one.shape, other.shape, size) == 0 &&
         std::memcmp(one.strides, other.strides, size) == 0;
}

}  // namespace

const DlExchange *exchange_for(PyObject *maker, PyObject *arguments, const fovea_tensor &planned) {
  const Reference example(PyObject_CallObject(maker, arguments));
  if (!example) return nullptr;
  const DlExchange *exchange = known(Py_TYPE(example.get())).exchange;
  if (exchange == nullptr || exchange->to_object == nullptr || element_type(planned.dtype) == nullptr) return nullptr;
  View view;
  if (!view.open(example.get(), "out", true, 0)) {
    PyErr_Clear();  // the library will say it of the plan's own
    return nullptr;
  }
  const fovea_tensor contiguous = fovea_tensor_contiguous(nullptr, planned.dtype, planned.rank, planned.shape);
  return same_layout(view.tensor, planned) && same_layout(planned, contiguous) ? exchange : nullptr;
}

PyObject *make_array(const DlExchange &exchange, const fovea_tensor &planned, void **data) {
  const ElementType &type = *element_type(planned.dtype);
  size_t size = type.bits / 8U;  // of a tensor that there has been once: no product overflows
  for (int axis = 0; axis < planned.rank; ++axis) size *= static_cast<size_t>(planned.shape[axis]);
  void *memory = std::aligned_alloc(alignment, sizeof(Block) + (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) return PyErr_NoMemory();
  auto *block = new (memory) Block{};
  std::copy_n(planned.shape, planned.rank, block->shape);
  std::copy_n(planned.strides, planned.rank, block->strides);
  *data = block + 1;
  DlManagedVersioned &managed = block->managed;
  managed.major = 1;
  managed.manager = memory;
  managed.deleter = [](DlManagedVersioned *self) { std::free(self->manager); };
  managed.tensor = {*data, kDlCpu, 0, planned.rank, type.code, type.bits, 1, block->shape, block->strides, 0};
  void *array = nullptr;
  if (exchange.to_object(&managed, &array) != 0) return nullptr;
  return static_cast<PyObject *>(array);
}

}  // namespace fovea_python
