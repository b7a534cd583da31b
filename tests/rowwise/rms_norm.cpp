// RMS normalisation against float64, and what layer normalisation and it give beside their result: the sum with the
// residual, the mean, the inverse deviation.
#include <cstring>
#include <numeric>

#include "rowwise/norm_problem.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

NormProblem with_rms(NormProblem problem, bool from_one = false) {
  problem.rms = true;
  problem.bias.reset();
  problem.weight_from_one = from_one;
  return problem;
}

// Outputs of any strides beside the result.
void add_outputs(NormProblem &problem, Random &random) {
  const Shape &shape = problem.x.shape();
  const Shape rows(shape.begin(), shape.end() - 1);
  const auto strides = [&] {
    Shape some = contiguous_strides(rows);
    const int64_t factor = random.integer(1, 3);
    for (int64_t &stride : some) stride *= factor;
    if (rows.size() > 1 && random.chance(0.5)) {
      some = permuted_strides(rows, [&] {
        std::vector<int> order;
        for (size_t axis = rows.size(); axis-- > 0;) order.push_back(static_cast<int>(axis));
        return order;
      }());
    }
    return some;
  };
  problem.inverse_deviation.emplace(rows, strides());
  if (!problem.rms) problem.mean.emplace(rows, strides());
  if (problem.residual) problem.sum.emplace(shape, random_strides(shape, random));
}

int64_t rows_of(const NormProblem &problem) { return problem.x.count() / std::max<int64_t>(problem.dim(), 1); }

void check_outputs(const NormProblem &problem) {
  const reference::LayerNormInputs inputs = problem.reference_inputs();
  const auto truth = reference::norm_statistics<double>(inputs);
  const std::vector<float> inverse = problem.inverse_deviation->dense();
  CHECK(problem.inverse_deviation->gaps_untouched());
  int64_t wrong = 0;
  const auto dim = static_cast<size_t>(inputs.dim);
  std::vector<double> largest(inverse.size());  // |x + residual|, each rounded once; without a residual none is
  for (size_t i = 0; i < inputs.residual.size(); ++i) {
    const double sum = static_cast<double>(inputs.x[i]) + static_cast<double>(inputs.residual[i]);
    largest[i / dim] = std::max(largest[i / dim], std::abs(sum));
  }
  for (size_t row = 0; row < inverse.size(); ++row) {
    const double expected = 1 / truth.deviation[row];
    const double bound = expected * (0x1p-19 + 0x1p-23 * largest[row] * expected);
    wrong += std::abs(static_cast<double>(inverse[row]) - expected) <= bound ? 0 : 1;
  }
  CHECK_EQ(wrong, 0);
  if (problem.mean) {
    const std::vector<float> mean = problem.mean->dense();
    CHECK(problem.mean->gaps_untouched());
    for (size_t row = 0; row < mean.size(); ++row) {
      const double bound = 0x1p-21 * (std::abs(truth.mean[row]) + truth.deviation[row]) + 0x1p-23 * largest[row];
      wrong += std::abs(static_cast<double>(mean[row]) - truth.mean[row]) <= bound ? 0 : 1;
    }
    CHECK_EQ(wrong, 0);
  }
  if (!problem.sum) return;
  CHECK(problem.sum->gaps_untouched());
  std::vector<float> expected = problem.x.dense();
  const std::vector<float> residual = problem.residual->dense();
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
  CHECK(same_bits(problem.sum->dense(), expected));
}

}  // namespace

TEST_SUITE("rms norm") {
  TEST_CASE("worked example") {
    NormProblem problem = with_rms(NormProblem({2, 2}));
    problem.x.assign({3, 4, 0, 1});  // mean squares 12.5 and 0.5
    problem.epsilon = 3.5f;          // roots 4 and 2
    for_each_isa([&](const fovea_context *context) {
      problem.weight_from_one = false;
      problem.weight.emplace(Shape{2}).assign({1, 2});
      CHECK(problem.run(context) == std::vector<float>{0.75f, 2, 0, 1});
      problem.weight_from_one = true;
      CHECK(problem.run(context) == std::vector<float>{1.5f, 3, 0, 1.5f});
      problem.weight.reset();
      CHECK(problem.run(context) == std::vector<float>{0.75f, 1, 0, 0.5f});
      const Tensor<float> out = problem.make_out();
      const fovea_tensor x = problem.x.view(), to = out.view();
      REQUIRE_OK(fovea_rms_norm(context, &x, &to, nullptr));
      CHECK(out(0, 0) == doctest::Approx(3 / std::sqrt(12.5 + 1e-5)));
    });
  }

  TEST_CASE("every size up to 140, at both ends of a page") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t dim = 1; dim <= 140; ++dim) {
        CAPTURE(dim);
        check_norm(with_rms(full_norm(dim, base_seed()), dim % 3 == 0));
        check_norm(with_rms(full_norm(dim, base_seed() + 1), dim % 3 == 0));
      }
    }
  }

  TEST_CASE("sizes near a chunk, and rows longer than a cache") {
    for (int64_t dim : {2047, 2048, 2049, 2063, 2064, 4095, 4096, 4097, 6151, 100003}) {
      CAPTURE(dim);
      check_norm(with_rms(full_norm(dim, base_seed())));
      check_norm(with_rms(full_norm(dim, base_seed() + 1, 100), true));
    }
  }

  TEST_CASE("random shapes, strides and options, with all outputs") {
    for (int64_t n = 0; n < case_count(300); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      NormProblem problem = random_norm(seed);
      if (n % 3 != 0) problem = with_rms(std::move(problem), random.chance(0.3));
      check_norm(problem);
      std::vector<std::vector<float>> plain;
      for_each_isa([&](const fovea_context *context) { plain.push_back(problem.run(context)); });
      add_outputs(problem, random);
      size_t next = 0;
      for_each_isa([&](const fovea_context *context) {
        CHECK(same_bits(problem.run(context), plain[next++]));  // what else is wanted changes nothing
        if (problem.x.count() > 0) check_outputs(problem);
      });
    }
  }

  TEST_CASE("numbers whose squares a float cannot hold") {
    for (float scale : {1e30f, 1.5e38f, 1e-18f, 1e-25f, 1e-38f}) {
      for (float epsilon : {1e-45f, 1e-12f}) {
        for (int64_t dim : {2, 50, 768, 3000}) {
          CAPTURE(scale);
          CAPTURE(dim);
          Random random(base_seed());
          NormProblem problem = with_rms(NormProblem({2, dim}));
          problem.x.fill([&] { return scale * random.uniform(-1, 1); });
          problem.epsilon = epsilon;
          problem.add_parameters(random);
          problem.bias.reset();
          problem.residual.emplace(Shape{2, dim}).fill([&] { return scale * random.uniform(-0.2f, 0.2f); });
          add_outputs(problem, random);
          const reference::LayerNormInputs inputs = problem.reference_inputs();
          const std::vector<double> truth = reference::layer_norm<double>(inputs), bounds = norm_bounds(inputs, truth);
          for_each_isa([&](const fovea_context *context) {
            CHECK_EQ(bad_elements(problem.run(context), truth, bounds), 0);
            check_outputs(problem);
          });
        }
      }
    }
  }

  TEST_CASE("zeros keep their sign and stay; NaN and infinity stay in their row and fill it") {
    for (int64_t dim : {1, 3, 16, 100, 2500}) {
      for (float special : {kNan, kInfinity, -kInfinity}) {
        CAPTURE(dim);
        NormProblem problem = with_rms(NormProblem({2, dim}));
        problem.x.fill([] { return -0.0f; });
        problem.x(1, dim - 1) = special;
        for_each_isa([&](const fovea_context *context) {
          const std::vector<float> out = problem.run(context);
          CHECK(std::all_of(out.begin(), out.begin() + dim, [](float v) { return v == 0 && std::signbit(v); }));
          if (std::isnan(special)) {
            CHECK(std::all_of(out.begin() + dim, out.end(), [](float v) { return std::isnan(v); }));
          } else {
            CHECK(std::isnan(out.back()));
          }
        });
      }
    }
  }

  TEST_CASE("epsilon 0 is 1e-5, unless it is meant") {
    NormProblem problem = with_rms(NormProblem({2, 3}));
    problem.x.assign({1e-4f, 1e-4f, 1e-4f, 0, 0, 0});
    for_each_isa([&](const fovea_context *context) {
      problem.epsilon = 0;
      const float implied = problem.run(context)[0];
      problem.epsilon = 1e-5f;
      CHECK(problem.run(context)[0] == doctest::Approx(implied));
      const Tensor<float> out = problem.make_out();
      const fovea_tensor x = problem.x.view(), to = out.view();
      fovea_rms_norm_options options{};
      options.struct_size = sizeof options;
      options.flags = FOVEA_NORM_EPSILON_GIVEN;
      REQUIRE_OK(fovea_rms_norm(context, &x, &to, &options));
      CHECK(out(0, 0) == doctest::Approx(1));
      CHECK(std::isnan(out(1, 0)));
    });
  }

  TEST_CASE("in place of x, of the residual: result and sum have the same bits") {
    for (int64_t n = 0; n < case_count(60); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      const auto fresh = [&] {
        Random random(seed);
        NormProblem problem({random.integer(1, 5), n < 30 ? random.integer(1, 100) : random.integer(1, 5000)});
        const float size = n % 5 == 0 ? 1e30f : 1;  // by float64
        problem.x.fill([&] { return size * random.normal(); });
        problem.add_parameters(random);
        problem.residual.emplace(problem.x.shape()).fill([&] { return size * random.normal(); });
        return n % 2 == 0 ? with_rms(std::move(problem)) : std::move(problem);
      };
      for_each_isa([&](const fovea_context *context) {
        NormProblem apart = fresh();
        apart.sum.emplace(apart.x.shape());
        const std::vector<float> expected = apart.run(context), sum = apart.sum->dense();
        for (const bool out_is_x : {true, false}) {
          const NormProblem both = fresh();
          const fovea_tensor x = both.x.view(), residual = both.residual->view(), weight = both.weight->view();
          const fovea_tensor bias = both.bias ? both.bias->view() : fovea_tensor{};
          fovea_status status = FOVEA_OK;
          const auto run = [&](auto options, auto call) {
            options.struct_size = sizeof options;
            options.weight = &weight;
            options.residual = &residual;
            options.sum = out_is_x ? &residual : &x;
            if constexpr (requires { options.bias; }) options.bias = both.bias ? &bias : nullptr;
            status = call(context, &x, out_is_x ? &x : &residual, &options);
          };
          both.rms ? run(fovea_rms_norm_options{}, fovea_rms_norm) : run(fovea_layer_norm_options{}, fovea_layer_norm);
          REQUIRE_OK(status);
          const Tensor<float> &out = out_is_x ? both.x : *both.residual, &added = out_is_x ? *both.residual : both.x;
          CHECK(same_bits(out.dense(), expected));
          CHECK(same_bits(added.dense(), sum));
        }
      });
    }
  }

  TEST_CASE("sums of 16 bits are those of float32, rounded once, in place too") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (const int64_t dim : {1, 7, 31, 32, 33, 100, 2048, 2049, 5000}) {
        CAPTURE(dtype);
        CAPTURE(dim);
        Random random(base_seed());
        Tensor<float> x({3, dim}), residual({3, dim});
        for (Tensor<float> *tensor :
             {&x, &residual}) {  // many of these sums lie halfway between two numbers of the type
          tensor->fill([&] { return rounded_to(static_cast<float>(random.integer(-300, 300)) / 64, dtype); });
        }
        for_each_isa([&](const fovea_context *context) {
          for (const bool rms : {true, false}) {
            const NarrowTensor from(x, dtype), added(residual, dtype);
            const fovea_tensor in = from.view(), more = added.view();
            if (rms) {
              fovea_rms_norm_options options{};
              options.struct_size = sizeof options;
              options.residual = options.sum = &more;
              REQUIRE_OK(fovea_rms_norm(context, &in, &in, &options));
            } else {
              fovea_layer_norm_options options{};
              options.struct_size = sizeof options;
              options.residual = options.sum = &more;
              REQUIRE_OK(fovea_layer_norm(context, &in, &in, &options));
            }
            int64_t wrong = 0;
            for_each_index(x.shape(), [&](const Shape &index) {
              wrong += added.at(index) == narrowed(x.at(index) + residual.at(index), dtype) ? 0 : 1;
            });
            CHECK_EQ(wrong, 0);
          }
        });
      }
    }
  }

  // Odd ones of a last pair of registers are easily forgotten: they lie in the second one.
  TEST_CASE("weights from one of 16 bits are weights that have 1 added") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      std::vector<int64_t> dims(140);
      std::iota(dims.begin(), dims.end(), 1);
      for (const int64_t dim : {2049, 4097, 5003}) dims.push_back(dim);
      for (const int64_t dim : dims) {
        CAPTURE(dtype);
        CAPTURE(dim);
        Random random(base_seed());
        Tensor<float> x({2, dim}), weight({dim}), raised({dim});
        x.fill_normal(random);
        weight.fill([&] { return static_cast<float>(random.integer(-8, 8)) / 8; });
        for (int64_t d = 0; d < dim; ++d) raised(d) = weight(d) + 1;
        const NarrowTensor from(x, dtype), from_one(weight, dtype), as_it_is(raised, dtype);
        for_each_isa([&](const fovea_context *context) {
          const auto run = [&](const NarrowTensor &its_weight, uint32_t flags) {
            const NarrowTensor out(Tensor<float>(x.shape()), dtype);
            const fovea_tensor in = from.view(), weights = its_weight.view(), to = out.view();
            fovea_rms_norm_options options{};
            options.struct_size = sizeof options;
            options.weight = &weights;
            options.flags = flags;
            REQUIRE_OK(fovea_rms_norm(context, &in, &to, &options));
            std::vector<uint16_t> bits;
            for_each_index(x.shape(), [&](const Shape &index) { bits.push_back(out.at(index)); });
            return bits;
          };
          CHECK(run(from_one, FOVEA_NORM_WEIGHT_FROM_ONE) == run(as_it_is, 0));
        });
      }
    }
  }

  TEST_CASE("the same bits for 1 to 8 threads, on the caller's own too, past the caches and alone") {
    const Shape shapes[] = {{3, 70, 768}, {2000, 40}, {100000, 1}, {5, 30001}, {2200, 4096}};
    for (const Shape &shape : shapes) {
      CAPTURE(shape);
      Random random(base_seed());
      NormProblem problem = with_rms(NormProblem(shape));
      uint32_t state = 1;
      const auto any = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-21f; };
      problem.x.fill(any);
      problem.residual.emplace(shape).fill(any);
      problem.weight.emplace(Shape{shape.back()}).fill_normal(random);
      problem.sum.emplace(shape);
      problem.inverse_deviation.emplace(Shape(shape.begin(), shape.end() - 1));
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const std::vector<float> expected = problem.run(shared_context(isa, 1)), sum = problem.sum->dense(),
                                 inverse = problem.inverse_deviation->dense();
        const auto check = [&](const fovea_context *context) {
          CHECK(same_bits(problem.run(context), expected));
          CHECK(same_bits(problem.sum->dense(), sum));
          CHECK(same_bits(problem.inverse_deviation->dense(), inverse));
        };
        for (int threads : {0, 2, 3, 8}) check(shared_context(isa, threads));
        const PoolContext pool(isa, 3, 13);
        check(pool.get());
        NormProblem alone = with_rms(NormProblem({shape.back()}));
        alone.weight.emplace(Shape{shape.back()}).assign(problem.weight->dense());
        alone.residual.emplace(Shape{shape.back()});
        const auto last = static_cast<size_t>(rows_of(problem) - 1) * static_cast<size_t>(shape.back());
        const std::vector<float> xs = problem.x.dense(), added = problem.residual->dense();
        alone.x.assign({xs.begin() + static_cast<int64_t>(last), xs.end()});
        alone.residual->assign({added.begin() + static_cast<int64_t>(last), added.end()});
        CHECK(same_bits(alone.run(shared_context(isa, 1)),
                        std::vector<float>(expected.begin() + static_cast<int64_t>(last), expected.end())));
      }
    }
  }

  TEST_CASE("errors of options and of outputs") {
    Tensor<float> x({2, 3, 4}), residual({2, 3, 4}), weight({4}), out({2, 3, 4}), sum({2, 3, 4}), rows({2, 3}),
        more({2, 3});
    for (Tensor<float> *tensor : {&x, &residual, &weight}) tensor->fill([] { return 1.0f; });
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, const auto &spoil) {
      fovea_tensor v_x = x.view(), v_residual = residual.view(), v_weight = weight.view(), v_out = out.view(),
                   v_sum = sum.view(), v_rows = rows.view(), v_more = more.view();
      fovea_layer_norm_options layer{};
      layer.struct_size = sizeof layer;
      layer.weight = &v_weight;
      layer.residual = &v_residual;
      layer.sum = &v_sum;
      layer.inverse_deviation = &v_rows;
      layer.mean = &v_more;
      spoil(layer, v_sum, v_rows);
      check_refusal(fovea_layer_norm(nullptr, &v_x, &v_out, &layer), expected, words);
      fovea_rms_norm_options rms{};
      rms.struct_size = sizeof rms;
      rms.weight = &v_weight;
      rms.residual = &v_residual;
      rms.sum = &v_sum;
      rms.inverse_deviation = &v_rows;
      v_sum = sum.view();
      v_rows = rows.view();
      spoil(rms, v_sum, v_rows);
      check_refusal(fovea_rms_norm(nullptr, &v_x, &v_out, &rms), expected, words);
      for (const Tensor<float> *output : {&out, &sum, &rows, &more}) CHECK(output->untouched());
    };
    using T = fovea_tensor;
    refuse(FOVEA_NULL_POINTER, {"options.residual", "sum"},
           [](auto &options, T &, T &) { options.residual = nullptr; });
    refuse(FOVEA_BAD_OPTION, {"options.flags", "0x80"}, [](auto &options, T &, T &) { options.flags = 128; });
    for (float epsilon : {-1e-6f, kNan, kInfinity}) {
      refuse(FOVEA_BAD_VALUE, {"options.epsilon"}, [&](auto &options, T &, T &) { options.epsilon = epsilon; });
    }
    refuse(FOVEA_BAD_SHAPE, {"sum.shape[2]"}, [](auto &, T &s, T &) { s.shape[2] = 3; });
    refuse(FOVEA_BAD_STRIDE, {"sum"}, [](auto &, T &s, T &) { s.strides[0] = 0; });
    refuse(FOVEA_BAD_RANK, {"inverse_deviation", "3"}, [](auto &, T &, T &r) { r.rank = 3; });
    refuse(FOVEA_BAD_SHAPE, {"inverse_deviation.shape[1]"}, [](auto &, T &, T &r) { r.shape[1] = 2; });
    refuse(FOVEA_BAD_DTYPE, {"inverse_deviation"}, [](auto &, T &, T &r) { r.dtype = FOVEA_BF16; });
    refuse(FOVEA_BAD_STRIDE, {"inverse_deviation"}, [](auto &, T &, T &r) { r.strides[1] = 0; });
    refuse(FOVEA_OVERLAP, {"out", "sum"}, [&](auto &, T &s, T &) { s.data = out.data(); });
    refuse(FOVEA_OVERLAP, {"sum", "weight"}, [&](auto &, T &s, T &) { s.data = weight.data(); });
    refuse(FOVEA_OVERLAP, {"sum", "residual"}, [&](auto &, T &s, T &) { s.data = residual.data() + 4; });
    refuse(FOVEA_OVERLAP, {"inverse_deviation", "x"}, [&](auto &, T &, T &r) { r.data = x.data(); });
    fovea_layer_norm_options raised{};
    raised.struct_size = sizeof raised;
    raised.flags = FOVEA_NORM_WEIGHT_FROM_ONE;
    const fovea_tensor v_x = x.view(), v_out = out.view();
    check_refusal(fovea_layer_norm(nullptr, &v_x, &v_out, &raised), FOVEA_BAD_OPTION, {"options.flags", "0x2"});
    CHECK(out.untouched());
  }
}
