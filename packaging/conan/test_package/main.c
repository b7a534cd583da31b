/* A query over two keys that are alike: the mean of their values. SPDX-License-Identifier: Apache-2.0 */
#include <fovea/fovea.h>
#include <stdio.h>

int main(void) {
  float query[2] = {1, 2}, key[2][2] = {{3, 4}, {3, 4}}, value[2][2] = {{10, 20}, {30, 40}}, out[2];
  const int64_t one[2] = {1, 2}, two[2] = {2, 2};
  fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 2, one);
  fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 2, two);
  fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 2, two);
  fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 2, one);
  if (fovea_sdpa(NULL, &q, &k, &v, &o, NULL) != FOVEA_OK) return puts(fovea_last_error()), 1;
  printf("fovea %s, %s: %.0f %.0f\n", fovea_version(), fovea_isa_name(NULL), out[0], out[1]);
  return out[0] == 20 && out[1] == 30 ? 0 : 1;
}
