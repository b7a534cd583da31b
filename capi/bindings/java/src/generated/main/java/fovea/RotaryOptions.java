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
  private Tensor frequencies;
  private Tensor sections;
  private Tensor cosines;
  private Tensor sines;
  private float attentionFactor;

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
   * position of the first row: how many came before it; 0 to 2^30. position_scale times the largest position must
   * not pass 2^34
   */
  public RotaryOptions offset(long offset) {
    this.offset = offset;
    return this;
  }

  /**
   * [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's first axis. With sections
   * [S,L] or [S,B,L]
   */
  public RotaryOptions positions(Tensor positions) {
    this.positions = positions;
    return this;
  }

  /**
   * F32 [P], P = rotary_dim / 2, any stride: pair j turns by this angle for each position, not by
   * base^(-2j/rotary_dim), and base is not given. Finite; times position_scale and the largest position at most
   * 2^34. fovea_rotary_frequencies makes what models use
   */
  public RotaryOptions frequencies(Tensor frequencies) {
    this.frequencies = frequencies;
    return this;
  }

  /**
   * I32 or I64 [P], any stride, each in [0, S): pair j of row i stands at positions[sections[j]] (M-RoPE, Wang et
   * al. 2024). Qwen2-VL has blocks, of 0, of 1, of 2; Qwen3-VL has j mod 3, but 0 from three times that section's
   * size on
   */
  public RotaryOptions sections(Tensor sections) {
    this.sections = sections;
    return this;
  }

  /**
   * F [N,P]: pair j at position p turns by cosines[p,j] and sines[p,j], and positions are below N. Or F [B,L,P]: a
   * row for each row of x, whatever its position, and offset is 0. Instead of an angle: base, position_scale,
   * frequencies are not given. Last axis contiguous
   */
  public RotaryOptions cosines(Tensor cosines) {
    this.cosines = cosines;
    return this;
  }

  /** F, of cosines' shape, last axis contiguous; both are given or neither */
  public RotaryOptions sines(Tensor sines) {
    this.sines = sines;
    return this;
  }

  /** cosines and sines are multiplied by it (YaRN, LongRoPE); finite; left out: 1 */
  public RotaryOptions attentionFactor(float attentionFactor) {
    flags |= 32;
    this.attentionFactor = attentionFactor;
    return this;
  }

  Tensor positions() {
    return positions;
  }

  Tensor frequencies() {
    return frequencies;
  }

  Tensor sections() {
    return sections;
  }

  Tensor cosines() {
    return cosines;
  }

  Tensor sines() {
    return sines;
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
    raw.set(ADDRESS, Layouts.fovea_rotary_options.frequencies, call.in(options.frequencies));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.sections, call.in(options.sections));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.cosines, call.in(options.cosines));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.sines, call.in(options.sines));
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_options.attention_factor, options.attentionFactor);
    return raw;
  }
}
