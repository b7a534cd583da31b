// A 0 that is given is another number than one that is left out, as undefined and null are.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const fovea = require('..');
const { Tensor } = fovea;

const x = new Tensor(Float32Array.of(1, 0, 0, 4, 2, 2), [3, 2]), mean = [1, 2, 1, 2, 1, 2];
const unit = new Tensor(Float32Array.of(1, 0, 0, 1), [2, 2]);
const none = [{}, { scale: undefined }, { scale: null }];

test('a scale of 0 gives the mean of the values', () => {
  for (const score of [{ kind: 'dot' }, { kind: 'gaussian', sigma: 1 }]) {
    assert.deepEqual([...fovea.attentionSync(score, x, x, x, { scale: 0 }).data], mean);
    const own = none.map((options) => [...fovea.attentionSync(score, x, x, x, options).data]);
    assert.notDeepEqual(own[0], mean);
    own.forEach((one) => assert.deepEqual(one, own[0]));
  }
  const parameters = { heads: 1, queryWeight: unit, keyWeight: unit, valueWeight: unit };
  assert.deepEqual([...fovea.multiHeadAttentionOnceSync(parameters, x, { attention: { scale: 0 } }).data], mean);
});

test('so do epsilon, positionScale and rotaryDim', () => {
  const small = new Tensor(Float32Array.of(-1e-3, 1e-3), [1, 2]);
  assert.ok(fovea.layerNormSync(small, { epsilon: 0 }).data[1] > 0.999);
  assert.ok(fovea.layerNormSync(small, { epsilon: undefined }).data[1] < 0.31);
  assert.deepEqual(fovea.rotarySync(x, { positionScale: 0 }).data, x.data);
  assert.deepEqual(fovea.rotarySync(x, { rotaryDim: 0 }).data, x.data);
  assert.deepEqual(fovea.rotarySync(x, { rotaryDim: 0n }).data, x.data);
  assert.notDeepEqual(fovea.rotarySync(x, { rotaryDim: undefined }).data, x.data);
});

test('a width, a base or a size of 0 is refused', () => {
  const refused = (code, message, call) => assert.throws(call, { code, message });
  refused('FOVEA_BAD_VALUE', /sigma/, () => fovea.kernelRegressionSync(x, x, x, { sigma: 0 }));
  fovea.kernelRegressionSync(x, x, x, { sigma: undefined });
  refused('FOVEA_BAD_VALUE', /base/, () => fovea.rotarySync(x, { base: 0 }));
  refused('FOVEA_BAD_VALUE', /base/, () => fovea.positionalEncodingSync([3, 2], { base: 0 }));
  const sizes = { kvHeads: 1, positions: 2, sequences: 1, headDim: 2 };
  for (const name of ['valueDim', 'pageSize', 'scaleGroup']) {
    refused('FOVEA_BAD_VALUE', new RegExp(`${name} is 0`), () => new fovea.KVPool({ ...sizes, [name]: 0 }));
    new fovea.KVPool({ ...sizes, [name]: undefined });
  }
  refused('FOVEA_BAD_VALUE', /kv_heads/, () => new fovea.KVPool({ ...sizes, kvHeads: 0 }));
  refused('FOVEA_BAD_VALUE', /layers/, () => new fovea.KVPool({ ...sizes, layers: 0 }));
  refused('FOVEA_BAD_VALUE', /keyLen is 0/, () => new fovea.Schedule({ query: [1, 1, 2], pool: new fovea.KVPool(sizes), keyLen: 0 }));
  const parameters = { heads: 1, queryWeight: unit, keyWeight: unit, valueWeight: unit };
  refused('FOVEA_BAD_VALUE', /kvHeads is 0/, () => fovea.MhaWeights.packSync({ ...parameters, kvHeads: 0 }));
  fovea.MhaWeights.packSync({ ...parameters, kvHeads: undefined });
  const score = { kind: 'bilinear', weight: unit };
  new fovea.PreparedKeys(score, { capacity: 2, queryDim: 2, keyDim: 2, batch: undefined, kvHeads: undefined });
  refused('FOVEA_BAD_VALUE', /kv_heads/, () => new fovea.PreparedKeys(score, { capacity: 2, queryDim: 2, keyDim: 2, kvHeads: 0 }));
});
