// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemorySegment;

/**
 * The sequences of a step, S of them. Tensors are I32 or I64, any stride.
 * <p>Whatever is left out has its default. In C: {@code fovea_step}.
 */
public final class Step {
  private Tensor queryStarts;
  private Tensor keyStarts;
  private Tensor keyLens;
  private Tensor pageIds;
  private Tensor pageStarts;
  private Tensor tree;

  public Step() {}

  /** [S+1], from 0, never falling: sequence s has the tokens from query_starts[s] to query_starts[s+1] - 1 */
  public Step queryStarts(Tensor queryStarts) {
    this.queryStarts = queryStarts;
    return this;
  }

  /** [S+1], likewise, of packed keys; with pages NULL */
  public Step keyStarts(Tensor keyStarts) {
    this.keyStarts = keyStarts;
    return this;
  }

  /** [S]: positions of each sequence in its pages, those of this step's tokens included; with packed keys NULL */
  public Step keyLens(Tensor keyLens) {
    this.keyLens = keyLens;
    return this;
  }

  /**
   * [S,most], a row for each sequence: its pages in the order of positions, each in [0, P), as many of them read
   * as key_lens wants; or, with page_starts, [n]. Of pages before a window's first key any may stand for those
   * that have been given back
   */
  public Step pageIds(Tensor pageIds) {
    this.pageIds = pageIds;
    return this;
  }

  /**
   * [S+1], from 0, never falling: sequence s has the page ids from page_starts[s] to page_starts[s+1] - 1; NULL:
   * page_ids has a row for each
   */
  public Step pageStarts(Tensor pageStarts) {
    this.pageStarts = pageStarts;
    return this;
  }

  /**
   * [T], I64: draft tokens. Bit j of a token's number: it attends the sequence's token j of this step, whose key
   * stands at key_len - (its tokens) + j; of the keys before, all. 0 for every token of a sequence: as without. Of
   * up to 64 tokens each; not with windows, ALiBi or leave-one-out. NULL: none
   */
  public Step tree(Tensor tree) {
    this.tree = tree;
    return this;
  }

  Tensor queryStarts() {
    return queryStarts;
  }

  Tensor keyStarts() {
    return keyStarts;
  }

  Tensor keyLens() {
    return keyLens;
  }

  Tensor pageIds() {
    return pageIds;
  }

  Tensor pageStarts() {
    return pageStarts;
  }

  Tensor tree() {
    return tree;
  }

  static MemorySegment raw(Step options, Call call) {
    if (options == null) return MemorySegment.NULL;
    MemorySegment raw = call.allocate(Layouts.fovea_step.SIZE);
    raw.set(JAVA_LONG, Layouts.fovea_step.struct_size, Layouts.fovea_step.SIZE);
    raw.set(ADDRESS, Layouts.fovea_step.query_starts, call.in(options.queryStarts));
    raw.set(ADDRESS, Layouts.fovea_step.key_starts, call.in(options.keyStarts));
    raw.set(ADDRESS, Layouts.fovea_step.key_lens, call.in(options.keyLens));
    raw.set(ADDRESS, Layouts.fovea_step.page_ids, call.in(options.pageIds));
    raw.set(ADDRESS, Layouts.fovea_step.page_starts, call.in(options.pageStarts));
    raw.set(ADDRESS, Layouts.fovea_step.tree, call.in(options.tree));
    return raw;
  }
}
