// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/**
 * The operations. Each is there in full, with a context (or null) and the tensor that is written, and in short, with a
 * result of its first tensor's element type. Shapes, formulas and errors are those of the C interface, whose manual is
 * fovea.h; options may be null. What is refused throws a FoveaException with the library's message, and leaves outputs
 * as they were.
 */
public final class Fovea {
  private Fovea() {}

  /** The version of the library that is loaded. */
  public static String version() {
    return Library.text(Native.fovea_version());
  }

  // ---- attention ----------------------------------------------------------------------------------------------------

  /** softmax(query keyᵀ / √D) value, for query [B,H,Q,D], key [B,Hkv,K,D], value [B,Hkv,K,Dv]; or without B and H. */
  public static Tensor sdpa(Tensor query, Tensor key, Tensor value) {
    return sdpa(query, key, value, null);
  }

  public static Tensor sdpa(Tensor query, Tensor key, Tensor value, AttentionOptions options) {
    Tensor out = Tensor.zeros(query.dtype, query.withLast(value.features()));
    sdpa(null, query, key, value, out, options);
    return out;
  }

  public static void sdpa(
      Context context, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(query), k = call.in(key), v = call.in(value), o = call.out(out);
      MemorySegment raw = AttentionOptions.raw(options, call);
      call.run(pins -> Native.fovea_sdpa(c, q, k, v, o, raw, pins));
    }
  }

  /** Attention with any score function; score null: the scaled dot product. */
  public static Tensor attention(Score score, Tensor query, Tensor key, Tensor value, AttentionOptions options) {
    Tensor out = Tensor.zeros(query.dtype, query.withLast(value.features()));
    attention(null, score, query, key, value, out, options);
    return out;
  }

  public static void attention(
      Context context, Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), q = call.in(query), k = call.in(key),
                    v = call.in(value);
      MemorySegment o = call.out(out), raw = AttentionOptions.raw(options, call);
      call.run(pins -> Native.fovea_attention(c, s, q, k, v, o, raw, pins));
    }
  }

  /**
   * The backward pass of attention: {@code out} and {@code options.logSumExp} are what that call gave, and stay as they are;
   * {@code gradients} has what the loss changes by for each element of {@code out}, and what is wanted.
   */
  public static void attentionBackward(Context context, Score score, Tensor query, Tensor key, Tensor value, Tensor out,
      AttentionOptions options, AttentionGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), q = call.in(query), k = call.in(key),
                    v = call.in(value);
      MemorySegment o = call.in(out), raw = call.reading(() -> AttentionOptions.raw(options, call)),
                    wanted = AttentionGradients.raw(gradients, call);
      call.run(pins -> Native.fovea_attention_backward(c, s, q, k, v, o, raw, wanted, pins));
    }
  }

  /** Attention with the score v · tanh(Wq q + Wk k). */
  public static Tensor additiveAttention(Tensor query, Tensor key, Tensor value, Tensor queryWeight, Tensor keyWeight,
      Tensor scoreVector, AttentionOptions options) {
    Score score =
        new Score().kind(ScoreKind.ADDITIVE).queryWeight(queryWeight).keyWeight(keyWeight).scoreVector(scoreVector);
    return attention(score, query, key, value, options);
  }

  /** Nadaraya-Watson regression with a Gaussian kernel. */
  public static Tensor kernelRegression(
      Tensor queries, Tensor inputs, Tensor targets, KernelRegressionOptions options) {
    long[] shape = targets.shape();
    if (shape.length > 0 && queries.shape.length > 0) shape[0] = queries.shape[0];
    Tensor out = Tensor.zeros(queries.dtype, shape);
    kernelRegression(null, queries, inputs, targets, out, options);
    return out;
  }

  public static void kernelRegression(
      Context context, Tensor queries, Tensor inputs, Tensor targets, Tensor out, KernelRegressionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(queries), x = call.in(inputs), y = call.in(targets),
                    o = call.out(out);
      MemorySegment raw = KernelRegressionOptions.raw(options, call);
      call.run(pins -> Native.fovea_kernel_regression(c, q, x, y, o, raw, pins));
    }
  }

  /** Attention over all keys from attention over parts of them; logSumExp may be null. */
  public static void mergeStates(Context context, Tensor outs, Tensor lses, Tensor out, Tensor logSumExp) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), parts = call.in(outs), sums = call.in(lses), o = call.out(out),
                    l = call.out(logSumExp);
      call.run(pins -> Native.fovea_merge_states(c, parts, sums, o, l, pins));
    }
  }

  /** Softmax over the last axis up to a valid length, [B] or [B,Q] or null; what is behind it is 0. */
  public static Tensor maskedSoftmax(Tensor x, Tensor validLens) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    maskedSoftmax(null, x, validLens, out, null);
    return out;
  }

  public static void maskedSoftmax(
      Context context, Tensor x, Tensor validLens, Tensor out, MaskedSoftmaxOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), lens = call.in(validLens), o = call.out(out);
      MemorySegment raw = MaskedSoftmaxOptions.raw(options, call);
      call.run(pins -> Native.fovea_masked_softmax(c, input, lens, o, raw, pins));
    }
  }

  /** Softmax over an axis, counted from 0, or from -1 for the last one backwards. */
  public static Tensor softmax(Tensor x, int axis) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    softmax(null, x, axis, out);
    return out;
  }

  public static void softmax(Context context, Tensor x, int axis, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out);
      call.run(pins -> Native.fovea_softmax(c, input, axis, o, pins));
    }
  }

  /** The logarithm of softmax. */
  public static Tensor logSoftmax(Tensor x, int axis) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    logSoftmax(null, x, axis, out);
    return out;
  }

  public static void logSoftmax(Context context, Tensor x, int axis, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out);
      call.run(pins -> Native.fovea_log_softmax(c, input, axis, o, pins));
    }
  }

  // ---- products and rows --------------------------------------------------------------------------------------------

  /** a b for a [...,M,K] and b [...,K,N], up to two axes before these, of which those of size 1 are repeated. */
  public static Tensor matmul(Tensor a, Tensor b) {
    Tensor out = Tensor.zeros(a.dtype, productShape(a, b));
    matmul(null, a, b, out);
    return out;
  }

  private static long[] productShape(Tensor a, Tensor b) {
    Tensor longer = a.shape.length >= b.shape.length ? a : b, shorter = longer == a ? b : a;
    long[] shape = longer.shape();
    int missing = shape.length - shorter.shape.length;
    for (int axis = missing; axis < shape.length - 2; ++axis) {
      if (shape[axis] == 1) shape[axis] = shorter.shape[axis - missing];
    }
    if (a.shape.length >= 2 && shape.length >= 2) shape[shape.length - 2] = a.shape[a.shape.length - 2];
    if (shape.length > 0) shape[shape.length - 1] = b.last();
    return shape;
  }

  /** alpha a b + beta c, which options have. */
  public static Tensor gemm(Tensor a, Tensor b, GemmOptions options) {
    Tensor out = Tensor.zeros(a.dtype, productShape(a, b));
    gemm(null, a, b, out, options);
    return out;
  }

  public static void gemm(Context context, Tensor a, Tensor b, Tensor out, GemmOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), left = call.in(a), right = call.in(b), o = call.out(out),
                    raw = GemmOptions.raw(options, call);
      call.run(pins -> Native.fovea_gemm(c, left, right, o, raw, pins));
    }
  }

  public static void matmul(Context context, Tensor a, Tensor b, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), left = call.in(a), right = call.in(b), o = call.out(out);
      call.run(pins -> Native.fovea_matmul(c, left, right, o, pins));
    }
  }

  /** Layer normalisation over the last axis. */
  public static Tensor layerNorm(Tensor x, LayerNormOptions options) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    layerNorm(null, x, out, options);
    return out;
  }

  public static void layerNorm(Context context, Tensor x, Tensor out, LayerNormOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out),
                    raw = LayerNormOptions.raw(options, call);
      call.run(pins -> Native.fovea_layer_norm(c, input, o, raw, pins));
    }
  }

  /** Normalisation by the root of the mean square over the last axis. */
  public static Tensor rmsNorm(Tensor x, RmsNormOptions options) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    rmsNorm(null, x, out, options);
    return out;
  }

  public static void rmsNorm(Context context, Tensor x, Tensor out, RmsNormOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out),
                    raw = RmsNormOptions.raw(options, call);
      call.run(pins -> Native.fovea_rms_norm(c, input, o, raw, pins));
    }
  }

  /** An activation alone, element by element. */
  public static Tensor activation(Activation activation, Tensor x) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    activation(null, activation, x, out);
    return out;
  }

  public static void activation(Context context, Activation activation, Tensor x, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out);
      int number = activation.number;
      call.run(pins -> Native.fovea_activation(c, number, input, o, pins));
    }
  }

  /** Rows of 8-bit or 4-bit numbers, and their scales. */
  public record Quantized(Tensor numbers, Tensor scales) {}

  /** 8-bit numbers with a scale of 16 bits for so many features each, a multiple of 16 or all of a row's. */
  public static Quantized quantize(Tensor x, long group) {
    if (group < 1 || x.last() % group != 0)
      throw new FoveaException(Status.BAD_VALUE, "group is " + group + ", expected one that divides " + x.last());
    Quantized made =
        new Quantized(Tensor.zeros(Dtype.I8, x.shape), Tensor.zeros(Dtype.F16, x.withLast(x.last() / group)));
    quantize(null, x, made.numbers, made.scales);
    return made;
  }

  /** 4-bit numbers, two in each of U8, with a scale and a least number for so many features each, a multiple of 32. */
  public static Quantized quantizeInFourBits(Tensor x, long group) {
    if (group < 1 || x.last() % group != 0)
      throw new FoveaException(Status.BAD_VALUE, "group is " + group + ", expected one that divides " + x.last());
    Quantized made = new Quantized(
        Tensor.zeros(Dtype.U8, x.withLast(x.last() / 2)), Tensor.zeros(Dtype.F16, x.withLast(2 * (x.last() / group))));
    quantize(null, x, made.numbers, made.scales);
    return made;
  }

  public static void quantize(Context context, Tensor x, Tensor out, Tensor scales) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out), s = call.out(scales);
      call.run(pins -> Native.fovea_quantize(c, input, o, s, pins));
    }
  }

  /** What quantize made as numbers, float32: each times its group's scale, of 4 bits plus its least number. */
  public static Tensor dequantize(Tensor q, Tensor scales) {
    Tensor out = Tensor.zeros(Dtype.F32, q.withLast(q.features()));
    dequantize(null, q, scales, out);
    return out;
  }

  public static void dequantize(Context context, Tensor q, Tensor scales, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(q), s = call.in(scales), o = call.out(out);
      call.run(pins -> Native.fovea_dequantize(c, input, s, o, pins));
    }
  }

  public static Tensor exp(Tensor x) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    exp(null, x, out);
    return out;
  }

  public static void exp(Context context, Tensor x, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out);
      call.run(pins -> Native.fovea_exp(c, input, o, pins));
    }
  }

  public static Tensor tanh(Tensor x) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    tanh(null, x, out);
    return out;
  }

  public static void tanh(Context context, Tensor x, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out);
      call.run(pins -> Native.fovea_tanh(c, input, o, pins));
    }
  }

  // ---- gradients of everything else ---------------------------------------------------------------------------------

  /** What the loss changes by for each element of x, where gradOut is that for each of activation's result. */
  public static Tensor activationBackward(Activation activation, Tensor x, Tensor gradOut) {
    Tensor gradX = Tensor.zeros(x.dtype, x.shape);
    activationBackward(null, activation, x, gradOut, gradX);
    return gradX;
  }

  public static void activationBackward(
      Context context, Activation activation, Tensor x, Tensor gradOut, Tensor gradX) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), g = call.in(gradOut), wanted = call.out(gradX);
      int number = activation.number;
      call.run(pins -> Native.fovea_activation_backward(c, number, input, g, wanted, pins));
    }
  }

  /** The backward pass of maskedSoftmax: {@code out} is what that call gave. */
  public static Tensor maskedSoftmaxBackward(Tensor out, Tensor validLens, Tensor gradOut) {
    Tensor gradX = Tensor.zeros(out.dtype, out.shape);
    maskedSoftmaxBackward(null, out, validLens, gradOut, gradX);
    return gradX;
  }

  public static void maskedSoftmaxBackward(
      Context context, Tensor out, Tensor validLens, Tensor gradOut, Tensor gradX) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), o = call.in(out), lens = call.in(validLens), g = call.in(gradOut),
                    wanted = call.out(gradX);
      call.run(pins -> Native.fovea_masked_softmax_backward(c, o, lens, g, wanted, pins));
    }
  }

  /** The backward pass of softmax: {@code out} is what that call gave. */
  public static Tensor softmaxBackward(Tensor out, int axis, Tensor gradOut) {
    Tensor gradX = Tensor.zeros(out.dtype, out.shape);
    softmaxBackward(null, out, axis, gradOut, gradX);
    return gradX;
  }

  public static void softmaxBackward(Context context, Tensor out, int axis, Tensor gradOut, Tensor gradX) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), o = call.in(out), g = call.in(gradOut), wanted = call.out(gradX);
      call.run(pins -> Native.fovea_softmax_backward(c, o, axis, g, wanted, pins));
    }
  }

  /** The backward pass of logSoftmax: {@code out} is what that call gave. */
  public static Tensor logSoftmaxBackward(Tensor out, int axis, Tensor gradOut) {
    Tensor gradX = Tensor.zeros(out.dtype, out.shape);
    logSoftmaxBackward(null, out, axis, gradOut, gradX);
    return gradX;
  }

  public static void logSoftmaxBackward(Context context, Tensor out, int axis, Tensor gradOut, Tensor gradX) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), o = call.in(out), g = call.in(gradOut), wanted = call.out(gradX);
      call.run(pins -> Native.fovea_log_softmax_backward(c, o, axis, g, wanted, pins));
    }
  }

  /**
   * The backward pass of layerNorm, of its x and options; what these name to be written is not looked at. {@code gradients} has
   * what the loss changes by for each element of out, and what is wanted: so in all that follow.
   */
  public static void layerNormBackward(
      Context context, Tensor x, LayerNormOptions options, NormGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x),
                    raw = call.reading(() -> LayerNormOptions.raw(options, call)),
                    wanted = NormGradients.raw(gradients, call);
      call.run(pins -> Native.fovea_layer_norm_backward(c, input, raw, wanted, pins));
    }
  }

  /** The backward pass of rmsNorm, likewise; it has no bias. */
  public static void rmsNormBackward(Context context, Tensor x, RmsNormOptions options, NormGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x),
                    raw = call.reading(() -> RmsNormOptions.raw(options, call)),
                    wanted = NormGradients.raw(gradients, call);
      call.run(pins -> Native.fovea_rms_norm_backward(c, input, raw, wanted, pins));
    }
  }

  /** The backward pass of PackedMatrix.linear, with the weight as the model has it. */
  public static void linearBackward(Context context, Tensor x, Tensor weight, WeightLayout layout,
      LinearOptions options, LinearGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), w = call.in(weight),
                    raw = LinearOptions.raw(options, call), wanted = LinearGradients.raw(gradients, call);
      int number = layout.number;
      call.run(pins -> Native.fovea_linear_backward(c, input, w, number, raw, wanted, pins));
    }
  }

  /** The backward pass of mergeStates. */
  public static void mergeStatesBackward(Context context, Tensor outs, Tensor lses, MergeGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), parts = call.in(outs), sums = call.in(lses),
                    wanted = MergeGradients.raw(gradients, call);
      call.run(pins -> Native.fovea_merge_states_backward(c, parts, sums, wanted, pins));
    }
  }

  /** The backward pass of MhaWeights.attendOnce, of its arguments; nothing of that call needs to be kept. */
  public static void multiHeadAttentionBackward(Context context, MhaParameters parameters, Tensor query, Tensor key,
      Tensor value, MhaOptions options, MhaGradients gradients) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), p = MhaParameters.raw(parameters, call), q = call.in(query),
                    k = call.in(key), v = call.in(value);
      MemorySegment raw = call.reading(() -> MhaOptions.raw(options, call)),
                    wanted = MhaGradients.raw(gradients, call);
      call.run(pins -> Native.fovea_multi_head_attention_backward(c, p, q, k, v, raw, wanted, pins));
    }
  }

  // ---- positions ----------------------------------------------------------------------------------------------------

  /** The sinusoidal encoding, positions x features. */
  public static Tensor positionalEncoding(long positions, long features) {
    Tensor out = Tensor.zeros(positions, features);
    positionalEncoding(null, out, null);
    return out;
  }

  public static void positionalEncoding(Context context, Tensor out, PositionalEncodingOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), o = call.out(out), raw = PositionalEncodingOptions.raw(options, call);
      call.run(pins -> Native.fovea_positional_encoding(c, o, raw, pins));
    }
  }

  /** x plus the encoding, with dropout if asked for. */
  public static Tensor addPositionalEncoding(Tensor x, PositionalEncodingOptions options) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    addPositionalEncoding(null, x, out, options);
    return out;
  }

  public static void addPositionalEncoding(Context context, Tensor x, Tensor out, PositionalEncodingOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out),
                    raw = PositionalEncodingOptions.raw(options, call);
      call.run(pins -> Native.fovea_add_positional_encoding(c, input, o, raw, pins));
    }
  }

  /** Rotary position embedding of x [...,L,D]. */
  public static Tensor rotary(Tensor x, RotaryOptions options) {
    Tensor out = Tensor.zeros(x.dtype, x.shape);
    rotary(null, x, out, options);
    return out;
  }

  public static void rotary(Context context, Tensor x, Tensor out, RotaryOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), o = call.out(out),
                    raw = RotaryOptions.raw(options, call);
      call.run(pins -> Native.fovea_rotary(c, input, o, raw, pins));
    }
  }

  /**
   * Writes the frequencies that a model's configuration asks for, what {@link RotaryOptions#frequencies} takes, one for each
   * pair, and gives its attention factor.
   */
  public static float rotaryFrequencies(Tensor frequencies, RotaryFrequenciesOptions options) {
    Tensor factor = Tensor.zeros(1);
    try (Call call = new Call()) {
      MemorySegment o = call.out(frequencies), f = call.out(factor), raw = RotaryFrequenciesOptions.raw(options, call);
      call.run(pins -> Native.fovea_rotary_frequencies(o, f, raw, pins));
    }
    return factor.toFloats()[0];
  }

  /** The slopes of ALiBi for that many heads. */
  public static Tensor alibiSlopes(long heads) {
    Tensor out = Tensor.zeros(heads);
    try (Call call = new Call()) {
      MemorySegment o = call.out(out);
      call.run(pins -> Native.fovea_alibi_slopes(o, pins));
    }
    return out;
  }
}
