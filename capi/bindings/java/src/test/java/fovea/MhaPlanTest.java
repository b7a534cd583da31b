// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/** Planned multi-head attention: the bits of the call. */
final class MhaPlanTest {
  private static final int EMBED = 12, HEADS = 2, DIM = 4, MOST = 6;

  private MhaPlanTest() {}

  private static MhaWeights layer() {
    return MhaWeights.pack(new MhaParameters()
                               .heads(HEADS)
                               .inWeight(Tensor.of(some(3 * HEADS * DIM * EMBED, 1), 3 * HEADS * DIM, EMBED))
                               .outWeight(Tensor.of(some(EMBED * HEADS * DIM, 2), EMBED, HEADS * DIM)));
  }

  private static MhaOptions options(long[] lens, float[] frequencies) {
    return new MhaOptions()
        .attention(new AttentionOptions().causal().validLens(Tensor.of(lens)))
        .rotary(new RotaryOptions().frequencies(Tensor.of(frequencies)));
  }

  static void aPlanGivesWhatTheLayerGives() {
    float[] x = some(2 * 5 * EMBED, 3), expected = new float[x.length], frequencies = {1, 0.5f};
    long[] lens = {3, 5};
    Tensor like = Tensor.shapeOnly(Dtype.F32, 2, 5, EMBED);
    MhaWeights layer = layer();
    layer.attend(null, Tensor.of(x, 2, 5, EMBED), null, null, Tensor.of(expected, 2, 5, EMBED), options(lens, frequencies));
    MhaPlan plan = layer.plan(like, like, options(new long[2], frequencies));
    try (Arena arena = Arena.ofConfined()) {
      frequencies[0] = 0; // copied, and the layer is kept
      layer.close();
      MemorySegment outside = arena.allocateFrom(ValueLayout.JAVA_FLOAT, x);
      MemorySegment result = arena.allocate(4L * x.length, 4);
      Buffers lengths = new Buffers().validLens(lens);
      for (int i = 0; i < 2; ++i) {
        float[] found = new float[x.length];
        plan.run(new MhaBuffers().query(x).out(found).attention(lengths));
        same(found, expected);
        plan.run(new MhaBuffers().query(outside).out(result).attention(lengths));
        same(result.toArray(ValueLayout.JAVA_FLOAT), expected);
      }
      that(plan.workspaceSize() > 0, "it needs no workspace");

      float[] found = new float[x.length];
      refused(Status.BAD_SHAPE, () -> plan.run(Arrays.copyOf(x, 119), found), "query has 476 bytes, the plan needs 480");
      refused(Status.BAD_DTYPE, () -> plan.run(new MhaBuffers().query(new short[240]).out(found)), "query is a short[]");
      refused(Status.BAD_VALUE, () -> plan.run(new MhaBuffers().query(x).key(x).out(found)), "buffers.key is");
      refused(Status.NULL_POINTER, () -> plan.run(new MhaBuffers().out(found).attention(lengths)), "buffers.query");
      refused(Status.NULL_POINTER, () -> plan.run(x, found), "valid_lens");
      same(found, new float[x.length]);
      plan.close();
      refused(IllegalStateException.class, () -> plan.run(x, found), "this MhaPlan was closed");
    }
    refused(Status.BAD_SHAPE, () -> layer().plan(Tensor.shapeOnly(Dtype.F32, 2, 5, EMBED + 1), like, null));
  }

  private static KvPool pool() {
    return KvPool.of(new KvPoolSizes().layers(1).kvHeads(HEADS).headDim(DIM).positions(64).pageSize(4).sequences(2));
  }

  private static Schedule schedule(KvPool pool) {
    Tensor rows = Tensor.shapeOnly(Dtype.F32, MOST, HEADS, DIM);
    return Schedule.of(rows, pool.keys(0), pool.values(0), rows, new AttentionOptions().causal(),
        new ScheduleLimits().sequences(2));
  }

  private static MhaOptions over(Schedule schedule, KvPool pool) {
    return new MhaOptions().rotary(new RotaryOptions()).schedule(schedule).keyPages(pool.keys(0)).valuePages(pool.values(0));
  }

  static void overAScheduleSSteps() {
    MhaWeights layer = layer();
    Tensor like = Tensor.shapeOnly(Dtype.F32, MOST, EMBED);
    float[] x = some(MOST * EMBED, 4), found = filled(MOST * EMBED, 3);
    try (KvPool pool = pool(); KvPool other = pool(); Schedule called = schedule(other)) {
      Schedule planned = schedule(pool);
      List<KvSequence> first = List.of(pool.open(), pool.open()), second = List.of(other.open(), other.open());
      MhaPlan plan = layer.plan(like, like, over(planned, pool));
      MhaBuffers buffers = new MhaBuffers().query(x).out(found).pages(pool.pages(0));
      for (long[] tokens : new long[][] {{4, 2}, {1, 1}, {0, 3}, {0, 0}, {1, 0}}) {
        planned.set(pool.step(first, tokens));
        called.set(other.step(second, tokens));
        int count = (int) (tokens[0] + tokens[1]);
        float[] expected = new float[count * EMBED];
        layer.attend(null, Tensor.of(Arrays.copyOf(x, count * EMBED), count, EMBED), null, null,
            Tensor.of(expected, count, EMBED), over(called, other));
        Arrays.fill(found, 3);
        plan.run(buffers);
        same(Arrays.copyOf(found, count * EMBED), expected);
        for (int i = count * EMBED; i < found.length; ++i) that(found[i] == 3, "a row of no token was written");
      }
      refused(Status.NULL_POINTER,
          () -> plan.run(new MhaBuffers().query(x).out(found).valuePages(pool.values(0).data())), "keyPages is missing");
      planned.close(); // the plan keeps it
      plan.run(buffers);
    }
  }

  static void latentAttentionAppendsKeysAlone() {
    float[] rows = some(3 * DIM, 5), pages = new float[2 * 2 * DIM], found = new float[3 * HEADS * 2];
    Tensor keys = Tensor.of(pages, 2, 1, 2, DIM);
    Tensor values = Tensor.strided(
        Dtype.F32, MemorySegment.ofArray(pages), new long[] {2, 1, 2, 2}, new long[] {2 * DIM, 2 * DIM, DIM, 1}, 0);
    try (Schedule schedule = Schedule.of(Tensor.shapeOnly(Dtype.F32, 3, HEADS, DIM), keys, values,
             Tensor.shapeOnly(Dtype.F32, 3, HEADS, 2), new AttentionOptions().causal(), new ScheduleLimits().sequences(1))) {
      schedule.set(new Step()
                       .queryStarts(Tensor.of(new int[] {0, 3}))
                       .keyLens(Tensor.of(new int[] {3}))
                       .pageIds(Tensor.of(new int[] {1, 0}, 1, 2)));
      schedule.append(Tensor.of(rows, 3, 1, DIM), null, new Pages(keys, null));
      same(Arrays.copyOfRange(pages, 2 * DIM, 4 * DIM), Arrays.copyOf(rows, 2 * DIM));
      same(Arrays.copyOf(pages, DIM), Arrays.copyOfRange(rows, 2 * DIM, 3 * DIM));
      schedule.run(new Buffers().query(some(3 * HEADS * DIM, 6)).key(pages).value(pages).out(found));
      same(Arrays.copyOf(found, 2), Arrays.copyOf(rows, 2)); // the first token attends itself
    }
  }
}
