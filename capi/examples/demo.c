/* demo: masked attention on two real sentences, checked, explained and drawn.
 *
 *     demo DATA_DIRECTORY OUT_DIRECTORY
 *
 * Loads queries, keys and values of one layer of a sentence encoder (data/README.md), runs attention over the padded
 * batch through the C interface, compares with the float64 reference in the data, tells for a few words which words
 * they attend to, draws OUT_DIRECTORY/attention_heatmap.png and runs worked examples. Exits with 1 if anything is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* mkdir */
#include <errno.h>
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "heatmap.h"
#include "layer_data.h"
#include "worked_examples.h"

typedef struct attention_result {
  float *out;     /* [B, H, L, D] */
  float *weights; /* [B, H, L, L] */
} attention_result;

/* One masked attention over the batch. weights may be NULL. Returns 0; or -1, having printed why. */
static int attend(const layer_data *data, const float *key, const float *value, float *out, float *weights) {
  const int64_t weights_shape[] = {data->batch, data->heads, data->length, data->length};
  const int64_t *shape = data->query.shape;
  fovea_tensor query_view = fovea_tensor_contiguous(data->query.data, FOVEA_F32, 4, shape);
  fovea_tensor key_view = fovea_tensor_contiguous((void *)key, FOVEA_F32, 4, shape);
  fovea_tensor value_view = fovea_tensor_contiguous((void *)value, FOVEA_F32, 4, shape);
  fovea_tensor out_view = fovea_tensor_contiguous(out, FOVEA_F32, 4, shape);
  fovea_tensor lens_view = fovea_tensor_contiguous(data->valid_lens.data, FOVEA_I32, 1, &data->batch);
  fovea_tensor weights_view = fovea_tensor_contiguous(weights, FOVEA_F32, 4, weights_shape);
  fovea_attention_options options = {
      .struct_size = sizeof options, .valid_lens = &lens_view, .weights = weights ? &weights_view : NULL};
  fovea_status status = fovea_sdpa(NULL, &query_view, &key_view, &value_view, &out_view, &options);
  if (status == FOVEA_OK) return 0;
  fprintf(stderr, "fovea_sdpa: %s: %s\n", fovea_status_name(status), fovea_last_error());
  return -1;
}

/* The largest |out - reference|, and the largest as a part of what float32 may cost:
 * 8 (1 + K) 2^-24 sum_j weight_j |v_j|. */
static void compare(const layer_data *data, const float *out, double *largest, double *part_of_bound) {
  const double *reference = data->out.data, *weights = data->weights.data;
  const float *value = data->value.data;
  int64_t l = data->length, d = data->dim;
  *largest = *part_of_bound = 0;
  for (int64_t row = 0; row < data->batch * data->heads * l; ++row) {
    int64_t head = row / l; /* over batch and heads */
    int32_t keys = ((const int32_t *)data->valid_lens.data)[head / data->heads];
    for (int64_t i = 0; i < d; ++i) {
      double magnitude = 0;
      for (int64_t j = 0; j < keys; ++j) magnitude += weights[row * l + j] * fabs(value[(head * l + j) * d + i]);
      double error = fabs(out[row * d + i] - reference[row * d + i]);
      double part = error / (8 * (1.0 + keys) * ldexp(1, -24) * magnitude);
      if (!(error <= *largest)) *largest = error; /* a NaN gets in, too */
      if (!(part <= *part_of_bound)) *part_of_bound = part;
    }
  }
}

/* The largest error of a returned weight; infinity if a padded key has any weight at all. */
static double compare_weights(const layer_data *data, const float *weights) {
  const double *reference = data->weights.data;
  double largest = 0;
  for (int64_t i = 0; i < data->batch * data->heads * data->length * data->length; ++i) {
    int32_t keys = ((const int32_t *)data->valid_lens.data)[i / (data->heads * data->length * data->length)];
    if (i % data->length >= keys && weights[i] != 0) return INFINITY;
    double error = fabs(weights[i] - reference[i]);
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

static void poison(const layer_data *data, float *rows) {
  for (int64_t i = 0; i < data->batch * data->heads * data->length; ++i) {
    int32_t keys = ((const int32_t *)data->valid_lens.data)[i / (data->heads * data->length)];
    for (int64_t d = 0; i % data->length >= keys && d < data->dim; ++d) rows[i * data->dim + d] = NAN;
  }
}

/* True if NaN in every padded key and value leaves every bit of the output as it was. */
static int padding_is_never_read(const layer_data *data, const float *out) {
  size_t size = data->key.count * sizeof(float);
  float *key = malloc(size), *value = malloc(size), *again = malloc(size);
  int same = 0;
  if (key && value && again) {
    memcpy(key, data->key.data, size);
    memcpy(value, data->value.data, size);
    poison(data, key);
    poison(data, value);
    same = attend(data, key, value, again, NULL) == 0 && memcmp(out, again, size) == 0;
  }
  free(key);
  free(value);
  free(again);
  return same;
}

static int check_attention(const layer_data *data, const attention_result *result) {
  double largest, part;
  compare(data, result->out, &largest, &part);
  double weights_error = compare_weights(data, result->weights);
  int near = part <= 1, weights_near = weights_error <= 1e-5, unread = padding_is_never_read(data, result->out);
  printf("  %-6s  output against float64: largest error %.1e, %.1f %% of the bound for float32\n",
         near ? "ok" : "FAILED", largest, 100 * part);
  printf("  %-6s  returned weights against float64: largest error %.1e, padding exactly 0\n",
         weights_near ? "ok" : "FAILED", weights_error);
  printf("  %-6s  NaN in every padded key and value: not one bit of the output changes\n", unread ? "ok" : "FAILED");
  return near && weights_near && unread ? 0 : -1;
}

/* ---- which words a word attends to ---- */

typedef struct word_choice {
  int sentence;
  const char *word;
  int occurrence; /* 1: the first */
  int head;
} word_choice;

static const word_choice word_choices[] = {
    {0, "her", 1, 5},   {0, "the", 1, 8},     {0, "of", 1, 11},    {0, "nothing", 1, 1},
    {1, "happy", 1, 9}, {1, "unhappy", 2, 9}, {1, "family", 1, 9}, {1, "own", 1, 8},
};

static int find_word(const layer_sentence *sentence, const char *word, int occurrence) {
  for (int i = 0; i < sentence->count; ++i)
    if (strcmp(sentence->tokens[i], word) == 0 && --occurrence == 0) return i;
  return -1;
}

static void print_bar(double part) {
  enum { BAR = 30 };
  int filled = (int)(part * BAR + 0.5);
  for (int i = 0; i < BAR; ++i) fputs(i < filled ? "█" : "·", stdout);
}

/* The largest weights of a row among the words between [CLS] and [SEP]. */
static void print_attended(const layer_sentence *sentence, const char *name, int head, const float *row) {
  enum { SHOWN = 3 };
  int shown[SHOWN];
  for (int rank = 0; rank < SHOWN; ++rank) {
    int best = -1;
    for (int j = 1; j + 1 < sentence->count; ++j) {
      int taken = 0;
      for (int earlier = 0; earlier < rank; ++earlier) taken = taken || shown[earlier] == j;
      if (!taken && (best < 0 || row[j] > row[best])) best = j;
    }
    if (best < 0 || (rank > 0 && row[best] < 0.05f)) return;
    shown[rank] = best;
    char label[64] = "";
    if (rank == 0) snprintf(label, sizeof label, "%-8s head %d", name, head);
    printf("    %-17s  %-10s %3.0f %%  ", label, sentence->tokens[best], 100 * row[best]);
    print_bar(row[best]);
    printf("\n");
  }
}

static void explain_words(const layer_data *data, const float *weights) {
  for (int b = 0; b < data->batch; ++b) {
    printf("\n  \"%s\"\n\n", data->sentences[b].text);
    for (size_t i = 0; i < sizeof word_choices / sizeof *word_choices; ++i) {
      const word_choice *choice = &word_choices[i];
      int row = choice->sentence == b ? find_word(&data->sentences[b], choice->word, choice->occurrence) : -1;
      if (row < 0 || choice->head >= data->heads) continue;
      int64_t head_row = (b * data->heads + choice->head) * data->length + row;
      print_attended(&data->sentences[b], choice->word, choice->head, weights + head_row * data->length);
    }
  }
}

/* ---- the picture ---- */

/* Weights of one head, or their mean over the heads for head -1. */
static void panel_weights(const layer_data *data, const float *weights, int sentence, int head, float *panel) {
  int64_t square = data->length * data->length;
  const float *heads = weights + sentence * data->heads * square;
  for (int64_t i = 0; i < square; ++i) {
    double sum = 0;
    for (int64_t h = 0; h < data->heads; ++h) sum += heads[h * square + i];
    panel[i] = head < 0 ? (float)(sum / (double)data->heads) : heads[head * square + i];
  }
}

static int draw_picture(const layer_data *data, const float *weights, const char *path) {
  static const struct {
    int sentence, head;
    const char *title, *subtitle;
  } views[] = {
      {0, 8, "Head 8 looks for the word that completes a phrase", "on the → bank,   by her → sister,   of → sitting"},
      {1, 9, "Head 9 looks for a related word", "happy → unhappy,   family → families,   is → are"},
      {0, -1, "Mean of all heads", "many small glances, half of them resting on [CLS]"},
      {1, -1, "Mean of all heads", "the shorter sentence of the batch, padded to the length of the longer"},
  };
  enum { VIEWS = sizeof views / sizeof *views };
  size_t square = (size_t)(data->length * data->length);
  float *squares = malloc(VIEWS * square * sizeof *squares);
  heatmap_panel panels[VIEWS];
  int count = 0;
  for (int i = 0; squares && i < VIEWS; ++i) {
    if (views[i].sentence >= data->batch || views[i].head >= data->heads) continue;
    const layer_sentence *sentence = &data->sentences[views[i].sentence];
    float *panel = squares + (size_t)count * square;
    panel_weights(data, weights, views[i].sentence, views[i].head, panel);
    panels[count++] =
        (heatmap_panel){views[i].title, views[i].subtitle, sentence->tokens, panel, (int)data->length, sentence->count};
  }
  int status = squares ? heatmap_write_png(path, "Which words attend to which",
                                           "Third layer of the sentence encoder all-MiniLM-L6-v2, computed by fovea. "
                                           "Each row is a word, and shows in percent where it looks; "
                                           "colours go by the square root, alike in all panels.",
                                           panels, count, 2)
                       : -1;
  if (status) fprintf(stderr, "%s\n", squares ? heatmap_error() : "no memory for the picture");
  if (status == 0) printf("  %s\n", path);
  free(squares);
  return status;
}

/* ---- the whole ---- */

static int demo_on_data(const layer_data *data, const char *picture) {
  attention_result result = {malloc(data->out.count * sizeof(float)), malloc(data->weights.count * sizeof(float))};
  int status = result.out && result.weights ? 0 : -1;
  printf("\nMasked attention over %d sentences, %d heads of %d features, padded to %d tokens; valid lengths",
         (int)data->batch, (int)data->heads, (int)data->dim, (int)data->length);
  for (int64_t b = 0; b < data->batch; ++b) printf("%s %d", b ? "," : "", data->sentences[b].count);
  printf("\n\n");
  if (status == 0) status = attend(data, data->key.data, data->value.data, result.out, result.weights);
  if (status == 0) {
    status = check_attention(data, &result);
    printf("\nWhich words do words attend to?\n");
    explain_words(data, result.weights);
    printf("\nAttention heatmap\n\n");
    if (draw_picture(data, result.weights, picture)) status = -1;
  }
  free(result.out);
  free(result.weights);
  return status;
}

static int make_directory(const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return 0;
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return -1;
}

/* False, having printed why, if the environment asks for an instruction set that this machine cannot run. */
static int instruction_set_is_usable(void) {
  fovea_context *context = NULL;
  fovea_status status = fovea_context_create(NULL, &context);
  if (status != FOVEA_OK) fprintf(stderr, "%s: %s\n", fovea_status_name(status), fovea_last_error());
  fovea_context_destroy(context);
  return status == FOVEA_OK;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s DATA_DIRECTORY OUT_DIRECTORY\n", argv[0]);
    return 2;
  }
  const char *data_directory = argv[1], *out_directory = argv[2];
  char picture[4096];
  snprintf(picture, sizeof picture, "%s/attention_heatmap.png", out_directory);
  if (!instruction_set_is_usable()) return 1;
  printf("fovea %s, instruction set %s\n", fovea_version(), fovea_isa_name(NULL));
  layer_data data;
  if (make_directory(out_directory) || layer_data_load(&data, data_directory)) return 1;
  int failed = demo_on_data(&data, picture) != 0;
  layer_data_free(&data);
  printf("\nWorked examples\n\n");
  failed |= worked_examples_run() != 0;
  printf("\n%s\n", failed ? "FAILED: see above" : "all is well");
  return failed;
}
