// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A plan of attention whose sequences change from step to step. It is made once for one kind of layer, with room for the most
 * that a step may bring; is set once a step; and runs once for each layer of that kind. Any number of threads may run it at
 * once; a step that is set meanwhile is refused with an IllegalStateException.
 */
public final class Schedule extends Handle {
  private final Tensor[] planned;
  private final AtomicReference<Scratch> spare = new AtomicReference<>();

  private Schedule(MemorySegment pointer, Context context, Tensor[] planned) {
    super(pointer, Native::fovea_schedule_destroy, context);
    this.planned = planned;
  }

  /**
   * Of queries [T,H,D], and of keys [N,Hkv,D] packed or [P,Hkv,page,D] in pages, as KvPool.keys are. No data is read:
   * Tensor.shapeOnly will do. Until a step is set there is nothing to run.
   */
  public static Schedule of(
      Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options, ScheduleLimits limits) {
    return of(null, null, query, key, value, out, options, limits);
  }

  /** score null: the scaled dot product. */
  public static Schedule of(Context context, Score score, Tensor query, Tensor key, Tensor value, Tensor out,
      AttentionOptions options, ScheduleLimits limits) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), q = call.in(query), k = call.in(key),
                    v = call.in(value), o = call.in(out);
      MemorySegment raw = call.reading(() -> AttentionOptions.raw(options, call)),
                    most = ScheduleLimits.raw(limits, call), made = call.made();
      call.run(pins -> Native.fovea_schedule_create(c, s, q, k, v, o, raw, most, made, pins));
      return new Schedule(made.get(ADDRESS, 0), context, Buffers.planned(score, query, key, value, out, options));
    }
  }

  /** Sets a step, a copy of it: what KvPool.step gives, or one of your own. If it is refused, the schedule is as before. */
  public void set(Step step) {
    try (Call call = new Call()) {
      MemorySegment self = call.changes(this), raw = Step.raw(step, call);
      call.run(pins -> Native.fovea_schedule_set(self, raw, pins));
    }
  }

  /**
   * Writes a layer's new keys [T,Hkv,D] and values [T,Hkv,Dv] into its pages. value null, in pages too, is for latent attention,
   * whose values are the first features of keys' rows, as a view of whose memory they were planned.
   */
  public void append(Tensor key, Tensor value, Pages pages) {
    append(key, value, pages, null);
  }

  /** The same with keys that are turned on the way, say. Scales are the pages', unless options have others. */
  public void append(Tensor key, Tensor value, Pages pages, AppendOptions options) {
    AppendOptions given = options == null ? new AppendOptions() : options;
    try (Call call = new Call()) {
      MemorySegment self = call.reads(this), k = call.in(key), v = call.in(value), keys = call.both(pages.keys()),
                    values = call.both(pages.values()), raw = AppendOptions.raw(given, call);
      if (given.keyScales() == null)
        raw.set(ADDRESS, Layouts.fovea_append_options.key_scales, call.both(pages.keyScales()));
      if (given.valueScales() == null)
        raw.set(ADDRESS, Layouts.fovea_append_options.value_scales, call.both(pages.valueScales()));
      call.run(pins -> Native.fovea_schedule_append(self, k, v, keys, values, raw, pins));
    }
  }

  // ---- running ------------------------------------------------------------------------------------------------------

  /** Attends for the present step with one layer's data. */
  public void run(Buffers buffers) {
    Scratch scratch = spare.getAndSet(null);
    try (Call call = new Call()) {
      MemorySegment self = call.reads(this);
      long size = Native.fovea_schedule_workspace_size(self);
      scratch = scratch == null ? new Scratch(size) : scratch.atLeast(size);
      scratch.place(planned, buffers.data, true);
      MemorySegment[] pins = Pins.of(buffers.data);
      MemorySegment workspace = scratch.workspace;
      FoveaException.check(
          Native.fovea_schedule_run(self, scratch.buffers, workspace, workspace.byteSize(), pins));
      scratch.giveBack(planned, buffers.data);
    } finally {
      Reference.reachabilityFence(buffers); // whose memory an arena may free with it
      if (scratch != null) spare.set(scratch);
    }
  }

  /** A run whose tasks your own threads take. */
  public SharedRun share(Buffers buffers) {
    try (Call call = new Call()) {
      Scratch scratch = new Scratch(Native.fovea_schedule_workspace_size(call.reads(this)));
      scratch.place(planned, buffers.data, true);
      return new SharedRun(buffers, scratch);
    }
  }

  /**
   * A run shared among threads of the caller's, with the bits of {@link Schedule#run}. Phases go one after the other, which is
   * the caller's to see to; the tasks of one go to any threads in any order, each of them once. close() after the last one
   * copies what was written into arrays.
   */
  public final class SharedRun implements AutoCloseable {
    private final Buffers buffers;
    private final Scratch scratch;
    private final AtomicBoolean closed = new AtomicBoolean();

    private SharedRun(Buffers buffers, Scratch scratch) {
      this.buffers = buffers;
      this.scratch = scratch;
    }

    /**
     * Runs tasks [begin, end) of a phase on the calling thread. Threads that run at once have each a worker of their own, from
     * 0 to what ScheduleLimits.workers says.
     */
    public void run(long phase, long begin, long end, long worker) {
      if (closed.get()) throw new IllegalStateException("this SharedRun was closed");
      try (Call call = new Call()) {
        MemorySegment self = call.reads(Schedule.this), workspace = scratch.workspace;
        FoveaException.check(Native.fovea_schedule_run_tasks(self, scratch.buffers, workspace, workspace.byteSize(), phase,
            begin, end, worker, Pins.of(buffers.data)));
      } finally {
        Reference.reachabilityFence(this);
      }
    }

    @Override
    public void close() {
      if (!closed.getAndSet(true)) scratch.giveBack(planned, buffers.data);
    }
  }

  // ---- asking -------------------------------------------------------------------------------------------------------

  /** How many phases a run of the present step has. */
  public long phases() {
    try (Call call = new Call()) {
      return Native.fovea_schedule_phases(call.reads(this));
    }
  }

  /** How many tasks a phase has. */
  public long tasks(long phase) {
    try (Call call = new Call()) {
      return Native.fovea_schedule_tasks(call.reads(this), phase);
    }
  }

  /** Where each token of the present step stands in its sequence. */
  public int[] positions() {
    try (Call call = new Call(); Arena arena = Arena.ofConfined()) {
      MemorySegment told = Native.fovea_schedule_positions(arena, call.reads(this));
      long count = told.get(JAVA_LONG, Layouts.fovea_tensor.shape);
      if (told.get(JAVA_INT, Layouts.fovea_tensor.rank) != 1 || count == 0) return new int[0];
      MemorySegment data = told.get(ADDRESS, Layouts.fovea_tensor.data);
      return Library.memory(data, 4 * count, null).toArray(JAVA_INT);
    }
  }

  /** Bytes of scratch memory that a run of the present step needs. */
  public long workspaceSize() {
    try (Call call = new Call()) {
      return Native.fovea_schedule_workspace_size(call.reads(this));
    }
  }

  /** One line about the present step: "op=ragged isa=avx512 sequences=8 tokens=519 ...". */
  public String describe() {
    try (Call call = new Call()) {
      return Library.described(call.reads(this), Native::fovea_schedule_describe);
    }
  }
}
