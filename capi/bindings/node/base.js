// What all of the package is made of: the addon, tensors, options by name, operations in both forms.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const path = require('node:path');
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
const named = new Map([...halves, ['u8', dtypes.U8]]);

// The number of an element type. A Uint16Array's elements are what dtype says; a Uint8Array's are truth, or where dtype says 'u8'
// two numbers of 4 bits each.
function typeOf(arrayType, dtype) {
  if (arrayType === Uint8Array && dtype === 'u8') return dtypes.U8;
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

  /** 'f16' or 'bf16' of 16-bit elements, 'u8' of numbers of 4 bits, else undefined. */
  get dtype() {
    for (const [name, type] of named) if (this.view[0] === type) return name;
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

const nested = {
  MhaOptions: { attention: 'AttentionOptions', score: 'Score', rotary: 'RotaryOptions' },
  MhaGradients: { attention: 'AttentionGradients' },
};

// Options with typed arrays made tensors. A property that there is none of is an error, not passed over.
function read(kind, given, others = []) {
  if (given === undefined || given === null) return undefined;
  const made = {};
  for (const [key, value] of Object.entries(given)) {
    if (known[kind].includes(key)) {
      const inner = nested[kind]?.[key];
      made[key] = inner ? read(inner, value) : asTensor(value);
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
// Features of a tensor's rows: two in each byte of numbers of 4 bits.
const featuresOf = (rows) => (rows.shape.at(-1) ?? 0) * (rows.dtype === 'u8' ? 2 : 1);

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

module.exports = {
  native, bufferNames, dtypes, halves, named, Tensor, Owner, asTensor, both, featuresOf, inTurn, like, memoryOf, productShape, read, refuse, withLast,
  zerosOf,
};
