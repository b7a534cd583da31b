// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import java.lang.foreign.MemorySegment;

/**
 * The data of a planned run of multi-head attention: for every tensor that was planned a segment or an array that begins
 * with the first element of it in memory. In C: {@code fovea_mha_buffers}.
 */
public final class MhaBuffers {
  static final String[] NAMES = {"query", "key", "value", "out", "keyPages", "valuePages", "keyScales", "valueScales"};
  static final boolean[] WRITES = {false, false, false, true, true, true, true, true};

  final MemorySegment[] data = new MemorySegment[NAMES.length];
  Buffers attention = new Buffers();

  public MhaBuffers() {}

  /** The data of {@code query}. */
  public MhaBuffers query(MemorySegment query) {
    data[0] = query;
    return this;
  }

  /** The data of {@code query}. */
  public MhaBuffers query(float[] query) {
    data[0] = MemorySegment.ofArray(query);
    return this;
  }

  /** The data of {@code query}. */
  public MhaBuffers query(short[] query) {
    data[0] = MemorySegment.ofArray(query);
    return this;
  }

  /** The data of {@code key}. */
  public MhaBuffers key(MemorySegment key) {
    data[1] = key;
    return this;
  }

  /** The data of {@code key}. */
  public MhaBuffers key(float[] key) {
    data[1] = MemorySegment.ofArray(key);
    return this;
  }

  /** The data of {@code key}. */
  public MhaBuffers key(short[] key) {
    data[1] = MemorySegment.ofArray(key);
    return this;
  }

  /** The data of {@code value}. */
  public MhaBuffers value(MemorySegment value) {
    data[2] = value;
    return this;
  }

  /** The data of {@code value}. */
  public MhaBuffers value(float[] value) {
    data[2] = MemorySegment.ofArray(value);
    return this;
  }

  /** The data of {@code value}. */
  public MhaBuffers value(short[] value) {
    data[2] = MemorySegment.ofArray(value);
    return this;
  }

  /** The data of {@code out}. */
  public MhaBuffers out(MemorySegment out) {
    data[3] = out;
    return this;
  }

  /** The data of {@code out}. */
  public MhaBuffers out(float[] out) {
    data[3] = MemorySegment.ofArray(out);
    return this;
  }

  /** The data of {@code out}. */
  public MhaBuffers out(short[] out) {
    data[3] = MemorySegment.ofArray(out);
    return this;
  }

  /** The data of {@code keyPages}. */
  public MhaBuffers keyPages(MemorySegment keyPages) {
    data[4] = keyPages;
    return this;
  }

  /** The data of {@code keyPages}. */
  public MhaBuffers keyPages(byte[] keyPages) {
    data[4] = MemorySegment.ofArray(keyPages);
    return this;
  }

  /** The data of {@code keyPages}. */
  public MhaBuffers keyPages(float[] keyPages) {
    data[4] = MemorySegment.ofArray(keyPages);
    return this;
  }

  /** The data of {@code keyPages}. */
  public MhaBuffers keyPages(short[] keyPages) {
    data[4] = MemorySegment.ofArray(keyPages);
    return this;
  }

  /** The data of {@code valuePages}. */
  public MhaBuffers valuePages(MemorySegment valuePages) {
    data[5] = valuePages;
    return this;
  }

  /** The data of {@code valuePages}. */
  public MhaBuffers valuePages(byte[] valuePages) {
    data[5] = MemorySegment.ofArray(valuePages);
    return this;
  }

  /** The data of {@code valuePages}. */
  public MhaBuffers valuePages(float[] valuePages) {
    data[5] = MemorySegment.ofArray(valuePages);
    return this;
  }

  /** The data of {@code valuePages}. */
  public MhaBuffers valuePages(short[] valuePages) {
    data[5] = MemorySegment.ofArray(valuePages);
    return this;
  }

  /** The data of {@code keyScales}. */
  public MhaBuffers keyScales(MemorySegment keyScales) {
    data[6] = keyScales;
    return this;
  }

  /** The data of {@code keyScales}. */
  public MhaBuffers keyScales(short[] keyScales) {
    data[6] = MemorySegment.ofArray(keyScales);
    return this;
  }

  /** The data of {@code valueScales}. */
  public MhaBuffers valueScales(MemorySegment valueScales) {
    data[7] = valueScales;
    return this;
  }

  /** The data of {@code valueScales}. */
  public MhaBuffers valueScales(short[] valueScales) {
    data[7] = MemorySegment.ofArray(valueScales);
    return this;
  }

  /** A layer's pages, with its scales if it has any. */
  public MhaBuffers pages(Pages pages) {
    Tensor[] all = {pages.keys(), pages.values(), pages.keyScales(), pages.valueScales()};
    for (int i = 0; i < all.length; ++i) data[4 + i] = all[i] == null ? null : all[i].data();
    return this;
  }

  /** The data of the tensors in {@code options.attention} and {@code options.score}. */
  public MhaBuffers attention(Buffers attention) {
    this.attention = attention;
    return this;
  }
}
