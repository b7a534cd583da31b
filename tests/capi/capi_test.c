/* The functions of fovea.h, called from strict C99; those about score functions are in scores_test.c. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static fovea_tensor tensor2(float *data, int64_t rows, int64_t columns) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = columns;
  return fovea_tensor_contiguous(data, FOVEA_F32, 2, shape);
}

static int loop_calls = 0;

static void backwards(void *user, int64_t count, fovea_work work, void *work_data) {
  ++*(int *)user;
  while (count > 0) work(work_data, --count);
}

static void test_names(void) {
  CHECK(strcmp(fovea_version(), "0.1.0") == 0);
  CHECK(strcmp(fovea_status_name(FOVEA_OVERLAP), "FOVEA_OVERLAP") == 0);
  CHECK(strcmp(fovea_last_error(), "") == 0);
  CHECK(strcmp(fovea_isa_available(0), "base") == 0);
  CHECK(strlen(fovea_isa_name(NULL)) > 0);
  CHECK(fovea_context_threads(NULL) >= 1);
}

/* keys = ones, values = arange: weights are uniform over the valid keys. */
static void test_sdpa(const fovea_context *context) {
  float query[2 * 1 * 2] = {0.3f, -1.2f, 2.0f, 0.7f}, key[2 * 10 * 2], value[2 * 10 * 4], out[2 * 1 * 4], lse[2];
  const int64_t lens[2] = {2, 6};
  const double expected[8] = {2, 3, 4, 5, 10, 11, 12, 13};
  const int64_t query_shape[3] = {2, 1, 2}, key_shape[3] = {2, 10, 2}, value_shape[3] = {2, 10, 4},
                out_shape[3] = {2, 1, 4};
  const int64_t lens_shape[1] = {2}, lse_shape[2] = {2, 1};
  const fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 3, query_shape);
  const fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 3, key_shape);
  const fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 3, value_shape);
  const fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 3, out_shape);
  const fovea_tensor l = fovea_tensor_contiguous((void *)(size_t)lens, FOVEA_I64, 1, lens_shape);
  const fovea_tensor e = fovea_tensor_contiguous(lse, FOVEA_F32, 2, lse_shape);
  fovea_attention_options options;
  fovea_attention_buffers buffers;
  fovea_plan *plan = NULL;
  void *workspace;
  char text[512];
  int n;
  for (n = 0; n < 40; ++n) key[n] = 1;
  for (n = 0; n < 80; ++n) value[n] = (float)(n % 40);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.valid_lens = &l;
  options.log_sum_exp = &e;
  CHECK(fovea_sdpa(context, &q, &k, &v, &o, &options) == FOVEA_OK);
  for (n = 0; n < 8; ++n) CHECK(near(out[n], expected[n]));
  CHECK(near(lse[0], (0.3 - 1.2) / sqrt(2.0) + log(2.0)));

  CHECK(fovea_sdpa_plan_create(context, &q, &k, &v, &o, &options, &plan) == FOVEA_OK);
  CHECK(fovea_plan_describe(plan, text, sizeof text) > 0);
  CHECK(strstr(text, "op=sdpa") != NULL);
  workspace = malloc(fovea_plan_workspace_size(plan) + 1);
  memset(&buffers, 0, sizeof buffers);
  buffers.struct_size = sizeof buffers;
  buffers.query = query;
  buffers.key = key;
  buffers.value = value;
  buffers.out = out;
  buffers.valid_lens = lens;
  buffers.log_sum_exp = lse;
  memset(out, 0, sizeof out);
  CHECK(fovea_attention_run(plan, &buffers, workspace, fovea_plan_workspace_size(plan)) == FOVEA_OK);
  for (n = 0; n < 8; ++n) CHECK(near(out[n], expected[n]));
  free(workspace);
  fovea_plan_destroy(plan);
}

/* What the header says of positions and lengths, on two sequences of 3 and 5 keys in one batch padded to 5: positions go
 * by the padded K, and what it names as right for the newest two queries equals a call for each sequence alone. */
static void test_lengths_and_positions(const fovea_context *context) {
  enum { B = 2, Q = 2, K = 5, D = 2 };
  static float query[B][Q][D] = {{{1, -2}, {0.5f, 3}}, {{2, 1}, {-1, 1}}}, key[B][K][D], value[B][K][D];
  float out[B][Q][D], alone[B][Q][D];
  const int32_t lens[B] = {3, 5}, lens_per_query[B][Q] = {{2, 3}, {4, 5}};
  uint8_t window[B][1][Q][K];
  const int64_t query_shape[4] = {B, 1, Q, D}, key_shape[4] = {B, 1, K, D}, lens_shape[2] = {B, Q};
  const int64_t mask_shape[4] = {B, 1, Q, K};
  const fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 4, query_shape);
  const fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 4, key_shape);
  const fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 4, key_shape);
  const fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 4, query_shape);
  const fovea_tensor by_entry = fovea_tensor_contiguous(lens, FOVEA_I32, 1, lens_shape);
  const fovea_tensor by_query = fovea_tensor_contiguous(lens_per_query, FOVEA_I32, 2, lens_shape);
  const fovea_tensor mask = fovea_tensor_contiguous(window, FOVEA_BOOL, 4, mask_shape);
  fovea_attention_options options;
  int windowed, b, i, j;
  for (i = 0; i < B * K * D; ++i) {
    (&key[0][0][0])[i] = (float)(i * 7 % 11) / 4 - 1;
    (&value[0][0][0])[i] = (float)i;
  }
  for (windowed = 0; windowed < 2; ++windowed) { /* causal; then causal with a window of one key to the left */
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.flags = windowed ? FOVEA_CAUSAL | FOVEA_WINDOW_LEFT : FOVEA_CAUSAL;
    options.window_left = windowed;
    for (b = 0; b < B; ++b) {
      const int64_t own_shape[2] = {lens[b], D};
      const fovea_tensor own_q = tensor2(&query[b][0][0], Q, D), own_o = tensor2(&alone[b][0][0], Q, D);
      const fovea_tensor own_k = fovea_tensor_contiguous(key[b], FOVEA_F32, 2, own_shape);
      const fovea_tensor own_v = fovea_tensor_contiguous(value[b], FOVEA_F32, 2, own_shape);
      CHECK(fovea_sdpa(context, &own_q, &own_k, &own_v, &own_o, &options) == FOVEA_OK);
      for (i = 0; i < Q; ++i)
        for (j = 0; j < K; ++j) window[b][0][i][j] = j >= lens[b] - Q + i - 1;
    }
    options.flags = 0;
    options.window_left = 0;
    options.valid_lens = &by_query;
    if (windowed) options.mask = &mask;
    CHECK(fovea_sdpa(context, &q, &k, &v, &o, &options) == FOVEA_OK);
    for (i = 0; i < B * Q * D; ++i) CHECK(near((&out[0][0][0])[i], (&alone[0][0][0])[i]));
  }
  /* And what is wrong: the last query of the sequence of 3 stands at position 4, its window begins behind its keys. */
  options.mask = NULL;
  options.valid_lens = &by_entry;
  options.flags = FOVEA_WINDOW_LEFT;
  options.window_left = 1;
  CHECK(fovea_sdpa(context, &q, &k, &v, &o, &options) == FOVEA_OK);
  CHECK(out[0][1][0] == 0 && out[0][1][1] == 0 && out[1][1][0] != 0);
}

static void test_merge_states(const fovea_context *context) {
  float outs[2 * 1 * 2] = {2, 4, 6, 8}, lses[2] = {0, 0}, out[2], lse[1];
  const int64_t outs_shape[3] = {2, 1, 2}, lse_shape[1] = {1};
  const fovea_tensor a = fovea_tensor_contiguous(outs, FOVEA_F32, 3, outs_shape);
  const fovea_tensor b = tensor2(lses, 2, 1), c = tensor2(out, 1, 2);
  const fovea_tensor d = fovea_tensor_contiguous(lse, FOVEA_F32, 1, lse_shape);
  CHECK(fovea_merge_states(context, &a, &b, &c, &d) == FOVEA_OK);
  CHECK(near(out[0], 4) && near(out[1], 6));
  CHECK(near(lse[0], log(2.0)));
}

static void test_masked_softmax(const fovea_context *context) {
  float x[2 * 2 * 4] = {1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 0, 0, 5, 5, 5, 5};
  const int32_t lens[4] = {1, 3, 2, 4};
  const int64_t shape[3] = {2, 2, 4}, lens_shape[2] = {2, 2};
  const fovea_tensor t = fovea_tensor_contiguous(x, FOVEA_F32, 3, shape);
  const fovea_tensor l = fovea_tensor_contiguous((void *)(size_t)lens, FOVEA_I32, 2, lens_shape);
  fovea_masked_softmax_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  CHECK(fovea_masked_softmax(context, &t, &l, &t, &options) == FOVEA_OK);
  CHECK(x[0] == 1 && x[1] == 0 && x[2] == 0 && x[3] == 0);
  CHECK(near(x[4] + x[5] + x[6], 1) && x[7] == 0);
  CHECK(near(x[8], 0.5) && x[10] == 0);
  CHECK(near(x[15], 0.25));
}

static void test_softmax(const fovea_context *context) {
  float x[4] = {0, 1, 0, 0}, y[4];
  const fovea_tensor tx = tensor2(x, 2, 2), ty = tensor2(y, 2, 2);
  CHECK(fovea_softmax(context, &tx, 0, &ty) == FOVEA_OK);
  CHECK(y[0] == 0.5f && y[2] == 0.5f && near(y[1], exp(1.0) / (1 + exp(1.0))));
  CHECK(fovea_log_softmax(context, &tx, -1, &ty) == FOVEA_OK);
  CHECK(near(y[3], log(0.5)) && near(y[0], -log(1 + exp(1.0))));
}

static void test_building_blocks(const fovea_context *context) {
  float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4], x[4] = {0, 1, -1, 2};
  const fovea_tensor ta = tensor2(a, 2, 2), tb = tensor2(b, 2, 2), tc = tensor2(c, 2, 2), tx = tensor2(x, 2, 2);
  fovea_packed_matrix *packed = NULL;
  fovea_gemm_options options;
  CHECK(fovea_matmul(context, &ta, &tb, &tc) == FOVEA_OK);
  CHECK(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.alpha = 2;
  options.c = &tx;
  CHECK(fovea_gemm(context, &ta, &tb, &tc, &options) == FOVEA_OK);
  CHECK(c[0] == 38 && c[1] == 45 && c[2] == 85 && c[3] == 102);
  CHECK(fovea_matmul_pack(context, &tb, NULL, &packed) == FOVEA_OK);
  CHECK(fovea_packed_matrix_size(packed) > 0);
  memset(c, 0, sizeof c);
  CHECK(fovea_matmul_packed(context, &ta, packed, &tc) == FOVEA_OK);
  CHECK(c[0] == 19 && c[3] == 50);
  fovea_packed_matrix_destroy(packed);
  CHECK(fovea_exp(context, &tx, &tc) == FOVEA_OK);
  CHECK(c[0] == 1 && near(c[1], exp(1.0)) && near(c[3], exp(2.0)));
  CHECK(fovea_tanh(context, &tx, &tc) == FOVEA_OK);
  CHECK(c[0] == 0 && near(c[1], tanh(1.0)) && c[2] == -c[1]);
}

static void test_everything(const fovea_context *context) {
  test_sdpa(context);
  test_lengths_and_positions(context);
  test_merge_states(context);
  test_masked_softmax(context);
  test_softmax(context);
  test_building_blocks(context);
}

int main(void) {
  fovea_context_options options;
  fovea_context *context = NULL;
  int32_t n;
  test_names();
  test_everything(NULL);
  for (n = 0; fovea_isa_available(n) != NULL; ++n) {
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.max_isa = fovea_isa_available(n);
    options.max_threads = 2;
    options.parallel_for = backwards;
    options.parallel_for_user = &loop_calls;
    CHECK(fovea_context_create(&options, &context) == FOVEA_OK);
    CHECK(strcmp(fovea_isa_name(context), fovea_isa_available(n)) == 0);
    test_everything(context);
    fovea_context_destroy(context);
  }
  fovea_exp(NULL, NULL, NULL);
  CHECK(strlen(fovea_last_error()) > 0);
  char copy[4];
  CHECK(fovea_last_error_copy(copy, sizeof copy) == strlen(fovea_last_error()));
  CHECK(strlen(copy) == 3 && strncmp(copy, fovea_last_error(), 3) == 0);
  return finish();
}
