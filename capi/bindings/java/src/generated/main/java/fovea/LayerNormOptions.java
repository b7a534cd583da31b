// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_layer_norm_options}. */
public final class LayerNormOptions {
  private float epsilon;
  private int flags;
  private Tensor weight;
  private Tensor bias;
  private Tensor residual;
  private Tensor sum;
  private Tensor mean;
  private Tensor inverseDeviation;

  public LayerNormOptions() {}

  /** finite, &gt;= 0; left out: 1e-5 */
  public LayerNormOptions epsilon(float epsilon) {
    flags |= 1;
    this.epsilon = epsilon;
    return this;
  }

  /** F [E], contiguous; NULL: ones */
  public LayerNormOptions weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  /** F [E], contiguous; NULL: zeros */
  public LayerNormOptions bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  /** F, x's shape, last axis contiguous: x + residual is normalised */
  public LayerNormOptions residual(Tensor residual) {
    this.residual = residual;
    return this;
  }

  /**
   * output F, x's shape, last axis contiguous: x + residual, as a layer that comes later wants it; with residual
   * only
   */
  public LayerNormOptions sum(Tensor sum) {
    this.sum = sum;
    return this;
  }

  /** output F32 [...], x's axes without the last, any strides: mean(y) */
  public LayerNormOptions mean(Tensor mean) {
    this.mean = mean;
    return this;
  }

  /** output F32, likewise: 1 / sqrt(variance(y) + epsilon) */
  public LayerNormOptions inverseDeviation(Tensor inverseDeviation) {
    this.inverseDeviation = inverseDeviation;
    return this;
  }

  Tensor weight() {
    return weight;
  }

  Tensor bias() {
    return bias;
  }

  Tensor residual() {
    return residual;
  }

  Tensor sum() {
    return sum;
  }

  Tensor mean() {
    return mean;
  }

  Tensor inverseDeviation() {
    return inverseDeviation;
  }

  static MemorySegment raw(LayerNormOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_layer_norm_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_layer_norm_options.struct_size, Layouts.fovea_layer_norm_options.SIZE);
    raw.set(JAVA_FLOAT, Layouts.fovea_layer_norm_options.epsilon, options.epsilon);
    raw.set(JAVA_INT, Layouts.fovea_layer_norm_options.flags, options.flags);
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.weight, call.in(options.weight));
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.bias, call.in(options.bias));
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.residual, call.in(options.residual));
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.sum, call.out(options.sum));
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.mean, call.out(options.mean));
    raw.set(ADDRESS, Layouts.fovea_layer_norm_options.inverse_deviation, call.out(options.inverseDeviation));
    return raw;
  }
}
