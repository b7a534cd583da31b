/* heatmap: draws attention weights as labelled, coloured squares.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "heatmap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "canvas.h"

enum { CELL = 28, GAP = 1, MARGIN = 36, LABEL_GAP = 8, BAR_WIDTH = 14, BAR_ROOM = 84, TITLE_ROOM = 84 };
enum { PANEL_TITLE_ROOM = 62, PANEL_SPACE = 44 };

static const canvas_color ink = {32, 33, 43}, faint = {120, 122, 135};
static const canvas_color pad_ground = {240, 240, 243}, pad_stripe = {216, 217, 224}, pad_ink = {176, 178, 190};

static char error_text[512];

const char *heatmap_error(void) { return error_text; }

static double label_width(const heatmap_panel *panel, const canvas_font *font) {
  double width = canvas_text_width("[PAD]", font);
  for (int i = 0; i < panel->valid; ++i) width = fmax(width, canvas_text_width(panel->labels[i], font));
  return width;
}

static canvas_font label_font(double degrees, canvas_color color) { return (canvas_font){10, 0.14, degrees, color}; }

/* Room for the labels of every panel, so that the cells line up. */
static int label_room(const heatmap_panel *panels, int count) {
  canvas_font font = label_font(0, ink);
  double width = 0;
  for (int i = 0; i < count; ++i) width = fmax(width, label_width(&panels[i], &font));
  return (int)ceil(width);
}

static int cells_size(const heatmap_panel *panel) { return panel->size * (CELL + GAP) - GAP; }

static void draw_labels(canvas *picture, const heatmap_panel *panel, int x, int y) {
  for (int i = 0; i < panel->size; ++i) {
    const char *label = i < panel->valid ? panel->labels[i] : "[PAD]";
    canvas_color color = i < panel->valid ? ink : pad_ink;
    canvas_font row_font = label_font(0, color), column_font = label_font(60, color);
    int middle = i * (CELL + GAP) + CELL / 2;
    canvas_text(picture, label, x - LABEL_GAP, y + middle + 5, 1, &row_font);
    canvas_text(picture, label, x + middle + 5, y - LABEL_GAP, 0, &column_font);
  }
}

/* Where on the colour scale a weight stands. */
static double scale_part(double weight) { return sqrt(weight); }

static void draw_cell(canvas *picture, double weight, int x, int y) {
  double part = scale_part(weight);
  canvas_fill(picture, x, y, CELL, CELL, canvas_scale_color(part));
  if (weight < 0.095) return;
  char number[8];
  snprintf(number, sizeof number, "%.0f", 100 * weight);
  canvas_color light = {255, 255, 255};
  canvas_font font = {7.5, 0.15, 0, part > 0.6 ? ink : light};
  canvas_text(picture, number, x + CELL / 2.0, y + CELL / 2.0 + 4, 0.5, &font);
}

static void draw_cells(canvas *picture, const heatmap_panel *panel, int x, int y) {
  for (int i = 0; i < panel->valid; ++i)
    for (int j = 0; j < panel->valid; ++j)
      draw_cell(picture, panel->weights[i * panel->size + j], x + j * (CELL + GAP), y + i * (CELL + GAP));
  int all = cells_size(panel), valid = panel->valid * (CELL + GAP);
  if (panel->valid == panel->size) return;
  canvas_hatch(picture, x + valid, y, all - valid, all, pad_ground, pad_stripe);
  canvas_hatch(picture, x, y + valid, valid, all - valid, pad_ground, pad_stripe);
  canvas_font font = {13, 0.16, 0, faint};
  const char *note = "padding: not attended";
  double width = canvas_text_width(note, &font), middle_x = x + valid / 2.0, middle_y = y + (valid + all) / 2.0;
  canvas_fill(picture, (int)(middle_x - width / 2 - 12), (int)middle_y - 16, (int)width + 24, 32, pad_ground);
  canvas_text(picture, note, middle_x, middle_y + 6, 0.5, &font);
}

static void draw_bar(canvas *picture, const heatmap_panel *panel, int x, int y) {
  static const double ticks[] = {0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  int height = cells_size(panel);
  for (int row = 0; row < height; ++row)
    canvas_fill(picture, x, y + row, BAR_WIDTH, 1, canvas_scale_color(1 - (row + 0.5) / height));
  canvas_font font = label_font(0, faint);
  for (size_t tick = 0; tick < sizeof ticks / sizeof *ticks; ++tick) {
    char number[16];
    int at = y + (int)((height - 1) * (1 - scale_part(ticks[tick])) + 0.5);
    snprintf(number, sizeof number, "%.0f %%", 100 * ticks[tick]);
    canvas_fill(picture, x + BAR_WIDTH, at, 4, 1, faint);
    canvas_text(picture, number, x + BAR_WIDTH + 9, at + 5, 0, &font);
  }
}

static void draw_panel(canvas *picture, const heatmap_panel *panel, int labels, int x, int y) {
  int cells_x = x + labels + LABEL_GAP, cells_y = y + PANEL_TITLE_ROOM + labels;
  canvas_font title = {13, 0.17, 0, ink}, subtitle = {10, 0.13, 0, faint};
  canvas_text(picture, panel->title, x, y + 16, 0, &title);
  canvas_text(picture, panel->subtitle, x, y + 39, 0, &subtitle);
  draw_labels(picture, panel, cells_x, cells_y);
  draw_cells(picture, panel, cells_x, cells_y);
  draw_bar(picture, panel, cells_x + cells_size(panel) + 16, cells_y);
}

/* Draws the panels row by row, or with no picture only measures; width and height get the extent. */
static void place_panels(canvas *picture, const heatmap_panel *panels, int count, int columns, int *width,
                         int *height) {
  int labels = label_room(panels, count), x = MARGIN, y = MARGIN + TITLE_ROOM, row_height = 0;
  *width = 0;
  for (int i = 0; i < count; ++i) {
    int cells = cells_size(&panels[i]);
    if (i > 0 && i % columns == 0) {
      x = MARGIN;
      y += row_height + PANEL_SPACE;
      row_height = 0;
    }
    if (picture) draw_panel(picture, &panels[i], labels, x, y);
    x += labels + LABEL_GAP + cells + BAR_ROOM;
    if (x + MARGIN > *width) *width = x + MARGIN;
    x += PANEL_SPACE;
    if (PANEL_TITLE_ROOM + labels + cells > row_height) row_height = PANEL_TITLE_ROOM + labels + cells;
  }
  *height = y + row_height + MARGIN;
}

int heatmap_write_png(const char *path, const char *title, const char *subtitle, const heatmap_panel *panels, int count,
                      int columns) {
  int width, height;
  place_panels(NULL, panels, count, columns, &width, &height);
  canvas picture;
  if (canvas_create(&picture, width, height)) {
    snprintf(error_text, sizeof error_text, "no memory for a picture of %d x %d", width, height);
    return -1;
  }
  canvas_font title_font = {20, 0.16, 0, ink}, subtitle_font = {11, 0.13, 0, faint};
  canvas_text(&picture, title, MARGIN, MARGIN + 22, 0, &title_font);
  canvas_text(&picture, subtitle, MARGIN, MARGIN + 52, 0, &subtitle_font);
  place_panels(&picture, panels, count, columns, &width, &height);
  const char *error = canvas_write_png(&picture, path);
  canvas_destroy(&picture);
  if (error) snprintf(error_text, sizeof error_text, "%s: %s", path, error);
  return error ? -1 : 0;
}
