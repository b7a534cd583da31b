// FOVEA_PRECISION_* of products: float32 that may be rounded to bfloat16 where the processor multiplies that more
// quickly. The result is that of operands that were rounded before, bit by bit, and elsewhere float32's. And the copies
// of rows that are made on the way, of any element type.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "errors.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

bool multiplies_bfloat16(const fovea_context *context) {
#if defined(__x86_64__)
  const std::string isa = fovea_isa_name(context);
  return (isa == "avx512" || isa == "amx") && __builtin_cpu_supports("avx512bf16");
#else
  static_cast<void>(context);
  return false;
#endif
}

// The layer with an input and a weight that need not be its own floats.
std::vector<float> run_views(const fovea_context *context, const Layer &layer, const fovea_tensor &x,
                             const fovea_packed_matrix *packed, int32_t precision = FOVEA_PRECISION_DEFAULT) {
  const Tensor<float> out = layer.make_out();
  const fovea_tensor out_view = out.view(), bias = layer.bias.view(),
                     residual = layer.in_place ? out_view : layer.residual.view(),
                     multiplier = layer.multiplies_out() ? out_view : layer.multiplier.view();
  const fovea_linear_options options = {sizeof options,
                                        layer.activation,
                                        precision,
                                        layer.has_bias ? &bias : nullptr,
                                        layer.has_residual ? &residual : nullptr,
                                        layer.has_multiplier ? &multiplier : nullptr};
  REQUIRE_OK(fovea_linear(context, &x, packed, &out_view, &options));
  CHECK(out.gaps_untouched());
  return out.dense();
}

std::vector<float> run_packed_at(const fovea_context *context, const Layer &layer, int32_t precision) {
  const Packed packed = pack_view(context, layer.weight.view(), layer.out_in, precision);
  return run_views(context, layer, layer.x.view(), packed.get());
}

// Medium precision against tensors of bfloat16, in each mix of the two, or else against highest.
void check_medium(const Layer &layer) {
  CAPTURE(layer.x.shape());
  CAPTURE(layer.columns());
  CAPTURE(layer.out_in);
  const NarrowTensor x(layer.x, FOVEA_BF16), weight(layer.weight, FOVEA_BF16);
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> medium = run_packed_at(context, layer, FOVEA_PRECISION_MEDIUM);
    if (!multiplies_bfloat16(context)) {
      CHECK(same_but_nan(medium, run_packed_at(context, layer, FOVEA_PRECISION_HIGHEST)));
      return;
    }
    const Packed of_floats = pack_view(context, layer.weight.view(), layer.out_in, FOVEA_PRECISION_MEDIUM);
    const Packed of_bfloat16 = pack_view(context, weight.view(), layer.out_in, FOVEA_PRECISION_MEDIUM);
    const std::vector<float> truth = run_views(context, layer, x.view(), of_bfloat16.get());
    CHECK(same_but_nan(medium, truth));
    CHECK(same_but_nan(run_views(context, layer, x.view(), of_floats.get()), truth));
    CHECK(same_but_nan(run_views(context, layer, layer.x.view(), of_bfloat16.get()), truth));
  });
}

// What fovea.h says of medium precision: 2^-7 of the sum of magnitudes, beside what float32 may be off by.
void check_bound(const Layer &layer, const std::vector<float> &out) {
  const reference::LinearInputs inputs = inputs_of(layer);
  const auto truth = reference::linear<double>(inputs);
  double worst = 0;
  for (size_t i = 0; i < truth.out.size(); ++i) {
    const double allowed = 0x1p-7 * truth.magnitude[i] +
                           kEpsilon * 2.26 * (2 + static_cast<double>(inputs.depth)) * truth.magnitude[i] + 1e-30;
    worst = std::max(worst, std::abs(static_cast<double>(out[i]) - truth.out[i]) / allowed);
  }
  CHECK(worst <= 1);
}

// A product by fovea_matmul.
std::vector<float> multiply(const fovea_context *context, const fovea_tensor &a, const fovea_tensor &b,
                            const Shape &shape) {
  const Tensor<float> out(shape);
  const fovea_tensor view = out.view();
  REQUIRE_OK(fovea_matmul(context, &a, &b, &view));
  return out.dense();
}

}  // namespace

TEST_SUITE("precision of products") {
  TEST_CASE("medium is what tensors of bfloat16 give, or else float32") {
    Random random(base_seed());
    for (const int64_t rows : {1, 2, 3, 7, 16, 17, 60}) {
      for (const int64_t depth : {1, 2, 3, 31, 33, 300, 769}) {
        check_medium(make_layer(random, {rows, depth}, random.integer(1, 150)));
      }
    }
    check_medium(make_layer(random, {5, 0}, 7));
    check_medium(make_layer(random, {2, 30, 1601}, 70));
    for (int64_t n = 0; n < case_count(60); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random own(seed);
      const WithPlacement placement(own.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      Layer layer = make_layer(own, {own.integer(1, 3), own.integer(1, 60), own.integer(1, 400)}, own.integer(1, 150));
      const Shape weight = layer.weight.shape();
      layer.weight =
          normal(own, weight, own.pick({Shape{1, weight[0] + 3}, Shape{2 * weight[1], 2}, Shape{weight[1] + 1, 1}}));
      check_medium(layer);
    }
  }

  TEST_CASE("medium is within the bound that is stated") {
    Random random(base_seed());
    for (const auto &sizes : {std::array<int64_t, 3>{40, 1, 80}, {7, 64, 130}, {40, 1000, 70}}) {
      const int64_t rows = sizes[0], depth = sizes[1], columns = sizes[2];
      const Layer layer = plain_layer(random, {rows, depth}, columns);
      for_each_isa([&](const fovea_context *context) {
        check_bound(layer, run_packed_at(context, layer, FOVEA_PRECISION_MEDIUM));
        const OwnContext medium = make_context(fovea_isa_name(context), FOVEA_PRECISION_MEDIUM);
        fovea_tensor b = layer.weight.view();
        if (layer.out_in) std::swap(b.shape[0], b.shape[1]), std::swap(b.strides[0], b.strides[1]);
        check_bound(layer, multiply(medium.get(), layer.x.view(), b, {rows, columns}));
      });
    }
  }

  TEST_CASE("NaN, infinity, the largest numbers and subnormal ones") {
    Random random(base_seed());
    Layer layer = make_layer(random, {20, 31}, 40);
    layer.x(7, 3) = kNan;
    layer.x(9, 30) = kInfinity;
    layer.x(11, 2) = 0x1.fffffep127f;  // rounds to infinity
    layer.x(12, 4) = 0x1p-130f;
    layer.x(13, 4) = 0x1.ffffp-127f;  // rounds to a normal number
    layer.weight(3, 5) = -kInfinity;
    layer.weight(4, 6) = 0x1p-128f;
    layer.weight(5, 7) = kNan;
    check_medium(layer);
  }

  TEST_CASE("matmul in a medium context") {
    Random random(base_seed());
    for (int64_t n = 0; n < case_count(40); ++n) {
      const int64_t batch = random.integer(1, 3), rows = random.integer(1, 60), depth = random.integer(1, 500),
                    columns = random.integer(1, 90);
      const bool shared = random.chance(0.5);
      const Shape a_shape = {batch, rows, depth},
                  b_shape = shared ? Shape{depth, columns} : Shape{batch, depth, columns};
      const Shape a_strides = random.pick(
          {contiguous_strides(a_shape), permuted_strides(a_shape, {0, 2, 1}, 1), Shape{rows * depth, depth, 1}});
      const Tensor<float> a = normal(random, a_shape, a_strides), b = normal(random, b_shape);
      const NarrowTensor narrow_a(a, FOVEA_BF16), narrow_b(b, FOVEA_BF16), half_b(b, FOVEA_F16);
      const Shape shape = {batch, rows, columns};
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const fovea_context *usual = shared_context(isa);
        const OwnContext medium = make_context(isa, FOVEA_PRECISION_MEDIUM);
        const std::vector<float> got = multiply(medium.get(), a.view(), b.view(), shape);
        if (!multiplies_bfloat16(usual)) {
          CHECK(same_bits(got, multiply(usual, a.view(), b.view(), shape)));
          continue;
        }
        const std::vector<float> truth = multiply(usual, narrow_a.view(), narrow_b.view(), shape);
        CHECK(same_bits(got, truth));
        CHECK(same_bits(multiply(medium.get(), narrow_a.view(), b.view(), shape), truth));
        CHECK(same_bits(multiply(medium.get(), a.view(), narrow_b.view(), shape), truth));
        // float16 is computed as ever.
        CHECK(same_bits(multiply(medium.get(), a.view(), half_b.view(), shape),
                        multiply(usual, a.view(), half_b.view(), shape)));
        if (!shared) continue;
        fovea_packed_matrix *made = nullptr;
        const fovea_tensor x = a.view(), y = b.view();
        REQUIRE_OK(fovea_matmul_pack(medium.get(), &y, nullptr, &made));
        const Packed packed(made);
        const Tensor<float> out(shape);
        const fovea_tensor out_view = out.view();
        REQUIRE_OK(fovea_matmul_packed(usual, &x, packed.get(), &out_view));
        CHECK(same_bits(out.dense(), got));
      }
    }
  }

  TEST_CASE("highest is the default; packing takes its context's, a call its packing's or its own") {
    Random random(base_seed());
    const Layer layer = make_layer(random, {30, 200}, 100);
    const NarrowTensor weight(layer.weight, FOVEA_BF16);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const fovea_context *usual = shared_context(isa);
      const OwnContext set = make_context(isa, FOVEA_PRECISION_MEDIUM);
      const std::vector<float> highest = run_packed_at(usual, layer, FOVEA_PRECISION_HIGHEST);
      const std::vector<float> medium = run_packed_at(usual, layer, FOVEA_PRECISION_MEDIUM);
      CHECK_EQ(same_bits(highest, medium), !multiplies_bfloat16(usual));
      CHECK(same_bits(run_packed_at(usual, layer, FOVEA_PRECISION_DEFAULT), highest));
      CHECK(same_bits(run_packed_at(usual, layer, FOVEA_PRECISION_HIGH), highest));
      CHECK(same_bits(run_packed_at(set.get(), layer, FOVEA_PRECISION_DEFAULT), medium));
      CHECK(same_bits(run_packed_at(set.get(), layer, FOVEA_PRECISION_HIGHEST), highest));
      // The weight is as it was packed; the rows are the call's affair.
      const Packed floats = pack_view(usual, layer.weight.view(), layer.out_in, FOVEA_PRECISION_HIGHEST),
                   bfloat16 = pack_view(usual, weight.view(), layer.out_in, FOVEA_PRECISION_HIGHEST),
                   rounded = pack_view(usual, layer.weight.view(), layer.out_in, FOVEA_PRECISION_MEDIUM);
      const fovea_tensor x = layer.x.view();
      CHECK(same_bits(run_views(usual, layer, x, floats.get(), FOVEA_PRECISION_MEDIUM), highest));
      CHECK(same_bits(run_views(set.get(), layer, x, floats.get()), highest));
      const std::vector<float> weight_alone = run_views(usual, layer, x, bfloat16.get());
      CHECK(same_bits(run_views(set.get(), layer, x, bfloat16.get()), weight_alone));
      if (!multiplies_bfloat16(usual)) continue;
      CHECK(same_bits(run_views(usual, layer, x, bfloat16.get(), FOVEA_PRECISION_MEDIUM), medium));
      CHECK(same_bits(run_views(usual, layer, x, rounded.get(), FOVEA_PRECISION_HIGHEST), weight_alone));
      CHECK(same_bits(run_views(usual, layer, x, rounded.get(), FOVEA_PRECISION_HIGH), weight_alone));
    }
  }

  TEST_CASE("float16 rows meet a weight as it was packed") {
    Random random(base_seed());
    const Layer layer = plain_layer(random, {30, 50}, 70);
    const NarrowTensor x(layer.x, FOVEA_F16), weight(layer.weight, FOVEA_BF16);
    for_each_isa([&](const fovea_context *context) {
      const Packed rounded = pack_view(context, layer.weight.view(), layer.out_in, FOVEA_PRECISION_MEDIUM),
                   bfloat16 = pack_view(context, weight.view(), layer.out_in, FOVEA_PRECISION_HIGHEST),
                   floats = pack_view(context, layer.weight.view(), layer.out_in, FOVEA_PRECISION_HIGHEST);
      const Packed &expected = multiplies_bfloat16(context) ? bfloat16 : floats;
      CHECK(same_bits(run_views(context, layer, x.view(), rounded.get()),
                      run_views(context, layer, x.view(), expected.get())));
    });
  }

  TEST_CASE("packed at medium precision float32 takes half the memory where bfloat16 is multiplied") {
    Random random(base_seed());
    const Tensor<float> b = normal(random, {256, 192});
    const fovea_tensor view = b.view();
    for_each_isa([&](const fovea_context *context) {
      size_t sizes[2] = {};
      for (const int32_t precision : {FOVEA_PRECISION_HIGHEST, FOVEA_PRECISION_MEDIUM}) {
        const fovea_matmul_pack_options options = {sizeof options, 0, precision};
        fovea_packed_matrix *made = nullptr;
        REQUIRE_OK(fovea_matmul_pack(context, &view, &options, &made));
        sizes[precision == FOVEA_PRECISION_MEDIUM] = fovea_packed_matrix_size(made);
        fovea_packed_matrix_destroy(made);
      }
      CHECK_EQ(sizes[1], multiplies_bfloat16(context) ? sizes[0] / 2 : sizes[0]);
    });
  }

  TEST_CASE("medium: the same bits on 1 to 8 threads, and for each row alone") {
    Random random(base_seed());
    const Layer layer = plain_layer(random, {130, 801}, 300);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const std::vector<float> expected = run_packed_at(shared_context(isa, 1), layer, FOVEA_PRECISION_MEDIUM);
      for (int threads = 2; threads <= 8; ++threads) {
        CHECK(same_bits(run_packed_at(shared_context(isa, threads), layer, FOVEA_PRECISION_MEDIUM), expected));
      }
      const Packed packed = pack_view(shared_context(isa), layer.weight.view(), layer.out_in, FOVEA_PRECISION_MEDIUM);
      const Tensor<float> out = layer.make_out();
      for (int64_t row = 0; row < 130; ++row) {
        fovea_tensor one = layer.x.view(), to = out.view();
        one.data = static_cast<float *>(one.data) + row * one.strides[0];
        to.data = static_cast<float *>(to.data) + row * to.strides[0];
        one.shape[0] = to.shape[0] = 1;
        REQUIRE_OK(fovea_linear(shared_context(isa), &one, packed.get(), &to, nullptr));
      }
      CHECK(same_bits(out.dense(), expected));
    }
  }

  TEST_CASE("numbers that are no precision are refused") {
    Random random(base_seed());
    const Layer layer = plain_layer(random, {3, 5}, 4);
    const fovea_tensor x = layer.x.view(), weight = layer.weight.view();
    const Packed packed = pack_view(nullptr, weight, layer.out_in, FOVEA_PRECISION_DEFAULT);
    const Tensor<float> out = layer.make_out();
    const fovea_tensor out_view = out.view();
    for (const int32_t bad : {-1, 5, INT32_MAX}) {
      const std::string said = "options.precision is " + std::to_string(bad) + ", expected 0 to 4";
      const fovea_linear_options options = {sizeof options, FOVEA_ACTIVATION_NONE, bad, nullptr, nullptr, nullptr};
      check_refusal(fovea_linear(nullptr, &x, packed.get(), &out_view, &options), FOVEA_BAD_VALUE, {said});
      CHECK(out.untouched());
      fovea_packed_matrix *none = nullptr;
      const fovea_linear_pack_options of_linear = {sizeof of_linear, FOVEA_WEIGHT_OUT_IN, bad};
      check_refusal(fovea_linear_pack(nullptr, &weight, &of_linear, &none), FOVEA_BAD_VALUE, {said});
      const fovea_matmul_pack_options of_matmul = {sizeof of_matmul, 0, bad};
      check_refusal(fovea_matmul_pack(nullptr, &weight, &of_matmul, &none), FOVEA_BAD_VALUE, {said});
      CHECK(none == nullptr);
    }
  }
}

TEST_SUITE("precision of products") {
  // Copies of rows are made in slices of 16 MB, along the first axis of a batch or of rows.
  TEST_CASE("rows that are copied in several slices, and rows that stand for many") {
    Random random(base_seed());
    struct Case {
      Shape shape, strides;
    };
    const Case cases[] = {{{1500, 6000}, {6000, 1}},                    // more than two slices of rows
                          {{3, 500, 4003}, {500 * 4003 + 9, 4003, 1}},  // slices of the batch
                          {{40, 500, 700}, {0, 700, 1}},                // every batch entry the same rows
                          {{4, 90, 700}, {700, 0, 1}},                  // one row again and again
                          {{1, 700, 900}, {0, 1, 700}}};                // transposed
    for (const Case &c : cases) {
      CAPTURE(c.shape);
      const int64_t depth = c.shape.back();
      const Tensor<float> x = normal(random, c.shape, c.strides), weight = normal(random, {depth, 3});
      const NarrowTensor half(x, FOVEA_F16);
      Shape shape = c.shape;
      shape.back() = 3;
      const Shape dense = contiguous_strides(c.shape);
      const std::vector<float> values = x.dense();
      size_t next = 0;
      Tensor<float> floats(c.shape, dense), rounded(c.shape, dense);
      floats.fill([&] { return values[next++]; });
      next = 0;
      rounded.fill([&] { return rounded_to(values[next++], FOVEA_F16); });
      for (const std::string &isa : instruction_sets()) {
        if (isa == "base" && c.shape[0] == 1500) continue;  // slow, and nothing of its own
        CAPTURE(isa);
        const fovea_context *context = shared_context(isa);
        CHECK(same_bits(multiply(context, half.view(), weight.view(), shape),
                        multiply(context, rounded.view(), weight.view(), shape)));
        CHECK(same_bits(multiply(context, x.view(), weight.view(), shape),
                        multiply(context, floats.view(), weight.view(), shape)));
      }
    }
  }
}
