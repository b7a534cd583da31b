// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_kernel_regression_options}. */
public final class KernelRegressionOptions {
  private int flags;
  private float sigma;
  private Tensor weights;

  public KernelRegressionOptions() {}

  /**
   * query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if
   * they are given)
   */
  public KernelRegressionOptions leaveOneOut() {
    flags |= 32;
    return this;
  }

  /** the kernel's width, &gt; 0 and finite; left out: 1 */
  public KernelRegressionOptions sigma(float sigma) {
    flags |= 512;
    this.sigma = sigma;
    return this;
  }

  /** output F [Q,N], or NULL */
  public KernelRegressionOptions weights(Tensor weights) {
    this.weights = weights;
    return this;
  }

  Tensor weights() {
    return weights;
  }

  static MemorySegment raw(KernelRegressionOptions options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_kernel_regression_options.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_kernel_regression_options.struct_size, Layouts.fovea_kernel_regression_options.SIZE);
    raw.set(JAVA_INT, Layouts.fovea_kernel_regression_options.flags, options.flags);
    raw.set(JAVA_FLOAT, Layouts.fovea_kernel_regression_options.sigma, options.sigma);
    raw.set(ADDRESS, Layouts.fovea_kernel_regression_options.weights, call.out(options.weights));
    return raw;
  }
}
