// Rejections of calls of attention: the core's, of local shapes; what cannot be shared out; what all ranks' lengths
// must be.
#include <cinttypes>
#include <cstring>

#include "mpi/call_check.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

Status check_data(const fovea_tensor *tensor, const char *name) {
  if (tensor == nullptr || element_count(*tensor) == 0) return FOVEA_OK;
  if (tensor->data == nullptr) return fail(FOVEA_NULL_POINTER, "%s.data is NULL, expected elements", name);
  const size_t size = element_size(tensor->dtype);
  if (reinterpret_cast<uintptr_t>(tensor->data) % size != 0) {
    return fail(FOVEA_BAD_VALUE, "%s.data is not aligned to its elements of %zu bytes", name, size);
  }
  return FOVEA_OK;
}

void keep(const fovea_tensor *given, bool *has, fovea_tensor *kept) {
  *has = given != nullptr;
  if (given != nullptr) *kept = *given;
}

// The lengths of one query, of all entries.
fovea_tensor column_of(const fovea_tensor &lens, int64_t query) {
  fovea_tensor column = part_of(lens, 1, query, 1);
  column.rank = 1;
  return column;
}

// What needs all keys of a query on one rank.
Status check_mergeable(const fovea_attention_options &options) {
  FOVEA_MPI_CHECK(refuse("mask", options.mask));
  FOVEA_MPI_CHECK(refuse("bias", options.bias));
  if (options.empty_rows == FOVEA_EMPTY_ROWS_UNIFORM) {
    return fail(FOVEA_BAD_VALUE,
                "options.empty_rows is FOVEA_EMPTY_ROWS_UNIFORM, expected another: it cannot be shared out");
  }
  return check_supported(options);
}

bool counts_positions(const Call &call) {
  return call.has(FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT) || call.has_alibi_slopes;
}

Status check_integers(const fovea_tensor &tensor, const char *name, int64_t least, int64_t most) {
  for (int64_t i = 0; i < tensor.shape[0]; ++i) {
    const int64_t value = integer_at(tensor, i);
    if (value >= least && value <= most) continue;
    return fail(FOVEA_BAD_VALUE, "options.%s[%" PRId64 "] is %" PRId64 ", expected %" PRId64 " to %" PRId64, name, i,
                value, least, most);
  }
  return FOVEA_OK;
}

// In orders that the library chooses, each rank's lengths are a share; the whole is at most 2^30.
Status check_operand_shares(const Handle &handle, const int64_t *begin, const char *name, int32_t rank_of_tensor,
                            int32_t order) {
  const int64_t whole = begin[handle.ranks];
  if (whole > largest_length) {
    return fail(FOVEA_BAD_SHAPE, "all ranks' %s have %" PRId64 " positions, expected at most 2^30", name, whole);
  }
  for (int rank = 0; order != FOVEA_MPI_CONTIGUOUS && rank < handle.ranks; ++rank) {
    const int64_t given = begin[rank + 1] - begin[rank];
    const int64_t expected = share_of(order, whole, handle.ranks, rank).length();
    if (given == expected) continue;
    return fail(FOVEA_BAD_SHAPE,
                "rank %d: %s.shape[%d] is %" PRId64 ", expected %" PRId64 ", its share of %" PRId64 " (%s)", rank, name,
                rank_of_tensor - 2, given, expected, whole, order_name(order));
  }
  return FOVEA_OK;
}

}  // namespace

void read_options(const fovea_attention_options *given, fovea_attention_options *read) {
  std::memset(read, 0, sizeof *read);
  if (given != nullptr && given->struct_size >= sizeof given->struct_size) {
    std::memcpy(read, given, given->struct_size < sizeof *read ? given->struct_size : sizeof *read);
  }
  read->struct_size = sizeof *read;
}

Status check_newer_options(const fovea_attention_options &given) {
  constexpr size_t sane_size = 4096;
  if (given.struct_size > sane_size) {
    return fail(FOVEA_BAD_OPTION, "options.struct_size is %zu, expected the struct's sizeof, %zu", given.struct_size,
                sizeof given);
  }
  for (size_t i = sizeof given; i < given.struct_size; ++i) {
    if (reinterpret_cast<const unsigned char *>(&given)[i] != 0) {
      return fail(FOVEA_BAD_OPTION, "options sets byte %zu of %zu, but this library knows only %zu", i,
                  given.struct_size, sizeof given);
    }
  }
  return FOVEA_OK;
}

Status refuse(const char *member, const fovea_tensor *tensor) {
  if (tensor == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.%s is given, expected NULL: it cannot be shared out", member);
}

Status check_supported(const fovea_attention_options &options) {
  FOVEA_MPI_CHECK(refuse("weights", options.weights));
  FOVEA_MPI_CHECK(refuse("scores", options.scores));
  FOVEA_MPI_CHECK(refuse("projected_query", options.projected_query));
  FOVEA_MPI_CHECK(refuse("projected_key", options.projected_key));
  if (options.dropout != 0.0f) {
    return fail(FOVEA_BAD_VALUE, "options.dropout is %g, expected 0: it cannot be shared out",
                static_cast<double>(options.dropout));
  }
  return FOVEA_OK;
}

Status check_by_core(const Handle &handle, const Arguments &a) {
  fovea_plan *plan = nullptr;
  const Status status =
      fovea_attention_plan_create(handle.context, a.score, a.query, a.key, a.value, a.out, a.options, &plan);
  fovea_plan_destroy(plan);
  return of_core(status);
}

std::array<Named, 17> inputs_of(const Arguments &a, const fovea_attention_options &options) {
  fovea_score score = {};
  if (a.score != nullptr) score = *a.score;
  return {{{"query", a.query},
           {"key", a.key},
           {"value", a.value},
           {"options.valid_lens", options.valid_lens},
           {"options.mask", options.mask},
           {"options.bias", options.bias},
           {"options.alibi_slopes", options.alibi_slopes},
           {"options.sinks", options.sinks},
           {"options.query_offsets", options.query_offsets},
           {"options.key_scales", options.key_scales},
           {"options.value_scales", options.value_scales},
           {"score.query_weight", score.query_weight},
           {"score.key_weight", score.key_weight},
           {"score.weight", score.weight},
           {"score.bias", score.bias},
           {"score.score_vector", score.score_vector},
           {"score.sigmas", score.sigmas}}};
}

Status check_memory(std::span<const Named> inputs, std::span<const Named> outputs) {
  for (const Named &input : inputs) FOVEA_MPI_CHECK(check_data(input.tensor, input.name));
  for (const Named &output : outputs) FOVEA_MPI_CHECK(check_data(output.tensor, output.name));
  const auto check_apart = [](const Named &output, const Named &other) -> Status {
    if (output.tensor == nullptr || other.tensor == nullptr || !overlap(*output.tensor, *other.tensor)) return FOVEA_OK;
    return fail(FOVEA_OVERLAP, "%s overlaps %s, expected memory of its own", output.name, other.name);
  };
  for (const Named &output : outputs) {
    for (const Named &input : inputs) FOVEA_MPI_CHECK(check_apart(output, input));
    for (const Named *before = outputs.data(); before != &output; ++before)
      FOVEA_MPI_CHECK(check_apart(output, *before));
  }
  return FOVEA_OK;
}

Status check_memory(const Arguments &a, const fovea_attention_options &options) {
  const Named outputs[] = {{"out", a.out}, {"options.log_sum_exp", options.log_sum_exp}};
  return check_memory(inputs_of(a, options), outputs);
}

void lift_call(const Arguments &a, const fovea_attention_options &options, Call *call) {
  call->score = a.score;
  call->rank = a.query->rank;
  call->query = lift(*a.query, 4);
  call->key = lift(*a.key, 4);
  call->value = lift(*a.value, 4);
  call->out = lift(*a.out, 4);
  call->options = options;
  call->wants_log_sum_exp = options.log_sum_exp != nullptr;
  if (call->wants_log_sum_exp) call->log_sum_exp = lift(*options.log_sum_exp, 3);
  keep(options.valid_lens, &call->has_valid_lens, &call->valid_lens);
  keep(options.query_offsets, &call->has_query_offsets, &call->query_offsets);
  keep(options.alibi_slopes, &call->has_alibi_slopes, &call->alibi_slopes);
  keep(options.sinks, &call->has_sinks, &call->sinks);
}

Status check_shares(const Handle &handle, const WholeLengths &lengths, int32_t rank_of_tensors, int32_t order) {
  FOVEA_MPI_CHECK(check_operand_shares(handle, lengths.query_begin, "query", rank_of_tensors, order));
  return check_operand_shares(handle, lengths.key_begin, "key", rank_of_tensors, order);
}

Status check_travelling(const fovea_attention_options &options) {
  FOVEA_MPI_CHECK(check_mergeable(options));
  FOVEA_MPI_CHECK(refuse("key_scales", options.key_scales));
  return refuse("value_scales", options.value_scales);
}

Status check_places_of_keys(const fovea_attention_options &options, int32_t order) {
  if (options.valid_lens != nullptr && options.valid_lens->rank != 1) {
    return fail(FOVEA_BAD_RANK, "options.valid_lens has rank %d, expected 1: one length for each batch entry",
                options.valid_lens->rank);
  }
  if (order == FOVEA_MPI_STRIPED && options.alibi_slopes != nullptr) {
    return fail(
        FOVEA_BAD_VALUE,
        "options.alibi_slopes is given, expected NULL with FOVEA_MPI_STRIPED: distances of neighbours are not 1");
  }
  return FOVEA_OK;
}

Status check_ring_call(const Handle &handle, const Arguments &a, int32_t order, Call *call) {
  fovea_attention_options options;
  read_options(a.options, &options);
  FOVEA_MPI_CHECK(check_travelling(options));
  FOVEA_MPI_CHECK(check_by_core(handle, a));
  FOVEA_MPI_CHECK(check_places_of_keys(options, order));
  FOVEA_MPI_CHECK(check_memory(a, options));
  lift_call(a, options, call);
  return FOVEA_OK;
}

Status check_decode_call(const Handle &handle, const Arguments &given, bool from_first_rank, Call *call) {
  Arguments a = given;
  fovea_attention_options options;
  read_options(a.options, &options);
  FOVEA_MPI_CHECK(check_mergeable(options));
  const uint32_t of_positions =
      FOVEA_CAUSAL | FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET | FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT | FOVEA_LEAVE_ONE_OUT;
  if ((options.flags & of_positions) != 0) {
    return fail(FOVEA_BAD_VALUE,
                "options.flags is 0x%x, expected none that counts positions: keys of a split cache have none",
                options.flags);
  }
  FOVEA_MPI_CHECK(refuse("alibi_slopes", options.alibi_slopes));
  FOVEA_MPI_CHECK(refuse("query_offsets", options.query_offsets));
  FOVEA_MPI_CHECK(check_by_core(handle, a));
  fovea_tensor elsewhere = *a.query;  // its data is not looked at here
  if (from_first_rank && handle.rank != 0) {
    elsewhere.shape[0] = 0;
    a.query = &elsewhere;
  }
  FOVEA_MPI_CHECK(check_memory(a, options));
  a.query = given.query;
  lift_call(a, options, call);
  const int64_t queries = call->query_len();
  if (!call->has_valid_lens) return FOVEA_OK;
  for (int64_t i = 0; i < (call->valid_lens.rank == 2 ? queries : 1); ++i) {
    fovea_tensor lens = call->valid_lens;
    if (lens.rank == 2) lens = column_of(lens, i);
    FOVEA_MPI_CHECK(check_integers(lens, "valid_lens", 0, call->key_len()));
  }
  return FOVEA_OK;
}

Status check_lengths(const Handle &handle, const WholeLengths &lengths, const Call &call, int32_t order) {
  FOVEA_MPI_CHECK(check_shares(handle, lengths, call.rank, order));
  const int64_t positions = lengths.queries + lengths.keys;
  const int64_t most = largest_length > positions ? largest_length - positions : 0;
  if (call.has(FOVEA_QUERY_OFFSET) && (call.options.query_offset > most || call.options.query_offset < -most)) {
    return fail(FOVEA_BAD_VALUE,
                "options.query_offset is %" PRId64 ", expected -%" PRId64 " to %" PRId64 ": 2^30 less all positions",
                call.options.query_offset, most, most);
  }
  if (call.has_query_offsets) FOVEA_MPI_CHECK(check_integers(call.query_offsets, "query_offsets", -most, most));
  if (call.has_valid_lens) FOVEA_MPI_CHECK(check_integers(call.valid_lens, "valid_lens", 0, lengths.keys));
  const bool explicit_places = call.has(FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET) || call.has_query_offsets;
  if (call.has(FOVEA_LEAVE_ONE_OUT) && counts_positions(call) && !explicit_places && lengths.keys > lengths.queries) {
    return fail(FOVEA_BAD_VALUE,
                "options.flags has FOVEA_LEAVE_ONE_OUT, which counts from key 0, with what counts from the last key: "
                "expected FOVEA_TOP_LEFT or FOVEA_QUERY_OFFSET");
  }
  return FOVEA_OK;
}

}  // namespace fovea::mpi
