// Tests of the reference itself, against numbers and identities that do not need it.
#include <doctest/doctest.h>

#include <cmath>
#include <deque>

#include "reference.hpp"
#include "sums.hpp"
#include "support/accuracy.hpp"
#include "support/random.hpp"

namespace {

reference::AttentionInputs random_inputs(int64_t heads, int64_t kv_heads, int64_t query_len, int64_t key_len,
                                         int64_t dim = 3) {
  testing::Random random(testing::base_seed());
  reference::AttentionInputs in;
  in.batch = 2;
  in.heads = heads;
  in.kv_heads = kv_heads;
  in.query_len = query_len;
  in.key_len = key_len;
  in.query_dim = in.key_dim = dim;
  in.value_dim = 2;
  in.query.resize(static_cast<size_t>(in.batch * heads * query_len * in.query_dim));
  in.key.resize(static_cast<size_t>(in.batch * kv_heads * key_len * in.query_dim));
  in.value.resize(static_cast<size_t>(in.batch * kv_heads * key_len * in.value_dim));
  for (std::vector<float> *values : {&in.query, &in.key, &in.value}) {
    for (float &x : *values) x = random.normal();
  }
  return in;
}

}  // namespace

TEST_SUITE("reference") {
  TEST_CASE("weights sum to 1 and log-sum-exp normalizes the scores") {
    const reference::AttentionInputs in = random_inputs(4, 2, 3, 5);
    const auto result = reference::attention<double>(in);
    for (size_t row = 0; row < result.log_sum_exp.size(); ++row) {
      double sum = 0;
      for (size_t j = 0; j < 5; ++j) sum += result.weights[row * 5 + j];
      CHECK(sum == doctest::Approx(1).epsilon(1e-14));
    }
    const double score =
        (in.query[0] * double(in.key[0]) + in.query[1] * double(in.key[1]) + in.query[2] * double(in.key[2])) /
        std::sqrt(3.0);
    CHECK(result.weights[0] == doctest::Approx(std::exp(score - result.log_sum_exp[0])).epsilon(1e-13));
  }

  TEST_CASE("two keys by hand, with soft-cap, bias, ALiBi and a sink") {
    reference::AttentionInputs in;
    in.query_len = 1;
    in.key_len = 2;
    in.query = {2};
    in.key = {1, 3};
    in.value = {10, 20};
    in.softcap = 4;
    in.bias = {{0.5f, -1}};
    in.alibi_slopes = {{0.25f}};
    in.sinks = {{1}};
    const double first = 4 * std::tanh(0.5) + 0.5 - 0.25, second = 4 * std::tanh(1.5) - 1;  // the query faces key 1
    const double sum = std::exp(first) + std::exp(second) + std::exp(1.0);
    const auto result = reference::attention<double>(in);
    CHECK(result.out[0] == doctest::Approx((10 * std::exp(first) + 20 * std::exp(second)) / sum).epsilon(1e-14));
    CHECK(result.log_sum_exp[0] == doctest::Approx(std::log(sum)).epsilon(1e-14));
  }

  TEST_CASE("positions: bottom-right, top-left, offset, window and leave-one-out") {
    reference::AttentionInputs in = random_inputs(1, 1, 2, 4);
    using Keys = std::vector<bool>;
    in.causal = true;
    CHECK(reference::attended_keys(in, 0, 0, 0) == Keys{true, true, true, false});
    in.top_left = true;
    CHECK(reference::attended_keys(in, 0, 0, 0) == Keys{true, false, false, false});
    in.top_left = false;
    in.query_offset = 1;
    CHECK(reference::attended_keys(in, 0, 0, 1) == Keys{true, true, true, false});
    in.window_left = 1;
    CHECK(reference::attended_keys(in, 0, 0, 1) == Keys{false, true, true, false});
    in.leave_one_out = true;
    CHECK(reference::attended_keys(in, 0, 0, 1) == Keys{false, true, false, false});
    in.query_offset.reset();
    CHECK(reference::attended_keys(in, 0, 0, 1) == Keys{false, false, true, true});  // position 3, leaves out key 1
    in.causal = in.leave_one_out = false;
    in.window_right = 0;
    CHECK(reference::attended_keys(in, 0, 0, 0) == Keys{false, true, true, false});
    in = random_inputs(1, 1, 4, 2);
    in.causal = true;  // fewer keys than queries: query 0 stands at 0
    CHECK(reference::attended_keys(in, 0, 0, 0) == Keys{true, false});
  }

  TEST_CASE("the plain float32 evaluation errs, but little") {
    const reference::AttentionInputs in = random_inputs(4, 4, 8, 50);
    const auto truth = reference::attention<double>(in);
    const auto plain = reference::attention<float>(in);
    double error = 0;
    for (size_t n = 0; n < truth.out.size(); ++n) error = std::max(error, std::abs(truth.out[n] - plain.out[n]));
    CHECK(error > 1e-9);
    CHECK(error < 1e-5);
  }

  TEST_CASE("a sum in any order is of the same terms") {
    for (int order = 0; order < testing::kOrders; ++order) {
      for (int64_t count = 0; count < 70; ++count) {
        int64_t visits = 0;
        const auto square = [&](int64_t i) { return ++visits, i * i; };
        CHECK(reference::sum_of<int64_t>(order, 1, 1 + count, square) == count * (count + 1) * (2 * count + 1) / 6);
        CHECK(visits == count);
      }
    }
  }

  TEST_CASE("the plain evaluation errs otherwise in another order, not more") {
    reference::AttentionInputs in = random_inputs(1, 1, 50, 70, 100);
    const auto truth = reference::attention<double>(in);
    const auto errors = [&] {
      const auto plain = reference::attention<float>(in);
      std::vector<double> errors;
      for (size_t n = 0; n < truth.out.size(); ++n) errors.push_back(plain.out[n] - truth.out[n]);
      return errors;
    };
    const auto dot = [](const std::vector<double> &a, const std::vector<double> &b) {
      return reference::sum_of<double>(0, 0, static_cast<int64_t>(a.size()), [&](int64_t n) {
        return a[static_cast<size_t>(n)] * b[static_cast<size_t>(n)];
      });
    };
    const std::vector<double> given = errors();
    for (in.order = 1; in.order < testing::kOrders; ++in.order) {
      const std::vector<double> other = errors();
      CHECK(dot(other, other) == doctest::Approx(dot(given, given)).epsilon(0.3));
      CHECK(dot(other, given) < 0.8 * dot(given, given));
    }
  }

  // Like those of weights: few are large.
  TEST_CASE("errors of more than twice those of all orders are told from smaller ones") {
    testing::Random random(testing::base_seed());
    const auto draw = [&](size_t count, float size) {
      std::vector<float> errors(count);
      for (size_t n = 0; n < count; ++n) errors[n] = size * random.normal() / static_cast<float>(1 + n % 100);
      return errors;
    };
    const auto failures = [&](size_t count, float size, double floor) {
      int failed = 0;
      for (int n = 0; n < 200; ++n) {
        std::deque<std::vector<float>> plain;
        const auto in_order = [&](int order) -> const std::vector<float> & {
          while (plain.size() <= static_cast<size_t>(order)) plain.push_back(draw(count, 1));
          return plain[static_cast<size_t>(order)];
        };
        const std::vector<double> truth(count, 0);
        if (!testing::judge_in_orders(draw(count, size), truth, in_order, floor).empty()) ++failed;
      }
      return failed;
    };
    for (size_t count : {1, 10, 100, 1000}) {
      CAPTURE(count);
      CHECK(failures(count, 1.4f, 0) <= 10);
      CHECK(failures(count, 2, 0) <= 40);
      CHECK(failures(count, 20, 0) >= 140);
      CHECK(failures(count, 20, 1000) == 0);
    }
    CHECK(failures(1000, 3, 0) >= 150);
    CHECK(failures(5000, 3, 0) >= 190);
  }

  TEST_CASE("masked softmax") {
    const std::vector<float> x = {0, std::log(3.0f), 9, 1, 2, 3};
    const auto rows = reference::masked_softmax<double>(x, {2, 0}, 3, reference::EmptyRows::kUniform);
    CHECK(rows[0] == doctest::Approx(0.25).epsilon(1e-7));
    CHECK(rows[1] == doctest::Approx(0.75).epsilon(1e-7));
    CHECK(rows[2] == 0);
    CHECK(rows[3] == doctest::Approx(1.0 / 3));
  }

  TEST_CASE("merged halves equal the whole") {
    const reference::AttentionInputs whole = random_inputs(1, 1, 1, 6);
    const auto expected = reference::attention<double>(whole);
    std::vector<float> outs, lses;
    for (int half = 0; half < 2; ++half) {
      reference::AttentionInputs part = whole;
      part.batch = 1;
      part.key_len = 3;
      part.key.assign(whole.key.begin() + half * 9, whole.key.begin() + half * 9 + 9);
      part.value.assign(whole.value.begin() + half * 6, whole.value.begin() + half * 6 + 6);
      const auto result = reference::attention<double>(part);
      outs.insert(outs.end(), result.out.begin(), result.out.end());
      lses.insert(lses.end(), result.log_sum_exp.begin(), result.log_sum_exp.end());
    }
    const auto merged = reference::merge_states<double>(outs, lses, 2, 1, 2);
    CHECK(merged.out[0] == doctest::Approx(expected.out[0]).epsilon(1e-6));
    CHECK(merged.log_sum_exp[0] == doctest::Approx(expected.log_sum_exp[0]).epsilon(1e-6));
  }

  TEST_CASE("exp and tanh") {
    CHECK(reference::exp(1.0f) == doctest::Approx(2.718281828459045).epsilon(1e-16));
    CHECK(reference::tanh(0.5f) == doctest::Approx(0.46211715726000976).epsilon(1e-16));
  }

  TEST_CASE("matmul") {
    const auto product = reference::matmul<double>({1, 2, 3, 4}, {5, 6, 7, 8}, 2, 2, 2);
    CHECK(product.out == std::vector<double>{19, 22, 43, 50});
  }
}
