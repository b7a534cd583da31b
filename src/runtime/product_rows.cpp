// Chooses among the kernels of matrix products.
#include "runtime/product_rows.hpp"

namespace fovea {

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
