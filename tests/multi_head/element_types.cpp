// Multi-head attention whose inputs, weights, biases and outputs have 16 bits, in any mix: bit by bit what float32
// gives of the same numbers, rounded once, but where bfloat16 meets the processor's own products of it. And float32 at
// medium precision, which may be rounded to that.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "errors.hpp"
#include "support/creation.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr Inputs kInputs[] = {Inputs::kOne, Inputs::kTwo, Inputs::kThree};

struct Types {
  fovea_dtype query = FOVEA_F32, key = FOVEA_F32, value = FOVEA_F32, out = FOVEA_F32;
  fovea_dtype weight[4] = {FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F32};  // query's, key's, value's, out's
  fovea_dtype bias = FOVEA_F32;
};

Types all_of(fovea_dtype dtype) { return {dtype, dtype, dtype, dtype, {dtype, dtype, dtype, dtype}, dtype}; }

Types any_types(Random &random) {
  Types types;
  for (fovea_dtype *type : {&types.query, &types.key, &types.value, &types.out, &types.bias}) {
    *type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  }
  for (fovea_dtype &type : types.weight) type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
  return types;
}

// The tensor in memory of its own where it has 16 bits, its numbers rounded to the type beforehand.
class Given {
 public:
  Given(Tensor<float> &from, fovea_dtype dtype, fovea_tensor *view) {
    if (dtype == FOVEA_F32 || from.shape().empty() || from.count() == 0) return;
    const std::vector<float> dense = from.dense();
    size_t next = 0;
    from.fill([&] { return rounded_to(dense[next++], dtype); });
    narrow_.emplace(from, dtype);
    *view = narrow_->view();
  }
  const std::optional<NarrowTensor> &narrow() const { return narrow_; }

 private:
  std::optional<NarrowTensor> narrow_;
};

struct Output {
  Tensor<float> floats;
  fovea_tensor view;
  Given narrow;
  fovea_dtype dtype;

  Output(const MultiHead &layer, fovea_dtype type)
      : floats(layer.make_out()), view(floats.view()), narrow(floats, type, &view), dtype(type) {}
  std::vector<float> dense() const {
    if (!narrow.narrow()) return floats.dense();
    std::vector<float> values;
    for_each_index(floats.shape(), [&](const Shape &at) { values.push_back(widened(narrow.narrow()->at(at), dtype)); });
    return values;
  }
};

void linear(const fovea_context *context, int32_t precision, const fovea_tensor &x, const fovea_tensor &weight,
            const fovea_tensor *bias, const fovea_tensor &out) {
  auto pack_options = sized_options<fovea_linear_pack_options>();
  pack_options.precision = precision;
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(fovea_linear_pack(context, &weight, &pack_options, &packed));
  auto options = sized_options<fovea_linear_options>();
  options.bias = bias;
  const fovea_status status = fovea_linear(context, &x, packed, &out, &options);
  fovea_packed_matrix_destroy(packed);
  REQUIRE_OK(status);
}

// [B,L,heads x dim] as [B,heads,L,dim].
fovea_tensor heads_of(const fovea_tensor &rows, int64_t heads) {
  const int64_t dim = rows.shape[2] / heads;
  return {
      rows.data, rows.dtype, 4, {rows.shape[0], heads, rows.shape[1], dim}, {rows.strides[0], dim, rows.strides[1], 1}};
}

// A layer with operands of these types, in one call.
struct Narrowed {
  MultiHead layer;
  MhaParameters given;
  fovea_tensor query, key, value;
  Types types;
  std::optional<Given> narrow[11];

  Narrowed(MultiHead from, const Types &of, int32_t precision = FOVEA_PRECISION_DEFAULT)
      : layer(std::move(from)), given(layer), types(of) {
    given.parameters.precision = precision;
    query = layer.query.view(), key = layer.key.view(), value = layer.value.view();
    narrow[0].emplace(layer.query, types.query, &query);
    narrow[1].emplace(layer.key, types.key, &key);
    narrow[2].emplace(layer.value, types.value, &value);
    narrow[3].emplace(layer.query_weight, types.weight[0], &given.query_weight);
    narrow[4].emplace(layer.key_weight, types.weight[1], &given.key_weight);
    narrow[5].emplace(layer.value_weight, types.weight[2], &given.value_weight);
    narrow[6].emplace(layer.out_weight, types.weight[3], &given.out_weight);
    narrow[7].emplace(layer.query_bias, types.bias, &given.query_bias);
    narrow[8].emplace(layer.key_bias, types.bias, &given.key_bias);
    narrow[9].emplace(layer.value_bias, types.bias, &given.value_bias);
    narrow[10].emplace(layer.out_bias, types.bias, &given.out_bias);
  }

  MhaWeights make_weights(const fovea_context *context) const {
    fovea_mha_weights *weights = nullptr;
    REQUIRE_OK(fovea_mha_weights_create(context, &given.parameters, &weights));
    return MhaWeights(weights);
  }

  // Its result, widened.
  std::vector<float> run(const fovea_context *context, const fovea_mha_options *options, bool once) const {
    Output out(layer, types.out);
    const fovea_tensor *k = layer.inputs == Inputs::kOne ? nullptr : &key;
    const fovea_tensor *v = layer.inputs == Inputs::kThree ? &value : nullptr;
    REQUIRE_OK(
        once ? fovea_multi_head_attention_once(context, &given.parameters, &query, k, v, &out.view, options)
             : fovea_multi_head_attention(context, make_weights(context).get(), &query, k, v, &out.view, options));
    return out.dense();
  }

  // The same from fovea_linear, fovea_rotary and fovea_attention, with tensors of that type between them.
  template <typename Between>
  std::vector<float> compose(const fovea_context *context, const fovea_rotary_options *rotary) const {
    const MultiHeadSizes &s = layer.sizes;
    const int32_t precision = given.parameters.precision;
    const auto rows = [&](int64_t length, int64_t features) {
      Tensor<float> zeros({s.batch, length, features});
      zeros.fill([] { return 0.0f; });
      if constexpr (std::is_same_v<Between, NarrowTensor>) {
        return NarrowTensor(zeros, FOVEA_BF16);
      } else {
        return zeros;
      }
    };
    const Between q = rows(s.query_len, s.heads * s.head_dim), k = rows(layer.key_len(), s.kv_heads * s.key_size()),
                  v = rows(layer.key_len(), s.kv_heads * s.value_dim),
                  concat = rows(s.query_len, s.heads * s.value_dim);
    const fovea_tensor &k_input = layer.inputs == Inputs::kOne ? query : key;
    const fovea_tensor &v_input = layer.inputs == Inputs::kThree ? value : k_input;
    linear(context, precision, query, given.query_weight, given.parameters.query_bias, q.view());
    linear(context, precision, k_input, given.key_weight, given.parameters.key_bias, k.view());
    linear(context, precision, v_input, given.value_weight, given.parameters.value_bias, v.view());
    Output out(layer, types.out);
    const fovea_tensor q_heads = heads_of(q.view(), s.heads), k_heads = heads_of(k.view(), s.kv_heads),
                       v_heads = heads_of(v.view(), s.kv_heads),
                       out_heads = heads_of(s.outputs > 0 ? concat.view() : out.view, s.heads);
    if (rotary != nullptr) REQUIRE_OK(fovea_rotary(context, &q_heads, &q_heads, rotary));
    if (rotary != nullptr) REQUIRE_OK(fovea_rotary(context, &k_heads, &k_heads, rotary));
    auto options = sized_options<fovea_attention_options>();
    options.precision = precision;
    REQUIRE_OK(fovea_attention(context, nullptr, &q_heads, &k_heads, &v_heads, &out_heads, &options));
    if (s.outputs > 0) linear(context, precision, concat.view(), given.out_weight, given.parameters.out_bias, out.view);
    return out.dense();
  }

  // Whether the steps hand on bfloat16.
  bool keeps_bfloat16(const fovea_context *context) const {
    const bool medium = given.parameters.precision >= FOVEA_PRECISION_MEDIUM;
    const auto keeps = [&](fovea_dtype dtype) { return dtype == FOVEA_BF16 || (medium && dtype == FOVEA_F32); };
    const bool keys = layer.inputs == Inputs::kOne || keeps(types.key);
    return keeps(types.query) && keys && (layer.inputs != Inputs::kThree || keeps(types.value)) &&
           has_products_of(FOVEA_BF16, context);
  }

  // Whether some step may go through the processor's own products of 16 bits.
  bool takes_products(const fovea_context *context) const {
    const fovea_dtype of_key = layer.inputs == Inputs::kOne ? types.query : types.key;
    const fovea_dtype of_value = layer.inputs == Inputs::kThree ? types.value : of_key;
    const fovea_dtype inputs[] = {types.query, of_key, of_value};
    bool any = false;
    for (int n = 0; n < 3; ++n) {
      const bool same = inputs[n] == types.weight[n] && inputs[n] != FOVEA_F32;
      any = any || (same && has_products_of(inputs[n], context));
    }
    return any;
  }
};

// Options without a schedule: schedule_types.cpp has those.
void check_types(MultiHead layer, const Types &types, const fovea_mha_options *options = nullptr,
                 int32_t precision = FOVEA_PRECISION_DEFAULT) {
  const Narrowed narrowed(std::move(layer), types, precision);
  CAPTURE(types.query);
  CAPTURE(types.key);
  CAPTURE(types.value);
  CAPTURE(types.out);
  CAPTURE(types.bias);
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> floats = narrowed.layer.make_out();
    REQUIRE_OK(narrowed.layer.run(context, narrowed.layer.make_weights(context), floats, options));
    const std::vector<float> truth = floats.dense();
    const bool keeps = narrowed.keeps_bfloat16(context), near = keeps || narrowed.takes_products(context);
    for (const bool once : {false, true}) {
      const std::vector<float> out = narrowed.run(context, options, once);
      int64_t wrong = 0;
      for (size_t n = 0; n < truth.size(); ++n) {
        const float expected = rounded_to(truth[n], types.out);
        // Sums in another order, and perhaps the next number of 16 bits; or a rounding in each of the steps.
        const float allowed = keeps ? 0x1p-5f * (1 + std::abs(expected))
                                    : 1e-4f + (types.out == FOVEA_F32 ? 0 : 0x1p-7f * std::abs(expected));
        wrong +=
            near ? !(std::abs(out[n] - expected) <= allowed) : std::memcmp(&out[n], &expected, sizeof expected) != 0;
      }
      CHECK_EQ(wrong, 0);
      const fovea_rotary_options *rotary = options == nullptr ? nullptr : options->rotary;
      if (keeps) {
        CHECK(same_bits(out, narrowed.compose<NarrowTensor>(context, rotary)));
      }
    }
  });
}

}  // namespace

TEST_SUITE("multi head of 16 bits") {
  TEST_CASE("any types give what float32 gives, rounded once") {
    Random random(base_seed());
    for (const MultiHeadSizes &sizes : multi_head_sizes()) {
      for (const Inputs inputs : kInputs) {
        for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
          check_types(make_multi_head(sizes, inputs, random), all_of(dtype));
        }
        // Inputs that share their memory but not the types of their weights are separate products.
        for (int n = 0; n < 4; ++n) check_types(make_multi_head(sizes, inputs, random), any_types(random));
      }
    }
  }

  TEST_CASE("with rotary") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      Random random(base_seed());
      auto rotary = sized_options<fovea_rotary_options>();
      auto options = sized_options<fovea_mha_options>();
      options.rotary = &rotary;
      check_types(make_multi_head({.batch = 2,
                                   .query_len = 5,
                                   .key_len = 5,
                                   .query_inputs = 24,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 8,
                                   .value_dim = 8,
                                   .outputs = 24},
                                  Inputs::kOne, random),
                  all_of(dtype), &options);
    }
  }

  TEST_CASE("rows of bfloat16 are turned as such: one to five queries, whole heads and parts of them") {
    Random random(base_seed());
    auto rotary = sized_options<fovea_rotary_options>();
    auto options = sized_options<fovea_mha_options>();
    options.rotary = &rotary;
    for (const int64_t length : {1, 5, 40}) {
      for (const uint32_t flags : {0u, uint32_t{FOVEA_ROTARY_INTERLEAVED}}) {
        for (const int64_t dim : {0, 6}) {
          rotary.flags = flags;
          rotary.rotary_dim = dim;
          rotary.offset = 3;
          check_types(make_multi_head({.batch = 2,
                                       .query_len = length,
                                       .key_len = length,
                                       .query_inputs = 30,
                                       .key_inputs = 21,
                                       .value_inputs = 13,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 18,
                                       .value_dim = 11,
                                       .outputs = 29},
                                      random.pick({Inputs::kOne, Inputs::kThree}), random),
                      all_of(FOVEA_BF16), &options);
        }
      }
    }
  }

  TEST_CASE("medium precision: float32 is rounded to bfloat16 in each step, or in none") {
    Random random(base_seed());
    auto rotary = sized_options<fovea_rotary_options>();
    auto options = sized_options<fovea_mha_options>();
    Types mixed;
    mixed.query = mixed.weight[2] = FOVEA_BF16;
    for (const MultiHeadSizes &sizes : multi_head_sizes()) {
      for (const Inputs inputs : kInputs) {
        for (const Types &types : {Types{}, mixed}) {
          check_types(make_multi_head(sizes, inputs, random), types, nullptr, FOVEA_PRECISION_MEDIUM);
          options.rotary = sizes.head_dim % 2 == 0 && sizes.key_size() == sizes.head_dim ? &rotary : nullptr;
          check_types(make_multi_head(sizes, inputs, random), types, &options, FOVEA_PRECISION_MEDIUM);
        }
      }
    }
  }

  TEST_CASE("weights of 8 bits: the bits of layers and attention one after the other") {
    Random random(base_seed());
    Types mixed;
    mixed.query = mixed.weight[2] = FOVEA_BF16;
    for (const MultiHeadSizes &sizes : multi_head_sizes()) {
      for (const Inputs inputs : kInputs) {
        for (const Types &types : {Types{}, mixed, all_of(FOVEA_BF16)}) {
          const Narrowed narrowed(make_multi_head(sizes, inputs, random), types, FOVEA_PRECISION_INT8);
          for_each_isa([&](const fovea_context *context) {
            const std::vector<float> expected = narrowed.keeps_bfloat16(context)
                                                    ? narrowed.compose<NarrowTensor>(context, nullptr)
                                                    : narrowed.compose<Tensor<float>>(context, nullptr);
            for (const bool once : {false, true}) CHECK(same_bits(narrowed.run(context, nullptr, once), expected));
          });
        }
      }
    }
  }

  TEST_CASE("weights take their context's precision; a call has the last word on what is float32 but those") {
    const MultiHeadSizes sizes = {.batch = 2,
                                  .query_len = 70,
                                  .key_len = 70,
                                  .query_inputs = 128,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .value_dim = 16,
                                  .outputs = 64};
    const auto make = [&] {
      Random random(base_seed());
      return make_multi_head(sizes, Inputs::kOne, random);
    };
    const Narrowed floats(make(), {}), medium(make(), {}, FOVEA_PRECISION_MEDIUM);
    Types bfloat16_weights;
    for (fovea_dtype &type : bfloat16_weights.weight) type = FOVEA_BF16;
    const Narrowed rounded(make(), bfloat16_weights);
    auto options = sized_options<fovea_mha_options>();
    for_each_isa([&](const fovea_context *context) {
      options.precision = FOVEA_PRECISION_HIGHEST;
      const bool pairs = has_products_of(FOVEA_BF16, context);
      const std::vector<float> highest = floats.run(context, nullptr, false);
      CHECK(same_bits(medium.run(context, &options, false), pairs ? rounded.run(context, nullptr, false) : highest));
      CHECK(same_bits(floats.run(context, &options, true), highest));
      options.precision = FOVEA_PRECISION_MEDIUM;
      const std::vector<float> both = medium.run(context, nullptr, false);
      CHECK_EQ(same_bits(both, highest), !pairs);
      CHECK(same_bits(medium.run(context, &options, true), both));
      const OwnContext set = make_context(fovea_isa_name(context), FOVEA_PRECISION_MEDIUM);
      CHECK(same_bits(floats.run(set.get(), nullptr, false), both));
      // Weights of bfloat16 stay so where it is not multiplied.
      CHECK(same_bits(rounded.run(context, &options, false), pairs ? both : rounded.run(context, nullptr, false)));
    });
  }

  TEST_CASE("packed weights of 16 bits take half the memory") {
    const auto make = [] {
      Random random(base_seed());
      return make_multi_head({.query_len = 2,
                              .query_inputs = 128,
                              .heads = 2,
                              .kv_heads = 2,
                              .head_dim = 64,
                              .value_dim = 64,
                              .outputs = 128,
                              .biases = false},
                             Inputs::kOne, random);
    };
    for_each_isa([&](const fovea_context *context) {
      const size_t whole = fovea_mha_weights_size(Narrowed(make(), {}).make_weights(context).get());
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        CHECK_EQ(fovea_mha_weights_size(Narrowed(make(), all_of(dtype)).make_weights(context).get()), whole / 2);
      }
      const Narrowed medium(make(), {}, FOVEA_PRECISION_MEDIUM);
      CHECK_EQ(fovea_mha_weights_size(medium.make_weights(context).get()),
               has_products_of(FOVEA_BF16, context) ? whole / 2 : whole);
    });
  }

  TEST_CASE("types that are not taken are refused by name") {
    Random random(base_seed());
    Narrowed narrowed(make_multi_head(multi_head_sizes()[0], Inputs::kThree, random), {});
    const MhaWeights weights = narrowed.make_weights(nullptr);
    const Tensor<float> out = narrowed.layer.make_out();
    fovea_tensor out_view = out.view();
    const auto call = [&] {
      return fovea_multi_head_attention(nullptr, weights.get(), &narrowed.query, &narrowed.key, &narrowed.value,
                                        &out_view, nullptr);
    };
    const std::pair<const char *, fovea_tensor *> inputs[] = {
        {"query", &narrowed.query}, {"key", &narrowed.key}, {"value", &narrowed.value}, {"out", &out_view}};
    for (const fovea_dtype dtype : {FOVEA_I32, FOVEA_F8_E5M2, FOVEA_BOOL}) {
      const std::string words = " has dtype " + dtype_name(dtype) + ", expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16";
      for (const auto &[name, view] : inputs) {
        view->dtype = dtype;
        check_refusal(call(), FOVEA_BAD_DTYPE, {name + words});
        view->dtype = FOVEA_F32;
      }
      fovea_mha_weights *made = nullptr;
      const auto create = [&] { return fovea_mha_weights_create(nullptr, &narrowed.given.parameters, &made); };
      narrowed.given.key_weight.dtype = dtype;
      check_refusal(create(), FOVEA_BAD_DTYPE, {"parameters.key_weight" + words});
      narrowed.given.key_weight.dtype = FOVEA_F32;
      narrowed.given.out_bias.dtype = dtype;
      check_refusal(create(), FOVEA_BAD_DTYPE, {"parameters.out_bias" + words});
      narrowed.given.out_bias.dtype = FOVEA_F32;
      CHECK(made == nullptr);
    }
    CHECK(out.untouched());
  }
}
