// What a good call of each function needs. A function that takes one shape for all its arguments needs no line here.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "operand_call.hpp"

namespace testing {
namespace {

using Setup = std::function<void(OperandCall &)>;

const Shape kQuery = {2, 4, 3, 6}, kKey = {2, 2, 5, 6}, kValue = {2, 2, 5, 8}, kOut = {2, 4, 3, 8};
constexpr int32_t kKinds[] = {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT,
                              FOVEA_SCORE_GAUSSIAN};

template <typename Handle, void (*destroy)(Handle *)>
Handle *keep(OperandCall &call, Handle *handle) {
  call.kept.emplace_back(handle, [](void *made) { destroy(static_cast<Handle *>(made)); });
  return handle;
}

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

fovea_prepared_keys *prepared_keys(OperandCall &call) {
  const Tensor<float> weight({6, 6}), key(kKey);
  const fovea_tensor w = weight.view(), k = key.view();
  for (const Tensor<float> *tensor : {&weight, &key}) std::fill_n(tensor->data(), tensor->count(), 0.25f);
  fovea_score score{};
  score.struct_size = sizeof score;
  score.kind = FOVEA_SCORE_BILINEAR;
  score.weight = &w;
  const fovea_prepared_keys_sizes sizes = {sizeof sizes, 2, 2, 64, 6, 6, FOVEA_F32, 0};
  fovea_prepared_keys *keys = nullptr;
  REQUIRE(fovea_prepared_keys_create(nullptr, &score, &sizes, &keys) == FOVEA_OK);
  REQUIRE(fovea_prepared_keys_append(nullptr, keys, &k) == FOVEA_OK);
  return keep<fovea_prepared_keys, fovea_prepared_keys_destroy>(call, keys);
}

fovea_kv_cache *cache(OperandCall &call) {
  const Tensor<float> key(kKey), value(kValue);
  for (const Tensor<float> *tensor : {&key, &value}) std::fill_n(tensor->data(), tensor->count(), 0.25f);
  const fovea_tensor k = key.view(), v = value.view();
  const fovea_kv_cache_sizes sizes = {sizeof sizes, 2, 2, 64, 6, 8, FOVEA_F32, 0};
  fovea_kv_cache *made = nullptr;
  REQUIRE(fovea_kv_cache_create(&sizes, &made) == FOVEA_OK);
  REQUIRE(fovea_kv_cache_append(nullptr, made, &k, &v) == FOVEA_OK);
  return keep<fovea_kv_cache, fovea_kv_cache_destroy>(call, made);
}

fovea_packed_matrix *packed(OperandCall &call) {  // [5,8]
  const Tensor<float> b({5, 8});
  std::fill_n(b.data(), b.count(), 0.25f);
  const fovea_tensor view = b.view();
  fovea_packed_matrix *made = nullptr;
  REQUIRE(fovea_matmul_pack(nullptr, &view, nullptr, &made) == FOVEA_OK);
  return keep<fovea_packed_matrix, fovea_packed_matrix_destroy>(call, made);
}

// Four heads of six features, of two key/value heads; inputs of 10, outputs of 10.
fovea_mha_weights *mha_weights(OperandCall &call) {
  const Tensor<float> query({24, 10}), key({12, 10}), out({10, 24});
  for (const Tensor<float> *tensor : {&query, &key, &out}) std::fill_n(tensor->data(), tensor->count(), 0.1f);
  const fovea_tensor q = query.view(), k = key.view(), o = out.view();
  fovea_mha_parameters parameters{};
  parameters.struct_size = sizeof parameters;
  parameters.heads = 4;
  parameters.kv_heads = 2;
  parameters.query_weight = &q;
  parameters.key_weight = parameters.value_weight = &k;
  parameters.out_weight = &o;
  fovea_mha_weights *made = nullptr;
  REQUIRE(fovea_mha_weights_create(nullptr, &parameters, &made) == FOVEA_OK);
  return keep<fovea_mha_weights, fovea_mha_weights_destroy>(call, made);
}

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

// What rotary takes together only: cosines and sines, and sections beside positions of as many; of three rows of `pairs`.
void give_rotary(OperandCall &call, const std::string &path, int64_t pairs) {
  call.give(path + ".cosines", {16, pairs});
  call.give(path + ".sines", {16, pairs});
  call.give(path + ".sections", {pairs}, FOVEA_I32);
  call.give(path + ".positions", {2, 3}, FOVEA_I32);
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
  const auto attend_cache = [](OperandCall &call) {
    call.give("query", kQuery);
    call.give("out", kOut);
    call.argument("cache").pointer = cache(call);
    call.sizes.insert(kKey[2]);
  };
  const auto once = [](OperandCall &call) {
    give_sequences(call);
    give_parameters(call, false);
  };
  if (function == "fovea_sdpa" || function == "fovea_sdpa_plan_create") return {heads};
  if (function == "fovea_attention" || function == "fovea_attention_plan_create") return scored("score", heads);
  if (function == "fovea_attention_prepared" || function == "fovea_attention_prepared_plan_create") return {prepared};
  if (function == "fovea_kv_cache_attend") return scored("score", attend_cache);
  if (function == "fovea_matmul" || function == "fovea_gemm") return {product};
  if (function == "fovea_matmul_pack") return {[](OperandCall &call) { call.give("b", {5, 8}); }};
  if (function == "fovea_linear_pack") return {[](OperandCall &call) { call.give("weight", {5, 8}); }};
  if (function == "fovea_alibi_slopes") return {[](OperandCall &call) { call.give("out", {4}); }};
  if (function == "fovea_positional_encoding") return {[](OperandCall &call) { call.give("out", {3, 8}); }};
  if (function == "fovea_multi_head_attention") {
    const auto packed_once = [](OperandCall &call) {
      give_sequences(call);
      call.argument("weights").pointer = mha_weights(call);
    };
    std::vector<Setup> all = scored("options.score", packed_once);
    all.emplace_back([=](OperandCall &call) {
      packed_once(call);
      give_rotary(call, "options.rotary", 3);
    });
    return all;
  }
  if (function == "fovea_multi_head_attention_once") {
    std::vector<Setup> all = scored("options.score", once);
    all.emplace_back([](OperandCall &call) {
      give_sequences(call);
      give_parameters(call, true);
    });
    all.emplace_back([=](OperandCall &call) {
      once(call);
      give_rotary(call, "options.rotary", 3);
    });
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
  if (function == "fovea_kv_cache_append") {
    return {[](OperandCall &call) {
      call.give("key", kKey);
      call.give("value", kValue);
      fovea_kv_cache *held = cache(call);
      call.argument("cache").pointer = held;
      call.before = [=] { static_cast<void>(fovea_kv_cache_truncate(held, 0)); };
    }};
  }
  if (function == "fovea_kv_cache_reorder") {
    return {[](OperandCall &call) {
      call.give("source", {2}, FOVEA_I32);
      call.argument("cache").pointer = cache(call);
    }};
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
