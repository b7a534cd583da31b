// Marks rows that no key of any rank was for.
#include "mpi/empty_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

void put_nan(const fovea_tensor &row) {
  if (row.dtype == FOVEA_F32) {
    std::fill_n(static_cast<float *>(row.data), row.shape[0], std::numeric_limits<float>::quiet_NaN());
  } else {
    const uint16_t nan = row.dtype == FOVEA_F16 ? 0x7e00 : 0x7fc0;
    std::fill_n(static_cast<uint16_t *>(row.data), row.shape[0], nan);
  }
}

}  // namespace

void mark_empty_rows(const fovea_tensor &sums, const fovea_tensor &out) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (int64_t b = 0; b < sums.shape[0]; ++b) {
    for (int64_t h = 0; h < sums.shape[1]; ++h) {
      const fovea_tensor head = entry_of(entry_of(sums, b), h), rows = entry_of(entry_of(out, b), h);
      for (int64_t i = 0; i < head.shape[0]; ++i) {
        if (static_cast<const float *>(head.data)[i * head.strides[0]] == nothing) put_nan(entry_of(rows, i));
      }
    }
  }
}

}  // namespace fovea::mpi
