// Bad arguments of layer normalisation.
#include <cmath>
#include <functional>

#include "errors.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

// A good call on x [2,3,4], to be spoilt.
struct Setting {
  Tensor<float> x{Shape{2, 3, 4}}, residual{Shape{2, 3, 4}}, weight{Shape{4}}, bias{Shape{4}}, out{Shape{2, 3, 4}};
  fovea_tensor x_view, residual_view, weight_view, bias_view, out_view;
  fovea_layer_norm_options options{};

  Setting() {
    for (const Tensor<float> *tensor : {&x, &residual, &weight, &bias}) {
      std::fill_n(tensor->data(), tensor->count(), 1.0f);
    }
    reset();
  }
  void reset() {
    x_view = x.view();
    residual_view = residual.view();
    weight_view = weight.view();
    bias_view = bias.view();
    out_view = out.view();
    options = {};
    options.struct_size = sizeof options;
    options.weight = &weight_view;
    options.bias = &bias_view;
    options.residual = &residual_view;
  }

  struct Operand {
    std::string name;
    fovea_tensor *view;
    bool like_x;
  };
  std::vector<Operand> operands() {
    return {{"x", &x_view, true},
            {"residual", &residual_view, true},
            {"weight", &weight_view, false},
            {"bias", &bias_view, false},
            {"out", &out_view, true}};
  }

  fovea_status run() const { return fovea_layer_norm(nullptr, &x_view, &out_view, &options); }

  void refuse(fovea_status expected, std::initializer_list<std::string> words, const std::function<void()> &spoil) {
    reset();
    spoil();
    check_refusal(run(), expected, words);
    CHECK(out.untouched());
  }
};

}  // namespace

TEST_SUITE("layer norm") {
  TEST_CASE("errors: the unspoilt call is good") {
    Setting setting;
    REQUIRE_OK(setting.run());
    CHECK(!setting.out.untouched());
  }

  TEST_CASE("errors: missing tensors") {
    Setting setting;
    check_refusal(fovea_layer_norm(nullptr, nullptr, &setting.out_view, nullptr), FOVEA_NULL_POINTER, {"x"});
    check_refusal(fovea_layer_norm(nullptr, &setting.x_view, nullptr, nullptr), FOVEA_NULL_POINTER, {"out"});
    CHECK(setting.out.untouched());
  }

  TEST_CASE("errors: every tensor's descriptor") {
    Setting setting;
    for (const Setting::Operand &operand : setting.operands()) {
      fovea_tensor &bad = *operand.view;
      const std::string &name = operand.name;
      CAPTURE(name);
      const int last = operand.like_x ? 2 : 0;
      setting.refuse(FOVEA_NULL_POINTER, {name + ".data"}, [&] { bad.data = nullptr; });
      setting.refuse(FOVEA_BAD_DTYPE, {name + " has dtype FOVEA_F8_E4M3"}, [&] { bad.dtype = FOVEA_F8_E4M3; });
      for (int32_t rank : {-1, 0, 7}) {
        setting.refuse(FOVEA_BAD_RANK, {name, std::to_string(rank)}, [&] { bad.rank = rank; });
      }
      setting.refuse(FOVEA_BAD_SHAPE, {axis_of(name, "shape", last), "-2"}, [&] { bad.shape[last] = -2; });
      setting.refuse(FOVEA_BAD_STRIDE, {axis_of(name, "strides", last), "2"}, [&] { bad.strides[last] = 2; });
      setting.refuse(FOVEA_BAD_VALUE, {name + ".data"}, [&] { bad.data = reinterpret_cast<char *>(bad.data) + 1; });
      if (!operand.like_x) continue;
      setting.refuse(FOVEA_SIZE_OVERFLOW, {name}, [&] { bad.strides[0] = INT64_MAX; });
      setting.refuse(FOVEA_SIZE_OVERFLOW, {name}, [&] { bad.shape[0] = bad.shape[1] = INT64_MAX; });
    }
  }

  TEST_CASE("errors: sizes that do not fit together") {
    Setting setting;
    for (fovea_tensor *like_x : {&setting.residual_view, &setting.out_view}) {
      const std::string name = like_x == &setting.out_view ? "out" : "residual";
      for (int axis = 0; axis < 3; ++axis) {
        setting.refuse(FOVEA_BAD_SHAPE, {axis_of(name, "shape", axis), "1", std::to_string(setting.x.shape()[axis])},
                       [&] { like_x->shape[axis] = 1; });
      }
      setting.refuse(FOVEA_BAD_RANK, {name, "2", "3"}, [&] { like_x->rank = 2; });
    }
    setting.refuse(FOVEA_BAD_SHAPE, {"weight.shape[0]", "3", "4"}, [&] { setting.weight_view.shape[0] = 3; });
    setting.refuse(FOVEA_BAD_SHAPE, {"bias.shape[0]", "3", "4"}, [&] { setting.bias_view.shape[0] = 3; });
    setting.refuse(FOVEA_BAD_SHAPE, {"x.shape[2]", "0", "1 or more"}, [&] { setting.x_view.shape[2] = 0; });
    setting.refuse(FOVEA_BAD_STRIDE, {"out"}, [&] { setting.out_view.strides[0] = 0; });
  }

  TEST_CASE("errors: overlaps") {
    Setting setting;
    const auto over = [&](const std::string &name, const fovea_tensor &input, int64_t shift) {
      setting.refuse(FOVEA_OVERLAP, {"out", name},
                     [&] { setting.out_view.data = static_cast<float *>(input.data) + shift; });
    };
    over("weight", setting.weight.view(), 0);
    over("bias", setting.bias.view(), 3);
    for (int64_t shift : {-4, 1, 4}) {
      over("x", setting.x.view(), shift);
      over("residual", setting.residual.view(), shift);
    }
    // The same data at other strides is not "in place".
    setting.refuse(FOVEA_OVERLAP, {"out", "x"}, [&] {
      setting.out_view = setting.x_view;
      setting.x_view.strides[0] = 0;
    });
    for (const Tensor<float> *input : {&setting.x, &setting.residual}) {
      for (const float value : input->dense()) CHECK(value == 1.0f);
    }
  }

  TEST_CASE("errors: options") {
    Setting setting;
    for (float epsilon : {-1e-6f, kNan, kInfinity, -kInfinity}) {
      setting.refuse(FOVEA_BAD_VALUE, {"options.epsilon", "0 or more"}, [&] { setting.options.epsilon = epsilon; });
    }
    for (float epsilon : {-1e-6f, kNan, kInfinity}) {
      setting.refuse(FOVEA_BAD_VALUE, {"options.epsilon", "0 or more"}, [&] {
        setting.options.epsilon = epsilon;
        setting.options.flags = FOVEA_NORM_EPSILON_GIVEN;
      });
    }
    for (uint32_t flags : {2u, 7u, 8u, 0x80000000u}) {
      setting.refuse(FOVEA_BAD_OPTION, {"options.flags"}, [&] { setting.options.flags = flags; });
    }
    for (size_t size : {size_t{0}, sizeof(fovea_layer_norm_options) - 1}) {
      setting.refuse(FOVEA_BAD_OPTION, {"struct_size"}, [&] { setting.options.struct_size = size; });
    }
    struct Newer {
      fovea_layer_norm_options options;
      uint64_t more;
    };
    Newer newer = {setting.options, 1};
    newer.options.struct_size = sizeof newer;
    check_refusal(fovea_layer_norm(nullptr, &setting.x_view, &setting.out_view, &newer.options), FOVEA_BAD_OPTION,
                  {"options"});
    CHECK(setting.out.untouched());
    newer.more = 0;
    setting.reset();
    newer.options = setting.options;
    newer.options.struct_size = sizeof newer;
    REQUIRE_OK(fovea_layer_norm(nullptr, &setting.x_view, &setting.out_view, &newer.options));
  }

  TEST_CASE("no rows: nothing to do") {
    Setting setting;
    setting.x_view.shape[0] = setting.residual_view.shape[0] = setting.out_view.shape[0] = 0;
    setting.x_view.data = setting.residual_view.data = setting.out_view.data = nullptr;
    REQUIRE_OK(setting.run());
  }
}
