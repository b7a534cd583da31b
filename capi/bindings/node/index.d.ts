// Types of fovea for Node. Those of options are in generated/options.d.ts, made from the C headers.
// SPDX-License-Identifier: Apache-2.0
import {
  Activation, AttentionOptions, Buffers, Data, Float16, GemmOptions, KernelRegressionOptions, KvCacheSizes, LayerNormOptions, LinearOptions,
  LinearPackOptions, MaskedSoftmaxOptions, MatmulPackOptions, MhaOptions, MhaParameters, PositionalEncodingOptions, Precision,
  PreparedKeysSizes, RmsNormOptions, RotaryFrequenciesOptions, RotaryOptions, Score,
} from './generated/options';
export * from './generated/options';

/** A typed array with a shape and strides in elements. It is a view: the array stays whose it is. */
export class Tensor<T extends Data = Data> {
  constructor(data: T, shape?: number[], layout?: { strides?: number[]; offset?: number; dtype?: Half });
  /** A row-major tensor without data, for plans. */
  static shapeOnly(shape: number[], arrayType?: Function, layout?: { dtype?: Half }): Tensor;
  static zeros(shape: number[]): Tensor<Float32Array>;
  static zeros<T extends Data>(shape: number[], arrayType: new (length: number) => T, layout?: { dtype?: Half }): Tensor<T>;
  readonly data: T;
  readonly dtype: Half | undefined;
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

type MhaCall = MhaOptions & Extras & { key?: Input; value?: Input };

/** The weights of a multi-head attention layer, packed once. */
export class MhaWeights implements Owner {
  static packSync(parameters: MhaParameters, options?: { context?: Context }): MhaWeights;
  static pack(parameters: MhaParameters, options?: { context?: Context }): Promise<MhaWeights>;
  /** key left out is query, value left out is key, out left out has query's shape. */
  attendSync<Q extends Input>(query: Q, options?: MhaCall): Like<Q>;
  attend<Q extends Input>(query: Q, options?: MhaCall): Promise<Like<Q>>;
  readonly size: number;
  close(): void;
}
export function multiHeadAttentionOnceSync<Q extends Input>(parameters: MhaParameters, query: Q, options?: MhaCall): Like<Q>;
export function multiHeadAttentionOnce<Q extends Input>(parameters: MhaParameters, query: Q, options?: MhaCall): Promise<Like<Q>>;

/** Keys and values of sequences of one length. Asynchronous calls on one take turns, in the order they were made. */
export class KvCache implements Owner {
  constructor(sizes: KvCacheSizes);
  /** A cache of what save gave. capacity left out: as it was saved with. */
  static restore(bytes: Uint8Array, capacity?: number): KvCache;
  appendSync(key: Input, value: Input, options?: { context?: Context }): void;
  append(key: Input, value: Input, options?: { context?: Context }): Promise<void>;
  attendSync<Q extends Input>(query: Q, options?: AttentionOptions & Extras & { score?: Score }): Like<Q>;
  attend<Q extends Input>(query: Q, options?: AttentionOptions & Extras & { score?: Score }): Promise<Like<Q>>;
  reorderSync(source: Input, options?: { context?: Context }): void;
  reorder(source: Input, options?: { context?: Context }): Promise<void>;
  truncate(length: number): void;
  save(): Uint8Array;
  readonly length: number;
  readonly size: number;
  close(): void;
}

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
