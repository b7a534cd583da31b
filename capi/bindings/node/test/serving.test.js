// Pools, schedules, sequences of different lengths, 8 bits: each sequence has what it has alone; what is out of date, closed or
// laid out otherwise is refused.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const v8 = require('node:v8');
const vm = require('node:vm');
const fovea = require('..');
const { KVPool, Schedule, Sequence, Tensor } = fovea;

v8.setFlagsFromString('--expose-gc');
const collectGarbage = vm.runInNewContext('gc');
const ramp = (count, from = 0) => Float32Array.from({ length: count }, (_, i) => (((i + from) * 37) % 101 - 50) / 50);
const rows = (count, heads, dim, from) => new Tensor(ramp(count * heads * dim, from), [count, heads, dim]);
const close = (found, expected, tolerance = 1e-5) => {
  assert.equal(found.length, expected.length);
  found.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) < tolerance, `${i}: ${x} and ${expected[i]}`));
};
const makePool = (sizes) => new KVPool({ layers: 2, kvHeads: 1, headDim: 8, positions: 64, pageSize: 8, sequences: 4, ...sizes });
const makeSchedule = (pool, options) => new Schedule({ query: [24, 2, 8], pool, causal: true, ...options });

// Attention of tokens [from, to) of packed rows [tokens, heads, dim], over all keys up to the last.
function alone(q, k, v, from, to, options) {
  const part = (x, first) => {
    const [, heads, dim] = x.shape;
    const data = x.data.subarray(first * heads * dim, to * heads * dim);
    return new Tensor(data, [1, heads, to - first, dim], { strides: [0, dim, heads * dim, 1] });
  };
  const out = new Tensor(new Float32Array((to - from) * 2 * 8), [1, 2, to - from, 8], { strides: [0, 8, 16, 1] });
  fovea.sdpaSync(part(q, from), part(k, 0), part(v, 0), { causal: true, queryInvariant: true, ...options, out });
  return out.data;
}

test('a decoder over a pool gives what one causal call gives', async () => {
  const pool = makePool(), schedule = makeSchedule(pool), sequence = pool.open(), other = pool.open();
  const [q, k, v] = [rows(20, 2, 8), rows(20, 1, 8, 3), rows(20, 1, 8, 5)];
  const slice = (x, from, to) => {
    const size = x.data.length / 20;
    return new Tensor(x.data.subarray(from * size, to * size), [to - from, ...x.shape.slice(1)]);
  };
  let at = 0;
  for (const count of [9, 1, 1, 7, 2]) {
    schedule.set(pool.step([[sequence, count], [other, 0]]));
    assert.deepEqual([schedule.tokens, schedule.positions[0]], [count, at]);
    const wanted = schedule.append(1, slice(k, at, at + count), slice(v, at, at + count)); // not waited for: they take turns
    const out = await schedule.run(slice(q, at, at + count), 1);
    await wanted;
    close(out.data, alone(q, k, v, at, at + count));
    at += count;
  }
  assert.deepEqual([sequence.length, other.length, pool.freePages, pool.pages], [20, 0, 5, 8]);
  assert.match(schedule.description, /^op=ragged/);
  assert.ok(schedule.workspaceSize > 0 && schedule.tasks.length === 3 && pool.size === 2 * 2 * 64 * 8 * 4);
  const longer = schedule.runSync(rows(24, 2, 8), 1, { out: new Tensor(new Float32Array(24 * 16).fill(9), [24, 2, 8]) });
  assert.ok(longer.data.subarray(2 * 16).every((x) => x === 9));
});

test('sequences share pages, and go', () => {
  const pool = makePool(), first = pool.open(), second = pool.open();
  const step = pool.step(new Map([[first, 20], [second, 3]]));
  assert.deepEqual([...step.queryStarts, ...step.keyLens, ...step.pageStarts], [0, 20, 23, 20, 3, 0n, 3n, 4n]);
  const forked = first.fork(17);
  assert.deepEqual([forked.length, pool.freePages], [17, 4]);
  pool.step([[forked, 1]]);
  assert.equal(pool.freePages, 3);
  first.truncate(8);
  forked.drop(16);
  second.close();
  second.close();
  assert.equal(pool.freePages, 6);
  assert.throws(() => second.length, { code: 'FOVEA_BAD_VALUE', message: /sequence was closed/ });
  assert.throws(() => pool.step([[first, 60]]), { code: 'FOVEA_POOL_EXHAUSTED', message: /needs 8, and 6 of 8/ });
  assert.throws(() => pool.step([[first, 1], [first, 1]]), { code: 'FOVEA_BAD_VALUE' });
  assert.throws(() => pool.step([[makePool().open(), 1]]), /another pool/);
  assert.throws(() => pool.step([[3, 1]]), /a step is of sequences/);
  const open = [pool.open(), pool.open()];
  assert.throws(() => pool.open(), { code: 'FOVEA_POOL_EXHAUSTED' });
  open.forEach((one) => assert.ok(one instanceof Sequence && one.length === 0));
});

test('the memory of pages is the pool\'s own, and lives as long as it is looked at', async () => {
  let pool = makePool({ keyDtype: 'bf16', valueDtype: 'f32' });
  const keys = pool.keys(1), values = pool.values(0);
  assert.deepEqual([keys.shape, keys.dtype, values.dtype, pool.keyScales(0)], [[8, 1, 8, 8], 'bf16', undefined, undefined]);
  keys.data.fill(3);
  assert.equal(pool.keys(1).data[511], 3);
  assert.throws(() => pool.keys(2), { code: 'FOVEA_BAD_VALUE', message: /layer is 2/ });
  try { // which takes a copy, or refuses
    structuredClone(keys.data.buffer, { transfer: [keys.data.buffer] });
  } catch (error) {
    assert.equal(error.name, 'DataCloneError');
  }
  assert.equal(keys.data.length, 512);
  pool.close();
  assert.throws(() => pool.freePages, /the KVPool was closed/);
  assert.throws(() => pool.open(), /pool was closed/);
  pool = undefined;
  for (let i = 0; i < 5; ++i) {
    collectGarbage();
    await new Promise(setImmediate);
  }
  keys.data.fill(5);
  assert.ok(keys.data.every((x) => x === 5));
});

test('a sequence that nobody holds is closed', async () => {
  const pool = makePool();
  (() => pool.step([[pool.open(), 20]]))();
  for (let i = 0; i < 50 && pool.freePages < 8; ++i) {
    collectGarbage();
    await new Promise((done) => setTimeout(done, 1));
  }
  assert.equal(pool.freePages, 8);
});

test('a step that is out of date is refused', () => {
  const pool = makePool(), schedule = makeSchedule(pool), [first, second] = [pool.open(), pool.open()];
  const [q, k] = [rows(5, 2, 8), rows(5, 1, 8)];
  schedule.set(pool.step([[first, 5]]));
  schedule.appendSync(0, k, k);
  const out = schedule.runSync(q, 0);
  pool.step([[second, 9]]);
  assert.deepEqual(schedule.runSync(q, 0).data, out.data);
  for (const change of [() => pool.step([[first, 1]]), () => first.truncate(3), () => first.drop(0), () => first.close()]) {
    const step = pool.step([[first, 1]]);
    schedule.set(step);
    change();
    assert.equal(step.isCurrent, false);
    const old = { code: 'FOVEA_BAD_VALUE', message: /out of date/ };
    assert.throws(() => schedule.runSync(q, 0), old);
    assert.throws(() => schedule.appendSync(0, k, k), old);
    assert.throws(() => schedule.set(step), old);
  }
  assert.throws(() => schedule.set(makePool().step([])), /another pool/);
});

test('what a schedule refuses', async () => {
  const pool = makePool(), schedule = makeSchedule(pool), sequence = pool.open();
  const [q, k] = [rows(5, 2, 8), rows(5, 1, 8)];
  schedule.set(pool.step([[sequence, 5]]));
  schedule.appendSync(0, k, k);
  const expected = schedule.runSync(q, 0).data;
  const refused = (code, ...args) => assert.throws(() => schedule.runSync(...args), { code });
  refused('FOVEA_BAD_SHAPE', rows(4, 2, 8), 0);
  refused('FOVEA_BAD_SHAPE', rows(25, 2, 8), 0);
  refused('FOVEA_BAD_SHAPE', rows(5, 1, 8), 0);
  refused('FOVEA_BAD_DTYPE', new Tensor(new Int32Array(80), [5, 2, 8]), 0);
  refused('FOVEA_BAD_STRIDE', new Tensor(ramp(80), [5, 2, 8], { strides: [8, 40, 1] }), 0);
  refused('FOVEA_BAD_SHAPE', q, 0, { out: rows(4, 2, 8) });
  refused('FOVEA_OVERLAP', q, 0, { out: q });
  refused('FOVEA_BAD_VALUE', q, 2);
  refused('FOVEA_NULL_POINTER', q, [pool.keys(0)]);
  refused('FOVEA_NULL_POINTER', Tensor.shapeOnly([5, 2, 8]), 0, { out: q });
  refused('FOVEA_BAD_VALUE', q, 0, { sinks: new Float32Array(2) });
  refused('FOVEA_BAD_VALUE', q, 0, { logSumExp: new Tensor(new Float32Array(10), [5, 2]) });
  assert.throws(() => schedule.runSync(q, 0, { colour: 1 }), /a run has no colour/);
  assert.throws(() => new Schedule({ query: [1, 2, 8], pool, colour: 1 }), /no colour/);
  assert.throws(() => new Schedule({ query: [1, 2, 8], pool: 3 }), /pool must be a KVPool/);
  assert.throws(() => new Schedule({ query: [1, 2, 8], pool, dropout: 0.5 }), { code: 'FOVEA_BAD_OPTION' });
  assert.throws(() => schedule.set({ queryStarts: Int32Array.of(0, 5), keyLens: Int32Array.of(5),
    pageIds: new Tensor(Int32Array.of(99), [1, 1]) }), { code: 'FOVEA_BAD_VALUE' });
  assert.throws(() => schedule.set({ starts: 1 }), /StepTensors has no starts/);
  assert.deepEqual(schedule.runSync(q, 0).data, expected);
  await assert.rejects(schedule.run(rows(4, 2, 8), 0), { code: 'FOVEA_BAD_SHAPE' });
  const tampered = rows(5, 2, 8);
  tampered.view[3] = 1n << 40n;
  refused('FOVEA_BAD_SHAPE', tampered, 0);
  const under = schedule.run(q, 0);
  for (let i = 0; i < 20; ++i) await null;
  assert.throws(() => schedule.set({ queryStarts: Int32Array.of(0) }), { message: /in use by an asynchronous call/ });
  pool.close();
  schedule.close(); // waits for it
  assert.deepEqual((await under).data, expected);
  assert.throws(() => schedule.tokens, /the Schedule was closed/);
});

test('sequences of different lengths in one call', async () => {
  const [q, k, v] = [rows(7, 2, 8), rows(13, 1, 8, 1), rows(13, 1, 8, 2)];
  const starts = [Int32Array.of(0, 3, 7), BigInt64Array.of(0n, 3n, 13n)];
  const options = { causal: true, softcap: 5, sinks: Float32Array.of(0, 1) };
  const logSumExp = new Tensor(new Float32Array(14), [7, 2]);
  const out = fovea.varlenAttentionSync(q, k, v, ...starts, { ...options, logSumExp });
  close(out.data.subarray(0, 48), alone(q, k, v, 0, 3, options));
  assert.ok(logSumExp.data.every((x) => x !== 0));
  assert.deepEqual((await fovea.varlenAttention(q, k, v, ...starts, options)).data, out.data);
  const gaussian = fovea.varlenAttentionSync(q, k, v, ...starts, { score: { kind: 'gaussian', sigma: 2 } });
  assert.notDeepEqual(gaussian.data, out.data);
  assert.throws(() => fovea.varlenAttentionSync(q, k, v, Int32Array.of(0, 8), Int32Array.of(0, 13)), { code: 'FOVEA_BAD_SHAPE' });
});

test('multi-head attention over pages', async () => {
  const unit = new Tensor(Float32Array.of(1, 0, 0, 1), [2, 2]);
  const parameters = { heads: 1, queryWeight: unit, keyWeight: unit, valueWeight: unit };
  const pool = new KVPool({ kvHeads: 1, headDim: 2, positions: 8, sequences: 1 });
  const schedule = new Schedule({ query: [1, 1, 2], pool, causal: true }), sequence = pool.open();
  const layer = fovea.MhaWeights.packSync(parameters);
  const x = new Tensor(Float32Array.of(7, 9), [1, 2]);
  for (const attend of [(rest) => fovea.multiHeadAttentionOnce(parameters, x, rest), (rest) => layer.attend(x, rest)]) {
    schedule.set(pool.step([[sequence, 1]]));
    assert.deepEqual([...(await attend({ schedule, pages: 0, rotary: {} })).data].map(Math.round), [7, 9]);
  }
  assert.deepEqual([...layer.attendSync(x, { schedule, pages: [pool.keys(0), pool.values(0)], keepPages: true }).data]
    .map(Math.round), [7, 9]);
  assert.throws(() => layer.attendSync(x, { pages: 0 }), /schedule, which is missing/);
  assert.throws(() => layer.attendSync(x, { schedule: pool }), /schedule is another kind of object/);
});

test('what was saved is restored in another pool', () => {
  const pool = makePool(), other = makePool({ pageSize: 4 }), sequence = pool.open();
  const { pageIds } = pool.step([[sequence, 11]]);
  pageIds.forEach((id) => pool.keys(1).data.fill(id + 1, id * 64, id * 64 + 64));
  for (const layer of [0, 1]) pool.values(layer).data.fill(2);
  pool.keys(0).data.fill(1);
  const saved = sequence.save(), restored = other.restore(saved);
  assert.equal(restored.length, 11);
  assert.deepEqual(restored.save(), saved);
  assert.throws(() => other.restore(saved.subarray(0, 20)), { code: 'FOVEA_BAD_VALUE' });
  saved[saved.length - 1] ^= 1;
  assert.throws(() => other.restore(saved), { code: 'FOVEA_BAD_VALUE' });
});

test('8 bits', async () => {
  const x = new Tensor(ramp(6 * 64), [6, 64]);
  const { q, scales } = fovea.quantizeSync(x);
  assert.deepEqual([q.data.constructor, q.shape, scales.shape, scales.dtype], [Int8Array, [6, 64], [6, 2], 'f16']);
  const back = await fovea.dequantize(q, scales);
  x.data.forEach((y, i) => assert.ok(Math.abs(back.data[i] - y) < 0.005));
  assert.deepEqual((await fovea.quantize(x, { group: 16 })).scales.shape, [6, 4]);
  assert.throws(() => fovea.quantizeSync(x, { group: 24 }), { code: 'FOVEA_BAD_SHAPE' });
  const query = new Tensor(ramp(64), [1, 64]);
  const out = fovea.sdpaSync(query, q, q, { keyScales: scales, valueScales: scales });
  close(out.data, fovea.sdpaSync(query, back, back).data, 1e-4); // few rows round to 2^-16 of their largest number
  assert.throws(() => fovea.sdpaSync(query, q, q), { message: /scales/ });
  const packed = ({ data, shape }, size, dtype) => new Tensor(data, [6, 1, size], { dtype });
  const [row, keys, group] = [new Tensor(query.data, [1, 1, 64]), packed(q, 64), packed(scales, 2, 'f16')];
  const starts = [Int32Array.of(0, 1), Int32Array.of(0, 6)];
  close(fovea.varlenAttentionSync(row, keys, keys, ...starts, { keyScales: group, valueScales: group }).data, out.data, 1e-4);
});

test('values of 4 bits', async () => {
  const x = new Tensor(ramp(6 * 64), [6, 64]);
  const { q, scales } = fovea.quantizeSync(x, { bits: 4 });
  assert.deepEqual([q.data.constructor, q.dtype, q.shape, scales.shape], [Uint8Array, 'u8', [6, 32], [6, 4]]);
  const back = await fovea.dequantize(q, scales);
  assert.deepEqual(back.shape, [6, 64]);
  x.data.forEach((y, i) => assert.ok(Math.abs(back.data[i] - y) < 0.07));
  assert.deepEqual((await fovea.quantize(x, { group: 64, bits: 4 })).scales.shape, [6, 2]);
  assert.throws(() => fovea.quantizeSync(x, { bits: 2 }), { code: 'FOVEA_BAD_VALUE' });
  assert.throws(() => new Tensor(x.data, [6, 64], { dtype: 'u8' }), { code: 'FOVEA_BAD_DTYPE' });
  const query = new Tensor(ramp(64), [1, 64]);
  const out = fovea.sdpaSync(query, x, q, { valueScales: scales });
  assert.deepEqual(out.data, fovea.sdpaSync(query, x, back).data);
  assert.throws(() => fovea.sdpaSync(query, x, q), { message: /value_scales/ });
  assert.throws(() => fovea.sdpaSync(query, q, x), { code: 'FOVEA_BAD_DTYPE' });

  const pool = new fovea.KVPool({ kvHeads: 1, headDim: 64, positions: 8, pageSize: 4, sequences: 1, keyDtype: 'f32', valueDtype: 'u8' });
  assert.deepEqual([pool.values(0).dtype, pool.values(0).shape, pool.valueScales(0).shape], ['u8', [2, 1, 4, 32], [2, 1, 4, 4]]);
  const rows = new Tensor(x.data, [6, 1, 64]), sequence = pool.open();
  const schedule = new fovea.Schedule({ query: [6, 1, 64], pool, sequences: 1 });
  schedule.set(pool.step([[sequence, 6]]));
  schedule.appendSync(0, rows, rows);
  close(schedule.runSync(rows, 0).data, fovea.sdpaSync(x, x, back).data, 1e-6);
});
