/* decoder: one plan, made for the most keys there can be, run at every step with the lengths there are.
 *
 *     cc decoder.c $(pkg-config --cflags --libs fovea) -lm -o decoder && ./decoder
 *
 * Two sequences begin with 3 and 5 tokens and grow by one token a step. Their keys and values lie in buffers with room for
 * CAPACITY; valid_lens says at each run how many count. So everything is checked, chosen and allocated once, and a run reads
 * no more than there is. The newest query attends to every key of its sequence, so nothing has to be causal. Each step is
 * compared with a call for each sequence alone. (What a model would compute is made up here.)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, CAPACITY = 16, DIM = 8, STEPS = 4 };

static float query[BATCH][HEADS][1][DIM], key[BATCH][KV_HEADS][CAPACITY][DIM], value[BATCH][KV_HEADS][CAPACITY][DIM];
static float out[BATCH][HEADS][1][DIM];

static void check(fovea_status status) {
  if (status == FOVEA_OK) return;
  fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  exit(1);
}

static fovea_tensor tensor4(const float *data, int64_t batch, int64_t heads, int64_t length) {
  const int64_t shape[] = {batch, heads, length, DIM};
  return fovea_tensor_contiguous(data, FOVEA_F32, 4, shape);
}

/* Stands for the model: the key and the value of one token. */
static void append(int b, int32_t *length) {
  for (int h = 0; h < KV_HEADS; ++h)
    for (int d = 0; d < DIM; ++d) {
      key[b][h][*length][d] = sinf((float)(7 * b + 3 * h + 5 * *length + d));
      value[b][h][*length][d] = cosf((float)(b + 2 * h + *length + 3 * d));
    }
  ++*length;
}

static void ask(int b, int step) {
  for (int h = 0; h < HEADS; ++h)
    for (int d = 0; d < DIM; ++d) query[b][h][0][d] = 2 * sinf((float)(b + h + d + 11 * step));
}

/* The same for one sequence by itself, on a view of as many keys as it has. Returns the largest difference. */
static double compare_with_one_call(int b, int32_t length) {
  float alone[HEADS][1][DIM];
  fovea_tensor q = tensor4(query[b][0][0], 1, HEADS, 1), o = tensor4(alone[0][0], 1, HEADS, 1);
  fovea_tensor k = tensor4(key[b][0][0], 1, KV_HEADS, CAPACITY), v = tensor4(value[b][0][0], 1, KV_HEADS, CAPACITY);
  k.shape[2] = v.shape[2] = length; /* the strides stay */
  check(fovea_sdpa(NULL, &q, &k, &v, &o, NULL));
  double largest = 0;
  for (int h = 0; h < HEADS; ++h)
    for (int d = 0; d < DIM; ++d) largest = fmax(largest, fabs(alone[h][0][d] - out[b][h][0][d]));
  return largest;
}

int main(void) {
  int32_t lengths[BATCH] = {0, 0};
  for (int i = 0; i < 3; ++i) append(0, &lengths[0]);
  for (int i = 0; i < 5; ++i) append(1, &lengths[1]);

  /* A plan is made without data: only shapes, strides and options count. */
  const int64_t lengths_shape[] = {BATCH};
  fovea_tensor q = tensor4(NULL, BATCH, HEADS, 1), k = tensor4(NULL, BATCH, KV_HEADS, CAPACITY);
  fovea_tensor valid_lens = fovea_tensor_contiguous(NULL, FOVEA_I32, 1, lengths_shape);
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens};
  fovea_plan *plan = NULL;
  check(fovea_sdpa_plan_create(NULL, &q, &k, &k, &q, &options, &plan));
  size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size ? size : 1);

  fovea_attention_buffers buffers = {.struct_size = sizeof buffers, .valid_lens = lengths};
  buffers.query = query[0][0][0];
  buffers.key = key[0][0][0];
  buffers.value = value[0][0][0];
  buffers.out = out[0][0][0];
  double largest = 0;
  for (int step = 0; workspace && step < STEPS; ++step) {
    for (int b = 0; b < BATCH; ++b) {
      append(b, &lengths[b]);
      ask(b, step);
    }
    check(fovea_attention_run(plan, &buffers, workspace, size));
    printf("step %d, lengths %d and %d: %.4f and %.4f\n", step, lengths[0], lengths[1], out[0][0][0][0],
           out[1][0][0][0]);
    for (int b = 0; b < BATCH; ++b) largest = fmax(largest, compare_with_one_call(b, lengths[b]));
  }
  free(workspace);
  fovea_plan_destroy(plan);
  if (!workspace || !(largest <= 1e-6)) {
    fprintf(stderr, "differs by %g from a call for each sequence\n", largest);
    return 1;
  }
  printf("the same as a call for each sequence\n");
  return 0;
}
