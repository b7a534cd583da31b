// index.d.ts as a program in strict TypeScript sees it: every export is used, and what the types say is what there is when the
// program runs. The compiler refuses an export that `names` below leaves out; the program, one that the types have and Node
// does not; and what stands under @ts-expect-error must not compile. node_types.sh compiles and runs it.
// SPDX-License-Identifier: Apache-2.0
import * as fovea from 'fovea';
import {
  Activation, AppendOptions, AttentionGradients, AttentionOptions, Buffers, Context, Data, Dtype, EmptyRows, Extras, Float16,
  FrequenciesKind, GemmOptions, Half, Input, KernelRegressionOptions, KVPool, KVPoolSizes, LayerNormOptions, LinearGradients,
  LinearOptions, LinearPackOptions, MaskedSoftmaxOptions, MatmulPackOptions, MergeGradients, MhaGradients, MhaOptions,
  MhaParameters, MhaPlan, MhaRun, MhaWeights, NormGradients, PackedMatrix, Pages, Plan,
  PositionalEncodingOptions, Precision, PreparedKeys, PreparedKeysSizes, RmsNormOptions, RotaryFrequenciesOptions,
  RotaryOptions, Quantized, QuantizedFours, RunOptions, Schedule, ScheduleLimits, ScheduleOptions, Score, ScoreKind, ScoresKind, Sequence, Status, Step,
  StepTensors, Tensor, WeightLayout,
} from 'fovea';

const names: { [Name in keyof typeof fovea]: true } = {
  Context: true, KVPool: true, MhaPlan: true, MhaWeights: true, PackedMatrix: true, Plan: true, PreparedKeys: true, Schedule: true, Sequence: true,
  Step: true, Tensor: true, dequantize: true, dequantizeSync: true, quantize: true, quantizeSync: true, varlenAttention: true,
  varlenAttentionSync: true,
  activation: true, activationSync: true, addPositionalEncoding: true, addPositionalEncodingSync: true, gemm: true,
  gemmSync: true, logSoftmax: true, logSoftmaxSync: true, rmsNorm: true, rmsNormSync: true, softmax: true, softmaxSync: true, alibiSlopes: true, attention: true, attentionSync: true, attentionBackward: true, attentionBackwardSync: true,
  activationBackward: true, activationBackwardSync: true, layerNormBackward: true, layerNormBackwardSync: true,
  linearBackward: true, linearBackwardSync: true, logSoftmaxBackward: true, logSoftmaxBackwardSync: true,
  maskedSoftmaxBackward: true, maskedSoftmaxBackwardSync: true, mergeStatesBackward: true, mergeStatesBackwardSync: true,
  multiHeadAttentionBackward: true, multiHeadAttentionBackwardSync: true, rmsNormBackward: true, rmsNormBackwardSync: true,
  softmaxBackward: true, softmaxBackwardSync: true,
  exp: true, expSync: true, isaAvailable: true, kernelRegression: true, kernelRegressionSync: true, layerNorm: true,
  layerNormSync: true, maskedSoftmax: true, maskedSoftmaxSync: true, matmul: true, matmulSync: true, mergeStates: true,
  mergeStatesSync: true, multiHeadAttentionOnce: true, multiHeadAttentionOnceSync: true, positionalEncoding: true,
  positionalEncodingSync: true, rotary: true, rotaryFrequencies: true, rotarySync: true, sdpa: true, sdpaSync: true, tanh: true, tanhSync: true,
  version: true,
};

function fail(message: string): never {
  throw new Error(message);
}
const said = (value: unknown): string => JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? `${one}n` : one));
function same(found: unknown, expected: unknown): void {
  if (said(found) !== said(expected)) fail(`found ${said(found)}, expected ${said(expected)}`);
}
// Wherever a B is wanted an A will do, and neither is `any`, nor A `never` by mistake.
type Is<A, B> = 0 extends 1 & A ? false : [A] extends [never] ? ([B] extends [never] ? true : false) : [A] extends [B] ? true : false;
function is<A, B>(...proof: Is<A, B> extends true ? [] : ['the types differ']): void {
  same(proof.length, 0);
}

type Floats = Tensor<Float32Array>;
type Halves = Tensor<Uint16Array>;
const floats = (shape: number[], ...values: number[]): Floats => new Tensor(Float32Array.from(values), shape);
const unit = floats([2, 2], 1, 0, 0, 1), pair = floats([1, 2], 1, 2);
const narrow = new Tensor(new Uint16Array(4), [2, 2], { dtype: 'bf16' });

function tensors(): void {
  is<typeof narrow, Halves>();
  is<Half, 'f16' | 'bf16'>();
  is<'f16' | 'bf16', Half>();
  const half: Half | 'u8' | undefined = narrow.dtype;
  same([half, unit.dtype, [...unit.shape], unit.data.length], ['bf16', undefined, [2, 2], 4]);
  const strided = new Tensor(new Int32Array(8), [2, 2], { strides: [4, 1], offset: 1 });
  is<typeof strided.data, Int32Array>();
  is<ReturnType<typeof Tensor.shapeOnly>, Tensor>();
  same([...Tensor.shapeOnly([2, 3]).shape, ...Tensor.shapeOnly([4], Uint16Array, { dtype: 'f16' }).shape], [2, 3, 4]);
  const zeros = Tensor.zeros([2]), bytes = Tensor.zeros([2], Uint8Array), longs = Tensor.zeros([1], BigInt64Array);
  is<typeof zeros, Floats>();
  is<typeof bytes.data, Uint8Array>();
  is<typeof longs.data, BigInt64Array>();
  const any: Input[] = [zeros, bytes, longs, new Float32Array(1)];
  const data: Data[] = [zeros.data, bytes.data];
  same([any.length, data.length], [4, 2]);
  is<Float16, never>(); // unless TypeScript's library has Float16Array: see float16.ts
  // @ts-expect-error: no such element type
  const wrong = (): unknown => new Tensor(new Float64Array(2));
  // @ts-expect-error: a view does not change
  const changed = (): unknown => (unit.data = new Float32Array(4));
  same(typeof wrong, typeof changed);
}

async function both<T>(now: T, later: Promise<T>): Promise<T> {
  same(await later, now);
  return now;
}

async function operations(context: Context): Promise<void> {
  const everything: AttentionOptions & Extras = {
    causal: false, topLeft: false, leaveOneOut: false, averageWeights: false, queryInvariant: true, emptyRows: 'zero', scale: 1,
    softcap: 0, windowLeft: 5, windowRight: 5n, queryOffset: 0, validLens: Int32Array.of(2), mask: new Tensor(Uint8Array.of(1, 1, 1, 1), [2, 2]),
    bias: Tensor.zeros([2, 2]), alibiSlopes: Float32Array.of(0), sinks: Float32Array.of(-1e30), logSumExp: Tensor.zeros([2]),
    weights: Tensor.zeros([2, 2]), dropout: 0, dropoutSeed: 7n, scores: Tensor.zeros([2, 2]), scoresKind: 'capped',
    precision: 'highest', context, out: Tensor.zeros([2, 2]),
  };
  const attended = await both(fovea.sdpaSync(unit, unit, unit, everything), fovea.sdpa(unit, unit, unit, everything));
  is<typeof attended, Floats>();
  same(attended, everything.out);
  const offsets: AttentionOptions = { causal: true, queryOffsets: BigInt64Array.of(0n) };
  same([...fovea.sdpaSync(unit, unit, unit, offsets).data].slice(0, 2), [1, 0]);
  const rounded = await both(fovea.sdpaSync(narrow, unit, unit), fovea.sdpa(narrow, unit, unit));
  is<typeof rounded, Halves>();
  const kinds: ScoreKind[] = ['dot', 'bilinear', 'additive', 'concat', 'gaussian'];
  const scores: Score[] = [{ kind: 'dot' }, { kind: 'bilinear', weight: unit },
    { kind: 'additive', queryWeight: unit, keyWeight: unit, scoreVector: pair.data },
    { kind: 'concat', weight: Tensor.zeros([2, 4]), bias: pair.data, scoreVector: pair.data },
    { kind: 'gaussian', sigma: 1 }, { kind: 'gaussian', sigmas: Float32Array.of(1) }];
  same([...new Set(scores.map((score) => score.kind))], kinds);
  for (const score of scores) {
    is<typeof result, Floats>();
    const result = await both(fovea.attentionSync(score, unit, unit, unit), fovea.attention(score, unit, unit, unit));
  }
  is<ReturnType<typeof fovea.attentionSync<Halves>>, Halves>();
  same(fovea.attentionSync(undefined, unit, unit, unit), fovea.sdpaSync(unit, unit, unit));
  const sums1 = { logSumExp: Tensor.zeros([2]) }, gradients: AttentionGradients = { out: unit, query: Tensor.zeros([2, 2]) };
  const given = fovea.attentionSync(undefined, unit, unit, unit, sums1);
  fovea.attentionBackwardSync(undefined, unit, unit, unit, given, gradients, sums1);
  await fovea.attentionBackward({ kind: 'dot' }, unit, unit, unit, given, gradients, { ...sums1, context });
  const regression: KernelRegressionOptions & Extras = { leaveOneOut: true, sigma: 1, weights: Tensor.zeros([2, 2]) };
  await both(fovea.kernelRegressionSync(unit, unit, pair.data, regression), fovea.kernelRegression(unit, unit, pair.data, regression));
  const parts = floats([2, 1, 2], 1, 2, 5, 6), sums = Tensor.zeros([2, 1]), merged = { logSumExp: Tensor.zeros([1]) };
  same(await both(fovea.mergeStatesSync(parts, sums, merged), fovea.mergeStates(parts, sums, merged)), floats([1, 2], 3, 4));
  const masked: MaskedSoftmaxOptions = { emptyRows: 'uniform' };
  const lens = Int32Array.of(1);
  same(await both(fovea.maskedSoftmaxSync(unit, lens, masked), fovea.maskedSoftmax(unit, lens, masked)), floats([2, 2], 1, 0, 1, 0));
  same(await both(fovea.matmulSync(pair, unit), fovea.matmul(pair, unit)), pair);
  is<ReturnType<typeof fovea.matmulSync<Halves>>, Halves>();
  const angles: PositionalEncodingOptions & Extras = { base: 100, offset: 1n, dropout: 0, dropoutSeed: 1 };
  const encoded = await both(fovea.positionalEncodingSync([2, 4], angles), fovea.positionalEncoding([2, 4], angles));
  is<typeof encoded, Floats>();
  same(await both(fovea.addPositionalEncodingSync(Tensor.zeros([2, 4]), angles), fovea.addPositionalEncoding(Tensor.zeros([2, 4]), angles)), encoded);
  const turn: RotaryOptions & Extras = { interleaved: true, inverse: true, base: 10, positionScale: 2, rotaryDim: 2, offset: 0 };
  await both(fovea.rotarySync(unit, turn), fovea.rotary(unit, turn));
  await both(fovea.rotarySync(unit, { positions: Int32Array.of(3, 4) }), fovea.rotary(unit, { positions: BigInt64Array.of(3n, 4n) }));
  const norm: LayerNormOptions & Extras = { epsilon: 1e-6, weight: pair.data, bias: pair.data, residual: unit };
  await both(fovea.layerNormSync(unit, norm), fovea.layerNorm(unit, norm));
  const rms: RmsNormOptions & Extras = { weightFromOne: true, weight: pair.data, residual: unit };
  await both(fovea.rmsNormSync(unit, rms), fovea.rmsNorm(unit, rms));
  await both(fovea.softmaxSync(unit, 0), fovea.softmax(unit, 0, {}));
  await both(fovea.logSoftmaxSync(unit), fovea.logSoftmax(unit, -1, { context }));
  await both(fovea.activationSync('silu', unit), fovea.activation('silu', unit, {}));
  const product: GemmOptions & Extras = { alpha: 2, beta: -1, c: unit };
  await both(fovea.gemmSync(unit, unit, product), fovea.gemm(unit, unit, product));
  await both(fovea.expSync(unit), fovea.exp(unit, {}));
  await both(fovea.tanhSync(pair.data), fovea.tanh(pair.data, { context }));
  same([...fovea.alibiSlopes(2).data], [1 / 16, 1 / 256]);
  const kind: FrequenciesKind = 'linear';
  const stretched: RotaryFrequenciesOptions = { kind, base: 100, factor: 4 };
  const { frequencies, attentionFactor } = fovea.rotaryFrequencies(2, stretched);
  is<typeof frequencies, Floats>();
  same([[...frequencies.data], attentionFactor], [[0.25], 1]);
  fovea.rotarySync(unit, { frequencies, attentionFactor, sections: Int32Array.of(0), positions: new Tensor(Int32Array.of(1, 2), [1, 2]) });
  fovea.rotarySync(unit, { cosines: floats([2, 1], 1, 1), sines: floats([2, 1], 0, 0) });
  // @ts-expect-error: no such option
  const misspelt = (): unknown => fovea.sdpaSync(unit, unit, unit, { causual: true });
  // @ts-expect-error: a list of lengths is no typed array
  const list = (): unknown => fovea.sdpaSync(unit, unit, unit, { validLens: [1, 2] });
  // @ts-expect-error: undefined is no value of an option
  const nothing: AttentionOptions = { scale: undefined };
  same([typeof misspelt, typeof list, typeof nothing], ['function', 'function', 'object']);
}

async function gradients(context: Context): Promise<void> {
  const place = Tensor.zeros([2, 2]), lens = Int32Array.of(1);
  const later = fovea.activationBackward('relu', unit, unit, { out: place });
  const activated = await both(fovea.activationBackwardSync('relu', unit, unit), later);
  is<typeof activated, Floats>();
  same(activated, unit);
  is<ReturnType<typeof fovea.activationBackwardSync<Halves>>, Halves>();
  const out = fovea.softmaxSync(unit, 0);
  await both(fovea.softmaxBackwardSync(out, unit, 0), fovea.softmaxBackward(out, unit, 0, { context }));
  await both(fovea.logSoftmaxBackwardSync(out, unit), fovea.logSoftmaxBackward(out, unit, -1, {}));
  const masked = fovea.maskedSoftmaxBackward(unit, unit, lens, { context });
  same(await both(fovea.maskedSoftmaxBackwardSync(unit, unit, lens), masked), Tensor.zeros([2, 2]));
  const norm: NormGradients = { out: unit, sum: unit, x: Tensor.zeros([2, 2]) }, residual = { residual: unit };
  fovea.layerNormBackwardSync(unit, { ...norm, bias: Tensor.zeros([2]) }, { ...residual, bias: pair.data });
  await fovea.layerNormBackward(unit, norm, { ...residual, context });
  fovea.rmsNormBackwardSync(unit, norm, residual);
  await fovea.rmsNormBackward(unit, { ...norm, weight: Tensor.zeros([2]) }, { ...residual, weight: pair.data });
  const linear: LinearGradients = { out: pair, x: Tensor.zeros([1, 2]), weight: Tensor.zeros([2, 2]) };
  const layout: WeightLayout = 'inOut';
  fovea.linearBackwardSync(pair, unit, linear);
  await fovea.linearBackward(pair, unit, { ...linear, bias: Tensor.zeros([2]) }, { layout, bias: pair.data, context });
  same(linear.x, pair);
  const parts = floats([2, 1, 2], 1, 2, 5, 6), sums = Tensor.zeros([2, 1]);
  const merged: MergeGradients = { out: pair, logSumExp: Tensor.zeros([1]), outs: Tensor.zeros([2, 1, 2]), lses: sums };
  fovea.mergeStatesBackwardSync(parts, Tensor.zeros([2, 1]), merged);
  await fovea.mergeStatesBackward(parts, Tensor.zeros([2, 1]), merged, { context });
  const parameters: MhaParameters = { heads: 1, queryWeight: unit, keyWeight: unit, valueWeight: unit };
  const sinks = Tensor.zeros([1]), query = Tensor.zeros([2, 2]), keyWeight = Tensor.zeros([2, 2]);
  const layer: MhaGradients = { out: unit, query, keyWeight, attention: { sinks } };
  fovea.multiHeadAttentionBackwardSync(parameters, unit, layer, { attention: { sinks: Float32Array.of(0) } });
  await fovea.multiHeadAttentionBackward(parameters, unit, { out: unit, key: Tensor.zeros([2, 2]) }, { key: unit, context });
  // @ts-expect-error: no such gradient
  const misspelt = (): unknown => fovea.rmsNormBackwardSync(unit, { out: unit, wieght: unit });
  same(typeof misspelt, 'function');
}

async function owners(context: Context): Promise<void> {
  const pack: MatmulPackOptions & { context: Context } = { context };
  const packed: PackedMatrix[] = [PackedMatrix.packSync(unit), await PackedMatrix.pack(unit, pack)];
  const layout: LinearPackOptions = { layout: 'inOut' };
  packed.push(PackedMatrix.packLinearSync(unit, layout), await PackedMatrix.packLinear(unit, layout));
  const activation: Activation = 'relu', linear: LinearOptions = { activation, bias: pair.data, residual: Tensor.zeros([1, 2]) };
  for (const matrix of packed) {
    const out = Tensor.zeros([1, 2]);
    same(await both(matrix.multiplySync(pair, { out }), matrix.multiply(pair, { out })), pair);
    same(await both(matrix.linearSync(pair, { ...linear, out }), matrix.linear(pair, { ...linear, out })), floats([1, 2], 2, 4));
    same(matrix.size > 0, true);
    matrix.close();
  }
  // @ts-expect-error: only its packer knows how many columns there are
  const unsized = (): unknown => packed[0]?.multiplySync(pair);
  same(typeof unsized, 'function');

  const weightLayout: WeightLayout = 'outIn';
  const parameters: MhaParameters = { layout: weightLayout, heads: 1, kvHeads: 1n, queryWeight: unit, keyWeight: unit, valueWeight: unit,
    outWeight: unit, queryBias: pair.data, keyBias: pair.data, valueBias: pair.data, outBias: pair.data };
  const sizes: KVPoolSizes = { kvHeads: 1, headDim: 2, valueDim: 2, positions: 64n, pageSize: 8, sequences: 3, keyDtype: 'f32' };
  const pool = new KVPool(sizes), sequence: Sequence = pool.open(), layers = [MhaWeights.packSync(parameters), await MhaWeights.pack(parameters, { context })];
  const made: ScheduleOptions = { query: [4, 1, 2], pool, causal: true }, schedule = new Schedule(made);
  const pages: Pages = [pool.keys(0), pool.values(0)], call: MhaOptions & Extras & { pages: Pages } = { schedule, rotary: { base: 10 }, pages: 0 };
  for (const layer of layers) {
    const step: Step = pool.step(new Map([[sequence, 1]]), { context });
    schedule.set(step);
    same([step.isCurrent, step.pool === pool, step.sequences.length, [...step.queryStarts], step.pageStarts.length], [true, true, 1, [0, 1], 2]);
    same([step.keyLens[0], step.pageIds.length], [sequence.length, 1]);
    const attended = layer.attendSync(pair, call);
    is<typeof attended, Floats>();
    same((await layer.attend(pair, { key: pair, value: pair, out: Tensor.zeros([1, 2]), context })).shape, [1, 2]);
    same(layer.attendSync(pair, { schedule, keepPages: true, pages }).shape, [1, 2]);
    const plan: MhaPlan = layer.plan(Tensor.shapeOnly([1, 2]), call), data: MhaRun = { pages: 0, out: Tensor.zeros([1, 2]) };
    same([plan.runSync(pair, { pages }).data[0], plan.workspaceSize > 0], [attended.data[0], true]);
    same((await plan.run(pair, data)).shape, [1, 2]);
    plan.close();
    same(layer.size > 0, true);
    layer.close();
  }
  const inProj: MhaParameters = { heads: 1, inWeight: Tensor.zeros([6, 2]), inBias: new Float32Array(6) };
  await both(fovea.multiHeadAttentionOnceSync(inProj, pair), fovea.multiHeadAttentionOnce(inProj, pair, { key: pair }));

  const row = floats([1, 1, 2], 1, 2), append: AppendOptions = { rotary: { base: 10 } }, run: RunOptions = { out: Tensor.zeros([1, 1, 2]) };
  schedule.set(pool.step([[sequence, 1n]]));
  schedule.appendSync(0, row, row);
  await schedule.append(pages, row, row, { rotary: append.rotary! });
  await both(schedule.runSync(row, 0), schedule.run(row, 0, run));
  same([schedule.tokens, schedule.positions[0], schedule.tasks.length, schedule.workspaceSize >= 0], [1, 2, 3, true]);
  same([schedule.description.startsWith('op=ragged'), pool.keyScales(0), pool.valueScales(0)], [true, undefined, undefined]);
  const forked = sequence.fork(2), saved: Uint8Array = forked.save(), restored = pool.restore(saved);
  same([sequence.fork === forked.fork, forked.length, restored.length, sequence.pool === pool], [true, 2, 2, true]);
  restored.truncate(1);
  restored.drop(0);
  for (const one of [forked, restored]) one.close();
  same([pool.freePages, pool.pages, pool.pageSize, pool.layers, pool.sequences, pool.size > 0], [7, 8, 8, 1, 3, true]);
  const starts = Int32Array.of(0, 1), limits: ScheduleLimits = { sequences: 1 };
  const tensors: StepTensors = { queryStarts: starts, keyStarts: starts };
  const packedKeys = new Schedule({ query: row, key: row, value: row, sequences: Number(limits.sequences) });
  packedKeys.set(tensors);
  same(packedKeys.runSync(row, [row, row]), row);
  same(await both(fovea.varlenAttentionSync(row, row, row, starts, starts), fovea.varlenAttention(row, row, row, starts, starts)), row);
  // @ts-expect-error: without a pool it cannot know how many sequences there are
  const boundless = (): unknown => new Schedule({ query: row, key: row, value: row });
  // @ts-expect-error: a pool makes its sequences
  const made_up = (): unknown => new Sequence();
  same([typeof boundless, typeof made_up], ['function', 'function']);
  const { q, scales }: Quantized = fovea.quantizeSync(unit);
  same([(await fovea.quantize(unit, { group: 2 })).scales.shape, q.data.length], [[2, 1], 4]);
  await both(fovea.dequantizeSync(q, scales), fovea.dequantize(q, scales, {}));
  const wide = new fovea.Tensor(new Float32Array(64).fill(1), [2, 32]);
  const fours: QuantizedFours = fovea.quantizeSync(wide, { bits: 4 });
  same([(await fovea.quantize(wide, { bits: 4 })).q.shape, fours.q.dtype], [[2, 16], 'u8']);
  for (const one of [schedule, packedKeys, sequence, pool]) one.close();

  const score: Score = { kind: 'bilinear', weight: unit }, room: PreparedKeysSizes = { capacity: 4, queryDim: 2, keyDim: 2n };
  const dtype: Dtype = 'bf16';
  const keys = new PreparedKeys(score, { ...room, context }), halves = new PreparedKeys(score, { ...room, batch: 1, kvHeads: 1, dtype });
  keys.appendSync(unit);
  await keys.append(unit, { context });
  keys.truncate(2);
  await both(keys.attendSync(unit, unit), keys.attend(unit, unit, { causal: true, topLeft: false, windowRight: 9, windowLeft: 19, queryOffset: 9 }));
  same([keys.length, keys.size > halves.size], [2, true]);
  halves.close();

  const out = new Float32Array(4), buffers: Buffers = { validLens: Int32Array.of(2) };
  const planned = Plan.sdpa(unit, unit, unit, unit, { validLens: Tensor.shapeOnly([1], Int32Array), context });
  planned.runSync(unit.data, unit.data, unit.data, out, buffers);
  await planned.run(unit.data, unit.data, unit.data, out, buffers);
  same([...out], [...fovea.sdpaSync(unit, unit, unit).data]);
  same([planned.description.startsWith('op=sdpa'), planned.workspaceSize >= 0], [true, true]);
  const scored = Plan.attention({ kind: 'gaussian', sigma: 1 }, unit, unit, unit, unit), prepared = Plan.prepared(unit, keys, unit, unit);
  scored.runSync(unit.data, unit.data, unit.data, out);
  prepared.runSync(unit.data, undefined, unit.data, out);
  for (const owner of [keys, planned, scored, prepared]) owner.close();
}

async function errors(): Promise<void> {
  const bad: Status = 'FOVEA_BAD_SHAPE';
  try {
    await fovea.matmul(pair, pair);
    fail('it was accepted');
  } catch (error) {
    same((error as { code?: Status }).code, bad);
  }
}

async function main(): Promise<void> {
  same(Object.keys(fovea).sort(), Object.keys(names).sort());
  const precision: Precision = 'medium', emptyRows: EmptyRows = 'nan', scoresKind: ScoresKind = 'logits';
  same([precision, emptyRows, scoresKind, fovea.isaAvailable()[0]], ['medium', 'nan', 'logits', 'base']);
  same(fovea.version.split('.').length, 3);
  const context = new Context({ maxThreads: 1, maxIsa: 'base', precision });
  same([context.threads, context.isaName], [1, 'base']);
  tensors();
  await operations(context);
  await gradients(context);
  const best = new Context(); // what is packed for one instruction set is for no other
  await owners(best);
  await errors();
  for (const one of [context, best]) one.close();
}

main().catch((error: unknown) => {
  setImmediate(() => { throw error; }); // so that Node ends with it
});
declare function setImmediate(task: () => void): void; // the one thing of Node's that is not JavaScript's
