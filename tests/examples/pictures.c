/* What the examples draw with: nothing is cut off, wherever it stands; the scale has its largest on top; hatching stays in
 * its rectangle; a file that cannot be written is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

enum { MARGIN = 36, NEAR = 8 }; /* the box of slanted text is larger than its letters */

static int failures;

static void check(int holds, const char *what) {
  if (!holds) fprintf(stderr, "FAILED: %s\n", what);
  failures += !holds;
}

static const unsigned char *pixel(cairo_surface_t *image, int x, int y) {
  return cairo_image_surface_get_data(image) + y * cairo_image_surface_get_stride(image) + 4 * x;
}

static int is(cairo_surface_t *image, int x, int y, picture_color color) {
  const unsigned char *at = pixel(image, x, y); /* blue, green, red on little-endian machines */
  return abs(at[0] - color.b) <= 1 && abs(at[1] - color.g) <= 1 && abs(at[2] - color.r) <= 1;
}

static int is_white(cairo_surface_t *image, int x, int y) { return is(image, x, y, (picture_color){255, 255, 255}); }

/* All that is drawn stands within the margin, and reaches it on every side. */
static void check_margin(cairo_surface_t *image) {
  int width = cairo_image_surface_get_width(image), height = cairo_image_surface_get_height(image);
  int white = 1, left = 0, right = 0, top = 0, bottom = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (is_white(image, x, y)) continue;
      white = white && x >= MARGIN && y >= MARGIN && x < width - MARGIN && y < height - MARGIN;
      left |= x < MARGIN + NEAR, top |= y < MARGIN + NEAR;
      right |= x >= width - MARGIN - NEAR, bottom |= y >= height - MARGIN - NEAR;
    }
  }
  check(white, "the margin is white");
  check(left && right && top && bottom, "the picture is as large as what is drawn");
}

static cairo_surface_t *written(cairo_t *picture, const char *path) {
  const char *error = picture_write_png(picture, path);
  check(error == NULL, error ? error : "");
  return cairo_image_surface_create_from_png(path);
}

static void test_text(const char *path) {
  static const double directions[] = {0, 60, 90, 180, 270};
  for (size_t i = 0; i < sizeof directions / sizeof *directions; ++i) {
    picture_font font = {.size = 20, .degrees = directions[i], .color = {0, 0, 0}};
    cairo_t *picture = picture_begin();
    picture_text(picture, "Ägypten, (σ → 1)", -500 + 300 * (double)i, 70, 0.5, &font);
    cairo_surface_t *image = written(picture, path);
    check_margin(image);
    cairo_surface_destroy(image);
  }
}

static void test_shapes(const char *path) {
  cairo_t *picture = picture_begin();
  picture_scale(picture, 0, 0, 20, 100);
  picture_hatch(picture, 40, 0, 60, 100);
  cairo_surface_t *image = written(picture, path);
  check_margin(image);
  check(is(image, MARGIN + 10, MARGIN, picture_scale_color(0.995)), "the scale's largest is on top");
  check(is(image, MARGIN + 10, MARGIN + 99, picture_scale_color(0.005)), "the scale's smallest is at the bottom");
  int ground = 0, stripes = 0;
  for (int y = 0; y < 100; ++y) {
    check(is_white(image, MARGIN + 39, MARGIN + y), "the hatching stays in its rectangle");
    for (int x = 40; x < 100; ++x) {
      ground += is(image, MARGIN + x, MARGIN + y, picture_hatch_ground);
      stripes += pixel(image, MARGIN + x, MARGIN + y)[2] < 232;
    }
  }
  check(ground > 2000 && stripes > 600 && stripes < 3000, "the hatching has a ground and stripes");
  cairo_surface_destroy(image);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  test_text(argv[1]);
  test_shapes(argv[1]);
  const char *error = picture_write_png(picture_begin(), "/nonexistent/picture.png");
  check(error != NULL && strlen(error) > 0, "a picture that cannot be written is told");
  return failures > 0;
}
