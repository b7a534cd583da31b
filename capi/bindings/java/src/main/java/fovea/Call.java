// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;

/** One call: its structs, the handles it uses, and copies of arrays, which lie where C must not point. */
final class Call implements AutoCloseable {
  private static final long BLOCK = 1024;

  private record Placed(Tensor tensor, MemorySegment raw, boolean reads, boolean writes) {}

  private record Used(Handle handle, boolean began) {}

  /** What of an array some tensors are views of: bytes [low, high), and their copy. */
  private static final class Region {
    final Object array;
    long low = Long.MAX_VALUE;
    long high = Long.MIN_VALUE;
    MemorySegment copy;

    Region(Object array) {
      this.array = array;
    }
  }

  private final Arena arena = Arena.ofConfined();
  private final List<Used> used = new ArrayList<>(3);
  private final List<MemorySegment> kept = new ArrayList<>(6); // memory whose address C is given
  private List<Placed> placed = List.of();
  private MemorySegment block = arena.allocate(BLOCK, 8);
  private long next;
  private boolean reading;

  /** Zeros. */
  MemorySegment allocate(long size) {
    if (next + size > block.byteSize()) {
      block = arena.allocate(Math.max(BLOCK, size), 8);
      next = 0;
    }
    MemorySegment made = block.asSlice(next, size);
    next += size + 7 & -8;
    return made;
  }

  /** Room for the handle that a function makes. */
  MemorySegment made() {
    return allocate(ADDRESS.byteSize());
  }

  // ---- handles -----------------------------------------------------------------------------------------------------

  /** One that never changes. */
  MemorySegment use(Handle handle) {
    if (handle == null) return MemorySegment.NULL;
    MemorySegment pointer = handle.hold();
    used.add(new Used(handle, false));
    return pointer;
  }

  MemorySegment reads(Handle handle) {
    return begin(handle, false);
  }

  MemorySegment changes(Handle handle) {
    return begin(handle, true);
  }

  private MemorySegment begin(Handle handle, boolean changes) {
    if (handle == null) return MemorySegment.NULL;
    MemorySegment pointer = handle.hold();
    try {
      handle.begin(changes);
    } catch (IllegalStateException refused) {
      handle.letGo();
      throw refused;
    }
    used.add(new Used(handle, true));
    return pointer;
  }

  // ---- tensors -----------------------------------------------------------------------------------------------------

  MemorySegment in(Tensor tensor) {
    return tensor(tensor, true, false);
  }

  MemorySegment out(Tensor tensor) {
    return written(tensor, false);
  }

  /** One that is read too, or written in part. */
  MemorySegment both(Tensor tensor) {
    return written(tensor, true);
  }

  /** Options of a call that is not made here, but planned, or gone back through: what it writes is left as it is. */
  MemorySegment reading(Supplier<MemorySegment> options) {
    reading = true;
    try {
      return options.get();
    } finally {
      reading = false;
    }
  }

  private MemorySegment written(Tensor tensor, boolean reads) {
    if (reading) return in(tensor);
    if (tensor != null && tensor.data != null && tensor.data.isReadOnly())
      throw new IllegalArgumentException("an output lies in a read-only segment");
    return tensor(tensor, reads, true);
  }

  private MemorySegment tensor(Tensor tensor, boolean reads, boolean writes) {
    if (tensor == null) return MemorySegment.NULL;
    MemorySegment raw = allocate(Layouts.fovea_tensor.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_tensor.dtype, tensor.dtype.number);
    raw.set(JAVA_INT, Layouts.fovea_tensor.rank, tensor.shape.length);
    for (int axis = 0; axis < tensor.shape.length; ++axis) {
      raw.set(JAVA_LONG, Layouts.fovea_tensor.shape + 8L * axis, tensor.shape[axis]);
      raw.set(JAVA_LONG, Layouts.fovea_tensor.strides + 8L * axis, tensor.strides[axis]);
    }
    if (tensor.isOnHeap()) {
      if (placed.isEmpty()) placed = new ArrayList<>(6);
      placed.add(new Placed(tensor, raw, reads, writes));
    } else if (tensor.data != null) {
      kept.add(tensor.data);
      raw.set(JAVA_LONG, Layouts.fovea_tensor.data, addressOf(tensor.data) + tensor.origin);
    }
    return raw;
  }

  /** Of memory that this thread may use. */
  static long addressOf(MemorySegment segment) {
    if (!segment.scope().isAlive()) throw new IllegalStateException("the arena of a tensor was closed");
    if (!segment.isAccessibleBy(Thread.currentThread()))
      throw new WrongThreadException("the arena of a tensor belongs to another thread");
    return segment.address();
  }

  /** Gives each array one copy, so that views of it overlap there as they do here. */
  private void place(List<Region> regions) {
    for (Placed one : placed) {
      Region region = regionOf(regions, one.tensor);
      region.low = Math.min(region.low, begin(one.tensor));
      region.high = Math.max(region.high, begin(one.tensor) + one.tensor.bytes);
    }
    for (Region region : regions) region.copy = arena.allocate(Math.max(region.high - region.low, 1), 64);
    for (Placed one : placed) {
      Region region = regionOf(regions, one.tensor);
      long at = begin(one.tensor) - region.low;
      if (one.reads) MemorySegment.copy(one.tensor.data, one.tensor.first, region.copy, at, one.tensor.bytes);
      one.raw.set(
          JAVA_LONG, Layouts.fovea_tensor.data, region.copy.address() + at + one.tensor.origin - one.tensor.first);
    }
  }

  /** The first byte of the tensor within its array. */
  private static long begin(Tensor tensor) {
    return tensor.data.address() + tensor.first;
  }

  private static Region regionOf(List<Region> regions, Tensor tensor) {
    Object array = tensor.data.heapBase().orElse(tensor.data); // a read-only one does not tell
    for (Region region : regions)
      if (region.array == array) return region;
    Region made = new Region(array);
    regions.add(made);
    return made;
  }

  /** Makes the call, a function of its pins; throws what it reports. Only after success is anything written to arrays. */
  void run(ToIntFunction<MemorySegment[]> function) {
    List<Region> regions = placed.isEmpty() ? List.of() : new ArrayList<>(placed.size());
    place(regions);
    FoveaException.check(function.applyAsInt(Pins.of(kept)));
    for (Placed one : placed) {
      if (!one.writes) continue;
      Region region = regionOf(regions, one.tensor);
      one.tensor.copyElements(region.copy, begin(one.tensor) - region.low, one.tensor.data, one.tensor.first);
    }
  }

  /** The same for a function that makes a handle. */
  MemorySegment run(MemorySegment made, ToIntFunction<MemorySegment[]> function) {
    run(function);
    return made.get(ADDRESS, 0);
  }

  @Override
  public void close() {
    for (Used one : used) {
      if (one.began) one.handle.end();
      one.handle.letGo();
    }
    arena.close();
    Reference.reachabilityFence(kept);
  }
}
