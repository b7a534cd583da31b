#include "ops/products/projection.hpp"

namespace fovea {

const MatmulKernels &projection_kernels(const Kernels &kernels, Dtype x, const ProductMatrix &weight, ProductUse use) {
  return choose_product(kernels.allowed, {.x = x, .matrix = weight.dtype, .use = use, .depth = weight.depth});
}

bool projected_in_place(const MatmulKernels &kernels, Dtype x, int64_t stride) {
  return x == kernels.rows_dtype && (bytes_of(x) != 2 || stride % 2 == 0);  // whole pairs
}

bool projected_in_place(const MatmulKernels &kernels, const HeadRows &rows) {
  return rows.evenly_spaced() && projected_in_place(kernels, rows.dtype, rows.strides.position);
}

bool plan_projection(const MatmulKernels &kernels, const ProjectionRows &rows, const ProductMatrix &weight,
                     Product *product) {
  const int64_t row_floats = padded_units(weight.columns);
  int64_t count = 0;
  int64_t floats = 0;
  if (weight.depth > deepest_product || !checked_multiply(rows.batch, rows.heads, &count) ||
      !checked_multiply(count, rows.length, &count) || !checked_multiply(count, row_floats, &floats)) {
    return false;
  }
  const bool separate = rows.valid_only && rows.length >= kernels.block_rows;  // shorter ones better together
  *product = {.kernels = &kernels,
              .matrix = weight,
              .types = {.x = kernels.rows_dtype},
              .cut = Cut::rows,
              .chain = short_chain,
              .head_rows = separate ? rows.length : 0};
  if (count == 0) return true;  // strides may be anything
  set_rows({{rows.batch, rows.strides.batch, rows.out_strides.batch * row_floats},
            {rows.heads, rows.strides.head, rows.out_strides.head * row_floats},
            {rows.length, rows.strides.position, rows.out_strides.position * row_floats}},
           product);
  return true;
}

UnitFinish finish_of(const Kernels &kernels, const Product &product, const float *bias, float *reach,
                     const KeptRows &kept) {
  const bool padded = product.matrix.columns != padded_units(product.matrix.columns);
  if (!padded && bias == nullptr && reach == nullptr && kept.data == nullptr) return {};
  return {&kernels.attention_of(ScoreKind::additive), bias, reach, kept};
}

}  // namespace fovea
