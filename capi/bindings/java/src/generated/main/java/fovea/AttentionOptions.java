// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * Positions. Where causal, window or ALiBi need the position of query i, it is, by default, K - Q + i if K &gt;= Q
 * (the last query faces the last key: "bottom-right") and i if K &lt; Q; FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET set
 * it otherwise, and query_offsets for each batch entry. K is that of the tensor: valid_lens move no position. That
 * is right where each sequence begins at key 0 and has a query for every key (Q = K). It is wrong for the newest Q
 * &lt; K queries of sequences of different lengths padded to one K, as a batch of decoders has them: of lengths
 * {3, 5} the first would stand at position 4, and a window of one key to its left would leave it nothing. What is
 * right there are query_offsets of length_b - Q, with FOVEA_CAUSAL or valid_lens of length_b; for causal alone,
 * valid_lens [B,Q] of length_b - Q + i + 1 will do.
 * <p>score(i, j) = softcap * tanh(scale * q_i . k_j / softcap) + bias(i, j) - slope * |position(i) - j|
 * <p>then softmax over the keys that pass valid_lens, mask, causal, window and leave-one-out. Distances of ALiBi
 * are whole numbers, exact up to 2^24 wherever the positions are, and past it rounded to float32. A key that does
 * not pass, or whose bias is -infinity, is never read into the result: NaN or infinity there, in key or value,
 * changes nothing, but for the values of an empty row under FOVEA_EMPTY_ROWS_UNIFORM. NaN in a key or value that
 * is attended reaches the output. A score of +infinity makes its row's output and weights NaN, as the formula
 * does, and its log-sum-exp +infinity unless another score is NaN. A score more than 87 (125.5 log 2) below the
 * largest of its row, or of its part of the keys where those of few queries are split, has a weight of exactly 0:
 * before they are divided by their sum weights are never denormal, as results of fovea_exp may be.
 * <p>All tensors are optional: NULL where not wanted. Those of rank 4 are given without the H axis where query has
 * rank 3 and without B and H where it has rank 2.
 * <p>Whatever is left out has its default. In C: {@code fovea_attention_options}.
 */
public final class AttentionOptions {
  private int flags;
  private EmptyRows emptyRows;
  private float scale;
  private float softcap;
  private long queryOffset;
  private long windowLeft;
  private long windowRight;
  private Tensor validLens;
  private Tensor mask;
  private Tensor bias;
  private Tensor alibiSlopes;
  private Tensor sinks;
  private Tensor logSumExp;
  private Tensor weights;
  private float dropout;
  private long dropoutSeed;
  private Tensor queryOffsets;
  private Tensor scores;
  private ScoresKind scoresKind;
  private Precision precision;
  private Tensor keyScales;
  private Tensor valueScales;
  private Tensor projectedQuery;
  private Tensor projectedKey;

  public AttentionOptions() {}

  /** attend key j only if j &lt;= position of the query */
  public AttentionOptions causal() {
    flags |= 1;
    return this;
  }

  /** query i stands at position i, whatever K is; not together with FOVEA_QUERY_OFFSET */
  public AttentionOptions topLeft() {
    flags |= 2;
    return this;
  }

  /**
   * query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if
   * they are given)
   */
  public AttentionOptions leaveOneOut() {
    flags |= 32;
    return this;
  }

  /** weights are the mean over the H heads */
  public AttentionOptions averageWeights() {
    flags |= 64;
    return this;
  }

  /**
   * a query's result has the same bits however many queries the call has: a decoder going step by step gives the
   * very bits of one causal call (not with dropout, which goes by the query's number). Slower for few queries
   */
  public AttentionOptions queryInvariant() {
    flags |= 128;
    return this;
  }

  /** FOVEA_EMPTY_ROWS_* */
  public AttentionOptions emptyRows(EmptyRows emptyRows) {
    this.emptyRows = emptyRows;
    return this;
  }

  /** finite; left out: 1 / sqrt(D) for the dot product, 1 for other score functions */
  public AttentionOptions scale(float scale) {
    flags |= 256;
    this.scale = scale;
    return this;
  }

  /** finite, &gt;= 0; 0: none. The limit that the logits approach (Gemma 2) */
  public AttentionOptions softcap(float softcap) {
    this.softcap = softcap;
    return this;
  }

  /** used with FOVEA_QUERY_OFFSET; -2^30 to 2^30 */
  public AttentionOptions queryOffset(long queryOffset) {
    flags |= 4;
    this.queryOffset = queryOffset;
    return this;
  }

  /** &gt;= 0, used with FOVEA_WINDOW_LEFT */
  public AttentionOptions windowLeft(long windowLeft) {
    flags |= 8;
    this.windowLeft = windowLeft;
    return this;
  }

  /** &gt;= 0, used with FOVEA_WINDOW_RIGHT */
  public AttentionOptions windowRight(long windowRight) {
    flags |= 16;
    this.windowRight = windowRight;
    return this;
  }

  /**
   * [B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j &lt; length. Any strides. One length serves
   * all heads. Positions do not go by it: see there
   */
  public AttentionOptions validLens(Tensor validLens) {
    this.validLens = validLens;
    return this;
  }

  /**
   * BOOL [B,H,Q,K] (or [Q,K]), true: attend. Axes of size 1 but K's broadcast. The last axis may be shorter than
   * K: keys behind it are not attended
   */
  public AttentionOptions mask(Tensor mask) {
    this.mask = mask;
    return this;
  }

  /**
   * F32 [B,H,Q,K] (or [Q,K]), added to the scores. Axes of size 1 but K's broadcast. The last axis may be shorter
   * than K, as the mask's
   */
  public AttentionOptions bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  /** F32 [H], any stride. ALiBi (Press et al. 2022) */
  public AttentionOptions alibiSlopes(Tensor alibiSlopes) {
    this.alibiSlopes = alibiSlopes;
    return this;
  }

  /** F32 [H], any stride. A logit that takes part in the softmax without a value */
  public AttentionOptions sinks(Tensor sinks) {
    this.sinks = sinks;
    return this;
  }

  /** output F32 [B,H,Q], any strides: log sum_j exp(score), the sink included */
  public AttentionOptions logSumExp(Tensor logSumExp) {
    this.logSumExp = logSumExp;
    return this;
  }

  /** output F32 [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS; masked keys get 0 */
  public AttentionOptions weights(Tensor weights) {
    this.weights = weights;
    return this;
  }

  /** in [0, 1): probability that a weight is dropped; 0: none. See "Dropout" */
  public AttentionOptions dropout(float dropout) {
    this.dropout = dropout;
    return this;
  }

  /** used with dropout */
  public AttentionOptions dropoutSeed(long dropoutSeed) {
    this.dropoutSeed = dropoutSeed;
    return this;
  }

  /**
   * [B], I32 or I64, each in [-2^30, 2^30], any stride: query i of batch entry b stands at position
   * query_offsets[b] + i. Not together with FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET
   */
  public AttentionOptions queryOffsets(Tensor queryOffsets) {
    this.queryOffsets = queryOffsets;
    return this;
  }

  /** output F32 [B,H,Q,K]: the scores themselves, by a pass of their own */
  public AttentionOptions scores(Tensor scores) {
    this.scores = scores;
    return this;
  }

  /** FOVEA_SCORES_*, used with scores */
  public AttentionOptions scoresKind(ScoresKind scoresKind) {
    this.scoresKind = scoresKind;
    return this;
  }

  /** FOVEA_PRECISION_*, of F32 queries, keys and values */
  public AttentionOptions precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  /**
   * F16 [B,Hkv,K,D/group], rank as key's, given exactly if key is I8: feature d of a key is its number times scale
   * d / group. group: a multiple of 16, or D (any D)
   */
  public AttentionOptions keyScales(Tensor keyScales) {
    this.keyScales = keyScales;
    return this;
  }

  /**
   * F16 [B,Hkv,K,Dv/group], likewise for value; of U8 [B,Hkv,K,2 Dv/group], group a multiple of 32: a scale and a
   * least number for each group
   */
  public AttentionOptions valueScales(Tensor valueScales) {
    this.valueScales = valueScales;
    return this;
  }

  /**
   * output F32 [B,H,Q,h] of fovea_attention, input of its backward pass: ADDITIVE, CONCAT. See "Kept projections"
   * in scores.h
   */
  public AttentionOptions projectedQuery(Tensor projectedQuery) {
    this.projectedQuery = projectedQuery;
    return this;
  }

  /** output F32 [B,Hkv,K,h], likewise */
  public AttentionOptions projectedKey(Tensor projectedKey) {
    this.projectedKey = projectedKey;
    return this;
  }

  EmptyRows emptyRows() {
    return emptyRows;
  }

  Tensor validLens() {
    return validLens;
  }

  Tensor mask() {
    return mask;
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

  Tensor logSumExp() {
    return logSumExp;
  }

  Tensor weights() {
    return weights;
  }

  Tensor queryOffsets() {
    return queryOffsets;
  }

  Tensor scores() {
    return scores;
  }

  ScoresKind scoresKind() {
    return scoresKind;
  }

  Precision precision() {
    return precision;
  }

  Tensor keyScales() {
    return keyScales;
  }

  Tensor valueScales() {
    return valueScales;
  }

  Tensor projectedQuery() {
    return projectedQuery;
  }

  Tensor projectedKey() {
    return projectedKey;
  }

  static MemorySegment raw(AttentionOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_attention_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_attention_options.struct_size, Layouts.fovea_attention_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_attention_options.flags, options.flags);
    if (options.emptyRows != null) raw.set(JAVA_INT, Layouts.fovea_attention_options.empty_rows, options.emptyRows.number);
    raw.set(JAVA_FLOAT, Layouts.fovea_attention_options.scale, options.scale);
    raw.set(JAVA_FLOAT, Layouts.fovea_attention_options.softcap, options.softcap);
    raw.set(JAVA_LONG, Layouts.fovea_attention_options.query_offset, options.queryOffset);
    raw.set(JAVA_LONG, Layouts.fovea_attention_options.window_left, options.windowLeft);
    raw.set(JAVA_LONG, Layouts.fovea_attention_options.window_right, options.windowRight);
    raw.set(ADDRESS, Layouts.fovea_attention_options.valid_lens, call.in(options.validLens));
    raw.set(ADDRESS, Layouts.fovea_attention_options.mask, call.in(options.mask));
    raw.set(ADDRESS, Layouts.fovea_attention_options.bias, call.in(options.bias));
    raw.set(ADDRESS, Layouts.fovea_attention_options.alibi_slopes, call.in(options.alibiSlopes));
    raw.set(ADDRESS, Layouts.fovea_attention_options.sinks, call.in(options.sinks));
    raw.set(ADDRESS, Layouts.fovea_attention_options.log_sum_exp, call.out(options.logSumExp));
    raw.set(ADDRESS, Layouts.fovea_attention_options.weights, call.out(options.weights));
    raw.set(JAVA_FLOAT, Layouts.fovea_attention_options.dropout, options.dropout);
    raw.set(JAVA_LONG, Layouts.fovea_attention_options.dropout_seed, options.dropoutSeed);
    raw.set(ADDRESS, Layouts.fovea_attention_options.query_offsets, call.in(options.queryOffsets));
    raw.set(ADDRESS, Layouts.fovea_attention_options.scores, call.out(options.scores));
    if (options.scoresKind != null) raw.set(JAVA_INT, Layouts.fovea_attention_options.scores_kind, options.scoresKind.number);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_attention_options.precision, options.precision.number);
    raw.set(ADDRESS, Layouts.fovea_attention_options.key_scales, call.in(options.keyScales));
    raw.set(ADDRESS, Layouts.fovea_attention_options.value_scales, call.in(options.valueScales));
    raw.set(ADDRESS, Layouts.fovea_attention_options.projected_query, call.out(options.projectedQuery));
    raw.set(ADDRESS, Layouts.fovea_attention_options.projected_key, call.out(options.projectedKey));
    return raw;
  }
}
