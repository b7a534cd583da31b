// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.ADDRESS;

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
  private final Tensor[] planned;
  private final PreparedKeys keys;
  private final boolean[] writes;
  private final long workspaceSize;
  private final AtomicReference<Scratch> spare = new AtomicReference<>();

  private Plan(MemorySegment pointer, Context context, PreparedKeys keys, Tensor[] planned) {
    this(pointer, context, keys, planned, Buffers.WRITES);
  }

  private Plan(MemorySegment pointer, Context context, PreparedKeys keys, Tensor[] planned, boolean[] writes) {
    super(pointer, Native::fovea_plan_destroy, context, keys);
    this.planned = planned;
    this.keys = keys;
    this.writes = writes;
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
      MemorySegment raw = call.reading(() -> AttentionOptions.raw(options, call)), made = call.made();
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
      MemorySegment o = call.in(out), raw = call.reading(() -> AttentionOptions.raw(options, call)), made = call.made();
      call.run(pins -> Native.fovea_attention_plan_create(c, s, q, k, v, o, raw, made, pins));
      return new Plan(made.get(ADDRESS, 0), context, null, Buffers.planned(score, query, key, value, out, options));
    }
  }

  /** Plans the call that Fovea.attentionBackward would make. Runs take the gradients' data too, and read that of out. */
  public static Plan attentionBackward(Context context, Score score, Tensor query, Tensor key, Tensor value, Tensor out,
      AttentionOptions options, AttentionGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), q = call.in(query), k = call.in(key),
                    v = call.in(value);
      MemorySegment o = call.in(out), raw = call.reading(() -> AttentionOptions.raw(options, call)),
                    wanted = call.reading(() -> AttentionGradients.raw(gradients, call)), made = call.made();
      call.run(pins -> Native.fovea_attention_backward_plan_create(c, s, q, k, v, o, raw, wanted, made, pins));
      Tensor[] planned = Buffers.planned(score, query, key, value, out, options, gradients);
      return new Plan(made.get(ADDRESS, 0), context, null, planned, writtenBackward());
    }
  }

  /** Gradients alone: what a forward call wrote is read. */
  private static boolean[] writtenBackward() {
    boolean[] writes = Buffers.WRITES.clone();
    for (int i = 0; i < writes.length; ++i) writes[i] &= Buffers.NAMES[i].startsWith("grad");
    return writes;
  }

  /**
   * Plans the call that keys.attend would make. A run attends the keys there are then, as many as when it was planned.
   */
  public static Plan prepared(
      Context context, Tensor query, PreparedKeys keys, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(query), k = call.reads(keys), v = call.in(value),
                    o = call.in(out);
      MemorySegment raw = call.reading(() -> AttentionOptions.raw(options, call)), made = call.made();
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
      if (scratch == null) scratch = new Scratch(writes, workspaceSize);
      scratch.place(planned, buffers.data, false);
      MemorySegment[] pins = Pins.of(buffers.data);
      FoveaException.check(Native.fovea_attention_run(plan, scratch.buffers, scratch.workspace, workspaceSize, pins));
      scratch.giveBack(planned, buffers.data);
    } finally {
      Reference.reachabilityFence(buffers); // whose memory an arena may free with it
      if (scratch != null) spare.set(scratch);
      if (keys != null && began) keys.end();
      letGo();
    }
  }

  // ---- asking them --------------------------------------------------------------------------------------------------

  /** Bytes of scratch memory a run needs. */
  public long workspaceSize() {
    return workspaceSize;
  }

  /** Which path, tiles, threads and bytes were chosen: "op=sdpa isa=avx512 ...". */
  public String describe() {
    try (Call call = new Call()) {
      return Library.described(call.use(this), Native::fovea_plan_describe);
    }
  }
}
