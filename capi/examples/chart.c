/* chart: curves, points and coloured cells with axes, legends and colour bars, side by side in a PNG picture.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chart.h"

#include <math.h>
#include <stdio.h>

enum { TITLE_ROOM = 78, TITLE_LINE = 32, LEGEND_LINE = 34, LEFT_ROOM = 66, PANEL_SPACE = 40 };
enum { BAR_GAP = 18, BAR_WIDTH = 14, BAR_ROOM = 92, TICK = 5 };

static const picture_color ink = {32, 33, 43}, faint = {120, 122, 135}, grid = {231, 232, 237};
static const picture_color white = {255, 255, 255};

static char error_text[512];

const char *chart_error(void) { return error_text; }

static int has_cells(const chart_panel *panel) { return panel->cells.values != NULL; }

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, so that there are about as many steps as wanted. */
static double tick_step(double span, double wanted) {
  double rough = span / wanted, power = pow(10, floor(log10(rough)));
  double digit = rough / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/* The first multiple of step in the axis; -0 and its like become 0. */
static double first_tick(double first, double step) { return ceil(first / step - 1e-9) * step; }

static void write_tick(char *text, size_t size, double value, double step) {
  int digits = (int)fmax(0, ceil(-log10(step) - 1e-9));
  snprintf(text, size, "%.*f", digits, fabs(value) < step / 2 ? 0 : value);
}

/* Where a value lies in the area: from the left, or from the top. */
static double along(chart_axis axis, double value, int length) {
  return (value - axis.first) / (axis.last - axis.first) * length;
}

static chart_axis axis_x(const chart_panel *panel) {
  return has_cells(panel) ? (chart_axis){panel->x.label, -0.5, panel->cells.columns - 0.5} : panel->x;
}

/* Upwards for curves, downwards for the rows of cells. */
static chart_axis axis_y(const chart_panel *panel) {
  return has_cells(panel) ? (chart_axis){panel->y.label, -0.5, panel->cells.rows - 0.5}
                          : (chart_axis){panel->y.label, panel->y.last, panel->y.first};
}

static double step_of(const chart_panel *panel, chart_axis axis, int length) {
  double step = tick_step(fabs(axis.last - axis.first), length / 75.0 + 1);
  return has_cells(panel) ? fmax(1, step) : step;
}

static void draw_x_axis(cairo_t *picture, const chart_panel *panel, int x, int y) {
  chart_axis axis = axis_x(panel);
  picture_font number = {.size = 13, .color = faint}, label = {.size = 14, .color = ink};
  double step = step_of(panel, axis, panel->width);
  for (double value = first_tick(axis.first, step); value <= axis.last + 1e-9 * step; value += step) {
    char text[32];
    int at = x + (int)floor(along(axis, value, panel->width));
    if (!has_cells(panel)) picture_fill(picture, at, y, 1, panel->height, grid);
    picture_fill(picture, at, y + panel->height, 1, TICK, faint);
    write_tick(text, sizeof text, value, step);
    picture_text(picture, text, at + 0.5, y + panel->height + TICK + 16, 0.5, &number);
  }
  picture_text(picture, axis.label, x + panel->width / 2.0, y + panel->height + 46, 0.5, &label);
}

static void draw_y_axis(cairo_t *picture, const chart_panel *panel, int x, int y) {
  chart_axis axis = axis_y(panel);
  picture_font number = {.size = 13, .color = faint}, label = {.size = 14, .degrees = 90, .color = ink};
  double low = fmin(axis.first, axis.last), high = fmax(axis.first, axis.last);
  double step = step_of(panel, axis, panel->height);
  for (double value = first_tick(low, step); value <= high + 1e-9 * step; value += step) {
    char text[32];
    int at = y + (int)floor(along(axis, value, panel->height));
    if (!has_cells(panel)) picture_fill(picture, x, at, panel->width, 1, grid);
    picture_fill(picture, x - TICK, at, TICK, 1, faint);
    write_tick(text, sizeof text, value, step);
    picture_text(picture, text, x - TICK - 6, at + 5.5, 1, &number);
  }
  picture_text(picture, axis.label, x - 50, y + panel->height / 2.0, 0.5, &label);
}

static void draw_frame(cairo_t *picture, const chart_panel *panel, int x, int y) {
  picture_fill(picture, x, y, 1, panel->height + 1, faint);
  picture_fill(picture, x, y + panel->height, panel->width + 1, 1, faint);
}

/* ---- curves ---- */

static void stroke_series(cairo_t *picture, const chart_series *series) {
  picture_stroke(picture, 2.5, series->style == CHART_DASHES ? 8 : 0, series->color);
}

static void draw_series(cairo_t *picture, const chart_panel *panel, const chart_series *series, int x, int y) {
  chart_axis across = axis_x(panel), down = axis_y(panel);
  for (int i = 0; i < series->count; ++i) {
    double at_x = x + along(across, series->x[i], panel->width), at_y = y + along(down, series->y[i], panel->height);
    if (series->style != CHART_POINTS) {
      cairo_line_to(picture, at_x, at_y);
    } else {
      picture_disc(picture, at_x, at_y, 5, white);
      picture_disc(picture, at_x, at_y, 4, series->color);
    }
  }
  if (series->style != CHART_POINTS) stroke_series(picture, series);
}

static void draw_legend(cairo_t *picture, const chart_panel *panel, int x, int y) {
  picture_font font = {.size = 13.5, .color = ink};
  double pen = x;
  for (int i = 0; i < panel->series_count; ++i) {
    const chart_series *series = &panel->series[i];
    if (series->style == CHART_POINTS) {
      picture_disc(picture, pen + 12, y - 5, 4, series->color);
    } else {
      cairo_move_to(picture, pen, y - 5);
      cairo_line_to(picture, pen + 24, y - 5);
      stroke_series(picture, series);
    }
    picture_text(picture, series->name, pen + 33, y, 0, &font);
    pen += 33 + picture_text_width(picture, series->name, &font) + 28;
  }
}

/* ---- cells ---- */

static void draw_cell(cairo_t *picture, const chart_cells *cells, float value, int x, int y, int width, int height) {
  double part = (value - cells->low) / (cells->high - cells->low);
  picture_fill(picture, x, y, width, height, picture_scale_color(part));
  if (!cells->numbered) return;
  char number[16];
  snprintf(number, sizeof number, "%.2f", value);
  picture_font font = {.size = 13, .color = part > 0.6 ? ink : white};
  picture_text(picture, number, x + width / 2.0, y + height / 2.0 + 5, 0.5, &font);
}

static void draw_cells(cairo_t *picture, const chart_panel *panel, int x, int y) {
  const chart_cells *cells = &panel->cells;
  int gap = cells->numbered ? 1 : 0;
  for (int row = 0; row < cells->rows; ++row) {
    int top = y + panel->height * row / cells->rows, below = y + panel->height * (row + 1) / cells->rows;
    int valid = cells->valid ? cells->valid[row] : cells->columns;
    for (int column = 0; column < valid; ++column) {
      int left = x + panel->width * column / cells->columns, right = x + panel->width * (column + 1) / cells->columns;
      draw_cell(picture, cells, cells->values[row * cells->columns + column], left, top, right - left - gap,
                below - top - gap);
    }
    int masked = x + panel->width * valid / cells->columns;
    picture_hatch(picture, masked, top, x + panel->width - masked, below - top - gap);
  }
}

static void draw_bar(cairo_t *picture, const chart_panel *panel, int x, int y) {
  const chart_cells *cells = &panel->cells;
  chart_axis axis = {cells->unit, cells->high, cells->low};
  picture_font number = {.size = 13, .color = faint}, label = {.size = 14, .degrees = 90, .color = ink};
  picture_scale(picture, x, y, BAR_WIDTH, panel->height);
  double step = tick_step(cells->high - cells->low, panel->height / 75.0 + 1);
  for (double value = first_tick(cells->low, step); value <= cells->high + 1e-9 * step; value += step) {
    char text[32];
    int at = y + (int)floor(along(axis, value, panel->height - 1) + 0.5);
    picture_fill(picture, x + BAR_WIDTH, at, TICK, 1, faint);
    write_tick(text, sizeof text, value, step);
    picture_text(picture, text, x + BAR_WIDTH + TICK + 5, at + 5.5, 0, &number);
  }
  picture_text(picture, cells->unit, x + BAR_ROOM - BAR_GAP, y + panel->height / 2.0, 0.5, &label);
}

/* ---- the picture ---- */

static void draw_panel(cairo_t *picture, const chart_panel *panel, int head, int x, int y) {
  picture_font title = {.size = 17, .bold = 1, .color = ink};
  int area_x = x + LEFT_ROOM, area_y = y + head;
  if (panel->title) picture_text(picture, panel->title, area_x, y + 16, 0, &title);
  draw_legend(picture, panel, area_x, area_y - 20);
  draw_x_axis(picture, panel, area_x, area_y);
  draw_y_axis(picture, panel, area_x, area_y);
  if (has_cells(panel)) {
    draw_cells(picture, panel, area_x, area_y);
    draw_bar(picture, panel, area_x + panel->width + BAR_GAP, area_y);
    return;
  }
  draw_frame(picture, panel, area_x, area_y);
  for (int i = 0; i < panel->series_count; ++i) draw_series(picture, panel, &panel->series[i], area_x, area_y);
}

/* Above the areas, which stand in a row: titles and legends. */
static int head_room(const chart_panel *panels, int count) {
  int title = 0, legend = 0;
  for (int i = 0; i < count; ++i) {
    if (panels[i].title) title = TITLE_LINE;
    if (panels[i].series_count > 0) legend = LEGEND_LINE;
  }
  return title + legend;
}

static int panel_width(const chart_panel *panel) {
  return LEFT_ROOM + panel->width + (has_cells(panel) ? BAR_ROOM : 0);
}

int chart_write_png(const char *path, const char *title, const char *subtitle, const chart_panel *panels, int count) {
  picture_font title_font = {.size = 24, .bold = 1, .color = ink}, subtitle_font = {.size = 14.5, .color = faint};
  cairo_t *picture = picture_begin();
  picture_text(picture, title, 0, 20, 0, &title_font);
  picture_text(picture, subtitle, 0, 48, 0, &subtitle_font);
  int x = 0;
  for (int i = 0; i < count; ++i) {
    draw_panel(picture, &panels[i], head_room(panels, count), x, TITLE_ROOM);
    x += panel_width(&panels[i]) + PANEL_SPACE;
  }
  const char *error = picture_write_png(picture, path);
  if (error) snprintf(error_text, sizeof error_text, "%s: %s", path, error);
  return error ? -1 : 0;
}
