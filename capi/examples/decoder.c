/* decoder: sequences of different lengths decoded together, from one pool of keys and values.
 *
 *     cc decoder.c $(pkg-config --cflags --libs fovea) -lm -o decoder && ./decoder
 *
 * A prompt of 12 tokens is read once; a second sequence begins as a fork of it, which shares its pages; a third joins with a
 * prompt of its own while the others go on by a token a step; the second one ends. Each step is one call a layer for all of
 * them: append what is new, attend. Nothing is padded, and a step is compared with a call for each sequence alone. (What a
 * model would compute is made up here from the numbers of tokens.)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 2, HEADS = 4, KV_HEADS = 2, DIM = 8, SEQUENCES = 3, MOST_TOKENS = 16, LONGEST = 32 };

typedef struct {
  int64_t number, length; /* in the pool; -1: not there */
  int tokens[LONGEST];
  int64_t fresh; /* how many of them this step brings */
} Sequence;

static float query[MOST_TOKENS][HEADS][DIM], key[MOST_TOKENS][KV_HEADS][DIM], value[MOST_TOKENS][KV_HEADS][DIM];
static float out[MOST_TOKENS][HEADS][DIM];

static void check(fovea_status status) {
  if (status == FOVEA_OK) return;
  fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  exit(1);
}

/* Stands for the model: a row of a token. */
static void make_rows(int token, int layer, int heads, float turn, float *row) {
  for (int n = 0; n < heads * DIM; ++n) row[n] = 2 * sinf(turn * (float)(7 * token + 3 * layer + n + 1));
}

static fovea_tensor rows_of(const float *data, int64_t tokens, int64_t heads) {
  const int64_t shape[] = {tokens, heads, DIM};
  return fovea_tensor_contiguous(data, FOVEA_F32, 3, shape);
}

static void add(Sequence *sequence, int token) {
  sequence->tokens[sequence->length++] = token;
  ++sequence->fresh;
}

/* The same for one sequence by itself. Returns the largest difference from its rows of out, which begin at `row`. */
static double compare(const Sequence *s, int layer, int64_t row) {
  static float q[LONGEST][HEADS][DIM], k[LONGEST][KV_HEADS][DIM], v[LONGEST][KV_HEADS][DIM], o[LONGEST][HEADS][DIM];
  const int64_t first = s->length - s->fresh;
  for (int64_t i = 0; i < s->length; ++i) {
    make_rows(s->tokens[i], layer, HEADS, 0.5f, q[i][0]);
    make_rows(s->tokens[i], layer, KV_HEADS, 0.3f, k[i][0]);
    make_rows(s->tokens[i], layer, KV_HEADS, 0.7f, v[i][0]);
  }
  const int64_t q_shape[] = {1, HEADS, s->fresh, DIM}, q_strides[] = {0, DIM, HEADS * DIM, 1};
  const int64_t k_shape[] = {1, KV_HEADS, s->length, DIM}, k_strides[] = {0, DIM, KV_HEADS * DIM, 1};
  fovea_tensor t[4] = {{q[first][0], FOVEA_F32, 4, {0}, {0}},
                       {k[0][0], FOVEA_F32, 4, {0}, {0}},
                       {v[0][0], FOVEA_F32, 4, {0}, {0}},
                       {o[0][0], FOVEA_F32, 4, {0}, {0}}};
  for (int n = 0; n < 4; ++n)
    for (int axis = 0; axis < 4; ++axis) {
      t[n].shape[axis] = n == 0 || n == 3 ? q_shape[axis] : k_shape[axis];
      t[n].strides[axis] = n == 0 || n == 3 ? q_strides[axis] : k_strides[axis];
    }
  const fovea_attention_options causal = {.struct_size = sizeof causal, .flags = FOVEA_CAUSAL};
  check(fovea_sdpa(NULL, &t[0], &t[1], &t[2], &t[3], &causal));
  const float *alone = o[0][0], *together = out[row][0];
  double largest = 0;
  for (int64_t n = 0; n < s->fresh * HEADS * DIM; ++n) largest = fmax(largest, fabs(alone[n] - together[n]));
  return largest;
}

/* One step of all sequences that are there. */
static double step(fovea_kv_pool *pool, fovea_schedule *schedule, Sequence *sequences) {
  int64_t numbers[SEQUENCES], fresh[SEQUENCES], starts[SEQUENCES], tokens = 0, count = 0;
  for (int s = 0; s < SEQUENCES; ++s) {
    if (sequences[s].number < 0) continue;
    numbers[count] = sequences[s].number;
    fresh[count++] = sequences[s].fresh;
    starts[s] = tokens;
    tokens += sequences[s].fresh;
  }
  fovea_tensor which = fovea_tensor_contiguous(numbers, FOVEA_I64, 1, &count);
  fovea_tensor grow = fovea_tensor_contiguous(fresh, FOVEA_I64, 1, &count);
  fovea_step plan;
  check(fovea_kv_pool_step(NULL, pool, &which, &grow, &plan)); /* room, for all layers */
  check(fovea_schedule_set(schedule, &plan));                  /* checked, and cut into tasks, once for all layers */
  double largest = 0;
  for (int layer = 0; layer < LAYERS; ++layer) {
    int64_t row = 0;
    for (int s = 0; s < SEQUENCES; ++s)
      for (int64_t i = sequences[s].length - sequences[s].fresh; sequences[s].number >= 0 && i < sequences[s].length;
           ++i) {
        make_rows(sequences[s].tokens[i], layer, HEADS, 0.5f, query[row][0]);
        make_rows(sequences[s].tokens[i], layer, KV_HEADS, 0.3f, key[row][0]);
        make_rows(sequences[s].tokens[i], layer, KV_HEADS, 0.7f, value[row++][0]);
      }
    fovea_tensor k = rows_of(key[0][0], tokens, KV_HEADS), v = rows_of(value[0][0], tokens, KV_HEADS);
    fovea_tensor keys = fovea_kv_pool_keys(pool, layer), values = fovea_kv_pool_values(pool, layer);
    check(fovea_schedule_append(schedule, &k, &v, &keys, &values, NULL));
    fovea_attention_buffers buffers = {.struct_size = sizeof buffers, .query = query, .out = out};
    buffers.key = keys.data;
    buffers.value = values.data;
    check(fovea_schedule_run(schedule, &buffers, NULL, 0));
    for (int s = 0; s < SEQUENCES; ++s)
      if (sequences[s].number >= 0) largest = fmax(largest, compare(&sequences[s], layer, starts[s]));
  }
  printf("%2d tokens; lengths", (int)tokens);
  for (int s = 0; s < SEQUENCES; ++s) {
    if (sequences[s].number >= 0) printf(" %d", (int)sequences[s].length);
    sequences[s].fresh = 0;
  }
  printf("; %d pages free; %.4f\n", (int)fovea_kv_pool_free_pages(pool), out[tokens - 1][0][0]);
  return largest;
}

int main(void) {
  const fovea_kv_pool_sizes sizes = {.struct_size = sizeof sizes,
                                     .layers = LAYERS,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = DIM,
                                     .positions = 64,
                                     .page_size = 8,
                                     .sequences = SEQUENCES};
  fovea_kv_pool *pool = NULL;
  check(fovea_kv_pool_create(&sizes, &pool));

  /* A schedule is made without data, for the most that a step may bring. */
  fovea_tensor rows = rows_of(NULL, MOST_TOKENS, HEADS), keys = fovea_kv_pool_keys(pool, 0),
               values = fovea_kv_pool_values(pool, 0);
  const fovea_attention_options causal = {.struct_size = sizeof causal, .flags = FOVEA_CAUSAL};
  const fovea_schedule_limits limits = {.struct_size = sizeof limits, .sequences = SEQUENCES};
  fovea_schedule *schedule = NULL;
  check(fovea_schedule_create(NULL, NULL, &rows, &keys, &values, &rows, &causal, &limits, &schedule));

  Sequence sequences[SEQUENCES] = {{.number = -1}, {.number = -1}, {.number = -1}};
  check(fovea_kv_pool_open(pool, &sequences[0].number));
  for (int n = 0; n < 12; ++n) add(&sequences[0], n);
  double largest = step(pool, schedule, sequences);

  sequences[1] = sequences[0]; /* begins alike, and goes on otherwise */
  check(fovea_kv_pool_fork(pool, sequences[0].number, 12, &sequences[1].number));
  for (int n = 0; n < 4; ++n) {
    if (n == 1) { /* joins */
      check(fovea_kv_pool_open(pool, &sequences[2].number));
      for (int token = 50; token < 57; ++token) add(&sequences[2], token);
    }
    if (n == 3) { /* ends */
      check(fovea_kv_pool_close(pool, sequences[1].number));
      sequences[1].number = -1;
    }
    add(&sequences[0], 20 + n);
    if (n < 3) add(&sequences[1], 30 + n);
    if (n > 1) add(&sequences[2], 60 + n);
    largest = fmax(largest, step(pool, schedule, sequences));
  }
  fovea_schedule_destroy(schedule);
  fovea_kv_pool_destroy(pool);
  if (!(largest <= 1e-5)) {
    fprintf(stderr, "differs by %g from a call for each sequence\n", largest);
    return 1;
  }
  printf("the same as a call for each sequence\n");
  return 0;
}
