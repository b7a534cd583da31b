// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

public enum Activation {
  NONE(0),
  /** max(x, 0) */
  RELU(1),
  /** x (1 + erf(x / sqrt 2)) / 2 Hendrycks and Gimpel 2016 */
  GELU(2),
  /** x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 the same paper's approximation */
  GELU_TANH(3),
  /** x / (1 + e^-x) Elfwing, Uchibe and Doya 2018 */
  SILU(4);

  final int number;

  Activation(int number) {
    this.number = number;
  }
}
