// Multi-head attention in one call: the truth in float64, the bits of the calls it is made of, every way to give its
// weights, and what it refuses.
#include <doctest/doctest.h>

#include <array>
#include <functional>

#include "accuracy.hpp"
#include "errors.hpp"
#include "support/attention_problem.hpp"
#include "support/multi_head.hpp"

using namespace testing;

namespace {

constexpr Inputs kInputs[] = {Inputs::kOne, Inputs::kTwo, Inputs::kThree};

void check_truth(const MultiHead &layer, const reference::MultiHeadInputs &in, const fovea_mha_options *options) {
  const auto truth = reference::multi_head<double>(in);
  const auto plain = reference::multi_head<float>(in);
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out = layer.make_out();
    REQUIRE_OK(layer.run(context, layer.make_weights(context), out, options));
    CHECK_ACCURATE(out.dense(), truth.out, plain.out, rounding_floor(truth));
  });
}

void check_composition(const MultiHead &layer, const fovea_attention_options *attention = nullptr,
                       const fovea_score *score = nullptr, const fovea_rotary_options *rotary = nullptr) {
  auto options = sized_options<fovea_mha_options>();
  options.attention = attention;
  options.score = score;
  options.rotary = rotary;
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out = layer.make_out(), composed = layer.make_out();
    REQUIRE_OK(layer.run(context, layer.make_weights(context), out, &options));
    layer.compose(context, composed, attention, score, rotary);
    CHECK(same_bits(out, composed));
  });
}

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("as accurate as the formula, with one, two and three inputs") {
    Random random(base_seed());
    for (const MultiHeadSizes &sizes : multi_head_sizes()) {
      for (Inputs inputs : kInputs) {
        const MultiHead layer = make_multi_head(sizes, inputs, random);
        CAPTURE(sizes.query_len);
        CAPTURE(sizes.heads);
        reference::MultiHeadInputs in = layer.reference_inputs();
        check_truth(layer, in, nullptr);
        auto attention = sized_options<fovea_attention_options>();
        auto options = sized_options<fovea_mha_options>();
        options.attention = &attention;
        attention.flags = FOVEA_CAUSAL;
        in.causal = true;
        check_truth(layer, in, &options);
        Tensor<int64_t> lens(Shape{sizes.batch});
        int64_t next = layer.key_len();
        lens.fill([&] { return next = next * 2 / 3; });
        const fovea_tensor lens_view = lens.view();
        attention.valid_lens = &lens_view;
        attention.flags = 0;
        in.causal = false;
        in.valid_lens = lens.dense();
        check_truth(layer, in, &options);
      }
    }
  }

  // The textbook's: hidden 100, 5 heads, ones for inputs. All keys are equal, so a row is W_o (W_v value + b_v) + b_o.
  TEST_CASE("equal keys give the value, projected twice") {
    Random random(base_seed());
    for (Inputs inputs : {Inputs::kOne, Inputs::kTwo}) {
      MultiHead layer = make_multi_head({.batch = 2,
                                         .query_len = 4,
                                         .key_len = 6,
                                         .query_inputs = 100,
                                         .key_inputs = 100,
                                         .heads = 5,
                                         .kv_heads = 5,
                                         .head_dim = 20,
                                         .value_dim = 20,
                                         .outputs = 100},
                                        inputs, random);
      layer.query.fill([] { return 1.0f; });
      if (inputs == Inputs::kTwo) layer.key.fill([] { return 1.0f; });
      std::vector<double> expected(100);
      for (int64_t o = 0; o < 100; ++o) {
        double sum = static_cast<double>(layer.out_bias(o));
        for (int64_t c = 0; c < 100; ++c) {
          double value = static_cast<double>(layer.value_bias(c));
          for (int64_t i = 0; i < 100; ++i) value += static_cast<double>(layer.value_weight(c, i));
          sum += value * static_cast<double>(layer.out_weight(o, c));
        }
        expected[static_cast<size_t>(o)] = sum;
      }
      Tensor<int32_t> lens(Shape{2});
      lens.assign({3, 2});
      const fovea_tensor lens_view = lens.view();
      auto attention = sized_options<fovea_attention_options>();
      attention.valid_lens = &lens_view;
      auto options = sized_options<fovea_mha_options>();
      options.attention = &attention;
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> out = layer.make_out();
        REQUIRE(out.shape() == Shape{2, 4, 100});
        REQUIRE_OK(layer.run(context, layer.make_weights(context), out, &options));
        for_each_index(out.shape(), [&](const Shape &index) {
          CHECK(out.at(index) == doctest::Approx(expected[static_cast<size_t>(index[2])]).epsilon(1e-5));
        });
      });
    }
  }

  TEST_CASE("the bits of linear, rotary, attention, linear: every option") {
    Random random(base_seed());
    for (Inputs inputs : kInputs) {
      const MultiHead layer = make_multi_head({.batch = 2,
                                               .query_len = 40,
                                               .key_len = 40,
                                               .query_inputs = 30,
                                               .key_inputs = 21,
                                               .value_inputs = 13,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .head_dim = 16,
                                               .value_dim = 11,
                                               .outputs = 29},
                                              inputs, random);
      const std::pair<const char *, std::function<void(AttentionProblem &)>> settings[] = {
          {"none", [](AttentionProblem &) {}},
          {"causal", [](AttentionProblem &p) { p.flags = FOVEA_CAUSAL; }},
          {"window, offset",
           [](AttentionProblem &p) {
             p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT | FOVEA_QUERY_OFFSET;
             p.window_left = 9;
             p.window_right = 3;
             p.query_offset = 4;
           }},
          {"offsets",
           [](AttentionProblem &p) {
             p.flags = FOVEA_CAUSAL;
             p.set_query_offsets({4, 30});
           }},
          {"top left, leave one out",
           [](AttentionProblem &p) { p.flags = FOVEA_TOP_LEFT | FOVEA_CAUSAL | FOVEA_LEAVE_ONE_OUT; }},
          {"lengths",
           [](AttentionProblem &p) {
             p.set_valid_lens({0, 33});
           }},
          {"lengths per query", [](AttentionProblem &p) { p.set_valid_lens(std::vector<int64_t>(80, 17), true); }},
          {"mask",
           [](AttentionProblem &p) {
             p.set_mask([](int64_t b, int64_t h, int64_t i, int64_t j) { return (b + h + i * j) % 3 != 0; });
           }},
          {"bias", [&](AttentionProblem &p) { p.bias.emplace(p.score_shape()).fill_normal(random); }},
          {"alibi, sinks, soft-cap, scale",
           [&](AttentionProblem &p) {
             p.alibi_slopes.emplace(Shape{4}).fill_normal(random);
             p.sinks.emplace(Shape{4}).fill_normal(random);
             p.softcap = 3;
             p.scale = 0.2f;
           }},
          {"dropout",
           [](AttentionProblem &p) {
             p.dropout = 0.3f;
             p.dropout_seed = 11;
           }},
          {"uniform empty rows",
           [](AttentionProblem &p) {
             p.set_valid_lens({0, 12});
             p.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
           }},
          {"query invariant", [](AttentionProblem &p) { p.flags = FOVEA_QUERY_INVARIANT; }}};
      for (const auto &setting : settings) {
        CAPTURE(setting.first);
        AttentionProblem problem = make_attention(
            {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 40, .key_len = 40, .head_dim = 16, .value_dim = 11},
            random);
        setting.second(problem);
        for (bool weights : {false, true}) {
          for (uint32_t average : {0u, uint32_t{FOVEA_AVERAGE_WEIGHTS}}) {
            problem.flags = (problem.flags & ~uint32_t{FOVEA_AVERAGE_WEIGHTS}) | average;
            const AttentionResult result = problem.make_result(weights);
            const AttentionArguments arguments(problem, result);
            check_composition(layer, &arguments.options);
          }
        }
      }
    }
  }

  TEST_CASE("returned weights and log-sum-exp are attention's") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head(multi_head_sizes()[1], Inputs::kTwo, random);
    const MultiHeadSizes &s = layer.sizes;
    for (uint32_t flags : {0u, uint32_t{FOVEA_AVERAGE_WEIGHTS}}) {
      const auto make_weights = [&] {
        return flags == 0 ? Tensor<float>(Shape{s.batch, s.heads, s.query_len, s.key_len})
                          : Tensor<float>(Shape{s.batch, s.query_len, s.key_len});
      };
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> weights[2] = {make_weights(), make_weights()};
        const Tensor<float> lse[2] = {Tensor<float>(Shape{s.batch, s.heads, s.query_len}),
                                      Tensor<float>(Shape{s.batch, s.heads, s.query_len})};
        const Tensor<float> out[2] = {layer.make_out(), layer.make_out()};
        for (int n : {0, 1}) {
          const fovea_tensor weights_view = weights[n].view(), lse_view = lse[n].view();
          auto attention = sized_options<fovea_attention_options>();
          attention.flags = flags;
          attention.weights = &weights_view;
          attention.log_sum_exp = &lse_view;
          auto options = sized_options<fovea_mha_options>();
          options.attention = &attention;
          if (n == 0) {
            REQUIRE_OK(layer.run(context, layer.make_weights(context), out[n], &options));
          } else {
            layer.compose(context, out[n], &attention);
          }
        }
        CHECK(same_bits(out[0], out[1]));
        CHECK(same_bits(weights[0], weights[1]));
        CHECK(same_bits(lse[0], lse[1]));
      });
    }
  }

  TEST_CASE("rotary inside") {
    Random random(base_seed());
    for (Inputs inputs : kInputs) {
      const MultiHead layer = make_multi_head({.batch = 2,
                                               .query_len = 19,
                                               .key_len = 19,
                                               .query_inputs = 30,
                                               .key_inputs = 21,
                                               .value_inputs = 13,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .head_dim = 18,
                                               .value_dim = 11,
                                               .outputs = 29},
                                              inputs, random);
      Tensor<int32_t> positions(Shape{2, 19});
      int32_t next = 3;
      positions.fill([&] { return next = (next * 7 + 1) % 500; });
      const fovea_tensor positions_view = positions.view();
      for (uint32_t flags : {0u, uint32_t{FOVEA_ROTARY_INTERLEAVED}}) {
        auto rotary = sized_options<fovea_rotary_options>();
        rotary.flags = flags;
        rotary.offset = 5;
        check_composition(layer, nullptr, nullptr, &rotary);
        rotary.rotary_dim = 10;
        rotary.offset = 0;
        rotary.positions = &positions_view;
        check_composition(layer, nullptr, nullptr, &rotary);
      }
    }
  }

  TEST_CASE("any score function in the heads") {
    Random random(base_seed());
    for (int32_t kind : kScoreKinds) {
      const int64_t key_dim = takes_two_dims(kind) ? 9 : 14;
      const AttentionProblem problem = make_scored(kind,
                                                   {.batch = 2,
                                                    .heads = 4,
                                                    .kv_heads = 2,
                                                    .query_len = 23,
                                                    .key_len = 31,
                                                    .head_dim = 14,
                                                    .value_dim = 8,
                                                    .key_dim = key_dim},
                                                   18, random);
      const ScoreArguments score(*problem.score);
      for (Inputs inputs : kInputs) {
        const MultiHead layer = make_multi_head({.batch = 2,
                                                 .query_len = 23,
                                                 .key_len = 31,
                                                 .query_inputs = 30,
                                                 .key_inputs = 21,
                                                 .value_inputs = 13,
                                                 .heads = 4,
                                                 .kv_heads = 2,
                                                 .head_dim = 14,
                                                 .value_dim = 8,
                                                 .key_dim = key_dim,
                                                 .outputs = 29},
                                                inputs, random);
        check_composition(layer, nullptr, &score.score);
      }
    }
  }

  TEST_CASE("random shapes and options") {
    for (int64_t n = 0; n < case_count(60); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      MultiHeadSizes sizes;
      sizes.batch = random.integer(1, 3);
      sizes.query_len = random.integer(1, 90);
      sizes.key_len = random.integer(1, 200);
      sizes.query_inputs = random.integer(1, 90);
      sizes.key_inputs = random.integer(1, 90);
      sizes.value_inputs = random.integer(1, 90);
      sizes.kv_heads = random.integer(1, 3);
      sizes.heads = sizes.kv_heads * random.integer(1, 3);
      sizes.head_dim = 2 * random.integer(1, 20);
      sizes.value_dim = random.integer(1, 40);
      sizes.outputs = random.chance(0.8) ? random.integer(1, 90) : 0;
      sizes.biases = random.chance(0.7);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const MultiHead layer = make_multi_head(sizes, kInputs[random.integer(0, 2)], random);
      check_truth(layer, layer.reference_inputs(), nullptr);
      auto attention = sized_options<fovea_attention_options>();
      attention.flags = random.pick({0, int{FOVEA_CAUSAL}, FOVEA_CAUSAL | FOVEA_TOP_LEFT, int{FOVEA_QUERY_INVARIANT}});
      attention.softcap = random.pick({0.0f, 5.0f});
      attention.dropout = random.pick({0.0f, 0.2f});
      auto rotary = sized_options<fovea_rotary_options>();
      rotary.offset = random.integer(0, 1000);
      check_composition(layer, &attention, nullptr, random.chance(0.5) ? &rotary : nullptr);
    }
  }

  TEST_CASE("nothing to do: no batch, no queries, no keys") {
    Random random(base_seed());
    for (const auto &[batch, query_len, key_len] : {std::array<int64_t, 3>{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
      const MultiHead layer = make_multi_head({.batch = batch,
                                               .query_len = query_len,
                                               .key_len = key_len,
                                               .query_inputs = 10,
                                               .key_inputs = 9,
                                               .heads = 2,
                                               .kv_heads = 1,
                                               .head_dim = 4,
                                               .value_dim = 4,
                                               .outputs = 6},
                                              Inputs::kTwo, random);
      check_composition(layer);
    }
  }
}
