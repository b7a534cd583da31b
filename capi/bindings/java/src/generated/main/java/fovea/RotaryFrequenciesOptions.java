// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * A member that another kind takes is 0 or NULL.
 * <p>Whatever is left out has its default. In C: {@code fovea_rotary_frequencies_options}.
 */
public final class RotaryFrequenciesOptions {
  private int flags;
  private FrequenciesKind kind;
  private float base;
  private float factor;
  private long originalLength;
  private long length;
  private float lowFrequencyFactor;
  private float highFrequencyFactor;
  private float fastRotations;
  private float slowRotations;
  private float mscale;
  private float mscaleAllDim;
  private Tensor shortFactors;
  private Tensor longFactors;

  public RotaryFrequenciesOptions() {}

  /** low and high of YaRN are not rounded to whole pairs ("truncate": false) */
  public RotaryFrequenciesOptions unrounded() {
    flags |= 1;
    return this;
  }

  /** FOVEA_FREQUENCIES_* */
  public RotaryFrequenciesOptions kind(FrequenciesKind kind) {
    this.kind = kind;
    return this;
  }

  /** "theta", &gt; 1 and finite */
  public RotaryFrequenciesOptions base(float base) {
    this.base = base;
    return this;
  }

  /** of all kinds but PLAIN: how many times longer the context is; &gt; 0 and finite */
  public RotaryFrequenciesOptions factor(float factor) {
    this.factor = factor;
    return this;
  }

  /** of all kinds but PLAIN and LINEAR: the context before, 2 to 2^30 */
  public RotaryFrequenciesOptions originalLength(long originalLength) {
    this.originalLength = originalLength;
    return this;
  }

  /** of DYNAMIC and LONGROPE: of the sequence as it is now, 0 to 2^30; left out: original_length */
  public RotaryFrequenciesOptions length(long length) {
    if (length == 0) throw new FoveaException(Status.BAD_VALUE, "length is 0, expected at least 1");
    this.length = length;
    return this;
  }

  /** of LLAMA3: &gt;= 0 */
  public RotaryFrequenciesOptions lowFrequencyFactor(float lowFrequencyFactor) {
    this.lowFrequencyFactor = lowFrequencyFactor;
    return this;
  }

  /** of LLAMA3: finite, above low_frequency_factor */
  public RotaryFrequenciesOptions highFrequencyFactor(float highFrequencyFactor) {
    this.highFrequencyFactor = highFrequencyFactor;
    return this;
  }

  /** of YARN: "beta_fast", &gt; 0 and finite; 32 where a configuration has none */
  public RotaryFrequenciesOptions fastRotations(float fastRotations) {
    this.fastRotations = fastRotations;
    return this;
  }

  /** of YARN: "beta_slow", &gt; 0 and finite; 1 where a configuration has none */
  public RotaryFrequenciesOptions slowRotations(float slowRotations) {
    this.slowRotations = slowRotations;
    return this;
  }

  /** of YARN: &gt;= 0 and finite, for attention_factor */
  public RotaryFrequenciesOptions mscale(float mscale) {
    this.mscale = mscale;
    return this;
  }

  /** of YARN: likewise */
  public RotaryFrequenciesOptions mscaleAllDim(float mscaleAllDim) {
    this.mscaleAllDim = mscaleAllDim;
    return this;
  }

  /** of LONGROPE: F32 [P], any stride, &gt; 0 and finite */
  public RotaryFrequenciesOptions shortFactors(Tensor shortFactors) {
    this.shortFactors = shortFactors;
    return this;
  }

  /** of LONGROPE: likewise */
  public RotaryFrequenciesOptions longFactors(Tensor longFactors) {
    this.longFactors = longFactors;
    return this;
  }

  FrequenciesKind kind() {
    return kind;
  }

  Tensor shortFactors() {
    return shortFactors;
  }

  Tensor longFactors() {
    return longFactors;
  }

  static MemorySegment raw(RotaryFrequenciesOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_rotary_frequencies_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_frequencies_options.struct_size, Layouts.fovea_rotary_frequencies_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_rotary_frequencies_options.flags, options.flags);
    if (options.kind != null) raw.set(JAVA_INT, Layouts.fovea_rotary_frequencies_options.kind, options.kind.number);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.base, options.base);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.factor, options.factor);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_frequencies_options.original_length, options.originalLength);
    raw.set(JAVA_LONG, Layouts.fovea_rotary_frequencies_options.length, options.length);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.low_frequency_factor, options.lowFrequencyFactor);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.high_frequency_factor, options.highFrequencyFactor);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.fast_rotations, options.fastRotations);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.slow_rotations, options.slowRotations);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.mscale, options.mscale);
    raw.set(JAVA_FLOAT, Layouts.fovea_rotary_frequencies_options.mscale_all_dim, options.mscaleAllDim);
    raw.set(ADDRESS, Layouts.fovea_rotary_frequencies_options.short_factors, call.in(options.shortFactors));
    raw.set(ADDRESS, Layouts.fovea_rotary_frequencies_options.long_factors, call.in(options.longFactors));
    return raw;
  }
}
