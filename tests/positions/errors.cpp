// Bad arguments of the operations on positions, beside those that interface/errors.cpp tries on every operation.
#include <algorithm>
#include <cmath>
#include <functional>

#include "errors.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

constexpr int64_t kTooFar = (int64_t{1} << 30) + 1;

// A call on x [2,3,4] that must be refused; nothing may be written.
struct Setting {
  Tensor<float> x{Shape{2, 3, 4}};
  Tensor<float> out{Shape{2, 3, 4}};

  Setting() {
    x.fill([] { return 1.0f; });
  }

  void refuse_add(fovea_status expected, std::initializer_list<std::string> words,
                  const std::function<void(fovea_positional_encoding_options &)> &spoil) const {
    fovea_positional_encoding_options options{};
    options.struct_size = sizeof options;
    spoil(options);
    const fovea_tensor x_view = x.view(), out_view = out.view();
    check_refusal(fovea_add_positional_encoding(nullptr, &x_view, &out_view, &options), expected, words);
    CHECK(out.untouched());
    const Tensor<float> table({3, 4});
    const fovea_tensor table_view = table.view();
    check_refusal(fovea_positional_encoding(nullptr, &table_view, &options), expected, words);
    CHECK(table.untouched());
  }

  void refuse_rotary(fovea_status expected, std::initializer_list<std::string> words,
                     const std::function<void(fovea_rotary_options &)> &spoil) const {
    fovea_rotary_options options{};
    options.struct_size = sizeof options;
    spoil(options);
    const fovea_tensor x_view = x.view(), out_view = out.view();
    check_refusal(fovea_rotary(nullptr, &x_view, &out_view, &options), expected, words);
    CHECK(out.untouched());
  }

  void refuse_positions(fovea_status expected, std::initializer_list<std::string> words,
                        const fovea_tensor &positions) const {
    refuse_rotary(expected, words, [&](fovea_rotary_options &options) { options.positions = &positions; });
  }
};

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("errors: options of the sinusoidal encoding") {
    const Setting setting;
    for (float base : {1.0f, 0.5f, -3.0f, kInfinity, -kInfinity, kNan}) {
      setting.refuse_add(FOVEA_BAD_VALUE, {"options.base", "above 1"}, [&](auto &options) { options.base = base; });
    }
    for (float base : {0.0f, -0.0f, 1.0f, kNan}) {
      setting.refuse_add(FOVEA_BAD_VALUE, {"options.base", "above 1"}, [&](auto &options) {
        options.base = base;
        options.flags = FOVEA_ENCODING_BASE_GIVEN;
      });
    }
    for (uint32_t flags : {4u, 8u, 0x80000000u}) {
      setting.refuse_add(FOVEA_BAD_OPTION, {"options.flags"}, [&](auto &options) { options.flags = flags; });
    }
    setting.refuse_add(FOVEA_BAD_OPTION, {"options.reserved", "1"}, [](auto &options) { options.reserved = 1; });
    for (int64_t offset : {int64_t{-1}, kTooFar, INT64_MIN, INT64_MAX}) {
      setting.refuse_add(FOVEA_BAD_VALUE, {"options.offset", std::to_string(offset), "1073741824"},
                         [&](auto &options) { options.offset = offset; });
    }
    for (float dropout : {-0.1f, 1.0f, 2.0f, kInfinity, kNan}) {
      setting.refuse_add(FOVEA_BAD_VALUE, {"options.dropout"}, [&](auto &options) { options.dropout = dropout; });
    }
    for (size_t size : {size_t{0}, sizeof(fovea_positional_encoding_options) - 1}) {
      setting.refuse_add(FOVEA_BAD_OPTION, {"struct_size"}, [&](auto &options) { options.struct_size = size; });
    }
  }

  TEST_CASE("errors: the encoding alone") {
    const Tensor<float> out({3, 4});
    const fovea_tensor view = out.view();
    fovea_positional_encoding_options options{};
    options.struct_size = sizeof options;
    options.dropout = 0.5f;
    check_refusal(fovea_positional_encoding(nullptr, &view, &options), FOVEA_BAD_VALUE, {"options.dropout", "0.5"});
    check_refusal(fovea_positional_encoding(nullptr, nullptr, nullptr), FOVEA_NULL_POINTER, {"out"});
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words,
                            const std::function<void(fovea_tensor &)> &spoil) {
      fovea_tensor bad = view;
      spoil(bad);
      check_refusal(fovea_positional_encoding(nullptr, &bad, nullptr), expected, words);
      CHECK(out.untouched());
    };
    refuse(FOVEA_NULL_POINTER, {"out.data"}, [](fovea_tensor &bad) { bad.data = nullptr; });
    for (int32_t rank : {-1, 0, 1, 3}) {
      refuse(FOVEA_BAD_RANK, {"out", std::to_string(rank), "2"}, [=](fovea_tensor &bad) { bad.rank = rank; });
    }
    refuse(FOVEA_BAD_DTYPE, {"out has dtype"}, [](fovea_tensor &bad) { bad.dtype = FOVEA_I32; });
    refuse(FOVEA_BAD_SHAPE, {"out.shape[0]", "-1"}, [](fovea_tensor &bad) { bad.shape[0] = -1; });
    refuse(FOVEA_BAD_STRIDE, {"out.strides[1]", "2"}, [](fovea_tensor &bad) { bad.strides[1] = 2; });
    refuse(FOVEA_BAD_STRIDE, {"out"}, [](fovea_tensor &bad) { bad.strides[0] = 3; });
  }

  TEST_CASE("errors: a newer program's options") {
    const Tensor<float> out({3, 4});
    const fovea_tensor view = out.view();
    struct Newer {
      fovea_positional_encoding_options options;
      uint64_t more;
    };
    Newer newer = {};
    newer.options.struct_size = sizeof newer;
    newer.more = 1;
    check_refusal(fovea_positional_encoding(nullptr, &view, &newer.options), FOVEA_BAD_OPTION, {"options"});
    CHECK(out.untouched());
    newer.more = 0;
    REQUIRE_OK(fovea_positional_encoding(nullptr, &view, &newer.options));
  }

  TEST_CASE("errors: tensors of fewer than two axes") {
    Tensor<float> x({4});
    x.fill([] { return 1.0f; });
    const Tensor<float> out({4});
    const fovea_tensor x_view = x.view(), out_view = out.view();
    check_refusal(fovea_add_positional_encoding(nullptr, &x_view, &out_view, nullptr), FOVEA_BAD_RANK, {"x", "1"});
    check_refusal(fovea_rotary(nullptr, &x_view, &out_view, nullptr), FOVEA_BAD_RANK, {"x", "1"});
    CHECK(out.untouched());
  }

  TEST_CASE("errors: options of rotary") {
    const Setting setting;
    for (float base : {0.0f, -0.0f, 1.0f, kNan}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.base", "above 1"}, [&](auto &options) {
        options.base = base;
        options.flags = FOVEA_ROTARY_BASE_GIVEN;
      });
    }
    for (int64_t dim : {int64_t{-2}, int64_t{1}, int64_t{6}}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.rotary_dim", std::to_string(dim), "4"}, [&](auto &options) {
        options.rotary_dim = dim;
        options.flags = FOVEA_ROTARY_DIM_GIVEN;
      });
    }
    for (uint32_t flags : {1u << 20, 0x80000000u, 0xffffffffu}) {
      setting.refuse_rotary(FOVEA_BAD_OPTION, {"options.flags"}, [&](auto &options) { options.flags = flags; });
    }
    for (float base : {1.0f, 0.5f, -3.0f, kInfinity, -kInfinity, kNan}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.base", "above 1"}, [&](auto &options) { options.base = base; });
    }
    for (float scale : {kInfinity, -kInfinity, kNan}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.position_scale", "finite"},
                            [&](auto &options) { options.position_scale = scale; });
    }
    for (float scale : {1e10f, -1e10f, 3e38f}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.position_scale", "2^34"},
                            [&](auto &options) { options.position_scale = scale; });
    }
    setting.refuse_rotary(FOVEA_BAD_OPTION, {"options.reserved", "1"}, [](auto &options) { options.reserved = 1; });
    for (int64_t dim : {int64_t{-2}, int64_t{1}, int64_t{3}, int64_t{6}, INT64_MAX, INT64_MIN}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.rotary_dim", std::to_string(dim), "4"},
                            [&](auto &options) { options.rotary_dim = dim; });
    }
    for (int64_t offset : {int64_t{-1}, kTooFar, INT64_MIN, INT64_MAX}) {
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.offset", std::to_string(offset), "1073741824"},
                            [&](auto &options) { options.offset = offset; });
    }
    for (size_t size : {size_t{0}, sizeof(fovea_rotary_options) - 1}) {
      setting.refuse_rotary(FOVEA_BAD_OPTION, {"struct_size"}, [&](auto &options) { options.struct_size = size; });
    }
  }

  // The last row stands at offset + rows - 1; calls had been refused for a position past it.
  TEST_CASE("errors: angles of rotary, at the bound of 2^34 and past it") {
    const Setting setting;
    const fovea_tensor x = setting.x.view();
    constexpr int64_t last = int64_t{1} << 30;
    for (float scale : {16.0f, -16.0f}) {
      for (int64_t rows : {0, 1, 3}) {
        const Tensor<float> out({2, 3, 4});
        fovea_tensor part = x, to = out.view();
        part.shape[1] = to.shape[1] = rows;
        fovea_rotary_options options{};
        options.struct_size = sizeof options;
        options.position_scale = scale;
        options.offset = last - std::max<int64_t>(rows - 1, 0);
        REQUIRE_OK(fovea_rotary(nullptr, &part, &to, &options));
        CHECK(out.untouched() == (rows == 0));
      }
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.position_scale", "2^34", "position " + std::to_string(last + 1)},
                            [&](auto &options) {
                              options.position_scale = scale;
                              options.offset = last - 1;
                            });
      setting.refuse_rotary(FOVEA_BAD_VALUE, {"options.position_scale", "2^34", "position " + std::to_string(last)},
                            [&](auto &options) {
                              options.position_scale = std::nextafter(scale, 2 * scale);
                              options.offset = last - 2;
                            });
    }
  }

  TEST_CASE("errors: an odd number of features, all to be rotated") {
    Tensor<float> x({2, 5});
    x.fill([] { return 1.0f; });
    const Tensor<float> out({2, 5});
    const fovea_tensor x_view = x.view(), out_view = out.view();
    check_refusal(fovea_rotary(nullptr, &x_view, &out_view, nullptr), FOVEA_BAD_SHAPE, {"x.shape[1]", "5", "even"});
    CHECK(out.untouched());
  }

  TEST_CASE("errors: positions of rotary") {
    const Setting setting;
    Tensor<int32_t> good({2, 3});
    good.fill([] { return 1; });
    fovea_tensor bad = good.view();
    bad.dtype = FOVEA_F32;
    setting.refuse_positions(FOVEA_BAD_DTYPE, {"positions has dtype FOVEA_F32"}, bad);
    bad = good.view();
    bad.data = nullptr;
    setting.refuse_positions(FOVEA_NULL_POINTER, {"positions.data"}, bad);
    for (int32_t rank : {-1, 0, 3}) {
      bad = good.view();
      bad.rank = rank;
      setting.refuse_positions(FOVEA_BAD_RANK, {"positions", std::to_string(rank)}, bad);
    }
    bad = good.view();
    bad.shape[0] = 1;
    setting.refuse_positions(FOVEA_BAD_SHAPE, {"positions.shape[0]", "1", "2"}, bad);
    bad = good.view();
    bad.shape[1] = 2;
    setting.refuse_positions(FOVEA_BAD_SHAPE, {"positions.shape[1]", "2", "3"}, bad);
    bad = good.view();
    bad.rank = 1;
    setting.refuse_positions(FOVEA_BAD_SHAPE, {"positions.shape[0]", "2", "3"}, bad);
    bad = good.view();
    bad.strides[0] = INT64_MAX;
    setting.refuse_positions(FOVEA_SIZE_OVERFLOW, {"positions"}, bad);
    bad = good.view();
    bad.data = setting.out.data();
    setting.refuse_positions(FOVEA_OVERLAP, {"out", "positions"}, bad);
    for (int32_t value : {-1, INT32_MIN, static_cast<int32_t>(kTooFar)}) {
      Tensor<int32_t> narrow({3});
      narrow.assign({0, value, 2});
      setting.refuse_positions(FOVEA_BAD_VALUE, {"positions[1]", std::to_string(value)}, narrow.view());
    }
    for (int64_t value : {int64_t{-1}, kTooFar, INT64_MAX, INT64_MIN}) {
      Tensor<int64_t> wide({2, 3});
      wide.assign({0, 1, 2, 3, 4, value});
      setting.refuse_positions(FOVEA_BAD_VALUE, {"positions[1,2]", std::to_string(value)}, wide.view());
    }
  }

  TEST_CASE("errors: ALiBi slopes") {
    check_refusal(fovea_alibi_slopes(nullptr), FOVEA_NULL_POINTER, {"out"});
    const Tensor<float> out({4});
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words,
                            const std::function<void(fovea_tensor &)> &spoil) {
      fovea_tensor bad = out.view();
      spoil(bad);
      check_refusal(fovea_alibi_slopes(&bad), expected, words);
      CHECK(out.untouched());
    };
    refuse(FOVEA_NULL_POINTER, {"out.data"}, [](fovea_tensor &bad) { bad.data = nullptr; });
    for (int32_t rank : {-1, 0, 2}) {
      refuse(FOVEA_BAD_RANK, {"out", std::to_string(rank)}, [=](fovea_tensor &bad) { bad.rank = rank; });
    }
    refuse(FOVEA_BAD_DTYPE, {"out has dtype"}, [](fovea_tensor &bad) { bad.dtype = FOVEA_I64; });
    refuse(FOVEA_BAD_SHAPE, {"out.shape[0]", "-1"}, [](fovea_tensor &bad) { bad.shape[0] = -1; });
    refuse(FOVEA_BAD_STRIDE, {"out"}, [](fovea_tensor &bad) { bad.strides[0] = 0; });
    refuse(FOVEA_SIZE_OVERFLOW, {"out"}, [](fovea_tensor &bad) { bad.strides[0] = INT64_MAX; });
  }
}
