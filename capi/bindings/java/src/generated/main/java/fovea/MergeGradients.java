// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/** Whatever is left out has its default. In C: {@code fovea_merge_gradients}. */
public final class MergeGradients {
  private Tensor out;
  private Tensor logSumExp;
  private Tensor outs;
  private Tensor lses;

  public MergeGradients() {}

  /** F [...,Dv]: what the loss changes by for each element of out. Must be given */
  public MergeGradients out(Tensor out) {
    this.out = out;
    return this;
  }

  /** F32 [...]: likewise; NULL: 0 */
  public MergeGradients logSumExp(Tensor logSumExp) {
    this.logSumExp = logSumExp;
    return this;
  }

  /** output F [S,...,Dv] */
  public MergeGradients outs(Tensor outs) {
    this.outs = outs;
    return this;
  }

  /** output F32 [S,...] */
  public MergeGradients lses(Tensor lses) {
    this.lses = lses;
    return this;
  }

  Tensor out() {
    return out;
  }

  Tensor logSumExp() {
    return logSumExp;
  }

  Tensor outs() {
    return outs;
  }

  Tensor lses() {
    return lses;
  }

  static MemorySegment raw(MergeGradients options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_merge_gradients.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_merge_gradients.struct_size, Layouts.fovea_merge_gradients.SIZE);
    raw.set(ADDRESS, Layouts.fovea_merge_gradients.out, call.in(options.out));
    raw.set(ADDRESS, Layouts.fovea_merge_gradients.log_sum_exp, call.in(options.logSumExp));
    raw.set(ADDRESS, Layouts.fovea_merge_gradients.outs, call.out(options.outs));
    raw.set(ADDRESS, Layouts.fovea_merge_gradients.lses, call.out(options.lses));
    return raw;
  }
}
