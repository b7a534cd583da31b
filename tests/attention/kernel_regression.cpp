// Nadaraya-Watson regression: the textbook's curve, the edges of its sizes, leave-one-out, every rejection.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "errors.hpp"
#include "support/attention_problem.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

fovea_kernel_regression_options make_options(float sigma = 0, uint32_t flags = 0,
                                             const fovea_tensor *weights = nullptr) {
  fovea_kernel_regression_options options{};
  options.struct_size = sizeof options;
  options.sigma = sigma;
  options.flags = flags;
  options.weights = weights;
  return options;
}

// The regression is Gaussian attention of rank 2: queries, inputs and targets are its query, key and value.
AttentionProblem make_problem(int64_t query_len, int64_t input_len, int64_t dim, int64_t targets, float sigma,
                              Layout layout = Layout::kHeadsFirst) {
  Random random(base_seed());
  AttentionProblem problem = make_scored(
      FOVEA_SCORE_GAUSSIAN, {.query_len = query_len, .key_len = input_len, .head_dim = dim, .value_dim = targets}, 0,
      random, layout, 2);
  problem.score->sigma = sigma;
  problem.want_log_sum_exp = false;
  return problem;
}

fovea_status regress(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result) {
  const AttentionArguments call(problem, result);
  for (const Tensor<float> *input : {&problem.query, &problem.key, &problem.value}) input->memory().freeze();
  const fovea_kernel_regression_options options =
      make_options(problem.score->sigma, problem.flags, call.options.weights);
  return fovea_kernel_regression(context, &call.query, &call.key, &call.value, &call.out, &options);
}

void check_regression(const AttentionProblem &problem) {
  for_each_isa([&](const fovea_context *context) {
    for (bool weights : {false, true}) {
      const AttentionResult result = problem.make_result(weights);
      REQUIRE_OK(regress(context, problem, result));
      check_result(problem, result);
    }
  });
}

// y = 2 sin x + x^0.8 + noise at 50 sorted points in [0, 5].
struct Curve {
  Curve() {
    Random random(base_seed());
    std::vector<float> points(50);
    for (float &x : points) x = random.uniform(0, 5);
    std::sort(points.begin(), points.end());
    inputs.assign(points);
    targets.fill([&, n = size_t{0}]() mutable {
      const double x = points[n++];
      return static_cast<float>(2 * std::sin(x) + std::pow(x, 0.8) + 0.5 * random.normal());
    });
  }
  double mean() const {
    const std::vector<float> y = targets.dense();
    return std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  }

  Tensor<float> inputs{Shape{50}}, targets{Shape{50}};
};

Tensor<float> predict(const fovea_context *context, const Tensor<float> &queries, const Curve &curve, float sigma,
                      uint32_t flags = 0) {
  Tensor<float> out(queries.shape());
  const fovea_tensor q = queries.view(), x = curve.inputs.view(), y = curve.targets.view(), o = out.view();
  const fovea_kernel_regression_options options = make_options(sigma, flags);
  REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, &options));
  return out;
}

}  // namespace

TEST_SUITE("kernel regression") {
  TEST_CASE("the wide kernel gives the mean of the targets, the narrow one the targets") {
    const Curve curve;
    for_each_isa([&](const fovea_context *context) {
      for (float y : predict(context, curve.inputs, curve, 1e6f).dense()) CHECK(std::abs(y - curve.mean()) <= 1e-5);
      CHECK(predict(context, curve.inputs, curve, 1e-6f).dense() == curve.targets.dense());
    });
  }

  TEST_CASE("between the inputs, the narrow kernel gives the nearest target; left out, that of a neighbour") {
    const Curve curve;
    const std::vector<float> x = curve.inputs.dense(), y = curve.targets.dense();
    Tensor<float> queries({49});
    queries.fill([&, n = size_t{0}]() mutable {
      const float left = x[n], right = x[n + 1];
      ++n;
      return left + 0.25f * (right - left);
    });
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> nearest = predict(context, queries, curve, 1e-6f);
      const Tensor<float> others = predict(context, curve.inputs, curve, 1e-5f, FOVEA_LEAVE_ONE_OUT);
      for (size_t n = 0; n < 49; ++n) {
        if (x[n + 1] - x[n] > 1e-3f) CHECK(nearest(static_cast<int64_t>(n)) == y[n]);
      }
      for (size_t n = 1; n < 49; ++n) {
        const float before = x[n] - x[n - 1], after = x[n + 1] - x[n];
        if (std::abs(before - after) < 1e-3f) continue;
        CHECK(others(static_cast<int64_t>(n)) == (before < after ? y[n - 1] : y[n + 1]));
      }
    });
  }

  TEST_CASE("two inputs by hand; options NULL, and a sigma of 0, mean 1") {
    Tensor<float> queries({2}), inputs({2}), targets({2});
    queries.assign({0, 1});
    inputs.assign({0, std::sqrt(2 * std::log(3.0f))});
    targets.assign({8, 4});
    const fovea_tensor q = queries.view(), x = inputs.view(), y = targets.view();
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2}), zero({2}), one({2});
      fovea_tensor o = out.view();
      REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, nullptr));
      CHECK(out(0) == doctest::Approx(7).epsilon(1e-6));
      fovea_kernel_regression_options options = make_options(0);
      o = zero.view();
      REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, &options));
      CHECK(same_bits(out, zero));
      options.sigma = 1;
      options.flags = FOVEA_SIGMA_GIVEN;
      o = one.view();
      REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, &options));
      CHECK(same_bits(out, one));
    });
  }

  TEST_CASE("rank 1 is rank 2 with one feature and one target") {
    const Curve curve;
    Tensor<float> queries({33});
    queries.fill([x = -0.5f]() mutable { return x += 0.2f; });
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> flat = predict(context, queries, curve, 0.5f);
      const auto column = [](const Tensor<float> &tensor) {
        fovea_tensor view = tensor.view();
        view.rank = 2;
        view.shape[1] = view.strides[1] = 1;
        return view;
      };
      const Tensor<float> out({33});
      const fovea_tensor q = column(queries), x = column(curve.inputs), y = column(curve.targets), o = column(out);
      const fovea_kernel_regression_options options = make_options(0.5f);
      REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, &options));
      CHECK(same_bits(flat, out));
    });
  }

  TEST_CASE("sizes, with and without leave-one-out") {
    for (int64_t query_len : {0, 1, 2, 17, 70}) {
      for (int64_t input_len : {0, 1, 2, 16, 65, 300}) {
        for (int64_t dim : {1, 2, 3, 7, 33}) {
          for (int64_t targets : {1, 2, 5, 17}) {
            AttentionProblem problem = make_problem(query_len, input_len, dim, targets, 0.5f);
            check_regression(problem);
            problem.flags = FOVEA_LEAVE_ONE_OUT;
            check_regression(problem);
          }
        }
      }
    }
    for (float sigma : {1e-3f, 0.1f, 10.0f, 1e4f}) check_regression(make_problem(40, 200, 2, 3, sigma));
    check_regression(make_problem(1, 5000, 3, 2, 0.7f));
    check_regression(make_problem(9, 40, 1024, 1024, 30));
  }

  TEST_CASE("nothing to attend gives 0") {
    for_each_isa([](const fovea_context *context) {
      AttentionProblem alone = make_problem(3, 1, 2, 4, 1);
      alone.flags = FOVEA_LEAVE_ONE_OUT;
      const AttentionResult left_out = alone.make_result();
      REQUIRE_OK(regress(context, alone, left_out));
      for (int64_t t = 0; t < 4; ++t) {
        CHECK(left_out.out(0, t) == 0);
        CHECK(left_out.out(1, t) == doctest::Approx(alone.value(0, t)).epsilon(1e-6));
      }
      CHECK((*left_out.weights)(0, 0) == 0);
      const AttentionProblem none = make_problem(3, 0, 2, 4, 1);
      const AttentionResult empty = none.make_result();
      REQUIRE_OK(regress(context, none, empty));
      CHECK(empty.out.dense() == std::vector<float>(12, 0.0f));
    });
  }

  TEST_CASE("padded rows, buffers at either end of a page") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t query_len : {1, 3, 40}) {
        for (int64_t dim : {1, 3, 17}) check_regression(make_problem(query_len, 35, dim, 5, 0.8f, Layout::kPadded));
      }
    }
  }

  TEST_CASE("inputs far from the origin") {
    for (float centre : {100.0f, 1e4f, 1e6f}) {
      AttentionProblem problem = make_problem(30, 90, 2, 3, 0.5f);
      problem.query.fill([&, random = Random(1)]() mutable { return centre + random.normal(); });
      problem.key.fill([&, random = Random(2)]() mutable { return centre + random.normal(); });
      check_regression(problem);
    }
  }

  TEST_CASE("the same bits on 1 to 8 threads") {
    const AttentionProblem problem = make_problem(300, 700, 3, 4, 0.5f);
    for (const std::string &isa : instruction_sets()) {
      const AttentionResult expected = problem.make_result();
      REQUIRE_OK(regress(shared_context(isa, 1), problem, expected));
      for (int threads = 1; threads <= 8; ++threads) {
        const AttentionResult result = problem.make_result();
        REQUIRE_OK(regress(shared_context(isa, threads), problem, result));
        CHECK(same_bits(result, expected));
      }
    }
  }

  TEST_CASE("the bits of attention with the Gaussian score, which is what a plan of it is made of") {
    Random random(base_seed());
    Tensor<float> queries({30, 3}), inputs({70, 3}), targets({70, 2});
    for (Tensor<float> *tensor : {&queries, &inputs, &targets}) tensor->fill_normal(random);
    const fovea_tensor q = queries.view(), x = inputs.view(), y = targets.view();
    fovea_score score{};
    score.struct_size = sizeof score;
    score.kind = FOVEA_SCORE_GAUSSIAN;
    score.sigma = 0.5f;
    for (uint32_t flags : {0u, uint32_t{FOVEA_LEAVE_ONE_OUT}}) {
      fovea_kernel_regression_options regression = make_options(0.5f);
      regression.flags = flags;
      fovea_attention_options attention{};
      attention.struct_size = sizeof attention;
      attention.flags = flags;
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> out({30, 2}), attended({30, 2});
        const fovea_tensor to = out.view(), attended_view = attended.view();
        REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &to, &regression));
        REQUIRE_OK(fovea_attention(context, &score, &q, &x, &y, &attended_view, &attention));
        CHECK(same_bits(out, attended));
      });
    }
  }

  TEST_CASE("bad arguments") {
    struct Call {
      Tensor<float> memory[5] = {Tensor<float>({6, 3}), Tensor<float>({7, 3}), Tensor<float>({7, 2}),
                                 Tensor<float>({6, 2}), Tensor<float>({6, 7})};
      fovea_tensor tensor[5];
      fovea_kernel_regression_options options = make_options(1);
      Call() {
        for (int n = 0; n < 5; ++n) {
          if (n < 3) memory[n].fill([] { return 0.5f; });
          tensor[n] = memory[n].view();
        }
        options.weights = &tensor[4];
      }
      fovea_status run() const {
        return fovea_kernel_regression(nullptr, &tensor[0], &tensor[1], &tensor[2], &tensor[3], &options);
      }
      bool untouched() const { return memory[3].untouched() && memory[4].untouched(); }
    };
    const auto refuse = [](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      Call call;
      spoil(call);
      check_refusal(call.run(), expected, words);
      CHECK(call.untouched());
    };
    const char *names[] = {"queries", "inputs", "targets", "out", "weights"};
    REQUIRE_OK(Call().run());
    for (int n = 0; n < 5; ++n) {
      const std::string name = names[n];
      CAPTURE(name);
      refuse(FOVEA_NULL_POINTER, {name, "NULL"}, [n](Call &call) { call.tensor[n].data = nullptr; });
      for (int32_t rank : {-1, 0, 3, 7}) {
        refuse(FOVEA_BAD_RANK, {name, std::to_string(rank)}, [&](Call &call) { call.tensor[n].rank = rank; });
      }
      for (const fovea_dtype dtype : kDtypes) {
        if (dtype == FOVEA_F32 || dtype == FOVEA_F16 || dtype == FOVEA_BF16) continue;
        refuse(FOVEA_BAD_DTYPE, {name + " has dtype " + dtype_name(dtype)},
               [&](Call &call) { call.tensor[n].dtype = dtype; });
      }
      for (int axis : {0, 1}) {
        refuse(FOVEA_BAD_SHAPE, {axis_of(name, "shape", axis), "-1"},
               [&](Call &call) { call.tensor[n].shape[axis] = -1; });
        // Without a row, without a column: whichever of the two that have to agree comes later is named.
        const char *messages[5][2] = {
            {"out has 6 rows, expected 5 (as queries)", "inputs has 3 columns, expected 2 (as queries)"},
            {"targets has 7 rows, expected 6 (as inputs)", "inputs has 2 columns, expected 3 (as queries)"},
            {"targets has 6 rows, expected 7 (as inputs)", "out has 2 columns, expected 1 (as targets)"},
            {"out has 5 rows, expected 6 (as queries)", "out has 1 columns, expected 2 (as targets)"},
            {"weights has 5 rows, expected 6 (as queries)", "weights has 6 columns, expected 7 (the rows of inputs)"}};
        refuse(FOVEA_BAD_SHAPE, {messages[n][axis]}, [&](Call &call) { --call.tensor[n].shape[axis]; });
      }
      refuse(FOVEA_BAD_STRIDE, {name}, [n](Call &call) { call.tensor[n].strides[1] = 2; });
      if (n >= 3) refuse(FOVEA_BAD_STRIDE, {name}, [n](Call &call) { call.tensor[n].strides[0] = 0; });
      refuse(FOVEA_SIZE_OVERFLOW, {name}, [n](Call &call) { call.tensor[n].strides[0] = INT64_MAX; });
      for (int other = 0; other < 5; ++other) {
        if (n < 3 || other == n) continue;
        refuse(FOVEA_OVERLAP, {name, names[other]}, [&](Call &call) { call.tensor[n].data = call.tensor[other].data; });
      }
    }
    const auto resize = [](fovea_tensor &tensor, int axis, int64_t size) {
      tensor.shape[axis] = size;
      if (axis == 0) tensor.strides[0] = 0;
    };
    const int64_t rows = (int64_t{1} << 30) + 1;
    refuse(FOVEA_BAD_SHAPE, {"queries has 1073741825 rows, expected 0 to 1073741824"}, [&](Call &call) {
      call.options.weights = nullptr;
      resize(call.tensor[0], 0, rows);
      call.tensor[3].shape[0] = rows;  // an output's rows lie apart
    });
    refuse(FOVEA_BAD_SHAPE, {"inputs has 1073741825 rows, expected 0 to 1073741824"}, [&](Call &call) {
      call.options.weights = nullptr;
      for (int n : {1, 2}) resize(call.tensor[n], 0, rows);
    });
    for (int64_t columns : {0, 1025}) {
      const std::string message = " has " + std::to_string(columns) + " columns, expected 1 to 1024";
      refuse(FOVEA_BAD_SHAPE, {"queries" + message}, [&](Call &call) {
        for (int n : {0, 1}) resize(call.tensor[n], 1, columns);
      });
      refuse(FOVEA_BAD_SHAPE, {"targets" + message}, [&](Call &call) {
        for (int n : {2, 3}) resize(call.tensor[n], 1, columns);
        call.tensor[3].strides[0] = columns;
      });
    }
    for (float sigma : {-1.0f, -0.5f, kNan, kInfinity, -kInfinity}) {
      refuse(FOVEA_BAD_VALUE, {"sigma"}, [sigma](Call &call) { call.options.sigma = sigma; });
    }
    for (float sigma : {0.0f, -0.0f, -1.0f, kNan}) {
      refuse(FOVEA_BAD_VALUE, {"sigma", "above 0"}, [sigma](Call &call) {
        call.options.sigma = sigma;
        call.options.flags |= FOVEA_SIGMA_GIVEN;
      });
    }
    for (uint32_t flags : {1u, 2u, 16u, 64u, 128u, 0x80000000u}) {
      refuse(FOVEA_BAD_OPTION, {"flags"}, [flags](Call &call) { call.options.flags = flags; });
    }
    for (size_t size : {size_t{0}, sizeof(fovea_kernel_regression_options) - 1, SIZE_MAX}) {
      refuse(FOVEA_BAD_OPTION, {"struct_size", std::to_string(size)},
             [size](Call &call) { call.options.struct_size = size; });
    }
    const Call good;
    for (int n = 0; n < 4; ++n) {
      const fovea_tensor *tensors[4] = {&good.tensor[0], &good.tensor[1], &good.tensor[2], &good.tensor[3]};
      tensors[n] = nullptr;
      check_refusal(fovea_kernel_regression(nullptr, tensors[0], tensors[1], tensors[2], tensors[3], nullptr),
                    FOVEA_NULL_POINTER, {names[n], "NULL"});
    }
    CHECK(good.untouched());
  }

  TEST_CASE("regression: 16 bits give what float32 gives, rounded once") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      CAPTURE(dtype);
      AttentionProblem problem = make_problem(7, 41, 3, 5, 0.7F);
      for (Tensor<float> *tensor : {&problem.query, &problem.key, &problem.value}) {
        const std::vector<float> given = tensor->dense();
        tensor->fill([&, next = size_t{0}]() mutable { return rounded_to(given[next++], dtype); });
      }
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult truth = problem.make_result(true);
        REQUIRE_OK(regress(context, problem, truth));
        const AttentionResult unwritten = problem.make_result(true);
        const NarrowTensor queries(problem.query, dtype), inputs(problem.key, dtype), targets(problem.value, dtype),
            out(unwritten.out, dtype), weights(*unwritten.weights, dtype);
        const fovea_tensor q = queries.view(), x = inputs.view(), y = targets.view(), o = out.view(),
                           w = weights.view();
        const fovea_kernel_regression_options options = make_options(0.7F, 0, &w);
        REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &o, &options));
        int64_t wrong = 0;
        for_each_index(truth.out.shape(),
                       [&](const Shape &index) { wrong += out.at(index) != narrowed(truth.out.at(index), dtype); });
        for_each_index(truth.weights->shape(), [&](const Shape &index) {
          wrong += weights.at(index) != narrowed(truth.weights->at(index), dtype);
        });
        CHECK_EQ(wrong, 0);
      });
    }
  }
}
