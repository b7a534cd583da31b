// The list of all kernels of matrix products, best first, and the choice among them.
#pragma once

#include "kernels/kernel_table.hpp"
#include "runtime/cpu.hpp"
#include "runtime/set_rows.hpp"

namespace fovea {

enum class ProductUse {
  any,
  projection,      // of a score function's queries or keys: the output has room for whole registers of columns
  own_projection,  // likewise, large, with a weight of float32 that is packed for this call alone
};

// What a product asks of its kernels.
struct ProductWish {
  Dtype x;
  Dtype matrix;         // of its panels
  bool rounds = false;  // rows of float32 may be rounded to bfloat16
  ProductUse use = ProductUse::any;
  int64_t depth = 0;  // of a projection
};

struct ProductRow {
  Features needs;
  const MatmulKernels *kernels;
  bool (*fits)(const ProductWish &wish);
};

// A projection reads its rows as whole pairs.
constexpr bool fits_bfloat16(const ProductWish &wish) {
  if (wish.matrix != Dtype::bf16) return false;
  if (wish.use != ProductUse::any) return wish.x == Dtype::bf16 && wish.depth % 2 == 0;
  return wish.x == Dtype::bf16 || (wish.rounds && wish.x == Dtype::f32);
}
constexpr bool fits_float16_matrix(const ProductWish &wish) {
  return wish.use == ProductUse::any && wish.matrix == Dtype::f16;
}
constexpr bool fits_bytes(const ProductWish &wish) { return wish.matrix == Dtype::i8; }
constexpr bool fits_parts(const ProductWish &wish) { return wish.use == ProductUse::own_projection; }
constexpr bool fits_any_product(const ProductWish &) { return true; }

FOVEA_OF_EACH_SET(MatmulKernels, products);
FOVEA_OF_EACH_SET(MatmulKernels, byte_products);
extern const MatmulKernels byte_products_avx512halves, byte_products_avxvnni;
extern const MatmulKernels products_avx512bf16, products_amxbf16, products_amxfp16, parts_amx;

// Panels of all but float16_tiles, parts and bytes are the same, so what one row's kernels packed another's multiply.
// AMX has to be named for parts: they are worth half of a projection's time or cost a fifth more, as the machine's
// cores are shared or not (kernels/products/amx_matmul.hpp).
// clang-format off
inline constexpr ProductRow product_rows[] = {
    FOVEA_AMX_ROW({feature::avx512 | feature::bfloat16_tiles | feature::amx_by_name, &parts_amx, fits_parts})
    FOVEA_BFLOAT16_TILES_ROW({feature::bfloat16_pairs | feature::bfloat16_tiles, &products_amxbf16, fits_bfloat16})
    FOVEA_PAIRS_ROW({feature::bfloat16_pairs, &products_avx512bf16, fits_bfloat16})
    FOVEA_FLOAT16_TILES_ROW({feature::bfloat16_pairs | feature::tiles, &products_amxfp16, fits_float16_matrix})
    FOVEA_AVX512_ROW({feature::avx512 | feature::half_products, &byte_products_avx512halves, fits_bytes})
    FOVEA_AVX512_ROW({feature::avx512, &byte_products_avx512, fits_bytes})
    FOVEA_AVX2_ROW({feature::avx2 | feature::avx_half_products, &byte_products_avxvnni, fits_bytes})
    FOVEA_AVX2_ROW({feature::avx2, &byte_products_avx2, fits_bytes})
    {0, &byte_products_base, fits_bytes},
    FOVEA_AVX512_ROW({feature::avx512, &products_avx512, fits_any_product})
    FOVEA_AVX2_ROW({feature::avx2, &products_avx2, fits_any_product})
    {0, &products_base, fits_any_product},
};
// clang-format on

// The first row whose features are among `allowed` and this processor's, and which fits. Asks the system for tiles if a
// row that fits needs them.
const MatmulKernels &choose_product(Features allowed, const ProductWish &wish);

}  // namespace fovea
