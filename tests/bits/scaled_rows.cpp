// The rows of numbers with scales: keys and values of 8 bits and values of 4, in attention and in pages, and what
// quantising makes of floats and back.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/quantized_rows.hpp"

namespace testing {
namespace {

// What keys and values are kept as. No row of 8 bits beside 8 bits has a multiple of 64 features: their products of
// bytes are of some processors with AVX-512 alone.
struct Kept {
  const char *name;
  fovea_dtype key, value;
};
constexpr Kept kKept[] = {{"keys-i8.values-i8", FOVEA_I8, FOVEA_I8},
                          {"keys-i8.values-u8", FOVEA_I8, FOVEA_U8},
                          {"keys-bf16.values-u8", FOVEA_BF16, FOVEA_U8},
                          {"keys-f32.values-u8", FOVEA_F32, FOVEA_U8}};

// ---- attention ------------------------------------------------------------------------------------------------------

struct ScaledRow {
  Kept kept;
  AttentionRow attention;
  int64_t group = 0;  // features that share a scale; 0: whole rows
};

struct ScaledProblem {
  AttentionProblem problem;
  RaggedRows key, value;

  ScaledProblem(const ScaledRow &row, Numbers &numbers)
      : problem(make_problem(row.attention, numbers)),
        key(rows_of_type(problem.key, row.kept.key, row.group)),
        value(rows_of_type(problem.value, row.kept.value, row.group)) {}

  void run(const fovea_context *context, const AttentionResult &result) const {
    AttentionArguments call(problem, result);
    const std::optional<fovea_tensor> key_scales = key.scales(), value_scales = value.scales();
    call.key = key.view();
    call.value = value.view();
    call.options.key_scales = key_scales ? &*key_scales : nullptr;
    call.options.value_scales = value_scales ? &*value_scales : nullptr;
    REQUIRE_OK(call.run(context));
  }
};

void add_scaled(const std::string &name, const ScaledRow &row, BitsRows &rows) {
  const auto make = [name, row] {
    Numbers numbers(name);
    const auto scaled = std::make_shared<ScaledProblem>(row, numbers);
    return [scaled, weights = row.attention.weights](const fovea_context *context, Digest &digest) {
      const AttentionResult result = scaled->problem.make_result(weights);
      scaled->run(context, result);
      digest.add(result);
    };
  };
  rows.push_back({name, make});
}

void add_scaled_attention(BitsRows &rows) {
  struct Case {
    const char *name;
    int64_t heads, query_len, key_len, dim, value_dim, group;
  };
  // One row of queries reads keys and values where they lie, four read values so, many copies of both; whole rows of 40
  // features are no whole blocks of 32. 1300 keys are split.
  constexpr Case cases[] = {{"one.groups-of-32", 2, 1, 1300, 96, 96, 32},   {"one.whole-rows", 2, 1, 150, 40, 160, 0},
                            {"four.groups-of-32", 8, 1, 1300, 96, 160, 32}, {"four.whole-rows", 2, 4, 150, 40, 96, 0},
                            {"many.groups-of-32", 4, 37, 150, 96, 96, 32},  {"many.whole-rows", 2, 70, 300, 40, 32, 0}};
  for (const Kept &kept : kKept) {
    for (const Case &of : cases) {
      const AttentionSizes sizes = {.batch = 2,
                                    .heads = of.heads,
                                    .kv_heads = 2,
                                    .query_len = of.query_len,
                                    .key_len = of.key_len,
                                    .head_dim = of.dim,
                                    .value_dim = of.value_dim};
      add_scaled(std::string("sdpa.") + kept.name + "." + of.name,
                 {kept, {.sizes = sizes, .weights = of.query_len == 37}, of.group}, rows);
    }
  }
}

// With a mask, and with numbers behind it whose scales are NaN.
void add_scaled_options(BitsRows &rows) {
  const auto spoil_some = [](AttentionProblem &p, Numbers &) {
    p.set_mask([](auto, auto, auto, int64_t j) { return j % 5 != 1; });
    for_each_index(p.value.shape(), [&](const Shape &at) {
      if (at[2] % 5 == 1) p.value.at(at) = kNan;
    });
  };
  const auto causal = [](AttentionProblem &p, Numbers &) { p.flags = FOVEA_CAUSAL; };
  for (const int64_t query_len : {1, 4, 37}) {
    const AttentionSizes sizes = {
        .batch = 2, .heads = 2, .kv_heads = 2, .query_len = query_len, .key_len = 150, .head_dim = 64, .value_dim = 64};
    const std::string name = "sdpa.keys-i8.values-u8.";
    add_scaled(name + "nan-behind." + number(query_len), {kKept[1], {.sizes = sizes, .options = spoil_some}, 32}, rows);
    add_scaled(name + "heads-last." + number(query_len),
               {kKept[1], {.sizes = sizes, .options = causal, .layout = Layout::kHeadsLast}, 64}, rows);
  }
}

// ---- schedules ------------------------------------------------------------------------------------------------------

void add_scaled_pages(BitsRows &rows) {
  const AttentionSizes sizes = {.heads = 8, .kv_heads = 2, .head_dim = 96, .value_dim = 96};
  const std::vector<std::pair<int64_t, int64_t>> mixed = {{1, 700}, {0, 9}, {37, 37}, {4, 130}, {1, 1}, {5, 1400}};
  for (const Kept &kept : kKept) {
    RaggedLayout layout = {.page_size = 16, .key = kept.key, .value = kept.value, .group = 32};
    RaggedRow row = {mixed, layout, {.sizes = sizes}};
    add_ragged(std::string("ragged.pages.") + kept.name, row, rows);
    row.layout.page_size = 7;
    row.layout.group = 0;
    row.layout.page_axes = {0, 2, 1, 3};
    add_ragged(std::string("ragged.pages.odd-size.") + kept.name, row, rows);
  }
}

// ---- quantising -----------------------------------------------------------------------------------------------------

// Rows with what is no number, of zeros, of one number, of large and of small ones, and of some past binary16's least.
void set_odd_rows(const Tensor<float> &x) {
  const int64_t dim = x.shape()[1];
  x(1, dim / 2) = kNan;
  x(2, dim - 1) = -kInfinity;
  for (int64_t d = 0; d < dim; ++d) {
    x(3, d) = 0;
    x(4, d) = 0.7F;
    x(5, d) *= 1e6F;
    x(6, d) *= 1e-7F;
    x(7, d) -= 60000;
  }
}

struct Quantizing {
  int64_t dim, group;
  fovea_dtype from, kept, to;
};

void add_quantizing(const std::string &name, const Quantizing &of, BitsRows &rows) {
  const Shape shape = {11, of.dim};
  const auto make = [=] {
    Numbers numbers(name);
    Tensor<float> floats = numbers.tensor(shape);
    set_odd_rows(floats);
    const auto x = std::make_shared<RaggedRows>(std::move(floats), of.from);
    return [=](const fovea_context *context, Digest &digest) {
      const QuantizedRows quantized(shape, contiguous_strides(shape), of.kept, of.group);
      quantized.quantize(context, x->view());
      digest.add(quantized.dense_numbers());
      for (const uint16_t scale : quantized.dense_scales()) digest.add(widened(scale, FOVEA_F16));
      const Tensor<float> floats_back(shape);
      const NarrowTensor back(floats_back, of.to == FOVEA_F32 ? FOVEA_F16 : of.to);
      const fovea_tensor q = quantized.view(), scales = quantized.scales(),
                         out = of.to == FOVEA_F32 ? floats_back.view() : back.view();
      REQUIRE_OK(fovea_dequantize(context, &q, &scales, &out));
      for_each_index(shape, [&](const Shape &at) {
        digest.add(of.to == FOVEA_F32 ? floats_back.at(at) : widened(back.at(at), of.to));
      });
    };
  };
  rows.push_back({name, make});
}

// All instruction sets give the same bits, so a row has one hash in all files.
void add_quantizing_rows(BitsRows &rows) {
  const Sweep dims = {{32}, {64, 96, 128}, {256}, {1024}};
  for (const fovea_dtype kept : {FOVEA_I8, FOVEA_U8}) {
    const std::string name = kept == FOVEA_I8 ? "quantize.i8." : "quantize.u8.";
    for (const int64_t group : {32, 0}) {
      add_sweep(
          name + (group == 0 ? "whole-rows" : "groups-of-32"), dims,
          [=](const std::string &full, int64_t dim, BitsRows &some) {
            add_quantizing(full, {dim, group, FOVEA_F32, kept, FOVEA_F32}, some);
          },
          rows);
    }
    add_quantizing(name + "from-half-to-brain", {320, 64, FOVEA_F16, kept, FOVEA_BF16}, rows);
    add_quantizing(name + "from-brain-to-half", {320, 160, FOVEA_BF16, kept, FOVEA_F16}, rows);
  }
  add_sweep(
      "quantize.i8.tails", {{1, 2, 3}, {7, 8, 9}, {15, 16, 17}, {31, 33}, {63, 65}, {100}},
      [](const std::string &full, int64_t dim, BitsRows &some) {
        add_quantizing(full, {dim, 0, FOVEA_F32, FOVEA_I8, FOVEA_F32}, some);
      },
      rows);
}

}  // namespace

void add_scaled_rows(BitsRows &rows) {
  add_scaled_attention(rows);
  add_scaled_options(rows);
  add_scaled_pages(rows);
  add_quantizing_rows(rows);
}

}  // namespace testing
