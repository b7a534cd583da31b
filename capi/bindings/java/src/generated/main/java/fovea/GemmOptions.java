// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_gemm_options}. */
public final class GemmOptions {
  private int flags;
  private float alpha;
  private float beta;
  private Tensor c;

  public GemmOptions() {}

  /** finite; left out: 1 */
  public GemmOptions alpha(float alpha) {
    flags |= 1;
    this.alpha = alpha;
    return this;
  }

  /** finite; left out: 1 */
  public GemmOptions beta(float beta) {
    flags |= 2;
    this.beta = beta;
    return this;
  }

  /**
   * F, rank 1 to out's, last axis contiguous; axes that it lacks, and those of size 1, are repeated. May be out
   * itself (same data, type, shape and strides). NULL: none
   */
  public GemmOptions c(Tensor c) {
    this.c = c;
    return this;
  }

  Tensor c() {
    return c;
  }

  static MemorySegment raw(GemmOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_gemm_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_gemm_options.struct_size, Layouts.fovea_gemm_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_gemm_options.flags, options.flags);
    raw.set(JAVA_FLOAT, Layouts.fovea_gemm_options.alpha, options.alpha);
    raw.set(JAVA_FLOAT, Layouts.fovea_gemm_options.beta, options.beta);
    raw.set(ADDRESS, Layouts.fovea_gemm_options.c, call.in(options.c));
    return raw;
  }
}
