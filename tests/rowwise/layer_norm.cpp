// Layer normalisation against float64: every size near a register and a chunk, strides, what lies in place, rows that
// are hard for float32, the same bits whatever the threads and the place of a row.
#include <cstring>
#include <limits>

#include "rowwise/norm_problem.hpp"
#include "support/same_bits.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

TEST_SUITE("layer norm") {
  TEST_CASE("worked example") {
    NormProblem problem({2, 4});
    problem.x.assign({1, 2, 3, 6, 10, 10, 10, 14});  // means 3 and 11, variances 3.5 and 3
    problem.epsilon = 0.5f;                          // divisors 2 and sqrt 3.5
    problem.weight.emplace(Shape{4}).assign({1, 2, 3, 4});
    problem.bias.emplace(Shape{4}).assign({0, 10, 20, 30});
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> out = problem.run(context);
      const double root = std::sqrt(3.5);
      const double expected[] = {-1, 9, 20, 36, -1 / root, 10 - 2 / root, 20 - 3 / root, 30 + 12 / root};
      for (size_t n = 0; n < 8; ++n) CHECK(static_cast<double>(out[n]) == doctest::Approx(expected[n]).epsilon(1e-6));
    });
  }

  TEST_CASE("every size up to 140, at both ends of a page") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t dim = 1; dim <= 140; ++dim) {
        CAPTURE(dim);
        check_norm(full_norm(dim, base_seed()));
        check_norm(full_norm(dim, base_seed() + 1));
      }
    }
  }

  TEST_CASE("sizes near a chunk, and rows longer than a cache") {
    for (int64_t dim : {2047, 2048, 2049, 2063, 2064, 4095, 4096, 4097, 6151, 100003, 3000001}) {
      CAPTURE(dim);
      check_norm(full_norm(dim, base_seed()));
      check_norm(full_norm(dim, base_seed() + 1, 100));
    }
  }

  TEST_CASE("random shapes, strides and options") {
    for (int64_t n = 0; n < case_count(800); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      check_norm(random_norm(seed));
    }
  }

  TEST_CASE("a large mean costs nothing") {
    for (float mean : {1234.567f, -98765.43f, 12345677.0f, 3.1415926e10f}) {
      for (int64_t dim : {2, 7, 64, 768, 2048, 5000}) {
        CAPTURE(mean);
        CAPTURE(dim);
        Random random(base_seed());
        NormProblem problem({3, dim});
        problem.x.fill([&] { return mean + std::abs(mean) * 1e-6f * random.normal(); });
        problem.epsilon = 1e-12f;
        check_norm(problem);
        // All but constant: one element differs, by the smallest step.
        problem.x.fill([&] { return mean; });
        for (int64_t row = 0; row < 3; ++row) problem.x(row, dim / 2) = std::nextafter(mean, 0.0f);
        check_norm(problem);
      }
    }
  }

  TEST_CASE("constant rows give the bias") {
    for (float value : {0.0f, -0.1f, 1e6f, 1.2345e20f, 3e38f, 1e-40f}) {
      for (int64_t dim : {1, 2, 3, 17, 768, 2049}) {
        CAPTURE(value);
        CAPTURE(dim);
        Random random(base_seed());
        NormProblem problem({2, dim});
        problem.x.fill([&] { return value; });
        for (float epsilon : {0.0f, 1e-12f, 1e-45f}) {
          problem.epsilon = epsilon;
          for_each_isa([&](const fovea_context *context) {
            CHECK(problem.run(context) == std::vector<float>(static_cast<size_t>(2 * dim), 0.0f));
          });
        }
        problem.add_parameters(random);
        std::vector<float> expected = problem.bias->dense();
        expected.insert(expected.end(), expected.begin(), expected.begin() + dim);
        for_each_isa([&](const fovea_context *context) { CHECK(problem.run(context) == expected); });
      }
    }
  }

  TEST_CASE("numbers whose squares, or sums, a float cannot hold") {
    for (float scale : {1e30f, 1.5e38f, 1e-18f, 1e-25f, 1e-38f}) {
      for (float epsilon : {0.0f, 1e-45f, 1e-12f}) {
        for (int64_t dim : {2, 50, 768, 3000}) {
          CAPTURE(scale);
          CAPTURE(epsilon);
          CAPTURE(dim);
          Random random(base_seed());
          NormProblem problem({2, dim});
          problem.x.fill([&] { return scale * random.uniform(-1, 1); });
          problem.epsilon = epsilon;
          problem.flags = FOVEA_NORM_EPSILON_GIVEN;
          const reference::LayerNormInputs inputs = problem.reference_inputs();
          const std::vector<double> truth = reference::layer_norm<double>(inputs), bounds = norm_bounds(inputs, truth);
          for_each_isa(
              [&](const fovea_context *context) { CHECK_EQ(bad_elements(problem.run(context), truth, bounds), 0); });
        }
      }
    }
  }

  TEST_CASE("all but constant rows beside an epsilon of next to nothing") {
    for (float value : {1e-40f, 1e-20f, 0.1f, 1e6f, 1e20f, 3e38f}) {
      for (float epsilon : {0.0f, 1e-45f, 1e-30f}) {
        for (int64_t dim : {2, 50, 768, 3000}) {
          CAPTURE(value);
          CAPTURE(epsilon);
          CAPTURE(dim);
          NormProblem problem({2, dim});
          problem.x.fill([&] { return value; });
          for (int64_t row = 0; row < 2; ++row) problem.x(row, dim / 2) = std::nextafter(value, 0.0f);
          problem.epsilon = epsilon;
          problem.flags = FOVEA_NORM_EPSILON_GIVEN;
          problem.mean.emplace(Shape{2});
          problem.inverse_deviation.emplace(Shape{2});
          const reference::LayerNormInputs inputs = problem.reference_inputs();
          const std::vector<double> truth = reference::layer_norm<double>(inputs), bounds = norm_bounds(inputs, truth);
          const auto statistics = reference::norm_statistics<double>(inputs);
          for_each_isa([&](const fovea_context *context) {
            CHECK_EQ(bad_elements(problem.run(context), truth, bounds), 0);
            CHECK(problem.mean->dense()[1] == static_cast<float>(statistics.mean[1]));
            const double inverse = 1 / statistics.deviation[1];
            const auto expected =
                inverse > static_cast<double>(std::numeric_limits<float>::max()) ? kInfinity : inverse;
            const auto given = static_cast<double>(problem.inverse_deviation->dense()[1]);
            CHECK((given == expected || std::abs(given - expected) <= 0x1p-20 * expected));
          });
        }
      }
    }
  }

  TEST_CASE("NaN and infinity stay in their row and fill it") {
    for (float special : {kNan, kInfinity, -kInfinity}) {
      for (int64_t dim : {1, 3, 16, 100, 2500}) {
        for (int64_t at : {int64_t{0}, dim / 2, dim - 1}) {
          CAPTURE(special);
          CAPTURE(dim);
          for (bool in_residual : {false, true}) {
            NormProblem problem = full_norm(dim, 2 * base_seed());
            NormProblem clean = full_norm(dim, 2 * base_seed());
            (in_residual ? *problem.residual : problem.x)(1, at) = special;
            problem.mean.emplace(Shape{problem.x.shape()[0]});
            for_each_isa([&](const fovea_context *context) {
              const std::vector<float> out = problem.run(context), expected = clean.run(context);
              const float mean = problem.mean->dense()[1];
              CHECK((std::isnan(special) ? std::isnan(mean) : mean == special));
              CHECK(std::memcmp(out.data(), expected.data(), static_cast<size_t>(dim) * sizeof(float)) == 0);
              CHECK(std::all_of(out.begin() + dim, out.end(), [](float value) { return std::isnan(value); }));
            });
          }
        }
      }
    }
  }

  TEST_CASE("an epsilon of 0 that is given") {
    for (int64_t dim : {1, 2, 17, 100, 2500}) {
      CAPTURE(dim);
      NormProblem problem = full_norm(dim, base_seed());
      problem.flags = FOVEA_NORM_EPSILON_GIVEN;
      if (dim > 1) check_norm(problem);
      NormProblem constant({2, dim});  // 0 / 0, in all the row and no other
      constant.x.fill([n = int64_t{0}, dim]() mutable { return n++ < dim ? 0.3f : static_cast<float>(n); });
      constant.flags = FOVEA_NORM_EPSILON_GIVEN;
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = constant.run(context);
        for (size_t n = 0; n < out.size(); ++n) {
          CHECK(std::isnan(out[n]) == (dim == 1 || static_cast<int64_t>(n) < dim));
        }
      });
    }
  }

  TEST_CASE("epsilon 0 is 1e-5 unless it is given") {
    NormProblem problem = full_norm(100, base_seed());
    NormProblem explicit_one = full_norm(100, base_seed());
    explicit_one.epsilon = 1e-5f;
    NormProblem larger = full_norm(100, base_seed());
    larger.epsilon = 1e-2f;
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> out = problem.run(context), same = explicit_one.run(context);
      double apart = 0;
      for (size_t n = 0; n < out.size(); ++n) apart = std::max(apart, std::abs(double(out[n]) - double(same[n])));
      CHECK(apart < 1e-6);
      CHECK(!same_bits(out, larger.run(context)));
    });
  }

  TEST_CASE("options NULL") {
    NormProblem problem({3, 50});
    Random random(base_seed());
    problem.x.fill_normal(random);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out = problem.make_out();
      const fovea_tensor x_view = problem.x.view(), out_view = out.view();
      REQUIRE_OK(fovea_layer_norm(context, &x_view, &out_view, nullptr));
      CHECK(same_bits(out.dense(), problem.run(context)));
    });
  }

  TEST_CASE("in place of x, of the residual, of both: the same bits") {
    for (int64_t n = 0; n < 100; ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      for_each_isa([&](const fovea_context *context) {
        const auto fresh = [&] {
          Random random(seed);
          NormProblem problem({random.integer(1, 5), n < 50 ? random.integer(1, 100) : random.integer(1, 5000)});
          problem.x.fill_normal(random);
          if (n % 2 == 0) problem.add_parameters(random);
          problem.add_residual(random);
          return problem;
        };
        const std::vector<float> expected = fresh().run(context);
        const NormProblem over_x = fresh(), over_residual = fresh();
        REQUIRE_OK(over_x.run(context, over_x.x.view()));
        CHECK(same_bits(over_x.x.dense(), expected));
        REQUIRE_OK(over_residual.run(context, over_residual.residual->view()));
        CHECK(same_bits(over_residual.residual->dense(), expected));
        NormProblem twice = fresh();
        twice.residual->assign(twice.x.dense());
        const std::vector<float> doubled = twice.run(context);
        twice.residual.reset();
        const fovea_tensor x_view = twice.x.view(), weight = twice.weight ? twice.weight->view() : fovea_tensor{},
                           bias = twice.bias ? twice.bias->view() : fovea_tensor{};
        fovea_layer_norm_options options{};
        options.struct_size = sizeof options;
        options.weight = twice.weight ? &weight : nullptr;
        options.bias = twice.bias ? &bias : nullptr;
        options.residual = &x_view;
        REQUIRE_OK(fovea_layer_norm(context, &x_view, &x_view, &options));
        CHECK(same_bits(twice.x.dense(), doubled));
      });
    }
  }

  TEST_CASE("the same bits for 1 to 8 threads, on the caller's own too") {
    const Shape shapes[] = {{3, 70, 768}, {2000, 40}, {100000, 1}, {5, 30001}};
    for (const Shape &shape : shapes) {
      CAPTURE(shape);
      Random random(base_seed());
      NormProblem problem(shape);
      problem.x.fill_normal(random);
      problem.add_parameters(random);
      problem.add_residual(random);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const std::vector<float> expected = problem.run(shared_context(isa, 1));
        for (int threads = 0; threads <= 8; ++threads) {
          CHECK(same_bits(problem.run(shared_context(isa, threads)), expected));
        }
        const PoolContext pool(isa, 3, 13);
        REQUIRE(pool.get() != nullptr);
        CHECK(same_bits(problem.run(pool.get()), expected));
        CHECK(pool.pool().loops() > 0);
      }
    }
  }

  TEST_CASE("a row has the same bits alone, at any alignment, in an output past the caches and in place in memory") {
    for (int64_t dim : {771, 4096}) {
      Random random(base_seed());
      const int64_t rows = (int64_t{33} << 20) / 4 / dim;
      NormProblem problem({rows, dim});
      uint32_t state = 1;
      const auto any = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-21f; };
      problem.x.fill(any);
      problem.residual.emplace(Shape{rows, dim}).fill(any);
      problem.add_parameters(random);
      const Tensor<float> large = problem.make_out();
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(problem.run(context, large.view()));
        int64_t wrong = 0;
        for (int64_t row = 0; row < rows; row += 331) {
          const WithPlacement here(row % 2 == 0 ? Placement::kBegin : Placement::kMisaligned);
          NormProblem alone({dim});
          std::copy_n(&problem.x(row, 0), dim, alone.x.data());
          alone.residual.emplace(Shape{dim});
          std::copy_n(&(*problem.residual)(row, 0), dim, alone.residual->data());
          alone.weight.emplace(Shape{dim}).assign(problem.weight->dense());
          alone.bias.emplace(Shape{dim}).assign(problem.bias->dense());
          const std::vector<float> out = alone.run(context);
          wrong += std::memcmp(out.data(), &large(row, 0), out.size() * sizeof(float)) == 0 ? 0 : 1;
        }
        CHECK_EQ(wrong, 0);
        const std::vector<float> x = problem.x.dense();
        REQUIRE_OK(problem.run(context, problem.x.view()));
        CHECK(problem.x.dense() == large.dense());
        problem.x.assign(x);
      });
    }
  }
}
