// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;

/**
 * A loop that runs the library's work on threads of the caller's, in place of its own: see Context.of.
 *
 * <p>A piece may wait for others that have begun, never for one that has not, so threads of any kind will do. It must not
 * be interrupted to run another piece on the same thread; it calls nothing that could.
 */
public interface ParallelLoop {
  /** How many threads work on a call, the calling one among them. */
  int threads();

  /**
   * Runs piece count times, at once on as many threads as there are. Runs that are left out, because it returns or throws
   * before, are made up for on the calling thread; runs too many do nothing. A call returns when all that began have
   * ended. What is thrown goes to the calling thread's handler of uncaught exceptions: it cannot pass through C.
   */
  void run(int count, Runnable piece);

  /**
   * The calling thread and those of an executor: a ForkJoinPool, a pool of fixed size, virtual threads. threads: as
   * above. Where the executor is busy or was shut down, the calling thread does its work.
   */
  static ParallelLoop of(Executor executor, int threads) {
    Objects.requireNonNull(executor, "executor");
    if (threads < 1) throw new IllegalArgumentException("threads is " + threads + ", expected at least 1");
    return new ParallelLoop() {
      @Override
      public int threads() {
        return threads;
      }

      @Override
      public void run(int count, Runnable piece) {
        for (int i = 1; i < count; ++i) executor.execute(piece);
      }
    };
  }

  /** The calling thread and Java's common pool, which parallel streams use, too. */
  static ParallelLoop common() {
    return of(ForkJoinPool.commonPool(), ForkJoinPool.getCommonPoolParallelism() + 1);
  }
}
