// Multi-head attention over the sequences of a schedule: a decoder going step by step, sequences of different lengths
// in one call, encoder states that are kept, batches of texts without padding.
#include <doctest/doctest.h>

#include "accuracy.hpp"
#include "support/creation.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/paged_layer.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

MultiHead make_decoder(int64_t length, int64_t batch = 2) {
  Random random(base_seed());
  return make_multi_head({.batch = batch,
                          .query_len = length,
                          .query_inputs = 30,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .value_dim = 12,
                          .outputs = 30},
                         Inputs::kOne, random);
}

fovea_attention_options attention_with(uint32_t flags) {
  auto options = sized_options<fovea_attention_options>();
  options.flags = flags;
  return options;
}

constexpr uint32_t kInvariant = uint32_t{FOVEA_CAUSAL} | uint32_t{FOVEA_QUERY_INVARIANT};

// One call for these pieces of the layer's input, whose results go to the same places of `out`.
void run_pieces(const fovea_context *context, const MultiHead &layer, const MhaWeights &weights, const Pieces &pieces,
                const fovea_mha_options &options, const Tensor<float> &out) {
  const Tensor<float> x = packed_rows(layer.query, pieces);
  const Tensor<float> y({x.shape()[0], layer.sizes.out_features()});
  x.memory().freeze();
  const fovea_tensor x_view = x.view(), y_view = y.view();
  REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x_view, nullptr, nullptr, &y_view, &options));
  unpack_rows(y, pieces, out);
}

// All sequences grow by these pieces.
void step(const fovea_context *context, const MultiHead &layer, const MhaWeights &weights, PagedLayer &paged,
          const Pieces &pieces, fovea_mha_options options, const Tensor<float> &out) {
  paged.grow(counts_of(pieces));
  paged.give(&options);
  run_pieces(context, layer, weights, pieces, options, out);
}

// The layer over its input in chunks of `chunk` positions.
void run_in_steps(const fovea_context *context, const MultiHead &layer, const MhaWeights &weights, int64_t chunk,
                  const fovea_attention_options &attention, const fovea_mha_options &options,
                  const Tensor<float> &out) {
  const int64_t length = layer.sizes.query_len, batch = layer.sizes.batch;
  PagedLayer paged(context, layer.sizes, {.sequences = batch, .tokens = batch * chunk, .positions = length},
                   &attention);
  for (int64_t begin = 0; begin < length; begin += chunk) {
    step(context, layer, weights, paged, pieces_of(batch, begin, std::min(begin + chunk, length)), options, out);
  }
}

// A projection of [B,L,E], as [B L,heads,dim].
Tensor<float> project(const fovea_context *context, const Tensor<float> &x, const Tensor<float> &weight,
                      const Tensor<float> &bias, int64_t heads) {
  const fovea_tensor weight_view = weight.view(), bias_view = bias.view();
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(linear_pack(context, &weight_view, FOVEA_WEIGHT_OUT_IN, &packed));
  auto options = sized_options<fovea_linear_options>();
  options.bias = &bias_view;
  const int64_t rows = x.shape()[0] * x.shape()[1];
  Tensor<float> out({rows, heads, weight.shape()[0] / heads});
  const int64_t x_shape[] = {rows, x.shape()[2]}, out_shape[] = {rows, weight.shape()[0]};
  const fovea_tensor x_view = fovea_tensor_contiguous(x.data(), FOVEA_F32, 2, x_shape);
  const fovea_tensor out_view = fovea_tensor_contiguous(out.data(), FOVEA_F32, 2, out_shape);
  const fovea_status status = fovea_linear(context, &x_view, packed, &out_view, &options);
  fovea_packed_matrix_destroy(packed);
  REQUIRE_OK(status);
  return out;
}

// Rows [B L,heads,dim] of sequence b as pages have them, [heads,L,dim].
std::vector<float> heads_first(const Tensor<float> &rows, int64_t b, int64_t length) {
  std::vector<float> numbers;
  for_each_index({rows.shape()[1], length, rows.shape()[2]},
                 [&](const Shape &at) { numbers.push_back(rows(b * length + at[1], at[0], at[2])); });
  return numbers;
}

// Each row of sequence b up to `length`.
bool same_rows(const Tensor<float> &a, const Tensor<float> &b, int64_t sequence, int64_t length) {
  bool same = true;
  for_each_index({length, a.shape()[2]}, [&](const Shape &at) {
    same = std::memcmp(&a(sequence, at[0], at[1]), &b(sequence, at[0], at[1]), sizeof(float)) == 0 && same;
  });
  return same;
}

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("pages filled step by step give the bits of the full causal call, if queries are to be invariant") {
    const MultiHead layer = make_decoder(70);
    const fovea_attention_options attention = attention_with(kInvariant);
    const auto rotary = sized_options<fovea_rotary_options>();
    for (bool turns : {false, true}) {
      auto options = sized_options<fovea_mha_options>();
      if (turns) options.rotary = &rotary;
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Tensor<float> full = layer.make_out();
        options.attention = &attention;
        REQUIRE_OK(layer.run(context, weights, full, &options));
        options.attention = nullptr;
        for (int64_t chunk : {1, 3, 64, 70}) {
          CAPTURE(chunk);
          const Tensor<float> out = layer.make_out();
          run_in_steps(context, layer, weights, chunk, attention, options, out);
          CHECK(same_bits(out, full));
        }
      });
    }
  }

  TEST_CASE("and without that are as accurate as the full call") {
    const MultiHead layer = make_decoder(70);
    reference::MultiHeadInputs in = layer.reference_inputs();
    in.causal = true;
    const auto truth = reference::multi_head<double>(in);
    const auto plain = reference::multi_head<float>(in);
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      for (int64_t chunk : {1, 3, 64}) {
        const Tensor<float> out = layer.make_out();
        run_in_steps(context, layer, weights, chunk, attention_with(FOVEA_CAUSAL), sized_options<fovea_mha_options>(),
                     out);
        CHECK_ACCURATE(out.dense(), truth.out, plain.out, rounding_floor(truth));
      }
    });
  }

  TEST_CASE("pages hold what linear and rotary give, and are attended") {
    const MultiHead layer = make_decoder(21);
    const MultiHeadSizes &s = layer.sizes;
    const fovea_attention_options attention = attention_with(kInvariant);
    const auto rotary = sized_options<fovea_rotary_options>();
    for (bool turns : {false, true}) {
      auto options = sized_options<fovea_mha_options>();
      if (turns) options.rotary = &rotary;
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        PagedLayer paged(context, s, {.sequences = 2, .tokens = 42, .positions = 21, .page_size = 4}, &attention);
        const Tensor<float> out = layer.make_out(), expected = layer.make_out();
        step(context, layer, weights, paged, pieces_of(2, 0, 21), options, out);
        layer.compose(context, expected, &attention, nullptr, options.rotary);
        CHECK(same_bits(out, expected));
        const Tensor<float> keys = project(context, layer.query, layer.key_weight, layer.key_bias, s.kv_heads);
        const Tensor<float> values = project(context, layer.query, layer.value_weight, layer.value_bias, s.kv_heads);
        if (turns) {
          fovea_tensor heads = keys.view();
          heads.rank = 4;
          const int64_t shape[] = {2, s.kv_heads, 21, 16}, strides[] = {21 * s.kv_heads * 16, 16, s.kv_heads * 16, 1};
          std::copy_n(shape, 4, heads.shape);
          std::copy_n(strides, 4, heads.strides);
          REQUIRE_OK(fovea_rotary(context, &heads, &heads, &rotary));
        }
        for (const int64_t b : {0, 1}) {
          CHECK(same_bits(paged.kept(static_cast<size_t>(b), paged.keys()), heads_first(keys, b, 21)));
          CHECK(same_bits(paged.kept(static_cast<size_t>(b), paged.values()), heads_first(values, b, 21)));
        }
      });
    }
  }

  TEST_CASE("pages of 16 bits: what pages of float32 hold, turned first and then rounded once, is attended") {
    const MultiHead layer = make_decoder(21);
    const fovea_attention_options attention = attention_with(FOVEA_CAUSAL);
    const auto rotary = sized_options<fovea_rotary_options>();
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (bool turns : {false, true}) {
        auto options = sized_options<fovea_mha_options>();
        if (turns) options.rotary = &rotary;
        for_each_isa([&](const fovea_context *context) {
          const MhaWeights weights = layer.make_weights(context);
          const PagedSizes sizes = {.sequences = 2, .tokens = 14, .positions = 21, .page_size = 8};
          PagedSizes narrow_sizes = sizes;
          narrow_sizes.kept = dtype;
          PagedLayer wide(context, layer.sizes, sizes, &attention);
          PagedLayer narrow(context, layer.sizes, narrow_sizes, &attention);
          const Tensor<float> wide_out = layer.make_out(), out = layer.make_out(), expected = layer.make_out();
          for (const int64_t begin : {0, 7, 14}) {
            step(context, layer, weights, wide, pieces_of(2, begin, begin + 7), options, wide_out);
            step(context, layer, weights, narrow, pieces_of(2, begin, begin + 7), options, out);
          }
          // Pages of float32 that hold the same numbers give the same.
          for (const auto &[wide_pages, narrow_pages] :
               {std::pair(wide.keys(), narrow.keys()), std::pair(wide.values(), narrow.values())}) {
            for (const size_t s : {0, 1}) {
              std::vector<float> rounded = wide.kept(s, wide_pages);
              for (float &number : rounded) number = rounded_to(number, dtype);
              CHECK(same_bits(narrow.kept(s, narrow_pages), rounded));
            }
            const int64_t count = wide_pages.shape[0] * wide_pages.strides[0];
            for (int64_t n = 0; n < count; ++n) {
              float &number = static_cast<float *>(wide_pages.data)[n];
              number = rounded_to(number, dtype);
            }
          }
          options.flags = FOVEA_MHA_KEEP_PAGES;
          for (PagedLayer *paged : {&wide, &narrow}) {
            paged->ask({7, 7});
            paged->give(&options);
            run_pieces(context, layer, weights, pieces_of(2, 14, 21), options, paged == &wide ? expected : out);
          }
          options.flags = 0;
          for (const int64_t b : {0, 1}) {
            CHECK(std::memcmp(&out(b, 14, 0), &expected(b, 14, 0), 7 * 30 * sizeof(float)) == 0);
          }
        });
      }
    }
  }

  TEST_CASE("encoder states, projected once and attended at every step") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 5,
                                             .key_len = 40,
                                             .query_inputs = 30,
                                             .key_inputs = 22,
                                             .heads = 4,
                                             .kv_heads = 4,
                                             .head_dim = 8,
                                             .value_dim = 8,
                                             .outputs = 30},
                                            Inputs::kTwo, random);
    const fovea_attention_options attention = attention_with(FOVEA_QUERY_INVARIANT);
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      const Tensor<float> expected = layer.make_out(), out = layer.make_out();
      auto options = sized_options<fovea_mha_options>();
      options.attention = &attention;
      REQUIRE_OK(layer.run(context, weights, expected, &options));
      options.attention = nullptr;
      PagedLayer paged(context, layer.sizes, {.sequences = 2, .tokens = 80, .positions = 40}, &attention);
      const Tensor<float> keys = project(context, layer.key, layer.key_weight, layer.key_bias, 4);
      const Tensor<float> values = project(context, layer.key, layer.value_weight, layer.value_bias, 4);
      paged.grow({40, 40});
      const fovea_tensor k = keys.view(), v = values.view();
      REQUIRE_OK(fovea_schedule_append(paged.schedule(), &k, &v, &paged.keys(), &paged.values(), nullptr));
      options.flags = FOVEA_MHA_KEEP_PAGES;
      paged.give(&options);
      const std::vector<float> held = paged.kept(1, paged.keys());
      for (int64_t i = 0; i < 5; ++i) {
        paged.ask({1, 1});
        run_pieces(context, layer, weights, pieces_of(2, i, i + 1), options, out);
      }
      CHECK(same_bits(out, expected));
      CHECK(same_bits(paged.kept(1, paged.keys()), held));
      CHECK(paged.length(1) == 40);
    });
  }

  TEST_CASE("sequences of different lengths in one call: each has the bits that it has alone") {
    const MultiHead layer = make_decoder(90, 5);
    // What each sequence brings in each step: prompts, single tokens, nothing.
    const std::vector<std::vector<int64_t>> steps = {
        {1, 60, 0, 17, 2}, {1, 1, 33, 0, 1}, {20, 1, 1, 1, 0}, {1, 1, 1, 1, 87}};
    const auto rotary = sized_options<fovea_rotary_options>();
    for (const uint32_t flags : {uint32_t{FOVEA_CAUSAL}, kInvariant}) {
      const fovea_attention_options attention = attention_with(flags);
      auto options = sized_options<fovea_mha_options>();
      options.rotary = &rotary;
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Tensor<float> together = layer.make_out(), alone = layer.make_out();
        PagedLayer paged(context, layer.sizes, {.sequences = 5, .tokens = 130, .positions = 90}, &attention);
        const PagedSizes one = {.tokens = 90, .positions = 90, .page_size = 7};
        std::vector<std::unique_ptr<PagedLayer>> own;
        for (int n = 0; n < 5; ++n) own.push_back(std::make_unique<PagedLayer>(context, layer.sizes, one, &attention));
        std::vector<int64_t> done(5, 0);
        for (const std::vector<int64_t> &counts : steps) {
          Pieces pieces;
          for (size_t s = 0; s < 5; ++s) {
            pieces.emplace_back(done[s], done[s] + counts[s]);
            Pieces its = pieces_of(5, 0, 0);
            its[s] = pieces.back();
            auto with_pages = options;
            own[s]->grow({counts[s]});
            own[s]->give(&with_pages);
            run_pieces(context, layer, weights, its, with_pages, alone);
            done[s] += counts[s];
          }
          step(context, layer, weights, paged, pieces, options, together);
        }
        const Tensor<float> full = layer.make_out();
        auto whole = options;
        whole.attention = &attention;
        REQUIRE_OK(layer.run(context, weights, full, &whole));
        for (size_t s = 0; s < 5; ++s) {
          CAPTURE(s);
          const auto b = static_cast<int64_t>(s);
          CHECK(same_rows(together, alone, b, done[s]));
          if (flags == kInvariant) CHECK(same_rows(together, full, b, done[s]));
        }
      });
    }
  }

  TEST_CASE("packed keys: a batch of texts without padding, each as in a call of its own") {
    const MultiHead layer = make_decoder(65, 4);
    const Pieces pieces = {{0, 7}, {0, 65}, {0, 0}, {0, 1}};
    const auto rotary = sized_options<fovea_rotary_options>();
    for (const uint32_t flags : {uint32_t{FOVEA_QUERY_INVARIANT}, kInvariant}) {
      const fovea_attention_options attention = attention_with(flags);
      for (bool turns : {false, true}) {
        for_each_isa([&](const fovea_context *context) {
          const MhaWeights weights = layer.make_weights(context);
          auto options = sized_options<fovea_mha_options>();
          if (turns) options.rotary = &rotary;
          PagedLayer packed(context, layer.sizes, {.sequences = 4, .tokens = 80, .page_size = 0}, &attention);
          const Tensor<float> out = layer.make_out(), expected = layer.make_out();
          auto scheduled = options;
          packed.grow(counts_of(pieces));
          packed.give(&scheduled);
          run_pieces(context, layer, weights, pieces, scheduled, out);
          options.attention = &attention;
          for (size_t s = 0; s < pieces.size(); ++s) {
            Pieces its = pieces_of(4, 0, 0);
            its[s] = pieces[s];
            run_pieces(context, layer, weights, its, options, expected);
            CHECK(same_rows(out, expected, static_cast<int64_t>(s), pieces[s].second));
          }
        });
      }
    }
  }

  TEST_CASE("with ALiBi and sinks, weights used once, and inputs of three kinds") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.query_len = 40,
                                             .key_len = 40,
                                             .query_inputs = 30,
                                             .key_inputs = 22,
                                             .value_inputs = 13,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 16,
                                             .value_dim = 12},
                                            Inputs::kThree, random);
    Tensor<float> slopes({4}), sinks({4});
    slopes.fill([n = 1.0f]() mutable { return n *= 0.25f; });
    sinks.fill_normal(random);
    const fovea_tensor slopes_view = slopes.view(), sinks_view = sinks.view();
    for_each_isa([&](const fovea_context *context) {
      fovea_attention_options attention = attention_with(kInvariant);
      attention.alibi_slopes = &slopes_view;
      attention.sinks = &sinks_view;
      const MhaWeights weights = layer.make_weights(context);
      const Tensor<float> expected = layer.make_out();
      auto options = sized_options<fovea_mha_options>();
      options.attention = &attention;
      REQUIRE_OK(layer.run(context, weights, expected, &options));
      auto own = attention_with(0);
      own.alibi_slopes = &slopes_view;
      own.sinks = &sinks_view;
      for (const int64_t page_size : {0, 16}) {
        for (const bool once : {false, true}) {
          const PagedSizes sizes = {.tokens = 40, .positions = 40, .page_size = page_size};
          PagedLayer paged(context, layer.sizes, sizes, &attention);
          paged.grow({40});
          auto scheduled = sized_options<fovea_mha_options>();
          scheduled.attention = &own;
          paged.give(&scheduled);
          const Pieces all = {{0, 40}};
          const Tensor<float> q = packed_rows(layer.query, all), k = packed_rows(layer.key, all),
                              v = packed_rows(layer.value, all), y({40, layer.sizes.out_features()});
          const fovea_tensor q_view = q.view(), k_view = k.view(), v_view = v.view(), y_view = y.view();
          const MhaParameters given(layer);
          REQUIRE_OK(once ? fovea_multi_head_attention_once(context, &given.parameters, &q_view, &k_view, &v_view,
                                                            &y_view, &scheduled)
                          : fovea_multi_head_attention(context, weights.get(), &q_view, &k_view, &v_view, &y_view,
                                                       &scheduled));
          CHECK(same_bits(y.dense(), expected.dense()));
        }
      }
    });
  }

  TEST_CASE("the strides of axes of size 1 do not matter") {
    const MultiHead layer = make_decoder(5, 1);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out(), expected = layer.make_out();
    for (const bool any : {false, true}) {
      PagedLayer paged(nullptr, layer.sizes, {.tokens = 5, .positions = 5, .page_size = 8});
      auto options = sized_options<fovea_mha_options>();
      paged.grow({5});
      paged.give(&options);
      fovea_tensor keys = paged.keys(), values = paged.values();
      REQUIRE(keys.shape[0] == 1);
      keys.strides[0] = any ? INT64_MAX : keys.strides[0];
      values.strides[0] = any ? INT64_MIN : values.strides[0];
      options.key_pages = &keys;
      options.value_pages = &values;
      run_pieces(nullptr, layer, weights, {{0, 5}}, options, any ? out : expected);
    }
    CHECK(same_bits(out, expected));
  }

  TEST_CASE("a step without tokens, and none at all, write nothing") {
    const MultiHead layer = make_decoder(4);
    const MhaWeights weights = layer.make_weights(nullptr);
    PagedLayer paged(nullptr, layer.sizes, {.sequences = 2, .tokens = 8, .positions = 9});
    auto options = sized_options<fovea_mha_options>();
    paged.give(&options);
    const Tensor<float> x({0, 30}), y({0, 30});
    const fovea_tensor x_view = x.view(), y_view = y.view();
    for (const bool set : {false, true}) {
      if (set) paged.grow({0, 0});
      for (const uint32_t flags : {0u, uint32_t{FOVEA_MHA_KEEP_PAGES}}) {
        options.flags = flags;
        REQUIRE_OK(fovea_multi_head_attention(nullptr, weights.get(), &x_view, nullptr, nullptr, &y_view, &options));
      }
    }
  }
}
