/* picture: what heatmap.c and chart.c share on top of cairo: colours, text, hatching, lines, a PNG file.
 *
 * A picture has no size while it is drawn on: whatever was drawn is in the file, with a margin around it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_PICTURE_H
#define FOVEA_EXAMPLES_PICTURE_H

#include <cairo.h>

typedef struct picture_color {
  unsigned char r, g, b;
} picture_color;

/* size in pixels; degrees: direction of writing, counterclockwise from the right. */
typedef struct picture_font {
  double size;
  int bold;
  double degrees;
  picture_color color;
} picture_font;

/* What goes wrong from here on, memory included, is told by picture_write_png. */
cairo_t *picture_begin(void);

/* Ends the picture. Returns NULL, or what went wrong. */
const char *picture_write_png(cairo_t *picture, const char *path);

void picture_fill(cairo_t *picture, double x, double y, double width, double height, picture_color color);

/* Diagonal stripes over a rectangle. */
void picture_hatch(cairo_t *picture, double x, double y, double width, double height);
extern const picture_color picture_hatch_ground;

/* Draws the path that was laid with cairo_line_to; dash: length of a dash and of a gap, 0 for a solid line. */
void picture_stroke(cairo_t *picture, double width, double dash, picture_color color);

void picture_disc(cairo_t *picture, double x, double y, double radius, picture_color color);

/* The colour of a part in [0, 1]: from dark violet to light yellow, lightness and hue linear in OKLab (Ottosson 2020),
 * a space in which equal steps look equal, so that what is twice as far up the scale looks twice as far up. */
picture_color picture_scale_color(double part);

/* All of that scale from top to bottom, the largest on top. */
void picture_scale(cairo_t *picture, double x, double y, double width, double height);

/* Length of the text (UTF-8) in pixels. */
double picture_text_width(cairo_t *picture, const char *text, const picture_font *font);

/* Draws text from the baseline point (x, y), moved back along its direction by align times its length. */
void picture_text(cairo_t *picture, const char *text, double x, double y, double align, const picture_font *font);

#endif
