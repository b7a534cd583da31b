/* npy: reads NumPy's .npy files (format 1.0 and 2.0, little-endian, C order).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_NPY_H
#define FOVEA_EXAMPLES_NPY_H

#include <stddef.h>
#include <stdint.h>

enum { NPY_MAX_RANK = 6 };

typedef enum npy_dtype { NPY_F32, NPY_F64, NPY_I32 } npy_dtype;

typedef struct npy_array {
  void *data; /* count elements, owned: see npy_free */
  npy_dtype dtype;
  int32_t rank;
  int64_t shape[NPY_MAX_RANK];
  size_t count;
} npy_array;

/* Reads a file whose type and rank the caller knows. Returns 0; or -1: npy_error() then tells what was wrong, and array
 * is empty. */
int npy_load(const char *path, npy_dtype dtype, int32_t rank, npy_array *array);

/* One line about the last npy_load that failed. */
const char *npy_error(void);

void npy_free(npy_array *array);

#endif
