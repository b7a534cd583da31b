// Multi-head attention turned as today's models are: frequencies, sections, tables, in one call and
// step by step over pages.
#include <doctest/doctest.h>

#include <functional>

#include "errors.hpp"
#include "support/accuracy.hpp"
#include "support/multi_head.hpp"
#include "support/paged_layer.hpp"
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

// A way to turn: for whole sequences, and for pieces of them that a step brings.
struct Way {
  const char *name;
  std::function<void(fovea_rotary_options &)> set;
  std::function<void(fovea_rotary_options &, const Pieces &)> follow;
};

struct Tensors {
  Tensor<float> frequencies{Shape{kPairs}}, table{Shape{kLength, kPairs}}, rows{Shape{2, kLength, kPairs}};
  Tensor<int32_t> positions{Shape{3, 2, kLength}}, sections{Shape{kPairs}};
  fovea_tensor frequencies_view = frequencies.view(), table_view = table.view(), rows_view = rows.view();
  fovea_tensor positions_view = positions.view(), sections_view = sections.view(), first_view = positions.view();
  Tensor<float> some_rows;
  Tensor<int32_t> some_positions;
  fovea_tensor some_rows_view{}, some_positions_view{};

  explicit Tensors(Random &random) {
    for (Tensor<float> *tensor : {&frequencies, &table, &rows}) tensor->fill_normal(random);
    positions.fill([&] { return static_cast<int32_t>(random.integer(0, 900)); });
    sections.assign({0, 1, 2, 0, 1, 2, 0, 0});
    first_view.rank = 2;  // of the first section alone
    first_view.shape[0] = 2, first_view.shape[1] = kLength;
    first_view.strides[0] = kLength, first_view.strides[1] = 1;
  }

  // [sections,T] of these pieces; [T] of one section.
  const fovea_tensor *positions_of(const Pieces &pieces, int64_t sections_of_them) {
    const std::vector<int64_t> counts = counts_of(pieces);
    some_positions = Tensor<int32_t>({sections_of_them, std::accumulate(counts.begin(), counts.end(), int64_t{0})});
    for (int64_t n = 0; n < sections_of_them; ++n) {
      for_each_token(pieces,
                     [&](int64_t s, int64_t i, int64_t token) { some_positions(n, token) = positions(n, s, i); });
    }
    some_positions_view = some_positions.view();
    if (sections_of_them > 1) return &some_positions_view;
    some_positions_view.rank = 1;
    some_positions_view.shape[0] = some_positions_view.shape[1];
    some_positions_view.strides[0] = 1;
    return &some_positions_view;
  }

  // [1,T,pairs]
  const fovea_tensor *rows_of(const Pieces &pieces) {
    some_rows = packed_rows(rows, pieces);
    const int64_t shape[] = {1, some_rows.shape()[0], kPairs};
    some_rows_view = fovea_tensor_contiguous(some_rows.data(), FOVEA_F32, 3, shape);
    return &some_rows_view;
  }

  std::vector<Way> ways() {
    const auto nothing = [](fovea_rotary_options &, const Pieces &) {};
    return {
        {"frequencies", [this](auto &o) { o.frequencies = &frequencies_view, o.attention_factor = 1.25f; }, nothing},
        {"a table by position", [this](auto &o) { o.cosines = o.sines = &table_view; }, nothing},
        {"given positions", [this](auto &o) { o.positions = &first_view; },
         [this](auto &o, const Pieces &pieces) { o.positions = positions_of(pieces, 1); }},
        {"sections", [this](auto &o) { o.sections = &sections_view, o.positions = &positions_view; },
         [this](auto &o, const Pieces &pieces) { o.positions = positions_of(pieces, 3); }},
        {"a table by row", [this](auto &o) { o.cosines = o.sines = &rows_view; },
         [this](auto &o, const Pieces &pieces) { o.cosines = o.sines = rows_of(pieces); }}};
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

  TEST_CASE("models' rotary over pages that are filled step by step: the bits of the full causal call") {
    Random random(base_seed());
    const MultiHead layer = make_decoder(random);
    Tensors tensors(random);
    // Sequences that stand at different positions, and one step for both.
    const std::vector<std::vector<Pieces>> plans = {
        {{{0, 21}, {0, 21}}}, {{{0, 4}, {0, 0}}, {{4, 5}, {0, 13}}, {{5, 21}, {13, 14}}, {{21, 21}, {14, 21}}}};
    for (const Way &way : tensors.ways()) {
      CAPTURE(way.name);
      Options given(uint32_t{FOVEA_CAUSAL} | uint32_t{FOVEA_QUERY_INVARIANT});
      way.set(given.rotary);
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Tensor<float> full = layer.make_out();
        REQUIRE_OK(layer.run(context, weights, full, &given.options));
        for (const std::vector<Pieces> &steps : plans) {
          const Tensor<float> out = layer.make_out();
          PagedLayer paged(context, layer.sizes, {.sequences = 2, .tokens = 42, .positions = kLength},
                           &given.attention);
          fovea_mha_options options = given.options;
          fovea_rotary_options rotary = given.rotary;
          options.attention = nullptr;
          options.rotary = &rotary;
          paged.give(&options);
          for (const Pieces &pieces : steps) {
            paged.grow(counts_of(pieces));
            way.follow(rotary, pieces);
            const Tensor<float> x = packed_rows(layer.query, pieces), y({x.shape()[0], 30});
            const fovea_tensor x_view = x.view(), y_view = y.view();
            REQUIRE_OK(
                fovea_multi_head_attention(context, weights.get(), &x_view, nullptr, nullptr, &y_view, &options));
            unpack_rows(y, pieces, out);
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
    const Tensor<float> out = layer.make_out();
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, const auto &spoil) {
      Options given(FOVEA_CAUSAL);
      fovea_tensor x = layer.query.view(), to = out.view();
      spoil(given.rotary, to);
      check_refusal(fovea_multi_head_attention(nullptr, weights.get(), &x, nullptr, nullptr, &to, &given.options),
                    expected, words);
      CHECK(out.untouched());
    };
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "options.base"},
           [&](auto &o, auto &) { o.frequencies = &t.frequencies_view, o.base = 500; });
    refuse(FOVEA_BAD_SHAPE, {"options.rotary", "cosines.shape[0]"},
           [&](auto &o, auto &) { o.cosines = o.sines = &t.table_view, o.offset = 1; });
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "options.offset", "rank 3"},
           [&](auto &o, auto &) { o.cosines = o.sines = &t.rows_view, o.offset = 1; });
    // Each tensor under the output.
    const auto over = [&](const std::string &name, const fovea_tensor *fovea_rotary_options::*member,
                          const auto &rest) {
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
    over("options.rotary.frequencies", &fovea_rotary_options::frequencies,
         [&](auto &o) { o.frequencies = &t.frequencies_view; });
    over("options.rotary.cosines", &fovea_rotary_options::cosines,
         [&](auto &o) { o.cosines = o.sines = &t.table_view; });
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
