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
  private KvCache cache;

  public MhaOptions() {}

  /** attend to what the cache holds and append nothing; key and value inputs are NULL */
  public MhaOptions keepCache() {
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
   * turns projected queries and keys; needs Dk = D. Row i of either stands at offset + i, plus the cache's length;
   * or at positions[i], which needs as many queries as keys, as cosines of rows do. NULL: none
   */
  public MhaOptions rotary(RotaryOptions rotary) {
    this.rotary = rotary;
    return this;
  }

  /**
   * projected keys and values are appended to it, and all it then holds is attended: K below is its length. NULL:
   * none
   */
  public MhaOptions cache(KvCache cache) {
    this.cache = cache;
    return this;
  }

  Precision precision() {
    return precision;
  }

  KvCache cache() {
    return cache;
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
    raw.set(ADDRESS, Layouts.fovea_mha_options.cache, (options.flags & 1) != 0 ? call.reads(options.cache) : call.changes(options.cache));
    return raw;
  }
}
