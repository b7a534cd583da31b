/* small_cache: keys and values kept in float32, in 16, in 8 and in 4 bits: what a position then takes, and how far what
 * attention gives of values from -1 to 1 is off (root mean square).
 *
 *     cc small_cache.c $(pkg-config --cflags --libs fovea) -lm -o small_cache && ./small_cache
 *
 * A pool is told the types; all else of a decoder's loop stays as it is (decoder.c), but that numbers of 8 and 4 bits have
 * scales beside them, which the pool has for each layer: a schedule is made with them, what is appended fills them, and a
 * run reads them. Queries, new keys and values, and what comes out are float32 for every cache here, and may be of 16 bits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 64, PROMPT = 40, STEPS = 3, POSITIONS = 64 };

typedef struct {
  const char *name;
  fovea_dtype key, value;
} Cache;

static float query[PROMPT][HEADS][DIM], key[PROMPT][KV_HEADS][DIM], value[PROMPT][KV_HEADS][DIM];

static void check(fovea_status status) {
  if (status == FOVEA_OK) return;
  fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  exit(1);
}

static fovea_tensor rows_of(const float *data, int64_t tokens, int64_t heads) {
  const int64_t shape[] = {tokens, heads, DIM};
  return fovea_tensor_contiguous(data, FOVEA_F32, 3, shape);
}

/* Stands for the model: rows of tokens from `first` on. */
static void make_rows(int64_t first, int64_t tokens, int64_t heads, float turn, float *rows) {
  for (int64_t n = 0; n < tokens * heads * DIM; ++n) rows[n] = sinf(turn * (float)((first * heads * DIM + n) % 8191));
}

/* A prompt, then tokens one by one; out gets the rows of the last one. Returns the bytes of a position. */
static int decode(const Cache *cache, float out[PROMPT][HEADS][DIM]) {
  const fovea_kv_pool_sizes sizes = {.struct_size = sizeof sizes,
                                     .layers = 1,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = DIM,
                                     .positions = POSITIONS,
                                     .page_size = 16,
                                     .sequences = 1,
                                     .key_dtype = cache->key,
                                     .value_dtype = cache->value};
  fovea_kv_pool *pool = NULL;
  check(fovea_kv_pool_create(&sizes, &pool));
  fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);

  /* The scales of layer 0. What has none gives a tensor of rank -1, and options then want NULL. */
  fovea_tensor key_scales = fovea_kv_pool_key_scales(pool, 0), value_scales = fovea_kv_pool_value_scales(pool, 0);
  const fovea_tensor *of_keys = key_scales.rank < 0 ? NULL : &key_scales;
  const fovea_tensor *of_values = value_scales.rank < 0 ? NULL : &value_scales;

  fovea_tensor most = rows_of(NULL, PROMPT, HEADS);
  const fovea_attention_options options = {
      .struct_size = sizeof options, .flags = FOVEA_CAUSAL, .key_scales = of_keys, .value_scales = of_values};
  const fovea_schedule_limits limits = {.struct_size = sizeof limits, .sequences = 1};
  fovea_schedule *schedule = NULL;
  check(fovea_schedule_create(NULL, NULL, &most, &keys, &values, &most, &options, &limits, &schedule));

  int64_t sequence = 0, length = 0;
  const int64_t one = 1;
  check(fovea_kv_pool_open(pool, &sequence));
  for (int n = 0; n <= STEPS; ++n) {
    const int64_t tokens = n == 0 ? PROMPT : 1;
    make_rows(length, tokens, HEADS, 0.37f, query[0][0]);
    make_rows(length, tokens, KV_HEADS, 0.23f, key[0][0]);
    make_rows(length, tokens, KV_HEADS, 0.71f, value[0][0]);
    fovea_tensor which = fovea_tensor_contiguous(&sequence, FOVEA_I64, 1, &one);
    fovea_tensor grow = fovea_tensor_contiguous(&tokens, FOVEA_I64, 1, &one);
    fovea_step step;
    check(fovea_kv_pool_step(NULL, pool, &which, &grow, &step));
    check(fovea_schedule_set(schedule, &step));

    fovea_tensor k = rows_of(key[0][0], tokens, KV_HEADS), v = rows_of(value[0][0], tokens, KV_HEADS);
    const fovea_append_options append = {
        .struct_size = sizeof append, .key_scales = of_keys, .value_scales = of_values};
    check(fovea_schedule_append(schedule, &k, &v, &keys, &values, &append)); /* rounds as fovea_quantize does */

    fovea_attention_buffers buffers = {.struct_size = sizeof buffers, .query = query, .out = out};
    buffers.key = keys.data;
    buffers.value = values.data;
    buffers.key_scales = of_keys == NULL ? NULL : of_keys->data;
    buffers.value_scales = of_values == NULL ? NULL : of_values->data;
    check(fovea_schedule_run(schedule, &buffers, NULL, 0));
    length += tokens;
  }
  const int bytes = (int)(fovea_kv_pool_size(pool) / POSITIONS);
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
  return bytes;
}

int main(void) {
  const Cache caches[] = {{"float32", FOVEA_F32, FOVEA_F32},
                          {"bfloat16", FOVEA_BF16, FOVEA_BF16},
                          {"8 bits", FOVEA_I8, FOVEA_I8},
                          {"keys in 8 bits, values in 4", FOVEA_I8, FOVEA_U8}};
  static float exact[PROMPT][HEADS][DIM], out[PROMPT][HEADS][DIM];
  for (int n = 0; n < 4; ++n) {
    const int bytes = decode(&caches[n], n == 0 ? exact : out);
    double squares = 0;
    for (int h = 0; n > 0 && h < HEADS; ++h)
      for (int d = 0; d < DIM; ++d) squares += pow(out[0][h][d] - exact[0][h][d], 2);
    printf("%-28s %4d bytes a position, off by %.4f\n", caches[n].name, bytes, sqrt(squares / (HEADS * DIM)));
  }
  return 0;
}
