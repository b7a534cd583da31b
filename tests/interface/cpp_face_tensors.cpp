// The C++ interface's views: what they are laid over, of which types, when they are refused, and that they keep const.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpp_face.hpp"

using fovea::Input;
using fovea::Output;
using fovea::Tensor;
using namespace testing;

namespace {

static_assert(std::is_same_v<decltype(Tensor(std::declval<Floats &>(), {1})), Tensor<float>>);
static_assert(std::is_same_v<decltype(Tensor(std::declval<const Floats &>(), {1})), Tensor<const float>>);
static_assert(std::is_convertible_v<Tensor<float>, Input>);
static_assert(!std::is_convertible_v<Input, Output>, "what may be read may not be written");
static_assert(std::is_convertible_v<const Floats &, Input>);
static_assert(!std::is_convertible_v<const Floats &, Output>);
static_assert(!std::is_convertible_v<Floats, Output>, "a temporary is no place for a result");
static_assert(!std::is_convertible_v<std::vector<double> &, Input>);
static_assert(std::is_convertible_v<std::array<float, 3> &, Output>);
static_assert(std::is_same_v<decltype(std::declval<Input>().data()), const void *>);
static_assert(std::is_convertible_v<std::vector<fovea::Float16> &, Output>);
static_assert(std::is_convertible_v<const std::vector<fovea::Bfloat16> &, Input>);
static_assert(!std::is_convertible_v<const std::vector<fovea::Bfloat16> &, Output>);
static_assert(!std::is_convertible_v<std::vector<std::int32_t> &, Input>);
static_assert(!std::is_convertible_v<std::vector<fovea::Float16> &, fovea::Integers>);
static_assert(fovea::dtype_of<fovea::Float16> == FOVEA_F16 && fovea::dtype_of<fovea::Bfloat16> == FOVEA_BF16);
#if defined(FOVEA_COMPILER_HAS_FLOAT16)
static_assert(fovea::dtype_of<_Float16> == FOVEA_F16);
#endif
#if defined(__BFLT16_MAX__)
static_assert(fovea::dtype_of<__bf16> == FOVEA_BF16);
#endif
static_assert(std::is_convertible_v<std::vector<std::int32_t> &, fovea::Integers>);
static_assert(std::is_convertible_v<const std::vector<std::int64_t> &, fovea::Integers>);
static_assert(!std::is_convertible_v<std::vector<std::int16_t> &, fovea::Integers>);
static_assert(!std::is_convertible_v<Floats &, fovea::Integers>);
static_assert(std::is_convertible_v<std::array<bool, 4> &, fovea::Mask>);

template <typename T>
void check_half_tensor() {
  std::vector<T> x(3), out(3);
  for (int i = 0; i < 3; ++i) {
    if constexpr (requires { T::from(0.0f); }) {
      x[static_cast<std::size_t>(i)] = T::from(static_cast<float>(i - 1));
    } else {
      x[static_cast<std::size_t>(i)] = static_cast<T>(i - 1);
    }
  }
  CHECK_EQ(Tensor(x).get()->dtype, fovea::dtype_of<T>);
  CHECK_EQ(Input(x, {1, 3}).dtype(), fovea::dtype_of<T>);
  fovea::exp(x, out);
  Floats floats(3);  // the same into another type
  fovea::exp(x, floats);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(std::exp(static_cast<double>(i) - 1) - static_cast<double>(floats[i])) <= 1e-6);
    CHECK(std::abs(static_cast<double>(static_cast<float>(out[i]) / floats[i]) - 1) <= 0x1p-8);
  }
  const std::vector<T> key(2 * 10 * 2, x[2]), query(4, x[0]);
  Floats values(40), result(8);
  std::iota(values.begin(), values.end(), 0.0f);
  fovea::sdpa(Tensor(query, {2, 1, 2}), Tensor(key, {2, 10, 2}), Tensor(values, {2, 10, 4}, {0, 4, 1}),
              Tensor(result, {2, 1, 4}), {.valid_lens = std::vector<std::int64_t>{2, 6}});
  check_near(result, {2, 3, 4, 5, 10, 11, 12, 13});
}

}  // namespace

TEST_SUITE_BEGIN("cpp face tensors");

TEST_CASE("tensors: shape, strides and type of what they are laid over") {
  Floats values = counting(24);
  const Tensor all(values);
  CHECK_EQ(all.get()->dtype, FOVEA_F32);
  CHECK_EQ(all.shape().size(), 1);
  CHECK_EQ(all.shape()[0], 24);
  const Tensor cube(values, {2, 3, 4});
  CHECK_EQ(cube.data(), values.data());
  CHECK_EQ(cube.shape()[2], 4);
  CHECK_EQ(cube.strides()[0], 12);
  const Tensor<const float> turned(values, {4, 6}, {1, 4});
  CHECK_EQ(turned.strides()[0], 1);
  CHECK_EQ(turned.strides()[1], 4);

  const std::vector<std::int64_t> sizes = {2, 12};
  CHECK_EQ(Tensor(values, fovea::Shape(sizes)).shape()[1], 12);
  const std::array<std::uint8_t, 2> mask = {0, 1};
  CHECK_EQ(Tensor(mask).get()->dtype, FOVEA_BOOL);
  std::int64_t numbers[] = {1, 2, 3};
  CHECK_EQ(Tensor(numbers).get()->dtype, FOVEA_I64);

  CHECK(Input().get() == nullptr);
  CHECK_FALSE(Input());
  CHECK(Input().shape().empty());
  CHECK(Tensor(std::span<float>{}));  // empty is not none
}

TEST_CASE("tensors of 16-bit floats, the library's own and the compiler's, in any mix") {
  check_half_tensor<fovea::Float16>();
  check_half_tensor<fovea::Bfloat16>();
#if defined(FOVEA_COMPILER_HAS_FLOAT16)
  check_half_tensor<_Float16>();
#endif
#if defined(__BFLT16_MAX__)
  check_half_tensor<__bf16>();
#endif
}

TEST_CASE("Float16 and Bfloat16: rounding, overflow, subnormal numbers, NaN") {
  using fovea::Bfloat16;
  using fovea::Float16;
  static_assert(Float16::from(1.0f).bits == 0x3c00 && Float16::from(-2.0f).bits == 0xc000);
  static_assert(Float16::from(65519.996f).bits == 0x7bff && Float16::from(65520.0f).bits == 0x7c00);
  static_assert(Float16::from(0x1p-24f).bits == 1 && Float16::from(0x1p-25f).bits == 0);
  static_assert(Float16::from(0x1.8p-24f).bits == 2 && Float16::from(1 + 0x1p-11f).bits == 0x3c00);
  static_assert(Bfloat16::from(1.0f).bits == 0x3f80 && Bfloat16::from(1 + 0x1p-8f).bits == 0x3f80);
  static_assert(Bfloat16::from(1 + 0x1.8p-7f).bits == 0x3f82 && Bfloat16::from(3.4e38f).bits == 0x7f80);
  static_assert(Bfloat16::from(0x1p-133f).bits == 1);
  CHECK(std::isnan(static_cast<float>(Float16::from(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(Bfloat16::from(std::numeric_limits<float>::quiet_NaN()))));
  int wrong = 0;
  for (int n = 0; n < 65536; ++n) {  // there and back
    const auto bits = static_cast<std::uint16_t>(n);
    const auto half = static_cast<float>(Float16{bits}), brain = static_cast<float>(Bfloat16{bits});
    wrong += !std::isnan(half) && Float16::from(half).bits != bits;
    wrong += !std::isnan(brain) && Bfloat16::from(brain).bits != bits;
#if defined(FOVEA_COMPILER_HAS_FLOAT16)
    wrong += !std::isnan(half) && half != static_cast<float>(std::bit_cast<_Float16>(bits));
#endif
  }
  CHECK_EQ(wrong, 0);
}

TEST_CASE("tensors: a range that does not reach is refused") {
  Floats values(12);
  CHECK_NOTHROW(Tensor(values, {3, 4}));
  CHECK_NOTHROW(Tensor(values, {3, 0, 400}));
  CHECK_NOTHROW(Tensor(values, {500, 12}, {0, 1}));
  CHECK_NOTHROW(Tensor(values, {3, 2}, {5, 1}));
  check_error(FOVEA_BAD_SHAPE, "12 elements", [&] { Tensor(values, {3, 5}); });
  check_error(FOVEA_BAD_SHAPE, "axis 0", [&] { Tensor(values, {3, 3}, {5, 1}); });
  check_error(FOVEA_BAD_SHAPE, "empty", [] { Tensor(std::span<float>{}, {1}); });
  check_error(FOVEA_BAD_STRIDE, "strides[1] is -1", [&] { Tensor(values, {3, 4}, {4, -1}); });
  check_error(FOVEA_BAD_RANK, "7 axes", [&] { Tensor(values, {1, 1, 1, 1, 1, 1, 1}); });
  check_error(FOVEA_BAD_RANK, "1 axes", [&] { Tensor(values, {3, 4}, {1}); });
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  check_error(FOVEA_BAD_SHAPE, "12 elements", [&] { Tensor(values, {huge, huge, huge}); });
  check_error(FOVEA_BAD_SHAPE, "12 elements", [&] { Tensor(values, {2, 1}, {huge, huge}); });
}

TEST_CASE("tensors: row-major views are those of the C function, of sizes far past any memory, too") {
  constexpr std::int64_t huge = std::int64_t{1} << 31, most = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<std::int64_t> &sizes : std::vector<std::vector<std::int64_t>>{{},
                                                                                       {5},
                                                                                       {2, 3, 4},
                                                                                       {2, 0, 4},
                                                                                       {2, -3, 4},
                                                                                       {1, 2, 3, 4, 5, 6},
                                                                                       {huge - 1, huge - 1},
                                                                                       {3, huge, 2},
                                                                                       {4, huge, huge, 7},
                                                                                       {3, most, 2, 5},
                                                                                       {2, 3, huge, huge, huge, huge},
                                                                                       {-1, huge, huge, huge}}) {
    const fovea::Shape shape{std::span(sizes)};
    const Tensor<float> tensor = Tensor<float>::at(nullptr, shape);
    const fovea_tensor expected = fovea_tensor_contiguous(nullptr, FOVEA_F32, shape.rank(), sizes.data());
    REQUIRE_EQ(tensor.get()->rank, expected.rank);
    CHECK_EQ(tensor.get()->dtype, FOVEA_F32);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      CAPTURE(axis);
      CHECK_EQ(tensor.shape()[axis], sizes[axis]);
      CHECK_EQ(tensor.strides()[axis], expected.strides[axis]);
    }
  }
  Floats data(8);
  for (const std::int64_t size : {huge, most}) {
    check_error(FOVEA_BAD_SHAPE, "ends within", [&] { Tensor(data, {size, size}); });
    check_error(FOVEA_BAD_SHAPE, "ends within", [&] { Input(data, {2, 2}, {size, size}); });
    check_error(FOVEA_BAD_SHAPE, "ends within", [&] { Output(data, {3, 2, 2}, {size / 2 + 1, size / 2 + 1, 1}); });
  }
}

TEST_CASE("tensors: none stays none, whatever it becomes") {
  const Tensor<const float> read = Tensor<float>();
  const Input input = Output(), of_tensor = Tensor<float>(), copy = input;
  CHECK(!read);
  for (const Input *none : {&input, &of_tensor, &copy}) {
    CHECK(!*none);
    CHECK(none->get() == nullptr);
    CHECK(none->data() == nullptr);
    CHECK_EQ(none->dtype(), 0);
    CHECK(none->shape().empty());
  }
}

TEST_CASE("tensors: over what DLPack describes") {
  struct {
    void *data;
    std::int32_t device_type, device_id, ndim;
    std::uint8_t code, bits;
    std::uint16_t lanes;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
  } given = {};
  Floats values = counting(6);
  std::int64_t shape[] = {2, 2}, strides[] = {3, 1};
  given.data = values.data();
  given.device_type = given.lanes = 1;
  given.ndim = given.code = 2;
  given.bits = 32;
  given.shape = shape;
  given.strides = strides;
  given.byte_offset = sizeof(float);
  const auto view = Tensor<float>::from_dlpack(&given);
  CHECK_EQ(view.data(), values.data() + 1);
  CHECK_EQ(view.strides()[0], 3);
  fovea::exp(Tensor<const float>::from_dlpack(&given), view);
  const double largest_error = 1.6 * 0x1p-16;  // ulp of e^5
  check_near(values, {0, std::exp(1.0), std::exp(2.0), 3, std::exp(4.0), std::exp(5.0)}, largest_error);
  check_error(FOVEA_BAD_DTYPE, "dtype 1, expected 6", [&] { Tensor<std::int64_t>::from_dlpack(&given); });
  CHECK_EQ(Input::from_dlpack(&given).dtype(), FOVEA_F32);
  given.bits = 16;
  CHECK_EQ(Output::from_dlpack(&given).dtype(), FOVEA_F16);
  CHECK_EQ(Tensor<fovea::Float16>::from_dlpack(&given).shape()[0], 2);
  given.code = 0;
  given.bits = 32;
  check_error(FOVEA_BAD_DTYPE, "dtype 5, expected 1 to 3", [&] { Input::from_dlpack(&given); });
  given.device_type = 2;
  check_error(FOVEA_BAD_VALUE, "device_type", [&] { Input::from_dlpack(&given); });
}

TEST_SUITE_END();
