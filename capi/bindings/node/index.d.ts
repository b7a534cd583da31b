// Types of fovea for Node. Those of options are in generated/options.d.ts, made from the C headers.
// SPDX-License-Identifier: Apache-2.0
import {
  Activation, AttentionGradients, AttentionOptions, Buffers, Data, Float16, GemmOptions, KernelRegressionOptions, KVPoolSizes,
  LayerNormOptions, LinearGradients, LinearOptions, LinearPackOptions, MaskedSoftmaxOptions, MatmulPackOptions, MergeGradients,
  MhaGradients, MhaOptions, MhaParameters, NormGradients, PositionalEncodingOptions, Precision, PreparedKeysSizes,
  RmsNormOptions, RotaryFrequenciesOptions, RotaryOptions, Score, StepTensors, WeightLayout,
} from './generated/options';
export * from './generated/options';

/** A typed array with a shape and strides in elements. It is a view: the array stays whose it is. */
export class Tensor<T extends Data = Data> {
  constructor(data: T, shape?: number[], layout?: { strides?: number[]; offset?: number; dtype?: Half | 'u8' });
  /** A row-major tensor without data, for plans. */
  static shapeOnly(shape: number[], arrayType?: Function, layout?: { dtype?: Half | 'u8' }): Tensor;
  static zeros(shape: number[]): Tensor<Float32Array>;
  static zeros<T extends Data>(shape: number[], arrayType: new (length: number) => T, layout?: { dtype?: Half | 'u8' }): Tensor<T>;
  readonly data: T;
  readonly dtype: Half | 'u8' | undefined;
  readonly shape: readonly number[];
}

/** What the elements of a Uint16Array are. */
export type Half = 'f16' | 'bf16';

/** A typed array alone is a tensor of rank 1. */
export type Input = Tensor | Data;
/** What is written, if not a new tensor; and where the work runs. */
export interface Extras { out?: Input; context?: Context }
type Result = Tensor<Float32Array>;
/** One that has the element type of the first tensor. */
type Like<Q> = Q extends Tensor<infer T> ? Tensor<T extends Uint16Array | Float16 ? T : Float32Array>
  : Q extends Float16 ? Tensor<Float16> : Result;

export function sdpaSync<Q extends Input>(query: Q, key: Input, value: Input, options?: AttentionOptions & Extras): Like<Q>;
export function sdpa<Q extends Input>(query: Q, key: Input, value: Input, options?: AttentionOptions & Extras): Promise<Like<Q>>;
export function attentionSync<Q extends Input>(score: Score | undefined, query: Q, key: Input, value: Input, options?: AttentionOptions & Extras): Like<Q>;
export function attention<Q extends Input>(score: Score | undefined, query: Q, key: Input, value: Input, options?: AttentionOptions & Extras): Promise<Like<Q>>;
/** The backward pass of attention: out and options.logSumExp are what that call gave; gradients has the gradient of out, and the
 * tensors that are wanted, which are written. */
export function attentionBackwardSync(score: Score | undefined, query: Input, key: Input, value: Input, out: Input, gradients: AttentionGradients, options?: AttentionOptions & { context?: Context }): void;
export function attentionBackward(score: Score | undefined, query: Input, key: Input, value: Input, out: Input, gradients: AttentionGradients, options?: AttentionOptions & { context?: Context }): Promise<void>;
export function kernelRegressionSync<Q extends Input>(queries: Q, inputs: Input, targets: Input, options?: KernelRegressionOptions & Extras): Like<Q>;
export function kernelRegression<Q extends Input>(queries: Q, inputs: Input, targets: Input, options?: KernelRegressionOptions & Extras): Promise<Like<Q>>;
export function mergeStatesSync<Q extends Input>(outs: Q, lses: Input, options?: Extras & { logSumExp?: Input }): Like<Q>;
export function mergeStates<Q extends Input>(outs: Q, lses: Input, options?: Extras & { logSumExp?: Input }): Promise<Like<Q>>;
export function maskedSoftmaxSync<Q extends Input>(x: Q, validLens?: Input, options?: MaskedSoftmaxOptions & Extras): Like<Q>;
export function maskedSoftmax<Q extends Input>(x: Q, validLens?: Input, options?: MaskedSoftmaxOptions & Extras): Promise<Like<Q>>;
export function matmulSync<Q extends Input>(a: Q, b: Input, options?: Extras): Like<Q>;
export function matmul<Q extends Input>(a: Q, b: Input, options?: Extras): Promise<Like<Q>>;
export function gemmSync<Q extends Input>(a: Q, b: Input, options?: GemmOptions & Extras): Like<Q>;
export function gemm<Q extends Input>(a: Q, b: Input, options?: GemmOptions & Extras): Promise<Like<Q>>;
/** Over an axis counted from 0, or from -1, the default, for the last one backwards. */
export function softmaxSync<Q extends Input>(x: Q, axis?: number, options?: Extras): Like<Q>;
export function softmax<Q extends Input>(x: Q, axis?: number, options?: Extras): Promise<Like<Q>>;
export function logSoftmaxSync<Q extends Input>(x: Q, axis?: number, options?: Extras): Like<Q>;
export function logSoftmax<Q extends Input>(x: Q, axis?: number, options?: Extras): Promise<Like<Q>>;
export function activationSync<Q extends Input>(kind: Activation, x: Q, options?: Extras): Like<Q>;
export function activation<Q extends Input>(kind: Activation, x: Q, options?: Extras): Promise<Like<Q>>;
export function positionalEncodingSync(shape: number[], options?: PositionalEncodingOptions & Extras): Result;
export function positionalEncoding(shape: number[], options?: PositionalEncodingOptions & Extras): Promise<Result>;
export function addPositionalEncodingSync<Q extends Input>(x: Q, options?: PositionalEncodingOptions & Extras): Like<Q>;
export function addPositionalEncoding<Q extends Input>(x: Q, options?: PositionalEncodingOptions & Extras): Promise<Like<Q>>;
export function rotarySync<Q extends Input>(x: Q, options?: RotaryOptions & Extras): Like<Q>;
export function rotary<Q extends Input>(x: Q, options?: RotaryOptions & Extras): Promise<Like<Q>>;
export function layerNormSync<Q extends Input>(x: Q, options?: LayerNormOptions & Extras): Like<Q>;
export function layerNorm<Q extends Input>(x: Q, options?: LayerNormOptions & Extras): Promise<Like<Q>>;
export function rmsNormSync<Q extends Input>(x: Q, options?: RmsNormOptions & Extras): Like<Q>;
export function rmsNorm<Q extends Input>(x: Q, options?: RmsNormOptions & Extras): Promise<Like<Q>>;
export function expSync<Q extends Input>(x: Q, options?: Extras): Like<Q>;
export function exp<Q extends Input>(x: Q, options?: Extras): Promise<Like<Q>>;
export function tanhSync<Q extends Input>(x: Q, options?: Extras): Like<Q>;
export function tanh<Q extends Input>(x: Q, options?: Extras): Promise<Like<Q>>;
/** What the loss changes by for each element of x, where gradOut is that for each element of activation's result. It is written
 * to options.out, which may be gradOut itself: so in the next three, whose out is what the forward call gave. */
export function activationBackwardSync<Q extends Input>(kind: Activation, x: Q, gradOut: Input, options?: Extras): Like<Q>;
export function activationBackward<Q extends Input>(kind: Activation, x: Q, gradOut: Input, options?: Extras): Promise<Like<Q>>;
export function maskedSoftmaxBackwardSync<Q extends Input>(
  out: Q, gradOut: Input, validLens?: Input, options?: Extras): Like<Q>;
export function maskedSoftmaxBackward<Q extends Input>(
  out: Q, gradOut: Input, validLens?: Input, options?: Extras): Promise<Like<Q>>;
export function softmaxBackwardSync<Q extends Input>(out: Q, gradOut: Input, axis?: number, options?: Extras): Like<Q>;
export function softmaxBackward<Q extends Input>(out: Q, gradOut: Input, axis?: number, options?: Extras): Promise<Like<Q>>;
export function logSoftmaxBackwardSync<Q extends Input>(out: Q, gradOut: Input, axis?: number, options?: Extras): Like<Q>;
export function logSoftmaxBackward<Q extends Input>(out: Q, gradOut: Input, axis?: number, options?: Extras): Promise<Like<Q>>;
type On = { context?: Context };
/** Of layerNorm's x and options; what these name to be written is not looked at. gradients has the gradient of out, and the
 * tensors that are wanted, which are written: so in all that follow. */
export function layerNormBackwardSync(x: Input, gradients: NormGradients, options?: LayerNormOptions & On): void;
export function layerNormBackward(x: Input, gradients: NormGradients, options?: LayerNormOptions & On): Promise<void>;
export function rmsNormBackwardSync(x: Input, gradients: NormGradients, options?: RmsNormOptions & On): void;
export function rmsNormBackward(x: Input, gradients: NormGradients, options?: RmsNormOptions & On): Promise<void>;
/** layout left out is 'outIn'. */
type LinearBackward = LinearOptions & On & { layout?: WeightLayout };
/** The backward pass of PackedMatrix's linear, with the weight as the model has it. */
export function linearBackwardSync(x: Input, weight: Input, gradients: LinearGradients, options?: LinearBackward): void;
export function linearBackward(x: Input, weight: Input, gradients: LinearGradients, options?: LinearBackward): Promise<void>;
export function mergeStatesBackwardSync(outs: Input, lses: Input, gradients: MergeGradients, options?: On): void;
export function mergeStatesBackward(outs: Input, lses: Input, gradients: MergeGradients, options?: On): Promise<void>;
type MhaBackward = MhaOptions & On & { key?: Input; value?: Input };
/** Of multiHeadAttentionOnce's arguments; nothing of that call needs to be kept. */
export function multiHeadAttentionBackwardSync(
  parameters: MhaParameters, query: Input, gradients: MhaGradients, options?: MhaBackward): void;
export function multiHeadAttentionBackward(
  parameters: MhaParameters, query: Input, gradients: MhaGradients, options?: MhaBackward): Promise<void>;
/** The frequencies, one for each pair, and the attention factor that a model's configuration asks for, for RotaryOptions. */
export function rotaryFrequencies(rotaryDim: number, options: RotaryFrequenciesOptions): { frequencies: Result; attentionFactor: number };
/** The slopes of ALiBi for that many heads. */
export function alibiSlopes(heads: number): Result;

interface Owner {
  /** Frees it, when no call uses it any more. Left out, the garbage collector does. */
  close(): void;
}

/** Where work runs. Left out everywhere: all threads, the best instruction set. */
export class Context implements Owner {
  constructor(options?: { maxThreads?: number; maxIsa?: 'base' | 'avx2' | 'avx512' | 'amx'; precision?: Precision });
  readonly threads: number;
  readonly isaName: string;
  close(): void;
}

/** A right-hand side of products, packed once. */
export class PackedMatrix implements Owner {
  static packSync(b: Input, options?: MatmulPackOptions & { context?: Context }): PackedMatrix;
  static pack(b: Input, options?: MatmulPackOptions & { context?: Context }): Promise<PackedMatrix>;
  static packLinearSync(weight: Input, options?: LinearPackOptions & { context?: Context }): PackedMatrix;
  static packLinear(weight: Input, options?: LinearPackOptions & { context?: Context }): Promise<PackedMatrix>;
  multiplySync(a: Input, options: Extras & { out: Input }): Result;
  multiply(a: Input, options: Extras & { out: Input }): Promise<Result>;
  linearSync(x: Input, options: LinearOptions & Extras & { out: Input }): Result;
  linear(x: Input, options: LinearOptions & Extras & { out: Input }): Promise<Result>;
  readonly size: number;
  close(): void;
}

/** pages: of a schedule's pool, instead of keyPages and valuePages. */
type MhaCall = MhaOptions & Extras & { key?: Input; value?: Input; pages?: Pages };

/** The weights of a multi-head attention layer, packed once. */
export class MhaWeights implements Owner {
  static packSync(parameters: MhaParameters, options?: { context?: Context }): MhaWeights;
  static pack(parameters: MhaParameters, options?: { context?: Context }): Promise<MhaWeights>;
  /** key left out is query, value left out is key, out left out has query's shape. */
  attendSync<Q extends Input>(query: Q, options?: MhaCall): Like<Q>;
  attend<Q extends Input>(query: Q, options?: MhaCall): Promise<Like<Q>>;
  /** Plans the call that attend would make. No data is read, but what rotary is given is copied; with a schedule query and out are
   * for the most tokens that a step may have. */
  plan(query: Input, options?: MhaCall): MhaPlan;
  readonly size: number;
  close(): void;
}

/** The data of a planned run: tensors laid out as those that were planned, with a schedule of as many tokens as its step, or more. */
export type MhaRun = Omit<AttentionTensors, 'keyScales' | 'valueScales'> & { key?: Input; value?: Input; out?: Input; pages?: Pages };
type AttentionTensors = { [name in keyof Buffers]: Input };

/** A checked call of multi-head attention with everything but the data decided. */
export class MhaPlan implements Owner {
  private constructor();
  runSync<Q extends Input>(query: Q, options?: MhaRun): Like<Q>;
  run<Q extends Input>(query: Q, options?: MhaRun): Promise<Like<Q>>;
  /** Bytes of scratch memory that a run needs, with a schedule one of its present step. */
  readonly workspaceSize: number;
  close(): void;
}
export function multiHeadAttentionOnceSync<Q extends Input>(parameters: MhaParameters, query: Q, options?: MhaCall): Like<Q>;
export function multiHeadAttentionOnce<Q extends Input>(parameters: MhaParameters, query: Q, options?: MhaCall): Promise<Like<Q>>;

/** How many positions each sequence grows by: a Map, or pairs. */
type Growth = Iterable<readonly [Sequence, number | bigint]>;

/** Keys and values of many sequences, in pages that sequences share where they begin alike. */
export class KVPool implements Owner {
  /** layers left out is 1. */
  constructor(sizes: KVPoolSizes);
  readonly layers: number;
  readonly sequences: number;
  readonly pages: number;
  readonly pageSize: number;
  readonly freePages: number;
  /** Bytes of all pages. */
  readonly size: number;
  open(): Sequence;
  /** A new sequence of what save gave. */
  restore(bytes: Uint8Array): Sequence;
  /** Makes room for a step. All or nothing: where pages run out, FOVEA_POOL_EXHAUSTED. */
  step(growth: Growth, options?: { context?: Context }): Step;
  /** A layer's keys [pages, Hkv, pageSize, D], over the pool's own memory, which they keep. */
  keys(layer: number): Tensor;
  values(layer: number): Tensor;
  /** Of 8 bits; else undefined. */
  keyScales(layer: number): Tensor | undefined;
  valueScales(layer: number): Tensor | undefined;
  close(): void;
}

/** A sequence in a pool, which KVPool's open, restore and fork make. */
export class Sequence implements Owner {
  private constructor();
  readonly pool: KVPool;
  /** Positions, the dropped ones included. */
  readonly length: number;
  /** A sequence that begins as the first positions of this one, left out: as all of them. */
  fork(length?: number): Sequence;
  truncate(length: number): void;
  /** Gives back the pages that hold only positions before first. */
  drop(first: number): void;
  save(): Uint8Array;
  close(): void;
}

/** What a step does to a pool. Out of date as soon as one of its sequences changes again; schedules then refuse. */
export class Step {
  private constructor();
  readonly pool: KVPool;
  readonly sequences: readonly Sequence[];
  readonly isCurrent: boolean;
  readonly queryStarts: Int32Array;
  readonly keyLens: Int32Array;
  readonly pageIds: Int32Array;
  readonly pageStarts: BigInt64Array;
}

/** A layer of the schedule's pool, or [keys, values, keyScales, valueScales], the scales where there are any. */
export type Pages = number | readonly [Input, Input] | readonly [Input, Input, Input | undefined, Input | undefined];

type Made = AttentionOptions & { score?: Score; context?: Context; keyLen?: number; pageIds?: number };
/** query: a tensor without data, or the shape [T, H, D] of the largest step's; likewise key, value and out. */
export type ScheduleOptions = Made & { query: Input | number[]; out?: Input | number[]; dtype?: Half } & (
  { pool: KVPool; sequences?: number } | { key: Input | number[]; value: Input | number[]; sequences: number });

/** A plan of attention whose sequences change from step to step. Asynchronous calls on one take turns. */
export class Schedule implements Owner {
  constructor(options: ScheduleOptions);
  /** Of a pool; or of tensors of whole numbers. */
  set(step: Step | StepTensors): void;
  /** Writes a layer's new keys and values [tokens, Hkv, D] into its pages. value undefined and pages that are arrays: latent
   * attention, whose values are the first features of keys' rows, as views of which they were planned; keys alone are written. */
  appendSync(layer: Pages, key: Input, value?: Input, options?: { rotary?: RotaryOptions }): void;
  append(layer: Pages, key: Input, value?: Input, options?: { rotary?: RotaryOptions }): Promise<void>;
  /** query [n, H, D], n at least the tokens of the step; rows past these are not written. */
  runSync<Q extends Input>(query: Q, layer: Pages, options?: RunOptions): Like<Q>;
  run<Q extends Input>(query: Q, layer: Pages, options?: RunOptions): Promise<Like<Q>>;
  readonly tokens: number;
  /** Where each token of the present step stands in its sequence. */
  readonly positions: Int32Array;
  /** How many tasks each phase of a run has. */
  readonly tasks: number[];
  readonly workspaceSize: number;
  readonly description: string;
  close(): void;
}
/** Slopes and sinks left out are those that the schedule was made with. */
export interface RunOptions { out?: Input; logSumExp?: Input; alibiSlopes?: Input; sinks?: Input }

type Varlen = AttentionOptions & Extras & { score?: Score };
/** Sequences of different lengths, one behind the other: query [totalQ, H, D], key and value [totalK, Hkv, D], starts [S + 1]. */
export function varlenAttentionSync<Q extends Input>(query: Q, key: Input, value: Input, queryStarts: Input, keyStarts: Input, options?: Varlen): Like<Q>;
export function varlenAttention<Q extends Input>(query: Q, key: Input, value: Input, queryStarts: Input, keyStarts: Input, options?: Varlen): Promise<Like<Q>>;

/** 8-bit numbers of x's shape, and a scale for each group of features. */
export interface Quantized { q: Tensor<Int8Array>; scales: Tensor<Uint16Array> }
/** 4-bit numbers, two in each of a tensor of dtype 'u8', and a scale and a least number for each group of features. */
export interface QuantizedFours { q: Tensor<Uint8Array>; scales: Tensor<Uint16Array> }
/** group left out: 32 where that divides x's features, else all of them. */
export function quantizeSync(x: Input, options: { group?: number; bits: 4; context?: Context }): QuantizedFours;
export function quantizeSync(x: Input, options?: { group?: number; bits?: 8; context?: Context }): Quantized;
export function quantize(x: Input, options: { group?: number; bits: 4; context?: Context }): Promise<QuantizedFours>;
export function quantize(x: Input, options?: { group?: number; bits?: 8; context?: Context }): Promise<Quantized>;
export function dequantizeSync(q: Input, scales: Input, options?: Extras): Result;
export function dequantize(q: Input, scales: Input, options?: Extras): Promise<Result>;

/** Keys that are attended again and again, as an additive, concat or bilinear score reads them. */
export class PreparedKeys implements Owner {
  /** batch and kvHeads left out are 1. */
  constructor(score: Score, sizes: PreparedKeysSizes & { context?: Context });
  appendSync(key: Input, options?: { context?: Context }): void;
  append(key: Input, options?: { context?: Context }): Promise<void>;
  attendSync<Q extends Input>(query: Q, value: Input, options?: AttentionOptions & Extras): Like<Q>;
  attend<Q extends Input>(query: Q, value: Input, options?: AttentionOptions & Extras): Promise<Like<Q>>;
  truncate(length: number): void;
  readonly length: number;
  readonly size: number;
  close(): void;
}

type PlanOptions = AttentionOptions & { context?: Context };

/** A checked call with everything but the data decided. */
export class Plan implements Owner {
  static sdpa(query: Input, key: Input, value: Input, out: Input, options?: PlanOptions): Plan;
  static attention(score: Score | undefined, query: Input, key: Input, value: Input, out: Input, options?: PlanOptions): Plan;
  static attentionBackward(score: Score | undefined, query: Input, key: Input, value: Input, out: Input, gradients: AttentionGradients, options?: PlanOptions): Plan;
  static prepared(query: Input, keys: PreparedKeys, value: Input, out: Input, options?: PlanOptions): Plan;
  /** Runs the call on arrays that begin with their tensor's first element in memory; key undefined over prepared keys. */
  runSync(query: Data, key: Data | undefined, value: Data, out: Data, buffers?: Buffers): void;
  run(query: Data, key: Data | undefined, value: Data, out: Data, buffers?: Buffers): Promise<void>;
  readonly workspaceSize: number;
  readonly description: string;
  close(): void;
}

export const version: string;
/** The instruction sets that this machine can run, worst first. */
export function isaAvailable(): string[];
