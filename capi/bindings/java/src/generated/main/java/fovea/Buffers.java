// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/**
 * The data of a planned run: for every tensor that was planned a segment or an array that begins with the first
 * element of it in memory. In C: {@code fovea_attention_buffers}.
 */
public final class Buffers {
  static final int COUNT = 38;
  static final String[] NAMES = {"query", "key", "value", "out", "validLens", "mask", "bias", "alibiSlopes", "sinks", "logSumExp", "weights", "queryWeight", "keyWeight", "weight", "scoreBias", "scoreVector", "sigmas", "queryOffsets", "scores", "keyScales", "valueScales", "gradOut", "gradLogSumExp", "gradWeights", "gradQuery", "gradKey", "gradValue", "gradBias", "gradAlibiSlopes", "gradSinks", "gradQueryWeight", "gradKeyWeight", "gradWeight", "gradScoreBias", "gradScoreVector", "gradSigmas", "projectedQuery", "projectedKey"};
  static final boolean[] WRITES = {false, false, false, true, false, false, false, false, false, true, true, false, false, false, false, false, false, false, true, false, false, false, false, false, true, true, true, true, true, true, true, true, true, true, true, true, true, true};

  final MemorySegment[] data = new MemorySegment[COUNT];

  public Buffers() {}

  /** The data of {@code query}. */
  public Buffers query(MemorySegment query) {
    data[0] = query;
    return this;
  }

  /** The data of {@code query}. */
  public Buffers query(float[] query) {
    data[0] = MemorySegment.ofArray(query);
    return this;
  }

  /** The data of {@code query}. */
  public Buffers query(short[] query) {
    data[0] = MemorySegment.ofArray(query);
    return this;
  }

  /** The data of {@code key}. */
  public Buffers key(MemorySegment key) {
    data[1] = key;
    return this;
  }

  /** The data of {@code key}. */
  public Buffers key(float[] key) {
    data[1] = MemorySegment.ofArray(key);
    return this;
  }

  /** The data of {@code key}. */
  public Buffers key(short[] key) {
    data[1] = MemorySegment.ofArray(key);
    return this;
  }

  /** The data of {@code value}. */
  public Buffers value(MemorySegment value) {
    data[2] = value;
    return this;
  }

  /** The data of {@code value}. */
  public Buffers value(float[] value) {
    data[2] = MemorySegment.ofArray(value);
    return this;
  }

  /** The data of {@code value}. */
  public Buffers value(short[] value) {
    data[2] = MemorySegment.ofArray(value);
    return this;
  }

  /** The data of {@code out}. */
  public Buffers out(MemorySegment out) {
    data[3] = out;
    return this;
  }

  /** The data of {@code out}. */
  public Buffers out(float[] out) {
    data[3] = MemorySegment.ofArray(out);
    return this;
  }

  /** The data of {@code out}. */
  public Buffers out(short[] out) {
    data[3] = MemorySegment.ofArray(out);
    return this;
  }

  /** The data of {@code options.valid_lens}. */
  public Buffers validLens(MemorySegment validLens) {
    data[4] = validLens;
    return this;
  }

  /** The data of {@code options.valid_lens}. */
  public Buffers validLens(int[] validLens) {
    data[4] = MemorySegment.ofArray(validLens);
    return this;
  }

  /** The data of {@code options.valid_lens}. */
  public Buffers validLens(long[] validLens) {
    data[4] = MemorySegment.ofArray(validLens);
    return this;
  }

  /** The data of {@code options.mask}. */
  public Buffers mask(MemorySegment mask) {
    data[5] = mask;
    return this;
  }

  /** The data of {@code options.mask}. */
  public Buffers mask(byte[] mask) {
    data[5] = MemorySegment.ofArray(mask);
    return this;
  }

  /** The data of {@code options.bias}. */
  public Buffers bias(MemorySegment bias) {
    data[6] = bias;
    return this;
  }

  /** The data of {@code options.bias}. */
  public Buffers bias(float[] bias) {
    data[6] = MemorySegment.ofArray(bias);
    return this;
  }

  /** The data of {@code options.bias}. */
  public Buffers bias(short[] bias) {
    data[6] = MemorySegment.ofArray(bias);
    return this;
  }

  /** The data of {@code options.alibi_slopes}. */
  public Buffers alibiSlopes(MemorySegment alibiSlopes) {
    data[7] = alibiSlopes;
    return this;
  }

  /** The data of {@code options.alibi_slopes}. */
  public Buffers alibiSlopes(float[] alibiSlopes) {
    data[7] = MemorySegment.ofArray(alibiSlopes);
    return this;
  }

  /** The data of {@code options.alibi_slopes}. */
  public Buffers alibiSlopes(short[] alibiSlopes) {
    data[7] = MemorySegment.ofArray(alibiSlopes);
    return this;
  }

  /** The data of {@code options.sinks}. */
  public Buffers sinks(MemorySegment sinks) {
    data[8] = sinks;
    return this;
  }

  /** The data of {@code options.sinks}. */
  public Buffers sinks(float[] sinks) {
    data[8] = MemorySegment.ofArray(sinks);
    return this;
  }

  /** The data of {@code options.sinks}. */
  public Buffers sinks(short[] sinks) {
    data[8] = MemorySegment.ofArray(sinks);
    return this;
  }

  /** The data of {@code options.log_sum_exp}. */
  public Buffers logSumExp(MemorySegment logSumExp) {
    data[9] = logSumExp;
    return this;
  }

  /** The data of {@code options.log_sum_exp}. */
  public Buffers logSumExp(float[] logSumExp) {
    data[9] = MemorySegment.ofArray(logSumExp);
    return this;
  }

  /** The data of {@code options.log_sum_exp}. */
  public Buffers logSumExp(short[] logSumExp) {
    data[9] = MemorySegment.ofArray(logSumExp);
    return this;
  }

  /** The data of {@code options.weights}. */
  public Buffers weights(MemorySegment weights) {
    data[10] = weights;
    return this;
  }

  /** The data of {@code options.weights}. */
  public Buffers weights(float[] weights) {
    data[10] = MemorySegment.ofArray(weights);
    return this;
  }

  /** The data of {@code options.weights}. */
  public Buffers weights(short[] weights) {
    data[10] = MemorySegment.ofArray(weights);
    return this;
  }

  /** The data of {@code score.query_weight}. */
  public Buffers queryWeight(MemorySegment queryWeight) {
    data[11] = queryWeight;
    return this;
  }

  /** The data of {@code score.query_weight}. */
  public Buffers queryWeight(float[] queryWeight) {
    data[11] = MemorySegment.ofArray(queryWeight);
    return this;
  }

  /** The data of {@code score.query_weight}. */
  public Buffers queryWeight(short[] queryWeight) {
    data[11] = MemorySegment.ofArray(queryWeight);
    return this;
  }

  /** The data of {@code score.key_weight}. */
  public Buffers keyWeight(MemorySegment keyWeight) {
    data[12] = keyWeight;
    return this;
  }

  /** The data of {@code score.key_weight}. */
  public Buffers keyWeight(float[] keyWeight) {
    data[12] = MemorySegment.ofArray(keyWeight);
    return this;
  }

  /** The data of {@code score.key_weight}. */
  public Buffers keyWeight(short[] keyWeight) {
    data[12] = MemorySegment.ofArray(keyWeight);
    return this;
  }

  /** The data of {@code score.weight}. */
  public Buffers weight(MemorySegment weight) {
    data[13] = weight;
    return this;
  }

  /** The data of {@code score.weight}. */
  public Buffers weight(float[] weight) {
    data[13] = MemorySegment.ofArray(weight);
    return this;
  }

  /** The data of {@code score.weight}. */
  public Buffers weight(short[] weight) {
    data[13] = MemorySegment.ofArray(weight);
    return this;
  }

  /** The data of {@code score.bias}. */
  public Buffers scoreBias(MemorySegment scoreBias) {
    data[14] = scoreBias;
    return this;
  }

  /** The data of {@code score.bias}. */
  public Buffers scoreBias(float[] scoreBias) {
    data[14] = MemorySegment.ofArray(scoreBias);
    return this;
  }

  /** The data of {@code score.bias}. */
  public Buffers scoreBias(short[] scoreBias) {
    data[14] = MemorySegment.ofArray(scoreBias);
    return this;
  }

  /** The data of {@code score.score_vector}. */
  public Buffers scoreVector(MemorySegment scoreVector) {
    data[15] = scoreVector;
    return this;
  }

  /** The data of {@code score.score_vector}. */
  public Buffers scoreVector(float[] scoreVector) {
    data[15] = MemorySegment.ofArray(scoreVector);
    return this;
  }

  /** The data of {@code score.score_vector}. */
  public Buffers scoreVector(short[] scoreVector) {
    data[15] = MemorySegment.ofArray(scoreVector);
    return this;
  }

  /** The data of {@code score.sigmas}. */
  public Buffers sigmas(MemorySegment sigmas) {
    data[16] = sigmas;
    return this;
  }

  /** The data of {@code score.sigmas}. */
  public Buffers sigmas(float[] sigmas) {
    data[16] = MemorySegment.ofArray(sigmas);
    return this;
  }

  /** The data of {@code score.sigmas}. */
  public Buffers sigmas(short[] sigmas) {
    data[16] = MemorySegment.ofArray(sigmas);
    return this;
  }

  /** The data of {@code options.query_offsets}. */
  public Buffers queryOffsets(MemorySegment queryOffsets) {
    data[17] = queryOffsets;
    return this;
  }

  /** The data of {@code options.query_offsets}. */
  public Buffers queryOffsets(int[] queryOffsets) {
    data[17] = MemorySegment.ofArray(queryOffsets);
    return this;
  }

  /** The data of {@code options.query_offsets}. */
  public Buffers queryOffsets(long[] queryOffsets) {
    data[17] = MemorySegment.ofArray(queryOffsets);
    return this;
  }

  /** The data of {@code options.scores}. */
  public Buffers scores(MemorySegment scores) {
    data[18] = scores;
    return this;
  }

  /** The data of {@code options.scores}. */
  public Buffers scores(float[] scores) {
    data[18] = MemorySegment.ofArray(scores);
    return this;
  }

  /** The data of {@code options.scores}. */
  public Buffers scores(short[] scores) {
    data[18] = MemorySegment.ofArray(scores);
    return this;
  }

  /** The data of {@code options.key_scales}. */
  public Buffers keyScales(MemorySegment keyScales) {
    data[19] = keyScales;
    return this;
  }

  /** The data of {@code options.key_scales}. */
  public Buffers keyScales(short[] keyScales) {
    data[19] = MemorySegment.ofArray(keyScales);
    return this;
  }

  /** The data of {@code options.value_scales}. */
  public Buffers valueScales(MemorySegment valueScales) {
    data[20] = valueScales;
    return this;
  }

  /** The data of {@code options.value_scales}. */
  public Buffers valueScales(short[] valueScales) {
    data[20] = MemorySegment.ofArray(valueScales);
    return this;
  }

  /** The data of {@code gradients.out}. */
  public Buffers gradOut(MemorySegment gradOut) {
    data[21] = gradOut;
    return this;
  }

  /** The data of {@code gradients.out}. */
  public Buffers gradOut(float[] gradOut) {
    data[21] = MemorySegment.ofArray(gradOut);
    return this;
  }

  /** The data of {@code gradients.out}. */
  public Buffers gradOut(short[] gradOut) {
    data[21] = MemorySegment.ofArray(gradOut);
    return this;
  }

  /** The data of {@code gradients.log_sum_exp}. */
  public Buffers gradLogSumExp(MemorySegment gradLogSumExp) {
    data[22] = gradLogSumExp;
    return this;
  }

  /** The data of {@code gradients.log_sum_exp}. */
  public Buffers gradLogSumExp(float[] gradLogSumExp) {
    data[22] = MemorySegment.ofArray(gradLogSumExp);
    return this;
  }

  /** The data of {@code gradients.log_sum_exp}. */
  public Buffers gradLogSumExp(short[] gradLogSumExp) {
    data[22] = MemorySegment.ofArray(gradLogSumExp);
    return this;
  }

  /** The data of {@code gradients.weights}. */
  public Buffers gradWeights(MemorySegment gradWeights) {
    data[23] = gradWeights;
    return this;
  }

  /** The data of {@code gradients.weights}. */
  public Buffers gradWeights(float[] gradWeights) {
    data[23] = MemorySegment.ofArray(gradWeights);
    return this;
  }

  /** The data of {@code gradients.weights}. */
  public Buffers gradWeights(short[] gradWeights) {
    data[23] = MemorySegment.ofArray(gradWeights);
    return this;
  }

  /** The data of {@code gradients.query}. */
  public Buffers gradQuery(MemorySegment gradQuery) {
    data[24] = gradQuery;
    return this;
  }

  /** The data of {@code gradients.query}. */
  public Buffers gradQuery(float[] gradQuery) {
    data[24] = MemorySegment.ofArray(gradQuery);
    return this;
  }

  /** The data of {@code gradients.query}. */
  public Buffers gradQuery(short[] gradQuery) {
    data[24] = MemorySegment.ofArray(gradQuery);
    return this;
  }

  /** The data of {@code gradients.key}. */
  public Buffers gradKey(MemorySegment gradKey) {
    data[25] = gradKey;
    return this;
  }

  /** The data of {@code gradients.key}. */
  public Buffers gradKey(float[] gradKey) {
    data[25] = MemorySegment.ofArray(gradKey);
    return this;
  }

  /** The data of {@code gradients.key}. */
  public Buffers gradKey(short[] gradKey) {
    data[25] = MemorySegment.ofArray(gradKey);
    return this;
  }

  /** The data of {@code gradients.value}. */
  public Buffers gradValue(MemorySegment gradValue) {
    data[26] = gradValue;
    return this;
  }

  /** The data of {@code gradients.value}. */
  public Buffers gradValue(float[] gradValue) {
    data[26] = MemorySegment.ofArray(gradValue);
    return this;
  }

  /** The data of {@code gradients.value}. */
  public Buffers gradValue(short[] gradValue) {
    data[26] = MemorySegment.ofArray(gradValue);
    return this;
  }

  /** The data of {@code gradients.bias}. */
  public Buffers gradBias(MemorySegment gradBias) {
    data[27] = gradBias;
    return this;
  }

  /** The data of {@code gradients.bias}. */
  public Buffers gradBias(float[] gradBias) {
    data[27] = MemorySegment.ofArray(gradBias);
    return this;
  }

  /** The data of {@code gradients.bias}. */
  public Buffers gradBias(short[] gradBias) {
    data[27] = MemorySegment.ofArray(gradBias);
    return this;
  }

  /** The data of {@code gradients.alibi_slopes}. */
  public Buffers gradAlibiSlopes(MemorySegment gradAlibiSlopes) {
    data[28] = gradAlibiSlopes;
    return this;
  }

  /** The data of {@code gradients.alibi_slopes}. */
  public Buffers gradAlibiSlopes(float[] gradAlibiSlopes) {
    data[28] = MemorySegment.ofArray(gradAlibiSlopes);
    return this;
  }

  /** The data of {@code gradients.alibi_slopes}. */
  public Buffers gradAlibiSlopes(short[] gradAlibiSlopes) {
    data[28] = MemorySegment.ofArray(gradAlibiSlopes);
    return this;
  }

  /** The data of {@code gradients.sinks}. */
  public Buffers gradSinks(MemorySegment gradSinks) {
    data[29] = gradSinks;
    return this;
  }

  /** The data of {@code gradients.sinks}. */
  public Buffers gradSinks(float[] gradSinks) {
    data[29] = MemorySegment.ofArray(gradSinks);
    return this;
  }

  /** The data of {@code gradients.sinks}. */
  public Buffers gradSinks(short[] gradSinks) {
    data[29] = MemorySegment.ofArray(gradSinks);
    return this;
  }

  /** The data of {@code gradients.query_weight}. */
  public Buffers gradQueryWeight(MemorySegment gradQueryWeight) {
    data[30] = gradQueryWeight;
    return this;
  }

  /** The data of {@code gradients.query_weight}. */
  public Buffers gradQueryWeight(float[] gradQueryWeight) {
    data[30] = MemorySegment.ofArray(gradQueryWeight);
    return this;
  }

  /** The data of {@code gradients.query_weight}. */
  public Buffers gradQueryWeight(short[] gradQueryWeight) {
    data[30] = MemorySegment.ofArray(gradQueryWeight);
    return this;
  }

  /** The data of {@code gradients.key_weight}. */
  public Buffers gradKeyWeight(MemorySegment gradKeyWeight) {
    data[31] = gradKeyWeight;
    return this;
  }

  /** The data of {@code gradients.key_weight}. */
  public Buffers gradKeyWeight(float[] gradKeyWeight) {
    data[31] = MemorySegment.ofArray(gradKeyWeight);
    return this;
  }

  /** The data of {@code gradients.key_weight}. */
  public Buffers gradKeyWeight(short[] gradKeyWeight) {
    data[31] = MemorySegment.ofArray(gradKeyWeight);
    return this;
  }

  /** The data of {@code gradients.weight}. */
  public Buffers gradWeight(MemorySegment gradWeight) {
    data[32] = gradWeight;
    return this;
  }

  /** The data of {@code gradients.weight}. */
  public Buffers gradWeight(float[] gradWeight) {
    data[32] = MemorySegment.ofArray(gradWeight);
    return this;
  }

  /** The data of {@code gradients.weight}. */
  public Buffers gradWeight(short[] gradWeight) {
    data[32] = MemorySegment.ofArray(gradWeight);
    return this;
  }

  /** The data of {@code gradients.score_bias}. */
  public Buffers gradScoreBias(MemorySegment gradScoreBias) {
    data[33] = gradScoreBias;
    return this;
  }

  /** The data of {@code gradients.score_bias}. */
  public Buffers gradScoreBias(float[] gradScoreBias) {
    data[33] = MemorySegment.ofArray(gradScoreBias);
    return this;
  }

  /** The data of {@code gradients.score_bias}. */
  public Buffers gradScoreBias(short[] gradScoreBias) {
    data[33] = MemorySegment.ofArray(gradScoreBias);
    return this;
  }

  /** The data of {@code gradients.score_vector}. */
  public Buffers gradScoreVector(MemorySegment gradScoreVector) {
    data[34] = gradScoreVector;
    return this;
  }

  /** The data of {@code gradients.score_vector}. */
  public Buffers gradScoreVector(float[] gradScoreVector) {
    data[34] = MemorySegment.ofArray(gradScoreVector);
    return this;
  }

  /** The data of {@code gradients.score_vector}. */
  public Buffers gradScoreVector(short[] gradScoreVector) {
    data[34] = MemorySegment.ofArray(gradScoreVector);
    return this;
  }

  /** The data of {@code gradients.sigmas}. */
  public Buffers gradSigmas(MemorySegment gradSigmas) {
    data[35] = gradSigmas;
    return this;
  }

  /** The data of {@code gradients.sigmas}. */
  public Buffers gradSigmas(float[] gradSigmas) {
    data[35] = MemorySegment.ofArray(gradSigmas);
    return this;
  }

  /** The data of {@code gradients.sigmas}. */
  public Buffers gradSigmas(short[] gradSigmas) {
    data[35] = MemorySegment.ofArray(gradSigmas);
    return this;
  }

  /** The data of {@code options.projected_query}. */
  public Buffers projectedQuery(MemorySegment projectedQuery) {
    data[36] = projectedQuery;
    return this;
  }

  /** The data of {@code options.projected_query}. */
  public Buffers projectedQuery(float[] projectedQuery) {
    data[36] = MemorySegment.ofArray(projectedQuery);
    return this;
  }

  /** The data of {@code options.projected_query}. */
  public Buffers projectedQuery(short[] projectedQuery) {
    data[36] = MemorySegment.ofArray(projectedQuery);
    return this;
  }

  /** The data of {@code options.projected_key}. */
  public Buffers projectedKey(MemorySegment projectedKey) {
    data[37] = projectedKey;
    return this;
  }

  /** The data of {@code options.projected_key}. */
  public Buffers projectedKey(float[] projectedKey) {
    data[37] = MemorySegment.ofArray(projectedKey);
    return this;
  }

  /** The data of {@code options.projected_key}. */
  public Buffers projectedKey(short[] projectedKey) {
    data[37] = MemorySegment.ofArray(projectedKey);
    return this;
  }

  /** The tensors of a planned call, in the order of their data here. */
  static Tensor[] planned(Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {
    return planned(score, query, key, value, out, options, null);
  }

  /** And of a backward pass. */
  static Tensor[] planned(Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options,
      AttentionGradients gradients) {
    return new Tensor[] {
      query,
      key,
      value,
      out,
      options == null ? null : options.validLens(),
      options == null ? null : options.mask(),
      options == null ? null : options.bias(),
      options == null ? null : options.alibiSlopes(),
      options == null ? null : options.sinks(),
      options == null ? null : options.logSumExp(),
      options == null ? null : options.weights(),
      score == null ? null : score.queryWeight(),
      score == null ? null : score.keyWeight(),
      score == null ? null : score.weight(),
      score == null ? null : score.bias(),
      score == null ? null : score.scoreVector(),
      score == null ? null : score.sigmas(),
      options == null ? null : options.queryOffsets(),
      options == null ? null : options.scores(),
      options == null ? null : options.keyScales(),
      options == null ? null : options.valueScales(),
      gradients == null ? null : gradients.out(),
      gradients == null ? null : gradients.logSumExp(),
      gradients == null ? null : gradients.weights(),
      gradients == null ? null : gradients.query(),
      gradients == null ? null : gradients.key(),
      gradients == null ? null : gradients.value(),
      gradients == null ? null : gradients.bias(),
      gradients == null ? null : gradients.alibiSlopes(),
      gradients == null ? null : gradients.sinks(),
      gradients == null ? null : gradients.queryWeight(),
      gradients == null ? null : gradients.keyWeight(),
      gradients == null ? null : gradients.weight(),
      gradients == null ? null : gradients.scoreBias(),
      gradients == null ? null : gradients.scoreVector(),
      gradients == null ? null : gradients.sigmas(),
      options == null ? null : options.projectedQuery(),
      options == null ? null : options.projectedKey()};
  }
}
