// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_append_options}. */
public final class AppendOptions {
  private RotaryOptions rotary;
  private Tensor keyScales;
  private Tensor valueScales;

  public AppendOptions() {}

  /**
   * turns keys on the way, as fovea_rotary does: at fovea_schedule_positions (and offset 0), unless positions or
   * cosines of rows are given. NULL: none
   */
  public AppendOptions rotary(RotaryOptions rotary) {
    this.rotary = rotary;
    return this;
  }

  /** output: the scales of I8 key_pages, as the schedule was made with; else NULL */
  public AppendOptions keyScales(Tensor keyScales) {
    this.keyScales = keyScales;
    return this;
  }

  /** likewise of I8 or U8 value_pages */
  public AppendOptions valueScales(Tensor valueScales) {
    this.valueScales = valueScales;
    return this;
  }

  RotaryOptions rotary() {
    return rotary;
  }

  Tensor keyScales() {
    return keyScales;
  }

  Tensor valueScales() {
    return valueScales;
  }

  static MemorySegment raw(AppendOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_append_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_append_options.struct_size, Layouts.fovea_append_options.SIZE);
    raw.set(ADDRESS, Layouts.fovea_append_options.rotary, RotaryOptions.raw(options.rotary, call));
    raw.set(ADDRESS, Layouts.fovea_append_options.key_scales, call.both(options.keyScales));
    raw.set(ADDRESS, Layouts.fovea_append_options.value_scales, call.both(options.valueScales));
    return raw;
  }
}
