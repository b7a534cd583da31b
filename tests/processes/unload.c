/* Loads a library that holds fovea, attends on several threads, unloads it, again and again: oneTBB's threads must
 * not wake up in code that has been unmapped. The library is libfovea.so, or a plugin that the archive was linked into.
 * usage: unload LIBRARY */
#include <dlfcn.h>
#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, SKIPPED = 77, BATCH = 2, HEADS = 2, LENGTH = 256, DIM = 16, SIZE = BATCH * HEADS * LENGTH * DIM };

/* ISO C has no cast from an object pointer to a function pointer. */
#define FUNCTION(library, name)                                            \
  memcpy(&name, (void *[1]){dlsym(library, "fovea_" #name)}, sizeof name); \
  if (name == NULL) return fail("no function fovea_" #name)

static int fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

static int count_threads(void) {
  char line[256];
  int threads = 0;
  FILE *file = fopen("/proc/self/status", "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Threads: %d", &threads) == 1) break;
  }
  fclose(file);
  return threads;
}

static int attend_and_unload(const char *path, float *out) {
  static float in[SIZE];
  const int64_t shape[4] = {BATCH, HEADS, LENGTH, DIM};
  fovea_tensor (*tensor_contiguous)(const void *, fovea_dtype, int32_t, const int64_t *) = NULL;
  int32_t (*context_threads)(const fovea_context *) = NULL;
  fovea_status (*sdpa)(const fovea_context *, const fovea_tensor *, const fovea_tensor *, const fovea_tensor *,
                       const fovea_tensor *, const fovea_attention_options *) = NULL;
  fovea_tensor x, y;
  int i;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fail(dlerror());
  FUNCTION(library, tensor_contiguous);
  FUNCTION(library, context_threads);
  FUNCTION(library, sdpa);
  if (context_threads(NULL) < 2) {
    printf("skipped: one core, so no threads\n");
    return SKIPPED;
  }
  for (i = 0; i < SIZE; ++i) in[i] = (float)(i % 7);
  x = tensor_contiguous(in, FOVEA_F32, 4, shape);
  y = tensor_contiguous(out, FOVEA_F32, 4, shape);
  if (sdpa(NULL, &x, &x, &x, &y, NULL) != FOVEA_OK) return fail("fovea_sdpa failed");
  if (count_threads() < 2) return fail("the call did not run in parallel, so this tests nothing");
  if (dlclose(library) != 0) return fail("dlclose failed");
  return 0;
}

int main(int argc, char **argv) {
  static float first[SIZE], out[SIZE];
  int round;
  if (argc != 2) return fail("usage: unload LIBRARY");
  for (round = 0; round < ROUNDS; ++round) {
    const int result = attend_and_unload(argv[1], round == 0 ? first : out);
    if (result != 0) return result;
    if (round > 0 && memcmp(first, out, sizeof out) != 0) return fail("another result after loading it again");
  }
  printf("loaded and unloaded %d times\n", ROUNDS);
  return 0;
}
