// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;

/** Runs every test: static methods without arguments that are not private. No library is needed for that. */
final class Tests {
  private Tests() {}

  public static void main(String[] args) throws ReflectiveOperationException {
    int ran = 0, failed = 0;
    for (Class<?> one : List.of(LayoutsTest.class, WorkedExamples.class, TensorTest.class, StateTest.class, ServingTest.class,
             MhaPlanTest.class, GivenTest.class, GradientsTest.class, ArenaTest.class, ParallelLoopTest.class)) {
      for (Method test : one.getDeclaredMethods()) {
        if (Modifier.isPrivate(test.getModifiers()) || test.isSynthetic() || test.getParameterCount() > 0) continue;
        ++ran;
        try {
          test.invoke(null);
        } catch (InvocationTargetException thrown) {
          ++failed;
          System.out.println("FAILED " + one.getSimpleName() + "." + test.getName());
          thrown.getCause().printStackTrace(System.out);
        }
      }
    }
    System.out.println(ran + " tests, " + failed + " failed; Java " + Runtime.version() + ", fovea " + Fovea.version());
    if (failed > 0 || ran == 0) System.exit(1);
  }
}
