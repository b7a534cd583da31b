// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * The parameters of a score function; those of other kinds must be NULL or 0. Weights are laid out [out,in], have
 * any strides, and serve every batch entry and head. h is the number of hidden units, in [1, 65536]. Dq and Dk,
 * the sizes of a query and of a key, may differ where the table below says so, and are in [1, 1024].
 * <pre>
 *   kind      query_weight  key_weight  weight      bias           score_vector   sigma or sigmas    sizes
 *   DOT                                                                                              Dq = Dk
 *   BILINEAR                            [Dq,Dk]                                                      any Dq, Dk
 *   ADDITIVE  [h,Dq]        [h,Dk]                                 [h]                               any Dq, Dk
 *   CONCAT                              [h,Dq+Dk]   [h] or NULL    [h]                               any Dq, Dk
 *   GAUSSIAN                                                                      &gt; 0, finite        Dq = Dk
 * </pre>
 * <p>options.scale multiplies the score; 0 without FOVEA_SCALE_GIVEN, the default, means 1 / sqrt(D) for DOT and 1
 * for all others.
 * <p>The tanh of ADDITIVE and CONCAT is taken of the whole range: units whose arguments are so large that products
 * of exponentials would overflow go another way. The error of a score is at most 2^-19 sum_u |v_u|, beside that of
 * the two projections and of a float32 sum of h numbers; where all arguments are small it is as small beside them.
 * The scores of GAUSSIAN are as good as those of the squared difference in float32, and never above 0: where |q|^2
 * + |k|^2 - 2 q.k would cancel, the difference itself is taken. Points and sigma may be of any size: where scale /
 * sigma^2 is not between 1e-20 and 1e20, copies of the points are compared, times a power of two. A key farther
 * than 2^30 sigma may have a score of -infinity, as if it were masked, and coordinates beyond 2^157 sigma may
 * count as that. With sigmas of 2^-40 to 2^40, and squares of distances within float32's range, each head
 * likewise. An infinity in a query or key of BILINEAR may give NaN or an infinity: either side may be the one that
 * is projected.
 * <p>Whatever is left out has its default. In C: {@code fovea_score}.
 */
public final class Score {
  private ScoreKind kind;
  private float sigma;
  private Tensor queryWeight;
  private Tensor keyWeight;
  private Tensor weight;
  private Tensor bias;
  private Tensor scoreVector;
  private Tensor sigmas;

  public Score() {}

  /** FOVEA_SCORE_* */
  public Score kind(ScoreKind kind) {
    this.kind = kind;
    return this;
  }

  /** GAUSSIAN: the width; 0 when sigmas is given */
  public Score sigma(float sigma) {
    this.sigma = sigma;
    return this;
  }

  public Score queryWeight(Tensor queryWeight) {
    this.queryWeight = queryWeight;
    return this;
  }

  public Score keyWeight(Tensor keyWeight) {
    this.keyWeight = keyWeight;
    return this;
  }

  public Score weight(Tensor weight) {
    this.weight = weight;
    return this;
  }

  public Score bias(Tensor bias) {
    this.bias = bias;
    return this;
  }

  public Score scoreVector(Tensor scoreVector) {
    this.scoreVector = scoreVector;
    return this;
  }

  /** GAUSSIAN: a width for each query head, F32 [H] */
  public Score sigmas(Tensor sigmas) {
    this.sigmas = sigmas;
    return this;
  }

  ScoreKind kind() {
    return kind;
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

  Tensor bias() {
    return bias;
  }

  Tensor scoreVector() {
    return scoreVector;
  }

  Tensor sigmas() {
    return sigmas;
  }

  static MemorySegment raw(Score options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_score.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_score.struct_size, Layouts.fovea_score.SIZE);
    if (options.kind != null) raw.set(JAVA_INT, Layouts.fovea_score.kind, options.kind.number);
    raw.set(JAVA_FLOAT, Layouts.fovea_score.sigma, options.sigma);
    raw.set(ADDRESS, Layouts.fovea_score.query_weight, call.in(options.queryWeight));
    raw.set(ADDRESS, Layouts.fovea_score.key_weight, call.in(options.keyWeight));
    raw.set(ADDRESS, Layouts.fovea_score.weight, call.in(options.weight));
    raw.set(ADDRESS, Layouts.fovea_score.bias, call.in(options.bias));
    raw.set(ADDRESS, Layouts.fovea_score.score_vector, call.in(options.scoreVector));
    raw.set(ADDRESS, Layouts.fovea_score.sigmas, call.in(options.sigmas));
    return raw;
  }
}
