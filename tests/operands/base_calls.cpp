// What a good call of each function needs. A function that takes one shape for all its arguments needs no line here.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "handles.hpp"

namespace testing {
namespace {

using Setup = std::function<void(OperandCall &)>;

const Shape kQuery = {2, 4, 3, 6}, kKey = {2, 2, 5, 6}, kValue = {2, 2, 5, 8}, kOut = {2, 4, 3, 8};
constexpr int32_t kKinds[] = {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT,
                              FOVEA_SCORE_GAUSSIAN};

// A score's parameters that a kind requires, of queries and keys of six features and four heads.
void give_score(OperandCall &call, const std::string &path, int32_t kind) {
  call.options<fovea_score>(path).kind = kind;
  if (kind == FOVEA_SCORE_BILINEAR) call.give(path + ".weight", {6, 6});
  if (kind == FOVEA_SCORE_CONCAT) call.give(path + ".weight", {7, 12});
  if (kind == FOVEA_SCORE_GAUSSIAN) call.give(path + ".sigmas", {4});
  if (kind == FOVEA_SCORE_ADDITIVE) call.give(path + ".query_weight", {7, 6});
  if (kind == FOVEA_SCORE_ADDITIVE) call.give(path + ".key_weight", {7, 6});
  if (kind == FOVEA_SCORE_ADDITIVE || kind == FOVEA_SCORE_CONCAT) call.give(path + ".score_vector", {7});
}

void give_heads(OperandCall &call, bool with_key) {
  call.give("query", kQuery);
  if (with_key) call.give("key", kKey);
  call.give("value", kValue);
  call.give("out", kOut);
}

// One for each score function.
std::vector<Setup> scored(const std::string &path, const Setup &rest) {
  std::vector<Setup> all;
  for (const int32_t kind : kKinds) {
    all.emplace_back([=](OperandCall &call) {
      rest(call);
      give_score(call, path, kind);
    });
  }
  return all;
}

// Into the places of a call that begin so.
void give_pages(OperandCall &call, const Pages &pages, const std::string &path, const std::string &scales_path) {
  call.give(path + "key_pages", pages.keys(), pages.dtype());
  call.give(path + "value_pages", pages.values(), pages.dtype());
  if (!pages.eight_bits) return;
  call.give(scales_path + "key_scales", pages.scales(), FOVEA_F16);
  call.give(scales_path + "value_scales", pages.scales(), FOVEA_F16);
}

// Of two sequences of three queries and three keys, four heads over two.
const Shape kKept = {2 * 3 * (4 * (6 + 6 + 1) + 2 * (6 + 6))};

void give_sequences(OperandCall &call) {  // as many queries as keys, for rotary's positions
  for (const char *name : {"query", "key", "value", "out"}) call.give(name, {2, 3, 10});
  call.sizes.insert(4);  // heads
}

void give_parameters(OperandCall &call, bool in_one) {
  auto &parameters = call.options<fovea_mha_parameters>("parameters");
  parameters.heads = 4;
  parameters.kv_heads = 2;
  call.give("parameters.out_weight", {10, 24});
  if (in_one) return call.give("parameters.in_weight", {48, 10});
  call.give("parameters.query_weight", {24, 10});
  call.give("parameters.key_weight", {12, 10});
  call.give("parameters.value_weight", {12, 10});
}

// Members of `path` that a call does not look at, or refuses.
void ignore(OperandCall &call, const std::string &path, std::initializer_list<const char *> members) {
  for (const char *member : members) {
    std::erase_if(call.slots(), [&](const Slot &slot) { return slot.path == path + member; });
  }
}

// A layer over two sequences in pages.
void give_scheduled(OperandCall &call, bool eight_bits) {
  const Pages pages = {.value_dim = 6, .eight_bits = eight_bits};
  call.leave_out("options.score");
  ignore(call, "options.", {"kept"});
  for (const char *name : {"query", "key", "value", "out"}) call.give(name, {kTokens, 10});
  give_pages(call, pages, "options.", "options.");
  call.give("options.attention.alibi_slopes", {4});
  call.give("options.attention.sinks", {4});
  auto &options = call.options<fovea_mha_options>("options");
  options.schedule = schedule(call, pages);
  options.score = nullptr;
  call.sizes.insert(4);  // heads
}

// What rotary takes together only: cosines and sines, and sections beside positions of as many; of three rows of
// `pairs`.
void give_rotary(OperandCall &call, const std::string &path, int64_t pairs) {
  call.give(path + ".cosines", {16, pairs});
  call.give(path + ".sines", {16, pairs});
  call.give(path + ".sections", {pairs}, FOVEA_I32);
  call.give(path + ".positions", {2, 3}, FOVEA_I32);
}

// What the forward call left is read; what it was asked for besides is not looked at.
void give_backward(OperandCall &call) {
  give_heads(call, true);
  std::erase_if(call.slots(),
                [](const Slot &slot) { return slot.path == "options.weights" || slot.path == "options.scores"; });
  call.give("options.log_sum_exp", {2, 4, 3});
  for (const char *kept : {"options.log_sum_exp", "options.projected_query", "options.projected_key"}) {
    call.slot(kept).output = false;
  }
  call.give("gradients.out", kOut);
}

void give_rows_backward(OperandCall &call) {
  ignore(call, "options.", {"sum", "mean", "inverse_deviation"});
  call.give("x", {2, 3, 5});
  call.give("gradients.out", {2, 3, 5});
}

void give_layer_backward(OperandCall &call, bool in_one, bool turned) {
  ignore(call, "options.attention.", {"weights", "scores", "log_sum_exp", "projected_query", "projected_key"});
  for (const char *name : {"query", "key", "value"}) call.give(name, {2, 3, 10});
  call.give("gradients.out", {2, 3, 10});
  call.give("options.kept", kKept);
  call.slot("options.kept").output = false;
  call.sizes.insert(4);  // heads
  give_parameters(call, in_one);
  if (turned) give_rotary(call, "options.rotary", 3);
}

std::vector<Setup> setups_of(const std::string &function) {
  const auto heads = [](OperandCall &call) { give_heads(call, true); };
  const auto prepared = [](OperandCall &call) {
    give_heads(call, false);
    call.argument("keys").pointer = prepared_keys(call);
  };
  const auto product = [](OperandCall &call) {
    call.give("a", {3, 5});
    call.give("b", {5, 8});
    call.give("out", {3, 8});
  };
  const auto once = [](OperandCall &call) {
    call.give("options.kept", kKept);
    give_sequences(call);
    give_parameters(call, false);
  };
  const auto eight_bits = [](OperandCall &call) {
    call.give("query", kQuery);
    call.give("key", kKey, FOVEA_I8);
    call.give("value", kValue, FOVEA_I8);
    call.give("out", kOut);
    call.give("options.key_scales", {2, 2, 5, 1}, FOVEA_F16);
    call.give("options.value_scales", {2, 2, 5, 1}, FOVEA_F16);
  };
  const auto four_bits = [](OperandCall &call) {
    call.give("query", {1, 2, 2, 6});
    call.give("key", {1, 2, 5, 6});
    call.give("value", {1, 2, 5, 16}, FOVEA_U8);
    call.give("out", {1, 2, 2, 32});
    call.give("options.value_scales", {1, 2, 5, 2}, FOVEA_F16);
  };
  if (function == "fovea_sdpa" || function == "fovea_sdpa_plan_create") return {heads, eight_bits, four_bits};
  if (function == "fovea_attention" || function == "fovea_attention_plan_create") {
    std::vector<Setup> all = scored("score", heads);
    all.emplace_back(eight_bits);
    all.emplace_back(four_bits);
    return all;
  }
  if (function.starts_with("fovea_attention_backward")) return scored("score", give_backward);
  if (function == "fovea_layer_norm_backward" || function == "fovea_rms_norm_backward") return {give_rows_backward};
  if (function == "fovea_linear_backward") {
    return {[](OperandCall &call) {
      ignore(call, "options.", {"residual"});
      call.give("x", {3, 5});
      call.give("weight", {8, 5});
      call.give("gradients.out", {3, 8});
    }};
  }
  if (function == "fovea_merge_states_backward") {
    return {[](OperandCall &call) {
      call.give("outs", {2, 3, 5});
      call.give("lses", {2, 3});
      call.give("gradients.out", {3, 5});
    }};
  }
  if (function == "fovea_masked_softmax_backward") {
    return {[](OperandCall &call) {
      for (const char *name : {"out", "grad_out", "grad_x"}) call.give(name, {2, 3, 5});
    }};
  }
  if (function == "fovea_multi_head_attention_backward") {
    std::vector<Setup> all;
    for (const bool in_one : {false, true}) {
      for (const bool turned : {false, true}) {
        const auto rest = [=](OperandCall &call) { give_layer_backward(call, in_one, turned); };
        for (Setup &setup : scored("options.score", rest)) all.push_back(std::move(setup));
      }
    }
    return all;
  }
  if (function == "fovea_attention_prepared" || function == "fovea_attention_prepared_plan_create") return {prepared};
  if (function == "fovea_matmul" || function == "fovea_gemm") return {product};
  if (function == "fovea_matmul_pack") return {[](OperandCall &call) { call.give("b", {5, 8}); }};
  if (function == "fovea_linear_pack") return {[](OperandCall &call) { call.give("weight", {5, 8}); }};
  if (function == "fovea_alibi_slopes") return {[](OperandCall &call) { call.give("out", {4}); }};
  if (function == "fovea_positional_encoding") return {[](OperandCall &call) { call.give("out", {3, 8}); }};
  if (function == "fovea_multi_head_attention" || function == "fovea_mha_plan_create") {
    const bool planned = function == "fovea_mha_plan_create";
    const auto packed_once = [=](OperandCall &call) {
      planned ? ignore(call, "options.", {"kept"}) : call.give("options.kept", kKept);
      give_sequences(call);
      call.argument("weights").pointer = mha_weights(call);
    };
    std::vector<Setup> all = scored("options.score", packed_once);
    for (const bool eight_bits : {false, true}) {
      all.emplace_back([=](OperandCall &call) {
        give_scheduled(call, eight_bits);
        call.argument("weights").pointer = mha_weights(call);
      });
    }
    const auto turned = [=](OperandCall &call) {
      packed_once(call);
      give_rotary(call, "options.rotary", 3);
    };
    for (Setup &setup : scored("options.score", turned)) all.push_back(std::move(setup));
    return all;
  }
  if (function == "fovea_multi_head_attention_once") {
    std::vector<Setup> all = scored("options.score", once);
    for (const bool eight_bits : {false, true}) {
      all.emplace_back([=](OperandCall &call) {
        give_scheduled(call, eight_bits);
        give_parameters(call, false);
      });
    }
    const auto in_one = [](OperandCall &call) {
      call.give("options.kept", kKept);
      give_sequences(call);
      give_parameters(call, true);
    };
    const auto turned = [=](OperandCall &call) {
      once(call);
      give_rotary(call, "options.rotary", 3);
    };
    for (const Setup &rest : {Setup(in_one), Setup(turned)}) {
      for (Setup &setup : scored("options.score", rest)) all.push_back(std::move(setup));
    }
    return all;
  }
  if (function == "fovea_rotary_frequencies") {
    return {[](OperandCall &call) {
      auto &options = call.options<fovea_rotary_frequencies_options>("options");
      options.kind = FOVEA_FREQUENCIES_LONGROPE;
      options.base = 10000;
      options.factor = 4;
      options.original_length = 16;
      for (const char *path : {"frequencies", "options.short_factors", "options.long_factors"}) call.give(path, {4});
      call.give("attention_factor", {1});
    }};
  }
  if (function == "fovea_rotary") {
    const auto plain = [](OperandCall &call) {
      call.give("x", {2, 3, 8});
      call.give("out", {2, 3, 8});
    };
    return {plain, [=](OperandCall &call) {
              plain(call);
              give_rotary(call, "options", 4);
            }};
  }
  if (function == "fovea_mha_weights_create") {
    return {[](OperandCall &call) { give_parameters(call, false); },
            [](OperandCall &call) { give_parameters(call, true); }};
  }
  if (function == "fovea_matmul_packed") {
    return {[](OperandCall &call) {
      call.give("a", {3, 5});
      call.give("out", {3, 8});
      call.argument("b").pointer = packed(call);
    }};
  }
  if (function == "fovea_linear") {
    return {[](OperandCall &call) {
      call.give("x", {3, 5});
      call.give("out", {3, 8});
      call.argument("weight").pointer = packed(call);
    }};
  }
  if (function == "fovea_masked_softmax") {
    return {[](OperandCall &call) {
      call.give("x", {2, 3, 5});
      call.give("out", {2, 3, 5});
    }};
  }
  if (function == "fovea_merge_states") {
    return {[](OperandCall &call) {
      call.give("outs", {2, 3, 5});
      call.give("lses", {2, 3});
      call.give("out", {3, 5});
    }};
  }
  if (function == "fovea_kernel_regression") {
    return {[](OperandCall &call) {
      call.give("queries", {3, 6});
      call.give("inputs", {5, 6});
      call.give("targets", {5, 8});
      call.give("out", {3, 8});
    }};
  }
  if (function == "fovea_prepared_keys_create") {
    return scored("score", [](OperandCall &call) {
      auto &sizes = call.options<fovea_prepared_keys_sizes>("sizes");
      sizes.batch = sizes.kv_heads = sizes.capacity = 2;
      sizes.query_dim = sizes.key_dim = 6;
    });
  }
  if (function == "fovea_prepared_keys_append") {
    return {[](OperandCall &call) {
      call.give("key", kKey);
      fovea_prepared_keys *keys = prepared_keys(call);
      call.argument("keys").pointer = keys;
      call.before = [=] { static_cast<void>(fovea_prepared_keys_truncate(keys, 0)); };
    }};
  }
  if (function == "fovea_schedule_append") {
    std::vector<Setup> all;
    for (const bool eight_bits : {false, true}) {
      all.emplace_back([=](OperandCall &call) {
        const Pages pages = {.eight_bits = eight_bits};
        call.give("key", {kTokens, 2, 6});
        call.give("value", {kTokens, 2, 8});
        give_pages(call, pages, "", "options.");
        call.argument("schedule").pointer = schedule(call, pages);
        call.options<fovea_append_options>("options");
        call.give("options.rotary.cosines", {16, 3});
        call.give("options.rotary.sines", {16, 3});
        call.give("options.rotary.sections", {3}, FOVEA_I32);
        call.give("options.rotary.positions", {2, kTokens}, FOVEA_I32);
      });
      all.emplace_back([=](OperandCall &call) {
        const Pages pages = {.eight_bits = eight_bits};
        call.give("key", {kTokens, 2, 6});
        call.give("value", {kTokens, 2, 8});
        give_pages(call, pages, "", "options.");
        call.argument("schedule").pointer = schedule(call, pages);
        call.options<fovea_append_options>("options");
      });
    }
    return all;
  }
  if (function == "fovea_schedule_create") {
    std::vector<Setup> all;
    for (const bool eight_bits : {false, true}) {
      all.emplace_back([=](OperandCall &call) {
        const Pages pages = {.eight_bits = eight_bits};
        call.give("query", {kTokens, 4, 6});
        call.give("key", pages.keys(), pages.dtype());
        call.give("value", pages.values(), pages.dtype());
        call.give("out", {kTokens, 4, 8});
        if (eight_bits) call.give("options.key_scales", pages.scales(), FOVEA_F16);
        if (eight_bits) call.give("options.value_scales", pages.scales(), FOVEA_F16);
        call.options<fovea_schedule_limits>("limits").sequences = 2;
      });
    }
    const auto packed_keys = [](OperandCall &call) {
      call.give("query", {kTokens, 4, 6});
      call.give("key", {kTokens, 2, 6});
      call.give("value", {kTokens, 2, 8});
      call.give("out", {kTokens, 4, 8});
      call.options<fovea_schedule_limits>("limits").sequences = 2;
    };
    for (Setup &setup : scored("score", packed_keys)) all.push_back(std::move(setup));
    return all;
  }
  if (function == "fovea_schedule_set") {
    const auto in_pages = [](OperandCall &call, bool starts) {
      call.argument("schedule").pointer = schedule(call, {}, false);
      const auto give = [&](const char *path, const Shape &shape, const std::vector<int32_t> &numbers) {
        call.give(path, shape, FOVEA_I32);
        std::copy(numbers.begin(), numbers.end(), static_cast<int32_t *>(call.slot(path).tensor.data));
      };
      give("step.query_starts", {3}, {0, 1, 2});
      give("step.key_lens", {2}, {1, 1});
      give("step.page_ids", starts ? Shape{2} : Shape{2, 1}, {2, 0});
      if (starts) give("step.page_starts", {3}, {0, 1, 2});
      call.give(call.slot("step.tree"), {2}, FOVEA_I64, 0);
    };
    const auto packed_keys = [](OperandCall &call) {
      call.argument("schedule").pointer = packed_schedule(call);
      for (const char *path : {"step.query_starts", "step.key_starts"}) call.give(call.slot(path), {3}, FOVEA_I32, 0);
    };
    return {[=](OperandCall &call) { in_pages(call, false); }, [=](OperandCall &call) { in_pages(call, true); },
            packed_keys};
  }
  if (function == "fovea_kv_pool_step") {
    return {[](OperandCall &call) {
      const fovea_kv_pool_sizes sizes = {sizeof sizes, 1, 1, 2, 2, 8, 4, 2, FOVEA_F32, FOVEA_F32, 0};
      fovea_kv_pool *pool = nullptr;
      int64_t sequence = -1;
      REQUIRE(fovea_kv_pool_create(&sizes, &pool) == FOVEA_OK);
      call.argument("pool").pointer = keep<fovea_kv_pool, fovea_kv_pool_destroy>(call, pool);
      REQUIRE(fovea_kv_pool_open(pool, &sequence) == FOVEA_OK);
      call.give(call.slot("sequences"), {1}, FOVEA_I64, sequence);
      call.give(call.slot("tokens"), {1}, FOVEA_I64, 1);
      static fovea_step step;
      call.argument("step").pointer = &step;
      call.before = [=] { static_cast<void>(fovea_kv_pool_truncate(pool, sequence, 0)); };
    }};
  }
  if (function == "fovea_quantize" || function == "fovea_dequantize") {
    const bool packs = function == "fovea_quantize";
    const auto rows = [=](fovea_dtype dtype, int64_t features, int64_t numbers, int64_t scales) {
      return [=](OperandCall &call) {
        call.give(packs ? "x" : "q", {2, 3, packs ? features : numbers}, packs ? FOVEA_F32 : dtype);
        call.give("out", {2, 3, packs ? numbers : features}, packs ? dtype : FOVEA_F32);
        call.give("scales", {2, 3, scales}, FOVEA_F16);
      };
    };
    return {rows(FOVEA_I8, 8, 8, 1), rows(FOVEA_U8, 32, 16, 2)};
  }
  return {[](OperandCall &call) {
    for (Slot &slot : call.slots()) {
      if (slot.way.size() == 1) call.give(slot, {2, 3, 8});
    }
  }};
}

}  // namespace

std::vector<std::unique_ptr<OperandCall>> good_calls(const TableFunction &function) {
  std::vector<std::unique_ptr<OperandCall>> calls;
  for (const Setup &setup : setups_of(function.name)) {
    auto call = std::make_unique<OperandCall>(function);
    setup(*call);
    if (call->run() != FOVEA_OK) continue;  // a score function that prepared keys do not take
    call->complete(calls.size());
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace testing
