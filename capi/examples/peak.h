/* peak: what this machine can do at most, for comparison: multiply-add rate, read rate, copy rate.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_EXAMPLES_PEAK_H
#define FOVEA_EXAMPLES_PEAK_H

#include <stddef.h>

/* Seconds of a clock that only goes forward. */
double peak_now(void);

/* Each call below is one burst of a few milliseconds on up to 64 threads; the best of several is the peak. */

/* Float multiply-adds per second, each counted as 2, in registers, with the vectors of an instruction set named as
 * fovea_isa_name does. */
double peak_flops(const char *isa, int threads);

/* Bytes per second, reading a buffer of that many bytes over and over; copying counts bytes read plus written. */
double peak_read(const float *buffer, size_t bytes, int threads);
double peak_copy(float *to, const float *from, size_t bytes, int threads);

#endif
