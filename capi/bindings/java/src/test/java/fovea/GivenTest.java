// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.util.Arrays;

/** A 0 that is given is another number than one that is left out. */
final class GivenTest {
  private static final Tensor X = Tensor.of(new float[] {1, 0, 0, 4, 2, 2}, 3, 2);
  private static final float[] MEAN = {1, 2, 1, 2, 1, 2};

  private GivenTest() {}

  private static MhaParameters parameters() {
    Tensor unit = Tensor.of(new float[] {1, 0, 0, 1}, 2, 2);
    return new MhaParameters().heads(1).queryWeight(unit).keyWeight(unit).valueWeight(unit);
  }

  static void aScaleOf0GivesTheMeanOfTheValues() {
    for (Score score : new Score[] {null, new Score().kind(ScoreKind.GAUSSIAN).sigma(1)}) {
      same(Fovea.attention(score, X, X, X, new AttentionOptions().scale(0)).toFloats(), MEAN);
      that(!Arrays.equals(Fovea.attention(score, X, X, X, new AttentionOptions()).toFloats(), MEAN), "no scale is one of 0");
    }
    try (MhaWeights weights = MhaWeights.pack(parameters())) {
      same(weights.attend(X, new MhaOptions().attention(new AttentionOptions().scale(0))).toFloats(), MEAN);
    }
  }

  static void soDoEpsilonPositionScaleAndRotaryDim() {
    Tensor small = Tensor.of(new float[] {-1e-3f, 1e-3f}, 1, 2);
    that(Fovea.layerNorm(small, new LayerNormOptions().epsilon(0)).toFloats()[1] > 0.999, "epsilon was not 0");
    that(Fovea.layerNorm(small, new LayerNormOptions()).toFloats()[1] < 0.31, "epsilon was 0");
    same(Fovea.rotary(X, new RotaryOptions().positionScale(0)).toFloats(), X.toFloats());
    same(Fovea.rotary(X, new RotaryOptions().rotaryDim(0)).toFloats(), X.toFloats());
    that(!Arrays.equals(Fovea.rotary(X, new RotaryOptions()).toFloats(), X.toFloats()), "it turned nothing");
  }

  static void aWidthABaseOrASizeOf0IsRefused() {
    refused(Status.BAD_VALUE, () -> Fovea.kernelRegression(X, X, X, new KernelRegressionOptions().sigma(0)), "sigma");
    Fovea.kernelRegression(X, X, X, new KernelRegressionOptions());
    refused(Status.BAD_VALUE, () -> Fovea.rotary(X, new RotaryOptions().base(0)), "base");
    refused(Status.BAD_VALUE,
        () -> Fovea.positionalEncoding(null, Tensor.zeros(3, 2), new PositionalEncodingOptions().base(0)), "base");
    refused(Status.BAD_VALUE, () -> new KvPoolSizes().valueDim(0), "valueDim is 0");
    refused(Status.BAD_VALUE, () -> new ScheduleLimits().workers(0), "workers is 0");
    refused(Status.BAD_VALUE, () -> new MhaParameters().kvHeads(0), "kvHeads is 0");
    KvPoolSizes sizes = new KvPoolSizes().layers(1).positions(2).headDim(2).sequences(1).keyDtype(Dtype.BF16);
    refused(Status.BAD_VALUE, () -> KvPool.of(sizes.kvHeads(0)), "kv_heads");
    try (KvPool pool = KvPool.of(sizes.kvHeads(1).pageSize(1))) {
      same(pool.size() >= 2 * 2 * 2 * 2, true);
      same(pool.values(0).dtype(), Dtype.BF16); // as keys
    }
  }
}
