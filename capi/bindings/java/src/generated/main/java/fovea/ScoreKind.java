// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * How a query and a key are compared. Attention with any of these is fovea_attention; with the scaled dot product
 * it is fovea_sdpa, under another name. Everything else (masks, valid lengths, empty rows, log-sum-exp, returned
 * weights, dropout, plans, strides, threads) is the same for all. No function makes a tensor of B x Q x K, let
 * alone B x Q x K x hidden.
 */
public enum ScoreKind {
  /** q . k Vaswani et al. 2017 */
  DOT(0),
  /** q^T W k Luong, Pham and Manning 2015 */
  BILINEAR(1),
  /** v . tanh(Wq q + Wk k) Bahdanau, Cho and Bengio 2015 */
  ADDITIVE(2),
  /** v . tanh(W [q; k] + b) Luong, Pham and Manning 2015 */
  CONCAT(3),
  /** -|q - k|^2 / (2 sigma^2) Nadaraya 1964, Watson 1964 */
  GAUSSIAN(4);

  final int number;

  ScoreKind(int number) {
    this.number = number;
  }
}
