// 16-bit tensors: a call gives what it gives of the same numbers in float32, rounded once; where no products of bfloat16 are
// taken, which are the library's to choose on some processors.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const fovea = require('..');
const { Tensor } = fovea;
const context = new fovea.Context({ maxIsa: 'base' });

// Any format of 16 bits, from its numbers alone: the nearest of the two around x, and from the middle the even one.
function format(exponentBits) {
  const mantissaBits = 15 - exponentBits, bias = 2 ** (exponentBits - 1) - 1;
  const numbers = Float32Array.from({ length: 0x8000 }, (_, bits) => {
    const exponent = bits >> mantissaBits, mantissa = (bits % 2 ** mantissaBits) / 2 ** mantissaBits;
    if (exponent === 2 ** exponentBits - 1) return mantissa === 0 ? Infinity : NaN;
    return exponent === 0 ? mantissa * 2 ** (1 - bias) : (1 + mantissa) * 2 ** (exponent - bias);
  });
  const round = (x) => {
    let low = 0, high = numbers.indexOf(Infinity);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= Math.abs(x)) low = middle;
      else high = middle;
    }
    const over = Math.abs(x) - numbers[low] - (numbers[high] - Math.abs(x));
    return (over > 0 || (over === 0 && low % 2 === 1) ? high : low) + (x < 0 ? 0x8000 : 0);
  };
  return { round, widen: (bits) => (bits >= 0x8000 ? -1 : 1) * numbers[bits % 0x8000] };
}
const formats = { f16: format(5), bf16: format(8) };

const some = (count, from) => Float32Array.from({ length: count }, (_, i) => ((((i + from) * 37) % 101) - 50.3) / 47);
const shapes = [[1, 2, 5, 8], [1, 1, 9, 8], [1, 1, 9, 8]];
const sizeOf = (shape) => shape.reduce((a, b) => a * b);

for (const [dtype, { round, widen }] of Object.entries(formats)) {
  const bits = shapes.map((shape, n) => Uint16Array.from(some(sizeOf(shape), 7 * n), round));
  const narrow = bits.map((data, n) => new Tensor(data, shapes[n], { dtype }));
  const wide = bits.map((data, n) => new Tensor(Float32Array.from(data, widen), shapes[n]));
  const rounded = (tensor) => Uint16Array.from(tensor.data, round);

  test(`${dtype} in and out is float32 rounded once`, async () => {
    const expected = fovea.sdpaSync(...wide, { context });
    const found = await fovea.sdpa(...narrow, { context });
    assert.deepEqual([found.dtype, found.data], [dtype, rounded(expected)]);
    assert.notDeepEqual(Float32Array.from(found.data, widen), expected.data);
    const out = Tensor.zeros(shapes[0]);
    fovea.sdpaSync(...narrow, { out, context });
    assert.deepEqual(out.data, expected.data);
    const gaussian = { kind: 'gaussian', sigma: 1 };
    assert.deepEqual(fovea.attentionSync(gaussian, ...narrow, { context }).data, rounded(fovea.attentionSync(gaussian, ...wide, { context })));
  });

  test(`gradients of ${dtype} are float32 rounded once`, async () => {
    const [q, k] = narrow, out = Tensor.zeros(shapes[0], Uint16Array, { dtype });
    const given = [q, new Tensor(k.data, shapes[0], { strides: [80, 0, 8, 1], dtype })];
    const full = [wide[0], new Tensor(wide[1].data, shapes[0], { strides: [80, 0, 8, 1] })];
    const found = await fovea.softmaxBackward(...given);
    assert.deepEqual([found.dtype, found.data], [dtype, rounded(fovea.softmaxBackwardSync(...full))]);
    const wanted = { out: full[1], x: Tensor.zeros(shapes[0]) };
    fovea.layerNormBackwardSync(q, { out: given[1], x: out });
    fovea.layerNormBackwardSync(wide[0], wanted);
    assert.deepEqual(out.data, rounded(wanted.x));
  });

  test(`planned runs take ${dtype}`, async () => {
    const [q, k] = shapes.map((shape) => Tensor.shapeOnly(shape, Uint16Array, { dtype }));
    const plan = fovea.Plan.sdpa(q, k, k, q, { context }), expected = rounded(fovea.sdpaSync(...wide, { context }));
    const out = new Uint16Array(expected.length);
    plan.runSync(...bits, out);
    assert.deepEqual(out, expected);
    await plan.run(...bits, out.fill(0));
    assert.deepEqual(out, expected);
    assert.throws(() => plan.runSync(...wide.map((x) => x.data), out), { code: 'FOVEA_BAD_DTYPE' });
  });
}

test('a Float16Array is float16', { skip: !globalThis.Float16Array && 'this Node has none' }, async () => {
  const { round } = formats.f16, as16 = (data) => new Uint16Array(data.buffer, data.byteOffset, data.length);
  const narrow = shapes.map((shape, n) => new Tensor(new Float16Array(some(sizeOf(shape), 7 * n)), shape));
  const expected = Uint16Array.from(fovea.sdpaSync(...narrow, { out: Tensor.zeros(shapes[0]), context }).data, round);
  const found = fovea.sdpaSync(...narrow, { context });
  assert.ok(found.data instanceof Float16Array && narrow[0].dtype === 'f16');
  assert.deepEqual(as16(found.data), expected);
  assert.throws(() => new Tensor(new Float16Array(4), [4], { dtype: 'bf16' }), { code: 'FOVEA_BAD_DTYPE' });
  const of = (dtype) => shapes.map((shape) => Tensor.shapeOnly(shape, Uint16Array, { dtype }));
  const [plan, other] = ['f16', 'bf16'].map((dtype) => fovea.Plan.sdpa(...of(dtype), of(dtype)[0], { context }));
  const out = new Float16Array(80);
  plan.runSync(...narrow.map((x) => x.data), out);
  assert.deepEqual(as16(out), expected);
  assert.throws(() => other.runSync(...narrow.map((x) => x.data), out), { code: 'FOVEA_BAD_DTYPE' });
});

// Nothing is decided here: what the library takes comes back in 16 bits, and what it does not is refused in its words.
for (const [dtype, { round, widen }] of Object.entries(formats)) {
  test(`every operation is handed ${dtype}`, () => {
    const bits = Uint16Array.from(some(64, 3), round), narrow = new Tensor(bits, [8, 8], { dtype });
    const wide = new Tensor(Float32Array.from(bits, widen), [8, 8]);
    const weights = (x) => ({ heads: 2, queryWeight: x, keyWeight: x, valueWeight: x });
    const packed = (x) => fovea.PackedMatrix.packSync(x, { context });
    const calls = {
      matmul: (x) => fovea.matmulSync(x, x, { context }),
      packed: (x) => packed(x).multiplySync(x, { context, out: x === wide ? Tensor.zeros([8, 8]) : Tensor.zeros([8, 8], Uint16Array, { dtype }) }),
      maskedSoftmax: (x) => fovea.maskedSoftmaxSync(x, undefined, { context }),
      layerNorm: (x) => fovea.layerNormSync(x, { context }),
      rotary: (x) => fovea.rotarySync(x, { context }),
      addPositionalEncoding: (x) => fovea.addPositionalEncodingSync(x, { context }),
      exp: (x) => fovea.expSync(x, { context }),
      tanh: (x) => fovea.tanhSync(x, { context }),
      kernelRegression: (x) => fovea.kernelRegressionSync(x, x, x, { context }),
      multiHeadAttentionOnce: (x) => fovea.multiHeadAttentionOnceSync(weights(x), x, { context }),
    };
    for (const [name, call] of Object.entries(calls)) {
      let found;
      try {
        found = call(narrow);
      } catch (error) {
        assert.equal(error.code, 'FOVEA_BAD_DTYPE', `${name}: ${error.message}`);
        assert.match(error.message, /expected/);
        assert.equal(name, 'kernelRegression'); // which is float32 alone
        continue;
      }
      assert.equal(found.dtype, dtype, name);
      const expected = Array.from(call(wide).data);
      Array.from(found.data, widen).forEach((x, i) => {
        assert.ok(Math.abs(x - expected[i]) <= Math.abs(expected[i]) / 64 + 1e-2, `${name}: ${x} is not ${expected[i]}`);
      });
    }
  });
}

test('what a Uint16Array holds has to be said, and is the operation\'s to take', () => {
  const refused = (make) => assert.throws(make, { code: 'FOVEA_BAD_DTYPE' });
  refused(() => new Tensor(new Uint16Array(4)));
  refused(() => new Tensor(new Uint16Array(4), [4], { dtype: 'float16' }));
  refused(() => new Tensor(new Float32Array(4), [4], { dtype: 'f16' }));
  refused(() => Tensor.shapeOnly([4], Uint16Array));
  refused(() => fovea.expSync(new Uint16Array(4)));
  assert.throws(() => fovea.expSync(new Int32Array(4)), { code: 'FOVEA_BAD_DTYPE', message: /^x .*expected/ });
});
