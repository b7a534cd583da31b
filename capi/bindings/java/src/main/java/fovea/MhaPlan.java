// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;

/**
 * A checked call of multi-head attention with everything but the data decided: {@link MhaWeights#plan}. Any number of threads
 * may run one plan at once.
 *
 * <p>A run takes for every tensor that was planned a segment or an array that begins with the tensor's first element in
 * memory. Segments outside the heap are used as they are; arrays are copied, to and from memory that the plan keeps.
 */
public final class MhaPlan extends Handle {
  /** What one run at a time uses. */
  private record Space(Scratch rows, Scratch attention) {}

  private final Tensor[] rows;
  private final Tensor[] attention;
  private final Schedule schedule;
  private final List<Tensor> rotary; // which the library goes on reading
  private final AtomicReference<Space> spare = new AtomicReference<>();

  private MhaPlan(MemorySegment pointer, Context context, MhaWeights weights, Tensor[] given, MhaOptions options,
      List<Tensor> rotary) {
    super(pointer, Native::fovea_mha_plan_destroy, context, weights, options.schedule());
    rows = Arrays.copyOf(given, MhaBuffers.NAMES.length);
    Tensor[] pages = {options.keyPages(), options.valuePages(), options.keyScales(), options.valueScales()};
    System.arraycopy(pages, 0, rows, given.length, pages.length);
    attention = Buffers.planned(options.score(), null, null, null, null, options.attention());
    schedule = options.schedule();
    this.rotary = rotary;
  }

  static MhaPlan of(Context context, MhaWeights weights, Tensor[] tensors, MhaOptions given) {
    MhaOptions options = given == null ? new MhaOptions() : given;
    List<Tensor> kept = new ArrayList<>();
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), w = call.use(weights), q = call.in(tensors[0]), k = call.in(tensors[1]),
                    v = call.in(tensors[2]), o = call.in(tensors[3]), made = call.made();
      MemorySegment raw = call.reading(() -> MhaOptions.raw(options, call));
      if (options.rotary() != null) raw.set(ADDRESS, Layouts.fovea_mha_options.rotary, lasting(options.rotary(), call, kept));
      call.run(pins -> Native.fovea_mha_plan_create(c, w, q, k, v, o, raw, made, pins));
      return new MhaPlan(made.get(ADDRESS, 0), context, weights, tensors, options, kept);
    }
  }

  /** With tensors that stay as long as the plan. */
  private static MemorySegment lasting(RotaryOptions given, Call call, List<Tensor> kept) {
    MemorySegment raw = RotaryOptions.raw(given, call);
    Arena arena = Arena.ofAuto();
    UnaryOperator<Tensor> copy = tensor -> {
      if (tensor != null) kept.add(tensor.copied(arena));
      return tensor == null ? null : kept.getLast();
    };
    raw.set(ADDRESS, Layouts.fovea_rotary_options.positions, call.in(copy.apply(given.positions())));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.frequencies, call.in(copy.apply(given.frequencies())));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.sections, call.in(copy.apply(given.sections())));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.cosines, call.in(copy.apply(given.cosines())));
    raw.set(ADDRESS, Layouts.fovea_rotary_options.sines, call.in(copy.apply(given.sines())));
    return raw;
  }

  // ---- running ------------------------------------------------------------------------------------------------------

  public void run(MemorySegment query, MemorySegment out) {
    run(new MhaBuffers().query(query).out(out));
  }

  public void run(float[] query, float[] out) {
    run(new MhaBuffers().query(query).out(out));
  }

  public void run(MhaBuffers buffers) {
    Space space = spare.getAndSet(null);
    if (space == null)
      space = new Space(
          new Scratch(MhaBuffers.NAMES, MhaBuffers.WRITES, Layouts.fovea_mha_buffers.SIZE, 0), new Scratch(0));
    for (int i = 4; i < rows.length; ++i)
      if (rows[i] != null && buffers.data[i] == null)
        throw new FoveaException(Status.NULL_POINTER, MhaBuffers.NAMES[i] + " is missing, and was planned with");
    MemorySegment plan = begin();
    try {
      boolean inPart = schedule != null;
      MemorySegment[] data = buffers.data, more = buffers.attention.data;
      Scratch own = space.rows.atLeast(Native.fovea_mha_plan_workspace_size(plan));
      own.place(rows, data, inPart);
      space.attention.place(attention, more, inPart);
      own.buffers.set(ADDRESS, Layouts.fovea_mha_buffers.attention, space.attention.buffers);
      List<MemorySegment> all = new ArrayList<>(Arrays.asList(data));
      all.addAll(Arrays.asList(more));
      MemorySegment workspace = own.workspace;
      FoveaException.check(
          Native.fovea_mha_run(plan, own.buffers, workspace, workspace.byteSize(), Pins.of(all)));
      own.giveBack(rows, data);
      space.attention.giveBack(attention, more);
    } finally {
      Reference.reachabilityFence(buffers); // whose memory an arena may free with it
      Reference.reachabilityFence(rotary);
      spare.set(space);
      finish();
    }
  }

  /** Keeps the plan, and others from setting another step of its schedule. */
  private MemorySegment begin() {
    MemorySegment plan = hold();
    try {
      if (schedule != null) schedule.begin(false);
    } catch (IllegalStateException refused) {
      letGo();
      throw refused;
    }
    return plan;
  }

  private void finish() {
    if (schedule != null) schedule.end();
    letGo();
  }

  // ---- asking -------------------------------------------------------------------------------------------------------

  /** Bytes of scratch memory a run needs, with a schedule one of its present step. */
  public long workspaceSize() {
    MemorySegment plan = begin();
    try {
      return Native.fovea_mha_plan_workspace_size(plan);
    } finally {
      finish();
    }
  }
}
