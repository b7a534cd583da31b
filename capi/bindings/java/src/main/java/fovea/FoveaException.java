// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A call that was refused or failed. The message is the library's: it names the argument, its value and what was
 * expected.
 */
public final class FoveaException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Status status;

  FoveaException(Status status, String message) {
    super(message);
    this.status = status;
  }

  public Status status() {
    return status;
  }

  /**
   * Throws what the thread's last call reported, unless that was FOVEA_OK. C keeps the message for each thread of the
   * system; nothing between the two calls lets a virtual thread wait, which alone could move it to another one.
   */
  static void check(int status) {
    if (status == Status.OK.number) return;
    try (Arena arena = Arena.ofConfined()) {
      long size = Native.fovea_last_error_copy(MemorySegment.NULL, 0) + 1;
      MemorySegment text = arena.allocate(size);
      Native.fovea_last_error_copy(text, size);
      throw new FoveaException(Status.of(status), text.getString(0));
    }
  }
}
