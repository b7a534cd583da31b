/* learned_width: kernel regression learns how wide its kernel should be, by gradient descent.
 *
 * Kernel regression is attention with a Gaussian score. The loss is the mean squared error over the training points, each
 * predicted from all the others (leave-one-out): one that saw itself would learn a kernel of no width. Both passes are
 * planned once and run each step. A step changes the logarithm of sigma, so sigma stays positive:
 *   log sigma -= rate * d loss / d log sigma,   d loss / d log sigma = sigma * d loss / d sigma
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "learned_width.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "textbook_shared.h"

enum { STEPS = 60, FIRST_STEPS = 10, WIDTHS = 209 };

static const float rate = 1;

typedef struct learner {
  const noisy_curve *curve;
  float sigma, out[TRAINING], log_sum_exp[TRAINING]; /* of the forward pass */
  float grad_out[TRAINING], grad_sigma;              /* of the backward pass */
  fovea_plan *forward, *backward;
  void *workspace;
  size_t workspace_size;
} learner;

static float steps[STEPS + 1], sigmas[STEPS + 1], losses[STEPS + 1];
static float widths[WIDTHS], width_losses[WIDTHS];

/* ---- learning ---- */

static int plan(learner *state) {
  fovea_tensor x = matrix(state->curve->inputs, TRAINING, 1), y = matrix(state->curve->targets, TRAINING, 1);
  fovea_tensor out = matrix(state->out, TRAINING, 1), log_sum_exp = vector(state->log_sum_exp, TRAINING);
  fovea_tensor sigma = vector(&state->sigma, 1); /* a tensor, as each run brings another */
  fovea_tensor grad_out = matrix(state->grad_out, TRAINING, 1), grad_sigma = vector(&state->grad_sigma, 1);
  fovea_score score = {.struct_size = sizeof score, .kind = FOVEA_SCORE_GAUSSIAN, .sigmas = &sigma};
  fovea_attention_options options = {
      .struct_size = sizeof options, .flags = FOVEA_LEAVE_ONE_OUT, .log_sum_exp = &log_sum_exp};
  fovea_attention_gradients gradients = {.struct_size = sizeof gradients, .out = &grad_out, .sigmas = &grad_sigma};
  if (succeeded("fovea_attention_plan_create",
                fovea_attention_plan_create(NULL, &score, &x, &x, &y, &out, &options, &state->forward)) ||
      succeeded(
          "fovea_attention_backward_plan_create",
          fovea_attention_backward_plan_create(NULL, &score, &x, &x, &y, &out, &options, &gradients, &state->backward)))
    return -1;
  size_t forward = fovea_plan_workspace_size(state->forward), backward = fovea_plan_workspace_size(state->backward);
  state->workspace_size = forward > backward ? forward : backward;
  state->workspace = malloc(state->workspace_size);
  if (state->workspace || state->workspace_size == 0) return 0;
  fprintf(stderr, "learned_width: no memory for a workspace of %zu bytes\n", state->workspace_size);
  return -1;
}

static fovea_attention_buffers forward_buffers(learner *state) {
  return (fovea_attention_buffers){.struct_size = sizeof(fovea_attention_buffers),
                                   .query = state->curve->inputs,
                                   .key = state->curve->inputs,
                                   .value = state->curve->targets,
                                   .out = state->out,
                                   .log_sum_exp = state->log_sum_exp,
                                   .sigmas = &state->sigma};
}

static int predict(learner *state, float sigma, float *loss) {
  state->sigma = sigma;
  fovea_attention_buffers buffers = forward_buffers(state);
  if (succeeded("fovea_attention_run, forward",
                fovea_attention_run(state->forward, &buffers, state->workspace, state->workspace_size)))
    return -1;
  *loss = (float)mean_square_error(state->out, state->curve->targets, TRAINING);
  return 0;
}

/* Of the prediction made last, into grad_sigma. */
static int differentiate(learner *state) {
  for (int i = 0; i < TRAINING; ++i) {
    state->grad_out[i] = 2 * (state->out[i] - state->curve->targets[i]) / TRAINING;
  }
  fovea_attention_buffers buffers = forward_buffers(state);
  buffers.grad_out = state->grad_out;
  buffers.grad_sigmas = &state->grad_sigma;
  return succeeded("fovea_attention_run, backward",
                   fovea_attention_run(state->backward, &buffers, state->workspace, state->workspace_size));
}

static int descend(learner *state, float sigma) {
  for (int step = 0;; ++step) {
    steps[step] = (float)step;
    sigmas[step] = sigma;
    if (predict(state, sigma, &losses[step])) return -1;
    if (step == STEPS) return 0;
    if (differentiate(state)) return -1;
    sigma *= expf(-rate * sigma * state->grad_sigma);
  }
}

/* The loss of many widths, to be drawn. */
static int survey(learner *state) {
  for (int i = 0; i < WIDTHS; ++i) {
    widths[i] = 0.06f + 0.005f * (float)i;
    if (predict(state, widths[i], &width_losses[i])) return -1;
  }
  return 0;
}

/* ---- what was learned ---- */

static int regress(const noisy_curve *curve, float sigma, float *out) {
  fovea_tensor q = vector(curve->queries, QUERIES), x = vector(curve->inputs, TRAINING);
  fovea_tensor y = vector(curve->targets, TRAINING), o = vector(out, QUERIES);
  fovea_kernel_regression_options options = {.struct_size = sizeof options, .sigma = sigma};
  return succeeded("fovea_kernel_regression", fovea_kernel_regression(NULL, &q, &x, &y, &o, &options));
}

/* Tables are written row by row. */
static int write_columns(const char *name, const char *header, const float *const *columns, int count, int rows) {
  float table[4 * WIDTHS];
  for (int i = 0; i < rows * count; ++i) table[i] = columns[i % count][i / count];
  return write_table(name, header, table, rows, count);
}

static int write_learning(const noisy_curve *curve, const float *before, const float *after) {
  const float *const descent[] = {steps, sigmas, losses}, *const all[] = {widths, width_losses};
  const float *const lines[] = {curve->queries, curve->truth, before, after};
  return write_columns("learned_width_steps", "step, sigma, loss", descent, 3, STEPS + 1) ||
                 write_columns("learned_width_losses", "sigma, loss", all, 2, WIDTHS) ||
                 write_columns("learned_width_lines", "x, truth, before, after", lines, 4, QUERIES)
             ? -1
             : 0;
}

static int draw_learning(const noisy_curve *curve, const float *before, const float *after) {
  char before_name[64], after_name[64];
  snprintf(before_name, sizeof before_name, "before, σ = %.2f", sigmas[0]);
  snprintf(after_name, sizeof after_name, "after, σ = %.2f", sigmas[STEPS]);
  const chart_series lines[] = {{"noisy data", curve->inputs, curve->targets, TRAINING, CHART_POINTS, gray},
                                {"truth", curve->queries, curve->truth, QUERIES, CHART_DASHES, green},
                                {before_name, curve->queries, before, QUERIES, CHART_LINE, orange},
                                {after_name, curve->queries, after, QUERIES, CHART_LINE, blue}};
  const chart_series loss[] = {{"every width", widths, width_losses, WIDTHS, CHART_LINE, gray},
                               {"before", sigmas, losses, 1, CHART_POINTS, orange},
                               {"first steps", sigmas + 1, losses + 1, FIRST_STEPS, CHART_POINTS, violet},
                               {"after", sigmas + STEPS, losses + STEPS, 1, CHART_POINTS, blue}};
  const chart_panel panels[] = {
      {"Prediction", 530, 400, {"x", 0, 5}, {"y", -0.5, 4.5}, lines, 4, {0}},
      {"Loss of the training points, each left out", 440, 400, {"width σ", 0, 1.1}, {"loss", 0.3, 0.75}, loss, 4, {0}}};
  return draw("learned_width", "Kernel regression learns its width: gradient descent through attention",
              "Down the slope that the backward pass gives. Each training point is predicted from all others, so a "
              "kernel that repeats the noise gains nothing.",
              panels, 2);
}

static int learn(learner *state, float wide, float narrow) {
  const noisy_curve *curve = state->curve;
  float before[QUERIES], after[QUERIES], narrow_loss;
  if (plan(state) || descend(state, wide) || predict(state, narrow, &narrow_loss) || survey(state) ||
      regress(curve, wide, before) || regress(curve, sigmas[STEPS], after))
    return -1;
  int better = losses[STEPS] < losses[0] && losses[STEPS] < narrow_loss;
  printf("  %-6s  learned width: %d steps from sigma %g to %.3f; loss", better ? "ok" : "FAILED", STEPS, wide,
         sigmas[STEPS]);
  for (int step = 0; step < STEPS; step = 4 * step + 1) printf(" %.4f,", losses[step]);
  printf(" %.4f (sigma %g: %.4f)\n", losses[STEPS], narrow, narrow_loss);
  if (write_learning(curve, before, after) || draw_learning(curve, before, after)) return -1;
  return better ? 0 : -1;
}

int learned_width(const noisy_curve *curve, float wide, float narrow) {
  learner state = {.curve = curve};
  int failed = learn(&state, wide, narrow);
  free(state.workspace);
  fovea_plan_destroy(state.backward);
  fovea_plan_destroy(state.forward);
  return failed;
}
