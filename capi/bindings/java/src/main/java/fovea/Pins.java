// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/**
 * Segments whose arenas cannot be closed while a call runs. Java keeps an arena open for a segment that is itself an
 * argument of a C function, not for one whose address lies in a struct. So a call hands over one segment of each arena
 * as arguments behind the last that the function has: it does not look at them, and its caller removes them.
 */
final class Pins {
  /** How many there are, the rest being NULL: as many as most calls need, or as any call can. */
  static final int FEW = 4;
  static final int MANY = 40;

  private Pins() {}

  static MemorySegment[] of(MemorySegment[] data) {
    return of(Arrays.asList(data));
  }

  /** null: there are none. */
  static MemorySegment[] of(List<MemorySegment> data) {
    MemorySegment[] pins = null;
    int count = 0;
    for (MemorySegment one : data) {
      if (one == null || !one.isNative() || holds(pins, count, one)) continue;
      if (pins == null) pins = nulls(FEW);
      if (count == FEW) pins = Arrays.copyOf(pins, MANY);
      if (count == FEW) Arrays.fill(pins, FEW, MANY, MemorySegment.NULL);
      pins[count++] = one;
    }
    return pins;
  }

  private static MemorySegment[] nulls(int count) {
    MemorySegment[] made = new MemorySegment[count];
    Arrays.fill(made, MemorySegment.NULL);
    return made;
  }

  private static boolean holds(MemorySegment[] pins, int count, MemorySegment segment) {
    for (int i = 0; i < count; ++i)
      if (pins[i].scope().equals(segment.scope())) return true;
    return false;
  }
}
