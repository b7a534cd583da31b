// Planned multi-head attention: the bits of the call. Latent attention, whose values are features of the keys.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const v8 = require('node:v8');
const vm = require('node:vm');
const fovea = require('..');
const { KVPool, MhaPlan, MhaWeights, Schedule, Tensor } = fovea;

v8.setFlagsFromString('--expose-gc');
const collectGarbage = vm.runInNewContext('gc');
const ramp = (count, from = 0) => Float32Array.from({ length: count }, (_, i) => (((i + from) * 37) % 101 - 50) / 50);
const tensor = (shape, from) => new Tensor(ramp(shape.reduce((a, b) => a * b), from), shape);
const layer = () => MhaWeights.packSync({ heads: 2, inWeight: tensor([24, 12], 1), outWeight: tensor([12, 8], 5) });
const same = (found, expected) => assert.deepEqual(found.data, expected.data);

test('a plan gives what the layer gives', async () => {
  const weights = layer(), x = tensor([2, 5, 12], 3), frequencies = Float32Array.of(1, 0.5);
  const validLens = BigInt64Array.of(3n, 5n);
  const options = { attention: { causal: true, validLens }, rotary: { frequencies } };
  const expected = weights.attendSync(x, options);
  const plan = weights.plan(Tensor.shapeOnly([2, 5, 12]), options);
  assert.ok(plan instanceof MhaPlan && plan.workspaceSize > 0);
  frequencies.fill(0); // copied, and the layer is kept
  weights.close();
  collectGarbage();
  same(plan.runSync(x, { validLens }), expected);
  const out = Tensor.zeros([2, 5, 12]);
  assert.equal(plan.runSync(x, { validLens, out }), out);
  same(out, expected);
  for (const found of await Promise.all([plan.run(x, { validLens }), plan.run(x, { validLens })])) same(found, expected);
  same(plan.runSync(x, { validLens: BigInt64Array.of(5n, 5n) }), layer().attendSync(x, { attention: { causal: true }, rotary: { frequencies: Float32Array.of(1, 0.5) } }));

  const refused = (call, code, message) => assert.throws(call, (error) => error.code === code && message.test(error.message));
  refused(() => plan.runSync(tensor([2, 4, 12]), { validLens }), 'FOVEA_BAD_SHAPE', /query has shape \[2, 4, 12\], planned was \[2, 5, 12\]/);
  refused(() => plan.runSync(new Tensor(new Int32Array(120), [2, 5, 12]), { validLens, out }), 'FOVEA_BAD_DTYPE', /query/);
  refused(() => plan.runSync(x, { validLens, key: x }), 'FOVEA_BAD_VALUE', /key was not planned/);
  refused(() => plan.runSync(x), 'FOVEA_NULL_POINTER', /validLens is missing/);
  assert.throws(() => plan.runSync(x, { pages: 0 }), /pages are of a schedule/);
  assert.throws(() => plan.runSync(x, { masks: x }), /a run has no masks/);
  refused(() => layer().plan(Tensor.shapeOnly([2, 5, 13])), 'FOVEA_BAD_SHAPE', /query/);
  const last = plan.run(x, { validLens });
  plan.close();
  same(await last, expected);
  refused(() => plan.runSync(x, { validLens }), 'FOVEA_BAD_VALUE', /closed/);
});

test("a plan of a layer over a schedule's steps", async () => {
  const pools = [0, 1].map(() => new KVPool({ kvHeads: 2, headDim: 4, positions: 64, pageSize: 4, sequences: 2 }));
  const [planned, called] = pools.map((pool) => new Schedule({ query: [6, 2, 4], pool, causal: true }));
  const texts = pools.map((pool) => [pool.open(), pool.open()]);
  const weights = layer(), options = { pages: 0, rotary: {} };
  const plan = weights.plan(Tensor.shapeOnly([6, 12]), { ...options, schedule: planned });
  for (const tokens of [[4, 2], [1, 1], [0, 3], [0, 0], [1, 0]]) {
    [planned, called].forEach((schedule, n) => schedule.set(pools[n].step(texts[n].map((text, i) => [text, tokens[i]]))));
    const count = tokens[0] + tokens[1], x = tensor([count, 12], count);
    const expected = weights.attendSync(x, { ...options, schedule: called });
    same(await plan.run(x, { pages: 0 }), expected);
    same(plan.runSync(x, { pages: 0 }), expected); // writes the same keys once more
  }
  assert.throws(() => plan.runSync(tensor([0, 12]), { pages: 0 }), /query has 0 rows, the step 1 tokens/);
  assert.throws(() => plan.runSync(tensor([1, 12])), /keyPages is missing/);
  const under = plan.run(tensor([1, 12]), { pages: 0 });
  for (let i = 0; i < 20; ++i) await null; // until its turn comes
  assert.throws(() => planned.set(pools[0].step([[texts[0][0], 1]])), /in use by an asynchronous call/);
  await under;
  planned.close(); // the plan keeps it
  collectGarbage();
  assert.ok(plan.workspaceSize > 0);
});

test('latent attention appends keys alone', () => {
  const rows = tensor([3, 1, 4], 1), pages = new Float32Array(16), keys = new Tensor(pages, [2, 1, 2, 4]);
  const values = new Tensor(pages, [2, 1, 2, 2], { strides: [8, 8, 4, 1] });
  const schedule = new Schedule({ query: [3, 2, 4], key: keys, value: values, sequences: 1, causal: true });
  schedule.set({ queryStarts: Int32Array.of(0, 3), keyLens: Int32Array.of(3), pageIds: new Tensor(Int32Array.of(1, 0), [1, 2]) });
  schedule.appendSync([keys, values], rows);
  assert.deepEqual([pages.slice(8), pages.slice(0, 4)], [rows.data.slice(0, 8), rows.data.slice(8)]);
  const out = schedule.runSync(tensor([3, 2, 4], 9), [keys, values]);
  assert.deepEqual(out.data.slice(0, 2), rows.data.slice(0, 2)); // the first token attends itself
});
