// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_positional_encoding_options}. */
public final class PositionalEncodingOptions {
  private float base;
  private float dropout;
  private long offset;
  private long dropoutSeed;
  private int flags;

  public PositionalEncodingOptions() {}

  /** &gt; 1 and finite; left out: 10000 */
  public PositionalEncodingOptions base(float base) {
    flags |= 1;
    this.base = base;
    return this;
  }

  /** in [0, 1); for fovea_add_positional_encoding */
  public PositionalEncodingOptions dropout(float dropout) {
    this.dropout = dropout;
    return this;
  }

  /** position of row 0, 0 to 2^30 */
  public PositionalEncodingOptions offset(long offset) {
    this.offset = offset;
    return this;
  }

  /** used with dropout */
  public PositionalEncodingOptions dropoutSeed(long dropoutSeed) {
    this.dropoutSeed = dropoutSeed;
    return this;
  }

  /** of fovea_add_positional_encoding alone: out = dropout(x), as what the loss changes by goes back */
  public PositionalEncodingOptions dropoutAlone() {
    flags |= 2;
    return this;
  }

  static MemorySegment raw(PositionalEncodingOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_positional_encoding_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_positional_encoding_options.struct_size, Layouts.fovea_positional_encoding_options.SIZE);
    raw.set(JAVA_FLOAT, Layouts.fovea_positional_encoding_options.base, options.base);
    raw.set(JAVA_FLOAT, Layouts.fovea_positional_encoding_options.dropout, options.dropout);
    raw.set(JAVA_LONG, Layouts.fovea_positional_encoding_options.offset, options.offset);
    raw.set(JAVA_LONG, Layouts.fovea_positional_encoding_options.dropout_seed, options.dropoutSeed);
    raw.set(JAVA_INT, Layouts.fovea_positional_encoding_options.flags, options.flags);
    return raw;
  }
}
