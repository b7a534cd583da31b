/* canvas: an RGB picture in memory with smooth text, rectangles and lines, written as PNG.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_CANVAS_H
#define FOVEA_EXAMPLES_CANVAS_H

typedef struct canvas {
  unsigned char *pixels;   /* height x width x 3 */
  unsigned char *coverage; /* height x width, used while a line is drawn */
  int width, height;
} canvas;

typedef struct canvas_color {
  unsigned char r, g, b;
} canvas_color;

/* size: height of a capital letter in pixels. degrees: direction of writing, counterclockwise from the right. */
typedef struct canvas_font {
  double size;
  double weight; /* stroke width, as a part of size; 0.13 is regular, 0.19 bold */
  double degrees;
  canvas_color color;
} canvas_font;

/* Returns 0, or -1 without memory. Starts white. */
int canvas_create(canvas *picture, int width, int height);
void canvas_destroy(canvas *picture);

/* Returns NULL, or what went wrong. */
const char *canvas_write_png(const canvas *picture, const char *path);

void canvas_fill(canvas *picture, int x, int y, int width, int height, canvas_color color);

/* Diagonal stripes over a rectangle. */
void canvas_hatch(canvas *picture, int x, int y, int width, int height, canvas_color ground, canvas_color stripe);

/* A line through points given in pixels; dash: length of a dash and of a gap, 0 for a solid line. */
void canvas_line(canvas *picture, const double *x, const double *y, int count, double stroke, double dash,
                 canvas_color color);

void canvas_disc(canvas *picture, double x, double y, double radius, canvas_color color);

/* The colour of a part in [0, 1]: from dark violet to light yellow, lightness and hue linear in OKLab (Ottosson 2020),
 * a space in which equal steps look equal, so that what is twice as far up the scale looks twice as far up. */
canvas_color canvas_scale_color(double part);

/* Length of the text in pixels. */
double canvas_text_width(const char *text, const canvas_font *font);

/* Draws text from the baseline point (x, y), moved back along its direction by align times its length. */
void canvas_text(canvas *picture, const char *text, double x, double y, double align, const canvas_font *font);

#endif
