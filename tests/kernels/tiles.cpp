// Kernels on AMX's tiles, on any machine with AVX-512: see support/tile_emulator.hpp.
#include "kernels.hpp"
#include "narrow.hpp"
#include "reference.hpp"
#include "tile_cpu.hpp"
#include "tile_emulator.hpp"

using namespace testing;

namespace {

// Products of float32 as parts, or for rows of bfloat16; null where nothing can stand in for tiles.
const fovea::MatmulKernels *tile_products(const fovea::ProductWish &wish) {
  if (!take_tiles()) {
    MESSAGE("neither tiles nor AVX-512 to emulate them: not tested");
    return nullptr;
  }
  return &fovea::choose_product(fovea::kernels_of(fovea::Isa::amx)->allowed, wish);
}

constexpr fovea::ProductWish kParts = {
    .x = fovea::Dtype::f32, .matrix = fovea::Dtype::f32, .use = fovea::ProductUse::own_projection};

struct Product {
  int64_t rows, columns, depth;
  std::vector<float> a, b;

  static Product random(int64_t rows, int64_t columns, int64_t depth, Random &random) {
    return {rows, columns, depth, normals(rows * depth, random), normals(depth * columns, random)};
  }

  // The kernels want rows of out to have room for whole tiles.
  int64_t out_row_stride() const { return fovea::round_up(columns, 16); }

  Floats pack(const fovea::MatmulKernels &kernels) const {
    const Floats from(b);
    const int64_t width = kernels.panel_columns, panels = fovea::ceil_div(columns, width);
    const WithPlacement aligned(Placement::kEnd);
    Floats packed(panels * kernels.panel_floats(depth, fovea::Dtype::f32));
    for (int64_t panel = 0; panel < panels; ++panel) {
      kernels.pack({.b = from.data() + panel * width,
                    .b_row_stride = columns,
                    .b_column_stride = 1,
                    .depth = depth,
                    .columns = std::min(width, columns - panel * width),
                    .out = packed.data() + panel * kernels.panel_floats(depth, fovea::Dtype::f32)});
    }
    return packed;
  }

  // Rows [first, first + count), without what fills rows up.
  std::vector<float> multiply(const fovea::MatmulKernels &kernels, int64_t first, int64_t count) const {
    const Floats from(a), packed = pack(kernels), to(count * out_row_stride());
    kernels.block({.a = from.data() + first * depth,
                   .a_row_stride = depth,
                   .a_column_stride = 1,
                   .b = packed.data(),
                   .b_panel_stride = kernels.panel_floats(depth, fovea::Dtype::f32),
                   .out = to.data(),
                   .out_row_stride = out_row_stride(),
                   .rows = count,
                   .columns = columns,
                   .depth = depth,
                   .chain = INT64_MAX,
                   .bias = nullptr,
                   .activation = fovea::Activation::none,
                   .residual = nullptr,
                   .residual_row_stride = 0});
    std::vector<float> out;
    for (int64_t r = 0; r < count; ++r) {
      out.insert(out.end(), to.data() + r * out_row_stride(), to.data() + r * out_row_stride() + columns);
    }
    return out;
  }

  void check(const fovea::MatmulKernels &kernels) const {
    CAPTURE(rows);
    CAPTURE(columns);
    CAPTURE(depth);
    reference::LinearInputs inputs{};
    inputs.rows = rows;
    inputs.depth = depth;
    inputs.columns = columns;
    inputs.x = a;
    inputs.weight = b;
    const reference::Linear<double> truth = reference::linear<double>(inputs);
    std::vector<double> bounds;
    for (size_t n = 0; n < truth.out.size(); ++n) {
      const double terms = 2.26 * static_cast<double>(2 + depth) * truth.magnitude[n];
      bounds.push_back(kEpsilon * (terms + 2 * std::abs(truth.out[n])) + 0x1p-140);
    }
    const std::vector<float> out = multiply(kernels, 0, rows);
    CHECK_FALSE(has_tiles());
    CHECK_WITHIN(out, truth.out, bounds);
  }
};

constexpr fovea::Dtype kBf16 = fovea::Dtype::bf16;

std::vector<uint16_t> bits_of(const std::vector<float> &values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(narrowed(value, FOVEA_BF16));
  return bits;
}

bool same_bits_of(const float *a, const float *b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

}  // namespace

TEST_SUITE("kernels tiles") {
  TEST_CASE("products: every tail of rows, columns and depth") {
    const fovea::MatmulKernels *kernels = tile_products(kParts);
    if (kernels == nullptr) return;
    Random random(base_seed());
    for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65}) {
        Product::random(rows, 70, 33, random).check(*kernels);
      }
      for (const int64_t columns : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129}) {
        Product::random(17, columns, 40, random).check(*kernels);
        Product::random(3, columns, 40, random).check(*kernels);
      }
      for (const int64_t depth : {1, 2, 15, 16, 17, 31, 32, 33, 63, 65, 255, 256, 257, 600}) {
        Product::random(33, 48, depth, random).check(*kernels);
        Product::random(5, 48, depth, random).check(*kernels);
      }
    }
  }

  TEST_CASE("products: elements that parts of bfloat16 do not hold, in one row or one panel") {
    const fovea::MatmulKernels *kernels = tile_products(kParts);
    if (kernels == nullptr) return;
    Random random(base_seed());
    for (const float odd : {kNan, kInfinity, -kInfinity, 1e30f, 1e-30f, 1e-42f}) {
      CAPTURE(odd);
      Product in_row = Product::random(40, 70, 50, random);
      in_row.a[20 * 50 + 7] = odd;
      in_row.check(*kernels);
      Product in_panel = Product::random(40, 140, 50, random);
      in_panel.b[9 * 140 + 77] = odd;
      in_panel.check(*kernels);
    }
  }

  TEST_CASE("products: a row's bits do not depend on the rows beside it") {
    const fovea::MatmulKernels *kernels = tile_products(kParts);
    if (kernels == nullptr) return;
    Random random(base_seed());
    const Product product = Product::random(50, 70, 300, random);
    const std::vector<float> all = product.multiply(*kernels, 0, 50);
    for (const int64_t first : {0, 15, 16, 31, 32, 49}) {
      for (const int64_t count : {1, 17}) {
        if (first + count > 50) continue;
        const std::vector<float> some = product.multiply(*kernels, first, count);
        CHECK(same_bits_of(some.data(), all.data() + first * 70, count * 70));
      }
    }
  }

  TEST_CASE("products: six of the tile unit's for each 16 x 16 x 32, and tiles are released as often as configured") {
    const fovea::MatmulKernels *kernels = tile_products(kParts);
    if (kernels == nullptr || tiles_are_native()) return;
    Random random(base_seed());
    const Product product = Product::random(64, 128, 256, random);
    const TileCounts before = tile_counts();
    product.multiply(*kernels, 0, 64);
    const TileCounts after = tile_counts();
    CHECK_EQ(after.products - before.products, 6 * (64 / 16) * (128 / 16) * (256 / 32));
    CHECK_GT(after.configured, before.configured);
    CHECK_EQ(after.released - before.released, 1);
  }

  TEST_CASE(
      "products of bfloat16: rows of float32 are rounded as they are copied, to what rows of bfloat16 would hold") {
    const fovea::MatmulKernels *tiles = tile_products({.x = kBf16, .matrix = kBf16});
    if (tiles == nullptr) return;
    const fovea::MatmulKernels &kernels = *tiles;
    Random random(base_seed());
    for (const int64_t rows : {1, 16, 17, 40}) {
      for (const int64_t depth : {1, 15, 16, 17, 31, 32, 33, 70, 600}) {
        for (const bool transposed : {false, true}) {
          CAPTURE(rows);
          CAPTURE(depth);
          CAPTURE(transposed);
          const int64_t columns = 70, stride = 80;
          std::vector<float> a = normals(rows * depth, random);
          a[0] = 1 + 0x1p-8f;  // a tie
          a.back() = rows == 17 ? kInfinity : 0x1.fffp127f;
          const std::vector<uint16_t> b = bits_of(normals(depth * columns, random)), rounded = bits_of(a);
          const Floats floats(a), halves((rows * depth + 1) / 2), packed(2 * kernels.panel_floats(depth, kBf16));
          std::memcpy(halves.data(), rounded.data(), rounded.size() * sizeof(uint16_t));
          for (const int64_t column : {0, 64}) {
            kernels.pack({.b = b.data() + column,
                          .dtype = kBf16,
                          .b_row_stride = columns,
                          .b_column_stride = 1,
                          .depth = depth,
                          .columns = std::min<int64_t>(64, columns - column),
                          .out = packed.data() + column / 64 * kernels.panel_floats(depth, kBf16)});
          }
          const Floats out(rows * stride), truth(rows * stride);
          fovea::MatmulTask task = {.a = floats.data(),
                                    .a_row_stride = transposed ? 1 : depth,
                                    .a_column_stride = transposed ? rows : 1,
                                    .b = packed.data(),
                                    .b_dtype = kBf16,
                                    .b_panel_stride = kernels.panel_floats(depth, kBf16),
                                    .out = out.data(),
                                    .out_row_stride = stride,
                                    .rows = rows,
                                    .columns = columns,
                                    .depth = depth};
          kernels.block(task);
          task.a = halves.data();
          task.a_dtype = kBf16;
          task.out = truth.data();
          kernels.block(task);
          CHECK_FALSE(has_tiles());
          CHECK(same_bits_of(out.data(), truth.data(), rows * stride));
        }
      }
    }
  }
}
