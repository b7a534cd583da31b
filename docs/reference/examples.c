/* The examples of the reference pages, run by a test. A page shows what stands between [name] and [end].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int holds, const char *what) {
  if (holds) return;
  printf("FAILED: %s; %s\n", what, fovea_last_error());
  exit(1);
}
#define MUST(holds) must(holds, #holds)

// [attention]
static float query[2][2] = {{3, 0}, {0, 3}}, key[3][2] = {{1, 0}, {0, 1}, {1, 1}};
static float value[3][2] = {{10, 20}, {30, 40}, {50, 60}}, out[2][2];
static const int64_t two[] = {2, 2}, three[] = {3, 2};
static fovea_tensor q, k, v, o;
static fovea_status status;
// [end]

static void attention(void) {
  // [attention]
  q = fovea_tensor_contiguous(query, FOVEA_F32, 2, two);
  k = fovea_tensor_contiguous(key, FOVEA_F32, 2, three);
  v = fovea_tensor_contiguous(value, FOVEA_F32, 2, three);
  o = fovea_tensor_contiguous(out, FOVEA_F32, 2, two);
  fovea_attention_options options = {.struct_size = sizeof options, .flags = FOVEA_CAUSAL};
  status = fovea_sdpa(NULL, &q, &k, &v, &o, &options);  // NULL for options: {{30.00, 40.00}, {38.30, 48.30}}
  // [end]
  MUST(status == FOVEA_OK && fovea_sdpa(NULL, &q, &k, &v, &o, NULL) == FOVEA_OK && fabsf(out[1][0] - 38.3036F) < 1e-3F);
}

static fovea_score score;

static void score_function(void) {
  // [score]
  static float identity[2][2] = {{1, 0}, {0, 1}}, ones[2] = {1, 1};
  static fovea_tensor weight, vector;
  weight = fovea_tensor_contiguous(identity, FOVEA_F32, 2, two);
  vector = fovea_tensor_contiguous(ones, FOVEA_F32, 1, two);
  score = (fovea_score){.struct_size = sizeof score,
                        .kind = FOVEA_SCORE_ADDITIVE,
                        .query_weight = &weight,
                        .key_weight = &weight,
                        .score_vector = &vector};
  status = fovea_attention(NULL, &score, &q, &k, &v, &o, NULL);
  // [end]
  MUST(status == FOVEA_OK && out[0][0] > 10 && out[0][0] < 50);
}

static void plan(void) {
  // [plan]
  fovea_plan *plan = NULL;
  status = fovea_sdpa_plan_create(NULL, &q, &k, &v, &o, NULL, &plan);
  const size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size);
  fovea_attention_buffers buffers = {
      .struct_size = sizeof buffers, .query = query[0], .key = key[0], .value = value[0], .out = out[0]};
  if (status == FOVEA_OK) status = fovea_attention_run(plan, &buffers, workspace, size);
  fovea_plan_destroy(plan);
  free(workspace);
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[1][0] - 38.3036F) < 1e-3F);
}

static void prepared_keys(void) {
  // [prepared_keys]
  fovea_prepared_keys *keys = NULL;
  fovea_prepared_keys_sizes sizes = {
      .struct_size = sizeof sizes, .batch = 1, .kv_heads = 1, .capacity = 8, .query_dim = 2, .key_dim = 2};
  status = fovea_prepared_keys_create(NULL, &score, &sizes, &keys);
  if (status == FOVEA_OK) status = fovea_prepared_keys_append(NULL, keys, &k);
  if (status == FOVEA_OK) status = fovea_attention_prepared(NULL, &q, keys, &v, &o, NULL);
  fovea_prepared_keys_destroy(keys);
  // [end]
  MUST(status == FOVEA_OK);
}

static void kernel_regression(void) {
  // [kernel_regression]
  float at[] = {1.5F}, inputs[] = {0, 1, 2}, targets[] = {0, 1, 4}, y[1];
  const int64_t one[] = {1}, points[] = {3};
  const fovea_tensor a = fovea_tensor_contiguous(at, FOVEA_F32, 1, one),
                     r = fovea_tensor_contiguous(y, FOVEA_F32, 1, one);
  const fovea_tensor i = fovea_tensor_contiguous(inputs, FOVEA_F32, 1, points);
  const fovea_tensor t = fovea_tensor_contiguous(targets, FOVEA_F32, 1, points);
  fovea_kernel_regression_options options = {.struct_size = sizeof options, .sigma = 0.3F};
  status = fovea_kernel_regression(NULL, &a, &i, &t, &r, &options);
  // [end]
  MUST(status == FOVEA_OK && fabsf(y[0] - 2.5F) < 0.02F);
}

static void merge_states(void) {
  // [merge_states]
  static float outs[2][2][2], lses[2][2];  // of two parts of the keys, as log_sum_exp returns them
  const int64_t parts[] = {2, 2, 2};
  const fovea_tensor all = fovea_tensor_contiguous(outs, FOVEA_F32, 3, parts);
  const fovea_tensor sums = fovea_tensor_contiguous(lses, FOVEA_F32, 2, parts);
  status = fovea_merge_states(NULL, &all, &sums, &o, NULL);
  // [end]
  MUST(status == FOVEA_OK && out[0][0] == 0);
}

static void masked_softmax(void) {
  // [masked_softmax]
  float x[1][2][4] = {{{0}}};
  int64_t lens[1][2] = {{1, 2}};
  const int64_t shape[] = {1, 2, 4};
  const fovea_tensor rows = fovea_tensor_contiguous(x, FOVEA_F32, 3, shape);
  const fovea_tensor lengths = fovea_tensor_contiguous(lens, FOVEA_I64, 2, shape);
  status = fovea_masked_softmax(NULL, &rows, &lengths, &rows, NULL);  // in place: {1, 0, 0, 0}, {0.5, 0.5, 0, 0}
  // [end]
  MUST(status == FOVEA_OK && x[0][0][0] == 1 && x[0][1][1] == 0.5F && x[0][1][2] == 0);
}

static void matmul(void) {
  // [matmul]
  fovea_tensor transposed = {.data = key, .dtype = FOVEA_F32, .rank = 2, .shape = {2, 3}, .strides = {1, 2}};
  fovea_packed_matrix *packed = NULL;
  status = fovea_matmul_pack(NULL, &v, NULL, &packed);
  if (status == FOVEA_OK) status = fovea_matmul_packed(NULL, &transposed, packed, &o);
  fovea_packed_matrix_destroy(packed);
  // [end]
  MUST(status == FOVEA_OK && out[0][0] == 60 && out[1][1] == 100);
}

static void elementwise(void) {
  // [elementwise]
  status = fovea_tanh(NULL, &q, &o);
  if (status == FOVEA_OK) status = fovea_exp(NULL, &o, &o);  // in place
  // [end]
  MUST(status == FOVEA_OK && out[0][1] == 1);
}

static void positional_encoding(void) {
  // [positional_encoding]
  static float encoding[60][32];
  const int64_t shape[] = {60, 32};
  const fovea_tensor p = fovea_tensor_contiguous(encoding, FOVEA_F32, 2, shape);
  status = fovea_positional_encoding(NULL, &p, NULL);
  if (status == FOVEA_OK) status = fovea_add_positional_encoding(NULL, &p, &p, NULL);  // in place: twice as much
  // [end]
  MUST(status == FOVEA_OK && encoding[0][1] == 2);
}

static void rotary(void) {
  // [rotary]
  fovea_rotary_options options = {.struct_size = sizeof options, .offset = 3};
  status = fovea_rotary(NULL, &q, &o, &options);  // [L, D]
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[0][0] - 3 * cosf(3)) < 1e-5F);
}

static void rotary_frequencies(void) {
  // [rotary_frequencies]
  float table[64], factor[1];
  const int64_t pairs[] = {64}, one[] = {1};
  const fovea_tensor t = fovea_tensor_contiguous(table, FOVEA_F32, 1, pairs);
  const fovea_tensor f = fovea_tensor_contiguous(factor, FOVEA_F32, 1, one);
  const fovea_rotary_frequencies_options llama = {.struct_size = sizeof llama,
                                                  .kind = FOVEA_FREQUENCIES_LLAMA3,
                                                  .base = 500000,
                                                  .factor = 8,
                                                  .original_length = 8192,
                                                  .low_frequency_factor = 1,
                                                  .high_frequency_factor = 4};
  status = fovea_rotary_frequencies(&t, &f, &llama);  // Llama 3.1: for heads of 128 features
  fovea_rotary_options turn = {.struct_size = sizeof turn, .offset = 9000, .frequencies = &t};
  turn.attention_factor = factor[0];
  // [end]
  MUST(status == FOVEA_OK && table[0] == 1 && table[63] < 4e-7F && turn.attention_factor == 1);
}

static void alibi_slopes(void) {
  // [alibi_slopes]
  float slopes[4];
  const int64_t heads[] = {4};
  const fovea_tensor s = fovea_tensor_contiguous(slopes, FOVEA_F32, 1, heads);
  status = fovea_alibi_slopes(&s);  // {1/4, 1/16, 1/64, 1/256}
  // [end]
  MUST(status == FOVEA_OK && slopes[0] == 0.25F && slopes[3] == 1.0F / 256);
}

static void linear(void) {
  // [linear]
  float added[] = {0, -1};
  const fovea_tensor bias = fovea_tensor_contiguous(added, FOVEA_F32, 1, two);
  fovea_packed_matrix *packed = NULL;
  status = fovea_linear_pack(NULL, &q, NULL, &packed);  // [out, in], as torch.nn.Linear has it
  fovea_linear_options options = {.struct_size = sizeof options, .activation = FOVEA_ACTIVATION_RELU, .bias = &bias};
  if (status == FOVEA_OK) status = fovea_linear(NULL, &q, packed, &o, &options);
  fovea_packed_matrix_destroy(packed);
  // [end]
  MUST(status == FOVEA_OK && out[0][0] == 9 && out[0][1] == 0 && out[1][1] == 8);
}

static void layer_norm(void) {
  // [layer_norm]
  fovea_layer_norm_options options = {.struct_size = sizeof options, .epsilon = 1e-5F, .residual = &q};
  status = fovea_layer_norm(NULL, &q, &o, &options);
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[0][0] - 1) < 1e-4F && fabsf(out[0][1] + 1) < 1e-4F);
}

static void rms_norm(void) {
  // [rms_norm]
  static float sums[2][2];
  const fovea_tensor sum = fovea_tensor_contiguous(sums, FOVEA_F32, 2, two);
  fovea_rms_norm_options options = {.struct_size = sizeof options, .residual = &q, .sum = &sum};
  status = fovea_rms_norm(NULL, &q, &o, &options);  // of q + q, which is in sums then
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[0][0] - 1.41421F) < 1e-4F && sums[0][0] == 6);
}

static void softmax(void) {
  // [softmax]
  status = fovea_softmax(NULL, &q, 0, &o);                               // down the columns
  if (status == FOVEA_OK) status = fovea_log_softmax(NULL, &q, -1, &o);  // along the rows
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[0][1] + 3.04859F) < 1e-4F);
}

static void activation(void) {
  // [activation]
  status = fovea_activation(NULL, FOVEA_ACTIVATION_SILU, &q, &o);
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[0][0] - 2.85772F) < 1e-4F);
}

static void layer_gradients(void) {
  // [layer_gradients]
  static const float ones[2][2] = {{1, 1}, {1, 1}};
  static float grad_x[2][2], grad_weight[2][2];
  const fovea_tensor go = fovea_tensor_contiguous(ones, FOVEA_F32, 2, two);
  const fovea_tensor gx = fovea_tensor_contiguous(grad_x, FOVEA_F32, 2, two);
  const fovea_tensor gw = fovea_tensor_contiguous(grad_weight, FOVEA_F32, 2, two);
  const fovea_linear_gradients wanted = {.struct_size = sizeof wanted, .out = &go, .x = &gx, .weight = &gw};
  status = fovea_linear_backward(NULL, &q, &q, FOVEA_WEIGHT_OUT_IN, NULL, &wanted);  // of x = q and W = q
  // [end]
  MUST(status == FOVEA_OK && grad_x[0][0] == query[0][0] + query[1][0] && grad_weight[1][1] == query[0][1] + query[1][1]);
}

static void gemm(void) {
  // [gemm]
  fovea_gemm_options options = {.struct_size = sizeof options, .alpha = 0.5F, .beta = -1, .c = &q};
  status = fovea_gemm(NULL, &q, &q, &o, &options);  // q q / 2 - q
  // [end]
  MUST(status == FOVEA_OK && out[0][0] == 1.5F && out[0][1] == 0);
}

static const int64_t tokens_shape[] = {3, 1, 2};  // [tokens, H, D]

static void schedule(void) {
  // [schedule]
  static float results[3][2];
  const int64_t starts[] = {0, 1, 3}, count = 3;  // sequences of 1 and 2 tokens, one behind the other
  fovea_tensor rows = fovea_tensor_contiguous(NULL, FOVEA_F32, 3, tokens_shape);
  fovea_tensor where = fovea_tensor_contiguous(starts, FOVEA_I64, 1, &count);
  fovea_schedule_limits limits = {.struct_size = sizeof limits, .sequences = 2};
  fovea_step step = {.struct_size = sizeof step, .query_starts = &where, .key_starts = &where};
  fovea_attention_buffers buffers = {
      .struct_size = sizeof buffers, .query = key, .key = key, .value = value, .out = results};
  fovea_schedule *schedule = NULL;
  status = fovea_schedule_create(NULL, NULL, &rows, &rows, &rows, &rows, NULL, &limits, &schedule);
  if (status == FOVEA_OK) status = fovea_schedule_set(schedule, &step);
  if (status == FOVEA_OK) status = fovea_schedule_run(schedule, &buffers, NULL, 0);
  fovea_schedule_destroy(schedule);
  // [end]
  MUST(status == FOVEA_OK && results[0][0] == 10 && results[1][0] > 30 && results[2][0] < 50);
}

static void kv_pool(void) {
  // [kv_pool]
  static float results[3][2];
  fovea_kv_pool_sizes sizes = {
      .struct_size = sizeof sizes, .layers = 1, .kv_heads = 1, .head_dim = 2, .positions = 64, .sequences = 4};
  fovea_attention_options causal = {.struct_size = sizeof causal, .flags = FOVEA_CAUSAL};
  fovea_schedule_limits limits = {.struct_size = sizeof limits, .sequences = 4};
  fovea_tensor rows = fovea_tensor_contiguous(NULL, FOVEA_F32, 3, tokens_shape);
  fovea_kv_pool *pool = NULL;
  fovea_schedule *schedule = NULL;
  int64_t sequence = -1, other = -1, one = 1, three_more = 3;
  fovea_tensor which = fovea_tensor_contiguous(&sequence, FOVEA_I64, 1, &one);
  fovea_tensor tokens = fovea_tensor_contiguous(&three_more, FOVEA_I64, 1, &one);
  fovea_step step;
  status = fovea_kv_pool_create(&sizes, &pool);
  fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);  // of layer 0
  if (status == FOVEA_OK)
    status = fovea_schedule_create(NULL, NULL, &rows, &keys, &values, &rows, &causal, &limits, &schedule);
  if (status == FOVEA_OK) status = fovea_kv_pool_open(pool, &sequence);
  if (status == FOVEA_OK) status = fovea_kv_pool_step(NULL, pool, &which, &tokens, &step);  // room for 3 more positions
  if (status == FOVEA_OK) status = fovea_schedule_set(schedule, &step);
  const fovea_tensor k3 = fovea_tensor_contiguous(key, FOVEA_F32, 3, tokens_shape);
  const fovea_tensor v3 = fovea_tensor_contiguous(value, FOVEA_F32, 3, tokens_shape);
  if (status == FOVEA_OK) status = fovea_schedule_append(schedule, &k3, &v3, &keys, &values, NULL);
  fovea_attention_buffers buffers = {
      .struct_size = sizeof buffers, .query = key, .key = keys.data, .value = values.data, .out = results};
  if (status == FOVEA_OK) status = fovea_schedule_run(schedule, &buffers, NULL, 0);
  if (status == FOVEA_OK) status = fovea_kv_pool_fork(pool, sequence, 2, &other);  // shares its pages
  const int64_t length = fovea_kv_pool_length(pool, other);
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
  // [end]
  MUST(status == FOVEA_OK && length == 2 && results[0][0] == 10 && results[2][0] > 30);
}

static void quantize(void) {
  // [quantize]
  static int8_t rows[3][2];
  static uint16_t scales[3];  // float16, one for each row
  const int64_t column[] = {3, 1};
  const fovea_tensor r = fovea_tensor_contiguous(rows, FOVEA_I8, 2, three);
  const fovea_tensor s = fovea_tensor_contiguous(scales, FOVEA_F16, 2, column);
  status = fovea_quantize(NULL, &v, &r, &s);
  fovea_attention_options options = {.struct_size = sizeof options, .value_scales = &s};
  if (status == FOVEA_OK) status = fovea_sdpa(NULL, &q, &k, &r, &o, &options);
  // [end]
  MUST(status == FOVEA_OK && fabsf(out[1][0] - 38.3036F) < 0.3F);
}

static void multi_head_attention(void) {
  // [multi_head_attention]
  static float identity[2][2] = {{1, 0}, {0, 1}}, projected[3][2];
  const fovea_tensor w = fovea_tensor_contiguous(identity, FOVEA_F32, 2, two);  // [out, in]
  const fovea_tensor p = fovea_tensor_contiguous(projected, FOVEA_F32, 2, three);
  fovea_mha_parameters parameters = {.struct_size = sizeof parameters,
                                     .heads = 2,
                                     .query_weight = &w,
                                     .key_weight = &w,
                                     .value_weight = &w,
                                     .out_weight = &w};
  fovea_mha_weights *weights = NULL;
  status = fovea_mha_weights_create(NULL, &parameters, &weights);
  if (status == FOVEA_OK) status = fovea_multi_head_attention(NULL, weights, &k, NULL, NULL, &p, NULL);  // of key alone
  fovea_mha_weights_destroy(weights);
  // [end]
  MUST(status == FOVEA_OK && projected[0][0] > 0 && projected[0][0] < 1);
}

static void tensor(void) {
  // [tensor]
  static float inside[2][5][4][64];  // [B, L, H, D] in memory
  fovea_tensor view = {.data = inside, .dtype = FOVEA_F32, .rank = 4, .shape = {2, 4, 5, 64}};  // [B, H, L, D]
  const int64_t strides[] = {5 * 4 * 64, 64, 4 * 64, 1};                                        // counted in elements
  for (int axis = 0; axis < 4; ++axis) view.strides[axis] = strides[axis];
  status = fovea_tanh(NULL, &view, &view);
  // [end]
  MUST(status == FOVEA_OK);
}

static void context(void) {
  // [context]
  fovea_context_options options = {.struct_size = sizeof options, .max_threads = 1, .max_isa = "base"};
  fovea_context *one = NULL;
  status = fovea_context_create(&options, &one);
  if (status == FOVEA_OK) status = fovea_sdpa(one, &q, &k, &v, &o, NULL);
  fovea_context_destroy(one);
  // [end]
  MUST(status == FOVEA_OK);
}

static void failure(void) {
  // [status]
  status = fovea_sdpa(NULL, &q, &k, &q, &o, NULL);
  if (status != FOVEA_OK) printf("%s: %s\n", fovea_status_name(status), fovea_last_error());
  // [end]
  MUST(status == FOVEA_BAD_SHAPE);
}

static void gradients(void) {
  // [gradients]
  static float sums[2], grad_out[2][2] = {{1, 0}, {0, 0}}, grad_query[2][2], grad_key[3][2], grad_value[3][2];
  static const int64_t rows[] = {2};
  fovea_tensor lse = fovea_tensor_contiguous(sums, FOVEA_F32, 1, rows);
  fovea_tensor go = fovea_tensor_contiguous(grad_out, FOVEA_F32, 2, two);
  fovea_tensor gq = fovea_tensor_contiguous(grad_query, FOVEA_F32, 2, two);
  fovea_tensor gk = fovea_tensor_contiguous(grad_key, FOVEA_F32, 2, three);
  fovea_tensor gv = fovea_tensor_contiguous(grad_value, FOVEA_F32, 2, three);
  fovea_attention_options options = {.struct_size = sizeof options, .log_sum_exp = &lse};
  status = fovea_sdpa(NULL, &q, &k, &v, &o, &options);
  fovea_attention_gradients wanted = {
      .struct_size = sizeof wanted, .out = &go, .query = &gq, .key = &gk, .value = &gv};
  status = fovea_attention_backward(NULL, NULL, &q, &k, &v, &o, &options, &wanted);
  // [end]
  MUST(status == FOVEA_OK && fabsf(grad_value[0][0] + grad_value[1][0] + grad_value[2][0] - 1) < 1e-6F);
}

int main(void) {
  attention(), score_function(), plan(), gradients(), prepared_keys(), kernel_regression(), merge_states(), masked_softmax(),
      matmul();
  elementwise(), positional_encoding(), rotary(), rotary_frequencies(), alibi_slopes(), linear(), layer_norm(),
      schedule(), kv_pool(), quantize();
  rms_norm(), softmax(), activation(), layer_gradients(), gemm();
  tensor(), context(), failure(), multi_head_attention();
  return 0;
}
