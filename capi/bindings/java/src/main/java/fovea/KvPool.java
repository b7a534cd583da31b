// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The keys and values of many sequences and layers, in pages that sequences share where they begin alike. One call at a time
 * uses a pool: what finds it in use by another thread is refused with an IllegalStateException, and a sequence that is closed
 * then goes with the pool's next change. Pages that run out are a FoveaException of {@link Status#POOL_EXHAUSTED}.
 */
public final class KvPool extends Handle {
  /** Sequences that were closed while a call was using the pool. */
  private final Queue<Long> dropped = new ConcurrentLinkedQueue<>();

  private KvPool(MemorySegment pointer) {
    super(pointer, Native::fovea_kv_pool_destroy);
  }

  /** An empty pool. */
  public static KvPool of(KvPoolSizes sizes) {
    try (Call call = new Call()) {
      MemorySegment raw = KvPoolSizes.raw(sizes, call), made = call.made();
      return new KvPool(call.run(made, pins -> Native.fovea_kv_pool_create(raw, made, pins)));
    }
  }

  // ---- sequences ----------------------------------------------------------------------------------------------------

  /** A new, empty sequence. */
  public KvSequence open() {
    try (Call call = new Call()) {
      MemorySegment self = alone(call), made = call.made();
      call.run(pins -> Native.fovea_kv_pool_open(self, made, pins));
      return sequence(made);
    }
  }

  /** A sequence of what save gave, here or in another pool of the same layers, heads, features and types. */
  public KvSequence restore(byte[] bytes) {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      MemorySegment self = alone(call), copy = arena.allocate(Math.max(bytes.length, 1)), made = call.made();
      MemorySegment.copy(bytes, 0, copy, JAVA_BYTE, 0, bytes.length);
      call.run(pins -> Native.fovea_kv_pool_restore(self, copy, bytes.length, made, pins));
      return sequence(made);
    }
  }

  /** For one who is alone with the pool. */
  KvSequence sequence(MemorySegment made) {
    return new KvSequence(this, made.get(JAVA_LONG, 0));
  }

  /** Uses the pool in a call that no other gets in the way of. */
  MemorySegment alone(Call call) {
    MemorySegment self = call.changes(this);
    closeDropped();
    return self;
  }

  private void closeDropped() {
    for (Long id; (id = dropped.poll()) != null;) Native.fovea_kv_pool_close(pointer(), id, null);
  }

  /** Closes a sequence now, or leaves that to who uses the pool next. */
  void drop(long id) {
    dropped.add(id);
    try {
      begin(true);
    } catch (IllegalStateException inUse) {
      return;
    }
    closeDropped();
    end();
  }

  /**
   * Makes room for a step, in which each sequence grows by so many positions, all or none of them. What it gives is for
   * {@link Schedule#set}.
   */
  public Step step(List<KvSequence> sequences, long... tokens) {
    return step(null, sequences, tokens);
  }

  public Step step(Context context, List<KvSequence> sequences, long... tokens) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = alone(call);
      long[] ids = new long[sequences.size()];
      for (int i = 0; i < ids.length; ++i) {
        if (sequences.get(i).pool != this)
          throw new FoveaException(Status.BAD_VALUE, "sequence " + i + " of the step is of another pool");
        ids[i] = call.use(sequences.get(i)).address();
      }
      MemorySegment numbers = call.in(Tensor.of(ids)), counts = call.in(Tensor.of(tokens));
      MemorySegment raw = call.allocate(Layouts.fovea_step.SIZE);
      raw.set(JAVA_LONG, Layouts.fovea_step.struct_size, Layouts.fovea_step.SIZE);
      call.run(pins -> Native.fovea_kv_pool_step(c, self, numbers, counts, raw, pins));
      for (KvSequence one : sequences) one.measure();
      return new Step()
          .queryStarts(told(raw, Layouts.fovea_step.query_starts))
          .keyStarts(told(raw, Layouts.fovea_step.key_starts))
          .keyLens(told(raw, Layouts.fovea_step.key_lens))
          .pageIds(told(raw, Layouts.fovea_step.page_ids))
          .pageStarts(told(raw, Layouts.fovea_step.page_starts));
    }
  }

  /** A copy, as what the pool has of it is gone with its next change. */
  private static Tensor told(MemorySegment step, long place) {
    MemorySegment address = step.get(ADDRESS, place);
    if (address.equals(MemorySegment.NULL)) return null;
    return Tensor.of(Library.memory(address, Layouts.fovea_tensor.SIZE, null), null).copy();
  }

  // ---- pages --------------------------------------------------------------------------------------------------------

  /** A layer's pages: what a schedule is made with, and appends to. */
  public Pages pages(long layer) {
    return new Pages(keys(layer), values(layer), scales(layer, Native::fovea_kv_pool_key_scales),
        scales(layer, Native::fovea_kv_pool_value_scales));
  }

  /** A layer's keys, [P,Hkv,page,D]. They keep the pool's memory. */
  public Tensor keys(long layer) {
    return tensor(layer, Native::fovea_kv_pool_keys);
  }

  /** A layer's values, [P,Hkv,page,Dv]. */
  public Tensor values(long layer) {
    return tensor(layer, Native::fovea_kv_pool_values);
  }

  private interface OfLayer {
    MemorySegment tensor(SegmentAllocator allocator, MemorySegment pool, long layer);
  }

  private Tensor tensor(long layer, OfLayer of) {
    Tensor found = scales(layer, of);
    if (found == null) throw new FoveaException(Status.BAD_VALUE, "the pool has no layer " + layer);
    return found;
  }

  /** null: of numbers that need none. */
  private Tensor scales(long layer, OfLayer of) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment self = hold(), told = of.tensor(arena, self, layer);
      if (told.get(JAVA_INT, Layouts.fovea_tensor.rank) >= 0) return Tensor.of(told, this::letGo);
      letGo();
      return null;
    }
  }

  /** Pages that no sequence holds. */
  public long freePages() {
    try (Call call = new Call()) {
      return Native.fovea_kv_pool_free_pages(alone(call));
    }
  }

  /** Bytes of all pages. */
  public long size() {
    try (Call call = new Call()) {
      return Native.fovea_kv_pool_size(call.use(this));
    }
  }
}
