// Many sequences at once: pools of keys and values, schedules, sequences of different lengths in one call, 8 bits.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const { markAsUntransferable } = require('node:worker_threads');
const { native, bufferNames, dtypes, named, Tensor, Owner, asTensor, both, featuresOf, read, refuse, withLast } = require('./base.js');

// ---- pools -----------------------------------------------------------------------------------------------------------

// Sequences whose objects are gone are closed.
const gone = new FinalizationRegistry(({ pool, number }) => pool.giveBack(number));

const arrayOf = new Map([[dtypes.F32, Float32Array], [dtypes.F16, Uint16Array], [dtypes.BF16, Uint16Array], [dtypes.I8, Int8Array],
  [dtypes.U8, Uint8Array]]);
const nameOf = new Map([...named].map(([name, type]) => [type, name]));

/** Keys and values of many sequences, in pages that sequences share where they begin alike. */
class KVPool extends Owner {
  constructor(sizes) {
    super(native.kvPoolCreate(false, read('KVPoolSizes', { layers: 1, ...sizes })));
    this.layers = Number(sizes.layers ?? 1);
    this.sequences = Number(sizes.sequences);
    this.memory = new Map();
    const [pages, , pageSize] = this.keys(0).shape;
    Object.assign(this, { pages, pageSize });
  }

  open() {
    return new Sequence(this, native.kvPoolOpen(false, this));
  }

  /** A sequence of what save gave. */
  restore(bytes) {
    return new Sequence(this, native.kvPoolRestore(false, this, bytes));
  }

  /** Makes room: of a Map, or of pairs, of sequences and how many positions they grow by. All or nothing. */
  step(growth, { context } = {}) {
    const pairs = [...growth];
    const sequences = pairs.map(([sequence]) => this.own(sequence));
    const numbers = BigInt64Array.from(sequences, (sequence) => BigInt(sequence.openNumber()));
    const tokens = BigInt64Array.from(pairs, ([, count]) => BigInt(count));
    const made = native.kvPoolStep(false, context, this, new Tensor(numbers), new Tensor(tokens));
    for (const sequence of sequences) sequence.changes += 1;
    return new Step(this, sequences, made);
  }

  own(sequence) {
    if (!(sequence instanceof Sequence)) throw new TypeError('a step is of sequences and how many positions they grow by');
    if (sequence.pool !== this) refuse('FOVEA_BAD_VALUE', 'the sequence is of another pool');
    return sequence;
  }

  /** A layer's keys [pages, Hkv, pageSize, D], over the pool's own memory. */
  keys(layer) {
    return this.pagesOf(layer, 'keys');
  }

  values(layer) {
    return this.pagesOf(layer, 'values');
  }

  /** Of 8 bits; else undefined. */
  keyScales(layer) {
    return this.pagesOf(layer, 'keyScales');
  }

  valueScales(layer) {
    return this.pagesOf(layer, 'valueScales');
  }

  pagesOf(layer, what) {
    const name = `${what} ${layer}`;
    if (!this.memory.has(name)) {
      const found = native.poolMemory(this, layer, what);
      if (!found && !what.endsWith('Scales')) refuse('FOVEA_BAD_VALUE', `layer is ${layer}, expected one of ${this.layers}`);
      this.memory.set(name, found && tensorOver(found));
    }
    return this.memory.get(name);
  }

  get freePages() {
    return native.about('freePages', this.handle);
  }

  get size() {
    return native.about('size', this.handle);
  }

  giveBack(number) {
    if (!this.closed) native.kvPoolClose(false, this, number);
  }

  close() {
    this.closed = true;
    this.memory.clear();
    super.close();
  }
}

// Another thread could outlive the pool.
function tensorOver({ buffer, shape, dtype }) {
  markAsUntransferable(buffer);
  const type = BigInt(dtype);
  return new Tensor(new (arrayOf.get(type))(buffer), shape, { dtype: nameOf.get(type) });
}

/** A sequence in a pool, which KVPool's open makes. */
class Sequence {
  constructor(pool, number) {
    this.pool = pool;
    this.number = number;
    this.changes = 0;
    gone.register(this, { pool, number }, this);
  }

  /** A sequence that begins as the first length positions of this one. */
  fork(length = this.length) {
    return new Sequence(this.pool, native.kvPoolFork(false, this.pool, this.openNumber(), length));
  }

  truncate(length) {
    native.kvPoolTruncate(false, this.pool, this.openNumber(), length);
    this.changes += 1;
  }

  /** Gives back the pages that hold only positions before first. */
  drop(first) {
    native.kvPoolDrop(false, this.pool, this.openNumber(), first);
    this.changes += 1;
  }

  save() {
    const bytes = new Uint8Array(native.about('savedSize', this.pool.handle, this.openNumber()));
    native.kvPoolSave(false, this.pool, this.openNumber(), bytes);
    return bytes;
  }

  get length() {
    return native.about('length', this.pool.handle, this.openNumber());
  }

  close() {
    if (this.number === undefined) return;
    gone.unregister(this);
    this.pool.giveBack(this.number);
    this.number = undefined;
    this.changes += 1;
  }

  openNumber() {
    if (this.number === undefined) refuse('FOVEA_BAD_VALUE', 'the sequence was closed');
    return this.number;
  }
}

/** What a step does to a pool, which KVPool's step makes; out of date as soon as one of its sequences changes again. */
class Step {
  constructor(pool, sequences, tensors) {
    Object.assign(this, { pool, sequences, ...tensors });
    this.changes = sequences.map((sequence) => sequence.changes);
  }

  get isCurrent() {
    return this.sequences.every((sequence, n) => sequence.changes === this.changes[n]);
  }
}

// ---- schedules -------------------------------------------------------------------------------------------------------

const scheduleExtras = ['query', 'pool', 'key', 'value', 'out', 'sequences', 'keyLen', 'pageIds', 'dtype', 'score', 'context'];
const shared = ['alibiSlopes', 'sinks']; // what runs take of those that the schedule was made with

// A shape as a tensor without data.
function laidOut(given, dtype) {
  if (!Array.isArray(given)) return asTensor(given);
  return dtype === undefined ? Tensor.shapeOnly(given) : Tensor.shapeOnly(given, Uint16Array, { dtype });
}

/** A plan of attention whose sequences change from step to step. */
class Schedule extends Owner {
  constructor(options) {
    const { pool, dtype, score, context, keyLen } = options;
    if (pool !== undefined && !(pool instanceof KVPool)) throw new TypeError('pool must be a KVPool');
    const [key, value, keyScales, valueScales] = pool ? poolLayer(pool, 0) : [options.key, options.value].map((x) => laidOut(x, dtype));
    const query = laidOut(options.query, dtype);
    const valueDim = value ? featuresOf(value) : 0;
    const out = options.out ? laidOut(options.out, dtype) : laidOut([...query.shape.slice(0, -1), valueDim], dtype ?? query.dtype);
    const rest = { ...read('AttentionOptions', options, scheduleExtras) };
    if (keyScales) rest.keyScales = keyScales;
    if (valueScales) rest.valueScales = valueScales;
    const limits = { sequences: options.sequences ?? pool?.sequences, keyLen, pageIds: options.pageIds };
    super(native.scheduleCreate(false, context, read('Score', score), query, key, value, out, rest, limits));
    this.pool = pool;
    this.valueDim = valueDim;
    this.shared = Object.fromEntries(shared.filter((name) => rest[name]).map((name) => [name, rest[name]]));
  }

  /** Sets a step: a pool's, or { queryStarts, keyStarts or keyLens, pageIds, pageStarts, tree }. */
  set(step) {
    if (step instanceof Step) {
      if (step.pool !== this.pool) refuse('FOVEA_BAD_VALUE', "the step is of another pool than the schedule's");
      expectCurrent(step);
      const { queryStarts, keyLens, pageIds, pageStarts } = step;
      native.scheduleSet(false, this, read('StepTensors', { queryStarts, keyLens, pageIds, pageStarts }));
      this.step = step;
      return;
    }
    native.scheduleSet(false, this, read('StepTensors', step));
    this.step = undefined;
  }

  // The tensors of a layer: of the pool's, by number, or given.
  pagesOf(layer) {
    if (this.step) expectCurrent(this.step);
    if (Array.isArray(layer)) return layer.map(asTensor);
    if (!this.pool) throw new TypeError('layer must be [keys, values], as the schedule was made without a pool');
    return poolLayer(this.pool, layer);
  }

  /** Where each token of the present step stands in its sequence. */
  get positions() {
    return native.about('positions', this.handle);
  }

  get tokens() {
    return this.positions.length;
  }

  /** How many tasks each phase of a run has. */
  get tasks() {
    return native.about('tasks', this.handle);
  }

  get workspaceSize() {
    return native.about('workspaceSize', this.handle);
  }

  get description() {
    return native.about('describe', this.handle);
  }
}

function poolLayer(pool, layer) {
  return [pool.keys(layer), pool.values(layer), pool.keyScales(layer), pool.valueScales(layer)];
}

function expectCurrent(step) {
  if (!step.isCurrent) refuse('FOVEA_BAD_VALUE', 'the step is out of date: one of its sequences has changed since the pool made it');
}

both(Schedule.prototype, 'append', 'scheduleAppend', function (layer, key, value, { rotary } = {}) {
  const [keyPages, pagesOfValues, keyScales, valueScales] = this.pagesOf(layer);
  const isLatent = (value === undefined || value === null) && Array.isArray(layer); // values are features of the keys
  const valuePages = isLatent ? undefined : pagesOfValues;
  const rest = { rotary: read('RotaryOptions', rotary), keyScales, valueScales };
  return { args: [this, asTensor(key), asTensor(value), keyPages, valuePages, rest], result: undefined, users: [this] };
});

const runExtras = ['out', 'logSumExp', ...shared];

function runOf(schedule, query, layer, options) {
  const wrong = Object.keys(options).find((key) => !runExtras.includes(key));
  if (wrong) throw new TypeError(`a run has no ${wrong}; it has ${runExtras.join(', ')}`);
  const q = asTensor(query);
  const [key, value, keyScales, valueScales] = schedule.pagesOf(layer);
  const result = asTensor(options.out) ?? withLast(q, schedule.valueDim);
  const given = { ...schedule.shared, query: q, key, value, out: result, keyScales, valueScales };
  for (const name of ['logSumExp', ...shared]) if (options[name]) given[name] = asTensor(options[name]);
  return { args: [schedule, bufferNames.map((name) => given[name])], result, users: [schedule] };
}
both(Schedule.prototype, 'run', 'scheduleRun', function (query, layer, options = {}) {
  return runOf(this, query, layer, options);
});

// Sequences of different lengths, one behind the other, in one call.
both(exports, 'varlenAttention', 'scheduleRun', (query, key, value, queryStarts, keyStarts, options = {}) => {
  const [q, k, v, starts] = [query, key, value, queryStarts].map(asTensor);
  const { out, logSumExp, ...rest } = options;
  const result = asTensor(out) ?? withLast(q, featuresOf(v));
  const sums = logSumExp ? { logSumExp: asTensor(logSumExp) } : {};
  const sequences = Math.max((starts.shape[0] ?? 0) - 1, 1);
  const schedule = new Schedule({ ...rest, ...sums, query: q, key: k, value: v, out: result, sequences });
  schedule.set({ queryStarts: starts, keyStarts });
  return runOf(schedule, q, [k, v, asTensor(rest.keyScales), asTensor(rest.valueScales)], { out: result, ...sums });
});

// ---- 8 and 4 bits ----------------------------------------------------------------------------------------------------

both(exports, 'quantize', 'quantize', (x, { group, bits = 8, context } = {}) => {
  const given = asTensor(x), features = given.shape.at(-1) ?? 0;
  if (bits !== 8 && bits !== 4) refuse('FOVEA_BAD_VALUE', `bits is ${bits}, expected 8 or 4`);
  const size = group ?? (features % 32 === 0 && features > 0 ? 32 : Math.max(features, 1));
  if (!(size > 0) || features % size !== 0) {
    refuse('FOVEA_BAD_SHAPE', `group is ${size}, expected one that divides the ${features} features of x`);
  }
  const q = bits === 4 ? Tensor.zeros([...given.shape.slice(0, -1), features >> 1], Uint8Array, { dtype: 'u8' })
    : Tensor.zeros(given.shape, Int8Array);
  const scales = Tensor.zeros([...given.shape.slice(0, -1), features / size * (8 / bits)], Uint16Array, { dtype: 'f16' });
  return { args: [context, given, q, scales], result: () => ({ q, scales }) };
});

both(exports, 'dequantize', 'dequantize', (q, scales, options = {}) => {
  const given = asTensor(q), result = asTensor(options.out) ?? Tensor.zeros([...given.shape.slice(0, -1), featuresOf(given)]);
  return { args: [options.context, given, asTensor(scales), result], result };
});

Object.assign(exports, { KVPool, Sequence, Step, Schedule, laidOut });
