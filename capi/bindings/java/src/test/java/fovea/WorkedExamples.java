// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/** Calls whose results can be told by hand. */
final class WorkedExamples {
  private WorkedExamples() {}

  static void maskedSoftmaxIsZeroBehindTheLengths() {
    float[] x = some(16, 1), found = Fovea.maskedSoftmax(Tensor.of(x, 2, 2, 4), Tensor.of(new int[] {2, 3})).toFloats();
    int[] lengths = {2, 2, 3, 3};
    for (int row = 0; row < 4; ++row) {
      double sum = 0;
      for (int j = 0; j < lengths[row]; ++j) sum += Math.exp(x[4 * row + j]);
      for (int j = 0; j < 4; ++j) {
        double expected = j < lengths[row] ? Math.exp(x[4 * row + j]) / sum : 0;
        that(Math.abs(found[4 * row + j] - expected) <= (expected == 0 ? 0 : 1e-6), Arrays.toString(found));
      }
    }
    Tensor inPlace = Tensor.of(x, 2, 2, 4);
    Fovea.maskedSoftmax(null, inPlace, Tensor.of(new long[] {1, 3, 2, 4}, 2, 2), inPlace, null);
    same(Arrays.copyOf(x, 4), 1, 0, 0, 0);
    for (int j = 12; j < 16; ++j) that(x[j] > 0, x[j]);
  }

  /** Ten equal keys with the values 0 to 39, the same for both sequences by a stride of 0. */
  private static float[] overEqualKeys(Score score, int queryDim, int... lengths) {
    Tensor key =
        Tensor.strided(Dtype.F32, MemorySegment.ofArray(ones(20)), new long[] {2, 10, 2}, new long[] {0, 2, 1}, 0);
    Tensor value =
        Tensor.strided(Dtype.F32, MemorySegment.ofArray(counting(40)), new long[] {2, 10, 4}, new long[] {0, 4, 1}, 0);
    Tensor query = Tensor.of(some(2 * queryDim, 2), 2, 1, queryDim);
    return Fovea.attention(score, query, key, value, new AttentionOptions().validLens(Tensor.of(lengths))).toFloats();
  }

  static void equalKeysGiveTheMeanOfTheValidValues() {
    float[] means = {2, 3, 4, 5, 10, 11, 12, 13};
    near(overEqualKeys(null, 2, 2, 6), means, 1e-5);
    Score additive = new Score()
                         .kind(ScoreKind.ADDITIVE)
                         .queryWeight(Tensor.of(some(160, 3), 8, 20))
                         .keyWeight(Tensor.of(some(16, 4), 8, 2))
                         .scoreVector(Tensor.of(some(8, 5)));
    near(overEqualKeys(additive, 20, 2, 6), means, 1e-5);
    same(overEqualKeys(null, 2, 0, 1), 0, 0, 0, 0, 0, 1, 2, 3);
    refused(Status.BAD_VALUE, () -> overEqualKeys(null, 2, 2, 11), "valid_lens", "11");
  }

  static void concatIsAdditiveWithTheWeightCutInTwo() {
    float[] weight = some(54, 6), vector = some(6, 7);
    Tensor q = Tensor.of(some(15, 8), 3, 5), k = Tensor.of(some(28, 9), 7, 4), v = Tensor.of(some(7, 10), 7, 1);
    Score concat = new Score().kind(ScoreKind.CONCAT).weight(Tensor.of(weight, 6, 9)).scoreVector(Tensor.of(vector));
    MemorySegment data = MemorySegment.ofArray(weight);
    Tensor left = Tensor.strided(Dtype.F32, data, new long[] {6, 5}, new long[] {9, 1}, 0);
    Tensor right = Tensor.strided(Dtype.F32, data, new long[] {6, 4}, new long[] {9, 1}, 5);
    near(Fovea.additiveAttention(q, k, v, left, right, Tensor.of(vector), null).toFloats(),
        Fovea.attention(concat, q, k, v, null).toFloats(), 1e-6);
  }

  private static float[] times(float[] weight, float[] x) {
    float[] out = new float[x.length];
    for (int i = 0; i < x.length; ++i) {
      double sum = 0;
      for (int j = 0; j < x.length; ++j) sum += (double) x[j] * weight[i * x.length + j];
      out[i] = (float) sum;
    }
    return out;
  }

  static void multiHeadAttentionOverEqualKeysProjectsTheOneValue() {
    int e = 100;
    float[] value = some(e * e, 11), out = some(e * e, 12);
    MhaParameters parameters = new MhaParameters()
                                   .heads(5)
                                   .queryWeight(Tensor.of(some(e * e, 13), e, e))
                                   .keyWeight(Tensor.of(some(e * e, 14), e, e))
                                   .valueWeight(Tensor.of(value, e, e))
                                   .outWeight(Tensor.of(out, e, e));
    float[] expected = times(out, times(value, ones(e)));
    Tensor x = Tensor.of(ones(2 * 4 * e), 2, 4, e), y = Tensor.of(ones(2 * 6 * e), 2, 6, e);
    MhaOptions options = new MhaOptions().attention(new AttentionOptions().validLens(Tensor.of(new int[] {3, 2})));
    try (MhaWeights weights = MhaWeights.pack(parameters)) {
      that(weights.size() > 4 * 4 * e * e - 1, weights.size());
      for (Tensor key : new Tensor[] {null, y}) {
        Tensor found = weights.attend(x, key, null, options), once = Tensor.zeros(2, 4, e);
        same(Arrays.toString(found.shape()), "[2, 4, 100]");
        for (int row = 0; row < 8; ++row)
          near(Arrays.copyOfRange(found.toFloats(), row * e, row * e + e), expected, 2e-3);
        MhaWeights.attendOnce(null, parameters, x, key, null, once, options);
        same(once.toFloats(), found.toFloats());
      }
    }
  }

  static void theEncodingTurnsSlowerFromPairToPair() {
    float[] found = Fovea.positionalEncoding(60, 32).toFloats();
    int[] changes = new int[32];
    for (int i = 0; i < found.length; ++i) {
      int step = i / 32, column = i % 32;
      double angle = step / Math.pow(10000, 2 * (column / 2) / 32.0);
      that(Math.abs(found[i] - (column % 2 == 1 ? Math.cos(angle) : Math.sin(angle))) <= 1e-6, i);
      if (step > 0 && found[i] < 0 != found[i - 32] < 0) ++changes[column];
    }
    that(changes[6] > changes[8] && changes[7] > changes[9], Arrays.toString(changes));
  }

  static void aWideKernelRegressesToTheMeanAndANarrowOneToTheData() {
    float[] noise = some(50, 15), x = new float[50], y = new float[50];
    float mean = 0;
    for (int i = 0; i < 50; ++i) {
      x[i] = i / 10f;
      y[i] = (float) (2 * Math.sin(x[i]) + Math.pow(x[i], 0.8) + noise[i] / 2);
      mean += y[i] / 50;
    }
    Tensor points = Tensor.of(x), targets = Tensor.of(y);
    near(Fovea.kernelRegression(points, points, targets, new KernelRegressionOptions().sigma(1e6f)).toFloats(),
        filled(50, mean), 1e-5);
    near(Fovea.kernelRegression(points, points, targets, new KernelRegressionOptions().sigma(0.01f)).toFloats(), y,
        1e-6);
  }

  static void everyOtherOperationDoesWhatItsNameSays() {
    Tensor unit = Tensor.of(new float[] {1, 0, 0, 1}, 2, 2), x = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2);
    same(Fovea.matmul(x, x).toFloats(), 7, 10, 15, 22);
    same(Fovea.matmul(x, x.transposed(0, 1)).toFloats(), 5, 11, 11, 25);
    try (PackedMatrix packed = PackedMatrix.pack(x); PackedMatrix layer = PackedMatrix.packLinear(x)) {
      same(packed.multiply(x).toFloats(), 7, 10, 15, 22);
      LinearOptions options =
          new LinearOptions().activation(Activation.RELU).bias(Tensor.of(new float[] {-6, 1})).residual(unit);
      same(layer.linear(x, options).toFloats(), 1, 12, 5, 27);
      that(layer.size() > 0, "size");
    }
    near(Fovea.exp(Tensor.of(new float[] {0, 1})).toFloats(), new float[] {1, (float) Math.E}, 1e-6);
    near(Fovea.tanh(Tensor.of(new float[] {0, 1})).toFloats(), new float[] {0, (float) Math.tanh(1)}, 1e-6);
    same(Fovea.alibiSlopes(2).toFloats(), 1 / 16f, 1 / 256f);
    Tensor frequencies = Tensor.zeros(2);
    float factor = Fovea.rotaryFrequencies(frequencies, new RotaryFrequenciesOptions().kind(FrequenciesKind.YARN).base(100)
        .factor(4).originalLength(4096).fastRotations(32).slowRotations(1));
    near(frequencies.toFloats(), new float[] {1, 0.1f}, 1e-6);
    near(new float[] {factor}, new float[] {(float) (1 + Math.log(4) / 10)}, 1e-6);
    near(Fovea.layerNorm(x, new LayerNormOptions().residual(unit)).toFloats(), new float[] {0, 0, -1, 1}, 1e-4);
    Tensor total = Tensor.zeros(1, 2), mean = Tensor.zeros(1), inverse = Tensor.zeros(1);
    Tensor one = Tensor.of(new float[] {1, 2}, 1, 2), two = Tensor.of(new float[] {2, 2}, 1, 2);
    near(Fovea.layerNorm(one, new LayerNormOptions().epsilon(0.75f).residual(two).sum(total).mean(mean)
        .inverseDeviation(inverse)).toFloats(), new float[] {-0.5f, 0.5f}, 1e-6);
    same(total.toFloats(), 3, 4);
    near(mean.toFloats(), new float[] {3.5f}, 1e-6);
    near(inverse.toFloats(), new float[] {1}, 1e-6);
    near(Fovea.rmsNorm(one, new RmsNormOptions().epsilon(3.5f).residual(two).weight(Tensor.of(new float[] {1, 2}))
        .weightFromOne()).toFloats(), new float[] {1.5f, 3}, 1e-6);
    same(Fovea.softmax(two, 0).toFloats(), 1, 1);
    near(Fovea.logSoftmax(two, -1).toFloats(), new float[] {(float) -Math.log(2), (float) -Math.log(2)}, 1e-6);
    same(Fovea.activation(Activation.RELU, Tensor.of(new float[] {-1, 2})).toFloats(), 0, 2);
    same(Fovea.gemm(one, unit, new GemmOptions().alpha(3).beta(-1).c(one)).toFloats(), 2, 4);
    near(Fovea.rotary(x, new RotaryOptions().offset(0)).toFloats(),
        new float[] {1, 2, (float) (3 * Math.cos(1) - 4 * Math.sin(1)), (float) (3 * Math.sin(1) + 4 * Math.cos(1))},
        1e-6);
    near(Fovea.addPositionalEncoding(x, null).toFloats(),
        new float[] {1, 3, 3 + (float) Math.sin(1), 4 + (float) Math.cos(1)}, 1e-6);
    Tensor merged = Tensor.zeros(1, 2), sum = Tensor.zeros(1);
    Fovea.mergeStates(
        null, Tensor.of(new float[] {1, 2, 3, 4}, 2, 1, 2), Tensor.of(new float[] {0, 0}, 2, 1), merged, sum);
    near(merged.toFloats(), new float[] {2, 3}, 1e-6);
    near(sum.toFloats(), new float[] {(float) Math.log(2)}, 1e-6);
  }
}
