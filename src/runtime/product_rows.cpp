// Which calls each kernel of matrix products suits.
#include "runtime/product_rows.hpp"

namespace fovea {

// A projection reads its rows as whole pairs.
bool fits_bfloat16(const ProductWish &wish) {
  if (wish.matrix != Dtype::bf16) return false;
  if (wish.use != ProductUse::any) return wish.x == Dtype::bf16 && wish.depth % 2 == 0;
  return wish.x == Dtype::bf16 || (wish.rounds && wish.x == Dtype::f32);
}

bool fits_float16_matrix(const ProductWish &wish) { return wish.use == ProductUse::any && wish.matrix == Dtype::f16; }

bool fits_bytes(const ProductWish &wish) { return wish.matrix == Dtype::i8; }

bool fits_parts(const ProductWish &wish) { return wish.use == ProductUse::own_projection; }

const MatmulKernels &choose_product(Features allowed, const ProductWish &wish) {
  const Features available = allowed & (cpu_features() | feature::amx_by_name);
  const ProductRow *chosen = nullptr;
  for (const ProductRow &row : product_rows) {
    if ((row.needs & ~available) != 0 || !row.fits(wish)) continue;
    if ((row.needs & feature::tiles) != 0 && !tiles_granted()) continue;
    chosen = &row;
    break;
  }
  return *chosen->kernels;
}

}  // namespace fovea
