// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_norm_gradients}. */
public final class NormGradients {
  private Tensor out;
  private Tensor sum;
  private Tensor x;
  private Tensor weight;
  private Tensor bias;

  public NormGradients() {}

  /** F, x's shape, last axis contiguous: what the loss changes by for each element of out. Must be given */
  public NormGradients out(Tensor out) {
    this.out = out;
    return this;
  }

  /** F, likewise: for each element of options.sum, beside what it does through out; NULL: 0 */
  public NormGradients sum(Tensor sum) {
    this.sum = sum;
    return this;
  }

  /** output F, likewise: of x, and of the residual, which is the same. May be out or sum in place */
  public NormGradients x(Tensor x) {
    this.x = x;
    return this;
  }

  /** output F [E], contiguous */
  public NormGradients weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  /** output F [E], contiguous: of fovea_layer_norm alone */
  public NormGradients bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  Tensor out() {
    return out;
  }

  Tensor sum() {
    return sum;
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

  static MemorySegment raw(NormGradients options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_norm_gradients.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_norm_gradients.struct_size, Layouts.fovea_norm_gradients.SIZE);
    raw.set(ADDRESS, Layouts.fovea_norm_gradients.out, call.in(options.out));
    raw.set(ADDRESS, Layouts.fovea_norm_gradients.sum, call.in(options.sum));
    raw.set(ADDRESS, Layouts.fovea_norm_gradients.x, call.out(options.x));
    raw.set(ADDRESS, Layouts.fovea_norm_gradients.weight, call.out(options.weight));
    raw.set(ADDRESS, Layouts.fovea_norm_gradients.bias, call.out(options.bias));
    return raw;
  }
}
