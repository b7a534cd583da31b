// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/** The weights of a multi-head attention layer, packed once. Any number of threads may use them. */
public final class MhaWeights extends Handle {
  private MhaWeights(MemorySegment pointer) {
    super(pointer, Native::fovea_mha_weights_destroy);
  }

  public static MhaWeights pack(MhaParameters parameters) {
    return pack(null, parameters);
  }

  public static MhaWeights pack(Context context, MhaParameters parameters) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), raw = MhaParameters.raw(parameters, call), made = call.made();
      return new MhaWeights(call.run(made, pins -> Native.fovea_mha_weights_create(c, raw, made, pins)));
    }
  }

  /** Self-attention, with as many features out as in. */
  public Tensor attend(Tensor x, MhaOptions options) {
    return attend(x, null, null, options);
  }

  /** key null: query; value null: key. The result has query's shape. */
  public Tensor attend(Tensor query, Tensor key, Tensor value, MhaOptions options) {
    Tensor out = Tensor.zeros(query.dtype, query.shape);
    attend(null, query, key, value, out, options);
    return out;
  }

  public void attend(Context context, Tensor query, Tensor key, Tensor value, Tensor out, MhaOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = call.use(this), q = call.in(query), k = call.in(key),
                    v = call.in(value);
      MemorySegment result = call.out(out), raw = MhaOptions.raw(options, call);
      call.run(pins -> Native.fovea_multi_head_attention(c, self, q, k, v, result, raw, pins));
    }
  }

  /** Plans the call that attend(query, null, null, options) would make. */
  public MhaPlan plan(Tensor query, Tensor out, MhaOptions options) {
    return plan(null, query, null, null, out, options);
  }

  /**
   * Plans the call that attend would make. No data is read, Tensor.shapeOnly will do; but what rotary is given is copied. With a
   * schedule, query and out are for the most tokens that a step may have, and each run is of its present step.
   */
  public MhaPlan plan(Context context, Tensor query, Tensor key, Tensor value, Tensor out, MhaOptions options) {
    return MhaPlan.of(context, this, new Tensor[] {query, key, value, out}, options);
  }

  /** With weights that are used once. */
  public static void attendOnce(Context context, MhaParameters parameters, Tensor query, Tensor key, Tensor value,
      Tensor out, MhaOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), p = MhaParameters.raw(parameters, call), q = call.in(query),
                    k = call.in(key);
      MemorySegment v = call.in(value), result = call.out(out), raw = MhaOptions.raw(options, call);
      call.run(pins -> Native.fovea_multi_head_attention_once(c, p, q, k, v, result, raw, pins));
    }
  }

  /** Bytes held. */
  public long size() {
    try (Call call = new Call()) {
      return Native.fovea_mha_weights_size(call.use(this));
    }
  }
}
