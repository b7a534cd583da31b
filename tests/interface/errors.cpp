// Bad arguments of the other operations: merge_states, masked_softmax, matmul, packed matrices, exp and tanh.
#include "errors.hpp"

#include <functional>
#include <memory>

#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

// A call of up to four tensors, the outputs last.
struct Call {
  std::vector<Tensor<float>> memory;
  std::vector<fovea_tensor> views;
  std::vector<std::string> names;
  size_t inputs;
  std::function<fovea_status(const std::vector<const fovea_tensor *> &)> run;

  fovea_status operator()() const {
    std::vector<const fovea_tensor *> pointers;
    for (const fovea_tensor &view : views) pointers.push_back(&view);
    return run(pointers);
  }
  void check_untouched() const {
    for (size_t n = inputs; n < memory.size(); ++n) CHECK(memory[n].untouched());
  }
};

Call make_call(const std::vector<std::pair<std::string, Shape>> &tensors, size_t inputs,
               std::function<fovea_status(const std::vector<const fovea_tensor *> &)> run) {
  Call call;
  call.inputs = inputs;
  call.run = std::move(run);
  for (const auto &[name, shape] : tensors) {
    call.names.push_back(name);
    call.memory.emplace_back(shape);
    if (call.memory.size() <= inputs) call.memory.back().fill([] { return 0.5f; });
    call.views.push_back(call.memory.back().view());
  }
  return call;
}

struct Operation {
  const char *name;
  std::function<Call()> make;
};

std::vector<Operation> operations() {
  return {
      {"merge_states",
       [] {
         return make_call({{"outs", {3, 2, 4, 5}}, {"lses", {3, 2, 4}}, {"out", {2, 4, 5}}, {"log_sum_exp", {2, 4}}}, 2,
                          [](const auto &t) { return fovea_merge_states(nullptr, t[0], t[1], t[2], t[3]); });
       }},
      {"masked_softmax",
       [] {
         return make_call({{"x", {2, 3, 4}}, {"out", {2, 3, 4}}}, 1,
                          [](const auto &t) { return fovea_masked_softmax(nullptr, t[0], nullptr, t[1], nullptr); });
       }},
      {"matmul",
       [] {
         return make_call({{"a", {3, 3, 4}}, {"b", {3, 4, 5}}, {"out", {3, 3, 5}}}, 2,
                          [](const auto &t) { return fovea_matmul(nullptr, t[0], t[1], t[2]); });
       }},
      {"exp",
       [] {
         return make_call({{"x", {3, 4}}, {"out", {3, 4}}}, 1,
                          [](const auto &t) { return fovea_exp(nullptr, t[0], t[1]); });
       }},
      {"tanh",
       [] {
         return make_call({{"x", {3, 4}}, {"out", {3, 4}}}, 1,
                          [](const auto &t) { return fovea_tanh(nullptr, t[0], t[1]); });
       }},
      {"add_positional_encoding",
       [] {
         return make_call({{"x", {2, 3, 4}}, {"out", {2, 3, 4}}}, 1,
                          [](const auto &t) { return fovea_add_positional_encoding(nullptr, t[0], t[1], nullptr); });
       }},
      {"rotary", [] {
         return make_call({{"x", {2, 3, 4}}, {"out", {2, 3, 4}}}, 1,
                          [](const auto &t) { return fovea_rotary(nullptr, t[0], t[1], nullptr); });
       }}};
}

// For each tensor of each operation: spoil one view, expect the refusal.
template <typename Body>
void for_each_argument(Body body) {
  for (const Operation &operation : operations()) {
    const size_t count = operation.make().views.size();
    for (size_t n = 0; n < count; ++n) {
      const std::string name = operation.make().names[n];
      CAPTURE(operation.name);
      CAPTURE(name);
      body(operation, n, name);
    }
  }
}

void refuse(const Operation &operation, size_t n, fovea_status expected, std::initializer_list<std::string> words,
            const std::function<void(fovea_tensor &)> &spoil) {
  Call call = operation.make();
  spoil(call.views[n]);
  check_refusal(call(), expected, words);
  call.check_untouched();
}

}  // namespace

TEST_SUITE("errors") {
  TEST_CASE("others: the unspoiled calls are accepted") {
    for (const Operation &operation : operations()) {
      CAPTURE(operation.name);
      const Call call = operation.make();
      REQUIRE_OK(call());
      for (size_t n = call.inputs; n < call.memory.size(); ++n) CHECK(!call.memory[n].untouched());
    }
  }

  TEST_CASE("others: NULL tensors and NULL data") {
    for_each_argument([](const Operation &operation, size_t n, const std::string &name) {
      if (name != "log_sum_exp") {
        const Call call = operation.make();
        std::vector<const fovea_tensor *> pointers;
        for (const fovea_tensor &view : call.views) pointers.push_back(&view);
        pointers[n] = nullptr;
        check_refusal(call.run(pointers), FOVEA_NULL_POINTER, {name, "NULL"});
        call.check_untouched();
      }
      refuse(operation, n, FOVEA_NULL_POINTER, {name, "NULL"}, [](fovea_tensor &tensor) { tensor.data = nullptr; });
    });
  }

  TEST_CASE("others: rank, dtype, shape") {
    for_each_argument([](const Operation &operation, size_t n, const std::string &name) {
      for (int32_t rank : {-1, 0, 7, INT32_MIN, INT32_MAX}) {
        refuse(operation, n, FOVEA_BAD_RANK, {name, std::to_string(rank)},
               [rank](fovea_tensor &tensor) { tensor.rank = rank; });
      }
      const bool takes_halves = name != "lses" && name != "log_sum_exp";
      for (const fovea_dtype dtype : kDtypes) {
        if (dtype == FOVEA_F32 || (takes_halves && (dtype == FOVEA_F16 || dtype == FOVEA_BF16))) continue;
        refuse(operation, n, FOVEA_BAD_DTYPE, {name + " has dtype " + dtype_name(dtype)},
               [dtype](fovea_tensor &tensor) { tensor.dtype = dtype; });
      }
      const int rank = operation.make().views[n].rank;
      for (int axis = 0; axis < rank; ++axis) {
        refuse(operation, n, FOVEA_BAD_SHAPE, {axis_of(name, "shape", axis), "-4"},
               [axis](fovea_tensor &tensor) { tensor.shape[axis] = -4; });
        // Whoever is blamed, it is a bad shape and nothing is written.
        refuse(operation, n, FOVEA_BAD_SHAPE, {"expected"}, [axis](fovea_tensor &tensor) { --tensor.shape[axis]; });
      }
    });
  }

  TEST_CASE("others: strides") {
    for_each_argument([](const Operation &operation, size_t n, const std::string &name) {
      const Call call = operation.make();
      const int rank = call.views[n].rank;
      const bool any_strides = std::string(operation.name) == "matmul" && name != "out";
      if (!any_strides) {
        refuse(operation, n, FOVEA_BAD_STRIDE, {axis_of(name, "strides", rank - 1), "2"},
               [rank](fovea_tensor &tensor) { tensor.strides[rank - 1] = 2; });
      }
      if (n >= call.inputs) {
        refuse(operation, n, FOVEA_BAD_STRIDE, {name}, [](fovea_tensor &tensor) { tensor.strides[0] = 0; });
      }
      for (int64_t stride : {INT64_MAX, INT64_MIN, int64_t{1} << 62}) {
        refuse(operation, n, FOVEA_SIZE_OVERFLOW, {name},
               [stride](fovea_tensor &tensor) { tensor.strides[0] = stride; });
      }
    });
  }

  TEST_CASE("others: sizes whose product overflows") {
    for (const Operation &operation : operations()) {
      CAPTURE(operation.name);
      Call call = operation.make();
      for (fovea_tensor &view : call.views) {
        for (int axis = 0; axis < view.rank; ++axis) view.shape[axis] = int64_t{1} << 40;
      }
      check_refusal(call(), FOVEA_SIZE_OVERFLOW, {call.names[0]});
      call.check_untouched();
    }
  }

  TEST_CASE("others: overlaps") {
    for (const Operation &operation : operations()) {
      const size_t count = operation.make().views.size();
      for (size_t output = operation.make().inputs; output < count; ++output) {
        for (size_t other = 0; other < count; ++other) {
          if (other == output) continue;
          Call call = operation.make();
          CAPTURE(operation.name);
          CAPTURE(call.names[output]);
          CAPTURE(call.names[other]);
          // Shifted by one element, so that operations which allow in place refuse it too.
          call.views[output].data = static_cast<float *>(call.views[other].data) + 1;
          check_refusal(call(), FOVEA_OVERLAP, {call.names[output], call.names[other]});
          call.check_untouched();
        }
      }
    }
  }

  TEST_CASE("in place where it is allowed, refused where it is not") {
    for (const Operation &operation : operations()) {
      const std::string name = operation.name;
      CAPTURE(name);
      const bool allowed = name == "masked_softmax" || name == "exp" || name == "tanh" ||
                           name == "add_positional_encoding" || name == "rotary";
      Call call = operation.make();
      if (allowed) {
        const Call apart = operation.make();
        REQUIRE_OK(apart());
        call.views[1].data = call.views[0].data;
        REQUIRE_OK(call());
        CHECK(call.memory[0].dense() == apart.memory[1].dense());
      } else {
        call.views[call.inputs].data = call.views[0].data;
        check_refusal(call(), FOVEA_OVERLAP, {call.names[call.inputs], call.names[0]});
      }
    }
    // The same data but other strides is not in place.
    for (auto function : {fovea_exp, fovea_tanh}) {
      Tensor<float> wide({2, 4});
      wide.fill([] { return 1.0f; });
      fovea_tensor in = wide.view(), out = wide.view();
      in.shape[1] = out.shape[1] = 2;
      in.strides[0] = 4;
      out.strides[0] = 2;
      check_refusal(function(nullptr, &in, &out), FOVEA_OVERLAP, {"out", "x"});
      CHECK(wide.dense() == std::vector<float>(8, 1.0f));
    }
  }

  TEST_CASE("merge_states: no parts") {
    Call call = operations()[0].make();
    call.views[0].shape[0] = call.views[1].shape[0] = 0;
    check_refusal(call(), FOVEA_BAD_SHAPE, {"outs.shape[0]", "0"});
    call.check_untouched();
  }

  TEST_CASE("masked_softmax: valid lengths and options") {
    Tensor<float> x({2, 3, 4});
    x.fill([] { return 1.0f; });
    const fovea_tensor x_view = x.view();
    const auto refuse_lens = [&](fovea_status expected, std::initializer_list<std::string> words,
                                 const fovea_tensor &lens) {
      const Tensor<float> out({2, 3, 4});
      const fovea_tensor out_view = out.view();
      check_refusal(fovea_masked_softmax(nullptr, &x_view, &lens, &out_view, nullptr), expected, words);
      CHECK(out.untouched());
    };
    for (int64_t bad : {-1, 5, INT32_MIN, INT32_MAX}) {
      Tensor<int32_t> narrow({2});
      narrow.assign({4, static_cast<int32_t>(bad)});
      refuse_lens(FOVEA_BAD_VALUE, {"valid_lens[1]", std::to_string(bad), "4"}, narrow.view());
      Tensor<int64_t> wide({2, 3});
      wide.assign({4, 4, 4, bad, 4, 4});
      refuse_lens(FOVEA_BAD_VALUE, {"valid_lens[1,0]", std::to_string(bad), "4"}, wide.view());
    }
    Tensor<int32_t> lens({2});
    lens.assign({1, 2});
    fovea_tensor bad = lens.view();
    bad.data = nullptr;
    refuse_lens(FOVEA_NULL_POINTER, {"valid_lens", "NULL"}, bad);
    bad = lens.view();
    bad.dtype = FOVEA_F32;
    refuse_lens(FOVEA_BAD_DTYPE, {"valid_lens has dtype FOVEA_F32, expected FOVEA_I32 or FOVEA_I64"}, bad);
    for (int32_t rank : {0, 3}) {
      bad = lens.view();
      bad.rank = rank;
      refuse_lens(FOVEA_BAD_RANK, {"valid_lens", std::to_string(rank)}, bad);
    }
    bad = lens.view();
    bad.shape[0] = 1;
    refuse_lens(FOVEA_BAD_SHAPE, {"valid_lens.shape[0]", "1", "2"}, bad);

    const Tensor<float> out({2, 3, 4});
    const fovea_tensor out_view = out.view(), lens_view = lens.view();
    const auto refuse_options = [&](fovea_status expected, const std::string &word,
                                    const fovea_masked_softmax_options &options) {
      check_refusal(fovea_masked_softmax(nullptr, &x_view, &lens_view, &out_view, &options), expected, {word});
      CHECK(out.untouched());
    };
    refuse_options(FOVEA_BAD_VALUE, "empty_rows", {sizeof(fovea_masked_softmax_options), 3, 0});
    refuse_options(FOVEA_BAD_VALUE, "empty_rows", {sizeof(fovea_masked_softmax_options), -1, 0});
    refuse_options(FOVEA_BAD_OPTION, "reserved", {sizeof(fovea_masked_softmax_options), 0, 1});
    refuse_options(FOVEA_BAD_OPTION, "struct_size", {0, 0, 0});
    refuse_options(FOVEA_BAD_OPTION, "struct_size", {sizeof(fovea_masked_softmax_options) - 1, 0, 0});
    Tensor<float> flat({4});
    const fovea_tensor flat_view = flat.view();
    check_refusal(fovea_masked_softmax(nullptr, &flat_view, nullptr, &flat_view, nullptr), FOVEA_BAD_RANK, {"x", "1"});
  }

  TEST_CASE("matmul: packed matrices") {
    Tensor<float> a({3, 4}), b({4, 5});
    a.fill([] { return 1.0f; });
    b.fill([] { return 1.0f; });
    const Tensor<float> out({3, 5});
    const fovea_tensor a_view = a.view(), b_view = b.view(), out_view = out.view();
    fovea_packed_matrix *packed = nullptr;
    check_refusal(fovea_matmul_pack(nullptr, nullptr, nullptr, &packed), FOVEA_NULL_POINTER, {"b"});
    check_refusal(fovea_matmul_pack(nullptr, &b_view, nullptr, nullptr), FOVEA_NULL_POINTER, {"packed"});
    fovea_tensor bad = b_view;
    bad.rank = 3;
    check_refusal(fovea_matmul_pack(nullptr, &bad, nullptr, &packed), FOVEA_BAD_RANK, {"b", "3"});
    bad = b_view;
    bad.dtype = FOVEA_I32;
    check_refusal(fovea_matmul_pack(nullptr, &bad, nullptr, &packed), FOVEA_BAD_DTYPE, {"b"});
    bad = b_view;
    bad.shape[0] = -1;
    check_refusal(fovea_matmul_pack(nullptr, &bad, nullptr, &packed), FOVEA_BAD_SHAPE, {"b.shape[0]", "-1"});
    bad = b_view;
    bad.shape[0] = bad.shape[1] = int64_t{1} << 40;
    check_refusal(fovea_matmul_pack(nullptr, &bad, nullptr, &packed), FOVEA_SIZE_OVERFLOW, {"b"});
    bad = b_view;
    bad.shape[0] = int64_t{1} << 44;
    bad.strides[0] = 0;  // a small matrix, repeated: its copy would not fit any machine
    check_refusal(fovea_matmul_pack(nullptr, &bad, nullptr, &packed), FOVEA_OUT_OF_MEMORY, {});
    CHECK(packed == nullptr);

    REQUIRE_OK(fovea_matmul_pack(nullptr, &b_view, nullptr, &packed));
    check_refusal(fovea_matmul_packed(nullptr, nullptr, packed, &out_view), FOVEA_NULL_POINTER, {"a"});
    check_refusal(fovea_matmul_packed(nullptr, &a_view, nullptr, &out_view), FOVEA_NULL_POINTER, {"b"});
    check_refusal(fovea_matmul_packed(nullptr, &a_view, packed, nullptr), FOVEA_NULL_POINTER, {"out"});
    bad = a_view;
    bad.shape[1] = 3;
    check_refusal(fovea_matmul_packed(nullptr, &bad, packed, &out_view), FOVEA_BAD_SHAPE, {"a.shape[1]", "3", "4"});
    bad = out_view;
    bad.shape[1] = 4;
    check_refusal(fovea_matmul_packed(nullptr, &a_view, packed, &bad), FOVEA_BAD_SHAPE, {"out.shape[1]", "4", "5"});
    bad = out_view;
    bad.data = a.data();
    check_refusal(fovea_matmul_packed(nullptr, &a_view, packed, &bad), FOVEA_OVERLAP, {"out", "a"});
    CHECK(out.untouched());
    REQUIRE_OK(fovea_matmul_packed(nullptr, &a_view, packed, &out_view));
    fovea_packed_matrix_destroy(packed);
  }

  TEST_CASE("matmul: a matrix packed for another instruction set") {
    if (instruction_sets().size() < 2) {
      MESSAGE("skipped: needs two instruction sets");
      return;
    }
    Tensor<float> a({3, 4}), b({4, 5});
    a.fill([] { return 1.0f; });
    b.fill([] { return 1.0f; });
    const Tensor<float> out({3, 5});
    const fovea_tensor a_view = a.view(), b_view = b.view(), out_view = out.view();
    const std::string first = instruction_sets().front(), last = instruction_sets().back();
    fovea_packed_matrix *packed = nullptr;
    REQUIRE_OK(fovea_matmul_pack(shared_context(first), &b_view, nullptr, &packed));
    check_refusal(fovea_matmul_packed(shared_context(last), &a_view, packed, &out_view), FOVEA_BAD_VALUE,
                  {"b", first, last});
    CHECK(out.untouched());
    fovea_packed_matrix_destroy(packed);
  }
}
