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
 * inputs here; options.weights and scores are not looked at. All else is to be as it was.
 *
 * Weights are computed again from log-sum-exp, a tile at a time (Dao 2023): memory grows with Q (D + Dv) + K (D + Dv), never
 * with Q x K. The same bits for any number of threads, from call to call, and for a batch entry wherever it stands; with
 * FOVEA_QUERY_INVARIANT a query's own gradient has the same bits however many queries there are. All is float32 (sums that give
 * one number for each head, unit or width float64) and rounded once at the end; on all processors vectors compute it, products
 * of 16 bits are not used.
 *
 * A key that a query does not attend gets nothing from it, and the other way round, whatever they hold; rows with nothing to
 * attend have no gradient, under any policy of empty rows. NaN that is attended reaches the gradients that depend on it.
 * Keys and values of I8 have none: FOVEA_BAD_DTYPE. */
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

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_TRAINING_H */
