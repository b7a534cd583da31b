/* peak: what this machine can do at most: multiply-add rate, read rate, copy rate.
 *
 * The multiply-add loop keeps 12 independent accumulators in registers: more than the 8 that two units of latency 4
 * need, and with two constants still within the 16 registers of SSE2 and AVX2. Compile with -ffp-contract=fast, or a*b
 * + c stays two instructions. Each call is one burst of a few milliseconds: the best of several is the peak.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200112L /* clock_gettime, pthreads */
#include "peak.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, ACCUMULATORS = 12 };

typedef struct peak_work {
  const char *isa;
  float *to;
  const float *from;
  size_t floats; /* of each thread's share */
  long repeats;
} peak_work;

typedef void (*peak_body)(const peak_work *work, int thread);

typedef struct peak_task {
  peak_body body;
  const peak_work *work;
  int thread;
  double start, end;
} peak_task;

static volatile float sink; /* keeps results from being optimised away */

double peak_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *run_task(void *pointer) {
  peak_task *task = pointer;
  task->start = peak_now();
  task->body(task->work, task->thread);
  task->end = peak_now();
  return NULL;
}

/* Seconds from the first thread's start to the last one's end. */
static double burst_seconds(peak_body body, const peak_work *work, int threads) {
  peak_task tasks[MAX_THREADS];
  pthread_t handles[MAX_THREADS];
  int started[MAX_THREADS] = {0};
  for (int i = 0; i < threads; ++i) tasks[i] = (peak_task){body, work, i, 0, 0};
  for (int i = 1; i < threads; ++i) started[i] = pthread_create(&handles[i], NULL, run_task, &tasks[i]) == 0;
  run_task(&tasks[0]);
  double start = tasks[0].start, end = tasks[0].end;
  for (int i = 1; i < threads; ++i) {
    if (started[i]) pthread_join(handles[i], NULL);
    if (!started[i]) run_task(&tasks[i]);
    if (tasks[i].start < start) start = tasks[i].start;
    if (tasks[i].end > end) end = tasks[i].end;
  }
  return end - start;
}

#define MULTIPLY_ADD_LOOP(name, target, bytes)                                                  \
  target static float name(long repeats, float factor, float term) {                            \
    typedef float vector __attribute__((vector_size(bytes)));                                   \
    vector f = (vector){0} + factor, t = (vector){0} + term;                                    \
    vector a = t, b = t + 1, c = t + 2, d = t + 3, e = t + 4, g = t + 5;                        \
    vector h = t + 6, i = t + 7, j = t + 8, k = t + 9, l = t + 10, m = t + 11;                  \
    for (long n = 0; n < repeats; ++n) {                                                        \
      a = a * f + t, b = b * f + t, c = c * f + t, d = d * f + t, e = e * f + t, g = g * f + t; \
      h = h * f + t, i = i * f + t, j = j * f + t, k = k * f + t, l = l * f + t, m = m * f + t; \
    }                                                                                           \
    vector sum = ((a + b) + (c + d)) + ((e + g) + (h + i)) + ((j + k) + (l + m));               \
    return sum[0];                                                                              \
  }

#if defined(__x86_64__)
MULTIPLY_ADD_LOOP(multiply_add_avx512, __attribute__((target("avx512f"))), 64)
MULTIPLY_ADD_LOOP(multiply_add_avx2, __attribute__((target("avx2,fma"))), 32)
#endif
MULTIPLY_ADD_LOOP(multiply_add_base, , 16)

static size_t vector_floats(const char *isa) {
  if (strcmp(isa, "avx512") == 0 || strcmp(isa, "amx") == 0) return 16;
  return strcmp(isa, "avx2") == 0 ? 8 : 4;
}

static void multiply_add(const peak_work *work, int thread) {
  float (*loop)(long, float, float) = multiply_add_base;
#if defined(__x86_64__)
  if (vector_floats(work->isa) == 16) loop = multiply_add_avx512;
  if (strcmp(work->isa, "avx2") == 0) loop = multiply_add_avx2;
#endif
  sink = loop(work->repeats, 0.5f, 1.0f + (float)thread);
}

double peak_flops(const char *isa, int threads) {
  peak_work work = {.isa = isa, .repeats = 2000000};
  double flops = 2.0 * ACCUMULATORS * (double)vector_floats(isa) * (double)work.repeats * threads;
  return flops / burst_seconds(multiply_add, &work, threads);
}

typedef float block __attribute__((vector_size(64), aligned(4), may_alias));

static void read_share(const peak_work *work, int thread) {
  const float *share = work->from + (size_t)thread * work->floats;
  block a = {0}, b = {0}, c = {0}, d = {0};
  for (long n = 0; n < work->repeats; ++n) {
    for (size_t i = 0; i + 64 <= work->floats; i += 64) {
      a += *(const block *)(share + i), b += *(const block *)(share + i + 16);
      c += *(const block *)(share + i + 32), d += *(const block *)(share + i + 48);
    }
  }
  a += b + c + d;
  sink = a[0];
}

static void copy_share(const peak_work *work, int thread) {
  size_t start = (size_t)thread * work->floats;
  for (long n = 0; n < work->repeats; ++n) {
    memcpy(work->to + start, work->from + start, work->floats * sizeof(float));
    sink = work->to[start + (size_t)n % work->floats];
  }
}

/* About 200 MB a burst, so that starting threads does not show. */
static double transfer_rate(peak_body body, float *to, const float *from, size_t bytes, int threads) {
  long repeats = 1 + (long)(200000000 / bytes);
  peak_work work = {NULL, to, from, bytes / sizeof(float) / (size_t)threads, repeats};
  return (double)bytes * (double)repeats / burst_seconds(body, &work, threads);
}

double peak_read(const float *buffer, size_t bytes, int threads) {
  return transfer_rate(read_share, NULL, buffer, bytes, threads);
}

double peak_copy(float *to, const float *from, size_t bytes, int threads) {
  return 2 * transfer_rate(copy_share, to, from, bytes, threads);
}
