/* fovea_tensor_from_dlpack, on structs written down as DLPack's dlpack.h declares them. */
#include <string.h>

#include "check.h"

typedef struct dl_device {
  int32_t device_type;
  int32_t device_id;
} dl_device;

typedef struct dl_data_type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} dl_data_type;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_data_type dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} dl_tensor;

static float numbers[24];
static int64_t shape[3] = {2, 3, 4}, strides[3] = {1, 8, 2};

static dl_tensor cube(void) {
  dl_tensor given;
  memset(&given, 0, sizeof given);
  given.data = numbers;
  given.device.device_type = 1;
  given.ndim = 3;
  given.dtype.code = 2;
  given.dtype.bits = 32;
  given.dtype.lanes = 1;
  given.shape = shape;
  return given;
}

static void test_layouts(void) {
  const fovea_tensor expected = fovea_tensor_contiguous(numbers, FOVEA_F32, 3, shape);
  dl_tensor given = cube();
  fovea_tensor view;
  int n;
  memset(&view, 0xff, sizeof view);
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK); /* strides NULL: contiguous */
  CHECK(memcmp(&view, &expected, sizeof view) == 0);

  given.strides = strides;
  given.byte_offset = 5 * sizeof(float); /* as a slice has it */
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK);
  CHECK(view.data == numbers + 5 && view.rank == 3 && view.dtype == FOVEA_F32);
  for (n = 0; n < 3; ++n) CHECK(view.shape[n] == shape[n] && view.strides[n] == strides[n]);
  for (n = 3; n < FOVEA_MAX_RANK; ++n) CHECK(view.shape[n] == 0 && view.strides[n] == 0);

  given = cube();
  given.ndim = 0; /* a scalar */
  given.shape = NULL;
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK && view.rank == 0);

  given = cube();
  given.data = NULL; /* what a plan is made with */
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK && view.data == NULL && view.rank == 3);

  given.device.device_type = 3; /* kDLCUDAHost, page-locked host memory */
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK);
  given.device.device_type = 11; /* kDLROCMHost */
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK);
}

/* The view is one that operations take: e^x of every other row of a table, begun at its second column. (The output is not
 * initialised: where headers let them, compilers warn of that.) */
static void test_call(void) {
  float table[4][3] = {{0, 1, 2}, {3, 4, 5}, {0.5f, -1, 0}, {6, 7, 8}}, out[2][2];
  int64_t rows_shape[2] = {2, 2}, rows_strides[2] = {6, 1};
  dl_tensor given = cube();
  const fovea_tensor results = fovea_tensor_contiguous(out, FOVEA_F32, 2, rows_shape);
  fovea_tensor rows;
  given.data = table;
  given.ndim = 2;
  given.shape = rows_shape;
  given.strides = rows_strides;
  given.byte_offset = sizeof(float);
  CHECK(fovea_tensor_from_dlpack(&given, &rows) == FOVEA_OK);
  CHECK(fovea_exp(NULL, &rows, &results) == FOVEA_OK);
  CHECK(near(out[0][0], exp(1.0)) && near(out[0][1], exp(2.0)) && near(out[1][0], exp(-1.0)) && near(out[1][1], 1));
}

static void test_dtypes(void) {
  static const struct {
    uint8_t code, bits;
    uint16_t lanes;
    fovea_dtype expected; /* 0: refused */
  } types[] = {{2, 32, 1, FOVEA_F32},
               {0, 32, 1, FOVEA_I32},
               {0, 64, 1, FOVEA_I64},
               {6, 8, 1, FOVEA_BOOL},
               {1, 8, 1, FOVEA_BOOL},
               {2, 16, 1, FOVEA_F16},
               {2, 64, 1, 0},
               {4, 16, 1, FOVEA_BF16},
               {0, 8, 1, FOVEA_I8},
               {10, 8, 1, FOVEA_F8_E4M3},
               {12, 8, 1, FOVEA_F8_E5M2},
               {8, 8, 1, 0},
               {11, 8, 1, 0},
               {13, 8, 1, 0},
               {4, 32, 1, 0},
               {10, 16, 1, 0},
               {2, 8, 1, 0},
               {0, 16, 1, 0},
               {1, 32, 1, 0},
               {1, 64, 1, 0},
               {5, 64, 1, 0},
               {6, 1, 1, 0},
               {3, 64, 1, 0},
               {255, 32, 1, 0},
               {2, 32, 4, 0},
               {2, 32, 0, 0},
               {2, 32, 65535, 0},
               {2, 0, 1, 0}};
  size_t n;
  for (n = 0; n < sizeof types / sizeof *types; ++n) {
    dl_tensor given = cube();
    fovea_tensor view;
    fovea_status status;
    given.dtype.code = types[n].code;
    given.dtype.bits = types[n].bits;
    given.dtype.lanes = types[n].lanes;
    status = fovea_tensor_from_dlpack(&given, &view);
    CHECK(status == (types[n].expected ? FOVEA_OK : FOVEA_BAD_DTYPE));
    CHECK(types[n].expected ? view.dtype == types[n].expected : strstr(fovea_last_error(), "dl_tensor.dtype") != NULL);
  }
}

/* A status, a message that names the member, and no touch of what the caller had. */
static int refuses(const void *given, fovea_status expected, const char *word) {
  fovea_tensor view, before;
  memset(&view, 0x5a, sizeof view);
  before = view;
  return fovea_tensor_from_dlpack(given, &view) == expected && strstr(fovea_last_error(), word) != NULL &&
         memcmp(&view, &before, sizeof view) == 0;
}

static void test_refusals(void) {
  int64_t negative[2] = {2, -1}, huge[3] = {1, INT64_MAX, 3}, large[3] = {2, INT64_C(1) << 32, INT64_C(1) << 31};
  dl_tensor given = cube();
  fovea_tensor view;
  CHECK(refuses(NULL, FOVEA_NULL_POINTER, "dl_tensor"));
  CHECK(fovea_tensor_from_dlpack(&given, NULL) == FOVEA_NULL_POINTER && strstr(fovea_last_error(), "tensor is NULL"));

  given.device.device_type = 2; /* a GPU's memory */
  CHECK(refuses(&given, FOVEA_BAD_VALUE, "device_type is 2"));
  given.device.device_type = 13; /* managed by CUDA: the host may see it, but not while a kernel runs */
  CHECK(refuses(&given, FOVEA_BAD_VALUE, "device_type is 13"));
  given.device.device_type = 0;
  CHECK(refuses(&given, FOVEA_BAD_VALUE, "device_type is 0"));

  given = cube();
  given.ndim = FOVEA_MAX_RANK + 1;
  CHECK(refuses(&given, FOVEA_BAD_RANK, "ndim is 7"));
  given.ndim = -1;
  CHECK(refuses(&given, FOVEA_BAD_RANK, "ndim is -1"));
  given.ndim = INT32_MAX;
  CHECK(refuses(&given, FOVEA_BAD_RANK, "ndim"));

  given = cube();
  given.shape = NULL;
  CHECK(refuses(&given, FOVEA_NULL_POINTER, "shape"));
  given.shape = negative;
  given.ndim = 2;
  CHECK(refuses(&given, FOVEA_BAD_SHAPE, "shape[1] is -1"));

  given = cube();
  given.shape = huge;
  CHECK(refuses(&given, FOVEA_SIZE_OVERFLOW, "shape"));
  given.shape = large; /* its first stride is 2^63 */
  CHECK(refuses(&given, FOVEA_SIZE_OVERFLOW, "shape"));
  given.strides = strides; /* taken as they are: the operation that the view is passed to checks them */
  CHECK(fovea_tensor_from_dlpack(&given, &view) == FOVEA_OK);

  given = cube();
  given.byte_offset = UINT64_MAX;
  CHECK(refuses(&given, FOVEA_SIZE_OVERFLOW, "byte_offset"));
  given.byte_offset = (uint64_t)1 << 63; /* more than a pointer may be moved by */
  CHECK(refuses(&given, FOVEA_SIZE_OVERFLOW, "byte_offset is 9223372036854775808"));
  given.byte_offset += 4;
  CHECK(refuses(&given, FOVEA_SIZE_OVERFLOW, "byte_offset"));
  given.data = NULL;
  given.byte_offset = 4;
  CHECK(refuses(&given, FOVEA_NULL_POINTER, "data"));
}

int main(void) {
  test_layouts();
  test_call();
  test_dtypes();
  test_refusals();
  return finish();
}
