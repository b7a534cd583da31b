// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0
'use strict';

exports.dtypes = { F32: 1n, F16: 2n, BF16: 3n, I32: 5n, I64: 6n, BOOL: 7n, I8: 8n, U8: 9n, F8_E4M3: 10n, F8_E5M2: 11n };
exports.maxRank = 6;

// The properties that each kind of options has.
exports.options = {
  AttentionOptions: ['causal', 'topLeft', 'leaveOneOut', 'averageWeights', 'queryInvariant', 'emptyRows', 'scale', 'softcap', 'queryOffset', 'windowLeft', 'windowRight', 'validLens', 'mask', 'bias', 'alibiSlopes', 'sinks', 'logSumExp', 'weights', 'dropout', 'dropoutSeed', 'queryOffsets', 'scores', 'scoresKind', 'precision', 'keyScales', 'valueScales', 'projectedQuery', 'projectedKey'],
  MaskedSoftmaxOptions: ['emptyRows'],
  GemmOptions: ['alpha', 'beta', 'c'],
  MatmulPackOptions: ['precision'],
  Score: ['kind', 'sigma', 'queryWeight', 'keyWeight', 'weight', 'bias', 'scoreVector', 'sigmas'],
  PreparedKeysSizes: ['batch', 'kvHeads', 'capacity', 'queryDim', 'keyDim', 'dtype'],
  KernelRegressionOptions: ['leaveOneOut', 'sigma', 'weights'],
  ScheduleLimits: ['sequences', 'keyLen', 'pageIds', 'workers'],
  StepTensors: ['queryStarts', 'keyStarts', 'keyLens', 'pageIds', 'pageStarts', 'tree'],
  AppendOptions: ['rotary', 'keyScales', 'valueScales'],
  KVPoolSizes: ['layers', 'kvHeads', 'headDim', 'valueDim', 'positions', 'pageSize', 'sequences', 'keyDtype', 'valueDtype', 'scaleGroup'],
  PositionalEncodingOptions: ['base', 'dropout', 'offset', 'dropoutSeed', 'dropoutAlone'],
  RotaryOptions: ['interleaved', 'inverse', 'base', 'positionScale', 'rotaryDim', 'offset', 'positions', 'frequencies', 'sections', 'cosines', 'sines', 'attentionFactor'],
  RotaryFrequenciesOptions: ['unrounded', 'kind', 'base', 'factor', 'originalLength', 'length', 'lowFrequencyFactor', 'highFrequencyFactor', 'fastRotations', 'slowRotations', 'mscale', 'mscaleAllDim', 'shortFactors', 'longFactors'],
  LinearPackOptions: ['layout', 'precision'],
  LinearOptions: ['activation', 'precision', 'bias', 'residual', 'multiplier'],
  LayerNormOptions: ['epsilon', 'weight', 'bias', 'residual', 'sum', 'mean', 'inverseDeviation'],
  RmsNormOptions: ['epsilon', 'weightFromOne', 'weight', 'residual', 'sum', 'inverseDeviation'],
  MhaParameters: ['layout', 'precision', 'heads', 'kvHeads', 'queryWeight', 'keyWeight', 'valueWeight', 'inWeight', 'outWeight', 'queryBias', 'keyBias', 'valueBias', 'inBias', 'outBias'],
  MhaOptions: ['keepPages', 'precision', 'attention', 'score', 'rotary', 'schedule', 'keyPages', 'valuePages', 'keyScales', 'valueScales', 'kept'],
  AttentionGradients: ['out', 'logSumExp', 'weights', 'query', 'key', 'value', 'bias', 'alibiSlopes', 'sinks', 'queryWeight', 'keyWeight', 'weight', 'scoreBias', 'scoreVector', 'sigmas'],
  NormGradients: ['out', 'sum', 'x', 'weight', 'bias'],
  LinearGradients: ['out', 'x', 'weight', 'bias', 'multiplier'],
  MergeGradients: ['out', 'logSumExp', 'outs', 'lses'],
  MhaGradients: ['out', 'query', 'key', 'value', 'queryWeight', 'keyWeight', 'valueWeight', 'inWeight', 'outWeight', 'queryBias', 'keyBias', 'valueBias', 'inBias', 'outBias', 'attention'],
};

// The data of a planned run, in the order of fovea_attention_buffers.
exports.buffers = ['query', 'key', 'value', 'out', 'validLens', 'mask', 'bias', 'alibiSlopes', 'sinks', 'logSumExp', 'weights', 'queryWeight', 'keyWeight', 'weight', 'scoreBias', 'scoreVector', 'sigmas', 'queryOffsets', 'scores', 'keyScales', 'valueScales', 'gradOut', 'gradLogSumExp', 'gradWeights', 'gradQuery', 'gradKey', 'gradValue', 'gradBias', 'gradAlibiSlopes', 'gradSinks', 'gradQueryWeight', 'gradKeyWeight', 'gradWeight', 'gradScoreBias', 'gradScoreVector', 'gradSigmas', 'projectedQuery', 'projectedKey'];
