// Multi-head attention turned as today's models are: frequencies, sections, tables, in one call and with a cache.
#include <doctest/doctest.h>

#include <functional>

#include "errors.hpp"
#include "support/accuracy.hpp"
#include "support/kv_cache.hpp"
#include "support/multi_head.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr int64_t kLength = 21, kDim = 16, kPairs = kDim / 2;

MultiHead make_decoder(Random &random) {
  return make_multi_head({.batch = 2,
                          .query_len = kLength,
                          .query_inputs = 30,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = kDim,
                          .value_dim = 12,
                          .outputs = 30},
                         Inputs::kOne, random);
}

// Positions [begin, end) along an axis.
fovea_tensor part(fovea_tensor view, int axis, int64_t begin, int64_t end) {
  view.data = static_cast<char *>(view.data) + 4 * begin * view.strides[axis];
  view.shape[axis] = end - begin;
  return view;
}

// A way to turn: for the whole sequence, and for its rows from `begin` on, of which the cache holds those before.
struct Way {
  const char *name;
  std::function<void(fovea_rotary_options &)> set;
  std::function<void(fovea_rotary_options &, int64_t begin, int64_t end)> follow;
};

struct Tensors {
  Tensor<float> frequencies{Shape{kPairs}}, table{Shape{kLength, kPairs}}, rows{Shape{2, kLength, kPairs}};
  Tensor<int32_t> positions{Shape{3, 2, kLength}}, sections{Shape{kPairs}};
  fovea_tensor frequencies_view = frequencies.view(), table_view = table.view(), rows_view = rows.view();
  fovea_tensor positions_view = positions.view(), sections_view = sections.view();
  fovea_tensor some_rows{}, some_positions{};

  explicit Tensors(Random &random) {
    for (Tensor<float> *tensor : {&frequencies, &table, &rows}) tensor->fill_normal(random);
    positions.fill([&] { return static_cast<int32_t>(random.integer(0, 900)); });
    sections.assign({0, 1, 2, 0, 1, 2, 0, 0});
  }

  std::vector<Way> ways() {
    const auto nothing = [](fovea_rotary_options &, int64_t, int64_t) {};
    return {{"frequencies",
             [this](auto &o) { o.frequencies = &frequencies_view, o.attention_factor = 1.25f; }, nothing},
            {"a table by position", [this](auto &o) { o.cosines = o.sines = &table_view; }, nothing},
            {"sections",
             [this](auto &o) { o.sections = &sections_view, o.positions = &positions_view; },
             [this](auto &o, int64_t begin, int64_t end) {
               some_positions = part(positions_view, 2, begin, end);
               o.positions = &some_positions;
             }},
            {"a table by row",
             [this](auto &o) { o.cosines = o.sines = &rows_view; },
             [this](auto &o, int64_t begin, int64_t end) {
               some_rows = part(rows_view, 1, begin, end);
               o.cosines = o.sines = &some_rows;
             }}};
  }
};

struct Options {
  fovea_attention_options attention = sized_options<fovea_attention_options>();
  fovea_rotary_options rotary = sized_options<fovea_rotary_options>();
  fovea_mha_options options = sized_options<fovea_mha_options>();

  explicit Options(uint32_t flags) {
    attention.flags = flags;
    options.attention = &attention;
    options.rotary = &rotary;
  }
  Options(const Options &) = delete;
  Options &operator=(const Options &) = delete;
};

KvCache make_cache() {
  const fovea_kv_cache_sizes sizes = {sizeof sizes, 2, 2, kLength, kDim, 12, FOVEA_F32, 0};
  fovea_kv_cache *cache = nullptr;
  REQUIRE_OK(fovea_kv_cache_create(&sizes, &cache));
  return KvCache(cache);
}

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("models' rotary inside: the bits of the calls one after the other") {
    Random random(base_seed());
    const MultiHead layer = make_decoder(random);
    Tensors tensors(random);
    for (const Way &way : tensors.ways()) {
      for (const uint32_t flags : {0u, uint32_t{FOVEA_ROTARY_INTERLEAVED}}) {
        CAPTURE(way.name);
        Options given(FOVEA_CAUSAL);
        given.rotary.flags = flags;
        way.set(given.rotary);
        for_each_isa([&](const fovea_context *context) {
          const Tensor<float> out = layer.make_out(), expected = layer.make_out();
          REQUIRE_OK(layer.run(context, layer.make_weights(context), out, &given.options));
          layer.compose(context, expected, &given.attention, nullptr, &given.rotary);
          CHECK(same_bits(out, expected));
        });
      }
    }
  }

  TEST_CASE("models' rotary with a cache that is built step by step: the bits of the full causal call") {
    Random random(base_seed());
    const MultiHead layer = make_decoder(random);
    Tensors tensors(random);
    for (const Way &way : tensors.ways()) {
      CAPTURE(way.name);
      Options given(uint32_t{FOVEA_CAUSAL} | uint32_t{FOVEA_QUERY_INVARIANT});
      way.set(given.rotary);
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Tensor<float> full = layer.make_out();
        REQUIRE_OK(layer.run(context, weights, full, &given.options));
        for (const int64_t step : {1, 4, 21}) {
          CAPTURE(step);
          const Tensor<float> out = layer.make_out();
          const KvCache cache = make_cache();
          fovea_mha_options options = given.options;
          fovea_rotary_options rotary = given.rotary;
          options.rotary = &rotary;
          options.cache = cache.get();
          for (int64_t begin = 0; begin < kLength; begin += step) {
            const int64_t end = std::min(begin + step, kLength);
            way.follow(rotary, begin, end);
            const fovea_tensor x = part(layer.query.view(), 1, begin, end), o = part(out.view(), 1, begin, end);
            REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x, nullptr, nullptr, &o, &options));
          }
          CHECK(same_bits(out, full));
        }
      });
    }
  }

  TEST_CASE("models' rotary: bad calls are refused by name, and write nothing") {
    Random random(base_seed());
    const MultiHead layer = make_decoder(random);
    Tensors t(random);
    const MhaWeights weights = layer.make_weights(nullptr);
    const KvCache cache = make_cache();
    const Tensor<float> out = layer.make_out();
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, const auto &spoil) {
      Options given(FOVEA_CAUSAL);
      given.options.cache = cache.get();
      fovea_tensor x = layer.query.view(), to = out.view();
      spoil(given.rotary, to);
      check_refusal(fovea_multi_head_attention(nullptr, weights.get(), &x, nullptr, nullptr, &to, &given.options),
                    expected, words);
      CHECK(out.untouched());
      CHECK(fovea_kv_cache_length(cache.get()) == 0);
    };
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "options.base"},
           [&](auto &o, auto &) { o.frequencies = &t.frequencies_view, o.base = 500; });
    refuse(FOVEA_BAD_SHAPE, {"options.rotary", "cosines.shape[0]"},
           [&](auto &o, auto &) { o.cosines = o.sines = &t.table_view, o.offset = 1; });
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "options.offset", "rank 3"},
           [&](auto &o, auto &) { o.cosines = o.sines = &t.rows_view, o.offset = 1; });
    // Each tensor under the output.
    const auto over = [&](const std::string &name, const fovea_tensor *fovea_rotary_options::*member, const auto &rest) {
      Tensor<float> shared(out.shape());
      shared.fill([] { return 0.0f; });
      fovea_tensor given{};
      refuse(FOVEA_OVERLAP, {"out", name}, [&](auto &o, auto &to) {
        rest(o);
        given = *(o.*member);
        given.data = shared.data();
        o.*member = &given;
        to = shared.view();
      });
      for (const float value : shared.dense()) REQUIRE(value == 0.0f);
    };
    over("options.rotary.frequencies", &fovea_rotary_options::frequencies, [&](auto &o) { o.frequencies = &t.frequencies_view; });
    over("options.rotary.cosines", &fovea_rotary_options::cosines, [&](auto &o) { o.cosines = o.sines = &t.table_view; });
    over("options.rotary.sines", &fovea_rotary_options::sines, [&](auto &o) { o.cosines = o.sines = &t.table_view; });
    const auto sections = [&](auto &o) { o.sections = &t.sections_view, o.positions = &t.positions_view; };
    over("options.rotary.sections", &fovea_rotary_options::sections, sections);
    over("options.rotary.positions", &fovea_rotary_options::positions, sections);
  }

  TEST_CASE("models' rotary: a table by row needs as many queries as keys") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = kLength,
                                             .key_len = 9,
                                             .query_inputs = 30,
                                             .key_inputs = 30,
                                             .value_inputs = 30,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = kDim,
                                             .value_dim = 12,
                                             .outputs = 30},
                                            Inputs::kTwo, random);
    Tensors t(random);
    Options given(0);
    given.rotary.cosines = given.rotary.sines = &t.rows_view;
    const Tensor<float> out = layer.make_out();
    check_refusal(layer.run(nullptr, layer.make_weights(nullptr), out, &given.options), FOVEA_BAD_SHAPE,
                  {"key has 9 positions", "21", "options.rotary.cosines"});
    CHECK(out.untouched());
  }
}
