// out = activation(x W + bias) + residual: the activations against their formulas, sizes at the edges of tiles,
// strides, in place, the same bits however it is cut, bad arguments.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "errors.hpp"
#include "support/creation.hpp"
#include "support/linear_layer.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

// The activation of each value: a layer of no inputs whose bias they are.
std::vector<float> activate(const fovea_context *context, int32_t activation, const std::vector<float> &values) {
  Layer layer;
  const auto count = static_cast<int64_t>(values.size());
  layer.x = Tensor<float>({1, 0});
  layer.weight = Tensor<float>({0, count});
  layer.bias = Tensor<float>({count});
  layer.bias.assign(values);
  layer.has_bias = true;
  layer.activation = activation;
  const Packed packed = pack(context, layer.weight);
  const Tensor<float> out = layer.make_out();
  REQUIRE_OK(layer.run(context, packed.get(), out));
  return out.dense();
}

double ulps(float value, double truth) {
  int exponent = 0;
  std::frexp(truth, &exponent);
  return std::abs(value - truth) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

}  // namespace

TEST_SUITE("linear") {
  TEST_CASE("by hand") {
    Tensor<float> x({2, 2}), weight({3, 2}), bias({3}), residual({2, 3});
    x.assign({1, 2, 3, 4});
    weight.assign({1, 0, 0, 1, 1, -1});
    bias.assign({0.5f, -3, 0.25f});
    residual.assign({10, 20, 30, 40, 50, 60});
    const fovea_tensor x_view = x.view(), bias_view = bias.view(), residual_view = residual.view();
    for_each_isa([&](const fovea_context *context) {
      const Packed packed = pack(context, weight, FOVEA_WEIGHT_OUT_IN);
      const Tensor<float> out({2, 3});
      const fovea_tensor out_view = out.view();
      REQUIRE_OK(fovea_linear(context, &x_view, packed.get(), &out_view, nullptr));
      CHECK(out.dense() == std::vector<float>{1, 2, -1, 3, 4, -1});
      const fovea_linear_options options = {sizeof options, FOVEA_ACTIVATION_RELU, 0,
                                            &bias_view,     &residual_view,        nullptr};
      REQUIRE_OK(fovea_linear(context, &x_view, packed.get(), &out_view, &options));
      CHECK(out.dense() == std::vector<float>{11.5f, 20, 30, 43.5f, 51, 60});
    });
  }

  TEST_CASE("activations of floats all over the range, as accurate as layers.h says") {
    constexpr uint32_t step = 9973;
    constexpr uint32_t infinity = 0x7f800000;
    std::vector<float> values;
    for (uint32_t sign : {0u, 0x80000000u}) {
      for (uint32_t bits = 0; bits < infinity; bits += step) values.push_back(std::bit_cast<float>(sign | bits));
    }
    for (float x = -14; x < 6; x += 0x1p-13f) values.push_back(x);
    for (int32_t kind : kActivations) {
      CAPTURE(kind);
      std::vector<double> truth;
      for (float x : values) truth.push_back(reference::exact_activation(static_cast<reference::Activation>(kind), x));
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = activate(context, kind, values);
        const double bound = kind == FOVEA_ACTIVATION_GELU ? 7 : kind >= FOVEA_ACTIVATION_GELU_TANH ? 3.5 : 0;
        double worst = 0, flushed = 0;
        for (size_t i = 0; i < out.size(); ++i) {
          if (out[i] == 0) {
            flushed = std::max(flushed, std::abs(truth[i]));
          } else {
            worst = std::max(worst, ulps(out[i], truth[i]));
          }
        }
        CHECK(worst <= bound);
        CHECK(flushed < (bound > 0 ? 1e-35 : 1e-45));
      });
    }
  }

  TEST_CASE("activations of NaN, infinities and zeros") {
    const std::vector<float> values = {kNan, -kNan, kInfinity, -kInfinity, 0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 5.0f};
    for (int32_t kind : kActivations) {
      CAPTURE(kind);
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = activate(context, kind, values);
        CHECK(std::isnan(out[0]));
        CHECK(std::isnan(out[1]));
        CHECK(out[2] == kInfinity);
        CHECK(out[3] == (kind == FOVEA_ACTIVATION_NONE ? -kInfinity : 0.0f));
        for (size_t i = 4; i < 8; ++i) CHECK(std::abs(out[i]) <= 0x1p-149f);
        CHECK(out[8] == doctest::Approx(5).epsilon(0.01));
      });
    }
  }

  TEST_CASE("every activation with every set of options") {
    Random random(base_seed());
    for (int32_t activation : kActivations) {
      for (int options = 0; options < 64; ++options) {
        Layer layer = make_layer(random, {7, 33}, 83);
        layer.activation = activation;
        layer.has_bias = (options & 1) != 0;
        layer.has_residual = (options & 2) != 0;
        layer.in_place = options % 8 >= 6;
        layer.has_multiplier = (options & 16) != 0;
        layer.multiplies_in_place = (options & 32) != 0;
        if ((options & 8) != 0) layer.weight = normal(random, layer.weight.shape());
        check_layer(layer);
      }
    }
  }

  TEST_CASE("sizes around the edges of tiles, at both ends of a page") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t size : {0,  1,  2,  3,  5,  6,  7,  8,  11, 12, 13, 15, 16, 17, 23,  29,  31,  32,
                           33, 47, 48, 49, 61, 63, 64, 65, 79, 80, 81, 95, 96, 97, 100, 127, 128, 129}) {
        check_layer(make_layer(random, {size, 19}, 23));
        check_layer(make_layer(random, {17, size}, 37));
        check_layer(make_layer(random, {5, 19}, size));
        check_layer(make_layer(random, {13, 3}, size));
      }
    }
  }

  TEST_CASE("inputs over several blocks of k, rows over several pieces") {
    Random random(base_seed());
    for (int64_t depth : {767, 768, 769, 1537}) {
      for (int64_t rows : {1, 2, 3, 6, 7, 97}) {
        Layer layer = make_layer(random, {rows, depth}, 70);
        check_layer(layer);
        layer.has_residual = layer.in_place = layer.has_bias = true;
        check_layer(layer);
      }
    }
    for (int64_t rows : {12, 13, 200}) {
      Layer layer = make_layer(random, {rows, 800}, 17);
      layer.has_residual = layer.in_place = true;
      check_layer(layer);
    }
    check_layer(make_layer(random, {2, 800}, 1100));
  }

  TEST_CASE("x, weight, bias, multiplier, residual and out with strides") {
    Random random(base_seed());
    const std::vector<Shape> x_strides = {{810, 1}, {1, 25}, {0, 1}, {-800, 1}, {1600, 2}, {801, -1}};
    for (const Shape &strides : x_strides) {
      Layer layer = make_layer(random, {21, 800}, 600);
      layer.x = normal(random, {21, 800}, strides);
      layer.has_bias = true;
      layer.bias = normal(random, {600}, {random.pick({-1, 0, 2, 7})});
      layer.out_strides = {random.pick({600, 611, -640}), 1};
      if (!layer.in_place) layer.residual = normal(random, {21, 600}, {random.pick({0, 600, -603}), 1});
      layer.has_multiplier = true;
      if (!layer.multiplies_out()) layer.multiplier = normal(random, {21, 600}, {random.pick({0, 600, -605}), 1});
      const Shape weight = layer.weight.shape();
      layer.weight = normal(random, weight, random.chance(0.5) ? Shape{1, weight[0] + 3} : Shape{2 * weight[1], 2});
      check_layer(layer);
    }
  }

  TEST_CASE("x whose elements lie apart, against many panels on one thread") {
    Random random(base_seed());
    for (int64_t depth : {60, 800}) {
      Layer layer = make_layer(random, {13, depth}, 600);
      layer.x = normal(random, {13, depth}, {1, 13});
      for (const std::string &isa : instruction_sets()) {
        const fovea_context *context = shared_context(isa, 1);
        const Packed packed =
            pack(context, layer.weight, layer.out_in ? int{FOVEA_WEIGHT_OUT_IN} : int{FOVEA_WEIGHT_IN_OUT});
        const Tensor<float> out = layer.make_out();
        REQUIRE_OK(layer.run(context, packed.get(), out));
        check_values(layer, out.dense());
      }
    }
  }

  TEST_CASE("batches, evenly spaced or not") {
    Random random(base_seed());
    for (int64_t batch : {0, 1, 2, 5}) {
      for (int64_t rows : {1, 4, 7}) {
        const Shape shape = {batch, rows, 9}, out_shape = {batch, rows, 20};
        for (const std::vector<int> &order : {std::vector<int>{0, 1, 2}, std::vector<int>{1, 0, 2}}) {
          Layer layer = make_layer(random, shape, 20);
          layer.x = normal(random, shape, permuted_strides(shape, order, 2));
          layer.out_strides = permuted_strides(out_shape, order, random.integer(0, 2));
          check_layer(layer);
        }
        Layer layer = make_layer(random, shape, 20);
        layer.residual = normal(random, out_shape, {0, 20, 1});
        layer.multiplier = normal(random, out_shape, {20, 0, 1});
        layer.has_residual = layer.has_multiplier = true;
        layer.in_place = layer.multiplies_in_place = false;
        check_layer(layer);
      }
    }
  }

  TEST_CASE("without options the bits of a matrix product") {
    Random random(base_seed());
    for (int64_t rows : {1, 5, 50}) {
      const Tensor<float> x = normal(random, {rows, 900}), weight = normal(random, {900, 100});
      const fovea_tensor x_view = x.view(), weight_view = weight.view();
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> expected({rows, 100}), out({rows, 100});
        const fovea_tensor expected_view = expected.view(), out_view = out.view();
        const Packed packed = pack(context, weight);
        REQUIRE_OK(fovea_matmul(context, &x_view, &weight_view, &expected_view));
        REQUIRE_OK(fovea_linear(context, &x_view, packed.get(), &out_view, nullptr));
        CHECK(same_bits(out, expected));
      });
    }
  }

  TEST_CASE("the same bits on 1 to 8 threads, and for each row alone") {
    Random random(base_seed());
    for (const auto &[rows, depth, columns] :
         {std::array<int64_t, 3>{130, 800, 700}, {3, 1600, 1300}, {400, 70, 65}, {1, 500, 3000}}) {
      const Layer layer = make_layer(random, {rows, depth}, columns);
      const int32_t layout = layer.out_in ? int{FOVEA_WEIGHT_OUT_IN} : int{FOVEA_WEIGHT_IN_OUT};
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const Packed packed = pack(shared_context(isa), layer.weight, layout);
        const Tensor<float> expected = layer.make_out();
        REQUIRE_OK(layer.run(shared_context(isa, 1), packed.get(), expected));
        for (int threads = 2; threads <= 8; ++threads) {
          const Tensor<float> out = layer.make_out();
          REQUIRE_OK(layer.run(shared_context(isa, threads), packed.get(), out));
          CHECK(same_bits(out, expected));
        }
        const Tensor<float> out = layer.make_out();
        fovea_tensor x = layer.x.view(), z = out.view(), bias = layer.bias.view(), residual = layer.residual.view(),
                     multiplier = layer.multiplier.view();
        fovea_linear_options options = {sizeof options, layer.activation, 0, layer.has_bias ? &bias : nullptr,
                                        nullptr,        nullptr};
        if (layer.has_residual) options.residual = layer.in_place ? &z : &residual;
        if (layer.has_multiplier) options.multiplier = layer.multiplies_out() ? &z : &multiplier;
        x.shape[0] = z.shape[0] = residual.shape[0] = multiplier.shape[0] = 1;
        for (int64_t row = 0; row < rows; ++row) {
          REQUIRE_OK(fovea_linear(shared_context(isa), &x, packed.get(), &z, &options));
          x.data = static_cast<float *>(x.data) + depth;
          z.data = static_cast<float *>(z.data) + columns;
          residual.data = static_cast<float *>(residual.data) + columns;
          multiplier.data = static_cast<float *>(multiplier.data) + columns;
        }
        CHECK(same_bits(out, expected));
      }
    }
  }

  TEST_CASE("NaN and infinity reach exactly their rows, columns and elements") {
    Random random(base_seed());
    for (int32_t activation : kActivations) {
      Layer layer = make_layer(random, {20, 30}, 40);
      layer.activation = activation;
      layer.has_bias = layer.has_residual = true;
      layer.x(7, 3) = kNan;
      layer.x(9, 4) = kInfinity;
      layer.bias(5) = kNan;
      layer.bias(6) = -kInfinity;
      layer.residual(1, 38) = kNan;
      layer.residual(2, 39) = -kInfinity;
      check_layer(layer);
    }
  }

  TEST_CASE("random layers") {
    for (int64_t n = 0; n < case_count(200); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t depth = random.chance(0.2) ? random.integer(700, 1700) : random.integer(1, 70);
      check_layer(make_layer(random, {random.integer(1, 3), random.integer(1, 60), depth}, random.integer(1, 150)));
    }
  }
}

namespace {

// A call that is right until a test spoils it.
struct Call {
  Tensor<float> x{Shape{2, 3, 4}}, weight{Shape{5, 4}}, bias{Shape{5}}, residual{Shape{2, 3, 5}},
      multiplier{Shape{2, 3, 5}}, out{Shape{2, 3, 5}};
  fovea_tensor x_view, bias_view, residual_view, multiplier_view, out_view;
  fovea_linear_options options = {};
  Packed packed;

  Call() {
    for (Tensor<float> *tensor : {&x, &weight, &bias, &residual, &multiplier}) tensor->fill([] { return 0.5f; });
    x_view = x.view(), bias_view = bias.view(), residual_view = residual.view(), out_view = out.view();
    multiplier_view = multiplier.view();
    options = {sizeof options, FOVEA_ACTIVATION_GELU, 0, &bias_view, &residual_view, &multiplier_view};
    packed = pack(nullptr, weight, FOVEA_WEIGHT_OUT_IN);
  }
  fovea_status operator()() const { return fovea_linear(nullptr, &x_view, packed.get(), &out_view, &options); }
};

void refuse(fovea_status expected, std::initializer_list<std::string> words, const std::function<void(Call &)> &spoil) {
  Call call;
  spoil(call);
  check_refusal(call(), expected, words);
  CHECK(call.out.untouched());
}

}  // namespace

TEST_SUITE("linear") {
  TEST_CASE("the unspoiled call is accepted") {
    const Call call;
    REQUIRE_OK(call());
    CHECK(!call.out.untouched());
  }

  TEST_CASE("tensors: NULL, rank, dtype, sizes") {
    using View = fovea_tensor Call::*;
    const std::vector<std::pair<std::string, View>> views = {{"x", &Call::x_view},
                                                             {"out", &Call::out_view},
                                                             {"bias", &Call::bias_view},
                                                             {"multiplier", &Call::multiplier_view},
                                                             {"residual", &Call::residual_view}};
    for (const auto &entry : views) {
      const std::string &name = entry.first;
      const View view = entry.second;
      CAPTURE(name);
      refuse(FOVEA_NULL_POINTER, {name, "NULL"}, [view](Call &call) { (call.*view).data = nullptr; });
      refuse(FOVEA_BAD_DTYPE, {name, " has dtype FOVEA_I32, expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16"},
             [view](Call &call) { (call.*view).dtype = FOVEA_I32; });
      for (int32_t rank : {-1, 0, 4, 7}) {
        refuse(FOVEA_BAD_RANK, {name, std::to_string(rank)}, [view, rank](Call &call) { (call.*view).rank = rank; });
      }
      refuse(FOVEA_SIZE_OVERFLOW, {name}, [view](Call &call) { (call.*view).strides[0] = INT64_MAX / 2; });
      for (int axis = 0; axis < (Call().*view).rank; ++axis) {
        refuse(FOVEA_BAD_SHAPE, {axis_of(name, "shape", axis), "-4"},
               [view, axis](Call &call) { (call.*view).shape[axis] = -4; });
        // Which of two sizes that differ is the wrong one is not known.
        refuse(FOVEA_BAD_SHAPE, {".shape[", "expected"}, [view, axis](Call &call) {
          (call.*view).shape[axis] += 1;
          (call.*view).strides[0] = 100;
          if ((call.*view).rank == 3) (call.*view).strides[1] = 10;
        });
      }
    }
  }

  TEST_CASE("NULL arguments") {
    const Call call;
    check_refusal(fovea_linear(nullptr, nullptr, call.packed.get(), &call.out_view, nullptr), FOVEA_NULL_POINTER,
                  {"x is NULL"});
    check_refusal(fovea_linear(nullptr, &call.x_view, nullptr, &call.out_view, nullptr), FOVEA_NULL_POINTER,
                  {"weight is NULL"});
    check_refusal(fovea_linear(nullptr, &call.x_view, call.packed.get(), nullptr, nullptr), FOVEA_NULL_POINTER,
                  {"out is NULL"});
    const fovea_tensor weight = call.weight.view();
    fovea_packed_matrix *packed = nullptr;
    check_refusal(linear_pack(nullptr, nullptr, FOVEA_WEIGHT_OUT_IN, &packed), FOVEA_NULL_POINTER, {"weight is NULL"});
    check_refusal(linear_pack(nullptr, &weight, FOVEA_WEIGHT_OUT_IN, nullptr), FOVEA_NULL_POINTER, {"packed is NULL"});
    CHECK(packed == nullptr);
    CHECK(call.out.untouched());
  }

  TEST_CASE("layouts, and none for [out,in]") {
    const Tensor<float> weight(Shape{2, 3});
    weight.memory().thaw();
    for (int64_t n = 0; n < 6; ++n) weight.data()[n] = static_cast<float>(n);
    const fovea_tensor view = weight.view();
    fovea_packed_matrix *made = nullptr;
    REQUIRE_OK(fovea_linear_pack(nullptr, &view, nullptr, &made));
    const Packed packed(made);
    Tensor<float> x(Shape{1, 3});
    x.assign({1, 10, 100});
    const Tensor<float> out(Shape{1, 2});
    const fovea_tensor x_view = x.view(), out_view = out.view();
    REQUIRE_OK(fovea_linear(nullptr, &x_view, packed.get(), &out_view, nullptr));
    CHECK(out.dense() == std::vector<float>{210, 543});
  }

  TEST_CASE("weights: layout, rank, dtype, strides") {
    const Tensor<float> weight(Shape{5, 4});
    const auto refuse_weight = [&](fovea_status expected, std::initializer_list<std::string> words, int32_t layout,
                                   const std::function<void(fovea_tensor &)> &spoil) {
      fovea_tensor view = weight.view();
      spoil(view);
      fovea_packed_matrix *packed = nullptr;
      check_refusal(linear_pack(nullptr, &view, layout, &packed), expected, words);
      CHECK(packed == nullptr);
    };
    for (int32_t layout : {-1, 2, INT32_MAX}) {
      refuse_weight(FOVEA_BAD_VALUE, {"options.layout", std::to_string(layout)}, layout, [](fovea_tensor &) {});
    }
    const fovea_tensor good = weight.view();
    const fovea_matmul_pack_options flagged = {sizeof flagged, 4, 0};
    fovea_packed_matrix *none = nullptr;
    check_refusal(fovea_matmul_pack(nullptr, &good, &flagged, &none), FOVEA_BAD_OPTION, {"options.flags", "4"});
    CHECK(none == nullptr);
    for (int32_t layout : {0, 1}) {
      refuse_weight(FOVEA_BAD_RANK, {"weight", "3"}, layout, [](fovea_tensor &view) { view.rank = 3; });
      refuse_weight(FOVEA_BAD_DTYPE, {"weight"}, layout, [](fovea_tensor &view) { view.dtype = FOVEA_I64; });
      refuse_weight(FOVEA_BAD_SHAPE, {"weight.shape[1]", "-1"}, layout, [](fovea_tensor &view) { view.shape[1] = -1; });
      refuse_weight(FOVEA_NULL_POINTER, {"weight"}, layout, [](fovea_tensor &view) { view.data = nullptr; });
      refuse_weight(FOVEA_SIZE_OVERFLOW, {"weight"}, layout, [](fovea_tensor &view) {
        view.shape[0] = view.shape[1] = int64_t{1} << 30;
        view.strides[0] = view.strides[1] = 0;
        view.shape[0] = int64_t{1} << 32;
      });
    }
  }

  TEST_CASE("options") {
    for (int32_t activation : {-1, 5, INT32_MAX, INT32_MIN}) {
      refuse(FOVEA_BAD_VALUE, {"options.activation", std::to_string(activation)},
             [activation](Call &call) { call.options.activation = activation; });
    }
    for (size_t size : {size_t{0}, size_t{8}, sizeof(fovea_linear_options) - 1, size_t{1} << 20}) {
      refuse(FOVEA_BAD_OPTION, {"options.struct_size", std::to_string(size)},
             [size](Call &call) { call.options.struct_size = size; });
    }
    refuse(FOVEA_BAD_RANK, {"residual", "2", "3"}, [](Call &call) { call.residual_view.rank = 2; });
    refuse(FOVEA_BAD_STRIDE, {"residual.strides[2]", "2"}, [](Call &call) { call.residual_view.strides[2] = 2; });
    refuse(FOVEA_BAD_RANK, {"multiplier", "2", "3"}, [](Call &call) { call.multiplier_view.rank = 2; });
    refuse(FOVEA_BAD_STRIDE, {"multiplier.strides[2]", "2"}, [](Call &call) { call.multiplier_view.strides[2] = 2; });
    refuse(FOVEA_BAD_STRIDE, {"out.strides[2]", "2"}, [](Call &call) { call.out_view.strides[2] = 2; });
    refuse(FOVEA_BAD_STRIDE, {"out"}, [](Call &call) { call.out_view.strides[1] = 0; });
    refuse(FOVEA_BAD_RANK, {"out has rank 2"}, [](Call &call) {
      call.out_view.rank = 2;
      call.out_view.shape[0] = 3;
      call.out_view.shape[1] = 5;
      call.out_view.strides[1] = 1;
    });
  }

  TEST_CASE("memory that overlaps out") {
    refuse(FOVEA_OVERLAP, {"out", "x"}, [](Call &call) { call.x_view.data = call.out_view.data; });
    refuse(FOVEA_OVERLAP, {"out", "bias"}, [](Call &call) { call.bias_view.data = call.out.data() + 25; });
    refuse(FOVEA_OVERLAP, {"out", "multiplier"}, [](Call &call) {
      call.multiplier_view.data = call.out_view.data;
      call.multiplier_view.strides[0] = 0;
    });
    refuse(FOVEA_OVERLAP, {"out", "residual"}, [](Call &call) {
      call.residual_view.data = call.out_view.data;
      call.residual_view.strides[0] = 0;
    });
  }

  TEST_CASE("a weight packed for another instruction set") {
    if (instruction_sets().size() < 2) return;
    refuse(FOVEA_BAD_VALUE, {"weight was packed for", instruction_sets().front()}, [](Call &call) {
      call.packed = pack(shared_context(instruction_sets().front()), call.weight, FOVEA_WEIGHT_OUT_IN);
    });
  }
}
