/* Every function of serving.h, and 8-bit rows, called from strict C99, with results that can be told by hand. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static fovea_tensor floats(float *data, int64_t tokens) { /* [tokens,1,2] */
  int64_t shape[3];
  shape[0] = tokens;
  shape[1] = 1;
  shape[2] = 2;
  return fovea_tensor_contiguous(data, FOVEA_F32, 3, shape);
}

static fovea_tensor numbers(const int64_t *data, int64_t count) {
  return fovea_tensor_contiguous(data, FOVEA_I64, 1, &count);
}

static fovea_kv_pool *make_pool(fovea_dtype dtype) {
  fovea_kv_pool_sizes sizes;
  fovea_kv_pool *pool = NULL;
  memset(&sizes, 0, sizeof sizes);
  sizes.struct_size = sizeof sizes;
  sizes.layers = 1;
  sizes.kv_heads = 1;
  sizes.head_dim = 2;
  sizes.positions = 12;
  sizes.page_size = 2;
  sizes.sequences = 4;
  sizes.key_dtype = dtype;
  CHECK(fovea_kv_pool_create(&sizes, &pool) == FOVEA_OK);
  return pool;
}

/* Of up to three tokens of two sequences. */
static fovea_schedule *make_schedule(const fovea_kv_pool *pool) {
  const fovea_tensor rows = floats(NULL, 3), keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
  fovea_schedule_limits limits;
  fovea_attention_options options;
  fovea_schedule *schedule = NULL;
  memset(&limits, 0, sizeof limits);
  memset(&options, 0, sizeof options);
  limits.struct_size = sizeof limits;
  limits.sequences = 2;
  options.struct_size = sizeof options;
  options.flags = FOVEA_CAUSAL;
  CHECK(fovea_schedule_create(NULL, NULL, &rows, &keys, &values, &rows, &options, &limits, &schedule) == FOVEA_OK);
  return schedule;
}

static void grow(fovea_kv_pool *pool, fovea_schedule *schedule, int64_t a, int64_t tokens_of_a, int64_t b,
                 int64_t tokens_of_b) {
  int64_t sequences[2], tokens[2];
  fovea_tensor s, t;
  fovea_step step;
  sequences[0] = a;
  sequences[1] = b;
  tokens[0] = tokens_of_a;
  tokens[1] = tokens_of_b;
  s = numbers(sequences, 2);
  t = numbers(tokens, 2);
  CHECK(fovea_kv_pool_step(NULL, pool, &s, &t, &step) == FOVEA_OK);
  CHECK(fovea_schedule_set(schedule, &step) == FOVEA_OK);
}

static void append(const fovea_kv_pool *pool, const fovea_schedule *schedule, float *key, float *value,
                   int64_t tokens) {
  const fovea_tensor k = floats(key, tokens), v = floats(value, tokens);
  const fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
  CHECK(fovea_schedule_append(schedule, &k, &v, &keys, &values, NULL) == FOVEA_OK);
}

static fovea_attention_buffers buffers_of(const fovea_kv_pool *pool, float *query, float *out) {
  fovea_attention_buffers buffers;
  memset(&buffers, 0, sizeof buffers);
  buffers.struct_size = sizeof buffers;
  buffers.query = query;
  buffers.key = fovea_kv_pool_keys(pool, 0).data;
  buffers.value = fovea_kv_pool_values(pool, 0).data;
  buffers.out = out;
  return buffers;
}

/* All keys are alike: results are means of values. */
static void test_steps(void) {
  float key[6] = {1, 0, 1, 0, 1, 0}, value[6] = {2, 4, 6, 8, 100, 200}, query[6] = {3, 3, 3, 3, 3, 3}, out[6];
  float next[4] = {10, 12, 300, 400}, shared[2] = {0, 3};
  fovea_kv_pool *pool = make_pool(FOVEA_F32);
  fovea_schedule *schedule = make_schedule(pool);
  fovea_attention_buffers buffers = buffers_of(pool, query, out);
  int64_t a = -1, b = -1, forked = -1, phase;
  size_t size;
  void *workspace;
  char text[400];
  CHECK(fovea_kv_pool_open(pool, &a) == FOVEA_OK && fovea_kv_pool_open(pool, &b) == FOVEA_OK);
  grow(pool, schedule, a, 2, b, 1);
  append(pool, schedule, key, value, 3);
  CHECK(fovea_schedule_run(schedule, &buffers, NULL, 0) == FOVEA_OK);
  CHECK(near(out[0], 2) && near(out[1], 4) && near(out[2], 4) && near(out[3], 6));
  CHECK(near(out[4], 100) && near(out[5], 200));
  grow(pool, schedule, a, 1, b, 1);
  CHECK(((const int32_t *)fovea_schedule_positions(schedule).data)[0] == 2);
  append(pool, schedule, key, next, 2);
  CHECK(fovea_schedule_describe(schedule, text, sizeof text) > 0 && strncmp(text, "op=ragged", 9) == 0);
  size = fovea_schedule_workspace_size(schedule);
  workspace = malloc(size);
  CHECK(fovea_schedule_phases(schedule) > 0);
  for (phase = 0; phase < fovea_schedule_phases(schedule); ++phase) {
    CHECK(fovea_schedule_run_tasks(schedule, &buffers, workspace, size, phase, 0, fovea_schedule_tasks(schedule, phase),
                                   0) == FOVEA_OK);
  }
  CHECK(near(out[0], 6) && near(out[1], 8) && near(out[2], 200) && near(out[3], 300));
  free(workspace);
  /* A sequence that begins as the first two tokens, and goes on otherwise. */
  CHECK(fovea_kv_pool_fork(pool, a, 2, &forked) == FOVEA_OK && fovea_kv_pool_length(pool, forked) == 2);
  grow(pool, schedule, forked, 1, a, 0);
  append(pool, schedule, key, shared, 1);
  CHECK(fovea_schedule_run(schedule, &buffers, NULL, 0) == FOVEA_OK);
  CHECK(near(out[0], 8.0 / 3) && near(out[1], 5));
  CHECK(fovea_kv_pool_close(pool, forked) == FOVEA_OK && fovea_kv_pool_length(pool, forked) == -1);
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
}

static void test_sequences(void) {
  float key[2] = {1, 0}, value[2] = {2, 4};
  fovea_kv_pool *pool = make_pool(FOVEA_F32);
  fovea_schedule *schedule = make_schedule(pool);
  int64_t a = -1, b = -1, restored = -1;
  size_t size;
  void *bytes;
  CHECK(fovea_kv_pool_size(pool) >= 12 * 4 * sizeof(float) && fovea_kv_pool_free_pages(pool) == 6);
  CHECK(fovea_kv_pool_open(pool, &a) == FOVEA_OK && fovea_kv_pool_open(pool, &b) == FOVEA_OK);
  grow(pool, schedule, a, 1, b, 0);
  append(pool, schedule, key, value, 1);
  size = fovea_kv_pool_saved_size(pool, a);
  bytes = malloc(size);
  CHECK(fovea_kv_pool_save(pool, a, bytes, size) == FOVEA_OK);
  CHECK(fovea_kv_pool_restore(pool, bytes, size, &restored) == FOVEA_OK);
  CHECK(fovea_kv_pool_length(pool, restored) == 1 && fovea_kv_pool_free_pages(pool) == 4);
  free(bytes);
  CHECK(fovea_kv_pool_truncate(pool, a, 0) == FOVEA_OK && fovea_kv_pool_length(pool, a) == 0);
  CHECK(fovea_kv_pool_drop(pool, restored, 1) == FOVEA_OK && fovea_kv_pool_length(pool, restored) == 1);
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
}

static void test_multi_head(void) {
  float identity[4] = {1, 0, 0, 1}, x[4] = {1, 2, 1, 2}, out[4];
  const int64_t square[2] = {2, 2};
  const fovea_tensor ti = fovea_tensor_contiguous(identity, FOVEA_F32, 2, square);
  const fovea_tensor tx = fovea_tensor_contiguous(x, FOVEA_F32, 2, square);
  const fovea_tensor to = fovea_tensor_contiguous(out, FOVEA_F32, 2, square);
  fovea_kv_pool *pool = make_pool(FOVEA_F32);
  fovea_schedule *schedule = make_schedule(pool);
  const fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
  fovea_mha_parameters parameters;
  fovea_mha_options options;
  int64_t a = -1, b = -1;
  memset(&parameters, 0, sizeof parameters);
  memset(&options, 0, sizeof options);
  parameters.struct_size = sizeof parameters;
  parameters.heads = 1;
  parameters.query_weight = parameters.key_weight = parameters.value_weight = parameters.out_weight = &ti;
  options.struct_size = sizeof options;
  options.schedule = schedule;
  options.key_pages = &keys;
  options.value_pages = &values;
  CHECK(fovea_kv_pool_open(pool, &a) == FOVEA_OK && fovea_kv_pool_open(pool, &b) == FOVEA_OK);
  grow(pool, schedule, a, 1, b, 1);
  CHECK(fovea_multi_head_attention_once(NULL, &parameters, &tx, NULL, NULL, &to, &options) == FOVEA_OK);
  CHECK(near(out[0], 1) && near(out[1], 2) && near(out[2], 1) && near(out[3], 2));
  memset(out, 0, sizeof out);
  options.flags = FOVEA_MHA_KEEP_PAGES;
  CHECK(fovea_multi_head_attention_once(NULL, &parameters, &tx, NULL, NULL, &to, &options) == FOVEA_OK);
  CHECK(near(out[0], 1) && near(out[3], 2));
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
}

static void test_eight_bits(void) {
  float x[4] = {127, -64, 0, 0}, back[4];
  int8_t rows[4];
  uint16_t scales[2];
  const int64_t square[2] = {2, 2}, column[2] = {2, 1};
  const fovea_tensor tx = fovea_tensor_contiguous(x, FOVEA_F32, 2, square);
  const fovea_tensor tr = fovea_tensor_contiguous(rows, FOVEA_I8, 2, square);
  const fovea_tensor ts = fovea_tensor_contiguous(scales, FOVEA_F16, 2, column);
  const fovea_tensor tb = fovea_tensor_contiguous(back, FOVEA_F32, 2, square);
  fovea_kv_pool *pool = make_pool(FOVEA_I8);
  CHECK(fovea_quantize(NULL, &tx, &tr, &ts) == FOVEA_OK);
  CHECK(rows[0] == 127 && rows[1] == -64 && rows[2] == 0 && scales[0] == 0x3c00 && scales[1] == 0);
  CHECK(fovea_dequantize(NULL, &tr, &ts, &tb) == FOVEA_OK);
  CHECK(back[0] == 127 && back[1] == -64 && back[3] == 0);
  CHECK(fovea_kv_pool_key_scales(pool, 0).dtype == FOVEA_F16 && fovea_kv_pool_value_scales(pool, 0).rank == 4);
  fovea_kv_pool_destroy(pool);
}

int main(void) {
  test_steps();
  test_sequences();
  test_multi_head();
  test_eight_bits();
  return finish();
}
