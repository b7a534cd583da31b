/* worked_examples: small calls whose results can be told by hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_WORKED_EXAMPLES_H
#define FOVEA_EXAMPLES_WORKED_EXAMPLES_H

/* Runs them all, printing a line for each. Returns the number that failed. */
int worked_examples_run(void);

#endif
