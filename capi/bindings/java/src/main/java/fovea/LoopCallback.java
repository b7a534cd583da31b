// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** The C function of a loop. It returns when no thread is in the library's work any more, whatever the loop does. */
final class LoopCallback {
  private static final MethodHandle CALL = find("call", void.class, MemorySegment.class, long.class,
      MemorySegment.class, MemorySegment.class);

  private final ParallelLoop loop;

  LoopCallback(ParallelLoop loop) {
    this.loop = loop;
  }

  /** Its address, as long as the arena is open. */
  static MemorySegment of(ParallelLoop loop, Arena arena) {
    return Library.callback(CALL.bindTo(new LoopCallback(loop)),
        FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS, ADDRESS), arena);
  }

  private static MethodHandle find(String name, Class<?> result, Class<?>... arguments) {
    try {
      return MethodHandles.lookup().findVirtual(LoopCallback.class, name, MethodType.methodType(result, arguments));
    } catch (ReflectiveOperationException missing) {
      throw new AssertionError(missing);
    }
  }

  /** What is thrown out of it ends the virtual machine. */
  void call(MemorySegment user, long count, MemorySegment work, MemorySegment data) {
    Pieces pieces = new Pieces(count, work, data);
    Throwable thrown = null;
    try {
      loop.run(Math.toIntExact(count), pieces);
    } catch (Throwable caught) {
      thrown = caught;
    }
    pieces.finish();
    if (thrown != null) report(thrown);
  }

  private static void report(Throwable thrown) {
    try {
      Thread thread = Thread.currentThread();
      thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
    } catch (Throwable another) {
      // The handler's own: there is nobody left to tell.
    }
  }

  private static final class Pieces implements Runnable {
    private final long count;
    private final MemorySegment work;
    private final MemorySegment data;
    private final AtomicLong next = new AtomicLong();
    private final CountDownLatch left;

    Pieces(long count, MemorySegment work, MemorySegment data) {
      this.count = count;
      this.work = work;
      this.data = data;
      left = new CountDownLatch(Math.toIntExact(count));
    }

    /** The next that has not begun, if there is one. */
    @Override
    public void run() {
      long index = next.getAndIncrement();
      if (index >= count) return; // work and data may be gone
      try {
        Library.work(work, data, index);
      } finally {
        left.countDown();
      }
    }

    void finish() {
      while (next.get() < count) run();
      boolean interrupted = false;
      while (true) {
        try {
          left.await();
          break;
        } catch (InterruptedException waitOn) {
          interrupted = true;
        }
      }
      if (interrupted) Thread.currentThread().interrupt();
    }
  }
}
