// The forms a multi-head attention call can take: layouts of weights, missing biases, strides, ranks; and what
// does not depend on them: bits over threads and batch positions, NaN that no query attends to.
#include <doctest/doctest.h>

#include <cmath>

#include "support/multi_head.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr Inputs kInputs[] = {Inputs::kOne, Inputs::kTwo, Inputs::kThree};

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("weights in every layout: in_weight, [in,out], strided, used once") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 9,
                                             .key_len = 9,
                                             .query_inputs = 40,
                                             .key_inputs = 40,
                                             .heads = 6,
                                             .kv_heads = 2,
                                             .head_dim = 7,
                                             .value_dim = 7,
                                             .outputs = 21},
                                            Inputs::kTwo, random);
    const auto stack = [&](const Tensor<float> &a, const Tensor<float> &b, const Tensor<float> &c, Shape shape) {
      std::vector<float> all = a.dense();
      for (const Tensor<float> *part : {&b, &c}) {
        const std::vector<float> dense = part->dense();
        all.insert(all.end(), dense.begin(), dense.end());
      }
      return std::move(Tensor<float>(std::move(shape)).assign(all));
    };
    const Tensor<float> in_weight = stack(layer.query_weight, layer.key_weight, layer.value_weight, {70, 40});
    const Tensor<float> in_bias = stack(layer.query_bias, layer.key_bias, layer.value_bias, {70});
    const auto transposed = [](const Tensor<float> &from, int64_t gap) {
      const Shape shape = {from.shape()[1], from.shape()[0]};
      Tensor<float> to(shape, permuted_strides(shape, {0, 1}, gap));
      to.memory().thaw();
      for_each_index(shape, [&](const Shape &i) { to.at(i) = from.at({i[1], i[0]}); });
      return to;
    };
    const fovea_tensor in_view = in_weight.view(), in_bias_view = in_bias.view();
    const Tensor<float> in_out[4] = {transposed(layer.query_weight, 0), transposed(layer.key_weight, 3),
                                     transposed(layer.value_weight, 0), transposed(layer.out_weight, 1)};
    const Tensor<float> in_transposed = transposed(in_weight, 2);
    const fovea_tensor in_out_views[5] = {in_out[0].view(), in_out[1].view(), in_out[2].view(), in_out[3].view(),
                                          in_transposed.view()};
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> expected = layer.make_out();
      REQUIRE_OK(layer.run(context, layer.make_weights(context), expected));
      for (bool in_out_layout : {false, true}) {
        for (bool fused : {false, true}) {
          CAPTURE(in_out_layout);
          CAPTURE(fused);
          MhaParameters given(layer);
          fovea_mha_parameters &p = given.parameters;
          if (in_out_layout) {
            p.layout = FOVEA_WEIGHT_IN_OUT;
            p.query_weight = &in_out_views[0];
            p.key_weight = &in_out_views[1];
            p.value_weight = &in_out_views[2];
            p.out_weight = &in_out_views[3];
          }
          if (fused) {
            p.query_weight = p.key_weight = p.value_weight = p.query_bias = p.key_bias = p.value_bias = nullptr;
            p.in_weight = in_out_layout ? &in_out_views[4] : &in_view;
            p.in_bias = &in_bias_view;
          }
          fovea_mha_weights *made = nullptr;
          REQUIRE_OK(fovea_mha_weights_create(context, &p, &made));
          const MhaWeights weights(made);
          CHECK(fovea_mha_weights_size(made) >= size_t{(70 * 40 + 42 * 21 + 91) * 4});
          const Tensor<float> out = layer.make_out(), once = layer.make_out();
          REQUIRE_OK(layer.run(context, weights, out));
          CHECK(same_bits(out, expected));
          const fovea_tensor q = layer.query.view(), k = layer.key.view(), o = once.view();
          REQUIRE_OK(fovea_multi_head_attention_once(context, &p, &q, &k, nullptr, &o, nullptr));
          CHECK(same_bits(once, expected));
        }
      }
    });
  }

  TEST_CASE("some biases and not others") {
    const MultiHeadSizes sizes = multi_head_sizes()[1];
    for (Inputs inputs : kInputs) {
      for (int missing = 0; missing < 4; ++missing) {
        Random random(base_seed()), again(base_seed());
        const MultiHead layer = make_multi_head(sizes, inputs, random);
        MultiHead zero = make_multi_head(sizes, inputs, again);
        Tensor<float> *biases[] = {&zero.query_bias, &zero.key_bias, &zero.value_bias, &zero.out_bias};
        *biases[missing] = Tensor<float>(biases[missing]->shape());
        biases[missing]->fill([] { return 0.0f; });
        for_each_isa([&](const fovea_context *context) {
          MhaParameters given(layer);
          const fovea_tensor **members[] = {&given.parameters.query_bias, &given.parameters.key_bias,
                                            &given.parameters.value_bias, &given.parameters.out_bias};
          *members[missing] = nullptr;
          fovea_mha_weights *made = nullptr;
          REQUIRE_OK(fovea_mha_weights_create(context, &given.parameters, &made));
          const MhaWeights weights(made);
          const Tensor<float> out = layer.make_out(), expected = layer.make_out();
          REQUIRE_OK(layer.run(context, weights, out));
          REQUIRE_OK(zero.run(context, zero.make_weights(context), expected));
          CHECK(out.dense() == expected.dense());
        });
      }
    }
  }

  TEST_CASE("inputs and outputs of any strides, of rank 2, misaligned, at both ends of their pages") {
    for (Placement placement : {Placement::kBegin, Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const MultiHeadSizes &sizes : multi_head_sizes()) {
        Random random(base_seed()), again(base_seed());
        const MultiHead layer = make_multi_head(sizes, Inputs::kTwo, random);
        MultiHead strided = make_multi_head(sizes, Inputs::kTwo, again);
        const auto with_gaps = [](const Tensor<float> &from) {
          Tensor<float> to(from.shape(), permuted_strides(from.shape(), {1, 0, 2}, 3));
          return std::move(to.assign(from.dense()));
        };
        strided.query = with_gaps(layer.query);
        strided.key = with_gaps(layer.key);
        for_each_isa([&](const fovea_context *context) {
          const MhaWeights weights = layer.make_weights(context);
          const Tensor<float> expected = layer.make_out();
          REQUIRE_OK(layer.run(context, weights, expected));
          const Tensor<float> out(expected.shape(), permuted_strides(expected.shape(), {1, 0, 2}, 5));
          REQUIRE_OK(strided.run(context, weights, out));
          CHECK(out.dense() == expected.dense());
          CHECK(out.gaps_untouched());
          if (sizes.batch != 1) return;
          const Tensor<float> flat(Shape{expected.shape()[1], expected.shape()[2]});
          fovea_tensor q = layer.query.view(), k = layer.key.view();
          const fovea_tensor o = flat.view();
          for (fovea_tensor *view : {&q, &k}) {
            view->rank = 2;
            for (int axis : {0, 1}) {
              view->shape[axis] = view->shape[axis + 1];
              view->strides[axis] = view->strides[axis + 1];
            }
          }
          REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &q, &k, nullptr, &o, nullptr));
          CHECK(flat.dense() == expected.dense());
        });
      }
    }
  }

  TEST_CASE("the same bits on 1 to 8 threads, and for an entry wherever it stands in the batch") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 3,
                                             .query_len = 150,
                                             .key_len = 170,
                                             .query_inputs = 96,
                                             .key_inputs = 80,
                                             .value_inputs = 70,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 24,
                                             .value_dim = 20,
                                             .outputs = 90},
                                            Inputs::kThree, random);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const fovea_context *context = shared_context(isa, 1);
      const MhaWeights weights = layer.make_weights(context);
      const Tensor<float> expected = layer.make_out();
      REQUIRE_OK(layer.run(context, weights, expected));
      for (int threads = 2; threads <= 8; ++threads) {
        const Tensor<float> out = layer.make_out();
        REQUIRE_OK(layer.run(shared_context(isa, threads), weights, out));
        CHECK(same_bits(out, expected));
      }
      for (int64_t b = 0; b < 3; ++b) {
        const auto entry = [b](const Tensor<float> &tensor) {
          fovea_tensor view = tensor.view();
          view.data = static_cast<float *>(view.data) + b * view.strides[0];
          view.shape[0] = 1;
          return view;
        };
        const Tensor<float> out(Shape{1, expected.shape()[1], expected.shape()[2]});
        const fovea_tensor q = entry(layer.query), k = entry(layer.key), v = entry(layer.value), o = out.view();
        REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &q, &k, &v, &o, nullptr));
        const std::vector<float> all = expected.dense(), one = out.dense();
        CHECK(std::equal(one.begin(), one.end(), all.begin() + b * static_cast<int64_t>(one.size())));
      }
    }
  }

  TEST_CASE("what a length leaves out may hold NaN; what is attended to gives NaN") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head(multi_head_sizes()[1], Inputs::kTwo, random);
    Tensor<int32_t> lens(Shape{3});
    lens.assign({40, 64, 1});
    const fovea_tensor lens_view = lens.view();
    auto attention = sized_options<fovea_attention_options>();
    attention.valid_lens = &lens_view;
    auto options = sized_options<fovea_mha_options>();
    options.attention = &attention;
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      const Tensor<float> clean = layer.make_out(), masked = layer.make_out(), attended = layer.make_out();
      REQUIRE_OK(layer.run(context, weights, clean, &options));
      Random again(base_seed());
      MultiHead spoiled = make_multi_head(multi_head_sizes()[1], Inputs::kTwo, again);
      spoiled.key(0, 40, 2) = kNan;
      spoiled.key(2, 1, 30) = kInfinity;
      REQUIRE_OK(spoiled.run(context, weights, masked, &options));
      CHECK(same_bits(masked, clean));
      spoiled.key(1, 63, 2) = kNan;
      REQUIRE_OK(spoiled.run(context, weights, attended, &options));
      CHECK(std::isnan(attended(1, 0, 0)));
      CHECK(attended(0, 0, 0) == clean(0, 0, 0));
    });
  }
}
