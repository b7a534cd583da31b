// What multi-head attention keeps for its backward pass: that it fills what it is said to take, that results and
// gradients have the bits that they have without it, and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/errors.hpp"
#include "support/multi_head_gradients.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

int64_t kept_numbers(const MultiHead &layer) {
  const MultiHeadSizes &s = layer.sizes;
  return s.batch * s.query_len * s.heads * (s.head_dim + s.value_dim + 1) +
         s.batch * layer.key_len() * s.kv_heads * (s.key_size() + s.value_dim);
}

Tensor<float> make_kept(const MultiHead &layer) {
  Tensor<float> kept({kept_numbers(layer)});
  kept.fill([] { return std::numeric_limits<float>::quiet_NaN(); });
  kept.memory().thaw();
  return kept;
}

fovea_status run_once(const fovea_context *context, const MultiHead &layer, const Tensor<float> &out,
                      const fovea_mha_options &options) {
  const MhaParameters given(layer);
  const fovea_tensor views[] = {layer.query.view(), layer.key.view(), layer.value.view(), out.view()};
  return fovea_multi_head_attention_once(context, &given.parameters, &views[0],
                                         layer.inputs == Inputs::kOne ? nullptr : &views[1],
                                         layer.inputs == Inputs::kThree ? &views[2] : nullptr, &views[3], &options);
}

bool same(const LayerGradients &a, const LayerGradients &b) {
  const auto all = a.list(), others = b.list();
  bool alike = all.size() == others.size();
  for (size_t n = 0; n < all.size(); ++n) alike = alike && all[n].second->dense() == others[n].second->dense();
  return alike;
}

// Options of a call, and what they point to.
struct Case {
  fovea_attention_options attention = sized_options<fovea_attention_options>();
  fovea_rotary_options rotary = sized_options<fovea_rotary_options>();
  fovea_score score = sized_options<fovea_score>();
  fovea_mha_options options = sized_options<fovea_mha_options>();

  Tensor<float> query_weight, key_weight, score_vector;
  fovea_tensor views[3] = {};

  Case(int number, const MultiHeadSizes &sizes) {
    options.attention = &attention;
    options.precision = FOVEA_PRECISION_HIGHEST;
    if (number == 1) attention.flags = FOVEA_CAUSAL;
    if (number == 2) options.rotary = &rotary;
    if (number == 3) {
      attention.dropout = 0.25f;
      attention.dropout_seed = 5;
    }
    if (number == 4) {
      score.kind = FOVEA_SCORE_GAUSSIAN;
      score.sigma = 1.5f;
      options.score = &score;
    }
    if (number == 5) {
      Random random(base_seed());
      query_weight = std::move(Tensor<float>({5, sizes.head_dim}).fill_normal(random));
      key_weight = std::move(Tensor<float>({5, sizes.key_size()}).fill_normal(random));
      score_vector = std::move(Tensor<float>({5}).fill_normal(random));
      views[0] = query_weight.view();
      views[1] = key_weight.view();
      views[2] = score_vector.view();
      score.kind = FOVEA_SCORE_ADDITIVE;
      score.query_weight = &views[0];
      score.key_weight = &views[1];
      score.score_vector = &views[2];
      options.score = &score;
    }
  }
  Case(const Case &) = delete;
  Case &operator=(const Case &) = delete;
};
constexpr int kCases = 6;

bool fits(const MultiHeadSizes &sizes, int number) {
  const bool one_dim = sizes.key_size() == sizes.head_dim;
  return number == 5 || (one_dim && (number != 2 || sizes.head_dim % 2 == 0));
}

std::vector<MultiHeadSizes> sizes_of_all_kinds() {
  std::vector<MultiHeadSizes> list = multi_head_sizes();
  const MultiHeadSizes small = {
      .batch = 2, .query_len = 3, .key_len = 7, .query_inputs = 3, .key_inputs = 3, .value_inputs = 3, .outputs = 2};
  list.push_back(small);
  list.push_back(small);
  list.back().query_len = 0;
  list.push_back(small);
  list.back().key_len = 0;
  list.push_back(small);
  list.back().batch = 0;
  // One product writes queries, keys and values side by side, on some instruction sets or on all.
  list.push_back({.batch = 2,
                  .query_len = 9,
                  .key_len = 9,
                  .query_inputs = 20,
                  .key_inputs = 20,
                  .value_inputs = 20,
                  .heads = 4,
                  .kv_heads = 2,
                  .head_dim = 16,
                  .value_dim = 24,
                  .outputs = 20});
  list.push_back({.batch = 1,
                  .query_len = 70,
                  .key_len = 70,
                  .query_inputs = 64,
                  .key_inputs = 64,
                  .value_inputs = 64,
                  .heads = 2,
                  .kv_heads = 2,
                  .head_dim = 64,
                  .value_dim = 64,
                  .outputs = 64});
  return list;
}

// Inputs of one tensor take one number of features.
MultiHeadSizes with_inputs(MultiHeadSizes sizes, Inputs inputs) {
  if (inputs != Inputs::kThree) sizes.value_inputs = sizes.key_inputs;
  if (inputs == Inputs::kOne) sizes.key_inputs = sizes.value_inputs = sizes.query_inputs;
  return sizes;
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("kept heads: all is written, and results and gradients have the bits that they have without") {
    Random random(base_seed());
    for (const MultiHeadSizes &sizes : sizes_of_all_kinds()) {
      for (const Inputs inputs : {Inputs::kOne, Inputs::kTwo, Inputs::kThree}) {
        const MultiHead layer = make_multi_head(with_inputs(sizes, inputs), inputs, random);
        const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
        for (int number = 0; number < kCases; ++number) {
          if (!fits(sizes, number)) continue;
          CAPTURE(static_cast<int>(inputs));
          CAPTURE(number);
          for_each_isa([&](const fovea_context *context) {
            Case made(number, layer.sizes);
            const Tensor<float> plain = layer.make_out(), out = layer.make_out();
            const LayerGradients wanted(layer), found(layer);
            REQUIRE_OK(run_once(context, layer, plain, made.options));
            REQUIRE_OK(wanted.run(context, layer, grad, &made.options));
            const Tensor<float> kept = make_kept(layer);
            const fovea_tensor view = kept.view();
            made.options.kept = &view;
            REQUIRE_OK(run_once(context, layer, out, made.options));
            CHECK(out.dense() == plain.dense());
            int64_t missing = 0;
            for (const float number_kept : kept.dense()) missing += std::isnan(number_kept) ? 1 : 0;
            CHECK_EQ(missing, 0);
            const std::vector<float> before = kept.dense();
            REQUIRE_OK(found.run(context, layer, grad, &made.options));
            CHECK(same(found, wanted));
            CHECK(kept.dense() == before);
          });
        }
      }
    }
  }

  TEST_CASE("kept heads: packed weights and a log-sum-exp of the caller's own, which is kept, too") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 21,
                                             .key_len = 34,
                                             .query_inputs = 10,
                                             .key_inputs = 9,
                                             .value_inputs = 8,
                                             .heads = 6,
                                             .kv_heads = 2,
                                             .head_dim = 4,
                                             .value_dim = 5,
                                             .outputs = 11},
                                            Inputs::kThree, random);
    const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      Case made(1, layer.sizes);
      const LayerGradients wanted(layer), found(layer);
      REQUIRE_OK(wanted.run(context, layer, grad, &made.options));
      const Tensor<float> wide({2, 6, 42}), out = layer.make_out(), kept = make_kept(layer);
      fovea_tensor sums_view = wide.view();
      sums_view.shape[2] = 21;
      sums_view.strides[2] = 2;
      const fovea_tensor view = kept.view();
      made.attention.log_sum_exp = &sums_view;
      made.options.kept = &view;
      REQUIRE_OK(layer.run(context, weights, out, &made.options));
      const std::vector<float> numbers = kept.dense(), all = wide.dense();
      std::vector<float> sums;
      for (size_t n = 0; n < all.size(); n += 2) sums.push_back(all[n]);
      CHECK(std::vector<float>(numbers.end() - static_cast<int64_t>(sums.size()), numbers.end()) == sums);
      REQUIRE_OK(found.run(context, layer, grad, &made.options));
      CHECK(same(found, wanted));
    });
  }

  TEST_CASE("kept heads: what is refused") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 3,
                                             .key_len = 5,
                                             .query_inputs = 4,
                                             .key_inputs = 4,
                                             .value_inputs = 4,
                                             .heads = 2,
                                             .kv_heads = 2,
                                             .head_dim = 2,
                                             .value_dim = 3,
                                             .outputs = 4},
                                            Inputs::kThree, random);
    const Tensor<float> out = layer.make_out(), grad = std::move(layer.make_out().fill_normal(random));
    const Tensor<float> kept({kept_numbers(layer) + 1});
    fovea_tensor view = kept.view();
    auto options = sized_options<fovea_mha_options>();
    options.kept = &view;
    const auto refused = [&](fovea_status status, std::initializer_list<std::string> words) {
      check_refusal(run_once(nullptr, layer, out, options), status, words);
      CHECK(out.untouched());
      CHECK(kept.untouched());
      const LayerGradients gradients(layer);
      check_refusal(gradients.run(nullptr, layer, grad, &options), status, words);
      for (const auto &[name, tensor] : gradients.list()) CHECK(tensor->untouched());
    };
    refused(FOVEA_BAD_SHAPE, {"options.kept.shape[0] is 173, expected 172", "B Q H (D + Dv + 1)"});
    view.shape[0] = 172;
    view.dtype = FOVEA_F16;
    refused(FOVEA_BAD_DTYPE, {"options.kept"});
    view = kept.view();
    view.shape[0] = 86;
    view.strides[0] = 2;
    refused(FOVEA_BAD_STRIDE, {"options.kept"});
    view = kept.view();
    view.shape[0] = 172;
    view.data = nullptr;
    refused(FOVEA_NULL_POINTER, {"options.kept.data is NULL"});

    view.data = kept.data();
    const MhaWeights weights = layer.make_weights(nullptr);
    const fovea_tensor views[] = {layer.query.view(), layer.key.view(), layer.value.view(), out.view()};
    fovea_mha_plan *plan = nullptr;
    check_refusal(
        fovea_mha_plan_create(nullptr, weights.get(), &views[0], &views[1], &views[2], &views[3], &options, &plan),
        FOVEA_BAD_VALUE, {"options.kept is given, expected NULL: plans are for inference"});
    CHECK(plan == nullptr);
  }
}
