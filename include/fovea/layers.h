/* fovea: what transformer layers are made of besides attention itself: positions, linear layers,
 * normalisation, multi-head attention. Part of fovea.h, whose conventions hold here too; include that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h> /* before the guard: it includes this one where training.h can use it */

#ifndef FOVEA_LAYERS_H
#define FOVEA_LAYERS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- positions ----------------------------------------------------------------------------------------------------- */

/* Bits of fovea_positional_encoding_options.flags */
enum {
  FOVEA_ENCODING_BASE_GIVEN = 1, /* base is meant as it stands: 0 is an error                                          */
  FOVEA_ENCODING_DROPOUT_ALONE = 2 /* of fovea_add_positional_encoding alone: out = dropout(x), as what the loss changes *
                                    * by goes back                                                                     */
};

typedef struct fovea_positional_encoding_options {
  size_t struct_size;
  float base;             /* > 1 and finite; 0: 10000; unless FOVEA_ENCODING_BASE_GIVEN                               */
  float dropout;          /* in [0, 1); for fovea_add_positional_encoding                                             */
  int64_t offset;         /* position of row 0, 0 to 2^30                                                             */
  uint64_t dropout_seed;  /* used with dropout                                                                        */
  uint32_t flags;         /* FOVEA_ENCODING_*                                                                         */
  int32_t reserved;       /* 0                                                                                        */
} fovea_positional_encoding_options;

/* The sinusoidal encoding (Vaswani et al. 2017), positions x features:
 *   out[i,2j] = sin((offset + i) / base^(2j/d)),  out[i,2j+1] = cos((offset + i) / base^(2j/d))
 * out F [L,d]; an odd d ends with a sine. Angles are reduced in float64: before it is rounded to its type, a number is
 * within 1e-6 of the formula's value up to position 10^6. options may be NULL; its dropout must be 0. */
FOVEA_API fovea_status fovea_positional_encoding(const fovea_context *context, const fovea_tensor *out,
                                                 const fovea_positional_encoding_options *options);

/* out = dropout(x + P), P as above, for x F [...,L,d], rank 2 to 6, out F of the same shape; in place allowed when data,
 * strides and types are the same. Element (b, i, c), b counting the axes before L in row-major order, is dropped as a weight
 * is (see "Dropout") with batch b, head 0, query i (not offset + i) and key c. */
FOVEA_API fovea_status fovea_add_positional_encoding(const fovea_context *context, const fovea_tensor *x,
                                                     const fovea_tensor *out,
                                                     const fovea_positional_encoding_options *options);

/* Bits of fovea_rotary_options.flags */
enum {
  FOVEA_ROTARY_INTERLEAVED = 1, /* pairs (2j, 2j+1), as in the paper; else (j, j + rotary_dim/2), as in GPT-NeoX and Llama    */
  FOVEA_ROTARY_INVERSE = 2,     /* rotate back                                                                                */
  FOVEA_ROTARY_BASE_GIVEN = 4,  /* base is meant as it stands: 0 is an error                                                  */
  FOVEA_ROTARY_POSITION_SCALE_GIVEN = 8, /* position_scale is meant as it stands, 0 too: all rows stand at position 0         */
  FOVEA_ROTARY_DIM_GIVEN = 16,  /* rotary_dim is meant as it stands, 0 too: x is copied                                       */
  FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN = 32 /* attention_factor is meant as it stands, 0 too                                    */
};

typedef struct fovea_rotary_options {
  size_t struct_size;
  uint32_t flags;
  float base;           /* > 1 and finite; 0: 10000; unless FOVEA_ROTARY_BASE_GIVEN                                          */
  float position_scale; /* positions are multiplied by it (1/2: linear interpolation to twice the context); finite; 0: 1;      *
                         * unless FOVEA_ROTARY_POSITION_SCALE_GIVEN                                                          */
  int32_t reserved;     /* 0                                                                                                 */
  int64_t rotary_dim;   /* the first features, an even number up to D, are rotated, the others copied; 0: D (even);          *
                         * unless FOVEA_ROTARY_DIM_GIVEN                                                                     */
  int64_t offset;       /* position of the first row: how many came before it; 0 to 2^30. position_scale times the       *
                         * largest position must not pass 2^34                                                               */
  const fovea_tensor *positions;   /* [L] or [B,L], I32 or I64, 0 to 2^30, any strides: instead of offset + i; B is x's      *
                                    * first axis. With sections [S,L] or [S,B,L]                                             */
  const fovea_tensor *frequencies; /* F32 [P], P = rotary_dim / 2, any stride: pair j turns by this angle for each position, *
                                    * not by base^(-2j/rotary_dim), and base is not given. Finite; times position_scale and  *
                                    * the largest position at most 2^34. fovea_rotary_frequencies makes what models use      */
  const fovea_tensor *sections;    /* I32 or I64 [P], any stride, each in [0, S): pair j of row i stands at                  *
                                    * positions[sections[j]] (M-RoPE, Wang et al. 2024). Qwen2-VL has blocks, of 0, of 1, of *
                                    * 2; Qwen3-VL has j mod 3, but 0 from three times that section's size on                 */
  const fovea_tensor *cosines;     /* F [N,P]: pair j at position p turns by cosines[p,j] and sines[p,j], and positions are  *
                                    * below N. Or F [B,L,P]: a row for each row of x, whatever its position, and offset is   *
                                    * 0. Instead of an angle: base, position_scale, frequencies are not given. Last axis     *
                                    * contiguous                                                                             */
  const fovea_tensor *sines;       /* F, of cosines' shape, last axis contiguous; both are given or neither                  */
  float attention_factor;          /* cosines and sines are multiplied by it (YaRN, LongRoPE); finite; 0: 1; unless          *
                                    * FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN                                                    */
  int32_t reserved_tail;           /* 0                                                                                      */
} fovea_rotary_options;

/* Rotary position embedding (Su et al. 2021): pair j of row i turns by the angle position(i) * base^(-2j/rotary_dim):
 *   (x, y) -> (x cos - y sin, x sin + y cos)
 * x F [...,L,D], rank 2 to 6, out F of the same shape, last axis contiguous; in place allowed when data, strides and
 * types are the same. A [B,L,H,D] layout is [B,H,L,D] with other strides. Angles are reduced in float64: before it is
 * rounded to its type, each of a pair is within 4 * 2^-24 (|x| + |y|) of the formula up to angles of 10^6, and within
 * 5e-7 (|x| + |y|) more up to 2^30; with attention_factor a, within |a| times that and 2^-24 |a| (|x| + |y|); with cosines
 * and sines given, within 4 * 2^-24 |a| (|x cos| + |y sin|), and likewise the other. options may be NULL. */
FOVEA_API fovea_status fovea_rotary(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                                    const fovea_rotary_options *options);

/* How frequencies are stretched for contexts longer than those a model was first trained with. f(j) is base^(-2j/d). */
enum {
  FOVEA_FREQUENCIES_PLAIN = 0,    /* f(j)                                                             Su et al. 2021         */
  FOVEA_FREQUENCIES_LINEAR = 1,   /* f(j) / factor                                                    Chen et al. 2023       */
  FOVEA_FREQUENCIES_DYNAMIC = 2,  /* f(j) of another base: base (factor n / original_length - factor + 1)^(d/(d-2)), n the    *
                                   * larger of length and original_length          "dynamic NTK" in Peng et al. 2023, app. B  */
  FOVEA_FREQUENCIES_YARN = 3,     /* f(j) (1 - r + r / factor), r = (j - low) / (high - low) in [0,1], low and high the pairs *
                                   * that turn fast_rotations and slow_rotations times in original_length:                   *
                                   * d ln(original_length / (2 pi rotations)) / (2 ln base), rounded down and up to whole    *
                                   * pairs, at least 0 and at most d - 1                              Peng et al. 2023       */
  FOVEA_FREQUENCIES_LONGROPE = 4, /* f(j) / long_factors[j] if length > original_length, else / short_factors[j]             *
                                   *                                                                  Ding et al. 2024       */
  FOVEA_FREQUENCIES_LLAMA3 = 5    /* f(j) ((1 - s) / factor + s), s = (t - low_frequency_factor) / (high_frequency_factor -  *
                                   * low_frequency_factor) in [0,1], t = original_length f(j) / (2 pi), the turns in          *
                                   * original_length                                                  Llama 3.1, its code    */
};

/* Bits of fovea_rotary_frequencies_options.flags */
enum {
  FOVEA_YARN_UNROUNDED = 1 /* low and high of YaRN are not rounded to whole pairs ("truncate": false)                        */
};

/* A member that another kind takes is 0 or NULL. */
typedef struct fovea_rotary_frequencies_options {
  size_t struct_size;
  uint32_t flags;              /* FOVEA_YARN_*                                                                               */
  int32_t kind;                /* FOVEA_FREQUENCIES_*                                                                        */
  float base;                  /* "theta", > 1 and finite                                                                    */
  float factor;                /* of all kinds but PLAIN: how many times longer the context is; > 0 and finite               */
  int64_t original_length;     /* of all kinds but PLAIN and LINEAR: the context before, 2 to 2^30                           */
  int64_t length;              /* of DYNAMIC and LONGROPE: of the sequence as it is now, 0 to 2^30; 0: original_length       */
  float low_frequency_factor;  /* of LLAMA3: >= 0                                                                            */
  float high_frequency_factor; /* of LLAMA3: finite, above low_frequency_factor                                              */
  float fast_rotations;        /* of YARN: "beta_fast", > 0 and finite; 32 where a configuration has none                    */
  float slow_rotations;        /* of YARN: "beta_slow", > 0 and finite; 1 where a configuration has none                     */
  float mscale;                /* of YARN: >= 0 and finite, for attention_factor                                             */
  float mscale_all_dim;        /* of YARN: likewise                                                                          */
  const fovea_tensor *short_factors; /* of LONGROPE: F32 [P], any stride, > 0 and finite                                     */
  const fovea_tensor *long_factors;  /* of LONGROPE: likewise                                                                */
} fovea_rotary_frequencies_options;

/* The frequencies and the attention factor that a model's configuration asks for, for fovea_rotary_options: Llama 3.1's,
 * YaRN's, LongRoPE's (Phi-3), ..., computed in float64 and rounded once.
 *   frequencies output F32 [P], any stride, d = 2 P being rotary_dim   attention_factor output F32 [1], or NULL
 * attention_factor is 1, but of YARN, for a factor above 1, (1 + m ln factor / 10) / (1 + a ln factor / 10), m being mscale and
 * a mscale_all_dim if neither is 0, else 1 and 0; and of LONGROPE, likewise, sqrt(1 + ln factor / ln original_length). A
 * configuration that names another takes precedence. Zeros put at the end of the result leave those pairs as they are
 * ("proportional"). */
FOVEA_API fovea_status fovea_rotary_frequencies(const fovea_tensor *frequencies, const fovea_tensor *attention_factor,
                                                const fovea_rotary_frequencies_options *options);

/* The slopes of ALiBi (Press, Smith and Lewis 2022) for H heads: 2^(-8 (h+1) / H) for H a power of two; else those of
 * the power of two P below, then every other one of 2P heads. out F32 [H], any stride. */
FOVEA_API fovea_status fovea_alibi_slopes(const fovea_tensor *out);

/* ---- linear layers ------------------------------------------------------------------------------------------------- */

/* How a weight matrix lies in memory. */
enum {
  FOVEA_WEIGHT_OUT_IN = 0, /* [out,in], a row for each output: torch.nn.Linear and most model files  */
  FOVEA_WEIGHT_IN_OUT = 1  /* [in,out], a row for each input: the right-hand side of x W             */
};

enum {
  FOVEA_ACTIVATION_NONE = 0,
  FOVEA_ACTIVATION_RELU = 1,      /* max(x, 0)                                                                          */
  FOVEA_ACTIVATION_GELU = 2,      /* x (1 + erf(x / sqrt 2)) / 2           Hendrycks and Gimpel 2016                    */
  FOVEA_ACTIVATION_GELU_TANH = 3, /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2       the same paper's approximation */
  FOVEA_ACTIVATION_SILU = 4       /* x / (1 + e^-x)                        Elfwing, Uchibe and Doya 2018                */
};

/* Largest error: GELU 7 ulp, GELU_TANH and SILU 3.5 ulp; a result smaller than 1e-35 in magnitude may come out as 0. NaN
 * stays NaN; at -infinity all but NONE give 0. */

/* out = activation(x), element by element; activation is a FOVEA_ACTIVATION_*. x and out F, rank 1 to 6, last axis contiguous,
 * same shapes; in place allowed when data, strides and types are the same. */
FOVEA_API fovea_status fovea_activation(const fovea_context *context, int32_t activation, const fovea_tensor *x,
                                        const fovea_tensor *out);

typedef struct fovea_linear_pack_options {
  size_t struct_size;
  int32_t layout;    /* FOVEA_WEIGHT_*    */
  int32_t precision; /* FOVEA_PRECISION_* */
} fovea_linear_pack_options;

/* fovea_matmul_pack for a weight in either layout. weight F32, F16 or BF16, rank 2, any strides. options may be NULL:
 * [out,in]. */
FOVEA_API fovea_status fovea_linear_pack(const fovea_context *context, const fovea_tensor *weight,
                                         const fovea_linear_pack_options *options, fovea_packed_matrix **packed);

typedef struct fovea_linear_options {
  size_t struct_size;
  int32_t activation;           /* FOVEA_ACTIVATION_*                                                                  */
  int32_t precision;            /* FOVEA_PRECISION_*, of F32 x: at medium it is rounded to BF16 to meet a W packed as  *
                                 * that, where the processor multiplies it; W is as it was packed                      */
  const fovea_tensor *bias;     /* F32 [N], any stride                                                                 */
  const fovea_tensor *residual; /* F32, out's shape, last axis contiguous, added last. May be out itself (same data,   *
                                 * type, shape and strides): the layer is then added to it                             */
  const fovea_tensor *multiplier; /* F32, out's shape, last axis contiguous: of what the activation gave, as in a gated  *
                                   * pair silu(x W) * (x V) (Shazeer 2020, GLU Variants Improve Transformer). May be  *
                                   * out itself likewise                                                               */
} fovea_linear_options;

/* out = activation(x W + bias) * multiplier + residual, in one pass over out and without allocating, but for a bias that is not
 * contiguous and rows of x that fovea_matmul_packed would copy.
 *   x F32 [M,K] or [B,M,K], any strides   W [K,N], packed   out F32 [M,N] or [B,M,N], last axis contiguous
 * options may be NULL: out = x W, with the bits of fovea_matmul. The context must run the instruction set that weight
 * was packed for. Each of x, bias, multiplier, residual and out may as well be F16 or BF16, in any mix with W, as in fovea_matmul:
 * everything after the product, too, is computed in float32. */
FOVEA_API fovea_status fovea_linear(const fovea_context *context, const fovea_tensor *x,
                                    const fovea_packed_matrix *weight, const fovea_tensor *out,
                                    const fovea_linear_options *options);

/* ---- normalisation ------------------------------------------------------------------------------------------------- */

/* Bits of fovea_layer_norm_options.flags and of fovea_rms_norm_options.flags */
enum {
  FOVEA_NORM_EPSILON_GIVEN = 1,  /* epsilon is meant as it stands, 0 too: a row of equal numbers, of zeros in RMS       *
                                  * normalisation, then gives NaN                                                       */
  FOVEA_NORM_WEIGHT_FROM_ONE = 2 /* of fovea_rms_norm_options alone: 1 + weight takes weight's place (Gemma); without a *
                                  * weight nothing changes                                                              */
};

typedef struct fovea_layer_norm_options {
  size_t struct_size;
  float epsilon;                /* finite, >= 0; 0: 1e-5; unless FOVEA_NORM_EPSILON_GIVEN                              */
  uint32_t flags;               /* FOVEA_NORM_*, not FOVEA_NORM_WEIGHT_FROM_ONE                                        */
  const fovea_tensor *weight;   /* F [E], contiguous; NULL: ones                                                       */
  const fovea_tensor *bias;     /* F [E], contiguous; NULL: zeros                                                      */
  const fovea_tensor *residual; /* F, x's shape, last axis contiguous: x + residual is normalised                      */
  const fovea_tensor *sum;      /* output F, x's shape, last axis contiguous: x + residual, as a layer that comes later  *
                                 * wants it; with residual only                                                        */
  const fovea_tensor *mean;     /* output F32 [...], x's axes without the last, any strides: mean(y)                   */
  const fovea_tensor *inverse_deviation; /* output F32, likewise: 1 / sqrt(variance(y) + epsilon)                      */
} fovea_layer_norm_options;

/* Layer normalisation (Ba, Kiros and Hinton 2016) over the last axis, of y = x + residual:
 *   out = (y - mean(y)) / sqrt(variance(y) + epsilon) * weight + bias,  variance over E, not E - 1
 * x F [...,E], rank 1 to 6, E >= 1, out F of the same shape; in place allowed when data, strides and types are the same,
 * for residual too, and so for sum: one of the two may be x and the other residual. options may be NULL. Where all tensors
 * given, but mean and inverse_deviation, are F16, or all BF16: off by at most 0.53 of the type's last place, beside float32's
 * rounding errors in y - mean(y), in the product with weight and in the sum with bias. Sum is x + residual in float32,
 * rounded once; what is normalised is not rounded to sum's type. */
FOVEA_API fovea_status fovea_layer_norm(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                                        const fovea_layer_norm_options *options);

typedef struct fovea_rms_norm_options {
  size_t struct_size;
  float epsilon;                /* finite, >= 0; 0: 1e-5; unless FOVEA_NORM_EPSILON_GIVEN                              */
  uint32_t flags;               /* FOVEA_NORM_*                                                                        */
  const fovea_tensor *weight;   /* F [E], contiguous; NULL: ones                                                       */
  const fovea_tensor *residual; /* F, x's shape, last axis contiguous: x + residual is normalised                      */
  const fovea_tensor *sum;      /* output F, as in fovea_layer_norm_options                                            */
  const fovea_tensor *inverse_deviation; /* output F32 [...], likewise: 1 / sqrt(mean(y^2) + epsilon)                  */
} fovea_rms_norm_options;

/* Normalisation by the root of the mean square (Zhang and Sennrich 2019) over the last axis, of y = x + residual:
 *   out = y / sqrt(mean(y^2) + epsilon) * weight
 * Tensors, in place, sum and what F16 and BF16 are off by as in fovea_layer_norm, without a mean and a bias. options may
 * be NULL. */
FOVEA_API fovea_status fovea_rms_norm(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                                      const fovea_rms_norm_options *options);

/* ---- multi-head attention ------------------------------------------------------------------------------------------ */

/* The weights of a multi-head attention layer, packed for the kernel. Immutable and shareable; holds its own copies,
 * for the instruction set of the context it was made with. */
typedef struct fovea_mha_weights fovea_mha_weights;

/* The parameters as a model has them. Weights are F32 of rank 2, any strides; [out,in] as written here, or the other
 * way round with FOVEA_WEIGHT_IN_OUT. Biases are F32 of rank 1, any stride, NULL for none. Each may as well be F16 or
 * BF16; weights keep their types when they are packed. */
typedef struct fovea_mha_parameters {
  size_t struct_size;
  int32_t layout;                   /* FOVEA_WEIGHT_*, of all weights                                                   */
  int32_t precision;                /* FOVEA_PRECISION_*, of packing them, as fovea_linear_pack does                    */
  int64_t heads;                    /* H, at least 1                                                                    */
  int64_t kv_heads;                 /* Hkv, a divisor of H; 0: H                                                        */
  const fovea_tensor *query_weight; /* [H D, Eq]                                                                        */
  const fovea_tensor *key_weight;   /* [Hkv Dk, Ek]; Dk is D unless the score function takes another                    */
  const fovea_tensor *value_weight; /* [Hkv Dv, Ev]                                                                     */
  const fovea_tensor *in_weight;    /* [(H + 2 Hkv) D, E], the three in one as nn.MultiheadAttention has them (in_proj), *
                                     * instead of them                                                                  */
  const fovea_tensor *out_weight;   /* [Eo, H Dv]; NULL: none, out is the heads side by side, Eo = H Dv                  */
  const fovea_tensor *query_bias;   /* [H D]                                                                            */
  const fovea_tensor *key_bias;     /* [Hkv Dk]                                                                         */
  const fovea_tensor *value_bias;   /* [Hkv Dv]                                                                         */
  const fovea_tensor *in_bias;      /* [(H + 2 Hkv) D], together with in_weight                                         */
  const fovea_tensor *out_bias;     /* [Eo], together with out_weight                                                   */
} fovea_mha_parameters;

FOVEA_API fovea_status fovea_mha_weights_create(const fovea_context *context, const fovea_mha_parameters *parameters,
                                                fovea_mha_weights **weights);

/* NULL is allowed. No call may still be using it. */
FOVEA_API void fovea_mha_weights_destroy(fovea_mha_weights *weights);

/* Bytes held; 0 for NULL. */
FOVEA_API size_t fovea_mha_weights_size(const fovea_mha_weights *weights);

/* Bits of fovea_mha_options.flags */
enum {
  FOVEA_MHA_KEEP_PAGES = 1 /* attend to what the pages hold and append nothing; key and value inputs are NULL           */
};

typedef struct fovea_mha_options {
  size_t struct_size;
  uint32_t flags;                           /* FOVEA_MHA_*                                                              */
  int32_t precision;                        /* FOVEA_PRECISION_*, of what is F32 but the weights, and of attention      *
                                             * unless attention.precision says otherwise                                */
  const fovea_attention_options *attention; /* scale, masks, weights, ...: as in fovea_attention, for query [B,H,Q,D].  *
                                             * NULL: defaults                                                           */
  const fovea_score *score;                 /* how heads compare; its parameters serve all heads. NULL: scaled dot      */
  const fovea_rotary_options *rotary;       /* turns projected queries and keys; needs Dk = D. Row i of either stands    *
                                             * at offset + i; or at positions[i], which needs as many queries as keys,  *
                                             * as cosines of rows do. With a schedule, unless positions or cosines of   *
                                             * rows are given, at fovea_schedule_positions, and offset is 0. NULL: none */
  const struct fovea_schedule *schedule;    /* rows are the tokens of its present step: query [T,Eq], out [T,Eo]. NULL:  *
                                             * none. See below                                                          */
  const fovea_tensor *key_pages;            /* this layer's pages, of a schedule that was made for pages: projected keys  *
                                             * and values are appended to them as fovea_schedule_append does, then      *
                                             * attended                                                                 */
  const fovea_tensor *value_pages;
  const fovea_tensor *key_scales;           /* of pages of I8, or U8; else NULL                                         */
  const fovea_tensor *value_scales;
  const fovea_tensor *kept;                 /* output F32 [n], contiguous, n = B Q H (D + Dv + 1) + B K Hkv (Dk + Dv):     *
                                             * queries, keys and values as they were attended to, what attention gave and *
                                             * its log-sum-exp, in an order of the library's own. An input of             *
                                             * fovea_multi_head_attention_backward, which then computes none of it again. *
                                             * Tensors between the steps are F32 with it. Not with a schedule, pages or a *
                                             * plan. NULL: nothing is kept                                                */
} fovea_mha_options;

/* Multi-head attention (Vaswani et al. 2017):
 *   out = concat_h( attention(x_q Wq_h, x_k Wk_h, x_v Wv_h) ) Wo,  biases added after each product
 *   query F32 [B,Q,Eq]   key F32 [B,K,Ek]   value F32 [B,K,Ev]   out F32 [B,Q,Eo]
 * or all of rank 2 (one sequence), last axis contiguous. key NULL: query (self-attention, one product for all three
 * projections); value NULL: key. The heads are attended to as fovea_attention does with [B,H,Q,D] tensors: the same
 * bits as fovea_linear, fovea_rotary, fovea_attention and fovea_linear one after the other, with F32 tensors between them.
 * Each of query, key, value and out may as well be F16 or BF16, in any mix with the weights. Where query, key and value all
 * are BF16 and the processor has products of it, the tensors between the steps are BF16 too: each rounds its numbers by at
 * most 2^-8 of their size. At medium precision F32 inputs do as well: then
 * each of inputs, weights and tensors between the steps is rounded so.
 * With a schedule, sequences of different lengths go through the layer at once, without padding: attention is the schedule's,
 * of the dot product, and tensors between the steps have its query's type, which must be its out's and, packed, its keys' and
 * values'. options.score is NULL; of options.attention, NULL too if the schedule has none of them, only alibi_slopes and sinks
 * are set. After an error out and the pages are as before.
 * Scratch memory, rows x (H D + Hkv Dk + Hkv Dv + H Dv) floats and copies of rows of another type than a product reads,
 * comes from the context. */
FOVEA_API fovea_status fovea_multi_head_attention(const fovea_context *context, const fovea_mha_weights *weights,
                                                  const fovea_tensor *query, const fovea_tensor *key,
                                                  const fovea_tensor *value, const fovea_tensor *out,
                                                  const fovea_mha_options *options);

/* A call of multi-head attention with everything but the data decided. Immutable; any number of threads may run one plan at
 * once, each with its own workspace. */
typedef struct fovea_mha_plan fovea_mha_plan;

/* Plans the call that fovea_multi_head_attention would make. The tensors' data pointers are not read and may be NULL, but for
 * those of options.rotary: these have to stay as long as the plan, and so have weights, the context and options.schedule.
 * With a schedule query and out are for the most tokens that a step may have, and each run is of its present step. */
FOVEA_API fovea_status fovea_mha_plan_create(const fovea_context *context, const fovea_mha_weights *weights,
                                             const fovea_tensor *query, const fovea_tensor *key,
                                             const fovea_tensor *value, const fovea_tensor *out,
                                             const fovea_mha_options *options, fovea_mha_plan **plan);

/* NULL is allowed. No call may still be using the plan. */
FOVEA_API void fovea_mha_plan_destroy(fovea_mha_plan *plan);

/* Bytes of scratch memory that a run needs, with a schedule one of its present step; 0 for NULL. */
FOVEA_API size_t fovea_mha_plan_workspace_size(const fovea_mha_plan *plan);

/* The data pointers of a planned run, in the layouts that were planned. A pointer whose tensor was not in the plan must be
 * NULL. */
typedef struct fovea_mha_buffers {
  size_t struct_size;
  const void *query;
  const void *key;
  const void *value;
  void *out;
  void *key_pages;
  void *value_pages;
  void *key_scales;
  void *value_scales;
  const fovea_attention_buffers *attention; /* of the tensors in options.attention and options.score: its query, key, value *
                                             * and out are NULL. NULL: there are none                                       */
} fovea_mha_buffers;

/* Runs a plan without allocating: the bits of fovea_multi_head_attention. workspace: fovea_mha_plan_workspace_size(plan) bytes,
 * any alignment, not shared with a run at the same time. */
FOVEA_API fovea_status fovea_mha_run(const fovea_mha_plan *plan, const fovea_mha_buffers *buffers, void *workspace,
                                     size_t workspace_size);

/* The same with weights that are used once: packs them, computes, forgets them. */
FOVEA_API fovea_status fovea_multi_head_attention_once(const fovea_context *context,
                                                       const fovea_mha_parameters *parameters,
                                                       const fovea_tensor *query, const fovea_tensor *key,
                                                       const fovea_tensor *value, const fovea_tensor *out,
                                                       const fovea_mha_options *options);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_LAYERS_H */
