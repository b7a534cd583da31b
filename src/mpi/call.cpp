// States a call to the other ranks.
#include "mpi/call.hpp"

#include <algorithm>
#include <cstring>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr uint64_t first_hash = 0xcbf29ce484222325;  // FNV-1a's, which takes bytes where this takes up to eight at once

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const unsigned char *>(bytes) + i, std::min(sizeof word, count - i));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t hash_axis(const fovea_tensor &tensor, int32_t axis, const char *at, uint64_t hash) {
  const auto size = static_cast<int64_t>(element_size(tensor.dtype));
  if (axis == tensor.rank) return hash_bytes(hash, at, static_cast<size_t>(size));
  for (int64_t i = 0; i < tensor.shape[axis]; ++i) {
    hash = hash_axis(tensor, axis + 1, at + i * tensor.strides[axis] * size, hash);
  }
  return hash;
}

// A hash of type, shape and values; no tensor has 0.
int64_t hash_of(const fovea_tensor *tensor, bool values = true) {
  if (tensor == nullptr) return 0;
  uint64_t hash = hash_bytes(first_hash, &tensor->dtype, sizeof tensor->dtype);
  hash = hash_bytes(hash, tensor->shape, sizeof(int64_t) * static_cast<size_t>(tensor->rank));
  if (values && element_count(*tensor) > 0) hash = hash_axis(*tensor, 0, static_cast<const char *>(tensor->data), hash);
  return static_cast<int64_t>(hash | 1);
}

// "query.shape[1]" and the like, by the rank of the tensors as they were given.
const char *size_name(int32_t rank, int operand, int32_t lifted_axis) {
  static constexpr const char *names[3][4] = {{"query.shape[0]", "query.shape[1]", "query.shape[2]", "query.shape[3]"},
                                              {"key.shape[0]", "key.shape[1]", "key.shape[2]", "key.shape[3]"},
                                              {"value.shape[0]", "value.shape[1]", "value.shape[2]", "value.shape[3]"}};
  const int32_t axis = lifted_axis == 0 ? 0 : lifted_axis - (4 - rank);
  return names[operand][axis < 0 ? 0 : axis];
}

void state_score(const fovea_score *score, Statement *statement) {
  fovea_score read = {};
  if (score != nullptr) read = *score;
  const auto add = [&](const char *name, const fovea_tensor *tensor) {
    statement->add(name, Kind::tensor, FOVEA_BAD_VALUE, hash_of(tensor));
  };
  statement->add("score.kind", Kind::number, FOVEA_BAD_VALUE, read.kind);
  statement->add("score.sigma", Kind::real, FOVEA_BAD_VALUE, bits_of(read.sigma));
  add("score.query_weight", read.query_weight);
  add("score.key_weight", read.key_weight);
  add("score.weight", read.weight);
  add("score.bias", read.bias);
  add("score.score_vector", read.score_vector);
  add("score.sigmas", read.sigmas);
}

void state_options(const Call &call, Statement *statement) {
  const fovea_attention_options &options = call.options;
  statement->add("options.flags", Kind::number, FOVEA_BAD_VALUE, options.flags);
  statement->add("options.empty_rows", Kind::number, FOVEA_BAD_VALUE, options.empty_rows);
  statement->add("options.scale", Kind::real, FOVEA_BAD_VALUE, bits_of(options.scale));
  statement->add("options.softcap", Kind::real, FOVEA_BAD_VALUE, bits_of(options.softcap));
  const auto if_used = [&](uint32_t flag, int64_t value) { return call.has(flag) ? value : 0; };
  statement->add("options.query_offset", Kind::number, FOVEA_BAD_VALUE,
                 if_used(FOVEA_QUERY_OFFSET, options.query_offset));
  statement->add("options.window_left", Kind::number, FOVEA_BAD_VALUE, if_used(FOVEA_WINDOW_LEFT, options.window_left));
  statement->add("options.window_right", Kind::number, FOVEA_BAD_VALUE,
                 if_used(FOVEA_WINDOW_RIGHT, options.window_right));
  statement->add("options.precision", Kind::number, FOVEA_BAD_VALUE, options.precision);
  statement->add("options.alibi_slopes", Kind::tensor, FOVEA_BAD_VALUE,
                 hash_of(call.has_alibi_slopes ? &call.alibi_slopes : nullptr));
  statement->add("options.sinks", Kind::tensor, FOVEA_BAD_VALUE, hash_of(call.has_sinks ? &call.sinks : nullptr));
}

}  // namespace

Status attend_at_once(const Handle &handle, const Arguments &a) {
  return of_core(fovea_attention(handle.context, a.score, a.query, a.key, a.value, a.out, a.options));
}

void state_call(const Call &call, Statement *statement) {
  const int32_t rank = call.rank;
  statement->add("query's positions", Kind::own, FOVEA_OK, call.query_len());
  statement->add("key's positions", Kind::own, FOVEA_OK, call.key_len());
  statement->add("query.rank", Kind::number, FOVEA_BAD_RANK, rank);
  const fovea_tensor *tensors[] = {&call.query, &call.key, &call.value};
  for (int operand = 0; operand < 3; ++operand) {
    for (const int32_t axis : {0, 1, 3}) {
      statement->add(size_name(rank, operand, axis), Kind::number, FOVEA_BAD_SHAPE, tensors[operand]->shape[axis]);
    }
  }
  statement->add("query.dtype", Kind::dtype, FOVEA_BAD_DTYPE, call.query.dtype);
  statement->add("key.dtype", Kind::dtype, FOVEA_BAD_DTYPE, call.key.dtype);
  statement->add("value.dtype", Kind::dtype, FOVEA_BAD_DTYPE, call.value.dtype);
  statement->add("out.dtype", Kind::dtype, FOVEA_BAD_DTYPE, call.out.dtype);
  state_options(call, statement);
  state_score(call.score, statement);
}

void state_lengths(const Call &call, Statement *statement) {
  statement->add("options.valid_lens", Kind::tensor, FOVEA_BAD_VALUE,
                 hash_of(call.has_valid_lens ? &call.valid_lens : nullptr));
  statement->add("options.query_offsets", Kind::tensor, FOVEA_BAD_VALUE,
                 hash_of(call.has_query_offsets ? &call.query_offsets : nullptr));
}

void state_masks(const Call &call, Statement *statement) {
  statement->add("options.mask", Kind::tensor, FOVEA_BAD_VALUE, hash_of(call.options.mask, false));
  statement->add("options.bias", Kind::tensor, FOVEA_BAD_VALUE, hash_of(call.options.bias, false));
}

WholeLengths whole_lengths(Handle &handle, const Statement &statement) {
  int64_t *const query_begin = handle.begins(), *const key_begin = query_begin + handle.ranks + 1;
  query_begin[0] = key_begin[0] = 0;
  for (int rank = 0; rank < handle.ranks; ++rank) {
    const int64_t *const numbers = stated(handle) + static_cast<int64_t>(rank) * statement.count;
    query_begin[rank + 1] = query_begin[rank] + numbers[stated_query_len];
    key_begin[rank + 1] = key_begin[rank] + numbers[stated_key_len];
  }
  return {query_begin, key_begin, query_begin[handle.ranks], key_begin[handle.ranks]};
}

const char *query_positions_name(int32_t rank) { return size_name(rank, 0, 2); }

int64_t integer_at(const fovea_tensor &tensor, int64_t index) {
  const int64_t at = index * tensor.strides[0];
  return tensor.dtype == FOVEA_I64 ? static_cast<const int64_t *>(tensor.data)[at]
                                   : static_cast<const int32_t *>(tensor.data)[at];
}

}  // namespace fovea::mpi
