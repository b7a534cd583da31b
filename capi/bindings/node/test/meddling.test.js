// Programs that take away, shrink or close what a call uses: an error, or it is kept till the call ends. Never a crash.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const v8 = require('node:v8');
const vm = require('node:vm');
const { Worker } = require('node:worker_threads');
const fovea = require('..');
const { Tensor } = fovea;

v8.setFlagsFromString('--expose-gc');
const collectGarbage = vm.runInNewContext('gc');
const detach = (buffer) => structuredClone(buffer, { transfer: [buffer] });
// What nobody holds any more goes back to the system.
const lose = (buffer) => {
  detach(buffer);
  collectGarbage();
};
const ramp = (count, from = 0) => Float32Array.from({ length: count }, (_, i) => (((i + from) * 37) % 101 - 50) / 50);

// A pool of one sequence whose keys and values are set for a step.
function stepOf(length) {
  const pool = new fovea.KVPool({ kvHeads: 1, headDim: 8, positions: 2 * length, pageSize: length, sequences: 2 });
  const rows = new Tensor(ramp(length * 8), [length, 1, 8]);
  const schedule = new fovea.Schedule({ query: [length, 1, 8], pool }), sequence = pool.open();
  schedule.set(pool.step([[sequence, length]]));
  schedule.appendSync(0, rows, rows);
  return { pool, schedule, sequence, rows };
}

const large = () => new Tensor(ramp(1 << 20), [1, 4, 4096, 64]);

test('arrays that are transferred during a call are kept till it ends', async () => {
  const [q, k, v] = [large(), large(), large()], options = { windowLeft: 64, windowRight: 64 };
  const expected = fovea.sdpaSync(q, k, v, options).data;
  const kept = fovea.sdpa(q, k, v, options);
  [q, k, v].forEach((tensor) => lose(tensor.data.buffer));
  assert.equal(q.data.length, 0);
  assert.deepEqual((await kept).data, expected);
  await assert.rejects(fovea.sdpa(q, k, v, options), { code: 'FOVEA_BAD_SHAPE' });

  const [x, out] = [large(), large()];
  const written = fovea.exp(x, { out }); // into memory that another array has by then
  const taken = new Float32Array(detach(out.data.buffer));
  lose(x.data.buffer);
  assert.equal((await written).data.length, 0);
  assert.equal(taken[50], Math.fround(Math.exp(ramp(51)[50])));
});

test('arrays of a planned run, too', async () => {
  const shape = Tensor.shapeOnly([1, 4, 4096, 64]), plan = fovea.Plan.sdpa(shape, shape, shape, shape, { windowLeft: 64, windowRight: 64 });
  const [q, k, v, out, expected] = [ramp(1 << 20), ramp(1 << 20), ramp(1 << 20), new Float32Array(1 << 20), new Float32Array(1 << 20)];
  plan.runSync(q, k, v, expected);
  const under = plan.run(q, k, v, out);
  [q, k, v].forEach((array) => lose(array.buffer));
  plan.close();
  await under;
  assert.deepEqual(out, expected);
});

test('a WebAssembly memory may grow during a call', async () => {
  const memory = new WebAssembly.Memory({ initial: 64 });
  const x = new Float32Array(memory.buffer).fill(0);
  const under = fovea.exp(x);
  memory.grow(1);
  assert.equal(x.length, 0);
  collectGarbage();
  assert.ok((await under).data.every((y) => y === 1));
});

test('memory shared with other threads will do', async () => {
  const x = new Float32Array(new SharedArrayBuffer(64)), out = new Float32Array(new SharedArrayBuffer(64));
  await fovea.exp(x, { out });
  assert.deepEqual(out, new Float32Array(16).fill(1));
});

test('a buffer that could shrink is refused where it could shrink meanwhile', { skip: !('resizable' in ArrayBuffer.prototype) }, async () => {
  const buffer = new ArrayBuffer(64, { maxByteLength: 1 << 20 });
  const x = new Float32Array(buffer), still = new Float32Array(16);
  const refused = { code: 'FOVEA_BAD_VALUE', message: /resizable ArrayBuffer/ };
  assert.deepEqual(fovea.expSync(x).data, new Float32Array(16).fill(1));
  await assert.rejects(fovea.exp(x), refused);
  await assert.rejects(fovea.exp(still, { out: x }), refused);
  Object.defineProperty(buffer, 'resizable', { value: false }); // says so
  await assert.rejects(fovea.exp(x), refused);
  const shape = Tensor.shapeOnly([1, 16]), plan = fovea.Plan.sdpa(shape, shape, shape, shape);
  await assert.rejects(plan.run(still, x, still, still), refused);
  plan.runSync(x, x, x, still);
  buffer.resize(0);
  assert.throws(() => plan.runSync(x, x, x, still), { code: 'FOVEA_BAD_SHAPE' });
  const growing = new Float32Array(new SharedArrayBuffer(64, { maxByteLength: 1 << 20 })); // these only grow
  assert.deepEqual((await fovea.exp(growing)).data, new Float32Array(16).fill(1));
});

// A tensor that does something when its memory is asked for.
const surprising = (tensor, surprise) => ({
  view: tensor.view, shape: tensor.shape,
  get memory() {
    surprise();
    return tensor.memory;
  },
});

test('a getter that takes away an earlier argument', async () => {
  const surprises = [(x) => lose(x.data.buffer)];
  if ('resizable' in ArrayBuffer.prototype) surprises.push((x) => x.data.buffer.resize?.(0));
  for (const surprise of surprises) {
    for (const name of ['sdpaSync', 'sdpa']) {
      const buffer = () => ('resizable' in ArrayBuffer.prototype ? new ArrayBuffer(1 << 16, { maxByteLength: 1 << 17 }) : new ArrayBuffer(1 << 16));
      const q = new Tensor(new Float32Array(buffer()), [256, 64]), out = new Tensor(new Float32Array(1 << 14), [256, 64]);
      const k = surprising(new Tensor(new Float32Array(1 << 14), [256, 64]), () => surprise(q));
      const call = async () => fovea[name](q, k, k, { out });
      await assert.rejects(call, { code: 'FOVEA_BAD_SHAPE', message: /query/ });
    }
  }
  const x = new Tensor(new Float32Array(8), [2, 4]);
  const view = new BigInt64Array(x.view);
  const self = { view, shape: [2, 4], get memory() { lose(view.buffer); return x.memory; } };
  assert.deepEqual(fovea.expSync(self, { out: new Tensor(new Float32Array(8), [2, 4]) }).data, new Float32Array(8).fill(1));
});

test('a getter that closes what the call uses', async () => {
  const x = new Tensor(ramp(64), [1, 1, 8, 8]);
  for (const end of ['Sync', '']) {
    const context = new fovea.Context({ maxThreads: 1 });
    const q = surprising(x, () => {
      context.close();
      collectGarbage();
    });
    const expected = fovea.sdpaSync(x, x, x).data;
    assert.deepEqual((await fovea[`sdpa${end}`](q, x, x, { context })).data, expected);
    assert.throws(() => context.threads, { code: 'FOVEA_BAD_VALUE', message: /the Context was closed/ });

    const { schedule, rows, pool } = stepOf(8);
    const wanted = schedule.runSync(rows, 0).data;
    const closing = surprising(rows, () => {
      schedule.close();
      pool.close();
      collectGarbage();
    });
    assert.deepEqual((await schedule[`run${end}`](closing, 0)).data, wanted);
    assert.throws(() => schedule.tokens, /the Schedule was closed/);
    const another = stepOf(8);
    const setting = surprising(rows, () => assert.throws(() => another.schedule.set({ queryStarts: Int32Array.of(0) }), /in use/));
    assert.deepEqual((await another.schedule[`run${end}`](setting, 0)).data, wanted);
  }
});

test('bytes are as long as they are, whatever they say', () => {
  const { pool, sequence } = stepOf(512);
  const saved = sequence.save(), part = saved.slice(0, 1000);
  sequence.close();
  assert.equal(pool.restore(saved).length, 512);
  pool.step([]);
  Object.defineProperty(part, 'length', { value: saved.length });
  assert.throws(() => pool.restore(part), { code: 'FOVEA_BAD_VALUE' });
});

test('what was closed is refused, and what plans need of it is kept', async () => {
  const score = { kind: 'additive', queryWeight: new Tensor(ramp(12), [3, 4]), keyWeight: new Tensor(ramp(15), [3, 5]),
    scoreVector: ramp(3) };
  const [q, k, v, out] = [ramp(8), new Tensor(ramp(35), [7, 5]), ramp(14), new Float32Array(4)];
  const keys = new fovea.PreparedKeys(score, { capacity: 8, queryDim: 4, keyDim: 5 });
  keys.appendSync(k);
  const [query, value] = [new Tensor(q, [2, 4]), new Tensor(v, [7, 2])];
  const expected = keys.attendSync(query, value).data;
  const context = new fovea.Context({ maxThreads: 1 });
  const plan = fovea.Plan.prepared(query, keys, value, Tensor.shapeOnly([2, 2]), { context });
  keys.close();
  context.close();
  collectGarbage();
  plan.runSync(q, undefined, v, out);
  assert.deepEqual(out, expected);
  await plan.run(q, undefined, v, out.fill(0));
  assert.deepEqual(out, expected);
  for (const refused of [() => keys.attendSync(query, value), () => keys.appendSync(k), () => keys.truncate(0), () => keys.length,
    () => keys.size, () => fovea.Plan.prepared(query, keys, value, query), () => fovea.expSync(q, { context }), () => context.isaName]) {
    assert.throws(refused, { code: 'FOVEA_BAD_VALUE', message: /was closed/ });
  }
  plan.close();
  assert.throws(() => plan.runSync(q, undefined, v, out), /was closed/);
  assert.throws(() => plan.description, /was closed/);
  await assert.rejects(plan.run(q, undefined, v, out), /was closed/);
  const packed = fovea.PackedMatrix.packLinearSync(new Tensor(ramp(6), [2, 3]));
  packed.close();
  assert.throws(() => packed.linearSync(new Tensor(ramp(3), [1, 3]), { out: new Tensor(ramp(2), [1, 2]) }), /was closed/);
  assert.throws(() => packed.size, /was closed/);
});

test('a worker may end in the midst of its calls', async () => {
  const program = `
    const fovea = require(${JSON.stringify(require.resolve('..'))});
    const { parentPort, workerData } = require('node:worker_threads');
    const x = new fovea.Tensor(workerData, [1, 4, 1024, 64]);
    const pool = new fovea.KVPool({ kvHeads: 4, headDim: 64, positions: 1024, sequences: 1 });
    const rows = new fovea.Tensor(workerData, [1024, 4, 64]), schedule = new fovea.Schedule({ query: rows, pool });
    schedule.set(pool.step([[pool.open(), 1024]]));
    schedule.append(0, rows, rows);
    for (let i = 0; i < 20; ++i) { fovea.sdpa(x, x, x); schedule.run(rows, 0); }
    const shape = fovea.Tensor.shapeOnly([1, 4, 1024, 64]), plan = fovea.Plan.sdpa(shape, shape, shape, shape);
    plan.run(workerData, workerData, workerData, new Float32Array(1 << 18));
    setTimeout(() => parentPort.postMessage('under way'));`;
  const data = new Float32Array(new SharedArrayBuffer(1 << 20));
  for (let i = 0; i < 3; ++i) {
    const worker = new Worker(program, { eval: true, workerData: data });
    await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
    assert.equal(await worker.terminate(), 1);
  }
  assert.equal(fovea.expSync(Float32Array.of(0)).data[0], 1);
});
