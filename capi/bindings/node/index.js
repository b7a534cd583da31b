// fovea for Node: the operations of the C library on typed arrays, at once (…Sync) or off the event loop (promises).
//
// Shapes, formulas and errors are those of the C interface, whose manual is fovea.h. Errors have the status's name as their
// code: 'FOVEA_BAD_SHAPE'.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const path = require('node:path');
const { markAsUntransferable } = require('node:worker_threads');
const { help } = require('./help.js');
const native = load(process.env.FOVEA_ADDON || path.join(__dirname, 'build', 'fovea.node'));
const { options: known, buffers: bufferNames, dtypes, maxRank } = require('./generated/options.js');

// The addon, which is compiled when the package is installed, and finds the library where that was then.
function load(file) {
  try {
    return require(file);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND' && error.code !== 'ERR_DLOPEN_FAILED') throw error;
    const [first] = error.message.split('\n');
    const message = ['fovea: its addon, or the library under it, is not there: ' + first, ...help(__dirname)].join('\n');
    throw Object.assign(new Error(message), { code: error.code });
  }
}

const Float16 = globalThis.Float16Array; // of Node 24
const types = new Map([
  [Float32Array, dtypes.F32], [Int32Array, dtypes.I32], [BigInt64Array, dtypes.I64], [Uint8Array, dtypes.BOOL],
  [Int8Array, dtypes.I8],
  ...(Float16 ? [[Float16, dtypes.F16]] : []),
]);
const halves = new Map([['f16', dtypes.F16], ['bf16', dtypes.BF16]]);

// The number of an element type. A Uint16Array's elements are what dtype says.
function typeOf(arrayType, dtype) {
  const type = arrayType === Uint16Array ? halves.get(dtype) : types.get(arrayType);
  if (type !== undefined && (dtype === undefined || halves.get(dtype) === type)) return type;
  if (arrayType === Uint16Array) return refuse('FOVEA_BAD_DTYPE', "dtype must say what a Uint16Array holds: 'f16' or 'bf16'");
  if (type !== undefined) return refuse('FOVEA_BAD_DTYPE', `dtype ${dtype} is of a Uint16Array, not of a ${arrayType.name}`);
  return refuse('FOVEA_BAD_DTYPE', 'data must be a Float32Array, Uint16Array, Int32Array, BigInt64Array, Uint8Array or Int8Array');
}

// What the addon is given. A Float16Array, which N-API has no name for, goes as an Int16Array over the same memory: nothing
// else is one, so that it is not taken for bfloat16, as a Uint16Array may be.
const memoryOf = !Float16 ? (data) => data
  : (data) => (data instanceof Float16 ? new Int16Array(data.buffer, data.byteOffset, data.length) : data);

function refuse(code, message) {
  throw Object.assign(new Error(message), { code });
}

function sizeOf(shape) {
  let count = 1;
  for (const size of shape) {
    if (!Number.isInteger(size) || size < 0) refuse('FOVEA_BAD_SHAPE', `shape is [${shape}], expected whole numbers from 0 on`);
    count *= size;
  }
  if (!Number.isSafeInteger(count)) refuse('FOVEA_SIZE_OVERFLOW', `shape [${shape}] has too many elements`);
  return count;
}

/** A typed array with a shape and strides in elements. It is a view: the array stays whose it is. */
class Tensor {
  constructor(data, shape = [data.length], { strides, offset = 0, dtype } = {}) {
    const type = typeOf(data?.constructor, dtype);
    const count = sizeOf(shape);
    if (!strides && count !== data.length) {
      refuse('FOVEA_BAD_SHAPE', `shape [${shape}] has ${count} elements, the array ${data.length}`);
    }
    describe(this, type, shape, strides, offset);
    this.data = data;
    this.memory = memoryOf(data);
    Object.freeze(this);
  }

  /** A row-major tensor without data, for plans. */
  static shapeOnly(shape, arrayType = Float32Array, { dtype } = {}) {
    const tensor = Object.create(Tensor.prototype);
    sizeOf(shape);
    describe(tensor, typeOf(arrayType, dtype), shape);
    return Object.freeze(tensor);
  }

  static zeros(shape, arrayType = Float32Array, { dtype } = {}) {
    return new Tensor(new arrayType(sizeOf(shape)), shape, { dtype });
  }

  /** 'f16' or 'bf16' of 16-bit elements, else undefined. */
  get dtype() {
    for (const [name, type] of halves) if (this.view[0] === type) return name;
    return undefined;
  }
}

// What the addon reads: dtype, rank, offset, sizes, strides.
function describe(tensor, type, shape, strides, offset = 0) {
  if (shape.length > maxRank) refuse('FOVEA_BAD_RANK', `shape has ${shape.length} axes, expected at most ${maxRank}`);
  if (strides && strides.length !== shape.length) {
    refuse('FOVEA_BAD_STRIDE', `${strides.length} strides for ${shape.length} axes`);
  }
  const view = new BigInt64Array(3 + 2 * maxRank);
  view[0] = type;
  view[1] = BigInt(shape.length);
  view[2] = BigInt(offset);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; --axis) {
    view[3 + axis] = BigInt(shape[axis]);
    view[3 + maxRank + axis] = BigInt(strides ? strides[axis] : step);
    step *= Math.max(shape[axis], 1);
  }
  tensor.view = view;
  tensor.shape = Object.freeze([...shape]);
}

const asTensor = (value) => (ArrayBuffer.isView(value) ? new Tensor(value) : value);

// ---- options ---------------------------------------------------------------------------------------------------------

const nested = { attention: 'AttentionOptions', score: 'Score', rotary: 'RotaryOptions' };

// Options with typed arrays made tensors. A property that there is none of is an error, not passed over.
function read(kind, given, others = []) {
  if (given === undefined || given === null) return undefined;
  const made = {};
  for (const [key, value] of Object.entries(given)) {
    if (known[kind].includes(key)) {
      made[key] = nested[key] && kind === 'MhaOptions' ? read(nested[key], value) : asTensor(value);
    } else if (!others.includes(key)) {
      throw new TypeError(`${kind} has no ${key}; it has ${[...known[kind], ...others].join(', ')}`);
    }
  }
  return made;
}

// ---- calls -----------------------------------------------------------------------------------------------------------

// What is returned has the element type of an operation's first tensor; which types it takes the library says.
function zerosOf(tensor, shape = tensor.shape) {
  const { dtype } = tensor;
  if (dtype === undefined) return Tensor.zeros(shape);
  return tensor.data instanceof Uint16Array ? Tensor.zeros(shape, Uint16Array, { dtype }) : Tensor.zeros(shape, Float16);
}
const like = (x) => zerosOf(asTensor(x));
const withLast = (query, last) => zerosOf(query, [...query.shape.slice(0, -1), last]);

// Axes before the last two are of one size in both matrices, or 1 or missing in one of them.
function productShape(left, right) {
  const [a, b] = [left, right].map(({ shape }) => shape.slice(0, -2));
  const [longer, shorter] = a.length > b.length ? [a, b] : [b, a];
  const missing = longer.length - shorter.length;
  const batch = longer.map((size, axis) => (size === 1 && axis >= missing ? shorter[axis - missing] : size));
  return [...batch, left.shape.at(-2), right.shape.at(-1)];
}

// Asynchronous calls that use a schedule or prepared keys are made one after the other, in the order they were asked for.
function inTurn(users, start) {
  const waiting = users.filter(Boolean);
  if (waiting.length === 0) return start();
  const turn = Promise.all(waiting.map((user) => user.turn)).then(start);
  for (const user of waiting) user.turn = turn.catch(() => {});
  return turn;
}

// An operation in both forms. prepare gives the addon's arguments, what is returned, and which objects are used in turn.
function both(target, name, operation, prepare) {
  target[`${name}Sync`] = function (...given) {
    const { args, result } = prepare.apply(this, given);
    const made = native[operation](false, ...args);
    return result instanceof Function ? result(made) : result;
  };
  target[name] = async function (...given) {
    const { args, result, users = [] } = prepare.apply(this, given);
    const made = await inTurn(users, () => native[operation](true, ...args));
    return result instanceof Function ? result(made) : result;
  };
}

// Of x in place, or into options.out: most operations have this form.
function elementwise(name, kind) {
  both(exports, name, name, (x, options = {}) => {
    const result = asTensor(options.out) ?? like(x);
    const extra = kind ? [read(kind, options, ['out', 'context'])] : [];
    return { args: [options.context, asTensor(x), result, ...extra], result };
  });
}

const attentionExtras = ['out', 'context'];

both(exports, 'sdpa', 'sdpa', (query, key, value, options = {}) => {
  const [q, k, v] = [query, key, value].map(asTensor);
  const result = asTensor(options.out) ?? withLast(q, v.shape.at(-1));
  return { args: [options.context, q, k, v, result, read('AttentionOptions', options, attentionExtras)], result };
});

both(exports, 'attention', 'attention', (score, query, key, value, options = {}) => {
  const [q, k, v] = [query, key, value].map(asTensor);
  const result = asTensor(options.out) ?? withLast(q, v.shape.at(-1));
  const [scores, rest] = [read('Score', score), read('AttentionOptions', options, attentionExtras)];
  return { args: [options.context, scores, q, k, v, result, rest], result };
});

both(exports, 'kernelRegression', 'kernelRegression', (queries, inputs, targets, options = {}) => {
  const [q, x, y] = [queries, inputs, targets].map(asTensor);
  const result = asTensor(options.out) ?? zerosOf(q, [q.shape[0], ...y.shape.slice(1)]);
  return { args: [options.context, q, x, y, result, read('KernelRegressionOptions', options, attentionExtras)], result };
});

both(exports, 'mergeStates', 'mergeStates', (outs, lses, options = {}) => {
  const [parts, sums] = [outs, lses].map(asTensor);
  const result = asTensor(options.out) ?? zerosOf(parts, parts.shape.slice(1));
  return { args: [options.context, parts, sums, result, asTensor(options.logSumExp)], result };
});

both(exports, 'maskedSoftmax', 'maskedSoftmax', (x, validLens, options = {}) => {
  const result = asTensor(options.out) ?? like(x);
  const rest = read('MaskedSoftmaxOptions', options, attentionExtras);
  return { args: [options.context, asTensor(x), asTensor(validLens), result, rest], result };
});

both(exports, 'matmul', 'matmul', (a, b, options = {}) => {
  const [left, right] = [asTensor(a), asTensor(b)];
  const result = asTensor(options.out) ?? zerosOf(left, productShape(left, right));
  return { args: [options.context, left, right, result], result };
});

both(exports, 'gemm', 'gemm', (a, b, options = {}) => {
  const [left, right] = [asTensor(a), asTensor(b)];
  const result = asTensor(options.out) ?? zerosOf(left, productShape(left, right));
  return { args: [options.context, left, right, result, read('GemmOptions', options, attentionExtras)], result };
});

for (const name of ['softmax', 'logSoftmax']) {
  both(exports, name, name, (x, axis = -1, options = {}) => {
    const result = asTensor(options.out) ?? like(x);
    return { args: [options.context, asTensor(x), axis, result], result };
  });
}

both(exports, 'activation', 'activation', (kind, x, options = {}) => {
  const result = asTensor(options.out) ?? like(x);
  return { args: [options.context, kind, asTensor(x), result], result };
});

both(exports, 'positionalEncoding', 'positionalEncoding', (shape, options = {}) => {
  const result = asTensor(options.out) ?? Tensor.zeros(shape);
  return { args: [options.context, result, read('PositionalEncodingOptions', options, attentionExtras)], result };
});

elementwise('exp');
elementwise('tanh');
elementwise('addPositionalEncoding', 'PositionalEncodingOptions');
elementwise('rotary', 'RotaryOptions');
elementwise('layerNorm', 'LayerNormOptions');
elementwise('rmsNorm', 'RmsNormOptions');

function rotaryFrequencies(rotaryDim, options) {
  const [frequencies, factor] = [Tensor.zeros([rotaryDim / 2]), Tensor.zeros([1])];
  native.rotaryFrequencies(false, frequencies, factor, read('RotaryFrequenciesOptions', options));
  return { frequencies, attentionFactor: factor.data[0] };
}

function alibiSlopes(heads) {
  const result = Tensor.zeros([heads]);
  native.alibiSlopes(false, result);
  return result;
}

// ---- what is kept between calls --------------------------------------------------------------------------------------

class Owner {
  constructor(handle) {
    this.handle = handle;
    this.turn = Promise.resolve();
  }

  /** Frees it, when no call uses it any more. Left out, the garbage collector does. */
  close() {
    native.close(this.handle);
  }
}

class Context extends Owner {
  constructor({ maxThreads = 0, maxIsa, precision } = {}) {
    super(native.contextCreate(maxThreads, maxIsa, precision));
  }

  get threads() {
    return native.about('threads', this.handle);
  }

  get isaName() {
    return native.about('isaName', this.handle);
  }
}

class PackedMatrix extends Owner {
  get size() {
    return native.about('size', this.handle);
  }
}
const asPacked = (made) => new PackedMatrix(made);
both(PackedMatrix, 'pack', 'matmulPack', (b, options = {}) => ({
  args: [options.context, asTensor(b), read('MatmulPackOptions', options, ['context'])], result: asPacked,
}));
both(PackedMatrix, 'packLinear', 'linearPack', (weight, options = {}) => ({
  args: [options.context, asTensor(weight), read('LinearPackOptions', options, ['context'])], result: asPacked,
}));
// How many columns there are only its packer knows: out has to be given.
both(PackedMatrix.prototype, 'multiply', 'matmulPacked', function (a, options) {
  const result = asTensor(options.out);
  return { args: [options.context, asTensor(a), this, result], result };
});
both(PackedMatrix.prototype, 'linear', 'linear', function (x, options) {
  const result = asTensor(options.out);
  return { args: [options.context, asTensor(x), this, result, read('LinearOptions', options, attentionExtras)], result };
});

class MhaWeights extends Owner {
  get size() {
    return native.about('size', this.handle);
  }
}
both(MhaWeights, 'pack', 'mhaWeightsCreate', (parameters, { context } = {}) => ({
  args: [context, read('MhaParameters', parameters)], result: (made) => new MhaWeights(made),
}));

const mhaExtras = [...attentionExtras, 'key', 'value', 'pages'];

// pages: a layer of the schedule's pool, or its pages as tensors.
function mhaOptions({ pages, ...options }) {
  const made = read('MhaOptions', options, mhaExtras);
  if (pages === undefined || pages === null) return made;
  if (!(options.schedule instanceof Schedule)) throw new TypeError('pages are of a schedule, which is missing');
  const [keyPages, valuePages, keyScales, valueScales] = options.schedule.pagesOf(pages);
  return { ...made, keyPages, valuePages, keyScales, valueScales };
}

both(MhaWeights.prototype, 'attend', 'multiHeadAttention', function (query, options = {}) {
  const result = asTensor(options.out) ?? like(query);
  const inputs = [query, options.key, options.value].map(asTensor);
  const rest = mhaOptions(options);
  return { args: [options.context, this, ...inputs, result, rest], result, users: [options.schedule] };
});
both(exports, 'multiHeadAttentionOnce', 'multiHeadAttentionOnce', (parameters, query, options = {}) => {
  const result = asTensor(options.out) ?? like(query);
  const inputs = [query, options.key, options.value].map(asTensor);
  const all = [read('MhaParameters', parameters), ...inputs, result, mhaOptions(options)];
  return { args: [options.context, ...all], result, users: [options.schedule] };
});

// ---- pools -----------------------------------------------------------------------------------------------------------

// Sequences whose objects are gone are closed.
const gone = new FinalizationRegistry(({ pool, number }) => pool.giveBack(number));

const arrayOf = new Map([[dtypes.F32, Float32Array], [dtypes.F16, Uint16Array], [dtypes.BF16, Uint16Array], [dtypes.I8, Int8Array]]);
const halfOf = new Map([...halves].map(([name, type]) => [type, name]));

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
  return new Tensor(new (arrayOf.get(type))(buffer), shape, { dtype: halfOf.get(type) });
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
const sharing = 4; // how many sequences hold each of a pool's pages on average, unless pageIds says so

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
    const valueDim = value?.shape.at(-1) ?? 0;
    const out = options.out ? laidOut(options.out, dtype) : laidOut([...query.shape.slice(0, -1), valueDim], dtype ?? query.dtype);
    const rest = { ...read('AttentionOptions', options, scheduleExtras) };
    if (keyScales) Object.assign(rest, { keyScales, valueScales });
    const limits = { sequences: options.sequences ?? pool?.sequences, keyLen, pageIds: options.pageIds ?? (pool && sharing * pool.pages) };
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
  const [keyPages, valuePages, keyScales, valueScales] = this.pagesOf(layer);
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
  const result = asTensor(out) ?? withLast(q, v.shape.at(-1));
  const sums = logSumExp ? { logSumExp: asTensor(logSumExp) } : {};
  const sequences = Math.max((starts.shape[0] ?? 0) - 1, 1);
  const schedule = new Schedule({ ...rest, ...sums, query: q, key: k, value: v, out: result, sequences });
  schedule.set({ queryStarts: starts, keyStarts });
  return runOf(schedule, q, [k, v, asTensor(rest.keyScales), asTensor(rest.valueScales)], { out: result, ...sums });
});

// ---- 8 bits ----------------------------------------------------------------------------------------------------------

both(exports, 'quantize', 'quantize', (x, { group, context } = {}) => {
  const given = asTensor(x), features = given.shape.at(-1) ?? 0;
  const size = group ?? (features % 32 === 0 && features > 0 ? 32 : Math.max(features, 1));
  if (!(size > 0) || features % size !== 0) {
    refuse('FOVEA_BAD_SHAPE', `group is ${size}, expected one that divides the ${features} features of x`);
  }
  const q = Tensor.zeros(given.shape, Int8Array);
  const scales = Tensor.zeros([...given.shape.slice(0, -1), features / size], Uint16Array, { dtype: 'f16' });
  return { args: [context, given, q, scales], result: () => ({ q, scales }) };
});

both(exports, 'dequantize', 'dequantize', (q, scales, options = {}) => {
  const given = asTensor(q), result = asTensor(options.out) ?? Tensor.zeros(given.shape);
  return { args: [options.context, given, asTensor(scales), result], result };
});

// ---- prepared keys ---------------------------------------------------------------------------------------------------

class PreparedKeys extends Owner {
  constructor(score, options) {
    const sizes = read('PreparedKeysSizes', { ...options, batch: options.batch ?? 1, kvHeads: options.kvHeads ?? 1 }, ['context']);
    super(native.preparedKeysCreate(false, options.context, read('Score', score), sizes));
  }

  get length() {
    return native.about('length', this.handle);
  }

  get size() {
    return native.about('size', this.handle);
  }

  truncate(length) {
    native.preparedKeysTruncate(false, this, length);
  }
}
both(PreparedKeys.prototype, 'append', 'preparedKeysAppend', function (key, { context } = {}) {
  return { args: [context, this, asTensor(key)], result: undefined, users: [this] };
});
both(PreparedKeys.prototype, 'attend', 'attentionPrepared', function (query, value, options = {}) {
  const [q, v] = [asTensor(query), asTensor(value)];
  const result = asTensor(options.out) ?? withLast(q, v.shape.at(-1));
  const rest = read('AttentionOptions', options, attentionExtras);
  return { args: [options.context, q, this, v, result, rest], result, users: [this] };
});

// ---- plans -----------------------------------------------------------------------------------------------------------

const otherBuffers = bufferNames.slice(4);

// In the addon's order.
function rest(buffers) {
  if (buffers === undefined) return undefined;
  const wrong = Object.keys(buffers).find((key) => !otherBuffers.includes(key));
  if (wrong) throw new TypeError(`a run has no ${wrong}; it has ${otherBuffers.join(', ')}`);
  return otherBuffers.map((name) => memoryOf(buffers[name]));
}

class Plan extends Owner {
  constructor(handle, keys) {
    super(handle);
    this.keys = keys;
    this.workspaceSize = native.about('workspaceSize', handle);
    this.workspace = new Uint8Array(this.workspaceSize);
  }

  /** Plans the call that sdpa would make. No data is read: Tensor.shapeOnly will do. */
  static sdpa(query, key, value, out, options = {}) {
    const tensors = [query, key, value, out].map(asTensor);
    return new Plan(native.sdpaPlanCreate(false, options.context, ...tensors, read('AttentionOptions', options, ['context'])));
  }

  static attention(score, query, key, value, out, options = {}) {
    const tensors = [query, key, value, out].map(asTensor);
    const given = [read('Score', score), ...tensors, read('AttentionOptions', options, ['context'])];
    return new Plan(native.attentionPlanCreate(false, options.context, ...given));
  }

  static prepared(query, keys, value, out, options = {}) {
    const given = [asTensor(query), keys, asTensor(value), asTensor(out), read('AttentionOptions', options, ['context'])];
    return new Plan(native.attentionPreparedPlanCreate(false, options.context, ...given), keys);
  }

  get description() {
    return native.about('describe', this.handle);
  }

  /** Runs the call on typed arrays that begin with their tensor's first element in memory. Writes to out. */
  runSync(query, key, value, out, buffers) {
    native.run(false, this.handle, this.workspace, memoryOf(query), memoryOf(key), memoryOf(value), memoryOf(out),
      buffers && rest(buffers));
  }

  /** Several runs may be under way at once, each with a workspace of its own. */
  async run(query, key, value, out, buffers) {
    const workspace = new Uint8Array(this.workspaceSize);
    const data = [query, key, value, out].map(memoryOf);
    const others = rest(buffers);
    await inTurn([this.keys], () => native.run(true, this.handle, workspace, ...data, others));
  }
}

Object.assign(exports, {
  Tensor, Context, Plan, PackedMatrix, MhaWeights, KVPool, Sequence, Step, Schedule, PreparedKeys, alibiSlopes, rotaryFrequencies,
  version: native.version, isaAvailable: native.isaAvailable,
});
