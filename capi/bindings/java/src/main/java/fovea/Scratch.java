// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** What a run of a plan or a schedule needs beside its data: a struct of addresses, a workspace, copies of arrays. */
final class Scratch {
  private static final long FIRST = Layouts.fovea_attention_buffers.query; // of pointers one after the other

  private final Arena arena = Arena.ofAuto();
  private final String[] names;
  private final boolean[] writes;
  private final MemorySegment[] copies;
  final MemorySegment buffers;
  MemorySegment workspace;

  /** Of attention. */
  Scratch(long size) {
    this(Buffers.WRITES, size);
  }

  /** Of which it writes these. */
  Scratch(boolean[] writes, long size) {
    this(Buffers.NAMES, writes, Layouts.fovea_attention_buffers.SIZE, size);
  }

  /** Of a struct of addresses that have these names. */
  Scratch(String[] names, boolean[] writes, long structSize, long size) {
    this.names = names;
    this.writes = writes;
    copies = new MemorySegment[names.length];
    buffers = arena.allocate(structSize, 8);
    buffers.set(JAVA_LONG, 0, structSize);
    atLeast(size);
  }

  /** Makes the workspace larger where it has to be. */
  Scratch atLeast(long size) {
    if (workspace == null || workspace.byteSize() < size) workspace = Arena.ofAuto().allocate(Math.max(size, 1), 64);
    return this;
  }

  /** Notes where data lies, and copies what lies in arrays; those that are written in part as well. */
  void place(Tensor[] planned, MemorySegment[] data, boolean writtenInPart) {
    for (int i = 0; i < names.length; ++i) {
      long address = data[i] == null ? 0 : place(i, planned[i], data[i], writtenInPart);
      buffers.set(JAVA_LONG, FIRST + 8L * i, address);
    }
  }

  /** Copies into arrays what was written. */
  void giveBack(Tensor[] planned, MemorySegment[] data) {
    for (int i = 0; i < names.length; ++i) {
      if (data[i] == null || !writes[i] || data[i].isNative()) continue;
      planned[i].copyElements(copies[i], 0, data[i], 0);
    }
  }

  /** The address of element (0, ..., 0). What was not planned is the library's to refuse. */
  private long place(int i, Tensor tensor, MemorySegment data, boolean writtenInPart) {
    if (tensor == null) return workspace.address();
    Object array = data.heapBase().orElse(null);
    if (array != null && !holds(array, tensor.dtype))
      throw new FoveaException(Status.BAD_DTYPE,
          names[i] + " is a " + array.getClass().getSimpleName() + ", the plan's is of " + tensor.dtype);
    if (data.byteSize() < tensor.bytes)
      throw new FoveaException(
          Status.BAD_SHAPE, names[i] + " has " + data.byteSize() + " bytes, the plan needs " + tensor.bytes);
    if (writes[i] && data.isReadOnly())
      throw new IllegalArgumentException(names[i] + " lies in a read-only segment");
    long origin = tensor.origin - tensor.first;
    if (data.isNative()) return Call.addressOf(data) + origin;
    if (copies[i] == null) copies[i] = arena.allocate(Math.max(tensor.bytes, 1), 64);
    if (!writes[i] || writtenInPart) MemorySegment.copy(data, 0, copies[i], 0, tensor.bytes);
    return copies[i].address() + origin;
  }

  /** Whether an array's elements are of that type; bytes may be anything's. */
  private static boolean holds(Object array, Dtype dtype) {
    return switch (dtype) {
      case F32 -> array instanceof float[];
      case F16, BF16 -> array instanceof short[];
      case I32 -> array instanceof int[];
      case I64 -> array instanceof long[];
      default -> false;
    } || array instanceof byte[];
  }
}
