// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use crate::sys;
use crate::tensor::{output_pointer, tensor_pointer, Tensor, TensorMut};
use crate::{Error, Result, Schedule, Status};
use std::ptr::null;

/// A size that was left out, or is not 0.
fn given_size(size: Option<i64>, name: &str) -> Result<i64> {
    if size == Some(0) {
        return Err(Error::new(Status::BadValue, format!("{name} is 0, expected at least 1")));
    }
    Ok(size.unwrap_or(0))
}

/// Operations name those they take. I8 is taken as keys and values of the scaled dot product, with scales (fovea_quantize), and
/// U8 as such values, of two features of 4 bits each; there is no operation yet that takes F8_E4M3 or F8_E5M2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Dtype {
    /// IEEE binary32
    #[default]
    F32 = sys::FOVEA_F32,
    /// IEEE binary16
    F16 = sys::FOVEA_F16,
    /// the upper half of an IEEE binary32
    Bf16 = sys::FOVEA_BF16,
    /// signed 32-bit integer
    I32 = sys::FOVEA_I32,
    /// signed 64-bit integer
    I64 = sys::FOVEA_I64,
    /// one byte, 0 is false and anything else is true
    Bool = sys::FOVEA_BOOL,
    /// signed 8-bit integer
    I8 = sys::FOVEA_I8,
    /// unsigned 8-bit integer
    U8 = sys::FOVEA_U8,
    /// 4 bits of exponent, 3 of mantissa, no infinities, NaN 0x7f and 0xff: OCP's E4M3, "e4m3fn"
    F8E4m3 = sys::FOVEA_F8_E4M3,
    /// the upper half of an IEEE binary16: OCP's E5M2
    F8E5m2 = sys::FOVEA_F8_E5M2,
}

/// How exactly products of F32 tensors are computed; sums are float32 always. Where a processor has no quick way, or the
/// shape does not gain by it, the result is that of a higher precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Precision {
    /// of a call: that of the packing of its weights if there was one, else its context's; of packing: its context's; of a context: highest
    #[default]
    Default = sys::FOVEA_PRECISION_DEFAULT,
    /// float32
    Highest = sys::FOVEA_PRECISION_HIGHEST,
    /// at least as three products of bfloat16, an error of about 2^-16 |a| |b|: float32, until a processor is known on which that is quicker
    High = sys::FOVEA_PRECISION_HIGH,
    /// factors may be rounded to bfloat16, an error of at most 2^-7 |a| |b|, and factors or products below 2^-126 may count as 0: 2^-127 times 2^127 is then 0, not 1. So it is for more than a few queries in the scaled dot product, and in products of matrices and layers, on processors with AVX-512-BF16
    Medium = sys::FOVEA_PRECISION_MEDIUM,
    /// weights of any type may be rounded to 8 bits, in products of matrices and layers (below); of all else medium
    Int8 = sys::FOVEA_PRECISION_INT8,
}

/// What a row (a query) with nothing to attend gives: no key passes the masks, or every score is -infinity. A row with
/// an attention sink is never empty: its output is 0 and its log-sum-exp the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum EmptyRows {
    /// output 0, weights 0, log-sum-exp -infinity
    #[default]
    Zero = sys::FOVEA_EMPTY_ROWS_ZERO,
    /// as if every score were -1e6: weights 1/K over all K keys, masked ones too, so that NaN or infinity in the value of a masked key reaches such a row
    Uniform = sys::FOVEA_EMPTY_ROWS_UNIFORM,
    /// the bare formula: output and weights NaN, log-sum-exp -infinity
    Nan = sys::FOVEA_EMPTY_ROWS_NAN,
}

/// Which scores fovea_attention_options.scores gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum ScoresKind {
    /// scale times the score function, of all K keys, masked ones too
    #[default]
    Raw = sys::FOVEA_SCORES_RAW,
    /// the same after the soft-cap
    Capped = sys::FOVEA_SCORES_CAPPED,
    /// with bias and ALiBi, too: what the softmax is taken of; keys not attended get -infinity
    Logits = sys::FOVEA_SCORES_LOGITS,
}

/// How a query and a key are compared. Attention with any of these is fovea_attention; with the scaled dot product it is
/// fovea_sdpa, under another name. Everything else (masks, valid lengths, empty rows, log-sum-exp, returned weights,
/// dropout, plans, strides, threads) is the same for all. No function makes a tensor of B x Q x K, let alone B x Q x K x
/// hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum ScoreKind {
    /// q . k Vaswani et al. 2017
    #[default]
    Dot = sys::FOVEA_SCORE_DOT,
    /// q^T W k Luong, Pham and Manning 2015
    Bilinear = sys::FOVEA_SCORE_BILINEAR,
    /// v . tanh(Wq q + Wk k) Bahdanau, Cho and Bengio 2015
    Additive = sys::FOVEA_SCORE_ADDITIVE,
    /// v . tanh(W [q; k] + b) Luong, Pham and Manning 2015
    Concat = sys::FOVEA_SCORE_CONCAT,
    /// -|q - k|^2 / (2 sigma^2) Nadaraya 1964, Watson 1964
    Gaussian = sys::FOVEA_SCORE_GAUSSIAN,
}

/// How frequencies are stretched for contexts longer than those a model was first trained with. f(j) is base^(-2j/d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum FrequenciesKind {
    /// f(j) Su et al. 2021
    #[default]
    Plain = sys::FOVEA_FREQUENCIES_PLAIN,
    /// f(j) / factor Chen et al. 2023
    Linear = sys::FOVEA_FREQUENCIES_LINEAR,
    /// f(j) of another base: base (factor n / original_length - factor + 1)^(d/(d-2)), n the larger of length and original_length "dynamic NTK" in Peng et al. 2023, app. B
    Dynamic = sys::FOVEA_FREQUENCIES_DYNAMIC,
    /// f(j) (1 - r + r / factor), r = (j - low) / (high - low) in [0,1], low and high the pairs that turn fast_rotations and slow_rotations times in original_length: d ln(original_length / (2 pi rotations)) / (2 ln base), rounded down and up to whole pairs, at least 0 and at most d - 1 Peng et al. 2023
    Yarn = sys::FOVEA_FREQUENCIES_YARN,
    /// f(j) / long_factors[j] if length > original_length, else / short_factors[j] Ding et al. 2024
    Longrope = sys::FOVEA_FREQUENCIES_LONGROPE,
    /// f(j) ((1 - s) / factor + s), s = (t - low_frequency_factor) / (high_frequency_factor - low_frequency_factor) in [0,1], t = original_length f(j) / (2 pi), the turns in original_length Llama 3.1, its code
    Llama3 = sys::FOVEA_FREQUENCIES_LLAMA3,
}

/// How a weight matrix lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum WeightLayout {
    /// [out,in], a row for each output: torch.nn.Linear and most model files
    #[default]
    OutIn = sys::FOVEA_WEIGHT_OUT_IN,
    /// [in,out], a row for each input: the right-hand side of x W
    InOut = sys::FOVEA_WEIGHT_IN_OUT,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Activation {
    #[default]
    None = sys::FOVEA_ACTIVATION_NONE,
    /// max(x, 0)
    Relu = sys::FOVEA_ACTIVATION_RELU,
    /// x (1 + erf(x / sqrt 2)) / 2 Hendrycks and Gimpel 2016
    Gelu = sys::FOVEA_ACTIVATION_GELU,
    /// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 the same paper's approximation
    GeluTanh = sys::FOVEA_ACTIVATION_GELU_TANH,
    /// x / (1 + e^-x) Elfwing, Uchibe and Doya 2018
    Silu = sys::FOVEA_ACTIVATION_SILU,
}

/// Positions. Where causal, window or ALiBi need the position of query i, it is, by default, K - Q + i if K >= Q (the
/// last query faces the last key: "bottom-right") and i if K < Q; FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET set it otherwise,
/// and query_offsets for each batch entry. K is that of the tensor: valid_lens move no position. That is right where each
/// sequence begins at key 0 and has a query for every key (Q = K). It is wrong for the newest Q < K queries of sequences of
/// different lengths padded to one K, as a batch of decoders has them: of lengths {3, 5} the first would stand at position
/// 4, and a window of one key to its left would leave it nothing. What is right there are query_offsets of length_b - Q,
/// with FOVEA_CAUSAL or valid_lens of length_b; for causal alone, valid_lens [B,Q] of length_b - Q + i + 1 will do.
///
/// score(i, j) = softcap * tanh(scale * q_i . k_j / softcap) + bias(i, j) - slope * |position(i) - j|
///
/// then softmax over the keys that pass valid_lens, mask, causal, window and leave-one-out. Distances of ALiBi are
/// whole numbers, exact up to 2^24 wherever the positions are, and past it rounded to float32. A key that does not pass, or
/// whose bias is -infinity, is never read into the result: NaN or infinity there, in key or value, changes nothing, but
/// for the values of an empty row under FOVEA_EMPTY_ROWS_UNIFORM. NaN in a key or value that is attended reaches the
/// output. A score of +infinity makes its row's output and weights NaN, as the formula does, and its log-sum-exp +infinity
/// unless another score is NaN. A score more than 87 (125.5 log 2) below the largest of its row, or of its part of the keys
/// where those of few queries are split, has a weight of exactly 0: before they are divided by their sum weights are never
/// denormal, as results of fovea_exp may be.
///
/// All tensors are optional: NULL where not wanted. Those of rank 4 are given without the H axis where query has rank 3
/// and without B and H where it has rank 2.
///
/// Every setter left out is a default. In C: `fovea_attention_options`.
#[derive(Default)]
pub struct AttentionOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) empty_rows: EmptyRows,
    pub(crate) scale: f32,
    pub(crate) softcap: f32,
    pub(crate) query_offset: i64,
    pub(crate) window_left: i64,
    pub(crate) window_right: i64,
    pub(crate) valid_lens: Option<Tensor<'a>>,
    pub(crate) mask: Option<Tensor<'a>>,
    pub(crate) bias: Option<Tensor<'a>>,
    pub(crate) alibi_slopes: Option<Tensor<'a>>,
    pub(crate) sinks: Option<Tensor<'a>>,
    pub(crate) log_sum_exp: Option<TensorMut<'a>>,
    pub(crate) weights: Option<TensorMut<'a>>,
    pub(crate) dropout: f32,
    pub(crate) dropout_seed: u64,
    pub(crate) query_offsets: Option<Tensor<'a>>,
    pub(crate) scores: Option<TensorMut<'a>>,
    pub(crate) scores_kind: ScoresKind,
    pub(crate) precision: Precision,
    pub(crate) key_scales: Option<Tensor<'a>>,
    pub(crate) value_scales: Option<Tensor<'a>>,
    pub(crate) projected_query: Option<TensorMut<'a>>,
    pub(crate) projected_key: Option<TensorMut<'a>>,
}

impl<'a> AttentionOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_EMPTY_ROWS_*
    pub fn empty_rows(mut self, empty_rows: EmptyRows) -> Self {
        self.empty_rows = empty_rows;
        self
    }

    /// finite; left out: 1 / sqrt(D) for the dot product, 1 for other score functions
    pub fn scale(mut self, scale: f32) -> Self {
        self.flags |= sys::FOVEA_SCALE_GIVEN;
        self.scale = scale;
        self
    }

    /// finite, >= 0; 0: none. The limit that the logits approach (Gemma 2)
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.softcap = softcap;
        self
    }

    /// used with FOVEA_QUERY_OFFSET; -2^30 to 2^30
    pub fn query_offset(mut self, query_offset: i64) -> Self {
        self.flags |= sys::FOVEA_QUERY_OFFSET;
        self.query_offset = query_offset;
        self
    }

    /// >= 0, used with FOVEA_WINDOW_LEFT
    pub fn window_left(mut self, window_left: i64) -> Self {
        self.flags |= sys::FOVEA_WINDOW_LEFT;
        self.window_left = window_left;
        self
    }

    /// >= 0, used with FOVEA_WINDOW_RIGHT
    pub fn window_right(mut self, window_right: i64) -> Self {
        self.flags |= sys::FOVEA_WINDOW_RIGHT;
        self.window_right = window_right;
        self
    }

    /// [B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j < length. Any strides. One length serves all heads. Positions do not go by it: see there
    pub fn valid_lens(mut self, valid_lens: impl Into<Tensor<'a>>) -> Self {
        self.valid_lens = Some(valid_lens.into());
        self
    }

    /// BOOL [B,H,Q,K] (or [Q,K]), true: attend. Axes of size 1 but K's broadcast. The last axis may be shorter than K: keys behind it are not attended
    pub fn mask(mut self, mask: impl Into<Tensor<'a>>) -> Self {
        self.mask = Some(mask.into());
        self
    }

    /// F32 [B,H,Q,K] (or [Q,K]), added to the scores. Axes of size 1 but K's broadcast. The last axis may be shorter than K, as the mask's
    pub fn bias(mut self, bias: impl Into<Tensor<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// F32 [H], any stride. ALiBi (Press et al. 2022)
    pub fn alibi_slopes(mut self, alibi_slopes: impl Into<Tensor<'a>>) -> Self {
        self.alibi_slopes = Some(alibi_slopes.into());
        self
    }

    /// F32 [H], any stride. A logit that takes part in the softmax without a value
    pub fn sinks(mut self, sinks: impl Into<Tensor<'a>>) -> Self {
        self.sinks = Some(sinks.into());
        self
    }

    /// output F32 [B,H,Q], any strides: log sum_j exp(score), the sink included
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<TensorMut<'a>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// output F32 [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS; masked keys get 0
    pub fn weights(mut self, weights: impl Into<TensorMut<'a>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// in [0, 1): probability that a weight is dropped; 0: none. See "Dropout"
    pub fn dropout(mut self, dropout: f32) -> Self {
        self.dropout = dropout;
        self
    }

    /// used with dropout
    pub fn dropout_seed(mut self, dropout_seed: u64) -> Self {
        self.dropout_seed = dropout_seed;
        self
    }

    /// [B], I32 or I64, each in [-2^30, 2^30], any stride: query i of batch entry b stands at position query_offsets[b] + i. Not together with FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET
    pub fn query_offsets(mut self, query_offsets: impl Into<Tensor<'a>>) -> Self {
        self.query_offsets = Some(query_offsets.into());
        self
    }

    /// output F32 [B,H,Q,K]: the scores themselves, by a pass of their own
    pub fn scores(mut self, scores: impl Into<TensorMut<'a>>) -> Self {
        self.scores = Some(scores.into());
        self
    }

    /// FOVEA_SCORES_*, used with scores
    pub fn scores_kind(mut self, scores_kind: ScoresKind) -> Self {
        self.scores_kind = scores_kind;
        self
    }

    /// FOVEA_PRECISION_*, of F32 queries, keys and values
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// F16 [B,Hkv,K,D/group], rank as key's, given exactly if key is I8: feature d of a key is its number times scale d / group. group: a multiple of 16, or D (any D)
    pub fn key_scales(mut self, key_scales: impl Into<Tensor<'a>>) -> Self {
        self.key_scales = Some(key_scales.into());
        self
    }

    /// F16 [B,Hkv,K,Dv/group], likewise for value; of U8 [B,Hkv,K,2 Dv/group], group a multiple of 32: a scale and a least number for each group
    pub fn value_scales(mut self, value_scales: impl Into<Tensor<'a>>) -> Self {
        self.value_scales = Some(value_scales.into());
        self
    }

    /// output F32 [B,H,Q,h] of fovea_attention, input of its backward pass: ADDITIVE, CONCAT. See "Kept projections" in scores.h
    pub fn projected_query(mut self, projected_query: impl Into<TensorMut<'a>>) -> Self {
        self.projected_query = Some(projected_query.into());
        self
    }

    /// output F32 [B,Hkv,K,h], likewise
    pub fn projected_key(mut self, projected_key: impl Into<TensorMut<'a>>) -> Self {
        self.projected_key = Some(projected_key.into());
        self
    }

    /// attend key j only if j <= position of the query
    pub fn causal(mut self) -> Self {
        self.flags |= sys::FOVEA_CAUSAL;
        self
    }

    /// query i stands at position i, whatever K is; not together with FOVEA_QUERY_OFFSET
    pub fn top_left(mut self) -> Self {
        self.flags |= sys::FOVEA_TOP_LEFT;
        self
    }

    /// query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if they are given)
    pub fn leave_one_out(mut self) -> Self {
        self.flags |= sys::FOVEA_LEAVE_ONE_OUT;
        self
    }

    /// weights are the mean over the H heads
    pub fn average_weights(mut self) -> Self {
        self.flags |= sys::FOVEA_AVERAGE_WEIGHTS;
        self
    }

    /// a query's result has the same bits however many queries the call has: a decoder going step by step gives the very bits of one causal call (not with dropout, which goes by the query's number). Slower for few queries
    pub fn query_invariant(mut self) -> Self {
        self.flags |= sys::FOVEA_QUERY_INVARIANT;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_attention_options {
        sys::fovea_attention_options {
            struct_size: std::mem::size_of::<sys::fovea_attention_options>(),
            flags: self.flags,
            empty_rows: self.empty_rows as i32,
            scale: self.scale,
            softcap: self.softcap,
            query_offset: self.query_offset,
            window_left: self.window_left,
            window_right: self.window_right,
            valid_lens: tensor_pointer(&self.valid_lens),
            mask: tensor_pointer(&self.mask),
            bias: tensor_pointer(&self.bias),
            alibi_slopes: tensor_pointer(&self.alibi_slopes),
            sinks: tensor_pointer(&self.sinks),
            log_sum_exp: output_pointer(&self.log_sum_exp),
            weights: output_pointer(&self.weights),
            dropout: self.dropout,
            reserved: 0,
            dropout_seed: self.dropout_seed,
            query_offsets: tensor_pointer(&self.query_offsets),
            scores: output_pointer(&self.scores),
            scores_kind: self.scores_kind as i32,
            precision: self.precision as i32,
            key_scales: tensor_pointer(&self.key_scales),
            value_scales: tensor_pointer(&self.value_scales),
            projected_query: output_pointer(&self.projected_query),
            projected_key: output_pointer(&self.projected_key),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_masked_softmax_options`.
#[derive(Default)]
pub struct MaskedSoftmaxOptions {
    pub(crate) empty_rows: EmptyRows,
}

impl MaskedSoftmaxOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_EMPTY_ROWS_*: what a row of valid length 0 gives
    pub fn empty_rows(mut self, empty_rows: EmptyRows) -> Self {
        self.empty_rows = empty_rows;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_masked_softmax_options {
        sys::fovea_masked_softmax_options {
            struct_size: std::mem::size_of::<sys::fovea_masked_softmax_options>(),
            empty_rows: self.empty_rows as i32,
            reserved: 0,
        }
    }
}

/// Every setter left out is a default. In C: `fovea_gemm_options`.
#[derive(Default)]
pub struct GemmOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) c: Option<Tensor<'a>>,
}

impl<'a> GemmOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// finite; left out: 1
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.flags |= sys::FOVEA_GEMM_ALPHA_GIVEN;
        self.alpha = alpha;
        self
    }

    /// finite; left out: 1
    pub fn beta(mut self, beta: f32) -> Self {
        self.flags |= sys::FOVEA_GEMM_BETA_GIVEN;
        self.beta = beta;
        self
    }

    /// F, rank 1 to out's, last axis contiguous; axes that it lacks, and those of size 1, are repeated. May be out itself (same data, type, shape and strides). NULL: none
    pub fn c(mut self, c: impl Into<Tensor<'a>>) -> Self {
        self.c = Some(c.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_gemm_options {
        sys::fovea_gemm_options {
            struct_size: std::mem::size_of::<sys::fovea_gemm_options>(),
            flags: self.flags,
            alpha: self.alpha,
            beta: self.beta,
            reserved: 0,
            c: tensor_pointer(&self.c),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_matmul_pack_options`.
#[derive(Default)]
pub struct MatmulPackOptions {
    pub(crate) precision: Precision,
}

impl MatmulPackOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_PRECISION_*
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_matmul_pack_options {
        sys::fovea_matmul_pack_options {
            struct_size: std::mem::size_of::<sys::fovea_matmul_pack_options>(),
            flags: 0,
            precision: self.precision as i32,
        }
    }
}

/// ```text
/// The parameters of a score function; those of other kinds must be NULL or 0. Weights are laid out [out,in], have any
/// strides, and serve every batch entry and head. h is the number of hidden units, in [1, 65536]. Dq and Dk, the sizes
/// of a query and of a key, may differ where the table below says so, and are in [1, 1024].
///
///   kind      query_weight  key_weight  weight      bias           score_vector   sigma or sigmas    sizes
///   DOT                                                                                              Dq = Dk
///   BILINEAR                            [Dq,Dk]                                                      any Dq, Dk
///   ADDITIVE  [h,Dq]        [h,Dk]                                 [h]                               any Dq, Dk
///   CONCAT                              [h,Dq+Dk]   [h] or NULL    [h]                               any Dq, Dk
///   GAUSSIAN                                                                      > 0, finite        Dq = Dk
///
/// options.scale multiplies the score; 0 without FOVEA_SCALE_GIVEN, the default, means 1 / sqrt(D) for DOT and 1 for all
/// others.
///
/// The tanh of ADDITIVE and CONCAT is taken of the whole range: units whose arguments are so large that products of
/// exponentials would overflow go another way. The error of a score is at most 2^-19 sum_u |v_u|, beside that of the two
/// projections and of a float32 sum of h numbers; where all arguments are small it is as small beside them. The scores of
/// GAUSSIAN are as good as those of the squared difference in float32, and never above 0: where |q|^2 + |k|^2 - 2 q.k would
/// cancel, the difference itself is taken. Points and sigma may be of any size: where scale / sigma^2 is not between 1e-20 and
/// 1e20, copies of the points are compared, times a power of two. A key farther than 2^30 sigma may have a score of -infinity,
/// as if it were masked, and coordinates beyond 2^157 sigma may count as that. With sigmas of 2^-40 to 2^40, and squares of
/// distances within float32's range, each head likewise. An infinity in a query or key of
/// BILINEAR may give NaN or an infinity: either side may be the one that is projected.
/// ```
///
/// Every setter left out is a default. In C: `fovea_score`.
#[derive(Default)]
pub struct Score<'a> {
    pub(crate) kind: ScoreKind,
    pub(crate) sigma: f32,
    pub(crate) query_weight: Option<Tensor<'a>>,
    pub(crate) key_weight: Option<Tensor<'a>>,
    pub(crate) weight: Option<Tensor<'a>>,
    pub(crate) bias: Option<Tensor<'a>>,
    pub(crate) score_vector: Option<Tensor<'a>>,
    pub(crate) sigmas: Option<Tensor<'a>>,
}

impl<'a> Score<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_SCORE_*
    pub fn kind(mut self, kind: ScoreKind) -> Self {
        self.kind = kind;
        self
    }

    /// GAUSSIAN: the width; 0 when sigmas is given
    pub fn sigma(mut self, sigma: f32) -> Self {
        self.sigma = sigma;
        self
    }

    /// query_weight
    pub fn query_weight(mut self, query_weight: impl Into<Tensor<'a>>) -> Self {
        self.query_weight = Some(query_weight.into());
        self
    }

    /// key_weight
    pub fn key_weight(mut self, key_weight: impl Into<Tensor<'a>>) -> Self {
        self.key_weight = Some(key_weight.into());
        self
    }

    /// weight
    pub fn weight(mut self, weight: impl Into<Tensor<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// bias
    pub fn bias(mut self, bias: impl Into<Tensor<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// score_vector
    pub fn score_vector(mut self, score_vector: impl Into<Tensor<'a>>) -> Self {
        self.score_vector = Some(score_vector.into());
        self
    }

    /// GAUSSIAN: a width for each query head, F32 [H]
    pub fn sigmas(mut self, sigmas: impl Into<Tensor<'a>>) -> Self {
        self.sigmas = Some(sigmas.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_score {
        sys::fovea_score {
            struct_size: std::mem::size_of::<sys::fovea_score>(),
            kind: self.kind as i32,
            sigma: self.sigma,
            query_weight: tensor_pointer(&self.query_weight),
            key_weight: tensor_pointer(&self.key_weight),
            weight: tensor_pointer(&self.weight),
            bias: tensor_pointer(&self.bias),
            score_vector: tensor_pointer(&self.score_vector),
            sigmas: tensor_pointer(&self.sigmas),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_prepared_keys_sizes`.
#[derive(Default)]
pub struct PreparedKeysSizes {
    pub(crate) batch: i64,
    pub(crate) kv_heads: i64,
    pub(crate) capacity: i64,
    pub(crate) query_dim: i64,
    pub(crate) key_dim: i64,
    pub(crate) dtype: Option<Dtype>,
}

impl PreparedKeysSizes {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// B, 0 to 2^30
    pub fn batch(mut self, batch: i64) -> Self {
        self.batch = batch;
        self
    }

    /// Hkv, 1 to 2^30
    pub fn kv_heads(mut self, kv_heads: i64) -> Self {
        self.kv_heads = kv_heads;
        self
    }

    /// keys of each sequence, 0 to 2^30
    pub fn capacity(mut self, capacity: i64) -> Self {
        self.capacity = capacity;
        self
    }

    /// Dq, 1 to 1024: CONCAT's weight does not tell the two apart
    pub fn query_dim(mut self, query_dim: i64) -> Self {
        self.query_dim = query_dim;
        self
    }

    /// Dk, 1 to 1024
    pub fn key_dim(mut self, key_dim: i64) -> Self {
        self.key_dim = key_dim;
        self
    }

    /// FOVEA_F32; for BILINEAR FOVEA_F16 or FOVEA_BF16, too; 0: FOVEA_F32
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = Some(dtype);
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_prepared_keys_sizes {
        sys::fovea_prepared_keys_sizes {
            struct_size: std::mem::size_of::<sys::fovea_prepared_keys_sizes>(),
            batch: self.batch,
            kv_heads: self.kv_heads,
            capacity: self.capacity,
            query_dim: self.query_dim,
            key_dim: self.key_dim,
            dtype: self.dtype.map_or(0, |one| one as i32),
            reserved: 0,
        }
    }
}

/// Every setter left out is a default. In C: `fovea_kernel_regression_options`.
#[derive(Default)]
pub struct KernelRegressionOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) sigma: f32,
    pub(crate) weights: Option<TensorMut<'a>>,
}

impl<'a> KernelRegressionOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// the kernel's width, > 0 and finite; left out: 1
    pub fn sigma(mut self, sigma: f32) -> Self {
        self.flags |= sys::FOVEA_SIGMA_GIVEN;
        self.sigma = sigma;
        self
    }

    /// output F [Q,N], or NULL
    pub fn weights(mut self, weights: impl Into<TensorMut<'a>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if they are given)
    pub fn leave_one_out(mut self) -> Self {
        self.flags |= sys::FOVEA_LEAVE_ONE_OUT;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_kernel_regression_options {
        sys::fovea_kernel_regression_options {
            struct_size: std::mem::size_of::<sys::fovea_kernel_regression_options>(),
            flags: self.flags,
            sigma: self.sigma,
            weights: output_pointer(&self.weights),
        }
    }
}

/// The most that a step may bring.
///
/// Every setter left out is a default. In C: `fovea_schedule_limits`.
#[derive(Default)]
pub struct ScheduleLimits {
    pub(crate) sequences: i64,
    pub(crate) key_len: Option<i64>,
    pub(crate) page_ids: Option<i64>,
    pub(crate) workers: Option<i64>,
}

impl ScheduleLimits {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// 1 to 2^20
    pub fn sequences(mut self, sequences: i64) -> Self {
        self.sequences = sequences;
        self
    }

    /// positions of one sequence, 1 to 2^30; left out: as many as key has
    pub fn key_len(mut self, key_len: i64) -> Self {
        self.key_len = Some(key_len);
        self
    }

    /// of all sequences together, each with those that it shares, up to 2^30; left out: what sequences of key_len have, but at most four times key's pages. 0 for packed keys
    pub fn page_ids(mut self, page_ids: i64) -> Self {
        self.page_ids = Some(page_ids);
        self
    }

    /// threads of the caller's that share a run (fovea_schedule_run_tasks), up to 4096; left out: as many as fovea_context_threads
    pub fn workers(mut self, workers: i64) -> Self {
        self.workers = Some(workers);
        self
    }


    pub(crate) fn raw(&self) -> Result<sys::fovea_schedule_limits> {
        Ok(sys::fovea_schedule_limits {
            struct_size: std::mem::size_of::<sys::fovea_schedule_limits>(),
            sequences: self.sequences,
            key_len: given_size(self.key_len, "key_len")?,
            page_ids: given_size(self.page_ids, "page_ids")?,
            workers: given_size(self.workers, "workers")?,
        })
    }
}

/// The sequences of a step, S of them. Tensors are I32 or I64, any stride.
///
/// Every setter left out is a default. In C: `fovea_step`.
#[derive(Default)]
pub struct Step<'a> {
    pub(crate) query_starts: Option<Tensor<'a>>,
    pub(crate) key_starts: Option<Tensor<'a>>,
    pub(crate) key_lens: Option<Tensor<'a>>,
    pub(crate) page_ids: Option<Tensor<'a>>,
    pub(crate) page_starts: Option<Tensor<'a>>,
    pub(crate) tree: Option<Tensor<'a>>,
}

impl<'a> Step<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// [S+1], from 0, never falling: sequence s has the tokens from query_starts[s] to query_starts[s+1] - 1
    pub fn query_starts(mut self, query_starts: impl Into<Tensor<'a>>) -> Self {
        self.query_starts = Some(query_starts.into());
        self
    }

    /// [S+1], likewise, of packed keys; with pages NULL
    pub fn key_starts(mut self, key_starts: impl Into<Tensor<'a>>) -> Self {
        self.key_starts = Some(key_starts.into());
        self
    }

    /// [S]: positions of each sequence in its pages, those of this step's tokens included; with packed keys NULL
    pub fn key_lens(mut self, key_lens: impl Into<Tensor<'a>>) -> Self {
        self.key_lens = Some(key_lens.into());
        self
    }

    /// [S,most], a row for each sequence: its pages in the order of positions, each in [0, P), as many of them read as key_lens wants; or, with page_starts, [n]. Of pages before a window's first key any may stand for those that have been given back
    pub fn page_ids(mut self, page_ids: impl Into<Tensor<'a>>) -> Self {
        self.page_ids = Some(page_ids.into());
        self
    }

    /// [S+1], from 0, never falling: sequence s has the page ids from page_starts[s] to page_starts[s+1] - 1; NULL: page_ids has a row for each
    pub fn page_starts(mut self, page_starts: impl Into<Tensor<'a>>) -> Self {
        self.page_starts = Some(page_starts.into());
        self
    }

    /// [T], I64: draft tokens. Bit j of a token's number: it attends the sequence's token j of this step, whose key stands at key_len - (its tokens) + j; of the keys before, all. 0 for every token of a sequence: as without. Of up to 64 tokens each; not with windows, ALiBi or leave-one-out. NULL: none
    pub fn tree(mut self, tree: impl Into<Tensor<'a>>) -> Self {
        self.tree = Some(tree.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_step {
        sys::fovea_step {
            struct_size: std::mem::size_of::<sys::fovea_step>(),
            query_starts: tensor_pointer(&self.query_starts),
            key_starts: tensor_pointer(&self.key_starts),
            key_lens: tensor_pointer(&self.key_lens),
            page_ids: tensor_pointer(&self.page_ids),
            page_starts: tensor_pointer(&self.page_starts),
            tree: tensor_pointer(&self.tree),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_append_options`.
#[derive(Default)]
pub struct AppendOptions<'a> {
    pub(crate) rotary: Option<RotaryOptions<'a>>,
    pub(crate) key_scales: Option<TensorMut<'a>>,
    pub(crate) value_scales: Option<TensorMut<'a>>,
}

impl<'a> AppendOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// turns keys on the way, as fovea_rotary does: at fovea_schedule_positions (and offset 0), unless positions or cosines of rows are given. NULL: none
    pub fn rotary(mut self, rotary: RotaryOptions<'a>) -> Self {
        self.rotary = Some(rotary);
        self
    }

    /// output: the scales of I8 key_pages, as the schedule was made with; else NULL
    pub fn key_scales(mut self, key_scales: impl Into<TensorMut<'a>>) -> Self {
        self.key_scales = Some(key_scales.into());
        self
    }

    /// likewise of I8 or U8 value_pages
    pub fn value_scales(mut self, value_scales: impl Into<TensorMut<'a>>) -> Self {
        self.value_scales = Some(value_scales.into());
        self
    }


    pub(crate) fn with_raw<R>(&self, call: impl FnOnce(&sys::fovea_append_options) -> R) -> R {
        let rotary = self.rotary.as_ref().map(|options| options.raw());
        call(&sys::fovea_append_options {
            struct_size: std::mem::size_of::<sys::fovea_append_options>(),
            rotary: rotary.as_ref().map_or(null(), |raw| raw as *const _),
            key_scales: output_pointer(&self.key_scales),
            value_scales: output_pointer(&self.value_scales),
        })
    }
}

/// Every setter left out is a default. In C: `fovea_kv_pool_sizes`.
#[derive(Default)]
pub struct KvPoolSizes {
    pub(crate) layers: i64,
    pub(crate) kv_heads: i64,
    pub(crate) head_dim: i64,
    pub(crate) value_dim: Option<i64>,
    pub(crate) positions: i64,
    pub(crate) page_size: Option<i64>,
    pub(crate) sequences: i64,
    pub(crate) key_dtype: Option<Dtype>,
    pub(crate) value_dtype: Option<Dtype>,
    pub(crate) scale_group: Option<i64>,
}

impl KvPoolSizes {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// 1 to 2^16
    pub fn layers(mut self, layers: i64) -> Self {
        self.layers = layers;
        self
    }

    /// Hkv, 1 to 2^20
    pub fn kv_heads(mut self, kv_heads: i64) -> Self {
        self.kv_heads = kv_heads;
        self
    }

    /// D, 1 to 1024
    pub fn head_dim(mut self, head_dim: i64) -> Self {
        self.head_dim = head_dim;
        self
    }

    /// Dv, 1 to 1024; left out: head_dim
    pub fn value_dim(mut self, value_dim: i64) -> Self {
        self.value_dim = Some(value_dim);
        self
    }

    /// room for so many of all sequences together, 1 to 2^30; rounded up to whole pages
    pub fn positions(mut self, positions: i64) -> Self {
        self.positions = positions;
        self
    }

    /// positions of a page, 1 to 2^20; left out: so that a layer's keys of a page take 128 KB or more, but so many pages that each sequence can have one
    pub fn page_size(mut self, page_size: i64) -> Self {
        self.page_size = Some(page_size);
        self
    }

    /// most that are open at once, 1 to 2^20
    pub fn sequences(mut self, sequences: i64) -> Self {
        self.sequences = sequences;
        self
    }

    /// FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; 0: FOVEA_F32
    pub fn key_dtype(mut self, key_dtype: Dtype) -> Self {
        self.key_dtype = Some(key_dtype);
        self
    }

    /// likewise, or FOVEA_U8: 4 bits, of value_dim a multiple of 32; 0: key_dtype
    pub fn value_dtype(mut self, value_dtype: Dtype) -> Self {
        self.value_dtype = Some(value_dtype);
        self
    }

    /// features that share a scale, of I8 or U8: a multiple of 16, with U8 of 32, that divides head_dim and value_dim, or 0: 32 where that divides them, else whole rows. 0 without I8 and U8
    pub fn scale_group(mut self, scale_group: i64) -> Self {
        self.scale_group = Some(scale_group);
        self
    }


    pub(crate) fn raw(&self) -> Result<sys::fovea_kv_pool_sizes> {
        Ok(sys::fovea_kv_pool_sizes {
            struct_size: std::mem::size_of::<sys::fovea_kv_pool_sizes>(),
            layers: self.layers,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            value_dim: given_size(self.value_dim, "value_dim")?,
            positions: self.positions,
            page_size: given_size(self.page_size, "page_size")?,
            sequences: self.sequences,
            key_dtype: self.key_dtype.map_or(0, |one| one as i32),
            value_dtype: self.value_dtype.map_or(0, |one| one as i32),
            scale_group: given_size(self.scale_group, "scale_group")?,
        })
    }
}

/// Every setter left out is a default. In C: `fovea_positional_encoding_options`.
#[derive(Default)]
pub struct PositionalEncodingOptions {
    pub(crate) base: f32,
    pub(crate) dropout: f32,
    pub(crate) offset: i64,
    pub(crate) dropout_seed: u64,
    pub(crate) flags: u32,
}

impl PositionalEncodingOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// > 1 and finite; left out: 10000
    pub fn base(mut self, base: f32) -> Self {
        self.flags |= sys::FOVEA_ENCODING_BASE_GIVEN;
        self.base = base;
        self
    }

    /// in [0, 1); for fovea_add_positional_encoding
    pub fn dropout(mut self, dropout: f32) -> Self {
        self.dropout = dropout;
        self
    }

    /// position of row 0, 0 to 2^30
    pub fn offset(mut self, offset: i64) -> Self {
        self.offset = offset;
        self
    }

    /// used with dropout
    pub fn dropout_seed(mut self, dropout_seed: u64) -> Self {
        self.dropout_seed = dropout_seed;
        self
    }

    /// of fovea_add_positional_encoding alone: out = dropout(x), as what the loss changes by goes back
    pub fn dropout_alone(mut self) -> Self {
        self.flags |= sys::FOVEA_ENCODING_DROPOUT_ALONE;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_positional_encoding_options {
        sys::fovea_positional_encoding_options {
            struct_size: std::mem::size_of::<sys::fovea_positional_encoding_options>(),
            base: self.base,
            dropout: self.dropout,
            offset: self.offset,
            dropout_seed: self.dropout_seed,
            flags: self.flags,
            reserved: 0,
        }
    }
}

/// Every setter left out is a default. In C: `fovea_rotary_options`.
#[derive(Default)]
pub struct RotaryOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) base: f32,
    pub(crate) position_scale: f32,
    pub(crate) rotary_dim: i64,
    pub(crate) offset: i64,
    pub(crate) positions: Option<Tensor<'a>>,
    pub(crate) frequencies: Option<Tensor<'a>>,
    pub(crate) sections: Option<Tensor<'a>>,
    pub(crate) cosines: Option<Tensor<'a>>,
    pub(crate) sines: Option<Tensor<'a>>,
    pub(crate) attention_factor: f32,
}

impl<'a> RotaryOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// > 1 and finite; left out: 10000
    pub fn base(mut self, base: f32) -> Self {
        self.flags |= sys::FOVEA_ROTARY_BASE_GIVEN;
        self.base = base;
        self
    }

    /// positions are multiplied by it (1/2: linear interpolation to twice the context); finite; left out: 1
    pub fn position_scale(mut self, position_scale: f32) -> Self {
        self.flags |= sys::FOVEA_ROTARY_POSITION_SCALE_GIVEN;
        self.position_scale = position_scale;
        self
    }

    /// the first features, an even number up to D, are rotated, the others copied; left out: D (even)
    pub fn rotary_dim(mut self, rotary_dim: i64) -> Self {
        self.flags |= sys::FOVEA_ROTARY_DIM_GIVEN;
        self.rotary_dim = rotary_dim;
        self
    }

    /// position of the first row: how many came before it; 0 to 2^30. position_scale times the largest position must not pass 2^34
    pub fn offset(mut self, offset: i64) -> Self {
        self.offset = offset;
        self
    }

    /// [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's first axis. With sections [S,L] or [S,B,L]
    pub fn positions(mut self, positions: impl Into<Tensor<'a>>) -> Self {
        self.positions = Some(positions.into());
        self
    }

    /// F32 [P], P = rotary_dim / 2, any stride: pair j turns by this angle for each position, not by base^(-2j/rotary_dim), and base is not given. Finite; times position_scale and the largest position at most 2^34. fovea_rotary_frequencies makes what models use
    pub fn frequencies(mut self, frequencies: impl Into<Tensor<'a>>) -> Self {
        self.frequencies = Some(frequencies.into());
        self
    }

    /// I32 or I64 [P], any stride, each in [0, S): pair j of row i stands at positions[sections[j]] (M-RoPE, Wang et al. 2024). Qwen2-VL has blocks, of 0, of 1, of 2; Qwen3-VL has j mod 3, but 0 from three times that section's size on
    pub fn sections(mut self, sections: impl Into<Tensor<'a>>) -> Self {
        self.sections = Some(sections.into());
        self
    }

    /// F [N,P]: pair j at position p turns by cosines[p,j] and sines[p,j], and positions are below N. Or F [B,L,P]: a row for each row of x, whatever its position, and offset is 0. Instead of an angle: base, position_scale, frequencies are not given. Last axis contiguous
    pub fn cosines(mut self, cosines: impl Into<Tensor<'a>>) -> Self {
        self.cosines = Some(cosines.into());
        self
    }

    /// F, of cosines' shape, last axis contiguous; both are given or neither
    pub fn sines(mut self, sines: impl Into<Tensor<'a>>) -> Self {
        self.sines = Some(sines.into());
        self
    }

    /// cosines and sines are multiplied by it (YaRN, LongRoPE); finite; left out: 1
    pub fn attention_factor(mut self, attention_factor: f32) -> Self {
        self.flags |= sys::FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN;
        self.attention_factor = attention_factor;
        self
    }

    /// pairs (2j, 2j+1), as in the paper; else (j, j + rotary_dim/2), as in GPT-NeoX and Llama
    pub fn interleaved(mut self) -> Self {
        self.flags |= sys::FOVEA_ROTARY_INTERLEAVED;
        self
    }

    /// rotate back
    pub fn inverse(mut self) -> Self {
        self.flags |= sys::FOVEA_ROTARY_INVERSE;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_rotary_options {
        sys::fovea_rotary_options {
            struct_size: std::mem::size_of::<sys::fovea_rotary_options>(),
            flags: self.flags,
            base: self.base,
            position_scale: self.position_scale,
            reserved: 0,
            rotary_dim: self.rotary_dim,
            offset: self.offset,
            positions: tensor_pointer(&self.positions),
            frequencies: tensor_pointer(&self.frequencies),
            sections: tensor_pointer(&self.sections),
            cosines: tensor_pointer(&self.cosines),
            sines: tensor_pointer(&self.sines),
            attention_factor: self.attention_factor,
            reserved_tail: 0,
        }
    }
}

/// A member that another kind takes is 0 or NULL.
///
/// Every setter left out is a default. In C: `fovea_rotary_frequencies_options`.
#[derive(Default)]
pub struct RotaryFrequenciesOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) kind: FrequenciesKind,
    pub(crate) base: f32,
    pub(crate) factor: f32,
    pub(crate) original_length: i64,
    pub(crate) length: Option<i64>,
    pub(crate) low_frequency_factor: f32,
    pub(crate) high_frequency_factor: f32,
    pub(crate) fast_rotations: f32,
    pub(crate) slow_rotations: f32,
    pub(crate) mscale: f32,
    pub(crate) mscale_all_dim: f32,
    pub(crate) short_factors: Option<Tensor<'a>>,
    pub(crate) long_factors: Option<Tensor<'a>>,
}

impl<'a> RotaryFrequenciesOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_FREQUENCIES_*
    pub fn kind(mut self, kind: FrequenciesKind) -> Self {
        self.kind = kind;
        self
    }

    /// "theta", > 1 and finite
    pub fn base(mut self, base: f32) -> Self {
        self.base = base;
        self
    }

    /// of all kinds but PLAIN: how many times longer the context is; > 0 and finite
    pub fn factor(mut self, factor: f32) -> Self {
        self.factor = factor;
        self
    }

    /// of all kinds but PLAIN and LINEAR: the context before, 2 to 2^30
    pub fn original_length(mut self, original_length: i64) -> Self {
        self.original_length = original_length;
        self
    }

    /// of DYNAMIC and LONGROPE: of the sequence as it is now, 0 to 2^30; left out: original_length
    pub fn length(mut self, length: i64) -> Self {
        self.length = Some(length);
        self
    }

    /// of LLAMA3: >= 0
    pub fn low_frequency_factor(mut self, low_frequency_factor: f32) -> Self {
        self.low_frequency_factor = low_frequency_factor;
        self
    }

    /// of LLAMA3: finite, above low_frequency_factor
    pub fn high_frequency_factor(mut self, high_frequency_factor: f32) -> Self {
        self.high_frequency_factor = high_frequency_factor;
        self
    }

    /// of YARN: "beta_fast", > 0 and finite; 32 where a configuration has none
    pub fn fast_rotations(mut self, fast_rotations: f32) -> Self {
        self.fast_rotations = fast_rotations;
        self
    }

    /// of YARN: "beta_slow", > 0 and finite; 1 where a configuration has none
    pub fn slow_rotations(mut self, slow_rotations: f32) -> Self {
        self.slow_rotations = slow_rotations;
        self
    }

    /// of YARN: >= 0 and finite, for attention_factor
    pub fn mscale(mut self, mscale: f32) -> Self {
        self.mscale = mscale;
        self
    }

    /// of YARN: likewise
    pub fn mscale_all_dim(mut self, mscale_all_dim: f32) -> Self {
        self.mscale_all_dim = mscale_all_dim;
        self
    }

    /// of LONGROPE: F32 [P], any stride, > 0 and finite
    pub fn short_factors(mut self, short_factors: impl Into<Tensor<'a>>) -> Self {
        self.short_factors = Some(short_factors.into());
        self
    }

    /// of LONGROPE: likewise
    pub fn long_factors(mut self, long_factors: impl Into<Tensor<'a>>) -> Self {
        self.long_factors = Some(long_factors.into());
        self
    }

    /// low and high of YaRN are not rounded to whole pairs ("truncate": false)
    pub fn unrounded(mut self) -> Self {
        self.flags |= sys::FOVEA_YARN_UNROUNDED;
        self
    }


    pub(crate) fn raw(&self) -> Result<sys::fovea_rotary_frequencies_options> {
        Ok(sys::fovea_rotary_frequencies_options {
            struct_size: std::mem::size_of::<sys::fovea_rotary_frequencies_options>(),
            flags: self.flags,
            kind: self.kind as i32,
            base: self.base,
            factor: self.factor,
            original_length: self.original_length,
            length: given_size(self.length, "length")?,
            low_frequency_factor: self.low_frequency_factor,
            high_frequency_factor: self.high_frequency_factor,
            fast_rotations: self.fast_rotations,
            slow_rotations: self.slow_rotations,
            mscale: self.mscale,
            mscale_all_dim: self.mscale_all_dim,
            short_factors: tensor_pointer(&self.short_factors),
            long_factors: tensor_pointer(&self.long_factors),
        })
    }
}

/// Every setter left out is a default. In C: `fovea_linear_pack_options`.
#[derive(Default)]
pub struct LinearPackOptions {
    pub(crate) layout: WeightLayout,
    pub(crate) precision: Precision,
}

impl LinearPackOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_WEIGHT_*
    pub fn layout(mut self, layout: WeightLayout) -> Self {
        self.layout = layout;
        self
    }

    /// FOVEA_PRECISION_*
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_linear_pack_options {
        sys::fovea_linear_pack_options {
            struct_size: std::mem::size_of::<sys::fovea_linear_pack_options>(),
            layout: self.layout as i32,
            precision: self.precision as i32,
        }
    }
}

/// Every setter left out is a default. In C: `fovea_linear_options`.
#[derive(Default)]
pub struct LinearOptions<'a> {
    pub(crate) activation: Activation,
    pub(crate) precision: Precision,
    pub(crate) bias: Option<Tensor<'a>>,
    pub(crate) residual: Option<Tensor<'a>>,
    pub(crate) multiplier: Option<Tensor<'a>>,
}

impl<'a> LinearOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_ACTIVATION_*
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// FOVEA_PRECISION_*, of F32 x: at medium it is rounded to BF16 to meet a W packed as that, where the processor multiplies it; W is as it was packed
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// F32 [N], any stride
    pub fn bias(mut self, bias: impl Into<Tensor<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// F32, out's shape, last axis contiguous, added last. May be out itself (same data, type, shape and strides): the layer is then added to it
    pub fn residual(mut self, residual: impl Into<Tensor<'a>>) -> Self {
        self.residual = Some(residual.into());
        self
    }

    /// F32, out's shape, last axis contiguous: of what the activation gave, as in a gated pair silu(x W) * (x V) (Shazeer 2020, GLU Variants Improve Transformer). May be out itself likewise
    pub fn multiplier(mut self, multiplier: impl Into<Tensor<'a>>) -> Self {
        self.multiplier = Some(multiplier.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_linear_options {
        sys::fovea_linear_options {
            struct_size: std::mem::size_of::<sys::fovea_linear_options>(),
            activation: self.activation as i32,
            precision: self.precision as i32,
            bias: tensor_pointer(&self.bias),
            residual: tensor_pointer(&self.residual),
            multiplier: tensor_pointer(&self.multiplier),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_layer_norm_options`.
#[derive(Default)]
pub struct LayerNormOptions<'a> {
    pub(crate) epsilon: f32,
    pub(crate) flags: u32,
    pub(crate) weight: Option<Tensor<'a>>,
    pub(crate) bias: Option<Tensor<'a>>,
    pub(crate) residual: Option<Tensor<'a>>,
    pub(crate) sum: Option<TensorMut<'a>>,
    pub(crate) mean: Option<TensorMut<'a>>,
    pub(crate) inverse_deviation: Option<TensorMut<'a>>,
}

impl<'a> LayerNormOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// finite, >= 0; left out: 1e-5
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.flags |= sys::FOVEA_NORM_EPSILON_GIVEN;
        self.epsilon = epsilon;
        self
    }

    /// F [E], contiguous; NULL: ones
    pub fn weight(mut self, weight: impl Into<Tensor<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// F [E], contiguous; NULL: zeros
    pub fn bias(mut self, bias: impl Into<Tensor<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// F, x's shape, last axis contiguous: x + residual is normalised
    pub fn residual(mut self, residual: impl Into<Tensor<'a>>) -> Self {
        self.residual = Some(residual.into());
        self
    }

    /// output F, x's shape, last axis contiguous: x + residual, as a layer that comes later wants it; with residual only
    pub fn sum(mut self, sum: impl Into<TensorMut<'a>>) -> Self {
        self.sum = Some(sum.into());
        self
    }

    /// output F32 [...], x's axes without the last, any strides: mean(y)
    pub fn mean(mut self, mean: impl Into<TensorMut<'a>>) -> Self {
        self.mean = Some(mean.into());
        self
    }

    /// output F32, likewise: 1 / sqrt(variance(y) + epsilon)
    pub fn inverse_deviation(mut self, inverse_deviation: impl Into<TensorMut<'a>>) -> Self {
        self.inverse_deviation = Some(inverse_deviation.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_layer_norm_options {
        sys::fovea_layer_norm_options {
            struct_size: std::mem::size_of::<sys::fovea_layer_norm_options>(),
            epsilon: self.epsilon,
            flags: self.flags,
            weight: tensor_pointer(&self.weight),
            bias: tensor_pointer(&self.bias),
            residual: tensor_pointer(&self.residual),
            sum: output_pointer(&self.sum),
            mean: output_pointer(&self.mean),
            inverse_deviation: output_pointer(&self.inverse_deviation),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_rms_norm_options`.
#[derive(Default)]
pub struct RmsNormOptions<'a> {
    pub(crate) epsilon: f32,
    pub(crate) flags: u32,
    pub(crate) weight: Option<Tensor<'a>>,
    pub(crate) residual: Option<Tensor<'a>>,
    pub(crate) sum: Option<TensorMut<'a>>,
    pub(crate) inverse_deviation: Option<TensorMut<'a>>,
}

impl<'a> RmsNormOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// finite, >= 0; left out: 1e-5
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.flags |= sys::FOVEA_NORM_EPSILON_GIVEN;
        self.epsilon = epsilon;
        self
    }

    /// F [E], contiguous; NULL: ones
    pub fn weight(mut self, weight: impl Into<Tensor<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// F, x's shape, last axis contiguous: x + residual is normalised
    pub fn residual(mut self, residual: impl Into<Tensor<'a>>) -> Self {
        self.residual = Some(residual.into());
        self
    }

    /// output F, as in fovea_layer_norm_options
    pub fn sum(mut self, sum: impl Into<TensorMut<'a>>) -> Self {
        self.sum = Some(sum.into());
        self
    }

    /// output F32 [...], likewise: 1 / sqrt(mean(y^2) + epsilon)
    pub fn inverse_deviation(mut self, inverse_deviation: impl Into<TensorMut<'a>>) -> Self {
        self.inverse_deviation = Some(inverse_deviation.into());
        self
    }

    /// of fovea_rms_norm_options alone: 1 + weight takes weight's place (Gemma); without a weight nothing changes
    pub fn weight_from_one(mut self) -> Self {
        self.flags |= sys::FOVEA_NORM_WEIGHT_FROM_ONE;
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_rms_norm_options {
        sys::fovea_rms_norm_options {
            struct_size: std::mem::size_of::<sys::fovea_rms_norm_options>(),
            epsilon: self.epsilon,
            flags: self.flags,
            weight: tensor_pointer(&self.weight),
            residual: tensor_pointer(&self.residual),
            sum: output_pointer(&self.sum),
            inverse_deviation: output_pointer(&self.inverse_deviation),
        }
    }
}

/// The parameters as a model has them. Weights are F32 of rank 2, any strides; [out,in] as written here, or the other
/// way round with FOVEA_WEIGHT_IN_OUT. Biases are F32 of rank 1, any stride, NULL for none. Each may as well be F16 or
/// BF16; weights keep their types when they are packed.
///
/// Every setter left out is a default. In C: `fovea_mha_parameters`.
#[derive(Default)]
pub struct MhaParameters<'a> {
    pub(crate) layout: WeightLayout,
    pub(crate) precision: Precision,
    pub(crate) heads: i64,
    pub(crate) kv_heads: Option<i64>,
    pub(crate) query_weight: Option<Tensor<'a>>,
    pub(crate) key_weight: Option<Tensor<'a>>,
    pub(crate) value_weight: Option<Tensor<'a>>,
    pub(crate) in_weight: Option<Tensor<'a>>,
    pub(crate) out_weight: Option<Tensor<'a>>,
    pub(crate) query_bias: Option<Tensor<'a>>,
    pub(crate) key_bias: Option<Tensor<'a>>,
    pub(crate) value_bias: Option<Tensor<'a>>,
    pub(crate) in_bias: Option<Tensor<'a>>,
    pub(crate) out_bias: Option<Tensor<'a>>,
}

impl<'a> MhaParameters<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_WEIGHT_*, of all weights
    pub fn layout(mut self, layout: WeightLayout) -> Self {
        self.layout = layout;
        self
    }

    /// FOVEA_PRECISION_*, of packing them, as fovea_linear_pack does
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// H, at least 1
    pub fn heads(mut self, heads: i64) -> Self {
        self.heads = heads;
        self
    }

    /// Hkv, a divisor of H; left out: H
    pub fn kv_heads(mut self, kv_heads: i64) -> Self {
        self.kv_heads = Some(kv_heads);
        self
    }

    /// [H D, Eq]
    pub fn query_weight(mut self, query_weight: impl Into<Tensor<'a>>) -> Self {
        self.query_weight = Some(query_weight.into());
        self
    }

    /// [Hkv Dk, Ek]; Dk is D unless the score function takes another
    pub fn key_weight(mut self, key_weight: impl Into<Tensor<'a>>) -> Self {
        self.key_weight = Some(key_weight.into());
        self
    }

    /// [Hkv Dv, Ev]
    pub fn value_weight(mut self, value_weight: impl Into<Tensor<'a>>) -> Self {
        self.value_weight = Some(value_weight.into());
        self
    }

    /// [(H + 2 Hkv) D, E], the three in one as nn.MultiheadAttention has them (in_proj), instead of them
    pub fn in_weight(mut self, in_weight: impl Into<Tensor<'a>>) -> Self {
        self.in_weight = Some(in_weight.into());
        self
    }

    /// [Eo, H Dv]; NULL: none, out is the heads side by side, Eo = H Dv
    pub fn out_weight(mut self, out_weight: impl Into<Tensor<'a>>) -> Self {
        self.out_weight = Some(out_weight.into());
        self
    }

    /// [H D]
    pub fn query_bias(mut self, query_bias: impl Into<Tensor<'a>>) -> Self {
        self.query_bias = Some(query_bias.into());
        self
    }

    /// [Hkv Dk]
    pub fn key_bias(mut self, key_bias: impl Into<Tensor<'a>>) -> Self {
        self.key_bias = Some(key_bias.into());
        self
    }

    /// [Hkv Dv]
    pub fn value_bias(mut self, value_bias: impl Into<Tensor<'a>>) -> Self {
        self.value_bias = Some(value_bias.into());
        self
    }

    /// [(H + 2 Hkv) D], together with in_weight
    pub fn in_bias(mut self, in_bias: impl Into<Tensor<'a>>) -> Self {
        self.in_bias = Some(in_bias.into());
        self
    }

    /// [Eo], together with out_weight
    pub fn out_bias(mut self, out_bias: impl Into<Tensor<'a>>) -> Self {
        self.out_bias = Some(out_bias.into());
        self
    }


    pub(crate) fn raw(&self) -> Result<sys::fovea_mha_parameters> {
        Ok(sys::fovea_mha_parameters {
            struct_size: std::mem::size_of::<sys::fovea_mha_parameters>(),
            layout: self.layout as i32,
            precision: self.precision as i32,
            heads: self.heads,
            kv_heads: given_size(self.kv_heads, "kv_heads")?,
            query_weight: tensor_pointer(&self.query_weight),
            key_weight: tensor_pointer(&self.key_weight),
            value_weight: tensor_pointer(&self.value_weight),
            in_weight: tensor_pointer(&self.in_weight),
            out_weight: tensor_pointer(&self.out_weight),
            query_bias: tensor_pointer(&self.query_bias),
            key_bias: tensor_pointer(&self.key_bias),
            value_bias: tensor_pointer(&self.value_bias),
            in_bias: tensor_pointer(&self.in_bias),
            out_bias: tensor_pointer(&self.out_bias),
        })
    }
}

/// Every setter left out is a default. In C: `fovea_mha_options`.
#[derive(Default)]
pub struct MhaOptions<'a> {
    pub(crate) flags: u32,
    pub(crate) precision: Precision,
    pub(crate) attention: Option<AttentionOptions<'a>>,
    pub(crate) score: Option<Score<'a>>,
    pub(crate) rotary: Option<RotaryOptions<'a>>,
    pub(crate) schedule: Option<&'a Schedule>,
    pub(crate) key_pages: Option<TensorMut<'a>>,
    pub(crate) value_pages: Option<TensorMut<'a>>,
    pub(crate) key_scales: Option<TensorMut<'a>>,
    pub(crate) value_scales: Option<TensorMut<'a>>,
    pub(crate) kept: Option<TensorMut<'a>>,
}

impl<'a> MhaOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// FOVEA_PRECISION_*, of what is F32 but the weights, and of attention unless attention.precision says otherwise
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// scale, masks, weights, ...: as in fovea_attention, for query [B,H,Q,D]. NULL: defaults
    pub fn attention(mut self, attention: AttentionOptions<'a>) -> Self {
        self.attention = Some(attention);
        self
    }

    /// how heads compare; its parameters serve all heads. NULL: scaled dot
    pub fn score(mut self, score: Score<'a>) -> Self {
        self.score = Some(score);
        self
    }

    /// turns projected queries and keys; needs Dk = D. Row i of either stands at offset + i; or at positions[i], which needs as many queries as keys, as cosines of rows do. With a schedule, unless positions or cosines of rows are given, at fovea_schedule_positions, and offset is 0. NULL: none
    pub fn rotary(mut self, rotary: RotaryOptions<'a>) -> Self {
        self.rotary = Some(rotary);
        self
    }

    /// rows are the tokens of its present step: query [T,Eq], out [T,Eo]. NULL: none. See below
    pub fn schedule(mut self, schedule: &'a Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// this layer's pages, of a schedule that was made for pages: projected keys and values are appended to them as fovea_schedule_append does, then attended
    pub fn key_pages(mut self, key_pages: impl Into<TensorMut<'a>>) -> Self {
        self.key_pages = Some(key_pages.into());
        self
    }

    /// value_pages
    pub fn value_pages(mut self, value_pages: impl Into<TensorMut<'a>>) -> Self {
        self.value_pages = Some(value_pages.into());
        self
    }

    /// of pages of I8, or U8; else NULL
    pub fn key_scales(mut self, key_scales: impl Into<TensorMut<'a>>) -> Self {
        self.key_scales = Some(key_scales.into());
        self
    }

    /// value_scales
    pub fn value_scales(mut self, value_scales: impl Into<TensorMut<'a>>) -> Self {
        self.value_scales = Some(value_scales.into());
        self
    }

    /// output F32 [n], contiguous, n = B Q H (D + Dv + 1) + B K Hkv (Dk + Dv): queries, keys and values as they were attended to, what attention gave and its log-sum-exp, in an order of the library's own. An input of fovea_multi_head_attention_backward, which then computes none of it again. Tensors between the steps are F32 with it. Not with a schedule, pages or a plan. NULL: nothing is kept
    pub fn kept(mut self, kept: impl Into<TensorMut<'a>>) -> Self {
        self.kept = Some(kept.into());
        self
    }

    /// attend to what the pages hold and append nothing; key and value inputs are NULL
    pub fn keep_pages(mut self) -> Self {
        self.flags |= sys::FOVEA_MHA_KEEP_PAGES;
        self
    }


    pub(crate) fn with_raw<R>(&self, call: impl FnOnce(&sys::fovea_mha_options) -> R) -> R {
        let attention = self.attention.as_ref().map(|options| options.raw());
        let score = self.score.as_ref().map(|options| options.raw());
        let rotary = self.rotary.as_ref().map(|options| options.raw());
        call(&sys::fovea_mha_options {
            struct_size: std::mem::size_of::<sys::fovea_mha_options>(),
            flags: self.flags,
            precision: self.precision as i32,
            attention: attention.as_ref().map_or(null(), |raw| raw as *const _),
            score: score.as_ref().map_or(null(), |raw| raw as *const _),
            rotary: rotary.as_ref().map_or(null(), |raw| raw as *const _),
            schedule: self.schedule.map_or(null(), |handle| handle.raw()),
            key_pages: output_pointer(&self.key_pages),
            value_pages: output_pointer(&self.value_pages),
            key_scales: output_pointer(&self.key_scales),
            value_scales: output_pointer(&self.value_scales),
            kept: output_pointer(&self.kept),
        })
    }
}

/// ```text
/// What a loss changes by, for each element of what a call to attention gave, and for each of what it took. Layouts are those
/// of the tensors themselves, element types and strides each its own. A gradient that is NULL is not wanted, and what only it
/// needs is not computed. Gradients are written, not added to.
///
/// With p the weights before dropout, d the factor of dropout (0 or 1 / (1 - dropout)) and s the score times the scale:
///   dp = d (out . value + weights)          m = sum_j p_j dp_j
///   dl = p (dp - m + log_sum_exp)           of a logit
///   value = sum_q d p out                   bias = dl
///   alibi_slopes = -sum dl |position - j|   sinks = -sum_q p_sink (m - log_sum_exp)
///   ds = dl (1 - tanh^2(s / softcap))       query, key and the score's parameters: scale ds times the score's derivative
/// in float32, with m taken from the forward call's out.
/// ```
///
/// Every setter left out is a default. In C: `fovea_attention_gradients`.
#[derive(Default)]
pub struct AttentionGradients<'a> {
    pub(crate) out: Option<Tensor<'a>>,
    pub(crate) log_sum_exp: Option<Tensor<'a>>,
    pub(crate) weights: Option<Tensor<'a>>,
    pub(crate) query: Option<TensorMut<'a>>,
    pub(crate) key: Option<TensorMut<'a>>,
    pub(crate) value: Option<TensorMut<'a>>,
    pub(crate) bias: Option<TensorMut<'a>>,
    pub(crate) alibi_slopes: Option<TensorMut<'a>>,
    pub(crate) sinks: Option<TensorMut<'a>>,
    pub(crate) query_weight: Option<TensorMut<'a>>,
    pub(crate) key_weight: Option<TensorMut<'a>>,
    pub(crate) weight: Option<TensorMut<'a>>,
    pub(crate) score_bias: Option<TensorMut<'a>>,
    pub(crate) score_vector: Option<TensorMut<'a>>,
    pub(crate) sigmas: Option<TensorMut<'a>>,
}

impl<'a> AttentionGradients<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// F [B,H,Q,Dv]: what the loss changes by for each element of out. Must be given
    pub fn out(mut self, out: impl Into<Tensor<'a>>) -> Self {
        self.out = Some(out.into());
        self
    }

    /// F32 [B,H,Q], any strides: likewise; NULL: 0
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<Tensor<'a>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// F [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS: of weights as they are or would be returned; NULL: 0
    pub fn weights(mut self, weights: impl Into<Tensor<'a>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// output F [B,H,Q,Dq]
    pub fn query(mut self, query: impl Into<TensorMut<'a>>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// output F [B,Hkv,K,Dk]; query heads that share one are added up
    pub fn key(mut self, key: impl Into<TensorMut<'a>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// output F [B,Hkv,K,Dv]; likewise
    pub fn value(mut self, value: impl Into<TensorMut<'a>>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// output F [B,H,Q,K], with the sizes of options.bias: added up over axes of size 1
    pub fn bias(mut self, bias: impl Into<TensorMut<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// output F32 [H], any stride
    pub fn alibi_slopes(mut self, alibi_slopes: impl Into<TensorMut<'a>>) -> Self {
        self.alibi_slopes = Some(alibi_slopes.into());
        self
    }

    /// output F32 [H], any stride
    pub fn sinks(mut self, sinks: impl Into<TensorMut<'a>>) -> Self {
        self.sinks = Some(sinks.into());
        self
    }

    /// output F [h,Dq], any strides: ADDITIVE
    pub fn query_weight(mut self, query_weight: impl Into<TensorMut<'a>>) -> Self {
        self.query_weight = Some(query_weight.into());
        self
    }

    /// output F [h,Dk], any strides: ADDITIVE
    pub fn key_weight(mut self, key_weight: impl Into<TensorMut<'a>>) -> Self {
        self.key_weight = Some(key_weight.into());
        self
    }

    /// output F [Dq,Dk], or of CONCAT [h,Dq+Dk], any strides
    pub fn weight(mut self, weight: impl Into<TensorMut<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// output F [h], any stride: CONCAT
    pub fn score_bias(mut self, score_bias: impl Into<TensorMut<'a>>) -> Self {
        self.score_bias = Some(score_bias.into());
        self
    }

    /// output F [h], any stride: ADDITIVE, CONCAT
    pub fn score_vector(mut self, score_vector: impl Into<TensorMut<'a>>) -> Self {
        self.score_vector = Some(score_vector.into());
        self
    }

    /// output F32 [H] where score.sigmas is given, [1] of score.sigma; any stride
    pub fn sigmas(mut self, sigmas: impl Into<TensorMut<'a>>) -> Self {
        self.sigmas = Some(sigmas.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_attention_gradients {
        sys::fovea_attention_gradients {
            struct_size: std::mem::size_of::<sys::fovea_attention_gradients>(),
            out: tensor_pointer(&self.out),
            log_sum_exp: tensor_pointer(&self.log_sum_exp),
            weights: tensor_pointer(&self.weights),
            query: output_pointer(&self.query),
            key: output_pointer(&self.key),
            value: output_pointer(&self.value),
            bias: output_pointer(&self.bias),
            alibi_slopes: output_pointer(&self.alibi_slopes),
            sinks: output_pointer(&self.sinks),
            query_weight: output_pointer(&self.query_weight),
            key_weight: output_pointer(&self.key_weight),
            weight: output_pointer(&self.weight),
            score_bias: output_pointer(&self.score_bias),
            score_vector: output_pointer(&self.score_vector),
            sigmas: output_pointer(&self.sigmas),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_norm_gradients`.
#[derive(Default)]
pub struct NormGradients<'a> {
    pub(crate) out: Option<Tensor<'a>>,
    pub(crate) sum: Option<Tensor<'a>>,
    pub(crate) x: Option<TensorMut<'a>>,
    pub(crate) weight: Option<TensorMut<'a>>,
    pub(crate) bias: Option<TensorMut<'a>>,
}

impl<'a> NormGradients<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// F, x's shape, last axis contiguous: what the loss changes by for each element of out. Must be given
    pub fn out(mut self, out: impl Into<Tensor<'a>>) -> Self {
        self.out = Some(out.into());
        self
    }

    /// F, likewise: for each element of options.sum, beside what it does through out; NULL: 0
    pub fn sum(mut self, sum: impl Into<Tensor<'a>>) -> Self {
        self.sum = Some(sum.into());
        self
    }

    /// output F, likewise: of x, and of the residual, which is the same. May be out or sum in place
    pub fn x(mut self, x: impl Into<TensorMut<'a>>) -> Self {
        self.x = Some(x.into());
        self
    }

    /// output F [E], contiguous
    pub fn weight(mut self, weight: impl Into<TensorMut<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// output F [E], contiguous: of fovea_layer_norm alone
    pub fn bias(mut self, bias: impl Into<TensorMut<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_norm_gradients {
        sys::fovea_norm_gradients {
            struct_size: std::mem::size_of::<sys::fovea_norm_gradients>(),
            out: tensor_pointer(&self.out),
            sum: tensor_pointer(&self.sum),
            x: output_pointer(&self.x),
            weight: output_pointer(&self.weight),
            bias: output_pointer(&self.bias),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_linear_gradients`.
#[derive(Default)]
pub struct LinearGradients<'a> {
    pub(crate) out: Option<Tensor<'a>>,
    pub(crate) x: Option<TensorMut<'a>>,
    pub(crate) weight: Option<TensorMut<'a>>,
    pub(crate) bias: Option<TensorMut<'a>>,
    pub(crate) multiplier: Option<TensorMut<'a>>,
}

impl<'a> LinearGradients<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// F [M,N] or [B,M,N], last axis contiguous: what the loss changes by for each element of out, and so for each of the residual. Must be given
    pub fn out(mut self, out: impl Into<Tensor<'a>>) -> Self {
        self.out = Some(out.into());
        self
    }

    /// output F, x's shape, last axis contiguous
    pub fn x(mut self, x: impl Into<TensorMut<'a>>) -> Self {
        self.x = Some(x.into());
        self
    }

    /// output F, weight's shape, last axis contiguous
    pub fn weight(mut self, weight: impl Into<TensorMut<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// output F [N], any stride
    pub fn bias(mut self, bias: impl Into<TensorMut<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// output F, out's shape, last axis contiguous
    pub fn multiplier(mut self, multiplier: impl Into<TensorMut<'a>>) -> Self {
        self.multiplier = Some(multiplier.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_linear_gradients {
        sys::fovea_linear_gradients {
            struct_size: std::mem::size_of::<sys::fovea_linear_gradients>(),
            out: tensor_pointer(&self.out),
            x: output_pointer(&self.x),
            weight: output_pointer(&self.weight),
            bias: output_pointer(&self.bias),
            multiplier: output_pointer(&self.multiplier),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_merge_gradients`.
#[derive(Default)]
pub struct MergeGradients<'a> {
    pub(crate) out: Option<Tensor<'a>>,
    pub(crate) log_sum_exp: Option<Tensor<'a>>,
    pub(crate) outs: Option<TensorMut<'a>>,
    pub(crate) lses: Option<TensorMut<'a>>,
}

impl<'a> MergeGradients<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// F [...,Dv]: what the loss changes by for each element of out. Must be given
    pub fn out(mut self, out: impl Into<Tensor<'a>>) -> Self {
        self.out = Some(out.into());
        self
    }

    /// F32 [...]: likewise; NULL: 0
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<Tensor<'a>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// output F [S,...,Dv]
    pub fn outs(mut self, outs: impl Into<TensorMut<'a>>) -> Self {
        self.outs = Some(outs.into());
        self
    }

    /// output F32 [S,...]
    pub fn lses(mut self, lses: impl Into<TensorMut<'a>>) -> Self {
        self.lses = Some(lses.into());
        self
    }


    pub(crate) fn raw(&self) -> sys::fovea_merge_gradients {
        sys::fovea_merge_gradients {
            struct_size: std::mem::size_of::<sys::fovea_merge_gradients>(),
            out: tensor_pointer(&self.out),
            log_sum_exp: tensor_pointer(&self.log_sum_exp),
            outs: output_pointer(&self.outs),
            lses: output_pointer(&self.lses),
        }
    }
}

/// Every setter left out is a default. In C: `fovea_mha_gradients`.
#[derive(Default)]
pub struct MhaGradients<'a> {
    pub(crate) out: Option<Tensor<'a>>,
    pub(crate) query: Option<TensorMut<'a>>,
    pub(crate) key: Option<TensorMut<'a>>,
    pub(crate) value: Option<TensorMut<'a>>,
    pub(crate) query_weight: Option<TensorMut<'a>>,
    pub(crate) key_weight: Option<TensorMut<'a>>,
    pub(crate) value_weight: Option<TensorMut<'a>>,
    pub(crate) in_weight: Option<TensorMut<'a>>,
    pub(crate) out_weight: Option<TensorMut<'a>>,
    pub(crate) query_bias: Option<TensorMut<'a>>,
    pub(crate) key_bias: Option<TensorMut<'a>>,
    pub(crate) value_bias: Option<TensorMut<'a>>,
    pub(crate) in_bias: Option<TensorMut<'a>>,
    pub(crate) out_bias: Option<TensorMut<'a>>,
    pub(crate) attention: Option<AttentionGradients<'a>>,
}

impl<'a> MhaGradients<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// F [B,Q,Eo], of query's rank, last axis contiguous: what the loss changes by for each element of out. Must be given
    pub fn out(mut self, out: impl Into<Tensor<'a>>) -> Self {
        self.out = Some(out.into());
        self
    }

    /// output F [B,Q,Eq], likewise; where key is NULL, of all that it is
    pub fn query(mut self, query: impl Into<TensorMut<'a>>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// output F [B,K,Ek], likewise; NULL where key is. Where value is NULL, of both
    pub fn key(mut self, key: impl Into<TensorMut<'a>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// output F [B,K,Ev], likewise; NULL where value is
    pub fn value(mut self, value: impl Into<TensorMut<'a>>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// output F, of its shape in fovea_mha_parameters, last axis contiguous
    pub fn query_weight(mut self, query_weight: impl Into<TensorMut<'a>>) -> Self {
        self.query_weight = Some(query_weight.into());
        self
    }

    /// output F, likewise
    pub fn key_weight(mut self, key_weight: impl Into<TensorMut<'a>>) -> Self {
        self.key_weight = Some(key_weight.into());
        self
    }

    /// output F, likewise
    pub fn value_weight(mut self, value_weight: impl Into<TensorMut<'a>>) -> Self {
        self.value_weight = Some(value_weight.into());
        self
    }

    /// output F, likewise
    pub fn in_weight(mut self, in_weight: impl Into<TensorMut<'a>>) -> Self {
        self.in_weight = Some(in_weight.into());
        self
    }

    /// output F, likewise
    pub fn out_weight(mut self, out_weight: impl Into<TensorMut<'a>>) -> Self {
        self.out_weight = Some(out_weight.into());
        self
    }

    /// output F, of its shape there, any stride
    pub fn query_bias(mut self, query_bias: impl Into<TensorMut<'a>>) -> Self {
        self.query_bias = Some(query_bias.into());
        self
    }

    /// output F, likewise
    pub fn key_bias(mut self, key_bias: impl Into<TensorMut<'a>>) -> Self {
        self.key_bias = Some(key_bias.into());
        self
    }

    /// output F, likewise
    pub fn value_bias(mut self, value_bias: impl Into<TensorMut<'a>>) -> Self {
        self.value_bias = Some(value_bias.into());
        self
    }

    /// output F, likewise
    pub fn in_bias(mut self, in_bias: impl Into<TensorMut<'a>>) -> Self {
        self.in_bias = Some(in_bias.into());
        self
    }

    /// output F, likewise
    pub fn out_bias(mut self, out_bias: impl Into<TensorMut<'a>>) -> Self {
        self.out_bias = Some(out_bias.into());
        self
    }

    /// of what options.attention and options.score bring, and of what they return: log_sum_exp, weights; its out, query, key and value are NULL. NULL: none
    pub fn attention(mut self, attention: AttentionGradients<'a>) -> Self {
        self.attention = Some(attention);
        self
    }


    pub(crate) fn with_raw<R>(&self, call: impl FnOnce(&sys::fovea_mha_gradients) -> R) -> R {
        let attention = self.attention.as_ref().map(|options| options.raw());
        call(&sys::fovea_mha_gradients {
            struct_size: std::mem::size_of::<sys::fovea_mha_gradients>(),
            out: tensor_pointer(&self.out),
            query: output_pointer(&self.query),
            key: output_pointer(&self.key),
            value: output_pointer(&self.value),
            query_weight: output_pointer(&self.query_weight),
            key_weight: output_pointer(&self.key_weight),
            value_weight: output_pointer(&self.value_weight),
            in_weight: output_pointer(&self.in_weight),
            out_weight: output_pointer(&self.out_weight),
            query_bias: output_pointer(&self.query_bias),
            key_bias: output_pointer(&self.key_bias),
            value_bias: output_pointer(&self.value_bias),
            in_bias: output_pointer(&self.in_bias),
            out_bias: output_pointer(&self.out_bias),
            attention: attention.as_ref().map_or(null(), |raw| raw as *const _),
        })
    }
}
