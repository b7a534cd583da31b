// Products whose operands have 16 bits, in any mix: bit by bit what float32 gives of the same numbers, rounded once.
// Only where two of a type meet the processor's own products of it is the order of a sum another one.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <optional>

#include "errors.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

struct Types {
  fovea_dtype x = FOVEA_F32, weight = FOVEA_F32, bias = FOVEA_F32, residual = FOVEA_F32, out = FOVEA_F32;
};

constexpr fovea_dtype kTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
constexpr Types kAllBfloat16 = {FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_BF16, FOVEA_BF16};

fovea_dtype any_type(Random &random) { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); }

Types any_types(Random &random) {
  return {any_type(random), any_type(random), any_type(random), any_type(random), any_type(random)};
}

// An operand as it is given: in memory of its own where it has 16 bits.
class Given {
 public:
  Given(const Tensor<float> &from, fovea_dtype dtype) : view_(from.view()), dtype_(dtype) {
    if (dtype == FOVEA_F32 || from.shape().empty()) return;  // the latter: there is none
    narrow_.emplace(from, dtype);
    view_ = narrow_->view();
  }
  const fovea_tensor *get() const { return &view_; }
  bool gaps_untouched() const { return !narrow_ || narrow_->gaps_untouched(); }

  // Its elements in row-major order, of a float32 tensor those of `floats`.
  std::vector<float> dense(const Tensor<float> &floats) const {
    if (!narrow_) return floats.dense();
    std::vector<float> values;
    for_each_index(floats.shape(), [&](const Shape &at) { values.push_back(widened(narrow_->at(at), dtype_)); });
    return values;
  }

 private:
  std::optional<NarrowTensor> narrow_;
  fovea_tensor view_;
  fovea_dtype dtype_;
};

void round_all(Tensor<float> &tensor, fovea_dtype dtype) {
  const std::vector<float> dense = tensor.dense();
  size_t next = 0;
  tensor.fill([&] { return rounded_to(dense[next++], dtype); });
}

// The layer with numbers that its types can hold.
void round_operands(Layer &layer, const Types &types) {
  round_all(layer.x, types.x);
  round_all(layer.weight, types.weight);
  round_all(layer.bias, types.bias);
  round_all(layer.residual, layer.in_place ? types.out : types.residual);
  round_all(layer.multiplier, layer.multiplies_out() ? types.out : types.residual);
}

Packed pack_as(const fovea_context *context, const Layer &layer, fovea_dtype dtype) {
  const Given weight(layer.weight, dtype);
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(
      linear_pack(context, weight.get(), layer.out_in ? int{FOVEA_WEIGHT_OUT_IN} : int{FOVEA_WEIGHT_IN_OUT}, &packed));
  return Packed(packed);
}

// What the layer gives in these types, widened. The multiplier has the residual's.
std::vector<float> run_layer(const fovea_context *context, const Layer &layer, const Types &types) {
  const Packed packed = pack_as(context, layer, types.weight);
  const Tensor<float> floats = layer.make_out();
  const Given x(layer.x, types.x), bias(layer.bias, types.bias), residual(layer.residual, types.residual),
      multiplier(layer.multiplier, types.residual), out(floats, types.out);
  fovea_linear_options options = {sizeof options, layer.activation, 0, nullptr, nullptr, nullptr};
  if (layer.has_bias) options.bias = bias.get();
  if (layer.has_residual) options.residual = layer.in_place ? out.get() : residual.get();
  if (layer.has_multiplier) options.multiplier = layer.multiplies_out() ? out.get() : multiplier.get();
  REQUIRE_OK(fovea_linear(context, x.get(), packed.get(), out.get(), &options));
  CHECK(out.gaps_untouched());
  CHECK(floats.gaps_untouched());
  return out.dense(floats);
}

bool takes_products(const fovea_context *context, const Types &types) {
  return types.x == types.weight && types.x != FOVEA_F32 && has_products_of(types.x, context);
}

// Against the formula: as float32's (support/linear_layer.hpp), then the rounding of the output.
void check_near(const Layer &layer, const std::vector<float> &out, fovea_dtype dtype) {
  const reference::LinearInputs inputs = inputs_of(layer);
  auto truth = reference::linear<double>(inputs);
  auto plain = reference::linear<float>(inputs);
  const double rounding = dtype == FOVEA_F32 ? 0 : dtype == FOVEA_F16 ? 0x1p-11 : 0x1p-8;
  std::vector<double> bounds;
  for (size_t i = 0; i < truth.out.size(); ++i) {
    if (dtype != FOVEA_F32 && std::isinf(rounded_to(static_cast<float>(truth.out[i]), dtype))) {
      plain.out[i] = rounded_to(static_cast<float>(truth.out[i]), dtype);
      truth.out[i] = plain.out[i];
    }
    const double results = 14 * std::abs(truth.activated[i]) + 2 * std::abs(truth.out[i]);
    bounds.push_back(kEpsilon * (2.26 * (2 + static_cast<double>(inputs.depth)) * truth.magnitude[i] + results) +
                     rounding * std::abs(truth.out[i]) + (dtype == FOVEA_F16 ? 0x1p-25 : 0x1p-120));
  }
  CHECK_EQ(judge_elements(out, truth.out, plain.out, bounds), "");
}

bool same_but_nan(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }

void check_types(Layer &layer, const Types &types) {
  CAPTURE(layer.x.shape());
  CAPTURE(layer.columns());
  CAPTURE(types.x);
  CAPTURE(types.weight);
  CAPTURE(types.bias);
  CAPTURE(types.residual);
  CAPTURE(types.out);
  CAPTURE(layer.activation);
  CAPTURE(layer.out_in);
  CAPTURE(layer.in_place);
  round_operands(layer, types);
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> out = run_layer(context, layer, types);
    if (takes_products(context, types)) return check_near(layer, out, types.out);
    const std::vector<float> truth = run_layer(context, layer, {});
    int64_t wrong = 0;
    for (size_t n = 0; n < truth.size(); ++n) wrong += same_but_nan(out[n], rounded_to(truth[n], types.out)) ? 0 : 1;
    CHECK_EQ(wrong, 0);
  });
}

void check_types(Layer &&layer, const Types &types) { check_types(layer, types); }

}  // namespace

TEST_SUITE("products of 16 bits") {
  TEST_CASE("by hand") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for_each_isa([&](const fovea_context *context) {
        Layer layer;
        layer.x = Tensor<float>({2, 3});
        layer.weight = Tensor<float>({2, 3});
        layer.x.assign({1, 2, 3, -4, 5, 0.5f});
        layer.weight.assign({1, 1, 1, 2, 0, -1});
        layer.out_in = true;
        CHECK(run_layer(context, layer, {dtype, dtype, dtype, dtype, dtype}) == std::vector<float>{6, -1, 1.5f, -8.5f});
      });
    }
  }

  TEST_CASE("every mix of types") {
    Random random(base_seed());
    for (const fovea_dtype x : kTypes) {
      for (const fovea_dtype weight : kTypes) {
        for (const fovea_dtype out : kTypes) {
          for (const fovea_dtype added : kTypes) {
            const Types types = {x, weight, added, any_type(random), out};
            check_types(make_layer(random, {random.integer(1, 30), random.integer(1, 40)}, random.integer(1, 140)),
                        types);
          }
        }
      }
    }
  }

  TEST_CASE("sizes around the edges of tiles, at both ends of a page") {
    Random random(base_seed());
    for (const Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const int64_t size : {0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129}) {
        for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
          const Types all = {dtype, dtype, dtype, dtype, dtype}, weight = {FOVEA_F32, dtype};
          for (const Types &types : {all, weight}) {
            check_types(make_layer(random, {size, 19}, 23), types);
            check_types(make_layer(random, {7, size}, 37), types);
            check_types(make_layer(random, {1, size}, 65), types);
            check_types(make_layer(random, {3, 18}, size), types);
          }
        }
      }
    }
  }

  TEST_CASE("deep products, in several blocks of depth, of even and odd depths and strides") {
    Random random(base_seed());
    for (const int64_t depth : {767, 768, 769, 1536, 1537, 1538, 3075}) {
      for (const int64_t rows : {1, 2, 7, 13, 97}) {
        check_types(make_layer(random, {rows, depth}, 70), kAllBfloat16);
        check_types(make_layer(random, {rows, depth}, 70), any_types(random));
      }
    }
    check_types(make_layer(random, {2, 800}, 1100), kAllBfloat16);
    check_types(make_layer(random, {200, 802}, 17), kAllBfloat16);
  }

  TEST_CASE("what an odd depth is filled up with is 0, not what an earlier call has left there") {
    Random random(base_seed());
    for (const int64_t rows : {5, 700}) {  // copied on the stack, and in the context's scratch memory
      CAPTURE(rows);
      Layer layer = make_layer(random, {rows, 33}, 40), nans = make_layer(random, {rows, 34}, 40);
      layer.x = normal(random, {rows, 33}, {72, 2});
      nans.x = Tensor<float>({rows, 34}, {72, 2});
      nans.x.fill([] { return kNan; });
      for_each_isa([&](const fovea_context *given) {
        const fovea_context *context = shared_context(fovea_isa_name(given), 1);
        const std::vector<float> expected = run_layer(context, layer, kAllBfloat16);
        for (int n = 0; n < 3; ++n) {
          run_layer(context, nans, kAllBfloat16);
          CHECK(same_bits(run_layer(context, layer, kAllBfloat16), expected));
        }
      });
    }
  }

  TEST_CASE("x, weight, bias, residual and out with strides") {
    Random random(base_seed());
    const std::vector<Shape> x_strides = {{810, 1}, {811, 1}, {1, 25}, {0, 1}, {-800, 1}, {1600, 2}, {801, -1}};
    for (const Shape &strides : x_strides) {
      for (const Types &types : {kAllBfloat16, any_types(random), any_types(random)}) {
        Layer layer = make_layer(random, {21, 800}, 200);
        layer.x = normal(random, {21, 800}, strides);
        layer.has_bias = true;
        layer.bias = normal(random, {200}, {random.pick({-1, 0, 2, 7})});
        layer.out_strides = {random.pick({200, 211, -240}), 1};
        if (!layer.in_place) layer.residual = normal(random, {21, 200}, {random.pick({0, 200, -203}), 1});
        const Shape weight = layer.weight.shape();
        layer.weight = normal(random, weight,
                              random.pick({Shape{1, weight[0] + 3}, Shape{2 * weight[1], 2}, Shape{weight[1] + 1, 1}}));
        check_types(layer, types);
      }
    }
  }

  TEST_CASE("random layers of random types") {
    for (int64_t n = 0; n < case_count(300); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t depth = random.chance(0.1) ? random.integer(700, 1700) : random.integer(1, 70);
      const Types types = random.chance(0.3) ? kAllBfloat16 : any_types(random);
      check_types(make_layer(random, {random.integer(1, 3), random.integer(1, 60), depth}, random.integer(1, 150)),
                  types);
    }
  }

  TEST_CASE("matmul, with a right-hand side packed or not, batched or not") {
    Random random(base_seed());
    for (int64_t n = 0; n < case_count(60); ++n) {
      const int64_t batch = random.integer(1, 3), rows = random.integer(1, 40), depth = random.integer(1, 90),
                    columns = random.integer(1, 90);
      const bool shared = random.chance(0.5);
      const fovea_dtype of_a = any_type(random), of_b = any_type(random), of_out = any_type(random);
      const Shape b_shape = shared ? Shape{depth, columns} : Shape{batch, depth, columns};
      Tensor<float> a = normal(random, {batch, rows, depth}), b = normal(random, b_shape);
      if (random.chance(0.5) && !shared) b = normal(random, b_shape, permuted_strides(b_shape, {0, 2, 1}, 1));
      round_all(a, of_a);
      round_all(b, of_b);
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> truth({batch, rows, columns}), floats({batch, rows, columns}), again(truth.shape());
        const fovea_tensor truth_view = truth.view(), a_view = a.view(), b_view = b.view();
        REQUIRE_OK(fovea_matmul(context, &a_view, &b_view, &truth_view));
        const Given x(a, of_a), y(b, of_b), z(floats, of_out), w(again, of_out);
        REQUIRE_OK(fovea_matmul(context, x.get(), y.get(), z.get()));
        const std::vector<float> got = z.dense(floats), expected = truth.dense();
        const bool exact = !takes_products(context, {of_a, of_b});
        int64_t wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const float rounded = rounded_to(expected[i], of_out);
          // A sum in another order, of up to 90 terms, may round to a neighbour.
          const float allowed = 1e-4f + (of_out == FOVEA_F32 ? 0 : 0x1p-7f * std::abs(rounded));
          wrong += exact ? !same_but_nan(got[i], rounded) : !(std::abs(got[i] - rounded) <= allowed);
        }
        CHECK_EQ(wrong, 0);
        if (!shared) return;
        fovea_packed_matrix *made = nullptr;
        REQUIRE_OK(fovea_matmul_pack(context, y.get(), nullptr, &made));
        const Packed packed(made);
        REQUIRE_OK(fovea_matmul_packed(context, x.get(), packed.get(), w.get()));
        CHECK(same_bits(w.dense(again), got));
      });
    }
  }

  TEST_CASE("a packed matrix of 16 bits takes half the memory") {
    Random random(base_seed());
    const Tensor<float> b = normal(random, {256, 192});
    for_each_isa([&](const fovea_context *context) {
      size_t sizes[3] = {};
      for (size_t n = 0; n < 3; ++n) {
        const Given given(b, kTypes[n]);
        fovea_packed_matrix *made = nullptr;
        REQUIRE_OK(fovea_matmul_pack(context, given.get(), nullptr, &made));
        sizes[n] = fovea_packed_matrix_size(made);
        fovea_packed_matrix_destroy(made);
      }
      CHECK_EQ(sizes[1], sizes[0] / 2);
      CHECK_EQ(sizes[2], sizes[0] / 2);
    });
  }

  TEST_CASE("the same bits on 1 to 8 threads, and for each row alone") {
    Random random(base_seed());
    for (const auto &[rows, depth, columns] :
         {std::array<int64_t, 3>{130, 800, 300}, {3, 1601, 700}, {200, 70, 65}, {1, 500, 3000}}) {
      for (const Types &types : {kAllBfloat16, any_types(random)}) {
        Layer layer = make_layer(random, {rows, depth}, columns);
        layer.in_place = layer.has_multiplier = false;
        round_operands(layer, types);
        for (const std::string &isa : instruction_sets()) {
          CAPTURE(isa);
          const std::vector<float> expected = run_layer(shared_context(isa, 1), layer, types);
          for (int threads = 2; threads <= 8; ++threads) {
            CHECK(same_bits(run_layer(shared_context(isa, threads), layer, types), expected));
          }
          const Packed packed = pack_as(shared_context(isa), layer, types.weight);
          const Tensor<float> floats = layer.make_out();
          const Given x(layer.x, types.x), bias(layer.bias, types.bias), residual(layer.residual, types.residual),
              out(floats, types.out);
          for (int64_t row = 0; row < rows; ++row) {
            fovea_tensor one_x = *x.get(), one_out = *out.get(), one_residual = *residual.get();
            for (fovea_tensor *tensor : {&one_x, &one_out, &one_residual}) {
              const int64_t size = tensor->dtype == FOVEA_F32 ? 4 : 2;
              tensor->data = static_cast<char *>(tensor->data) + row * tensor->strides[0] * size;
              tensor->shape[0] = 1;
            }
            fovea_linear_options options = {sizeof options, layer.activation, 0, nullptr, nullptr, nullptr};
            if (layer.has_bias) options.bias = bias.get();
            if (layer.has_residual) options.residual = &one_residual;
            REQUIRE_OK(fovea_linear(shared_context(isa), &one_x, packed.get(), &one_out, &options));
          }
          CHECK(same_bits(out.dense(floats), expected));
        }
      }
    }
  }

  TEST_CASE("NaN and infinity reach exactly their rows, columns and elements") {
    Random random(base_seed());
    for (const Types &types : {kAllBfloat16, Types{FOVEA_F16, FOVEA_F16, FOVEA_F16, FOVEA_F16, FOVEA_F16},
                               Types{FOVEA_F32, FOVEA_BF16}, Types{FOVEA_BF16, FOVEA_F32}}) {
      for (const int64_t depth : {30, 31}) {
        Layer layer = make_layer(random, {20, depth}, 40);
        layer.activation = FOVEA_ACTIVATION_NONE;
        layer.has_bias = layer.has_residual = true;
        layer.has_multiplier = false;
        layer.x(7, 3) = kNan;
        layer.x(9, depth - 1) = kInfinity;
        (layer.out_in ? layer.weight(8, depth - 1) : layer.weight(depth - 1, 8)) = kInfinity;
        layer.bias(5) = kNan;
        layer.bias(6) = -kInfinity;
        layer.residual(1, 38) = kNan;
        layer.residual(2, 39) = -kInfinity;
        check_types(layer, types);
      }
    }
  }

  TEST_CASE("extremes: the largest numbers, subnormal ones, outputs past the largest") {
    Random random(base_seed());
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      // For bfloat16 the largest number whose sums do not overflow half way, as the order of sums is up to the kernels.
      const float most = widened(dtype == FOVEA_F16 ? 0x7bff : 0x7b7f, dtype);
      for (const fovea_dtype weight : {fovea_dtype{FOVEA_F32}, dtype}) {
        Layer layer = make_layer(random, {9, 20}, 40);
        layer.activation = FOVEA_ACTIVATION_NONE;
        layer.has_residual = layer.has_bias = layer.has_multiplier = false;
        layer.x.fill([&] { return random.pick({most, -most, widened(1, dtype), widened(0x8003, dtype), 1.0f, 0.0f}); });
        layer.weight.fill([&] { return random.pick({0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f, -2.0f}); });
        Types types = {dtype, weight, FOVEA_F32, FOVEA_F32, dtype};
        check_types(layer, types);
        types.out = FOVEA_F16;
        check_types(layer, types);
      }
    }
    // A sum below bfloat16's and binary16's smallest normal numbers, and one that rounds up to infinity.
    for (const fovea_dtype out : kTypes) {
      Layer layer = make_layer(random, {3, 1}, 3);
      layer.activation = FOVEA_ACTIVATION_NONE;
      layer.has_residual = layer.has_bias = layer.has_multiplier = layer.out_in = false;
      layer.weight = Tensor<float>({1, 3});
      layer.x.assign({1, 3, 0x1.ff8p0f});
      layer.weight.assign({0x1p-24f, 65500, 0x1.fep127f});
      check_types(layer, {FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F32, out});
      check_types(layer, {FOVEA_F16, FOVEA_BF16, FOVEA_F32, FOVEA_F32, out});
    }
  }
}

namespace {

// A call that is right until a test spoils it; its output holds what it held if it is refused.
struct Call {
  Tensor<float> floats{Shape{3, 4}}, weight{Shape{5, 4}}, bias{Shape{5}}, out_floats{Shape{3, 5}};
  std::optional<NarrowTensor> x, out;
  fovea_tensor x_view, bias_view, out_view, residual_view;
  fovea_linear_options options = {};
  Packed packed;

  Call() {
    for (Tensor<float> *tensor : {&floats, &weight, &bias, &out_floats}) tensor->fill([] { return 0.5f; });
    x.emplace(floats, FOVEA_BF16);
    out.emplace(out_floats, FOVEA_BF16);
    x_view = x->view(), bias_view = bias.view(), out_view = residual_view = out->view();
    options = {sizeof options, FOVEA_ACTIVATION_NONE, 0, &bias_view, &residual_view, nullptr};
    packed = pack(nullptr, weight, FOVEA_WEIGHT_OUT_IN);
  }
  fovea_status operator()() const { return fovea_linear(nullptr, &x_view, packed.get(), &out_view, &options); }
};

template <typename Spoil>
void refuse(fovea_status expected, std::initializer_list<std::string> words, Spoil spoil) {
  Call call;
  spoil(call);
  check_refusal(call(), expected, words);
  for_each_index({3, 5}, [&](const Shape &at) { CHECK_EQ(call.out->at(at), narrowed(0.5f, FOVEA_BF16)); });
}

}  // namespace

TEST_SUITE("products of 16 bits") {
  TEST_CASE("the unspoiled call adds to a residual of 16 bits in place") {
    const Call call;
    REQUIRE_OK(call());
    CHECK_EQ(call.out->at({2, 4}), narrowed(2.0f, FOVEA_BF16));
  }

  TEST_CASE("types that products do not take, and those that they do, are named") {
    for (const fovea_dtype dtype : {int{FOVEA_I32}, int{FOVEA_F8_E4M3}, int{FOVEA_BOOL}, 99}) {
      const std::string words = "has dtype " + dtype_name(dtype) + ", expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16";
      refuse(FOVEA_BAD_DTYPE, {"x " + words}, [&](Call &call) { call.x_view.dtype = dtype; });
      refuse(FOVEA_BAD_DTYPE, {"out " + words}, [&](Call &call) { call.out_view.dtype = dtype; });
      refuse(FOVEA_BAD_DTYPE, {"bias " + words}, [&](Call &call) { call.bias_view.dtype = dtype; });
      refuse(FOVEA_BAD_DTYPE, {"residual " + words}, [&](Call &call) { call.residual_view.dtype = dtype; });
      const Call call;
      fovea_tensor weight = call.weight.view();
      weight.dtype = dtype;
      fovea_packed_matrix *packed = nullptr;
      check_refusal(linear_pack(nullptr, &weight, FOVEA_WEIGHT_OUT_IN, &packed), FOVEA_BAD_DTYPE, {"weight " + words});
      check_refusal(fovea_matmul_pack(nullptr, &weight, nullptr, &packed), FOVEA_BAD_DTYPE, {"b " + words});
      const fovea_tensor x = call.floats.view(), out = call.out_floats.view();
      check_refusal(fovea_matmul(nullptr, &x, &weight, &out), FOVEA_BAD_DTYPE, {"b " + words});
      CHECK(packed == nullptr);
    }
  }

  // Same address, shape and strides, but other bytes: rows of out would be written over residuals still to be read.
  TEST_CASE("a residual of another type than out must have memory of its own") {
    refuse(FOVEA_OVERLAP, {"out", "residual"}, [](Call &call) { call.residual_view.dtype = FOVEA_F16; });
  }
}
