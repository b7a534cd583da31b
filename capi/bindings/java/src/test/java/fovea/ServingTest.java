// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Schedules and pools: what sequences get in steps is what each of them gets alone. */
final class ServingTest {
  private static final int HEADS = 2, DIM = 8, ROW = HEADS * DIM, MOST = 32;

  private ServingTest() {}

  private static KvPoolSizes sizes() {
    return new KvPoolSizes().layers(1).kvHeads(HEADS).headDim(DIM).positions(64).pageSize(4).sequences(4);
  }

  private static Schedule schedule(KvPool pool, ScheduleLimits limits) {
    Tensor rows = Tensor.shapeOnly(Dtype.F32, MOST, HEADS, DIM);
    AttentionOptions options = new AttentionOptions().causal();
    return Schedule.of(rows, pool.keys(0), pool.values(0), rows, options, limits.sequences(4));
  }

  /** A query, key and value for each token. */
  private record Text(float[] query, float[] key, float[] value) {
    static Text of(int tokens, int seed) {
      return new Text(some(tokens * ROW, seed), some(tokens * ROW, seed + 1), some(tokens * ROW, seed + 2));
    }

    Tensor heads(float[] data) {
      long tokens = data.length / ROW;
      return Tensor.strided(Dtype.F32, MemorySegment.ofArray(data), new long[] {1, HEADS, tokens, DIM},
          new long[] {0, DIM, ROW, 1}, 0);
    }

    /** Causal attention over the whole of it. */
    float[] attend() {
      float[] out = new float[query.length];
      Fovea.sdpa(
          null, heads(query), heads(key), heads(value), heads(out), new AttentionOptions().causal());
      return out;
    }
  }

  private record Part(Text text, int from, int to) {}

  private interface Of {
    float[] data(Text text);
  }

  private static float[] rows(Of of, Part... parts) {
    float[] all = new float[MOST * ROW];
    int at = 0;
    for (Part part : parts) {
      System.arraycopy(of.data(part.text), part.from * ROW, all, at * ROW, (part.to - part.from) * ROW);
      at += part.to - part.from;
    }
    return all;
  }

  /** Appends the tokens of the present step, parts of texts one behind the other, and attends. */
  private static float[] take(Schedule schedule, KvPool pool, Part... parts) {
    Pages pages = pool.pages(0);
    schedule.append(Tensor.of(rows(Text::key, parts), MOST, HEADS, DIM),
        Tensor.of(rows(Text::value, parts), MOST, HEADS, DIM), pages);
    float[] out = filled(MOST * ROW, 3);
    schedule.run(
        new Buffers().query(rows(Text::query, parts)).key(pages.keys().data()).value(pages.values().data()).out(out));
    int tokens = Arrays.stream(parts).mapToInt(part -> part.to - part.from).sum();
    for (int i = tokens * ROW; i < out.length; ++i) that(out[i] == 3, "a row of no token was written");
    return Arrays.copyOf(out, tokens * ROW);
  }

  private static float[] part(float[] data, int from, int to) {
    return Arrays.copyOfRange(data, from * ROW, to * ROW);
  }

  static void sequencesGetInStepsWhatTheyGetAlone() {
    try (KvPool pool = KvPool.of(sizes()); Schedule schedule = schedule(pool, new ScheduleLimits());
         KvSequence first = pool.open(); KvSequence second = pool.open()) {
      Text one = Text.of(9, 1), two = Text.of(6, 50);
      float[] allOne = one.attend(), allTwo = two.attend();
      schedule.set(pool.step(List.of(first), 5));
      near(take(schedule, pool, new Part(one, 0, 5)), part(allOne, 0, 5), 1e-5);
      schedule.set(pool.step(List.of(second, first), 6, 4));
      same(Arrays.toString(schedule.positions()), "[0, 1, 2, 3, 4, 5, 5, 6, 7, 8]");
      float[] found = take(schedule, pool, new Part(two, 0, 6), new Part(one, 5, 9));
      near(part(found, 0, 6), allTwo, 1e-5);
      near(part(found, 6, 10), part(allOne, 5, 9), 1e-5);
      that(schedule.describe().contains("op=ragged") && schedule.describe().contains("sequences=2"),
          schedule.describe());

      KvSequence third = pool.open();
      Step step = pool.step(List.of(third), 3); // a copy: sequences may change
      third.close();
      first.fork(9).close();
      schedule.set(step);
      same(Arrays.toString(schedule.positions()), "[0, 1, 2]");

      long free = pool.freePages();
      KvSequence forked = first.fork(5); // which shares pages
      same(pool.freePages(), free);
      first.truncate(2);
      schedule.set(pool.step(List.of(forked), 4));
      near(take(schedule, pool, new Part(one, 5, 9)), part(allOne, 5, 9), 1e-5);
      same(first.length() + 10 * forked.length(), 92L);
    }
  }

  static void sequencesAreSavedAndDropped() {
    try (KvPool pool = KvPool.of(sizes()); Schedule schedule = schedule(pool, new ScheduleLimits());
         KvSequence sequence = pool.open()) {
      Text text = Text.of(9, 1);
      schedule.set(pool.step(List.of(sequence), 8));
      take(schedule, pool, new Part(text, 0, 8));
      byte[] saved = sequence.save();
      try (KvSequence restored = pool.restore(saved)) {
        same(restored.length(), 8L);
        same(pool.freePages(), 12L);
        schedule.set(pool.step(List.of(restored), 1));
        near(take(schedule, pool, new Part(text, 8, 9)), part(text.attend(), 8, 9), 1e-5);
      }
      refused(Status.BAD_VALUE, () -> pool.restore(Arrays.copyOf(saved, 20)));
      sequence.dropFront(5);
      refused(Status.BAD_VALUE, () -> sequence.truncate(3)); // those are gone
      same(sequence.length(), 8L);
      same(pool.freePages(), 15L);
      that(pool.size() > 0, pool.size());
    }
  }

  static void whatThereIsNoRoomForChangesNothing() {
    try (KvPool pool = KvPool.of(sizes()); KvPool another = KvPool.of(sizes()); KvSequence sequence = pool.open();
         Schedule schedule = schedule(pool, new ScheduleLimits())) {
      refused(Status.POOL_EXHAUSTED, () -> pool.step(List.of(sequence), 65), "17");
      same(sequence.length(), 0L);
      same(pool.freePages(), 16L);
      refused(Status.BAD_VALUE, () -> pool.keys(1), "no layer 1");
      refused(Status.BAD_VALUE, () -> another.step(List.of(sequence), 1), "another pool");
      that(pool.pages(0).keyScales() == null, "scales");
      same(Arrays.toString(pool.keys(0).shape()), "[16, 2, 4, 8]");
      schedule.set(pool.step(List.of(sequence), 2));
      Step own = new Step().queryStarts(Tensor.of(new int[] {0, 2})).keyLens(Tensor.of(new int[] {2}));
      refused(Status.BAD_VALUE, () -> schedule.set(own.pageIds(Tensor.of(new int[] {16}, 1, 1)))); // there is none
      same(Arrays.toString(schedule.positions()), "[0, 1]"); // as before
      refused(Status.BAD_SHAPE, () -> schedule.run(new Buffers().query(new float[5])), "query");
    }
  }

  static void pagesMayLieInArrays() {
    float[] keys = filled(2 * ROW, 1), values = filled(2 * ROW, 2), out = new float[ROW];
    Tensor rows = Tensor.shapeOnly(Dtype.F32, 1, HEADS, DIM);
    Pages pages = new Pages(Tensor.of(keys, 2, HEADS, 1, DIM), Tensor.of(values, 2, HEADS, 1, DIM));
    try (Schedule schedule =
             Schedule.of(rows, pages.keys(), pages.values(), rows, null, new ScheduleLimits().sequences(1))) {
      schedule.set(new Step()
                       .queryStarts(Tensor.of(new int[] {0, 1}))
                       .keyLens(Tensor.of(new int[] {1}))
                       .pageIds(Tensor.of(new int[] {1}, 1, 1)));
      Tensor fives = Tensor.of(filled(ROW, 5), 1, HEADS, DIM);
      schedule.append(fives, fives, pages);
      same(part(keys, 0, 1), filled(ROW, 1)); // another's page
      same(part(values, 1, 2), filled(ROW, 5));
      schedule.run(new Buffers().query(filled(ROW, 1)).key(keys).value(values).out(out));
      same(out, filled(ROW, 5));
    }
  }

  static void ownThreadsShareARun() throws Exception {
    try (KvPool pool = KvPool.of(sizes().positions(4096).pageSize(64)); KvSequence sequence = pool.open();
         Schedule schedule = schedule(pool, new ScheduleLimits().workers(2));
         ExecutorService threads = Executors.newFixedThreadPool(2)) {
      Text text = Text.of(2049, 1);
      for (int from = 0; from < 2048; from += MOST) {
        schedule.set(pool.step(List.of(sequence), MOST));
        take(schedule, pool, new Part(text, from, from + MOST));
      }
      schedule.set(pool.step(List.of(sequence), 1));
      float[] expected = take(schedule, pool, new Part(text, 2048, 2049)), found = new float[MOST * ROW];
      Buffers buffers = new Buffers()
                            .query(rows(Text::query, new Part(text, 2048, 2049)))
                            .key(pool.keys(0).data())
                            .value(pool.values(0).data())
                            .out(found);
      long ran = 0;
      Schedule.SharedRun run = schedule.share(buffers);
      for (long phase = 0; phase < schedule.phases(); ++phase) {
        long tasks = schedule.tasks(phase), at = phase;
        List<Future<?>> workers = new ArrayList<>();
        for (int worker = 0; worker < 2; ++worker) {
          long own = worker;
          workers.add(threads.submit(() -> {
            for (long task = own; task < tasks; task += 2) run.run(at, task, task + 1, own);
          }));
        }
        for (Future<?> worker : workers) worker.get();
        ran += tasks;
      }
      refused(Status.BAD_VALUE, () -> run.run(0, 0, 99, 0));
      run.close();
      refused(IllegalStateException.class, () -> run.run(0, 0, 0, 0), "SharedRun was closed");
      same(part(found, 0, 1), expected);
      that(ran > 2, schedule.describe());
    }
  }

  static void layersTakeAScheduleAndPages() {
    float[] x = some(5 * ROW, 9), found = new float[5 * ROW];
    Tensor[] weights = new Tensor[4];
    for (int i = 0; i < 4; ++i) weights[i] = Tensor.of(some(ROW * ROW, i), ROW, ROW);
    MhaParameters parameters = new MhaParameters().heads(HEADS).queryWeight(weights[0]).keyWeight(weights[1]);
    try (KvPool pool = KvPool.of(sizes()); KvSequence sequence = pool.open();
         Schedule schedule = schedule(pool, new ScheduleLimits());
         MhaWeights layer = MhaWeights.pack(parameters.valueWeight(weights[2]).outWeight(weights[3]))) {
      AttentionOptions causal = new AttentionOptions().causal();
      MhaOptions alone = new MhaOptions().attention(causal).rotary(new RotaryOptions());
      Pages pages = pool.pages(0);
      for (int[] span : new int[][] {{0, 3}, {3, 5}}) {
        schedule.set(pool.step(List.of(sequence), span[1] - span[0]));
        MhaOptions options = new MhaOptions().rotary(new RotaryOptions()).schedule(schedule);
        Tensor rows = Tensor.of(part(x, span[0], span[1]), span[1] - span[0], ROW);
        float[] out = layer.attend(rows, options.keyPages(pages.keys()).valuePages(pages.values())).toFloats();
        System.arraycopy(out, 0, found, span[0] * ROW, out.length);
      }
      near(found, layer.attend(Tensor.of(x, 5, ROW), alone).toFloats(), 1e-5);
      schedule.begin(true);
      MhaOptions busy = new MhaOptions().schedule(schedule).keyPages(pages.keys()).valuePages(pages.values());
      refused(IllegalStateException.class, () -> layer.attend(Tensor.of(x, 5, ROW), busy), "in use");
      schedule.end();
    }
  }

  /** What C leaves to its caller would be a race over freed memory here. */
  static void whatChangesAPoolThatIsInUseIsRefused() {
    KvPool pool = KvPool.of(sizes());
    KvSequence sequence = pool.open(), other = pool.open();
    pool.step(List.of(sequence), 6);
    pool.begin(true);
    refused(IllegalStateException.class, () -> sequence.truncate(0), "in use by another thread");
    refused(IllegalStateException.class, pool::open, "in use by another thread");
    same(sequence.length(), 6L);
    sequence.close(); // waits for it
    pool.end();
    same(pool.freePages(), 16L);
    refused(IllegalStateException.class, () -> sequence.truncate(0), "KvSequence was closed");
    refused(IllegalStateException.class, () -> pool.step(List.of(sequence), 1), "KvSequence was closed");
    pool.close();
    that(pool.isKept(), "a sequence needs it");
    refused(IllegalStateException.class, () -> other.fork(0), "KvPool was closed");
    other.close();
    that(!pool.isKept(), "nothing needs it");
  }

  static void tensorsKeepThePoolTheyAreOf() throws InterruptedException {
    KvPool pool = KvPool.of(sizes());
    Tensor keys = pool.keys(0);
    pool.close();
    System.gc();
    keys.data().fill((byte) 0);
    Fovea.exp(null, keys, keys);
    same(keys.toFloats()[0], 1f);
    that(pool.isKept(), "a tensor needs it");
    keys = null;
    for (int i = 0; pool.isKept() && i < 100; ++i) {
      System.gc();
      Thread.sleep(10);
    }
    that(!pool.isKept(), "nothing needs it");
  }

  static void poolsOf8BitsHaveScales() {
    checkScaledPool(Dtype.I8, 16, 0.02);
  }

  static void poolsOf4BitsHaveScales() {
    checkScaledPool(Dtype.U8, 32, 0.15);
  }

  // Keys of 8 bits, and values of a type.
  private static void checkScaledPool(Dtype values, int group, double off) {
    KvPoolSizes sizes = new KvPoolSizes().layers(1).kvHeads(1).headDim(32).positions(8).pageSize(4).sequences(1);
    sizes.keyDtype(Dtype.I8).valueDtype(values).scaleGroup(group);
    try (KvPool pool = KvPool.of(sizes); KvSequence sequence = pool.open()) {
      Pages pages = pool.pages(0);
      Tensor rows = Tensor.shapeOnly(Dtype.F32, 5, 1, 32);
      AttentionOptions options =
          new AttentionOptions().keyScales(pages.keyScales()).valueScales(pages.valueScales());
      float[] x = some(5 * 32, 4), found = new float[5 * 32];
      try (Schedule schedule = Schedule.of(
               rows, pages.keys(), pages.values(), rows, options, new ScheduleLimits().sequences(1))) {
        schedule.set(pool.step(List.of(sequence), 5));
        schedule.append(Tensor.of(x, 5, 1, 32), Tensor.of(x, 5, 1, 32), pages);
        schedule.run(new Buffers()
                         .query(x)
                         .key(pages.keys().data())
                         .value(pages.values().data())
                         .keyScales(pages.keyScales().data())
                         .valueScales(pages.valueScales().data())
                         .out(found));
      }
      Tensor whole = Tensor.of(x, 5, 32);
      near(found, Fovea.sdpa(whole, whole, whole).toFloats(), off);
    }
  }

  static void whatIsQuantizedReadsBack() {
    Tensor x = Tensor.of(some(64, 3), 2, 32);
    Fovea.Quantized made = Fovea.quantize(x, 16);
    near(Fovea.dequantize(made.numbers(), made.scales()).toFloats(), x.toFloats(), 0.51 / 127);
    same(Arrays.toString(made.scales().shape()), "[2, 2]");
    refused(Status.BAD_VALUE, () -> Fovea.quantize(x, 24), "group");
    Fovea.Quantized fours = Fovea.quantizeInFourBits(x, 32);
    Tensor back = Fovea.dequantize(fours.numbers(), fours.scales());
    near(back.toFloats(), x.toFloats(), 2.1 / 30);
    same(Arrays.toString(fours.numbers().shape()), "[2, 16]");
    AttentionOptions options = new AttentionOptions().valueScales(fours.scales());
    near(Fovea.sdpa(x, x, fours.numbers(), options).toFloats(), Fovea.sdpa(x, x, back).toFloats(), 0);
  }
}
