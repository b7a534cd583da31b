// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * How exactly products of F32 tensors are computed; sums are float32 always. Where a processor has no quick way,
 * or the shape does not gain by it, the result is that of a higher precision.
 */
public enum Precision {
  /**
   * of a call: that of the packing of its weights if there was one, else its context's; of packing: its context's;
   * of a context: highest
   */
  DEFAULT(0),
  /** float32 */
  HIGHEST(1),
  /**
   * at least as three products of bfloat16, an error of about 2^-16 |a| |b|: float32, until a processor is known
   * on which that is quicker
   */
  HIGH(2),
  /**
   * factors may be rounded to bfloat16, an error of at most 2^-7 |a| |b|, and factors or products below 2^-126 may
   * count as 0: 2^-127 times 2^127 is then 0, not 1. So it is for more than a few queries in the scaled dot
   * product, and in products of matrices and layers, on processors with AVX-512-BF16
   */
  MEDIUM(3),
  /** weights of any type may be rounded to 8 bits, in products of matrices and layers (below); of all else medium */
  INT8(4);

  final int number;

  Precision(int number) {
    this.number = number;
  }
}
