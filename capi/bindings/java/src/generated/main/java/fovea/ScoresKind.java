// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/** Which scores fovea_attention_options.scores gets. */
public enum ScoresKind {
  /** scale times the score function, of all K keys, masked ones too */
  RAW(0),
  /** the same after the soft-cap */
  CAPPED(1),
  /** with bias and ALiBi, too: what the softmax is taken of; keys not attended get -infinity */
  LOGITS(2);

  final int number;

  ScoresKind(int number) {
    this.number = number;
  }
}
