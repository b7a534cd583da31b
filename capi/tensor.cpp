// The C functions that describe tensors: contiguous ones, and those that come as DLPack's DLTensor.
#include <cinttypes>
#include <cstring>

#include "ops/tensors/tensor_argument.hpp"
#include "status.hpp"
#include "types.hpp"

using namespace fovea;

namespace {

// DLPack's DLTensor, DLDevice and DLDataType in one. Their layout has not changed since DLPack 0.2 and is what DLPack
// promises to keep; what varies from version to version is the struct around it.
struct DlTensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t rank;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  const int64_t *shape;
  const int64_t *strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
static_assert(sizeof(void *) != 8 || (offsetof(DlTensor, rank) == 16 && offsetof(DlTensor, shape) == 24 &&
                                      offsetof(DlTensor, byte_offset) == 40 && sizeof(DlTensor) == 48));

enum DlDevice : int32_t { dl_cpu = 1, dl_cuda_host = 3, dl_rocm_host = 11 };  // those whose memory the host addresses
enum DlType : uint8_t {
  dl_int = 0,
  dl_uint = 1,
  dl_float = 2,
  dl_bfloat = 4,
  dl_bool = 6,
  dl_float8_e4m3fn = 10,
  dl_float8_e5m2 = 12
};

Status read_device(const DlTensor &given) {
  if (given.device_type == dl_cpu || given.device_type == dl_cuda_host || given.device_type == dl_rocm_host) {
    return FOVEA_OK;
  }
  return fail(FOVEA_BAD_VALUE, "dl_tensor.device.device_type is %" PRId32 ", expected host memory: 1, 3 or 11",
              given.device_type);
}

Status read_dtype(const DlTensor &given, fovea_tensor *tensor) {
  struct Known {
    uint8_t code, bits;
    fovea_dtype dtype;
  };
  // Frameworks that are older than DLPack's own code for them hand booleans over as bytes.
  constexpr Known known[] = {{dl_float, 32, FOVEA_F32},
                             {dl_float, 16, FOVEA_F16},
                             {dl_bfloat, 16, FOVEA_BF16},
                             {dl_float8_e4m3fn, 8, FOVEA_F8_E4M3},
                             {dl_float8_e5m2, 8, FOVEA_F8_E5M2},
                             {dl_int, 8, FOVEA_I8},
                             {dl_int, 32, FOVEA_I32},
                             {dl_int, 64, FOVEA_I64},
                             {dl_bool, 8, FOVEA_BOOL},
                             {dl_uint, 8, FOVEA_BOOL}};
  for (const Known &type : known) {
    if (given.type_lanes != 1 || given.type_code != type.code || given.type_bits != type.bits) continue;
    tensor->dtype = type.dtype;
    return FOVEA_OK;
  }
  return fail(
      FOVEA_BAD_DTYPE,
      "dl_tensor.dtype has code %d, bits %d, lanes %d, expected float of 32 or 16 bits, bfloat of 16, float8_e4m3fn, "
      "float8_e5m2, int of 8, 32 or 64, bool or uint of 8, in one lane",
      given.type_code, given.type_bits, given.type_lanes);
}

Status read_layout(const DlTensor &given, fovea_tensor *tensor) {
  if (given.rank < 0 || given.rank > FOVEA_MAX_RANK) {
    return fail(FOVEA_BAD_RANK, "dl_tensor.ndim is %" PRId32 ", expected 0 to %d", given.rank, FOVEA_MAX_RANK);
  }
  if (given.rank > 0 && given.shape == nullptr) {
    return fail(FOVEA_NULL_POINTER, "dl_tensor.shape is NULL, expected %" PRId32 " sizes", given.rank);
  }
  tensor->rank = given.rank;
  for (int32_t axis = 0; axis < given.rank; ++axis) {
    if (given.shape[axis] < 0) {
      return fail(FOVEA_BAD_SHAPE, "dl_tensor.shape[%" PRId32 "] is %" PRId64 ", expected at least 0", axis,
                  given.shape[axis]);
    }
    tensor->shape[axis] = given.shape[axis];
  }
  if (given.strides != nullptr) {
    std::memcpy(tensor->strides, given.strides, static_cast<size_t>(given.rank) * sizeof *given.strides);
  } else if (!set_contiguous(tensor)) {
    return fail(FOVEA_SIZE_OVERFLOW, "dl_tensor.shape has contiguous strides of 2^63 and more");
  }
  return FOVEA_OK;
}

Status read_data(const DlTensor &given, fovea_tensor *tensor) {
  if (given.data == nullptr && given.byte_offset != 0) {
    return fail(FOVEA_NULL_POINTER, "dl_tensor.data is NULL, expected memory under its byte_offset %" PRIu64,
                given.byte_offset);
  }
  // No object is larger than PTRDIFF_MAX, and adding more to a pointer is undefined.
  if (given.byte_offset > PTRDIFF_MAX || given.byte_offset > UINTPTR_MAX - reinterpret_cast<uintptr_t>(given.data)) {
    return fail(FOVEA_SIZE_OVERFLOW, "dl_tensor.byte_offset is %" PRIu64 ", which leaves the address space",
                given.byte_offset);
  }
  tensor->data = given.data == nullptr ? nullptr : static_cast<char *>(given.data) + given.byte_offset;
  return FOVEA_OK;
}

}  // namespace

fovea_tensor fovea_tensor_contiguous(const void *data, fovea_dtype dtype, int32_t rank, const int64_t *shape) {
  return contiguous_tensor(data, dtype, rank, shape);
}

fovea_status fovea_tensor_from_dlpack(const void *dl_tensor, fovea_tensor *tensor) {
  if (dl_tensor == nullptr) return fail(FOVEA_NULL_POINTER, "dl_tensor is NULL, expected a DLTensor");
  if (tensor == nullptr) return fail(FOVEA_NULL_POINTER, "tensor is NULL, expected where to put the view");
  DlTensor given;
  std::memcpy(&given, dl_tensor, sizeof given);  // the caller's struct is of another type
  fovea_tensor read = {};
  Status status = read_device(given);
  if (status == FOVEA_OK) status = read_dtype(given, &read);
  if (status == FOVEA_OK) status = read_layout(given, &read);
  if (status == FOVEA_OK) status = read_data(given, &read);
  if (status == FOVEA_OK) *tensor = read;
  return status;
}
