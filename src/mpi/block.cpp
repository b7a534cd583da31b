// Lays blocks out.
#include "mpi/block.hpp"

#include <initializer_list>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr int64_t alignment = 64;  // of keys and values in a buffer

// Bytes of one position in all entries and heads. False past 2^62.
bool row_bytes(const fovea_tensor &tensor, int64_t *bytes) {
  *bytes = static_cast<int64_t>(element_size(tensor.dtype)) * tensor.shape[3];
  return !__builtin_mul_overflow(*bytes, tensor.shape[1], bytes) &&
         !__builtin_mul_overflow(*bytes, tensor.shape[0], bytes) && *bytes <= INT64_MAX / 2;
}

}  // namespace

bool BlockLayout::bytes_of(int64_t positions, int64_t *bytes) const {
  int64_t key_row = 0, value_row = 0;
  if (!row_bytes(key, &key_row) || !row_bytes(value, &value_row) ||
      __builtin_mul_overflow(key_row + value_row, positions, bytes) || *bytes > INT64_MAX / 16) {
    return false;
  }
  *bytes += 4 * alignment;
  return true;
}

Block BlockLayout::in(char *memory, const Share &share) const {
  Block block = {};
  block.share = share;
  for (int run = 0; run < share.count; ++run) {
    for (const fovea_tensor *from : {&key, &value}) {
      const int64_t shape[] = {from->shape[0], from->shape[1], share.runs[run].count, from->shape[3]};
      (from == &key ? block.key : block.value)[run] = fovea_tensor_contiguous(memory, from->dtype, 4, shape);
      const int64_t bytes = shape[0] * shape[1] * shape[2] * shape[3] * static_cast<int64_t>(element_size(from->dtype));
      memory += (bytes + alignment - 1) / alignment * alignment;
    }
  }
  return block;
}

}  // namespace fovea::mpi
