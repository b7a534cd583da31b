// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/** How a weight matrix lies in memory. */
public enum WeightLayout {
  /** [out,in], a row for each output: torch.nn.Linear and most model files */
  OUT_IN(0),
  /** [in,out], a row for each input: the right-hand side of x W */
  IN_OUT(1);

  final int number;

  WeightLayout(int number) {
    this.number = number;
  }
}
