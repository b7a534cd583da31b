// What is refused; plans and prepared keys; many asynchronous calls at once.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');
const fovea = require('..');
const { Tensor } = fovea;

const ramp = (count, from = 0) => Float32Array.from({ length: count }, (_, i) => (((i + from) * 37) % 101 - 50) / 50);

test('views that leave their array are refused', () => {
  const data = new Float32Array(12);
  const use = (shape, layout) => fovea.expSync(new Tensor(data, shape, layout));
  const refused = (code, shape, layout) => assert.throws(() => use(shape, layout), { code });
  use([3, 4], { strides: [4, 1] });
  use([3, 4], { strides: [-4, 1], offset: 8 });
  use([0, 4], { strides: [4, 1], offset: 99 });
  refused('FOVEA_BAD_SHAPE', [3, 4], { strides: [4, 1], offset: 1 });
  refused('FOVEA_BAD_SHAPE', [3, 4], { strides: [-4, 1], offset: 7 });
  refused('FOVEA_BAD_SHAPE', [3, 4], { strides: [4, 1], offset: -1 });
  refused('FOVEA_BAD_SHAPE', [3, 4], { strides: [2 ** 62, 1] });
  refused('FOVEA_BAD_SHAPE', [3, 5]);
  refused('FOVEA_BAD_SHAPE', [3, -4]);
  refused('FOVEA_BAD_SHAPE', [1.5, 8]);
  refused('FOVEA_BAD_STRIDE', [3, 4], { strides: [1] });
  refused('FOVEA_BAD_RANK', [1, 1, 1, 1, 1, 3, 4]);
  refused('FOVEA_SIZE_OVERFLOW', [2 ** 40, 2 ** 40], { strides: [0, 0] });
  assert.throws(() => new Tensor(new Float64Array(2)), { code: 'FOVEA_BAD_DTYPE' });
});

test('an array that was moved away, and a view that was tampered with, are refused', () => {
  const x = new Tensor(new Float32Array(4), [2, 2]), y = new Tensor(new Float32Array(4), [2, 2]);
  structuredClone(x.data.buffer, { transfer: [x.data.buffer] });
  assert.throws(() => fovea.expSync(x), { code: 'FOVEA_BAD_SHAPE' });
  y.view[3] = 1000000n;
  assert.throws(() => fovea.expSync(y), { code: 'FOVEA_BAD_SHAPE' });
});

test('options are read by name, and what there is not is named', () => {
  const x = new Tensor(Float32Array.of(1, 0, 0, 1, 1, 1), [1, 1, 3, 2]);
  const attend = (options) => fovea.sdpaSync(x, x, x, options).data;
  const weights = new Tensor(new Float32Array(9), [1, 1, 3, 3]), logSumExp = new Tensor(new Float32Array(3), [1, 1, 3]);
  attend({ weights, logSumExp });
  assert.ok(Math.abs(weights.data.reduce((a, b) => a + b) - 3) < 1e-6 && logSumExp.data[0] !== 0);
  attend({ weights: new Tensor(weights.data, [1, 3, 3]), averageWeights: true });
  assert.deepEqual([...attend({ causal: true, queryOffset: -1 })].slice(0, 4), [0, 0, 1, 0]);
  assert.deepEqual([...attend({ windowLeft: 0, windowRight: 0n })], [...x.data]);
  assert.throws(() => attend({ dropout: 1.5 }), { code: 'FOVEA_BAD_VALUE', message: /dropout/ });
  assert.throws(() => attend({ causual: true }), /AttentionOptions has no causual/);
  assert.throws(() => attend({ causal: 'yes' }), /causal must be true or false/);
  assert.throws(() => attend({ emptyRows: 'none' }), /emptyRows must be one of 'zero', 'uniform', 'nan'/);
  assert.throws(() => attend({ windowLeft: 0.5 }), /windowLeft must be a whole number/);
  assert.throws(() => attend({ scale: '1' }), /scale must be a number/);
  assert.throws(() => attend({ dropoutSeed: -1 }), /dropoutSeed must not be negative/);
  assert.throws(() => attend({ mask: { data: 1 } }), /mask is no tensor/);
  assert.throws(() => fovea.sdpaSync(x, x, x, { context: fovea }), /context is another kind of object/);
  assert.deepEqual([...attend({ validLens: Int32Array.of(0) })], [0, 0, 0, 0, 0, 0]);
});

test('each of many calls at once is rejected with its own message', async () => {
  const fail = (rank) => {
    const x = new Tensor(new Float32Array(1), new Array(rank).fill(1));
    return fovea.matmul(x, x, { out: x }).then(() => assert.fail('it was accepted'), (error) => {
      assert.equal(error.code, 'FOVEA_BAD_RANK');
      assert.match(error.message, new RegExp(`rank ${rank}`));
    });
  };
  await Promise.all(Array.from({ length: 60 }, (_, n) => fail(5 + (n % 2))));
});

test('contexts', () => {
  assert.throws(() => new fovea.Context({ maxIsa: 'nonsense' }), { code: 'FOVEA_UNKNOWN_ISA', message: /nonsense/ });
  const context = new fovea.Context({ maxThreads: 1, maxIsa: 'base' });
  assert.deepEqual([context.threads, context.isaName, fovea.isaAvailable()[0]], [1, 'base', 'base']);
  const x = Float32Array.of(0);
  const plan = fovea.Plan.sdpa(...new Array(4).fill(new Tensor(x, [1, 1])), { context });
  context.close();
  assert.throws(() => fovea.expSync(x, { context }), /context was closed/);
  plan.runSync(x, x, x, new Float32Array(1)); // it keeps its context
});

test('plans run on other data and refuse what does not fit', async () => {
  const [q, k] = [Tensor.shapeOnly([4, 2]), Tensor.shapeOnly([6, 2])];
  const plan = fovea.Plan.sdpa(q, k, k, q, { validLens: Tensor.shapeOnly([1], Int32Array) });
  const ones = (count) => new Float32Array(count).fill(1);
  const [x, out, lens] = [ones(12), new Float32Array(8), { validLens: Int32Array.of(3) }];
  plan.runSync(x.subarray(4), x, x, out, lens);
  assert.deepEqual([...out], [...ones(8)]);
  out.fill(3);
  const refused = (code, ...args) => assert.throws(() => plan.runSync(...args), { code });
  refused('FOVEA_BAD_SHAPE', x, x.subarray(1), x, out, lens);
  refused('FOVEA_BAD_SHAPE', x, x, x, out.subarray(1), lens);
  refused('FOVEA_BAD_DTYPE', x, x, x, out, { validLens: BigInt64Array.of(3n) });
  refused('FOVEA_BAD_DTYPE', x, new Int32Array(12), x, out, lens);
  refused('FOVEA_NULL_POINTER', x, undefined, x, out, lens);
  refused('FOVEA_NULL_POINTER', x, x, x, out);
  refused('FOVEA_BAD_VALUE', x, x, x, out, { ...lens, mask: new Uint8Array(24) });
  assert.throws(() => plan.runSync(x, x, x, out, { lens: 1 }), /a run has no lens/);
  await assert.rejects(plan.run(x, x, x, out), { code: 'FOVEA_NULL_POINTER' });
  assert.ok(out.every((y) => y === 3));
  const outs = Array.from({ length: 20 }, () => new Float32Array(8));
  await Promise.all(outs.map((one) => plan.run(x, x, x, one, lens)));
  outs.forEach((one) => assert.deepEqual([...one], [...ones(8)]));
  assert.match(plan.description, /^op=sdpa/);
  plan.close();
  refused('FOVEA_NULL_POINTER', x, x, x, out, lens);
});

test('planned views of any strides are laid over the arrays of a run', () => {
  const data = ramp(12), query = new Tensor(Float32Array.of(1, -1), [1, 2]), out = new Float32Array(2);
  const backwards = new Tensor(data, [6, 2], { strides: [-2, 1], offset: 10 });
  const once = fovea.sdpaSync(query, backwards, backwards, { windowLeft: 2 });
  fovea.Plan.sdpa(query, backwards, backwards, once, { windowLeft: 2 }).runSync(query.data, data, data, out);
  assert.deepEqual([...out], [...once.data]);
});

test('prepared keys give what the whole call gives, planned and not', async () => {
  const score = { kind: 'additive', queryWeight: new Tensor(ramp(12), [3, 4]), keyWeight: new Tensor(ramp(15), [3, 5]),
    scoreVector: ramp(3) };
  const [q, k, v] = [new Tensor(ramp(8), [2, 4]), new Tensor(ramp(35), [7, 5]), new Tensor(ramp(14), [7, 2])];
  const expected = [...fovea.attentionSync(score, q, k, v).data];
  const keys = new fovea.PreparedKeys(score, { capacity: 8, queryDim: 4, keyDim: 5 });
  await keys.append(k);
  assert.deepEqual([...(await keys.attend(q, v)).data], expected);
  const plan = fovea.Plan.prepared(q, keys, v, Tensor.shapeOnly([2, 2])), out = new Float32Array(4);
  plan.runSync(q.data, undefined, v.data, out);
  assert.deepEqual([...out], expected);
  keys.truncate(6);
  assert.equal(keys.length, 6);
  await assert.rejects(plan.run(q.data, undefined, v.data, out), { code: 'FOVEA_BAD_SHAPE' });
  const planned = fovea.Plan.attention(score, q, k, v, Tensor.shapeOnly([2, 2]));
  planned.runSync(q.data, k.data, v.data, out.fill(0), { queryWeight: score.queryWeight.data,
    keyWeight: score.keyWeight.data, scoreVector: score.scoreVector });
  assert.deepEqual([...out], expected);
});

test('a worker thread has the addon too', async () => {
  const program = `
    const fovea = require(${JSON.stringify(require.resolve('..'))});
    fovea.exp(Float32Array.of(0)).then(({ data }) => require('node:worker_threads').parentPort.postMessage(data[0]));`;
  const worker = new Worker(program, { eval: true });
  assert.equal(await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject)), 1);
});

test('the event loop goes on while a call is under way', async () => {
  const x = new Tensor(new Float32Array(1 << 18), [1, 4, 1024, 64]);
  let ticks = 0;
  const ticking = setInterval(() => ++ticks, 1);
  for (let i = 0; i < 5; ++i) await fovea.sdpa(x, x, x);
  clearInterval(ticking);
  assert.ok(ticks > 0);
});
