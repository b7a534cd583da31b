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

/* x = (1, -2), grad_out = (3, 5). */
static const float x_data[2] = {1, -2}, grad_data[2] = {3, 5};
static float made[2], made_weight[4], made_bias[2];

static void test_rows(void) {
  const fovea_tensor x = matrix(x_data, 1, 2), grad = matrix(grad_data, 1, 2), to = matrix(made, 1, 2);
  float half[2] = {0.5f, 0.5f}, logs[2];
  fovea_tensor p = matrix(half, 1, 2), l2 = matrix(logs, 1, 2);
  fovea_norm_gradients norm;
  CHECK(fovea_activation_backward(NULL, FOVEA_ACTIVATION_RELU, &x, &grad, &to) == FOVEA_OK);
  CHECK(made[0] == 3 && made[1] == 0);
  CHECK(fovea_softmax_backward(NULL, &p, -1, &grad, &to) == FOVEA_OK);
  CHECK(near(made[0], -0.5) && near(made[1], 0.5));
  CHECK(fovea_masked_softmax_backward(NULL, &p, NULL, &grad, &to) == FOVEA_OK);
  CHECK(near(made[0], -0.5) && near(made[1], 0.5));
  logs[0] = logs[1] = (float)log(0.5);
  CHECK(fovea_log_softmax_backward(NULL, &l2, -1, &grad, &to) == FOVEA_OK);
  CHECK(near(made[0], -1) && near(made[1], 1));
  memset(&norm, 0, sizeof norm);
  norm.struct_size = sizeof norm;
  norm.out = &grad;
  norm.x = &to;
  CHECK(fovea_layer_norm_backward(NULL, &x, NULL, &norm) == FOVEA_OK); /* two numbers always become 1 and -1 */
  CHECK(fabs((double)made[0]) < 1e-4 && fabs((double)made[1]) < 1e-4);
  CHECK(fovea_rms_norm_backward(NULL, &x, NULL, &norm) ==
        FOVEA_OK); /* r = sqrt(2/5), z = (1, -2) r, mean(g z) = -7 r / 2 */
  CHECK(near(made[0], sqrt(0.4) * (3 + 7 * 0.4 / 2)) && near(made[1], sqrt(0.4) * (5 - 7 * 0.4)));
}

static void test_layers(void) {
  const fovea_tensor x = matrix(x_data, 1, 2), grad = matrix(grad_data, 1, 2), to = matrix(made, 1, 2);
  const float weight_data[4] = {1, 2, 3, 4}, lse_data[2] = {0, 0}, outs_data[2] = {1, 3};
  const fovea_tensor weight = matrix(weight_data, 2, 2), to_weight = matrix(made_weight, 2, 2);
  const int64_t two = 2, one = 1;
  const fovea_tensor bias = fovea_tensor_contiguous(lse_data, FOVEA_F32, 1, &two);
  const fovea_tensor to_bias = fovea_tensor_contiguous(made_bias, FOVEA_F32, 1, &two);
  const fovea_tensor outs = matrix(outs_data, 2, 1), to_outs = matrix(made, 2, 1);
  const fovea_tensor out = fovea_tensor_contiguous(ones, FOVEA_F32, 1, &one);
  fovea_linear_options linear;
  fovea_linear_gradients gradients_of_linear;
  fovea_merge_gradients merge;
  fovea_mha_parameters parameters;
  fovea_mha_gradients mha;
  memset(&linear, 0, sizeof linear);
  linear.struct_size = sizeof linear;
  linear.bias = &bias;
  memset(&gradients_of_linear, 0, sizeof gradients_of_linear);
  gradients_of_linear.struct_size = sizeof gradients_of_linear;
  gradients_of_linear.out = &grad;
  gradients_of_linear.x = &to;
  gradients_of_linear.weight = &to_weight;
  gradients_of_linear.bias = &to_bias;
  CHECK(fovea_linear_backward(NULL, &x, &weight, FOVEA_WEIGHT_OUT_IN, &linear, &gradients_of_linear) == FOVEA_OK);
  CHECK(made[0] == 18 && made[1] == 26);
  CHECK(made_weight[0] == 3 && made_weight[1] == -6 && made_weight[2] == 5 && made_weight[3] == -10);
  CHECK(made_bias[0] == 3 && made_bias[1] == 5);
  memset(&merge, 0, sizeof merge);
  merge.struct_size = sizeof merge;
  merge.out = &out;
  merge.outs = &to_outs;
  merge.lses = &to_bias;
  CHECK(fovea_merge_states_backward(NULL, &outs, &bias, &merge) == FOVEA_OK);
  CHECK(near(made[0], 0.5) && near(made[1], 0.5) && near(made_bias[0], -0.5) && near(made_bias[1], 0.5));
  memset(&parameters, 0, sizeof parameters); /* one position attends to itself: its value alone counts */
  parameters.struct_size = sizeof parameters;
  parameters.heads = 1;
  parameters.query_weight = parameters.key_weight = parameters.value_weight = &weight;
  memset(&mha, 0, sizeof mha);
  mha.struct_size = sizeof mha;
  mha.out = &grad;
  mha.query = &to;
  mha.value_weight = &to_weight;
  CHECK(fovea_multi_head_attention_backward(NULL, &parameters, &x, NULL, NULL, NULL, &mha) == FOVEA_OK);
  CHECK(near(made[0], 18) && near(made[1], 26) && near(made_weight[1], -6));
  mha.key = &to;
  CHECK(fovea_multi_head_attention_backward(NULL, &parameters, &x, NULL, NULL, NULL, &mha) == FOVEA_BAD_VALUE);
  CHECK(strstr(fovea_last_error(), "gradients.key") != NULL);
}

int main(void) {
  test_rows();
  test_layers();
  make_call();
  test_in_one_go();
  test_planned();
  return finish();
}
