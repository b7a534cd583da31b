/* scores: attention with other score functions than the dot product, and what goes with them.
 *
 *     cc scores.c $(pkg-config --cflags --libs fovea) -o scores && ./scores
 *
 * Additive attention, in one call and as a decoder's loop over prepared keys; concat; bilinear; Gaussian; kernel
 * regression; dropout; sinusoidal and rotary positions. Each function stands by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>

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

static void check(fovea_status status) {
  if (status == FOVEA_OK) return;
  fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  exit(1);
}

static void print(const char *what, const float *values, int count) {
  printf("%s:", what);
  for (int i = 0; i < count; ++i) printf(" %.4f", values[i] + 0.0f);
  printf("\n");
}

/* Queries of 3 features ask keys of 2, in 4 hidden units. */
enum { QUERY_DIM = 3, KEY_DIM = 2, UNITS = 4, KEYS = 3, BATCH = 2 };
static const float query_weight[UNITS * QUERY_DIM] = {1, 0, -1, 0, 1, 0.5f, -1, 1, 0, 0.5f, 0, 1};
static const float key_weight[UNITS * KEY_DIM] = {1, 0, 0, 1, -1, 1, 0.5f, 0.5f};
static const float score_vector[UNITS] = {2, -1, 1, 1.5f};
static const float query[BATCH * QUERY_DIM] = {1, 0, 0, 0, 1, -1};
static const float key[BATCH * KEYS * KEY_DIM] = {1, 0, 0, 1, -1, -1, 1, 0, 0, 1, -1, -1};
static const float value[BATCH * KEYS] = {1, 2, 3, 1, 2, 3};

/* v . tanh(Wq q + Wk k), two sequences of one query each; the second has only 2 keys. */
static void additive(void) {
  fovea_tensor wq = matrix(query_weight, UNITS, QUERY_DIM), wk = matrix(key_weight, UNITS, KEY_DIM);
  fovea_tensor wv = vector(score_vector, UNITS);
  fovea_score score = {
      .struct_size = sizeof score, .kind = FOVEA_SCORE_ADDITIVE, .query_weight = &wq, .key_weight = &wk};
  score.score_vector = &wv;

  const int32_t lengths[BATCH] = {3, 2};
  const int64_t lengths_shape[] = {BATCH};
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, lengths_shape);
  float weight[BATCH * KEYS], out[BATCH];
  fovea_tensor weights = batch(weight, BATCH, 1, KEYS), o = batch(out, BATCH, 1, 1);
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens, .weights = &weights};

  fovea_tensor q = batch(query, BATCH, 1, QUERY_DIM), k = batch(key, BATCH, KEYS, KEY_DIM);
  fovea_tensor v = batch(value, BATCH, KEYS, 1);
  check(fovea_attention(NULL, &score, &q, &k, &v, &o, &options));
  print("additive, weights of sequence 0", weight, KEYS);
  print("additive, weights of sequence 1", weight + KEYS, KEYS);
  print("additive, outputs", out, BATCH);
}

/* A decoder asks the same keys at every step: they are projected once, and the step is planned, so that the loop
 * allocates nothing. Its state here is its last output, which goes back into the query. */
static void decoder(void) {
  fovea_tensor wq = matrix(query_weight, UNITS, QUERY_DIM), wk = matrix(key_weight, UNITS, KEY_DIM);
  fovea_tensor wv = vector(score_vector, UNITS);
  fovea_score score = {
      .struct_size = sizeof score, .kind = FOVEA_SCORE_ADDITIVE, .query_weight = &wq, .key_weight = &wk};
  score.score_vector = &wv;

  const fovea_prepared_keys_sizes sizes = {.struct_size = sizeof sizes,
                                           .batch = 1,
                                           .kv_heads = 1,
                                           .capacity = KEYS,
                                           .query_dim = QUERY_DIM,
                                           .key_dim = KEY_DIM};
  fovea_prepared_keys *keys = NULL;
  check(fovea_prepared_keys_create(NULL, &score, &sizes, &keys));
  fovea_tensor k = matrix(key, KEYS, KEY_DIM), v = matrix(value, KEYS, 1);
  check(fovea_prepared_keys_append(NULL, keys, &k));

  float state[QUERY_DIM] = {1, 0, 0}, out[3];
  fovea_tensor q = matrix(state, 1, QUERY_DIM), o = matrix(out, 1, 1);
  fovea_plan *plan = NULL;
  check(fovea_attention_prepared_plan_create(NULL, &q, keys, &v, &o, NULL, &plan));
  const size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size);
  fovea_attention_buffers buffers = {.struct_size = sizeof buffers, .query = state, .value = value};
  for (int step = 0; step < 3; ++step) {
    buffers.out = out + step;
    check(fovea_attention_run(plan, &buffers, workspace, size));
    state[2] = out[step];
  }
  free(workspace);
  fovea_plan_destroy(plan);
  fovea_prepared_keys_destroy(keys);
  print("decoder, three steps", out, 3);
}

/* v . tanh(W [q; k] + b): the additive weights side by side in one, [Wq, Wk], and a bias for each hidden unit. */
static void concat(void) {
  const float weight[UNITS * (QUERY_DIM + KEY_DIM)] = {1,  0, -1, 1,  0, 0,    1, 0.5f, 0,    1,
                                                       -1, 1, 0,  -1, 1, 0.5f, 0, 1,    0.5f, 0.5f};
  const float bias[UNITS] = {1, -1, 0, 1};
  fovea_tensor w = matrix(weight, UNITS, QUERY_DIM + KEY_DIM), b = vector(bias, UNITS);
  fovea_tensor wv = vector(score_vector, UNITS);
  fovea_score score = {.struct_size = sizeof score, .kind = FOVEA_SCORE_CONCAT, .weight = &w, .bias = &b};
  score.score_vector = &wv;
  float out[BATCH];
  fovea_tensor q = matrix(query, BATCH, QUERY_DIM), k = matrix(key, KEYS, KEY_DIM), v = matrix(value, KEYS, 1);
  fovea_tensor o = matrix(out, BATCH, 1);
  check(fovea_attention(NULL, &score, &q, &k, &v, &o, NULL));
  print("concat, outputs", out, BATCH);
}

/* q^T W k: sizes may differ here, too. */
static void bilinear(void) {
  const float weight[QUERY_DIM * KEY_DIM] = {1, 0, 0, 2, -1, 1};
  fovea_tensor w = matrix(weight, QUERY_DIM, KEY_DIM);
  fovea_score score = {.struct_size = sizeof score, .kind = FOVEA_SCORE_BILINEAR, .weight = &w};
  float out[BATCH];
  fovea_tensor q = matrix(query, BATCH, QUERY_DIM), k = matrix(key, KEYS, KEY_DIM), v = matrix(value, KEYS, 1);
  fovea_tensor o = matrix(out, BATCH, 1);
  check(fovea_attention(NULL, &score, &q, &k, &v, &o, NULL));
  print("bilinear, outputs", out, BATCH);
}

/* -|q - k|^2 / (2 sigma^2): the nearer a key, the more it counts. */
static void gaussian(void) {
  fovea_score score = {.struct_size = sizeof score, .kind = FOVEA_SCORE_GAUSSIAN, .sigma = 0.5f};
  const float where[2] = {0.75f, 0};
  float out[1];
  fovea_tensor q = matrix(where, 1, KEY_DIM), k = matrix(key, KEYS, KEY_DIM), v = matrix(value, KEYS, 1);
  fovea_tensor o = matrix(out, 1, 1);
  check(fovea_attention(NULL, &score, &q, &k, &v, &o, NULL));
  print("gaussian, output", out, 1);
}

/* Smoothing y over x; and each y predicted from all the others, whose error tells a good width from a bad one. */
static void regression(void) {
  enum { POINTS = 6 };
  const float x[POINTS] = {0, 1, 2, 3, 4, 5}, y[POINTS] = {0.1f, 0.9f, 2.2f, 2.8f, 4.1f, 5};
  float fitted[POINTS], predicted[POINTS];
  fovea_tensor inputs = vector(x, POINTS), targets = vector(y, POINTS), out = vector(fitted, POINTS);
  fovea_kernel_regression_options options = {.struct_size = sizeof options, .sigma = 0.5f};
  check(fovea_kernel_regression(NULL, &inputs, &inputs, &targets, &out, &options));
  print("kernel regression, fitted", fitted, POINTS);

  options.flags = FOVEA_LEAVE_ONE_OUT;
  out.data = predicted;
  check(fovea_kernel_regression(NULL, &inputs, &inputs, &targets, &out, &options));
  print("kernel regression, leave one out", predicted, POINTS);
}

/* Half of eight equal weights are dropped, on average, and the others doubled; the seed says which. */
static void dropout(void) {
  enum { MANY = 8 };
  const float zeros[MANY * 2] = {0}, ones[MANY] = {1, 1, 1, 1, 1, 1, 1, 1};
  float weight[MANY] = {0}, out[1] = {0};
  fovea_tensor weights = matrix(weight, 1, MANY);
  fovea_attention_options options = {
      .struct_size = sizeof options, .weights = &weights, .dropout = 0.5f, .dropout_seed = 7};
  fovea_tensor q = matrix(zeros, 1, 2), k = matrix(zeros, MANY, 2), v = matrix(ones, MANY, 1), o = matrix(out, 1, 1);
  check(fovea_sdpa(NULL, &q, &k, &v, &o, &options));
  print("dropout, weights", weight, MANY);
}

/* A token at position 2: what the sinusoidal encoding adds, and how the rotary one turns it. */
static void positions(void) {
  const float token[4] = {1, 0, 1, 0};
  float added[4], turned[4];
  fovea_tensor x = matrix(token, 1, 4), sum = matrix(added, 1, 4), rotated = matrix(turned, 1, 4);
  fovea_positional_encoding_options sinusoidal = {.struct_size = sizeof sinusoidal, .offset = 2};
  check(fovea_add_positional_encoding(NULL, &x, &sum, &sinusoidal));
  print("sinusoidal, token + encoding", added, 4);

  fovea_rotary_options rotary = {.struct_size = sizeof rotary, .flags = FOVEA_ROTARY_INTERLEAVED, .offset = 2};
  check(fovea_rotary(NULL, &x, &rotated, &rotary));
  print("rotary, token turned", turned, 4);
}

int main(void) {
  additive();
  decoder();
  concat();
  bilinear();
  gaussian();
  regression();
  dropout();
  positions();
  return 0;
}
