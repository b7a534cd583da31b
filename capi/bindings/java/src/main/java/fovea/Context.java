// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Where work runs: how many threads, which instruction set. null, everywhere one is taken, is all threads and the
 * best.
 */
public final class Context extends Handle {
  private Context(MemorySegment pointer, Destroy destroy) {
    super(pointer, destroy);
  }

  /** At most so many threads at once; 0: all. */
  public static Context of(int maxThreads) {
    return of(maxThreads, null, null);
  }

  /** maxIsa: "base", "avx2", "avx512" or "amx"; null: the best but "amx". */
  public static Context of(int maxThreads, String maxIsa) {
    return of(maxThreads, maxIsa, null);
  }

  /** precision: of calls that do not say their own; null: highest. */
  public static Context of(int maxThreads, String maxIsa, Precision precision) {
    return make(maxThreads, maxIsa, precision, MemorySegment.NULL, Native::fovea_context_destroy);
  }

  /** Work runs on the caller's threads: ParallelLoop.common(), ParallelLoop.of(executor, threads) or another. */
  public static Context of(ParallelLoop loop) {
    return of(loop, null, null);
  }

  public static Context of(ParallelLoop loop, String maxIsa, Precision precision) {
    Arena arena = Arena.ofShared(); // the collector's thread may be the one that closes it
    try {
      return make(loop.threads(), maxIsa, precision, LoopCallback.of(loop, arena), pointer -> {
        Native.fovea_context_destroy(pointer);
        arena.close();
      });
    } catch (RuntimeException | Error failed) {
      arena.close();
      throw failed;
    }
  }

  private static Context make(
      int maxThreads, String maxIsa, Precision precision, MemorySegment loop, Destroy destroy) {
    try (Call call = new Call()) {
      MemorySegment raw = call.allocate(Layouts.fovea_context_options.SIZE);
      raw.set(JAVA_LONG, Layouts.fovea_context_options.struct_size, Layouts.fovea_context_options.SIZE);
      raw.set(JAVA_INT, Layouts.fovea_context_options.max_threads, maxThreads);
      raw.set(ADDRESS, Layouts.fovea_context_options.parallel_for, loop);
      if (precision != null) raw.set(JAVA_INT, Layouts.fovea_context_options.precision, precision.number);
      if (maxIsa != null) {
        MemorySegment text = call.allocate(4L * maxIsa.length() + 1);
        text.setString(0, maxIsa);
        raw.set(ADDRESS, Layouts.fovea_context_options.max_isa, text);
      }
      MemorySegment made = call.made();
      return new Context(call.run(made, pins -> Native.fovea_context_create(raw, made, pins)), destroy);
    }
  }

  /** How many threads a call with this context may use at once. */
  public int threads() {
    try (Call call = new Call()) {
      return Native.fovea_context_threads(call.use(this));
    }
  }

  /** The instruction set it runs. */
  public String isaName() {
    return isaName(this);
  }

  /** That of a context, or of the default one. */
  public static String isaName(Context context) {
    try (Call call = new Call()) {
      return Library.text(Native.fovea_isa_name(call.use(context)));
    }
  }

  /** The instruction sets that this machine can run, worst first. */
  public static List<String> isaAvailable() {
    List<String> names = new ArrayList<>();
    for (String name; (name = Library.text(Native.fovea_isa_available(names.size()))) != null;) names.add(name);
    return names;
  }
}
