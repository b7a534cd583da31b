// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/**
 * Operations name those they take. I8 is taken as keys and values of the scaled dot product, with scales
 * (fovea_quantize), and U8 as such values, of two features of 4 bits each; there is no operation yet that takes
 * F8_E4M3 or F8_E5M2.
 */
public enum Dtype {
  /** IEEE binary32 */
  F32(1, 4),
  /** IEEE binary16 */
  F16(2, 2),
  /** the upper half of an IEEE binary32 */
  BF16(3, 2),
  /** signed 32-bit integer */
  I32(5, 4),
  /** signed 64-bit integer */
  I64(6, 8),
  /** one byte, 0 is false and anything else is true */
  BOOL(7, 1),
  /** signed 8-bit integer */
  I8(8, 1),
  /** unsigned 8-bit integer */
  U8(9, 1),
  /** 4 bits of exponent, 3 of mantissa, no infinities, NaN 0x7f and 0xff: OCP's E4M3, "e4m3fn" */
  F8_E4M3(10, 1),
  /** the upper half of an IEEE binary16: OCP's E5M2 */
  F8_E5M2(11, 1);

  final int number;
  final int size;

  Dtype(int number, int size) {
    this.number = number;
    this.size = size;
  }

  /** Bytes of an element. */
  public int size() {
    return size;
  }
}
