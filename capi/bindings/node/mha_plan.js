// Calls of multi-head attention that are planned once and run often.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { native, bufferNames, Owner, asTensor, inTurn, like } = require('./base.js');

const rows = bufferNames.slice(0, 4);
const others = bufferNames.slice(4).filter((name) => !name.endsWith('Scales')); // which are the pages'
const runExtras = [...rows.slice(1), 'pages', ...others];

/** A checked call with everything but the data decided, which MhaWeights's plan makes. */
class MhaPlan extends Owner {
  constructor(handle, schedule) {
    super(handle);
    this.schedule = schedule;
    this.workspace = new Uint8Array(0);
  }

  get workspaceSize() {
    return native.about('workspaceSize', this.handle);
  }

  /** Runs the call on tensors laid out as those that were planned. */
  runSync(query, options = {}) {
    const { tensors, result } = this.dataOf(query, options);
    const size = this.workspaceSize;
    if (this.workspace.length < size) this.workspace = new Uint8Array(size);
    native.mhaRun(false, this, this.workspace, tensors);
    return result;
  }

  /** Several runs may be under way at once, each with a workspace of its own; over one schedule they take turns. */
  async run(query, options = {}) {
    const { tensors, result } = this.dataOf(query, options);
    await inTurn([this.schedule], () => native.mhaRun(true, this, new Uint8Array(this.workspaceSize), tensors));
    return result;
  }

  // In the addon's order.
  dataOf(query, { pages, ...given }) {
    const wrong = Object.keys(given).find((key) => !runExtras.includes(key));
    if (wrong) throw new TypeError(`a run has no ${wrong}; it has ${runExtras.join(', ')}`);
    const result = asTensor(given.out) ?? like(query);
    const data = { ...given, query, out: result };
    const named = bufferNames.map((name) => (rows.includes(name) || others.includes(name) ? asTensor(data[name]) : undefined));
    return { tensors: [...named, ...this.pagesOf(pages)], result };
  }

  pagesOf(pages) {
    if (pages === undefined || pages === null) return [undefined, undefined, undefined, undefined];
    if (!this.schedule) throw new TypeError('pages are of a schedule, which was not planned with');
    const found = this.schedule.pagesOf(pages);
    return [0, 1, 2, 3].map((n) => found[n]);
  }
}

module.exports = { MhaPlan };
