/* heatmap: draws attention weights as labelled, coloured squares into a PNG picture.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_HEATMAP_H
#define FOVEA_EXAMPLES_HEATMAP_H

/* One square of size x size cells: row i is the query, column j the key it attends to. Colours go by the square root of a
 * weight, from 0 to 1 in every panel, so that small ones can be told apart and large ones are not cut off. */
typedef struct heatmap_panel {
  const char *title;
  const char *subtitle;
  const char *const *labels; /* valid of them, UTF-8 */
  const float *weights;      /* [size, size], each in [0, 1] */
  int size;
  int valid; /* rows and columns from here on are padding: hatched */
} heatmap_panel;

/* Draws the panels, as many side by side as columns says, under a title. Returns 0; or -1, and heatmap_error() tells
 * why. */
int heatmap_write_png(const char *path, const char *title, const char *subtitle, const heatmap_panel *panels, int count,
                      int columns);

/* One line about the last heatmap_write_png that failed. */
const char *heatmap_error(void);

#endif
