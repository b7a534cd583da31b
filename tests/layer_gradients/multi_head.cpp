// Gradients of multi-head attention: beside central differences of the float64 formula, and beside the gradients of the
// functions it is made of.
#include <cmath>
#include <functional>

#include "support/judged_gradients.hpp"
#include "support/multi_head_gradients.hpp"

using namespace testing;

namespace {

MultiHeadSizes small_sizes() {
  return {.batch = 2,
          .query_len = 4,
          .key_len = 5,
          .query_inputs = 6,
          .key_inputs = 5,
          .value_inputs = 3,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 2,
          .value_dim = 3,
          .outputs = 5};
}

using MultiHeadInputs = reference::MultiHeadInputs;

// d sum(grad out) / d element, from the formula in float64 at two points.
std::vector<double> central_differences(MultiHeadInputs inputs, std::vector<float> MultiHeadInputs::*member,
                                        const std::vector<float> &grad) {
  std::vector<double> all;
  const auto loss = [&] {
    const std::vector<double> out = reference::multi_head<double>(inputs).out;
    double sum = 0;
    for (size_t n = 0; n < out.size(); ++n) sum += grad[n] * out[n];
    return sum;
  };
  for (size_t n = 0; n < (inputs.*member).size(); ++n) {
    float &element = (inputs.*member)[n];
    const float middle = element, above = middle + 0x1p-9f, below = middle - 0x1p-9f;
    element = above;
    const double high = loss();
    element = below;
    const double low = loss();
    element = middle;
    all.push_back((high - low) / (static_cast<double>(above) - static_cast<double>(below)));
  }
  return all;
}

void check_near(const char *name, const std::vector<float> &found, const std::vector<double> &expected, double part) {
  CAPTURE(name);
  REQUIRE_EQ(found.size(), expected.size());
  double largest = 0, worst = 0;
  for (size_t n = 0; n < found.size(); ++n) {
    largest = std::max(largest, std::abs(expected[n]));
    const double error = std::abs(found[n] - expected[n]);
    worst = error <= worst ? worst : error;  // NaN too
  }
  CAPTURE(largest);
  CHECK(largest > 0);
  CHECK(worst <= part * largest);
}

std::vector<double> doubles(const Tensor<float> &tensor) {
  const std::vector<float> dense = tensor.dense();
  return {dense.begin(), dense.end()};
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("multi head gradients: central differences of the formula") {
    Random random(base_seed());
    for (const Inputs inputs : {Inputs::kOne, Inputs::kTwo, Inputs::kThree}) {
      for (const bool causal : {false, true}) {
        for (const int64_t outputs : {5, 0}) {
          MultiHeadSizes sizes = small_sizes();
          sizes.outputs = outputs;
          const MultiHead layer = make_multi_head(sizes, inputs, random);
          MultiHeadInputs in = layer.reference_inputs();
          in.causal = causal;
          const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
          auto attention = sized_options<fovea_attention_options>();
          attention.flags = causal ? FOVEA_CAUSAL : 0;
          auto options = sized_options<fovea_mha_options>();
          options.attention = &attention;
          CAPTURE(static_cast<int>(inputs));
          CAPTURE(causal);
          CAPTURE(outputs);
          const std::vector<float> dense = grad.dense();
          const auto differences = [&](std::vector<float> MultiHeadInputs::*member) {
            return central_differences(in, member, dense);
          };
          // One tensor in several places: the sum over these.
          std::vector<double> query = differences(&MultiHeadInputs::query), key = differences(&MultiHeadInputs::key);
          const std::vector<double> value = differences(&MultiHeadInputs::value);
          const auto add = [](std::vector<double> &to, const std::vector<double> &more) {
            for (size_t n = 0; n < to.size(); ++n) to[n] += more[n];
          };
          if (inputs != Inputs::kThree) add(key, value);
          if (inputs == Inputs::kOne) add(query, key);
          for_each_isa([&](const fovea_context *context) {
            const LayerGradients found(layer);
            REQUIRE_OK(found.run(context, layer, grad, &options));
            check_near("query", found.query.dense(), query, 2e-4);
            if (inputs != Inputs::kOne) check_near("key", found.key.dense(), key, 2e-4);
            if (inputs == Inputs::kThree) check_near("value", found.value.dense(), value, 2e-4);
            const auto check = [&](const char *name, const Tensor<float> &tensor,
                                   std::vector<float> MultiHeadInputs::*member) {
              check_near(name, tensor.dense(), differences(member), 2e-4);
            };
            check("query_weight", found.query_weight, &MultiHeadInputs::query_weight);
            check("key_weight", found.key_weight, &MultiHeadInputs::key_weight);
            check("value_weight", found.value_weight, &MultiHeadInputs::value_weight);
            check("query_bias", found.query_bias, &MultiHeadInputs::query_bias);
            check("value_bias", found.value_bias, &MultiHeadInputs::value_bias);
            if (outputs == 0) return;
            check("out_weight", found.out_weight, &MultiHeadInputs::out_weight);
            check("out_bias", found.out_bias, &MultiHeadInputs::out_bias);
          });
        }
      }
    }
  }

  TEST_CASE("multi head gradients: those of linear, rotary, attention and linear, one after the other") {
    Random random(base_seed());
    for (const bool turned : {false, true}) {
      MultiHeadSizes s = small_sizes();
      s.query_len = 70;
      s.key_len = 90;
      s.head_dim = 8;
      s.value_dim = 6;
      const MultiHead layer = make_multi_head(s, Inputs::kThree, random);
      const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
      Tensor<float> bias({1, s.heads, s.query_len, s.key_len}), slopes({s.heads});
      bias.fill_normal(random);
      slopes.fill_normal(random);
      const fovea_tensor bias_view = bias.view(), slopes_view = slopes.view(), grad_view = grad.view();
      auto attention = sized_options<fovea_attention_options>();
      attention.bias = &bias_view;
      attention.alibi_slopes = &slopes_view;
      attention.dropout = 0.25f;
      attention.dropout_seed = 5;
      auto rotary = sized_options<fovea_rotary_options>();
      rotary.offset = 3;
      rotary.attention_factor = 1.25f;
      auto options = sized_options<fovea_mha_options>();
      options.attention = &attention;
      if (turned) options.rotary = &rotary;
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> grad_bias(bias.shape()), grad_slopes(slopes.shape());
        const fovea_tensor grad_bias_view = grad_bias.view(), grad_slopes_view = grad_slopes.view();
        auto of_attention = sized_options<fovea_attention_gradients>();
        of_attention.bias = &grad_bias_view;
        of_attention.alibi_slopes = &grad_slopes_view;
        const LayerGradients found(layer), expected(layer);
        REQUIRE_OK(found.run(context, layer, grad, &options, &of_attention));

        const auto rows = [&](int64_t length, int64_t features) {
          return Tensor<float>(Shape{s.batch, length, features});
        };
        const int64_t row = s.heads * s.head_dim, key_row = s.kv_heads * s.head_dim,
                      value_row = s.kv_heads * s.value_dim;
        const Tensor<float> q = rows(s.query_len, row), k = rows(s.key_len, key_row), v = rows(s.key_len, value_row),
                            concat = rows(s.query_len, s.heads * s.value_dim);
        const Tensor<float> dq = rows(s.query_len, row), dk = rows(s.key_len, key_row), dv = rows(s.key_len, value_row),
                            dconcat = rows(s.query_len, s.heads * s.value_dim);
        const auto heads = [&](const Tensor<float> &tensor, int64_t count, int64_t dim) {
          return fovea_tensor{tensor.data(),
                              FOVEA_F32,
                              4,
                              {s.batch, count, tensor.shape()[1], dim},
                              {tensor.shape()[1] * count * dim, dim, count * dim, 1}};
        };
        const auto forward = [&](const Tensor<float> &x, const Tensor<float> &weight, const Tensor<float> &b,
                                 const Tensor<float> &to) {
          const fovea_tensor views[] = {x.view(), weight.view(), b.view(), to.view()};
          fovea_packed_matrix *packed = nullptr;
          REQUIRE_OK(fovea_linear_pack(context, &views[1], nullptr, &packed));
          auto linear = sized_options<fovea_linear_options>();
          linear.bias = &views[2];
          REQUIRE_OK(fovea_linear(context, &views[0], packed, &views[3], &linear));
          fovea_packed_matrix_destroy(packed);
        };
        const auto backward = [&](const Tensor<float> &x, const Tensor<float> &weight, const Tensor<float> &b,
                                  const fovea_tensor &h, const Tensor<float> &dx, const Tensor<float> &dw,
                                  const Tensor<float> &db) {
          const fovea_tensor views[] = {x.view(), weight.view(), b.view(), dx.view(), dw.view(), db.view()};
          auto linear = sized_options<fovea_linear_options>();
          linear.bias = &views[2];
          const fovea_linear_gradients gradients = {sizeof gradients, &h, &views[3], &views[4], &views[5], nullptr};
          REQUIRE_OK(fovea_linear_backward(context, &views[0], &views[1], FOVEA_WEIGHT_OUT_IN, &linear, &gradients));
        };
        forward(layer.query, layer.query_weight, layer.query_bias, q);
        forward(layer.key, layer.key_weight, layer.key_bias, k);
        forward(layer.value, layer.value_weight, layer.value_bias, v);
        const fovea_tensor q_heads = heads(q, s.heads, s.head_dim), k_heads = heads(k, s.kv_heads, s.head_dim),
                           v_heads = heads(v, s.kv_heads, s.value_dim), out_heads = heads(concat, s.heads, s.value_dim);
        const fovea_tensor dq_heads = heads(dq, s.heads, s.head_dim), dk_heads = heads(dk, s.kv_heads, s.head_dim),
                           dv_heads = heads(dv, s.kv_heads, s.value_dim),
                           dout_heads = heads(dconcat, s.heads, s.value_dim);
        if (turned) {
          REQUIRE_OK(fovea_rotary(context, &q_heads, &q_heads, &rotary));
          REQUIRE_OK(fovea_rotary(context, &k_heads, &k_heads, &rotary));
        }
        const Tensor<float> sums({s.batch, s.heads, s.query_len}), its_bias(bias.shape()), its_slopes(slopes.shape());
        const fovea_tensor sums_view = sums.view(), its_bias_view = its_bias.view(),
                           its_slopes_view = its_slopes.view();
        fovea_attention_options with_sums = attention;
        with_sums.log_sum_exp = &sums_view;
        REQUIRE_OK(fovea_attention(context, nullptr, &q_heads, &k_heads, &v_heads, &out_heads, &with_sums));
        backward(concat, layer.out_weight, layer.out_bias, grad_view, dconcat, expected.out_weight, expected.out_bias);
        fovea_attention_gradients gradients = of_attention;
        gradients.out = &dout_heads;
        gradients.query = &dq_heads;
        gradients.key = &dk_heads;
        gradients.value = &dv_heads;
        gradients.bias = &its_bias_view;
        gradients.alibi_slopes = &its_slopes_view;
        REQUIRE_OK(fovea_attention_backward(context, nullptr, &q_heads, &k_heads, &v_heads, &out_heads, &with_sums,
                                            &gradients));
        if (turned) {
          fovea_rotary_options back = rotary;
          back.flags = FOVEA_ROTARY_INVERSE;
          REQUIRE_OK(fovea_rotary(context, &dq_heads, &dq_heads, &back));
          REQUIRE_OK(fovea_rotary(context, &dk_heads, &dk_heads, &back));
        }
        backward(layer.query, layer.query_weight, layer.query_bias, dq.view(), expected.query, expected.query_weight,
                 expected.query_bias);
        backward(layer.key, layer.key_weight, layer.key_bias, dk.view(), expected.key, expected.key_weight,
                 expected.key_bias);
        backward(layer.value, layer.value_weight, layer.value_bias, dv.view(), expected.value, expected.value_weight,
                 expected.value_bias);
        const auto all = found.list(), wanted = expected.list();
        REQUIRE_EQ(all.size(), wanted.size());
        for (size_t n = 0; n < all.size(); ++n) {
          CAPTURE(std::string(all[n].first));
          CHECK(all[n].second->dense() == wanted[n].second->dense());
        }
        CHECK(grad_bias.dense() == its_bias.dense());
        CHECK(grad_slopes.dense() == its_slopes.dense());
      });
    }
  }

  TEST_CASE("multi head gradients: sizes of all kinds, one to eight threads, in_weight in both layouts") {
    Random random(base_seed());
    std::vector<MultiHeadSizes> list = multi_head_sizes();
    list.push_back({.batch = 2,
                    .query_len = 0,
                    .key_len = 7,
                    .query_inputs = 3,
                    .key_inputs = 3,
                    .value_inputs = 3,
                    .outputs = 2});
    list.push_back({.batch = 2,
                    .query_len = 3,
                    .key_len = 0,
                    .query_inputs = 3,
                    .key_inputs = 3,
                    .value_inputs = 3,
                    .outputs = 2});
    list.push_back({.batch = 0,
                    .query_len = 3,
                    .key_len = 2,
                    .query_inputs = 3,
                    .key_inputs = 3,
                    .value_inputs = 3,
                    .outputs = 2});
    for (const MultiHeadSizes &sizes : list) {
      const MultiHead layer = make_multi_head(sizes, Inputs::kThree, random);
      const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
      for (const std::string &isa : instruction_sets()) {
        const LayerGradients once(layer);
        REQUIRE_OK(once.run(shared_context(isa, 1), layer, grad, nullptr));
        for (const auto &[name, tensor] : once.list()) {
          CAPTURE(std::string(name));
          for (const float number : tensor->dense()) REQUIRE(std::isfinite(number));
          CHECK(tensor->gaps_untouched());
        }
        for (const int threads : {2, 3, 8}) {
          const LayerGradients other(layer);
          REQUIRE_OK(other.run(shared_context(isa, threads), layer, grad, nullptr));
          const auto all = once.list(), others = other.list();
          for (size_t n = 0; n < all.size(); ++n) CHECK(all[n].second->dense() == others[n].second->dense());
        }
      }
    }
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 9,
                                             .query_inputs = 10,
                                             .heads = 6,
                                             .kv_heads = 2,
                                             .head_dim = 4,
                                             .value_dim = 4,
                                             .outputs = 11},
                                            Inputs::kOne, random);
    const Tensor<float> grad = std::move(layer.make_out().fill_normal(random));
    for_each_isa([&](const fovea_context *context) {
      const LayerGradients apart(layer);
      REQUIRE_OK(apart.run(context, layer, grad, nullptr));
      for (const bool in_out : {false, true}) {
        const MhaParameters given(layer);
        fovea_mha_parameters parameters = given.parameters;
        std::vector<float> weights, biases, wanted_weights, wanted_biases;
        const auto append = [](std::vector<float> &to, const Tensor<float> &more) {
          const std::vector<float> dense = more.dense();
          to.insert(to.end(), dense.begin(), dense.end());
        };
        for (const Tensor<float> *weight : {&layer.query_weight, &layer.key_weight, &layer.value_weight})
          append(weights, *weight);
        for (const Tensor<float> *bias : {&layer.query_bias, &layer.key_bias, &layer.value_bias}) append(biases, *bias);
        for (const Tensor<float> *weight : {&apart.query_weight, &apart.key_weight, &apart.value_weight})
          append(wanted_weights, *weight);
        for (const Tensor<float> *bias : {&apart.query_bias, &apart.key_bias, &apart.value_bias})
          append(wanted_biases, *bias);
        const int64_t outputs = static_cast<int64_t>(biases.size()), features = layer.sizes.query_inputs;
        const Shape shape = in_out ? Shape{features, outputs} : Shape{outputs, features};
        Tensor<float> in_weight(shape), in_bias({outputs});
        const Tensor<float> grad_weight(shape), grad_bias({outputs}), grad_query(layer.query.shape());
        in_weight.memory().thaw();
        for_each_index(shape, [&](const Shape &at) {
          in_weight.at(at) = weights[static_cast<size_t>(in_out ? at[1] * features + at[0] : at[0] * features + at[1])];
        });
        in_bias.assign(biases);
        Tensor<float> out_weight(in_out ? Shape{layer.out_weight.shape()[1], layer.out_weight.shape()[0]}
                                        : layer.out_weight.shape());
        out_weight.memory().thaw();
        for_each_index(out_weight.shape(), [&](const Shape &at) {
          out_weight.at(at) = in_out ? layer.out_weight.at({at[1], at[0]}) : layer.out_weight.at(at);
        });
        const fovea_tensor views[] = {in_weight.view(),   in_bias.view(),   out_weight.view(), layer.query.view(),
                                      grad_weight.view(), grad_bias.view(), grad_query.view(), grad.view()};
        parameters.layout = in_out ? FOVEA_WEIGHT_IN_OUT : FOVEA_WEIGHT_OUT_IN;
        parameters.query_weight = parameters.key_weight = parameters.value_weight = nullptr;
        parameters.query_bias = parameters.key_bias = parameters.value_bias = nullptr;
        parameters.in_weight = &views[0];
        parameters.in_bias = &views[1];
        parameters.out_weight = &views[2];
        auto gradients = sized_options<fovea_mha_gradients>();
        gradients.out = &views[7];
        gradients.query = &views[6];
        gradients.in_weight = &views[4];
        gradients.in_bias = &views[5];
        REQUIRE_OK(fovea_multi_head_attention_backward(context, &parameters, &views[3], nullptr, nullptr, nullptr,
                                                       &gradients));
        std::vector<float> found;
        for (int64_t n = 0; n < outputs; ++n) {
          for (int64_t e = 0; e < features; ++e) found.push_back(in_out ? grad_weight(e, n) : grad_weight(n, e));
        }
        check_near("in_weight", found, {wanted_weights.begin(), wanted_weights.end()}, 1e-5);
        CHECK(grad_bias.dense() == wanted_biases);
        check_near("query", grad_query.dense(), doubles(apart.query), 1e-5);
      }
    });
  }
}
