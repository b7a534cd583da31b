// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * What a loss changes by, for each element of what a call to attention gave, and for each of what it took. Layouts
 * are those of the tensors themselves, element types and strides each its own. A gradient that is NULL is not
 * wanted, and what only it needs is not computed. Gradients are written, not added to.
 * <pre>
 * With p the weights before dropout, d the factor of dropout (0 or 1 / (1 - dropout)) and s the score times the scale:
 *   dp = d (out . value + weights)          m = sum_j p_j dp_j
 *   dl = p (dp - m + log_sum_exp)           of a logit
 *   value = sum_q d p out                   bias = dl
 *   alibi_slopes = -sum dl |position - j|   sinks = -sum_q p_sink (m - log_sum_exp)
 *   ds = dl (1 - tanh^2(s / softcap))       query, key and the score's parameters: scale ds times the score's derivative
 * in float32, with m taken from the forward call's out.
 * </pre>
 * <p>Whatever is left out has its default. In C: {@code fovea_attention_gradients}.
 */
public final class AttentionGradients {
  private Tensor out;
  private Tensor logSumExp;
  private Tensor weights;
  private Tensor query;
  private Tensor key;
  private Tensor value;
  private Tensor bias;
  private Tensor alibiSlopes;
  private Tensor sinks;
  private Tensor queryWeight;
  private Tensor keyWeight;
  private Tensor weight;
  private Tensor scoreBias;
  private Tensor scoreVector;
  private Tensor sigmas;

  public AttentionGradients() {}

  /** F [B,H,Q,Dv]: what the loss changes by for each element of out. Must be given */
  public AttentionGradients out(Tensor out) {
    this.out = out;
    return this;
  }

  /** F32 [B,H,Q], any strides: likewise; NULL: 0 */
  public AttentionGradients logSumExp(Tensor logSumExp) {
    this.logSumExp = logSumExp;
    return this;
  }

  /** F [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS: of weights as they are or would be returned; NULL: 0 */
  public AttentionGradients weights(Tensor weights) {
    this.weights = weights;
    return this;
  }

  /** output F [B,H,Q,Dq] */
  public AttentionGradients query(Tensor query) {
    this.query = query;
    return this;
  }

  /** output F [B,Hkv,K,Dk]; query heads that share one are added up */
  public AttentionGradients key(Tensor key) {
    this.key = key;
    return this;
  }

  /** output F [B,Hkv,K,Dv]; likewise */
  public AttentionGradients value(Tensor value) {
    this.value = value;
    return this;
  }

  /** output F [B,H,Q,K], with the sizes of options.bias: added up over axes of size 1 */
  public AttentionGradients bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  /** output F32 [H], any stride */
  public AttentionGradients alibiSlopes(Tensor alibiSlopes) {
    this.alibiSlopes = alibiSlopes;
    return this;
  }

  /** output F32 [H], any stride */
  public AttentionGradients sinks(Tensor sinks) {
    this.sinks = sinks;
    return this;
  }

  /** output F [h,Dq], any strides: ADDITIVE */
  public AttentionGradients queryWeight(Tensor queryWeight) {
    this.queryWeight = queryWeight;
    return this;
  }

  /** output F [h,Dk], any strides: ADDITIVE */
  public AttentionGradients keyWeight(Tensor keyWeight) {
    this.keyWeight = keyWeight;
    return this;
  }

  /** output F [Dq,Dk], or of CONCAT [h,Dq+Dk], any strides */
  public AttentionGradients weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  /** output F [h], any stride: CONCAT */
  public AttentionGradients scoreBias(Tensor scoreBias) {
    this.scoreBias = scoreBias;
    return this;
  }

  /** output F [h], any stride: ADDITIVE, CONCAT */
  public AttentionGradients scoreVector(Tensor scoreVector) {
    this.scoreVector = scoreVector;
    return this;
  }

  /** output F32 [H] where score.sigmas is given, [1] of score.sigma; any stride */
  public AttentionGradients sigmas(Tensor sigmas) {
    this.sigmas = sigmas;
    return this;
  }

  Tensor out() {
    return out;
  }

  Tensor logSumExp() {
    return logSumExp;
  }

  Tensor weights() {
    return weights;
  }

  Tensor query() {
    return query;
  }

  Tensor key() {
    return key;
  }

  Tensor value() {
    return value;
  }

  Tensor bias() {
    return bias;
  }

  Tensor alibiSlopes() {
    return alibiSlopes;
  }

  Tensor sinks() {
    return sinks;
  }

  Tensor queryWeight() {
    return queryWeight;
  }

  Tensor keyWeight() {
    return keyWeight;
  }

  Tensor weight() {
    return weight;
  }

  Tensor scoreBias() {
    return scoreBias;
  }

  Tensor scoreVector() {
    return scoreVector;
  }

  Tensor sigmas() {
    return sigmas;
  }

  static MemorySegment raw(AttentionGradients options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_attention_gradients.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_attention_gradients.struct_size, Layouts.fovea_attention_gradients.SIZE);
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.out, call.in(options.out));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.log_sum_exp, call.in(options.logSumExp));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.weights, call.in(options.weights));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.query, call.out(options.query));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.key, call.out(options.key));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.value, call.out(options.value));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.bias, call.out(options.bias));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.alibi_slopes, call.out(options.alibiSlopes));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.sinks, call.out(options.sinks));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.query_weight, call.out(options.queryWeight));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.key_weight, call.out(options.keyWeight));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.weight, call.out(options.weight));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.score_bias, call.out(options.scoreBias));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.score_vector, call.out(options.scoreVector));
    raw.set(ADDRESS, Layouts.fovea_attention_gradients.sigmas, call.out(options.sigmas));
    return raw;
  }
}
