// SPDX-License-Identifier: Apache-2.0
package fovea;

import static fovea.Check.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Arenas that are closed while C uses their memory: they stay open till it has ended. */
final class ArenaTest {
  private ArenaTest() {}

  /** A loop that tries to close arenas in the midst of a call. */
  private static Context closing(List<Arena> arenas, AtomicInteger refused) {
    ParallelLoop loop = new ParallelLoop() {
      @Override
      public int threads() {
        return 2;
      }

      @Override
      public void run(int count, Runnable piece) {
        for (Arena arena : arenas) {
          try {
            arena.close();
          } catch (IllegalStateException acquired) {
            refused.incrementAndGet();
          }
        }
        for (int i = 0; i < count; ++i) piece.run();
      }
    };
    return Context.of(loop);
  }

  static void anArenaIsNotClosedUnderACall() {
    for (boolean shared : new boolean[] {false, true}) {
      List<Arena> arenas = new ArrayList<>();
      List<Tensor> tensors = new ArrayList<>();
      for (int i = 0; i < 6; ++i) { // more than most calls have
        arenas.add(shared ? Arena.ofShared() : Arena.ofConfined());
        tensors.add(Tensor.allocate(arenas.get(i), Dtype.F32, i == 4 ? new long[] {1, 4, 256} : new long[] {1, 4, 256, 64}));
      }
      AtomicInteger refused = new AtomicInteger();
      try (Context context = closing(arenas, refused)) {
        Tensor sinks = Tensor.allocate(arenas.get(5), Dtype.F32, 4);
        AttentionOptions options = new AttentionOptions().logSumExp(tensors.get(4)).sinks(sinks);
        Fovea.sdpa(context, tensors.get(0), tensors.get(1), tensors.get(2), tensors.get(3), options);
        same(refused.get(), 6);
        that(Float.isFinite(tensors.get(4).toFloats()[1023]), "the call computed nothing");
        try (Plan plan = Plan.sdpa(context, tensors.get(0), tensors.get(1), tensors.get(2), tensors.get(3), null)) {
          plan.run(tensors.get(0).data(), tensors.get(1).data(), tensors.get(2).data(), tensors.get(3).data());
          same(refused.get(), 6 + 4);
          that(!arenas.get(5).scope().isAlive(), "an arena that no call uses was kept open");
          refused(IllegalStateException.class, () -> Fovea.exp(context, sinks, sinks), "closed");
          MemorySegment closed = tensors.get(5).data(), query = tensors.get(0).data();
          refused(IllegalStateException.class, () -> plan.run(query, closed, query, tensors.get(3).data()), "closed");
        }
      }
      for (Arena arena : arenas)
        if (arena.scope().isAlive()) arena.close(); // no call holds it any more
    }
  }

  static void anotherThreadMayCloseAnArenaAtAnyTime() throws InterruptedException {
    for (int i = 0; i < 200; ++i) {
      Arena arena = Arena.ofShared();
      Tensor x = Tensor.allocate(arena, Dtype.F32, 1, 4, 64, 64), out = Tensor.zeros(1, 4, 64, 64);
      Thread closer = new Thread(() -> {
        while (arena.scope().isAlive()) {
          try {
            arena.close();
          } catch (IllegalStateException acquired) {
            Thread.onSpinWait();
          }
        }
      });
      closer.start();
      try {
        for (int n = 0; n < 50; ++n) Fovea.sdpa(null, x, x, x, out, null);
      } catch (IllegalStateException closed) {
        that(!arena.scope().isAlive(), closed);
      }
      closer.join();
    }
  }
}
