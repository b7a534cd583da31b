/* fovea: attention kernels for CPUs. The whole C API, and its manual.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Conventions that hold for every declaration below
 * -------------------------------------------------
 * Shapes    B batch, H query heads, Hkv key/value heads (H is a multiple of Hkv), Q queries, K keys, D query/key feature
 *           size (head_dim), Dv value feature size (value_dim). Row-major unless the strides say otherwise.
 * Tensors   are described by the caller in a fovea_tensor and stay the caller's: fovea never keeps, frees or copies a
 *           descriptor after the call returns. Inputs are only read. Outputs are only written once every argument has been
 *           checked: after any status but FOVEA_OK they hold what they held before.
 * Strides   count elements, not bytes. The last axis must be contiguous (stride 1) unless said otherwise. A stride of 0
 *           repeats an input along that axis; outputs must not overlap themselves. A stride that is never stepped along, of
 *           an axis of size 0 or 1 or of a tensor without elements, may be anything. Data is aligned to its element size.
 * Elements  Where a declaration says F for an element type, F32, F16 and BF16 are taken, each tensor's its own choice. What
 *           is computed is float32, with the bits that F32 tensors of these numbers give, and rounded once when it is
 *           stored: to nearest, ties to even, past the largest number to infinity; subnormal numbers and NaN are kept.
 *           fovea_exp, fovea_tanh, fovea_masked_softmax, fovea_softmax, fovea_layer_norm and fovea_rms_norm may compute with
 *           less than float32's digits where all their tensors have one type of 16 bits, and say how much results are off.
 * Empty     A call whose outputs have no elements is checked like any other, but for the values in its tensors: no data is
 *           looked at, and it takes neither memory nor time, however large its other sizes are.
 * Aliasing  An output must not overlap an input or another output, unless the declaration says "in place allowed". Tensors
 *           overlap where a byte is an element's of both: those that interleave without sharing one do not. Only where
 *           strides have no order, so that a search of 65536 steps finds neither, are they taken to.
 * Errors    Functions return a fovea_status. For any but FOVEA_OK, fovea_last_error() gives, on the same thread, one line
 *           of printable ASCII that names the argument, its value and what was expected. Nothing is printed, nothing
 *           aborts, no C++ exception leaves the library.
 * Threads   Every function may be called from any number of threads at once, as long as the outputs differ; what changes
 *           or destroys a handle says what else may use it meanwhile. The result has the same bits whatever the number of
 *           threads, from call to call, and (without dropout, whose choice goes by the entry's number) for a batch entry
 *           wherever it stands in the batch (same build, same instruction set; additive and concat scores also ask for
 *           the same kind of processor, whose estimate of a reciprocal they start from). What another thread writes to a call's
 *           inputs meanwhile, numbers that lead to memory (lengths, offsets, positions) among them, may give wrong results or
 *           an error, and never touches memory outside the tensors. Where threads cannot be created, calls
 *           do all their work on the calling thread; and so they do in a child that was forked after oneTBB's threads were
 *           used, or for good when oneTBB fails for lack of memory. (oneTBB ends the process if threads run out while it
 *           creates some; before its first use here it is tried whether as many can be created.) A library that has used
 *           threads stays loaded: dlclose does not unload it, nor a plugin that the static library is part of. A call takes
 *           at most 96 KB of stack, on the calling thread and on those of a caller's own parallel loop.
 * Floats    Every function computes in the default floating-point mode: round to nearest, denormal numbers kept, no
 *           exception trapped, whatever the threads involved have set. The calling thread's environment is afterwards as
 *           it was, sticky flags included; in it a caller's own parallel loop is called.
 * Range     Finite inputs give finite results wherever the formula does, in all of float32's range: values, states to be
 *           merged, sinks, rows to be normalised or weighed may be of any size. Scores before they are scaled, products of
 *           matrices and their partial sums are float32, and infinite past its range. On AMX's tiles so are the sums of
 *           weighted values.
 * Options   A struct whose first member is struct_size is set to all zeros, struct_size to sizeof that struct, then filled
 *           in. Zero is the default of every member. Where 0 could be meant as a number, a flag FOVEA_..._GIVEN says that the
 *           member stands for itself; a size or a number of things that cannot be 0 has no such flag. New members are only
 *           ever appended, so a program built against an
 *           older header keeps working; a newer program's extra members are accepted as long as they are zero. A
 *           struct_size that is no version's sizeof is refused.
 * Memory    A context keeps at most 64 MB of scratch memory for calls that are not planned. A plan tells what a run needs.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FOVEA_API
#elif defined(__GNUC__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

/* The function does not follow the pointer: without this, GCC warns of an output that nobody has written yet. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define FOVEA_NO_ACCESS(argument) __attribute__((access(none, argument)))
#else
#define FOVEA_NO_ACCESS(argument)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------------------------------------------------- */

#define FOVEA_VERSION_MAJOR 0
#define FOVEA_VERSION_MINOR 1
#define FOVEA_VERSION_PATCH 0

/* The version of the library that is loaded, as text: "0.1.0". Static storage. */
FOVEA_API const char *fovea_version(void);

/* ---- status -------------------------------------------------------------------------------------------------------- */

typedef int32_t fovea_status;

enum {
  FOVEA_OK = 0,
  FOVEA_NULL_POINTER = 1,        /* a required pointer is NULL                                             */
  FOVEA_BAD_RANK = 2,            /* a tensor has the wrong number of axes                                  */
  FOVEA_BAD_SHAPE = 3,           /* sizes are negative, out of range or do not fit together                */
  FOVEA_BAD_STRIDE = 4,          /* a stride the operation does not take, or an output that repeats itself */
  FOVEA_BAD_DTYPE = 5,           /* an element type the argument does not take                             */
  FOVEA_BAD_VALUE = 6,           /* a number is out of range: an option, a valid length                    */
  FOVEA_BAD_OPTION = 7,          /* unknown flag bits, or a newer struct with members this build lacks     */
  FOVEA_OVERLAP = 8,             /* an output overlaps an input or another output                          */
  FOVEA_SIZE_OVERFLOW = 9,       /* the product of sizes or strides does not fit the address space         */
  FOVEA_WORKSPACE_TOO_SMALL = 10,
  FOVEA_OUT_OF_MEMORY = 11,
  FOVEA_UNKNOWN_ISA = 12,        /* FOVEA_ISA or max_isa names no instruction set this machine can run     */
  FOVEA_INTERNAL_ERROR = 13,     /* a defect in fovea; please report it                                    */
  FOVEA_POOL_EXHAUSTED = 14      /* a pool has too few free pages, or no room for another sequence         */
};

/* The status's name, "FOVEA_BAD_SHAPE"; "FOVEA_UNKNOWN_STATUS" for a number that is none. Static storage. */
FOVEA_API const char *fovea_status_name(fovea_status status);

/* The calling thread's last error message, or "" if it had none. Valid until the same thread's next fovea call that
 * fails. */
FOVEA_API const char *fovea_last_error(void);

/* Copies that message to text, cut to size bytes with its final NUL. Returns the length of the whole message without the
 * NUL (as snprintf). text may be NULL when size is 0. Where a language moves tasks from thread to thread between two
 * calls, as Go does, this is to be called in the same C function as the call that failed. */
FOVEA_API size_t fovea_last_error_copy(char *text, size_t size);

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

typedef int32_t fovea_dtype;

/* Operations name those they take. I8 is taken as keys and values of the scaled dot product, with scales (fovea_quantize), and
 * U8 as such values, of two features of 4 bits each; there is no operation yet that takes F8_E4M3 or F8_E5M2. */
enum {
  FOVEA_F32 = 1,      /* IEEE binary32                                                                                */
  FOVEA_F16 = 2,      /* IEEE binary16                                                                                */
  FOVEA_BF16 = 3,     /* the upper half of an IEEE binary32                                                           */
  FOVEA_I32 = 5,      /* signed 32-bit integer                                                                        */
  FOVEA_I64 = 6,      /* signed 64-bit integer                                                                        */
  FOVEA_BOOL = 7,     /* one byte, 0 is false and anything else is true                                               */
  FOVEA_I8 = 8,       /* signed 8-bit integer                                                                         */
  FOVEA_U8 = 9,       /* unsigned 8-bit integer                                                                       */
  FOVEA_F8_E4M3 = 10, /* 4 bits of exponent, 3 of mantissa, no infinities, NaN 0x7f and 0xff: OCP's E4M3, "e4m3fn"    */
  FOVEA_F8_E5M2 = 11  /* the upper half of an IEEE binary16: OCP's E5M2                                               */
};

#define FOVEA_MAX_RANK 6

/* A view of memory the caller owns: element (i0, i1, ...) is at data + i0*strides[0] + i1*strides[1] + ..., counted in
 * elements of dtype. Entries of shape and strides past rank are ignored. */
typedef struct fovea_tensor {
  void *data;
  fovea_dtype dtype;
  int32_t rank;
  int64_t shape[FOVEA_MAX_RANK];
  int64_t strides[FOVEA_MAX_RANK];
} fovea_tensor;

/* A contiguous row-major tensor of the given shape (rank numbers). data is not touched; whether it will be written
 * depends on the argument the tensor is passed as. If rank is outside [0, FOVEA_MAX_RANK] or shape is NULL, the result
 * has rank -1, which every operation refuses with FOVEA_BAD_RANK. */
FOVEA_API FOVEA_NO_ACCESS(1) fovea_tensor fovea_tensor_contiguous(const void *data, fovea_dtype dtype, int32_t rank,
                                                                  const int64_t *shape);

/* The view that another library describes as a DLTensor, as NumPy, PyTorch, JAX and others hand it over through DLPack:
 *   { void *data; struct { int32_t device_type, device_id; } device; int32_t ndim;
 *     struct { uint8_t code, bits; uint16_t lanes; } dtype; int64_t *shape, *strides; uint64_t byte_offset; }
 * A DLManagedTensor begins with one; of a DLManagedTensorVersioned pass &managed->dl_tensor. It is only read, and stays
 * whose it was: as long as the view is used, its memory has to live, and must not be freed through its deleter.
 * Host memory only: device_type kDLCPU (1), kDLCUDAHost (3) or kDLROCMHost (11). One lane of float32 gives F32, of float16
 * F16, of bfloat16 BF16, of float8_e4m3fn F8_E4M3, of float8_e5m2 F8_E5M2, of int8 I8, of int32 I32, of int64 I64, of bool
 * or uint8 BOOL. strides may be NULL: contiguous. Read-only or not, DLPack's flag is the
 * caller's to heed. On failure *tensor stays as it was. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE (the device),
 * FOVEA_BAD_DTYPE, FOVEA_BAD_RANK, FOVEA_BAD_SHAPE, FOVEA_SIZE_OVERFLOW. */
FOVEA_API fovea_status fovea_tensor_from_dlpack(const void *dl_tensor, fovea_tensor *tensor);

/* ---- context ------------------------------------------------------------------------------------------------------- */

/* Where work runs: how many threads, which instruction set. Immutable and shareable once created. Everywhere a context
 * is taken, NULL means a default one: the calling thread's oneTBB arena, the best instruction set. */
typedef struct fovea_context fovea_context;

/* One piece of parallel work. */
typedef void (*fovea_work)(void *work_data, int64_t index);

/* The caller's own parallel loop: call work(work_data, i) once for each i in [0, count), on any threads in any order,
 * and return when all have returned. A call may wait for others that have begun, never for one that has not: threads of
 * any kind will do, one after the other too, but a call must not be interrupted to run another on the same thread. */
typedef void (*fovea_parallel_for)(void *user, int64_t count, fovea_work work, void *work_data);

/* How exactly products of F32 tensors are computed; sums are float32 always. Where a processor has no quick way, or the
 * shape does not gain by it, the result is that of a higher precision. */
enum {
  FOVEA_PRECISION_DEFAULT = 0, /* of a call: that of the packing of its weights if there was one, else its context's;  *
                                * of packing: its context's; of a context: highest                                    */
  FOVEA_PRECISION_HIGHEST = 1, /* float32                                                                             */
  FOVEA_PRECISION_HIGH = 2,    /* at least as three products of bfloat16, an error of about 2^-16 |a| |b|: float32,    *
                                * until a processor is known on which that is quicker                                 */
  FOVEA_PRECISION_MEDIUM = 3,  /* factors may be rounded to bfloat16, an error of at most 2^-7 |a| |b|, and factors or *
                                * products below 2^-126 may count as 0: 2^-127 times 2^127 is then 0, not 1. So it is *
                                * for more than a few queries in the scaled dot product, and in products of matrices  *
                                * and layers, on processors with AVX-512-BF16                                         */
  FOVEA_PRECISION_INT8 = 4     /* weights of any type may be rounded to 8 bits, in products of matrices and layers     *
                                * (below); of all else medium                                                         */
};

/* At FOVEA_PRECISION_INT8 a product a b, of matrices or of a layer's rows with its weight, is one of whole numbers, of 8 bits for
 * b with a scale for each 64 rows g of a column, and of 16 bits for a with one for each row:
 *   b_kn = B_gn / 127 * j_kn,    B_gn = max over k in g of |b_kn|,  j_kn in [-127, 127], rounded to nearest, ties to even
 *   a_mk = A_m / 32767 * i_mk,   A_m = max over k of |a_mk|,        likewise in [-32767, 32767]
 *   a b = A_m / 32767 * sum_g B_gn / 127 * sum_(k in g) i_mk j_kn
 * A b_kn is off by at most 0.5001 / 127 of B_gn, an a_mk by 0.503 / 32767 of A_m; of these 2^-100 is the least that counts. Sums
 * over k in g are exact, those over g float32's in their order: rows depend on nothing else, and all instruction sets give
 * the same bits, but for an activation's. A row of a or a column of b with NaN or infinity gives NaN. Packed, a matrix takes
 * 17/64 of float32's memory. */

typedef struct fovea_context_options {
  size_t struct_size;
  int32_t max_threads;             /* at most this many at once; 0: as many as the arena (or 1 if parallel_for is given) */
  int32_t precision;               /* FOVEA_PRECISION_* of calls that do not say their own                               */
  const char *max_isa;             /* "base", "avx2", "avx512" or "amx"; NULL: FOVEA_ISA, else the best but "amx"         */
  fovea_parallel_for parallel_for; /* NULL: oneTBB. Set max_threads to the number of threads it has.                     */
  void *parallel_for_user;         /* passed through to parallel_for                                                     */
} fovea_context_options;

/* options may be NULL. Errors: FOVEA_NULL_POINTER, FOVEA_BAD_VALUE, FOVEA_BAD_OPTION, FOVEA_UNKNOWN_ISA,
 * FOVEA_OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_context_create(const fovea_context_options *options, fovea_context **context);

/* NULL is allowed. No call may still be using the context. */
FOVEA_API void fovea_context_destroy(fovea_context *context);

/* The instruction set the context runs: "base" (SSE2 or NEON), "avx2", "avx512", "amx" (avx512 but for the projections of
 * score functions and what is multiplied in 16 bits). "amx" has to be named: for projections it pays only where no other work
 * shares the cores by hyper-threading. Attention and products of BF16, and those of F16 where the processor has AMX-FP16, take
 * AMX's tiles unless a lower set is named; the first plan or call of that kind asks Linux for them, once. If it refuses, as it
 * does while a thread has a signal stack too small to save them on, the next best kernels are taken for good, and a plan of
 * attention says "tiles=refused". Linux refuses a process that has them such stacks from then on. No thread keeps tiles when a
 * call returns; what a caller's own code has in those of a thread is there afterwards. If the environment variable
 * FOVEA_ISA holds a name this machine cannot run, the default context has none: the result is "" and every operation
 * answers FOVEA_UNKNOWN_ISA. Where the C library can tell, a program that was started with raised privileges does not read
 * it. Static storage. */
FOVEA_API const char *fovea_isa_name(const fovea_context *context);

/* How many threads a call with this context may use at once, at least 1: what NULL and max_threads 0 come down to here. */
FOVEA_API int32_t fovea_context_threads(const fovea_context *context);

/* The names this machine can run, worst first; NULL once index is past the last. Static storage. Looking for the last asks
 * for AMX's tiles. */
FOVEA_API const char *fovea_isa_available(int32_t index);

/* ---- plans --------------------------------------------------------------------------------------------------------- */

/* A checked call with everything but the data decided: shapes, strides, options, instruction set, tiles, threads.
 * Immutable; any number of threads may run one plan at once, each with its own workspace. */
typedef struct fovea_plan fovea_plan;

/* NULL is allowed. No call may still be using the plan. */
FOVEA_API void fovea_plan_destroy(fovea_plan *plan);

/* Bytes of scratch memory a run needs; 0 for NULL and where outputs have no elements. Grows with threads x tile, for split
 * keys with B H Q x Dv, for returned weights with B H Q, and those of each head of up to 16384 keys with threads x K (tiles
 * of 64 rows or fewer, at most 5 MB for each thread), for 16 bits on AMX's tiles, where more than one task has queries of a
 * head, with B Hkv K (D + Dv), for score functions with what fovea_attention_plan_create says; never with Q x K. */
FOVEA_API size_t fovea_plan_workspace_size(const fovea_plan *plan);

/* Writes a line of text "op=sdpa isa=avx512 kernels=avx512 path=tile ..." telling the context's instruction set, that of the
 * kernels, the path, tiles, tasks, threads and bytes, cut to size bytes with its final NUL. Where all is BF16 and the
 * processor's products of it are not taken, it says why: "pairs=odd_dim" or "pairs=odd_stride". Returns the length of the
 * whole text without the NUL (as snprintf); 0 for a NULL plan. text may be NULL when size is 0. */
FOVEA_API size_t fovea_plan_describe(const fovea_plan *plan, char *text, size_t size);

/* ---- scaled dot-product attention ---------------------------------------------------------------------------------- */

/* What a row (a query) with nothing to attend gives: no key passes the masks, or every score is -infinity. A row with
 * an attention sink is never empty: its output is 0 and its log-sum-exp the sink. */
enum {
  FOVEA_EMPTY_ROWS_ZERO = 0,    /* output 0, weights 0, log-sum-exp -infinity                                         */
  FOVEA_EMPTY_ROWS_UNIFORM = 1, /* as if every score were -1e6: weights 1/K over all K keys, masked ones too, so that *
                                 * NaN or infinity in the value of a masked key reaches such a row                    */
  FOVEA_EMPTY_ROWS_NAN = 2      /* the bare formula: output and weights NaN, log-sum-exp -infinity                    */
};

/* Which scores fovea_attention_options.scores gets. */
enum {
  FOVEA_SCORES_RAW = 0,    /* scale times the score function, of all K keys, masked ones too                              */
  FOVEA_SCORES_CAPPED = 1, /* the same after the soft-cap                                                                 */
  FOVEA_SCORES_LOGITS = 2  /* with bias and ALiBi, too: what the softmax is taken of; keys not attended get -infinity     */
};

/* Bits of fovea_attention_options.flags */
enum {
  FOVEA_CAUSAL = 1,         /* attend key j only if j <= position of the query                                        */
  FOVEA_TOP_LEFT = 2,       /* query i stands at position i, whatever K is; not together with FOVEA_QUERY_OFFSET      */
  FOVEA_QUERY_OFFSET = 4,   /* query i stands at position query_offset + i; query_offsets: one for each batch entry   */
  FOVEA_WINDOW_LEFT = 8,    /* attend key j only if j >= position - window_left                                       */
  FOVEA_WINDOW_RIGHT = 16,  /* attend key j only if j <= position + window_right                                      */
  FOVEA_LEAVE_ONE_OUT = 32, /* query i does not attend key i (key query_offset + i if FOVEA_QUERY_OFFSET is set, key  *
                             * query_offsets[b] + i if they are given)                                                */
  FOVEA_AVERAGE_WEIGHTS = 64, /* weights are the mean over the H heads                                                */
  FOVEA_QUERY_INVARIANT = 128, /* a query's result has the same bits however many queries the call has: a decoder     *
                                * going step by step gives the very bits of one causal call (not with dropout, which   *
                                * goes by the query's number). Slower for few queries                                 */
  FOVEA_SCALE_GIVEN = 256,     /* scale is meant as it stands, 0 too: every finite score is then 0                    */
  FOVEA_SIGMA_GIVEN = 512      /* of fovea_kernel_regression_options alone: sigma is meant as it stands, 0 is an error */
};

/* Positions. Where causal, window or ALiBi need the position of query i, it is, by default, K - Q + i if K >= Q (the
 * last query faces the last key: "bottom-right") and i if K < Q; FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET set it otherwise,
 * and query_offsets for each batch entry. K is that of the tensor: valid_lens move no position. That is right where each
 * sequence begins at key 0 and has a query for every key (Q = K). It is wrong for the newest Q < K queries of sequences of
 * different lengths padded to one K, as a batch of decoders has them: of lengths {3, 5} the first would stand at position
 * 4, and a window of one key to its left would leave it nothing. What is right there are query_offsets of length_b - Q,
 * with FOVEA_CAUSAL or valid_lens of length_b; for causal alone, valid_lens [B,Q] of length_b - Q + i + 1 will do.
 *
 * score(i, j) = softcap * tanh(scale * q_i . k_j / softcap) + bias(i, j) - slope * |position(i) - j|
 *
 * then softmax over the keys that pass valid_lens, mask, causal, window and leave-one-out. Distances of ALiBi are
 * whole numbers, exact up to 2^24 wherever the positions are, and past it rounded to float32. A key that does not pass, or
 * whose bias is -infinity, is never read into the result: NaN or infinity there, in key or value, changes nothing, but
 * for the values of an empty row under FOVEA_EMPTY_ROWS_UNIFORM. NaN in a key or value that is attended reaches the
 * output. A score of +infinity makes its row's output and weights NaN, as the formula does, and its log-sum-exp +infinity
 * unless another score is NaN. A score more than 87 (125.5 log 2) below the largest of its row, or of its part of the keys
 * where those of few queries are split, has a weight of exactly 0: before they are divided by their sum weights are never
 * denormal, as results of fovea_exp may be.
 *
 * All tensors are optional: NULL where not wanted. Those of rank 4 are given without the H axis where query has rank 3
 * and without B and H where it has rank 2. */
typedef struct fovea_attention_options {
  size_t struct_size;
  uint32_t flags;           /* FOVEA_CAUSAL | ..., not FOVEA_SIGMA_GIVEN                                              */
  int32_t empty_rows;       /* FOVEA_EMPTY_ROWS_*                                                                     */
  float scale;              /* finite; 0: 1 / sqrt(D) for the dot product, 1 for other score functions; unless       *
                             * FOVEA_SCALE_GIVEN                                                                      */
  float softcap;            /* finite, >= 0; 0: none. The limit that the logits approach (Gemma 2)                    */
  int64_t query_offset;     /* used with FOVEA_QUERY_OFFSET; -2^30 to 2^30                                            */
  int64_t window_left;      /* >= 0, used with FOVEA_WINDOW_LEFT                                                      */
  int64_t window_right;     /* >= 0, used with FOVEA_WINDOW_RIGHT                                                     */
  const fovea_tensor *valid_lens;   /* [B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j < length.    *
                                     * Any strides. One length serves all heads. Positions do not go by it: see there */
  const fovea_tensor *mask;         /* BOOL [B,H,Q,K] (or [Q,K]), true: attend. Axes of size 1 but K's broadcast. The  *
                                     * last axis may be shorter than K: keys behind it are not attended               */
  const fovea_tensor *bias;         /* F32 [B,H,Q,K] (or [Q,K]), added to the scores. Axes of size 1 but K's broadcast. *
                                     * The last axis may be shorter than K, as the mask's                             */
  const fovea_tensor *alibi_slopes; /* F32 [H], any stride. ALiBi (Press et al. 2022)                                 */
  const fovea_tensor *sinks;        /* F32 [H], any stride. A logit that takes part in the softmax without a value    */
  const fovea_tensor *log_sum_exp;  /* output F32 [B,H,Q], any strides: log sum_j exp(score), the sink included       */
  const fovea_tensor *weights;      /* output F32 [B,H,Q,K], or [B,Q,K] with FOVEA_AVERAGE_WEIGHTS; masked keys get 0 */
  float dropout;                    /* in [0, 1): probability that a weight is dropped; 0: none. See "Dropout"        */
  int32_t reserved;                 /* 0                                                                              */
  uint64_t dropout_seed;            /* used with dropout                                                              */
  const fovea_tensor *query_offsets; /* [B], I32 or I64, each in [-2^30, 2^30], any stride: query i of batch entry b  *
                                      * stands at position query_offsets[b] + i. Not together with FOVEA_TOP_LEFT or  *
                                      * FOVEA_QUERY_OFFSET                                                            */
  const fovea_tensor *scores;        /* output F32 [B,H,Q,K]: the scores themselves, by a pass of their own           */
  int32_t scores_kind;               /* FOVEA_SCORES_*, used with scores                                              */
  int32_t precision;                 /* FOVEA_PRECISION_*, of F32 queries, keys and values                            */
  const fovea_tensor *key_scales;    /* F16 [B,Hkv,K,D/group], rank as key's, given exactly if key is I8: feature d of a  *
                                      * key is its number times scale d / group. group: a multiple of 16, or D (any D)   */
  const fovea_tensor *value_scales;  /* F16 [B,Hkv,K,Dv/group], likewise for value; of U8 [B,Hkv,K,2 Dv/group], group a   *
                                      * multiple of 32: a scale and a least number for each group                        */
  const fovea_tensor *projected_query; /* output F32 [B,H,Q,h] of fovea_attention, input of its backward pass: ADDITIVE, *
                                        * CONCAT. See "Kept projections" in scores.h                                     */
  const fovea_tensor *projected_key;   /* output F32 [B,Hkv,K,h], likewise                                               */
} fovea_attention_options;

/* Dropout (Srivastava et al. 2014), for training. Each weight of a row with something to attend is set to 0 with
 * probability `dropout`, else multiplied by 1 / (1 - dropout), after the softmax; log-sum-exp is that of the softmax,
 * and returned weights are those after dropout. The choice for batch entry b, query head h, query i and key j depends
 * on nothing but the seed and these four numbers, so the same weights are dropped whatever the tiles, the threads, the
 * instruction set or the layout: with Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011), key = seed (low word, high
 * word), counter = (j / 4, i, h, b), the weight is dropped iff word j % 4 of the result is below dropout * 2^32 rounded
 * to the nearest integer. */

/* Scaled dot-product attention (Vaswani et al. 2017), out = softmax(score) value, tiled with online softmax.
 *   query F32 [B,H,Q,D]   key F32 [B,Hkv,K,D]   value F32 [B,Hkv,K,Dv]   out F32 [B,H,Q,Dv]
 * or all of rank 3, [B,L,D] (one head), or all of rank 2, [L,D]. D and Dv in [1, 1024]; Q and K at most 2^30. B, Q and
 * K may be 0. Query head h uses key/value head h / (H / Hkv). Asking for weights may change the last bits of out.
 * Each of query, key, value, out, options.bias, weights and scores may as well be F16 or BF16, in any mix; weights that are
 * averaged may not. Everything is computed in float32, with the bits that F32 tensors of these numbers give, and rounded
 * once when it is stored: to nearest, ties to even, past the largest number to infinity; subnormal numbers are kept. But
 * where query, key and value all are BF16, the processor has products of it (AVX-512-BF16; fovea_plan_describe tells) and
 * there are more than a few rows, each weight is rounded to BF16 before it meets its value: an error of at most
 * 2^-8 sum_j weight_j |value_j|. Subnormal numbers in such products count as 0, and so do products that are (2^-127 times
 * 2^127 is 0). Products of AVX-512-BF16 want an even D, else they are float32's; keys an odd stride apart are copied for them,
 * or for up to 12 queries of a head left to float32. With AMX's tiles, which are taken before
 * those, the sum that divides is one of rounded weights, too: an error of at most 2^-6.9 sum_j weight_j |value_j|. Where all
 * three are F16, there is no dropout and the processor has tiles of that (AMX-FP16), weights are rounded to F16: an error of at
 * most 2^-9.6 sum_j weight_j |value_j| + 2^-31 K max_j |value_j|.
 * Log-sum-exp, returned weights and scores are float32's in any case.
 * With FOVEA_PRECISION_MEDIUM, F32 query, key and value are rounded to BF16 in the workspace where that row of kernels takes
 * them, and the result is that of such tensors.
 * Key or value, or both, may be I8 with scales (options.key_scales, options.value_scales; fovea_quantize makes both): a number
 * times its scale is what it stands for. They are read as F32 of these numbers, exactly, with the bits that such tensors give;
 * but where query is BF16, or F16, and so are key and value or they are I8, as BF16 or F16 wherever the products above are
 * taken: rounded once, for F16 past its largest number to that, and that is what such tensors give. For up to 16 queries that
 * share a head, where key is I8 and value too, or U8, D and Dv are multiples of 64, scales are of a row, of half of it, or of
 * groups of 16, 32 or a multiple of 64 whose number is a multiple of 4, and the processor has products of bytes (AVX-512-VNNI
 * and VBMI), query is rounded to 2^-16 of its row's largest number, and weight times scale to 2^-16 of the largest of any 192
 * keys.
 * Value may as well be U8 [B,Hkv,K,Dv/2], two features of 4 bits in each as fovea_quantize lays them, with value_scales, beside
 * a key of any type; Dv is then a multiple of 32. A number of 4 bits times its group's scale plus its least number is what it
 * stands for, rounded once to F32, and read as numbers of I8 are; products of bytes take number and least number apart. Keys have
 * no 4 bits.
 * Scratch memory comes from the context; see fovea_plan for none. */
FOVEA_API fovea_status fovea_sdpa(const fovea_context *context, const fovea_tensor *query, const fovea_tensor *key,
                                  const fovea_tensor *value, const fovea_tensor *out,
                                  const fovea_attention_options *options);

/* Plans the call that fovea_sdpa would make. The tensors' data pointers are not read and may be NULL. */
FOVEA_API fovea_status fovea_sdpa_plan_create(const fovea_context *context, const fovea_tensor *query,
                                              const fovea_tensor *key, const fovea_tensor *value,
                                              const fovea_tensor *out, const fovea_attention_options *options,
                                              fovea_plan **plan);

/* The data pointers of a planned run, in the layouts that were planned. A pointer whose tensor was not in the plan must
 * be NULL. A plan of a backward pass reads out and log_sum_exp. */
typedef struct fovea_attention_buffers {
  size_t struct_size;
  const void *query;
  const void *key;
  const void *value;
  void *out;
  const void *valid_lens;
  const void *mask;
  const void *bias;
  const void *alibi_slopes;
  const void *sinks;
  void *log_sum_exp;
  void *weights;
  const void *query_weight; /* the score's parameters */
  const void *key_weight;
  const void *weight;
  const void *score_bias;
  const void *score_vector;
  const void *sigmas;
  const void *query_offsets;
  void *scores;
  const void *key_scales;
  const void *value_scales;
  const void *grad_out; /* of a backward pass: what training.h calls gradients.out, and so on */
  const void *grad_log_sum_exp;
  const void *grad_weights;
  void *grad_query;
  void *grad_key;
  void *grad_value;
  void *grad_bias;
  void *grad_alibi_slopes;
  void *grad_sinks;
  void *grad_query_weight;
  void *grad_key_weight;
  void *grad_weight;
  void *grad_score_bias;
  void *grad_score_vector;
  void *grad_sigmas;
  void *projected_query; /* of a backward pass inputs */
  void *projected_key;
} fovea_attention_buffers;

/* Runs a plan without allocating. workspace: fovea_plan_workspace_size(plan) bytes, any alignment, not shared with a
 * run at the same time; may be NULL when that is 0. The plan keeps using the context it was made with, which must
 * outlive it. Each run may bring other valid_lens: a decoder plans once for the most keys there can be, and gives each
 * run the lengths of the moment; keys past them are not read (capi/examples/decoder.c). */
FOVEA_API fovea_status fovea_attention_run(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                                           size_t workspace_size);

/* ---- merging ------------------------------------------------------------------------------------------------------- */

/* Merges attention over S disjoint parts of the keys into attention over all of them (FlashAttention's split-key rule):
 *   log_sum_exp = log sum_s exp(lse_s),  out = sum_s exp(lse_s - log_sum_exp) out_s
 * outs F [S,...,Dv], lses F32 [S,...], out F [...,Dv], log_sum_exp F32 [...] or NULL; "..." up to 4 axes, the same
 * for all. Merged in the order of S. A part with log-sum-exp -infinity is not read; where every part is, the result is
 * 0 and -infinity; +infinity gives NaN and, unless another is NaN, +infinity. S >= 1. In place is not allowed. */
FOVEA_API fovea_status fovea_merge_states(const fovea_context *context, const fovea_tensor *outs,
                                          const fovea_tensor *lses, const fovea_tensor *out,
                                          const fovea_tensor *log_sum_exp);

/* ---- masked softmax ------------------------------------------------------------------------------------------------ */

typedef struct fovea_masked_softmax_options {
  size_t struct_size;
  int32_t empty_rows; /* FOVEA_EMPTY_ROWS_*: what a row of valid length 0 gives */
  int32_t reserved;   /* 0 */
} fovea_masked_softmax_options;

/* Softmax over the last axis, of the first valid_lens keys of each row; the others are exactly 0.
 *   x F [...,Q,K], rank 2 to 6, out F of the same shape; in place allowed when data, strides and types are the same.
 *   valid_lens NULL, [B] or [B,Q], I32 or I64, each in [0, K], B being x's first axis (1 for rank 2), any strides.
 * options may be NULL. Where x and out both are F16, or both BF16: off by at most 0.53 of the type's last place, beside
 * float32's rounding of the row's sum. Unless both are BF16, an x more than 87 (125.5 log 2) below its row's largest gives 0. */
FOVEA_API fovea_status fovea_masked_softmax(const fovea_context *context, const fovea_tensor *x,
                                            const fovea_tensor *valid_lens, const fovea_tensor *out,
                                            const fovea_masked_softmax_options *options);

/* Softmax over one axis, out = e^(x - max) / sum e^(x - max); and its logarithm, out = (x - max) - log(sum e^(x - max)), which
 * keeps its digits where softmax is 0.
 *   x F [...], rank 1 to 6, out F of the same shape; in place allowed when data, strides and types are the same.
 *   axis from 0 to x's rank - 1, or from -1, the last one, backwards to -rank.
 * As the formulas have it, -infinity alone along the axis gives NaN, and so do NaN and +infinity among it. What is off by how
 * much in softmax over the last axis is as in fovea_masked_softmax; over another axis, and of the logarithm, F16 and BF16
 * results are float32's, rounded once. */
FOVEA_API fovea_status fovea_softmax(const fovea_context *context, const fovea_tensor *x, int32_t axis,
                                     const fovea_tensor *out);
FOVEA_API fovea_status fovea_log_softmax(const fovea_context *context, const fovea_tensor *x, int32_t axis,
                                         const fovea_tensor *out);

/* ---- building blocks ----------------------------------------------------------------------------------------------- */

/* out = a b. a F32 [...,M,K], b F32 [...,K,N], out F32 [...,M,N]; "..." up to two batch axes. One that a or b lacks, or where
 * it has size 1, is repeated: it serves every entry of out's. a and b may have any strides (a transposed view is just
 * strides); out's last axis must be contiguous.
 * Sizes may be 0; K = 0 gives zeros. Scratch memory comes from the context.
 * Each of a, b and out may as well be F16 or BF16, in any mix: computed in float32, with the bits that F32 tensors of these
 * numbers give, and rounded once when stored, as in fovea_sdpa. But where a and b both are BF16 and the processor has
 * products of it (AMX's tiles, else AVX-512-BF16), or both are F16 and it has tiles of that (AMX-FP16), pairs of products are
 * added in its order, and subnormal numbers, of F16 only sums, count as 0: an error of the same size. With
 * FOVEA_PRECISION_MEDIUM in the context, F32 a and b, of which one may as well be BF16, are rounded to BF16 where products of
 * that are there, and the result is that of such tensors: within 2^-7 sum_k |a_k b_k| of float32's. */
FOVEA_API fovea_status fovea_matmul(const fovea_context *context, const fovea_tensor *a, const fovea_tensor *b,
                                    const fovea_tensor *out);

/* Bits of fovea_gemm_options.flags */
enum {
  FOVEA_GEMM_ALPHA_GIVEN = 1, /* alpha is meant as it stands, 0 too                                                    */
  FOVEA_GEMM_BETA_GIVEN = 2   /* beta is meant as it stands: at 0 c is not read                                        */
};

typedef struct fovea_gemm_options {
  size_t struct_size;
  uint32_t flags;        /* FOVEA_GEMM_*                                                                                */
  float alpha;           /* finite; 0: 1; unless FOVEA_GEMM_ALPHA_GIVEN                                                 */
  float beta;            /* finite; 0: 1; unless FOVEA_GEMM_BETA_GIVEN                                                  */
  int32_t reserved;      /* 0                                                                                           */
  const fovea_tensor *c; /* F, rank 1 to out's, last axis contiguous; axes that it lacks, and those of size 1, are      *
                          * repeated. May be out itself (same data, type, shape and strides). NULL: none                 */
} fovea_gemm_options;

/* out = alpha a b + beta c, in one pass over out. a, b, out, their types and what is promised of their product as in
 * fovea_matmul, whose bits it gives without options. What comes after the product is computed in float32. options may be
 * NULL. */
FOVEA_API fovea_status fovea_gemm(const fovea_context *context, const fovea_tensor *a, const fovea_tensor *b,
                                  const fovea_tensor *out, const fovea_gemm_options *options);

/* A right-hand side stored once in the order the kernel reads it. Immutable and shareable; holds its own copy of b,
 * laid out for the instruction set of the context it was packed with. */
typedef struct fovea_packed_matrix fovea_packed_matrix;

typedef struct fovea_matmul_pack_options {
  size_t struct_size;
  uint32_t flags;    /* 0 */
  int32_t precision; /* FOVEA_PRECISION_* */
} fovea_matmul_pack_options;

/* b F32, F16 or BF16 [K,N], any strides; packed it keeps its type, so that 16 bits take half the memory. But with
 * FOVEA_PRECISION_MEDIUM, F32 b is rounded to BF16 for good, where the processor has products of that, and with
 * FOVEA_PRECISION_INT8 b of any type to 8 bits, everywhere. options may be NULL. Errors as fovea_matmul, and
 * FOVEA_OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_matmul_pack(const fovea_context *context, const fovea_tensor *b,
                                         const fovea_matmul_pack_options *options, fovea_packed_matrix **packed);

/* NULL is allowed. No call may still be using it. */
FOVEA_API void fovea_packed_matrix_destroy(fovea_packed_matrix *packed);

/* Bytes held; 0 for NULL. */
FOVEA_API size_t fovea_packed_matrix_size(const fovea_packed_matrix *packed);

/* out = a b with b packed before, without allocating, but for more than a few rows of a that are copied first: in another
 * type than the kernel reads, or of elements that are not neighbours. a and out as in fovea_matmul, [M,K] -> [M,N] or, one
 * batch axis that both have, [B,M,K] -> [B,M,N]. The same bits as fovea_matmul in a context of the packing's precision; but at medium F16 a meets b as
 * it was rounded. The context must run the instruction set that b was packed for. */
FOVEA_API fovea_status fovea_matmul_packed(const fovea_context *context, const fovea_tensor *a,
                                           const fovea_packed_matrix *b, const fovea_tensor *out);

/* out = e^x, element by element. F, rank 1 to 6, last axis contiguous, same shapes; in place allowed when data, strides
 * and types are the same. At most 1.6 ulp of float32; exp(-inf) = 0, exp(+inf) = +inf, NaN stays NaN; denormal results are kept.
 * F16 to F16 and BF16 to BF16: off by at most 0.53 of the type's last place. */
FOVEA_API fovea_status fovea_exp(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out);

/* out = tanh x, likewise. At most 1.4 ulp of float32; odd, tanh(-0) = -0, tanh(+-inf) = +-1, NaN stays NaN. */
FOVEA_API fovea_status fovea_tanh(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out);

/* Rows of numbers as 8-bit numbers with a scale for each group of features, as fovea_attention takes keys and values:
 *   x F [...,D], rank 1 to 6   out I8 of x's shape   scales output F16 [...,D/group], last axes contiguous, D >= 1
 *   scales = max |x| of the group / 127, rounded up to F16;  out = x (1 / scale), rounded to nearest, ties to even
 * group, which the size of scales' last axis says, is a multiple of 16, or D. A number is off by at most 0.5001 of its group's
 * scale. A group of zeros has scale 0. One with NaN or infinity has scale NaN and numbers 0, so that all of it reads back as
 * NaN. Numbers beyond 127 times F16's largest number, 8.3e6, are cut to that. All instruction sets give the same bits.
 * Or as 4-bit numbers, as fovea_attention takes values, with a scale and a least number for each group:
 *   out U8 [...,D/2], scales output F16 [...,2 D/group]: pairs of scale and least; D and group are multiples of 32
 *   least = min x of the group, rounded down to F16;  scale = (max x - least) / 15, rounded up to F16
 *   number = (x - least) (1 / scale), rounded to nearest, ties to even
 * Byte i of 16 that hold 32 features has feature i in its low four bits and feature 16 + i in its high ones. A number is off by
 * at most 0.5001 of its group's scale; a group of one number that F16 has is exact. Of a group with NaN or infinity the scale
 * is NaN, least and numbers are 0. Numbers below -65504 are cut to that, and those above least + 15 times 65504 to that. */
FOVEA_API fovea_status fovea_quantize(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                                      const fovea_tensor *scales);

/* And back: out = q scale, of q I8 [...,D] and scales F16 [...,D/group] as fovea_quantize leaves them, or any; out F of q's
 * shape. Rounded once, as out's type asks; of a finite scale, past F16's largest number to that.
 * Of q U8 [...,D/2] and scales F16 [...,2 D/group], out F [...,D]: least + scale number, rounded once to float32, then as out's
 * type asks. */
FOVEA_API fovea_status fovea_dequantize(const fovea_context *context, const fovea_tensor *q, const fovea_tensor *scales,
                                        const fovea_tensor *out);

#ifdef __cplusplus
}
#endif

#include <fovea/scores.h>
#include <fovea/serving.h>
#include <fovea/layers.h>
#include <fovea/training.h>

#endif /* FOVEA_FOVEA_H */
