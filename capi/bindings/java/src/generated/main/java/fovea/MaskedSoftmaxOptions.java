// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_masked_softmax_options}. */
public final class MaskedSoftmaxOptions {
  private EmptyRows emptyRows;

  public MaskedSoftmaxOptions() {}

  /** FOVEA_EMPTY_ROWS_*: what a row of valid length 0 gives */
  public MaskedSoftmaxOptions emptyRows(EmptyRows emptyRows) {
    this.emptyRows = emptyRows;
    return this;
  }

  EmptyRows emptyRows() {
    return emptyRows;
  }

  static MemorySegment raw(MaskedSoftmaxOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_masked_softmax_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_masked_softmax_options.struct_size, Layouts.fovea_masked_softmax_options.SIZE);
    if (options.emptyRows != null) raw.set(JAVA_INT, Layouts.fovea_masked_softmax_options.empty_rows, options.emptyRows.number);
    return raw;
  }
}
