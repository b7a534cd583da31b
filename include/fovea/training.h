/* fovea: gradients, for training. Part of fovea.h, whose conventions hold here too; include that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fovea/fovea.h> /* before the guard: it includes this one where scores.h can use it */
#ifndef FOVEA_TRAINING_H
#define FOVEA_TRAINING_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients of attention ---------------------------------------------------------------------------------------- */

/* What a loss changes by, for each element of what a call to attention gave, and for each of what it took. Layouts are those
 * of the tensors themselves, element types and strides each its own. A gradient that is NULL is not wanted, and what only it
 * needs is not computed. Gradients are written, not added to.
 *
 * With p the weights before dropout, d the factor of dropout (0 or 1 / (1 - dropout)) and s the score times the scale:
 *   dp = d (out . value + weights)          m = sum_j p_j dp_j
 *   dl = p (dp - m + log_sum_exp)           of a logit
 *   value = sum_q d p out                   bias = dl
 *   alibi_slopes = -sum dl |position - j|   sinks = -sum_q p_sink (m - log_sum_exp)
 *   ds = dl (1 - tanh^2(s / softcap))       query, key and the score's parameters: scale ds times the score's derivative
 * in float32, with m taken from the forward call's out. */
typedef struct fovea_attention_gradients {
  size_t struct_size;
  const fovea_tensor *out;          /* F [B,H,Q,Dv]: what the loss changes by for each element of out. Must be given       */
  const fovea_tensor *log_sum_exp;  /* F32 [B,H,Q], any strides: likewise; NULL: 0                                        */
  const fovea_tensor *weights;      /* F [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS: of weights as they are or would *
                                     * be returned; NULL: 0                                                               */
  const fovea_tensor *query;        /* output F [B,H,Q,Dq]                                                                */
  const fovea_tensor *key;          /* output F [B,Hkv,K,Dk]; query heads that share one are added up                     */
  const fovea_tensor *value;        /* output F [B,Hkv,K,Dv]; likewise                                                    */
  const fovea_tensor *bias;         /* output F [B,H,Q,K], with the sizes of options.bias: added up over axes of size 1   */
  const fovea_tensor *alibi_slopes; /* output F32 [H], any stride                                                         */
  const fovea_tensor *sinks;        /* output F32 [H], any stride                                                         */
  const fovea_tensor *query_weight; /* output F [h,Dq], any strides: ADDITIVE                                             */
  const fovea_tensor *key_weight;   /* output F [h,Dk], any strides: ADDITIVE                                             */
  const fovea_tensor *weight;       /* output F [Dq,Dk], or of CONCAT [h,Dq+Dk], any strides                              */
  const fovea_tensor *score_bias;   /* output F [h], any stride: CONCAT                                                   */
  const fovea_tensor *score_vector; /* output F [h], any stride: ADDITIVE, CONCAT                                         */
  const fovea_tensor *sigmas;       /* output F32 [H] where score.sigmas is given, [1] of score.sigma; any stride      */
} fovea_attention_gradients;

/* The backward pass of fovea_attention (score NULL: of fovea_sdpa): from its arguments, out and options.log_sum_exp as it left
 * them, and the gradients of its results, to those of its arguments. out and options.log_sum_exp, which must be given, are
 * inputs here; options.weights and scores are not looked at. All else is to be as it was. For ADDITIVE and CONCAT
 * options.projected_query and projected_key, where they are given, are inputs, too, as the forward call wrote them ("Kept
 * projections" in scores.h): what is there is not projected again.
 *
 * Weights are computed again from log-sum-exp, a tile at a time (Dao 2023): memory grows with Q (D + Dv) + K (D + Dv), never
 * with Q x K. The same bits for any number of threads, from call to call, and for a batch entry wherever it stands; with
 * FOVEA_QUERY_INVARIANT a query's own gradient has the same bits however many queries there are. All is float32 (sums that give
 * one number for each head, unit or width float64) and rounded once at the end; AMX's tiles are not used. But where query, key,
 * value and grad_out all are BF16, the score is a dot product, D and Dv are even, rows of key and of value are an even number of
 * elements apart and the processor has products of BF16 (AVX-512-BF16; fovea_plan_describe tells), d p and the gradients of
 * scores, scale ds, are rounded to BF16 before they meet rows: an error of at most 2^-8 of each term that is added up. Subnormal
 * numbers in such products count as 0.
 *
 * A key that a query does not attend gets nothing from it, and the other way round, whatever they hold; rows with nothing to
 * attend have no gradient, under any policy of empty rows. NaN that is attended reaches the gradients that depend on it.
 * Keys and values of I8, and values of U8, have none: FOVEA_BAD_DTYPE. */
FOVEA_API fovea_status fovea_attention_backward(const fovea_context *context, const fovea_score *score,
                                                const fovea_tensor *query, const fovea_tensor *key,
                                                const fovea_tensor *value, const fovea_tensor *out,
                                                const fovea_attention_options *options,
                                                const fovea_attention_gradients *gradients);

/* Plans the call that fovea_attention_backward would make; no data pointer is read. fovea_attention_run runs it, with the
 * gradients' data in the members of its buffers that begin with grad_; it reads buffers.out and buffers.log_sum_exp. The
 * workspace grows with threads x K (D + Dv), K being those of a task; where one head's work is shared, with up to 16 times
 * B H Q x D or, for few keys, B Hkv K (D + Dv); for score functions with weights it also holds the gradients of projected
 * queries and keys, and copies of what these were made of; never with Q x K. */
FOVEA_API fovea_status fovea_attention_backward_plan_create(const fovea_context *context, const fovea_score *score,
                                                            const fovea_tensor *query, const fovea_tensor *key,
                                                            const fovea_tensor *value, const fovea_tensor *out,
                                                            const fovea_attention_options *options,
                                                            const fovea_attention_gradients *gradients,
                                                            fovea_plan **plan);

/* ---- gradients of everything else ---------------------------------------------------------------------------------- */

/* The backward passes of what is not attention alone: from a function's arguments, and what the loss changes by for each
 * element of its results, to what it changes by for each element of its arguments. Each gradient has an element type of its
 * own. They are written, not added to; one that is NULL is not wanted, one of a tensor that is NULL is an error. Computed in
 * float32, sums over rows that are no products in float64, and rounded once; the same bits for any number of threads. Scratch
 * memory comes from the context. No output may share memory with another tensor, but where "in place" is said.
 *
 * Of others a backward pass is what there is already:
 *   fovea_matmul                   fovea_matmul: of grad_out and b^T for a, of a^T and grad_out for b (such views are strides)
 *   fovea_rotary                   itself, of grad_out, with FOVEA_ROTARY_INVERSE where it was not, and the other way round
 *   fovea_add_positional_encoding  itself, of grad_out, with FOVEA_ENCODING_DROPOUT_ALONE
 *   fovea_kernel_regression        fovea_attention_backward with GAUSSIAN: queries, inputs and targets are its query, key and
 *                                  value; for the textbook's w = 1 / sigma it is -sigma^2 times that of sigma
 * Prepared keys, schedules and pools are for inference: nothing goes back through them. */

/* grad_x = grad_out times activation's derivative at x; activation is a FOVEA_ACTIVATION_*. x, grad_out and grad_x F, rank 1 to
 * 6, last axis contiguous, same shapes; grad_x may be grad_out in place (same data, strides and type). RELU's derivative at 0
 * is 0; GELU's, GELU_TANH's and SILU's are off by at most 5e-7. */
FOVEA_API fovea_status fovea_activation_backward(const fovea_context *context, int32_t activation, const fovea_tensor *x,
                                                 const fovea_tensor *grad_out, const fovea_tensor *grad_x);

/* grad_x = out (grad_out - sum_k out grad_out) over the last axis, of fovea_masked_softmax's out and valid_lens; exactly 0 from
 * valid_lens on, whatever stands there. out, grad_out and grad_x F, shapes as there; grad_x may be grad_out in place. */
FOVEA_API fovea_status fovea_masked_softmax_backward(const fovea_context *context, const fovea_tensor *out,
                                                     const fovea_tensor *valid_lens, const fovea_tensor *grad_out,
                                                     const fovea_tensor *grad_x);

/* The same of fovea_softmax, over its axis; and of fovea_log_softmax, grad_x = grad_out - e^out sum_k grad_out. */
FOVEA_API fovea_status fovea_softmax_backward(const fovea_context *context, const fovea_tensor *out, int32_t axis,
                                              const fovea_tensor *grad_out, const fovea_tensor *grad_x);
FOVEA_API fovea_status fovea_log_softmax_backward(const fovea_context *context, const fovea_tensor *out, int32_t axis,
                                                  const fovea_tensor *grad_out, const fovea_tensor *grad_x);

typedef struct fovea_norm_gradients {
  size_t struct_size;
  const fovea_tensor *out;    /* F, x's shape, last axis contiguous: what the loss changes by for each element of out. Must   *
                               * be given                                                                                    */
  const fovea_tensor *sum;    /* F, likewise: for each element of options.sum, beside what it does through out; NULL: 0      */
  const fovea_tensor *x;      /* output F, likewise: of x, and of the residual, which is the same. May be out or sum in place */
  const fovea_tensor *weight; /* output F [E], contiguous                                                                    */
  const fovea_tensor *bias;   /* output F [E], contiguous: of fovea_layer_norm alone                                         */
} fovea_norm_gradients;

/* The backward pass of fovea_layer_norm. With z = (y - mean) r the normalised row, r = 1 / sqrt(variance + epsilon):
 *   x = r (g - mean(g) - z mean(g z)) + sum,  g = out weight       weight = sum over rows of out z       bias = of out
 * x and options as in the forward call; mean and deviation are computed again: options.sum, mean and inverse_deviation are not
 * looked at. */
FOVEA_API fovea_status fovea_layer_norm_backward(const fovea_context *context, const fovea_tensor *x,
                                                 const fovea_layer_norm_options *options,
                                                 const fovea_norm_gradients *gradients);

/* The backward pass of fovea_rms_norm: the same with 0 for all means but that of g z, and r = 1 / sqrt(mean(y^2) + epsilon). */
FOVEA_API fovea_status fovea_rms_norm_backward(const fovea_context *context, const fovea_tensor *x,
                                               const fovea_rms_norm_options *options,
                                               const fovea_norm_gradients *gradients);

typedef struct fovea_linear_gradients {
  size_t struct_size;
  const fovea_tensor *out;        /* F [M,N] or [B,M,N], last axis contiguous: what the loss changes by for each element of  *
                                   * out, and so for each of the residual. Must be given                                     */
  const fovea_tensor *x;          /* output F, x's shape, last axis contiguous                                               */
  const fovea_tensor *weight;     /* output F, weight's shape, last axis contiguous                                          */
  const fovea_tensor *bias;       /* output F [N], any stride                                                                */
  const fovea_tensor *multiplier; /* output F, out's shape, last axis contiguous                                             */
} fovea_linear_gradients;

/* The backward pass of fovea_linear, with the weight as the model has it, F of rank 2 with any strides, [N,K] for layout
 * FOVEA_WEIGHT_OUT_IN and [K,N] for FOVEA_WEIGHT_IN_OUT, M or B x M being the rows:
 *   h = out multiplier activation'(x W + bias)       x = h W^T       W = x^T h       bias = sum over rows of h
 *   multiplier = out activation(x W + bias)
 * x and options as in the forward call; its residual is not looked at, and its precision changes nothing. Products are
 * fovea_matmul's. x W is computed again where there is an activation, or the multiplier's gradient is wanted. Scratch memory:
 * with an activation or a multiplier rows x N floats; copies of x and out where their entries do not follow each other. */
FOVEA_API fovea_status fovea_linear_backward(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *weight,
                                             int32_t layout, const fovea_linear_options *options,
                                             const fovea_linear_gradients *gradients);

typedef struct fovea_merge_gradients {
  size_t struct_size;
  const fovea_tensor *out;         /* F [...,Dv]: what the loss changes by for each element of out. Must be given            */
  const fovea_tensor *log_sum_exp; /* F32 [...]: likewise; NULL: 0                                                           */
  const fovea_tensor *outs;        /* output F [S,...,Dv]                                                                    */
  const fovea_tensor *lses;        /* output F32 [S,...]                                                                     */
} fovea_merge_gradients;

/* The backward pass of fovea_merge_states. With w_s = exp(lse_s - log_sum_exp):
 *   outs_s = w_s out'       lses_s = w_s (out' . (outs_s - out) + log_sum_exp'),  ' being what the loss changes by
 * A part with log-sum-exp -infinity is not read and gets 0. */
FOVEA_API fovea_status fovea_merge_states_backward(const fovea_context *context, const fovea_tensor *outs,
                                                   const fovea_tensor *lses, const fovea_merge_gradients *gradients);

typedef struct fovea_mha_gradients {
  size_t struct_size;
  const fovea_tensor *out;          /* F [B,Q,Eo], of query's rank, last axis contiguous: what the loss changes by for each    *
                                     * element of out. Must be given                                                          */
  const fovea_tensor *query;        /* output F [B,Q,Eq], likewise; where key is NULL, of all that it is                      */
  const fovea_tensor *key;          /* output F [B,K,Ek], likewise; NULL where key is. Where value is NULL, of both           */
  const fovea_tensor *value;        /* output F [B,K,Ev], likewise; NULL where value is                                       */
  const fovea_tensor *query_weight; /* output F, of its shape in fovea_mha_parameters, last axis contiguous                   */
  const fovea_tensor *key_weight;   /* output F, likewise                                                                     */
  const fovea_tensor *value_weight; /* output F, likewise                                                                     */
  const fovea_tensor *in_weight;    /* output F, likewise                                                                     */
  const fovea_tensor *out_weight;   /* output F, likewise                                                                     */
  const fovea_tensor *query_bias;   /* output F, of its shape there, any stride                                               */
  const fovea_tensor *key_bias;     /* output F, likewise                                                                     */
  const fovea_tensor *value_bias;   /* output F, likewise                                                                     */
  const fovea_tensor *in_bias;      /* output F, likewise                                                                     */
  const fovea_tensor *out_bias;     /* output F, likewise                                                                     */
  const fovea_attention_gradients *attention; /* of what options.attention and options.score bring, and of what they return:  *
                                               * log_sum_exp, weights; its out, query, key and value are NULL. NULL: none     */
} fovea_mha_gradients;

/* The backward pass of fovea_multi_head_attention, for parameters as the model has them. The forward pass is computed again, so
 * nothing of it needs to be kept; but where options.kept is given it is what that call, of the same inputs, parameters and
 * options, has written there, and is read instead: the same bits, if its precision was the highest. log_sum_exp, weights,
 * scores, projected_query and projected_key of options.attention are not looked at. Between the steps are F32 tensors. options
 * has no schedule and no pages; precisions are not looked at. Scratch memory: rows x (H D + Hkv Dk + Hkv Dv + H Dv) floats,
 * without options.kept as much again and packed weights, and what attention and products need. A call that runs out of memory
 * may have written some of the gradients. */
FOVEA_API fovea_status fovea_multi_head_attention_backward(const fovea_context *context, const fovea_mha_parameters *parameters,
                                                           const fovea_tensor *query, const fovea_tensor *key,
                                                           const fovea_tensor *value, const fovea_mha_options *options,
                                                           const fovea_mha_gradients *gradients);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_TRAINING_H */
