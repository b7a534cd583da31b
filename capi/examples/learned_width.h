/* learned_width: kernel regression learns how wide its kernel should be, by gradient descent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_LEARNED_WIDTH_H
#define FOVEA_EXAMPLES_LEARNED_WIDTH_H

enum { TRAINING = 50, QUERIES = 51 };

/* Points to learn from, and the truth, which learning does not see, for queries to be predicted. */
typedef struct noisy_curve {
  float inputs[TRAINING], targets[TRAINING];
  float queries[QUERIES], truth[QUERIES];
} noisy_curve;

/* Begins with the width `wide`, learns, prints a line and draws. Returns 0; or -1, having printed why: also where what was
 * learned is no better than `wide` and `narrow`. */
int learned_width(const noisy_curve *curve, float wide, float narrow);

#endif
