// SPDX-License-Identifier: Apache-2.0

/** Attention kernels for CPUs: the operations of the C library fovea on arrays and on memory segments. */
module fovea {
  exports fovea;
}
