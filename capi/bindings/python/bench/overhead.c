/* The C side of overhead.py: nanoseconds of a planned call, in a loop as a C program has it. */
#define _POSIX_C_SOURCE 199309L
#include <fovea/fovea.h>
#include <stdlib.h>
#include <time.h>

double nanoseconds_in_c(const int64_t *query_shape, const int64_t *key_shape, float *query, float *key, float *value,
                        float *out, int count) {
  fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 4, query_shape);
  fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 4, key_shape);
  fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 4, key_shape);
  fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 4, query_shape);
  fovea_attention_buffers buffers = {0};
  buffers.struct_size = sizeof buffers;
  buffers.query = query;
  buffers.key = key;
  buffers.value = value;
  buffers.out = out;
  fovea_plan *plan = NULL;
  if (fovea_sdpa_plan_create(NULL, &q, &k, &v, &o, NULL, &plan) != FOVEA_OK) return -1;
  size_t size = fovea_plan_workspace_size(plan);
  void *workspace = malloc(size + 1);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int n = 0; n < count; ++n) {
    if (fovea_attention_run(plan, &buffers, workspace, size) != FOVEA_OK) return -1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  free(workspace);
  fovea_plan_destroy(plan);
  return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / count;
}
