/* fovea: attention with any score function, keys prepared for it, and kernel regression. Part of fovea.h, whose
 * conventions hold here too; include that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h> /* before the guard: it includes this one where layers.h can use it */
#ifndef FOVEA_SCORES_H
#define FOVEA_SCORES_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- score functions ----------------------------------------------------------------------------------------------- */

/* How a query and a key are compared. Attention with any of these is fovea_attention; with the scaled dot product it is
 * fovea_sdpa, under another name. Everything else (masks, valid lengths, empty rows, log-sum-exp, returned weights,
 * dropout, plans, strides, threads) is the same for all. No function makes a tensor of B x Q x K, let alone B x Q x K x
 * hidden. */
enum {
  FOVEA_SCORE_DOT = 0,      /* q . k                                              Vaswani et al. 2017                 */
  FOVEA_SCORE_BILINEAR = 1, /* q^T W k                                            Luong, Pham and Manning 2015        */
  FOVEA_SCORE_ADDITIVE = 2, /* v . tanh(Wq q + Wk k)                              Bahdanau, Cho and Bengio 2015       */
  FOVEA_SCORE_CONCAT = 3,   /* v . tanh(W [q; k] + b)                             Luong, Pham and Manning 2015        */
  FOVEA_SCORE_GAUSSIAN = 4  /* -|q - k|^2 / (2 sigma^2)                           Nadaraya 1964, Watson 1964          */
};

/* The parameters of a score function; those of other kinds must be NULL or 0. Weights are laid out [out,in], have any
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
 * BILINEAR may give NaN or an infinity: either side may be the one that is projected. */
typedef struct fovea_score {
  size_t struct_size;
  int32_t kind;     /* FOVEA_SCORE_*                                                                                    */
  float sigma;      /* GAUSSIAN: the width; 0 when sigmas is given                                                      */
  const fovea_tensor *query_weight;
  const fovea_tensor *key_weight;
  const fovea_tensor *weight;
  const fovea_tensor *bias;
  const fovea_tensor *score_vector;
  const fovea_tensor *sigmas; /* GAUSSIAN: a width for each query head, F32 [H]                                         */
} fovea_score;

/* Attention with any score function. As fovea_sdpa, but for key F32 [B,Hkv,K,Dk] whose size may differ from query's
 * [B,H,Q,Dq]. score NULL: the scaled dot product. A score function's parameters may as well be F16 or BF16, in any mix, but
 * sigmas: the bits that F32 parameters of these numbers give (unless "amx" would project those on tiles). But where a weight
 * and the rows it projects are BF16, of an even number of features, and the processor has products of that, their sums are
 * as exact as float32's in another order, and subnormal numbers count as 0 in them. Keys and values of I8, and values of
 * U8, are for the scaled dot product and BILINEAR, which then projects queries; its key_scales have the groups of Dk. */
FOVEA_API fovea_status fovea_attention(const fovea_context *context, const fovea_score *score,
                                       const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                       const fovea_tensor *out, const fovea_attention_options *options);

/* Kept projections: what ADDITIVE and CONCAT make of queries and keys, for fovea_attention_backward, which else makes it again.
 *   options.projected_query [B,H,Q,h]   Wq q, of CONCAT Wq q + b      options.projected_key [B,Hkv,K,h]   Wk k
 * CONCAT's W is [Wq, Wk]; a score is v . tanh of a sum of two such rows. F32, of query's rank, h being as many as
 * score_vector has, last axes contiguous. fovea_attention writes them, its backward pass reads them, and each may be given
 * alone. Results and gradients have the bits that they have without them; where "amx" would project on tiles (see
 * FOVEA_QUERY_INVARIANT) gradients are those of the projections that were kept. Rows of keys behind every valid length of their
 * batch entry, or behind the last key of mask or bias, and of all keys where there are no queries, are neither written nor
 * read. With other score functions or prepared keys: FOVEA_BAD_VALUE. */

/* Plans the call that fovea_attention would make. No data pointer is read, and all may be NULL, but sigma is. The
 * workspace holds the projections: (B H Q + B Hkv K) x h floats for ADDITIVE and CONCAT, the smaller of B H Q x Dk and
 * B Hkv K x Dq for BILINEAR, at most B Hkv K for GAUSSIAN, and the points it copies; and the weights in the order that
 * the kernel reads, which each run makes anew: h (Dq + Dk) or Dq Dk floats, h and Dk rounded up to a multiple of 64 at
 * most, with "amx" two and a half times that. Keys behind every valid length of their batch entry are not projected, in
 * sequences of 32 keys or more. */
FOVEA_API fovea_status fovea_attention_plan_create(const fovea_context *context, const fovea_score *score,
                                                   const fovea_tensor *query, const fovea_tensor *key,
                                                   const fovea_tensor *value, const fovea_tensor *out,
                                                   const fovea_attention_options *options, fovea_plan **plan);

/* Keys that are attended again and again (a decoder asks the same encoder states at every step), kept in the form that
 * the kernel reads: projected, and for ADDITIVE and CONCAT exponentiated. Holds copies of the score's parameters too.
 * One call at a time may append or truncate, and none may use the keys meanwhile; any number may attend at once. */
typedef struct fovea_prepared_keys fovea_prepared_keys;

typedef struct fovea_prepared_keys_sizes {
  size_t struct_size;
  int64_t batch;     /* B, 0 to 2^30                                                                                    */
  int64_t kv_heads;  /* Hkv, 1 to 2^30                                                                                  */
  int64_t capacity;  /* keys of each sequence, 0 to 2^30                                                                */
  int64_t query_dim; /* Dq, 1 to 1024: CONCAT's weight does not tell the two apart                                      */
  int64_t key_dim;   /* Dk, 1 to 1024                                                                                   */
  fovea_dtype dtype; /* FOVEA_F32; for BILINEAR FOVEA_F16 or FOVEA_BF16, too; 0: FOVEA_F32                              */
  int32_t reserved;  /* 0                                                                                               */
} fovea_prepared_keys_sizes;

/* Room for keys of these sizes, none of them there yet. score: ADDITIVE, CONCAT or BILINEAR; its data is copied.
 * BILINEAR's keys are projected ones, which may be kept in 16 bits: half the memory, each number rounded once. Those of
 * ADDITIVE and CONCAT are factors of exponentials, whose errors no softmax evens out, and stay in float32. The keys serve contexts of the instruction set they were made with; another one: FOVEA_BAD_VALUE. */
FOVEA_API fovea_status fovea_prepared_keys_create(const fovea_context *context, const fovea_score *score,
                                                  const fovea_prepared_keys_sizes *sizes, fovea_prepared_keys **keys);

/* Appends key [B,Hkv,n,Dk] (or [B,n,Dk], or [n,Dk]), F32, F16 or BF16, to every sequence. Past the capacity: FOVEA_BAD_SHAPE, and
 * nothing is appended. */
FOVEA_API fovea_status fovea_prepared_keys_append(const fovea_context *context, fovea_prepared_keys *keys,
                                                  const fovea_tensor *key);

/* Forgets the keys from `length` on; length in [0, present length]. */
FOVEA_API fovea_status fovea_prepared_keys_truncate(fovea_prepared_keys *keys, int64_t length);

/* How many keys each sequence holds; 0 for NULL. */
FOVEA_API int64_t fovea_prepared_keys_length(const fovea_prepared_keys *keys);

/* Bytes held; 0 for NULL. */
FOVEA_API size_t fovea_prepared_keys_size(const fovea_prepared_keys *keys);

/* NULL is allowed. No call may still be using it. */
FOVEA_API void fovea_prepared_keys_destroy(fovea_prepared_keys *keys);

/* Attention over prepared keys: as fovea_attention with all the keys appended so far; with ADDITIVE and CONCAT the same
 * bits (BILINEAR's one-shot call may project the queries instead, and with "amx" large one-shot calls without
 * FOVEA_QUERY_INVARIANT project on tiles). value [B,Hkv,K,Dv] with K = fovea_prepared_keys_length(keys). */
FOVEA_API fovea_status fovea_attention_prepared(const fovea_context *context, const fovea_tensor *query,
                                                const fovea_prepared_keys *keys, const fovea_tensor *value,
                                                const fovea_tensor *out, const fovea_attention_options *options);

/* Plans the call that fovea_attention_prepared would make, as fovea_attention_plan_create does; buffers.key is NULL in
 * its runs. The plan keeps using the keys, which must outlive it. They may be truncated and appended to between runs: a
 * run attends what they hold then, but for as many keys as they held when it was planned (else FOVEA_BAD_SHAPE). The
 * workspace holds B H Q x h floats of projected queries for ADDITIVE and CONCAT. */
FOVEA_API fovea_status fovea_attention_prepared_plan_create(const fovea_context *context, const fovea_tensor *query,
                                                            const fovea_prepared_keys *keys, const fovea_tensor *value,
                                                            const fovea_tensor *out,
                                                            const fovea_attention_options *options, fovea_plan **plan);

typedef struct fovea_kernel_regression_options {
  size_t struct_size;
  uint32_t flags;               /* FOVEA_LEAVE_ONE_OUT: query i does not attend training input i; FOVEA_SIGMA_GIVEN      */
  float sigma;                  /* the kernel's width, > 0 and finite; 0: 1; unless FOVEA_SIGMA_GIVEN                    */
  const fovea_tensor *weights;  /* output F [Q,N], or NULL                                                              */
} fovea_kernel_regression_options;

/* Nadaraya-Watson regression with a Gaussian kernel:
 *   out_q = sum_i softmax_i( -|query_q - input_i|^2 / (2 sigma^2) ) target_i
 *   queries F [Q,D]   inputs F [N,D]   targets F [N,T]   out F [Q,T]   D and T in [1, 1024], Q and N at most 2^30
 * or queries, inputs of rank 1, [Q] and [N] (D = 1), and targets and out of rank 1, [N] and [Q] (T = 1). options may be
 * NULL. A query with no input to attend (N = 0, or N = 1 left out) gives 0. The textbook's learnable w is 1 / sigma. To
 * plan it, plan attention with GAUSSIAN: queries [Q,D], inputs [N,D] and targets [N,T] are its query, key and value. */
FOVEA_API fovea_status fovea_kernel_regression(const fovea_context *context, const fovea_tensor *queries,
                                               const fovea_tensor *inputs, const fovea_tensor *targets,
                                               const fovea_tensor *out,
                                               const fovea_kernel_regression_options *options);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_SCORES_H */
