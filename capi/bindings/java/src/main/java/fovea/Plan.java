// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A checked call with everything but the data decided. Any number of threads may run one plan at once.
 *
 * <p>A run takes for every tensor that was planned a segment or an array that begins with the tensor's first element in
 * memory. Segments outside the heap are used as they are; arrays are copied, to and from memory that the plan keeps.
 */
public final class Plan extends Handle {
  private static final long FIRST = Layouts.fovea_attention_buffers.query; // of pointers one after the other

  /** What a run needs beside its data; as many as there are runs at the same time. */
  private static final class Scratch {
    final Arena arena = Arena.ofAuto();
    final MemorySegment buffers = arena.allocate(Layouts.fovea_attention_buffers.LAYOUT);
    final MemorySegment workspace;
    final MemorySegment[] copies = new MemorySegment[Buffers.COUNT];

    Scratch(long size) {
      buffers.set(JAVA_LONG, Layouts.fovea_attention_buffers.struct_size, Layouts.fovea_attention_buffers.SIZE);
      workspace = arena.allocate(Math.max(size, 1), 64);
    }
  }

  private final Tensor[] planned;
  private final PreparedKeys keys;
  private final long workspaceSize;
  private final AtomicReference<Scratch> spare = new AtomicReference<>();

  private Plan(MemorySegment pointer, Context context, PreparedKeys keys, Tensor[] planned) {
    super(pointer, Native::fovea_plan_destroy, context, keys);
    this.planned = planned;
    this.keys = keys;
    workspaceSize = Native.fovea_plan_workspace_size(pointer);
  }

  // ---- making them --------------------------------------------------------------------------------------------------

  /** Plans the call that Fovea.sdpa would make. No data is read: Tensor.shapeOnly will do. */
  public static Plan sdpa(Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    return sdpa(null, query, key, value, out, options);
  }

  public static Plan sdpa(
      Context context, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(query), k = call.in(key), v = call.in(value), o = call.in(out);
      MemorySegment raw = AttentionOptions.raw(options, call), made = call.made();
      call.run(pins -> Native.fovea_sdpa_plan_create(c, q, k, v, o, raw, made, pins));
      return new Plan(made.get(ADDRESS, 0), context, null, Buffers.planned(null, query, key, value, out, options));
    }
  }

  /** Plans the call that Fovea.attention would make. */
  public static Plan attention(
      Context context, Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), q = call.in(query), k = call.in(key),
                    v = call.in(value);
      MemorySegment o = call.in(out), raw = AttentionOptions.raw(options, call), made = call.made();
      call.run(pins -> Native.fovea_attention_plan_create(c, s, q, k, v, o, raw, made, pins));
      return new Plan(made.get(ADDRESS, 0), context, null, Buffers.planned(score, query, key, value, out, options));
    }
  }

  /**
   * Plans the call that keys.attend would make. A run attends the keys there are then, as many as when it was planned.
   */
  public static Plan prepared(
      Context context, Tensor query, PreparedKeys keys, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(query), k = call.reads(keys), v = call.in(value),
                    o = call.in(out);
      MemorySegment raw = AttentionOptions.raw(options, call), made = call.made();
      call.run(pins -> Native.fovea_attention_prepared_plan_create(c, q, k, v, o, raw, made, pins));
      return new Plan(made.get(ADDRESS, 0), context, keys, Buffers.planned(null, query, null, value, out, options));
    }
  }

  // ---- running them -------------------------------------------------------------------------------------------------

  public void run(MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out) {
    run(new Buffers().query(query).key(key).value(value).out(out));
  }

  public void run(float[] query, float[] key, float[] value, float[] out) {
    run(new Buffers().query(query).key(key).value(value).out(out));
  }

  public void run(Buffers buffers) {
    MemorySegment plan = hold();
    boolean began = false;
    Scratch scratch = spare.getAndSet(null);
    try {
      if (keys != null) keys.begin(false);
      began = true;
      if (scratch == null) scratch = new Scratch(workspaceSize);
      for (int i = 0; i < Buffers.COUNT; ++i) {
        scratch.buffers.set(
            JAVA_LONG, FIRST + 8L * i, buffers.data[i] == null ? 0 : place(i, buffers.data[i], scratch));
      }
      MemorySegment[] pins = Pins.of(buffers.data);
      FoveaException.check(Native.fovea_attention_run(plan, scratch.buffers, scratch.workspace, workspaceSize, pins));
      for (int i = 0; i < Buffers.COUNT; ++i) {
        MemorySegment data = buffers.data[i];
        if (data != null && Buffers.WRITES[i] && !data.isNative())
          planned[i].copyElements(scratch.copies[i], 0, data, 0);
      }
    } finally {
      Reference.reachabilityFence(buffers); // whose memory an arena may free with it
      if (scratch != null) spare.set(scratch);
      if (keys != null && began) keys.end();
      letGo();
    }
  }

  /** The address of element (0, ..., 0). What was not planned is the library's to refuse. */
  private long place(int i, MemorySegment data, Scratch scratch) {
    Tensor tensor = planned[i];
    if (tensor == null) return scratch.workspace.address();
    Object array = data.heapBase().orElse(null);
    if (array != null && !holds(array, tensor.dtype))
      throw new FoveaException(Status.BAD_DTYPE,
          Buffers.NAMES[i] + " is a " + array.getClass().getSimpleName() + ", the plan's is of " + tensor.dtype);
    if (data.byteSize() < tensor.bytes)
      throw new FoveaException(
          Status.BAD_SHAPE, Buffers.NAMES[i] + " has " + data.byteSize() + " bytes, the plan needs " + tensor.bytes);
    if (Buffers.WRITES[i] && data.isReadOnly())
      throw new IllegalArgumentException(Buffers.NAMES[i] + " lies in a read-only segment");
    long origin = tensor.origin - tensor.first;
    if (data.isNative()) return Call.addressOf(data) + origin;
    if (scratch.copies[i] == null) scratch.copies[i] = scratch.arena.allocate(Math.max(tensor.bytes, 1), 64);
    if (!Buffers.WRITES[i]) MemorySegment.copy(data, 0, scratch.copies[i], 0, tensor.bytes);
    return scratch.copies[i].address() + origin;
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

  // ---- asking them --------------------------------------------------------------------------------------------------

  /** Bytes of scratch memory a run needs. */
  public long workspaceSize() {
    return workspaceSize;
  }

  /** Which path, tiles, threads and bytes were chosen: "op=sdpa isa=avx512 ...". */
  public String describe() {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      MemorySegment self = call.use(this);
      long size = Native.fovea_plan_describe(self, MemorySegment.NULL, 0) + 1;
      MemorySegment text = arena.allocate(size);
      Native.fovea_plan_describe(self, text, size);
      return text.getString(0);
    }
  }
}
