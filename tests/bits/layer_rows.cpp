// Positions, multi-head attention.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/multi_head.hpp"

namespace testing {
namespace {

// ---- positions ------------------------------------------------------------------------------------------------------

struct Rotary {
  Shape shape;
  uint32_t flags = 0;
  float base = 0, position_scale = 0;
  int64_t rotary_dim = 0, offset = 0;
  std::vector<int32_t> positions = {};
  Shape strides = {};
  bool frequencies = false;
  std::vector<int32_t> sections = {};  // positions are of three
  Shape table = {};                    // of cosines and sines
  float attention_factor = 0;
};

void add_rotary(const std::string &name, const Rotary &rotary, BitsRows &rows) {
  const auto make = [name, rotary] {
    Numbers numbers(name);
    const Shape strides = rotary.strides.empty() ? contiguous_strides(rotary.shape) : rotary.strides;
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(rotary.shape, strides));
    const auto made = [&](bool wanted, const Shape &shape) {
      const Shape size = wanted ? shape : Shape{0};
      return std::make_shared<Tensor<float>>(numbers.tensor(size, contiguous_strides(size)));
    };
    const auto frequencies = made(rotary.frequencies, {rotary.shape.back() / 2});
    const auto cosines = made(!rotary.table.empty(), rotary.table), sines = made(!rotary.table.empty(), rotary.table);
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(rotary.shape, strides);
      const fovea_tensor from = x->view(), to = out.view();
      const auto integers = [](const std::vector<int32_t> &values, int64_t parts) {
        const int64_t shape[] = {parts, static_cast<int64_t>(values.size()) / parts};
        return parts > 1 ? fovea_tensor_contiguous(values.data(), FOVEA_I32, 2, shape)
                         : fovea_tensor_contiguous(values.data(), FOVEA_I32, 1, shape + 1);
      };
      const fovea_tensor positions = integers(rotary.positions, rotary.sections.empty() ? 1 : 3);
      const fovea_tensor sections = integers(rotary.sections, 1);
      const fovea_tensor frequencies_view = frequencies->view(), c = cosines->view(), s = sines->view();
      const auto given = [](const fovea_tensor &tensor) { return tensor.shape[0] == 0 ? nullptr : &tensor; };
      auto options = sized_options<fovea_rotary_options>();
      options.flags = rotary.flags;
      options.base = rotary.base;
      options.position_scale = rotary.position_scale;
      options.rotary_dim = rotary.rotary_dim;
      options.offset = rotary.offset;
      options.positions = rotary.positions.empty() ? nullptr : &positions;
      options.frequencies = given(frequencies_view);
      options.sections = given(sections);
      options.cosines = given(c);
      options.sines = given(s);
      options.attention_factor = rotary.attention_factor;
      REQUIRE_OK(fovea_rotary(context, &from, &to, &options));
      digest.add(out);
    };
  };
  rows.push_back({name, make});
}

struct Encoding {
  Shape shape;
  bool added = false;
  float base = 0, dropout = 0;
  int64_t offset = 0;
};

void add_encoding(const std::string &name, const Encoding &encoding, BitsRows &rows) {
  const auto make = [name, encoding] {
    Numbers numbers(name);
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(encoding.shape));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(encoding.shape);
      const fovea_tensor from = x->view(), to = out.view();
      auto options = sized_options<fovea_positional_encoding_options>();
      options.base = encoding.base;
      options.dropout = encoding.dropout;
      options.offset = encoding.offset;
      options.dropout_seed = 5;
      REQUIRE_OK(encoding.added ? fovea_add_positional_encoding(context, &from, &to, &options)
                                : fovea_positional_encoding(context, &to, &options));
      digest.add(out);
    };
  };
  rows.push_back({name, make});
}

void add_frequencies(BitsRows &rows) {
  const auto make = [] {
    return [](const fovea_context *, Digest &digest) {
      Tensor<float> divisors(Shape{64});
      divisors.fill([n = 0]() mutable { return 1.0F + 0.25F * static_cast<float>(n++); });
      const fovea_tensor divisors_view = divisors.view();
      for (int32_t kind = FOVEA_FREQUENCIES_PLAIN; kind <= FOVEA_FREQUENCIES_LLAMA3; ++kind) {
        auto options = sized_options<fovea_rotary_frequencies_options>();
        options.kind = kind;
        options.base = 500000;
        if (kind != FOVEA_FREQUENCIES_PLAIN) options.factor = 8;
        if (kind > FOVEA_FREQUENCIES_LINEAR) options.original_length = 8192;
        if (kind == FOVEA_FREQUENCIES_DYNAMIC) options.length = 20000;
        if (kind == FOVEA_FREQUENCIES_YARN) options.fast_rotations = 32, options.slow_rotations = 1;
        if (kind == FOVEA_FREQUENCIES_LLAMA3) options.low_frequency_factor = 1, options.high_frequency_factor = 4;
        if (kind == FOVEA_FREQUENCIES_LONGROPE) options.short_factors = options.long_factors = &divisors_view;
        const Tensor<float> out(Shape{64}), factor(Shape{1});
        const fovea_tensor to = out.view(), factor_view = factor.view();
        REQUIRE_OK(fovea_rotary_frequencies(&to, &factor_view, &options));
        digest.add(out);
        digest.add(factor);
      }
    };
  };
  rows.push_back({"rotary-frequencies", make});
}

void add_slopes(BitsRows &rows) {
  const auto make = [] {
    return [](const fovea_context *, Digest &digest) {
      for (const int64_t heads : {1, 2, 3, 8, 12, 16, 40}) {
        const Tensor<float> out(Shape{heads});
        const fovea_tensor to = out.view();
        REQUIRE_OK(fovea_alibi_slopes(&to));
        digest.add(out);
      }
    };
  };
  rows.push_back({"alibi-slopes", make});
}

void add_encodings(BitsRows &rows) {
  const Sweep features = {{1, 2, 3}, {7, 8, 9}, {31, 32, 33}, {64}, {100}};
  add_sweep(
      "encoding.features", features,
      [](const std::string &name, int64_t d, BitsRows &some) {
        add_encoding(name, {.shape = {11, d}}, some);
        add_encoding(name, {.shape = {2, 11, d}, .added = true}, some);
      },
      rows);
  add_encoding("encoding.offset", {.shape = {40, 66}, .offset = 1000}, rows);
  add_encoding("encoding.base", {.shape = {40, 66}, .base = 500}, rows);
  add_encoding("encoding.dropout", {.shape = {2, 3, 40, 33}, .added = true, .dropout = 0.25F, .offset = 7}, rows);
  add_encoding("encoding.many", {.shape = {4, 300, 128}, .added = true}, rows);
}

void add_rotaries(BitsRows &rows) {
  for (const uint32_t flags : {uint32_t{0}, uint32_t{FOVEA_ROTARY_INTERLEAVED}}) {
    const std::string how = flags == 0 ? "rotary.halves." : "rotary.neighbours.";
    const auto add = [&](const std::string &what, Rotary rotary) {
      rotary.flags |= flags;
      add_rotary(how + what, rotary, rows);
    };
    const Sweep features = {{2, 4, 6, 8}, {14, 16, 18}, {30, 32, 34}, {64, 66}, {128}};
    add_sweep(
        how + "features", features,
        [&](const std::string &name, int64_t d, BitsRows &some) {
          add_rotary(name, {.shape = {3, 9, d}, .flags = flags}, some);
        },
        rows);
    add("inverse", {.shape = {3, 9, 32}, .flags = FOVEA_ROTARY_INVERSE});
    add("part", {.shape = {3, 9, 50}, .rotary_dim = 22});
    add("offset", {.shape = {1, 1, 64}, .offset = 1000});
    add("scaled", {.shape = {3, 9, 32}, .base = 500, .position_scale = 0.5F});
    add("positions", {.shape = {2, 5, 32}, .positions = {7, 0, 1000, 3, 3}});
    add("heads-last", {.shape = {2, 4, 30, 16}, .strides = {1920, 16, 64, 1}});
    add("many", {.shape = {8, 150, 128}});
    const std::vector<int32_t> places = {7, 0, 1000, 3, 3, 9, 2, 40, 41, 5, 60, 61, 62, 63, 64};
    const std::vector<int32_t> sections = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    add("frequencies", {.shape = {2, 5, 32}, .offset = 90, .frequencies = true, .attention_factor = 1.25F});
    add("sections", {.shape = {2, 5, 32}, .positions = places, .sections = sections});
    add("table", {.shape = {2, 5, 32}, .offset = 2, .table = {9, 16}});
    add("table-by-row", {.shape = {2, 5, 32}, .table = {2, 5, 16}, .attention_factor = 0.75F});
  }
}

// ---- multi-head attention -------------------------------------------------------------------------------------------

MultiHead make_layer(const MultiHeadSizes &s, Inputs inputs, Numbers &numbers) {
  MultiHead layer;
  layer.sizes = s;
  layer.inputs = inputs;
  const int64_t key_inputs = inputs == Inputs::kOne ? s.query_inputs : s.key_inputs;
  const int64_t value_inputs = inputs == Inputs::kThree ? s.value_inputs : key_inputs;
  const auto weight = [&](int64_t out, int64_t in) { return numbers.tensor({out, in}, weight_factor(in)); };
  layer.query = numbers.tensor({s.batch, s.query_len, s.query_inputs});
  if (inputs != Inputs::kOne) layer.key = numbers.tensor({s.batch, s.key_len, key_inputs});
  if (inputs == Inputs::kThree) layer.value = numbers.tensor({s.batch, s.key_len, value_inputs});
  layer.query_weight = weight(s.heads * s.head_dim, s.query_inputs);
  layer.key_weight = weight(s.kv_heads * s.key_size(), key_inputs);
  layer.value_weight = weight(s.kv_heads * s.value_dim, value_inputs);
  layer.out_weight = weight(s.outputs, s.heads * s.value_dim);
  const int64_t some = s.biases ? 1 : 0;
  layer.query_bias = numbers.tensor({some * s.heads * s.head_dim});
  layer.key_bias = numbers.tensor({some * s.kv_heads * s.key_size()});
  layer.value_bias = numbers.tensor({some * s.kv_heads * s.value_dim});
  layer.out_bias = numbers.tensor({some * s.outputs});
  return layer;
}

using LayerCall = std::function<void(const fovea_context *, const MultiHead &, Digest &)>;

void add_layer(const std::string &name, const MultiHeadSizes &sizes, Inputs inputs, const LayerCall &call,
               BitsRows &rows) {
  const std::string full = "multi-head." + name;
  const auto make = [=] {
    Numbers numbers(full);
    const auto layer = std::make_shared<MultiHead>(make_layer(sizes, inputs, numbers));
    return [=](const fovea_context *context, Digest &digest) { call(context, *layer, digest); };
  };
  rows.push_back({full, make});
}

void run_plainly(const fovea_context *context, const MultiHead &layer, Digest &digest) {
  const Tensor<float> out = layer.make_out();
  REQUIRE_OK(layer.run(context, layer.make_weights(context), out));
  digest.add(out);
}

void run_once(const fovea_context *context, const MultiHead &layer, Digest &digest) {
  const MhaParameters given(layer);
  const Tensor<float> out = layer.make_out();
  const fovea_tensor q = layer.query.view(), k = layer.key.view(), v = layer.value.view(), to = out.view();
  REQUIRE_OK(fovea_multi_head_attention_once(context, &given.parameters, &q, &k, &v, &to, nullptr));
  digest.add(out);
}

void run_with_options(const fovea_context *context, const MultiHead &layer, Digest &digest) {
  auto attention = sized_options<fovea_attention_options>();
  attention.flags = FOVEA_CAUSAL | FOVEA_AVERAGE_WEIGHTS;
  const Tensor<float> weights(Shape{layer.sizes.batch, layer.sizes.query_len, layer.key_len()});
  const fovea_tensor view = weights.view();
  attention.weights = &view;
  auto rotary = sized_options<fovea_rotary_options>();
  auto score = sized_options<fovea_score>();
  score.kind = FOVEA_SCORE_GAUSSIAN;
  score.sigma = 3;
  auto options = sized_options<fovea_mha_options>();
  options.attention = &attention;
  options.rotary = &rotary;
  options.score = &score;
  const Tensor<float> out = layer.make_out();
  REQUIRE_OK(layer.run(context, layer.make_weights(context), out, &options));
  digest.add(out);
  digest.add(weights);
}

}  // namespace

void add_position_rows(BitsRows &rows) {
  add_slopes(rows);
  add_encodings(rows);
  add_rotaries(rows);
  add_frequencies(rows);
}

void add_multi_head_rows(BitsRows &rows) {
  int64_t n = 0;
  for (const MultiHeadSizes &sizes : multi_head_sizes()) {
    add_layer("sizes." + number(n++), sizes, Inputs::kThree, run_plainly, rows);
  }
  const MultiHeadSizes sizes = {.batch = 2,
                                .query_len = 40,
                                .key_len = 31,
                                .query_inputs = 30,
                                .key_inputs = 22,
                                .value_inputs = 18,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 16,
                                .value_dim = 12,
                                .outputs = 30};
  add_layer("one-input", sizes, Inputs::kOne, run_plainly, rows);
  add_layer("two-inputs", sizes, Inputs::kTwo, run_plainly, rows);
  add_layer("once", sizes, Inputs::kThree, run_once, rows);
  add_layer("options", sizes, Inputs::kTwo, run_with_options, rows);
}

}  // namespace testing
