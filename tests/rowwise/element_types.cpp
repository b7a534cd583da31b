// Elements of 16 bits in everything that goes row by row. All that is computed is float32, in an order that does not
// depend on element types: so what comes out is, bit by bit, what float32 tensors with the same numbers give, rounded
// once. But exp, tanh, masked softmax and layer normalisation from one type of 16 bits to the same are as exact as that
// type needs.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/operation_call.hpp"

using namespace testing;

namespace {

const std::vector<std::string> kRowwise = {"exp, tanh",
                                           "masked_softmax",
                                           "layer_norm",
                                           "rms_norm",
                                           "softmax",
                                           "log_softmax",
                                           "activation",
                                           "rotary",
                                           "positional_encoding",
                                           "add_positional_encoding",
                                           "merge_states"};

// Float operands in memory of their own, with any strides that the operation takes, once as floats and once as elements
// of another type. What holds integers is the call's.
struct TypedCall {
  OperationCall call;
  std::vector<std::unique_ptr<Tensor<float>>> floats;
  std::vector<std::optional<NarrowTensor>> narrow;
  std::vector<fovea_dtype> types;

  TypedCall(const Operands &operands, uint64_t seed) : call(operands, seed) {
    Random random(seed);
    const float size = random.pick({1.0f, 1.0f, 8.0f, 1e-3f});
    for (const Operand &operand : call.operands) {
      floats.push_back(nullptr);
      narrow.emplace_back();
      types.push_back(operand.narrow ? random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}) : operand.dtype);
      if (operand.dtype != FOVEA_F32 || operand.name.empty()) continue;
      floats.back() = std::make_unique<Tensor<float>>(operand.shape, strides_of(operand, random));
      if (operand.role == Role::output) continue;
      const bool odd = operand.narrow && random.chance(0.2);
      floats.back()->fill([&] {
        const float odd_number = random.pick({kNan, kInfinity, -kInfinity, 0x1p-20f, -0x1p-130f, 6e4f});
        return rounded_to(odd && random.chance(0.05) ? odd_number : size * random.normal(), types.back());
      });
    }
  }

  // The views, of floats or of elements of their types; `in_place`: x is out.
  std::vector<fovea_tensor> views(bool typed, bool in_place) {
    std::vector<fovea_tensor> all = call.tensors;
    for (size_t n = 0; n < all.size(); ++n) {
      if (!floats[n]) continue;
      all[n] = floats[n]->view();
      if (!typed || types[n] == FOVEA_F32) continue;
      narrow[n].emplace(*floats[n], types[n]);
      all[n] = narrow[n]->view();
    }
    if (in_place) all[1] = all[0];
    return all;
  }

  // Whether x (operand 0) and what comes of it (operand 1) are of one type of 16 bits, in operations that are then
  // within a little more than half a step of that type.
  bool computes_narrowly(const std::string &operation) const {
    const bool has_own = operation == "exp, tanh" || operation == "masked_softmax" || operation == "softmax" ||
                         operation == "layer_norm" || operation == "rms_norm";
    return has_own && types[0] == types[1] && types[0] != FOVEA_F32;
  }

  // Whether a number is as near to its truth as such operations promise, beside rounding errors of float32.
  static bool near(float got, float truth, fovea_dtype dtype, double largest) {
    const float rounded = rounded_to(truth, dtype);
    if (std::isinf(rounded) || std::isinf(got)) return got == rounded;
    const int least = dtype == FOVEA_BF16 ? -126 : -14, digits = dtype == FOVEA_BF16 ? 7 : 10;
    const double step = std::ldexp(1.0, (truth == 0 ? least : std::max(least, std::ilogb(truth))) - digits);
    return std::abs(static_cast<double>(got) - static_cast<double>(truth)) <= 0.53 * step + 0x1p-20 * largest;
  }

  // Whether the narrow output n is that of `truth`, rounded; NaNs are equal. In place it stands where operand `at` was.
  bool holds(size_t n, size_t at, const std::vector<float> &truth, bool narrowly) const {
    if (!floats[n]) return true;
    size_t next = 0;
    double largest = 0;
    for (const float value : truth) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    bool same = narrow[at] ? narrow[at]->gaps_untouched() : floats[at]->gaps_untouched();
    for_each_index(floats[n]->shape(), [&](const Shape &index) {
      const float exact = truth[next++], expected = rounded_to(exact, types[n]);
      const float got = narrow[at] ? widened(narrow[at]->at(index), types[n]) : floats[at]->at(index);
      const bool as_promised =
          narrowly ? near(got, exact, types[n], largest) : std::memcmp(&got, &expected, sizeof got) == 0;
      same = same && (std::isnan(expected) ? std::isnan(got) : as_promised);
    });
    return same;
  }

 private:
  static Shape strides_of(const Operand &operand, Random &random) {
    std::vector<int> order(operand.shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (order.size() > 2 && random.chance(0.3)) std::swap(order[0], order[1]);
    return permuted_strides(operand.shape, order, operand.shape.size() > 1 ? random.integer(0, 3) : 0);
  }
};

CallSizes random_sizes(Random &random) {
  CallSizes s;
  for (int64_t *length : {&s.batch, &s.queries, &s.keys, &s.rows}) *length = random.integer(1, 4);
  for (int64_t *some : {&s.kv_heads, &s.group}) *some = random.integer(1, 2);
  s.columns = random.chance(0.1) ? random.integer(500, 2100) : random.integer(1, 70);
  s.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX));
  return s;
}

void check_types(const Operation &operation, CallSizes sizes, uint64_t seed) {
  const Operands operands = operation.operands(sizes);
  const bool has_x = operands[0].name == "x";
  for_each_isa([&](const fovea_context *context) {
    sizes.context = context;
    TypedCall typed(operands, seed);
    const bool in_place = has_x && seed % 4 == 0;
    if (in_place) typed.types[1] = typed.types[0];
    CAPTURE(typed.types);
    REQUIRE_OK(typed.call.run(operation, sizes, typed.views(false, false).data()));
    std::vector<std::vector<float>> truth(operands.size());
    for (size_t n = 0; n < operands.size(); ++n) {
      if (typed.floats[n] && operands[n].role == Role::output) truth[n] = typed.floats[n]->dense();
    }
    for (size_t n = 0; n < operands.size(); ++n) {  // as if never written
      if (typed.floats[n] && operands[n].role == Role::output) typed.floats[n]->fill([] { return -7.0f; });
    }
    REQUIRE_OK(typed.call.run(operation, sizes, typed.views(true, in_place).data()));
    for (size_t n = 0; n < operands.size(); ++n) {
      if (operands[n].role != Role::output) continue;
      const bool narrowly = typed.computes_narrowly(operation.name);
      CHECK_MESSAGE(typed.holds(n, in_place && n == 1 ? 0 : n, truth[n], narrowly), operands[n].name);
    }
  });
}

}  // namespace

TEST_SUITE("row types") {
  TEST_CASE("any types give what float32 gives, rounded once") {
    int64_t operations = 0;
    for (const Operation &operation : all_operations()) {
      if (std::find(kRowwise.begin(), kRowwise.end(), operation.name) == kRowwise.end()) continue;
      ++operations;
      CAPTURE(operation.name);
      for (int64_t n = 0; n < case_count(150); ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        CAPTURE(seed);
        Random random(seed);
        const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
        check_types(operation, random_sizes(random), seed);
      }
    }
    CHECK_EQ(operations, static_cast<int64_t>(kRowwise.size()));
  }

  TEST_CASE("what overflows the type is infinite, what is small subnormal") {
    const int64_t count = 5;
    for_each_isa([&](const fovea_context *context) {
      const float x[] = {11.0f, 12.0f, -12.0f, -17.0f, -20.0f};
      uint16_t out[5];
      const fovea_tensor from = fovea_tensor_contiguous(x, FOVEA_F32, 1, &count);
      const fovea_tensor to = fovea_tensor_contiguous(out, FOVEA_F16, 1, &count);
      REQUIRE_OK(fovea_exp(context, &from, &to));
      CHECK_EQ(widened(out[0], FOVEA_F16), 59872.0f);
      CHECK_EQ(out[1], 0x7c00);
      CHECK_EQ(out[2], 0x0067);
      CHECK_EQ(out[3], 0x0001);
      CHECK_EQ(out[4], 0x0000);
    });
  }

  TEST_CASE("one memory as two types is not in place: refused") {
    const int64_t shape[] = {2, 4};
    uint32_t memory[8] = {};
    const fovea_tensor x = fovea_tensor_contiguous(memory, FOVEA_F32, 2, shape);
    const fovea_tensor half = fovea_tensor_contiguous(memory, FOVEA_F16, 2, shape);
    const fovea_tensor brain = fovea_tensor_contiguous(memory, FOVEA_BF16, 2, shape);
    CHECK_EQ(fovea_exp(nullptr, &x, &half), FOVEA_OVERLAP);
    CHECK_EQ(fovea_exp(nullptr, &half, &brain), FOVEA_OVERLAP);
    CHECK_EQ(fovea_masked_softmax(nullptr, &half, nullptr, &x, nullptr), FOVEA_OVERLAP);
    CHECK_EQ(fovea_layer_norm(nullptr, &x, &brain, nullptr), FOVEA_OVERLAP);
    CHECK_EQ(fovea_rotary(nullptr, &brain, &half, nullptr), FOVEA_OVERLAP);
    CHECK_EQ(fovea_add_positional_encoding(nullptr, &x, &half, nullptr), FOVEA_OVERLAP);
  }

  TEST_CASE("what does not take 16 bits says so, what does names all it takes") {
    const int64_t shape[] = {1, 2, 4};
    uint32_t memory[8] = {}, results[8] = {};
    const fovea_tensor outs = fovea_tensor_contiguous(memory, FOVEA_BF16, 3, shape);
    const fovea_tensor lses = fovea_tensor_contiguous(memory, FOVEA_F16, 2, shape);
    const fovea_tensor out = fovea_tensor_contiguous(results, FOVEA_BF16, 2, shape + 1);
    CHECK_EQ(fovea_merge_states(nullptr, &outs, &lses, &out, nullptr), FOVEA_BAD_DTYPE);
    CHECK_EQ(std::string(fovea_last_error()), "lses has dtype FOVEA_F16, expected FOVEA_F32");
    fovea_tensor bytes = out;
    bytes.dtype = FOVEA_I8;
    CHECK_EQ(fovea_exp(nullptr, &bytes, &out), FOVEA_BAD_DTYPE);
    CHECK_EQ(std::string(fovea_last_error()), "x has dtype FOVEA_I8, expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16");
  }
}
