/* Every function about score functions, called from strict C99, with results that can be told by hand. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* A query of 2 features asks three keys of 1, in 2 hidden units, to both of which the query adds 1. */
static const float query[2] = {1, 2}, key[3] = {0, 1, -1}, value[3] = {1, 2, 4};
static const float query_weight[4] = {1, 0, 0, 0.5f}, key_weight[2] = {-1, 1}, score_vector[2] = {1, 2};
static fovea_tensor query_tensor, key_tensor, value_tensor;
static fovea_tensor query_weight_tensor, key_weight_tensor, score_vector_tensor;

static fovea_tensor vector(const float *data, int64_t size) {
  return fovea_tensor_contiguous(data, FOVEA_F32, 1, &size);
}

static fovea_tensor matrix(const float *data, int64_t rows, int64_t columns) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = columns;
  return fovea_tensor_contiguous(data, FOVEA_F32, 2, shape);
}

static void make_tensors(void) {
  query_tensor = matrix(query, 1, 2);
  key_tensor = matrix(key, 3, 1);
  value_tensor = matrix(value, 3, 1);
  query_weight_tensor = matrix(query_weight, 2, 2);
  key_weight_tensor = matrix(key_weight, 2, 1);
  score_vector_tensor = vector(score_vector, 2);
}

static fovea_score score_of(int32_t kind) {
  fovea_score score;
  memset(&score, 0, sizeof score);
  score.struct_size = sizeof score;
  score.kind = kind;
  return score;
}

static fovea_score additive(void) {
  fovea_score score = score_of(FOVEA_SCORE_ADDITIVE);
  score.query_weight = &query_weight_tensor;
  score.key_weight = &key_weight_tensor;
  score.score_vector = &score_vector_tensor;
  return score;
}

static float attend(const fovea_score *score, const fovea_tensor *q) {
  float out = -1;
  const fovea_tensor o = matrix(&out, 1, 1);
  CHECK(fovea_attention(NULL, score, q, &key_tensor, &value_tensor, &o, NULL) == FOVEA_OK);
  return out;
}

/* The mean of the values 1, 2 and 4 when their keys have these scores. */
static double mean(double a, double b, double c) {
  return (exp(a) + 2 * exp(b) + 4 * exp(c)) / (exp(a) + exp(b) + exp(c));
}

static int refused(fovea_status status, fovea_status expected, const char *argument) {
  return status == expected && strstr(fovea_last_error(), argument) != NULL;
}

static void test_attention(void) {
  const float concat_weight[6] = {1, 0, -1, 0, 0.5f, 1}, bias[2] = {-1, -1}, bilinear_weight[2] = {3, -1}, one = 1;
  const fovea_tensor cw = matrix(concat_weight, 2, 3), cb = vector(bias, 2), bw = matrix(bilinear_weight, 2, 1);
  const fovea_tensor at_one = matrix(&one, 1, 1);
  fovea_score score = additive(), concat = score_of(FOVEA_SCORE_CONCAT), bilinear = score_of(FOVEA_SCORE_BILINEAR);
  fovea_score gaussian = score_of(FOVEA_SCORE_GAUSSIAN);
  float dot = -1;
  const fovea_tensor o = matrix(&dot, 1, 1);
  concat.weight = &cw;
  concat.bias = &cb;
  concat.score_vector = &score_vector_tensor;
  bilinear.weight = &bw;
  gaussian.sigma = 2;
  CHECK(near(attend(&score, &query_tensor), mean(3 * tanh(1.0), 2 * tanh(2.0), tanh(2.0))));
  CHECK(near(attend(&concat, &query_tensor), mean(0, tanh(1.0), -tanh(1.0))));
  CHECK(near(attend(&bilinear, &query_tensor), mean(0, 1, -1)));
  CHECK(near(attend(&gaussian, &at_one), mean(-1.0 / 8, 0, -4.0 / 8)));
  CHECK(near(attend(NULL, &at_one), mean(0, 1, -1)));
  CHECK(fovea_sdpa(NULL, &at_one, &key_tensor, &value_tensor, &o, NULL) == FOVEA_OK);
  CHECK(attend(NULL, &at_one) == dot);
  score.key_weight = &query_weight_tensor;
  CHECK(refused(fovea_attention(NULL, &score, &query_tensor, &key_tensor, &value_tensor, &o, NULL), FOVEA_BAD_SHAPE,
                "score.key_weight"));
}

static fovea_attention_buffers buffers_for(float *out) {
  fovea_attention_buffers buffers;
  memset(&buffers, 0, sizeof buffers);
  buffers.struct_size = sizeof buffers;
  buffers.query = query;
  buffers.value = value;
  buffers.out = out;
  return buffers;
}

static fovea_status run(const fovea_plan *plan, const fovea_attention_buffers *buffers) {
  const size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size + 1);
  const fovea_status status = fovea_attention_run(plan, buffers, workspace, size);
  free(workspace);
  return status;
}

static void test_plan(void) {
  const fovea_score score = additive();
  float out = -1;
  const fovea_tensor o = matrix(&out, 1, 1);
  fovea_attention_buffers buffers = buffers_for(&out);
  fovea_plan *plan = NULL;
  CHECK(fovea_attention_plan_create(NULL, &score, &query_tensor, &key_tensor, &value_tensor, &o, NULL, &plan) ==
        FOVEA_OK);
  CHECK(refused(run(plan, &buffers), FOVEA_NULL_POINTER, "buffers.key"));
  buffers.key = key;
  buffers.query_weight = query_weight;
  buffers.key_weight = key_weight;
  buffers.score_vector = score_vector;
  CHECK(out == -1 && run(plan, &buffers) == FOVEA_OK);
  CHECK(out == attend(&score, &query_tensor));
  fovea_plan_destroy(plan);
}

static fovea_prepared_keys *prepare(void) {
  const fovea_score score = additive();
  const fovea_prepared_keys_sizes sizes = {sizeof sizes, 1, 1, 4, 2, 1, FOVEA_F32, 0};
  fovea_prepared_keys *keys = NULL;
  CHECK(fovea_prepared_keys_create(NULL, &score, &sizes, &keys) == FOVEA_OK);
  CHECK(fovea_prepared_keys_length(keys) == 0 && fovea_prepared_keys_size(keys) >= 4 * 2 * sizeof(float));
  CHECK(fovea_prepared_keys_append(NULL, keys, &key_tensor) == FOVEA_OK);
  CHECK(fovea_prepared_keys_length(keys) == 3);
  return keys;
}

static void test_prepared_keys(void) {
  const fovea_score score = additive();
  const fovea_tensor others = matrix(key + 1, 2, 1), one_value = matrix(value, 1, 1);
  float out = -1;
  const fovea_tensor o = matrix(&out, 1, 1);
  fovea_prepared_keys *keys = prepare();
  CHECK(fovea_attention_prepared(NULL, &query_tensor, keys, &value_tensor, &o, NULL) == FOVEA_OK);
  CHECK(out == attend(&score, &query_tensor));
  CHECK(refused(fovea_prepared_keys_append(NULL, keys, &others), FOVEA_BAD_SHAPE, "key has"));
  CHECK(refused(fovea_prepared_keys_truncate(keys, 4), FOVEA_BAD_VALUE, "length"));
  CHECK(fovea_prepared_keys_truncate(keys, 1) == FOVEA_OK && fovea_prepared_keys_length(keys) == 1);
  CHECK(refused(fovea_attention_prepared(NULL, &query_tensor, keys, &value_tensor, &o, NULL), FOVEA_BAD_SHAPE,
                "value has"));
  CHECK(fovea_attention_prepared(NULL, &query_tensor, keys, &one_value, &o, NULL) == FOVEA_OK);
  CHECK(out == 1);
  CHECK(fovea_prepared_keys_append(NULL, keys, &others) == FOVEA_OK && fovea_prepared_keys_length(keys) == 3);
  CHECK(fovea_attention_prepared(NULL, &query_tensor, keys, &value_tensor, &o, NULL) == FOVEA_OK);
  CHECK(out == attend(&score, &query_tensor));
  fovea_prepared_keys_destroy(keys);
  fovea_prepared_keys_destroy(NULL);
}

static void test_prepared_plan(void) {
  const fovea_score score = additive();
  const fovea_tensor last = matrix(key + 2, 1, 1);
  float out = -1;
  const fovea_tensor o = matrix(&out, 1, 1);
  const fovea_attention_buffers buffers = buffers_for(&out);
  fovea_prepared_keys *keys = prepare();
  fovea_plan *plan = NULL;
  CHECK(fovea_attention_prepared_plan_create(NULL, &query_tensor, keys, &value_tensor, &o, NULL, &plan) == FOVEA_OK);
  CHECK(run(plan, &buffers) == FOVEA_OK);
  CHECK(out == attend(&score, &query_tensor));
  out = -1;
  CHECK(fovea_prepared_keys_truncate(keys, 2) == FOVEA_OK);
  CHECK(refused(run(plan, &buffers), FOVEA_BAD_SHAPE, "keys hold") && out == -1);
  CHECK(fovea_prepared_keys_append(NULL, keys, &last) == FOVEA_OK);
  CHECK(run(plan, &buffers) == FOVEA_OK);
  CHECK(out == attend(&score, &query_tensor));
  fovea_plan_destroy(plan);
  fovea_prepared_keys_destroy(keys);
}

static void test_kernel_regression(void) {
  const float inputs[2] = {0, 2}, targets[2] = {3, 5}, queries[2] = {1, 4};
  const fovea_tensor tq = vector(queries, 2), ti = vector(inputs, 2), tt = vector(targets, 2);
  const fovea_tensor one_input = vector(inputs, 1), one_target = vector(targets, 1);
  float out[2] = {-1, -1};
  const fovea_tensor o = vector(out, 2);
  fovea_kernel_regression_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.sigma = 2;
  CHECK(refused(fovea_kernel_regression(NULL, &tq, &ti, &one_target, &o, &options), FOVEA_BAD_SHAPE, "targets"));
  CHECK(out[0] == -1 && out[1] == -1);
  CHECK(fovea_kernel_regression(NULL, &tq, &one_input, &one_target, &o, &options) == FOVEA_OK);
  CHECK(out[0] == 3 && out[1] == 3);
  CHECK(fovea_kernel_regression(NULL, &tq, &ti, &tt, &o, &options) == FOVEA_OK);
  CHECK(near(out[0], 4) && near(out[1], (3 * exp(-2.0) + 5 * exp(-0.5)) / (exp(-2.0) + exp(-0.5))));
  options.flags = FOVEA_LEAVE_ONE_OUT;
  CHECK(fovea_kernel_regression(NULL, &ti, &ti, &tt, &o, &options) == FOVEA_OK);
  CHECK(out[0] == 5 && out[1] == 3);
}

int main(void) {
  make_tensors();
  test_attention();
  test_plan();
  test_prepared_keys();
  test_prepared_plan();
  test_kernel_regression();
  return finish();
}
