// Every option of fovea_sdpa and fovea_sdpa_plan_create, and valid lengths, made bad: as sdpa_errors.cpp does tensors.
#include <cstddef>

#include "spoilt_sdpa.hpp"

using namespace testing;

TEST_SUITE("errors") {
  TEST_CASE("sdpa: option values out of range") {
    for (float bad : {kNan, kInfinity, -kInfinity}) {
      refuse(FOVEA_BAD_VALUE, {"scale"}, [bad](SpoiltSdpa &call) { call.arguments->options.scale = bad; });
      refuse(FOVEA_BAD_VALUE, {"scale"}, [bad](SpoiltSdpa &call) {
        call.arguments->options.scale = bad;
        call.arguments->options.flags |= FOVEA_SCALE_GIVEN;
      });
      refuse(FOVEA_BAD_VALUE, {"softcap"}, [bad](SpoiltSdpa &call) { call.arguments->options.softcap = bad; });
    }
    refuse(FOVEA_BAD_VALUE, {"softcap", "-1.5"}, [](SpoiltSdpa &call) { call.arguments->options.softcap = -1.5f; });
    for (int32_t policy : {-1, 3, INT32_MAX}) {
      refuse(FOVEA_BAD_VALUE, {"empty_rows", std::to_string(policy)},
             [policy](SpoiltSdpa &call) { call.arguments->options.empty_rows = policy; });
    }
    refuse(FOVEA_BAD_VALUE, {"flags", "FOVEA_TOP_LEFT", "FOVEA_QUERY_OFFSET"},
           [](SpoiltSdpa &call) { call.arguments->options.flags = FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET; });
    for (int64_t reach : {int64_t{-1}, INT64_MIN}) {
      refuse(FOVEA_BAD_VALUE, {"window_left", std::to_string(reach)}, [reach](SpoiltSdpa &call) {
        call.arguments->options.flags = FOVEA_WINDOW_LEFT;
        call.arguments->options.window_left = reach;
      });
      refuse(FOVEA_BAD_VALUE, {"window_right", std::to_string(reach)}, [reach](SpoiltSdpa &call) {
        call.arguments->options.flags = FOVEA_WINDOW_RIGHT;
        call.arguments->options.window_right = reach;
      });
    }
  }

  // There were weights left unwritten, whatever the memory held.
  TEST_CASE("sdpa: weights averaged over no heads") {
    refuse(FOVEA_BAD_SHAPE, {"query has 0 heads"}, [](SpoiltSdpa &call) {
      AttentionArguments &arguments = *call.arguments;
      for (fovea_tensor *tensor : {&arguments.query, &arguments.key, &arguments.value, &arguments.out}) {
        tensor->shape[1] = 0;
      }
      fovea_attention_options &options = arguments.options;
      options.mask = options.bias = options.alibi_slopes = options.sinks = options.log_sum_exp = nullptr;
      options.flags = FOVEA_AVERAGE_WEIGHTS;
      fovea_tensor &weights = arguments.weights;  // [2,3,5]
      weights.rank = 3;
      for (int axis = 1; axis < 3; ++axis) {
        weights.shape[axis] = weights.shape[axis + 1];
        weights.strides[axis] = weights.strides[axis + 1];
      }
    });
  }

  TEST_CASE("sdpa: extreme query offsets are refused or answered, never undefined") {
    for (int64_t offset : {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX}) {
      for (uint32_t flags : {uint32_t{FOVEA_QUERY_OFFSET | FOVEA_CAUSAL},
                             uint32_t{FOVEA_QUERY_OFFSET | FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT},
                             uint32_t{FOVEA_QUERY_OFFSET | FOVEA_LEAVE_ONE_OUT}}) {
        SpoiltSdpa call;
        settle(call);
        call.arguments->options.flags = flags;
        call.arguments->options.query_offsets = nullptr;
        call.arguments->options.query_offset = offset;
        call.arguments->options.window_left = INT64_MAX;
        call.arguments->options.window_right = INT64_MAX;
        const fovea_status status = call.run();
        CHECK((status == FOVEA_OK || status == FOVEA_BAD_VALUE));
        if (status != FOVEA_OK) CHECK(call.outputs_untouched());
      }
    }
  }

  TEST_CASE("sdpa: unknown flags and struct sizes") {
    for (uint32_t bit = 512; bit != 0; bit <<= 1) {
      refuse(FOVEA_BAD_OPTION, {"flags"}, [bit](SpoiltSdpa &call) { call.arguments->options.flags = bit; });
    }
    constexpr size_t first_version = offsetof(fovea_attention_options, dropout);
    for (size_t size : {size_t{0}, size_t{1}, first_version - 1, size_t{1} << 40, SIZE_MAX}) {
      refuse(FOVEA_BAD_OPTION, {"struct_size", std::to_string(size)},
             [size](SpoiltSdpa &call) { call.arguments->options.struct_size = size; });
    }
    // A caller that was compiled before a member existed: what stands behind its struct is not looked at.
    SpoiltSdpa older;
    settle(older);
    fovea_attention_options options = older.arguments->options;
    options.struct_size = first_version;
    options.dropout = 2.0f;
    older.options = &options;
    REQUIRE_OK(older.plan());
    REQUIRE_OK(older.run());
    struct Newer {
      fovea_attention_options known;
      unsigned char unknown[40];
    };
    for (size_t set = 0; set <= 40; ++set) {
      SpoiltSdpa call;
      settle(call);
      Newer newer{};
      newer.known = call.arguments->options;
      newer.known.struct_size = sizeof newer;
      if (set > 0) newer.unknown[set - 1] = 1;
      call.options = &newer.known;
      if (set == 0) {
        REQUIRE_OK(call.plan());
        REQUIRE_OK(call.run());
      } else {
        check_refusal(call.run(), FOVEA_BAD_OPTION, {"options"});
        CHECK(call.outputs_untouched());
        check_refusal(call.plan(), FOVEA_BAD_OPTION, {"options"});
      }
    }
  }

  TEST_CASE("sdpa: valid lengths below 0 and above K, int32 and int64, name their index") {
    for (bool wide : {false, true}) {
      for (int64_t bad : {int64_t{-1}, int64_t{6}, wide ? INT64_MIN : INT32_MIN, wide ? INT64_MAX : INT32_MAX}) {
        refuse(
            FOVEA_BAD_VALUE, {"valid_lens[1]", std::to_string(bad), "5"},
            [&](SpoiltSdpa &call) {
              call.problem.set_valid_lens({5, bad}, wide);
              call.arguments.emplace(call.problem, call.result);
              settle(call);
            },
            Where::kCallOnly);
        refuse(
            FOVEA_BAD_VALUE, {"valid_lens[1,2]", std::to_string(bad), "5"},
            [&](SpoiltSdpa &call) {
              call.problem.set_valid_lens({5, 4, 3, 2, 1, bad}, wide);
              call.arguments.emplace(call.problem, call.result);
              settle(call);
            },
            Where::kCallOnly, true);
      }
    }
    // Just above the range of int32: must not be cut to a good one.
    refuse(
        FOVEA_BAD_VALUE, {"valid_lens[0]", "4294967298"},
        [&](SpoiltSdpa &call) {
          call.problem.set_valid_lens({(int64_t{1} << 32) + 2, 3}, true);
          call.arguments.emplace(call.problem, call.result);
          settle(call);
        },
        Where::kCallOnly);
  }
}
