/* textbook_shared: what the parts of textbook share: views of arrays, failed calls, tables and pictures in one folder.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_TEXTBOOK_SHARED_H
#define FOVEA_EXAMPLES_TEXTBOOK_SHARED_H

#include <fovea/fovea.h>

#include "chart.h"

extern const picture_color blue, orange, violet, green, gray;

/* The existing folder that tables and pictures go to. */
extern const char *out_directory;

fovea_tensor vector(const float *data, int64_t size);
fovea_tensor matrix(const float *data, int64_t rows, int64_t columns);
fovea_tensor batch(const float *data, int64_t entries, int64_t rows, int64_t columns);

double mean_square_error(const float *values, const float *wanted, int count);

/* These return 0 if all is well; else -1, having printed why. */
int succeeded(const char *function, fovea_status status);
int write_table(const char *name, const char *header, const float *values, int rows, int columns);
int draw(const char *name, const char *title, const char *subtitle, const chart_panel *panels, int count);

#endif
