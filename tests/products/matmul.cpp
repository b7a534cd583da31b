// out = a b: sizes at the edges of tiles, strides, batches, packed right-hand sides.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "reference.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

struct DestroyPacked {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};
using Packed = std::unique_ptr<fovea_packed_matrix, DestroyPacked>;

Packed pack(const fovea_context *context, const Tensor<float> &b) {
  const fovea_tensor view = b.view();
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(fovea_matmul_pack(context, &view, nullptr, &packed));
  return Packed(packed);
}

// Row-major entry of a rank 2 or rank 3 tensor; rank 2 serves every entry.
std::vector<float> entry(const Tensor<float> &tensor, int64_t n) {
  const std::vector<float> dense = tensor.dense();
  if (tensor.shape().size() == 2) return dense;
  const int64_t size = tensor.shape()[1] * tensor.shape()[2];
  return {dense.begin() + n * size, dense.begin() + (n + 1) * size};
}

void check_entry(const std::vector<float> &out, const std::vector<float> &a, const std::vector<float> &b, int64_t m,
                 int64_t n, int64_t k) {
  const auto truth = reference::matmul<double>(a, b, m, n, k);
  const auto plain = reference::matmul<float>(a, b, m, n, k);
  double largest = 0;
  std::vector<double> bounds;
  for (double magnitude : truth.magnitude) {
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    bounds.push_back(2 * (1 + static_cast<double>(k)) * kEpsilon * magnitude);
  }
  // The plain evaluation of a sum of this size typically loses two roundings. The limit is twice that, as it may be
  // lucky.
  CHECK_ACCURATE(out, truth.out, plain.out, 4 * kEpsilon * largest);
  CHECK_EQ(judge_elements(out, truth.out, plain.out, bounds), "");
}

void check_matmul(const Tensor<float> &a, const Tensor<float> &b, const Tensor<float> *out_layout = nullptr) {
  const size_t rank_a = a.shape().size(), rank_b = b.shape().size();
  const bool batched = rank_a == 3 || rank_b == 3;
  const int64_t batch = rank_a == 3 ? a.shape()[0] : rank_b == 3 ? b.shape()[0] : 1;
  const int64_t m = a.shape()[rank_a - 2], k = a.shape()[rank_a - 1], n = b.shape()[rank_b - 1];
  const Shape out_shape = batched ? Shape{batch, m, n} : Shape{m, n};
  a.memory().freeze();
  b.memory().freeze();
  CAPTURE(batch);
  CAPTURE(m);
  CAPTURE(k);
  CAPTURE(n);
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out =
        out_layout != nullptr ? Tensor<float>(out_shape, out_layout->strides()) : Tensor<float>(out_shape);
    const fovea_tensor a_view = a.view(), b_view = b.view(), out_view = out.view();
    REQUIRE_OK(fovea_matmul(context, &a_view, &b_view, &out_view));
    for (int64_t e = 0; e < batch; ++e) check_entry(entry(out, e), entry(a, e), entry(b, e), m, n, k);
    CHECK(out.gaps_untouched());
    Tensor<float> rows(a.shape());  // side by side
    rows.assign(a.dense());
    const Tensor<float> of_rows(out_shape);
    const fovea_tensor rows_view = rows.view(), of_rows_view = of_rows.view();
    REQUIRE_OK(fovea_matmul(context, &rows_view, &b_view, &of_rows_view));
    CHECK(same_bits(out, of_rows));
    if (rank_b != 2) return;
    const Packed packed = pack(context, b);
    const Tensor<float> again(out_shape);
    const fovea_tensor again_view = again.view();
    REQUIRE_OK(fovea_matmul_packed(context, &a_view, packed.get(), &again_view));
    CHECK(same_bits(out, again));
  });
}

Tensor<float> normal(Random &random, Shape shape) {
  return std::move(Tensor<float>(std::move(shape)).fill_normal(random));
}
Tensor<float> normal(Random &random, Shape shape, Shape strides) {
  return std::move(Tensor<float>(std::move(shape), std::move(strides)).fill_normal(random));
}

}  // namespace

TEST_SUITE("matmul") {
  TEST_CASE("by hand") {
    Tensor<float> a({2, 2}), b({2, 2});
    a.assign({1, 2, 3, 4});
    b.assign({5, 6, 7, 8});
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 2});
      const fovea_tensor x = a.view(), y = b.view(), z = out.view();
      REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
      CHECK(out.dense() == std::vector<float>{19, 22, 43, 50});
    });
  }

  // One matrix's are multiplied as they lie; a batch's are turned around before, some of the depth at a time, and copies of
  // 512 and 1024 lie further apart than they are long.
  TEST_CASE("many rows that lie as columns, and columns of several tasks of packing") {
    Random random(base_seed());
    for (const int64_t depth : {111, 112, 113, 511, 512, 513, 1024, 1031}) {
      for (const int64_t rows : {290, 293}) {
        check_matmul(normal(random, {rows, depth}, {1, rows + 2}), normal(random, {depth, 37}));
        check_matmul(normal(random, {2, rows, depth}, {depth * (rows + 2), 1, rows + 2}), normal(random, {depth, 37}));
      }
    }
    check_matmul(normal(random, {2, 90, 600}, {90 * 600, 1, 90}), normal(random, {2, 600, 130}));
    check_matmul(normal(random, {2, 90, 600}, {90, 1, 180}), normal(random, {600, 131}, {140, 1}));
  }

  TEST_CASE("each size around the edges of tiles") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t size : {0,  1,  2,  3,  5,  6,  7,  8,  11, 12, 13,  15,  16,  17,  24,  29,  31,
                           32, 33, 47, 48, 49, 63, 64, 65, 96, 97, 127, 128, 129, 131, 255, 256, 257}) {
        check_matmul(normal(random, {size, 19}), normal(random, {19, 23}));
        check_matmul(normal(random, {17, size}), normal(random, {size, 23}));
        check_matmul(normal(random, {17, 19}), normal(random, {19, size}));
      }
    }
  }

  TEST_CASE("every pair of edges for the rows and columns") {
    Random random(base_seed());
    for (int64_t m : {1, 2, 5, 6, 7, 12, 13, 14, 28, 31, 33}) {
      for (int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 65}) {
        for (int64_t k : {1, 2, 64}) check_matmul(normal(random, {m, k}), normal(random, {k, n}));
      }
    }
  }

  TEST_CASE("larger than the blocks for the caches") {
    Random random(base_seed());
    check_matmul(normal(random, {150, 300}), normal(random, {300, 280}));
    check_matmul(normal(random, {3, 2100}), normal(random, {2100, 70}));
    check_matmul(normal(random, {600, 40}), normal(random, {40, 5}));
    check_matmul(normal(random, {5, 40}), normal(random, {40, 2500}));
  }

  TEST_CASE("K = 0 gives zeros") {
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> a({3, 0}), b({0, 5}), out({3, 5});
      const fovea_tensor x = a.view(), y = b.view(), z = out.view();
      REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
      CHECK(out.dense() == std::vector<float>(15, 0.0f));
      const Packed packed = pack(context, b);
      const Tensor<float> again({3, 5});
      const fovea_tensor w = again.view();
      REQUIRE_OK(fovea_matmul_packed(context, &x, packed.get(), &w));
      CHECK(again.dense() == std::vector<float>(15, 0.0f));
    });
  }

  TEST_CASE("any strides of a and b: transposed, repeated, reversed, with gaps") {
    Random random(base_seed());
    const std::vector<Shape> strides_of_a = {{29, 1}, {1, 21}, {40, 1}, {0, 1}, {1, 0}, {-29, 1}, {31, -1}, {60, 2}};
    const std::vector<Shape> strides_of_b = {{35, 1}, {1, 29}, {37, 1}, {0, 1}, {1, 0}, {-35, 1}, {36, -1}, {75, 2}};
    for (const Shape &of_a : strides_of_a) {
      for (const Shape &of_b : strides_of_b) {
        check_matmul(normal(random, {21, 29}, of_a), normal(random, {29, 35}, of_b));
      }
    }
    const Tensor<float> gaps({21, 35}, {50, 1}), reversed({21, 35}, {-35, 1});
    for (const Tensor<float> *layout : {&gaps, &reversed}) {
      check_matmul(normal(random, {21, 29}), normal(random, {29, 35}), layout);
    }
  }

  TEST_CASE("batches, with a or b shared") {
    Random random(base_seed());
    for (int64_t batch : {0, 1, 2, 5}) {
      check_matmul(normal(random, {batch, 7, 9}), normal(random, {batch, 9, 20}));
      check_matmul(normal(random, {batch, 7, 9}), normal(random, {9, 20}));
      check_matmul(normal(random, {7, 9}), normal(random, {batch, 9, 20}));
    }
    check_matmul(normal(random, {4, 7, 9}, {0, 9, 1}), normal(random, {4, 9, 20}, {20, 80, 1}));
  }

  TEST_CASE("NaN and infinity reach exactly their rows and columns") {
    Random random(base_seed());
    Tensor<float> a = normal(random, {20, 30}), b = normal(random, {30, 40});
    a(7, 3) = kNan;
    a(9, 4) = kInfinity;
    b(29, 33) = -kInfinity;
    b(0, 0) = kNan;
    check_matmul(a, b);
  }

  TEST_CASE("random shapes and strides") {
    for (int64_t n = 0; n < case_count(400); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t batch = random.integer(1, 3), m = random.integer(1, 70), k = random.integer(1, 70),
                    columns = random.integer(1, 70);
      const bool transposed_a = random.chance(0.4), transposed_b = random.chance(0.4);
      const Shape a = {batch, m, k}, b = {batch, k, columns};
      const std::vector<int> rows = {0, 1, 2}, turned = {0, 2, 1};
      check_matmul(normal(random, a, permuted_strides(a, transposed_a ? turned : rows, random.integer(0, 3))),
                   normal(random, b, permuted_strides(b, transposed_b ? turned : rows, random.integer(0, 3))));
    }
  }

  TEST_CASE("a packed matrix keeps its own copy and tells its size") {
    Random random(base_seed());
    for_each_isa([&](const fovea_context *context) {
      Tensor<float> b = normal(random, {33, 50});
      const Tensor<float> a = normal(random, {4, 33}), out({4, 50}), again({4, 50});
      const fovea_tensor x = a.view(), y = b.view(), z = out.view(), w = again.view();
      const Packed packed = pack(context, b);
      CHECK(fovea_packed_matrix_size(packed.get()) >= 33 * 50 * sizeof(float));
      CHECK(fovea_packed_matrix_size(nullptr) == 0);
      REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
      b.fill([] { return kNan; });
      REQUIRE_OK(fovea_matmul_packed(context, &x, packed.get(), &w));
      CHECK(same_bits(out, again));
    });
    fovea_packed_matrix_destroy(nullptr);
  }
}
