// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use core::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

pub const FOVEA_VERSION_MAJOR: usize = 0;
pub const FOVEA_VERSION_MINOR: usize = 1;
pub const FOVEA_VERSION_PATCH: usize = 0;
pub const FOVEA_MAX_RANK: usize = 6;

pub type fovea_status = i32;

pub type fovea_dtype = i32;

/// One piece of parallel work.
pub type fovea_work =
    Option<unsafe extern "C" fn(work_data: *mut c_void, index: i64)>;

/// The caller's own parallel loop: call work(work_data, i) once for each i in [0, count), on any threads in any order,
/// and return when all have returned. A call may wait for others that have begun, never for one that has not: threads of
/// any kind will do, one after the other too, but a call must not be interrupted to run another on the same thread.
pub type fovea_parallel_for =
    Option<unsafe extern "C" fn(user: *mut c_void, count: i64, work: fovea_work, work_data: *mut c_void)>;

pub const FOVEA_OK: fovea_status = 0;
/// a required pointer is NULL
pub const FOVEA_NULL_POINTER: fovea_status = 1;
/// a tensor has the wrong number of axes
pub const FOVEA_BAD_RANK: fovea_status = 2;
/// sizes are negative, out of range or do not fit together
pub const FOVEA_BAD_SHAPE: fovea_status = 3;
/// a stride the operation does not take, or an output that repeats itself
pub const FOVEA_BAD_STRIDE: fovea_status = 4;
/// an element type the argument does not take
pub const FOVEA_BAD_DTYPE: fovea_status = 5;
/// a number is out of range: an option, a valid length
pub const FOVEA_BAD_VALUE: fovea_status = 6;
/// unknown flag bits, or a newer struct with members this build lacks
pub const FOVEA_BAD_OPTION: fovea_status = 7;
/// an output overlaps an input or another output
pub const FOVEA_OVERLAP: fovea_status = 8;
/// the product of sizes or strides does not fit the address space
pub const FOVEA_SIZE_OVERFLOW: fovea_status = 9;
pub const FOVEA_WORKSPACE_TOO_SMALL: fovea_status = 10;
pub const FOVEA_OUT_OF_MEMORY: fovea_status = 11;
/// FOVEA_ISA or max_isa names no instruction set this machine can run
pub const FOVEA_UNKNOWN_ISA: fovea_status = 12;
/// a defect in fovea; please report it
pub const FOVEA_INTERNAL_ERROR: fovea_status = 13;
/// a pool has too few free pages, or no room for another sequence
pub const FOVEA_POOL_EXHAUSTED: fovea_status = 14;

/// IEEE binary32
pub const FOVEA_F32: fovea_dtype = 1;
/// IEEE binary16
pub const FOVEA_F16: fovea_dtype = 2;
/// the upper half of an IEEE binary32
pub const FOVEA_BF16: fovea_dtype = 3;
/// signed 32-bit integer
pub const FOVEA_I32: fovea_dtype = 5;
/// signed 64-bit integer
pub const FOVEA_I64: fovea_dtype = 6;
/// one byte, 0 is false and anything else is true
pub const FOVEA_BOOL: fovea_dtype = 7;
/// signed 8-bit integer
pub const FOVEA_I8: fovea_dtype = 8;
/// unsigned 8-bit integer
pub const FOVEA_U8: fovea_dtype = 9;
/// 4 bits of exponent, 3 of mantissa, no infinities, NaN 0x7f and 0xff: OCP's E4M3, "e4m3fn"
pub const FOVEA_F8_E4M3: fovea_dtype = 10;
/// the upper half of an IEEE binary16: OCP's E5M2
pub const FOVEA_F8_E5M2: fovea_dtype = 11;

/// of a call: that of the packing of its weights if there was one, else its context's; of packing: its context's; of a context: highest
pub const FOVEA_PRECISION_DEFAULT: i32 = 0;
/// float32
pub const FOVEA_PRECISION_HIGHEST: i32 = 1;
/// at least as three products of bfloat16, an error of about 2^-16 |a| |b|: float32, until a processor is known on which that is quicker
pub const FOVEA_PRECISION_HIGH: i32 = 2;
/// factors may be rounded to bfloat16, an error of at most 2^-7 |a| |b|, and factors or products below 2^-126 may count as 0: 2^-127 times 2^127 is then 0, not 1. So it is for more than a few queries in the scaled dot product, and in products of matrices and layers, on processors with AVX-512-BF16
pub const FOVEA_PRECISION_MEDIUM: i32 = 3;
/// weights of any type may be rounded to 8 bits, in products of matrices and layers (below); of all else medium
pub const FOVEA_PRECISION_INT8: i32 = 4;

/// output 0, weights 0, log-sum-exp -infinity
pub const FOVEA_EMPTY_ROWS_ZERO: i32 = 0;
/// as if every score were -1e6: weights 1/K over all K keys, masked ones too, so that NaN or infinity in the value of a masked key reaches such a row
pub const FOVEA_EMPTY_ROWS_UNIFORM: i32 = 1;
/// the bare formula: output and weights NaN, log-sum-exp -infinity
pub const FOVEA_EMPTY_ROWS_NAN: i32 = 2;

/// scale times the score function, of all K keys, masked ones too
pub const FOVEA_SCORES_RAW: i32 = 0;
/// the same after the soft-cap
pub const FOVEA_SCORES_CAPPED: i32 = 1;
/// with bias and ALiBi, too: what the softmax is taken of; keys not attended get -infinity
pub const FOVEA_SCORES_LOGITS: i32 = 2;

/// attend key j only if j <= position of the query
pub const FOVEA_CAUSAL: u32 = 1;
/// query i stands at position i, whatever K is; not together with FOVEA_QUERY_OFFSET
pub const FOVEA_TOP_LEFT: u32 = 2;
/// query i stands at position query_offset + i; query_offsets: one for each batch entry
pub const FOVEA_QUERY_OFFSET: u32 = 4;
/// attend key j only if j >= position - window_left
pub const FOVEA_WINDOW_LEFT: u32 = 8;
/// attend key j only if j <= position + window_right
pub const FOVEA_WINDOW_RIGHT: u32 = 16;
/// query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key query_offsets[b] + i if they are given)
pub const FOVEA_LEAVE_ONE_OUT: u32 = 32;
/// weights are the mean over the H heads
pub const FOVEA_AVERAGE_WEIGHTS: u32 = 64;
/// a query's result has the same bits however many queries the call has: a decoder going step by step gives the very bits of one causal call (not with dropout, which goes by the query's number). Slower for few queries
pub const FOVEA_QUERY_INVARIANT: u32 = 128;
/// scale is meant as it stands, 0 too: every finite score is then 0
pub const FOVEA_SCALE_GIVEN: u32 = 256;
/// of fovea_kernel_regression_options alone: sigma is meant as it stands, 0 is an error
pub const FOVEA_SIGMA_GIVEN: u32 = 512;

/// alpha is meant as it stands, 0 too
pub const FOVEA_GEMM_ALPHA_GIVEN: u32 = 1;
/// beta is meant as it stands: at 0 c is not read
pub const FOVEA_GEMM_BETA_GIVEN: u32 = 2;

/// q . k Vaswani et al. 2017
pub const FOVEA_SCORE_DOT: i32 = 0;
/// q^T W k Luong, Pham and Manning 2015
pub const FOVEA_SCORE_BILINEAR: i32 = 1;
/// v . tanh(Wq q + Wk k) Bahdanau, Cho and Bengio 2015
pub const FOVEA_SCORE_ADDITIVE: i32 = 2;
/// v . tanh(W [q; k] + b) Luong, Pham and Manning 2015
pub const FOVEA_SCORE_CONCAT: i32 = 3;
/// -|q - k|^2 / (2 sigma^2) Nadaraya 1964, Watson 1964
pub const FOVEA_SCORE_GAUSSIAN: i32 = 4;

/// base is meant as it stands: 0 is an error
pub const FOVEA_ENCODING_BASE_GIVEN: u32 = 1;
/// of fovea_add_positional_encoding alone: out = dropout(x), as what the loss changes by goes back
pub const FOVEA_ENCODING_DROPOUT_ALONE: u32 = 2;

/// pairs (2j, 2j+1), as in the paper; else (j, j + rotary_dim/2), as in GPT-NeoX and Llama
pub const FOVEA_ROTARY_INTERLEAVED: u32 = 1;
/// rotate back
pub const FOVEA_ROTARY_INVERSE: u32 = 2;
/// base is meant as it stands: 0 is an error
pub const FOVEA_ROTARY_BASE_GIVEN: u32 = 4;
/// position_scale is meant as it stands, 0 too: all rows stand at position 0
pub const FOVEA_ROTARY_POSITION_SCALE_GIVEN: u32 = 8;
/// rotary_dim is meant as it stands, 0 too: x is copied
pub const FOVEA_ROTARY_DIM_GIVEN: u32 = 16;
/// attention_factor is meant as it stands, 0 too
pub const FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN: u32 = 32;

/// f(j) Su et al. 2021
pub const FOVEA_FREQUENCIES_PLAIN: i32 = 0;
/// f(j) / factor Chen et al. 2023
pub const FOVEA_FREQUENCIES_LINEAR: i32 = 1;
/// f(j) of another base: base (factor n / original_length - factor + 1)^(d/(d-2)), n the larger of length and original_length "dynamic NTK" in Peng et al. 2023, app. B
pub const FOVEA_FREQUENCIES_DYNAMIC: i32 = 2;
/// f(j) (1 - r + r / factor), r = (j - low) / (high - low) in [0,1], low and high the pairs that turn fast_rotations and slow_rotations times in original_length: d ln(original_length / (2 pi rotations)) / (2 ln base), rounded down and up to whole pairs, at least 0 and at most d - 1 Peng et al. 2023
pub const FOVEA_FREQUENCIES_YARN: i32 = 3;
/// f(j) / long_factors[j] if length > original_length, else / short_factors[j] Ding et al. 2024
pub const FOVEA_FREQUENCIES_LONGROPE: i32 = 4;
/// f(j) ((1 - s) / factor + s), s = (t - low_frequency_factor) / (high_frequency_factor - low_frequency_factor) in [0,1], t = original_length f(j) / (2 pi), the turns in original_length Llama 3.1, its code
pub const FOVEA_FREQUENCIES_LLAMA3: i32 = 5;

/// low and high of YaRN are not rounded to whole pairs ("truncate": false)
pub const FOVEA_YARN_UNROUNDED: u32 = 1;

/// [out,in], a row for each output: torch.nn.Linear and most model files
pub const FOVEA_WEIGHT_OUT_IN: i32 = 0;
/// [in,out], a row for each input: the right-hand side of x W
pub const FOVEA_WEIGHT_IN_OUT: i32 = 1;

pub const FOVEA_ACTIVATION_NONE: i32 = 0;
/// max(x, 0)
pub const FOVEA_ACTIVATION_RELU: i32 = 1;
/// x (1 + erf(x / sqrt 2)) / 2 Hendrycks and Gimpel 2016
pub const FOVEA_ACTIVATION_GELU: i32 = 2;
/// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 the same paper's approximation
pub const FOVEA_ACTIVATION_GELU_TANH: i32 = 3;
/// x / (1 + e^-x) Elfwing, Uchibe and Doya 2018
pub const FOVEA_ACTIVATION_SILU: i32 = 4;

/// epsilon is meant as it stands, 0 too: a row of equal numbers, of zeros in RMS normalisation, then gives NaN
pub const FOVEA_NORM_EPSILON_GIVEN: u32 = 1;
/// of fovea_rms_norm_options alone: 1 + weight takes weight's place (Gemma); without a weight nothing changes
pub const FOVEA_NORM_WEIGHT_FROM_ONE: u32 = 2;

/// attend to what the pages hold and append nothing; key and value inputs are NULL
pub const FOVEA_MHA_KEEP_PAGES: u32 = 1;

/// Where work runs: how many threads, which instruction set. Immutable and shareable once created. Everywhere a context
/// is taken, NULL means a default one: the calling thread's oneTBB arena, the best instruction set.
#[repr(C)]
pub struct fovea_context {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A checked call with everything but the data decided: shapes, strides, options, instruction set, tiles, threads.
/// Immutable; any number of threads may run one plan at once, each with its own workspace.
#[repr(C)]
pub struct fovea_plan {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A right-hand side stored once in the order the kernel reads it. Immutable and shareable; holds its own copy of b,
/// laid out for the instruction set of the context it was packed with.
#[repr(C)]
pub struct fovea_packed_matrix {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Keys that are attended again and again (a decoder asks the same encoder states at every step), kept in the form that
/// the kernel reads: projected, and for ADDITIVE and CONCAT exponentiated. Holds copies of the score's parameters too.
/// One call at a time may append or truncate, and none may use the keys meanwhile; any number may attend at once.
#[repr(C)]
pub struct fovea_prepared_keys {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A plan of attention whose sequences change from step to step. It is made once for one kind of layer, with room for the most
/// that a step may bring; is set once a step; and runs once for each layer of that kind. One thread may set a schedule, and
/// none may use it meanwhile; once it is set, any number may run it at once, each with a workspace of its own.
#[repr(C)]
pub struct fovea_schedule {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Keys and values of many sequences and layers, in pages that sequences share where they begin alike. Sequences are numbers,
/// which are never used again. All layers of a sequence have the same length and the same page ids. One call at a time may use
/// a pool; the memory of its pages may be read and written meanwhile, as long as no call gives them to another sequence.
#[repr(C)]
pub struct fovea_kv_pool {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// The weights of a multi-head attention layer, packed for the kernel. Immutable and shareable; holds its own copies,
/// for the instruction set of the context it was made with.
#[repr(C)]
pub struct fovea_mha_weights {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A call of multi-head attention with everything but the data decided. Immutable; any number of threads may run one plan at
/// once, each with its own workspace.
#[repr(C)]
pub struct fovea_mha_plan {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A view of memory the caller owns: element (i0, i1, ...) is at data + i0*strides[0] + i1*strides[1] + ..., counted in
/// elements of dtype. Entries of shape and strides past rank are ignored.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_tensor {
    pub data: *mut c_void,
    pub dtype: fovea_dtype,
    pub rank: i32,
    pub shape: [i64; 6],
    pub strides: [i64; 6],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_context_options {
    pub struct_size: usize,
    /// at most this many at once; 0: as many as the arena (or 1 if parallel_for is given)
    pub max_threads: i32,
    /// FOVEA_PRECISION_* of calls that do not say their own
    pub precision: i32,
    /// "base", "avx2", "avx512" or "amx"; NULL: FOVEA_ISA, else the best but "amx"
    pub max_isa: *const c_char,
    /// NULL: oneTBB. Set max_threads to the number of threads it has.
    pub parallel_for: fovea_parallel_for,
    /// passed through to parallel_for
    pub parallel_for_user: *mut c_void,
}

impl Default for fovea_context_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
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
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_attention_options {
    pub struct_size: usize,
    /// FOVEA_CAUSAL | ..., not FOVEA_SIGMA_GIVEN
    pub flags: u32,
    /// FOVEA_EMPTY_ROWS_*
    pub empty_rows: i32,
    /// finite; 0: 1 / sqrt(D) for the dot product, 1 for other score functions; unless FOVEA_SCALE_GIVEN
    pub scale: f32,
    /// finite, >= 0; 0: none. The limit that the logits approach (Gemma 2)
    pub softcap: f32,
    /// used with FOVEA_QUERY_OFFSET; -2^30 to 2^30
    pub query_offset: i64,
    /// >= 0, used with FOVEA_WINDOW_LEFT
    pub window_left: i64,
    /// >= 0, used with FOVEA_WINDOW_RIGHT
    pub window_right: i64,
    /// [B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j < length. Any strides. One length serves all heads. Positions do not go by it: see there
    pub valid_lens: *const fovea_tensor,
    /// BOOL [B,H,Q,K] (or [Q,K]), true: attend. Axes of size 1 but K's broadcast. The last axis may be shorter than K: keys behind it are not attended
    pub mask: *const fovea_tensor,
    /// F32 [B,H,Q,K] (or [Q,K]), added to the scores. Axes of size 1 but K's broadcast. The last axis may be shorter than K, as the mask's
    pub bias: *const fovea_tensor,
    /// F32 [H], any stride. ALiBi (Press et al. 2022)
    pub alibi_slopes: *const fovea_tensor,
    /// F32 [H], any stride. A logit that takes part in the softmax without a value
    pub sinks: *const fovea_tensor,
    /// output F32 [B,H,Q], any strides: log sum_j exp(score), the sink included
    pub log_sum_exp: *const fovea_tensor,
    /// output F32 [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS; masked keys get 0
    pub weights: *const fovea_tensor,
    /// in [0, 1): probability that a weight is dropped; 0: none. See "Dropout"
    pub dropout: f32,
    /// 0
    pub reserved: i32,
    /// used with dropout
    pub dropout_seed: u64,
    /// [B], I32 or I64, each in [-2^30, 2^30], any stride: query i of batch entry b stands at position query_offsets[b] + i. Not together with FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET
    pub query_offsets: *const fovea_tensor,
    /// output F32 [B,H,Q,K]: the scores themselves, by a pass of their own
    pub scores: *const fovea_tensor,
    /// FOVEA_SCORES_*, used with scores
    pub scores_kind: i32,
    /// FOVEA_PRECISION_*, of F32 queries, keys and values
    pub precision: i32,
    /// F16 [B,Hkv,K,D/group], rank as key's, given exactly if key is I8: feature d of a key is its number times scale d / group. group: a multiple of 16, or D (any D)
    pub key_scales: *const fovea_tensor,
    /// F16 [B,Hkv,K,Dv/group], likewise for value; of U8 [B,Hkv,K,2 Dv/group], group a multiple of 32: a scale and a least number for each group
    pub value_scales: *const fovea_tensor,
    /// output F32 [B,H,Q,h] of fovea_attention, input of its backward pass: ADDITIVE, CONCAT. See "Kept projections" in scores.h
    pub projected_query: *const fovea_tensor,
    /// output F32 [B,Hkv,K,h], likewise
    pub projected_key: *const fovea_tensor,
}

impl Default for fovea_attention_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// The data pointers of a planned run, in the layouts that were planned. A pointer whose tensor was not in the plan must
/// be NULL. A plan of a backward pass reads out and log_sum_exp.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_attention_buffers {
    pub struct_size: usize,
    pub query: *const c_void,
    pub key: *const c_void,
    pub value: *const c_void,
    pub out: *mut c_void,
    pub valid_lens: *const c_void,
    pub mask: *const c_void,
    pub bias: *const c_void,
    pub alibi_slopes: *const c_void,
    pub sinks: *const c_void,
    pub log_sum_exp: *mut c_void,
    pub weights: *mut c_void,
    /// the score's parameters
    pub query_weight: *const c_void,
    pub key_weight: *const c_void,
    pub weight: *const c_void,
    pub score_bias: *const c_void,
    pub score_vector: *const c_void,
    pub sigmas: *const c_void,
    pub query_offsets: *const c_void,
    pub scores: *mut c_void,
    pub key_scales: *const c_void,
    pub value_scales: *const c_void,
    /// of a backward pass: what training.h calls gradients.out, and so on
    pub grad_out: *const c_void,
    pub grad_log_sum_exp: *const c_void,
    pub grad_weights: *const c_void,
    pub grad_query: *mut c_void,
    pub grad_key: *mut c_void,
    pub grad_value: *mut c_void,
    pub grad_bias: *mut c_void,
    pub grad_alibi_slopes: *mut c_void,
    pub grad_sinks: *mut c_void,
    pub grad_query_weight: *mut c_void,
    pub grad_key_weight: *mut c_void,
    pub grad_weight: *mut c_void,
    pub grad_score_bias: *mut c_void,
    pub grad_score_vector: *mut c_void,
    pub grad_sigmas: *mut c_void,
    /// of a backward pass inputs
    pub projected_query: *mut c_void,
    pub projected_key: *mut c_void,
}

impl Default for fovea_attention_buffers {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_masked_softmax_options {
    pub struct_size: usize,
    /// FOVEA_EMPTY_ROWS_*: what a row of valid length 0 gives
    pub empty_rows: i32,
    /// 0
    pub reserved: i32,
}

impl Default for fovea_masked_softmax_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_gemm_options {
    pub struct_size: usize,
    /// FOVEA_GEMM_*
    pub flags: u32,
    /// finite; 0: 1; unless FOVEA_GEMM_ALPHA_GIVEN
    pub alpha: f32,
    /// finite; 0: 1; unless FOVEA_GEMM_BETA_GIVEN
    pub beta: f32,
    /// 0
    pub reserved: i32,
    /// F, rank 1 to out's, last axis contiguous; axes that it lacks, and those of size 1, are repeated. May be out itself (same data, type, shape and strides). NULL: none
    pub c: *const fovea_tensor,
}

impl Default for fovea_gemm_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_matmul_pack_options {
    pub struct_size: usize,
    /// 0
    pub flags: u32,
    /// FOVEA_PRECISION_*
    pub precision: i32,
}

impl Default for fovea_matmul_pack_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
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
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_score {
    pub struct_size: usize,
    /// FOVEA_SCORE_*
    pub kind: i32,
    /// GAUSSIAN: the width; 0 when sigmas is given
    pub sigma: f32,
    pub query_weight: *const fovea_tensor,
    pub key_weight: *const fovea_tensor,
    pub weight: *const fovea_tensor,
    pub bias: *const fovea_tensor,
    pub score_vector: *const fovea_tensor,
    /// GAUSSIAN: a width for each query head, F32 [H]
    pub sigmas: *const fovea_tensor,
}

impl Default for fovea_score {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_prepared_keys_sizes {
    pub struct_size: usize,
    /// B, 0 to 2^30
    pub batch: i64,
    /// Hkv, 1 to 2^30
    pub kv_heads: i64,
    /// keys of each sequence, 0 to 2^30
    pub capacity: i64,
    /// Dq, 1 to 1024: CONCAT's weight does not tell the two apart
    pub query_dim: i64,
    /// Dk, 1 to 1024
    pub key_dim: i64,
    /// FOVEA_F32; for BILINEAR FOVEA_F16 or FOVEA_BF16, too; 0: FOVEA_F32
    pub dtype: fovea_dtype,
    /// 0
    pub reserved: i32,
}

impl Default for fovea_prepared_keys_sizes {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_kernel_regression_options {
    pub struct_size: usize,
    /// FOVEA_LEAVE_ONE_OUT: query i does not attend training input i; FOVEA_SIGMA_GIVEN
    pub flags: u32,
    /// the kernel's width, > 0 and finite; 0: 1; unless FOVEA_SIGMA_GIVEN
    pub sigma: f32,
    /// output F [Q,N], or NULL
    pub weights: *const fovea_tensor,
}

impl Default for fovea_kernel_regression_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// The most that a step may bring.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_schedule_limits {
    pub struct_size: usize,
    /// 1 to 2^20
    pub sequences: i64,
    /// positions of one sequence, 1 to 2^30; 0: as many as key has
    pub key_len: i64,
    /// of all sequences together, each with those that it shares, up to 2^30; 0: what sequences of key_len have, but at most four times key's pages. 0 for packed keys
    pub page_ids: i64,
    /// threads of the caller's that share a run (fovea_schedule_run_tasks), up to 4096; 0: as many as fovea_context_threads
    pub workers: i64,
}

impl Default for fovea_schedule_limits {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// The sequences of a step, S of them. Tensors are I32 or I64, any stride.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_step {
    pub struct_size: usize,
    /// [S+1], from 0, never falling: sequence s has the tokens from query_starts[s] to query_starts[s+1] - 1
    pub query_starts: *const fovea_tensor,
    /// [S+1], likewise, of packed keys; with pages NULL
    pub key_starts: *const fovea_tensor,
    /// [S]: positions of each sequence in its pages, those of this step's tokens included; with packed keys NULL
    pub key_lens: *const fovea_tensor,
    /// [S,most], a row for each sequence: its pages in the order of positions, each in [0, P), as many of them read as key_lens wants; or, with page_starts, [n]. Of pages before a window's first key any may stand for those that have been given back
    pub page_ids: *const fovea_tensor,
    /// [S+1], from 0, never falling: sequence s has the page ids from page_starts[s] to page_starts[s+1] - 1; NULL: page_ids has a row for each
    pub page_starts: *const fovea_tensor,
    /// [T], I64: draft tokens. Bit j of a token's number: it attends the sequence's token j of this step, whose key stands at key_len - (its tokens) + j; of the keys before, all. 0 for every token of a sequence: as without. Of up to 64 tokens each; not with windows, ALiBi or leave-one-out. NULL: none
    pub tree: *const fovea_tensor,
}

impl Default for fovea_step {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_append_options {
    pub struct_size: usize,
    /// turns keys on the way, as fovea_rotary does: at fovea_schedule_positions (and offset 0), unless positions or cosines of rows are given. NULL: none
    pub rotary: *const fovea_rotary_options,
    /// output: the scales of I8 key_pages, as the schedule was made with; else NULL
    pub key_scales: *const fovea_tensor,
    /// likewise of I8 or U8 value_pages
    pub value_scales: *const fovea_tensor,
}

impl Default for fovea_append_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_kv_pool_sizes {
    pub struct_size: usize,
    /// 1 to 2^16
    pub layers: i64,
    /// Hkv, 1 to 2^20
    pub kv_heads: i64,
    /// D, 1 to 1024
    pub head_dim: i64,
    /// Dv, 1 to 1024; 0: head_dim
    pub value_dim: i64,
    /// room for so many of all sequences together, 1 to 2^30; rounded up to whole pages
    pub positions: i64,
    /// positions of a page, 1 to 2^20; 0: so that a layer's keys of a page take 128 KB or more, but so many pages that each sequence can have one
    pub page_size: i64,
    /// most that are open at once, 1 to 2^20
    pub sequences: i64,
    /// FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; 0: FOVEA_F32
    pub key_dtype: fovea_dtype,
    /// likewise, or FOVEA_U8: 4 bits, of value_dim a multiple of 32; 0: key_dtype
    pub value_dtype: fovea_dtype,
    /// features that share a scale, of I8 or U8: a multiple of 16, with U8 of 32, that divides head_dim and value_dim, or 0: 32 where that divides them, else whole rows. 0 without I8 and U8
    pub scale_group: i64,
}

impl Default for fovea_kv_pool_sizes {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_positional_encoding_options {
    pub struct_size: usize,
    /// > 1 and finite; 0: 10000; unless FOVEA_ENCODING_BASE_GIVEN
    pub base: f32,
    /// in [0, 1); for fovea_add_positional_encoding
    pub dropout: f32,
    /// position of row 0, 0 to 2^30
    pub offset: i64,
    /// used with dropout
    pub dropout_seed: u64,
    /// FOVEA_ENCODING_*
    pub flags: u32,
    /// 0
    pub reserved: i32,
}

impl Default for fovea_positional_encoding_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_rotary_options {
    pub struct_size: usize,
    pub flags: u32,
    /// > 1 and finite; 0: 10000; unless FOVEA_ROTARY_BASE_GIVEN
    pub base: f32,
    /// positions are multiplied by it (1/2: linear interpolation to twice the context); finite; 0: 1; unless FOVEA_ROTARY_POSITION_SCALE_GIVEN
    pub position_scale: f32,
    /// 0
    pub reserved: i32,
    /// the first features, an even number up to D, are rotated, the others copied; 0: D (even); unless FOVEA_ROTARY_DIM_GIVEN
    pub rotary_dim: i64,
    /// position of the first row: how many came before it; 0 to 2^30. position_scale times the largest position must not pass 2^34
    pub offset: i64,
    /// [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's first axis. With sections [S,L] or [S,B,L]
    pub positions: *const fovea_tensor,
    /// F32 [P], P = rotary_dim / 2, any stride: pair j turns by this angle for each position, not by base^(-2j/rotary_dim), and base is not given. Finite; times position_scale and the largest position at most 2^34. fovea_rotary_frequencies makes what models use
    pub frequencies: *const fovea_tensor,
    /// I32 or I64 [P], any stride, each in [0, S): pair j of row i stands at positions[sections[j]] (M-RoPE, Wang et al. 2024). Qwen2-VL has blocks, of 0, of 1, of 2; Qwen3-VL has j mod 3, but 0 from three times that section's size on
    pub sections: *const fovea_tensor,
    /// F [N,P]: pair j at position p turns by cosines[p,j] and sines[p,j], and positions are below N. Or F [B,L,P]: a row for each row of x, whatever its position, and offset is 0. Instead of an angle: base, position_scale, frequencies are not given. Last axis contiguous
    pub cosines: *const fovea_tensor,
    /// F, of cosines' shape, last axis contiguous; both are given or neither
    pub sines: *const fovea_tensor,
    /// cosines and sines are multiplied by it (YaRN, LongRoPE); finite; 0: 1; unless FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN
    pub attention_factor: f32,
    /// 0
    pub reserved_tail: i32,
}

impl Default for fovea_rotary_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// A member that another kind takes is 0 or NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_rotary_frequencies_options {
    pub struct_size: usize,
    /// FOVEA_YARN_*
    pub flags: u32,
    /// FOVEA_FREQUENCIES_*
    pub kind: i32,
    /// "theta", > 1 and finite
    pub base: f32,
    /// of all kinds but PLAIN: how many times longer the context is; > 0 and finite
    pub factor: f32,
    /// of all kinds but PLAIN and LINEAR: the context before, 2 to 2^30
    pub original_length: i64,
    /// of DYNAMIC and LONGROPE: of the sequence as it is now, 0 to 2^30; 0: original_length
    pub length: i64,
    /// of LLAMA3: >= 0
    pub low_frequency_factor: f32,
    /// of LLAMA3: finite, above low_frequency_factor
    pub high_frequency_factor: f32,
    /// of YARN: "beta_fast", > 0 and finite; 32 where a configuration has none
    pub fast_rotations: f32,
    /// of YARN: "beta_slow", > 0 and finite; 1 where a configuration has none
    pub slow_rotations: f32,
    /// of YARN: >= 0 and finite, for attention_factor
    pub mscale: f32,
    /// of YARN: likewise
    pub mscale_all_dim: f32,
    /// of LONGROPE: F32 [P], any stride, > 0 and finite
    pub short_factors: *const fovea_tensor,
    /// of LONGROPE: likewise
    pub long_factors: *const fovea_tensor,
}

impl Default for fovea_rotary_frequencies_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_linear_pack_options {
    pub struct_size: usize,
    /// FOVEA_WEIGHT_*
    pub layout: i32,
    /// FOVEA_PRECISION_*
    pub precision: i32,
}

impl Default for fovea_linear_pack_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_linear_options {
    pub struct_size: usize,
    /// FOVEA_ACTIVATION_*
    pub activation: i32,
    /// FOVEA_PRECISION_*, of F32 x: at medium it is rounded to BF16 to meet a W packed as that, where the processor multiplies it; W is as it was packed
    pub precision: i32,
    /// F32 [N], any stride
    pub bias: *const fovea_tensor,
    /// F32, out's shape, last axis contiguous, added last. May be out itself (same data, type, shape and strides): the layer is then added to it
    pub residual: *const fovea_tensor,
    /// F32, out's shape, last axis contiguous: of what the activation gave, as in a gated pair silu(x W) * (x V) (Shazeer 2020, GLU Variants Improve Transformer). May be out itself likewise
    pub multiplier: *const fovea_tensor,
}

impl Default for fovea_linear_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_layer_norm_options {
    pub struct_size: usize,
    /// finite, >= 0; 0: 1e-5; unless FOVEA_NORM_EPSILON_GIVEN
    pub epsilon: f32,
    /// FOVEA_NORM_*, not FOVEA_NORM_WEIGHT_FROM_ONE
    pub flags: u32,
    /// F [E], contiguous; NULL: ones
    pub weight: *const fovea_tensor,
    /// F [E], contiguous; NULL: zeros
    pub bias: *const fovea_tensor,
    /// F, x's shape, last axis contiguous: x + residual is normalised
    pub residual: *const fovea_tensor,
    /// output F, x's shape, last axis contiguous: x + residual, as a layer that comes later wants it; with residual only
    pub sum: *const fovea_tensor,
    /// output F32 [...], x's axes without the last, any strides: mean(y)
    pub mean: *const fovea_tensor,
    /// output F32, likewise: 1 / sqrt(variance(y) + epsilon)
    pub inverse_deviation: *const fovea_tensor,
}

impl Default for fovea_layer_norm_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_rms_norm_options {
    pub struct_size: usize,
    /// finite, >= 0; 0: 1e-5; unless FOVEA_NORM_EPSILON_GIVEN
    pub epsilon: f32,
    /// FOVEA_NORM_*
    pub flags: u32,
    /// F [E], contiguous; NULL: ones
    pub weight: *const fovea_tensor,
    /// F, x's shape, last axis contiguous: x + residual is normalised
    pub residual: *const fovea_tensor,
    /// output F, as in fovea_layer_norm_options
    pub sum: *const fovea_tensor,
    /// output F32 [...], likewise: 1 / sqrt(mean(y^2) + epsilon)
    pub inverse_deviation: *const fovea_tensor,
}

impl Default for fovea_rms_norm_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// The parameters as a model has them. Weights are F32 of rank 2, any strides; [out,in] as written here, or the other
/// way round with FOVEA_WEIGHT_IN_OUT. Biases are F32 of rank 1, any stride, NULL for none. Each may as well be F16 or
/// BF16; weights keep their types when they are packed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_mha_parameters {
    pub struct_size: usize,
    /// FOVEA_WEIGHT_*, of all weights
    pub layout: i32,
    /// FOVEA_PRECISION_*, of packing them, as fovea_linear_pack does
    pub precision: i32,
    /// H, at least 1
    pub heads: i64,
    /// Hkv, a divisor of H; 0: H
    pub kv_heads: i64,
    /// [H D, Eq]
    pub query_weight: *const fovea_tensor,
    /// [Hkv Dk, Ek]; Dk is D unless the score function takes another
    pub key_weight: *const fovea_tensor,
    /// [Hkv Dv, Ev]
    pub value_weight: *const fovea_tensor,
    /// [(H + 2 Hkv) D, E], the three in one as nn.MultiheadAttention has them (in_proj), instead of them
    pub in_weight: *const fovea_tensor,
    /// [Eo, H Dv]; NULL: none, out is the heads side by side, Eo = H Dv
    pub out_weight: *const fovea_tensor,
    /// [H D]
    pub query_bias: *const fovea_tensor,
    /// [Hkv Dk]
    pub key_bias: *const fovea_tensor,
    /// [Hkv Dv]
    pub value_bias: *const fovea_tensor,
    /// [(H + 2 Hkv) D], together with in_weight
    pub in_bias: *const fovea_tensor,
    /// [Eo], together with out_weight
    pub out_bias: *const fovea_tensor,
}

impl Default for fovea_mha_parameters {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_mha_options {
    pub struct_size: usize,
    /// FOVEA_MHA_*
    pub flags: u32,
    /// FOVEA_PRECISION_*, of what is F32 but the weights, and of attention unless attention.precision says otherwise
    pub precision: i32,
    /// scale, masks, weights, ...: as in fovea_attention, for query [B,H,Q,D]. NULL: defaults
    pub attention: *const fovea_attention_options,
    /// how heads compare; its parameters serve all heads. NULL: scaled dot
    pub score: *const fovea_score,
    /// turns projected queries and keys; needs Dk = D. Row i of either stands at offset + i; or at positions[i], which needs as many queries as keys, as cosines of rows do. With a schedule, unless positions or cosines of rows are given, at fovea_schedule_positions, and offset is 0. NULL: none
    pub rotary: *const fovea_rotary_options,
    /// rows are the tokens of its present step: query [T,Eq], out [T,Eo]. NULL: none. See below
    pub schedule: *const fovea_schedule,
    /// this layer's pages, of a schedule that was made for pages: projected keys and values are appended to them as fovea_schedule_append does, then attended
    pub key_pages: *const fovea_tensor,
    pub value_pages: *const fovea_tensor,
    /// of pages of I8, or U8; else NULL
    pub key_scales: *const fovea_tensor,
    pub value_scales: *const fovea_tensor,
    /// output F32 [n], contiguous, n = B Q H (D + Dv + 1) + B K Hkv (Dk + Dv): queries, keys and values as they were attended to, what attention gave and its log-sum-exp, in an order of the library's own. An input of fovea_multi_head_attention_backward, which then computes none of it again. Tensors between the steps are F32 with it. Not with a schedule, pages or a plan. NULL: nothing is kept
    pub kept: *const fovea_tensor,
}

impl Default for fovea_mha_options {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

/// The data pointers of a planned run, in the layouts that were planned. A pointer whose tensor was not in the plan must be
/// NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_mha_buffers {
    pub struct_size: usize,
    pub query: *const c_void,
    pub key: *const c_void,
    pub value: *const c_void,
    pub out: *mut c_void,
    pub key_pages: *mut c_void,
    pub value_pages: *mut c_void,
    pub key_scales: *mut c_void,
    pub value_scales: *mut c_void,
    /// of the tensors in options.attention and options.score: its query, key, value and out are NULL. NULL: there are none
    pub attention: *const fovea_attention_buffers,
}

impl Default for fovea_mha_buffers {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
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
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_attention_gradients {
    pub struct_size: usize,
    /// F [B,H,Q,Dv]: what the loss changes by for each element of out. Must be given
    pub out: *const fovea_tensor,
    /// F32 [B,H,Q], any strides: likewise; NULL: 0
    pub log_sum_exp: *const fovea_tensor,
    /// F [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS: of weights as they are or would be returned; NULL: 0
    pub weights: *const fovea_tensor,
    /// output F [B,H,Q,Dq]
    pub query: *const fovea_tensor,
    /// output F [B,Hkv,K,Dk]; query heads that share one are added up
    pub key: *const fovea_tensor,
    /// output F [B,Hkv,K,Dv]; likewise
    pub value: *const fovea_tensor,
    /// output F [B,H,Q,K], with the sizes of options.bias: added up over axes of size 1
    pub bias: *const fovea_tensor,
    /// output F32 [H], any stride
    pub alibi_slopes: *const fovea_tensor,
    /// output F32 [H], any stride
    pub sinks: *const fovea_tensor,
    /// output F [h,Dq], any strides: ADDITIVE
    pub query_weight: *const fovea_tensor,
    /// output F [h,Dk], any strides: ADDITIVE
    pub key_weight: *const fovea_tensor,
    /// output F [Dq,Dk], or of CONCAT [h,Dq+Dk], any strides
    pub weight: *const fovea_tensor,
    /// output F [h], any stride: CONCAT
    pub score_bias: *const fovea_tensor,
    /// output F [h], any stride: ADDITIVE, CONCAT
    pub score_vector: *const fovea_tensor,
    /// output F32 [H] where score.sigmas is given, [1] of score.sigma; any stride
    pub sigmas: *const fovea_tensor,
}

impl Default for fovea_attention_gradients {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_norm_gradients {
    pub struct_size: usize,
    /// F, x's shape, last axis contiguous: what the loss changes by for each element of out. Must be given
    pub out: *const fovea_tensor,
    /// F, likewise: for each element of options.sum, beside what it does through out; NULL: 0
    pub sum: *const fovea_tensor,
    /// output F, likewise: of x, and of the residual, which is the same. May be out or sum in place
    pub x: *const fovea_tensor,
    /// output F [E], contiguous
    pub weight: *const fovea_tensor,
    /// output F [E], contiguous: of fovea_layer_norm alone
    pub bias: *const fovea_tensor,
}

impl Default for fovea_norm_gradients {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_linear_gradients {
    pub struct_size: usize,
    /// F [M,N] or [B,M,N], last axis contiguous: what the loss changes by for each element of out, and so for each of the residual. Must be given
    pub out: *const fovea_tensor,
    /// output F, x's shape, last axis contiguous
    pub x: *const fovea_tensor,
    /// output F, weight's shape, last axis contiguous
    pub weight: *const fovea_tensor,
    /// output F [N], any stride
    pub bias: *const fovea_tensor,
    /// output F, out's shape, last axis contiguous
    pub multiplier: *const fovea_tensor,
}

impl Default for fovea_linear_gradients {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_merge_gradients {
    pub struct_size: usize,
    /// F [...,Dv]: what the loss changes by for each element of out. Must be given
    pub out: *const fovea_tensor,
    /// F32 [...]: likewise; NULL: 0
    pub log_sum_exp: *const fovea_tensor,
    /// output F [S,...,Dv]
    pub outs: *const fovea_tensor,
    /// output F32 [S,...]
    pub lses: *const fovea_tensor,
}

impl Default for fovea_merge_gradients {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fovea_mha_gradients {
    pub struct_size: usize,
    /// F [B,Q,Eo], of query's rank, last axis contiguous: what the loss changes by for each element of out. Must be given
    pub out: *const fovea_tensor,
    /// output F [B,Q,Eq], likewise; where key is NULL, of all that it is
    pub query: *const fovea_tensor,
    /// output F [B,K,Ek], likewise; NULL where key is. Where value is NULL, of both
    pub key: *const fovea_tensor,
    /// output F [B,K,Ev], likewise; NULL where value is
    pub value: *const fovea_tensor,
    /// output F, of its shape in fovea_mha_parameters, last axis contiguous
    pub query_weight: *const fovea_tensor,
    /// output F, likewise
    pub key_weight: *const fovea_tensor,
    /// output F, likewise
    pub value_weight: *const fovea_tensor,
    /// output F, likewise
    pub in_weight: *const fovea_tensor,
    /// output F, likewise
    pub out_weight: *const fovea_tensor,
    /// output F, of its shape there, any stride
    pub query_bias: *const fovea_tensor,
    /// output F, likewise
    pub key_bias: *const fovea_tensor,
    /// output F, likewise
    pub value_bias: *const fovea_tensor,
    /// output F, likewise
    pub in_bias: *const fovea_tensor,
    /// output F, likewise
    pub out_bias: *const fovea_tensor,
    /// of what options.attention and options.score bring, and of what they return: log_sum_exp, weights; its out, query, key and value are NULL. NULL: none
    pub attention: *const fovea_attention_gradients,
}

impl Default for fovea_mha_gradients {
    /// Zeros, which are the defaults, and struct_size.
    fn default() -> Self {
        // Zeros are a value of every member: numbers and pointers that may be null.
        let mut options: Self = unsafe { core::mem::zeroed() };
        options.struct_size = core::mem::size_of::<Self>();
        options
    }
}

extern "C" {
    /// The version of the library that is loaded, as text: "0.1.0". Static storage.
    pub fn fovea_version() -> *const c_char;
    /// The status's name, "FOVEA_BAD_SHAPE"; "FOVEA_UNKNOWN_STATUS" for a number that is none. Static storage.
    pub fn fovea_status_name(status: fovea_status) -> *const c_char;
    /// The calling thread's last error message, or "" if it had none. Valid until the same thread's next fovea call that
    /// fails.
    pub fn fovea_last_error() -> *const c_char;
    /// Copies that message to text, cut to size bytes with its final NUL. Returns the length of the whole message without the
    /// NUL (as snprintf). text may be NULL when size is 0. Where a language moves tasks from thread to thread between two
    /// calls, as Go does, this is to be called in the same C function as the call that failed.
    pub fn fovea_last_error_copy(text: *mut c_char, size: usize) -> usize;
    /// A contiguous row-major tensor of the given shape (rank numbers). data is not touched; whether it will be written
    /// depends on the argument the tensor is passed as. If rank is outside [0, FOVEA_MAX_RANK] or shape is NULL, the result
    /// has rank -1, which every operation refuses with FOVEA_BAD_RANK.
    pub fn fovea_tensor_contiguous(
        data: *const c_void,
        dtype: fovea_dtype,
        rank: i32,
        shape: *const i64,
    ) -> fovea_tensor;
    /// ```text
    /// The view that another library describes as a DLTensor, as NumPy, PyTorch, JAX and others hand it over through DLPack:
    ///   { void *data; struct { int32_t device_type, device_id; } device; int32_t ndim;
    ///     struct { uint8_t code, bits; uint16_t lanes; } dtype; int64_t *shape, *strides; uint64_t byte_offset; }
    /// A DLManagedTensor begins with one; of a DLManagedTensorVersioned pass &managed->dl_tensor. It is only read, and stays
    /// whose it was: as long as the view is used, its memory has to live, and must not be freed through its deleter.
    /// Host memory only: device_type kDLCPU (1), kDLCUDAHost (3) or kDLROCMHost (11). One lane of float32 gives F32, of float16
    /// F16, of bfloat16 BF16, of float8_e4m3fn F8_E4M3, of float8_e5m2 F8_E5M2, of int8 I8, of int32 I32, of int64 I64, of bool
    /// or uint8 BOOL. strides may be NULL: contiguous. Read-only or not, DLPack's flag is the
    /// caller's to heed. On failure *tensor stays as it was. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE (the device),
    /// FOVEA_BAD_DTYPE, FOVEA_BAD_RANK, FOVEA_BAD_SHAPE, FOVEA_SIZE_OVERFLOW.
    /// ```
    pub fn fovea_tensor_from_dlpack(
        dl_tensor: *const c_void,
        tensor: *mut fovea_tensor,
    ) -> fovea_status;
    /// options may be NULL. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE, FOVEA_BAD_OPTION, FOVEA_UNKNOWN_ISA,
    /// FOVEA_OUT_OF_MEMORY.
    pub fn fovea_context_create(
        options: *const fovea_context_options,
        context: *mut *mut fovea_context,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using the context.
    pub fn fovea_context_destroy(context: *mut fovea_context);
    /// The instruction set the context runs: "base" (SSE2 or NEON), "avx2", "avx512", "amx" (avx512 but for the projections of
    /// score functions and what is multiplied in 16 bits). "amx" has to be named: for projections it pays only where no other work
    /// shares the cores by hyper-threading. Attention and products of BF16, and those of F16 where the processor has AMX-FP16, take
    /// AMX's tiles unless a lower set is named; the first plan or call of that kind asks Linux for them, once. If it refuses, as it
    /// does while a thread has a signal stack too small to save them on, the next best kernels are taken for good, and a plan of
    /// attention says "tiles=refused". Linux refuses a process that has them such stacks from then on. No thread keeps tiles when a
    /// call returns; what a caller's own code has in those of a thread is there afterwards. If the environment variable
    /// FOVEA_ISA holds a name this machine cannot run, the default context has none: the result is "" and every operation
    /// answers FOVEA_UNKNOWN_ISA. Where the C library can tell, a program that was started with raised privileges does not read
    /// it. Static storage.
    pub fn fovea_isa_name(context: *const fovea_context) -> *const c_char;
    /// How many threads a call with this context may use at once, at least 1: what NULL and max_threads 0 come down to here.
    pub fn fovea_context_threads(context: *const fovea_context) -> i32;
    /// The names this machine can run, worst first; NULL once index is past the last. Static storage. Looking for the last asks
    /// for AMX's tiles.
    pub fn fovea_isa_available(index: i32) -> *const c_char;
    /// NULL is allowed. No call may still be using the plan.
    pub fn fovea_plan_destroy(plan: *mut fovea_plan);
    /// Bytes of scratch memory a run needs; 0 for NULL and where outputs have no elements. Grows with threads x tile, for split
    /// keys with B H Q x Dv, for returned weights with B H Q, and those of each head of up to 16384 keys with threads x K (tiles
    /// of 64 rows or fewer, at most 5 MB for each thread), for 16 bits on AMX's tiles, where more than one task has queries of a
    /// head, with B Hkv K (D + Dv), for score functions with what fovea_attention_plan_create says; never with Q x K.
    pub fn fovea_plan_workspace_size(plan: *const fovea_plan) -> usize;
    /// Writes a line of text "op=sdpa isa=avx512 kernels=avx512 path=tile ..." telling the context's instruction set, that of the
    /// kernels, the path, tiles, tasks, threads and bytes, cut to size bytes with its final NUL. Where all is BF16 and the
    /// processor's products of it are not taken, it says why: "pairs=odd_dim" or "pairs=odd_stride". Returns the length of the
    /// whole text without the NUL (as snprintf); 0 for a NULL plan. text may be NULL when size is 0.
    pub fn fovea_plan_describe(plan: *const fovea_plan, text: *mut c_char, size: usize) -> usize;
    /// ```text
    /// Scaled dot-product attention (Vaswani et al. 2017), out = softmax(score) value, tiled with online softmax.
    ///   query F32 [B,H,Q,D]   key F32 [B,Hkv,K,D]   value F32 [B,Hkv,K,Dv]   out F32 [B,H,Q,Dv]
    /// or all of rank 3, [B,L,D] (one head), or all of rank 2, [L,D]. D and Dv in [1, 1024]; Q and K at most 2^30. B, Q and
    /// K may be 0. Query head h uses key/value head h / (H / Hkv). Asking for weights may change the last bits of out.
    /// Each of query, key, value, out, options.bias, weights and scores may as well be F16 or BF16, in any mix; weights that are
    /// averaged may not. Everything is computed in float32, with the bits that F32 tensors of these numbers give, and rounded
    /// once when it is stored: to nearest, ties to even, past the largest number to infinity; subnormal numbers are kept. But
    /// where query, key and value all are BF16, the processor has products of it (AVX-512-BF16; fovea_plan_describe tells) and
    /// there are more than a few rows, each weight is rounded to BF16 before it meets its value: an error of at most
    /// 2^-8 sum_j weight_j |value_j|. Subnormal numbers in such products count as 0, and so do products that are (2^-127 times
    /// 2^127 is 0). Products of AVX-512-BF16 want an even D, else they are float32's; keys an odd stride apart are copied for them,
    /// or for up to 12 queries of a head left to float32. With AMX's tiles, which are taken before
    /// those, the sum that divides is one of rounded weights, too: an error of at most 2^-6.9 sum_j weight_j |value_j|. Where all
    /// three are F16, there is no dropout and the processor has tiles of that (AMX-FP16), weights are rounded to F16: an error of at
    /// most 2^-9.6 sum_j weight_j |value_j| + 2^-31 K max_j |value_j|.
    /// Log-sum-exp, returned weights and scores are float32's in any case.
    /// With FOVEA_PRECISION_MEDIUM, F32 query, key and value are rounded to BF16 in the workspace where that row of kernels takes
    /// them, and the result is that of such tensors.
    /// Key or value, or both, may be I8 with scales (options.key_scales, options.value_scales; fovea_quantize makes both): a number
    /// times its scale is what it stands for. They are read as F32 of these numbers, exactly, with the bits that such tensors give;
    /// but where query is BF16, or F16, and so are key and value or they are I8, as BF16 or F16 wherever the products above are
    /// taken: rounded once, for F16 past its largest number to that, and that is what such tensors give. For up to 16 queries that
    /// share a head, where key is I8 and value too, or U8, D and Dv are multiples of 64, scales are of a row, of half of it, or of
    /// groups of 16, 32 or a multiple of 64 whose number is a multiple of 4, and the processor has products of bytes (AVX-512-VNNI
    /// and VBMI), query is rounded to 2^-16 of its row's largest number, and weight times scale to 2^-16 of the largest of any 192
    /// keys.
    /// Value may as well be U8 [B,Hkv,K,Dv/2], two features of 4 bits in each as fovea_quantize lays them, with value_scales, beside
    /// a key of any type; Dv is then a multiple of 32. A number of 4 bits times its group's scale plus its least number is what it
    /// stands for, rounded once to F32, and read as numbers of I8 are; products of bytes take number and least number apart. Keys have
    /// no 4 bits.
    /// Scratch memory comes from the context; see fovea_plan for none.
    /// ```
    pub fn fovea_sdpa(
        context: *const fovea_context,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
    ) -> fovea_status;
    /// Plans the call that fovea_sdpa would make. The tensors' data pointers are not read and may be NULL.
    pub fn fovea_sdpa_plan_create(
        context: *const fovea_context,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        plan: *mut *mut fovea_plan,
    ) -> fovea_status;
    /// Runs a plan without allocating. workspace: fovea_plan_workspace_size(plan) bytes, any alignment, not shared with a
    /// run at the same time; may be NULL when that is 0. The plan keeps using the context it was made with, which must
    /// outlive it. Each run may bring other valid_lens: a decoder plans once for the most keys there can be, and gives each
    /// run the lengths of the moment; keys past them are not read (capi/examples/decoder.c).
    pub fn fovea_attention_run(
        plan: *const fovea_plan,
        buffers: *const fovea_attention_buffers,
        workspace: *mut c_void,
        workspace_size: usize,
    ) -> fovea_status;
    /// ```text
    /// Merges attention over S disjoint parts of the keys into attention over all of them (FlashAttention's split-key rule):
    ///   log_sum_exp = log sum_s exp(lse_s),  out = sum_s exp(lse_s - log_sum_exp) out_s
    /// outs F [S,...,Dv], lses F32 [S,...], out F [...,Dv], log_sum_exp F32 [...] or NULL; "..." up to 4 axes, the same
    /// for all. Merged in the order of S. A part with log-sum-exp -infinity is not read; where every part is, the result is
    /// 0 and -infinity; +infinity gives NaN and, unless another is NaN, +infinity. S >= 1. In place is not allowed.
    /// ```
    pub fn fovea_merge_states(
        context: *const fovea_context,
        outs: *const fovea_tensor,
        lses: *const fovea_tensor,
        out: *const fovea_tensor,
        log_sum_exp: *const fovea_tensor,
    ) -> fovea_status;
    /// ```text
    /// Softmax over the last axis, of the first valid_lens keys of each row; the others are exactly 0.
    ///   x F [...,Q,K], rank 2 to 6, out F of the same shape; in place allowed when data, strides and types are the same.
    ///   valid_lens NULL, [B] or [B,Q], I32 or I64, each in [0, K], B being x's first axis (1 for rank 2), any strides.
    /// options may be NULL. Where x and out both are F16, or both BF16: off by at most 0.53 of the type's last place, beside
    /// float32's rounding of the row's sum. Unless both are BF16, an x more than 87 (125.5 log 2) below its row's largest gives 0.
    /// ```
    pub fn fovea_masked_softmax(
        context: *const fovea_context,
        x: *const fovea_tensor,
        valid_lens: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_masked_softmax_options,
    ) -> fovea_status;
    /// ```text
    /// Softmax over one axis, out = e^(x - max) / sum e^(x - max); and its logarithm, out = (x - max) - log(sum e^(x - max)), which
    /// keeps its digits where softmax is 0.
    ///   x F [...], rank 1 to 6, out F of the same shape; in place allowed when data, strides and types are the same.
    ///   axis from 0 to x's rank - 1, or from -1, the last one, backwards to -rank.
    /// As the formulas have it, -infinity alone along the axis gives NaN, and so do NaN and +infinity among it. What is off by how
    /// much in softmax over the last axis is as in fovea_masked_softmax; over another axis, and of the logarithm, F16 and BF16
    /// results are float32's, rounded once.
    /// ```
    pub fn fovea_softmax(
        context: *const fovea_context,
        x: *const fovea_tensor,
        axis: i32,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// ```text
    /// Softmax over one axis, out = e^(x - max) / sum e^(x - max); and its logarithm, out = (x - max) - log(sum e^(x - max)), which
    /// keeps its digits where softmax is 0.
    ///   x F [...], rank 1 to 6, out F of the same shape; in place allowed when data, strides and types are the same.
    ///   axis from 0 to x's rank - 1, or from -1, the last one, backwards to -rank.
    /// As the formulas have it, -infinity alone along the axis gives NaN, and so do NaN and +infinity among it. What is off by how
    /// much in softmax over the last axis is as in fovea_masked_softmax; over another axis, and of the logarithm, F16 and BF16
    /// results are float32's, rounded once.
    /// ```
    pub fn fovea_log_softmax(
        context: *const fovea_context,
        x: *const fovea_tensor,
        axis: i32,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// out = a b. a F32 [...,M,K], b F32 [...,K,N], out F32 [...,M,N]; "..." up to two batch axes. One that a or b lacks, or where
    /// it has size 1, is repeated: it serves every entry of out's. a and b may have any strides (a transposed view is just
    /// strides); out's last axis must be contiguous.
    /// Sizes may be 0; K = 0 gives zeros. Scratch memory comes from the context.
    /// Each of a, b and out may as well be F16 or BF16, in any mix: computed in float32, with the bits that F32 tensors of these
    /// numbers give, and rounded once when stored, as in fovea_sdpa. But where a and b both are BF16 and the processor has
    /// products of it (AMX's tiles, else AVX-512-BF16), or both are F16 and it has tiles of that (AMX-FP16), pairs of products are
    /// added in its order, and subnormal numbers, of F16 only sums, count as 0: an error of the same size. With
    /// FOVEA_PRECISION_MEDIUM in the context, F32 a and b, of which one may as well be BF16, are rounded to BF16 where products of
    /// that are there, and the result is that of such tensors: within 2^-7 sum_k |a_k b_k| of float32's.
    pub fn fovea_matmul(
        context: *const fovea_context,
        a: *const fovea_tensor,
        b: *const fovea_tensor,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// out = alpha a b + beta c, in one pass over out. a, b, out, their types and what is promised of their product as in
    /// fovea_matmul, whose bits it gives without options. What comes after the product is computed in float32. options may be
    /// NULL.
    pub fn fovea_gemm(
        context: *const fovea_context,
        a: *const fovea_tensor,
        b: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_gemm_options,
    ) -> fovea_status;
    /// b F32, F16 or BF16 [K,N], any strides; packed it keeps its type, so that 16 bits take half the memory. But with
    /// FOVEA_PRECISION_MEDIUM, F32 b is rounded to BF16 for good, where the processor has products of that, and with
    /// FOVEA_PRECISION_INT8 b of any type to 8 bits, everywhere. options may be NULL. Errors as fovea_matmul, and
    /// FOVEA_OUT_OF_MEMORY.
    pub fn fovea_matmul_pack(
        context: *const fovea_context,
        b: *const fovea_tensor,
        options: *const fovea_matmul_pack_options,
        packed: *mut *mut fovea_packed_matrix,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using it.
    pub fn fovea_packed_matrix_destroy(packed: *mut fovea_packed_matrix);
    /// Bytes held; 0 for NULL.
    pub fn fovea_packed_matrix_size(packed: *const fovea_packed_matrix) -> usize;
    /// out = a b with b packed before, without allocating, but for more than a few rows of a that are copied first: in another
    /// type than the kernel reads, or of elements that are not neighbours. a and out as in fovea_matmul, [M,K] -> [M,N] or, one
    /// batch axis that both have, [B,M,K] -> [B,M,N]. The same bits as fovea_matmul in a context of the packing's precision; but at medium F16 a meets b as
    /// it was rounded. The context must run the instruction set that b was packed for.
    pub fn fovea_matmul_packed(
        context: *const fovea_context,
        a: *const fovea_tensor,
        b: *const fovea_packed_matrix,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// out = e^x, element by element. F, rank 1 to 6, last axis contiguous, same shapes; in place allowed when data, strides
    /// and types are the same. At most 1.6 ulp of float32; exp(-inf) = 0, exp(+inf) = +inf, NaN stays NaN; denormal results are kept.
    /// F16 to F16 and BF16 to BF16: off by at most 0.53 of the type's last place.
    pub fn fovea_exp(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// out = tanh x, likewise. At most 1.4 ulp of float32; odd, tanh(-0) = -0, tanh(+-inf) = +-1, NaN stays NaN.
    pub fn fovea_tanh(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// ```text
    /// Rows of numbers as 8-bit numbers with a scale for each group of features, as fovea_attention takes keys and values:
    ///   x F [...,D], rank 1 to 6   out I8 of x's shape   scales output F16 [...,D/group], last axes contiguous, D >= 1
    ///   scales = max |x| of the group / 127, rounded up to F16;  out = x (1 / scale), rounded to nearest, ties to even
    /// group, which the size of scales' last axis says, is a multiple of 16, or D. A number is off by at most 0.5001 of its group's
    /// scale. A group of zeros has scale 0. One with NaN or infinity has scale NaN and numbers 0, so that all of it reads back as
    /// NaN. Numbers beyond 127 times F16's largest number, 8.3e6, are cut to that. All instruction sets give the same bits.
    /// Or as 4-bit numbers, as fovea_attention takes values, with a scale and a least number for each group:
    ///   out U8 [...,D/2], scales output F16 [...,2 D/group]: pairs of scale and least; D and group are multiples of 32
    ///   least = min x of the group, rounded down to F16;  scale = (max x - least) / 15, rounded up to F16
    ///   number = (x - least) (1 / scale), rounded to nearest, ties to even
    /// Byte i of 16 that hold 32 features has feature i in its low four bits and feature 16 + i in its high ones. A number is off by
    /// at most 0.5001 of its group's scale; a group of one number that F16 has is exact. Of a group with NaN or infinity the scale
    /// is NaN, least and numbers are 0. Numbers below -65504 are cut to that, and those above least + 15 times 65504 to that.
    /// ```
    pub fn fovea_quantize(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
        scales: *const fovea_tensor,
    ) -> fovea_status;
    /// And back: out = q scale, of q I8 [...,D] and scales F16 [...,D/group] as fovea_quantize leaves them, or any; out F of q's
    /// shape. Rounded once, as out's type asks; of a finite scale, past F16's largest number to that.
    /// Of q U8 [...,D/2] and scales F16 [...,2 D/group], out F [...,D]: least + scale number, rounded once to float32, then as out's
    /// type asks.
    pub fn fovea_dequantize(
        context: *const fovea_context,
        q: *const fovea_tensor,
        scales: *const fovea_tensor,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// Attention with any score function. As fovea_sdpa, but for key F32 [B,Hkv,K,Dk] whose size may differ from query's
    /// [B,H,Q,Dq]. score NULL: the scaled dot product. A score function's parameters may as well be F16 or BF16, in any mix, but
    /// sigmas: the bits that F32 parameters of these numbers give (unless "amx" would project those on tiles). But where a weight
    /// and the rows it projects are BF16, of an even number of features, and the processor has products of that, their sums are
    /// as exact as float32's in another order, and subnormal numbers count as 0 in them. Keys and values of I8, and values of
    /// U8, are for the scaled dot product and BILINEAR, which then projects queries; its key_scales have the groups of Dk.
    pub fn fovea_attention(
        context: *const fovea_context,
        score: *const fovea_score,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
    ) -> fovea_status;
    /// Plans the call that fovea_attention would make. No data pointer is read, and all may be NULL, but sigma is. The
    /// workspace holds the projections: (B H Q + B Hkv K) x h floats for ADDITIVE and CONCAT, the smaller of B H Q x Dk and
    /// B Hkv K x Dq for BILINEAR, at most B Hkv K for GAUSSIAN, and the points it copies; and the weights in the order that
    /// the kernel reads, which each run makes anew: h (Dq + Dk) or Dq Dk floats, h and Dk rounded up to a multiple of 64 at
    /// most, with "amx" two and a half times that. Keys behind every valid length of their batch entry are not projected, in
    /// sequences of 32 keys or more.
    pub fn fovea_attention_plan_create(
        context: *const fovea_context,
        score: *const fovea_score,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        plan: *mut *mut fovea_plan,
    ) -> fovea_status;
    /// Room for keys of these sizes, none of them there yet. score: ADDITIVE, CONCAT or BILINEAR; its data is copied.
    /// BILINEAR's keys are projected ones, which may be kept in 16 bits: half the memory, each number rounded once. Those of
    /// ADDITIVE and CONCAT are factors of exponentials, whose errors no softmax evens out, and stay in float32. The keys serve contexts of the instruction set they were made with; another one: FOVEA_BAD_VALUE.
    pub fn fovea_prepared_keys_create(
        context: *const fovea_context,
        score: *const fovea_score,
        sizes: *const fovea_prepared_keys_sizes,
        keys: *mut *mut fovea_prepared_keys,
    ) -> fovea_status;
    /// Appends key [B,Hkv,n,Dk] (or [B,n,Dk], or [n,Dk]), F32, F16 or BF16, to every sequence. Past the capacity: FOVEA_BAD_SHAPE, and
    /// nothing is appended.
    pub fn fovea_prepared_keys_append(
        context: *const fovea_context,
        keys: *mut fovea_prepared_keys,
        key: *const fovea_tensor,
    ) -> fovea_status;
    /// Forgets the keys from `length` on; length in [0, present length].
    pub fn fovea_prepared_keys_truncate(
        keys: *mut fovea_prepared_keys,
        length: i64,
    ) -> fovea_status;
    /// How many keys each sequence holds; 0 for NULL.
    pub fn fovea_prepared_keys_length(keys: *const fovea_prepared_keys) -> i64;
    /// Bytes held; 0 for NULL.
    pub fn fovea_prepared_keys_size(keys: *const fovea_prepared_keys) -> usize;
    /// NULL is allowed. No call may still be using it.
    pub fn fovea_prepared_keys_destroy(keys: *mut fovea_prepared_keys);
    /// Attention over prepared keys: as fovea_attention with all the keys appended so far; with ADDITIVE and CONCAT the same
    /// bits (BILINEAR's one-shot call may project the queries instead, and with "amx" large one-shot calls without
    /// FOVEA_QUERY_INVARIANT project on tiles). value [B,Hkv,K,Dv] with K = fovea_prepared_keys_length(keys).
    pub fn fovea_attention_prepared(
        context: *const fovea_context,
        query: *const fovea_tensor,
        keys: *const fovea_prepared_keys,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
    ) -> fovea_status;
    /// Plans the call that fovea_attention_prepared would make, as fovea_attention_plan_create does; buffers.key is NULL in
    /// its runs. The plan keeps using the keys, which must outlive it. They may be truncated and appended to between runs: a
    /// run attends what they hold then, but for as many keys as they held when it was planned (else FOVEA_BAD_SHAPE). The
    /// workspace holds B H Q x h floats of projected queries for ADDITIVE and CONCAT.
    pub fn fovea_attention_prepared_plan_create(
        context: *const fovea_context,
        query: *const fovea_tensor,
        keys: *const fovea_prepared_keys,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        plan: *mut *mut fovea_plan,
    ) -> fovea_status;
    /// ```text
    /// Nadaraya-Watson regression with a Gaussian kernel:
    ///   out_q = sum_i softmax_i( -|query_q - input_i|^2 / (2 sigma^2) ) target_i
    ///   queries F [Q,D]   inputs F [N,D]   targets F [N,T]   out F [Q,T]   D and T in [1, 1024], Q and N at most 2^30
    /// or queries, inputs of rank 1, [Q] and [N] (D = 1), and targets and out of rank 1, [N] and [Q] (T = 1). options may be
    /// NULL. A query with no input to attend (N = 0, or N = 1 left out) gives 0. The textbook's learnable w is 1 / sigma. To
    /// plan it, plan attention with GAUSSIAN: queries [Q,D], inputs [N,D] and targets [N,T] are its query, key and value.
    /// ```
    pub fn fovea_kernel_regression(
        context: *const fovea_context,
        queries: *const fovea_tensor,
        inputs: *const fovea_tensor,
        targets: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_kernel_regression_options,
    ) -> fovea_status;
    /// ```text
    /// Makes a schedule that no step has been set for: a run of it has nothing to do.
    ///   query F [T,H,D], T the most tokens of a step   out F [T,H,Dv]
    ///   key and value, packed: F [N,Hkv,D] and F [N,Hkv,Dv], N the most keys of a step; or
    ///   key and value, in pages: F [P,Hkv,page,D] and F [P,Hkv,page,Dv], P pages of `page` positions each, page 1 to 2^20
    /// in any strides but of the last axis, so that pages may lie as they do elsewhere. Data pointers are not read and may be NULL.
    /// score may be NULL: the scaled dot product; over pages it is the only one. options may be NULL. Of its tensors, log_sum_exp is
    /// F32 [T,H], and alibi_slopes and sinks are as ever; valid_lens, query_offsets, mask, bias, weights, scores, projected_query,
    /// projected_key and dropout are not for schedules: FOVEA_BAD_OPTION. Positions are each sequence's own: by default its last
    /// query faces its last key.
    /// A sequence's result has the bits it has alone: they depend neither on its neighbours, nor on threads, page size or strides.
    /// Where few queries leave its keys to several tasks, these begin at multiples of 576 positions.
    /// With FOVEA_QUERY_INVARIANT keys are always taken so, and a query has the same bits however many there are: a prompt may come
    /// in one step or in several. Then sequences that stand next to each other in a step and begin with the same page ids, 576
    /// positions or more, read what they share once, which changes no bit. F32 is not rounded, whatever the precision.
    /// ```
    pub fn fovea_schedule_create(
        context: *const fovea_context,
        score: *const fovea_score,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        limits: *const fovea_schedule_limits,
        schedule: *mut *mut fovea_schedule,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using it.
    pub fn fovea_schedule_destroy(schedule: *mut fovea_schedule);
    /// Sets a step: checks it, copies it, and cuts it into tasks. Nothing is allocated. On an error, which names the sequence and
    /// the entry, the schedule is as before. A step may have no sequences, and sequences no tokens or no keys. Beside what tensors
    /// can do wrong: FOVEA_BAD_VALUE (starts that fall, lengths past the pages given, a page id out of range), FOVEA_BAD_SHAPE (more
    /// than the schedule was made for).
    pub fn fovea_schedule_set(
        schedule: *mut fovea_schedule,
        step: *const fovea_step,
    ) -> fovea_status;
    /// Where each token of the present step stands in its sequence, I32 [T], for fovea_rotary's positions: key_len - (its tokens) + i,
    /// or i where a sequence has fewer keys than tokens. In memory of the schedule, until the next step is set. Of rank -1 for NULL.
    pub fn fovea_schedule_positions(schedule: *const fovea_schedule) -> fovea_tensor;
    /// Bytes of scratch memory that a run of the present step needs; 0 for NULL.
    pub fn fovea_schedule_workspace_size(schedule: *const fovea_schedule) -> usize;
    /// As fovea_plan_describe, of the present step: "op=ragged isa=avx512 sequences=8 tokens=519 ...".
    pub fn fovea_schedule_describe(
        schedule: *const fovea_schedule,
        text: *mut c_char,
        size: usize,
    ) -> usize;
    /// Attends for the present step, without allocating: one layer's query, key, value and out, and what else the schedule was made
    /// with. Tokens of no sequence are not written. workspace as in fovea_attention_run; or NULL with a workspace_size of 0: scratch
    /// memory comes from the context.
    pub fn fovea_schedule_run(
        schedule: *const fovea_schedule,
        buffers: *const fovea_attention_buffers,
        workspace: *mut c_void,
        workspace_size: usize,
    ) -> fovea_status;
    /// A run shared among the caller's own threads, for engines whose threads all stand in a graph: each phase is some tasks, which
    /// may run in any order; the next phase starts when all of them are done, which is the caller's to see to. The same bits as
    /// fovea_schedule_run. 0 for NULL.
    pub fn fovea_schedule_phases(schedule: *const fovea_schedule) -> i64;
    /// A run shared among the caller's own threads, for engines whose threads all stand in a graph: each phase is some tasks, which
    /// may run in any order; the next phase starts when all of them are done, which is the caller's to see to. The same bits as
    /// fovea_schedule_run. 0 for NULL.
    pub fn fovea_schedule_tasks(schedule: *const fovea_schedule, phase: i64) -> i64;
    /// Tasks [begin, end) of a phase on the calling thread. Threads that run at once share buffers and workspace, and have each a
    /// `worker` of its own, from 0 to limits.workers - 1.
    pub fn fovea_schedule_run_tasks(
        schedule: *const fovea_schedule,
        buffers: *const fovea_attention_buffers,
        workspace: *mut c_void,
        workspace_size: usize,
        phase: i64,
        begin: i64,
        end: i64,
        worker: i64,
    ) -> fovea_status;
    /// ```text
    /// Writes one layer's new keys and values into its pages: token i of a sequence goes to position
    /// key_len - (its tokens) + i.
    ///   key F [T,Hkv,D], value F [T,Hkv,Dv]: the step's tokens, T at least as many
    ///   key_pages, value_pages: the layer's pages, as the schedule was made with
    ///   value and value_pages may both be NULL: latent attention, whose values are the first Dv features of keys' rows: value was
    ///   planned as a view of key's memory, and a run has one pointer for both
    /// Kept bit by bit where the types are the same, rounded once to another F type, to nearest, ties to even; and to I8 or U8 as
    /// fovea_quantize does. A sequence must have as many keys as tokens, and two sequences must not write into one page:
    /// FOVEA_BAD_VALUE. options may be NULL. Scratch memory, for keys that are turned, comes from the context.
    /// ```
    pub fn fovea_schedule_append(
        schedule: *const fovea_schedule,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        key_pages: *const fovea_tensor,
        value_pages: *const fovea_tensor,
        options: *const fovea_append_options,
    ) -> fovea_status;
    /// An empty pool. Where the system gives memory at its first use, pages that were never filled take none. What stands in a page
    /// before it was written may be anything.
    pub fn fovea_kv_pool_create(
        sizes: *const fovea_kv_pool_sizes,
        pool: *mut *mut fovea_kv_pool,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using it.
    pub fn fovea_kv_pool_destroy(pool: *mut fovea_kv_pool);
    /// A new, empty sequence. More than there may be: FOVEA_POOL_EXHAUSTED.
    pub fn fovea_kv_pool_open(pool: *mut fovea_kv_pool, sequence: *mut i64) -> fovea_status;
    /// A new sequence that begins as the first `length` positions of `sequence`, in [its first position kept, its length]: pages are
    /// shared, and copied by the step that writes into one.
    pub fn fovea_kv_pool_fork(
        pool: *mut fovea_kv_pool,
        sequence: i64,
        length: i64,
        forked: *mut i64,
    ) -> fovea_status;
    /// Forgets the positions from `length` on, in [its first position kept, its length].
    pub fn fovea_kv_pool_truncate(
        pool: *mut fovea_kv_pool,
        sequence: i64,
        length: i64,
    ) -> fovea_status;
    /// Gives back the pages that hold only positions before `first`, for layers whose windows have left them: no query of any later
    /// step may attend them. Positions keep their numbers. first in [0, its length].
    pub fn fovea_kv_pool_drop(pool: *mut fovea_kv_pool, sequence: i64, first: i64) -> fovea_status;
    pub fn fovea_kv_pool_close(pool: *mut fovea_kv_pool, sequence: i64) -> fovea_status;
    /// Makes room for a step: sequence sequences[s] grows by tokens[s] positions, and pages that it shares and would write into are
    /// copied, in all layers. sequences and tokens I32 or I64 [S], any stride; no sequence twice. On success *step describes it:
    /// its tensors belong to the pool and are valid until the next call that changes it. All or nothing: if pages run out,
    /// FOVEA_POOL_EXHAUSTED with a message that tells how many are needed and how many are free, and nothing has changed.
    pub fn fovea_kv_pool_step(
        context: *const fovea_context,
        pool: *mut fovea_kv_pool,
        sequences: *const fovea_tensor,
        tokens: *const fovea_tensor,
        step: *mut fovea_step,
    ) -> fovea_status;
    /// A layer's keys as [P,Hkv,page,D], or its values as [P,Hkv,page,Dv], of U8 as [P,Hkv,page,Dv / 2]: what a schedule is made with.
    /// A layer out of range, or NULL: a tensor of rank -1.
    pub fn fovea_kv_pool_keys(pool: *const fovea_kv_pool, layer: i64) -> fovea_tensor;
    /// A layer's keys as [P,Hkv,page,D], or its values as [P,Hkv,page,Dv], of U8 as [P,Hkv,page,Dv / 2]: what a schedule is made with.
    /// A layer out of range, or NULL: a tensor of rank -1.
    pub fn fovea_kv_pool_values(pool: *const fovea_kv_pool, layer: i64) -> fovea_tensor;
    /// The scales of a layer of I8, F16 [P,Hkv,page,D / group] and [P,Hkv,page,Dv / group]; of values of U8 [P,Hkv,page,2 Dv / group].
    /// Of another type: a tensor of rank -1.
    pub fn fovea_kv_pool_key_scales(pool: *const fovea_kv_pool, layer: i64) -> fovea_tensor;
    /// The scales of a layer of I8, F16 [P,Hkv,page,D / group] and [P,Hkv,page,Dv / group]; of values of U8 [P,Hkv,page,2 Dv / group].
    /// Of another type: a tensor of rank -1.
    pub fn fovea_kv_pool_value_scales(pool: *const fovea_kv_pool, layer: i64) -> fovea_tensor;
    /// Positions of a sequence, the dropped ones included; -1 for what is none.
    pub fn fovea_kv_pool_length(pool: *const fovea_kv_pool, sequence: i64) -> i64;
    /// Pages that no sequence holds; bytes of all pages. 0 for NULL.
    pub fn fovea_kv_pool_free_pages(pool: *const fovea_kv_pool) -> i64;
    /// Pages that no sequence holds; bytes of all pages. 0 for NULL.
    pub fn fovea_kv_pool_size(pool: *const fovea_kv_pool) -> usize;
    /// A sequence as bytes, to be kept in a file or sent to another machine: a header with a version, the types, the sizes and a
    /// checksum, then its keys and values row by row, little-endian whatever the machine. save writes exactly
    /// fovea_kv_pool_saved_size bytes (0 for what is no sequence), which may lie at any address; a smaller `size` is
    /// FOVEA_WORKSPACE_TOO_SMALL and nothing is written. restore opens a sequence in a pool of the same layers, heads, features and
    /// types, whatever its page size. Bytes that are cut off, altered, or of another version or kind are FOVEA_BAD_VALUE.
    pub fn fovea_kv_pool_saved_size(pool: *const fovea_kv_pool, sequence: i64) -> usize;
    /// A sequence as bytes, to be kept in a file or sent to another machine: a header with a version, the types, the sizes and a
    /// checksum, then its keys and values row by row, little-endian whatever the machine. save writes exactly
    /// fovea_kv_pool_saved_size bytes (0 for what is no sequence), which may lie at any address; a smaller `size` is
    /// FOVEA_WORKSPACE_TOO_SMALL and nothing is written. restore opens a sequence in a pool of the same layers, heads, features and
    /// types, whatever its page size. Bytes that are cut off, altered, or of another version or kind are FOVEA_BAD_VALUE.
    pub fn fovea_kv_pool_save(
        pool: *const fovea_kv_pool,
        sequence: i64,
        bytes: *mut c_void,
        size: usize,
    ) -> fovea_status;
    /// A sequence as bytes, to be kept in a file or sent to another machine: a header with a version, the types, the sizes and a
    /// checksum, then its keys and values row by row, little-endian whatever the machine. save writes exactly
    /// fovea_kv_pool_saved_size bytes (0 for what is no sequence), which may lie at any address; a smaller `size` is
    /// FOVEA_WORKSPACE_TOO_SMALL and nothing is written. restore opens a sequence in a pool of the same layers, heads, features and
    /// types, whatever its page size. Bytes that are cut off, altered, or of another version or kind are FOVEA_BAD_VALUE.
    pub fn fovea_kv_pool_restore(
        pool: *mut fovea_kv_pool,
        bytes: *const c_void,
        size: usize,
        sequence: *mut i64,
    ) -> fovea_status;
    /// ```text
    /// The sinusoidal encoding (Vaswani et al. 2017), positions x features:
    ///   out[i,2j] = sin((offset + i) / base^(2j/d)),  out[i,2j+1] = cos((offset + i) / base^(2j/d))
    /// out F [L,d]; an odd d ends with a sine. Angles are reduced in float64: before it is rounded to its type, a number is
    /// within 1e-6 of the formula's value up to position 10^6. options may be NULL; its dropout must be 0.
    /// ```
    pub fn fovea_positional_encoding(
        context: *const fovea_context,
        out: *const fovea_tensor,
        options: *const fovea_positional_encoding_options,
    ) -> fovea_status;
    /// out = dropout(x + P), P as above, for x F [...,L,d], rank 2 to 6, out F of the same shape; in place allowed when data,
    /// strides and types are the same. Element (b, i, c), b counting the axes before L in row-major order, is dropped as a weight
    /// is (see "Dropout") with batch b, head 0, query i (not offset + i) and key c.
    pub fn fovea_add_positional_encoding(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_positional_encoding_options,
    ) -> fovea_status;
    /// ```text
    /// Rotary position embedding (Su et al. 2021): pair j of row i turns by the angle position(i) * base^(-2j/rotary_dim):
    ///   (x, y) -> (x cos - y sin, x sin + y cos)
    /// x F [...,L,D], rank 2 to 6, out F of the same shape, last axis contiguous; in place allowed when data, strides and
    /// types are the same. A [B,L,H,D] layout is [B,H,L,D] with other strides. Angles are reduced in float64: before it is
    /// rounded to its type, each of a pair is within 4 * 2^-24 (|x| + |y|) of the formula up to angles of 10^6, and within
    /// 5e-7 (|x| + |y|) more up to 2^30; with attention_factor a, within |a| times that and 2^-24 |a| (|x| + |y|); with cosines
    /// and sines given, within 4 * 2^-24 |a| (|x cos| + |y sin|), and likewise the other. options may be NULL.
    /// ```
    pub fn fovea_rotary(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_rotary_options,
    ) -> fovea_status;
    /// ```text
    /// The frequencies and the attention factor that a model's configuration asks for, for fovea_rotary_options: Llama 3.1's,
    /// YaRN's, LongRoPE's (Phi-3), ..., computed in float64 and rounded once.
    ///   frequencies output F32 [P], any stride, d = 2 P being rotary_dim   attention_factor output F32 [1], or NULL
    /// attention_factor is 1, but of YARN, for a factor above 1, (1 + m ln factor / 10) / (1 + a ln factor / 10), m being mscale and
    /// a mscale_all_dim if neither is 0, else 1 and 0; and of LONGROPE, likewise, sqrt(1 + ln factor / ln original_length). A
    /// configuration that names another takes precedence. Zeros put at the end of the result leave those pairs as they are
    /// ("proportional").
    /// ```
    pub fn fovea_rotary_frequencies(
        frequencies: *const fovea_tensor,
        attention_factor: *const fovea_tensor,
        options: *const fovea_rotary_frequencies_options,
    ) -> fovea_status;
    /// The slopes of ALiBi (Press, Smith and Lewis 2022) for H heads: 2^(-8 (h+1) / H) for H a power of two; else those of
    /// the power of two P below, then every other one of 2P heads. out F32 [H], any stride.
    pub fn fovea_alibi_slopes(out: *const fovea_tensor) -> fovea_status;
    /// out = activation(x), element by element; activation is a FOVEA_ACTIVATION_*. x and out F, rank 1 to 6, last axis contiguous,
    /// same shapes; in place allowed when data, strides and types are the same.
    pub fn fovea_activation(
        context: *const fovea_context,
        activation: i32,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
    ) -> fovea_status;
    /// fovea_matmul_pack for a weight in either layout. weight F32, F16 or BF16, rank 2, any strides. options may be NULL:
    /// [out,in].
    pub fn fovea_linear_pack(
        context: *const fovea_context,
        weight: *const fovea_tensor,
        options: *const fovea_linear_pack_options,
        packed: *mut *mut fovea_packed_matrix,
    ) -> fovea_status;
    /// ```text
    /// out = activation(x W + bias) * multiplier + residual, in one pass over out and without allocating, but for a bias that is not
    /// contiguous and rows of x that fovea_matmul_packed would copy.
    ///   x F32 [M,K] or [B,M,K], any strides   W [K,N], packed   out F32 [M,N] or [B,M,N], last axis contiguous
    /// options may be NULL: out = x W, with the bits of fovea_matmul. The context must run the instruction set that weight
    /// was packed for. Each of x, bias, multiplier, residual and out may as well be F16 or BF16, in any mix with W, as in fovea_matmul:
    /// everything after the product, too, is computed in float32.
    /// ```
    pub fn fovea_linear(
        context: *const fovea_context,
        x: *const fovea_tensor,
        weight: *const fovea_packed_matrix,
        out: *const fovea_tensor,
        options: *const fovea_linear_options,
    ) -> fovea_status;
    /// ```text
    /// Layer normalisation (Ba, Kiros and Hinton 2016) over the last axis, of y = x + residual:
    ///   out = (y - mean(y)) / sqrt(variance(y) + epsilon) * weight + bias,  variance over E, not E - 1
    /// x F [...,E], rank 1 to 6, E >= 1, out F of the same shape; in place allowed when data, strides and types are the same,
    /// for residual too, and so for sum: one of the two may be x and the other residual. options may be NULL. Where all tensors
    /// given, but mean and inverse_deviation, are F16, or all BF16: off by at most 0.53 of the type's last place, beside float32's
    /// rounding errors in y - mean(y), in the product with weight and in the sum with bias. Sum is x + residual in float32,
    /// rounded once; what is normalised is not rounded to sum's type.
    /// ```
    pub fn fovea_layer_norm(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_layer_norm_options,
    ) -> fovea_status;
    /// ```text
    /// Normalisation by the root of the mean square (Zhang and Sennrich 2019) over the last axis, of y = x + residual:
    ///   out = y / sqrt(mean(y^2) + epsilon) * weight
    /// Tensors, in place, sum and what F16 and BF16 are off by as in fovea_layer_norm, without a mean and a bias. options may
    /// be NULL.
    /// ```
    pub fn fovea_rms_norm(
        context: *const fovea_context,
        x: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_rms_norm_options,
    ) -> fovea_status;
    pub fn fovea_mha_weights_create(
        context: *const fovea_context,
        parameters: *const fovea_mha_parameters,
        weights: *mut *mut fovea_mha_weights,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using it.
    pub fn fovea_mha_weights_destroy(weights: *mut fovea_mha_weights);
    /// Bytes held; 0 for NULL.
    pub fn fovea_mha_weights_size(weights: *const fovea_mha_weights) -> usize;
    /// ```text
    /// Multi-head attention (Vaswani et al. 2017):
    ///   out = concat_h( attention(x_q Wq_h, x_k Wk_h, x_v Wv_h) ) Wo,  biases added after each product
    ///   query F32 [B,Q,Eq]   key F32 [B,K,Ek]   value F32 [B,K,Ev]   out F32 [B,Q,Eo]
    /// or all of rank 2 (one sequence), last axis contiguous. key NULL: query (self-attention, one product for all three
    /// projections); value NULL: key. The heads are attended to as fovea_attention does with [B,H,Q,D] tensors: the same
    /// bits as fovea_linear, fovea_rotary, fovea_attention and fovea_linear one after the other, with F32 tensors between them.
    /// Each of query, key, value and out may as well be F16 or BF16, in any mix with the weights. Where query, key and value all
    /// are BF16 and the processor has products of it, the tensors between the steps are BF16 too: each rounds its numbers by at
    /// most 2^-8 of their size. At medium precision F32 inputs do as well: then
    /// each of inputs, weights and tensors between the steps is rounded so.
    /// With a schedule, sequences of different lengths go through the layer at once, without padding: attention is the schedule's,
    /// of the dot product, and tensors between the steps have its query's type, which must be its out's and, packed, its keys' and
    /// values'. options.score is NULL; of options.attention, NULL too if the schedule has none of them, only alibi_slopes and sinks
    /// are set. After an error out and the pages are as before.
    /// Scratch memory, rows x (H D + Hkv Dk + Hkv Dv + H Dv) floats and copies of rows of another type than a product reads,
    /// comes from the context.
    /// ```
    pub fn fovea_multi_head_attention(
        context: *const fovea_context,
        weights: *const fovea_mha_weights,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_mha_options,
    ) -> fovea_status;
    /// Plans the call that fovea_multi_head_attention would make. The tensors' data pointers are not read and may be NULL, but for
    /// those of options.rotary: these have to stay as long as the plan, and so have weights, the context and options.schedule.
    /// With a schedule query and out are for the most tokens that a step may have, and each run is of its present step.
    pub fn fovea_mha_plan_create(
        context: *const fovea_context,
        weights: *const fovea_mha_weights,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_mha_options,
        plan: *mut *mut fovea_mha_plan,
    ) -> fovea_status;
    /// NULL is allowed. No call may still be using the plan.
    pub fn fovea_mha_plan_destroy(plan: *mut fovea_mha_plan);
    /// Bytes of scratch memory that a run needs, with a schedule one of its present step; 0 for NULL.
    pub fn fovea_mha_plan_workspace_size(plan: *const fovea_mha_plan) -> usize;
    /// Runs a plan without allocating: the bits of fovea_multi_head_attention. workspace: fovea_mha_plan_workspace_size(plan) bytes,
    /// any alignment, not shared with a run at the same time.
    pub fn fovea_mha_run(
        plan: *const fovea_mha_plan,
        buffers: *const fovea_mha_buffers,
        workspace: *mut c_void,
        workspace_size: usize,
    ) -> fovea_status;
    /// The same with weights that are used once: packs them, computes, forgets them.
    pub fn fovea_multi_head_attention_once(
        context: *const fovea_context,
        parameters: *const fovea_mha_parameters,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_mha_options,
    ) -> fovea_status;
    /// The backward pass of fovea_attention (score NULL: of fovea_sdpa): from its arguments, out and options.log_sum_exp as it left
    /// them, and the gradients of its results, to those of its arguments. out and options.log_sum_exp, which must be given, are
    /// inputs here; options.weights and scores are not looked at. All else is to be as it was. For ADDITIVE and CONCAT
    /// options.projected_query and projected_key, where they are given, are inputs, too, as the forward call wrote them ("Kept
    /// projections" in scores.h): what is there is not projected again.
    ///
    /// Weights are computed again from log-sum-exp, a tile at a time (Dao 2023): memory grows with Q (D + Dv) + K (D + Dv), never
    /// with Q x K. The same bits for any number of threads, from call to call, and for a batch entry wherever it stands; with
    /// FOVEA_QUERY_INVARIANT a query's own gradient has the same bits however many queries there are. All is float32 (sums that give
    /// one number for each head, unit or width float64) and rounded once at the end; AMX's tiles are not used. But where query, key,
    /// value and grad_out all are BF16, the score is a dot product, D and Dv are even, rows of key and of value are an even number of
    /// elements apart and the processor has products of BF16 (AVX-512-BF16; fovea_plan_describe tells), d p and the gradients of
    /// scores, scale ds, are rounded to BF16 before they meet rows: an error of at most 2^-8 of each term that is added up. Subnormal
    /// numbers in such products count as 0.
    ///
    /// A key that a query does not attend gets nothing from it, and the other way round, whatever they hold; rows with nothing to
    /// attend have no gradient, under any policy of empty rows. NaN that is attended reaches the gradients that depend on it.
    /// Keys and values of I8, and values of U8, have none: FOVEA_BAD_DTYPE.
    pub fn fovea_attention_backward(
        context: *const fovea_context,
        score: *const fovea_score,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        gradients: *const fovea_attention_gradients,
    ) -> fovea_status;
    /// Plans the call that fovea_attention_backward would make; no data pointer is read. fovea_attention_run runs it, with the
    /// gradients' data in the members of its buffers that begin with grad_; it reads buffers.out and buffers.log_sum_exp. The
    /// workspace grows with threads x K (D + Dv), K being those of a task; where one head's work is shared, with up to 16 times
    /// B H Q x D or, for few keys, B Hkv K (D + Dv); for score functions with weights it also holds the gradients of projected
    /// queries and keys, and copies of what these were made of; never with Q x K.
    pub fn fovea_attention_backward_plan_create(
        context: *const fovea_context,
        score: *const fovea_score,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        out: *const fovea_tensor,
        options: *const fovea_attention_options,
        gradients: *const fovea_attention_gradients,
        plan: *mut *mut fovea_plan,
    ) -> fovea_status;
    /// grad_x = grad_out times activation's derivative at x; activation is a FOVEA_ACTIVATION_*. x, grad_out and grad_x F, rank 1 to
    /// 6, last axis contiguous, same shapes; grad_x may be grad_out in place (same data, strides and type). RELU's derivative at 0
    /// is 0; GELU's, GELU_TANH's and SILU's are off by at most 5e-7.
    pub fn fovea_activation_backward(
        context: *const fovea_context,
        activation: i32,
        x: *const fovea_tensor,
        grad_out: *const fovea_tensor,
        grad_x: *const fovea_tensor,
    ) -> fovea_status;
    /// grad_x = out (grad_out - sum_k out grad_out) over the last axis, of fovea_masked_softmax's out and valid_lens; exactly 0 from
    /// valid_lens on, whatever stands there. out, grad_out and grad_x F, shapes as there; grad_x may be grad_out in place.
    pub fn fovea_masked_softmax_backward(
        context: *const fovea_context,
        out: *const fovea_tensor,
        valid_lens: *const fovea_tensor,
        grad_out: *const fovea_tensor,
        grad_x: *const fovea_tensor,
    ) -> fovea_status;
    /// The same of fovea_softmax, over its axis; and of fovea_log_softmax, grad_x = grad_out - e^out sum_k grad_out.
    pub fn fovea_softmax_backward(
        context: *const fovea_context,
        out: *const fovea_tensor,
        axis: i32,
        grad_out: *const fovea_tensor,
        grad_x: *const fovea_tensor,
    ) -> fovea_status;
    /// The same of fovea_softmax, over its axis; and of fovea_log_softmax, grad_x = grad_out - e^out sum_k grad_out.
    pub fn fovea_log_softmax_backward(
        context: *const fovea_context,
        out: *const fovea_tensor,
        axis: i32,
        grad_out: *const fovea_tensor,
        grad_x: *const fovea_tensor,
    ) -> fovea_status;
    /// ```text
    /// The backward pass of fovea_layer_norm. With z = (y - mean) r the normalised row, r = 1 / sqrt(variance + epsilon):
    ///   x = r (g - mean(g) - z mean(g z)) + sum,  g = out weight       weight = sum over rows of out z       bias = of out
    /// x and options as in the forward call; mean and deviation are computed again: options.sum, mean and inverse_deviation are not
    /// looked at.
    /// ```
    pub fn fovea_layer_norm_backward(
        context: *const fovea_context,
        x: *const fovea_tensor,
        options: *const fovea_layer_norm_options,
        gradients: *const fovea_norm_gradients,
    ) -> fovea_status;
    /// The backward pass of fovea_rms_norm: the same with 0 for all means but that of g z, and r = 1 / sqrt(mean(y^2) + epsilon).
    pub fn fovea_rms_norm_backward(
        context: *const fovea_context,
        x: *const fovea_tensor,
        options: *const fovea_rms_norm_options,
        gradients: *const fovea_norm_gradients,
    ) -> fovea_status;
    /// ```text
    /// The backward pass of fovea_linear, with the weight as the model has it, F of rank 2 with any strides, [N,K] for layout
    /// FOVEA_WEIGHT_OUT_IN and [K,N] for FOVEA_WEIGHT_IN_OUT, M or B x M being the rows:
    ///   h = out multiplier activation'(x W + bias)       x = h W^T       W = x^T h       bias = sum over rows of h
    ///   multiplier = out activation(x W + bias)
    /// x and options as in the forward call; its residual is not looked at, and its precision changes nothing. Products are
    /// fovea_matmul's. x W is computed again where there is an activation, or the multiplier's gradient is wanted. Scratch memory:
    /// with an activation or a multiplier rows x N floats; copies of x and out where their entries do not follow each other.
    /// ```
    pub fn fovea_linear_backward(
        context: *const fovea_context,
        x: *const fovea_tensor,
        weight: *const fovea_tensor,
        layout: i32,
        options: *const fovea_linear_options,
        gradients: *const fovea_linear_gradients,
    ) -> fovea_status;
    /// ```text
    /// The backward pass of fovea_merge_states. With w_s = exp(lse_s - log_sum_exp):
    ///   outs_s = w_s out'       lses_s = w_s (out' . (outs_s - out) + log_sum_exp'),  ' being what the loss changes by
    /// A part with log-sum-exp -infinity is not read and gets 0.
    /// ```
    pub fn fovea_merge_states_backward(
        context: *const fovea_context,
        outs: *const fovea_tensor,
        lses: *const fovea_tensor,
        gradients: *const fovea_merge_gradients,
    ) -> fovea_status;
    /// The backward pass of fovea_multi_head_attention, for parameters as the model has them. The forward pass is computed again, so
    /// nothing of it needs to be kept; but where options.kept is given it is what that call, of the same inputs, parameters and
    /// options, has written there, and is read instead: the same bits, if its precision was the highest. log_sum_exp, weights,
    /// scores, projected_query and projected_key of options.attention are not looked at. Between the steps are F32 tensors. options
    /// has no schedule and no pages; precisions are not looked at. Scratch memory: rows x (H D + Hkv Dk + Hkv Dv + H Dv) floats,
    /// without options.kept as much again and packed weights, and what attention and products need. A call that runs out of memory
    /// may have written some of the gradients.
    pub fn fovea_multi_head_attention_backward(
        context: *const fovea_context,
        parameters: *const fovea_mha_parameters,
        query: *const fovea_tensor,
        key: *const fovea_tensor,
        value: *const fovea_tensor,
        options: *const fovea_mha_options,
        gradients: *const fovea_mha_gradients,
    ) -> fovea_status;
}
