// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * The most that a step may bring.
 * <p>Whatever is left out has its default. In C: {@code fovea_schedule_limits}.
 */
public final class ScheduleLimits {
  private long sequences;
  private long keyLen;
  private long pageIds;
  private long workers;

  public ScheduleLimits() {}

  /** 1 to 2^20 */
  public ScheduleLimits sequences(long sequences) {
    this.sequences = sequences;
    return this;
  }

  /** positions of one sequence, 1 to 2^30; left out: as many as key has */
  public ScheduleLimits keyLen(long keyLen) {
    if (keyLen == 0) throw new FoveaException(Status.BAD_VALUE, "keyLen is 0, expected at least 1");
    this.keyLen = keyLen;
    return this;
  }

  /**
   * of all sequences together, each with those that it shares, up to 2^30; left out: what sequences of key_len
   * have, but at most four times key's pages. 0 for packed keys
   */
  public ScheduleLimits pageIds(long pageIds) {
    if (pageIds == 0) throw new FoveaException(Status.BAD_VALUE, "pageIds is 0, expected at least 1");
    this.pageIds = pageIds;
    return this;
  }

  /**
   * threads of the caller's that share a run (fovea_schedule_run_tasks), up to 4096; left out: as many as
   * fovea_context_threads
   */
  public ScheduleLimits workers(long workers) {
    if (workers == 0) throw new FoveaException(Status.BAD_VALUE, "workers is 0, expected at least 1");
    this.workers = workers;
    return this;
  }

  static MemorySegment raw(ScheduleLimits options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_schedule_limits.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_schedule_limits.struct_size, Layouts.fovea_schedule_limits.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_schedule_limits.sequences, options.sequences);
    raw.set(JAVA_LONG, Layouts.fovea_schedule_limits.key_len, options.keyLen);
    raw.set(JAVA_LONG, Layouts.fovea_schedule_limits.page_ids, options.pageIds);
    raw.set(JAVA_LONG, Layouts.fovea_schedule_limits.workers, options.workers);
    return raw;
  }
}
