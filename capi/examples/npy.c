/* npy: reads NumPy's .npy files.
 *
 * A file is  "\x93NUMPY", one byte each of major and minor version, the size of the header (2 bytes little-endian in
 * version 1, 4 bytes in version 2), the header, the elements. The header is a Python dictionary written as text:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 12, 25, 32), }
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "npy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LIMIT = 65536 };

static const struct {
  const char *descr;
  size_t size;
} dtypes[] = {{"<f4", 4}, {"<f8", 8}, {"<i4", 4}};

static char error_text[512];

const char *npy_error(void) { return error_text; }

static int fail(const char *path, const char *format, ...) {
  int used = snprintf(error_text, sizeof error_text, "%s: ", path);
  if (used < 0 || (size_t)used >= sizeof error_text) return -1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_text + used, sizeof error_text - (size_t)used, format, arguments);
  va_end(arguments);
  return -1;
}

/* The text after "'name':" and spaces, or NULL. */
static const char *find_entry(const char *header, const char *name) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", name);
  const char *found = strstr(header, quoted);
  if (!found) return NULL;
  found += strlen(quoted);
  return found + strspn(found, " ");
}

static int parse_shape(const char *path, const char *text, int32_t rank, npy_array *array) {
  if (*text != '(') return fail(path, "the header's shape is not a tuple");
  ++text;
  array->rank = 0;
  array->count = 1;
  for (;;) {
    text += strspn(text, " ,");
    if (*text == ')') break;
    char *end;
    long long size = strtoll(text, &end, 10);
    if (end == text || size < 0) return fail(path, "the header's shape is not a tuple of sizes");
    if (array->rank == NPY_MAX_RANK) return fail(path, "more than %d axes", (int)NPY_MAX_RANK);
    if (size > 0 && array->count > SIZE_MAX / 8 / (size_t)size) return fail(path, "the shape is too large");
    array->shape[array->rank++] = size;
    array->count *= (size_t)size;
    text = end;
  }
  if (array->rank != rank) return fail(path, "has %d axes, expected %d", (int)array->rank, (int)rank);
  return 0;
}

static int parse_header(const char *path, const char *header, npy_dtype dtype, int32_t rank, npy_array *array) {
  const char *descr = find_entry(header, "descr");
  const char *order = find_entry(header, "fortran_order");
  const char *shape = find_entry(header, "shape");
  if (!descr || !order || !shape) return fail(path, "the header lacks 'descr', 'fortran_order' or 'shape'");
  if (*descr != '\'' || strncmp(descr + 1, dtypes[dtype].descr, 3) != 0 || descr[4] != '\'')
    return fail(path, "elements are %.5s, expected '%s'", descr, dtypes[dtype].descr);
  if (strncmp(order, "False", 5) != 0) return fail(path, "is in Fortran order, expected C order");
  array->dtype = dtype;
  return parse_shape(path, shape, rank, array);
}

static int read_header(const char *path, FILE *file, char *header) {
  unsigned char start[8], size_bytes[4] = {0, 0, 0, 0};
  if (fread(start, 1, sizeof start, file) != sizeof start || memcmp(start, "\x93NUMPY", 6) != 0)
    return fail(path, "is not a .npy file");
  if (start[6] != 1 && start[6] != 2) return fail(path, "format version %d, expected 1 or 2", (int)start[6]);
  size_t width = start[6] == 1 ? 2 : 4;
  if (fread(size_bytes, 1, width, file) != width) return fail(path, "ends within the header");
  uint32_t size = (uint32_t)size_bytes[0] | (uint32_t)size_bytes[1] << 8 | (uint32_t)size_bytes[2] << 16 |
                  (uint32_t)size_bytes[3] << 24;
  if (size >= HEADER_LIMIT) return fail(path, "a header of %lu bytes is too large", (unsigned long)size);
  if (fread(header, 1, size, file) != size) return fail(path, "ends within the header");
  header[size] = '\0';
  return 0;
}

static int read_array(const char *path, FILE *file, npy_dtype dtype, int32_t rank, npy_array *array) {
  static char header[HEADER_LIMIT];
  const uint16_t one = 1;
  if (*(const unsigned char *)&one != 1) return fail(path, "is little-endian, this machine is not");
  if (read_header(path, file, header) || parse_header(path, header, dtype, rank, array)) return -1;
  size_t size = dtypes[dtype].size;
  array->data = malloc(array->count ? array->count * size : 1);
  if (!array->data) return fail(path, "no memory for %lu elements", (unsigned long)array->count);
  size_t got = fread(array->data, size, array->count, file);
  if (got != array->count)
    return fail(path, "ends after %lu of %lu elements", (unsigned long)got, (unsigned long)array->count);
  if (fgetc(file) != EOF) return fail(path, "goes on after its %lu elements", (unsigned long)array->count);
  return 0;
}

int npy_load(const char *path, npy_dtype dtype, int32_t rank, npy_array *array) {
  memset(array, 0, sizeof *array);
  FILE *file = fopen(path, "rb");
  if (!file) return fail(path, "cannot be opened");
  int status = read_array(path, file, dtype, rank, array);
  fclose(file);
  if (status) npy_free(array);
  return status;
}

void npy_free(npy_array *array) {
  free(array->data);
  memset(array, 0, sizeof *array);
}
