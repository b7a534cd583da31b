// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** The library's work on Java's threads: the bits of its own, whatever the loop is like. */
final class ParallelLoopTest {
  private ParallelLoopTest() {}

  private static final int HEADS = 8, LENGTH = 160, DIM = 32;
  private static final Tensor QUERY = input(1), KEY = input(2), VALUE = input(3);
  private static final float[] EXPECTED = Fovea.sdpa(QUERY, KEY, VALUE).toFloats();

  private static Tensor input(int seed) {
    return Tensor.of(some(HEADS * LENGTH * DIM, seed), 1, HEADS, LENGTH, DIM);
  }

  private static float[] attend(Context context) {
    Tensor out = Tensor.zeros(1, HEADS, LENGTH, DIM);
    Fovea.sdpa(context, QUERY, KEY, VALUE, out, null);
    return out.toFloats();
  }

  private interface Body {
    void run(int count, Runnable piece) throws Exception;
  }

  private static ParallelLoop loop(int threads, Body body) {
    return new ParallelLoop() {
      @Override
      public int threads() {
        return threads;
      }

      @Override
      public void run(int count, Runnable piece) {
        try {
          body.run(count, piece);
        } catch (RuntimeException thrown) {
          throw thrown;
        } catch (Exception thrown) {
          throw new IllegalStateException(thrown);
        }
      }
    };
  }

  private static void givesTheSameBits(ParallelLoop loop) {
    try (Context context = Context.of(loop)) {
      same(context.threads(), loop.threads());
      for (int i = 0; i < 3; ++i) same(attend(context), EXPECTED);
    }
  }

  static void executorsOfAnyKind() {
    givesTheSameBits(ParallelLoop.common());
    for (ExecutorService executor : new ExecutorService[] {new ForkJoinPool(3), Executors.newFixedThreadPool(4),
             Executors.newSingleThreadExecutor(), Executors.newVirtualThreadPerTaskExecutor()}) {
      try (executor) {
        givesTheSameBits(ParallelLoop.of(executor, 4));
      }
    }
    refused(IllegalArgumentException.class, () -> ParallelLoop.of(Runnable::run, 0), "threads is 0");
    refused(NullPointerException.class, () -> ParallelLoop.of(null, 1), "executor");
  }

  /** It is their threads that work, not the library's. */
  static void allPiecesRunWhereTheLoopRunsThem() {
    Set<Thread> workers = ConcurrentHashMap.newKeySet();
    givesTheSameBits(loop(3, (count, piece) -> {
      that(count > 1 && count <= 3, "asked for " + count + " pieces");
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < count; ++i) {
        threads.add(new Thread(() -> {
          workers.add(Thread.currentThread());
          piece.run();
        }));
      }
      for (Thread one : threads) one.start();
      for (Thread one : threads) one.join();
    }));
    that(workers.size() >= 6 && !workers.contains(Thread.currentThread()), workers);
  }

  static void loopsThatDoTooLittleOrTooMuch() {
    givesTheSameBits(loop(4, (count, piece) -> {}));
    givesTheSameBits(loop(2, (count, piece) -> piece.run()));
    AtomicReference<Runnable> last = new AtomicReference<>();
    givesTheSameBits(loop(4, (count, piece) -> {
      for (int i = 0; i < count + 9; ++i) piece.run();
      last.set(piece);
    }));
    last.get().run(); // when its call is over and its context closed
  }

  /** The memory of a call must not go while a thread that the loop does not wait for is in it. */
  static void loopsThatReturnBeforeTheirPiecesEnd() throws Exception {
    try (ExecutorService executor = Executors.newFixedThreadPool(3)) {
      givesTheSameBits(loop(4, (count, piece) -> {
        CountDownLatch begun = new CountDownLatch(count - 1);
        for (int i = 1; i < count; ++i) {
          executor.execute(() -> {
            begun.countDown();
            piece.run();
          });
        }
        begun.await();
      }));
    }
  }

  private static void slowly(Runnable then) {
    try {
      Thread.sleep(100);
    } catch (InterruptedException unexpected) {
      throw new AssertionError(unexpected);
    }
    then.run();
  }

  /** The same of work that is sure to take longer than the loop. */
  static void callsReturnWhenAllThatBeganHasEnded() throws Exception {
    AtomicInteger ended = new AtomicInteger();
    Body work = (index, nothing) -> slowly(ended::incrementAndGet);
    MethodHandle handle = MethodHandles.lookup().findStatic(ParallelLoopTest.class, "work",
        MethodType.methodType(void.class, Body.class, MemorySegment.class, long.class));
    try (Arena arena = Arena.ofShared()) {
      MemorySegment function = Library.callback(
          handle.bindTo(work), FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG), arena);
      CountDownLatch begun = new CountDownLatch(3);
      List<Thread> threads = new ArrayList<>();
      new LoopCallback(loop(3, (count, piece) -> {
        for (int i = 0; i < count; ++i) {
          threads.add(new Thread(() -> {
            begun.countDown();
            piece.run();
          }));
        }
        for (Thread one : threads) one.start();
        begun.await();
      })).call(MemorySegment.NULL, 3, function, MemorySegment.NULL);
      same(ended.get(), 3);
      for (Thread one : threads) one.join();
    }
  }

  @SuppressWarnings("unused") // but by the handle above
  private static void work(Body body, MemorySegment data, long index) throws Exception {
    body.run((int) index, null);
  }

  /** Of no use, but no reason to wait for ever. */
  static void executorsThatAreBusy() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    try (ExecutorService executor = Executors.newSingleThreadExecutor()) {
      Future<?> busy = executor.submit(() -> {
        end.await();
        return null;
      });
      givesTheSameBits(ParallelLoop.of(executor, 3));
      end.countDown();
      busy.get();
      // A call from the executor's only thread.
      same(executor.submit(() -> {
        try (Context context = Context.of(ParallelLoop.of(executor, 3))) {
          return attend(context);
        }
      }).get(), EXPECTED);
    }
  }

  /** Nothing may be thrown through C: the virtual machine would end. */
  static void loopsThatThrow() throws Exception {
    AtomicInteger told = new AtomicInteger();
    Thread caller = new Thread(() -> {
      givesTheSameBits(loop(3, (count, piece) -> {
        piece.run();
        throw new IllegalStateException("of a loop");
      }));
      ExecutorService executor = Executors.newFixedThreadPool(2);
      executor.shutdown();
      givesTheSameBits(ParallelLoop.of(executor, 3));
      givesTheSameBits(loop(3, (count, piece) -> { throw new StackOverflowError("of a loop"); }));
    });
    List<Throwable> thrown = new ArrayList<>();
    caller.setUncaughtExceptionHandler((thread, one) -> {
      thrown.add(one);
      if (told.incrementAndGet() % 2 == 0) throw new IllegalStateException("of a handler");
    });
    caller.start();
    caller.join();
    same(thrown.size(), 9);
    that(thrown.get(0).getMessage().equals("of a loop"), thrown.get(0));
    that(thrown.get(3) instanceof RejectedExecutionException, thrown.get(3));
    that(thrown.get(8) instanceof StackOverflowError, thrown.get(8));
  }

  static void anInterruptedCallerGoesOnAndStaysInterrupted() {
    Thread.currentThread().interrupt();
    try {
      givesTheSameBits(ParallelLoop.common());
      that(Thread.currentThread().isInterrupted(), "the interrupt is lost");
    } finally {
      Thread.interrupted();
    }
  }

  static void plansKeepTheLoopThatTheirContextHas() {
    AtomicInteger runs = new AtomicInteger();
    Context context = Context.of(loop(2, (count, piece) -> runs.incrementAndGet()), "base", Precision.HIGHEST);
    same(context.isaName(), "base");
    Tensor out = Tensor.zeros(1, HEADS, LENGTH, DIM);
    Plan plan = Plan.sdpa(context, QUERY, KEY, VALUE, out, null);
    context.close();
    System.gc();
    plan.run(QUERY.data(), KEY.data(), VALUE.data(), out.data());
    near(out.toFloats(), EXPECTED, 1e-5);
    same(runs.get(), 1);
    plan.close();
    that(!context.isKept(), "nothing needs it");
    refused(Status.UNKNOWN_ISA, () -> Context.of(ParallelLoop.common(), "nonsense", null), "nonsense");
  }

  static void callsOfManyThreadsShareOneContext() throws Exception {
    try (ForkJoinPool pool = new ForkJoinPool(3); Context context = Context.of(ParallelLoop.of(pool, 3))) {
      List<Future<float[]>> calls = new ArrayList<>();
      for (int i = 0; i < 40; ++i) calls.add(pool.submit(() -> attend(context)));
      for (Future<float[]> one : calls) same(one.get(), EXPECTED);
    }
  }
}
