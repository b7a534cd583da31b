// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_kv_pool_sizes}. */
public final class KvPoolSizes {
  private long layers;
  private long kvHeads;
  private long headDim;
  private long valueDim;
  private long positions;
  private long pageSize;
  private long sequences;
  private Dtype keyDtype;
  private Dtype valueDtype;
  private long scaleGroup;

  public KvPoolSizes() {}

  /** 1 to 2^16 */
  public KvPoolSizes layers(long layers) {
    this.layers = layers;
    return this;
  }

  /** Hkv, 1 to 2^20 */
  public KvPoolSizes kvHeads(long kvHeads) {
    this.kvHeads = kvHeads;
    return this;
  }

  /** D, 1 to 1024 */
  public KvPoolSizes headDim(long headDim) {
    this.headDim = headDim;
    return this;
  }

  /** Dv, 1 to 1024; left out: head_dim */
  public KvPoolSizes valueDim(long valueDim) {
    if (valueDim == 0) throw new FoveaException(Status.BAD_VALUE, "valueDim is 0, expected at least 1");
    this.valueDim = valueDim;
    return this;
  }

  /** room for so many of all sequences together, 1 to 2^30; rounded up to whole pages */
  public KvPoolSizes positions(long positions) {
    this.positions = positions;
    return this;
  }

  /**
   * positions of a page, 1 to 2^20; left out: so that a layer's keys of a page take 128 KB or more, but so many
   * pages that each sequence can have one
   */
  public KvPoolSizes pageSize(long pageSize) {
    if (pageSize == 0) throw new FoveaException(Status.BAD_VALUE, "pageSize is 0, expected at least 1");
    this.pageSize = pageSize;
    return this;
  }

  /** most that are open at once, 1 to 2^20 */
  public KvPoolSizes sequences(long sequences) {
    this.sequences = sequences;
    return this;
  }

  /** FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; 0: FOVEA_F32 */
  public KvPoolSizes keyDtype(Dtype keyDtype) {
    this.keyDtype = keyDtype;
    return this;
  }

  /** likewise, or FOVEA_U8: 4 bits, of value_dim a multiple of 32; 0: key_dtype */
  public KvPoolSizes valueDtype(Dtype valueDtype) {
    this.valueDtype = valueDtype;
    return this;
  }

  /**
   * features that share a scale, of I8 or U8: a multiple of 16, with U8 of 32, that divides head_dim and
   * value_dim, or 0: 32 where that divides them, else whole rows. 0 without I8 and U8
   */
  public KvPoolSizes scaleGroup(long scaleGroup) {
    if (scaleGroup == 0) throw new FoveaException(Status.BAD_VALUE, "scaleGroup is 0, expected at least 1");
    this.scaleGroup = scaleGroup;
    return this;
  }

  Dtype keyDtype() {
    return keyDtype;
  }

  Dtype valueDtype() {
    return valueDtype;
  }

  static MemorySegment raw(KvPoolSizes options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_kv_pool_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.struct_size, Layouts.fovea_kv_pool_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.layers, options.layers);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.kv_heads, options.kvHeads);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.head_dim, options.headDim);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.value_dim, options.valueDim);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.positions, options.positions);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.page_size, options.pageSize);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.sequences, options.sequences);
    if (options.keyDtype != null) raw.set(JAVA_INT, Layouts.fovea_kv_pool_sizes.key_dtype, options.keyDtype.number);
    if (options.valueDtype != null) raw.set(JAVA_INT, Layouts.fovea_kv_pool_sizes.value_dtype, options.valueDtype.number);
    raw.set(JAVA_LONG, Layouts.fovea_kv_pool_sizes.scale_group, options.scaleGroup);
    return raw;
  }
}
