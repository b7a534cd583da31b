/* throughput: how fast the library is on this machine, as a short table.
 *
 * Each attention case is planned once and run with its own workspace, so that only the run is timed. Runs alternate
 * with bursts of what the case is compared with, since a shared machine changes its speed from one second to the
 * next; the median of the runs stands against the best of the bursts.
 *
 * Work counted: 4 B H Q K D floating-point operations for attention, half of it if causal, only the valid keys where
 * there are lengths; 2 M N K for a matrix product; for one-query attention and softmax, the bytes that must move.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "throughput.h"

#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>

#include "peak.h"

enum { MAX_ROUNDS = 32, MIN_ROUNDS = 4, RUNS_PER_ROUND = 4, MATRIX = 1024 };
enum { SOFTMAX_BATCH = 64, SOFTMAX_QUERIES = 512, SOFTMAX_KEYS = 512 };

static const double budget = 0.6; /* seconds per case */

typedef struct attention_case {
  const char *name, *shape;
  int64_t batch, heads, kv_heads, query_len, key_len, dim;
  uint32_t flags;
  int32_t shortest; /* valid lengths run evenly from here to key_len; 0: none */
} attention_case;

static const attention_case attention_cases[] = {
    {"bert_base", "B1 H12 L512 D64", 1, 12, 12, 512, 512, 64, 0, 0},
    {"bert_batch", "B8 H12 L128 D64, lengths 32..128", 8, 12, 12, 128, 128, 64, 0, 32},
    {"gpt2", "B1 H12 L1024 D64 causal", 1, 12, 12, 1024, 1024, 64, FOVEA_CAUSAL, 0},
    {"llama_prefill", "B1 H8 Hkv2 L2048 D128 causal", 1, 8, 2, 2048, 2048, 128, FOVEA_CAUSAL, 0},
    {"llama_decode", "B1 H32 Hkv8 Q1 K4096 D128", 1, 32, 8, 1, 4096, 128, 0, 0},
};

/* One measured thing: run(state) does it once. */
typedef struct timed_case {
  const char *name, *shape;
  fovea_status (*run)(void *state);
  void *state;
  double work; /* floating-point operations or bytes */
  char limit;  /* 'f' multiply-add, 'r' read, 'c' copy */
  float *from; /* for 'r' and 'c': what the limit is measured on */
  float *to;
  size_t bytes;
} timed_case;

static int threads;

static float *random_floats(size_t count) {
  float *numbers = malloc(count * sizeof *numbers);
  uint32_t state = 12345;
  for (size_t i = 0; numbers && i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
  }
  return numbers;
}

static double limit_rate(const timed_case *timed) {
  if (timed->limit == 'f') return peak_flops(fovea_isa_name(NULL), threads);
  if (timed->limit == 'r') return peak_read(timed->from, timed->bytes, threads);
  return peak_copy(timed->to, timed->from, timed->bytes, threads);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct measurement {
  double seconds; /* median of the runs */
  double limit;   /* best rate of the bursts */
} measurement;

/* Rounds of a burst at the limit, a run to warm up again and some timed runs, until the budget is spent. */
static fovea_status take_rounds(const timed_case *timed, measurement *result) {
  double seconds[MAX_ROUNDS * RUNS_PER_ROUND], begin = peak_now();
  int count = 0;
  result->limit = 0;
  for (int round = 0; round < MAX_ROUNDS && (round < MIN_ROUNDS || peak_now() - begin < budget); ++round) {
    double limit = limit_rate(timed);
    if (limit > result->limit) result->limit = limit;
    fovea_status status = timed->run(timed->state);
    for (int run = 0; status == FOVEA_OK && run < RUNS_PER_ROUND; ++run) {
      double start = peak_now();
      status = timed->run(timed->state);
      seconds[count++] = peak_now() - start;
    }
    if (status != FOVEA_OK) return status;
  }
  qsort(seconds, (size_t)count, sizeof *seconds, ascending);
  result->seconds = seconds[count / 2];
  return FOVEA_OK;
}

static int measure(const timed_case *timed) {
  measurement result;
  if (take_rounds(timed, &result) != FOVEA_OK) {
    fprintf(stderr, "%s: %s\n", timed->name, fovea_last_error());
    return -1;
  }
  double rate = timed->work / result.seconds;
  const char *unit = timed->limit == 'f' ? "GFLOP/s" : "GB/s";
  const char *what = timed->limit == 'f' ? "FMA" : timed->limit == 'r' ? "read" : "copy";
  printf("  %-15s %-33s %9.3f %8.1f %-7s %6.0f %% of %4.0f %s\n", timed->name, timed->shape, 1e3 * result.seconds,
         rate / 1e9, unit, 100 * rate / result.limit, result.limit / 1e9, what);
  fflush(stdout);
  return 0;
}

typedef struct planned_attention {
  fovea_plan *plan;
  fovea_attention_buffers buffers;
  void *workspace;
  size_t workspace_size;
} planned_attention;

static fovea_status run_attention(void *state) {
  planned_attention *planned = state;
  return fovea_attention_run(planned->plan, &planned->buffers, planned->workspace, planned->workspace_size);
}

static fovea_status plan_attention(const attention_case *item, planned_attention *planned) {
  const int64_t query_shape[] = {item->batch, item->heads, item->query_len, item->dim};
  const int64_t key_shape[] = {item->batch, item->kv_heads, item->key_len, item->dim};
  const int64_t lengths_shape[] = {item->batch};
  fovea_tensor query = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, query_shape);
  fovea_tensor key = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, key_shape);
  fovea_tensor valid_lens = fovea_tensor_contiguous(NULL, FOVEA_I32, 1, lengths_shape);
  fovea_attention_options options = {
      .struct_size = sizeof options, .flags = item->flags, .valid_lens = item->shortest ? &valid_lens : NULL};
  fovea_status status = fovea_sdpa_plan_create(NULL, &query, &key, &key, &query, &options, &planned->plan);
  if (status != FOVEA_OK) return status;
  planned->workspace_size = fovea_plan_workspace_size(planned->plan);
  planned->workspace = malloc(planned->workspace_size ? planned->workspace_size : 1);
  return planned->workspace ? FOVEA_OK : FOVEA_OUT_OF_MEMORY;
}

static int measure_attention(const attention_case *item) {
  size_t query_count = (size_t)(item->batch * item->heads * item->query_len * item->dim);
  size_t cache_count = (size_t)(item->batch * item->kv_heads * item->key_len * item->dim);
  float *query = random_floats(query_count), *out = malloc(query_count * sizeof *out);
  float *cache = random_floats(2 * cache_count); /* the keys, then the values */
  int32_t lengths[8];
  double keys = 0; /* valid, over the batch */
  for (int64_t b = 0; b < item->batch; ++b) {
    int64_t shortest = item->shortest ? item->shortest : item->key_len, steps = item->batch > 1 ? item->batch - 1 : 1;
    lengths[b] = (int32_t)(shortest + (item->key_len - shortest) * b / steps);
    keys += lengths[b];
  }
  planned_attention planned = {.buffers = {.struct_size = sizeof planned.buffers,
                                           .query = query,
                                           .key = cache,
                                           .value = cache ? cache + cache_count : NULL,
                                           .out = out,
                                           .valid_lens = item->shortest ? lengths : NULL}};
  timed_case timed = {item->name, item->shape, run_attention, &planned, 0, 'f', cache, NULL, 0};
  timed.work = 4.0 * keys * (double)(item->heads * item->query_len * item->dim);
  if (item->flags & FOVEA_CAUSAL) timed.work /= 2;
  if (item->query_len == 1) {
    timed.limit = 'r';
    timed.work = 2.0 * (double)cache_count * sizeof(float);
    timed.bytes = 2 * cache_count * sizeof(float);
  }
  int status = query && out && cache && plan_attention(item, &planned) == FOVEA_OK ? measure(&timed) : -1;
  if (!planned.workspace) fprintf(stderr, "%s: %s\n", item->name, fovea_last_error());
  fovea_plan_destroy(planned.plan);
  free(planned.workspace);
  free(query);
  free(out);
  free(cache);
  return status;
}

typedef struct softmax_call {
  fovea_tensor x, valid_lens, out;
} softmax_call;

static fovea_status run_softmax(void *state) {
  softmax_call *call = state;
  return fovea_masked_softmax(NULL, &call->x, &call->valid_lens, &call->out, NULL);
}

static int measure_softmax(void) {
  const int64_t shape[] = {SOFTMAX_BATCH, SOFTMAX_QUERIES, SOFTMAX_KEYS};
  size_t count = (size_t)SOFTMAX_BATCH * SOFTMAX_QUERIES * SOFTMAX_KEYS;
  float *x = random_floats(count), *out = random_floats(count);
  int32_t lengths[SOFTMAX_BATCH];
  double keys = 0;
  for (int b = 0; b < SOFTMAX_BATCH; ++b) keys += lengths[b] = SOFTMAX_KEYS * (b + 1) / SOFTMAX_BATCH;
  softmax_call call = {fovea_tensor_contiguous(x, FOVEA_F32, 3, shape),
                       fovea_tensor_contiguous(lengths, FOVEA_I32, 1, shape),
                       fovea_tensor_contiguous(out, FOVEA_F32, 3, shape)};
  timed_case timed = {"masked_softmax", "[64,512,512], lengths 8..512", run_softmax, &call, 0, 'c', x, out, 0};
  timed.bytes = count * sizeof(float);
  timed.work = sizeof(float) * (keys * SOFTMAX_QUERIES + (double)count); /* reads valid scores, writes all weights */
  int status = x && out ? measure(&timed) : -1;
  free(x);
  free(out);
  return status;
}

typedef struct matmul_call {
  fovea_tensor a, out;
  fovea_packed_matrix *b;
} matmul_call;

static fovea_status run_matmul(void *state) {
  matmul_call *call = state;
  return fovea_matmul_packed(NULL, &call->a, call->b, &call->out);
}

static int measure_matmul(void) {
  const int64_t shape[] = {MATRIX, MATRIX};
  size_t count = (size_t)MATRIX * MATRIX;
  float *a = random_floats(count), *b = random_floats(count), *out = malloc(count * sizeof *out);
  fovea_tensor b_view = fovea_tensor_contiguous(b, FOVEA_F32, 2, shape);
  matmul_call call = {.a = fovea_tensor_contiguous(a, FOVEA_F32, 2, shape),
                      .out = fovea_tensor_contiguous(out, FOVEA_F32, 2, shape)};
  timed_case timed = {
      "matmul", "1024 x 1024 x 1024, packed", run_matmul, &call, 2.0 * MATRIX * MATRIX * MATRIX, 'f', NULL, NULL, 0};
  int status = a && b && out && fovea_matmul_pack(NULL, &b_view, &call.b) == FOVEA_OK ? measure(&timed) : -1;
  if (!call.b) fprintf(stderr, "matmul: %s\n", fovea_last_error());
  fovea_packed_matrix_destroy(call.b);
  free(a);
  free(b);
  free(out);
  return status;
}

int throughput_run(void) {
  threads = fovea_context_threads(NULL) < 64 ? fovea_context_threads(NULL) : 64;
  printf("  %-15s %-33s %9s %16s %16s\n", "case", "shape", "ms", "rate", "share of limit");
  int status = 0;
  for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; ++i)
    status |= measure_attention(&attention_cases[i]);
  status |= measure_softmax();
  status |= measure_matmul();
  printf(
      "  %d threads, float32. A case is the median of its runs, its limit the best of bursts in between: FMA is\n"
      "  multiply-adds in registers, read and copy run over the case's own buffers. Times and shares vary from run to\n"
      "  run with the machine's other work.\n",
      threads);
  return status;
}
