/* fovea: attention over many sequences of different lengths at once, as servers of language models and encoders of batches of
 * texts have it: ragged queries, keys packed one sequence behind the other or kept in pages, and a pool of such pages. Part of
 * fovea.h, whose conventions hold here too; include that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FOVEA_SERVING_H
#define FOVEA_SERVING_H

#include <fovea/fovea.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- schedules ----------------------------------------------------------------------------------------------------- */

/* A plan of attention whose sequences change from step to step. It is made once for one kind of layer, with room for the most
 * that a step may bring; is set once a step; and runs once for each layer of that kind. One thread may set a schedule, and
 * none may use it meanwhile; once it is set, any number may run it at once, each with a workspace of its own. */
typedef struct fovea_schedule fovea_schedule;

/* The most that a step may bring. */
typedef struct fovea_schedule_limits {
  size_t struct_size;
  int64_t sequences; /* 1 to 2^20                                                                                      */
  int64_t key_len;   /* positions of one sequence, 1 to 2^30; 0: as many as key has                                    */
  int64_t page_ids;  /* of all sequences together, each with those that it shares, up to 2^30; 0: what sequences of    *
                      * key_len have, but at most four times key's pages. 0 for packed keys                            */
  int64_t workers;   /* threads of the caller's that share a run (fovea_schedule_run_tasks), up to 4096; 0: as many as  *
                      * fovea_context_threads                                                                          */
} fovea_schedule_limits;

/* Makes a schedule that no step has been set for: a run of it has nothing to do.
 *   query F [T,H,D], T the most tokens of a step   out F [T,H,Dv]
 *   key and value, packed: F [N,Hkv,D] and F [N,Hkv,Dv], N the most keys of a step; or
 *   key and value, in pages: F [P,Hkv,page,D] and F [P,Hkv,page,Dv], P pages of `page` positions each, page 1 to 2^20
 * in any strides but of the last axis, so that pages may lie as they do elsewhere. Data pointers are not read and may be NULL.
 * score may be NULL: the scaled dot product; over pages it is the only one. options may be NULL. Of its tensors, log_sum_exp is
 * F32 [T,H], and alibi_slopes and sinks are as ever; valid_lens, query_offsets, mask, bias, weights, scores, projected_query,
 * projected_key and dropout are not for schedules: FOVEA_BAD_OPTION. Positions are each sequence's own: by default its last
 * query faces its last key.
 * A sequence's result has the bits it has alone: they depend neither on its neighbours, nor on threads, page size or strides.
 * Where few queries leave its keys to several tasks, these begin at multiples of 576 positions.
 * With FOVEA_QUERY_INVARIANT keys are always taken so, and a query has the same bits however many there are: a prompt may come
 * in one step or in several. Then sequences that stand next to each other in a step and begin with the same page ids, 576
 * positions or more, read what they share once, which changes no bit. F32 is not rounded, whatever the precision. */
FOVEA_API fovea_status fovea_schedule_create(const fovea_context *context, const fovea_score *score,
                                             const fovea_tensor *query, const fovea_tensor *key,
                                             const fovea_tensor *value, const fovea_tensor *out,
                                             const fovea_attention_options *options,
                                             const fovea_schedule_limits *limits, fovea_schedule **schedule);

/* NULL is allowed. No call may still be using it. */
FOVEA_API void fovea_schedule_destroy(fovea_schedule *schedule);

/* The sequences of a step, S of them. Tensors are I32 or I64, any stride. */
typedef struct fovea_step {
  size_t struct_size;
  const fovea_tensor *query_starts; /* [S+1], from 0, never falling: sequence s has the tokens from query_starts[s] to       *
                                     * query_starts[s+1] - 1                                                                 */
  const fovea_tensor *key_starts;   /* [S+1], likewise, of packed keys; with pages NULL                                      */
  const fovea_tensor *key_lens;     /* [S]: positions of each sequence in its pages, those of this step's tokens included;   *
                                     * with packed keys NULL                                                                 */
  const fovea_tensor *page_ids;     /* [S,most], a row for each sequence: its pages in the order of positions, each in       *
                                     * [0, P), as many of them read as key_lens wants; or, with page_starts, [n]. Of pages   *
                                     * before a window's first key any may stand for those that have been given back         */
  const fovea_tensor *page_starts;  /* [S+1], from 0, never falling: sequence s has the page ids from page_starts[s] to      *
                                     * page_starts[s+1] - 1; NULL: page_ids has a row for each                               */
  const fovea_tensor *tree;         /* [T], I64: draft tokens. Bit j of a token's number: it attends the sequence's token j   *
                                     * of this step, whose key stands at key_len - (its tokens) + j; of the keys before, all.  *
                                     * 0 for every token of a sequence: as without. Of up to 64 tokens each; not with windows, *
                                     * ALiBi or leave-one-out. NULL: none                                                     */
} fovea_step;

/* Sets a step: checks it, copies it, and cuts it into tasks. Nothing is allocated. On an error, which names the sequence and
 * the entry, the schedule is as before. A step may have no sequences, and sequences no tokens or no keys. Beside what tensors
 * can do wrong: FOVEA_BAD_VALUE (starts that fall, lengths past the pages given, a page id out of range), FOVEA_BAD_SHAPE (more
 * than the schedule was made for). */
FOVEA_API fovea_status fovea_schedule_set(fovea_schedule *schedule, const fovea_step *step);

/* Where each token of the present step stands in its sequence, I32 [T], for fovea_rotary's positions: key_len - (its tokens) + i,
 * or i where a sequence has fewer keys than tokens. In memory of the schedule, until the next step is set. Of rank -1 for NULL. */
FOVEA_API fovea_tensor fovea_schedule_positions(const fovea_schedule *schedule);

/* Bytes of scratch memory that a run of the present step needs; 0 for NULL. */
FOVEA_API size_t fovea_schedule_workspace_size(const fovea_schedule *schedule);

/* As fovea_plan_describe, of the present step: "op=ragged isa=avx512 sequences=8 tokens=519 ...". */
FOVEA_API size_t fovea_schedule_describe(const fovea_schedule *schedule, char *text, size_t size);

/* Attends for the present step, without allocating: one layer's query, key, value and out, and what else the schedule was made
 * with. Tokens of no sequence are not written. workspace as in fovea_attention_run; or NULL with a workspace_size of 0: scratch
 * memory comes from the context. */
FOVEA_API fovea_status fovea_schedule_run(const fovea_schedule *schedule, const fovea_attention_buffers *buffers,
                                          void *workspace, size_t workspace_size);

/* A run shared among the caller's own threads, for engines whose threads all stand in a graph: each phase is some tasks, which
 * may run in any order; the next phase starts when all of them are done, which is the caller's to see to. The same bits as
 * fovea_schedule_run. 0 for NULL. */
FOVEA_API int64_t fovea_schedule_phases(const fovea_schedule *schedule);
FOVEA_API int64_t fovea_schedule_tasks(const fovea_schedule *schedule, int64_t phase);

/* Tasks [begin, end) of a phase on the calling thread. Threads that run at once share buffers and workspace, and have each a
 * `worker` of its own, from 0 to limits.workers - 1. */
FOVEA_API fovea_status fovea_schedule_run_tasks(const fovea_schedule *schedule, const fovea_attention_buffers *buffers,
                                                void *workspace, size_t workspace_size, int64_t phase, int64_t begin,
                                                int64_t end, int64_t worker);

typedef struct fovea_append_options {
  size_t struct_size;
  const struct fovea_rotary_options *rotary; /* turns keys on the way, as fovea_rotary does: at fovea_schedule_positions    *
                                              * (and offset 0), unless positions or cosines of rows are given. NULL: none  */
  const fovea_tensor *key_scales;            /* output: the scales of I8 key_pages, as the schedule was made with; else    *
                                              * NULL                                                                       */
  const fovea_tensor *value_scales;          /* likewise of I8 or U8 value_pages                                           */
} fovea_append_options;

/* Writes one layer's new keys and values into its pages: token i of a sequence goes to position
 * key_len - (its tokens) + i.
 *   key F [T,Hkv,D], value F [T,Hkv,Dv]: the step's tokens, T at least as many
 *   key_pages, value_pages: the layer's pages, as the schedule was made with
 *   value and value_pages may both be NULL: latent attention, whose values are the first Dv features of keys' rows: value was
 *   planned as a view of key's memory, and a run has one pointer for both
 * Kept bit by bit where the types are the same, rounded once to another F type, to nearest, ties to even; and to I8 or U8 as
 * fovea_quantize does. A sequence must have as many keys as tokens, and two sequences must not write into one page:
 * FOVEA_BAD_VALUE. options may be NULL. Scratch memory, for keys that are turned, comes from the context. */
FOVEA_API fovea_status fovea_schedule_append(const fovea_schedule *schedule, const fovea_tensor *key,
                                             const fovea_tensor *value, const fovea_tensor *key_pages,
                                             const fovea_tensor *value_pages, const fovea_append_options *options);

/* ---- key/value pools ----------------------------------------------------------------------------------------------- */

/* Keys and values of many sequences and layers, in pages that sequences share where they begin alike. Sequences are numbers,
 * which are never used again. All layers of a sequence have the same length and the same page ids. One call at a time may use
 * a pool; the memory of its pages may be read and written meanwhile, as long as no call gives them to another sequence. */
typedef struct fovea_kv_pool fovea_kv_pool;

typedef struct fovea_kv_pool_sizes {
  size_t struct_size;
  int64_t layers;          /* 1 to 2^16                                                                               */
  int64_t kv_heads;        /* Hkv, 1 to 2^20                                                                          */
  int64_t head_dim;        /* D, 1 to 1024                                                                            */
  int64_t value_dim;       /* Dv, 1 to 1024; 0: head_dim                                                              */
  int64_t positions;       /* room for so many of all sequences together, 1 to 2^30; rounded up to whole pages        */
  int64_t page_size;       /* positions of a page, 1 to 2^20; 0: so that a layer's keys of a page take 128 KB or more, *
                            * but so many pages that each sequence can have one                                       */
  int64_t sequences;       /* most that are open at once, 1 to 2^20                                                   */
  fovea_dtype key_dtype;   /* FOVEA_F32, FOVEA_F16, FOVEA_BF16 or FOVEA_I8; 0: FOVEA_F32                              */
  fovea_dtype value_dtype; /* likewise, or FOVEA_U8: 4 bits, of value_dim a multiple of 32; 0: key_dtype              */
  int64_t scale_group;     /* features that share a scale, of I8 or U8: a multiple of 16, with U8 of 32, that divides  *
                            * head_dim and value_dim, or 0: 32 where that divides them, else whole rows. 0 without    *
                            * I8 and U8                                                                               */
} fovea_kv_pool_sizes;

/* An empty pool. Where the system gives memory at its first use, pages that were never filled take none. What stands in a page
 * before it was written may be anything. */
FOVEA_API fovea_status fovea_kv_pool_create(const fovea_kv_pool_sizes *sizes, fovea_kv_pool **pool);

/* NULL is allowed. No call may still be using it. */
FOVEA_API void fovea_kv_pool_destroy(fovea_kv_pool *pool);

/* A new, empty sequence. More than there may be: FOVEA_POOL_EXHAUSTED. */
FOVEA_API fovea_status fovea_kv_pool_open(fovea_kv_pool *pool, int64_t *sequence);

/* A new sequence that begins as the first `length` positions of `sequence`, in [its first position kept, its length]: pages are
 * shared, and copied by the step that writes into one. */
FOVEA_API fovea_status fovea_kv_pool_fork(fovea_kv_pool *pool, int64_t sequence, int64_t length, int64_t *forked);

/* Forgets the positions from `length` on, in [its first position kept, its length]. */
FOVEA_API fovea_status fovea_kv_pool_truncate(fovea_kv_pool *pool, int64_t sequence, int64_t length);

/* Gives back the pages that hold only positions before `first`, for layers whose windows have left them: no query of any later
 * step may attend them. Positions keep their numbers. first in [0, its length]. */
FOVEA_API fovea_status fovea_kv_pool_drop(fovea_kv_pool *pool, int64_t sequence, int64_t first);

FOVEA_API fovea_status fovea_kv_pool_close(fovea_kv_pool *pool, int64_t sequence);

/* Makes room for a step: sequence sequences[s] grows by tokens[s] positions, and pages that it shares and would write into are
 * copied, in all layers. sequences and tokens I32 or I64 [S], any stride; no sequence twice. On success *step describes it:
 * its tensors belong to the pool and are valid until the next call that changes it. All or nothing: if pages run out,
 * FOVEA_POOL_EXHAUSTED with a message that tells how many are needed and how many are free, and nothing has changed. */
FOVEA_API fovea_status fovea_kv_pool_step(const fovea_context *context, fovea_kv_pool *pool,
                                          const fovea_tensor *sequences, const fovea_tensor *tokens, fovea_step *step);

/* A layer's keys as [P,Hkv,page,D], or its values as [P,Hkv,page,Dv], of U8 as [P,Hkv,page,Dv / 2]: what a schedule is made with.
 * A layer out of range, or NULL: a tensor of rank -1. */
FOVEA_API fovea_tensor fovea_kv_pool_keys(const fovea_kv_pool *pool, int64_t layer);
FOVEA_API fovea_tensor fovea_kv_pool_values(const fovea_kv_pool *pool, int64_t layer);

/* The scales of a layer of I8, F16 [P,Hkv,page,D / group] and [P,Hkv,page,Dv / group]; of values of U8 [P,Hkv,page,2 Dv / group].
 * Of another type: a tensor of rank -1. */
FOVEA_API fovea_tensor fovea_kv_pool_key_scales(const fovea_kv_pool *pool, int64_t layer);
FOVEA_API fovea_tensor fovea_kv_pool_value_scales(const fovea_kv_pool *pool, int64_t layer);

/* Positions of a sequence, the dropped ones included; -1 for what is none. */
FOVEA_API int64_t fovea_kv_pool_length(const fovea_kv_pool *pool, int64_t sequence);

/* Pages that no sequence holds; bytes of all pages. 0 for NULL. */
FOVEA_API int64_t fovea_kv_pool_free_pages(const fovea_kv_pool *pool);
FOVEA_API size_t fovea_kv_pool_size(const fovea_kv_pool *pool);

/* A sequence as bytes, to be kept in a file or sent to another machine: a header with a version, the types, the sizes and a
 * checksum, then its keys and values row by row, little-endian whatever the machine. save writes exactly
 * fovea_kv_pool_saved_size bytes (0 for what is no sequence), which may lie at any address; a smaller `size` is
 * FOVEA_WORKSPACE_TOO_SMALL and nothing is written. restore opens a sequence in a pool of the same layers, heads, features and
 * types, whatever its page size. Bytes that are cut off, altered, or of another version or kind are FOVEA_BAD_VALUE. */
FOVEA_API size_t fovea_kv_pool_saved_size(const fovea_kv_pool *pool, int64_t sequence);
FOVEA_API fovea_status fovea_kv_pool_save(const fovea_kv_pool *pool, int64_t sequence, void *bytes, size_t size);
FOVEA_API fovea_status fovea_kv_pool_restore(fovea_kv_pool *pool, const void *bytes, size_t size, int64_t *sequence);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_SERVING_H */
