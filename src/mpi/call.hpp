// A call of attention as this library sees it: tensors of rank 4, options read.
#pragma once

#include <cstdint>

#include "fovea/mpi.h"
#include "mpi/agreement.hpp"

namespace fovea::mpi {

// What a rank was called with.
struct Arguments {
  const fovea_score *score;
  const fovea_tensor *query, *key, *value, *out;
  const fovea_attention_options *options;
};

// One call of the core, of all that is given.
[[nodiscard]] Status attend_at_once(const Handle &handle, const Arguments &arguments);

struct Call {
  const fovea_score *score = nullptr;
  int32_t rank = 4;                                         // of the tensors as given
  fovea_tensor query = {}, key = {}, value = {}, out = {};  // lifted to [B,H,L,D]
  fovea_attention_options options = {};                     // as given, but for tensors that are copied below
  fovea_tensor log_sum_exp = {};                            // lifted to [B,H,Q]
  bool wants_log_sum_exp = false;
  fovea_tensor valid_lens = {}, query_offsets = {}, alibi_slopes = {}, sinks = {};
  bool has_valid_lens = false, has_query_offsets = false, has_alibi_slopes = false, has_sinks = false;

  int64_t batch() const { return query.shape[0]; }
  int64_t heads() const { return query.shape[1]; }
  int64_t kv_heads() const { return key.shape[1]; }
  int64_t group() const { return kv_heads() == 0 ? 0 : heads() / kv_heads(); }
  int64_t query_len() const { return query.shape[2]; }
  int64_t key_len() const { return key.shape[2]; }
  int64_t value_dim() const { return value.shape[3] * (value.dtype == FOVEA_U8 ? 2 : 1); }  // U8: of 4 bits each
  bool has(uint32_t flag) const { return (options.flags & flag) != 0; }
};

// Positions of all ranks: where each rank's begin if ranks have neighbours, [ranks + 1]; the last is the whole length.
struct WholeLengths {
  const int64_t *query_begin = nullptr, *key_begin = nullptr;
  int64_t queries = 0, keys = 0;
};

// What must be the same on all ranks, and the two lengths, which are each rank's own.
void state_call(const Call &call, Statement *statement);
// The same of valid_lens and query_offsets, where they are those of the whole.
void state_lengths(const Call &call, Statement *statement);
// States shape and type of mask and bias, not their values: they are as large as what is computed.
void state_masks(const Call &call, Statement *statement);
constexpr int stated_query_len = 0, stated_key_len = 1;  // their places in a statement

// From the statements that ranks have agreed on, state_call's first.
WholeLengths whole_lengths(Handle &handle, const Statement &statement);

// "query.shape[2]" and the like.
const char *query_positions_name(int32_t rank);

// The integer at `index` of a tensor of I32 or I64 of one axis.
int64_t integer_at(const fovea_tensor &tensor, int64_t index);

}  // namespace fovea::mpi
