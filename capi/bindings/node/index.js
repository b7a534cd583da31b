// fovea for Node: the operations of the C library on typed arrays, at once (…Sync) or off the event loop (promises).
//
// Shapes, formulas and errors are those of the C interface, whose manual is fovea.h. Errors have the status's name as their
// code: 'FOVEA_BAD_SHAPE'.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
const {
  native, bufferNames, Tensor, Owner, asTensor, both, featuresOf, inTurn, like, memoryOf, productShape, read, withLast, zerosOf,
} = require('./base.js');
const { Schedule, laidOut, ...serving } = require('./serving.js');
const { MhaPlan } = require('./mha_plan.js');

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
  const result = asTensor(options.out) ?? withLast(q, featuresOf(v));
  return { args: [options.context, q, k, v, result, read('AttentionOptions', options, attentionExtras)], result };
});

both(exports, 'attention', 'attention', (score, query, key, value, options = {}) => {
  const [q, k, v] = [query, key, value].map(asTensor);
  const result = asTensor(options.out) ?? withLast(q, featuresOf(v));
  const [scores, rest] = [read('Score', score), read('AttentionOptions', options, attentionExtras)];
  return { args: [options.context, scores, q, k, v, result, rest], result };
});

// Of a call whose out and options.logSumExp these are. gradients has the gradient of out, and the tensors that are wanted.
function backward(score, query, key, value, out, gradients, options, extras) {
  const tensors = [query, key, value, out].map(asTensor);
  const rest = [read('AttentionOptions', options, extras), read('AttentionGradients', gradients)];
  return [options.context, read('Score', score), ...tensors, ...rest];
}

both(exports, 'attentionBackward', 'attentionBackward', (score, query, key, value, out, gradients, options = {}) => (
  { args: backward(score, query, key, value, out, gradients, options, ['context']), result: undefined }));

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

// ---- gradients of everything else ------------------------------------------------------------------------------------

// given: what the addon takes before the gradient. options.out is where the result is written, which may be gradOut itself.
function elementGradients(x, given, gradOut, options) {
  const result = asTensor(options.out) ?? like(x);
  return { args: [options.context, ...given, asTensor(gradOut), result], result };
}

both(exports, 'activationBackward', 'activationBackward', (kind, x, gradOut, options = {}) => (
  elementGradients(x, [kind, asTensor(x)], gradOut, options)));

// out is what the forward call gave.
both(exports, 'maskedSoftmaxBackward', 'maskedSoftmaxBackward', (out, gradOut, validLens, options = {}) => (
  elementGradients(out, [asTensor(out), asTensor(validLens)], gradOut, options)));

for (const name of ['softmaxBackward', 'logSoftmaxBackward']) {
  both(exports, name, name, (out, gradOut, axis = -1, options = {}) => (
    elementGradients(out, [asTensor(out), axis], gradOut, options)));
}

// Here and below gradients has the gradient of out, and the tensors that are wanted.
for (const [name, kind] of [['layerNormBackward', 'LayerNormOptions'], ['rmsNormBackward', 'RmsNormOptions']]) {
  both(exports, name, name, (x, gradients, options = {}) => {
    const rest = [read(kind, options, ['context']), read('NormGradients', gradients)];
    return { args: [options.context, asTensor(x), ...rest], result: undefined };
  });
}

both(exports, 'linearBackward', 'linearBackward', (x, weight, gradients, options = {}) => {
  const rest = [read('LinearOptions', options, ['context', 'layout']), read('LinearGradients', gradients)];
  return { args: [options.context, asTensor(x), asTensor(weight), options.layout, ...rest], result: undefined };
});

both(exports, 'mergeStatesBackward', 'mergeStatesBackward', (outs, lses, gradients, options = {}) => (
  { args: [options.context, asTensor(outs), asTensor(lses), read('MergeGradients', gradients)], result: undefined }));

both(exports, 'multiHeadAttentionBackward', 'multiHeadAttentionBackward', (parameters, query, gradients, options = {}) => {
  const inputs = [query, options.key, options.value].map(asTensor);
  const rest = [read('MhaOptions', options, ['context', 'key', 'value']), read('MhaGradients', gradients)];
  return { args: [options.context, read('MhaParameters', parameters), ...inputs, ...rest], result: undefined };
});

// ---- what is kept between calls --------------------------------------------------------------------------------------

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
// Plans the call that attend would make. No data is read, Tensor.shapeOnly will do; but what rotary is given is copied.
MhaWeights.prototype.plan = function (query, options = {}) {
  const [q, key, value] = [query, options.key, options.value].map(asTensor);
  const out = asTensor(options.out) ?? laidOut([...q.shape], q.dtype);
  return new MhaPlan(native.mhaPlanCreate(false, options.context, this, q, key, value, out, mhaOptions(options)), options.schedule);
};
both(exports, 'multiHeadAttentionOnce', 'multiHeadAttentionOnce', (parameters, query, options = {}) => {
  const result = asTensor(options.out) ?? like(query);
  const inputs = [query, options.key, options.value].map(asTensor);
  const all = [read('MhaParameters', parameters), ...inputs, result, mhaOptions(options)];
  return { args: [options.context, ...all], result, users: [options.schedule] };
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
  const result = asTensor(options.out) ?? withLast(q, featuresOf(v));
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

  /** Plans the call that attentionBackward would make: runs read out, and take the gradients' data as gradQuery and so on. */
  static attentionBackward(score, query, key, value, out, gradients, options = {}) {
    const given = backward(score, query, key, value, out, gradients, options, ['context']);
    return new Plan(native.attentionBackwardPlanCreate(false, ...given));
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
  ...serving, Schedule, Tensor, Context, Plan, PackedMatrix, MhaPlan, MhaWeights, PreparedKeys, alibiSlopes, rotaryFrequencies,
  version: native.version, isaAvailable: native.isaAvailable,
});
