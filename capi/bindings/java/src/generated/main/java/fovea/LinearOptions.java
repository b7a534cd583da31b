// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_linear_options}. */
public final class LinearOptions {
  private Activation activation;
  private Precision precision;
  private Tensor bias;
  private Tensor residual;
  private Tensor multiplier;

  public LinearOptions() {}

  /** FOVEA_ACTIVATION_* */
  public LinearOptions activation(Activation activation) {
    this.activation = activation;
    return this;
  }

  /**
   * FOVEA_PRECISION_*, of F32 x: at medium it is rounded to BF16 to meet a W packed as that, where the processor
   * multiplies it; W is as it was packed
   */
  public LinearOptions precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  /** F32 [N], any stride */
  public LinearOptions bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  /**
   * F32, out's shape, last axis contiguous, added last. May be out itself (same data, type, shape and strides):
   * the layer is then added to it
   */
  public LinearOptions residual(Tensor residual) {
    this.residual = residual;
    return this;
  }

  /**
   * F32, out's shape, last axis contiguous: of what the activation gave, as in a gated pair silu(x W) * (x V)
   * (Shazeer 2020, GLU Variants Improve Transformer). May be out itself likewise
   */
  public LinearOptions multiplier(Tensor multiplier) {
    this.multiplier = multiplier;
    return this;
  }

  Activation activation() {
    return activation;
  }

  Precision precision() {
    return precision;
  }

  Tensor bias() {
    return bias;
  }

  Tensor residual() {
    return residual;
  }

  Tensor multiplier() {
    return multiplier;
  }

  static MemorySegment raw(LinearOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_linear_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_linear_options.struct_size, Layouts.fovea_linear_options.SIZE);
    if (options.activation != null) raw.set(JAVA_INT, Layouts.fovea_linear_options.activation, options.activation.number);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_linear_options.precision, options.precision.number);
    raw.set(ADDRESS, Layouts.fovea_linear_options.bias, call.in(options.bias));
    raw.set(ADDRESS, Layouts.fovea_linear_options.residual, call.in(options.residual));
    raw.set(ADDRESS, Layouts.fovea_linear_options.multiplier, call.in(options.multiplier));
    return raw;
  }
}
