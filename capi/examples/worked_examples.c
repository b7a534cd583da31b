/* worked_examples: small calls whose results can be told by hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "worked_examples.h"

#include <fovea/fovea.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void report(int ok, const char *what) {
  printf("  %-6s  %s\n", ok ? "ok" : "FAILED", what);
  failures += !ok;
}

/* True if the call succeeded; otherwise prints why. */
static int succeeded(fovea_status status) {
  if (status == FOVEA_OK) return 1;
  printf("  %s: %s\n", fovea_status_name(status), fovea_last_error());
  return 0;
}

static const float scores[2][2][4] = {{{0.3f, -1.2f, 2.0f, 0.7f}, {1.1f, 0.0f, -0.4f, 0.9f}},
                                      {{-0.8f, 0.5f, 0.2f, 1.6f}, {0.1f, 2.2f, -1.0f, 0.6f}}};

/* out[b][q] must hold the softmax of the first length scores, each to 1e-6, and then exact zeros. */
static int row_is_softmax(const float *x, const float *out, int length) {
  double sum = 0;
  for (int k = 0; k < length; ++k) sum += exp(x[k]);
  for (int k = 0; k < 4; ++k) {
    if (k < length && !(fabs(out[k] - exp(x[k]) / sum) <= 1e-6)) return 0;
    if (k >= length && out[k] != 0) return 0;
  }
  return 1;
}

static int softmax_with(const fovea_tensor *valid_lens, float out[2][2][4]) {
  const int64_t shape[] = {2, 2, 4};
  fovea_tensor x_view = fovea_tensor_contiguous((void *)scores, FOVEA_F32, 3, shape);
  fovea_tensor out_view = fovea_tensor_contiguous(out, FOVEA_F32, 3, shape);
  return succeeded(fovea_masked_softmax(NULL, &x_view, valid_lens, &out_view, NULL));
}

static void softmax_one_length_per_sequence(void) {
  int32_t lengths[] = {2, 3};
  const int64_t shape[] = {2};
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, shape);
  float out[2][2][4];
  int ok = softmax_with(&valid_lens, out);
  for (int b = 0; b < 2; ++b)
    for (int q = 0; q < 2; ++q) ok = ok && row_is_softmax(scores[b][q], out[b][q], lengths[b]);
  report(ok, "masked_softmax, valid_lens [2,3]: the last 2 (then 1) keys are exactly 0, the others a softmax");
}

static void softmax_one_length_per_query(void) {
  int64_t lengths[2][2] = {{1, 3}, {2, 4}};
  const int64_t shape[] = {2, 2};
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I64, 2, shape);
  const float first[4] = {1, 0, 0, 0};
  float out[2][2][4];
  int ok = softmax_with(&valid_lens, out) && memcmp(out[0][0], first, sizeof first) == 0;
  for (int b = 0; b < 2; ++b)
    for (int q = 0; q < 2; ++q) ok = ok && row_is_softmax(scores[b][q], out[b][q], (int)lengths[b][q]);
  for (int k = 0; k < 4; ++k) ok = ok && out[1][1][k] > 0;
  report(ok, "masked_softmax, valid_lens [[1,3],[2,4]]: row (0,0) is exactly [1,0,0,0], row (1,1) has no zero");
}

/* Attention over 10 equal keys whose values are 0..39 as [10,4], the same for both sequences: stride 0 says so. */
static fovea_status attend_equal_keys(int32_t first_length, int32_t second_length, float out[2][4]) {
  float query[2][1][2] = {{{0.5f, -1.3f}}, {{2.1f, 0.4f}}}, key[10][2], value[10][4];
  for (int i = 0; i < 20; ++i) key[i / 2][i % 2] = 1;
  for (int i = 0; i < 40; ++i) value[i / 4][i % 4] = (float)i;
  int32_t lengths[2] = {first_length, second_length};
  const int64_t query_shape[] = {2, 1, 2}, key_shape[] = {2, 10, 2}, value_shape[] = {2, 10, 4};
  const int64_t out_shape[] = {2, 1, 4}, lengths_shape[] = {2};
  fovea_tensor query_view = fovea_tensor_contiguous(query, FOVEA_F32, 3, query_shape);
  fovea_tensor key_view = fovea_tensor_contiguous(key, FOVEA_F32, 3, key_shape);
  fovea_tensor value_view = fovea_tensor_contiguous(value, FOVEA_F32, 3, value_shape);
  fovea_tensor out_view = fovea_tensor_contiguous(out, FOVEA_F32, 3, out_shape);
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, lengths_shape);
  key_view.strides[0] = value_view.strides[0] = 0;
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens};
  return fovea_sdpa(NULL, &query_view, &key_view, &value_view, &out_view, &options);
}

static void sdpa_equal_keys(void) {
  float out[2][4];
  int ok = succeeded(attend_equal_keys(2, 6, out));
  for (int i = 0; i < 4; ++i)
    ok = ok && fabsf(out[0][i] - (2.0f + (float)i)) <= 1e-5f && fabsf(out[1][i] - (10.0f + (float)i)) <= 1e-5f;
  report(ok, "sdpa, equal keys, valid_lens [2,6]: the mean of the valid values, [[2,3,4,5]] and [[10,11,12,13]]");
}

static void sdpa_nothing_to_attend(void) {
  float out[2][4];
  int ok = succeeded(attend_equal_keys(0, 1, out));
  for (int i = 0; i < 4; ++i) ok = ok && out[0][i] == 0 && out[1][i] == (float)i;
  report(ok, "sdpa, valid_lens [0,1]: a sequence of length 0 gives zeros, not NaN; of length 1, the first value");
}

static void sdpa_refuses_bad_length(void) {
  float out[2][4], before[2][4];
  memset(out, 0x7f, sizeof out);
  memcpy(before, out, sizeof out);
  fovea_status status = attend_equal_keys(2, 11, out);
  int ok = status == FOVEA_BAD_VALUE && memcmp(out, before, sizeof out) == 0;
  report(ok, "sdpa, valid_lens [2,11] for 10 keys: refused before anything is written, with this message:");
  printf("          %s: %s\n", fovea_status_name(status), fovea_last_error());
}

/* ---- additive attention, kernel regression, positional encoding ---- */

/* Any numbers in (-1, 1): Marsaglia's xorshift32 (2003). */
static void fill(float *values, int count) {
  static uint32_t state = 2463534242u;
  for (int i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    values[i] = (float)(state >> 8) / 8388608.0f - 1;
  }
}

static fovea_tensor vector(const float *data, int64_t size) {
  return fovea_tensor_contiguous(data, FOVEA_F32, 1, &size);
}

static fovea_tensor matrix(const float *data, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  return fovea_tensor_contiguous(data, FOVEA_F32, 2, shape);
}

static fovea_tensor batch(const float *data, int64_t entries, int64_t rows, int64_t columns) {
  const int64_t shape[] = {entries, rows, columns};
  return fovea_tensor_contiguous(data, FOVEA_F32, 3, shape);
}

static void additive_equal_keys(void) {
  enum { QUERY_DIM = 20, KEY_DIM = 2, UNITS = 8, KEYS = 10 };
  float query[2 * QUERY_DIM], key[KEYS * KEY_DIM], value[KEYS * 4], out[2 * 4];
  float query_weight[UNITS * QUERY_DIM], key_weight[UNITS * KEY_DIM], score_vector[UNITS];
  fill(query, 2 * QUERY_DIM);
  fill(query_weight, UNITS * QUERY_DIM);
  fill(key_weight, UNITS * KEY_DIM);
  fill(score_vector, UNITS);
  for (int i = 0; i < KEYS * KEY_DIM; ++i) key[i] = 1;
  for (int i = 0; i < KEYS * 4; ++i) value[i] = (float)i;
  int32_t lengths[] = {2, 6};
  const int64_t lengths_shape[] = {2};
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, lengths_shape);
  fovea_tensor q = batch(query, 2, 1, QUERY_DIM), k = batch(key, 2, KEYS, KEY_DIM), v = batch(value, 2, KEYS, 4);
  fovea_tensor o = batch(out, 2, 1, 4);
  k.strides[0] = v.strides[0] = 0;
  fovea_tensor wq = matrix(query_weight, UNITS, QUERY_DIM), wk = matrix(key_weight, UNITS, KEY_DIM);
  fovea_tensor wv = vector(score_vector, UNITS);
  fovea_score score = {.struct_size = sizeof score, .kind = FOVEA_SCORE_ADDITIVE, .score_vector = &wv};
  score.query_weight = &wq;
  score.key_weight = &wk;
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens};
  int ok = succeeded(fovea_attention(NULL, &score, &q, &k, &v, &o, &options));
  for (int i = 0; i < 4; ++i)
    ok = ok && fabsf(out[i] - (2.0f + (float)i)) <= 1e-5f && fabsf(out[4 + i] - (10.0f + (float)i)) <= 1e-5f;
  report(ok, "additive, any parameters, equal keys, valid_lens [2,6]: [[2,3,4,5]] and [[10,11,12,13]] again");
}

static void concat_is_additive(void) {
  enum { QUERIES = 3, KEYS = 7, QUERY_DIM = 5, KEY_DIM = 4, BOTH = QUERY_DIM + KEY_DIM, UNITS = 6 };
  float query[QUERIES * QUERY_DIM], key[KEYS * KEY_DIM], value[KEYS], weight[UNITS * BOTH], score_vector[UNITS];
  float concat_out[QUERIES], additive_out[QUERIES];
  fill(query, QUERIES * QUERY_DIM);
  fill(key, KEYS * KEY_DIM);
  fill(value, KEYS);
  fill(weight, UNITS * BOTH);
  fill(score_vector, UNITS);
  fovea_tensor q = matrix(query, QUERIES, QUERY_DIM), k = matrix(key, KEYS, KEY_DIM), v = matrix(value, KEYS, 1);
  fovea_tensor w = matrix(weight, UNITS, BOTH), wv = vector(score_vector, UNITS);
  fovea_tensor wq = matrix(weight, UNITS, QUERY_DIM), wk = matrix(weight + QUERY_DIM, UNITS, KEY_DIM);
  wq.strides[0] = wk.strides[0] = BOTH; /* the left and the right part of the same matrix */
  fovea_score concat = {.struct_size = sizeof concat, .kind = FOVEA_SCORE_CONCAT, .weight = &w, .score_vector = &wv};
  fovea_score additive = {.struct_size = sizeof additive, .kind = FOVEA_SCORE_ADDITIVE, .score_vector = &wv};
  additive.query_weight = &wq;
  additive.key_weight = &wk;
  fovea_tensor concat_view = matrix(concat_out, QUERIES, 1), additive_view = matrix(additive_out, QUERIES, 1);
  int ok = succeeded(fovea_attention(NULL, &concat, &q, &k, &v, &concat_view, NULL)) &&
           succeeded(fovea_attention(NULL, &additive, &q, &k, &v, &additive_view, NULL));
  for (int i = 0; i < QUERIES; ++i) ok = ok && fabsf(concat_out[i] - additive_out[i]) <= 1e-6f;
  report(ok, "concat with W = [Wq Wk] and no bias: what additive gives");
}

/* out at the inputs themselves */
static int regress(float sigma, const float *x, const float *y, int count, float *out) {
  fovea_tensor inputs = vector(x, count), targets = vector(y, count), out_view = vector(out, count);
  fovea_kernel_regression_options options = {.struct_size = sizeof options, .sigma = sigma};
  return succeeded(fovea_kernel_regression(NULL, &inputs, &inputs, &targets, &out_view, &options));
}

static void regression_widths(void) {
  enum { COUNT = 50 };
  float x[COUNT], y[COUNT], wide[COUNT], narrow[COUNT];
  double mean = 0;
  fill(y, COUNT); /* the noise */
  for (int i = 0; i < COUNT; ++i) {
    x[i] = (float)i / 10;
    y[i] = 2 * sinf(x[i]) + powf(x[i], 0.8f) + 0.5f * y[i];
    mean += y[i] / COUNT;
  }
  int ok = regress(1e6f, x, y, COUNT, wide) && regress(0.01f, x, y, COUNT, narrow);
  for (int i = 0; i < COUNT; ++i) ok = ok && fabs(wide[i] - mean) <= 1e-5 && fabsf(narrow[i] - y[i]) <= 1e-6f;
  report(ok, "kernel regression, y = 2 sin x + x^0.8 + noise: a wide kernel gives the mean of y, a narrow one y");
}

/* How often a column of the encoding changes its sign. */
static int sign_changes(const float *encoding, int steps, int dim, int column) {
  int count = 0;
  for (int i = 1; i < steps; ++i) count += (encoding[i * dim + column] < 0) != (encoding[(i - 1) * dim + column] < 0);
  return count;
}

static void encoding_columns(void) {
  enum { STEPS = 60, DIM = 32 };
  float encoding[STEPS * DIM] = {0};
  fovea_tensor view = matrix(encoding, STEPS, DIM);
  int ok = succeeded(fovea_positional_encoding(NULL, &view, NULL));
  for (int i = 0; i < STEPS; ++i) {
    for (int column = 6; column < 10; ++column) {
      double angle = i / pow(10000, (double)(column / 2 * 2) / DIM);
      ok = ok && fabs(encoding[i * DIM + column] - (column % 2 ? cos(angle) : sin(angle))) <= 1e-6;
    }
  }
  ok = ok && sign_changes(encoding, STEPS, DIM, 6) > sign_changes(encoding, STEPS, DIM, 8) &&
       sign_changes(encoding, STEPS, DIM, 7) > sign_changes(encoding, STEPS, DIM, 9);
  report(ok, "positional encoding, d = 32: columns 6 to 9 are two sine and cosine pairs, the later one slower");
}

int worked_examples_run(void) {
  failures = 0;
  softmax_one_length_per_sequence();
  softmax_one_length_per_query();
  sdpa_equal_keys();
  sdpa_nothing_to_attend();
  sdpa_refuses_bad_length();
  additive_equal_keys();
  concat_is_additive();
  regression_widths();
  encoding_columns();
  return failures;
}
