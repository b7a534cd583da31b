/* picture: what heatmap.c and chart.c share on top of cairo: colours, text, hatching, lines, a PNG file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "picture.h"

#include <math.h>
#include <stddef.h>

enum { MARGIN = 36, HATCH_STEP = 8 };

static const double degree = 3.14159265358979323846 / 180;

const picture_color picture_hatch_ground = {240, 240, 243};
static const picture_color hatch_stripe = {216, 217, 224};

static void set_color(cairo_t *picture, picture_color color) {
  cairo_set_source_rgb(picture, color.r / 255.0, color.g / 255.0, color.b / 255.0);
}

cairo_t *picture_begin(void) {
  cairo_surface_t *recording = cairo_recording_surface_create(CAIRO_CONTENT_COLOR_ALPHA, NULL);
  cairo_t *picture = cairo_create(recording);
  cairo_surface_destroy(recording); /* the context keeps it */
  cairo_font_options_t *options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
  cairo_set_font_options(picture, options);
  cairo_font_options_destroy(options);
  return picture;
}

static cairo_surface_t *paint_recording(cairo_surface_t *recording) {
  double x, y, width, height;
  cairo_recording_surface_ink_extents(recording, &x, &y, &width, &height);
  int left = (int)floor(x) - MARGIN, top = (int)floor(y) - MARGIN;
  cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(x + width) + MARGIN - left,
                                                      (int)ceil(y + height) + MARGIN - top);
  cairo_t *painter = cairo_create(image);
  cairo_set_source_rgb(painter, 1, 1, 1);
  cairo_paint(painter);
  cairo_set_source_surface(painter, recording, -left, -top);
  cairo_paint(painter);
  cairo_destroy(painter);
  return image;
}

const char *picture_write_png(cairo_t *picture, const char *path) {
  cairo_status_t status = cairo_status(picture);
  if (status == CAIRO_STATUS_SUCCESS) {
    cairo_surface_t *image = paint_recording(cairo_get_target(picture));
    status = cairo_surface_write_to_png(image, path);
    cairo_surface_destroy(image);
  }
  cairo_destroy(picture);
  return status == CAIRO_STATUS_SUCCESS ? NULL : cairo_status_to_string(status);
}

void picture_fill(cairo_t *picture, double x, double y, double width, double height, picture_color color) {
  set_color(picture, color);
  cairo_rectangle(picture, x, y, width, height);
  cairo_fill(picture);
}

void picture_hatch(cairo_t *picture, double x, double y, double width, double height) {
  picture_fill(picture, x, y, width, height, picture_hatch_ground);
  cairo_save(picture);
  cairo_rectangle(picture, x, y, width, height);
  cairo_clip(picture);
  /* From multiples of the step, so that neighbours go on with each other's stripes. */
  for (double at = floor((x + y) / HATCH_STEP) * HATCH_STEP; at < x + y + width + height; at += HATCH_STEP) {
    cairo_move_to(picture, at - y, y);
    cairo_line_to(picture, at - y - height, y + height);
  }
  set_color(picture, hatch_stripe);
  cairo_set_line_width(picture, 1.6);
  cairo_stroke(picture);
  cairo_restore(picture);
}

void picture_stroke(cairo_t *picture, double width, double dash, picture_color color) {
  set_color(picture, color);
  cairo_set_line_width(picture, width);
  cairo_set_line_join(picture, CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(picture, dash > 0 ? CAIRO_LINE_CAP_BUTT : CAIRO_LINE_CAP_ROUND);
  cairo_set_dash(picture, &dash, dash > 0, 0);
  cairo_stroke(picture);
  cairo_set_dash(picture, NULL, 0, 0);
}

void picture_disc(cairo_t *picture, double x, double y, double radius, picture_color color) {
  set_color(picture, color);
  cairo_arc(picture, x, y, radius, 0, 360 * degree);
  cairo_fill(picture);
}

static unsigned char srgb_byte(double linear) {
  linear = linear < 0 ? 0 : linear > 1 ? 1 : linear;
  double coded = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
  return (unsigned char)(coded * 255 + 0.5);
}

static picture_color oklab_color(double lightness, double a, double b) {
  double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return (picture_color){srgb_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                         srgb_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                         srgb_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

picture_color picture_scale_color(double part) {
  part = part < 0 ? 0 : part > 1 ? 1 : part;
  double hue = (312 - 206 * part) * degree, chroma = 0.105 + 0.06 * part;
  return oklab_color(0.25 + 0.67 * part, chroma * cos(hue), chroma * sin(hue));
}

void picture_scale(cairo_t *picture, double x, double y, double width, double height) {
  for (int row = 0; row < height; ++row)
    picture_fill(picture, x, y + row, width, 1, picture_scale_color(1 - (row + 0.5) / height));
}

static void set_font(cairo_t *picture, const picture_font *font) {
  cairo_select_font_face(picture, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         font->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(picture, font->size);
}

double picture_text_width(cairo_t *picture, const char *text, const picture_font *font) {
  cairo_text_extents_t extents;
  set_font(picture, font);
  cairo_text_extents(picture, text, &extents);
  return extents.x_advance;
}

void picture_text(cairo_t *picture, const char *text, double x, double y, double align, const picture_font *font) {
  double width = picture_text_width(picture, text, font);
  cairo_save(picture);
  set_color(picture, font->color);
  cairo_translate(picture, x, y);
  cairo_rotate(picture, -font->degrees * degree);
  cairo_move_to(picture, -align * width, 0);
  cairo_show_text(picture, text);
  cairo_restore(picture);
  cairo_new_path(picture); /* which has begun where the text ends */
}
