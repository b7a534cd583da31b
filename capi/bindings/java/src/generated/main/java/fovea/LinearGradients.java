// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_linear_gradients}. */
public final class LinearGradients {
  private Tensor out;
  private Tensor x;
  private Tensor weight;
  private Tensor bias;
  private Tensor multiplier;

  public LinearGradients() {}

  /**
   * F [M,N] or [B,M,N], last axis contiguous: what the loss changes by for each element of out, and so for each of
   * the residual. Must be given
   */
  public LinearGradients out(Tensor out) {
    this.out = out;
    return this;
  }

  /** output F, x's shape, last axis contiguous */
  public LinearGradients x(Tensor x) {
    this.x = x;
    return this;
  }

  /** output F, weight's shape, last axis contiguous */
  public LinearGradients weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  /** output F [N], any stride */
  public LinearGradients bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  /** output F, out's shape, last axis contiguous */
  public LinearGradients multiplier(Tensor multiplier) {
    this.multiplier = multiplier;
    return this;
  }

  Tensor out() {
    return out;
  }

  Tensor x() {
    return x;
  }

  Tensor weight() {
    return weight;
  }

  Tensor bias() {
    return bias;
  }

  Tensor multiplier() {
    return multiplier;
  }

  static MemorySegment raw(LinearGradients options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_linear_gradients.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_linear_gradients.struct_size, Layouts.fovea_linear_gradients.SIZE);
    raw.set(ADDRESS, Layouts.fovea_linear_gradients.out, call.in(options.out));
    raw.set(ADDRESS, Layouts.fovea_linear_gradients.x, call.out(options.x));
    raw.set(ADDRESS, Layouts.fovea_linear_gradients.weight, call.out(options.weight));
    raw.set(ADDRESS, Layouts.fovea_linear_gradients.bias, call.out(options.bias));
    raw.set(ADDRESS, Layouts.fovea_linear_gradients.multiplier, call.out(options.multiplier));
    return raw;
  }
}
