// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0
#include "../src/call.hpp"

static const fovea_attention_options *read_fovea_attention_options(Reader &in, napi_value from);
static const fovea_masked_softmax_options *read_fovea_masked_softmax_options(Reader &in, napi_value from);
static const fovea_gemm_options *read_fovea_gemm_options(Reader &in, napi_value from);
static const fovea_matmul_pack_options *read_fovea_matmul_pack_options(Reader &in, napi_value from);
static const fovea_score *read_fovea_score(Reader &in, napi_value from);
static const fovea_prepared_keys_sizes *read_fovea_prepared_keys_sizes(Reader &in, napi_value from);
static const fovea_kernel_regression_options *read_fovea_kernel_regression_options(Reader &in, napi_value from);
static const fovea_schedule_limits *read_fovea_schedule_limits(Reader &in, napi_value from);
static const fovea_step *read_fovea_step(Reader &in, napi_value from);
static const fovea_append_options *read_fovea_append_options(Reader &in, napi_value from);
static const fovea_kv_pool_sizes *read_fovea_kv_pool_sizes(Reader &in, napi_value from);
static const fovea_positional_encoding_options *read_fovea_positional_encoding_options(Reader &in, napi_value from);
static const fovea_rotary_options *read_fovea_rotary_options(Reader &in, napi_value from);
static const fovea_rotary_frequencies_options *read_fovea_rotary_frequencies_options(Reader &in, napi_value from);
static const fovea_linear_pack_options *read_fovea_linear_pack_options(Reader &in, napi_value from);
static const fovea_linear_options *read_fovea_linear_options(Reader &in, napi_value from);
static const fovea_layer_norm_options *read_fovea_layer_norm_options(Reader &in, napi_value from);
static const fovea_rms_norm_options *read_fovea_rms_norm_options(Reader &in, napi_value from);
static const fovea_mha_parameters *read_fovea_mha_parameters(Reader &in, napi_value from);
static const fovea_mha_options *read_fovea_mha_options(Reader &in, napi_value from);
static const fovea_attention_gradients *read_fovea_attention_gradients(Reader &in, napi_value from);
static const fovea_norm_gradients *read_fovea_norm_gradients(Reader &in, napi_value from);
static const fovea_linear_gradients *read_fovea_linear_gradients(Reader &in, napi_value from);
static const fovea_merge_gradients *read_fovea_merge_gradients(Reader &in, napi_value from);
static const fovea_mha_gradients *read_fovea_mha_gradients(Reader &in, napi_value from);

static const fovea_attention_options *read_fovea_attention_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_attention_options *made = in.call.make<fovea_attention_options>();
  made->struct_size = sizeof(fovea_attention_options);
  if (in.flag(in.get(from, "causal"), false, "causal")) made->flags |= FOVEA_CAUSAL;
  if (in.flag(in.get(from, "topLeft"), false, "topLeft")) made->flags |= FOVEA_TOP_LEFT;
  if (in.flag(in.get(from, "queryOffset"), true, "queryOffset")) made->flags |= FOVEA_QUERY_OFFSET;
  if (in.flag(in.get(from, "windowLeft"), true, "windowLeft")) made->flags |= FOVEA_WINDOW_LEFT;
  if (in.flag(in.get(from, "windowRight"), true, "windowRight")) made->flags |= FOVEA_WINDOW_RIGHT;
  if (in.flag(in.get(from, "leaveOneOut"), false, "leaveOneOut")) made->flags |= FOVEA_LEAVE_ONE_OUT;
  if (in.flag(in.get(from, "averageWeights"), false, "averageWeights")) made->flags |= FOVEA_AVERAGE_WEIGHTS;
  if (in.flag(in.get(from, "queryInvariant"), false, "queryInvariant")) made->flags |= FOVEA_QUERY_INVARIANT;
  if (in.flag(in.get(from, "scale"), true, "scale")) made->flags |= FOVEA_SCALE_GIVEN;
  made->empty_rows = in.choice(in.get(from, "emptyRows"), {{"zero", FOVEA_EMPTY_ROWS_ZERO}, {"uniform", FOVEA_EMPTY_ROWS_UNIFORM}, {"nan", FOVEA_EMPTY_ROWS_NAN}}, "emptyRows");
  made->scale = in.float32(in.get(from, "scale"), "scale");
  made->softcap = in.float32(in.get(from, "softcap"), "softcap");
  made->query_offset = in.int64(in.get(from, "queryOffset"), "queryOffset");
  made->window_left = in.int64(in.get(from, "windowLeft"), "windowLeft");
  made->window_right = in.int64(in.get(from, "windowRight"), "windowRight");
  made->valid_lens = in.tensor(in.get(from, "validLens"), "validLens");
  made->mask = in.tensor(in.get(from, "mask"), "mask");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->alibi_slopes = in.tensor(in.get(from, "alibiSlopes"), "alibiSlopes");
  made->sinks = in.tensor(in.get(from, "sinks"), "sinks");
  made->log_sum_exp = in.tensor(in.get(from, "logSumExp"), "logSumExp");
  made->weights = in.tensor(in.get(from, "weights"), "weights");
  made->dropout = in.float32(in.get(from, "dropout"), "dropout");
  made->dropout_seed = in.uint64(in.get(from, "dropoutSeed"), "dropoutSeed");
  made->query_offsets = in.tensor(in.get(from, "queryOffsets"), "queryOffsets");
  made->scores = in.tensor(in.get(from, "scores"), "scores");
  made->scores_kind = in.choice(in.get(from, "scoresKind"), {{"raw", FOVEA_SCORES_RAW}, {"capped", FOVEA_SCORES_CAPPED}, {"logits", FOVEA_SCORES_LOGITS}}, "scoresKind");
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  made->key_scales = in.tensor(in.get(from, "keyScales"), "keyScales");
  made->value_scales = in.tensor(in.get(from, "valueScales"), "valueScales");
  made->projected_query = in.tensor(in.get(from, "projectedQuery"), "projectedQuery");
  made->projected_key = in.tensor(in.get(from, "projectedKey"), "projectedKey");
  return made;
}

static const fovea_masked_softmax_options *read_fovea_masked_softmax_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_masked_softmax_options *made = in.call.make<fovea_masked_softmax_options>();
  made->struct_size = sizeof(fovea_masked_softmax_options);
  made->empty_rows = in.choice(in.get(from, "emptyRows"), {{"zero", FOVEA_EMPTY_ROWS_ZERO}, {"uniform", FOVEA_EMPTY_ROWS_UNIFORM}, {"nan", FOVEA_EMPTY_ROWS_NAN}}, "emptyRows");
  return made;
}

static const fovea_gemm_options *read_fovea_gemm_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_gemm_options *made = in.call.make<fovea_gemm_options>();
  made->struct_size = sizeof(fovea_gemm_options);
  if (in.flag(in.get(from, "alpha"), true, "alpha")) made->flags |= FOVEA_GEMM_ALPHA_GIVEN;
  if (in.flag(in.get(from, "beta"), true, "beta")) made->flags |= FOVEA_GEMM_BETA_GIVEN;
  made->alpha = in.float32(in.get(from, "alpha"), "alpha");
  made->beta = in.float32(in.get(from, "beta"), "beta");
  made->c = in.tensor(in.get(from, "c"), "c");
  return made;
}

static const fovea_matmul_pack_options *read_fovea_matmul_pack_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_matmul_pack_options *made = in.call.make<fovea_matmul_pack_options>();
  made->struct_size = sizeof(fovea_matmul_pack_options);
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  return made;
}

static const fovea_score *read_fovea_score(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_score *made = in.call.make<fovea_score>();
  made->struct_size = sizeof(fovea_score);
  made->kind = in.choice(in.get(from, "kind"), {{"dot", FOVEA_SCORE_DOT}, {"bilinear", FOVEA_SCORE_BILINEAR}, {"additive", FOVEA_SCORE_ADDITIVE}, {"concat", FOVEA_SCORE_CONCAT}, {"gaussian", FOVEA_SCORE_GAUSSIAN}}, "kind");
  made->sigma = in.float32(in.get(from, "sigma"), "sigma");
  made->query_weight = in.tensor(in.get(from, "queryWeight"), "queryWeight");
  made->key_weight = in.tensor(in.get(from, "keyWeight"), "keyWeight");
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->score_vector = in.tensor(in.get(from, "scoreVector"), "scoreVector");
  made->sigmas = in.tensor(in.get(from, "sigmas"), "sigmas");
  return made;
}

static const fovea_prepared_keys_sizes *read_fovea_prepared_keys_sizes(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_prepared_keys_sizes *made = in.call.make<fovea_prepared_keys_sizes>();
  made->struct_size = sizeof(fovea_prepared_keys_sizes);
  made->batch = in.int64(in.get(from, "batch"), "batch");
  made->kv_heads = in.int64(in.get(from, "kvHeads"), "kvHeads");
  made->capacity = in.int64(in.get(from, "capacity"), "capacity");
  made->query_dim = in.int64(in.get(from, "queryDim"), "queryDim");
  made->key_dim = in.int64(in.get(from, "keyDim"), "keyDim");
  made->dtype = in.choice(in.get(from, "dtype"), {{"f32", FOVEA_F32}, {"f16", FOVEA_F16}, {"bf16", FOVEA_BF16}}, "dtype");
  return made;
}

static const fovea_kernel_regression_options *read_fovea_kernel_regression_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_kernel_regression_options *made = in.call.make<fovea_kernel_regression_options>();
  made->struct_size = sizeof(fovea_kernel_regression_options);
  if (in.flag(in.get(from, "leaveOneOut"), false, "leaveOneOut")) made->flags |= FOVEA_LEAVE_ONE_OUT;
  if (in.flag(in.get(from, "sigma"), true, "sigma")) made->flags |= FOVEA_SIGMA_GIVEN;
  made->sigma = in.float32(in.get(from, "sigma"), "sigma");
  made->weights = in.tensor(in.get(from, "weights"), "weights");
  return made;
}

static const fovea_schedule_limits *read_fovea_schedule_limits(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_schedule_limits *made = in.call.make<fovea_schedule_limits>();
  made->struct_size = sizeof(fovea_schedule_limits);
  made->sequences = in.int64(in.get(from, "sequences"), "sequences");
  made->key_len = in.given_size(in.get(from, "keyLen"), "keyLen");
  made->page_ids = in.given_size(in.get(from, "pageIds"), "pageIds");
  made->workers = in.given_size(in.get(from, "workers"), "workers");
  return made;
}

static const fovea_step *read_fovea_step(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_step *made = in.call.make<fovea_step>();
  made->struct_size = sizeof(fovea_step);
  made->query_starts = in.tensor(in.get(from, "queryStarts"), "queryStarts");
  made->key_starts = in.tensor(in.get(from, "keyStarts"), "keyStarts");
  made->key_lens = in.tensor(in.get(from, "keyLens"), "keyLens");
  made->page_ids = in.tensor(in.get(from, "pageIds"), "pageIds");
  made->page_starts = in.tensor(in.get(from, "pageStarts"), "pageStarts");
  made->tree = in.tensor(in.get(from, "tree"), "tree");
  return made;
}

static const fovea_append_options *read_fovea_append_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_append_options *made = in.call.make<fovea_append_options>();
  made->struct_size = sizeof(fovea_append_options);
  made->rotary = read_fovea_rotary_options(in, in.get(from, "rotary"));
  made->key_scales = in.tensor(in.get(from, "keyScales"), "keyScales");
  made->value_scales = in.tensor(in.get(from, "valueScales"), "valueScales");
  return made;
}

static const fovea_kv_pool_sizes *read_fovea_kv_pool_sizes(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_kv_pool_sizes *made = in.call.make<fovea_kv_pool_sizes>();
  made->struct_size = sizeof(fovea_kv_pool_sizes);
  made->layers = in.int64(in.get(from, "layers"), "layers");
  made->kv_heads = in.int64(in.get(from, "kvHeads"), "kvHeads");
  made->head_dim = in.int64(in.get(from, "headDim"), "headDim");
  made->value_dim = in.given_size(in.get(from, "valueDim"), "valueDim");
  made->positions = in.int64(in.get(from, "positions"), "positions");
  made->page_size = in.given_size(in.get(from, "pageSize"), "pageSize");
  made->sequences = in.int64(in.get(from, "sequences"), "sequences");
  made->key_dtype = in.choice(in.get(from, "keyDtype"), {{"f32", FOVEA_F32}, {"f16", FOVEA_F16}, {"bf16", FOVEA_BF16}, {"i8", FOVEA_I8}}, "keyDtype");
  made->value_dtype = in.choice(in.get(from, "valueDtype"), {{"f32", FOVEA_F32}, {"f16", FOVEA_F16}, {"bf16", FOVEA_BF16}, {"i8", FOVEA_I8}, {"u8", FOVEA_U8}}, "valueDtype");
  made->scale_group = in.given_size(in.get(from, "scaleGroup"), "scaleGroup");
  return made;
}

static const fovea_positional_encoding_options *read_fovea_positional_encoding_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_positional_encoding_options *made = in.call.make<fovea_positional_encoding_options>();
  made->struct_size = sizeof(fovea_positional_encoding_options);
  made->base = in.float32(in.get(from, "base"), "base");
  made->dropout = in.float32(in.get(from, "dropout"), "dropout");
  made->offset = in.int64(in.get(from, "offset"), "offset");
  made->dropout_seed = in.uint64(in.get(from, "dropoutSeed"), "dropoutSeed");
  if (in.flag(in.get(from, "base"), true, "base")) made->flags |= FOVEA_ENCODING_BASE_GIVEN;
  if (in.flag(in.get(from, "dropoutAlone"), false, "dropoutAlone")) made->flags |= FOVEA_ENCODING_DROPOUT_ALONE;
  return made;
}

static const fovea_rotary_options *read_fovea_rotary_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_rotary_options *made = in.call.make<fovea_rotary_options>();
  made->struct_size = sizeof(fovea_rotary_options);
  if (in.flag(in.get(from, "interleaved"), false, "interleaved")) made->flags |= FOVEA_ROTARY_INTERLEAVED;
  if (in.flag(in.get(from, "inverse"), false, "inverse")) made->flags |= FOVEA_ROTARY_INVERSE;
  if (in.flag(in.get(from, "base"), true, "base")) made->flags |= FOVEA_ROTARY_BASE_GIVEN;
  if (in.flag(in.get(from, "positionScale"), true, "positionScale")) made->flags |= FOVEA_ROTARY_POSITION_SCALE_GIVEN;
  if (in.flag(in.get(from, "rotaryDim"), true, "rotaryDim")) made->flags |= FOVEA_ROTARY_DIM_GIVEN;
  if (in.flag(in.get(from, "attentionFactor"), true, "attentionFactor")) made->flags |= FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN;
  made->base = in.float32(in.get(from, "base"), "base");
  made->position_scale = in.float32(in.get(from, "positionScale"), "positionScale");
  made->rotary_dim = in.int64(in.get(from, "rotaryDim"), "rotaryDim");
  made->offset = in.int64(in.get(from, "offset"), "offset");
  made->positions = in.tensor(in.get(from, "positions"), "positions");
  made->frequencies = in.tensor(in.get(from, "frequencies"), "frequencies");
  made->sections = in.tensor(in.get(from, "sections"), "sections");
  made->cosines = in.tensor(in.get(from, "cosines"), "cosines");
  made->sines = in.tensor(in.get(from, "sines"), "sines");
  made->attention_factor = in.float32(in.get(from, "attentionFactor"), "attentionFactor");
  return made;
}

static const fovea_rotary_frequencies_options *read_fovea_rotary_frequencies_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_rotary_frequencies_options *made = in.call.make<fovea_rotary_frequencies_options>();
  made->struct_size = sizeof(fovea_rotary_frequencies_options);
  if (in.flag(in.get(from, "unrounded"), false, "unrounded")) made->flags |= FOVEA_YARN_UNROUNDED;
  made->kind = in.choice(in.get(from, "kind"), {{"plain", FOVEA_FREQUENCIES_PLAIN}, {"linear", FOVEA_FREQUENCIES_LINEAR}, {"dynamic", FOVEA_FREQUENCIES_DYNAMIC}, {"yarn", FOVEA_FREQUENCIES_YARN}, {"longrope", FOVEA_FREQUENCIES_LONGROPE}, {"llama3", FOVEA_FREQUENCIES_LLAMA3}}, "kind");
  made->base = in.float32(in.get(from, "base"), "base");
  made->factor = in.float32(in.get(from, "factor"), "factor");
  made->original_length = in.int64(in.get(from, "originalLength"), "originalLength");
  made->length = in.given_size(in.get(from, "length"), "length");
  made->low_frequency_factor = in.float32(in.get(from, "lowFrequencyFactor"), "lowFrequencyFactor");
  made->high_frequency_factor = in.float32(in.get(from, "highFrequencyFactor"), "highFrequencyFactor");
  made->fast_rotations = in.float32(in.get(from, "fastRotations"), "fastRotations");
  made->slow_rotations = in.float32(in.get(from, "slowRotations"), "slowRotations");
  made->mscale = in.float32(in.get(from, "mscale"), "mscale");
  made->mscale_all_dim = in.float32(in.get(from, "mscaleAllDim"), "mscaleAllDim");
  made->short_factors = in.tensor(in.get(from, "shortFactors"), "shortFactors");
  made->long_factors = in.tensor(in.get(from, "longFactors"), "longFactors");
  return made;
}

static const fovea_linear_pack_options *read_fovea_linear_pack_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_linear_pack_options *made = in.call.make<fovea_linear_pack_options>();
  made->struct_size = sizeof(fovea_linear_pack_options);
  made->layout = in.choice(in.get(from, "layout"), {{"outIn", FOVEA_WEIGHT_OUT_IN}, {"inOut", FOVEA_WEIGHT_IN_OUT}}, "layout");
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  return made;
}

static const fovea_linear_options *read_fovea_linear_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_linear_options *made = in.call.make<fovea_linear_options>();
  made->struct_size = sizeof(fovea_linear_options);
  made->activation = in.choice(in.get(from, "activation"), {{"none", FOVEA_ACTIVATION_NONE}, {"relu", FOVEA_ACTIVATION_RELU}, {"gelu", FOVEA_ACTIVATION_GELU}, {"geluTanh", FOVEA_ACTIVATION_GELU_TANH}, {"silu", FOVEA_ACTIVATION_SILU}}, "activation");
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->residual = in.tensor(in.get(from, "residual"), "residual");
  made->multiplier = in.tensor(in.get(from, "multiplier"), "multiplier");
  return made;
}

static const fovea_layer_norm_options *read_fovea_layer_norm_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_layer_norm_options *made = in.call.make<fovea_layer_norm_options>();
  made->struct_size = sizeof(fovea_layer_norm_options);
  made->epsilon = in.float32(in.get(from, "epsilon"), "epsilon");
  if (in.flag(in.get(from, "epsilon"), true, "epsilon")) made->flags |= FOVEA_NORM_EPSILON_GIVEN;
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->residual = in.tensor(in.get(from, "residual"), "residual");
  made->sum = in.tensor(in.get(from, "sum"), "sum");
  made->mean = in.tensor(in.get(from, "mean"), "mean");
  made->inverse_deviation = in.tensor(in.get(from, "inverseDeviation"), "inverseDeviation");
  return made;
}

static const fovea_rms_norm_options *read_fovea_rms_norm_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_rms_norm_options *made = in.call.make<fovea_rms_norm_options>();
  made->struct_size = sizeof(fovea_rms_norm_options);
  made->epsilon = in.float32(in.get(from, "epsilon"), "epsilon");
  if (in.flag(in.get(from, "epsilon"), true, "epsilon")) made->flags |= FOVEA_NORM_EPSILON_GIVEN;
  if (in.flag(in.get(from, "weightFromOne"), false, "weightFromOne")) made->flags |= FOVEA_NORM_WEIGHT_FROM_ONE;
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->residual = in.tensor(in.get(from, "residual"), "residual");
  made->sum = in.tensor(in.get(from, "sum"), "sum");
  made->inverse_deviation = in.tensor(in.get(from, "inverseDeviation"), "inverseDeviation");
  return made;
}

static const fovea_mha_parameters *read_fovea_mha_parameters(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_mha_parameters *made = in.call.make<fovea_mha_parameters>();
  made->struct_size = sizeof(fovea_mha_parameters);
  made->layout = in.choice(in.get(from, "layout"), {{"outIn", FOVEA_WEIGHT_OUT_IN}, {"inOut", FOVEA_WEIGHT_IN_OUT}}, "layout");
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  made->heads = in.int64(in.get(from, "heads"), "heads");
  made->kv_heads = in.given_size(in.get(from, "kvHeads"), "kvHeads");
  made->query_weight = in.tensor(in.get(from, "queryWeight"), "queryWeight");
  made->key_weight = in.tensor(in.get(from, "keyWeight"), "keyWeight");
  made->value_weight = in.tensor(in.get(from, "valueWeight"), "valueWeight");
  made->in_weight = in.tensor(in.get(from, "inWeight"), "inWeight");
  made->out_weight = in.tensor(in.get(from, "outWeight"), "outWeight");
  made->query_bias = in.tensor(in.get(from, "queryBias"), "queryBias");
  made->key_bias = in.tensor(in.get(from, "keyBias"), "keyBias");
  made->value_bias = in.tensor(in.get(from, "valueBias"), "valueBias");
  made->in_bias = in.tensor(in.get(from, "inBias"), "inBias");
  made->out_bias = in.tensor(in.get(from, "outBias"), "outBias");
  return made;
}

static const fovea_mha_options *read_fovea_mha_options(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_mha_options *made = in.call.make<fovea_mha_options>();
  made->struct_size = sizeof(fovea_mha_options);
  if (in.flag(in.get(from, "keepPages"), false, "keepPages")) made->flags |= FOVEA_MHA_KEEP_PAGES;
  made->precision = in.choice(in.get(from, "precision"), {{"default", FOVEA_PRECISION_DEFAULT}, {"highest", FOVEA_PRECISION_HIGHEST}, {"high", FOVEA_PRECISION_HIGH}, {"medium", FOVEA_PRECISION_MEDIUM}, {"int8", FOVEA_PRECISION_INT8}}, "precision");
  made->attention = read_fovea_attention_options(in, in.get(from, "attention"));
  made->score = read_fovea_score(in, in.get(from, "score"));
  made->rotary = read_fovea_rotary_options(in, in.get(from, "rotary"));
  made->schedule = in.handle<fovea_schedule>(in.get(from, "schedule"), Kind::schedule, false, "schedule");
  made->key_pages = in.tensor(in.get(from, "keyPages"), "keyPages");
  made->value_pages = in.tensor(in.get(from, "valuePages"), "valuePages");
  made->key_scales = in.tensor(in.get(from, "keyScales"), "keyScales");
  made->value_scales = in.tensor(in.get(from, "valueScales"), "valueScales");
  made->kept = in.tensor(in.get(from, "kept"), "kept");
  return made;
}

static const fovea_attention_gradients *read_fovea_attention_gradients(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_attention_gradients *made = in.call.make<fovea_attention_gradients>();
  made->struct_size = sizeof(fovea_attention_gradients);
  made->out = in.tensor(in.get(from, "out"), "out");
  made->log_sum_exp = in.tensor(in.get(from, "logSumExp"), "logSumExp");
  made->weights = in.tensor(in.get(from, "weights"), "weights");
  made->query = in.tensor(in.get(from, "query"), "query");
  made->key = in.tensor(in.get(from, "key"), "key");
  made->value = in.tensor(in.get(from, "value"), "value");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->alibi_slopes = in.tensor(in.get(from, "alibiSlopes"), "alibiSlopes");
  made->sinks = in.tensor(in.get(from, "sinks"), "sinks");
  made->query_weight = in.tensor(in.get(from, "queryWeight"), "queryWeight");
  made->key_weight = in.tensor(in.get(from, "keyWeight"), "keyWeight");
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->score_bias = in.tensor(in.get(from, "scoreBias"), "scoreBias");
  made->score_vector = in.tensor(in.get(from, "scoreVector"), "scoreVector");
  made->sigmas = in.tensor(in.get(from, "sigmas"), "sigmas");
  return made;
}

static const fovea_norm_gradients *read_fovea_norm_gradients(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_norm_gradients *made = in.call.make<fovea_norm_gradients>();
  made->struct_size = sizeof(fovea_norm_gradients);
  made->out = in.tensor(in.get(from, "out"), "out");
  made->sum = in.tensor(in.get(from, "sum"), "sum");
  made->x = in.tensor(in.get(from, "x"), "x");
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  return made;
}

static const fovea_linear_gradients *read_fovea_linear_gradients(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_linear_gradients *made = in.call.make<fovea_linear_gradients>();
  made->struct_size = sizeof(fovea_linear_gradients);
  made->out = in.tensor(in.get(from, "out"), "out");
  made->x = in.tensor(in.get(from, "x"), "x");
  made->weight = in.tensor(in.get(from, "weight"), "weight");
  made->bias = in.tensor(in.get(from, "bias"), "bias");
  made->multiplier = in.tensor(in.get(from, "multiplier"), "multiplier");
  return made;
}

static const fovea_merge_gradients *read_fovea_merge_gradients(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_merge_gradients *made = in.call.make<fovea_merge_gradients>();
  made->struct_size = sizeof(fovea_merge_gradients);
  made->out = in.tensor(in.get(from, "out"), "out");
  made->log_sum_exp = in.tensor(in.get(from, "logSumExp"), "logSumExp");
  made->outs = in.tensor(in.get(from, "outs"), "outs");
  made->lses = in.tensor(in.get(from, "lses"), "lses");
  return made;
}

static const fovea_mha_gradients *read_fovea_mha_gradients(Reader &in, napi_value from) {
  if (in.is_none(from)) return nullptr;
  fovea_mha_gradients *made = in.call.make<fovea_mha_gradients>();
  made->struct_size = sizeof(fovea_mha_gradients);
  made->out = in.tensor(in.get(from, "out"), "out");
  made->query = in.tensor(in.get(from, "query"), "query");
  made->key = in.tensor(in.get(from, "key"), "key");
  made->value = in.tensor(in.get(from, "value"), "value");
  made->query_weight = in.tensor(in.get(from, "queryWeight"), "queryWeight");
  made->key_weight = in.tensor(in.get(from, "keyWeight"), "keyWeight");
  made->value_weight = in.tensor(in.get(from, "valueWeight"), "valueWeight");
  made->in_weight = in.tensor(in.get(from, "inWeight"), "inWeight");
  made->out_weight = in.tensor(in.get(from, "outWeight"), "outWeight");
  made->query_bias = in.tensor(in.get(from, "queryBias"), "queryBias");
  made->key_bias = in.tensor(in.get(from, "keyBias"), "keyBias");
  made->value_bias = in.tensor(in.get(from, "valueBias"), "valueBias");
  made->in_bias = in.tensor(in.get(from, "inBias"), "inBias");
  made->out_bias = in.tensor(in.get(from, "outBias"), "outBias");
  made->attention = read_fovea_attention_gradients(in, in.get(from, "attention"));
  return made;
}

static void parse_fovea_sdpa(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *query = in.tensor(args[1], "query");
  const fovea_tensor *key = in.tensor(args[2], "key");
  const fovea_tensor *value = in.tensor(args[3], "value");
  const fovea_tensor *out = in.tensor(args[4], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[5]);
  in.call.run = [=] { return fovea_sdpa(context, query, key, value, out, options); };
}

static void parse_fovea_sdpa_plan_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *query = in.tensor(args[1], "query");
  const fovea_tensor *key = in.tensor(args[2], "key");
  const fovea_tensor *value = in.tensor(args[3], "value");
  const fovea_tensor *out = in.tensor(args[4], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[5]);
  Call *call = &in.call;
  call->made_kind = Kind::plan;
  call->layouts = layouts_of({query, key, value, out, options ? options->valid_lens : nullptr, options ? options->mask : nullptr, options ? options->bias : nullptr, options ? options->alibi_slopes : nullptr, options ? options->sinks : nullptr, options ? options->log_sum_exp : nullptr, options ? options->weights : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->query_offsets : nullptr, options ? options->scores : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->projected_query : nullptr, options ? options->projected_key : nullptr});
  in.call.run = [=] { return fovea_sdpa_plan_create(context, query, key, value, out, options, reinterpret_cast<fovea_plan **>(&call->made)); };
}

static void parse_fovea_merge_states(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *outs = in.tensor(args[1], "outs");
  const fovea_tensor *lses = in.tensor(args[2], "lses");
  const fovea_tensor *out = in.tensor(args[3], "out");
  const fovea_tensor *log_sum_exp = in.tensor(args[4], "log_sum_exp");
  in.call.run = [=] { return fovea_merge_states(context, outs, lses, out, log_sum_exp); };
}

static void parse_fovea_masked_softmax(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *valid_lens = in.tensor(args[2], "valid_lens");
  const fovea_tensor *out = in.tensor(args[3], "out");
  const fovea_masked_softmax_options *options = read_fovea_masked_softmax_options(in, args[4]);
  in.call.run = [=] { return fovea_masked_softmax(context, x, valid_lens, out, options); };
}

static void parse_fovea_softmax(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  int32_t axis = in.int32(args[2], "axis");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_softmax(context, x, axis, out); };
}

static void parse_fovea_log_softmax(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  int32_t axis = in.int32(args[2], "axis");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_log_softmax(context, x, axis, out); };
}

static void parse_fovea_matmul(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *a = in.tensor(args[1], "a");
  const fovea_tensor *b = in.tensor(args[2], "b");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_matmul(context, a, b, out); };
}

static void parse_fovea_gemm(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *a = in.tensor(args[1], "a");
  const fovea_tensor *b = in.tensor(args[2], "b");
  const fovea_tensor *out = in.tensor(args[3], "out");
  const fovea_gemm_options *options = read_fovea_gemm_options(in, args[4]);
  in.call.run = [=] { return fovea_gemm(context, a, b, out, options); };
}

static void parse_fovea_matmul_pack(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *b = in.tensor(args[1], "b");
  const fovea_matmul_pack_options *options = read_fovea_matmul_pack_options(in, args[2]);
  Call *call = &in.call;
  call->made_kind = Kind::packed_matrix;
  in.call.run = [=] { return fovea_matmul_pack(context, b, options, reinterpret_cast<fovea_packed_matrix **>(&call->made)); };
}

static void parse_fovea_matmul_packed(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *a = in.tensor(args[1], "a");
  const fovea_packed_matrix *b = in.handle<fovea_packed_matrix>(args[2], Kind::packed_matrix, false, "b");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_matmul_packed(context, a, b, out); };
}

static void parse_fovea_exp(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  in.call.run = [=] { return fovea_exp(context, x, out); };
}

static void parse_fovea_tanh(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  in.call.run = [=] { return fovea_tanh(context, x, out); };
}

static void parse_fovea_quantize(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  const fovea_tensor *scales = in.tensor(args[3], "scales");
  in.call.run = [=] { return fovea_quantize(context, x, out, scales); };
}

static void parse_fovea_dequantize(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *q = in.tensor(args[1], "q");
  const fovea_tensor *scales = in.tensor(args[2], "scales");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_dequantize(context, q, scales, out); };
}

static void parse_fovea_attention(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[6]);
  in.call.run = [=] { return fovea_attention(context, score, query, key, value, out, options); };
}

static void parse_fovea_attention_plan_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[6]);
  Call *call = &in.call;
  call->made_kind = Kind::plan;
  call->layouts = layouts_of({query, key, value, out, options ? options->valid_lens : nullptr, options ? options->mask : nullptr, options ? options->bias : nullptr, options ? options->alibi_slopes : nullptr, options ? options->sinks : nullptr, options ? options->log_sum_exp : nullptr, options ? options->weights : nullptr, score ? score->query_weight : nullptr, score ? score->key_weight : nullptr, score ? score->weight : nullptr, score ? score->bias : nullptr, score ? score->score_vector : nullptr, score ? score->sigmas : nullptr, options ? options->query_offsets : nullptr, options ? options->scores : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->projected_query : nullptr, options ? options->projected_key : nullptr});
  in.call.run = [=] { return fovea_attention_plan_create(context, score, query, key, value, out, options, reinterpret_cast<fovea_plan **>(&call->made)); };
}

static void parse_fovea_prepared_keys_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_prepared_keys_sizes *sizes = read_fovea_prepared_keys_sizes(in, args[2]);
  Call *call = &in.call;
  call->made_kind = Kind::prepared_keys;
  in.call.run = [=] { return fovea_prepared_keys_create(context, score, sizes, reinterpret_cast<fovea_prepared_keys **>(&call->made)); };
}

static void parse_fovea_prepared_keys_append(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  fovea_prepared_keys *keys = in.handle<fovea_prepared_keys>(args[1], Kind::prepared_keys, true, "keys");
  const fovea_tensor *key = in.tensor(args[2], "key");
  in.call.run = [=] { return fovea_prepared_keys_append(context, keys, key); };
}

static void parse_fovea_prepared_keys_truncate(Reader &in, const napi_value *args) {
  fovea_prepared_keys *keys = in.handle<fovea_prepared_keys>(args[0], Kind::prepared_keys, true, "keys");
  int64_t length = in.int64(args[1], "length");
  in.call.run = [=] { return fovea_prepared_keys_truncate(keys, length); };
}

static void parse_fovea_attention_prepared(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *query = in.tensor(args[1], "query");
  const fovea_prepared_keys *keys = in.handle<fovea_prepared_keys>(args[2], Kind::prepared_keys, false, "keys");
  const fovea_tensor *value = in.tensor(args[3], "value");
  const fovea_tensor *out = in.tensor(args[4], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[5]);
  in.call.run = [=] { return fovea_attention_prepared(context, query, keys, value, out, options); };
}

static void parse_fovea_attention_prepared_plan_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *query = in.tensor(args[1], "query");
  const fovea_prepared_keys *keys = in.handle<fovea_prepared_keys>(args[2], Kind::prepared_keys, false, "keys");
  const fovea_tensor *value = in.tensor(args[3], "value");
  const fovea_tensor *out = in.tensor(args[4], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[5]);
  Call *call = &in.call;
  call->made_kind = Kind::plan;
  call->layouts = layouts_of({query, nullptr, value, out, options ? options->valid_lens : nullptr, options ? options->mask : nullptr, options ? options->bias : nullptr, options ? options->alibi_slopes : nullptr, options ? options->sinks : nullptr, options ? options->log_sum_exp : nullptr, options ? options->weights : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->query_offsets : nullptr, options ? options->scores : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->projected_query : nullptr, options ? options->projected_key : nullptr});
  in.call.run = [=] { return fovea_attention_prepared_plan_create(context, query, keys, value, out, options, reinterpret_cast<fovea_plan **>(&call->made)); };
}

static void parse_fovea_kernel_regression(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *queries = in.tensor(args[1], "queries");
  const fovea_tensor *inputs = in.tensor(args[2], "inputs");
  const fovea_tensor *targets = in.tensor(args[3], "targets");
  const fovea_tensor *out = in.tensor(args[4], "out");
  const fovea_kernel_regression_options *options = read_fovea_kernel_regression_options(in, args[5]);
  in.call.run = [=] { return fovea_kernel_regression(context, queries, inputs, targets, out, options); };
}

static void parse_fovea_schedule_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[6]);
  const fovea_schedule_limits *limits = read_fovea_schedule_limits(in, args[7]);
  Call *call = &in.call;
  call->made_kind = Kind::schedule;
  call->planned = planned_of({query, key, value, out, options ? options->valid_lens : nullptr, options ? options->mask : nullptr, options ? options->bias : nullptr, options ? options->alibi_slopes : nullptr, options ? options->sinks : nullptr, options ? options->log_sum_exp : nullptr, options ? options->weights : nullptr, score ? score->query_weight : nullptr, score ? score->key_weight : nullptr, score ? score->weight : nullptr, score ? score->bias : nullptr, score ? score->score_vector : nullptr, score ? score->sigmas : nullptr, options ? options->query_offsets : nullptr, options ? options->scores : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options ? options->projected_query : nullptr, options ? options->projected_key : nullptr});
  in.call.run = [=] { return fovea_schedule_create(context, score, query, key, value, out, options, limits, reinterpret_cast<fovea_schedule **>(&call->made)); };
}

static void parse_fovea_schedule_set(Reader &in, const napi_value *args) {
  fovea_schedule *schedule = in.handle<fovea_schedule>(args[0], Kind::schedule, true, "schedule");
  const fovea_step *step = read_fovea_step(in, args[1]);
  in.call.run = [=] { return fovea_schedule_set(schedule, step); };
}

static void parse_fovea_schedule_append(Reader &in, const napi_value *args) {
  const fovea_schedule *schedule = in.handle<fovea_schedule>(args[0], Kind::schedule, false, "schedule");
  const fovea_tensor *key = in.tensor(args[1], "key");
  const fovea_tensor *value = in.tensor(args[2], "value");
  const fovea_tensor *key_pages = in.tensor(args[3], "key_pages");
  const fovea_tensor *value_pages = in.tensor(args[4], "value_pages");
  const fovea_append_options *options = read_fovea_append_options(in, args[5]);
  in.call.run = [=] { return fovea_schedule_append(schedule, key, value, key_pages, value_pages, options); };
}

static void parse_fovea_kv_pool_create(Reader &in, const napi_value *args) {
  const fovea_kv_pool_sizes *sizes = read_fovea_kv_pool_sizes(in, args[0]);
  Call *call = &in.call;
  call->made_kind = Kind::kv_pool;
  in.call.run = [=] { return fovea_kv_pool_create(sizes, reinterpret_cast<fovea_kv_pool **>(&call->made)); };
}

static void parse_fovea_kv_pool_open(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  Call *call = &in.call;
  call->gives_number = true;
  in.call.run = [=] { return fovea_kv_pool_open(pool, &call->number); };
}

static void parse_fovea_kv_pool_fork(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  int64_t sequence = in.int64(args[1], "sequence");
  int64_t length = in.int64(args[2], "length");
  Call *call = &in.call;
  call->gives_number = true;
  in.call.run = [=] { return fovea_kv_pool_fork(pool, sequence, length, &call->number); };
}

static void parse_fovea_kv_pool_truncate(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  int64_t sequence = in.int64(args[1], "sequence");
  int64_t length = in.int64(args[2], "length");
  in.call.run = [=] { return fovea_kv_pool_truncate(pool, sequence, length); };
}

static void parse_fovea_kv_pool_drop(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  int64_t sequence = in.int64(args[1], "sequence");
  int64_t first = in.int64(args[2], "first");
  in.call.run = [=] { return fovea_kv_pool_drop(pool, sequence, first); };
}

static void parse_fovea_kv_pool_close(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  int64_t sequence = in.int64(args[1], "sequence");
  in.call.run = [=] { return fovea_kv_pool_close(pool, sequence); };
}

static void parse_fovea_kv_pool_step(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[1], Kind::kv_pool, true, "pool");
  const fovea_tensor *sequences = in.tensor(args[2], "sequences");
  const fovea_tensor *tokens = in.tensor(args[3], "tokens");
  fovea_step *step = in.call.make_to_fill<fovea_step>();
  in.call.step = step;
  in.call.run = [=] { return fovea_kv_pool_step(context, pool, sequences, tokens, step); };
}

static void parse_fovea_kv_pool_save(Reader &in, const napi_value *args) {
  const fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, false, "pool");
  int64_t sequence = in.int64(args[1], "sequence");
  const Bytes *bytes = in.bytes(args[2], "bytes");
  in.call.run = [=] { return fovea_kv_pool_save(pool, sequence, bytes->data, bytes->size); };
}

static void parse_fovea_kv_pool_restore(Reader &in, const napi_value *args) {
  fovea_kv_pool *pool = in.handle<fovea_kv_pool>(args[0], Kind::kv_pool, true, "pool");
  const Bytes *bytes = in.bytes(args[1], "bytes");
  Call *call = &in.call;
  call->gives_number = true;
  in.call.run = [=] { return fovea_kv_pool_restore(pool, bytes->data, bytes->size, &call->number); };
}

static void parse_fovea_positional_encoding(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *out = in.tensor(args[1], "out");
  const fovea_positional_encoding_options *options = read_fovea_positional_encoding_options(in, args[2]);
  in.call.run = [=] { return fovea_positional_encoding(context, out, options); };
}

static void parse_fovea_add_positional_encoding(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  const fovea_positional_encoding_options *options = read_fovea_positional_encoding_options(in, args[3]);
  in.call.run = [=] { return fovea_add_positional_encoding(context, x, out, options); };
}

static void parse_fovea_rotary(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  const fovea_rotary_options *options = read_fovea_rotary_options(in, args[3]);
  in.call.run = [=] { return fovea_rotary(context, x, out, options); };
}

static void parse_fovea_rotary_frequencies(Reader &in, const napi_value *args) {
  const fovea_tensor *frequencies = in.tensor(args[0], "frequencies");
  const fovea_tensor *attention_factor = in.tensor(args[1], "attention_factor");
  const fovea_rotary_frequencies_options *options = read_fovea_rotary_frequencies_options(in, args[2]);
  in.call.run = [=] { return fovea_rotary_frequencies(frequencies, attention_factor, options); };
}

static void parse_fovea_alibi_slopes(Reader &in, const napi_value *args) {
  const fovea_tensor *out = in.tensor(args[0], "out");
  in.call.run = [=] { return fovea_alibi_slopes(out); };
}

static void parse_fovea_activation(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  int32_t activation = in.choice(args[1], {{"none", FOVEA_ACTIVATION_NONE}, {"relu", FOVEA_ACTIVATION_RELU}, {"gelu", FOVEA_ACTIVATION_GELU}, {"geluTanh", FOVEA_ACTIVATION_GELU_TANH}, {"silu", FOVEA_ACTIVATION_SILU}}, "activation");
  const fovea_tensor *x = in.tensor(args[2], "x");
  const fovea_tensor *out = in.tensor(args[3], "out");
  in.call.run = [=] { return fovea_activation(context, activation, x, out); };
}

static void parse_fovea_linear_pack(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *weight = in.tensor(args[1], "weight");
  const fovea_linear_pack_options *options = read_fovea_linear_pack_options(in, args[2]);
  Call *call = &in.call;
  call->made_kind = Kind::packed_matrix;
  in.call.run = [=] { return fovea_linear_pack(context, weight, options, reinterpret_cast<fovea_packed_matrix **>(&call->made)); };
}

static void parse_fovea_linear(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_packed_matrix *weight = in.handle<fovea_packed_matrix>(args[2], Kind::packed_matrix, false, "weight");
  const fovea_tensor *out = in.tensor(args[3], "out");
  const fovea_linear_options *options = read_fovea_linear_options(in, args[4]);
  in.call.run = [=] { return fovea_linear(context, x, weight, out, options); };
}

static void parse_fovea_layer_norm(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  const fovea_layer_norm_options *options = read_fovea_layer_norm_options(in, args[3]);
  in.call.run = [=] { return fovea_layer_norm(context, x, out, options); };
}

static void parse_fovea_rms_norm(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *out = in.tensor(args[2], "out");
  const fovea_rms_norm_options *options = read_fovea_rms_norm_options(in, args[3]);
  in.call.run = [=] { return fovea_rms_norm(context, x, out, options); };
}

static void parse_fovea_mha_weights_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_mha_parameters *parameters = read_fovea_mha_parameters(in, args[1]);
  Call *call = &in.call;
  call->made_kind = Kind::mha_weights;
  in.call.run = [=] { return fovea_mha_weights_create(context, parameters, reinterpret_cast<fovea_mha_weights **>(&call->made)); };
}

static void parse_fovea_multi_head_attention(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_mha_weights *weights = in.handle<fovea_mha_weights>(args[1], Kind::mha_weights, false, "weights");
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_mha_options *options = read_fovea_mha_options(in, args[6]);
  in.call.run = [=] { return fovea_multi_head_attention(context, weights, query, key, value, out, options); };
}

static void parse_fovea_mha_plan_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_mha_weights *weights = in.handle<fovea_mha_weights>(args[1], Kind::mha_weights, false, "weights");
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_mha_options *options = read_fovea_mha_options(in, args[6]);
  Call *call = &in.call;
  call->made_kind = Kind::mha_plan;
  call->planned = planned_of({query, key, value, out, options && options->attention ? options->attention->valid_lens : nullptr, options && options->attention ? options->attention->mask : nullptr, options && options->attention ? options->attention->bias : nullptr, options && options->attention ? options->attention->alibi_slopes : nullptr, options && options->attention ? options->attention->sinks : nullptr, options && options->attention ? options->attention->log_sum_exp : nullptr, options && options->attention ? options->attention->weights : nullptr, options && options->score ? options->score->query_weight : nullptr, options && options->score ? options->score->key_weight : nullptr, options && options->score ? options->score->weight : nullptr, options && options->score ? options->score->bias : nullptr, options && options->score ? options->score->score_vector : nullptr, options && options->score ? options->score->sigmas : nullptr, options && options->attention ? options->attention->query_offsets : nullptr, options && options->attention ? options->attention->scores : nullptr, options && options->attention ? options->attention->key_scales : nullptr, options && options->attention ? options->attention->value_scales : nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, options && options->attention ? options->attention->projected_query : nullptr, options && options->attention ? options->attention->projected_key : nullptr, options ? options->key_pages : nullptr, options ? options->value_pages : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr});
  if (options && options->rotary) call->lasting = {options->rotary->positions, options->rotary->frequencies, options->rotary->sections, options->rotary->cosines, options->rotary->sines};
  in.call.run = [=] { return fovea_mha_plan_create(context, weights, query, key, value, out, options, reinterpret_cast<fovea_mha_plan **>(&call->made)); };
}

static void parse_fovea_multi_head_attention_once(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_mha_parameters *parameters = read_fovea_mha_parameters(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_mha_options *options = read_fovea_mha_options(in, args[6]);
  in.call.run = [=] { return fovea_multi_head_attention_once(context, parameters, query, key, value, out, options); };
}

static void parse_fovea_attention_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[6]);
  const fovea_attention_gradients *gradients = read_fovea_attention_gradients(in, args[7]);
  in.call.run = [=] { return fovea_attention_backward(context, score, query, key, value, out, options, gradients); };
}

static void parse_fovea_attention_backward_plan_create(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_score *score = read_fovea_score(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_tensor *out = in.tensor(args[5], "out");
  const fovea_attention_options *options = read_fovea_attention_options(in, args[6]);
  const fovea_attention_gradients *gradients = read_fovea_attention_gradients(in, args[7]);
  Call *call = &in.call;
  call->made_kind = Kind::plan;
  call->layouts = layouts_of({query, key, value, out, options ? options->valid_lens : nullptr, options ? options->mask : nullptr, options ? options->bias : nullptr, options ? options->alibi_slopes : nullptr, options ? options->sinks : nullptr, options ? options->log_sum_exp : nullptr, options ? options->weights : nullptr, score ? score->query_weight : nullptr, score ? score->key_weight : nullptr, score ? score->weight : nullptr, score ? score->bias : nullptr, score ? score->score_vector : nullptr, score ? score->sigmas : nullptr, options ? options->query_offsets : nullptr, options ? options->scores : nullptr, options ? options->key_scales : nullptr, options ? options->value_scales : nullptr, gradients ? gradients->out : nullptr, gradients ? gradients->log_sum_exp : nullptr, gradients ? gradients->weights : nullptr, gradients ? gradients->query : nullptr, gradients ? gradients->key : nullptr, gradients ? gradients->value : nullptr, gradients ? gradients->bias : nullptr, gradients ? gradients->alibi_slopes : nullptr, gradients ? gradients->sinks : nullptr, gradients ? gradients->query_weight : nullptr, gradients ? gradients->key_weight : nullptr, gradients ? gradients->weight : nullptr, gradients ? gradients->score_bias : nullptr, gradients ? gradients->score_vector : nullptr, gradients ? gradients->sigmas : nullptr, options ? options->projected_query : nullptr, options ? options->projected_key : nullptr});
  in.call.run = [=] { return fovea_attention_backward_plan_create(context, score, query, key, value, out, options, gradients, reinterpret_cast<fovea_plan **>(&call->made)); };
}

static void parse_fovea_activation_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  int32_t activation = in.choice(args[1], {{"none", FOVEA_ACTIVATION_NONE}, {"relu", FOVEA_ACTIVATION_RELU}, {"gelu", FOVEA_ACTIVATION_GELU}, {"geluTanh", FOVEA_ACTIVATION_GELU_TANH}, {"silu", FOVEA_ACTIVATION_SILU}}, "activation");
  const fovea_tensor *x = in.tensor(args[2], "x");
  const fovea_tensor *grad_out = in.tensor(args[3], "grad_out");
  const fovea_tensor *grad_x = in.tensor(args[4], "grad_x");
  in.call.run = [=] { return fovea_activation_backward(context, activation, x, grad_out, grad_x); };
}

static void parse_fovea_masked_softmax_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *out = in.tensor(args[1], "out");
  const fovea_tensor *valid_lens = in.tensor(args[2], "valid_lens");
  const fovea_tensor *grad_out = in.tensor(args[3], "grad_out");
  const fovea_tensor *grad_x = in.tensor(args[4], "grad_x");
  in.call.run = [=] { return fovea_masked_softmax_backward(context, out, valid_lens, grad_out, grad_x); };
}

static void parse_fovea_softmax_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *out = in.tensor(args[1], "out");
  int32_t axis = in.int32(args[2], "axis");
  const fovea_tensor *grad_out = in.tensor(args[3], "grad_out");
  const fovea_tensor *grad_x = in.tensor(args[4], "grad_x");
  in.call.run = [=] { return fovea_softmax_backward(context, out, axis, grad_out, grad_x); };
}

static void parse_fovea_log_softmax_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *out = in.tensor(args[1], "out");
  int32_t axis = in.int32(args[2], "axis");
  const fovea_tensor *grad_out = in.tensor(args[3], "grad_out");
  const fovea_tensor *grad_x = in.tensor(args[4], "grad_x");
  in.call.run = [=] { return fovea_log_softmax_backward(context, out, axis, grad_out, grad_x); };
}

static void parse_fovea_layer_norm_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_layer_norm_options *options = read_fovea_layer_norm_options(in, args[2]);
  const fovea_norm_gradients *gradients = read_fovea_norm_gradients(in, args[3]);
  in.call.run = [=] { return fovea_layer_norm_backward(context, x, options, gradients); };
}

static void parse_fovea_rms_norm_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_rms_norm_options *options = read_fovea_rms_norm_options(in, args[2]);
  const fovea_norm_gradients *gradients = read_fovea_norm_gradients(in, args[3]);
  in.call.run = [=] { return fovea_rms_norm_backward(context, x, options, gradients); };
}

static void parse_fovea_linear_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *x = in.tensor(args[1], "x");
  const fovea_tensor *weight = in.tensor(args[2], "weight");
  int32_t layout = in.choice(args[3], {{"outIn", FOVEA_WEIGHT_OUT_IN}, {"inOut", FOVEA_WEIGHT_IN_OUT}}, "layout");
  const fovea_linear_options *options = read_fovea_linear_options(in, args[4]);
  const fovea_linear_gradients *gradients = read_fovea_linear_gradients(in, args[5]);
  in.call.run = [=] { return fovea_linear_backward(context, x, weight, layout, options, gradients); };
}

static void parse_fovea_merge_states_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_tensor *outs = in.tensor(args[1], "outs");
  const fovea_tensor *lses = in.tensor(args[2], "lses");
  const fovea_merge_gradients *gradients = read_fovea_merge_gradients(in, args[3]);
  in.call.run = [=] { return fovea_merge_states_backward(context, outs, lses, gradients); };
}

static void parse_fovea_multi_head_attention_backward(Reader &in, const napi_value *args) {
  const fovea_context *context = in.handle<fovea_context>(args[0], Kind::context, false, "context");
  const fovea_mha_parameters *parameters = read_fovea_mha_parameters(in, args[1]);
  const fovea_tensor *query = in.tensor(args[2], "query");
  const fovea_tensor *key = in.tensor(args[3], "key");
  const fovea_tensor *value = in.tensor(args[4], "value");
  const fovea_mha_options *options = read_fovea_mha_options(in, args[5]);
  const fovea_mha_gradients *gradients = read_fovea_mha_gradients(in, args[6]);
  in.call.run = [=] { return fovea_multi_head_attention_backward(context, parameters, query, key, value, options, gradients); };
}

const Operation operations[] = {
    {"sdpa", 6, parse_fovea_sdpa},
    {"sdpaPlanCreate", 6, parse_fovea_sdpa_plan_create},
    {"mergeStates", 5, parse_fovea_merge_states},
    {"maskedSoftmax", 5, parse_fovea_masked_softmax},
    {"softmax", 4, parse_fovea_softmax},
    {"logSoftmax", 4, parse_fovea_log_softmax},
    {"matmul", 4, parse_fovea_matmul},
    {"gemm", 5, parse_fovea_gemm},
    {"matmulPack", 3, parse_fovea_matmul_pack},
    {"matmulPacked", 4, parse_fovea_matmul_packed},
    {"exp", 3, parse_fovea_exp},
    {"tanh", 3, parse_fovea_tanh},
    {"quantize", 4, parse_fovea_quantize},
    {"dequantize", 4, parse_fovea_dequantize},
    {"attention", 7, parse_fovea_attention},
    {"attentionPlanCreate", 7, parse_fovea_attention_plan_create},
    {"preparedKeysCreate", 3, parse_fovea_prepared_keys_create},
    {"preparedKeysAppend", 3, parse_fovea_prepared_keys_append},
    {"preparedKeysTruncate", 2, parse_fovea_prepared_keys_truncate},
    {"attentionPrepared", 6, parse_fovea_attention_prepared},
    {"attentionPreparedPlanCreate", 6, parse_fovea_attention_prepared_plan_create},
    {"kernelRegression", 6, parse_fovea_kernel_regression},
    {"scheduleCreate", 8, parse_fovea_schedule_create},
    {"scheduleSet", 2, parse_fovea_schedule_set},
    {"scheduleAppend", 6, parse_fovea_schedule_append},
    {"kvPoolCreate", 1, parse_fovea_kv_pool_create},
    {"kvPoolOpen", 1, parse_fovea_kv_pool_open},
    {"kvPoolFork", 3, parse_fovea_kv_pool_fork},
    {"kvPoolTruncate", 3, parse_fovea_kv_pool_truncate},
    {"kvPoolDrop", 3, parse_fovea_kv_pool_drop},
    {"kvPoolClose", 2, parse_fovea_kv_pool_close},
    {"kvPoolStep", 4, parse_fovea_kv_pool_step},
    {"kvPoolSave", 3, parse_fovea_kv_pool_save},
    {"kvPoolRestore", 2, parse_fovea_kv_pool_restore},
    {"positionalEncoding", 3, parse_fovea_positional_encoding},
    {"addPositionalEncoding", 4, parse_fovea_add_positional_encoding},
    {"rotary", 4, parse_fovea_rotary},
    {"rotaryFrequencies", 3, parse_fovea_rotary_frequencies},
    {"alibiSlopes", 1, parse_fovea_alibi_slopes},
    {"activation", 4, parse_fovea_activation},
    {"linearPack", 3, parse_fovea_linear_pack},
    {"linear", 5, parse_fovea_linear},
    {"layerNorm", 4, parse_fovea_layer_norm},
    {"rmsNorm", 4, parse_fovea_rms_norm},
    {"mhaWeightsCreate", 2, parse_fovea_mha_weights_create},
    {"multiHeadAttention", 7, parse_fovea_multi_head_attention},
    {"mhaPlanCreate", 7, parse_fovea_mha_plan_create},
    {"multiHeadAttentionOnce", 7, parse_fovea_multi_head_attention_once},
    {"attentionBackward", 8, parse_fovea_attention_backward},
    {"attentionBackwardPlanCreate", 8, parse_fovea_attention_backward_plan_create},
    {"activationBackward", 5, parse_fovea_activation_backward},
    {"maskedSoftmaxBackward", 5, parse_fovea_masked_softmax_backward},
    {"softmaxBackward", 5, parse_fovea_softmax_backward},
    {"logSoftmaxBackward", 5, parse_fovea_log_softmax_backward},
    {"layerNormBackward", 4, parse_fovea_layer_norm_backward},
    {"rmsNormBackward", 4, parse_fovea_rms_norm_backward},
    {"linearBackward", 6, parse_fovea_linear_backward},
    {"mergeStatesBackward", 4, parse_fovea_merge_states_backward},
    {"multiHeadAttentionBackward", 7, parse_fovea_multi_head_attention_backward},
};
const size_t operation_count = sizeof operations / sizeof operations[0];

fovea_attention_buffers buffers_of(void *const *data) {
  fovea_attention_buffers buffers = {};
  buffers.struct_size = sizeof buffers;
  buffers.query = static_cast<decltype(buffers.query)>(data[0]);
  buffers.key = static_cast<decltype(buffers.key)>(data[1]);
  buffers.value = static_cast<decltype(buffers.value)>(data[2]);
  buffers.out = static_cast<decltype(buffers.out)>(data[3]);
  buffers.valid_lens = static_cast<decltype(buffers.valid_lens)>(data[4]);
  buffers.mask = static_cast<decltype(buffers.mask)>(data[5]);
  buffers.bias = static_cast<decltype(buffers.bias)>(data[6]);
  buffers.alibi_slopes = static_cast<decltype(buffers.alibi_slopes)>(data[7]);
  buffers.sinks = static_cast<decltype(buffers.sinks)>(data[8]);
  buffers.log_sum_exp = static_cast<decltype(buffers.log_sum_exp)>(data[9]);
  buffers.weights = static_cast<decltype(buffers.weights)>(data[10]);
  buffers.query_weight = static_cast<decltype(buffers.query_weight)>(data[11]);
  buffers.key_weight = static_cast<decltype(buffers.key_weight)>(data[12]);
  buffers.weight = static_cast<decltype(buffers.weight)>(data[13]);
  buffers.score_bias = static_cast<decltype(buffers.score_bias)>(data[14]);
  buffers.score_vector = static_cast<decltype(buffers.score_vector)>(data[15]);
  buffers.sigmas = static_cast<decltype(buffers.sigmas)>(data[16]);
  buffers.query_offsets = static_cast<decltype(buffers.query_offsets)>(data[17]);
  buffers.scores = static_cast<decltype(buffers.scores)>(data[18]);
  buffers.key_scales = static_cast<decltype(buffers.key_scales)>(data[19]);
  buffers.value_scales = static_cast<decltype(buffers.value_scales)>(data[20]);
  buffers.grad_out = static_cast<decltype(buffers.grad_out)>(data[21]);
  buffers.grad_log_sum_exp = static_cast<decltype(buffers.grad_log_sum_exp)>(data[22]);
  buffers.grad_weights = static_cast<decltype(buffers.grad_weights)>(data[23]);
  buffers.grad_query = static_cast<decltype(buffers.grad_query)>(data[24]);
  buffers.grad_key = static_cast<decltype(buffers.grad_key)>(data[25]);
  buffers.grad_value = static_cast<decltype(buffers.grad_value)>(data[26]);
  buffers.grad_bias = static_cast<decltype(buffers.grad_bias)>(data[27]);
  buffers.grad_alibi_slopes = static_cast<decltype(buffers.grad_alibi_slopes)>(data[28]);
  buffers.grad_sinks = static_cast<decltype(buffers.grad_sinks)>(data[29]);
  buffers.grad_query_weight = static_cast<decltype(buffers.grad_query_weight)>(data[30]);
  buffers.grad_key_weight = static_cast<decltype(buffers.grad_key_weight)>(data[31]);
  buffers.grad_weight = static_cast<decltype(buffers.grad_weight)>(data[32]);
  buffers.grad_score_bias = static_cast<decltype(buffers.grad_score_bias)>(data[33]);
  buffers.grad_score_vector = static_cast<decltype(buffers.grad_score_vector)>(data[34]);
  buffers.grad_sigmas = static_cast<decltype(buffers.grad_sigmas)>(data[35]);
  buffers.projected_query = static_cast<decltype(buffers.projected_query)>(data[36]);
  buffers.projected_key = static_cast<decltype(buffers.projected_key)>(data[37]);
  return buffers;
}

fovea_mha_buffers mha_buffers_of(void *const *data, fovea_attention_buffers &attention) {
  attention = buffers_of(data);
  attention.query = attention.key = attention.value = nullptr;
  attention.out = nullptr;
  fovea_mha_buffers buffers = {};
  buffers.struct_size = sizeof buffers;
  buffers.attention = &attention;
  buffers.query = static_cast<decltype(buffers.query)>(data[0]);
  buffers.key = static_cast<decltype(buffers.key)>(data[1]);
  buffers.value = static_cast<decltype(buffers.value)>(data[2]);
  buffers.out = static_cast<decltype(buffers.out)>(data[3]);
  buffers.key_pages = static_cast<decltype(buffers.key_pages)>(data[38]);
  buffers.value_pages = static_cast<decltype(buffers.value_pages)>(data[39]);
  buffers.key_scales = static_cast<decltype(buffers.key_scales)>(data[40]);
  buffers.value_scales = static_cast<decltype(buffers.value_scales)>(data[41]);
  return buffers;
}

void destroy(Kind kind, void *raw) {
  switch (kind) {
    case Kind::context: return fovea_context_destroy(static_cast<fovea_context *>(raw));
    case Kind::kv_pool: return fovea_kv_pool_destroy(static_cast<fovea_kv_pool *>(raw));
    case Kind::mha_plan: return fovea_mha_plan_destroy(static_cast<fovea_mha_plan *>(raw));
    case Kind::mha_weights: return fovea_mha_weights_destroy(static_cast<fovea_mha_weights *>(raw));
    case Kind::packed_matrix: return fovea_packed_matrix_destroy(static_cast<fovea_packed_matrix *>(raw));
    case Kind::plan: return fovea_plan_destroy(static_cast<fovea_plan *>(raw));
    case Kind::prepared_keys: return fovea_prepared_keys_destroy(static_cast<fovea_prepared_keys *>(raw));
    case Kind::schedule: return fovea_schedule_destroy(static_cast<fovea_schedule *>(raw));
  }
}

const char *name_of(Kind kind) {
  static const char *const names[] = {"Context", "KVPool", "MhaPlan", "MhaWeights", "PackedMatrix", "Plan", "PreparedKeys", "Schedule"};
  return names[static_cast<int>(kind)];
}

const char *const buffer_names[] = {"query", "key", "value", "out", "validLens", "mask", "bias", "alibiSlopes", "sinks", "logSumExp", "weights", "queryWeight", "keyWeight", "weight", "scoreBias", "scoreVector", "sigmas", "queryOffsets", "scores", "keyScales", "valueScales", "gradOut", "gradLogSumExp", "gradWeights", "gradQuery", "gradKey", "gradValue", "gradBias", "gradAlibiSlopes", "gradSinks", "gradQueryWeight", "gradKeyWeight", "gradWeight", "gradScoreBias", "gradScoreVector", "gradSigmas", "projectedQuery", "projectedKey", "keyPages", "valuePages", "keyScales", "valueScales"};
