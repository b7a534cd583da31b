/* Every function about gradients, called from strict C99, with results that can be told by hand. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* One query, two keys and the values 0 and 1: out is the second key's weight w, and moves by w (1 - w) with its score. */
static const float query[2] = {1, -1}, key[4] = {1, 0, 0, -0.5f}, value[2] = {0, 1}, ones[1] = {1};
static float out[1], lse[1], grad_query[2], grad_key[4], grad_value[2];
static fovea_tensor q, k, v, o, l, g, gq, gk, gv;
static fovea_attention_options options;
static fovea_attention_gradients gradients;

static fovea_tensor matrix(const float *data, int64_t rows, int64_t columns) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = columns;
  return fovea_tensor_contiguous(data, FOVEA_F32, 2, shape);
}

static void make_call(void) {
  const int64_t one = 1;
  q = matrix(query, 1, 2);
  k = matrix(key, 2, 2);
  v = matrix(value, 2, 1);
  o = matrix(out, 1, 1);
  g = matrix(ones, 1, 1);
  gq = matrix(grad_query, 1, 2);
  gk = matrix(grad_key, 2, 2);
  gv = matrix(grad_value, 2, 1);
  l = fovea_tensor_contiguous(lse, FOVEA_F32, 1, &one);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.scale = 1;
  options.log_sum_exp = &l;
  memset(&gradients, 0, sizeof gradients);
  gradients.struct_size = sizeof gradients;
  gradients.out = &g;
  gradients.query = &gq;
  gradients.key = &gk;
  gradients.value = &gv;
}

static void check_gradients(void) {
  const double w = 1 / (1 + exp(1 - 0.5)), slope = w * (1 - w);
  CHECK(near(out[0], w));
  CHECK(near(grad_value[0], 1 - w) && near(grad_value[1], w));
  CHECK(near(grad_query[0], -slope) && near(grad_query[1], -0.5 * slope));
  CHECK(near(grad_key[0], -slope) && near(grad_key[1], slope) && near(grad_key[2], slope) && near(grad_key[3], -slope));
}

static void test_in_one_go(void) {
  CHECK(fovea_sdpa(NULL, &q, &k, &v, &o, &options) == FOVEA_OK);
  CHECK(fovea_attention_backward(NULL, NULL, &q, &k, &v, &o, &options, &gradients) == FOVEA_OK);
  check_gradients();
  gradients.out = NULL;
  CHECK(fovea_attention_backward(NULL, NULL, &q, &k, &v, &o, &options, &gradients) == FOVEA_NULL_POINTER);
  CHECK(strstr(fovea_last_error(), "gradients.out") != NULL);
  gradients.out = &g;
}

static void test_planned(void) {
  fovea_plan *plan = NULL;
  fovea_attention_buffers buffers;
  void *workspace;
  CHECK(fovea_attention_backward_plan_create(NULL, NULL, &q, &k, &v, &o, &options, &gradients, &plan) == FOVEA_OK);
  memset(&buffers, 0, sizeof buffers);
  buffers.struct_size = sizeof buffers;
  buffers.query = query;
  buffers.key = key;
  buffers.value = value;
  buffers.out = out;
  buffers.log_sum_exp = lse;
  buffers.grad_out = ones;
  buffers.grad_query = grad_query;
  buffers.grad_key = grad_key;
  buffers.grad_value = grad_value;
  memset(grad_query, 0, sizeof grad_query);
  workspace = malloc(fovea_plan_workspace_size(plan));
  CHECK(fovea_attention_run(plan, &buffers, workspace, fovea_plan_workspace_size(plan)) == FOVEA_OK);
  check_gradients();
  free(workspace);
  fovea_plan_destroy(plan);
}

int main(void) {
  make_call();
  test_in_one_go();
  test_planned();
  return finish();
}
