/* chart: curves, points and coloured cells with axes, legends and colour bars, side by side in a PNG picture.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_CHART_H
#define FOVEA_EXAMPLES_CHART_H

#include "picture.h"

typedef enum chart_style { CHART_LINE, CHART_DASHES, CHART_POINTS } chart_style;

typedef struct chart_series {
  const char *name; /* for the legend */
  const float *x, *y;
  int count;
  chart_style style;
  picture_color color;
} chart_series;

typedef struct chart_axis {
  const char *label;
  double first, last;
} chart_axis;

/* rows x columns cells, row 0 on top; the axes of their panel count rows and columns. */
typedef struct chart_cells {
  const float *values;
  int rows, columns;
  double low, high; /* the ends of the colour scale */
  const char *unit; /* what the colour bar shows */
  const int *valid; /* for each row: cells from here on are masked, and hatched; or NULL */
  int numbered;     /* write the values into the cells */
} chart_cells;

/* Either series or cells, and nothing where the other would be. */
typedef struct chart_panel {
  const char *title; /* or NULL */
  int width, height; /* of the area inside the axes, in pixels */
  chart_axis x, y;   /* for cells only the labels are used */
  const chart_series *series;
  int series_count;
  chart_cells cells;
} chart_panel;

/* Returns 0; or -1, and chart_error() tells why. */
int chart_write_png(const char *path, const char *title, const char *subtitle, const chart_panel *panels, int count);

/* One line about the last chart_write_png that failed. */
const char *chart_error(void);

#endif
