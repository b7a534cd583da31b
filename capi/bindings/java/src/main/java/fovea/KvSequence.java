// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** A sequence of a {@link KvPool}, which it keeps. close() gives its pages back, or else the garbage collector does. */
public final class KvSequence extends Handle {
  final KvPool pool;
  private volatile long length;

  /** Its number stands in the place of a pointer. For one who is alone with the pool. */
  KvSequence(KvPool pool, long id) {
    super(MemorySegment.ofAddress(id), number -> pool.drop(number.address()), pool);
    this.pool = pool;
    measure();
  }

  private long id() {
    return pointer().address();
  }

  /** Notes its length, for one who is alone with the pool. */
  void measure() {
    length = Native.fovea_kv_pool_length(pool.pointer(), id());
  }

  /** A new sequence that begins as the first `length` positions of this one, whose pages it shares. */
  public KvSequence fork(long length) {
    try (Call call = new Call()) {
      call.use(this);
      MemorySegment raw = pool.alone(call), made = call.made();
      call.run(pins -> Native.fovea_kv_pool_fork(raw, id(), length, made, pins));
      return pool.sequence(made);
    }
  }

  /** Forgets the positions from `length` on. */
  public void truncate(long length) {
    try (Call call = new Call()) {
      call.use(this);
      MemorySegment raw = pool.alone(call);
      call.run(pins -> Native.fovea_kv_pool_truncate(raw, id(), length, pins));
      measure();
    }
  }

  /** Gives back the pages that hold only positions before `first`, which no query attends. Positions keep their numbers. */
  public void dropFront(long first) {
    try (Call call = new Call()) {
      call.use(this);
      MemorySegment raw = pool.alone(call);
      call.run(pins -> Native.fovea_kv_pool_drop(raw, id(), first, pins));
    }
  }

  /** Positions, the dropped ones included; during a step how many there were before it. */
  public long length() {
    hold();
    letGo();
    return length;
  }

  /** It as bytes, for a file or another machine. */
  public byte[] save() {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      call.use(this);
      MemorySegment raw = pool.alone(call);
      MemorySegment copy = arena.allocate(Math.max(Native.fovea_kv_pool_saved_size(raw, id()), 1));
      call.run(pins -> Native.fovea_kv_pool_save(raw, id(), copy, copy.byteSize(), pins));
      return copy.toArray(JAVA_BYTE);
    }
  }
}
