// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * A view of numbers that stay whose they are: an array's, or those of a memory segment. Its shape and strides, in
 * elements, are checked against that memory once, here.
 *
 * <p>Segments outside the heap are handed to the library as they are. While a call uses them their
 * arena cannot be closed: close() throws an IllegalStateException.
 * An array is copied before a call and, where it is written, after it, as C cannot be given what the garbage collector
 * may move.
 */
public final class Tensor {
  final MemorySegment data; // null: of a shape alone
  final Dtype dtype;
  final long[] shape;
  final long[] strides;
  final long origin; // the byte of data where element (0, ..., 0) is
  final long first; // the first byte of data that belongs to an element
  final long bytes; // how many from there to the end of the last one

  private Tensor(MemorySegment data, Dtype dtype, long[] shape, long[] strides, long offset) {
    if (shape.length > Layouts.MAX_RANK)
      throw new FoveaException(
          Status.BAD_RANK, "shape has " + shape.length + " axes, expected at most " + Layouts.MAX_RANK);
    if (strides.length != shape.length)
      throw new FoveaException(Status.BAD_STRIDE, strides.length + " strides for " + shape.length + " axes");
    this.data = data;
    this.dtype = dtype;
    this.shape = shape;
    this.strides = strides;
    try {
      long low = offset, high = offset;
      boolean empty = false;
      for (int axis = 0; axis < shape.length; ++axis) {
        if (shape[axis] < 0)
          throw new FoveaException(
              Status.BAD_SHAPE, "shape is " + Arrays.toString(shape) + ", expected sizes from 0 on");
        if (shape[axis] == 0) empty = true;
        if (shape[axis] <= 1) continue;
        long step = Math.multiplyExact(shape[axis] - 1, strides[axis]);
        if (step < 0)
          low = Math.addExact(low, step);
        else
          high = Math.addExact(high, step);
      }
      if (empty) low = high = offset = 0;
      origin = Math.multiplyExact(offset, (long) dtype.size);
      first = Math.multiplyExact(low, (long) dtype.size);
      bytes =
          empty ? 0 : Math.addExact(Math.multiplyExact(Math.subtractExact(high, low), (long) dtype.size), dtype.size);
      if (data != null && (first < 0 || Math.addExact(first, bytes) > data.byteSize()))
        throw new FoveaException(Status.BAD_SHAPE,
            "shape " + Arrays.toString(shape) + " with strides " + Arrays.toString(strides) + " reaches past the "
                + data.byteSize() / dtype.size + " elements there are");
    } catch (ArithmeticException overflow) {
      throw new FoveaException(Status.SIZE_OVERFLOW, "shape " + Arrays.toString(shape) + " has too many elements");
    }
  }

  // ---- making them --------------------------------------------------------------------------------------------------

  /** Float32 in row-major order; without a shape of rank 1. The array has to have just as many elements. */
  public static Tensor of(float[] data, long... shape) {
    return whole(MemorySegment.ofArray(data), Dtype.F32, data.length, shape);
  }

  /** 32-bit integers: lengths, positions. */
  public static Tensor of(int[] data, long... shape) {
    return whole(MemorySegment.ofArray(data), Dtype.I32, data.length, shape);
  }

  /** 64-bit integers: lengths, positions. */
  public static Tensor of(long[] data, long... shape) {
    return whole(MemorySegment.ofArray(data), Dtype.I64, data.length, shape);
  }

  /** Truth values, of which anything but 0 is true: masks. */
  public static Tensor of(byte[] data, long... shape) {
    return whole(MemorySegment.ofArray(data), Dtype.BOOL, data.length, shape);
  }

  /** The bits of 16-bit numbers: F16 or BF16. */
  public static Tensor of(Dtype dtype, short[] data, long... shape) {
    if (dtype.size != 2) throw new FoveaException(Status.BAD_DTYPE, dtype + " elements do not lie in a short[]");
    return whole(MemorySegment.ofArray(data), dtype, data.length, shape);
  }

  /** The beginning of a segment, in row-major order. */
  public static Tensor of(Dtype dtype, MemorySegment data, long... shape) {
    return new Tensor(data, dtype, shape.clone(), rowMajor(shape), 0);
  }

  /** Any strides, in elements, from element `offset` of the segment on. An array's segment: MemorySegment.ofArray. */
  public static Tensor strided(Dtype dtype, MemorySegment data, long[] shape, long[] strides, long offset) {
    return new Tensor(data, dtype, shape.clone(), strides.clone(), offset);
  }

  /** Zeros outside the heap, as long as the arena lives. */
  public static Tensor allocate(Arena arena, Dtype dtype, long... shape) {
    Tensor planned = shapeOnly(dtype, shape);
    return new Tensor(arena.allocate(Math.max(planned.bytes, 1), 64), dtype, planned.shape, planned.strides, 0);
  }

  /** Zeros outside the heap, until the garbage collector finds them unused. */
  public static Tensor zeros(Dtype dtype, long... shape) {
    return allocate(Arena.ofAuto(), dtype, shape);
  }

  /** Float32 zeros. */
  public static Tensor zeros(long... shape) {
    return zeros(Dtype.F32, shape);
  }

  /** A row-major tensor without data, for plans. */
  public static Tensor shapeOnly(Dtype dtype, long... shape) {
    return new Tensor(null, dtype, shape.clone(), rowMajor(shape), 0);
  }

  /** One that the library describes, without gaps, in memory as Library.memory has it. */
  static Tensor of(MemorySegment told, Runnable letGo) {
    Dtype dtype = null;
    for (Dtype one : Dtype.values())
      if (one.number == told.get(ValueLayout.JAVA_INT, Layouts.fovea_tensor.dtype)) dtype = one;
    long[] shape = new long[told.get(ValueLayout.JAVA_INT, Layouts.fovea_tensor.rank)], strides = new long[shape.length];
    for (int axis = 0; axis < shape.length; ++axis) {
      shape[axis] = told.get(ValueLayout.JAVA_LONG, Layouts.fovea_tensor.shape + 8L * axis);
      strides[axis] = told.get(ValueLayout.JAVA_LONG, Layouts.fovea_tensor.strides + 8L * axis);
    }
    long bytes = new Tensor(null, dtype, shape, strides, 0).bytes;
    MemorySegment address = told.get(ValueLayout.ADDRESS, Layouts.fovea_tensor.data);
    return new Tensor(Library.memory(address, bytes, letGo), dtype, shape, strides, 0);
  }

  /** The same numbers in memory of its own, in row-major order. */
  Tensor copy() {
    Tensor made = zeros(dtype, shape);
    int[] at = {0};
    eachRow((from, length, step) -> {
      for (long i = 0; i < length; ++i, at[0] += dtype.size)
        MemorySegment.copy(data, from + i * step, made.data, at[0], dtype.size);
    });
    return made;
  }

  /** The numbers rounded to 16 bits, to nearest and ties to even: F16 or BF16. */
  public static Tensor rounded(Dtype dtype, float[] numbers, long... shape) {
    short[] bits = new short[numbers.length];
    for (int i = 0; i < bits.length; ++i)
      bits[i] = dtype == Dtype.F16 ? Float.floatToFloat16(numbers[i]) : bfloat16(numbers[i]);
    if (dtype != Dtype.F16 && dtype != Dtype.BF16)
      throw new FoveaException(Status.BAD_DTYPE, "dtype is " + dtype + ", expected F16 or BF16");
    return of(dtype, bits, shape);
  }

  private static Tensor whole(MemorySegment data, Dtype dtype, int count, long[] shape) {
    long[] sizes = shape.length == 0 ? new long[] {count} : shape.clone();
    Tensor made = new Tensor(data, dtype, sizes, rowMajor(sizes), 0);
    if (made.bytes != (long) count * dtype.size)
      throw new FoveaException(Status.BAD_SHAPE,
          "shape " + Arrays.toString(sizes) + " has " + made.bytes / dtype.size + " elements, the array " + count);
    return made;
  }

  private static long[] rowMajor(long[] shape) {
    long[] strides = new long[shape.length];
    long step = 1;
    for (int axis = shape.length - 1; axis >= 0; --axis) {
      strides[axis] = step;
      step *= Math.max(shape[axis], 1); // what overflows is noticed where sizes are multiplied
    }
    return strides;
  }

  /** The same numbers with two axes exchanged. */
  public Tensor transposed(int one, int other) {
    long[] sizes = shape.clone(), steps = strides.clone();
    sizes[one] = shape[other];
    sizes[other] = shape[one];
    steps[one] = strides[other];
    steps[other] = strides[one];
    return new Tensor(data, dtype, sizes, steps, origin / dtype.size);
  }

  // ---- reading them -------------------------------------------------------------------------------------------------

  public Dtype dtype() {
    return dtype;
  }

  public long[] shape() {
    return shape.clone();
  }

  /** The memory it is a view of. */
  public MemorySegment data() {
    return data;
  }

  /** Sizes with another last one. */
  long[] withLast(long size) {
    long[] sizes = shape.clone();
    if (sizes.length > 0) sizes[sizes.length - 1] = size;
    return sizes;
  }

  /** Features of a row: two in each of U8, which are numbers of 4 bits. */
  long features() {
    return dtype == Dtype.U8 ? 2 * last() : last();
  }

  long last() {
    return shape.length == 0 ? 0 : shape[shape.length - 1];
  }

  /** Numbers in row-major order, whatever the strides; 16-bit ones widened. */
  public float[] toFloats() {
    float[] out = new float[Math.toIntExact(elements())];
    int[] at = {0};
    eachRow((byteAt, length, step) -> {
      for (long i = 0; i < length; ++i) out[at[0]++] = number(byteAt + i * step);
    });
    return out;
  }

  private float number(long at) {
    return switch (dtype) {
      case F32 -> data.get(ValueLayout.JAVA_FLOAT_UNALIGNED, at);
      case F16 -> Float.float16ToFloat(data.get(ValueLayout.JAVA_SHORT_UNALIGNED, at));
      case BF16 -> Float.intBitsToFloat(data.get(ValueLayout.JAVA_SHORT_UNALIGNED, at) << 16);
      case I32 -> data.get(ValueLayout.JAVA_INT_UNALIGNED, at);
      case I64 -> data.get(ValueLayout.JAVA_LONG_UNALIGNED, at);
      default -> data.get(ValueLayout.JAVA_BYTE, at);
    };
  }

  private static short bfloat16(float number) {
    int bits = Float.floatToRawIntBits(number);
    if (Float.isNaN(number)) return (short) (bits >>> 16 | 0x40);
    return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
  }

  interface Row {
    void visit(long at, long length, long step);
  }

  /** Calls visit for each run along the last axis: its first byte, its elements, the bytes between two. */
  void eachRow(Row row) {
    if (bytes == 0) return;
    int outer = shape.length - 1;
    if (outer < 0) {
      row.visit(origin, 1, dtype.size);
      return;
    }
    long[] index = new long[outer];
    long at = origin;
    while (true) {
      row.visit(at, shape[outer], strides[outer] * dtype.size);
      int axis = outer - 1;
      for (; axis >= 0; --axis) {
        at += strides[axis] * dtype.size;
        if (++index[axis] < shape[axis]) break;
        at -= strides[axis] * dtype.size * shape[axis];
        index[axis] = 0;
      }
      if (axis < 0) return;
    }
  }

  // ---- to and from memory that C may use ----------------------------------------------------------------------------

  boolean isOnHeap() {
    return data != null && !data.isNative();
  }

  /**
   * Copies the elements, and nothing that may lie between them. Byte `first` of data is at byte `from` of one memory and
   * `to` of the other.
   */
  void copyElements(MemorySegment source, long from, MemorySegment target, long to) {
    if (bytes == elements() * dtype.size) {
      MemorySegment.copy(source, from, target, to, bytes);
      return;
    }
    eachRow((begin, length, step) -> {
      long block = step == dtype.size ? length :
        1;
        for (long i = 0; i < length; i += block) {
          long at = begin - first + i * step;
          MemorySegment.copy(source, from + at, target, to + at, block * dtype.size);
        }
    });
  }

  /** A copy of all that it reaches, outside the heap. */
  Tensor copied(Arena arena) {
    if (data == null) return this;
    MemorySegment copy = arena.allocate(Math.max(bytes, 1), 64);
    MemorySegment.copy(data, first, copy, 0, bytes);
    return new Tensor(copy, dtype, shape, strides, (origin - first) / dtype.size);
  }

  private long elements() {
    long count = 1;
    for (long size : shape) count *= size;
    return count;
  }
}
