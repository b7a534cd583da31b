// How many keys of a row take part.
#pragma once

#include "ops/tensors/check.hpp"

namespace fovea {

// row: a cursor over the axes before the last, of which there are so many. valid_lens [B] or [B,Q]; null: all keys.
template <class Cursor>
int64_t valid_len_of(const fovea_tensor *valid_lens, const Cursor &row, int axes, int64_t key_len) {
  if (valid_lens == nullptr) return key_len;
  int64_t at = axes > 1 ? row.index(0) * valid_lens->strides[0] : 0;
  if (valid_lens->rank == 2) at += row.index(axes - 1) * valid_lens->strides[1];
  return integer_within(*valid_lens, at, 0, key_len);
}

}  // namespace fovea
