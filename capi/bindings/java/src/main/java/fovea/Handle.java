// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What the library keeps between calls. close() frees it, when no call uses it any more; left out, the garbage
 * collector does. A call on one that was closed is refused with an IllegalStateException.
 */
public abstract sealed class Handle
    implements AutoCloseable permits Context, KvPool, KvSequence, MhaPlan, MhaWeights, PackedMatrix, Plan, PreparedKeys, Schedule {
  private static final Cleaner CLEANER = Cleaner.create();

  interface Destroy {
    void of(MemorySegment pointer);
  }

  /** Apart from the handle, so that the cleaner can have it when the handle is gone. */
  private static final class Owned implements Runnable {
    final MemorySegment pointer;
    final Destroy destroy;
    final Handle[] needed; // those it uses as long as it lives
    final AtomicInteger holds =
        new AtomicInteger(1); // the owner's, and one for each call and each handle that needs it
    final AtomicInteger users = new AtomicInteger(); // calls that read; -1: one that changes
    final AtomicBoolean closed = new AtomicBoolean();

    Owned(MemorySegment pointer, Destroy destroy, Handle[] needed) {
      this.pointer = pointer;
      this.destroy = destroy;
      this.needed = needed;
    }

    @Override
    public void run() {
      if (!closed.getAndSet(true)) letGo();
    }

    void letGo() {
      if (holds.decrementAndGet() > 0) return;
      destroy.of(pointer);
      for (Handle one : needed)
        if (one != null) one.letGo();
    }
  }

  private final Owned owned;

  Handle(MemorySegment pointer, Destroy destroy, Handle... needed) {
    for (Handle one : needed)
      if (one != null) one.hold();
    owned = new Owned(pointer, destroy, needed);
    CLEANER.register(this, owned);
  }

  /** Keeps it until letGo. */
  final MemorySegment hold() {
    while (true) {
      int holds = owned.holds.get();
      if (holds == 0 || owned.closed.get())
        throw new IllegalStateException("this " + getClass().getSimpleName() + " was closed");
      if (owned.holds.compareAndSet(holds, holds + 1)) return owned.pointer;
    }
  }

  final void letGo() {
    owned.letGo();
  }

  /** For those who hold it, closed or not. */
  final MemorySegment pointer() {
    return owned.pointer;
  }

  /** Whether the library still has it, for a call or for another handle after it was closed. */
  final boolean isKept() {
    return owned.holds.get() > 0;
  }

  /** Begins a use of what may change: with others that read it, or alone to change it. C leaves that to its caller. */
  final void begin(boolean changes) {
    while (true) {
      int users = owned.users.get();
      if (users < 0 || (changes && users > 0))
        throw new IllegalStateException("this " + getClass().getSimpleName() + " is in use by another thread");
      if (owned.users.compareAndSet(users, changes ? -1 : users + 1)) return;
    }
  }

  final void end() {
    owned.users.updateAndGet(users -> users < 0 ? 0 : users - 1);
  }

  @Override
  public final void close() {
    owned.run();
  }
}
