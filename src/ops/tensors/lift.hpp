// Views of a tensor with other axes.
#pragma once

#include <initializer_list>

#include "fovea/fovea.h"
#include "kernels/attention/problem.hpp"

namespace fovea {

// Puts axis i at place[i] of four; the other axes have size 1 and stride 0.
fovea_tensor lift(const fovea_tensor &tensor, std::initializer_list<int> places);

// [B,H,L,X], or [B,L,X] or [L,X] as the first.
fovea_tensor lift_heads(const fovea_tensor &tensor);

// [B,H,L], or [B,L] or [L], as [B,H,L,1]: numbers of rows.
fovea_tensor lift_rows(const fovea_tensor &tensor);

// The strides of a lifted tensor.
HeadStrides head_strides(const fovea_tensor &lifted);

// The last `rank` axes of [B,H,L,X] but for H, which tensors of rank 3 do not have: [B,H,L,X], [B,L,X] or [L,X].
fovea_tensor lower_heads(const fovea_tensor &tensor, int32_t rank);

}  // namespace fovea
