/* fovea: attention whose queries, keys and values lie on several MPI ranks. A library of its own, libfovea-mpi, beside the
 * core, which does not know of it; fovea.h does not include this header.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Conventions of fovea.h hold here too. What is added:
 * Ranks     R ranks, those of the handle's communicator. Unless a declaration says otherwise, every function that takes a
 *           handle is collective: all ranks call it, in the same order, as a function of MPI.
 * Sharded   Tensors are local: a rank gives its own share of positions, with strides of its own. Sizes but for positions,
 *           element types, options and a score's parameters must be the same on all ranks.
 * Errors    Every collective call begins by comparing the ranks' arguments. What one rank refuses, or does not give as rank 0
 *           does, all ranks refuse with one status and one message, which begins with "rank 2: " where it is that rank's
 *           fault. Outputs then hold what they held before, on all ranks. fovea_mpi_last_error() gives the message. A handle
 *           that is NULL, or was destroyed, is the one thing that other ranks cannot be told of: they wait.
 *           When MPI itself fails (FOVEA_MPI_FAILED), or a rank dies, the ranks may return different statuses, outputs may be
 *           written on some of them, and the handle serves no further call; MPI may as well end the program first.
 * Threads   MPI is to be initialised with MPI_THREAD_FUNNELED or more, and all calls that take a handle come from the thread
 *           that initialised it, or from any one at a time with MPI_THREAD_SERIALIZED. Computing uses the context's threads,
 *           which never call MPI.
 * Bits      They depend on shapes, options, the order of positions and the number of ranks, and on nothing else: not on the
 *           number of threads, the network, or which rank is on which machine (same build, same instruction set).
 * Overlap   Of outputs with inputs is judged by the ranges of bytes that tensors span: those that interleave count as
 *           overlapping.
 */
#ifndef FOVEA_MPI_H
#define FOVEA_MPI_H

#include <fovea/fovea.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status -------------------------------------------------------------------------------------------------------- */

/* A status of these functions that fovea_status_name does not know: a function of MPI failed. */
enum { FOVEA_MPI_FAILED = 100 };

/* The calling thread's last error message of this library, or "" if it had none. One line of printable ASCII. Valid until
 * the same thread's next call of this library that fails. fovea_last_error() does not give it. */
FOVEA_API const char *fovea_mpi_last_error(void);

/* ---- handle -------------------------------------------------------------------------------------------------------- */

/* A communicator with the memory that calls need. */
typedef struct fovea_mpi fovea_mpi;

typedef struct fovea_mpi_options {
  size_t struct_size;
  uint32_t flags;        /* 0                                                                                          */
  int32_t reserved;      /* 0                                                                                          */
  int64_t message_bytes; /* the most that one message of MPI carries, 1 to 2^30; 0: 2^30. Changes no result             */
} fovea_mpi_options;

/* Duplicates communicator; what fails in MPI is returned from then on (MPI_ERRORS_RETURN on the duplicate). context: as
 * everywhere in fovea, NULL for the default one; it must outlive the handle. options may be NULL. Collective over
 * communicator, an intracommunicator: but where MPI is not initialised, or communicator is MPI_COMM_NULL, the call fails at
 * once. On failure *mpi stays as it was. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE, FOVEA_BAD_OPTION,
 * FOVEA_OUT_OF_MEMORY, FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_create(MPI_Comm communicator, const fovea_context *context,
                                        const fovea_mpi_options *options, fovea_mpi **mpi);

/* Collective, as MPI_Comm_free is, and before MPI_Finalize. NULL is allowed, and then nothing happens. After FOVEA_MPI_FAILED
 * memory that messages may still be written to is left as it is. */
FOVEA_API void fovea_mpi_destroy(fovea_mpi *mpi);

/* The calling rank's number, and how many there are; -1 and 0 for NULL. Not collective. */
FOVEA_API int32_t fovea_mpi_rank(const fovea_mpi *mpi);
FOVEA_API int32_t fovea_mpi_ranks(const fovea_mpi *mpi);

/* What the calling rank did in the handle's last call that succeeded. */
typedef struct fovea_mpi_figures {
  size_t struct_size;
  int64_t bytes_sent;       /* of queries, keys, values, results and gradients to other ranks                          */
  int64_t blocks_attended;  /* keys and values of how many ranks its queries met                                       */
  int64_t blocks_passed_by; /* of how many others they met none: these were not computed                               */
  double seconds_computing; /* in fovea's functions                                                                    */
  double seconds_waiting;   /* for messages, with nothing to compute                                                   */
} fovea_mpi_figures;

/* Not collective. figures->struct_size is set by the caller. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_OPTION. */
FOVEA_API fovea_status fovea_mpi_last_figures(const fovea_mpi *mpi, fovea_mpi_figures *figures);

/* ---- shares of positions ------------------------------------------------------------------------------------------- */

/* Which positions of a sequence of L a rank has. */
enum {
  FOVEA_MPI_CONTIGUOUS = 0, /* neighbours, rank after rank. Calls take any lengths, 0 too; the functions below give the      *
                             * first L mod R ranks one more than the others                                               */
  FOVEA_MPI_ZIGZAG = 1,     /* of 2R chunks, of which the first L mod 2R have one position more, rank r has chunks r and      *
                             * 2R - 1 - r, in this order: under a causal mask every rank has as much to compute            */
  FOVEA_MPI_STRIPED = 2     /* position p is on rank p mod R, as its number p / R: likewise, at any mask that is causal or a    *
                             * window (Brandon et al. 2023, arXiv:2311.09431)                                              */
};

/* How many of `length` positions the rank has, and which, in its order: positions [*share_length]. Neither is collective.
 * length is 0 to 2^30, ranks 1 or more, rank 0 to ranks - 1. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE. */
FOVEA_API fovea_status fovea_mpi_share_length(int32_t order, int64_t length, int32_t ranks, int32_t rank,
                                              int64_t *share_length);
FOVEA_API fovea_status fovea_mpi_positions(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *positions);

/* Copies a rank's share out of a whole tensor, and back to its place in it. axis is that of positions, 0 to rank - 1. whole
 * and share have one element type, any that fovea.h names, one rank, 1 to 6, and the same sizes but along axis, where share
 * has fovea_mpi_share_length of whole's; any strides, but what is written must not overlap itself, nor what is read.
 * Neither is collective. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_RANK, FOVEA_BAD_SHAPE, FOVEA_BAD_STRIDE, FOVEA_BAD_DTYPE,
 * FOVEA_BAD_VALUE, FOVEA_OVERLAP, FOVEA_SIZE_OVERFLOW. */
FOVEA_API fovea_status fovea_mpi_share(int32_t order, int32_t ranks, int32_t rank, int32_t axis, const fovea_tensor *whole,
                                       const fovea_tensor *share);
FOVEA_API fovea_status fovea_mpi_unshare(int32_t order, int32_t ranks, int32_t rank, int32_t axis,
                                         const fovea_tensor *share, const fovea_tensor *whole);

/* ---- ring attention ------------------------------------------------------------------------------------------------ */

typedef struct fovea_mpi_ring_options {
  size_t struct_size;
  int32_t order;         /* FOVEA_MPI_CONTIGUOUS, ...: of queries and of keys                                          */
  fovea_dtype transport; /* 0: keys and values travel in their own element type; FOVEA_F16, FOVEA_BF16: F32 ones are rounded  *
                          * to that, to nearest, ties to even, past F16's largest number to infinity                    */
} fovea_mpi_ring_options;

/* Attention over all ranks' keys (ring attention: Liu, Zaharia and Abbeel 2023, arXiv:2310.01889), as fovea_attention over
 * the whole tensors: keys and values travel from rank to rank, and partial results are merged.
 *   query F [B,H,Qr,Dq]   key F [B,Hkv,Kr,Dk]   value F [B,Hkv,Kr,Dv]   out F [B,H,Qr,Dv]
 * or all of rank 3, or 2, as in fovea_attention; Qr and Kr are the calling rank's positions, and Q and K, their sums over
 * ranks, are at most 2^30. With FOVEA_MPI_ZIGZAG and FOVEA_MPI_STRIPED they must be the shares of Q and K. score and
 * options are fovea_attention's; ring may be NULL. All of them speak of the whole: positions, query_offset, windows and
 * valid_lens [B] (each in [0, K], the same on all ranks) count positions of the whole sequence, alibi_slopes and sinks are
 * given on all ranks. options.log_sum_exp is local: [B,H,Qr].
 * Refused are options.mask, bias, weights, scores, projected_query, projected_key, dropout, key_scales, value_scales (and keys
 * and values of I8 or U8), valid_lens [B,Q], FOVEA_EMPTY_ROWS_UNIFORM; alibi_slopes with FOVEA_MPI_STRIPED; FOVEA_LEAVE_ONE_OUT
 * together with causal, windows or alibi_slopes where K > Q unless FOVEA_TOP_LEFT, FOVEA_QUERY_OFFSET or query_offsets say that
 * both count alike.
 * query_offset and query_offsets lie within 2^30 - Q - K of 0.
 *
 * With one rank: the call of fovea_attention, and its bits. With more, this is what is computed, and one process that makes
 * the same calls in the same order gets the same bits:
 *   - A block is the keys and values of one rank, contiguous, in one run of neighbouring positions or, with FOVEA_MPI_ZIGZAG,
 *     in two, its chunks; with FOVEA_MPI_STRIPED neighbours are R positions apart. A rank's queries are cut likewise, and then
 *     into pieces of 512.
 *   - Each batch entry, piece of queries and run of keys is one call of fovea_attention, in which each key/value head with its
 *     H / Hkv query heads is a batch entry of its own, with an F32 out and its log-sum-exp. Positions go in by
 *     FOVEA_QUERY_OFFSET, lengths by valid_lens, without sinks. Where no query of the piece attends any key of the run there
 *     is no call.
 *   - A piece's results are merged by fovea_merge_states, the state first and the new one second, in this order: sinks, if
 *     given, as a state with output 0; runs of the rank's own block; those of rank r - 1, r - 2, and so on, round to r + 1.
 *   - The state is float32, and rounded once, to out's type.
 * With ring.transport the result is that of keys and values that are rounded so on all ranks, those of the own block too; with
 * one rank nothing travels, and nothing is rounded.
 * A block goes no further round than to the last rank that attends any of it. Memory of the handle: keys and values of the two
 * longest blocks, and three times Qr H (Dv + 1) floats of B, kept for later calls.
 * Errors: those of fovea_attention, and FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_ring_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                                const fovea_tensor *key, const fovea_tensor *value,
                                                const fovea_tensor *out, const fovea_attention_options *options,
                                                const fovea_mpi_ring_options *ring);

/* The backward pass of fovea_mpi_ring_attention: from its arguments, out and options.log_sum_exp as it left them, and the
 * gradients of its results, to those of its arguments, as fovea_attention_backward over the whole tensors. All else is to be as
 * it was. Keys and values travel as in the forward call, and behind each block, in float32, what ranks have added up of its
 * gradients.
 *   gradients.out F [B,H,Qr,Dv]   gradients.log_sum_exp F32 [B,H,Qr], or NULL
 *   gradients.query F [B,H,Qr,Dq]   gradients.key F [B,Hkv,Kr,Dk]   gradients.value F [B,Hkv,Kr,Dv]
 * are local, of the rank of what they belong to. Gradients of alibi_slopes, sinks and the score's parameters, in the shapes of
 * fovea_attention_gradients, are sums over all ranks, and every rank gets them, with the same bits. Which gradients are given and
 * wanted, and their element types, must be the same on all ranks. One that is NULL is not wanted, and what only it needs is
 * neither computed nor sent. Gradients are written, not added to, and each needs memory of its own.
 * Refused is what fovea_mpi_ring_attention refuses, and gradients.weights and bias.
 *
 * With one rank: the call of fovea_attention_backward, and its bits. With more, this is what is computed, and one process that
 * makes the same calls in the same order gets the same bits:
 *   - Blocks, runs, pieces of queries and calls are those of fovea_mpi_ring_attention, each a call of fovea_attention_backward,
 *     with the rows of out, of the whole's log-sum-exp and of their gradients, without sinks, and with F32 gradients. The order
 *     of calls is: block after block as they come, in it batch entry after batch entry, piece after piece, run after run, and
 *     head after head.
 *   - All sums begin at 0. Those of query, key and value are float32. That of query is of what its calls give, in order.
 *   - Of a block's keys and values each rank adds up what its calls give, in order. The gradient is the owner r's sum, plus the
 *     sum of those of ranks r + 1, r + 2, and so on, round to r - 1, in this order.
 *   - Those of alibi_slopes and the score's parameters are float64: on each rank of what its calls give, in order, and then of
 *     the ranks, in order. Where parameters are wanted each key/value head is a call of its own.
 *   - That of sinks is of one call on each rank, of its queries, their results and no keys, likewise.
 *   - Each is rounded once, to its type; parameters and sinks to float32 before that.
 * With ring.transport gradients are those of the rounded keys and values, and travel as float32.
 * What was added up for a block goes straight from the last rank that attends it to its owner; of a run that its owner alone
 * attends nothing is sent. Memory of the handle: keys and values of the two longest blocks, five times the longest block's
 * gradients in float32, B Qr H Dq floats, those of one call of a batch entry's heads, and 20 bytes for each number of the
 * gradients that are sums, kept for later calls.
 * Errors: those of fovea_attention_backward, and FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_ring_attention_backward(fovea_mpi *mpi, const fovea_score *score,
                                                         const fovea_tensor *query, const fovea_tensor *key,
                                                         const fovea_tensor *value, const fovea_tensor *out,
                                                         const fovea_attention_options *options,
                                                         const fovea_attention_gradients *gradients,
                                                         const fovea_mpi_ring_options *ring);

/* ---- decoding over a split cache ----------------------------------------------------------------------------------- */

/* Bits of fovea_mpi_decode_options.flags */
enum {
  FOVEA_MPI_QUERY_ON_RANK_0 = 1 /* query's data is that of rank 0: on the others it is not read, and may be NULL        */
};

typedef struct fovea_mpi_decode_options {
  size_t struct_size;
  uint32_t flags;   /* FOVEA_MPI_QUERY_ON_RANK_0                                                                        */
  int32_t reserved; /* 0                                                                                               */
} fovea_mpi_decode_options;

/* Attention to keys and values of which each rank holds some, in no order and as many as it likes, 0 too. Every rank attends
 * its own, all gather the partial results, and every rank gets the whole result, with the same bits.
 *   query F [B,H,Q,Dq]   key F or I8 [B,Hkv,Kr,Dk]   value F or I8 [B,Hkv,Kr,Dv], or U8 [B,Hkv,Kr,Dv/2]   out F [B,H,Q,Dv]
 * or all of rank 3, or 2, as in fovea_attention. query is the same on all ranks, or that of rank 0; Kr is the calling rank's.
 * score and options are fovea_attention's; decode may be NULL. options.valid_lens ([B] or [B,Q], each in [0, Kr]), key_scales
 * and value_scales are local; sinks are given on all ranks; log_sum_exp is that of the whole result, [B,H,Q].
 * Keys have no positions here: refused are FOVEA_CAUSAL, FOVEA_TOP_LEFT, FOVEA_QUERY_OFFSET, windows, FOVEA_LEAVE_ONE_OUT,
 * alibi_slopes and query_offsets; and mask, bias, weights, scores, projected_query, projected_key, dropout and
 * FOVEA_EMPTY_ROWS_UNIFORM as in fovea_mpi_ring_attention.
 * With one rank: the call of fovea_attention, and its bits. With more, each rank's call of fovea_attention, without sinks, an
 * F32 out and its log-sum-exp, and one of fovea_merge_states over the sinks, if given, as a state with output 0, and the
 * ranks in their order. Memory of the handle: R + 2 times B H Q (Dv + 1) floats, and query where rank 0 gives it.
 * Errors: those of fovea_attention, and FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_decode_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                                  const fovea_tensor *key, const fovea_tensor *value,
                                                  const fovea_tensor *out, const fovea_attention_options *options,
                                                  const fovea_mpi_decode_options *decode);

/* ---- attention by heads -------------------------------------------------------------------------------------------- */

typedef struct fovea_mpi_ulysses_options {
  size_t struct_size;
  int32_t order;    /* FOVEA_MPI_CONTIGUOUS, ...: of queries and of keys                                                */
  int32_t reserved; /* 0                                                                                               */
} fovea_mpi_ulysses_options;

/* Attention over all ranks' keys by an exchange of heads (Ulysses: Jacobs et al. 2023, arXiv:2309.14509): each rank gets H / R
 * heads of all positions, attends them by one call of fovea_attention, and sends results back.
 *   query F [B,H,Qr,Dq]   key F [B,Hkv,Kr,Dk]   value F [B,Hkv,Kr,Dv]   out F [B,H,Qr,Dv]
 * as in fovea_mpi_ring_attention. H must be a multiple of R, and Hkv a multiple or a divisor of R: fewer key/value heads
 * than ranks go to R / Hkv ranks each. score and options are fovea_attention's; ulysses may be NULL. All of them speak of the
 * whole, and are given on all ranks: valid_lens [B] or [B,Q], mask and bias [B,H,Q,K] (or [Q,K], axes of size 1 but K's
 * broadcast; a rank reads those of its heads), alibi_slopes, sinks, query_offsets. Positions of mask, bias and valid_lens are in
 * the order of the sequence, whatever the order of shares. options.log_sum_exp is local: [B,H,Qr].
 * That mask and bias hold the same on all ranks is not looked at.
 * Refused are options.weights, scores, projected_query, projected_key, dropout, key_scales, value_scales (and keys and values
 * of I8 or U8).
 * Bits are those of fovea_attention over the whole tensors where Q times the query heads of a rank that share a key/value head
 * is more than 256, or with FOVEA_QUERY_INVARIANT; else with one rank. (With few queries, how keys are split goes by how many
 * heads a call has.) Memory of the handle: twice a rank's share of all, and twice all positions of its heads.
 * Errors: those of fovea_attention, and FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_ulysses_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                                   const fovea_tensor *key, const fovea_tensor *value,
                                                   const fovea_tensor *out, const fovea_attention_options *options,
                                                   const fovea_mpi_ulysses_options *ulysses);

/* ---- a grid of ranks ----------------------------------------------------------------------------------------------- */

/* Both at once: G groups of W ranks each, attention by heads within a group, a ring between the groups; for groups whose ranks
 * are near each other, as those of one machine are. within: a handle of the W ranks of the calling rank's group; between: one
 * of the G ranks, one of each group, that have the calling rank's number in within. Collective over all G W ranks.
 * Groups share positions as ranks do in fovea_mpi_ring_attention, by ring.order; the ranks of a group have neighbours among
 * the group's positions, in its order, any number of them. H must be a multiple of W, and Hkv a multiple or a divisor of W. All
 * else, and what is refused, as in fovea_mpi_ring_attention.
 * Bits are those of fovea_mpi_ring_attention by G ranks that have the groups' positions, of the calling rank's heads alone;
 * with one group those of fovea_mpi_ulysses_attention. A message may name two ranks, "rank 1: rank 2: ": that of between, or
 * the group, first. fovea_mpi_last_figures of each handle tells its part.
 * Errors: those of fovea_attention, and FOVEA_MPI_FAILED. */
FOVEA_API fovea_status fovea_mpi_grid_attention(fovea_mpi *within, fovea_mpi *between, const fovea_score *score,
                                                const fovea_tensor *query, const fovea_tensor *key,
                                                const fovea_tensor *value, const fovea_tensor *out,
                                                const fovea_attention_options *options,
                                                const fovea_mpi_ring_options *ring);

#ifdef __cplusplus
}
#endif

#endif /* FOVEA_MPI_H */
