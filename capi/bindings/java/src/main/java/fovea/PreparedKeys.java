// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/**
 * Keys that are attended again and again, as an additive, concat or bilinear score reads them. Any number of threads
 * may attend at once; what changes the keys while another thread uses them is refused with an IllegalStateException.
 */
public final class PreparedKeys extends Handle {
  private PreparedKeys(MemorySegment pointer) {
    super(pointer, Native::fovea_prepared_keys_destroy);
  }

  /** Room for keys of these sizes, none of them there yet. */
  public static PreparedKeys of(Score score, PreparedKeysSizes sizes) {
    return of(null, score, sizes);
  }

  public static PreparedKeys of(Context context, Score score, PreparedKeysSizes sizes) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), s = Score.raw(score, call), raw = PreparedKeysSizes.raw(sizes, call),
                    made = call.made();
      return new PreparedKeys(call.run(made, pins -> Native.fovea_prepared_keys_create(c, s, raw, made, pins)));
    }
  }

  public void append(Tensor key) {
    append(null, key);
  }

  public void append(Context context, Tensor key) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), self = call.changes(this), k = call.in(key);
      call.run(pins -> Native.fovea_prepared_keys_append(c, self, k, pins));
    }
  }

  public Tensor attend(Tensor query, Tensor value, AttentionOptions options) {
    Tensor out = Tensor.zeros(query.dtype, query.withLast(value.last()));
    attend(null, query, value, out, options);
    return out;
  }

  public void attend(Context context, Tensor query, Tensor value, Tensor out, AttentionOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), q = call.in(query), self = call.reads(this), v = call.in(value);
      MemorySegment result = call.out(out), raw = AttentionOptions.raw(options, call);
      call.run(pins -> Native.fovea_attention_prepared(c, q, self, v, result, raw, pins));
    }
  }

  /** Forgets the keys from length on. */
  public void truncate(long length) {
    try (Call call = new Call()) {
      MemorySegment self = call.changes(this);
      call.run(pins -> Native.fovea_prepared_keys_truncate(self, length, pins));
    }
  }

  /** How many keys each sequence holds. */
  public long length() {
    try (Call call = new Call()) {
      return Native.fovea_prepared_keys_length(call.reads(this));
    }
  }

  /** Bytes held. */
  public long size() {
    try (Call call = new Call()) {
      return Native.fovea_prepared_keys_size(call.reads(this));
    }
  }
}
