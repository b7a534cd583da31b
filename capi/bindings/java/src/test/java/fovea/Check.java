// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.util.Arrays;

/** What tests say. */
final class Check {
  private Check() {}

  interface Body {
    void run() throws Exception;
  }

  static void that(boolean holds, Object otherwise) {
    if (!holds) throw new AssertionError(otherwise);
  }

  static void same(Object found, Object expected) {
    that(expected.equals(found), "found " + found + ", expected " + expected);
  }

  static void same(float[] found, float... expected) {
    that(Arrays.equals(found, expected), "found " + Arrays.toString(found) + ", expected " + Arrays.toString(expected));
  }

  static void near(float[] found, float[] expected, double tolerance) {
    same(found.length, expected.length);
    for (int i = 0; i < found.length; ++i)
      that(Math.abs(found[i] - expected[i]) <= tolerance,
          "at " + i + " found " + found[i] + ", expected " + expected[i]);
  }

  /** body throws such an exception, whose message has all these words. */
  static <T extends Exception> T refused(Class<T> kind, Body body, String... words) {
    try {
      body.run();
    } catch (Exception thrown) {
      that(kind.isInstance(thrown), "threw " + thrown);
      for (String word : words) that(thrown.getMessage().contains(word), "the message is: " + thrown.getMessage());
      return kind.cast(thrown);
    }
    throw new AssertionError("it was accepted");
  }

  static void refused(Status status, Body body, String... words) {
    same(refused(FoveaException.class, body, words).status(), status);
  }

  /** Any numbers in (-1, 1). */
  static float[] some(int count, int seed) {
    float[] out = new float[count];
    int state = 747796405 * (seed + 1) + 1;
    for (int i = 0; i < count; ++i) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      out[i] = (state >> 8) / 8388608f;
    }
    return out;
  }

  static float[] ones(int count) {
    return filled(count, 1);
  }

  static float[] filled(int count, float number) {
    float[] out = new float[count];
    Arrays.fill(out, number);
    return out;
  }

  static float[] counting(int count) {
    float[] out = new float[count];
    for (int i = 0; i < count; ++i) out[i] = i;
    return out;
  }
}
