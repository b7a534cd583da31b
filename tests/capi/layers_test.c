/* Every function of layers.h, called from strict C99, with results that can be told by hand. */
#include <string.h>

#include "check.h"

static fovea_tensor tensor(float *data, int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t shape[4];
  shape[0] = a;
  shape[1] = b;
  shape[2] = c;
  shape[3] = d;
  return fovea_tensor_contiguous(data, FOVEA_F32, rank, shape + 4 - rank);
}

static void test_positions(void) {
  float x[4] = {1, 0, 0, 1}, y[4], slopes[2], turns[2], factor = 0;
  const fovea_tensor tx = tensor(x, 2, 0, 0, 2, 2), ty = tensor(y, 2, 0, 0, 2, 2);
  const fovea_tensor heads = tensor(slopes, 1, 0, 0, 0, 2), pairs = tensor(turns, 1, 0, 0, 0, 2);
  const fovea_tensor one = tensor(&factor, 1, 0, 0, 0, 1);
  fovea_rotary_frequencies_options linear;
  CHECK(fovea_positional_encoding(NULL, &ty, NULL) == FOVEA_OK);
  CHECK(y[0] == 0 && y[1] == 1 && near(y[2], sin(1.0)) && near(y[3], cos(1.0)));
  CHECK(fovea_add_positional_encoding(NULL, &tx, &ty, NULL) == FOVEA_OK);
  CHECK(y[0] == 1 && y[1] == 1 && near(y[3], 1 + cos(1.0)));
  CHECK(fovea_rotary(NULL, &tx, &ty, NULL) == FOVEA_OK);
  CHECK(y[0] == 1 && y[1] == 0 && near(y[2], -sin(1.0)) && near(y[3], cos(1.0)));
  memset(&linear, 0, sizeof linear);
  linear.struct_size = sizeof linear;
  linear.kind = FOVEA_FREQUENCIES_LINEAR;
  linear.base = 100;
  linear.factor = 4;
  CHECK(fovea_rotary_frequencies(&pairs, &one, &linear) == FOVEA_OK);
  CHECK(near(turns[0], 0.25) && near(turns[1], 0.025) && factor == 1);
  CHECK(fovea_alibi_slopes(&heads) == FOVEA_OK);
  CHECK(near(slopes[0], 1.0 / 16) && near(slopes[1], 1.0 / 256));
}

static void test_linear(void) {
  float x[2] = {1, -2}, weight[4] = {1, 2, 3, 4}, bias[2] = {10, -20}, out[2], residual[2] = {100, 200};
  const fovea_tensor tx = tensor(x, 2, 0, 0, 1, 2), tw = tensor(weight, 2, 0, 0, 2, 2);
  const fovea_tensor tb = tensor(bias, 1, 0, 0, 0, 2), to = tensor(out, 2, 0, 0, 1, 2);
  const fovea_tensor tr = tensor(residual, 2, 0, 0, 1, 2);
  const fovea_linear_pack_options in_out = {sizeof in_out, FOVEA_WEIGHT_IN_OUT, 0};
  fovea_linear_options options;
  fovea_packed_matrix *packed = NULL;
  CHECK(fovea_linear_pack(NULL, &tw, &in_out, &packed) == FOVEA_OK);
  CHECK(fovea_linear(NULL, &tx, packed, &to, NULL) == FOVEA_OK);
  CHECK(out[0] == -5 && out[1] == -6);
  fovea_packed_matrix_destroy(packed);
  CHECK(fovea_linear_pack(NULL, &tw, NULL, &packed) == FOVEA_OK);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.activation = FOVEA_ACTIVATION_RELU;
  options.bias = &tb;
  options.residual = &tr;
  CHECK(fovea_linear(NULL, &tx, packed, &to, &options) == FOVEA_OK);
  CHECK(out[0] == 107 && out[1] == 200);
  fovea_packed_matrix_destroy(packed);
}

static void test_layer_norm(void) {
  float x[2] = {1, 4}, residual[2] = {0, -1}, out[2];
  const fovea_tensor tx = tensor(x, 2, 0, 0, 1, 2), tr = tensor(residual, 2, 0, 0, 1, 2);
  const fovea_tensor to = tensor(out, 2, 0, 0, 1, 2);
  fovea_layer_norm_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.epsilon = 1;
  options.residual = &tr;
  CHECK(fovea_layer_norm(NULL, &tx, &to, &options) == FOVEA_OK);
  CHECK(near(out[0], -1 / sqrt(2.0)) && near(out[1], 1 / sqrt(2.0)));
}

static void test_rms_norm(void) {
  float x[2] = {1, 2}, residual[2] = {2, 2}, out[2], sum[2], inverse[1];
  const fovea_tensor tx = tensor(x, 2, 0, 0, 1, 2), tr = tensor(residual, 2, 0, 0, 1, 2);
  const fovea_tensor to = tensor(out, 2, 0, 0, 1, 2), ts = tensor(sum, 2, 0, 0, 1, 2),
                     ti = tensor(inverse, 1, 0, 0, 0, 1);
  fovea_rms_norm_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.epsilon = 3.5f;
  options.residual = &tr;
  options.sum = &ts;
  options.inverse_deviation = &ti;
  CHECK(fovea_rms_norm(NULL, &tx, &to, &options) == FOVEA_OK);
  CHECK(near(out[0], 0.75) && near(out[1], 1) && sum[0] == 3 && sum[1] == 4 && near(inverse[0], 0.25));
}

static void test_activation(void) {
  float x[2] = {-1, 2}, out[2];
  const fovea_tensor tx = tensor(x, 1, 0, 0, 0, 2), to = tensor(out, 1, 0, 0, 0, 2);
  CHECK(fovea_activation(NULL, FOVEA_ACTIVATION_RELU, &tx, &to) == FOVEA_OK);
  CHECK(out[0] == 0 && out[1] == 2);
}

static fovea_mha_parameters identities(const fovea_tensor *identity) {
  fovea_mha_parameters parameters;
  memset(&parameters, 0, sizeof parameters);
  parameters.struct_size = sizeof parameters;
  parameters.heads = 1;
  parameters.query_weight = parameters.key_weight = parameters.value_weight = parameters.out_weight = identity;
  return parameters;
}

static void test_planned_multi_head(const fovea_mha_weights *weights, const fovea_tensor *x, const fovea_tensor *out) {
  unsigned char workspace[65536];
  fovea_mha_buffers buffers;
  fovea_mha_plan *plan = NULL;
  memset(out->data, 0, 4 * sizeof(float));
  CHECK(fovea_mha_plan_create(NULL, weights, x, NULL, NULL, out, NULL, &plan) == FOVEA_OK);
  CHECK(fovea_mha_plan_workspace_size(plan) <= sizeof workspace);
  memset(&buffers, 0, sizeof buffers);
  buffers.struct_size = sizeof buffers;
  buffers.query = x->data;
  buffers.out = out->data;
  CHECK(fovea_mha_run(plan, &buffers, workspace, sizeof workspace) == FOVEA_OK);
  fovea_mha_plan_destroy(plan);
}

static void test_multi_head(void) {
  float identity[4] = {1, 0, 0, 1}, x[4] = {1, 2, 1, 2}, out[4];
  const fovea_tensor ti = tensor(identity, 2, 0, 0, 2, 2), tx = tensor(x, 3, 0, 1, 2, 2),
                     to = tensor(out, 3, 0, 1, 2, 2);
  const fovea_mha_parameters parameters = identities(&ti);
  fovea_mha_weights *weights = NULL;
  CHECK(fovea_mha_weights_create(NULL, &parameters, &weights) == FOVEA_OK);
  CHECK(fovea_mha_weights_size(weights) > 0);
  CHECK(fovea_multi_head_attention(NULL, weights, &tx, NULL, NULL, &to, NULL) == FOVEA_OK);
  CHECK(near(out[0], 1) && near(out[1], 2) && near(out[2], 1) && near(out[3], 2));
  test_planned_multi_head(weights, &tx, &to);
  CHECK(near(out[0], 1) && near(out[1], 2) && near(out[2], 1) && near(out[3], 2));
  memset(out, 0, sizeof out);
  CHECK(fovea_multi_head_attention_once(NULL, &parameters, &tx, &tx, &tx, &to, NULL) == FOVEA_OK);
  CHECK(near(out[0], 1) && near(out[3], 2));
  fovea_mha_weights_destroy(weights);
}

int main(void) {
  test_positions();
  test_linear();
  test_layer_norm();
  test_rms_norm();
  test_activation();
  test_multi_head();
  return finish();
}
