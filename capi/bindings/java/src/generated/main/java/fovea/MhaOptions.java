// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_mha_options}. */
public final class MhaOptions {
  private int flags;
  private Precision precision;
  private AttentionOptions attention;
  private Score score;
  private RotaryOptions rotary;
  private Schedule schedule;
  private Tensor keyPages;
  private Tensor valuePages;
  private Tensor keyScales;
  private Tensor valueScales;
  private Tensor kept;

  public MhaOptions() {}

  /** attend to what the pages hold and append nothing; key and value inputs are NULL */
  public MhaOptions keepPages() {
    flags |= 1;
    return this;
  }

  /** FOVEA_PRECISION_*, of what is F32 but the weights, and of attention unless attention.precision says otherwise */
  public MhaOptions precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  /** scale, masks, weights, ...: as in fovea_attention, for query [B,H,Q,D]. NULL: defaults */
  public MhaOptions attention(AttentionOptions attention) {
    this.attention = attention;
    return this;
  }

  /** how heads compare; its parameters serve all heads. NULL: scaled dot */
  public MhaOptions score(Score score) {
    this.score = score;
    return this;
  }

  /**
   * turns projected queries and keys; needs Dk = D. Row i of either stands at offset + i; or at positions[i],
   * which needs as many queries as keys, as cosines of rows do. With a schedule, unless positions or cosines of
   * rows are given, at fovea_schedule_positions, and offset is 0. NULL: none
   */
  public MhaOptions rotary(RotaryOptions rotary) {
    this.rotary = rotary;
    return this;
  }

  /** rows are the tokens of its present step: query [T,Eq], out [T,Eo]. NULL: none. See below */
  public MhaOptions schedule(Schedule schedule) {
    this.schedule = schedule;
    return this;
  }

  /**
   * this layer's pages, of a schedule that was made for pages: projected keys and values are appended to them as
   * fovea_schedule_append does, then attended
   */
  public MhaOptions keyPages(Tensor keyPages) {
    this.keyPages = keyPages;
    return this;
  }

  public MhaOptions valuePages(Tensor valuePages) {
    this.valuePages = valuePages;
    return this;
  }

  /** of pages of I8, or U8; else NULL */
  public MhaOptions keyScales(Tensor keyScales) {
    this.keyScales = keyScales;
    return this;
  }

  public MhaOptions valueScales(Tensor valueScales) {
    this.valueScales = valueScales;
    return this;
  }

  /**
   * output F32 [n], contiguous, n = B Q H (D + Dv + 1) + B K Hkv (Dk + Dv): queries, keys and values as they were
   * attended to, what attention gave and its log-sum-exp, in an order of the library's own. An input of
   * fovea_multi_head_attention_backward, which then computes none of it again. Tensors between the steps are F32
   * with it. Not with a schedule, pages or a plan. NULL: nothing is kept
   */
  public MhaOptions kept(Tensor kept) {
    this.kept = kept;
    return this;
  }

  Precision precision() {
    return precision;
  }

  AttentionOptions attention() {
    return attention;
  }

  Score score() {
    return score;
  }

  RotaryOptions rotary() {
    return rotary;
  }

  Schedule schedule() {
    return schedule;
  }

  Tensor keyPages() {
    return keyPages;
  }

  Tensor valuePages() {
    return valuePages;
  }

  Tensor keyScales() {
    return keyScales;
  }

  Tensor valueScales() {
    return valueScales;
  }

  Tensor kept() {
    return kept;
  }

  static MemorySegment raw(MhaOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_mha_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_mha_options.struct_size, Layouts.fovea_mha_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_mha_options.flags, options.flags);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_mha_options.precision, options.precision.number);
    raw.set(ADDRESS, Layouts.fovea_mha_options.attention, AttentionOptions.raw(options.attention, call));
    raw.set(ADDRESS, Layouts.fovea_mha_options.score, Score.raw(options.score, call));
    raw.set(ADDRESS, Layouts.fovea_mha_options.rotary, RotaryOptions.raw(options.rotary, call));
    raw.set(ADDRESS, Layouts.fovea_mha_options.schedule, call.reads(options.schedule));
    raw.set(ADDRESS, Layouts.fovea_mha_options.key_pages, call.both(options.keyPages));
    raw.set(ADDRESS, Layouts.fovea_mha_options.value_pages, call.both(options.valuePages));
    raw.set(ADDRESS, Layouts.fovea_mha_options.key_scales, call.both(options.keyScales));
    raw.set(ADDRESS, Layouts.fovea_mha_options.value_scales, call.both(options.valueScales));
    raw.set(ADDRESS, Layouts.fovea_mha_options.kept, call.both(options.kept));
    return raw;
  }
}
