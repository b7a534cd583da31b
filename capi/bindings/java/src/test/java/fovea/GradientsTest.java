// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.util.function.Supplier;

/** Backward passes: what can be told by hand, and central differences of the forward pass. */
final class GradientsTest {
  private static final double STEP = 0x1p-7;

  private GradientsTest() {}

  /** found is how the sum of grad times forward's result moves with each element of what lies in the array. */
  private static void moves(Supplier<Tensor> forward, float[] grad, float[] elements, Tensor found) {
    float[] expected = new float[elements.length];
    for (int i = 0; i < elements.length; ++i) {
      float middle = elements[i];
      double high = loss(forward, grad, elements, i, (float) (middle + STEP));
      double low = loss(forward, grad, elements, i, (float) (middle - STEP));
      elements[i] = middle;
      expected[i] = (float) ((high - low) / (2 * STEP));
    }
    near(found.toFloats(), expected, 1e-3);
  }

  private static double loss(Supplier<Tensor> forward, float[] grad, float[] elements, int i, float element) {
    elements[i] = element;
    float[] out = forward.get().toFloats();
    double sum = 0;
    for (int n = 0; n < out.length; ++n) sum += (double) grad[n] * out[n];
    return sum;
  }

  /** One query, two keys and the values 0 and 1: out is the second key's weight, and moves by w (1 - w) with its score. */
  static void ofAttentionOnArraysOnceAndPlanned() {
    Tensor q = Tensor.of(new float[] {1, -1}, 1, 2), k = Tensor.of(new float[] {1, 0, 0, -0.5f}, 2, 2),
           v = Tensor.of(new float[] {0, 1}, 2, 1);
    float[] lse = new float[1], weights = new float[2], out = new float[1];
    AttentionOptions options =
        new AttentionOptions().scale(1).logSumExp(Tensor.of(lse)).weights(Tensor.of(weights, 1, 2));
    Fovea.sdpa(null, q, k, v, Tensor.of(out, 1, 1), options);
    float w = (float) (1 / (1 + Math.exp(0.5))), slope = w * (1 - w);
    float[] toQuery = {-slope, -0.5f * slope}, before = {out[0], lse[0], weights[0], weights[1]};
    float[] gradQuery = new float[2], gradKey = new float[4], ones = {1};
    AttentionGradients wanted = new AttentionGradients()
                                    .out(Tensor.of(ones, 1, 1))
                                    .query(Tensor.of(gradQuery, 1, 2))
                                    .key(Tensor.of(gradKey, 2, 2));
    Fovea.attentionBackward(null, null, q, k, v, Tensor.of(out, 1, 1), options, wanted);
    near(gradQuery, toQuery, 1e-6);
    near(gradKey, new float[] {-slope, slope, slope, -slope}, 1e-6);
    try (Plan plan = Plan.attentionBackward(null, null, q, k, v, Tensor.of(out, 1, 1), options, wanted)) {
      float[] again = new float[2];
      plan.run(new Buffers()
                   .query(q.toFloats())
                   .key(k.toFloats())
                   .value(v.toFloats())
                   .out(out)
                   .logSumExp(lse)
                   .gradOut(ones)
                   .gradQuery(again)
                   .gradKey(new float[4]));
      same(again, gradQuery);
    }
    same(new float[] {out[0], lse[0], weights[0], weights[1]}, before);
    refused(Status.NULL_POINTER,
        () -> Fovea.attentionBackward(null, null, q, k, v, q, options, new AttentionGradients()), "gradients.out");
  }

  /** Of one unit, tanh(0.5 q + 2 k). What the backward pass is given it does not make again: doubled, it gives others. */
  static void projectionsThatAdditiveAttentionKeeps() {
    Tensor q = Tensor.of(new float[] {1}, 1, 1), k = Tensor.of(new float[] {0.25f, -0.5f}, 2, 1),
           v = Tensor.of(new float[] {0, 1}, 2, 1), lse = Tensor.zeros(1), out = Tensor.zeros(1, 1);
    Score score = new Score()
                      .kind(ScoreKind.ADDITIVE)
                      .queryWeight(Tensor.of(new float[] {0.5f}, 1, 1))
                      .keyWeight(Tensor.of(new float[] {2}, 1, 1))
                      .scoreVector(Tensor.of(new float[] {1}));
    float[] keptQuery = new float[1], keptKey = new float[2];
    AttentionOptions options = new AttentionOptions()
                                   .logSumExp(lse)
                                   .projectedQuery(Tensor.of(keptQuery, 1, 1))
                                   .projectedKey(Tensor.of(keptKey, 2, 1));
    Fovea.attention(null, score, q, k, v, out, options);
    same(keptQuery, new float[] {0.5f});
    same(keptKey, 0.5f, -1);
    java.util.function.Function<AttentionOptions, float[]> backward = given -> {
      float[] found = new float[2];
      Fovea.attentionBackward(null, score, q, k, v, out, given,
          new AttentionGradients().out(Tensor.of(new float[] {1}, 1, 1)).key(Tensor.of(found, 2, 1)));
      return found;
    };
    float[] found = backward.apply(options);
    same(backward.apply(new AttentionOptions().logSumExp(lse)), found);
    keptKey[0] *= 2;
    that(backward.apply(options)[0] != found[0], "other projections, the same gradients");
  }

  static void planningLeavesWhatACallWouldWrite() {
    float[] sums = {5};
    Tensor x = Tensor.of(new float[] {1, 2}, 1, 2);
    Plan.sdpa(x, x, x, Tensor.zeros(1, 2), new AttentionOptions().logSumExp(Tensor.of(sums))).close();
    same(sums, new float[] {5});
  }

  static void ofActivations() {
    Tensor x = Tensor.of(new float[] {-1, 2, 0}), g = Tensor.of(new float[] {5, 7, 9});
    same(Fovea.activationBackward(Activation.RELU, x, g).toFloats(), 0, 7, 0);
    float[] inPlace = {5, 7, 9};
    Fovea.activationBackward(null, Activation.RELU, x, Tensor.of(inPlace), Tensor.of(inPlace));
    same(inPlace, 0, 7, 0);
    float[] elements = some(6, 1), grad = some(6, 2);
    Tensor found = Fovea.activationBackward(Activation.SILU, Tensor.of(elements), Tensor.of(grad));
    moves(() -> Fovea.activation(Activation.SILU, Tensor.of(elements)), grad, elements, found);
    refused(Status.BAD_SHAPE, () -> Fovea.activationBackward(Activation.SILU, x, Tensor.zeros(2)), "grad_out");
  }

  static void ofSoftmaxes() {
    float[] x = some(12, 3), grad = some(12, 4);
    Tensor view = Tensor.of(x, 2, 2, 3), g = Tensor.of(grad, 2, 2, 3), lens = Tensor.of(new int[] {2, 3});
    for (int axis = 0; axis < 3; ++axis) {
      int over = axis;
      moves(() -> Fovea.softmax(view, over), grad, x, Fovea.softmaxBackward(Fovea.softmax(view, over), over, g));
      moves(() -> Fovea.logSoftmax(view, over), grad, x,
          Fovea.logSoftmaxBackward(Fovea.logSoftmax(view, over), over, g));
    }
    moves(() -> Fovea.maskedSoftmax(view, lens), grad, x,
        Fovea.maskedSoftmaxBackward(Fovea.maskedSoftmax(view, lens), lens, g));
    Tensor half = Tensor.of(new float[] {0.5f, 0.5f, Float.NaN}, 1, 3),
           one = Tensor.of(new float[] {1, 3, Float.NaN}, 1, 3);
    same(Fovea.maskedSoftmaxBackward(half, Tensor.of(new int[] {2}), one).toFloats(), -0.5f, 0.5f, 0);
    refused(Status.BAD_VALUE, () -> Fovea.softmaxBackward(view, 3, g), "axis", "3");
    refused(Status.BAD_VALUE, () -> Fovea.logSoftmaxBackward(view, -4, g), "axis", "-4");
    refused(Status.BAD_VALUE, () -> Fovea.maskedSoftmaxBackward(view, Tensor.of(new int[] {2, 4}), g), "valid_lens", "4");
  }

  static void ofNorms() {
    float[] x = some(8, 5), residual = some(8, 6), weight = some(4, 7), bias = some(4, 8), grad = some(8, 9);
    Tensor view = Tensor.of(x, 2, 4), more = Tensor.of(residual, 2, 4), w = Tensor.of(weight), b = Tensor.of(bias);
    float[] mean = {5, 5};
    LayerNormOptions layer = new LayerNormOptions().epsilon(0.5f).weight(w).bias(b).residual(more);
    RmsNormOptions rms = new RmsNormOptions().epsilon(0.5f).weight(w).weightFromOne().residual(more);
    NormGradients wanted =
        new NormGradients().out(Tensor.of(grad, 2, 4)).x(Tensor.zeros(2, 4)).weight(Tensor.zeros(4)).bias(Tensor.zeros(4));
    layer.mean(Tensor.of(mean));
    Fovea.layerNormBackward(null, view, layer, wanted);
    same(mean, 5, 5);
    Supplier<Tensor> forward = () -> Fovea.layerNorm(view, layer);
    moves(forward, grad, x, wanted.x());
    moves(forward, grad, residual, wanted.x());
    moves(forward, grad, weight, wanted.weight());
    moves(forward, grad, bias, wanted.bias());
    refused(Status.BAD_VALUE, () -> Fovea.rmsNormBackward(null, view, rms, wanted), "gradients.bias");
    wanted.bias(null).sum(Tensor.of(ones(8), 2, 4));
    Fovea.rmsNormBackward(null, view, rms, wanted);
    moves(() -> Fovea.rmsNorm(view, rms), grad, weight, wanted.weight());
    float[] found = wanted.x().toFloats();
    for (int i = 0; i < 8; ++i) found[i] -= 1; // what sum brings
    moves(() -> Fovea.rmsNorm(view, rms), grad, x, Tensor.of(found));
    refused(Status.NULL_POINTER, () -> Fovea.layerNormBackward(null, view, layer, new NormGradients()), "gradients.out");
    refused(Status.NULL_POINTER, () -> Fovea.rmsNormBackward(null, view, rms, null), "gradients");
  }

  static void ofALinearLayer() {
    Tensor row = Tensor.of(new float[] {1, 2}, 1, 2), unit = Tensor.of(new float[] {1, 0, 0, 1}, 2, 2);
    LinearGradients plain = new LinearGradients().out(Tensor.of(new float[] {3, 5}, 1, 2)).weight(Tensor.zeros(2, 2));
    Fovea.linearBackward(null, row, unit, WeightLayout.OUT_IN, null, plain);
    same(plain.weight().toFloats(), 3, 6, 5, 10);
    Fovea.linearBackward(null, row, unit, WeightLayout.IN_OUT, null, plain);
    same(plain.weight().toFloats(), 3, 5, 6, 10);

    float[] x = some(6, 10), weight = some(12, 11), bias = some(4, 12), multiplier = some(8, 13), grad = some(8, 14);
    Tensor view = Tensor.of(x, 2, 3), w = Tensor.of(weight, 4, 3);
    LinearOptions options = new LinearOptions().activation(Activation.GELU).bias(Tensor.of(bias))
        .multiplier(Tensor.of(multiplier, 2, 4));
    LinearGradients wanted = new LinearGradients().out(Tensor.of(grad, 2, 4)).x(Tensor.zeros(2, 3))
        .weight(Tensor.zeros(4, 3)).bias(Tensor.zeros(4)).multiplier(Tensor.zeros(2, 4));
    Fovea.linearBackward(null, view, w, WeightLayout.OUT_IN, options, wanted);
    Supplier<Tensor> forward = () -> {
      try (PackedMatrix packed = PackedMatrix.packLinear(w)) {
        return packed.linear(view, options);
      }
    };
    moves(forward, grad, x, wanted.x());
    moves(forward, grad, weight, wanted.weight());
    moves(forward, grad, bias, wanted.bias());
    moves(forward, grad, multiplier, wanted.multiplier());
    refused(Status.BAD_VALUE,
        () -> Fovea.linearBackward(null, view, w, WeightLayout.OUT_IN, new LinearOptions(), wanted), "gradients.bias");
    refused(Status.BAD_SHAPE,
        () -> Fovea.linearBackward(null, view, w, WeightLayout.IN_OUT, options, wanted), "x.shape[1]");
  }

  static void ofMergedStates() {
    float[] outs = some(8, 15), lses = some(4, 16), grad = some(4, 17), gradSum = some(2, 18);
    Tensor parts = Tensor.of(outs, 2, 2, 2), sums = Tensor.of(lses, 2, 2);
    MergeGradients wanted = new MergeGradients().out(Tensor.of(grad, 2, 2)).logSumExp(Tensor.of(gradSum))
        .outs(Tensor.zeros(2, 2, 2)).lses(Tensor.zeros(2, 2));
    Fovea.mergeStatesBackward(null, parts, sums, wanted);
    float[] both = {grad[0], grad[1], grad[2], grad[3], gradSum[0], gradSum[1]};
    Supplier<Tensor> forward = () -> {
      float[] out = new float[6], merged = new float[4], sum = new float[2];
      Fovea.mergeStates(null, parts, sums, Tensor.of(merged, 2, 2), Tensor.of(sum));
      System.arraycopy(merged, 0, out, 0, 4);
      System.arraycopy(sum, 0, out, 4, 2);
      return Tensor.of(out);
    };
    moves(forward, both, outs, wanted.outs());
    moves(forward, both, lses, wanted.lses());
    refused(Status.BAD_SHAPE, () -> Fovea.mergeStatesBackward(null, parts, Tensor.zeros(3, 2), wanted), "lses.shape[0]");
  }

  static void ofMultiHeadAttention() {
    float[] query = some(12, 19), key = some(16, 20), grad = some(9, 21);
    float[][] weights = {some(16, 22), some(16, 23), some(16, 24), some(12, 25)}, biases = {some(4, 26), some(3, 27)};
    float[] slopes = {0.5f, 0.25f};
    Tensor q = Tensor.of(query, 3, 4), k = Tensor.of(key, 4, 4);
    MhaParameters parameters = new MhaParameters().heads(2).queryWeight(Tensor.of(weights[0], 4, 4))
        .keyWeight(Tensor.of(weights[1], 4, 4)).valueWeight(Tensor.of(weights[2], 4, 4))
        .outWeight(Tensor.of(weights[3], 3, 4)).valueBias(Tensor.of(biases[0])).outBias(Tensor.of(biases[1]));
    AttentionOptions attention = new AttentionOptions().causal().alibiSlopes(Tensor.of(slopes));
    MhaOptions options = new MhaOptions().attention(attention).rotary(new RotaryOptions());
    MhaGradients wanted = new MhaGradients().out(Tensor.of(grad, 3, 3)).query(Tensor.zeros(3, 4)).key(Tensor.zeros(4, 4))
        .queryWeight(Tensor.zeros(4, 4)).keyWeight(Tensor.zeros(4, 4)).valueWeight(Tensor.zeros(4, 4))
        .outWeight(Tensor.zeros(3, 4)).valueBias(Tensor.zeros(4)).outBias(Tensor.zeros(3))
        .attention(new AttentionGradients().alibiSlopes(Tensor.zeros(2)));
    Fovea.multiHeadAttentionBackward(null, parameters, q, k, null, options, wanted);
    Supplier<Tensor> forward = () -> {
      Tensor out = Tensor.zeros(3, 3);
      MhaWeights.attendOnce(null, parameters, q, k, null, out, options);
      return out;
    };
    moves(forward, grad, query, wanted.query());
    moves(forward, grad, key, wanted.key());
    moves(forward, grad, weights[0], wanted.queryWeight());
    moves(forward, grad, weights[1], wanted.keyWeight());
    moves(forward, grad, weights[2], wanted.valueWeight());
    moves(forward, grad, weights[3], wanted.outWeight());
    moves(forward, grad, biases[0], wanted.valueBias());
    moves(forward, grad, biases[1], wanted.outBias());
    moves(forward, grad, slopes, wanted.attention().alibiSlopes());
    refused(Status.BAD_VALUE,
        () -> Fovea.multiHeadAttentionBackward(null, parameters, q, k, null, options, wanted.keyBias(Tensor.zeros(4))),
        "gradients.key_bias");
  }

  static void ofDropoutBehindAnEncoding() {
    PositionalEncodingOptions options = new PositionalEncodingOptions().dropout(0.5f).dropoutSeed(7);
    Tensor twos = Tensor.of(filled(64, 2), 8, 8);
    float[] out = Fovea.addPositionalEncoding(twos, options).toFloats();
    float[] found = Fovea.addPositionalEncoding(Tensor.of(ones(64), 8, 8), options.dropoutAlone()).toFloats();
    int kept = 0;
    for (int i = 0; i < 64; ++i) {
      same(found[i], out[i] == 0 ? 0f : 2f);
      if (found[i] != 0) ++kept;
    }
    that(kept > 10 && kept < 54, kept);
    refused(Status.BAD_OPTION,
        () -> Fovea.positionalEncoding(null, Tensor.zeros(2, 2), new PositionalEncodingOptions().dropoutAlone()), "flags");
  }

  static void sixteenBitsAreFloat32RoundedOnce() {
    for (Dtype dtype : new Dtype[] {Dtype.F16, Dtype.BF16}) {
      Tensor x = Tensor.rounded(dtype, some(12, 28), 3, 4), g = Tensor.rounded(dtype, some(12, 29), 3, 4);
      Tensor wide = Tensor.of(x.toFloats(), 3, 4), wideG = Tensor.of(g.toFloats(), 3, 4);
      Tensor found = Fovea.softmaxBackward(x, -1, g);
      same(found.dtype(), dtype);
      same(found.toFloats(), Tensor.rounded(dtype, Fovea.softmaxBackward(wide, -1, wideG).toFloats()).toFloats());
      NormGradients narrow = new NormGradients().out(g).x(Tensor.zeros(dtype, 3, 4)),
                    full = new NormGradients().out(wideG).x(Tensor.zeros(3, 4));
      Fovea.layerNormBackward(null, x, null, narrow);
      Fovea.layerNormBackward(null, wide, null, full);
      same(narrow.x().toFloats(), Tensor.rounded(dtype, full.x().toFloats()).toFloats());
    }
  }
}
