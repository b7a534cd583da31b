/* canvas: an RGB picture in memory with smooth text, rectangles and lines, written as PNG.
 *
 * Letters are strokes, not dots, so that they can be drawn at any size and angle. A glyph is a list of strokes, a
 * stroke a list of points on a grid, a point two letters: x then y, 'a' = 0. Capitals reach from y = a to the baseline
 * m, small letters from e, descenders down to q. A stroke that starts with '(' is a smooth curve, one with '@' a
 * closed smooth curve, both quadratic B-splines of their points. A pixel is covered as far as it is near the nearest
 * stroke. A line covers a mask first, so that its joints are not drawn twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "canvas.h"

#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPITAL_HEIGHT = 12, MAX_SEGMENTS = 512, CURVE_STEPS = 8 };

static const double degree = 3.14159265358979323846 / 180;

static const char *const glyphs[128] = {
    ['!'] = "aaai amam",
    ['"'] = "aaad cacd",
    ['#'] = "cabm faem aege aigi",
    ['%'] = "haam @aacaceae @fihihmfm",
    ['&'] = "(igimamahfdfababdhm",
    ['\''] = "aaad",
    ['('] = "(daadaldo",
    [')'] = "(aadddlao",
    ['+'] = "dedk ahgh",
    [','] = "(bmbnap",
    ['-'] = "aiei",
    ['.'] = "bmbm",
    ['/'] = "gaan",
    [':'] = "afaf amam",
    [';'] = "bfbf (bmbnap",
    ['<'] = "geaigm",
    ['='] = "aggg ajgj",
    ['>'] = "aegiam",
    ['?'] = "(acaagagfdfdi dmdm",
    ['['] = "caaaaoco",
    [']'] = "aacacoao",
    ['^'] = "aecbee",
    ['_'] = "anhn",
    ['0'] = "@aahahmam",
    ['1'] = "addadm",
    ['2'] = "(adaahahfam amhm",
    ['3'] = "(acbagaggcg (cghghmamaj",
    ['4'] = "fmfaaihi",
    ['5'] = "gabaaf (afbehehmbmak",
    ['6'] = "(gbfaaaaeai @afhfhmam",
    ['7'] = "aahacm",
    ['8'] = "@bagagfbf @afhfhmam",
    ['9'] = "@aahahhah (hehihmcmbl",
    ['A'] = "ameaim bihi",
    ['B'] = "amaa (aaeahahgegag (agegigimemam",
    ['C'] = "(idhaaaamhmij",
    ['D'] = "amaa (aadaiaimdmam",
    ['E'] = "haaaamhm aggg",
    ['F'] = "haaaam aggg",
    ['G'] = "(idhaaaamimih ehih",
    ['H'] = "aaam iaim agig",
    ['I'] = "aaam",
    ['J'] = "(fafifmamaj",
    ['K'] = "aaam haah cfhm",
    ['L'] = "aaamgm",
    ['M'] = "amaafjkakm",
    ['N'] = "amaaimia",
    ['O'] = "@aaiaimam",
    ['P'] = "amaa (aaeahahgegag",
    ['Q'] = "@aaiaimam fjjn",
    ['R'] = "amaa (aaeahahgegag dghm",
    ['S'] = "(hdgaaaaghghmbmaj",
    ['T'] = "aaia eaem",
    ['U'] = "(aaaiamimiiia",
    ['V'] = "aaemia",
    ['W'] = "aadmgbjmma",
    ['X'] = "aaim iaam",
    ['Y'] = "aaegia egem",
    ['Z'] = "aaiaamim",
    ['a'] = "@aegegmam gegm",
    ['b'] = "aaam @aegegmam",
    ['c'] = "(ggfeaeamfmgk",
    ['d'] = "gagm @aegegmam",
    ['e'] = "aigi (gigeaeamfmgk",
    ['f'] = "(facacdcm aeee",
    ['g'] = "@aegegmam (gegngqbqap",
    ['h'] = "aaam (aiaegegigm",
    ['i'] = "aeam abab",
    ['j'] = "(cecocqaq cbcb",
    ['k'] = "aaam feaj chgm",
    ['l'] = "aaam",
    ['m'] = "aeam (aiaefefifm (fifekekikm",
    ['n'] = "aeam (aiaegegigm",
    ['o'] = "@aegegmam",
    ['p'] = "aeaq @aegegmam",
    ['q'] = "gegq @aegegmam",
    ['r'] = "aeam (aiaeee",
    ['s'] = "(fgeeaeaififmbmak",
    ['t'] = "(cbckcmfm aeee",
    ['u'] = "(aeaiamgmgi gegm",
    ['v'] = "aedmge",
    ['w'] = "aecmfeimke",
    ['x'] = "aegm geam",
    ['y'] = "aedm gebq",
    ['z'] = "aefeamfm",
};
static const char unknown_glyph[] = "aagagmamaa";

typedef struct point {
  double x, y;
} point;

typedef struct segments {
  point from[MAX_SEGMENTS], to[MAX_SEGMENTS];
  int count;
  double width; /* largest x */
} segments;

static void add_segment(segments *list, point from, point to) {
  if (list->count == MAX_SEGMENTS) return;
  list->from[list->count] = from;
  list->to[list->count] = to;
  list->count++;
  if (from.x > list->width) list->width = from.x;
  if (to.x > list->width) list->width = to.x;
}

static point midpoint(point a, point b) { return (point){(a.x + b.x) / 2, (a.y + b.y) / 2}; }

/* The quadratic Bezier arc from a to c pulled towards b. */
static void add_arc(segments *list, point a, point b, point c) {
  point last = a;
  for (int step = 1; step <= CURVE_STEPS; ++step) {
    double t = (double)step / CURVE_STEPS, u = 1 - t;
    point next = {u * u * a.x + 2 * u * t * b.x + t * t * c.x, u * u * a.y + 2 * u * t * b.y + t * t * c.y};
    add_segment(list, last, next);
    last = next;
  }
}

static void add_stroke(segments *list, char kind, const point *points, int count) {
  if (kind == '@') {
    for (int i = 0; i < count; ++i) {
      point before = points[(i + count - 1) % count], after = points[(i + 1) % count];
      add_arc(list, midpoint(before, points[i]), points[i], midpoint(points[i], after));
    }
  } else if (kind == '(') {
    for (int i = 1; i + 1 < count; ++i) {
      point start = i == 1 ? points[0] : midpoint(points[i - 1], points[i]);
      point end = i + 2 == count ? points[count - 1] : midpoint(points[i], points[i + 1]);
      add_arc(list, start, points[i], end);
    }
  } else {
    for (int i = 0; i + 1 < count; ++i) add_segment(list, points[i], points[i + 1]);
  }
}

static void glyph_segments(unsigned char character, segments *list) {
  list->count = 0;
  list->width = character == ' ' ? 2.5 : 0;
  const char *text = character < 128 ? glyphs[character] : NULL;
  if (!text && character == ' ') return;
  if (!text) text = unknown_glyph;
  while (*text) {
    point points[32];
    int count = 0;
    char kind = *text == '(' || *text == '@' ? *text++ : ' ';
    for (; *text && *text != ' ' && count < 32; text += 2) points[count++] = (point){text[0] - 'a', text[1] - 'a'};
    if (*text == ' ') ++text;
    add_stroke(list, kind, points, count);
  }
}

static double distance_to_segment(point p, point a, point b) {
  double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  return hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

static void blend(canvas *picture, int x, int y, canvas_color color, double alpha) {
  if (x < 0 || y < 0 || x >= picture->width || y >= picture->height || alpha <= 0) return;
  unsigned char *pixel = picture->pixels + 3 * ((size_t)y * (size_t)picture->width + (size_t)x);
  pixel[0] = (unsigned char)(pixel[0] + alpha * (color.r - pixel[0]) + 0.5);
  pixel[1] = (unsigned char)(pixel[1] + alpha * (color.g - pixel[1]) + 0.5);
  pixel[2] = (unsigned char)(pixel[2] + alpha * (color.b - pixel[2]) + 0.5);
}

/* Draws segments whose points are pixels. */
static void draw_segments(canvas *picture, const segments *list, double stroke, canvas_color color) {
  if (list->count == 0) return;
  double left = 1e9, right = -1e9, top = 1e9, bottom = -1e9;
  for (int i = 0; i < list->count; ++i) {
    left = fmin(left, fmin(list->from[i].x, list->to[i].x));
    right = fmax(right, fmax(list->from[i].x, list->to[i].x));
    top = fmin(top, fmin(list->from[i].y, list->to[i].y));
    bottom = fmax(bottom, fmax(list->from[i].y, list->to[i].y));
  }
  double margin = stroke / 2 + 1;
  for (int y = (int)floor(top - margin); y <= (int)ceil(bottom + margin); ++y) {
    for (int x = (int)floor(left - margin); x <= (int)ceil(right + margin); ++x) {
      double nearest = 1e9;
      point center = {x + 0.5, y + 0.5};
      for (int i = 0; i < list->count; ++i)
        nearest = fmin(nearest, distance_to_segment(center, list->from[i], list->to[i]));
      double alpha = stroke / 2 + 0.5 - nearest;
      blend(picture, x, y, color, alpha > 1 ? 1 : alpha);
    }
  }
}

/* Covers the pixels near a segment as far as they are near it, if no other segment of the line covered them more. */
static void cover_segment(canvas *picture, point a, point b, double stroke) {
  double margin = stroke / 2 + 1;
  int left = (int)fmax(0, floor(fmin(a.x, b.x) - margin)), top = (int)fmax(0, floor(fmin(a.y, b.y) - margin));
  int right = (int)fmin(picture->width - 1, ceil(fmax(a.x, b.x) + margin));
  int bottom = (int)fmin(picture->height - 1, ceil(fmax(a.y, b.y) + margin));
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      double part = stroke / 2 + 0.5 - distance_to_segment((point){x + 0.5, y + 0.5}, a, b);
      unsigned char covered = (unsigned char)(255 * fmin(1, fmax(0, part)));
      unsigned char *pixel = picture->coverage + (size_t)y * (size_t)picture->width + (size_t)x;
      if (covered > *pixel) *pixel = covered;
    }
  }
}

/* Draws what is covered, and clears it. */
static void draw_coverage(canvas *picture, canvas_color color) {
  for (int y = 0; y < picture->height; ++y)
    for (int x = 0; x < picture->width; ++x)
      blend(picture, x, y, color, picture->coverage[(size_t)y * (size_t)picture->width + (size_t)x] / 255.0);
  memset(picture->coverage, 0, (size_t)picture->width * (size_t)picture->height);
}

void canvas_line(canvas *picture, const double *x, const double *y, int count, double stroke, double dash,
                 canvas_color color) {
  double walked = 0;
  for (int i = 1; i < count; ++i) {
    point from = {x[i - 1], y[i - 1]}, to = {x[i], y[i]};
    double length = hypot(to.x - from.x, to.y - from.y), step = dash > 0 ? dash / 4 : length;
    for (double at = 0; at < length; at += step) {
      double end = fmin(at + step, length), phase = dash > 0 ? fmod(walked + at, 2 * dash) : 0;
      point a = {from.x + (to.x - from.x) * at / length, from.y + (to.y - from.y) * at / length};
      point b = {from.x + (to.x - from.x) * end / length, from.y + (to.y - from.y) * end / length};
      if (dash == 0 || phase < dash) cover_segment(picture, a, b, stroke);
    }
    walked += length;
  }
  draw_coverage(picture, color);
}

void canvas_disc(canvas *picture, double x, double y, double radius, canvas_color color) {
  cover_segment(picture, (point){x, y}, (point){x, y}, 2 * radius);
  draw_coverage(picture, color);
}

/* Steps over one UTF-8 character; anything but ASCII counts as one unknown. */
static unsigned char next_character(const char **text) {
  unsigned char first = (unsigned char)*(*text)++;
  if (first >= 128)
    while (((unsigned char)**text & 0xC0) == 0x80) ++*text;
  return first;
}

/* The gap between letters, in grid units: side bearings that hold for strokes of any weight. */
static double letter_gap(const canvas_font *font) { return 1.8 + 12 * font->weight * 0.9; }

double canvas_text_width(const char *text, const canvas_font *font) {
  double width = 0;
  segments list;
  while (*text) {
    glyph_segments(next_character(&text), &list);
    width += list.width + letter_gap(font);
  }
  return width > 0 ? (width - letter_gap(font)) * font->size / CAPITAL_HEIGHT : 0;
}

void canvas_text(canvas *picture, const char *text, double x, double y, double align, const canvas_font *font) {
  double unit = font->size / CAPITAL_HEIGHT;
  double along_x = cos(font->degrees * degree), along_y = -sin(font->degrees * degree);
  double pen = -align * canvas_text_width(text, font) / unit;
  segments list;
  while (*text) {
    glyph_segments(next_character(&text), &list);
    double width = list.width;
    for (int i = 0; i < list.count; ++i) {
      point *ends[2] = {&list.from[i], &list.to[i]};
      for (int end = 0; end < 2; ++end) {
        double forward = (pen + ends[end]->x) * unit, up = (CAPITAL_HEIGHT - ends[end]->y) * unit;
        ends[end]->x = x + forward * along_x + up * along_y;
        ends[end]->y = y + forward * along_y - up * along_x;
      }
    }
    draw_segments(picture, &list, font->size * font->weight, font->color);
    pen += width + letter_gap(font);
  }
}

void canvas_fill(canvas *picture, int x, int y, int width, int height, canvas_color color) {
  for (int row = y; row < y + height; ++row)
    for (int column = x; column < x + width; ++column) blend(picture, column, row, color, 1);
}

void canvas_hatch(canvas *picture, int x, int y, int width, int height, canvas_color ground, canvas_color stripe) {
  canvas_fill(picture, x, y, width, height, ground);
  for (int row = y; row < y + height; ++row) {
    for (int column = x; column < x + width; ++column) {
      double phase = fmod(column + row, 8) - 4; /* distance to the stripe's middle, along x */
      blend(picture, column, row, stripe, fmin(1, fmax(0, 1.6 - fabs(phase))));
    }
  }
}

static unsigned char srgb_byte(double linear) {
  linear = linear < 0 ? 0 : linear > 1 ? 1 : linear;
  double coded = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
  return (unsigned char)(coded * 255 + 0.5);
}

static canvas_color oklab_color(double lightness, double a, double b) {
  double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return (canvas_color){srgb_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                        srgb_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                        srgb_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

canvas_color canvas_scale_color(double part) {
  part = part < 0 ? 0 : part > 1 ? 1 : part;
  double hue = (312 - 206 * part) * 3.14159265358979323846 / 180;
  double chroma = 0.105 + 0.06 * part;
  return oklab_color(0.25 + 0.67 * part, chroma * cos(hue), chroma * sin(hue));
}

int canvas_create(canvas *picture, int width, int height) {
  size_t size = 3 * (size_t)width * (size_t)height;
  *picture = (canvas){malloc(size), calloc(size / 3, 1), width, height};
  if (!picture->pixels || !picture->coverage) {
    canvas_destroy(picture);
    return -1;
  }
  memset(picture->pixels, 255, size);
  return 0;
}

void canvas_destroy(canvas *picture) {
  free(picture->pixels);
  free(picture->coverage);
  picture->pixels = picture->coverage = NULL;
}

static const char *write_rows(FILE *file, const canvas *picture, png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png))) return "libpng failed";
  png_init_io(png, file);
  png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height, 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int y = 0; y < picture->height; ++y)
    png_write_row(png, picture->pixels + 3 * (size_t)y * (size_t)picture->width);
  png_write_end(png, info);
  return NULL;
}

const char *canvas_write_png(const canvas *picture, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return "cannot be opened for writing";
  const char *error = "libpng has no memory";
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (info) error = write_rows(file, picture, png, info);
  if (png) png_destroy_write_struct(&png, info ? &info : NULL);
  if (fclose(file) != 0 && !error) error = "cannot be written";
  return error;
}
