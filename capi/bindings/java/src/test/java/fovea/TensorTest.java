// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Views: of arrays and segments, of any strides, of 16 bits; and those that are refused. */
final class TensorTest {
  private TensorTest() {}

  static void arraysAndSegmentsGiveTheSame() {
    float[] q = some(2 * 3 * 5 * 8, 1), k = some(2 * 3 * 7 * 8, 2);
    Tensor query = Tensor.of(q, 2, 3, 5, 8), key = Tensor.of(k, 2, 3, 7, 8);
    float[] out = new float[q.length];
    Fovea.sdpa(null, query, key, key, Tensor.of(out, 2, 3, 5, 8), null);
    try (Arena arena = Arena.ofConfined()) {
      Tensor q2 = Tensor.allocate(arena, Dtype.F32, 2, 3, 5, 8), k2 = Tensor.allocate(arena, Dtype.F32, 2, 3, 7, 8);
      MemorySegment.copy(q, 0, q2.data(), ValueLayout.JAVA_FLOAT, 0, q.length);
      MemorySegment.copy(k, 0, k2.data(), ValueLayout.JAVA_FLOAT, 0, k.length);
      same(Fovea.sdpa(q2, k2, k2).toFloats(), out);
      same(Fovea.sdpa(q2, key, k2).toFloats(), out);
    }
  }

  /** Heads side by side in one array, each written by a call of its own: nothing between its rows may be touched. */
  static void stridedOutputsLeaveWhatLiesBetween() {
    float[] x = some(4 * 6, 3), out = filled(4 * 6, 9);
    Tensor whole = Tensor.of(x, 4, 6);
    Tensor half = Tensor.strided(Dtype.F32, MemorySegment.ofArray(out), new long[] {4, 3}, new long[] {6, 1}, 3);
    Tensor in = Tensor.strided(Dtype.F32, MemorySegment.ofArray(x), new long[] {4, 3}, new long[] {6, 1}, 3);
    Fovea.exp(null, in, half);
    float[] expected = Fovea.exp(whole).toFloats();
    for (int i = 0; i < out.length; ++i) same(out[i], i % 6 < 3 ? 9f : expected[i]);
  }

  static void negativeStridesRunBackwards() {
    float[] data = counting(12);
    Tensor backwards =
        Tensor.strided(Dtype.F32, MemorySegment.ofArray(data), new long[] {6, 2}, new long[] {-2, 1}, 10);
    same(backwards.toFloats(), 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    same(Fovea.matmul(Tensor.of(new float[] {0, 0, 0, 0, 0, 1}, 1, 6), backwards).toFloats(), 0, 1);
    Tensor query = Tensor.of(new float[] {1, -1}, 1, 2), once = Tensor.zeros(1, 2);
    AttentionOptions options = new AttentionOptions().windowLeft(2);
    Fovea.sdpa(null, query, backwards, backwards, once, options);
    float[] out = new float[2];
    try (Plan plan = Plan.sdpa(query, backwards, backwards, once, options)) {
      plan.run(new float[] {1, -1}, data, data, out);
    }
    same(out, once.toFloats());
  }

  static void viewsThatOverlapInAnArrayOverlapForTheLibrary() {
    float[] data = some(8, 4), before = data.clone();
    Tensor one = Tensor.strided(Dtype.F32, MemorySegment.ofArray(data), new long[] {4}, new long[] {1}, 0);
    Tensor other = Tensor.strided(Dtype.F32, MemorySegment.ofArray(data), new long[] {4}, new long[] {1}, 2);
    refused(Status.OVERLAP, () -> Fovea.exp(null, one, other), "overlap");
    same(data, before);
    Fovea.exp(null, one, one);
    that(data[0] != before[0] && data[4] == before[4], "in place");
  }

  static void whatDoesNotFitIsRefused() {
    refused(Status.BAD_SHAPE, () -> Tensor.of(new float[5], 2, 2), "5");
    refused(Status.BAD_SHAPE, () -> Tensor.of(new float[3], 2, 2), "3 elements");
    refused(Status.BAD_SHAPE, () -> Tensor.of(new float[3], -1), "-1");
    refused(Status.BAD_RANK, () -> Tensor.of(new float[1], 1, 1, 1, 1, 1, 1, 1), "7");
    refused(Status.SIZE_OVERFLOW, () -> Tensor.shapeOnly(Dtype.F32, 1L << 40, 1L << 40));
    MemorySegment data = MemorySegment.ofArray(new float[4]);
    refused(
        Status.BAD_SHAPE, () -> Tensor.strided(Dtype.F32, data, new long[] {2, 2}, new long[] {3, 1}, 0), "4 elements");
    refused(Status.BAD_SHAPE, () -> Tensor.strided(Dtype.F32, data, new long[] {2}, new long[] {-1}, 0));
    refused(Status.BAD_STRIDE, () -> Tensor.strided(Dtype.F32, data, new long[] {2}, new long[] {1, 1}, 0));
    refused(
        Status.SIZE_OVERFLOW, () -> Tensor.strided(Dtype.F32, data, new long[] {3}, new long[] {Long.MAX_VALUE}, 0));
    refused(Status.NULL_POINTER, () -> Fovea.exp(null, Tensor.shapeOnly(Dtype.F32, 2), Tensor.zeros(2)), "x");
    refused(Status.NULL_POINTER, () -> Fovea.exp(null, null, Tensor.zeros(2)), "x");
    Tensor readOnly = Tensor.of(Dtype.F32, data.asReadOnly(), 4);
    same(Fovea.exp(readOnly).toFloats(), 1, 1, 1, 1);
    refused(IllegalArgumentException.class, () -> Fovea.exp(null, readOnly, readOnly), "read-only");
  }

  static void memoryThatIsNotTheThreadsIsRefused() throws Exception {
    Arena arena = Arena.ofConfined();
    Tensor x = Tensor.allocate(arena, Dtype.F32, 4);
    Thread other = Thread.ofPlatform().start(() -> {
      try {
        refused(RuntimeException.class, () -> Fovea.exp(x), "another thread");
      } catch (AssertionError failed) {
        x.data().toString(); // reported below, by what it did not set
        return;
      }
      Thread.currentThread().setName("refused");
    });
    other.join();
    same(other.getName(), "refused");
    arena.close();
    refused(IllegalStateException.class, () -> Fovea.exp(x), "closed");
  }

  static void emptyTensorsAreNone() {
    same(Fovea.exp(Tensor.of(new float[0], 0, 3)).toFloats());
    same(Fovea.sdpa(Tensor.zeros(0, 4), Tensor.zeros(3, 4), Tensor.zeros(3, 4)).toFloats());
    same(Fovea.sdpa(Tensor.of(ones(4), 1, 4), Tensor.zeros(0, 4), Tensor.zeros(0, 2)).toFloats(), 0, 0);
  }

  /** Where no products of bfloat16 are taken: the float32 result of the same numbers, rounded once. */
  static void sixteenBitsAreFloat32RoundedOnce() {
    try (Context context = Context.of(0, "base")) {
      for (Dtype dtype : new Dtype[] {Dtype.F16, Dtype.BF16}) {
        Tensor q = Tensor.rounded(dtype, some(80, 5), 1, 2, 5, 8), k = Tensor.rounded(dtype, some(72, 6), 1, 1, 9, 8);
        Tensor wideQ = Tensor.of(q.toFloats(), 1, 2, 5, 8), wideK = Tensor.of(k.toFloats(), 1, 1, 9, 8);
        Tensor expected = Tensor.zeros(1, 2, 5, 8), found = Tensor.zeros(dtype, 1, 2, 5, 8);
        Fovea.sdpa(context, wideQ, wideK, wideK, expected, null);
        Fovea.sdpa(context, q, k, k, found, null);
        same(found.toFloats(), Tensor.rounded(dtype, expected.toFloats()).toFloats());
        same(Fovea.sdpa(q, k, k).dtype(), dtype);
        short[] bits = new short[80];
        try (Plan plan = Plan.sdpa(context, q, k, k, found, null)) {
          plan.run(new Buffers().query(q.data()).key(k.data()).value(k.data()).out(bits));
          refused(Status.BAD_DTYPE,
              () -> plan.run(new Buffers().query(new float[80]).key(k.data()).value(k.data()).out(bits)), "query");
        }
        same(Tensor.of(dtype, bits, 80).toFloats(), found.toFloats());
      }
    }
  }

  /**
   * Nothing is decided here: what the library takes comes back in 16 bits, and what it does not is refused in its
   * words.
   */
  static void everyOperationIsHandedSixteenBits() {
    Map<String, UnaryOperator<Tensor>> calls = Map.ofEntries(Map.entry("matmul", x -> Fovea.matmul(x, x)),
        Map.entry("packed", x -> PackedMatrix.pack(x).multiply(x)),
        Map.entry("linear", x -> PackedMatrix.packLinear(x).linear(x, new LinearOptions().bias(row(x)).residual(x))),
        Map.entry("masked softmax", x -> Fovea.maskedSoftmax(x, null)),
        Map.entry("layer norm", x -> Fovea.layerNorm(x, null)), Map.entry("rotary", x -> Fovea.rotary(x, null)),
        Map.entry("encoding", x -> Fovea.addPositionalEncoding(x, null)), Map.entry("exp", Fovea::exp),
        Map.entry("tanh", Fovea::tanh), Map.entry("kernel regression", x -> Fovea.kernelRegression(x, x, x, null)),
        Map.entry("additive", x -> Fovea.additiveAttention(x, x, x, x, x, row(x), null)),
        Map.entry("multi-head",
            x
            -> MhaWeights.pack(new MhaParameters().heads(2).queryWeight(x).keyWeight(x).valueWeight(x))
                   .attend(x, null)));
    for (Dtype dtype : new Dtype[] {Dtype.F16, Dtype.BF16}) {
      Tensor narrow = Tensor.rounded(dtype, some(64, 3), 8, 8), wide = Tensor.of(narrow.toFloats(), 8, 8);
      calls.forEach((name, call) -> {
        float[] expected = call.apply(wide).toFloats();
        Tensor found;
        try {
          found = call.apply(narrow);
        } catch (FoveaException refused) {
          that(refused.status() == Status.BAD_DTYPE && refused.getMessage().contains("expected")
                  && (name.equals("kernel regression") || name.equals("additive")),
              name + ": " + refused.getMessage());
          return;
        }
        same(found.dtype(), dtype);
        float[] numbers = found.toFloats();
        for (int i = 0; i < 64; ++i)
          that(Math.abs(numbers[i] - expected[i]) <= Math.abs(expected[i]) / 64 + 1e-2,
              name + ": " + numbers[i] + " is not " + expected[i]);
      });
    }
  }

  private static Tensor row(Tensor x) {
    return Tensor.strided(x.dtype(), x.data(), new long[] {8}, new long[] {1}, 0);
  }

  static void roundingIsToNearestAndTiesToEven() {
    float[] numbers = {1, 1 + 0x1p-8f, 1 + 0x3p-8f, -0f, 3.4e38f, 0x1p-133f, Float.NaN, Float.NEGATIVE_INFINITY};
    float[] found = Tensor.rounded(Dtype.BF16, numbers).toFloats();
    same(found, 1, 1, 1 + 0x1p-6f, -0f, Float.POSITIVE_INFINITY, 0x1p-133f, Float.NaN, Float.NEGATIVE_INFINITY);
    same(Tensor.rounded(Dtype.F16, new float[] {1 + 0x1p-11f, 1 + 0x3p-11f, 65520, 0x1p-24f}).toFloats(), 1,
        1 + 0x1p-9f, Float.POSITIVE_INFINITY, 0x1p-24f);
  }
}
