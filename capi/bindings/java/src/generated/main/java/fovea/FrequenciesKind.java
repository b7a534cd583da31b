// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * How frequencies are stretched for contexts longer than those a model was first trained with. f(j) is
 * base^(-2j/d).
 */
public enum FrequenciesKind {
  /** f(j) Su et al. 2021 */
  PLAIN(0),
  /** f(j) / factor Chen et al. 2023 */
  LINEAR(1),
  /**
   * f(j) of another base: base (factor n / original_length - factor + 1)^(d/(d-2)), n the larger of length and
   * original_length "dynamic NTK" in Peng et al. 2023, app. B
   */
  DYNAMIC(2),
  /**
   * f(j) (1 - r + r / factor), r = (j - low) / (high - low) in [0,1], low and high the pairs that turn
   * fast_rotations and slow_rotations times in original_length: d ln(original_length / (2 pi rotations)) / (2 ln
   * base), rounded down and up to whole pairs, at least 0 and at most d - 1 Peng et al. 2023
   */
  YARN(3),
  /** f(j) / long_factors[j] if length &gt; original_length, else / short_factors[j] Ding et al. 2024 */
  LONGROPE(4),
  /**
   * f(j) ((1 - s) / factor + s), s = (t - low_frequency_factor) / (high_frequency_factor - low_frequency_factor)
   * in [0,1], t = original_length f(j) / (2 pi), the turns in original_length Llama 3.1, its code
   */
  LLAMA3(5);

  final int number;

  FrequenciesKind(int number) {
    this.number = number;
  }
}
