// Backward passes: what can be told by hand, and central differences of the forward pass.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const fovea = require('..');
const { Tensor } = fovea;

const some = (count, from) => Float32Array.from({ length: count }, (_, i) => ((((i + from) * 37) % 101) - 50.3) / 50);
const matrix = (rows, columns, from) => new Tensor(some(rows * columns, from), [rows, columns]);
const row = (...numbers) => new Tensor(Float32Array.from(numbers), [1, numbers.length]);
const refused = (code, message, call) => assert.throws(call, { code, message });

function near(found, expected, tolerance) {
  assert.equal(found.length, expected.length);
  found.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) <= tolerance, `${found} is not ${expected}`));
}

// found is how the sum of grad times forward's numbers moves with each of elements.
function moves(forward, grad, elements, found) {
  const step = 2 ** -7;
  const loss = () => forward().reduce((sum, x, n) => sum + x * grad[n], 0);
  const expected = elements.map((middle, i) => {
    elements[i] = middle + step;
    const high = loss();
    elements[i] = middle - step;
    const low = loss();
    elements[i] = middle;
    return (high - low) / (2 * step);
  });
  near(found, expected, 1e-3);
}

// One query, two keys and the values 0 and 1: out is the second key's weight, and moves by w (1 - w) with its score.
test('gradients of attention, once and planned', async () => {
  const q = row(1, -1), k = new Tensor(Float32Array.of(1, 0, 0, -0.5), [2, 2]), v = new Tensor(Float32Array.of(0, 1), [2, 1]);
  const options = { scale: 1, logSumExp: new Float32Array(1) }, out = fovea.sdpaSync(q, k, v, options);
  const w = 1 / (1 + Math.exp(0.5)), slope = w * (1 - w);
  const gradients = { out: row(1), query: row(0, 0), key: Tensor.zeros([2, 2]) };
  await fovea.attentionBackward(undefined, q, k, v, out, gradients, options);
  near(gradients.query.data, [-slope, -0.5 * slope], 1e-6);
  near(gradients.key.data, [-slope, slope, slope, -slope], 1e-6);
  const plan = fovea.Plan.attentionBackward(undefined, q, k, v, out, gradients, options), gradQuery = new Float32Array(2);
  const data = { logSumExp: options.logSumExp, gradOut: Float32Array.of(1), gradQuery, gradKey: new Float32Array(4) };
  plan.runSync(q.data, k.data, v.data, out.data, data);
  assert.deepEqual(gradQuery, gradients.query.data);
  refused('FOVEA_NULL_POINTER', /gradients.out/, () => fovea.attentionBackwardSync(undefined, q, k, v, out, {}, options));
});

// Of one unit, tanh(0.5 q + 2 k). What the backward pass is given it does not make again: doubled, it gives other gradients.
test('projections that additive attention keeps', async () => {
  const q = row(1), k = new Tensor(Float32Array.of(0.25, -0.5), [2, 1]), v = new Tensor(Float32Array.of(0, 1), [2, 1]);
  const score = { kind: 'additive', queryWeight: row(0.5), keyWeight: row(2), scoreVector: Float32Array.of(1) };
  const options = { logSumExp: new Float32Array(1), projectedQuery: Tensor.zeros([1, 1]), projectedKey: Tensor.zeros([2, 1]) };
  const out = fovea.attentionSync(score, q, k, v, options);
  assert.deepEqual([...options.projectedQuery.data, ...options.projectedKey.data], [0.5, 0.5, -1]);
  const backward = async (given) => {
    const gradients = { out: row(1), key: Tensor.zeros([2, 1]) };
    await fovea.attentionBackward(score, q, k, v, out, gradients, given);
    return [...gradients.key.data];
  };
  const found = await backward(options);
  assert.deepEqual(found, await backward({ logSumExp: options.logSumExp }));
  options.projectedKey.data[0] *= 2;
  assert.notDeepEqual(found, await backward(options));
});

test('gradients of activations', async () => {
  const x = Float32Array.of(-1, 2, 0), inPlace = Float32Array.of(5, 7, 9);
  assert.deepEqual([...(await fovea.activationBackward('relu', x, inPlace)).data], [0, 7, 0]);
  fovea.activationBackwardSync('relu', x, inPlace, { out: inPlace });
  assert.deepEqual([...inPlace], [0, 7, 0]);
  const elements = some(6, 1), grad = some(6, 2);
  const found = fovea.activationBackwardSync('silu', elements, grad).data;
  moves(() => fovea.activationSync('silu', elements).data, grad, elements, found);
  refused('FOVEA_BAD_SHAPE', /grad_out/, () => fovea.activationBackwardSync('silu', x, new Float32Array(2)));
});

test('gradients of softmaxes', async () => {
  const x = new Tensor(some(12, 3), [2, 2, 3]), grad = new Tensor(some(12, 4), [2, 2, 3]), lens = Int32Array.of(2, 3);
  for (const axis of [0, 1, undefined]) {
    for (const name of ['softmax', 'logSoftmax']) {
      const forward = () => fovea[`${name}Sync`](x, axis);
      moves(() => forward().data, grad.data, x.data, (await fovea[`${name}Backward`](forward(), grad, axis)).data);
    }
  }
  const masked = () => fovea.maskedSoftmaxSync(x, lens);
  moves(() => masked().data, grad.data, x.data, (await fovea.maskedSoftmaxBackward(masked(), grad, lens)).data);
  const behind = fovea.maskedSoftmaxBackwardSync(row(0.5, 0.5, NaN), row(1, 3, NaN), Int32Array.of(2));
  assert.deepEqual([...behind.data], [-0.5, 0.5, 0]);
  refused('FOVEA_BAD_VALUE', /axis.*3/, () => fovea.softmaxBackwardSync(x, grad, 3));
  refused('FOVEA_BAD_VALUE', /axis.*-4/, () => fovea.logSoftmaxBackwardSync(x, grad, -4));
  refused('FOVEA_BAD_VALUE', /valid_lens.*4/, () => fovea.maskedSoftmaxBackwardSync(x, grad, Int32Array.of(2, 4)));
});

test('gradients of norms', async () => {
  const [x, residual, out] = [5, 6, 7].map((from) => matrix(2, 4, from)), [weight, bias] = [some(4, 8), some(4, 9)];
  const layer = { epsilon: 0.5, weight, bias, residual }, rms = { epsilon: 0.5, weight, weightFromOne: true, residual };
  const wanted = { out, x: Tensor.zeros([2, 4]), weight: new Float32Array(4), bias: new Float32Array(4) };
  const mean = Float32Array.of(5, 5), forward = () => fovea.layerNormSync(x, layer).data;
  await fovea.layerNormBackward(x, wanted, { ...layer, mean });
  assert.deepEqual([...mean], [5, 5]);
  moves(forward, out.data, x.data, wanted.x.data);
  moves(forward, out.data, residual.data, wanted.x.data);
  moves(forward, out.data, weight, wanted.weight);
  moves(forward, out.data, bias, wanted.bias);
  refused('FOVEA_BAD_VALUE', /gradients.bias/, () => fovea.rmsNormBackwardSync(x, wanted, rms));
  const sum = new Tensor(new Float32Array(8).fill(1), [2, 4]);
  fovea.rmsNormBackwardSync(x, { ...wanted, bias: undefined, sum }, rms);
  moves(() => fovea.rmsNormSync(x, rms).data, out.data, x.data, wanted.x.data.map((y) => y - 1));
  moves(() => fovea.rmsNormSync(x, rms).data, out.data, weight, wanted.weight);
  refused('FOVEA_NULL_POINTER', /gradients.out/, () => fovea.layerNormBackwardSync(x, {}, layer));
  refused('FOVEA_NULL_POINTER', /gradients/, () => fovea.rmsNormBackwardSync(x, undefined, rms));
  assert.throws(() => fovea.rmsNormBackwardSync(x, { wieght: weight }), /NormGradients has no wieght/);
});

test('gradients of a linear layer', async () => {
  const unit = new Tensor(Float32Array.of(1, 0, 0, 1), [2, 2]), plain = { out: row(3, 5), weight: Tensor.zeros([2, 2]) };
  fovea.linearBackwardSync(row(1, 2), unit, plain);
  assert.deepEqual([...plain.weight.data], [3, 6, 5, 10]);
  await fovea.linearBackward(row(1, 2), unit, plain, { layout: 'inOut' });
  assert.deepEqual([...plain.weight.data], [3, 5, 6, 10]);
  const x = matrix(2, 3, 10), weight = matrix(4, 3, 11), bias = some(4, 12);
  const multiplier = matrix(2, 4, 13), out = matrix(2, 4, 14), options = { activation: 'gelu', bias, multiplier };
  const wanted = { out, x: Tensor.zeros([2, 3]), weight: Tensor.zeros([4, 3]), bias: new Float32Array(4) };
  wanted.multiplier = Tensor.zeros([2, 4]);
  fovea.linearBackwardSync(x, weight, wanted, options);
  const forward = () => fovea.PackedMatrix.packLinearSync(weight).linearSync(x, { ...options, out: Tensor.zeros([2, 4]) }).data;
  moves(forward, out.data, x.data, wanted.x.data);
  moves(forward, out.data, weight.data, wanted.weight.data);
  moves(forward, out.data, bias, wanted.bias);
  moves(forward, out.data, multiplier.data, wanted.multiplier.data);
  refused('FOVEA_BAD_VALUE', /gradients.bias/, () => fovea.linearBackwardSync(x, weight, wanted));
  const laid = (layout) => () => fovea.linearBackwardSync(x, weight, wanted, { ...options, layout });
  refused('FOVEA_BAD_SHAPE', /x.shape\[1\]/, laid('inOut'));
  refused('ERR_INVALID_ARG_VALUE', /layout/, laid('across'));
});

test('gradients of merged states', async () => {
  const outs = new Tensor(some(8, 15), [2, 2, 2]), lses = matrix(2, 2, 16), out = matrix(2, 2, 17), logSumExp = some(2, 18);
  const wanted = { out, logSumExp, outs: Tensor.zeros([2, 2, 2]), lses: Tensor.zeros([2, 2]) };
  await fovea.mergeStatesBackward(outs, lses, wanted);
  const forward = () => {
    const sums = new Float32Array(2);
    return [...fovea.mergeStatesSync(outs, lses, { logSumExp: sums }).data, ...sums];
  };
  moves(forward, [...out.data, ...logSumExp], outs.data, wanted.outs.data);
  moves(forward, [...out.data, ...logSumExp], lses.data, wanted.lses.data);
  refused('FOVEA_BAD_SHAPE', /lses.shape\[0\]/, () => fovea.mergeStatesBackwardSync(outs, Tensor.zeros([3, 2]), wanted));
});

test('gradients of multi-head attention', async () => {
  const query = matrix(3, 4, 19), key = matrix(4, 4, 20), out = matrix(3, 3, 21), slopes = Float32Array.of(0.5, 0.25);
  const [queryWeight, keyWeight, valueWeight] = [22, 23, 24].map((from) => matrix(4, 4, from));
  const outWeight = matrix(3, 4, 25), valueBias = some(4, 26), outBias = some(3, 27);
  const parameters = { heads: 2, queryWeight, keyWeight, valueWeight, outWeight, valueBias, outBias };
  const options = { key, attention: { causal: true, alibiSlopes: slopes }, rotary: { base: 100 } };
  const zeros = (like) => (like instanceof Tensor ? Tensor.zeros([...like.shape]) : new Float32Array(like.length));
  const all = Object.entries({ ...parameters, query, key }).filter(([name]) => name !== 'heads');
  const wanted = Object.fromEntries(all.map(([name, tensor]) => [name, zeros(tensor)]));
  const attention = { alibiSlopes: new Float32Array(2) };
  await fovea.multiHeadAttentionBackward(parameters, query, { ...wanted, out, attention }, options);
  const forward = () => fovea.multiHeadAttentionOnceSync(parameters, query, { ...options, out: Tensor.zeros([3, 3]) }).data;
  const numbers = (tensor) => tensor.data ?? tensor;
  for (const [name, tensor] of all) moves(forward, out.data, numbers(tensor), numbers(wanted[name]));
  moves(forward, out.data, slopes, attention.alibiSlopes);
  const refusedOf = (gradients, message) => refused('FOVEA_BAD_VALUE', message,
    () => fovea.multiHeadAttentionBackwardSync(parameters, query, { out, ...gradients }, options));
  refusedOf({ keyBias: new Float32Array(4) }, /gradients.key_bias/);
  refusedOf({ attention: { query } }, /gradients.attention.*query/);
});

test('gradients of dropout behind an encoding', () => {
  const options = { dropout: 0.5, dropoutSeed: 7 }, filled = (x) => new Tensor(new Float32Array(64).fill(x), [8, 8]);
  const out = fovea.addPositionalEncodingSync(filled(2), options).data;
  const found = fovea.addPositionalEncodingSync(filled(1), { ...options, dropoutAlone: true }).data;
  assert.deepEqual(found, out.map((x) => (x === 0 ? 0 : 2)));
  assert.ok(found.includes(0) && found.includes(2));
  refused('FOVEA_BAD_OPTION', /flags/, () => fovea.positionalEncodingSync([2, 2], { dropoutAlone: true }));
});
