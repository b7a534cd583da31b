// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

import { Input, Schedule } from '../index';

/** `code` of the errors that are thrown. */
export type Status = 'FOVEA_NULL_POINTER' | 'FOVEA_BAD_RANK' | 'FOVEA_BAD_SHAPE' | 'FOVEA_BAD_STRIDE' | 'FOVEA_BAD_DTYPE' | 'FOVEA_BAD_VALUE' | 'FOVEA_BAD_OPTION' | 'FOVEA_OVERLAP' | 'FOVEA_SIZE_OVERFLOW' | 'FOVEA_WORKSPACE_TOO_SMALL' | 'FOVEA_OUT_OF_MEMORY' | 'FOVEA_UNKNOWN_ISA' | 'FOVEA_INTERNAL_ERROR' | 'FOVEA_POOL_EXHAUSTED';

/**
 * Operations name those they take. I8 is taken as keys and values of the scaled dot product, with scales (fovea_quantize), and
 * U8 as such values, of two features of 4 bits each; there is no operation yet that takes F8_E4M3 or F8_E5M2.
 */
export type Dtype = 'f32' | 'f16' | 'bf16' | 'i8' | 'u8';

/**
 * How exactly products of F32 tensors are computed; sums are float32 always. Where a processor has no quick way, or the
 * shape does not gain by it, the result is that of a higher precision.
 */
export type Precision = 'default' | 'highest' | 'high' | 'medium' | 'int8';

/**
 * What a row (a query) with nothing to attend gives: no key passes the masks, or every score is -infinity. A row with
 * an attention sink is never empty: its output is 0 and its log-sum-exp the sink.
 */
export type EmptyRows = 'zero' | 'uniform' | 'nan';

/** Which scores fovea_attention_options.scores gets. */
export type ScoresKind = 'raw' | 'capped' | 'logits';

/**
 * How a query and a key are compared. Attention with any of these is fovea_attention; with the scaled dot product it is
 * fovea_sdpa, under another name. Everything else (masks, valid lengths, empty rows, log-sum-exp, returned weights,
 * dropout, plans, strides, threads) is the same for all. No function makes a tensor of B x Q x K, let alone B x Q x K x
 * hidden.
 */
export type ScoreKind = 'dot' | 'bilinear' | 'additive' | 'concat' | 'gaussian';

/** How frequencies are stretched for contexts longer than those a model was first trained with. f(j) is base^(-2j/d). */
export type FrequenciesKind = 'plain' | 'linear' | 'dynamic' | 'yarn' | 'longrope' | 'llama3';

/** How a weight matrix lies in memory. */
export type WeightLayout = 'outIn' | 'inOut';

export type Activation = 'none' | 'relu' | 'gelu' | 'geluTanh' | 'silu';

/**
 * Positions. Where causal, window or ALiBi need the position of query i, it is, by default, K - Q + i if K >= Q (the
 * last query faces the last key: "bottom-right") and i if K < Q; FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET set it otherwise,
 * and query_offsets for each batch entry. K is that of the tensor: valid_lens move no position. That is right where each
 * sequence begins at key 0 and has a query for every key (Q = K). It is wrong for the newest Q < K queries of sequences of
 * different lengths padded to one K, as a batch of decoders has them: of lengths {3, 5} the first would stand at position
 * 4, and a window of one key to its left would leave it nothing. What is right there are query_offsets of length_b - Q,
 * with FOVEA_CAUSAL or valid_lens of length_b; for causal alone, valid_lens [B,Q] of length_b - Q + i + 1 will do.
 *
 * score(i, j) = softcap * tanh(scale * q_i . k_j / softcap) + bias(i, j) - slope * |position(i) - j|
 *
 * then softmax over the keys that pass valid_lens, mask, causal, window and leave-one-out. Distances of ALiBi are
 * whole numbers, exact up to 2^24 wherever the positions are, and past it rounded to float32. A key that does not pass, or
 * whose bias is -infinity, is never read into the result: NaN or infinity there, in key or value, changes nothing, but
 * for the values of an empty row under FOVEA_EMPTY_ROWS_UNIFORM. NaN in a key or value that is attended reaches the
 * output. A score of +infinity makes its row's output and weights NaN, as the formula does, and its log-sum-exp +infinity
 * unless another score is NaN. A score more than 87 (125.5 log 2) below the largest of its row, or of its part of the keys
 * where those of few queries are split, has a weight of exactly 0: before they are divided by their sum weights are never
 * denormal, as results of fovea_exp may be.
 *
 * All tensors are optional: NULL where not wanted. Those of rank 4 are given without the H axis where query has rank 3
 * and without B and H where it has rank 2.
 */
export interface AttentionOptions {
  /** attend key j only if j <= position of the query */
  causal?: boolean;
  /** query i stands at position i, whatever K is; not together with FOVEA_QUERY_OFFSET */
  topLeft?: boolean;
  /** query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if they are given) */
  leaveOneOut?: boolean;
  /** weights are the mean over the H heads */
  averageWeights?: boolean;
  /** a query's result has the same bits however many queries the call has: a decoder going step by step gives the very bits of one causal call (not with dropout, which goes by the query's number). Slower for few queries */
  queryInvariant?: boolean;
  /** FOVEA_EMPTY_ROWS_* */
  emptyRows?: EmptyRows;
  /** finite; left out: 1 / sqrt(D) for the dot product, 1 for other score functions */
  scale?: number;
  /** finite, >= 0; 0: none. The limit that the logits approach (Gemma 2) */
  softcap?: number;
  /** used with FOVEA_QUERY_OFFSET; -2^30 to 2^30 */
  queryOffset?: number | bigint;
  /** >= 0, used with FOVEA_WINDOW_LEFT */
  windowLeft?: number | bigint;
  /** >= 0, used with FOVEA_WINDOW_RIGHT */
  windowRight?: number | bigint;
  /** [B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j < length. Any strides. One length serves all heads. Positions do not go by it: see there */
  validLens?: Input;
  /** BOOL [B,H,Q,K] (or [Q,K]), true: attend. Axes of size 1 but K's broadcast. The last axis may be shorter than K: keys behind it are not attended */
  mask?: Input;
  /** F32 [B,H,Q,K] (or [Q,K]), added to the scores. Axes of size 1 but K's broadcast. The last axis may be shorter than K, as the mask's */
  bias?: Input;
  /** F32 [H], any stride. ALiBi (Press et al. 2022) */
  alibiSlopes?: Input;
  /** F32 [H], any stride. A logit that takes part in the softmax without a value */
  sinks?: Input;
  /** output F32 [B,H,Q], any strides: log sum_j exp(score), the sink included */
  logSumExp?: Input;
  /** output F32 [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS; masked keys get 0 */
  weights?: Input;
  /** in [0, 1): probability that a weight is dropped; 0: none. See "Dropout" */
  dropout?: number;
  /** used with dropout */
  dropoutSeed?: number | bigint;
  /** [B], I32 or I64, each in [-2^30, 2^30], any stride: query i of batch entry b stands at position query_offsets[b] + i. Not together with FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET */
  queryOffsets?: Input;
  /** output F32 [B,H,Q,K]: the scores themselves, by a pass of their own */
  scores?: Input;
  /** FOVEA_SCORES_*, used with scores */
  scoresKind?: ScoresKind;
  /** FOVEA_PRECISION_*, of F32 queries, keys and values */
  precision?: Precision;
  /** F16 [B,Hkv,K,D/group], rank as key's, given exactly if key is I8: feature d of a key is its number times scale d / group. group: a multiple of 16, or D (any D) */
  keyScales?: Input;
  /** F16 [B,Hkv,K,Dv/group], likewise for value; of U8 [B,Hkv,K,2 Dv/group], group a multiple of 32: a scale and a least number for each group */
  valueScales?: Input;
  /** output F32 [B,H,Q,h] of fovea_attention, input of its backward pass: ADDITIVE, CONCAT. See "Kept projections" in scores.h */
  projectedQuery?: Input;
  /** output F32 [B,Hkv,K,h], likewise */
  projectedKey?: Input;
}

export interface MaskedSoftmaxOptions {
  /** FOVEA_EMPTY_ROWS_*: what a row of valid length 0 gives */
  emptyRows?: EmptyRows;
}

export interface GemmOptions {
  /** finite; left out: 1 */
  alpha?: number;
  /** finite; left out: 1 */
  beta?: number;
  /** F, rank 1 to out's, last axis contiguous; axes that it lacks, and those of size 1, are repeated. May be out itself (same data, type, shape and strides). NULL: none */
  c?: Input;
}

export interface MatmulPackOptions {
  /** FOVEA_PRECISION_* */
  precision?: Precision;
}

/**
 * The parameters of a score function; those of other kinds must be NULL or 0. Weights are laid out [out,in], have any
 * strides, and serve every batch entry and head. h is the number of hidden units, in [1, 65536]. Dq and Dk, the sizes
 * of a query and of a key, may differ where the table below says so, and are in [1, 1024].
 *
 *   kind      query_weight  key_weight  weight      bias           score_vector   sigma or sigmas    sizes
 *   DOT                                                                                              Dq = Dk
 *   BILINEAR                            [Dq,Dk]                                                      any Dq, Dk
 *   ADDITIVE  [h,Dq]        [h,Dk]                                 [h]                               any Dq, Dk
 *   CONCAT                              [h,Dq+Dk]   [h] or NULL    [h]                               any Dq, Dk
 *   GAUSSIAN                                                                      > 0, finite        Dq = Dk
 *
 * options.scale multiplies the score; 0 without FOVEA_SCALE_GIVEN, the default, means 1 / sqrt(D) for DOT and 1 for all
 * others.
 *
 * The tanh of ADDITIVE and CONCAT is taken of the whole range: units whose arguments are so large that products of
 * exponentials would overflow go another way. The error of a score is at most 2^-19 sum_u |v_u|, beside that of the two
 * projections and of a float32 sum of h numbers; where all arguments are small it is as small beside them. The scores of
 * GAUSSIAN are as good as those of the squared difference in float32, and never above 0: where |q|^2 + |k|^2 - 2 q.k would
 * cancel, the difference itself is taken. Points and sigma may be of any size: where scale / sigma^2 is not between 1e-20 and
 * 1e20, copies of the points are compared, times a power of two. A key farther than 2^30 sigma may have a score of -infinity,
 * as if it were masked, and coordinates beyond 2^157 sigma may count as that. With sigmas of 2^-40 to 2^40, and squares of
 * distances within float32's range, each head likewise. An infinity in a query or key of
 * BILINEAR may give NaN or an infinity: either side may be the one that is projected.
 */
export interface Score {
  /** FOVEA_SCORE_* */
  kind?: ScoreKind;
  /** GAUSSIAN: the width; 0 when sigmas is given */
  sigma?: number;
  queryWeight?: Input;
  keyWeight?: Input;
  weight?: Input;
  bias?: Input;
  scoreVector?: Input;
  /** GAUSSIAN: a width for each query head, F32 [H] */
  sigmas?: Input;
}

export interface PreparedKeysSizes {
  /** B, 0 to 2^30 */
  batch?: number | bigint;
  /** Hkv, 1 to 2^30 */
  kvHeads?: number | bigint;
  /** keys of each sequence, 0 to 2^30 */
  capacity: number | bigint;
  /** Dq, 1 to 1024: CONCAT's weight does not tell the two apart */
  queryDim: number | bigint;
  /** Dk, 1 to 1024 */
  keyDim: number | bigint;
  /** FOVEA_F32; for BILINEAR FOVEA_F16 or FOVEA_BF16, too; 0: FOVEA_F32 */
  dtype?: Dtype;
}

export interface KernelRegressionOptions {
  /** query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if they are given) */
  leaveOneOut?: boolean;
  /** the kernel's width, > 0 and finite; left out: 1 */
  sigma?: number;
  /** output F [Q,N], or NULL */
  weights?: Input;
}

/** The most that a step may bring. */
export interface ScheduleLimits {
  /** 1 to 2^20 */
  sequences?: number | bigint;
  /** positions of one sequence, 1 to 2^30; left out: as many as key has */
  keyLen?: number | bigint;
  /** of all sequences together, each with those that it shares, up to 2^30; left out: what sequences of key_len have, but at most four times key's pages. 0 for packed keys */
  pageIds?: number | bigint;
  /** threads of the caller's that share a run (fovea_schedule_run_tasks), up to 4096; left out: as many as fovea_context_threads */
  workers?: number | bigint;
}

/** The sequences of a step, S of them. Tensors are I32 or I64, any stride. */
export interface StepTensors {
  /** [S+1], from 0, never falling: sequence s has the tokens from query_starts[s] to query_starts[s+1] - 1 */
  queryStarts?: Input;
  /** [S+1], likewise, of packed keys; with pages NULL */
  keyStarts?: Input;
  /** [S]: positions of each sequence in its pages, those of this step's tokens included; with packed keys NULL */
  keyLens?: Input;
  /** [S,most], a row for each sequence: its pages in the order of positions, each in [0, P), as many of them read as key_lens wants; or, with page_starts, [n]. Of pages before a window's first key any may stand for those that have been given back */
  pageIds?: Input;
  /** [S+1], from 0, never falling: sequence s has the page ids from page_starts[s] to page_starts[s+1] - 1; NULL: page_ids has a row for each */
  pageStarts?: Input;
  /** [T], I64: draft tokens. Bit j of a token's number: it attends the sequence's token j of this step, whose key stands at key_len - (its tokens) + j; of the keys before, all. 0 for every token of a sequence: as without. Of up to 64 tokens each; not with windows, ALiBi or leave-one-out. NULL: none */
  tree?: Input;
}

export interface AppendOptions {
  /** turns keys on the way, as fovea_rotary does: at fovea_schedule_positions (and offset 0), unless positions or cosines of rows are given. NULL: none */
  rotary?: RotaryOptions;
  /** output: the scales of I8 key_pages, as the schedule was made with; else NULL */
  keyScales?: Input;
  /** likewise of I8 or U8 value_pages */
  valueScales?: Input;
}

export interface KVPoolSizes {
  /** 1 to 2^16 */
  layers?: number | bigint;
  /** Hkv, 1 to 2^20 */
  kvHeads: number | bigint;
  /** D, 1 to 1024 */
  headDim: number | bigint;
  /** Dv, 1 to 1024; left out: head_dim */
  valueDim?: number | bigint;
  /** room for so many of all sequences together, 1 to 2^30; rounded up to whole pages */
  positions: number | bigint;
  /** positions of a page, 1 to 2^20; left out: so that a layer's keys of a page take 128 KB or more, but so many pages that each sequence can have one */
  pageSize?: number | bigint;
  /** most that are open at once, 1 to 2^20 */
  sequences: number | bigint;
  /** FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; 0: FOVEA_F32 */
  keyDtype?: Dtype;
  /** likewise, or FOVEA_U8: 4 bits, of value_dim a multiple of 32; 0: key_dtype */
  valueDtype?: Dtype;
  /** features that share a scale, of I8 or U8: a multiple of 16, with U8 of 32, that divides head_dim and value_dim, or 0: 32 where that divides them, else whole rows. 0 without I8 and U8 */
  scaleGroup?: number | bigint;
}

export interface PositionalEncodingOptions {
  /** > 1 and finite; left out: 10000 */
  base?: number;
  /** in [0, 1); for fovea_add_positional_encoding */
  dropout?: number;
  /** position of row 0, 0 to 2^30 */
  offset?: number | bigint;
  /** used with dropout */
  dropoutSeed?: number | bigint;
  /** of fovea_add_positional_encoding alone: out = dropout(x), as what the loss changes by goes back */
  dropoutAlone?: boolean;
}

export interface RotaryOptions {
  /** pairs (2j, 2j+1), as in the paper; else (j, j + rotary_dim/2), as in GPT-NeoX and Llama */
  interleaved?: boolean;
  /** rotate back */
  inverse?: boolean;
  /** > 1 and finite; left out: 10000 */
  base?: number;
  /** positions are multiplied by it (1/2: linear interpolation to twice the context); finite; left out: 1 */
  positionScale?: number;
  /** the first features, an even number up to D, are rotated, the others copied; left out: D (even) */
  rotaryDim?: number | bigint;
  /** position of the first row: how many came before it; 0 to 2^30. position_scale times the largest position must not pass 2^34 */
  offset?: number | bigint;
  /** [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's first axis. With sections [S,L] or [S,B,L] */
  positions?: Input;
  /** F32 [P], P = rotary_dim / 2, any stride: pair j turns by this angle for each position, not by base^(-2j/rotary_dim), and base is not given. Finite; times position_scale and the largest position at most 2^34. fovea_rotary_frequencies makes what models use */
  frequencies?: Input;
  /** I32 or I64 [P], any stride, each in [0, S): pair j of row i stands at positions[sections[j]] (M-RoPE, Wang et al. 2024). Qwen2-VL has blocks, of 0, of 1, of 2; Qwen3-VL has j mod 3, but 0 from three times that section's size on */
  sections?: Input;
  /** F [N,P]: pair j at position p turns by cosines[p,j] and sines[p,j], and positions are below N. Or F [B,L,P]: a row for each row of x, whatever its position, and offset is 0. Instead of an angle: base, position_scale, frequencies are not given. Last axis contiguous */
  cosines?: Input;
  /** F, of cosines' shape, last axis contiguous; both are given or neither */
  sines?: Input;
  /** cosines and sines are multiplied by it (YaRN, LongRoPE); finite; left out: 1 */
  attentionFactor?: number;
}

/** A member that another kind takes is 0 or NULL. */
export interface RotaryFrequenciesOptions {
  /** low and high of YaRN are not rounded to whole pairs ("truncate": false) */
  unrounded?: boolean;
  /** FOVEA_FREQUENCIES_* */
  kind?: FrequenciesKind;
  /** "theta", > 1 and finite */
  base?: number;
  /** of all kinds but PLAIN: how many times longer the context is; > 0 and finite */
  factor?: number;
  /** of all kinds but PLAIN and LINEAR: the context before, 2 to 2^30 */
  originalLength?: number | bigint;
  /** of DYNAMIC and LONGROPE: of the sequence as it is now, 0 to 2^30; left out: original_length */
  length?: number | bigint;
  /** of LLAMA3: >= 0 */
  lowFrequencyFactor?: number;
  /** of LLAMA3: finite, above low_frequency_factor */
  highFrequencyFactor?: number;
  /** of YARN: "beta_fast", > 0 and finite; 32 where a configuration has none */
  fastRotations?: number;
  /** of YARN: "beta_slow", > 0 and finite; 1 where a configuration has none */
  slowRotations?: number;
  /** of YARN: >= 0 and finite, for attention_factor */
  mscale?: number;
  /** of YARN: likewise */
  mscaleAllDim?: number;
  /** of LONGROPE: F32 [P], any stride, > 0 and finite */
  shortFactors?: Input;
  /** of LONGROPE: likewise */
  longFactors?: Input;
}

export interface LinearPackOptions {
  /** FOVEA_WEIGHT_* */
  layout?: WeightLayout;
  /** FOVEA_PRECISION_* */
  precision?: Precision;
}

export interface LinearOptions {
  /** FOVEA_ACTIVATION_* */
  activation?: Activation;
  /** FOVEA_PRECISION_*, of F32 x: at medium it is rounded to BF16 to meet a W packed as that, where the processor multiplies it; W is as it was packed */
  precision?: Precision;
  /** F32 [N], any stride */
  bias?: Input;
  /** F32, out's shape, last axis contiguous, added last. May be out itself (same data, type, shape and strides): the layer is then added to it */
  residual?: Input;
  /** F32, out's shape, last axis contiguous: of what the activation gave, as in a gated pair silu(x W) * (x V) (Shazeer 2020, GLU Variants Improve Transformer). May be out itself likewise */
  multiplier?: Input;
}

export interface LayerNormOptions {
  /** finite, >= 0; left out: 1e-5 */
  epsilon?: number;
  /** F [E], contiguous; NULL: ones */
  weight?: Input;
  /** F [E], contiguous; NULL: zeros */
  bias?: Input;
  /** F, x's shape, last axis contiguous: x + residual is normalised */
  residual?: Input;
  /** output F, x's shape, last axis contiguous: x + residual, as a layer that comes later wants it; with residual only */
  sum?: Input;
  /** output F32 [...], x's axes without the last, any strides: mean(y) */
  mean?: Input;
  /** output F32, likewise: 1 / sqrt(variance(y) + epsilon) */
  inverseDeviation?: Input;
}

export interface RmsNormOptions {
  /** finite, >= 0; left out: 1e-5 */
  epsilon?: number;
  /** of fovea_rms_norm_options alone: 1 + weight takes weight's place (Gemma); without a weight nothing changes */
  weightFromOne?: boolean;
  /** F [E], contiguous; NULL: ones */
  weight?: Input;
  /** F, x's shape, last axis contiguous: x + residual is normalised */
  residual?: Input;
  /** output F, as in fovea_layer_norm_options */
  sum?: Input;
  /** output F32 [...], likewise: 1 / sqrt(mean(y^2) + epsilon) */
  inverseDeviation?: Input;
}

/**
 * The parameters as a model has them. Weights are F32 of rank 2, any strides; [out,in] as written here, or the other
 * way round with FOVEA_WEIGHT_IN_OUT. Biases are F32 of rank 1, any stride, NULL for none. Each may as well be F16 or
 * BF16; weights keep their types when they are packed.
 */
export interface MhaParameters {
  /** FOVEA_WEIGHT_*, of all weights */
  layout?: WeightLayout;
  /** FOVEA_PRECISION_*, of packing them, as fovea_linear_pack does */
  precision?: Precision;
  /** H, at least 1 */
  heads?: number | bigint;
  /** Hkv, a divisor of H; left out: H */
  kvHeads?: number | bigint;
  /** [H D, Eq] */
  queryWeight?: Input;
  /** [Hkv Dk, Ek]; Dk is D unless the score function takes another */
  keyWeight?: Input;
  /** [Hkv Dv, Ev] */
  valueWeight?: Input;
  /** [(H + 2 Hkv) D, E], the three in one as nn.MultiheadAttention has them (in_proj), instead of them */
  inWeight?: Input;
  /** [Eo, H Dv]; NULL: none, out is the heads side by side, Eo = H Dv */
  outWeight?: Input;
  /** [H D] */
  queryBias?: Input;
  /** [Hkv Dk] */
  keyBias?: Input;
  /** [Hkv Dv] */
  valueBias?: Input;
  /** [(H + 2 Hkv) D], together with in_weight */
  inBias?: Input;
  /** [Eo], together with out_weight */
  outBias?: Input;
}

export interface MhaOptions {
  /** attend to what the pages hold and append nothing; key and value inputs are NULL */
  keepPages?: boolean;
  /** FOVEA_PRECISION_*, of what is F32 but the weights, and of attention unless attention.precision says otherwise */
  precision?: Precision;
  /** scale, masks, weights, ...: as in fovea_attention, for query [B,H,Q,D]. NULL: defaults */
  attention?: AttentionOptions;
  /** how heads compare; its parameters serve all heads. NULL: scaled dot */
  score?: Score;
  /** turns projected queries and keys; needs Dk = D. Row i of either stands at offset + i; or at positions[i], which needs as many queries as keys, as cosines of rows do. With a schedule, unless positions or cosines of rows are given, at fovea_schedule_positions, and offset is 0. NULL: none */
  rotary?: RotaryOptions;
  /** rows are the tokens of its present step: query [T,Eq], out [T,Eo]. NULL: none. See below */
  schedule?: Schedule;
  /** this layer's pages, of a schedule that was made for pages: projected keys and values are appended to them as fovea_schedule_append does, then attended */
  keyPages?: Input;
  valuePages?: Input;
  /** of pages of I8, or U8; else NULL */
  keyScales?: Input;
  valueScales?: Input;
  /** output F32 [n], contiguous, n = B Q H (D + Dv + 1) + B K Hkv (Dk + Dv): queries, keys and values as they were attended to, what attention gave and its log-sum-exp, in an order of the library's own. An input of fovea_multi_head_attention_backward, which then computes none of it again. Tensors between the steps are F32 with it. Not with a schedule, pages or a plan. NULL: nothing is kept */
  kept?: Input;
}

/**
 * What a loss changes by, for each element of what a call to attention gave, and for each of what it took. Layouts are those
 * of the tensors themselves, element types and strides each its own. A gradient that is NULL is not wanted, and what only it
 * needs is not computed. Gradients are written, not added to.
 *
 * With p the weights before dropout, d the factor of dropout (0 or 1 / (1 - dropout)) and s the score times the scale:
 *   dp = d (out . value + weights)          m = sum_j p_j dp_j
 *   dl = p (dp - m + log_sum_exp)           of a logit
 *   value = sum_q d p out                   bias = dl
 *   alibi_slopes = -sum dl |position - j|   sinks = -sum_q p_sink (m - log_sum_exp)
 *   ds = dl (1 - tanh^2(s / softcap))       query, key and the score's parameters: scale ds times the score's derivative
 * in float32, with m taken from the forward call's out.
 */
export interface AttentionGradients {
  /** F [B,H,Q,Dv]: what the loss changes by for each element of out. Must be given */
  out?: Input;
  /** F32 [B,H,Q], any strides: likewise; NULL: 0 */
  logSumExp?: Input;
  /** F [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS: of weights as they are or would be returned; NULL: 0 */
  weights?: Input;
  /** output F [B,H,Q,Dq] */
  query?: Input;
  /** output F [B,Hkv,K,Dk]; query heads that share one are added up */
  key?: Input;
  /** output F [B,Hkv,K,Dv]; likewise */
  value?: Input;
  /** output F [B,H,Q,K], with the sizes of options.bias: added up over axes of size 1 */
  bias?: Input;
  /** output F32 [H], any stride */
  alibiSlopes?: Input;
  /** output F32 [H], any stride */
  sinks?: Input;
  /** output F [h,Dq], any strides: ADDITIVE */
  queryWeight?: Input;
  /** output F [h,Dk], any strides: ADDITIVE */
  keyWeight?: Input;
  /** output F [Dq,Dk], or of CONCAT [h,Dq+Dk], any strides */
  weight?: Input;
  /** output F [h], any stride: CONCAT */
  scoreBias?: Input;
  /** output F [h], any stride: ADDITIVE, CONCAT */
  scoreVector?: Input;
  /** output F32 [H] where score.sigmas is given, [1] of score.sigma; any stride */
  sigmas?: Input;
}

export interface NormGradients {
  /** F, x's shape, last axis contiguous: what the loss changes by for each element of out. Must be given */
  out?: Input;
  /** F, likewise: for each element of options.sum, beside what it does through out; NULL: 0 */
  sum?: Input;
  /** output F, likewise: of x, and of the residual, which is the same. May be out or sum in place */
  x?: Input;
  /** output F [E], contiguous */
  weight?: Input;
  /** output F [E], contiguous: of fovea_layer_norm alone */
  bias?: Input;
}

export interface LinearGradients {
  /** F [M,N] or [B,M,N], last axis contiguous: what the loss changes by for each element of out, and so for each of the residual. Must be given */
  out?: Input;
  /** output F, x's shape, last axis contiguous */
  x?: Input;
  /** output F, weight's shape, last axis contiguous */
  weight?: Input;
  /** output F [N], any stride */
  bias?: Input;
  /** output F, out's shape, last axis contiguous */
  multiplier?: Input;
}

export interface MergeGradients {
  /** F [...,Dv]: what the loss changes by for each element of out. Must be given */
  out?: Input;
  /** F32 [...]: likewise; NULL: 0 */
  logSumExp?: Input;
  /** output F [S,...,Dv] */
  outs?: Input;
  /** output F32 [S,...] */
  lses?: Input;
}

export interface MhaGradients {
  /** F [B,Q,Eo], of query's rank, last axis contiguous: what the loss changes by for each element of out. Must be given */
  out?: Input;
  /** output F [B,Q,Eq], likewise; where key is NULL, of all that it is */
  query?: Input;
  /** output F [B,K,Ek], likewise; NULL where key is. Where value is NULL, of both */
  key?: Input;
  /** output F [B,K,Ev], likewise; NULL where value is */
  value?: Input;
  /** output F, of its shape in fovea_mha_parameters, last axis contiguous */
  queryWeight?: Input;
  /** output F, likewise */
  keyWeight?: Input;
  /** output F, likewise */
  valueWeight?: Input;
  /** output F, likewise */
  inWeight?: Input;
  /** output F, likewise */
  outWeight?: Input;
  /** output F, of its shape there, any stride */
  queryBias?: Input;
  /** output F, likewise */
  keyBias?: Input;
  /** output F, likewise */
  valueBias?: Input;
  /** output F, likewise */
  inBias?: Input;
  /** output F, likewise */
  outBias?: Input;
  /** of what options.attention and options.score bring, and of what they return: log_sum_exp, weights; its out, query, key and value are NULL. NULL: none */
  attention?: AttentionGradients;
}

/** Node 24's Float16Array, where TypeScript knows it. */
export type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T : never;
export type Data = Float32Array | Float16 | Uint16Array | Int32Array | BigInt64Array | Uint8Array | Int8Array;

/** The data of a planned run beside query, key, value and out. */
export interface Buffers {
  validLens?: Data;
  mask?: Data;
  bias?: Data;
  alibiSlopes?: Data;
  sinks?: Data;
  logSumExp?: Data;
  weights?: Data;
  queryWeight?: Data;
  keyWeight?: Data;
  weight?: Data;
  scoreBias?: Data;
  scoreVector?: Data;
  sigmas?: Data;
  queryOffsets?: Data;
  scores?: Data;
  keyScales?: Data;
  valueScales?: Data;
  gradOut?: Data;
  gradLogSumExp?: Data;
  gradWeights?: Data;
  gradQuery?: Data;
  gradKey?: Data;
  gradValue?: Data;
  gradBias?: Data;
  gradAlibiSlopes?: Data;
  gradSinks?: Data;
  gradQueryWeight?: Data;
  gradKeyWeight?: Data;
  gradWeight?: Data;
  gradScoreBias?: Data;
  gradScoreVector?: Data;
  gradSigmas?: Data;
  projectedQuery?: Data;
  projectedKey?: Data;
}
