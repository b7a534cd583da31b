// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Options, errors, threads, and what is kept between calls. */
final class StateTest {
  private StateTest() {}

  static void optionsReachTheLibrary() {
    Tensor x = Tensor.of(new float[] {1, 0, 0, 1, 1, 1}, 1, 1, 3, 2), weights = Tensor.zeros(1, 1, 3, 3),
           sums = Tensor.zeros(1, 1, 3);
    float[] ownWeights = new float[9];
    Fovea.sdpa(x, x, x, new AttentionOptions().weights(weights).logSumExp(sums));
    Fovea.sdpa(x, x, x, new AttentionOptions().weights(Tensor.of(ownWeights, 1, 1, 3, 3)));
    same(ownWeights, weights.toFloats());
    float total = 0;
    for (float weight : ownWeights) total += weight;
    that(Math.abs(total - 3) < 1e-6 && sums.toFloats()[0] != 0, total);
    Fovea.sdpa(x, x, x, new AttentionOptions().averageWeights().weights(Tensor.zeros(1, 3, 3)));
    same(Arrays.copyOf(Fovea.sdpa(x, x, x, new AttentionOptions().causal().queryOffset(-1)).toFloats(), 4), 0, 0, 1, 0);
    same(Fovea.sdpa(x, x, x, new AttentionOptions().windowLeft(0).windowRight(0)).toFloats(), x.toFloats());
    same(Fovea.sdpa(x, x, x, new AttentionOptions().validLens(Tensor.of(new int[] {0}))).toFloats(), 0, 0, 0, 0, 0, 0);
    same(Fovea.sdpa(x, x, x, new AttentionOptions().mask(Tensor.of(new byte[] {1, 0, 0, 0, 1, 0, 0, 0, 1}, 1, 1, 3, 3)))
             .toFloats(),
        x.toFloats());
    that(Float.isNaN(
             Fovea.sdpa(x, x, x, new AttentionOptions().emptyRows(EmptyRows.NAN).validLens(Tensor.of(new int[] {0})))
                 .toFloats()[0]),
        "NaN");
    refused(Status.BAD_VALUE, () -> Fovea.sdpa(x, x, x, new AttentionOptions().dropout(1.5f)), "dropout", "1.5");
    refused(Status.BAD_VALUE,
        () -> Fovea.kernelRegression(x, x, x, new KernelRegressionOptions().sigma(-1)), "sigma", "-1");
  }

  /** C keeps messages by thread of the system; virtual threads share those. */
  static void eachOfManyThreadsIsToldItsOwnMessage() throws Exception {
    try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<String>> messages = new ArrayList<>();
      for (int i = 0; i < 2000; ++i) {
        int rank = 5 + i % 2;
        messages.add(threads.submit(() -> {
          long[] shape = new long[rank];
          Arrays.fill(shape, 1);
          Thread.yield();
          Tensor x = Tensor.of(new float[1], shape);
          return refused(FoveaException.class, () -> Fovea.matmul(null, x, x, x)).getMessage();
        }));
      }
      for (int i = 0; i < 2000; ++i) that(messages.get(i).get().contains("rank " + (5 + i % 2)), messages.get(i).get());
    }
  }

  static void contexts() {
    refused(Status.UNKNOWN_ISA, () -> Context.of(0, "nonsense"), "nonsense");
    refused(Status.BAD_VALUE, () -> Context.of(-1), "max_threads", "-1");
    try (Context medium = Context.of(1, null, Precision.MEDIUM)) {
      Tensor x = Tensor.of(some(64, 1), 8, 8);
      near(Fovea.sdpa(x, x, x, new AttentionOptions().precision(Precision.MEDIUM)).toFloats(),
          Fovea.sdpa(x, x, x).toFloats(), 0.05);
      that(medium.threads() == 1, "threads");
    }
    Context context = Context.of(1, "base");
    same(context.threads(), 1);
    same(context.isaName(), "base");
    same(Context.isaAvailable().get(0), "base");
    that(Context.isaAvailable().contains(Context.isaName(null)) && Fovea.version().matches("\\d+\\.\\d+\\.\\d+"),
        Fovea.version());
    Tensor x = Tensor.of(new float[1], 1, 1);
    Plan plan = Plan.sdpa(context, x, x, x, Tensor.zeros(1, 1), null);
    context.close();
    context.close();
    refused(IllegalStateException.class, () -> Fovea.exp(context, x, Tensor.zeros(1, 1)), "Context was closed");
    float[] one = {0};
    that(context.isKept(), "a plan needs its context");
    plan.run(one, one, one, new float[1]);
    plan.close();
    that(!context.isKept() && !plan.isKept(), "nothing needs them");
    refused(IllegalStateException.class, () -> plan.run(one, one, one, new float[1]), "Plan was closed");
  }

  static void plansRunOnOtherDataAndRefuseWhatDoesNotFit() throws Exception {
    Tensor q = Tensor.shapeOnly(Dtype.F32, 4, 2), k = Tensor.shapeOnly(Dtype.F32, 6, 2);
    AttentionOptions options = new AttentionOptions().validLens(Tensor.shapeOnly(Dtype.I32, 1));
    try (Plan plan = Plan.sdpa(q, k, k, q, options)) {
      float[] x = ones(12), out = filled(8, 3);
      Callable<Buffers> given = () -> new Buffers().query(x).key(x).value(x).out(out).validLens(new int[] {3});
      refused(Status.BAD_SHAPE, () -> plan.run(given.call().key(ones(11))), "key", "44 bytes");
      refused(Status.BAD_SHAPE, () -> plan.run(given.call().out(new float[7])), "out");
      refused(Status.BAD_DTYPE, () -> plan.run(given.call().validLens(new long[] {3})), "validLens", "I32");
      refused(Status.BAD_DTYPE, () -> plan.run(given.call().value(new short[12])), "value", "F32");
      refused(Status.NULL_POINTER,
          () -> plan.run(new Buffers().query(x).value(x).out(out).validLens(new int[] {3})), "key");
      refused(Status.NULL_POINTER, () -> plan.run(x, x, x, out), "valid_lens");
      refused(Status.BAD_VALUE, () -> plan.run(given.call().mask(new byte[24])), "mask");
      same(out, filled(8, 3));
      plan.run(given.call());
      same(out, ones(8));
      that(plan.describe().startsWith("op=sdpa") && plan.workspaceSize() >= 0, plan.describe());
      float[][] outs = new float[200][8];
      CountDownLatch begin = new CountDownLatch(1);
      try (ExecutorService threads = Executors.newFixedThreadPool(4)) {
        for (float[] one : outs) {
          threads.submit(() -> {
            begin.await();
            plan.run(given.call().out(one));
            return null;
          });
        }
        begin.countDown();
      }
      for (float[] one : outs) same(one, ones(8));
    }
  }

  static void preparedKeysGiveWhatTheWholeCallGives() {
    Score score = new Score()
                      .kind(ScoreKind.ADDITIVE)
                      .queryWeight(Tensor.of(some(12, 1), 3, 4))
                      .keyWeight(Tensor.of(some(15, 2), 3, 5))
                      .scoreVector(Tensor.of(some(3, 3)));
    float[] qs = some(8, 4), ks = some(35, 5), vs = some(14, 6), out = new float[4];
    Tensor q = Tensor.of(qs, 2, 4), k = Tensor.of(ks, 7, 5), v = Tensor.of(vs, 7, 2),
           o = Tensor.shapeOnly(Dtype.F32, 2, 2);
    float[] expected = Fovea.attention(score, q, k, v, null).toFloats();
    PreparedKeysSizes sizes = new PreparedKeysSizes().batch(1).kvHeads(1).capacity(8).queryDim(4).keyDim(5);
    try (PreparedKeys keys = PreparedKeys.of(score, sizes)) {
      keys.append(k);
      that(keys.size() > 0, keys.size());
      same(keys.attend(q, v, null).toFloats(), expected);
      try (Plan plan = Plan.prepared(null, q, keys, v, o, null)) {
        Buffers buffers = new Buffers().query(qs).value(vs).out(out);
        plan.run(buffers);
        same(out, expected);
        keys.truncate(6);
        same(keys.length(), 6L);
        refused(Status.BAD_SHAPE, () -> plan.run(buffers));
        keys.begin(true);
        refused(IllegalStateException.class, () -> plan.run(buffers), "in use");
        keys.end();
      }
    }
    try (Plan plan = Plan.attention(null, score, q, k, v, o, null)) {
      Arrays.fill(out, 0);
      plan.run(new Buffers()
                   .query(qs)
                   .key(ks)
                   .value(vs)
                   .out(out)
                   .queryWeight(some(12, 1))
                   .keyWeight(some(15, 2))
                   .scoreVector(some(3, 3)));
      same(out, expected);
    }
  }

  /** What nobody refers to any more is freed, even while C still reads it: a call has to refer to its tensors. */
  static void callsReferToTheirTensors() {
    try (Call call = new Call()) {
      Tensor x = Tensor.zeros(4);
      WeakReference<MemorySegment> memory = new WeakReference<>(x.data());
      call.in(x);
      x = null;
      for (int i = 0; i < 5; ++i) System.gc();
      that(memory.get() != null, "the memory of a tensor was freed under a call");
    }
  }

  /** Forgotten handles are freed, and none that a call or a plan still needs. */
  static void theCollectorFreesWhatIsLeft() {
    for (int i = 0; i < 200; ++i) {
      Context context = Context.of(1);
      Tensor x = Tensor.of(ones(4), 2, 2);
      Plan plan = Plan.sdpa(context, x, x, x, Tensor.zeros(2, 2), null);
      float[] out = new float[4];
      if (i % 50 == 0) System.gc();
      plan.run(ones(4), ones(4), ones(4), out);
      same(out, ones(4));
    }
  }
}
