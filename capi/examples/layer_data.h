/* layer_data: the example data, one attention layer of a sentence encoder; see data/README.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_LAYER_DATA_H
#define FOVEA_EXAMPLES_LAYER_DATA_H

#include "npy.h"

enum { LAYER_DATA_MAX_TOKENS = 128 };

typedef struct layer_sentence {
  char *text;
  char *token_line; /* holds the tokens, cut at their ends */
  const char *tokens[LAYER_DATA_MAX_TOKENS];
  int count;
} layer_sentence;

typedef struct layer_data {
  npy_array query, key, value; /* F32 [B, H, L, D] */
  npy_array valid_lens;        /* I32 [B] */
  npy_array out;               /* F64 [B, H, L, D], the reference */
  npy_array weights;           /* F64 [B, H, L, L], the reference */
  layer_sentence *sentences;   /* B of them */
  int64_t batch, heads, length, dim;
} layer_data;

/* Reads every file in the folder and checks that they fit together. Returns 0; or -1, having printed why to stderr, and
 * data is empty. */
int layer_data_load(layer_data *data, const char *folder);

void layer_data_free(layer_data *data);

#endif
