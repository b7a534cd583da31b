/* overhead: the small planned call of overhead.js by the C function alone; prints nanoseconds, the quicker tenth of many
 * short blocks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 199309L
#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 200, BLOCKS = 400 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  static float query[800], key[1200], out[800];
  static double times[BLOCKS];
  const int64_t query_shape[] = {2, 5, 4, 20}, key_shape[] = {2, 5, 6, 20};
  fovea_tensor q = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, query_shape);
  fovea_tensor k = fovea_tensor_contiguous(NULL, FOVEA_F32, 4, key_shape);
  fovea_context_options options = {.struct_size = sizeof options, .max_threads = 1};
  fovea_context *context = NULL;
  fovea_plan *plan = NULL;
  if (fovea_context_create(&options, &context) || fovea_sdpa_plan_create(context, &q, &k, &k, &q, NULL, &plan))
    return 1;
  fovea_attention_buffers buffers = {
      .struct_size = sizeof buffers, .query = query, .key = key, .value = key, .out = out};
  const size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size + 1);
  for (int block = 0; block < BLOCKS; ++block) {
    const double start = seconds();
    for (int i = 0; i < RUNS; ++i)
      if (fovea_attention_run(plan, &buffers, workspace, size)) return 1;
    times[block] = (seconds() - start) / RUNS;
  }
  qsort(times, BLOCKS, sizeof times[0], by_size);
  printf("%.0f\n", 1e9 * times[BLOCKS / 10]);
  free(workspace);
  fovea_plan_destroy(plan);
  fovea_context_destroy(context);
  return 0;
}
