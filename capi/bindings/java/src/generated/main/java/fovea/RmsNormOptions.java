// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_rms_norm_options}. */
public final class RmsNormOptions {
  private float epsilon;
  private int flags;
  private Tensor weight;
  private Tensor residual;
  private Tensor sum;
  private Tensor inverseDeviation;

  public RmsNormOptions() {}

  /** finite, &gt;= 0; left out: 1e-5 */
  public RmsNormOptions epsilon(float epsilon) {
    flags |= 1;
    this.epsilon = epsilon;
    return this;
  }

  /** of fovea_rms_norm_options alone: 1 + weight takes weight's place (Gemma); without a weight nothing changes */
  public RmsNormOptions weightFromOne() {
    flags |= 2;
    return this;
  }

  /** F [E], contiguous; NULL: ones */
  public RmsNormOptions weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  /** F, x's shape, last axis contiguous: x + residual is normalised */
  public RmsNormOptions residual(Tensor residual) {
    this.residual = residual;
    return this;
  }

  /** output F, as in fovea_layer_norm_options */
  public RmsNormOptions sum(Tensor sum) {
    this.sum = sum;
    return this;
  }

  /** output F32 [...], likewise: 1 / sqrt(mean(y^2) + epsilon) */
  public RmsNormOptions inverseDeviation(Tensor inverseDeviation) {
    this.inverseDeviation = inverseDeviation;
    return this;
  }

  Tensor weight() {
    return weight;
  }

  Tensor residual() {
    return residual;
  }

  Tensor sum() {
    return sum;
  }

  Tensor inverseDeviation() {
    return inverseDeviation;
  }

  static MemorySegment raw(RmsNormOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_rms_norm_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_rms_norm_options.struct_size, Layouts.fovea_rms_norm_options.SIZE);
    raw.set(JAVA_FLOAT, Layouts.fovea_rms_norm_options.epsilon, options.epsilon);
    raw.set(JAVA_INT, Layouts.fovea_rms_norm_options.flags, options.flags);
    raw.set(ADDRESS, Layouts.fovea_rms_norm_options.weight, call.in(options.weight));
    raw.set(ADDRESS, Layouts.fovea_rms_norm_options.residual, call.in(options.residual));
    raw.set(ADDRESS, Layouts.fovea_rms_norm_options.sum, call.out(options.sum));
    raw.set(ADDRESS, Layouts.fovea_rms_norm_options.inverse_deviation, call.out(options.inverseDeviation));
    return raw;
  }
}
