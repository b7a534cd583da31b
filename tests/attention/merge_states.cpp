// Merging attention over parts of the keys gives attention over all of them.
#include <doctest/doctest.h>

#include <cmath>

#include "support/accuracy.hpp"
#include "support/attention_problem.hpp"

using namespace testing;

namespace {

struct Parts {
  Tensor<float> outs, lses;
};

Parts random_parts(Random &random, int64_t parts, int64_t rows, int64_t value_dim) {
  Parts made{Tensor<float>({parts, rows, value_dim}), Tensor<float>({parts, rows})};
  made.outs.fill_normal(random);
  made.lses.fill([&] { return random.chance(0.15) ? -kInfinity : 3 * random.normal(); });
  return made;
}

void check_merge(const Parts &parts) {
  const int64_t count = parts.outs.shape()[0], rows = parts.outs.shape()[1], value_dim = parts.outs.shape()[2];
  const auto truth = reference::merge_states<double>(parts.outs.dense(), parts.lses.dense(), count, rows, value_dim);
  const auto plain = reference::merge_states<float>(parts.outs.dense(), parts.lses.dense(), count, rows, value_dim);
  parts.outs.memory().freeze();
  parts.lses.memory().freeze();
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out({rows, value_dim}), lse({rows});
    const fovea_tensor outs_view = parts.outs.view(), lses_view = parts.lses.view(), out_view = out.view(),
                       lse_view = lse.view();
    REQUIRE_OK(fovea_merge_states(context, &outs_view, &lses_view, &out_view, &lse_view));
    // Log-sum-exps up to about 12 and values up to about 4: two roundings of each.
    CHECK_ACCURATE(out.dense(), truth.out, plain.out, 2 * kEpsilon * 12 * 4);
    CHECK_ACCURATE(lse.dense(), truth.log_sum_exp, plain.log_sum_exp, 2 * kEpsilon * 12);
    const Tensor<float> alone({rows, value_dim});
    const fovea_tensor alone_view = alone.view();
    REQUIRE_OK(fovea_merge_states(context, &outs_view, &lses_view, &alone_view, nullptr));
    CHECK(same_bits(out, alone));
  });
}

}  // namespace

TEST_SUITE("merge_states") {
  TEST_CASE("random parts") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t parts : {1, 2, 3, 8, 31}) {
        for (int64_t rows : {0, 1, 5, 40}) {
          for (int64_t value_dim : {1, 3, 16, 17, 65}) check_merge(random_parts(random, parts, rows, value_dim));
        }
      }
    }
  }

  TEST_CASE("a part of log-sum-exp +infinity gives NaN and +infinity, one of NaN only NaN") {
    for (const float nan_too : {0.0f, kNan}) {
      Tensor<float> outs({3, 2, 5}), lses({3, 2});
      outs.fill([] { return 1.0f; });
      lses.assign({0, 1, kInfinity, 2, nan_too, 3});
      const fovea_tensor outs_view = outs.view(), lses_view = lses.view();
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> out({2, 5}), lse({2});
        const fovea_tensor out_view = out.view(), lse_view = lse.view();
        REQUIRE_OK(fovea_merge_states(context, &outs_view, &lses_view, &out_view, &lse_view));
        for (int64_t d = 0; d < 5; ++d) CHECK(std::isnan(out(0, d)));
        CHECK((std::isnan(nan_too) ? std::isnan(lse(0)) : lse(0) == kInfinity));
        CHECK(out(1, 0) == doctest::Approx(1).epsilon(1e-6));
      });
    }
  }

  TEST_CASE("a part without keys is not read, and all parts without keys give 0 and -infinity") {
    Parts parts{Tensor<float>({3, 2, 5}), Tensor<float>({3, 2})};
    parts.outs.assign({kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, 1,    2,    3,    4,    5,
                       kNan, kNan, kNan, kNan, kNan, 3,    4,    5,    6,    7,    kNan, kNan, kNan, kNan, kNan});
    parts.lses.assign({-kInfinity, -kInfinity, 0, -kInfinity, 0, -kInfinity});
    check_merge(parts);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 5}), lse({2});
      const fovea_tensor a = parts.outs.view(), b = parts.lses.view(), c = out.view(), d = lse.view();
      REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
      CHECK(out(0, 0) == doctest::Approx(2));
      CHECK(out(1, 4) == 0);
      CHECK(lse(0) == doctest::Approx(std::log(2.0)));
      CHECK(lse(1) == -kInfinity);
    });
  }

  TEST_CASE("log-sum-exps far apart, and too large for exp") {
    Random random(base_seed());
    for (float shift : {-5000.0f, -100.0f, 100.0f, 5000.0f}) {
      Parts parts = random_parts(random, 4, 6, 8);
      parts.lses.fill([&] { return shift + 40 * random.normal(); });
      const auto truth = reference::merge_states<double>(parts.outs.dense(), parts.lses.dense(), 4, 6, 8);
      const auto plain = reference::merge_states<float>(parts.outs.dense(), parts.lses.dense(), 4, 6, 8);
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> out({6, 8}), lse({6});
        const fovea_tensor a = parts.outs.view(), b = parts.lses.view(), c = out.view(), d = lse.view();
        REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
        const double size = std::abs(shift) + 120;
        CHECK_ACCURATE(out.dense(), truth.out, plain.out, 2 * kEpsilon * size * 4);
        CHECK_ACCURATE(lse.dense(), truth.log_sum_exp, plain.log_sum_exp, 2 * kEpsilon * size);
      });
    }
  }

  TEST_CASE("strided parts of ranks up to 5 and 4") {
    Random random(base_seed());
    const Tensor<float> outs({3, 2, 4, 5, 6}, permuted_strides({3, 2, 4, 5, 6}, {1, 3, 2, 0, 4}, 2));
    const Tensor<float> lses({3, 2, 4, 5}, permuted_strides({3, 2, 4, 5}, {2, 0, 1, 3}, 1));
    for_each_index(outs.shape(), [&](const Shape &at) { outs.at(at) = random.normal(); });
    for_each_index(lses.shape(), [&](const Shape &at) { lses.at(at) = random.normal(); });
    const auto truth = reference::merge_states<double>(outs.dense(), lses.dense(), 3, 40, 6);
    const auto plain = reference::merge_states<float>(outs.dense(), lses.dense(), 3, 40, 6);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 4, 5, 6}, permuted_strides({2, 4, 5, 6}, {0, 2, 1, 3}, 1)),
          lse({2, 4, 5}, {6, 12, 1});
      const fovea_tensor a = outs.view(), b = lses.view(), c = out.view(), d = lse.view();
      REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
      CHECK_ACCURATE(out.dense(), truth.out, plain.out, 2 * kEpsilon * 12);
      CHECK_ACCURATE(lse.dense(), truth.log_sum_exp, plain.log_sum_exp, 2 * kEpsilon * 6);
      CHECK(out.gaps_untouched());
    });
  }

  TEST_CASE("attention over three parts of the keys, merged, is attention over all") {
    Random random(base_seed());
    const AttentionSizes sizes = {
        .batch = 2, .heads = 2, .kv_heads = 2, .query_len = 9, .key_len = 90, .head_dim = 16, .value_dim = 12};
    const AttentionProblem whole = make_attention(sizes, random);
    const auto truth = reference::attention<double>(whole.reference_inputs());
    const auto plain = reference::attention<float>(whole.reference_inputs());
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> outs({3, 2, 2, 9, 12}), lses({3, 2, 2, 9});
      const int64_t begins[] = {0, 17, 60, 90};
      for (int64_t part = 0; part < 3; ++part) {
        AttentionResult unused = whole.make_result();
        AttentionArguments arguments(whole, unused);
        for (fovea_tensor *tensor : {&arguments.key, &arguments.value}) {
          tensor->data = static_cast<float *>(tensor->data) + begins[part] * tensor->strides[2];
          tensor->shape[2] = begins[part + 1] - begins[part];
        }
        arguments.out.data = outs.data() + part * outs.strides()[0];
        arguments.log_sum_exp.data = lses.data() + part * lses.strides()[0];
        arguments.options.weights = nullptr;
        REQUIRE_OK(fovea_sdpa(context, &arguments.query, &arguments.key, &arguments.value, &arguments.out,
                              &arguments.options));
      }
      const Tensor<float> out({2, 2, 9, 12}), lse({2, 2, 9});
      const fovea_tensor a = outs.view(), b = lses.view(), c = out.view(), d = lse.view();
      REQUIRE_OK(fovea_merge_states(context, &a, &b, &c, &d));
      CHECK_ACCURATE(out.dense(), truth.out, plain.out, 2 * kEpsilon * 8);
      CHECK_ACCURATE(lse.dense(), truth.log_sum_exp, plain.log_sum_exp, 2 * kEpsilon * 8);
    });
  }

  // Sums of numbers that cancel tell the order they were added in.
  TEST_CASE("merged in the order of the parts") {
    for (const auto &[values, expected] :
         {std::pair<std::vector<float>, float>{{1e8f, 1, -1e8f}, 0}, {{1e8f, -1e8f, 1}, 1.0f / 3}}) {
      Parts parts{Tensor<float>({3, 1, 20}), Tensor<float>({3, 1})};
      for_each_index(parts.outs.shape(),
                     [&, of = &values](const Shape &at) { parts.outs.at(at) = (*of)[static_cast<size_t>(at[0])]; });
      parts.lses.fill([] { return 0.0f; });
      const fovea_tensor outs = parts.outs.view(), lses = parts.lses.view();
      for_each_isa([&, sum = expected](const fovea_context *context) {
        const Tensor<float> out({1, 20});
        const fovea_tensor out_view = out.view();
        REQUIRE_OK(fovea_merge_states(context, &outs, &lses, &out_view, nullptr));
        for (float number : out.dense()) CHECK(number == doctest::Approx(sum).epsilon(1e-6));
      });
    }
  }

  TEST_CASE("the same bits on 1 to 8 threads, and for a row alone") {
    Random random(base_seed());
    const Parts parts = random_parts(random, 5, 1500, 33);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const Tensor<float> expected({1500, 33}), expected_lse({1500});
      for (int threads = 1; threads <= 8; ++threads) {
        const Tensor<float> out({1500, 33}), lse({1500});
        const fovea_tensor outs = parts.outs.view(), lses = parts.lses.view();
        const fovea_tensor to = threads == 1 ? expected.view() : out.view();
        const fovea_tensor sum = threads == 1 ? expected_lse.view() : lse.view();
        REQUIRE_OK(fovea_merge_states(shared_context(isa, threads), &outs, &lses, &to, &sum));
        if (threads > 1) CHECK((same_bits(out, expected) && same_bits(lse, expected_lse)));
      }
      for (int64_t row : {0, 700, 1499}) {
        const Tensor<float> out({1, 33});
        fovea_tensor outs = parts.outs.view(), lses = parts.lses.view();
        outs.data = static_cast<float *>(outs.data) + row * 33;
        lses.data = static_cast<float *>(lses.data) + row;
        outs.shape[1] = lses.shape[1] = 1;
        const fovea_tensor to = out.view();
        REQUIRE_OK(fovea_merge_states(shared_context(isa), &outs, &lses, &to, nullptr));
        const std::vector<float> all = expected.dense();
        CHECK(out.dense() == std::vector<float>(all.begin() + row * 33, all.begin() + (row + 1) * 33));
      }
    }
  }
}
