// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * What a row (a query) with nothing to attend gives: no key passes the masks, or every score is -infinity. A row
 * with an attention sink is never empty: its output is 0 and its log-sum-exp the sink.
 */
public enum EmptyRows {
  /** output 0, weights 0, log-sum-exp -infinity */
  ZERO(0),
  /**
   * as if every score were -1e6: weights 1/K over all K keys, masked ones too, so that NaN or infinity in the
   * value of a masked key reaches such a row
   */
  UNIFORM(1),
  /** the bare formula: output and weights NaN, log-sum-exp -infinity */
  NAN(2);

  final int number;

  EmptyRows(int number) {
    this.number = number;
  }
}
