/* Which instruction set does the default context run? The environment variable FOVEA_ISA is read once per process, so
 * each case is a run of this program: isa_probe NAME expects that set, "best" expects the last of those available but amx, and
 * "none" expects every operation to refuse. "cap:NAME" expects NAME where the machine has it, a refusal elsewhere. */
#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* amx has to be named. */
static const char *last_available(void) {
  int32_t count = 0;
  while (fovea_isa_available(count) != NULL && strcmp(fovea_isa_available(count), "amx") != 0) ++count;
  return fovea_isa_available(count - 1);
}

static int is_available(const char *name) {
  int32_t n;
  for (n = 0; fovea_isa_available(n) != NULL; ++n) {
    if (strcmp(fovea_isa_available(n), name) == 0) return 1;
  }
  return 0;
}

static int fail(const char *what) {
  fprintf(stderr, "%s; FOVEA_ISA=%s, default set \"%s\", last error \"%s\"\n", what, getenv("FOVEA_ISA"),
          fovea_isa_name(NULL), fovea_last_error());
  return 1;
}

static fovea_status exp_of(const fovea_context *context, const float *x, float *y) {
  const int64_t shape[1] = {3};
  const fovea_tensor in = fovea_tensor_contiguous((void *)(size_t)x, FOVEA_F32, 1, shape);
  const fovea_tensor out = fovea_tensor_contiguous(y, FOVEA_F32, 1, shape);
  return fovea_exp(context, &in, &out);
}

static int expect_refusal(void) {
  const float x[3] = {0, 1, 2};
  float y[3] = {7, 7, 7};
  fovea_context *context = NULL;
  fovea_context_options options;
  if (strcmp(fovea_isa_name(NULL), "") != 0) return fail("the name is not empty");
  if (exp_of(NULL, x, y) != FOVEA_UNKNOWN_ISA) return fail("an operation ran");
  if (strstr(fovea_last_error(), "FOVEA_ISA") == NULL) return fail("the message does not name FOVEA_ISA");
  if (strstr(fovea_last_error(), getenv("FOVEA_ISA")) == NULL) return fail("the message does not tell the value");
  if (y[0] != 7 || y[1] != 7 || y[2] != 7) return fail("the output was written");
  if (fovea_context_create(NULL, &context) != FOVEA_UNKNOWN_ISA) return fail("a context was made");
  if (context != NULL) return fail("a context was stored");
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.max_isa = "base";
  if (fovea_context_create(&options, &context) != FOVEA_OK) return fail("an explicit max_isa must win");
  if (exp_of(context, x, y) != FOVEA_OK || y[0] != 1) return fail("a context with max_isa does not run");
  fovea_context_destroy(context);
  return 0;
}

int main(int argc, char **argv) {
  const float x[3] = {0, 1, 2};
  float y[3] = {7, 7, 7};
  const char *expected = argc > 1 ? argv[1] : "best";
  if (strcmp(expected, "none") == 0) return expect_refusal();
  if (strncmp(expected, "cap:", 4) == 0) {
    expected += 4;
    if (!is_available(expected)) {
      printf("%s: not on this machine, must be refused\n", expected);
      return expect_refusal();
    }
  }
  if (strcmp(expected, "best") == 0) expected = last_available();
  if (strcmp(fovea_isa_name(NULL), expected) != 0) return fail("another set than expected");
  if (exp_of(NULL, x, y) != FOVEA_OK || y[0] != 1) return fail("exp does not run");
  printf("default set %s\n", fovea_isa_name(NULL));
  return 0;
}
