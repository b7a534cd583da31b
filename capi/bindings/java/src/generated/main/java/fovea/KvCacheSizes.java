// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_kv_cache_sizes}. */
public final class KvCacheSizes {
  private long batch;
  private long kvHeads;
  private long capacity;
  private long headDim;
  private long valueDim;
  private Dtype dtype;

  public KvCacheSizes() {}

  /** B, 0 to 2^30 */
  public KvCacheSizes batch(long batch) {
    this.batch = batch;
    return this;
  }

  /** Hkv, 1 to 2^30 */
  public KvCacheSizes kvHeads(long kvHeads) {
    this.kvHeads = kvHeads;
    return this;
  }

  /** positions, 0 to 2^30 */
  public KvCacheSizes capacity(long capacity) {
    this.capacity = capacity;
    return this;
  }

  /** D, 1 to 1024 */
  public KvCacheSizes headDim(long headDim) {
    this.headDim = headDim;
    return this;
  }

  /** Dv, 1 to 1024; left out: head_dim */
  public KvCacheSizes valueDim(long valueDim) {
    if (valueDim == 0) throw new FoveaException(Status.BAD_VALUE, "valueDim is 0, expected at least 1");
    this.valueDim = valueDim;
    return this;
  }

  /** FOVEA_F32, FOVEA_F16 or FOVEA_BF16; 0: FOVEA_F32 */
  public KvCacheSizes dtype(Dtype dtype) {
    this.dtype = dtype;
    return this;
  }

  Dtype dtype() {
    return dtype;
  }

  static MemorySegment raw(KvCacheSizes options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_kv_cache_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.struct_size, Layouts.fovea_kv_cache_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.batch, options.batch);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.kv_heads, options.kvHeads);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.capacity, options.capacity);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.head_dim, options.headDim);
    raw.set(JAVA_LONG, Layouts.fovea_kv_cache_sizes.value_dim, options.valueDim);
    if (options.dtype != null) raw.set(JAVA_INT, Layouts.fovea_kv_cache_sizes.dtype, options.dtype.number);
    return raw;
  }
}
