// out = alpha a b + beta c, and products of several matrices with two batch axes: every way to repeat, types, in place,
// bad arguments.
#include <doctest/doctest.h>

#include <cmath>

#include "errors.hpp"
#include "reference.hpp"
#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

struct Gemm {
  Tensor<float> a, b, out;
  std::optional<Tensor<float>> c;
  std::optional<float> alpha, beta;

  fovea_gemm_options options(const fovea_tensor *added) const {
    fovea_gemm_options options{};
    options.struct_size = sizeof options;
    options.alpha = alpha.value_or(0);
    options.beta = beta.value_or(0);
    if (alpha) options.flags |= FOVEA_GEMM_ALPHA_GIVEN;
    if (beta) options.flags |= FOVEA_GEMM_BETA_GIVEN;
    options.c = added;
    return options;
  }
  std::vector<float> run(const fovea_context *context) const {
    const fovea_tensor left = a.view(), right = b.view(), to = out.view(), added = c ? c->view() : fovea_tensor{};
    const fovea_gemm_options given = options(c ? &added : nullptr);
    REQUIRE_OK(fovea_gemm(context, &left, &right, &to, &given));
    CHECK(out.gaps_untouched());
    return out.dense();
  }
};

Shape with_batch(const Shape &batch, int64_t rows, int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

struct Evaluated {
  std::vector<double> out, magnitude;  // of all that was added up
};

Evaluated evaluate(const Gemm &g) {
  const Shape &shape = g.out.shape();
  const size_t rank = shape.size();
  const int64_t m = shape[rank - 2], n = shape[rank - 1], k = g.a.shape().back();
  const Shape batch(shape.begin(), shape.end() - 2);
  const std::vector<float> a = g.a.dense(with_batch(batch, m, k)), b = g.b.dense(with_batch(batch, k, n));
  const std::vector<float> c = g.c ? g.c->dense(shape) : std::vector<float>();
  const double alpha = g.alpha.value_or(1.0f), beta = g.beta.value_or(1.0f);
  Evaluated truth;
  for (int64_t entry = 0; entry < element_count(batch); ++entry) {
    const auto part = [&](const std::vector<float> &all, int64_t size) {
      return std::vector<float>(all.begin() + entry * size, all.begin() + (entry + 1) * size);
    };
    const auto product = reference::matmul<double>(part(a, m * k), part(b, k * n), m, n, k);
    for (size_t i = 0; i < product.out.size(); ++i) {
      double value = alpha * product.out[i], size = std::abs(alpha) * product.magnitude[i];
      if (g.c && beta != 0) {
        const double added = beta * static_cast<double>(c[truth.out.size()]);
        value += added;
        size += std::abs(added);
      }
      truth.out.push_back(value);
      truth.magnitude.push_back(size);
    }
  }
  return truth;
}

void check(const Gemm &g) {
  const Evaluated truth = evaluate(g);
  const double terms = static_cast<double>(g.a.shape().back()) + 4;
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> out = g.run(context);
    int64_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      wrong += std::abs(static_cast<double>(out[i]) - truth.out[i]) <= 0x1p-24 * terms * truth.magnitude[i] ? 0 : 1;
    }
    CHECK_EQ(wrong, 0);
  });
}

// Batch axes of an operand: out's, or some of them 1, or some missing.
Shape repeated(const Shape &batch, Random &random) {
  Shape own = batch;
  for (int64_t &size : own) size = random.chance(0.3) ? 1 : size;
  while (!own.empty() && random.chance(0.3)) own.erase(own.begin());
  return own;
}

Gemm random_gemm(Random &random) {
  Gemm g;
  Shape batch;
  for (int64_t axes = random.integer(0, 2); axes > 0; --axes) batch.push_back(random.integer(1, 4));
  const auto size = [&] { return random.chance(0.3) ? random.integer(1, 100) : random.integer(1, 9); };
  const int64_t m = size(), n = size(), k = random.chance(0.05) ? 0 : size();
  const auto make = [&](const Shape &shape, bool transposes) {
    std::vector<int> order;
    for (size_t axis = 0; axis < shape.size(); ++axis) order.push_back(static_cast<int>(axis));
    if (transposes && random.chance(0.3)) std::swap(order[order.size() - 1], order[order.size() - 2]);
    if (order.size() > 3 && random.chance(0.3)) std::swap(order[0], order[1]);
    Tensor<float> made(shape, permuted_strides(shape, order, random.integer(0, 2)));
    return std::move(made.fill_normal(random));
  };
  g.a = make(with_batch(repeated(batch, random), m, k), true);
  g.b = make(with_batch(repeated(batch, random), k, n), true);
  const Shape out = with_batch(batch, m, n);
  g.out = Tensor<float>(out, permuted_strides(
                                 out,
                                 [&] {
                                   std::vector<int> order;
                                   for (size_t axis = 0; axis < out.size(); ++axis)
                                     order.push_back(static_cast<int>(axis));
                                   return order;
                                 }(),
                                 random.integer(0, 2)));
  if (random.chance(0.7)) {
    Shape added = with_batch(repeated(batch, random), random.chance(0.3) ? 1 : m, random.chance(0.3) ? 1 : n);
    while (added.size() > 1 && random.chance(0.2)) added.erase(added.begin());
    g.c.emplace(added).fill_normal(random);
  }
  if (random.chance(0.7)) g.alpha = random.pick({0.0f, 1.0f, -2.5f, 0.3f});
  if (random.chance(0.7)) g.beta = random.pick({0.0f, 1.0f, -1.5f, 0.7f});
  return g;
}

}  // namespace

TEST_SUITE("gemm") {
  TEST_CASE("by hand") {
    for_each_isa([&](const fovea_context *context) {
      Gemm g{Tensor<float>({2, 2}), Tensor<float>({2, 2}), Tensor<float>({2, 2}), {}, {}, {}};
      g.a.assign({1, 2, 3, 4});
      g.b.assign({1, 0, 0, 1});
      g.c.emplace(Shape{2}).assign({10, 20});
      CHECK(g.run(context) == std::vector<float>{11, 22, 13, 24});
      g.alpha = 2;
      g.beta = -1;
      CHECK(g.run(context) == std::vector<float>{-8, -16, -4, -12});
      g.c.emplace(Shape{2, 1}).assign({1, 2});
      CHECK(g.run(context) == std::vector<float>{1, 3, 4, 6});
      g.alpha = 0;
      g.c.emplace(Shape{1}).assign({5});
      CHECK(g.run(context) == std::vector<float>{-5, -5, -5, -5});
      g.beta = 0;
      g.c->assign({kNan});  // is not read
      CHECK(g.run(context) == std::vector<float>{0, 0, 0, 0});
    });
  }

  TEST_CASE("random sizes, batches, strides and options") {
    for (int64_t n = 0; n < case_count(500); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      check(random_gemm(random));
    }
  }

  TEST_CASE("a column, rows and a number that are added to a large product, packed in slices") {
    for (const Shape &added : {Shape{1}, Shape{3000}, Shape{40, 1}, Shape{40, 3000}}) {
      Random random(base_seed());
      Gemm g{Tensor<float>({40, 800}), Tensor<float>({800, 3000}), Tensor<float>({40, 3000}), {}, -0.5f, 3.0f};
      g.a.fill_normal(random);
      g.b.fill_normal(random);
      g.c.emplace(added).fill_normal(random);
      check(g);
    }
  }

  TEST_CASE("each matrix of a batch has the bits of a product of its own") {
    Random random(base_seed());
    for (const Shape &left :
         {Shape{3, 4, 5, 20}, Shape{1, 4, 5, 20}, Shape{3, 1, 5, 20}, Shape{4, 5, 20}, Shape{5, 20}}) {
      for (const Shape &right : {Shape{3, 4, 20, 33}, Shape{3, 1, 20, 33}, Shape{1, 4, 20, 33}, Shape{20, 33}}) {
        Tensor<float> a(left), b(right);
        a.fill_normal(random);
        b.fill_normal(random);
        const std::vector<float> all_a = a.dense({3, 4, 5, 20}), all_b = b.dense({3, 4, 20, 33});
        for_each_isa([&](const fovea_context *context) {
          const Tensor<float> out({3, 4, 5, 33});
          const fovea_tensor va = a.view(), vb = b.view(), to = out.view();
          REQUIRE_OK(fovea_matmul(context, &va, &vb, &to));
          for (int64_t entry = 0; entry < 12; ++entry) {
            Tensor<float> one_a({5, 20}), one_b({20, 33}), one_out({5, 33});
            one_a.assign({all_a.begin() + entry * 100, all_a.begin() + (entry + 1) * 100});
            one_b.assign({all_b.begin() + entry * 660, all_b.begin() + (entry + 1) * 660});
            const fovea_tensor x = one_a.view(), y = one_b.view(), z = one_out.view();
            REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
            const std::vector<float> whole = out.dense();
            CHECK(same_bits(one_out.dense(),
                            std::vector<float>(whole.begin() + entry * 165, whole.begin() + (entry + 1) * 165)));
          }
        });
      }
    }
  }

  TEST_CASE("without options the bits of a matrix product; c may be out; any threads") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{3, 40}, Shape{70, 200}}) {
      const int64_t k = 90;
      Gemm g{Tensor<float>({shape[0], k}), Tensor<float>({k, shape[1]}), Tensor<float>(shape), {}, {}, {}};
      g.a.fill_normal(random);
      g.b.fill_normal(random);
      const fovea_tensor a = g.a.view(), b = g.b.view(), out = g.out.view();
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(fovea_matmul(context, &a, &b, &out));
        const std::vector<float> product = g.out.dense();
        REQUIRE_OK(fovea_gemm(context, &a, &b, &out, nullptr));
        CHECK(same_bits(g.out.dense(), product));
        CHECK(same_bits(g.run(context), product));
        g.alpha = 0.5f;
        g.beta = 2;
        g.c.emplace(shape).fill([n = 0]() mutable { return static_cast<float>(n++ % 17); });
        const std::vector<float> expected = g.run(context);
        g.out.assign(g.c->dense());
        const fovea_gemm_options options = g.options(&out);
        REQUIRE_OK(fovea_gemm(context, &a, &b, &out, &options));
        CHECK(same_bits(g.out.dense(), expected));
        g.alpha.reset();
        g.beta.reset();
        g.c.reset();
      });
      for (const std::string &isa : instruction_sets()) {
        const std::vector<float> expected = g.run(shared_context(isa, 1));
        for (int threads : {2, 5}) CHECK(same_bits(g.run(shared_context(isa, threads)), expected));
        const PoolContext pool(isa, 3, 7);
        CHECK(same_bits(g.run(pool.get()), expected));
      }
    }
  }

  TEST_CASE("every mix of types: float32's bits, rounded once, where products are float32's") {
    Random random(base_seed());
    const fovea_dtype types[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
    for (const Shape &added : {Shape{9}, Shape{7, 1}, Shape{7, 9}}) {
      for (const fovea_dtype c_type : types) {
        for (const fovea_dtype out_type : types) {
          Gemm g{Tensor<float>({7, 12}), Tensor<float>({12, 9}), Tensor<float>({7, 9}), {}, 0.75f, -2.0f};
          g.a.fill_normal(random);
          g.b.fill_normal(random);
          g.c.emplace(added).fill([&] { return rounded_to(random.normal(), c_type); });
          for_each_isa([&](const fovea_context *context) {
            const std::vector<float> expected = g.run(context);
            const NarrowTensor narrow_c(*g.c, c_type == FOVEA_F32 ? FOVEA_F16 : c_type);
            const NarrowTensor narrow_out(g.out, out_type == FOVEA_F32 ? FOVEA_F16 : out_type);
            const fovea_tensor a = g.a.view(), b = g.b.view();
            const fovea_tensor c = c_type == FOVEA_F32 ? g.c->view() : narrow_c.view();
            const fovea_tensor out = out_type == FOVEA_F32 ? g.out.view() : narrow_out.view();
            const fovea_gemm_options options = g.options(&c);
            REQUIRE_OK(fovea_gemm(context, &a, &b, &out, &options));
            size_t next = 0;
            int64_t wrong = 0;
            for_each_index(g.out.shape(), [&](const Shape &i) {
              const float got = out_type == FOVEA_F32 ? g.out.at(i) : widened(narrow_out.at(i), out_type);
              wrong += got == rounded_to(expected[next++], out_type) ? 0 : 1;
            });
            CHECK_EQ(wrong, 0);
          });
        }
      }
    }
  }

  TEST_CASE("errors") {
    Tensor<float> a({2, 3, 4, 5}), b({2, 1, 5, 6}), c({4, 6}), out({2, 3, 4, 6});
    for (Tensor<float> *tensor : {&a, &b, &c}) tensor->fill([] { return 1.0f; });
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, const auto &spoil) {
      struct {
        fovea_tensor a, b, c, out;
        fovea_gemm_options options{};
      } call = {a.view(), b.view(), c.view(), out.view(), {}};
      call.options.struct_size = sizeof call.options;
      call.options.c = &call.c;
      spoil(call);
      check_refusal(fovea_gemm(nullptr, &call.a, &call.b, &call.out, &call.options), expected, words);
      CHECK(out.untouched());
    };
    refuse(FOVEA_BAD_SHAPE, {"a.shape[0]", "3"}, [](auto &call) { call.a.shape[0] = 3; });
    refuse(FOVEA_BAD_SHAPE, {"a.shape[1]", "2"}, [](auto &call) { call.a.shape[1] = 2; });
    refuse(FOVEA_BAD_SHAPE, {"b.shape[0]", "0"}, [](auto &call) { call.b.shape[0] = 0; });
    refuse(FOVEA_BAD_SHAPE, {"a.shape[3]", "4"}, [](auto &call) { call.b.shape[2] = 4; });
    refuse(FOVEA_BAD_SHAPE, {"c.shape[1]", "5", "or 1"}, [](auto &call) { call.c.shape[1] = 5; });
    refuse(FOVEA_BAD_SHAPE, {"c.shape[0]", "3"}, [](auto &call) { call.c.shape[0] = 3; });
    refuse(FOVEA_BAD_RANK, {"c has rank 5"}, [](auto &call) { call.c.rank = 5; });
    refuse(FOVEA_BAD_RANK, {"a has rank 5", "2 to 4"}, [](auto &call) { call.a.rank = 5; });
    refuse(FOVEA_BAD_RANK, {"out has rank 3", "4 like a"}, [](auto &call) {
      call.out.rank = 3;
      for (int axis = 0; axis < 3; ++axis) {
        call.out.shape[axis] = call.out.shape[axis + 1];
        call.out.strides[axis] = call.out.strides[axis + 1];
      }
    });
    refuse(FOVEA_BAD_STRIDE, {"c.strides[1]"}, [](auto &call) { call.c.strides[1] = 2; });
    refuse(FOVEA_BAD_DTYPE, {"c has dtype"}, [](auto &call) { call.c.dtype = FOVEA_I32; });
    refuse(FOVEA_OVERLAP, {"out", "c"}, [&](auto &call) { call.c.data = out.data(); });
    refuse(FOVEA_BAD_OPTION, {"options.flags"}, [](auto &call) { call.options.flags = 4; });
    refuse(FOVEA_BAD_OPTION, {"options.reserved"}, [](auto &call) { call.options.reserved = 4; });
    for (const float bad : {kNan, kInfinity}) {
      refuse(FOVEA_BAD_VALUE, {"options.alpha"}, [&](auto &call) { call.options.alpha = bad; });
      refuse(FOVEA_BAD_VALUE, {"options.beta"}, [&](auto &call) { call.options.beta = bad; });
    }
  }
}
