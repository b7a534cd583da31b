// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

/** What kind of failure. */
public enum Status {
  OK(0),
  /** a required pointer is NULL */
  NULL_POINTER(1),
  /** a tensor has the wrong number of axes */
  BAD_RANK(2),
  /** sizes are negative, out of range or do not fit together */
  BAD_SHAPE(3),
  /** a stride the operation does not take, or an output that repeats itself */
  BAD_STRIDE(4),
  /** an element type the argument does not take */
  BAD_DTYPE(5),
  /** a number is out of range: an option, a valid length */
  BAD_VALUE(6),
  /** unknown flag bits, or a newer struct with members this build lacks */
  BAD_OPTION(7),
  /** an output overlaps an input or another output */
  OVERLAP(8),
  /** the product of sizes or strides does not fit the address space */
  SIZE_OVERFLOW(9),
  WORKSPACE_TOO_SMALL(10),
  OUT_OF_MEMORY(11),
  /** FOVEA_ISA or max_isa names no instruction set this machine can run */
  UNKNOWN_ISA(12),
  /** a defect in fovea; please report it */
  INTERNAL_ERROR(13),
  /** a pool has too few free pages, or no room for another sequence */
  POOL_EXHAUSTED(14),
  /** A status that this package is too old to know. */
  UNKNOWN(-1);

  final int number;

  Status(int number) {
    this.number = number;
  }

  static Status of(int number) {
    for (Status status : values()) if (status.number == number) return status;
    return UNKNOWN;
  }
}
