// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_matmul_pack_options}. */
public final class MatmulPackOptions {
  private Precision precision;

  public MatmulPackOptions() {}

  /** FOVEA_PRECISION_* */
  public MatmulPackOptions precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  Precision precision() {
    return precision;
  }

  static MemorySegment raw(MatmulPackOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_matmul_pack_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_matmul_pack_options.struct_size, Layouts.fovea_matmul_pack_options.SIZE);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_matmul_pack_options.precision, options.precision.number);
    return raw;
  }
}
