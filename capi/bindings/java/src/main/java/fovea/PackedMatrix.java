// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/** A right-hand side of products, stored once in the order the kernel reads it. Any number of threads may use it. */
public final class PackedMatrix extends Handle {
  private final long columns;

  private PackedMatrix(MemorySegment pointer, long columns) {
    super(pointer, Native::fovea_packed_matrix_destroy);
    this.columns = columns;
  }

  /** b [K,N], any strides. */
  public static PackedMatrix pack(Tensor b) {
    return pack(null, b, null);
  }

  public static PackedMatrix pack(Context context, Tensor b, MatmulPackOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), right = call.in(b), raw = MatmulPackOptions.raw(options, call),
                    made = call.made();
      return new PackedMatrix(call.run(made, pins -> Native.fovea_matmul_pack(c, right, raw, made, pins)), b.last());
    }
  }

  /** A linear layer's weight, [out,in] unless options say otherwise. */
  public static PackedMatrix packLinear(Tensor weight) {
    return packLinear(null, weight, null);
  }

  public static PackedMatrix packLinear(Context context, Tensor weight, LinearPackOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), w = call.in(weight), raw = LinearPackOptions.raw(options, call),
                    made = call.made();
      MemorySegment packed = call.run(made, pins -> Native.fovea_linear_pack(c, w, raw, made, pins));
      boolean across = options != null && options.layout() == WeightLayout.IN_OUT;
      return new PackedMatrix(packed, across ? weight.shape[1] : weight.shape[0]);
    }
  }

  /** a times the matrix: [M,K] to [M,N], or [B,M,K] to [B,M,N]. */
  public Tensor multiply(Tensor a) {
    Tensor out = Tensor.zeros(a.dtype, a.withLast(columns));
    multiply(null, a, out);
    return out;
  }

  public void multiply(Context context, Tensor a, Tensor out) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), left = call.in(a), self = call.use(this), result = call.out(out);
      call.run(pins -> Native.fovea_matmul_packed(c, left, self, result, pins));
    }
  }

  /** activation(x W + bias) * multiplier + residual. */
  public Tensor linear(Tensor x, LinearOptions options) {
    Tensor out = Tensor.zeros(x.dtype, x.withLast(columns));
    linear(null, x, out, options);
    return out;
  }

  public void linear(Context context, Tensor x, Tensor out, LinearOptions options) {
    try (Call call = new Call()) {
      MemorySegment c = call.use(context), input = call.in(x), self = call.use(this), result = call.out(out);
      MemorySegment raw = LinearOptions.raw(options, call);
      call.run(pins -> Native.fovea_linear(c, input, self, result, raw, pins));
    }
  }

  /** Bytes held. */
  public long size() {
    try (Call call = new Call()) {
      return Native.fovea_packed_matrix_size(call.use(this));
    }
  }
}
