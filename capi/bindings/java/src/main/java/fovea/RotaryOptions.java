// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_rotary_options}. */
public final class RotaryOptions {
  private int flags;
  private float base;
  private float positionScale;
  private long rotaryDim;
  private long offset;
  private Tensor positions;

  public RotaryOptions() {}

  /** pairs (2j, 2j+1), as in the paper; else (j, j + rotary_dim/2), as in GPT-NeoX and Llama */
  public RotaryOptions interleaved() {
    flags |= 1;
    return this;
  }

  /** rotate back */
  public RotaryOptions inverse() {
    flags |= 2;
    return this;
  }

  /** &gt; 1 and finite; left out: 10000 */
  public RotaryOptions base(float base) {
    flags |= 4;
    this.base = base;
    return this;
  }

  /** positions are multiplied by it (1/2: linear interpolation to twice the context); finite; left out: 1 */
  public RotaryOptions positionScale(float positionScale) {
    flags |= 8;
    this.positionScale = positionScale;
    return this;
  }

  /** the first features, an even number up to D, are rotated, the others copied; left out: D (even) */
  public RotaryOptions rotaryDim(long rotaryDim) {
    flags |= 16;
    this.rotaryDim = rotaryDim;
    return this;
  }

  /**
   * position of the first row: the length of the cache; 0 to 2^30. position_scale times the largest position must
   * not pass 2^34
   */
  public RotaryOptions offset(long offset) {
    this.offset = offset;
    return this;
  }

  /** [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's first axis */
  public RotaryOptions positions(Tensor positions) {
    this.positions = positions;
    return this;
  }

  Tensor positions() {
    return positions;
  }

  static MemorySegment raw(RotaryOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_rotary_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_options.struct_size, Layouts.fovea_rotary_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_rotary_options.flags, options.flags);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_options.base, options.base);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_options.position_scale, options.positionScale);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_options.rotary_dim, options.rotaryDim);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_options.offset, options.offset);
    raw.set(ADDRESS, Layouts.fovea_rotary_options.positions, call.in(options.positions));
    return raw;
  }
}
