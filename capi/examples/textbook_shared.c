/* textbook_shared: what the parts of textbook share: views of arrays, failed calls, tables and pictures in one folder.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "textbook_shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const picture_color blue = {42, 98, 201}, orange = {222, 112, 20}, violet = {130, 60, 150};
const picture_color green = {28, 140, 96}, gray = {140, 142, 155};

const char *out_directory;

fovea_tensor vector(const float *data, int64_t size) { return fovea_tensor_contiguous(data, FOVEA_F32, 1, &size); }

fovea_tensor matrix(const float *data, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  return fovea_tensor_contiguous(data, FOVEA_F32, 2, shape);
}

fovea_tensor batch(const float *data, int64_t entries, int64_t rows, int64_t columns) {
  const int64_t shape[] = {entries, rows, columns};
  return fovea_tensor_contiguous(data, FOVEA_F32, 3, shape);
}

double mean_square_error(const float *values, const float *wanted, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += ((double)values[i] - wanted[i]) * ((double)values[i] - wanted[i]);
  return sum / count;
}

int succeeded(const char *function, fovea_status status) {
  if (status == FOVEA_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", function, fovea_status_name(status), fovea_last_error());
  return -1;
}

int write_table(const char *name, const char *header, const float *values, int rows, int columns) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.csv", out_directory, name);
  FILE *file = fopen(path, "w");
  if (!file) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return -1;
  }
  fprintf(file, "# %s\n", header);
  for (int i = 0; i < rows * columns; ++i) fprintf(file, "%.9g%c", values[i], (i + 1) % columns ? ',' : '\n');
  int failed = ferror(file);
  failed |= fclose(file);
  if (failed) fprintf(stderr, "%s: cannot be written\n", path);
  return failed ? -1 : 0;
}

int draw(const char *name, const char *title, const char *subtitle, const chart_panel *panels, int count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.png", out_directory, name);
  if (chart_write_png(path, title, subtitle, panels, count) == 0) return 0;
  fprintf(stderr, "%s\n", chart_error());
  return -1;
}
