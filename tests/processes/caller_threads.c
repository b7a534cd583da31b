/* The library with -Dthreads=caller: a context without a parallel loop has one thread, one with a loop has its own, and
 * both give the same bits. Linked from the same archive: what this program defines in one_tbb.cpp's place, the linker does
 * not look for there, so it needs no oneTBB either. */
#include <fovea/fovea.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 8, LENGTH = 96, SIZE = 32, COUNT = HEADS * LENGTH * SIZE };

static float query[COUNT], alone[COUNT], looped[COUNT];

static void backwards(void *user, int64_t count, fovea_work work, void *work_data) {
  *(int64_t *)user += count;
  while (count > 0) work(work_data, --count);
}

static int failed(const char *what) {
  printf("FAILED: %s; %s\n", what, fovea_last_error());
  return 1;
}

int main(void) {
  if (fovea_context_threads(NULL) != 1) return failed("the default context has more than one thread");

  int64_t tasks = 0;
  fovea_context_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.max_threads = 4;
  fovea_context *without = NULL;
  fovea_context *with = NULL;
  if (fovea_context_create(&options, &without) != FOVEA_OK) return failed("no context");
  if (fovea_context_threads(without) != 1) return failed("threads out of nothing");
  options.parallel_for = backwards;
  options.parallel_for_user = &tasks;
  if (fovea_context_create(&options, &with) != FOVEA_OK) return failed("no context with a loop");
  if (fovea_context_threads(with) != 4) return failed("the caller's threads are not counted");

  for (int n = 0; n < COUNT; ++n) query[n] = (float)(n * 7 % 31 - 15) / 16;
  const int64_t shape[] = {HEADS, LENGTH, SIZE};
  const fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 3, shape);
  const fovea_tensor one = fovea_tensor_contiguous(alone, FOVEA_F32, 3, shape);
  const fovea_tensor other = fovea_tensor_contiguous(looped, FOVEA_F32, 3, shape);
  if (fovea_sdpa(NULL, &q, &q, &q, &one, NULL) != FOVEA_OK) return failed("attention");
  if (fovea_sdpa(with, &q, &q, &q, &other, NULL) != FOVEA_OK) return failed("attention in a loop");
  if (tasks < 2) return failed("the caller's loop was not called");
  if (memcmp(alone, looped, sizeof alone) != 0) return failed("other bits");
  fovea_context_destroy(with);
  fovea_context_destroy(without);
  return 0;
}
