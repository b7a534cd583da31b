/* throughput: how fast the library is on this machine, as a short table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_THROUGHPUT_H
#define FOVEA_EXAMPLES_THROUGHPUT_H

/* Measures and prints a table. Returns 0; or -1, having printed why to stderr. */
int throughput_run(void);

#endif
