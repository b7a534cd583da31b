/* textbook: the pictures that explain attention in textbooks, computed by fovea.
 *
 *     textbook OUT_DIRECTORY
 *
 * Additive attention with valid lengths, kernel regression with a wide and a narrow kernel and with one that learns its
 * width, and the sinusoidal positional encoding. For each, OUT_DIRECTORY gets the numbers as .csv and a picture as .png.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* mkdir */
#include <errno.h>
#include <fovea/fovea.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "chart.h"
#include "learned_width.h"
#include "textbook_shared.h"

/* ---- random numbers ---- */

/* SplitMix64 (Steele, Lea and Flood 2014): the same numbers everywhere. In (0, 1). */
static double uniform(void) {
  static uint64_t state = 1;
  uint64_t bits = state += 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return ((double)((bits ^ (bits >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

/* Box and Muller 1958 */
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(2 * 3.14159265358979323846 * uniform()); }

static void fill_normal(float *values, int count, double deviation) {
  for (int i = 0; i < count; ++i) values[i] = (float)(deviation * normal());
}

/* ---- additive attention ---- */

enum { BATCH = 2, KEYS = 10 };

static int draw_additive_weights(const float *weights, const int32_t *lengths) {
  const int valid[BATCH] = {lengths[0], lengths[1]};
  const chart_panel panel = {.width = 560,
                             .height = 112,
                             .x = {.label = "keys"},
                             .y = {.label = "queries"},
                             .cells = {weights, BATCH, KEYS, 0, 0.5, "weight", valid, 1}};
  return draw("additive_attention", "Additive attention with valid lengths",
              "Two sequences with 2 and 6 keys, padded to 10. Hatched: padding, which gets no weight.", &panel, 1);
}

/* All keys are alike, so whatever the parameters, a query spreads its attention evenly over its valid keys: the output
 * is the mean of their values. */
static int additive_attention(void) {
  enum { QUERY_DIM = 20, KEY_DIM = 2, VALUE_DIM = 4, HIDDEN = 8 };
  float query[BATCH * QUERY_DIM], key[BATCH * KEYS * KEY_DIM], value[KEYS * VALUE_DIM];
  float query_weight[HIDDEN * QUERY_DIM], key_weight[HIDDEN * KEY_DIM], score_vector[HIDDEN];
  float out[BATCH * VALUE_DIM], weights[BATCH * KEYS];
  static const int32_t lengths[BATCH] = {2, 6};
  fill_normal(query, BATCH * QUERY_DIM, 1);
  fill_normal(query_weight, HIDDEN * QUERY_DIM, sqrt(1.0 / QUERY_DIM));
  fill_normal(key_weight, HIDDEN * KEY_DIM, sqrt(1.0 / KEY_DIM));
  fill_normal(score_vector, HIDDEN, sqrt(1.0 / HIDDEN));
  for (int i = 0; i < BATCH * KEYS * KEY_DIM; ++i) key[i] = 1;
  for (int i = 0; i < KEYS * VALUE_DIM; ++i) value[i] = (float)i;

  const int64_t entries = BATCH;
  fovea_tensor q = batch(query, BATCH, 1, QUERY_DIM), k = batch(key, BATCH, KEYS, KEY_DIM);
  fovea_tensor v = batch(value, BATCH, KEYS, VALUE_DIM), o = batch(out, BATCH, 1, VALUE_DIM);
  v.strides[0] = 0; /* both batch entries have the same values */
  fovea_tensor wq = matrix(query_weight, HIDDEN, QUERY_DIM), wk = matrix(key_weight, HIDDEN, KEY_DIM);
  fovea_tensor sv = vector(score_vector, HIDDEN), w = batch(weights, BATCH, 1, KEYS);
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, &entries);
  fovea_score score = {.struct_size = sizeof score,
                       .kind = FOVEA_SCORE_ADDITIVE,
                       .query_weight = &wq,
                       .key_weight = &wk,
                       .score_vector = &sv};
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens, .weights = &w};
  if (succeeded("fovea_attention", fovea_attention(NULL, &score, &q, &k, &v, &o, &options))) return -1;

  int even = 1;
  for (int i = 0; i < BATCH * VALUE_DIM; ++i) {
    double mean = i % VALUE_DIM + VALUE_DIM * (lengths[i / VALUE_DIM] - 1) / 2.0;
    even = even && fabs(out[i] - mean) <= 1e-5;
  }
  printf("  %-6s  additive attention with valid lengths 2 and 6: each output is the mean of its valid values\n",
         even ? "ok" : "FAILED");
  if (write_table("additive_attention", "weights; rows: queries, columns: keys", weights, BATCH, KEYS) ||
      draw_additive_weights(weights, lengths))
    return -1;
  return even ? 0 : -1;
}

/* ---- kernel regression ---- */

static double true_function(double x) { return 2 * sin(x) + pow(x, 0.8); }

static noisy_curve curve;
static float wide[QUERIES], narrow[QUERIES];
static float wide_weights[QUERIES * TRAINING], narrow_weights[QUERIES * TRAINING];

static int regress(float sigma, float *out, float *weights) {
  fovea_tensor q = vector(curve.queries, QUERIES), x = vector(curve.inputs, TRAINING);
  fovea_tensor y = vector(curve.targets, TRAINING), o = vector(out, QUERIES), w = matrix(weights, QUERIES, TRAINING);
  fovea_kernel_regression_options options = {.struct_size = sizeof options, .sigma = sigma, .weights = &w};
  return succeeded("fovea_kernel_regression", fovea_kernel_regression(NULL, &q, &x, &y, &o, &options));
}

static int write_regression(void) {
  float points[TRAINING * 2], lines[QUERIES * 4];
  for (int i = 0; i < TRAINING; ++i) {
    points[2 * i] = curve.inputs[i];
    points[2 * i + 1] = curve.targets[i];
  }
  for (int i = 0; i < QUERIES; ++i) {
    const float row[] = {curve.queries[i], curve.truth[i], wide[i], narrow[i]};
    memcpy(lines + 4 * i, row, sizeof row);
  }
  return write_table("kernel_regression_data", "x, y", points, TRAINING, 2) ||
                 write_table("kernel_regression_lines", "x, truth, sigma 1, sigma 0.2", lines, QUERIES, 4) ||
                 write_table("kernel_regression_weights_wide", "sigma 1; rows: queries, columns: training inputs",
                             wide_weights, QUERIES, TRAINING) ||
                 write_table("kernel_regression_weights_narrow", "sigma 0.2; rows: queries, columns: training inputs",
                             narrow_weights, QUERIES, TRAINING)
             ? -1
             : 0;
}

static chart_panel weights_panel(const char *title, const float *weights, double scale_end) {
  return (chart_panel){.title = title,
                       .width = 300,
                       .height = 400,
                       .x = {.label = "training input, sorted"},
                       .y = {.label = "query, sorted"},
                       .cells = {weights, QUERIES, TRAINING, 0, scale_end, "weight", NULL, 0}};
}

static int draw_regression(void) {
  const chart_series series[] = {{"noisy data", curve.inputs, curve.targets, TRAINING, CHART_POINTS, gray},
                                 {"truth", curve.queries, curve.truth, QUERIES, CHART_DASHES, green},
                                 {"σ = 1", curve.queries, wide, QUERIES, CHART_LINE, orange},
                                 {"σ = 0.2", curve.queries, narrow, QUERIES, CHART_LINE, blue}};
  const chart_panel panels[] = {{"Prediction", 520, 400, {"x", 0, 5}, {"y", -0.5, 4.5}, series, 4, {0}},
                                weights_panel("Weights, σ = 1", wide_weights, 0.1),
                                weights_panel("Weights, σ = 0.2", narrow_weights, 0.45)};
  return draw("kernel_regression", "Kernel regression (Nadaraya–Watson): attention with a Gaussian score",
              "50 noisy points of y = 2 sin x + x^0.8 (the truth). A wide kernel averages away the curve, a narrow one "
              "follows it.",
              panels, 3);
}

static int kernel_regression(void) {
  for (int i = 0; i < TRAINING; ++i) {
    curve.inputs[i] = (float)(5 * (i + uniform()) / TRAINING);
    curve.targets[i] = (float)(true_function(curve.inputs[i]) + 0.5 * normal());
  }
  for (int i = 0; i < QUERIES; ++i) {
    curve.queries[i] = (float)(5.0 * i / (QUERIES - 1));
    curve.truth[i] = (float)true_function(curve.queries[i]);
  }
  if (regress(1, wide, wide_weights) || regress(0.2f, narrow, narrow_weights)) return -1;
  double wide_error = sqrt(mean_square_error(wide, curve.truth, QUERIES));
  double narrow_error = sqrt(mean_square_error(narrow, curve.truth, QUERIES));
  int better = narrow_error < wide_error && narrow_error < 0.5;
  printf("  %-6s  kernel regression: off by %.2f with sigma 1 and by %.2f with sigma 0.2, from data off by 0.5\n",
         better ? "ok" : "FAILED", wide_error, narrow_error);
  if (write_regression() || draw_regression() || learned_width(&curve, 1, 0.2f)) return -1;
  return better ? 0 : -1;
}

/* ---- positional encoding ---- */

enum { POSITIONS = 60, DIM = 32 };

static float encoding[POSITIONS * DIM];

/* The largest difference from the formula in float64. */
static double encoding_error(void) {
  double largest = 0;
  for (int i = 0; i < POSITIONS * DIM; ++i) {
    double angle = (i / DIM) / pow(10000, (double)(i % DIM / 2 * 2) / DIM);
    double error = fabs(encoding[i] - (i % 2 ? cos(angle) : sin(angle)));
    if (!(error <= largest)) largest = error; /* a NaN gets in, too */
  }
  return largest;
}

static int draw_encoding_columns(void) {
  enum { FIRST = 6, SHOWN = 4 };
  static const char *const names[SHOWN] = {"column 6", "column 7", "column 8", "column 9"};
  const picture_color colors[SHOWN] = {blue, orange, green, violet};
  float position[POSITIONS], columns[SHOWN][POSITIONS];
  chart_series series[SHOWN];
  for (int c = 0; c < SHOWN; ++c) {
    for (int i = 0; i < POSITIONS; ++i) {
      position[i] = (float)i;
      columns[c][i] = encoding[i * DIM + FIRST + c];
    }
    series[c] = (chart_series){names[c], position, columns[c], POSITIONS, c % 2 ? CHART_DASHES : CHART_LINE, colors[c]};
  }
  const chart_panel panel = {NULL, 620, 300, {"position", 0, 60}, {"encoding", -1.1, 1.1}, series, SHOWN, {0}};
  return draw("positional_encoding_columns", "Sinusoidal positional encoding, d = 32",
              "Columns come in pairs of sine and cosine; each pair is slower than the one before.", &panel, 1);
}

static int draw_encoding(void) {
  const chart_panel panel = {.width = 320,
                             .height = 600,
                             .x = {.label = "column"},
                             .y = {.label = "position"},
                             .cells = {encoding, POSITIONS, DIM, -1, 1, "encoding", NULL, 0}};
  return draw("positional_encoding", "Sinusoidal positional encoding, d = 32",
              "Columns to the right change more slowly with the position.", &panel, 1);
}

static int positional_encoding(void) {
  fovea_tensor out = matrix(encoding, POSITIONS, DIM);
  if (succeeded("fovea_positional_encoding", fovea_positional_encoding(NULL, &out, NULL))) return -1;
  int near = encoding_error() <= 1e-6;
  printf("  %-6s  positional encoding: within 1e-6 of float64\n", near ? "ok" : "FAILED");
  if (write_table("positional_encoding", "rows: positions, columns: features", encoding, POSITIONS, DIM) ||
      draw_encoding_columns() || draw_encoding())
    return -1;
  return near ? 0 : -1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s OUT_DIRECTORY\n", argv[0]);
    return 2;
  }
  out_directory = argv[1];
  if (mkdir(out_directory, 0777) && errno != EEXIST) {
    fprintf(stderr, "%s: %s\n", out_directory, strerror(errno));
    return 1;
  }
  printf("\nTextbook pictures\n\n");
  int failed = additive_attention() | kernel_regression() | positional_encoding();
  return failed ? 1 : 0;
}
