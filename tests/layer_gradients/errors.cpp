// What backward passes of layers refuse: with which status and words, and outputs as they were.
#include <functional>

#include "support/errors.hpp"
#include "support/judged_gradients.hpp"
#include "support/multi_head.hpp"

using namespace testing;

namespace {

// Tensors of three by four, vectors of four, and one output of each.
struct Tensors {
  Tensors() {
    for (Tensor<float> *tensor : {&a, &b, &vector, &square}) tensor->fill([] { return 0.5f; });
  }
  Tensor<float> a{{3, 4}}, b{{3, 4}}, vector{{4}}, square{{4, 4}};
  Tensor<float> out{{3, 4}}, out_vector{{4}}, out_square{{4, 4}};
  fovea_tensor x = a.view(), y = b.view(), v = vector.view(), w = square.view();
  fovea_tensor to = out.view(), to_v = out_vector.view(), to_w = out_square.view();

  void refused(fovea_status status, fovea_status expected, std::initializer_list<std::string> words) const {
    check_refusal(status, expected, words);
    CHECK(out.untouched());
    CHECK(out_vector.untouched());
    CHECK(out_square.untouched());
  }
};

fovea_tensor with_shape(fovea_tensor tensor, int axis, int64_t size) {
  tensor.shape[axis] = size;
  return tensor;
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("errors of activation and softmax gradients") {
    const Tensors t;
    for (const int32_t kind : {-1, 5}) {
      t.refused(fovea_activation_backward(nullptr, kind, &t.x, &t.y, &t.to), FOVEA_BAD_VALUE, {"activation is"});
    }
    t.refused(fovea_activation_backward(nullptr, 1, nullptr, &t.y, &t.to), FOVEA_NULL_POINTER, {"x is NULL"});
    t.refused(fovea_activation_backward(nullptr, 1, &t.x, nullptr, &t.to), FOVEA_NULL_POINTER, {"grad_out is NULL"});
    t.refused(fovea_activation_backward(nullptr, 1, &t.x, &t.y, nullptr), FOVEA_NULL_POINTER, {"grad_x is NULL"});
    const fovea_tensor narrow = with_shape(t.y, 1, 3);
    t.refused(fovea_activation_backward(nullptr, 1, &t.x, &narrow, &t.to), FOVEA_BAD_SHAPE,
              {"grad_out.shape[1]", "x's"});
    t.refused(fovea_softmax_backward(nullptr, &t.x, 0, &narrow, &t.to), FOVEA_BAD_SHAPE,
              {"grad_out.shape[1]", "out's"});
    for (const int32_t axis : {2, -3}) {
      t.refused(fovea_softmax_backward(nullptr, &t.x, axis, &t.y, &t.to), FOVEA_BAD_VALUE, {"axis"});
      t.refused(fovea_log_softmax_backward(nullptr, &t.x, axis, &t.y, &t.to), FOVEA_BAD_VALUE, {"axis"});
    }
    t.refused(fovea_softmax_backward(nullptr, &t.to, 0, &t.y, &t.to), FOVEA_OVERLAP, {"grad_x", "out"});
    const int64_t lens[] = {5};
    const int64_t one = 1;
    const fovea_tensor too_long = fovea_tensor_contiguous(lens, FOVEA_I64, 1, &one);
    t.refused(fovea_masked_softmax_backward(nullptr, &t.x, &too_long, &t.y, &t.to), FOVEA_BAD_VALUE,
              {"valid_lens[0] is 5", "4 keys"});
    t.refused(fovea_masked_softmax_backward(nullptr, &t.v, nullptr, &t.v, &t.to_v), FOVEA_BAD_RANK, {"out has rank 1"});
  }

  TEST_CASE("errors of norm gradients") {
    const Tensors t;
    auto gradients = sized_options<fovea_norm_gradients>();
    gradients.out = &t.y;
    gradients.x = &t.to;
    auto options = sized_options<fovea_layer_norm_options>();
    const auto run = [&] { return fovea_layer_norm_backward(nullptr, &t.x, &options, &gradients); };
    t.refused(fovea_layer_norm_backward(nullptr, &t.x, &options, nullptr), FOVEA_NULL_POINTER, {"gradients is NULL"});
    gradients.out = nullptr;
    t.refused(run(), FOVEA_NULL_POINTER, {"gradients.out"});
    const fovea_tensor short_one = with_shape(t.y, 0, 2);
    gradients.out = &short_one;
    t.refused(run(), FOVEA_BAD_SHAPE, {"gradients.out.shape[0]"});
    gradients.out = &t.y;
    gradients.sum = &t.y;
    t.refused(run(), FOVEA_BAD_VALUE, {"gradients.sum is given", "options.residual is NULL"});
    gradients.sum = nullptr;
    gradients.weight = &t.to_v;
    t.refused(run(), FOVEA_BAD_VALUE, {"gradients.weight is given", "options.weight is NULL"});
    gradients.weight = nullptr;
    gradients.bias = &t.to_v;
    t.refused(run(), FOVEA_BAD_VALUE, {"gradients.bias is given", "options.bias is NULL"});
    t.refused(fovea_rms_norm_backward(nullptr, &t.x, nullptr, &gradients), FOVEA_BAD_VALUE,
              {"gradients.bias is given", "RMS"});
    gradients.bias = nullptr;
    options.epsilon = -1;
    t.refused(run(), FOVEA_BAD_VALUE, {"options.epsilon"});
    options.epsilon = 0;
    options.weight = &t.v;
    const fovea_tensor three = with_shape(t.to_v, 0, 3);
    gradients.weight = &three;
    t.refused(run(), FOVEA_BAD_SHAPE, {"gradients.weight.shape[0]"});
  }

  TEST_CASE("errors of linear gradients") {
    const Tensors t;
    auto gradients = sized_options<fovea_linear_gradients>();
    gradients.out = &t.y;
    gradients.x = &t.to;
    gradients.weight = &t.to_w;
    auto options = sized_options<fovea_linear_options>();
    int32_t layout = FOVEA_WEIGHT_OUT_IN;
    const auto run = [&] { return fovea_linear_backward(nullptr, &t.x, &t.w, layout, &options, &gradients); };
    t.refused(fovea_linear_backward(nullptr, &t.x, nullptr, layout, &options, &gradients), FOVEA_NULL_POINTER,
              {"weight is NULL"});
    t.refused(fovea_linear_backward(nullptr, &t.x, &t.w, layout, &options, nullptr), FOVEA_NULL_POINTER,
              {"gradients is NULL"});
    layout = 2;
    t.refused(run(), FOVEA_BAD_VALUE, {"layout is 2"});
    layout = FOVEA_WEIGHT_OUT_IN;
    const fovea_tensor other = with_shape(t.w, 1, 3);
    t.refused(fovea_linear_backward(nullptr, &t.x, &other, layout, &options, &gradients), FOVEA_BAD_SHAPE,
              {"x.shape[1] is 4", "weight's inputs"});
    options.activation = 9;
    t.refused(run(), FOVEA_BAD_VALUE, {"activation is 9"});
    options.activation = 0;
    gradients.bias = &t.to_v;
    t.refused(run(), FOVEA_BAD_VALUE, {"gradients.bias is given", "options.bias is NULL"});
    gradients.bias = nullptr;
    gradients.multiplier = &t.to;
    gradients.x = nullptr;
    t.refused(run(), FOVEA_BAD_VALUE, {"gradients.multiplier is given", "options.multiplier is NULL"});
    gradients.multiplier = nullptr;
    gradients.out = nullptr;
    t.refused(run(), FOVEA_NULL_POINTER, {"gradients.out"});
    gradients.out = &t.y;
    gradients.x = &t.y;
    t.refused(run(), FOVEA_OVERLAP, {"gradients.x", "gradients.out"});
  }

  TEST_CASE("errors of merge gradients") {
    const Tensors t;
    auto gradients = sized_options<fovea_merge_gradients>();
    gradients.out = &t.v;
    gradients.outs = &t.to;
    const fovea_tensor lses = with_shape(t.v, 0, 3);
    const auto run = [&] { return fovea_merge_states_backward(nullptr, &t.x, &lses, &gradients); };
    t.refused(fovea_merge_states_backward(nullptr, &t.x, &lses, nullptr), FOVEA_NULL_POINTER, {"gradients is NULL"});
    t.refused(fovea_merge_states_backward(nullptr, &t.x, &t.v, &gradients), FOVEA_BAD_SHAPE, {"lses.shape[0]"});
    gradients.out = nullptr;
    t.refused(run(), FOVEA_NULL_POINTER, {"gradients.out"});
    gradients.out = &lses;
    t.refused(run(), FOVEA_BAD_SHAPE, {"gradients.out.shape[0]"});
    gradients.out = &t.v;
    gradients.outs = &t.x;
    t.refused(run(), FOVEA_OVERLAP, {"gradients.outs", "outs"});
  }

  TEST_CASE("errors of multi head gradients") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 3,
                                             .query_inputs = 6,
                                             .heads = 2,
                                             .kv_heads = 2,
                                             .head_dim = 4,
                                             .value_dim = 4,
                                             .outputs = 5},
                                            Inputs::kOne, random);
    const MhaParameters given(layer);
    const Tensor<float> grad = std::move(layer.make_out().fill_normal(random)), out(layer.query.shape());
    const fovea_tensor query = layer.query.view(), grad_view = grad.view(), to = out.view();
    auto gradients = sized_options<fovea_mha_gradients>();
    gradients.out = &grad_view;
    gradients.query = &to;
    auto options = sized_options<fovea_mha_options>();
    const auto refused = [&](fovea_status expected, std::initializer_list<std::string> words) {
      check_refusal(fovea_multi_head_attention_backward(nullptr, &given.parameters, &query, nullptr, nullptr, &options,
                                                        &gradients),
                    expected, words);
      CHECK(out.untouched());
    };
    check_refusal(fovea_multi_head_attention_backward(nullptr, nullptr, &query, nullptr, nullptr, &options, &gradients),
                  FOVEA_NULL_POINTER, {"parameters is NULL"});
    check_refusal(fovea_multi_head_attention_backward(nullptr, &given.parameters, nullptr, nullptr, nullptr, &options,
                                                      &gradients),
                  FOVEA_NULL_POINTER, {"query is NULL"});
    check_refusal(
        fovea_multi_head_attention_backward(nullptr, &given.parameters, &query, nullptr, nullptr, &options, nullptr),
        FOVEA_NULL_POINTER, {"gradients is NULL"});
    options.flags = FOVEA_MHA_KEEP_PAGES;
    refused(FOVEA_BAD_OPTION, {"options.flags"});
    options.flags = 0;
    options.key_pages = &query;
    refused(FOVEA_BAD_VALUE, {"options.key_pages", "inference"});
    options.key_pages = nullptr;
    options.schedule = reinterpret_cast<const fovea_schedule *>(&options);  // which nobody looks into
    refused(FOVEA_BAD_VALUE, {"options.schedule", "inference"});
    options.schedule = nullptr;
    gradients.key = &to;
    refused(FOVEA_BAD_VALUE, {"gradients.key is given", "key is NULL"});
    gradients.key = nullptr;
    gradients.in_weight = &to;
    refused(FOVEA_BAD_VALUE, {"gradients.in_weight is given", "parameters.in_weight is NULL"});
    gradients.in_weight = nullptr;
    gradients.out_weight = &to;
    refused(FOVEA_BAD_RANK, {"gradients.out_weight"});
    gradients.out_weight = nullptr;
    const fovea_tensor wide = with_shape(grad_view, 2, 4);
    gradients.out = &wide;
    refused(FOVEA_BAD_SHAPE, {"gradients.out.shape[2]"});
    gradients.out = &grad_view;
    auto of_attention = sized_options<fovea_attention_gradients>();
    gradients.attention = &of_attention;
    of_attention.query = &to;
    refused(FOVEA_BAD_VALUE, {"gradients.attention", "gradients.query is given"});
    of_attention.query = nullptr;
    of_attention.bias = &to;
    refused(FOVEA_BAD_VALUE, {"gradients.attention", "gradients.bias is given"});
    gradients.attention = nullptr;
    gradients.query = &grad_view;
    refused(FOVEA_BAD_SHAPE, {"gradients.query"});
    gradients.query = &query;
    refused(FOVEA_OVERLAP, {"gradients.query", "query"});
  }
}
