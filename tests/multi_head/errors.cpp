// Every argument of multi-head attention made bad: the code, the words of the message, outputs as they were. Of
// schedules: schedule_errors.cpp.
#include <doctest/doctest.h>

#include <functional>
#include <utility>

#include "errors.hpp"
#include "support/multi_head.hpp"

using namespace testing;

namespace {

MultiHead good_layer() {
  Random random(base_seed());
  return make_multi_head({.batch = 2,
                          .query_len = 3,
                          .key_len = 5,
                          .query_inputs = 10,
                          .key_inputs = 9,
                          .value_inputs = 8,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 6,
                          .value_dim = 7,
                          .outputs = 11},
                         Inputs::kThree, random);
}

struct BadParameters {
  std::function<void(MhaParameters &)> spoil;
  fovea_status status;
  std::initializer_list<std::string> words;
};

// A good call, to be spoiled.
struct Call {
  MultiHead layer = good_layer();
  MhaWeights weights = layer.make_weights(nullptr);
  Tensor<float> result = layer.make_out();
  fovea_tensor query = layer.query.view(), key = layer.key.view(), value = layer.value.view(), out = result.view();
  const fovea_tensor *query_given = &query, *key_given = &key, *value_given = &value, *out_given = &out;
  const fovea_mha_weights *weights_given = weights.get();
  fovea_attention_options attention = sized_options<fovea_attention_options>();
  fovea_rotary_options rotary = sized_options<fovea_rotary_options>();
  Tensor<float> weight{Shape{6, 6}}, sigmas{Shape{4}};
  fovea_tensor score_weight = weight.view(), score_sigmas = sigmas.view();
  fovea_score bilinear = sized_options<fovea_score>(), gaussian = sized_options<fovea_score>();
  fovea_mha_options options = sized_options<fovea_mha_options>();

  Call() {
    options.attention = &attention;
    weight.fill([] { return 0.5f; });
    sigmas.fill([] { return 2.0f; });
    bilinear.kind = FOVEA_SCORE_BILINEAR;
    bilinear.weight = &score_weight;
    gaussian.kind = FOVEA_SCORE_GAUSSIAN;
    gaussian.sigmas = &score_sigmas;
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  fovea_status run() const {
    return fovea_multi_head_attention(nullptr, weights_given, query_given, key_given, value_given, out_given, &options);
  }
};

// The first of the words is where the message begins: the argument.
struct BadCall {
  std::function<void(Call &)> spoil;
  fovea_status status;
  std::initializer_list<std::string> words;
};

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("bad parameters are refused by name") {
    const MultiHead layer = good_layer();
    const Tensor<float> in(Shape{48, 10}), in_bias(Shape{48});
    const fovea_tensor in_view = in.view(), in_bias_view = in_bias.view();
    const BadParameters cases[] = {
        {[](MhaParameters &p) { p.parameters.struct_size = 8; }, FOVEA_BAD_OPTION, {"parameters.struct_size", "8"}},
        {[](MhaParameters &p) { p.parameters.layout = 2; }, FOVEA_BAD_VALUE, {"parameters.layout", "2"}},
        {[](MhaParameters &p) { p.parameters.precision = 5; },
         FOVEA_BAD_VALUE,
         {"parameters.precision is 5", "0 to 4"}},
        {[](MhaParameters &p) { p.parameters.heads = 0; }, FOVEA_BAD_VALUE, {"parameters.heads", "0"}},
        {[](MhaParameters &p) { p.parameters.heads = INT64_MAX; }, FOVEA_BAD_VALUE, {"parameters.heads"}},
        {[](MhaParameters &p) { p.parameters.kv_heads = 3; }, FOVEA_BAD_VALUE, {"parameters.kv_heads", "3", "4"}},
        {[](MhaParameters &p) { p.parameters.kv_heads = -1; }, FOVEA_BAD_VALUE, {"parameters.kv_heads", "-1"}},
        {[](MhaParameters &p) { p.parameters.query_weight = nullptr; },
         FOVEA_NULL_POINTER,
         {"query_weight", "in_weight"}},
        {[](MhaParameters &p) { p.parameters.key_weight = nullptr; }, FOVEA_NULL_POINTER, {"key_weight"}},
        {[](MhaParameters &p) { p.parameters.value_weight = nullptr; }, FOVEA_NULL_POINTER, {"value_weight"}},
        {[&](MhaParameters &p) { p.parameters.in_weight = &in_view; }, FOVEA_BAD_VALUE, {"query_weight", "in_weight"}},
        {[&](MhaParameters &p) { p.parameters.in_bias = &in_bias_view; }, FOVEA_BAD_VALUE, {"in_bias", "in_weight"}},
        {[](MhaParameters &p) { p.parameters.out_weight = nullptr; }, FOVEA_BAD_VALUE, {"out_bias", "out_weight"}},
        {[](MhaParameters &p) { p.query_weight.rank = 1; }, FOVEA_BAD_RANK, {"parameters.query_weight"}},
        {[](MhaParameters &p) { p.query_weight.dtype = FOVEA_I32; }, FOVEA_BAD_DTYPE, {"parameters.query_weight"}},
        {[](MhaParameters &p) { p.query_weight.data = nullptr; }, FOVEA_NULL_POINTER, {"parameters.query_weight"}},
        {[](MhaParameters &p) { p.query_weight.shape[0] = 23; },
         FOVEA_BAD_SHAPE,
         {"parameters.query_weight", "23", "4 heads"}},
        {[](MhaParameters &p) { p.key_weight.shape[0] = 0; },
         FOVEA_BAD_SHAPE,
         {"parameters.key_weight", "0", "2 heads"}},
        {[](MhaParameters &p) { p.value_weight.shape[1] = 0; }, FOVEA_BAD_SHAPE, {"parameters.value_weight", "0"}},
        {[](MhaParameters &p) { p.out_weight.shape[1] = 27; }, FOVEA_BAD_SHAPE, {"parameters.out_weight", "27", "28"}},
        {[](MhaParameters &p) { p.out_weight.shape[0] = 0; }, FOVEA_BAD_SHAPE, {"parameters.out_weight", "0"}},
        {[](MhaParameters &p) { p.value_weight.shape[0] = int64_t{1} << 62; },
         FOVEA_SIZE_OVERFLOW,
         {"parameters.value_weight"}},
        {[](MhaParameters &p) { p.query_bias.shape[0] = 23; }, FOVEA_BAD_SHAPE, {"parameters.query_bias", "23", "24"}},
        {[](MhaParameters &p) { p.key_bias.rank = 2; }, FOVEA_BAD_RANK, {"parameters.key_bias"}},
        {[](MhaParameters &p) { p.value_bias.data = nullptr; }, FOVEA_NULL_POINTER, {"parameters.value_bias"}},
        {[](MhaParameters &p) { p.out_bias.shape[0] = 10; }, FOVEA_BAD_SHAPE, {"parameters.out_bias", "10", "11"}}};
    for (const BadParameters &bad : cases) {
      MhaParameters given(layer);
      bad.spoil(given);
      fovea_mha_weights *const before = reinterpret_cast<fovea_mha_weights *>(&given);
      fovea_mha_weights *made = before;
      check_refusal(fovea_mha_weights_create(nullptr, &given.parameters, &made), bad.status, bad.words);
      CHECK(made == before);
    }
    const MhaParameters given(layer);
    fovea_mha_weights *made = nullptr;
    check_refusal(fovea_mha_weights_create(nullptr, nullptr, &made), FOVEA_NULL_POINTER, {"parameters"});
    check_refusal(fovea_mha_weights_create(nullptr, &given.parameters, nullptr), FOVEA_NULL_POINTER, {"weights"});
    CHECK(fovea_mha_weights_size(nullptr) == 0);
    fovea_mha_weights_destroy(nullptr);
  }

  TEST_CASE("in_weight must hold whole heads of one size") {
    MultiHead layer = good_layer();
    const Tensor<float> in(Shape{47, 10}), in_bias(Shape{48});
    fovea_tensor in_view = in.view();
    const fovea_tensor in_bias_view = in_bias.view();
    fovea_mha_parameters p = sized_options<fovea_mha_parameters>();
    p.heads = 4;
    p.kv_heads = 2;
    p.in_weight = &in_view;
    fovea_mha_weights *made = nullptr;
    check_refusal(fovea_mha_weights_create(nullptr, &p, &made), FOVEA_BAD_SHAPE,
                  {"parameters.in_weight", "47", "8 heads"});
    in_view.shape[0] = 40;
    p.in_bias = &in_bias_view;
    check_refusal(fovea_mha_weights_create(nullptr, &p, &made), FOVEA_BAD_SHAPE, {"parameters.in_bias", "48", "40"});
  }

  TEST_CASE("bad calls are refused by name, and write nothing") {
    const Tensor<int32_t> lens(Shape{2});
    Tensor<int32_t> long_lens(Shape{2});
    long_lens.assign({5, 6});
    const fovea_tensor long_lens_view = long_lens.view();
    const BadCall cases[] = {
        {[](Call &c) { c.weights_given = nullptr; }, FOVEA_NULL_POINTER, {"weights"}},
        {[](Call &c) { c.query_given = nullptr; }, FOVEA_NULL_POINTER, {"query"}},
        {[](Call &c) { c.out_given = nullptr; }, FOVEA_NULL_POINTER, {"out"}},
        {[](Call &c) { c.query.rank = 4; }, FOVEA_BAD_RANK, {"query", "4"}},
        {[](Call &c) { c.key.rank = 2; }, FOVEA_BAD_RANK, {"key", "2", "3"}},
        {[](Call &c) { c.query.dtype = FOVEA_I64; }, FOVEA_BAD_DTYPE, {"query"}},
        {[](Call &c) { c.query.strides[2] = 2; }, FOVEA_BAD_STRIDE, {"query"}},
        {[](Call &c) { c.query.data = nullptr; }, FOVEA_NULL_POINTER, {"query"}},
        {[](Call &c) { c.query.shape[2] = 9; }, FOVEA_BAD_SHAPE, {"query", "9", "10"}},
        {[](Call &c) { c.key.shape[2] = 8; }, FOVEA_BAD_SHAPE, {"key", "8", "9"}},
        {[](Call &c) { c.value.shape[2] = 7; }, FOVEA_BAD_SHAPE, {"value", "7", "8"}},
        {[](Call &c) { c.key_given = nullptr; }, FOVEA_BAD_SHAPE, {"query", "10", "9", "key_weight"}},
        {[](Call &c) { c.value_given = nullptr; }, FOVEA_BAD_SHAPE, {"key", "9", "8", "value_weight"}},
        {[](Call &c) { c.key.shape[0] = 1; }, FOVEA_BAD_SHAPE, {"key", "1", "2"}},
        {[](Call &c) { c.value.shape[1] = 4; }, FOVEA_BAD_SHAPE, {"value", "4", "5"}},
        {[](Call &c) { c.out.shape[1] = 2; }, FOVEA_BAD_SHAPE, {"out", "2", "3"}},
        {[](Call &c) { c.out.shape[2] = 10; }, FOVEA_BAD_SHAPE, {"out", "10", "11"}},
        {[](Call &c) { c.out.strides[1] = 0; }, FOVEA_BAD_STRIDE, {"out"}},
        {[](Call &c) {
           for (fovea_tensor *tensor : {&c.query, &c.key, &c.value, &c.out}) tensor->shape[0] = 1;
           c.query.shape[1] = c.out.shape[1] = int64_t{1} << 40;
         },
         FOVEA_BAD_SHAPE,
         {"query has 1099511627776 positions"}},
        {[](Call &c) {
           for (fovea_tensor *tensor : {&c.key, &c.value}) {
             tensor->shape[1] = (int64_t{1} << 30) + 1;
             tensor->strides[0] = tensor->strides[1] = 0;
           }
         },
         FOVEA_BAD_SHAPE,
         {"key has 1073741825 positions, expected 0 to 1073741824"}},
        {[](Call &c) { c.out.data = c.query.data; }, FOVEA_OVERLAP, {"out (at ", "overlaps query (at "}},
        {[](Call &c) { c.out.data = c.value.data; }, FOVEA_OVERLAP, {"out (at ", "overlaps value (at "}},
        {[](Call &c) { c.options.struct_size = 3; }, FOVEA_BAD_OPTION, {"options.struct_size", "3"}},
        {[](Call &c) { c.options.flags = 2; }, FOVEA_BAD_OPTION, {"options.flags", "0x2"}},
        {[](Call &c) { c.options.precision = -1; }, FOVEA_BAD_VALUE, {"options.precision is -1", "0 to 4"}},
        {[](Call &c) { c.options.flags = FOVEA_MHA_KEEP_PAGES; }, FOVEA_NULL_POINTER, {"options.key_pages"}},
        {[](Call &c) { c.attention.scale = kNan; }, FOVEA_BAD_VALUE, {"options.attention: options.scale"}},
        {[](Call &c) { c.attention.flags = 1u << 30; }, FOVEA_BAD_OPTION, {"options.attention: options.flags"}},
        {[&](Call &c) { c.attention.valid_lens = &long_lens_view; },
         FOVEA_BAD_VALUE,
         {"options.attention: valid_lens", "6"}},
        {[](Call &c) { c.attention.log_sum_exp = &c.out; }, FOVEA_BAD_SHAPE, {"options.attention: log_sum_exp"}},
        {[](Call &c) { c.options.rotary = &c.rotary, c.rotary.base = -1; },
         FOVEA_BAD_VALUE,
         {"options.rotary", "base"}},
        {[](Call &c) { c.options.rotary = &c.rotary, c.rotary.offset = -1; },
         FOVEA_BAD_VALUE,
         {"options.rotary", "offset"}},
        {[](Call &c) { c.options.rotary = &c.rotary, c.rotary.rotary_dim = 5; },
         FOVEA_BAD_VALUE,
         {"options.rotary", "5"}},
        {[](Call &c) { c.options.rotary = &c.rotary, c.rotary.struct_size = 1; },
         FOVEA_BAD_OPTION,
         {"options.rotary.struct_size"}},
        {[&](Call &c) { c.options.rotary = &c.rotary, c.rotary.positions = &long_lens_view; },
         FOVEA_BAD_SHAPE,
         {"key has 5", "positions"}}};
    for (const BadCall &bad : cases) {
      Call c;
      bad.spoil(c);
      check_refusal(c.run(), bad.status, bad.words);
      CHECK(std::string(fovea_last_error()).find(*bad.words.begin()) == 0);
      CHECK(c.result.untouched());
    }
  }

  TEST_CASE("bad score functions are refused as members of options") {
    for (fovea_score Call::*good : {&Call::bilinear, &Call::gaussian}) {
      Call c;
      c.options.score = &(c.*good);
      REQUIRE_OK(c.run());
    }
    const BadCall cases[] = {
        {[](Call &c) { c.bilinear.struct_size = 3; }, FOVEA_BAD_OPTION, {"options: score.struct_size is 3"}},
        {[](Call &c) { c.bilinear.kind = 5; }, FOVEA_BAD_VALUE, {"options: score.kind is 5"}},
        {[](Call &c) { c.bilinear.weight = nullptr; }, FOVEA_NULL_POINTER, {"options: score.weight is NULL"}},
        {[](Call &c) { c.bilinear.bias = &c.score_weight; }, FOVEA_BAD_VALUE, {"options: score.bias is given"}},
        {[](Call &c) { c.bilinear.sigma = 1; }, FOVEA_BAD_VALUE, {"options: score.sigma is 1, expected 0"}},
        {[](Call &c) { c.score_weight.shape[1] = 5; },
         FOVEA_BAD_SHAPE,
         {"options: score.weight.shape[1] is 5, expected 6"}},
        {[](Call &c) { c.score_weight.data = nullptr; }, FOVEA_NULL_POINTER, {"options: score.weight.data is NULL"}},
        {[](Call &c) { c.options.score = &c.gaussian, c.gaussian.sigmas = nullptr; },
         FOVEA_BAD_VALUE,
         {"options: score.sigma is 0, expected a finite number above 0"}},
        {[](Call &c) { c.options.score = &c.gaussian, c.score_sigmas.shape[0] = 3; },
         FOVEA_BAD_SHAPE,
         {"options: score.sigmas.shape[0] is 3, expected 4"}},
        {[](Call &c) { c.options.score = &c.gaussian, c.sigmas(1) = -1; },
         FOVEA_BAD_VALUE,
         {"options: score.sigmas[1] is -1"}},
        {[](Call &c) { c.out.data = c.score_weight.data; }, FOVEA_OVERLAP, {"out (at ", "overlaps score.weight (at "}}};
    for (const BadCall &bad : cases) {
      Call c;
      c.options.score = &c.bilinear;
      bad.spoil(c);
      check_refusal(c.run(), bad.status, bad.words);
      CHECK(std::string(fovea_last_error()).find(*bad.words.begin()) == 0);
      CHECK(c.result.untouched());
    }
  }

  TEST_CASE("keys of another size than queries are for scores that take them") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 3,
                                             .query_inputs = 10,
                                             .key_inputs = 10,
                                             .value_inputs = 10,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 6,
                                             .key_dim = 8},
                                            Inputs::kOne, random);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out();
    fovea_score gaussian = sized_options<fovea_score>();
    gaussian.kind = FOVEA_SCORE_GAUSSIAN;
    gaussian.sigma = 1;
    fovea_mha_options options = sized_options<fovea_mha_options>();
    for (const fovea_score *score : {static_cast<const fovea_score *>(nullptr), &std::as_const(gaussian)}) {
      options.score = score;
      check_refusal(layer.run(nullptr, weights, out, &options), FOVEA_BAD_SHAPE,
                    {"key_weight gives heads of 8, expected 6"});
      CHECK(out.untouched());
    }
  }

  TEST_CASE("weights serve the instruction set they were packed for") {
    if (instruction_sets().size() < 2) return;
    const MultiHead layer = good_layer();
    const MhaWeights weights = layer.make_weights(shared_context(instruction_sets()[0]));
    const Tensor<float> out = layer.make_out();
    check_refusal(layer.run(shared_context(instruction_sets()[1]), weights, out), FOVEA_BAD_VALUE,
                  {"weights", instruction_sets()[0], instruction_sets()[1]});
    CHECK(out.untouched());
  }
}
