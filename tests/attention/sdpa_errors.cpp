// Every tensor of fovea_sdpa and fovea_sdpa_plan_create, made bad in every way: the code, the words of the message,
// and outputs that stay as they were.
#include <cstddef>
#include <vector>

#include "spoilt_sdpa.hpp"

using namespace testing;

namespace {

struct Argument {
  const char *name;
  fovea_tensor AttentionArguments::*tensor;
  int rank;
};

const std::vector<Argument> kInputs = {{"query", &AttentionArguments::query, 4},
                                       {"key", &AttentionArguments::key, 4},
                                       {"value", &AttentionArguments::value, 4},
                                       {"valid_lens", &AttentionArguments::valid_lens, 1},
                                       {"query_offsets", &AttentionArguments::query_offsets, 1},
                                       {"mask", &AttentionArguments::mask, 4},
                                       {"bias", &AttentionArguments::bias, 4},
                                       {"alibi_slopes", &AttentionArguments::alibi_slopes, 1},
                                       {"sinks", &AttentionArguments::sinks, 1}};
const std::vector<Argument> kOutputs = {{"out", &AttentionArguments::out, 4},
                                        {"log_sum_exp", &AttentionArguments::log_sum_exp, 3},
                                        {"weights", &AttentionArguments::weights, 4}};

std::vector<Argument> all_arguments() {
  std::vector<Argument> all = kInputs;
  all.insert(all.end(), kOutputs.begin(), kOutputs.end());
  return all;
}

fovea_tensor &tensor_of(SpoiltSdpa &call, const Argument &argument) { return (*call.arguments).*(argument.tensor); }

}  // namespace

TEST_SUITE("errors") {
  TEST_CASE("sdpa: the unspoiled call is accepted") {
    for (bool per_query_lens : {false, true}) {
      SpoiltSdpa call(per_query_lens);
      settle(call);
      REQUIRE_OK(call.plan());
      CHECK(call.outputs_untouched());
      REQUIRE_OK(call.run());
      CHECK(!call.outputs_untouched());
    }
  }

  TEST_CASE("sdpa: required pointers that are NULL") {
    refuse(FOVEA_NULL_POINTER, {"query", "NULL"}, [](SpoiltSdpa &call) { call.query = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"key", "NULL"}, [](SpoiltSdpa &call) { call.key = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"value", "NULL"}, [](SpoiltSdpa &call) { call.value = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"out", "NULL"}, [](SpoiltSdpa &call) { call.out = nullptr; });
    SpoiltSdpa call;
    settle(call);
    check_refusal(fovea_sdpa_plan_create(nullptr, call.query, call.key, call.value, call.out, call.options, nullptr),
                  FOVEA_NULL_POINTER, {"plan", "NULL"});
  }

  TEST_CASE("sdpa: data pointers that are NULL") {
    for (const Argument &argument : all_arguments()) {
      refuse(
          FOVEA_NULL_POINTER, {argument.name, "NULL"},
          [&](SpoiltSdpa &call) { tensor_of(call, argument).data = nullptr; }, Where::kCallOnly);
    }
  }

  TEST_CASE("sdpa: data that is not aligned to its element") {
    for (const Argument &argument : all_arguments()) {
      if (std::string(argument.name) == "mask") continue;
      refuse(
          FOVEA_BAD_VALUE, {argument.name},
          [&](SpoiltSdpa &call) {
            fovea_tensor &tensor = tensor_of(call, argument);
            tensor.data = static_cast<char *>(tensor.data) + 1;
          },
          Where::kCallOnly);
    }
  }

  TEST_CASE("sdpa: wrong ranks") {
    for (const Argument &argument : all_arguments()) {
      for (int32_t rank : {-1, 0, argument.rank + 1, 7, 1000, INT32_MIN, INT32_MAX}) {
        if (std::string(argument.name) == "valid_lens" && rank == 2) continue;
        refuse(FOVEA_BAD_RANK, {argument.name, std::to_string(rank)},
               [&](SpoiltSdpa &call) { tensor_of(call, argument).rank = rank; });
      }
    }
    for (const char *name : {"key", "value", "out", "mask", "bias", "weights"}) {
      for (const Argument &argument : all_arguments()) {
        if (argument.name != std::string(name)) continue;
        refuse(FOVEA_BAD_RANK, {name, "3"}, [&](SpoiltSdpa &call) {
          fovea_tensor &tensor = tensor_of(call, argument);
          tensor.rank = 3;  // a good tensor but for its rank: the first entry of the batch
          for (int axis = 0; axis < 3; ++axis) {
            tensor.shape[axis] = tensor.shape[axis + 1];
            tensor.strides[axis] = tensor.strides[axis + 1];
          }
        });
      }
    }
  }

  TEST_CASE("sdpa: wrong element types") {
    for (const Argument &argument : all_arguments()) {
      for (const fovea_dtype dtype : kDtypes) {
        const std::string name = argument.name;
        const bool integers = name == "valid_lens" || name == "query_offsets";
        const bool floats = name != "mask" && name != "alibi_slopes" && name != "sinks" && name != "log_sum_exp";
        if (floats && !integers && (dtype == FOVEA_F16 || dtype == FOVEA_BF16)) continue;  // are taken
        // Are taken, with scales: eight_bits.cpp, four_bits.cpp.
        if (dtype == FOVEA_I8 && (name == "key" || name == "value")) continue;
        if (dtype == FOVEA_U8 && name == "value") continue;
        if (integers && (dtype == FOVEA_I32 || dtype == FOVEA_I64)) continue;
        if (name == "mask" ? dtype == FOVEA_BOOL : dtype == FOVEA_F32 && !integers) continue;
        const char *expected = integers         ? "FOVEA_I32 or FOVEA_I64"
                               : name == "mask" ? "FOVEA_BOOL"
                               : floats         ? "FOVEA_F32, FOVEA_F16 or FOVEA_BF16"
                                                : "FOVEA_F32";
        refuse(FOVEA_BAD_DTYPE, {name + " has dtype " + dtype_name(dtype) + ", expected " + expected},
               [&](SpoiltSdpa &call) { tensor_of(call, argument).dtype = dtype; });
      }
    }
  }

  TEST_CASE("sdpa: negative sizes and sizes that do not fit together") {
    for (const Argument &argument : all_arguments()) {
      for (int axis = 0; axis < argument.rank; ++axis) {
        for (int64_t size : {int64_t{-1}, int64_t{-1000000}, INT64_MIN}) {
          refuse(FOVEA_BAD_SHAPE, {axis_of(argument.name, "shape", axis), std::to_string(size)},
                 [&](SpoiltSdpa &call) { tensor_of(call, argument).shape[axis] = size; });
        }
      }
    }
    // One off from what it should be: the argument that disagrees with those before it is named, with its value. Inputs
    // get one more (a mask's 2 - 1 = 1 would broadcast), outputs one less (one more would overlap itself).
    for (const Argument &argument : all_arguments()) {
      const std::string name = argument.name;
      const bool output = name == "out" || name == "log_sum_exp" || name == "weights";
      for (int axis = 0; axis < argument.rank; ++axis) {
        if (name == "query" || (name == "key" && (axis == 1 || axis == 2)) || (name == "value" && axis == 3)) continue;
        SpoiltSdpa sizes;
        settle(sizes);
        const int64_t size = tensor_of(sizes, argument).shape[axis] + (output ? -1 : 1);
        refuse(FOVEA_BAD_SHAPE, {name, std::to_string(size)},
               [&](SpoiltSdpa &call) { tensor_of(call, argument).shape[axis] = size; });
      }
    }
  }

  TEST_CASE("sdpa: heads that are no multiple, feature sizes out of range") {
    for (int64_t heads : {0, 3, 8}) {
      const std::string message = "query has 4 heads, expected a multiple of key's " + std::to_string(heads);
      refuse(FOVEA_BAD_SHAPE, {message}, [heads](SpoiltSdpa &call) {
        for (fovea_tensor *tensor : {&call.arguments->key, &call.arguments->value}) {
          tensor->shape[1] = heads;
          tensor->strides[1] = 0;
        }
      });
    }
    for (int64_t dim : {int64_t{0}, int64_t{1025}, int64_t{1} << 20}) {
      const std::string message = " has " + std::to_string(dim) + " features, expected 1 to 1024";
      refuse(FOVEA_BAD_SHAPE, {"query" + message}, [dim](SpoiltSdpa &call) {
        for (fovea_tensor *tensor : {&call.arguments->query, &call.arguments->key}) tensor->shape[3] = dim;
      });
      refuse(FOVEA_BAD_SHAPE, {"value" + message}, [dim](SpoiltSdpa &call) {
        for (fovea_tensor *tensor : {&call.arguments->value, &call.arguments->out}) {
          tensor->shape[3] = dim;
          for (int axis = 0; axis < 3; ++axis) tensor->strides[axis] = tensor->strides[axis] / 7 * dim;
        }
      });
    }
  }

  TEST_CASE("sdpa: at most 2^30 queries and keys, offsets of at most 2^30") {
    const int64_t most = int64_t{1} << 30;
    const auto plan = [](int64_t queries, int64_t keys, int64_t offset) {
      const int64_t query_shape[] = {queries, 2}, key_shape[] = {keys, 2};
      const fovea_tensor q = fovea_tensor_contiguous(nullptr, FOVEA_F32, 2, query_shape);
      const fovea_tensor k = fovea_tensor_contiguous(nullptr, FOVEA_F32, 2, key_shape);
      fovea_attention_options options{};
      options.struct_size = sizeof options;
      options.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
      options.query_offset = offset;
      fovea_plan *made = nullptr;
      const fovea_status status = fovea_sdpa_plan_create(nullptr, &q, &k, &k, &q, &options, &made);
      CHECK((made != nullptr) == (status == FOVEA_OK));
      fovea_plan_destroy(made);
      return status;
    };
    REQUIRE_OK(plan(most, most, 0));
    check_refusal(plan(most + 1, 3, 0), FOVEA_BAD_SHAPE, {"query has 1073741825 positions, expected 0 to 1073741824"});
    check_refusal(plan(3, most + 1, 0), FOVEA_BAD_SHAPE, {"key has 1073741825 positions, expected 0 to 1073741824"});
    for (int64_t sign : {1, -1}) {
      REQUIRE_OK(plan(3, 4, sign * most));
      check_refusal(plan(3, 4, sign * (most + 1)), FOVEA_BAD_VALUE, {"options.query_offset is", "-2^30 to 2^30"});
    }
  }

  TEST_CASE("sdpa: sizes and strides whose product overflows") {
    const int64_t huge = int64_t{1} << 61;
    for (const Argument &argument : all_arguments()) {
      for (int axis = 0; axis + 1 < argument.rank; ++axis) {
        for (int64_t stride : {huge, -huge, INT64_MAX, INT64_MIN}) {
          if (argument.name == std::string("mask") && std::abs(stride / 2) <= huge / 2)
            continue;  // bytes: it would fit
          SpoiltSdpa call;
          settle(call);
          fovea_tensor &tensor = tensor_of(call, argument);
          tensor.strides[axis] = stride;
          CAPTURE(argument.name);
          CAPTURE(axis);
          CAPTURE(stride);
          check_refusal(call.run(), FOVEA_SIZE_OVERFLOW, {argument.name});
          CHECK(call.outputs_untouched());
        }
      }
    }
    for (int64_t size : {huge, INT64_MAX}) {
      SpoiltSdpa call;
      settle(call);
      for (int axis = 0; axis < 3; ++axis) {
        for (fovea_tensor *tensor : {&call.arguments->query, &call.arguments->out}) tensor->shape[axis] = size;
      }
      check_refusal(call.run(), FOVEA_SIZE_OVERFLOW, {"query"});
      CHECK(call.outputs_untouched());
    }
    // Fits 63 bits as a count, but no machine has it: data + strides leaves the address space.
    SpoiltSdpa call;
    settle(call);
    call.arguments->query.strides[0] = (int64_t{1} << 60) - 1;
    call.arguments->query.shape[0] = 2;
    call.arguments->query.data = reinterpret_cast<void *>(~uintptr_t{0} - 63);
    check_refusal(call.run(), FOVEA_SIZE_OVERFLOW, {"query"});
    CHECK(call.outputs_untouched());
  }

  TEST_CASE("sdpa: strides that are refused") {
    for (const Argument &argument : all_arguments()) {
      const std::string name = argument.name;
      if (name == "log_sum_exp" || argument.rank == 1) continue;
      for (int64_t stride : {2, 0, -1}) {
        refuse(FOVEA_BAD_STRIDE, {axis_of(name, "strides", argument.rank - 1), std::to_string(stride)},
               [&](SpoiltSdpa &call) { tensor_of(call, argument).strides[argument.rank - 1] = stride; });
      }
    }
    for (const Argument &argument : kOutputs) {  // outputs that repeat themselves
      for (int axis = 0; axis + 1 < argument.rank; ++axis) {
        for (int64_t stride : {0, 1}) {
          if (std::string(argument.name) == "log_sum_exp" && stride == 1) continue;
          refuse(FOVEA_BAD_STRIDE, {argument.name},
                 [&](SpoiltSdpa &call) { tensor_of(call, argument).strides[axis] = stride; });
        }
      }
    }
  }

  TEST_CASE("sdpa: overlapping tensors") {
    for (const Argument &output : kOutputs) {
      for (const Argument &other : all_arguments()) {
        if (output.name == other.name) continue;
        // Both ends of the other tensor: its first element, and its last.
        for (bool last : {false, true}) {
          SpoiltSdpa call;
          settle(call);
          const fovea_tensor &target = tensor_of(call, other);
          const size_t size = other.name == std::string("mask") ? 1 : 4;
          int64_t offset = 0;
          for (int axis = 0; last && axis < target.rank; ++axis)
            offset += (target.shape[axis] - 1) * target.strides[axis];
          const auto address = reinterpret_cast<uintptr_t>(target.data) + static_cast<size_t>(offset) * size;
          tensor_of(call, output).data = reinterpret_cast<void *>(address / 4 * 4);
          CAPTURE(output.name);
          CAPTURE(other.name);
          check_refusal(call.run(), FOVEA_OVERLAP, {output.name, other.name});
          CHECK(call.result.out.untouched());
          CHECK(call.result.log_sum_exp->untouched());
          CHECK(call.result.weights->untouched());
        }
      }
    }
  }

  TEST_CASE("sdpa: tensors that interleave in one buffer without sharing an element are accepted") {
    // Query, key, value and out side by side in each row of one [B,L,4,H,D] buffer, as packed projections are.
    const int64_t heads = 2, len = 6, dim = 4;
    Random random(base_seed());
    Tensor<float> packed({2, len, 4, heads, dim});
    packed.fill_normal(random);
    fovea_tensor views[4];
    for (int64_t n = 0; n < 4; ++n) {
      views[n] = packed.view();
      views[n].data = packed.data() + n * heads * dim;
      views[n].rank = 4;
      const int64_t shape[] = {2, heads, len, dim}, strides[] = {len * 4 * heads * dim, dim, 4 * heads * dim, 1};
      std::memcpy(views[n].shape, shape, sizeof shape);
      std::memcpy(views[n].strides, strides, sizeof strides);
    }
    REQUIRE_OK(fovea_sdpa(nullptr, &views[0], &views[1], &views[2], &views[3], nullptr));
    // One element further and the out of the last head runs into the next row's query.
    views[3].data = static_cast<float *>(views[3].data) + 1;
    check_refusal(fovea_sdpa(nullptr, &views[0], &views[1], &views[2], &views[3], nullptr), FOVEA_OVERLAP, {"out"});
  }
}
