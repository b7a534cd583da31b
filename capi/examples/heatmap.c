/* heatmap: draws attention weights as labelled, coloured squares.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "heatmap.h"

#include <math.h>
#include <stdio.h>

#include "picture.h"

enum { CELL = 28, GAP = 1, LABEL_GAP = 8, BAR_WIDTH = 14, BAR_ROOM = 84, TITLE_ROOM = 84 };
enum { PANEL_TITLE_ROOM = 56, PANEL_SPACE = 44 };

static const picture_color ink = {32, 33, 43}, faint = {120, 122, 135}, pad_ink = {176, 178, 190};

static char error_text[512];

const char *heatmap_error(void) { return error_text; }

static picture_font label_font(double degrees, picture_color color) {
  return (picture_font){.size = 13, .degrees = degrees, .color = color};
}

/* Room for the labels of every panel, so that the cells line up. */
static int label_room(cairo_t *picture, const heatmap_panel *panels, int count) {
  picture_font font = label_font(0, ink);
  double width = picture_text_width(picture, "[PAD]", &font);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < panels[i].valid; ++j)
      width = fmax(width, picture_text_width(picture, panels[i].labels[j], &font));
  return (int)ceil(width);
}

static int cells_size(const heatmap_panel *panel) { return panel->size * (CELL + GAP) - GAP; }

static void draw_labels(cairo_t *picture, const heatmap_panel *panel, int x, int y) {
  for (int i = 0; i < panel->size; ++i) {
    const char *label = i < panel->valid ? panel->labels[i] : "[PAD]";
    picture_color color = i < panel->valid ? ink : pad_ink;
    picture_font row_font = label_font(0, color), column_font = label_font(60, color);
    int middle = i * (CELL + GAP) + CELL / 2;
    picture_text(picture, label, x - LABEL_GAP, y + middle + 5, 1, &row_font);
    picture_text(picture, label, x + middle + 5, y - LABEL_GAP, 0, &column_font);
  }
}

/* Where on the colour scale a weight stands. */
static double scale_part(double weight) { return sqrt(weight); }

static void draw_cell(cairo_t *picture, double weight, int x, int y) {
  double part = scale_part(weight);
  picture_fill(picture, x, y, CELL, CELL, picture_scale_color(part));
  if (weight < 0.095) return;
  char number[8];
  snprintf(number, sizeof number, "%.0f", 100 * weight);
  picture_color light = {255, 255, 255};
  picture_font font = {.size = 10.5, .color = part > 0.6 ? ink : light};
  picture_text(picture, number, x + CELL / 2.0, y + CELL / 2.0 + 4, 0.5, &font);
}

static void draw_cells(cairo_t *picture, const heatmap_panel *panel, int x, int y) {
  for (int i = 0; i < panel->valid; ++i)
    for (int j = 0; j < panel->valid; ++j)
      draw_cell(picture, panel->weights[i * panel->size + j], x + j * (CELL + GAP), y + i * (CELL + GAP));
  int all = cells_size(panel), valid = panel->valid * (CELL + GAP);
  if (panel->valid == panel->size) return;
  picture_hatch(picture, x + valid, y, all - valid, all);
  picture_hatch(picture, x, y + valid, valid, all - valid);
  picture_font font = {.size = 17, .color = faint};
  const char *note = "padding: not attended";
  double width = picture_text_width(picture, note, &font), middle_x = x + valid / 2.0,
         middle_y = y + (valid + all) / 2.0;
  picture_fill(picture, floor(middle_x - width / 2 - 12), floor(middle_y) - 16, floor(width) + 24, 32,
               picture_hatch_ground);
  picture_text(picture, note, middle_x, middle_y + 6, 0.5, &font);
}

static void draw_bar(cairo_t *picture, const heatmap_panel *panel, int x, int y) {
  static const double ticks[] = {0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  int height = cells_size(panel);
  picture_scale(picture, x, y, BAR_WIDTH, height);
  picture_font font = label_font(0, faint);
  for (size_t tick = 0; tick < sizeof ticks / sizeof *ticks; ++tick) {
    char number[16];
    int at = y + (int)((height - 1) * (1 - scale_part(ticks[tick])) + 0.5);
    snprintf(number, sizeof number, "%.0f %%", 100 * ticks[tick]);
    picture_fill(picture, x + BAR_WIDTH, at, 4, 1, faint);
    picture_text(picture, number, x + BAR_WIDTH + 9, at + 5, 0, &font);
  }
}

static void draw_panel(cairo_t *picture, const heatmap_panel *panel, int labels, int x, int y) {
  int cells_x = x + labels + LABEL_GAP, cells_y = y + PANEL_TITLE_ROOM + labels;
  picture_font title = {.size = 17, .bold = 1, .color = ink}, subtitle = {.size = 13, .color = faint};
  picture_text(picture, panel->title, x, y + 16, 0, &title);
  picture_text(picture, panel->subtitle, x, y + 39, 0, &subtitle);
  draw_labels(picture, panel, cells_x, cells_y);
  draw_cells(picture, panel, cells_x, cells_y);
  draw_bar(picture, panel, cells_x + cells_size(panel) + 16, cells_y);
}

static void draw_panels(cairo_t *picture, const heatmap_panel *panels, int count, int columns) {
  int labels = label_room(picture, panels, count), x = 0, y = TITLE_ROOM, row_height = 0;
  for (int i = 0; i < count; ++i) {
    int cells = cells_size(&panels[i]);
    if (i > 0 && i % columns == 0) {
      x = 0;
      y += row_height + PANEL_SPACE;
      row_height = 0;
    }
    draw_panel(picture, &panels[i], labels, x, y);
    x += labels + LABEL_GAP + cells + BAR_ROOM + PANEL_SPACE;
    if (PANEL_TITLE_ROOM + labels + cells > row_height) row_height = PANEL_TITLE_ROOM + labels + cells;
  }
}

int heatmap_write_png(const char *path, const char *title, const char *subtitle, const heatmap_panel *panels, int count,
                      int columns) {
  picture_font title_font = {.size = 27, .bold = 1, .color = ink}, subtitle_font = {.size = 15, .color = faint};
  cairo_t *picture = picture_begin();
  picture_text(picture, title, 0, 22, 0, &title_font);
  picture_text(picture, subtitle, 0, 50, 0, &subtitle_font);
  draw_panels(picture, panels, count, columns);
  const char *error = picture_write_png(picture, path);
  if (error) snprintf(error_text, sizeof error_text, "%s: %s", path, error);
  return error ? -1 : 0;
}
