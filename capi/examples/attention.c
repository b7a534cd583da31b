/* attention: the smallest program that computes attention with fovea.
 *
 *     cc attention.c $(pkg-config --cflags --libs fovea) -o attention && ./attention
 *
 * Two sequences of 3 queries and up to 4 keys; the second sequence has only 2 keys, the rest is padding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h>
#include <stdio.h>

int main(void) {
  enum { BATCH = 2, QUERIES = 3, KEYS = 4, DIM = 2 };
  float query[BATCH][QUERIES][DIM] = {{{4, 0}, {0, 4}, {2, 2}}, {{4, 0}, {0, 4}, {2, 2}}};
  float key[BATCH][KEYS][DIM] = {{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}, {{1, 0}, {0, 1}, {0, 0}, {0, 0}}};
  float value[BATCH][KEYS][DIM] = {{{1, 0}, {2, 0}, {3, 0}, {4, 0}}, {{1, 0}, {2, 0}, {99, 99}, {99, 99}}};
  float out[BATCH][QUERIES][DIM];
  int32_t lengths[BATCH] = {4, 2};

  const int64_t query_shape[] = {BATCH, QUERIES, DIM}, key_shape[] = {BATCH, KEYS, DIM}, lengths_shape[] = {BATCH};
  fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 3, query_shape);
  fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 3, key_shape);
  fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 3, key_shape);
  fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 3, query_shape);
  fovea_tensor valid_lens = fovea_tensor_contiguous(lengths, FOVEA_I32, 1, lengths_shape);

  /* Whatever is not named is zero: the default. */
  fovea_attention_options options = {.struct_size = sizeof options, .valid_lens = &valid_lens};
  fovea_status status = fovea_sdpa(NULL, &q, &k, &v, &o, &options);
  if (status != FOVEA_OK) {
    fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
    return 1;
  }
  for (int b = 0; b < BATCH; ++b)
    for (int i = 0; i < QUERIES; ++i) printf("sequence %d query %d: %.4f %.4f\n", b, i, out[b][i][0], out[b][i][1]);
  return 0;
}
