// Calls whose results can be told by hand.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const fovea = require('..');
const { Tensor } = fovea;

const f32 = (count, make) => Float32Array.from({ length: count }, (_, i) => make(i));
const ones = (count) => f32(count, () => 1);

// Any numbers in (-1, 1).
function some(count) {
  let state = 2463534242;
  return f32(count, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 8) / 8388608 - 1;
  });
}

function near(found, expected, tolerance) {
  assert.equal(found.length, expected.length);
  found.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) <= tolerance, `${found} is not ${expected}`));
}

test('masked softmax is zero behind the lengths', async () => {
  const x = some(16);
  const { data } = await fovea.maskedSoftmax(new Tensor(x, [2, 2, 4]), Int32Array.of(2, 3));
  for (let row = 0; row < 4; ++row) {
    const length = [2, 2, 3, 3][row];
    const powers = [...x.subarray(4 * row, 4 * row + length)].map(Math.exp);
    const sum = powers.reduce((a, b) => a + b);
    near(data.subarray(4 * row, 4 * row + length), powers.map((p) => p / sum), 1e-6);
    assert.ok(data.subarray(4 * row + length, 4 * row + 4).every((p) => p === 0));
  }
  const view = new Tensor(x, [2, 2, 4]);
  fovea.maskedSoftmaxSync(view, new Tensor(BigInt64Array.of(1n, 3n, 2n, 4n), [2, 2]), { out: view });
  assert.deepEqual([...x.subarray(0, 4)], [1, 0, 0, 0]);
  assert.ok(x.subarray(12).every((p) => p > 0));
});

// Ten equal keys with the values 0 to 39, the same for both sequences by a stride of 0.
function overEqualKeys(score, queryDim, lengths) {
  const key = new Tensor(ones(20), [2, 10, 2], { strides: [0, 2, 1] });
  const value = new Tensor(f32(40, (i) => i), [2, 10, 4], { strides: [0, 4, 1] });
  const query = new Tensor(some(2 * queryDim), [2, 1, queryDim]);
  return fovea.attention(score, query, key, value, { validLens: Int32Array.from(lengths) });
}

test('equal keys give the mean of the valid values', async () => {
  const means = [2, 3, 4, 5, 10, 11, 12, 13];
  near((await overEqualKeys(undefined, 2, [2, 6])).data, means, 1e-5);
  const additive = { kind: 'additive', queryWeight: new Tensor(some(160), [8, 20]), keyWeight: new Tensor(some(16), [8, 2]),
    scoreVector: some(8) };
  near((await overEqualKeys(additive, 20, [2, 6])).data, means, 1e-5);
  near((await overEqualKeys(undefined, 2, [0, 1])).data, [0, 0, 0, 0, 0, 1, 2, 3], 0);
  await assert.rejects(overEqualKeys(undefined, 2, [2, 11]), { code: 'FOVEA_BAD_VALUE', message: /valid_lens.*11/ });
});

test('concat is additive with the weight cut in two', () => {
  const weight = some(54), scoreVector = some(6);
  const inputs = [new Tensor(some(15), [3, 5]), new Tensor(some(28), [7, 4]), new Tensor(some(7), [7, 1])];
  const concat = fovea.attentionSync({ kind: 'concat', weight: new Tensor(weight, [6, 9]), scoreVector }, ...inputs);
  const queryWeight = new Tensor(weight, [6, 5], { strides: [9, 1] });
  const keyWeight = new Tensor(weight, [6, 4], { strides: [9, 1], offset: 5 });
  near(fovea.attentionSync({ kind: 'additive', queryWeight, keyWeight, scoreVector }, ...inputs).data, concat.data, 1e-6);
});

test('multi-head attention over equal keys projects the one value', async () => {
  const e = 100;
  const [query, key, value, out] = [1, 2, 3, 4].map((n) => some(e * e).map((x) => x * n));
  const square = (weight) => new Tensor(weight, [e, e]);
  const weights = await fovea.MhaWeights.pack({ heads: 5, queryWeight: square(query), keyWeight: square(key),
    valueWeight: square(value), outWeight: square(out) });
  const times = (weight, x) => f32(e, (i) => x.reduce((sum, y, j) => sum + y * weight[i * e + j], 0));
  const expected = times(out, times(value, ones(e)));
  const x = new Tensor(ones(2 * 4 * e), [2, 4, e]);
  for (const other of [undefined, new Tensor(ones(2 * 6 * e), [2, 6, e])]) {
    const found = await weights.attend(x, { key: other, attention: { validLens: Int32Array.of(3, 2) } });
    assert.deepEqual([...found.shape], [2, 4, e]);
    for (let row = 0; row < 8; ++row) near(found.data.subarray(row * e, row * e + e), expected, 2e-2);
  }
});

test('the encoding turns slower from pair to pair', async () => {
  const { data } = await fovea.positionalEncoding([60, 32]);
  const changes = new Array(32).fill(0);
  data.forEach((found, i) => {
    const step = Math.floor(i / 32), column = i % 32;
    const angle = step / 10000 ** (2 * Math.floor(column / 2) / 32);
    assert.ok(Math.abs(found - (column % 2 ? Math.cos(angle) : Math.sin(angle))) <= 1e-6);
    if (step > 0 && found < 0 !== data[i - 32] < 0) ++changes[column];
  });
  assert.ok(changes[6] > changes[8] && changes[7] > changes[9]);
});

test('a wide kernel regresses to the mean and a narrow one to the data', () => {
  const noise = some(50), x = f32(50, (i) => i / 10);
  const y = f32(50, (i) => 2 * Math.sin(x[i]) + x[i] ** 0.8 + noise[i] / 2);
  const mean = y.reduce((a, b) => a + b) / 50;
  near(fovea.kernelRegressionSync(x, x, y, { sigma: 1e6 }).data, f32(50, () => mean), 1e-5);
  near(fovea.kernelRegressionSync(x, x, y, { sigma: 0.01 }).data, y, 1e-6);
});

test('every other operation does what its name says', () => {
  near(fovea.alibiSlopes(2).data, [1 / 16, 1 / 256], 0);
  const yarn = { kind: 'yarn', base: 100, factor: 4, originalLength: 4096, fastRotations: 32, slowRotations: 1 };
  const { frequencies, attentionFactor } = fovea.rotaryFrequencies(4, yarn);
  near([attentionFactor, ...frequencies.data], [1 + Math.log(4) / 10, 1, 0.1], 1e-6);
  near(fovea.expSync(Float32Array.of(0, 1)).data, [1, Math.E], 1e-6);
  near(fovea.tanhSync(Float32Array.of(0, 1)).data, [0, Math.tanh(1)], 1e-6);
  near(fovea.layerNormSync(Float32Array.of(1, 3), { bias: Float32Array.of(5, 5) }).data, [4, 6], 1e-4);
  const row = (...numbers) => new Tensor(Float32Array.from(numbers), [1, numbers.length]);
  const [sum, mean, inverseDeviation] = [row(0, 0), new Float32Array(1), new Float32Array(1)];
  near(fovea.layerNormSync(row(1, 2), { epsilon: 0.75, residual: row(2, 2), sum, mean, inverseDeviation }).data, [-0.5, 0.5], 1e-6);
  near([...sum.data, ...mean, ...inverseDeviation], [3, 4, 3.5, 1], 1e-6);
  const rms = { epsilon: 3.5, residual: row(2, 2), weight: Float32Array.of(1, 2), weightFromOne: true };
  near(fovea.rmsNormSync(row(1, 2), rms).data, [1.5, 3], 1e-6);
  near(fovea.softmaxSync(new Tensor(Float32Array.of(1, 1), [2, 1]), 0).data, [0.5, 0.5], 0);
  near(fovea.logSoftmaxSync(row(1, 1)).data, [-Math.log(2), -Math.log(2)], 1e-6);
  near(fovea.activationSync('relu', Float32Array.of(-1, 2)).data, [0, 2], 0);
  const square = new Tensor(Float32Array.of(1, 0, 0, 1), [2, 2]);
  near(fovea.gemmSync(row(1, 2), square, { alpha: 3, beta: -1, c: row(1, 1) }).data, [2, 5], 0);
  near(fovea.rotarySync(row(1, 0), { offset: 1 }).data, [Math.cos(1), Math.sin(1)], 1e-6);
  near(fovea.addPositionalEncodingSync(row(2, 2)).data, [2, 3], 1e-6);
  const logSumExp = new Float32Array(1);
  const parts = new Tensor(Float32Array.of(1, 2, 5, 6), [2, 1, 2]);
  near(fovea.mergeStatesSync(parts, new Tensor(new Float32Array(2), [2, 1]), { logSumExp }).data, [3, 4], 1e-6);
  near(logSumExp, [Math.log(2)], 1e-6);
  const b = new Tensor(Float32Array.of(3, 4, 5, 6), [2, 2]);
  near(fovea.matmulSync(row(1, 2), b).data, [13, 16], 0);
  const packed = fovea.PackedMatrix.packSync(b);
  near(packed.multiplySync(row(2, 1), { out: Tensor.zeros([1, 2]) }).data, [11, 14], 0);
  const linear = fovea.PackedMatrix.packLinearSync(b, { layout: 'outIn' });
  const options = { bias: Float32Array.of(-20, 1), activation: 'relu', out: Tensor.zeros([1, 2]) };
  near(linear.linearSync(row(2, 1), options).data, [0, 17], 0);
  assert.ok(packed.size > 0);
});
