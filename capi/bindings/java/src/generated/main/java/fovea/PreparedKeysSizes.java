// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_prepared_keys_sizes}. */
public final class PreparedKeysSizes {
  private long batch;
  private long kvHeads;
  private long capacity;
  private long queryDim;
  private long keyDim;
  private Dtype dtype;

  public PreparedKeysSizes() {}

  /** B, 0 to 2^30 */
  public PreparedKeysSizes batch(long batch) {
    this.batch = batch;
    return this;
  }

  /** Hkv, 1 to 2^30 */
  public PreparedKeysSizes kvHeads(long kvHeads) {
    this.kvHeads = kvHeads;
    return this;
  }

  /** keys of each sequence, 0 to 2^30 */
  public PreparedKeysSizes capacity(long capacity) {
    this.capacity = capacity;
    return this;
  }

  /** Dq, 1 to 1024: CONCAT's weight does not tell the two apart */
  public PreparedKeysSizes queryDim(long queryDim) {
    this.queryDim = queryDim;
    return this;
  }

  /** Dk, 1 to 1024 */
  public PreparedKeysSizes keyDim(long keyDim) {
    this.keyDim = keyDim;
    return this;
  }

  /** FOVEA_F32; for BILINEAR FOVEA_F16 or FOVEA_BF16, too; 0: FOVEA_F32 */
  public PreparedKeysSizes dtype(Dtype dtype) {
    this.dtype = dtype;
    return this;
  }

  Dtype dtype() {
    return dtype;
  }

  static MemorySegment raw(PreparedKeysSizes options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_prepared_keys_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.struct_size, Layouts.fovea_prepared_keys_sizes.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.batch, options.batch);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.kv_heads, options.kvHeads);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.capacity, options.capacity);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.query_dim, options.queryDim);
    raw.set(JAVA_LONG, Layouts.fovea_prepared_keys_sizes.key_dim, options.keyDim);
    if (options.dtype != null) raw.set(JAVA_INT, Layouts.fovea_prepared_keys_sizes.dtype, options.dtype.number);
    return raw;
  }
}
