/* worked_examples: small calls whose results can be told by hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "worked_examples.h"

#include <fovea/fovea.h>
#include <math.h>
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

int worked_examples_run(void) {
  failures = 0;
  softmax_one_length_per_sequence();
  softmax_one_length_per_query();
  sdpa_equal_keys();
  sdpa_nothing_to_attend();
  sdpa_refuses_bad_length();
  return failures;
}
