/* layer_data: the example data, one attention layer of a sentence encoder.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "layer_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 4096, MAX_LINE = 4096 };

static int load_array(const char *folder, const char *name, npy_dtype dtype, int32_t rank, npy_array *array) {
  char path[MAX_PATH];
  snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  if (npy_load(path, dtype, rank, array) == 0) return 0;
  fprintf(stderr, "%s\n", npy_error());
  return -1;
}

static int has_shape(const npy_array *array, int64_t b, int64_t h, int64_t l, int64_t d) {
  return array->shape[0] == b && array->shape[1] == h && array->shape[2] == l && array->shape[3] == d;
}

/* A copy of the line without its end; NULL at the end of the file or without memory. */
static char *read_line(FILE *file) {
  char line[MAX_LINE];
  if (!fgets(line, sizeof line, file)) return NULL;
  size_t size = strcspn(line, "\r\n");
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  memcpy(copy, line, size);
  copy[size] = '\0';
  return copy;
}

static void split_tokens(layer_sentence *sentence) {
  char *token = sentence->token_line;
  while (token && sentence->count < LAYER_DATA_MAX_TOKENS) {
    sentence->tokens[sentence->count++] = token;
    token = strchr(token, '\t');
    if (token) *token++ = '\0';
  }
}

static int load_text(layer_data *data, const char *folder) {
  char token_path[MAX_PATH], sentence_path[MAX_PATH];
  snprintf(token_path, sizeof token_path, "%s/tokens.txt", folder);
  snprintf(sentence_path, sizeof sentence_path, "%s/sentences.txt", folder);
  FILE *tokens = fopen(token_path, "r"), *sentences = fopen(sentence_path, "r");
  data->sentences = calloc((size_t)data->batch, sizeof *data->sentences);
  int status = tokens && sentences && data->sentences ? 0 : -1;
  if (status) fprintf(stderr, "%s: tokens.txt or sentences.txt cannot be read\n", folder);
  for (int64_t b = 0; status == 0 && b < data->batch; ++b) {
    layer_sentence *sentence = &data->sentences[b];
    sentence->text = read_line(sentences);
    sentence->token_line = read_line(tokens);
    split_tokens(sentence);
    int32_t expected = ((const int32_t *)data->valid_lens.data)[b];
    if (sentence->text && sentence->count == expected) continue;
    fprintf(stderr, "%s: line %d has %d tokens, valid_lens says %d\n", token_path, (int)b + 1, sentence->count,
            (int)expected);
    status = -1;
  }
  if (tokens) fclose(tokens);
  if (sentences) fclose(sentences);
  return status;
}

static int load_all(layer_data *data, const char *folder) {
  if (load_array(folder, "query", NPY_F32, 4, &data->query) || load_array(folder, "key", NPY_F32, 4, &data->key) ||
      load_array(folder, "value", NPY_F32, 4, &data->value) ||
      load_array(folder, "valid_lens", NPY_I32, 1, &data->valid_lens) ||
      load_array(folder, "out", NPY_F64, 4, &data->out) || load_array(folder, "weights", NPY_F64, 4, &data->weights))
    return -1;
  int64_t b = data->batch = data->query.shape[0], h = data->heads = data->query.shape[1];
  int64_t l = data->length = data->query.shape[2], d = data->dim = data->query.shape[3];
  if (!has_shape(&data->key, b, h, l, d) || !has_shape(&data->value, b, h, l, d) ||
      !has_shape(&data->out, b, h, l, d) || !has_shape(&data->weights, b, h, l, l) || data->valid_lens.shape[0] != b ||
      l > LAYER_DATA_MAX_TOKENS) {
    fprintf(stderr, "%s: the arrays' shapes do not fit together\n", folder);
    return -1;
  }
  return load_text(data, folder);
}

int layer_data_load(layer_data *data, const char *folder) {
  memset(data, 0, sizeof *data);
  if (load_all(data, folder) == 0) return 0;
  layer_data_free(data);
  return -1;
}

void layer_data_free(layer_data *data) {
  npy_array *arrays[] = {&data->query, &data->key, &data->value, &data->valid_lens, &data->out, &data->weights};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) npy_free(arrays[i]);
  for (int64_t b = 0; data->sentences && b < data->batch; ++b) {
    free(data->sentences[b].text);
    free(data->sentences[b].token_line);
  }
  free(data->sentences);
  memset(data, 0, sizeof *data);
}
