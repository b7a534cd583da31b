// Rows with nothing to attend under FOVEA_EMPTY_ROWS_NAN.
#pragma once

#include "fovea/fovea.h"

namespace fovea::mpi {

// Makes rows of out [B,H,Q,Dv] NaN where sums [B,H,Q] are -infinity.
void mark_empty_rows(const fovea_tensor &sums, const fovea_tensor &out);

}  // namespace fovea::mpi
