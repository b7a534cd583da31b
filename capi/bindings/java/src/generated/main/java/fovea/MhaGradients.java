// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_mha_gradients}. */
public final class MhaGradients {
  private Tensor out;
  private Tensor query;
  private Tensor key;
  private Tensor value;
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
  private AttentionGradients attention;

  public MhaGradients() {}

  /**
   * F [B,Q,Eo], of query's rank, last axis contiguous: what the loss changes by for each element of out. Must be
   * given
   */
  public MhaGradients out(Tensor out) {
    this.out = out;
    return this;
  }

  /** output F [B,Q,Eq], likewise; where key is NULL, of all that it is */
  public MhaGradients query(Tensor query) {
    this.query = query;
    return this;
  }

  /** output F [B,K,Ek], likewise; NULL where key is. Where value is NULL, of both */
  public MhaGradients key(Tensor key) {
    this.key = key;
    return this;
  }

  /** output F [B,K,Ev], likewise; NULL where value is */
  public MhaGradients value(Tensor value) {
    this.value = value;
    return this;
  }

  /** output F, of its shape in fovea_mha_parameters, last axis contiguous */
  public MhaGradients queryWeight(Tensor queryWeight) {
    this.queryWeight = queryWeight;
    return this;
  }

  /** output F, likewise */
  public MhaGradients keyWeight(Tensor keyWeight) {
    this.keyWeight = keyWeight;
    return this;
  }

  /** output F, likewise */
  public MhaGradients valueWeight(Tensor valueWeight) {
    this.valueWeight = valueWeight;
    return this;
  }

  /** output F, likewise */
  public MhaGradients inWeight(Tensor inWeight) {
    this.inWeight = inWeight;
    return this;
  }

  /** output F, likewise */
  public MhaGradients outWeight(Tensor outWeight) {
    this.outWeight = outWeight;
    return this;
  }

  /** output F, of its shape there, any stride */
  public MhaGradients queryBias(Tensor queryBias) {
    this.queryBias = queryBias;
    return this;
  }

  /** output F, likewise */
  public MhaGradients keyBias(Tensor keyBias) {
    this.keyBias = keyBias;
    return this;
  }

  /** output F, likewise */
  public MhaGradients valueBias(Tensor valueBias) {
    this.valueBias = valueBias;
    return this;
  }

  /** output F, likewise */
  public MhaGradients inBias(Tensor inBias) {
    this.inBias = inBias;
    return this;
  }

  /** output F, likewise */
  public MhaGradients outBias(Tensor outBias) {
    this.outBias = outBias;
    return this;
  }

  /**
   * of what options.attention and options.score bring, and of what they return: log_sum_exp, weights; its out,
   * query, key and value are NULL. NULL: none
   */
  public MhaGradients attention(AttentionGradients attention) {
    this.attention = attention;
    return this;
  }

  Tensor out() {
    return out;
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

  AttentionGradients attention() {
    return attention;
  }

  static MemorySegment raw(MhaGradients options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_mha_gradients.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_mha_gradients.struct_size, Layouts.fovea_mha_gradients.SIZE);
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.out, call.in(options.out));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.query, call.out(options.query));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.key, call.out(options.key));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.value, call.out(options.value));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.query_weight, call.out(options.queryWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.key_weight, call.out(options.keyWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.value_weight, call.out(options.valueWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.in_weight, call.out(options.inWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.out_weight, call.out(options.outWeight));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.query_bias, call.out(options.queryBias));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.key_bias, call.out(options.keyBias));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.value_bias, call.out(options.valueBias));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.in_bias, call.out(options.inBias));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.out_bias, call.out(options.outBias));
    raw.set(ADDRESS, Layouts.fovea_mha_gradients.attention, AttentionGradients.raw(options.attention, call));
    return raw;
  }
}
