// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * A layer's pages: keys [P,Hkv,page,D] and values [P,Hkv,page,Dv], with scales where they are of I8, or values of U8,
 * [P,Hkv,page,Dv/2], else those are null. Those of a {@link KvPool}, whose memory they keep, or your own.
 */
public record Pages(Tensor keys, Tensor values, Tensor keyScales, Tensor valueScales) {
  /** Without scales. */
  public Pages(Tensor keys, Tensor values) {
    this(keys, values, null, null);
  }
}
