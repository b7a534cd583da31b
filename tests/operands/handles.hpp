// Handles that good calls take: made for a call, and kept with it.
#pragma once

#include "operand_call.hpp"

namespace testing {

template <typename Handle, void (*destroy)(Handle *)>
Handle *keep(OperandCall &call, Handle *handle) {
  call.kept.emplace_back(handle, [](void *made) { destroy(static_cast<Handle *>(made)); });
  return handle;
}

constexpr int64_t kTokens = 5, kPage = 4;  // two sequences of 2 and 3 tokens, a page for each

// Pages of keys and of values, of so many features; of 8 bits with a scale for each row.
struct Pages {
  int64_t value_dim = 8;
  bool eight_bits = false;
  Shape keys() const { return {3, 2, kPage, 6}; }
  Shape values() const { return {3, 2, kPage, value_dim}; }
  Shape scales() const { return {3, 2, kPage, 1}; }
  fovea_dtype dtype() const { return eight_bits ? FOVEA_I8 : FOVEA_F32; }
};

// Bilinear ones, of two batch entries, two heads, five keys and six features.
fovea_prepared_keys *prepared_keys(OperandCall &call);

// A schedule whose step is set. per_head: with alibi_slopes and sinks.
fovea_schedule *schedule(OperandCall &call, const Pages &pages, bool per_head = true);
fovea_schedule *packed_schedule(OperandCall &call);

fovea_packed_matrix *packed(OperandCall &call);  // [5,8]

// Four heads of six features, of two key/value heads; inputs of 10, outputs of 10.
fovea_mha_weights *mha_weights(OperandCall &call);

}  // namespace testing
