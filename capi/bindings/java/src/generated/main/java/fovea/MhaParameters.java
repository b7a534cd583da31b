// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * The parameters as a model has them. Weights are F32 of rank 2, any strides; [out,in] as written here, or the
 * other way round with FOVEA_WEIGHT_IN_OUT. Biases are F32 of rank 1, any stride, NULL for none. Each may as well
 * be F16 or BF16; weights keep their types when they are packed.
 * <p>Whatever is left out has its default. In C: {@code fovea_mha_parameters}.
 */
public final class MhaParameters {
  private WeightLayout layout;
  private Precision precision;
  private long heads;
  private long kvHeads;
  private Tensor queryWeight;
  private Tensor keyWeight;
  private Tensor valueWeight;
  private Tensor inWeight;
  private Tensor outWeight;
  private Tensor queryBias;
  private Tensor keyBias;
  private Tensor valueBias;
  private Tensor inBias;
  private Tensor outBias;

  public MhaParameters() {}

  /** FOVEA_WEIGHT_*, of all weights */
  public MhaParameters layout(WeightLayout layout) {
    this.layout = layout;
    return this;
  }

  /** FOVEA_PRECISION_*, of packing them, as fovea_linear_pack does */
  public MhaParameters precision(Precision precision) {
    this.precision = precision;
    return this;
  }

  /** H, at least 1 */
  public MhaParameters heads(long heads) {
    this.heads = heads;
    return this;
  }

  /** Hkv, a divisor of H; left out: H */
  public MhaParameters kvHeads(long kvHeads) {
    if (kvHeads == 0) throw new FoveaException(Status.BAD_VALUE, "kvHeads is 0, expected at least 1");
    this.kvHeads = kvHeads;
    return this;
  }

  /** [H D, Eq] */
  public MhaParameters queryWeight(Tensor queryWeight) {
    this.queryWeight = queryWeight;
    return this;
  }

  /** [Hkv Dk, Ek]; Dk is D unless the score function takes another */
  public MhaParameters keyWeight(Tensor keyWeight) {
    this.keyWeight = keyWeight;
    return this;
  }

  /** [Hkv Dv, Ev] */
  public MhaParameters valueWeight(Tensor valueWeight) {
    this.valueWeight = valueWeight;
    return this;
  }

  /** [(H + 2 Hkv) D, E], the three in one as nn.MultiheadAttention has them (in_proj), instead of them */
  public MhaParameters inWeight(Tensor inWeight) {
    this.inWeight = inWeight;
    return this;
  }

  /** [Eo, H Dv]; NULL: none, out is the heads side by side, Eo = H Dv */
  public MhaParameters outWeight(Tensor outWeight) {
    this.outWeight = outWeight;
    return this;
  }

  /** [H D] */
  public MhaParameters queryBias(Tensor queryBias) {
    this.queryBias = queryBias;
    return this;
  }

  /** [Hkv Dk] */
  public MhaParameters keyBias(Tensor keyBias) {
    this.keyBias = keyBias;
    return this;
  }

  /** [Hkv Dv] */
  public MhaParameters valueBias(Tensor valueBias) {
    this.valueBias = valueBias;
    return this;
  }

  /** [(H + 2 Hkv) D], together with in_weight */
  public MhaParameters inBias(Tensor inBias) {
    this.inBias = inBias;
    return this;
  }

  /** [Eo], together with out_weight */
  public MhaParameters outBias(Tensor outBias) {
    this.outBias = outBias;
    return this;
  }

  WeightLayout layout() {
    return layout;
  }

  Precision precision() {
    return precision;
  }

  Tensor queryWeight() {
    return queryWeight;
  }

  Tensor keyWeight() {
    return keyWeight;
  }

  Tensor valueWeight() {
    return valueWeight;
  }

  Tensor inWeight() {
    return inWeight;
  }

  Tensor outWeight() {
    return outWeight;
  }

  Tensor queryBias() {
    return queryBias;
  }

  Tensor keyBias() {
    return keyBias;
  }

  Tensor valueBias() {
    return valueBias;
  }

  Tensor inBias() {
    return inBias;
  }

  Tensor outBias() {
    return outBias;
  }

  static MemorySegment raw(MhaParameters options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_mha_parameters.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_mha_parameters.struct_size, Layouts.fovea_mha_parameters.SIZE);
    if (options.layout != null) raw.set(JAVA_INT, Layouts.fovea_mha_parameters.layout, options.layout.number);
    if (options.precision != null) raw.set(JAVA_INT, Layouts.fovea_mha_parameters.precision, options.precision.number);
    raw.set(JAVA_LONG, Layouts.fovea_mha_parameters.heads, options.heads);
    raw.set(JAVA_LONG, Layouts.fovea_mha_parameters.kv_heads, options.kvHeads);
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.query_weight, call.in(options.queryWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.key_weight, call.in(options.keyWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.value_weight, call.in(options.valueWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.in_weight, call.in(options.inWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.out_weight, call.in(options.outWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.query_bias, call.in(options.queryBias));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.key_bias, call.in(options.keyBias));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.value_bias, call.in(options.valueBias));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.in_bias, call.in(options.inBias));
    raw.set(ADDRESS, Layouts.fovea_mha_parameters.out_bias, call.in(options.outBias));
    return raw;
  }
}
