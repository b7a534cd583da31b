// Products of bfloat16 and binary16 on AMX's tiles, native or emulated: which of them go there, how many tiles that
// takes, what must not change bits. Against the formula: element_types.cpp, which runs on tiles as well.
#include <doctest/doctest.h>

#include <cmath>

#include "support/linear_layer.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tile_cpu.hpp"
#include "support/tile_emulator.hpp"

using namespace testing;

namespace {

NarrowTensor narrow(const Tensor<float> &from, fovea_dtype dtype = FOVEA_BF16) { return {from, dtype}; }

// a [rows, depth] times b [depth, columns] of these types, in float32.
struct Product {
  Tensor<float> a, b, out;
  fovea_dtype of_a = FOVEA_BF16, of_b = FOVEA_BF16;

  Product(int64_t rows, int64_t depth, int64_t columns, Random &random)
      : a(normal(random, {rows, depth})), b(normal(random, {depth, columns})), out({rows, columns}) {}

  std::vector<float> run(const fovea_context *context) const {
    const fovea_tensor to = out.view(), a_floats = a.view(), b_floats = b.view();
    const NarrowTensor x = narrow(a, of_a == FOVEA_F32 ? FOVEA_BF16 : of_a),
                       y = narrow(b, of_b == FOVEA_F32 ? FOVEA_BF16 : of_b);
    const fovea_tensor left = of_a == FOVEA_F32 ? a_floats : x.view(), right = of_b == FOVEA_F32 ? b_floats : y.view();
    REQUIRE_OK(fovea_matmul(context, &left, &right, &to));
    return out.dense();
  }
};

template <typename Body>
TileCounts counted(Body body) {
  const TileCounts before = tile_counts();
  body();
  TileCounts now = tile_counts();
  now.configured -= before.configured;
  now.released -= before.released;
  now.loads -= before.loads;
  now.stores -= before.stores;
  now.products -= before.products;
  return now;
}

}  // namespace

TEST_SUITE("products tiles") {
  TEST_CASE("products of 16 bits by the same type go to tiles unless a lower set is named, all others do not") {
    if (tiles_are_native()) return;
    Random random(base_seed());
    for (const fovea_dtype of_a : {FOVEA_BF16, FOVEA_F16, FOVEA_F32}) {
      for (const fovea_dtype of_b : {FOVEA_BF16, FOVEA_F16, FOVEA_F32}) {
        CAPTURE(of_a);
        CAPTURE(of_b);
        Product product(20, 40, 30, random);
        product.of_a = of_a;
        product.of_b = of_b;
        const bool expected = of_a == of_b && of_a != FOVEA_F32;  // the emulator has AMX-FP16
        for (const fovea_context *context : {shared_context("amx"), static_cast<const fovea_context *>(nullptr)}) {
          CHECK_EQ(counted([&] { product.run(context); }).products > 0, expected);
        }
        CHECK_EQ(counted([&] { product.run(shared_context("avx512")); }).products, 0);
      }
    }
  }

  TEST_CASE("refused tiles: the bits of the next best kernels") {
    Random random(base_seed());
    const Product product(40, 70, 50, random);
    const std::vector<float> expected = product.run(shared_context("avx512"));
    set_tile_access(TileAccess::refused);
    CHECK(same_bits(product.run(nullptr), expected));
    set_tile_access(TileAccess::absent);
    CHECK(same_bits(product.run(nullptr), expected));
    set_tile_access(TileAccess::granted);
  }

  TEST_CASE("as many products of tiles as the padded shape has, few loads, released whenever they were configured") {
    if (tiles_are_native()) return;
    Random random(base_seed());
    const auto count = [&](int64_t rows, int64_t depth, int64_t columns) {
      const Product product(rows, depth, columns, random);
      return counted([&] { product.run(shared_context("amx", 1)); });
    };
    const TileCounts whole = count(256, 1024, 256);
    CHECK_EQ(whole.products, 16 * 16 * 32);
    CHECK_EQ(whole.stores, 2 * 16 * 16);  // two blocks of the depth
    CHECK_EQ(whole.loads, whole.products + 16 * 16);
    CHECK_EQ(whole.released, 1);
    CHECK_EQ(whole.holders, 0);
    CHECK_EQ(count(1, 33, 1).products, 4 * 2);
    CHECK_EQ(count(17, 32, 33).products, 2 * 4);
    CHECK_EQ(count(50, 100, 64).products, 4 * 4 * 4);
  }

  TEST_CASE("a row has the same bits whatever rows, columns and depths it is cut with") {
    Random random(base_seed());
    Product all(100, 1100, 600, random);
    const std::vector<float> expected = all.run(shared_context("amx", 1));
    for (const int threads : {2, 3, 8}) CHECK(same_bits(all.run(shared_context("amx", threads)), expected));
    const NarrowTensor a = narrow(all.a), b = narrow(all.b);
    for (const auto &[first, count] : {std::pair<int64_t, int64_t>{0, 1}, {37, 1}, {16, 16}, {31, 20}, {64, 36}}) {
      for (const auto &[column, columns] : {std::pair<int64_t, int64_t>{0, 600}, {599, 1}, {70, 300}}) {
        Tensor<float> out({count, columns});
        fovea_tensor left = a.view(), right = b.view();
        const fovea_tensor to = out.view();
        left.data = static_cast<uint16_t *>(left.data) + first * 1100;
        left.shape[0] = count;
        right.data = static_cast<uint16_t *>(right.data) + column;
        right.shape[1] = columns;
        REQUIRE_OK(fovea_matmul(shared_context("amx", 1), &left, &right, &to));
        int64_t wrong = 0;
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            const float one = out.at({r, c}), other = expected[static_cast<size_t>((first + r) * 600 + column + c)];
            wrong += std::memcmp(&one, &other, sizeof one) != 0;
          }
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }

  TEST_CASE("a transposed left side has the bits of one that is not") {
    Random random(base_seed());
    for (const auto &[rows, depth] : {std::pair<int64_t, int64_t>{1, 50}, {16, 32}, {45, 33}, {70, 600}}) {
      for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
        const WithPlacement here(placement);
        Product product(rows, depth, 70, random);
        const std::vector<float> expected = product.run(shared_context("amx"));
        Tensor<float> turned({rows, depth}, {1, rows});
        turned.assign(product.a.dense());
        product.a = std::move(turned);
        CHECK(same_bits(product.run(shared_context("amx")), expected));
      }
    }
  }

  TEST_CASE("NaN and infinities show where they are, and nowhere else") {
    Random random(base_seed());
    Product product(40, 70, 90, random);
    product.a.at({20, 69}) = kNan;
    product.a.at({33, 3}) = kInfinity;
    product.b.at({5, 89}) = kNan;
    const std::vector<float> out = product.run(shared_context("amx"));
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t c = 0; c < 90; ++c) {
        const float x = out[static_cast<size_t>(r * 90 + c)];
        CHECK_EQ(std::isnan(x), r == 20 || c == 89);
        if (c != 89) CHECK_EQ(std::isinf(x), r == 33);
      }
    }
  }

  TEST_CASE("multi-head attention of bfloat16 multiplies on tiles alone, and leaves none behind") {
    if (tiles_are_native()) return;
    Random random(base_seed());
    const int64_t hidden = 128, rows = 80;
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = rows / 2,
                                             .key_len = rows / 2,
                                             .query_inputs = hidden,
                                             .key_inputs = hidden,
                                             .value_inputs = hidden,
                                             .heads = 4,
                                             .kv_heads = 4,
                                             .head_dim = 32,
                                             .value_dim = 32,
                                             .outputs = hidden,
                                             .biases = false},
                                            Inputs::kOne, random);
    MhaParameters given(layer);
    const NarrowTensor query = narrow(layer.query), out = narrow(layer.make_out().fill([] { return 0.0f; }));
    const NarrowTensor weights[] = {narrow(layer.query_weight), narrow(layer.key_weight), narrow(layer.value_weight),
                                    narrow(layer.out_weight)};
    given.query_weight = weights[0].view();
    given.key_weight = weights[1].view();
    given.value_weight = weights[2].view();
    given.out_weight = weights[3].view();
    const fovea_tensor x = query.view(), to = out.view();
    const TileCounts counts = counted([&] {
      REQUIRE_OK(fovea_multi_head_attention_once(shared_context("amx", 2), &given.parameters, &x, nullptr, nullptr, &to,
                                                 nullptr));
    });
    const int64_t projections = 4 * (rows / 16) * (hidden / 16) * (hidden / 32);
    const int64_t attention = 2 * 4 * (3 * 4 * 1 + 2 * 3 * 2);  // 40 rows are 3 tiles, 40 keys 4, in 2 steps
    CHECK_EQ(counts.products, projections + attention);
    CHECK_EQ(counts.holders, 0);
  }
}
