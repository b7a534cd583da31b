// The kernels of a product: packing, and a block with every tail of rows, columns and depth.
#include "kernels.hpp"
#include "reference.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

struct Product {
  int64_t rows, columns, depth;
  int64_t chain = INT64_MAX;
  bool a_transposed = false, b_transposed = false;
  bool as_columns = false;  // by the kernel of a's columns
  bool bias = false, residual = false, in_place = false;
  fovea::Activation activation = fovea::Activation::none;
};

// b in panels, as the kernels want it.
Floats pack(const fovea::MatmulKernels &kernels, const Product &p, const Floats &b) {
  const int64_t width = kernels.panel_columns, panels = fovea::ceil_div(p.columns, width);
  Floats packed(panels * kernels.panel_floats(p.depth, fovea::Dtype::f32));
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t column_stride = p.b_transposed ? p.depth : 1;
    kernels.pack({.b = b.data() + panel * width * column_stride,
                  .b_row_stride = p.b_transposed ? 1 : p.columns,
                  .b_column_stride = column_stride,
                  .depth = p.depth,
                  .columns = std::min(width, p.columns - panel * width),
                  .out = packed.data() + panel * kernels.panel_floats(p.depth, fovea::Dtype::f32)});
  }
  return packed;
}

std::vector<float> transposed(const std::vector<float> &from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
  return to;
}

// Returns the result.
std::vector<float> check_product(const fovea::MatmulKernels &kernels, const Product &p, Random &random) {
  CAPTURE(p.rows);
  CAPTURE(p.columns);
  CAPTURE(p.depth);
  CAPTURE(p.chain);
  CAPTURE(p.a_transposed);
  CAPTURE(p.b_transposed);
  reference::LinearInputs inputs{};
  inputs.rows = p.rows;
  inputs.depth = p.depth;
  inputs.columns = p.columns;
  inputs.x = normals(p.rows * p.depth, random);
  inputs.weight = normals(p.depth * p.columns, random);
  inputs.activation = static_cast<reference::Activation>(p.activation);
  if (p.bias) inputs.bias = normals(p.columns, random);
  if (p.residual) inputs.residual = normals(p.rows * p.columns, random);
  const Floats a(p.a_transposed ? transposed(inputs.x, p.rows, p.depth) : inputs.x);
  const Floats b(p.b_transposed ? transposed(inputs.weight, p.depth, p.columns) : inputs.weight);
  const Floats bias(inputs.bias), residual(inputs.residual), packed = pack(kernels, p, b);
  const Floats out = p.in_place ? Floats(inputs.residual) : Floats(p.rows * p.columns);
  const auto multiply = p.as_columns ? kernels.columns : kernels.block;
  const Floats block_sums(p.depth > fovea::columns_alone ? p.rows * p.columns : 0);
  multiply({.a = a.data(),
            .a_row_stride = p.a_transposed ? 1 : p.depth,
            .a_column_stride = p.a_transposed ? p.rows : 1,
            .b = packed.data(),
            .b_panel_stride = kernels.panel_floats(p.depth, fovea::Dtype::f32),
            .out = out.data(),
            .out_row_stride = p.columns,
            .rows = p.rows,
            .columns = p.columns,
            .depth = p.depth,
            .chain = p.chain,
            .block_sums = block_sums.data(),
            .block_sums_stride = p.columns,
            .bias = bias.or_null(p.bias),
            .activation = p.activation,
            .residual = p.in_place ? out.data() : residual.or_null(p.residual),
            .residual_row_stride = p.columns});
  const reference::Linear<double> truth = reference::linear<double>(inputs);
  std::vector<double> bounds;  // as in support/linear_layer.hpp
  for (size_t n = 0; n < truth.out.size(); ++n) {
    const double terms = 2.26 * static_cast<double>(2 + p.depth) * truth.magnitude[n];
    bounds.push_back(kEpsilon * (terms + 12 * std::abs(truth.activated[n]) + 2 * std::abs(truth.out[n])));
  }
  CHECK_WITHIN(out.values(), truth.out, bounds);
  return out.values();
}

}  // namespace

TEST_SUITE("kernels matmul") {
  TEST_CASE("every tail of columns, rows and depth") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      const int64_t panel = table.matmul->panel_columns;
      for (int64_t columns = 1; columns <= 2 * panel + 1; ++columns) {
        check_product(*table.matmul, {.rows = 1, .columns = columns, .depth = 5}, random);
        check_product(*table.matmul, {.rows = 7, .columns = columns, .depth = 5}, random);
      }
      for (int64_t rows = 1; rows <= 26; ++rows) {
        check_product(*table.matmul, {.rows = rows, .columns = panel + 1, .depth = 6}, random);
        check_product(*table.matmul, {.rows = rows, .columns = panel + 1, .depth = 6, .a_transposed = true}, random);
      }
      for (const int64_t depth : {0, 1, 2, 3, 4, 5, 6, 7, 47, 48, 49, 96, 97, 767, 768, 769, 1537}) {
        for (const int64_t chain : {int64_t{48}, INT64_MAX}) {
          const Product product = {.rows = 3, .columns = panel - 1, .depth = depth, .chain = chain};
          check_product(*table.matmul, product, random);
        }
      }
      // A row against several panels at once, where the kernels do so.
      for (const int64_t columns : {4 * panel - 1, 4 * panel, 4 * panel + 1, 8 * panel}) {
        check_product(*table.matmul, {.rows = 1, .columns = columns, .depth = 50, .chain = 48}, random);
        check_product(*table.matmul, {.rows = 7, .columns = columns, .depth = 50, .chain = 48}, random);
      }
    });
  }

  TEST_CASE("columns on the left: every tail of rows, columns and depth, the bits of rows") {
    int64_t tables = 0;
    for_each_table([&](const fovea::Kernels &table) {
      const fovea::MatmulKernels &kernels = *table.matmul;
      if (kernels.columns == nullptr) return;
      ++tables;
      Random random(base_seed());
      Product p = {.rows = 1, .columns = kernels.panel_columns + 1, .depth = 7};
      p.a_transposed = p.as_columns = true;
      const auto check = [&] {
        const uint64_t seed = random.integer(0, 1 << 30);
        Random one(seed), other(seed);
        const std::vector<float> sums = check_product(kernels, p, one);
        Product turned = p;
        turned.as_columns = turned.a_transposed = false;
        CHECK(same_bits(sums, check_product(kernels, turned, other)));
      };
      for (p.rows = 1; p.rows <= 2 * fovea::column_piece + 1; ++p.rows) check();
      p.rows = 53;
      for (p.columns = 1; p.columns <= 2 * kernels.panel_columns + 1; ++p.columns) check();
      p.columns = kernels.panel_columns - 1;
      for (const int64_t depth : {0, 1, 2, 3, 191, 192, 193, 383, 384, 385, 768, 769, 1000, 1536, 1537}) {
        for (const int64_t chain : {fovea::long_chain, INT64_MAX}) {
          p.depth = depth;
          p.chain = chain;
          check();
        }
      }
    });
    CHECK(tables > 0);
  }

  TEST_CASE("everything at random") {
    for_each_table([](const fovea::Kernels &table) {
      for (int64_t n = 0; n < case_count(150); ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        CAPTURE(seed);
        Random random(seed);
        Product p = {.rows = random.integer(1, 60), .columns = random.integer(1, 150), .depth = random.integer(0, 130)};
        p.chain = random.chance(0.5) ? 48 : INT64_MAX;
        p.a_transposed = random.chance(0.3);
        p.b_transposed = random.chance(0.3);
        p.bias = random.chance(0.5);
        p.residual = random.chance(0.5);
        p.in_place = p.residual && random.chance(0.5);
        p.activation = static_cast<fovea::Activation>(random.integer(0, 4));
        check_product(*table.matmul, p, random);
      }
    });
  }

  TEST_CASE("rows of all panels are packed as panel by panel") {
    int64_t tables = 0;
    for_each_table([&](const fovea::Kernels &table) {
      const fovea::MatmulKernels &kernels = *table.matmul;
      if (kernels.pack_rows == nullptr) return;
      ++tables;
      Random random(base_seed());
      const int64_t width = kernels.panel_columns, depth = 37;
      for (int64_t columns = 1; columns <= 3 * width + 1; ++columns) {
        CAPTURE(columns);
        const Floats b(normals(depth * columns, random));
        const Floats expected = pack(kernels, {.rows = 1, .columns = columns, .depth = depth}, b);
        const int64_t panel_floats = kernels.panel_floats(depth, fovea::Dtype::f32);
        Floats packed(fovea::ceil_div(columns, width) * panel_floats);
        for (int64_t row = 0; row < depth; row += 16) {
          kernels.pack_rows({.b = b.data() + row * columns,
                             .b_row_stride = columns,
                             .b_column_stride = 1,
                             .depth = std::min<int64_t>(16, depth - row),
                             .columns = columns,
                             .out = packed.data() + kernels.panel_floats(row, fovea::Dtype::f32),
                             .panel_stride = panel_floats});
        }
        CHECK(same_bits(packed.values(), expected.values()));
      }
    });
    CHECK(tables > 0);
  }

  TEST_CASE("what a panel lacks in columns is zero") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      const int64_t width = table.matmul->panel_columns;
      for (int64_t columns = 1; columns <= width; ++columns) {
        for (const bool b_transposed : {false, true}) {
          const Product p = {.rows = 1, .columns = columns, .depth = 3, .b_transposed = b_transposed};
          const std::vector<float> b = normals(3 * columns, random);
          const std::vector<float> packed =
              pack(*table.matmul, p, Floats(b_transposed ? transposed(b, 3, columns) : b)).values();
          int64_t wrong = 0;
          for (int64_t n = 0; n < 3 * width; ++n) {
            const float expected = n % width < columns ? b[n / width * columns + n % width] : 0;
            wrong += packed[n] == expected ? 0 : 1;
          }
          CHECK(wrong == 0);
        }
      }
    });
  }
}
