// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The keys and values of sequences of one length, kept from step to step. Any number of threads may attend at once;
 * what changes a cache while another thread uses it is refused with an IllegalStateException.
 */
public final class KvCache extends Handle {
  private KvCache(MemorySegment pointer) {
    super(pointer, Native::fovea_kv_cache_destroy);
  }

  /** An empty cache. */
  public static KvCache of(KvCacheSizes sizes) {
    try (Call call = new Call()) {
      MemorySegment raw = KvCacheSizes.raw(sizes, call), made = call.made();
      return new KvCache(call.run(made, pins -> Native.fovea_kv_cache_create(raw, made, pins)));
    }
  }

  /** A cache of what save gave, with the capacity it was saved with. */
  public static KvCache restore(byte[] bytes) {
    return restored(bytes, 0);
  }

  /** A cache of what save gave, with another capacity. */
  public static KvCache restore(byte[] bytes, long capacity) {
    if (capacity == 0) throw new FoveaException(Status.BAD_VALUE, "capacity is 0, expected at least 1");
    return restored(bytes, capacity);
  }

  private static KvCache restored(byte[] bytes, long capacity) {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      MemorySegment copy = arena.allocate(Math.max(bytes.length, 1)), made = call.made();
      MemorySegment.copy(bytes, 0, copy, ValueLayout.JAVA_BYTE, 0, bytes.length);
      return new KvCache(call.run(made, pins -> Native.fovea_kv_cache_restore(copy, bytes.length, capacity, made, pins)));
    }
  }

  public byte[] save() {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      MemorySegment self = call.reads(this);
      MemorySegment copy = arena.allocate(Math.max(Native.fovea_kv_cache_saved_size(self), 1));
      call.run(pins -> Native.fovea_kv_cache_save(self, copy, copy.byteSize(), pins));
      return copy.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  public void append(Tensor key, Tensor value) {
    append(null, key, value);
  }

  public void append(Context context, Tensor key, Tensor value) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = call.changes(this), k = call.in(key), v = call.in(value);
      call.run(pins -> Native.fovea_kv_cache_append(c, self, k, v, pins));
    }
  }

  /** By the scaled dot product. The result has query's shape: for values of another size give out. */
  public Tensor attend(Tensor query, AttentionOptions options) {
    Tensor out = Tensor.zeros(query.dtype, query.shape);
    attend(null, null, query, out, options);
    return out;
  }

  /** score null: the scaled dot product. */
  public void attend(Context context, Score score, Tensor query, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = call.reads(this), s = Score.raw(score, call), q = call.in(query);
      MemorySegment result = call.out(out), raw = AttentionOptions.raw(options, call);
      call.run(pins -> Native.fovea_kv_cache_attend(c, self, s, q, result, raw, pins));
    }
  }

  /** Forgets the positions from length on. */
  public void truncate(long length) {
    try (Call call = new Call()) {
      MemorySegment self = call.changes(this);
      call.run(pins -> Native.fovea_kv_cache_truncate(self, length, pins));
    }
  }

  /** Sequence b becomes a copy of what was sequence source[b]. */
  public void reorder(Tensor source) {
    reorder(null, source);
  }

  public void reorder(Context context, Tensor source) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = call.changes(this), from = call.in(source);
      call.run(pins -> Native.fovea_kv_cache_reorder(c, self, from, pins));
    }
  }

  /** Positions held. */
  public long length() {
    try (Call call = new Call()) {
      return Native.fovea_kv_cache_length(call.reads(this));
    }
  }

  /** Bytes held. */
  public long size() {
    try (Call call = new Call()) {
      return Native.fovea_kv_cache_size(call.reads(this));
    }
  }
}
