/* What the tests in C share: CHECK counts, and reports what does not hold; finish() is main's result. */
#ifndef FOVEA_TESTS_CAPI_CHECK_H
#define FOVEA_TESTS_CAPI_CHECK_H

#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>

static int checks = 0;
static int failures = 0;

#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    ++checks;                                                                                              \
    if (!(condition)) {                                                                                    \
      ++failures;                                                                                          \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, fovea_last_error()); \
    }                                                                                                      \
  } while (0)

static int near(float a, double b) { return fabs(a - b) <= 1e-5; }

static int finish(void) {
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

#endif
