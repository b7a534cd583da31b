// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_linear_pack_options}. */
public final class LinearPackOptions {
  private WeightLayout layout;
  private Precision precision;

  public LinearPackOptions() {}

  /** FOVEA_WEIGHT_* */
  public LinearPackOptions layout(WeightLayout layout) {
    this.layout = layout;
    return this;
  }

  /** FOVEA_PRECISION_* */
  public LinearPackOptions precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  WeightLayout layout() {
    return layout;
  }

  Precision precision() {
    return precision;
  }

  static MemorySegment raw(LinearPackOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_linear_pack_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_linear_pack_options.struct_size, Layouts.fovea_linear_pack_options.SIZE);
    if (options.layout != null) raw.set(JAVA_INT, Layouts.fovea_linear_pack_options.layout, options.layout.number);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_linear_pack_options.precision, options.precision.number);
    return raw;
  }
}
